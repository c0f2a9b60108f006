// SPDX-License-Identifier: Apache-2.0
// mutants: 1 2 3 4
//
// core_copy.pml - Spin model of the core's two copies (core.c, shared.c): an event is made in the spare one,
// which is brought up to date first by copying the rows that were noted, while processes die anywhere inside.
//
// A core is a version and ROWS rows. An event adds one to the version and to one or two rows, which it notes
// before. What is true of the good copy, whatever died when: each row is the sum of the committed events on
// it. The lock is robust, so there is one process inside at a time: the model is one process that is, at any
// step, killed and begins again, as the next holder of the lock would.
//
// Mutants, each must be caught: 1 only the rows that good notes are copied, 2 only those that the spare
// notes, 3 a row is noted after it was changed, 4 the head is copied before the rows.
#ifndef MUTANT
#define MUTANT 0
#endif

#define ROWS 3
#define EVENTS 4
#define DEATHS 2
#define BIT(i) (1 << (i))

typedef core {
    byte version;
    byte noted;         // rows, as bits: mu_core.n_touched and the list
    byte row[ROWS];
};
core c[2];
byte good;              // which of the two
byte sum[ROWS], committed, deaths = DEATHS;

#define SPARE (1 - good)
// Instead of the next step the process may be killed: the next one takes the lock.
#define OR_DIES :: atomic { deaths > 0 -> deaths--; goto next }

inline copy_row(i, from) {
    if
    :: from & BIT(i) -> c[SPARE].row[i] = c[good].row[i]
    :: else
    fi
}

active proctype Holder() {
    byte a, b, i, list;
next:
    i = 0;
    if
    :: committed == EVENTS -> goto over
    :: else
    fi;
    if
    :: MUTANT == 4 -> c[SPARE].version = c[good].version; c[SPARE].noted = 0
    :: else
    fi;
    do                  // catch up: rows, then the head
    :: i < ROWS ->
        if
        :: d_step {
            list = (MUTANT == 2 -> 0 : c[good].noted) | (MUTANT == 1 -> 0 : c[SPARE].noted);
            copy_row(i, list); i++ }
        OR_DIES
        fi
    :: else -> break
    od;
    if
    :: c[SPARE].version = c[good].version
    OR_DIES
    fi;
    if
    :: c[SPARE].noted = 0
    OR_DIES
    fi;
    atomic { select(a : 0 .. 2); select(b : 0 .. 2) }
    if                  // the event: note, change; perhaps a second row
    :: MUTANT != 3 -> c[SPARE].noted = c[SPARE].noted | BIT(a)
    :: MUTANT == 3
    OR_DIES
    fi;
    if
    :: c[SPARE].row[a]++
    OR_DIES
    fi;
    if
    :: a != b ->
        if
        :: c[SPARE].noted = c[SPARE].noted | BIT(b)
        OR_DIES
        fi;
        if
        :: c[SPARE].row[b]++
        OR_DIES
        fi
    :: else
    fi;
    if
    :: MUTANT == 3 -> c[SPARE].noted = c[SPARE].noted | BIT(a)
    :: MUTANT != 3
    OR_DIES
    fi;
    if
    :: c[SPARE].version++
    OR_DIES
    fi;
    if                  // decline: nothing is switched, as after mu_shared_cancel
    :: deaths > 0 -> deaths--; goto next
    :: d_step {
        good = SPARE; committed++; sum[a]++;
        if
        :: a != b -> sum[b]++
        :: else
        fi;
        assert(c[good].version == committed);
        assert(c[good].row[0] == sum[0] && c[good].row[1] == sum[1] && c[good].row[2] == sum[2]) }
    fi;
    if                  // retire
    :: c[SPARE].noted = 0
    OR_DIES
    fi;
    goto next;
over:
    skip
}
