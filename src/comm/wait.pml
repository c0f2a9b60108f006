// SPDX-License-Identifier: Apache-2.0
// wait.pml - model of the bell in wait.c for Spin: no ring is lost, whichever process dies or is interrupted when.
//
// Two waiters each need ITEMS things; two ringers provide them and ring the one bell both waiters use. One
// waiter may be killed at any moment (its entry in `sleepers` stays), and one sleep may be interrupted by a
// signal. There are no time-outs here: with them a lost ring is a delay, without them it is a deadlock, and
// Spin reports every deadlock as an invalid end state. Spinning before the sleep only repeats the comparison
// that precedes it, so the model makes it once.
//
// Each line that touches shared memory is one step, in program order: the seq_cst operations of wait.c
// allow no other order, and mutant 3 is what weaker ones would allow on x86 (the load passes the store).
// FUTEX_WAIT is one step because the kernel compares and queues under the lock that FUTEX_WAKE takes.
//
// Checked besides: every sleeper is counted in `sleepers`. Locals that have served are zeroed: fewer states.
//
// mutants: 1 2 3 4 5 6 7
//   1  the kernel does not compare before it queues
//   2  the waiter counts itself only after queueing could have happened
//   3  the ringer looks for sleepers before the news is visible
//   4  the ringer rings first and provides afterwards
//   5  the waiter looks for its thing before it reads the bell
//   6  a ring wakes one sleeper, not all
//   7  the news is a single bit, so two rings look like none
#ifndef MUTANT
#define MUTANT 0
#endif
#define ITEMS 2

byte news, sleepers;                    // the bell
byte given[2];                       // what the bell is about
bool asleep[2];                         // the kernel's queue
bool counted[2];                        // ghost: this waiter's entry in sleepers
bool killed[2];

inline bump() {
#if MUTANT == 7
    news = 1 - news
#else
    news++
#endif
}

inline futex_wake() {
#if MUTANT == 6
    atomic {
        if
        :: asleep[0] -> asleep[0] = false
        :: asleep[1] -> asleep[1] = false
        :: else
        fi
    }
#else
    atomic { asleep[0] = false; asleep[1] = false }
#endif
}

inline futex_wait(me, seen) {
#if MUTANT == 1
    asleep[me] = true;
#else
    atomic {
        if
        :: news == seen -> assert(counted[me]); asleep[me] = true
        :: else
        fi
    }
#endif
}

inline bell_wait(me, seen) {
    if
    :: news == seen ->
#if MUTANT == 2
        futex_wait(me, seen);
        atomic { sleepers++; counted[me] = true }
#else
        atomic { sleepers++; counted[me] = true }
        futex_wait(me, seen);
#endif
        !asleep[me];
        atomic { sleepers--; counted[me] = false }
    :: else
    fi;
    seen = 0
}

proctype waiter(byte me) {
    byte seen, got;
    {
        do
        :: got == ITEMS -> break
        :: else ->
#if MUTANT == 5
            if
            :: given[me] > got -> got++
            :: else -> seen = news; bell_wait(me, seen)
            fi
#else
            seen = news;
            if
            :: given[me] > got -> atomic { seen = 0; got++ }
            :: else -> bell_wait(me, seen)
            fi
#endif
        od
    } unless {
        atomic { killed[me] -> asleep[me] = false }
    }
}

proctype ringer(byte whom) {
    byte n, found;
    do
    :: n == ITEMS -> break
    :: else ->
#if MUTANT == 3
        given[whom]++;
        found = sleepers;
        bump();
#elif MUTANT == 4
        bump();
        found = sleepers;
#else
        given[whom]++;
        bump();
        found = sleepers;
#endif
        if
        :: found > 0 -> futex_wake()
        :: else
        fi;
#if MUTANT == 4
        given[whom]++;
#endif
        atomic { found = 0; n++ }
    od
}

active proctype killer() {
    if                                  // the waiters are alike, so it is enough to kill this one
    :: killed[1] = true
    :: skip
    fi
}

active proctype interrupter() {
    if
    :: atomic { asleep[0] -> asleep[0] = false }
    :: atomic { asleep[1] -> asleep[1] = false }
    :: skip
    fi
}

init {
    atomic { run waiter(0); run waiter(1); run ringer(0); run ringer(1) }
}
