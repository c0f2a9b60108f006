// SPDX-License-Identifier: Apache-2.0
// lock.pml - model of the read-write lock in lock.c for Spin: no reader beside a writer, and no process
// sleeps for a flag that is down.
//
// One writer and two readers go through ROUNDS rounds; the second reader or the writer may be killed at any
// moment, and then its flag is cleared, as the parent of a run does. Waits have no time-outs here: a lost
// wake-up is a deadlock, which Spin reports. Spinning and the turns of readers only delay and are left out.
//
// Each step is one seq_cst operation on one word. `asleep` is the kernel's queue of a word: comparing and
// queueing are one step, as in the kernel.
//
// mutants: 1 2 3 4 5 6
//   1  a reader looks for the writer before it raises its flag (what a weaker order allows)
//   2  the writer looks for readers before it raises its flag
//   3  a flag is marked after the sleep began
//   4  lowering a flag never wakes
//   5  clearing a dead one's flag wakes only if it is up and marked: it may have died after lowering it
//   6  a reader that gives way leaves its flag up while it waits
#ifndef MUTANT
#define MUTANT 0
#endif
#define ROUNDS 2

#define DOWN 0
#define HELD 1
#define AWAITED 2
#define WRITER 2                        // flag[0], flag[1]: readers; flag[2]: the writer

byte flag[3];
bool asleep[3];                         // readers on flag[WRITER], the writer on the flag in slept_on
byte slept_on;
byte n_inside;                          // readers inside
bool writing, killed[3];

inline wake(f) {
    atomic {
        if
        :: f == WRITER -> asleep[0] = false; asleep[1] = false
        :: f != WRITER && slept_on == f -> asleep[WRITER] = false
        :: else
        fi
    }
}

inline lower(f, old) {
    atomic { old = flag[f]; flag[f] = DOWN };
#if MUTANT != 4
    if
    :: old == AWAITED -> wake(f)
    :: else
    fi;
#endif
    old = 0
}

inline clear(f, old) {                  // by the parent, after the death
#if MUTANT == 5
    lower(f, old)
#else
    flag[f] = DOWN;
    wake(f)
#endif
}

inline mark(f) {                        // compare and exchange
    atomic {
        if
        :: flag[f] == HELD -> flag[f] = AWAITED
        :: else
        fi
    }
}

inline futex_wait(me, f, value) {
    atomic {
        if
        :: flag[f] == value && me == WRITER -> slept_on = f; asleep[me] = true
        :: flag[f] == value && me != WRITER -> asleep[me] = true
        :: else
        fi
    }
}

inline wait_lowered(me, f) {
    do
    :: flag[f] == DOWN -> break
    :: else ->
#if MUTANT == 3
        futex_wait(me, f, HELD);
        mark(f);
#else
        mark(f);
        futex_wait(me, f, AWAITED);
#endif
        !asleep[me]
    od
}

proctype reader(byte me) {
    byte n, old;
    bool in, busy;
    {
        do
        :: n == ROUNDS -> break
        :: else ->
#if MUTANT == 1
            busy = flag[WRITER] != DOWN;
            flag[me] = HELD;
#else
            flag[me] = HELD;
            busy = flag[WRITER] != DOWN;
#endif
            if
            :: busy ->
#if MUTANT != 6
                lower(me, old);
#endif
                wait_lowered(me, WRITER)
            :: else ->
                atomic { in = true; n_inside++; assert(!writing) };
                atomic { in = false; n_inside-- };
                lower(me, old);
                n++
            fi
        od
    } unless {
        atomic { killed[me] -> asleep[me] = false; n_inside = n_inside - in; in = false };
        clear(me, old)
    }
}

active proctype writer() {
    byte n, old;
    {
        do
        :: n == ROUNDS -> break
        :: else ->
#if MUTANT == 2
            wait_lowered(WRITER, 0);
            wait_lowered(WRITER, 1);
            flag[WRITER] = HELD;
#else
            flag[WRITER] = HELD;
            wait_lowered(WRITER, 0);
            wait_lowered(WRITER, 1);
#endif
            atomic { writing = true; assert(n_inside == 0) };
            writing = false;
            lower(WRITER, old);
            n++
        od
    } unless {
        atomic { killed[WRITER] -> asleep[WRITER] = false; writing = false };
        clear(WRITER, old)
    }
}

active proctype killer() {
    if
    :: killed[1] = true
    :: killed[WRITER] = true
    :: skip
    fi
}

init {
    atomic { run reader(0); run reader(1) }
}
