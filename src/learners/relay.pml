// SPDX-License-Identifier: Apache-2.0
// mutants: 1 2 3 4 5 6 7 8 9 10 11 12 13 14
//
// relay.pml - Spin model of ranks that train one copy of the weights (relay.h, root.h, deal.h): samples that are
// dealt, steps of groups, grants, places, weights that come back, stops and leaves, while a learner dies and
// returns, or a rank dies.
//
// Two ranks have a group of one learner each; the root is in the process of the first one, as it is there.
// Frames keep their order. What a frame of a gradient holds is read when it departs: until then its slot is
// lent. One step here is what a process does that no other one sees happen: an event of a core under its lock,
// which another process may delay, a frame that is taken, or all that the root does at once. Samples are few
// batches, each with its own bit in the weights: so that each is in one update, and whole, is seen and not
// counted. Weights are the number of their version.
//
// Spin chooses: hardsync (an update takes a gradient of each group that has not gone) or async (any one); adv
// (weights come with the grant) or, with async, adv* (a group goes on with those that the tree has brought);
// whether the root makes no update for a while (hold); whether and when the training is stopped; and one
// death: of a learner, which is replaced and computes its gradient again (or it hangs, and what it computed
// comes late), or of a rank. That a rank is dead the other sees by a time-out, which may come at any moment
// from then on; it ends.
//
// Mutants, each must be caught: 1 a grant is given before the place is free, 2 a gradient that is complete twice
// is taken twice, 3 weights are installed while learners compute, 4 a group that leaves does not say so, 5 a
// group is not told that there is nothing more, 6 a slot is written again while it is lent, 7 a step that
// nobody begins any more is waited for at the end, 8 a group that leaves takes its last gradient with it, 9
// groups in step end before the step that some have begun, 10 who waits does not look for dead ranks, 11 a
// gradient is said to be complete before its step is formed, 12 what an old process computed is taken beside the
// new one's, 13 a batch is dealt twice, 14 learners do not halt where nothing is dealt.
//
// A state without a way on is a wait without limit, which Spin looks for: all processes come to their end.
#ifndef MUTANT
#define MUTANT 0
#endif

#define MOST 4                                  // batches
#define AHEAD(g) (1 + 2 * g)                    // steps dealt and not done, at most: so the second makes three
#define BIT(k) (1 << (k))
#define NONE 15

mtype = { LEASE, GRANT, WEIGHTS, LAST, TREE, STOP, END, COMPLETE, LEAVE, ASK };
chan up = [4] of { mtype, byte, byte };         // COMPLETE: step, what the slot held. ASK: the version it has
chan down = [10] of { mtype, byte };            // LEASE: batch. GRANT, WEIGHTS, TREE: version. STOP: step

bool hard, star;                                // of the run Spin has chosen
byte batches;
bool hold, may_stop, may_lose, lost;            // a rank may die; one has
byte deaths;                                    // of learners, still to come at most

typedef group_state {                           // mu_relay_group, and what its learner shares with it
    byte known, batch[MOST];                    // mu_deal: steps; their samples
    byte may, halt, limit;                      // as its relay knows; as its core; steps it makes at most
    byte pushed, formed, given;                 // steps: its learner is done with; nobody reads for; may begin
    bool computing, late;                       // between GO and push; an old push comes
    byte seen, weights;                         // 1 + the version its learner reads, 0 = it does not; the version
    byte slot[2];                               // which batch's gradient is in it
    byte step, granted, lent;                   // lent: 1 + the step
    bool begun, complete, told, last, left, stops;
    byte ends, coming;                          // 0 = at once; 1 + the version that comes, 0 = none does
    bool over;                                  // its rank has ended
};
group_state s[2];
byte tree;                                      // adv*: version that the second rank was brought

typedef root_state {                            // mu_root_group
    byte granted, next, dealt;
    byte waits;                                 // gradients in the core, as bits
    byte place[2];                              // what is in it; NONE = it is free
    bool left, gone, ended;
};
root_state r[2];
byte version, free_batch, applied, stop_at, wanted;     // wanted: 1 + the version the second rank has

#define DEAD (lost && MUTANT != 10)

// ---- a learner ----

#define MAY_BEGIN(g) (s[g].pushed < s[g].limit && s[g].pushed == s[g].formed && s[g].pushed < s[g].halt)

