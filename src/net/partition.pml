// SPDX-License-Identifier: Apache-2.0
// partition.pml - model of a group of workers for Spin: they never wait for each other for ever.
//
// Three workers run the layers of one global order (partition.h), forward and backward, STEPS times. Of the
// layers just the ends of three bridges matter. Which workers they join, where in the order they stand (a
// source before its destination) and whether gradients come back is chosen at the start, in every way. The
// channels are those of comm/channel_memory.c: one buffer and two counters. Each message carries its step and
// life, and who receives it compares.
//
// One worker may die at any operation. The parent then gives the group up, waits until the others have ended,
// empties the channels and begins again. Limits of waits are left out: with them a deadlock would be a delay.
//
// mutants: 1 2 3 4 5 6
//   1  backward goes through the order forwards
//   2  one worker has an order of its own
//   3  the writer does not wait until the buffer is free
//   4  the channels are not emptied before a group begins again
//   5  waits do not end when the group is given up
//   6  the reader lets go of a message before it looks at it
#ifndef MUTANT
#define MUTANT 0
#endif
#define W 3
#define B 3
#define N 6                             // ends of bridges
#define STEPS 2

byte at[N];                             // what stands at this place: 2 * bridge, + 1 for its destination
byte from[B], to[B];
bool gradients;

byte sent[2 * B], freed[2 * B], content[2 * B];         // channels: 2 * bridge, + 1 for the one back
bool given_up, died;
byte life = 1, running;
bool go[W];

#define message(step) (life * 8 + (step))
#if MUTANT == 5
#define gone false
#else
#define gone given_up
#endif

// A worker that dies is seen to be gone by the parent alone.
inline maybe_die() {
    if
    :: !died -> died = true; running--; goto over
    :: true
    fi
}

// What is local, or not looked at before the counter says so, is one step with what stands before it.
inline put(c) {
    atomic {
        maybe_die();
        if
#if MUTANT == 3
        :: true
#else
        :: sent[c] == freed[c]
#endif
        :: gone -> goto given
        fi;
        content[c] = message(step);
        sent[c]++;
        k++;
        find_next()
    }
}

inline get(c) {
    atomic {
        maybe_die();
        if
        :: sent[c] > freed[c]
        :: gone -> goto given
        fi;
#if MUTANT == 6
        freed[c]++
#endif
    }
    atomic {
        assert(content[c] == message(step) || (gone && MUTANT == 6));
#if MUTANT != 6
        freed[c]++;
#endif
        k++;
        find_next()
    }
}

// Place k of a step: forward through the order, then back.
#if MUTANT == 1
#define end_at(k) (k < N -> at[k] : at[k - N])
#else
#define end_at(k) (k < N -> at[k] : at[2 * N - 1 - k])
#endif
#define mine(e) ((e % 2 == 0 && from[e / 2] == me) || (e % 2 == 1 && to[e / 2] == me))
#define places (gradients -> 2 * N : N)
#if MUTANT == 2
#define end_for_me(k) (me == 2 && k < N -> at[N - 1 - k] : end_at(k))
#else
#define end_for_me(k) end_at(k)
#endif

// The next place where an end of this worker stands.
inline find_next() {
    do
    :: k < places ->
        e = end_for_me(k);
        if
        :: mine(e) -> break
        :: else -> k++
        fi
    :: else ->
        if
        :: step + 1 < STEPS -> step++; k = 0
        :: else -> step = STEPS; break
        fi
    od
}

proctype worker(byte me) {
    byte step, k, e;
end_again:
    atomic { go[me]; go[me] = false; step = 0; k = 0; find_next() };
    do
    :: step == STEPS -> break
    :: step < STEPS && (e % 2 == 0) == (k < N) -> put(2 * (e / 2) + (k >= N))
    :: step < STEPS && (e % 2 == 0) != (k < N) -> get(2 * (e / 2) + (k >= N))
    od;
given:
    atomic { running-- };
over:
    atomic { step = 0; k = 0; e = 0 };
    goto end_again
}

inline start() {
    atomic { running = W; go[0] = true; go[1] = true; go[2] = true }
}

init {
    byte i, n;
    atomic { // bridge 0 leads from worker 0 to 1: other pairs are this one with other names
        from[0] = 0; to[0] = 1;
        i = 1;
        do
        :: i < B ->
            if :: from[i] = 0 :: from[i] = 1 :: from[i] = 2 fi;
            if :: to[i] = (from[i] + 1) % W :: to[i] = (from[i] + 2) % W fi;
            i++
        :: i == B -> break
        od;
        if :: gradients = true :: gradients = false fi;
        // n: bits 2b and 2b + 1 say that the ends of bridge b have their places. Sources stand in the order
        // of their numbers: that is a name, too
        i = 0;
        do
        :: i < N ->
            if
            :: !(n & 1) -> at[i] = 0; n = n | 1
            :: (n & 1) && !(n & 2) -> at[i] = 1; n = n | 2
            :: (n & 1) && !(n & 4) -> at[i] = 2; n = n | 4
            :: (n & 4) && !(n & 8) -> at[i] = 3; n = n | 8
            :: (n & 4) && !(n & 16) -> at[i] = 4; n = n | 16
            :: (n & 16) && !(n & 32) -> at[i] = 5; n = n | 32
            fi;
            i++
        :: i == N -> break
        od;
        i = 0; n = 0;
        run worker(0); run worker(1); run worker(2)
    };
    start();
    do
    :: running == 0 && !(died && life == 1) -> break
    :: died && life == 1 ->
        given_up = true;
        running == 0;
        atomic {
#if MUTANT != 4
            i = 0;
            do
            :: i < 2 * B -> sent[i] = 0; freed[i] = 0; i++
            :: i == 2 * B -> i = 0; break
            od;
#endif
            given_up = false;
            life = 2
        };
        start()
    od
}
