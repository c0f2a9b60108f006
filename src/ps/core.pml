// SPDX-License-Identifier: Apache-2.0
// mutants: 1 2 3 4 5 6 7 8 9 10
// pan: -a
//
// core.pml - Spin model of one gradient's way through the parameter server: core.h's lease, ask, push, form,
// applied, lost and join, and the slices with their undo piece, while learners and executors die and return.
//
// What is one step here is one change of the core under the lock, which shared.c makes in a spare copy and
// switches over: a death inside leaves the state before it. What is written outside the lock (the gradient's
// slot; a slice, in two halves) is several steps, with a possible death between any two of them.
//
// mu_core_open only reads: a batch is open from its lease to the commit of its update, promised or in a slot.
// What a checkpoint calls finished is what has its bits in the weights.
//
// The number of batches is small and each carries its own bit, so "applied exactly once" is not counted but
// seen: a bit may be set once in each half of each slice. `hard` is chosen by Spin: one gradient of each
// learner makes an update, or any one does (async, refused beyond BOUND). So is `most`: without a bound, as many
// updates as gradients wait are formed together, a run; every slice gets them one after the other. `holds`: a
// learner with a gradient in the run begins only behind it (mu_core_ask), whatever else is on the way. By
// `pairs` one gradient alone waits for a second one, while any learner has work left (waits_for_pair). A
// learner may also hang: the watchdog replaces it, but its push is under way and arrives later (zombie). By
// `turns` one step is made by hardsync, and at the end of its update async takes over.
//
// Mutants, each must be caught: 1 no fence for old incarnations, 2 gradients are not taken out of the queue,
// 3 a restart forgets the lease, 4 commit before the last slice is done, 5 the repair puts back a piece that
// was already finished, 6 a lost learner is still taken for computing, 7 the undo piece is given up before
// the piece is marked as finished, 8 the second update of a run is dropped in one slice, 9 a batch of the step
// is handed out again behind the change, 10 one gradient waits for a second one though none is to come.
//
// No process polls here, so the claim needs no fairness: whatever is scheduled, every process comes to its
// end, with the last update committed. That covers deadlocks, which Spin does not look for beside a claim.
#ifndef MUTANT
#define MUTANT 0
#endif

#define N 2             // learners
#define SLOTS 2
#define SLICES 2
#define EXECUTORS 2
#define BOUND 1
#define ALL ((1 << batches) - 1)
#define NONE 15
#define BIT(b) (1 << (b))

typedef learner_row {   // mu_core_learner
    byte inc;
    bool computing;
    byte promise;       // the batch promised to it, NONE
    byte leased, accepted;
    byte queued;        // slots that wait or are being applied
    byte slot[SLOTS];   // the gradients themselves: which batch each holds
    bool gone;          // its process died or hangs, the watchdog has not seen it yet
};
learner_row row[N];

bool hard, turns, applying, ended, finished;
bool holds;                                     // who has a gradient in the run waits for it
bool pairs;                                     // one gradient waits for a second one
byte batches, executors, deaths;                // of the run Spin has chosen; deaths still to come, at most
byte most;                                      // updates formed together; with 1 the bound holds
byte running;                                   // processes not at their end
byte version, next_batch;
byte produced;                                  // less applied, rejected and lost: 0 at the end
chan fifo = [4] of { byte, byte, byte };        // N * SLOTS: learner, slot, batch

byte n_parts, part_learner[N], part_slot[N], part_batch[N];
byte claim[SLICES];                             // 0 free, else executor + 1
byte made[SLICES];                              // updates of the run that are finished in it
bool done[SLICES];                              // it is of the new version
byte half_a[SLICES], half_b[SLICES];            // the weights: bits of the batches in them
byte committed, refused;
bool valid[EXECUTORS], x_gone[EXECUTORS];       // undo piece holds something; executor died
byte held[EXECUTORS], was[EXECUTORS], before[EXECUTORS]; // slice, what it was, updates made in it then
#define UPDATES (hard -> 1 : n_parts)

#define NO_MORE(i)    (row[i].promise == NONE && \
                       (hard -> !turns && row[i].leased == batches / N : next_batch == batches))
#define MAY_BEGIN(i)  (!NO_MORE(i) && !row[i].computing && row[i].queued < SLOTS && \
                       !(holds && IN_RUN(i)) && \
                       !(hard && turns && row[i].accepted > 0) && \
                       (!hard || row[i].accepted == version || (applying && row[i].accepted == version + 1)))