proctype Learner(byte g) {
next:
    if
    :: s[g].over || s[g].pushed == s[g].limit -> goto ended
    :: atomic { !s[g].over && MAY_BEGIN(g) -> s[g].computing = true; assert(s[g].known > s[g].pushed) }
    fi;
    if
    :: atomic { s[g].given > s[g].pushed ->
        s[g].seen = 1 + s[g].weights;
        s[g].slot[s[g].pushed % 2] = s[g].batch[s[g].pushed] }
    :: s[g].over -> goto ended
    :: atomic { deaths > 0 -> deaths--; goto dead }
    fi;
    if
    :: d_step { true ->
        assert(s[g].seen == 1 + s[g].weights);  // they were not overwritten
        assert(!hard || s[g].weights == s[g].pushed);
        s[g].seen = 0; s[g].computing = false; s[g].pushed++ }
    :: atomic { deaths > 0 -> deaths--; goto dead }
    :: atomic { deaths > 0 -> deaths--; s[g].late = true; goto dead }
    fi;
    goto next;
dead:
    atomic { s[g].seen = 0; s[g].computing = false }    // its core has seen it; a new process begins
    goto next;
ended:
    skip
}

// ---- a rank's group, g ----

#define ENDS(g)       (s[g].last -> s[g].granted : (s[g].stops && s[g].ends > 0 -> s[g].ends : NONE))
#define MAY(g)        (s[g].known < ENDS(g) -> s[g].known : ENDS(g))
#define TAKES_PART(g) (s[g].pushed > s[g].step || s[g].pushed < s[g].limit)
#define TELLS(g)      ((s[g].stops || s[g].last) && !s[g].told && \
                       (ENDS(g) == NONE || (s[g].may <= ENDS(g) && !s[g].begun && s[g].step >= ENDS(g))))
#define BEGINS(g)     (!s[g].begun && !s[g].left && \
                       (s[g].told || (s[g].step < ENDS(g) && s[g].known > s[g].step)))
#define READY(g)      (s[g].granted > s[g].step + 1 && s[g].coming == 0)
#define GIVES(g)      (s[g].begun && s[g].given == s[g].step + 1 && (READY(g) || s[g].last || star) && \
                       (s[g].formed > s[g].step || MUTANT == 3))

inline give(g) {
    a = (g == 0 -> version : (star -> tree : 0));
    if
    :: a > s[g].weights -> assert(s[g].seen == 0); s[g].weights = a
    :: else
    fi;
    s[g].given++; a = 0
}

// What a look does before it forms: one step, whose order is that of the code.
#define FOLLOWS(g)    (s[g].may != MAY(g))
#define GIVES_UP(g)   (s[g].begun && s[g].told && s[g].formed == s[g].step && !TAKES_PART(g) && MUTANT != 7)
#define STARTS(g)     (BEGINS(g) && TAKES_PART(g))
#define LOOKS(g)      (TELLS(g) || FOLLOWS(g) || GIVES_UP(g) || STARTS(g))

inline look(g) {
    do
    :: TELLS(g) -> s[g].told = true; s[g].halt = NONE;
        s[g].limit = s[g].pushed + s[g].computing       // a step that is begun is finished
    :: !TELLS(g) && FOLLOWS(g) -> s[g].may = MAY(g); s[g].halt = (MUTANT == 14 -> NONE : s[g].may)
    :: !TELLS(g) && !FOLLOWS(g) && GIVES_UP(g) -> s[g].begun = false
    :: !TELLS(g) && !FOLLOWS(g) && !GIVES_UP(g) && STARTS(g) -> s[g].begun = true; s[g].complete = false
    :: else -> break
    od;
    a = 0
}

#define FORMS(g)      (s[g].begun && s[g].formed == s[g].step && s[g].pushed > s[g].step && s[g].may <= ENDS(g))
#define COMPLETES(g)  (s[g].begun && !s[g].complete && s[g].granted > s[g].step && s[g].pushed > s[g].step && \
                       (s[g].formed > s[g].step || MUTANT == 11))
#define COMMITS(g)    (s[g].begun && s[g].formed > s[g].step && s[g].given > s[g].step + 1 && s[g].complete && \
                       (s[g].lent == 0 || MUTANT == 6))
#define LEAVES(g)     (BEGINS(g) && !TAKES_PART(g))

// The branches that both ranks have, the first that may be. What is between two of them others may see.
#define GROUP(g) \
    :: d_step { LOOKS(g) -> look(g) } \
    :: d_step { !LOOKS(g) && !COMPLETES(g) && FORMS(g) -> s[g].formed++ } \
    :: d_step { !LOOKS(g) && !FORMS(g) && !COMPLETES(g) && GIVES(g) -> give(g) } \
    :: d_step { !LOOKS(g) && !GIVES(g) && COMMITS(g) -> s[g].step++; s[g].begun = false; look(g) } \
    :: d_step { s[g].late -> s[g].late = false;         /* it is fenced */ \
        if \
        :: MUTANT == 12 && s[g].computing -> s[g].computing = false; s[g].seen = 0; s[g].pushed++ \
        :: else \
        fi }

// ---- the second rank ----

inline take_down() {
    down?what, a;
    if
    :: what == LEASE -> s[1].batch[s[1].known] = a; s[1].known++
    :: what == GRANT -> s[1].granted++; s[1].coming = (a > s[1].weights -> 1 + a : 0)
    :: what == WEIGHTS ->
        assert(s[1].coming == 1 + a && s[1].formed > s[1].step && s[1].seen == 0);      // written where they are read
        s[1].weights = a; s[1].coming = 0
    :: what == LAST -> s[1].last = true
    :: what == TREE -> assert(a > tree); tree = a;
        if
        :: !s[1].left -> up!ASK, tree, 0
        :: else
        fi
    :: what == STOP -> s[1].stops = true; s[1].ends = a
    fi;
    a = 0
}

proctype Second() {
    byte a;
    bool again;
    mtype what;
    if
    :: star -> up!ASK, 0, 0
    :: else
    fi;
    do
    GROUP(1)
    :: d_step { LEAVES(1) -> s[1].left = true;
        if
        :: MUTANT != 4 -> up!LEAVE, 0, 0
        :: else
        fi }
    :: d_step { COMPLETES(1) && s[1].lent == 0 -> s[1].complete = true; s[1].lent = 1 + s[1].step }
    :: d_step { s[1].lent > 0 -> a = s[1].lent - 1;     // it departs
        up!COMPLETE, a, s[1].slot[a % 2];
        if
        :: MUTANT == 2 && !again -> again = true
        :: else -> s[1].lent = 0; again = false
        fi;
        a = 0 }
    :: d_step { nempty(down) && !down?[END, _] -> take_down(); look(1) }
    :: d_step { down?[END, _] -> down?what, a; a = 0;
        assert(s[1].left && (!hard || s[1].step == s[0].step)) } break
    :: DEAD -> break
    :: atomic { may_lose && !lost -> may_lose = false; lost = true; break }
    od;
    atomic { s[1].over = true; a = 0 }
}

// ---- the root ----

#define PLACE(g, k)   r[g].place[(k) % 2]
#define WHOLE(g)      (r[g].next < r[g].granted && PLACE(g, r[g].next) != NONE && !r[g].gone)
#define HAS(g)        (r[g].waits & BIT(version))

inline put(g, k, what_batch) {
    assert(k < r[g].granted && (MUTANT == 2 || (k == r[g].next && PLACE(g, k) == NONE)));       // it is due
    PLACE(g, k) = what_batch;
    if
    :: k < r[g].next -> r[g].waits = r[g].waits | BIT(k)
    :: else
    fi
}

inline apply(g, k) {
    assert(PLACE(g, k) == s[g].batch[k]);       // it holds what it says
    assert(!(applied & BIT(PLACE(g, k))));      // not a second time
    applied = applied | BIT(PLACE(g, k));
    r[g].waits = r[g].waits & ~BIT(k);
    PLACE(g, k) = NONE
}

inline apply_oldest(g) {
    do
    :: r[g].waits & BIT(a) -> break
    :: else -> a++
    od;
    apply(g, a); a = 0; version++
}

// A group that has left goes when its last gradient is in the core.
#define GOES(g)      (r[g].left && !r[g].gone && !WHOLE(g))
#define MAY_DEAL(g)  (!r[g].left && r[g].dealt < r[g].next + AHEAD(g) && \
                      (hard -> 2 * r[g].dealt + g < batches : free_batch < batches))
#define OPEN(g)      (!r[g].left && !r[g].ended && r[g].granted == r[g].next && \
                      (PLACE(g, r[g].next) == NONE || MUTANT == 1) && !MAY_DEAL(g))
#define MAY_GRANT(g) (OPEN(g) && r[g].dealt > r[g].next && (!hard || r[g].next == version))
#define MAY_END(g)   (OPEN(g) && r[g].dealt == r[g].next)

inline deal(g) {
    a = (hard -> 2 * r[g].dealt + g : free_batch);
    if
    :: MUTANT == 13 && !hard && r[g].dealt == 1
    :: else -> free_batch++
    fi;
    r[g].dealt++;
    if
    :: g == 0 -> s[0].batch[s[0].known] = a; s[0].known++
    :: else -> down!LEASE, a
    fi;
    a = 0
}