#define IN_RUN(i)     (applying && ((n_parts > 0 && part_learner[0] == i) || (n_parts > 1 && part_learner[1] == i)))
#define CAN_FORM      (!applying && len(fifo) >= (hard -> N : 1) && !WAITS_FOR_PAIR)
// One gradient alone waits while a learner has work left, which brings the next one.
#define WORKS(i)      (row[i].computing || !NO_MORE(i))
#define WAITS_FOR_PAIR (pairs && len(fifo) == 1 && (MUTANT == 10 || WORKS(0) || WORKS(1)))
#define ALL_DONE      (done[0] && done[1])
#define TEST_END      if :: (committed | refused) == ALL -> ended = true :: else fi
#define ONE_DONE      (done[0] || done[1])

inline lease(i) {       // what was promised before; hardsync: as step and learner say; else the next batch
    if
    :: row[i].promise != NONE
    :: row[i].promise == NONE && hard -> row[i].promise = row[i].leased * N + i; row[i].leased++
    :: row[i].promise == NONE && !hard -> row[i].promise = next_batch; next_batch++
    fi
}

inline push(i, my_inc, my_version, slot_at, batch) {
    if
    :: my_inc != row[i].inc && MUTANT != 1             // fenced; counted as lost when it was lost
    :: else ->
        assert(my_inc == row[i].inc);
        assert(row[i].computing && row[i].promise == batch);
        row[i].computing = false;
        row[i].promise = NONE;
        if
        :: !hard && most == 1 && version - my_version > BOUND -> produced--; refused = refused | BIT(batch); TEST_END
        :: else ->
            row[i].accepted++;
            row[i].queued++;
            fifo!i, slot_at, batch
        fi
    fi
}

inline form() {
    do
    :: n_parts < (hard -> N : most) && len(fifo) > 0 ->
        if
        :: MUTANT != 2 -> fifo?part_learner[n_parts], part_slot[n_parts], part_batch[n_parts]
        :: else -> fifo?<part_learner[n_parts], part_slot[n_parts], part_batch[n_parts]>
        fi;
        n_parts++
    :: else -> break
    od;
    applying = true
}

inline commit() {
    byte q;
    q = 0;
    do
    :: q < n_parts ->
        committed = committed | BIT(part_batch[q]);
        produced--;
        row[part_learner[q]].queued--;
        row[part_learner[q]].slot[part_slot[q]] = 0;
        part_learner[q] = 0; part_slot[q] = 0; part_batch[q] = 0;
        q++
    :: else -> break
    od;
    assert(half_a[0] == committed && half_b[0] == committed);          // every slice, both halves, once
    assert(half_a[1] == committed && half_b[1] == committed);
    q = 0;
    version = version + UPDATES;
    n_parts = 0;
    if
    :: hard && turns -> hard = false; next_batch = (MUTANT == 9 -> N - 1 : N)
    :: else
    fi;
    done[0] = false; done[1] = false; made[0] = 0; made[1] = 0;
    claim[0] = 0; claim[1] = 0;
    applying = false;
    TEST_END
}

inline add_update(half, u) {    // by hardsync all gradients, else the one of update u
    byte k;
    k = (hard -> 0 : u);
    do
    :: k < (hard -> n_parts : u + 1) ->
        assert(row[part_learner[k]].slot[part_slot[k]] == part_batch[k]);       // it was not overwritten
        assert(!(half & BIT(part_batch[k])));                                // not a second time
        half = half | BIT(part_batch[k]);
        k++
    :: else -> break
    od;
    k = 0
}

// Instead of its next step an executor may die.
#define OR_X_DIES :: atomic { deaths > 0 -> deaths--; x_gone[e] = true; goto dead }

proctype Executor(byte e) {
    byte s;
turn:
    if
    :: d_step { CAN_FORM -> form() } goto turn
    :: atomic { applying && !done[0] && claim[0] == 0 -> s = 0; claim[0] = e + 1 }
    :: atomic { applying && !done[1] && claim[1] == 0 -> s = 1; claim[1] = e + 1 }
    :: d_step { applying && (MUTANT == 4 -> ONE_DONE : ALL_DONE) -> commit() } goto turn
    :: ended -> goto over
    fi;
next_update:
    if
    :: made[s] == UPDATES -> goto finished_slice        // also of an executor that died after the work
    :: MUTANT == 8 && made[s] == 1 && s == 1 -> goto finished_slice
    :: d_step { made[s] < UPDATES -> was[e] = half_a[s]; held[e] = s; before[e] = made[s]; valid[e] = true }
    OR_X_DIES
    fi;
    if
    :: d_step { add_update(half_a[s], made[s]) }
    OR_X_DIES
    fi;
    if
    :: d_step { add_update(half_b[s], made[s]) }
    OR_X_DIES
    fi;
    if
    :: atomic { MUTANT != 7 -> made[s]++ }
    :: atomic { MUTANT == 7 -> valid[e] = false }
    OR_X_DIES
    fi;
    if
    :: d_step { valid[e] = false; made[s] = before[e] + 1; held[e] = 0; was[e] = 0; before[e] = 0 }
    OR_X_DIES
    fi;
    goto next_update;
finished_slice:
    if
    :: d_step { done[s] = true; s = 0 }
    OR_X_DIES
    fi;
    goto turn;
dead:
    !x_gone[e] -> s = 0;        // repaired: a new process begins
    goto turn;
over:
    running--
}

// mu_server_repair: an executor may die between finishing a piece and giving up its undo, so the piece goes
// back only if it is not finished.
inline repair(e) {
    if
    :: valid[e] && (made[held[e]] == before[e] || MUTANT == 5) ->
        half_a[held[e]] = was[e]; half_b[held[e]] = was[e]
    :: else
    fi;
    valid[e] = false;
    if
    :: applying && claim[0] == e + 1 && !done[0] -> claim[0] = 0
    :: applying && claim[1] == e + 1 && !done[1] -> claim[1] = 0
    :: else
    fi;
    held[e] = 0; was[e] = 0; before[e] = 0;
    x_gone[e] = false
}

#define OR_L_DIES :: atomic { deaths > 0 -> deaths--; row[i].gone = true; goto over }

proctype Learner(byte i; byte my_inc) {
    byte my_version, at, batch;
next:
    if
    :: d_step { row[i].inc == my_inc && MAY_BEGIN(i) ->
                lease(i);
                row[i].computing = true; produced++;
                my_version = version; at = row[i].accepted % SLOTS; batch = row[i].promise }
    :: NO_MORE(i) && row[i].inc == my_inc -> goto over
    fi;
    if                  // computing
    :: row[i].slot[at] = batch
    OR_L_DIES
    fi;
    if                  // the slot is complete: hands it over, or dies, or hangs and its push comes late
    :: d_step { push(i, my_inc, my_version, at, batch) } goto again
    :: atomic { deaths > 0 -> deaths--; row[i].gone = true }
    OR_L_DIES
    fi;
    d_step { push(i, my_inc, my_version, at, batch) };
    goto over;
again:
    my_version = 0; at = 0; batch = 0; goto next;
over:
    running--
}

inline replace(i) {     // lost, then join
    if
    :: row[i].computing ->
        produced--;
        if
        :: MUTANT != 6 -> row[i].computing = false
        :: else
        fi
    :: else
    fi;
    if
    :: MUTANT == 3 -> row[i].promise = NONE
    :: else
    fi;
    row[i].inc++;
    row[i].gone = false
}

proctype Watchdog() {
    do
    :: atomic { row[0].gone -> replace(0); running++; run Learner(0, row[0].inc) }
    :: atomic { row[1].gone -> replace(1); running++; run Learner(1, row[1].inc) }
    :: d_step { x_gone[0] -> repair(0) }
    :: d_step { x_gone[1] -> repair(1) }
    :: running == 0 && !row[0].gone && !row[1].gone -> break
    od;
    assert((committed | refused) == ALL && (committed & refused) == 0);
    assert(half_a[0] == committed && half_b[0] == committed);
    assert(half_a[1] == committed && half_b[1] == committed);
    assert(len(fifo) == 0 && produced == 0);
    finished = true
}

init {
    atomic {
        if              // two deaths with one executor, one with two or with more batches
        :: hard = false; batches = 3; deaths = 1; executors = 1; most = 2; pairs = true
        :: hard = true; batches = 4; deaths = 1; executors = 2
        :: hard = true; batches = 4; deaths = 2; executors = 1
        :: hard = false; batches = 2; deaths = 2; executors = 1
        :: hard = false; batches = 3; deaths = 1; executors = 1
        :: hard = false; batches = 3; deaths = 1; executors = 1; most = 2
        :: hard = false; batches = 3; deaths = 1; executors = 1; most = 2; holds = true
        :: hard = true; turns = true; batches = 3; deaths = 1; executors = 1; most = 2
        fi;
        if
        :: most == 0 -> most = 1
        :: else
        fi;
        row[0].promise = NONE; row[1].promise = NONE;
        row[0].inc = 1; row[1].inc = 1;
        running = N + executors;
        run Watchdog();
        run Executor(0);
        if
        :: executors == 2 -> run Executor(1)
        :: else
        fi;
        run Learner(0, 1); run Learner(1, 1)
    }
}

ltl advances { <> finished }