inline grant(g) {
    r[g].granted++;
    if
    :: g == 0 -> s[0].granted++
    :: else ->
        a = (!star && r[g].granted > 1 -> version : 0);
        down!GRANT, a;
        if
        :: a > sent -> down!WEIGHTS, a; sent = a
        :: else
        fi;
        a = 0
    fi
}

inline take_up() {
    up?what, a, b;
    if
    :: what == COMPLETE -> put(1, a, b)
    :: what == LEAVE -> r[1].left = true
    :: what == ASK -> wanted = 1 + a
    fi;
    a = 0; b = 0
}

inline take_all() {                             // that has come: perhaps a gradient and a leave
    do
    :: nempty(up) -> take_up()
    :: else -> break
    od;
    a = 0
}

inline say_end(g) {
    r[g].ended = true;
    if
    :: g == 0 -> s[0].last = (MUTANT != 5)
    :: g == 1 && MUTANT != 5 -> down!LAST, 0
    :: else
    fi
}

#define UPDATES_ALL  (!hold && hard && (HAS(0) || r[0].gone) && (HAS(1) || r[1].gone) && (HAS(0) || HAS(1)))
#define UPDATES(g)   (!hold && !hard && r[g].waits)
#define BRINGS       (wanted > 0 && version >= wanted)
inline take_in(g) {
    r[g].waits = r[g].waits | BIT(r[g].next);
    r[g].next++
}

inline apply_all() {
    if
    :: HAS(0) -> apply(0, version)
    :: else
    fi;
    if
    :: HAS(1) -> apply(1, version)
    :: else
    fi;
    version++
}

// mu_root_go_on, and what it tells: of what may be done the first.
inline go_on() {
    do
    :: MUTANT == 8 && r[1].left && !r[1].gone -> r[1].gone = true
    :: WHOLE(0) -> take_in(0)
    :: WHOLE(1) -> take_in(1)
    :: GOES(0) -> r[0].gone = true
    :: GOES(1) -> r[1].gone = true
    :: UPDATES_ALL -> apply_all()
    :: UPDATES(0) -> apply_oldest(0)
    :: UPDATES(1) -> apply_oldest(1)
    :: MAY_DEAL(0) -> deal(0)
    :: MAY_DEAL(1) -> deal(1)
    :: MAY_GRANT(0) -> grant(0)
    :: MAY_GRANT(1) -> grant(1)
    :: MAY_END(0) -> say_end(0)
    :: MAY_END(1) -> say_end(1)
    :: BRINGS -> wanted = 0; down!TREE, version
    :: else -> break
    od;
    look(0)
}

proctype First() {
    byte a, b, sent;
    mtype what;
    d_step { go_on() };                         // its first look grants
    do
    GROUP(0)
    :: d_step { LEAVES(0) -> s[0].left = true; r[0].left = (MUTANT != 4); go_on() }
    :: d_step { COMPLETES(0) -> s[0].complete = true; put(0, s[0].step, s[0].slot[s[0].step % 2]); go_on() }
    :: d_step { nempty(up) -> take_all(); go_on() }
    :: d_step { hold && r[0].granted > 0 -> hold = false; go_on() }
    :: d_step { may_stop -> may_stop = false;
        a = (r[0].granted > r[1].granted -> r[0].granted : r[1].granted);
        stop_at = (hard -> (MUTANT == 9 -> a : a + 1) : 0); a = 0;
        s[0].stops = true; s[0].ends = stop_at; down!STOP, stop_at; look(0) }
    :: d_step { r[0].gone && r[1].gone && !r[0].waits && !r[1].waits ->
        assert(applied == BIT((hard && stop_at > 0 && 2 * stop_at < batches -> 2 * stop_at : batches)) - 1 ||
               (!hard && s[0].stops));
        assert(r[0].next == s[0].step && r[1].next == s[1].step);
        down!END, 0 } break
    :: DEAD -> break
    :: atomic { may_lose && !lost -> may_lose = false; lost = true; break }
    od;
    atomic { s[0].over = true; sent = 0 }
}

init {
    atomic {
        if
        :: hard = true; batches = 4
        :: batches = 4
        :: star = true; batches = 4
        fi;
        if                                      // a stop finds a dead learner, or none
        :: deaths = 1; may_stop = true
        :: may_lose = true
        :: hold = true
        fi;
        s[0].limit = NONE; s[0].given = 1; s[0].slot[0] = NONE; s[0].slot[1] = NONE;
        s[1].limit = NONE; s[1].given = 1; s[1].slot[0] = NONE; s[1].slot[1] = NONE;
        r[0].place[0] = NONE; r[0].place[1] = NONE; r[1].place[0] = NONE; r[1].place[1] = NONE;
        run First(); run Second(); run Learner(0); run Learner(1)
    }
}
