// SPDX-License-Identifier: Apache-2.0
// ranks_world.c - learners, links between ranks, faults and the loop of events.
#include "sim/ranks.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- time and events ----

void ranks_post(ranks_world *w, int64_t delay, ranks_kind kind, int whom, uint32_t mark) {
    if (!sim_queue_put(&w->queue, w->now + delay, (int)kind, whom, mark)) {
        ranks_wrong(w, "the simulator's queue is full");
        return;
    }
    w->n_own += kind != RANKS_FAULT;
}

int64_t ranks_time(ranks_world *w, int64_t mean) { return sim_below(&w->rng, 2 * mean + 1); }

void ranks_progress(ranks_world *w) { w->since_progress = 0; }

void ranks_poke(ranks_world *w, ranks_rank *r) {
    if (r->look_due) return;
    r->look_due = true;
    ranks_post(w, ranks_time(w, w->plan.look), RANKS_LOOK, r->rank, 0);
}

// ---- links: a frame leaves from memory that is lent until then ----

static ranks_link *link_of(ranks_world *w, int index) {
    return &w->link[index / RANKS_MOST][index % RANKS_MOST];
}

// Far slower now and then, whichever frames that delays: those behind it wait.
static int64_t delay(ranks_world *w) {
    const int64_t t = ranks_time(w, w->plan.delay);
    return sim_chance(&w->rng, 30) ? t * (1 + sim_below(&w->rng, 30)) : t;
}

static void depart_next(ranks_world *w, ranks_link *k, int index) {
    if (k->waiting < 0 || k->departs) return;
    k->departs = true;
    ranks_post(w, delay(w) / 4, RANKS_DEPART, index, 0);
}

void ranks_send(ranks_world *w, int from, int to, mu_node_topic topic, const mu_wire *frame) {
    const int32_t n = w->free_letter;
    ranks_link *k = &w->link[from][to];
    if (n < 0) {
        ranks_wrong(w, "more frames on the way than the simulator has room for");
        return;
    }
    ranks_letter *l = &w->letter[n];
    w->free_letter = l->next;
    l->w = *frame;
    l->from = (uint16_t)from, l->to = (uint16_t)to, l->topic = (uint16_t)topic;
    l->next = -1;
    if (k->waiting < 0) k->waiting = n;
    else w->letter[k->last_waiting].next = n;
    k->last_waiting = n;
    w->rank[from].owed[topic]++;
    depart_next(w, k, from * RANKS_MOST + to);
}

// The first that waits; a wrong network takes the second.
static int32_t take_waiting(ranks_world *w, ranks_link *k) {
    const int32_t first = k->waiting, second = w->letter[first].next;
    if (second >= 0 && ranks_mutant_is(w, RANKS_M_DISORDER)) {
        w->letter[first].next = w->letter[second].next;
        if (k->last_waiting == second) k->last_waiting = first;
        return second;
    }
    k->waiting = second;
    return first;
}

static void depart(ranks_world *w, int index) {
    ranks_link *k = link_of(w, index);
    k->departs = false;
    const int32_t n = take_waiting(w, k);
    ranks_letter *l = &w->letter[n];
    mu_err err = {0};
    l->next = -1;
    l->bytes = 0;
    if (mu_wire_pack(&w->shape, &l->w, &w->frame, &err) != MU_OK || w->frame.bytes > RANKS_FRAME) {
        ranks_wrong(w, "a frame of rank %d does not pack: %s", l->from, err.msg);
        return;
    }
    for (int i = 0; i < w->frame.n; i++) {
        memcpy(l->data + l->bytes, w->frame.part[i].iov_base, w->frame.part[i].iov_len);
        l->bytes += w->frame.part[i].iov_len;
    }
    if (k->flying < 0) k->flying = n;
    else w->letter[k->last_flying].next = n;
    k->last_flying = n;
    int64_t at = w->now + delay(w);
    if (at < k->arrives) at = k->arrives;
    k->arrives = at;
    ranks_post(w, at - w->now, RANKS_ARRIVE, index, 0);
    w->rank[l->from].owed[l->topic]--;
    ranks_poke(w, &w->rank[l->from]);
    depart_next(w, k, index);
}

static void arrive(ranks_world *w, int index) {
    ranks_link *k = link_of(w, index);
    const int32_t n = k->flying;
    ranks_letter *l = &w->letter[n];
    ranks_rank *r = &w->rank[l->to];
    k->flying = l->next;
    l->next = -1;
    if (r->inbox < 0) r->inbox = n;
    else w->letter[r->inbox_last].next = n;
    r->inbox_last = n;
    SIM_TRACE(w, "arrives  %s from rank %d at %d", mu_wire_type_name(l->w.type), l->from, l->to);
    ranks_poke(w, r);
}

// ---- learners ----

static void stop(ranks_world *w, int rank) {
    SIM_TRACE(w, "asked    rank %d to stop", rank);
    w->rank[rank].wants_stop = true;
    w->stopping = true;
    ranks_poke(w, &w->rank[rank]);
}

static ranks_group *group_of(ranks_world *w, int learner) { return &w->group[learner / w->plan.own]; }
static int place_in(const ranks_world *w, int learner) { return learner % w->plan.own; }
static int index_of(const ranks_world *w, const ranks_learner *l) { return (int)(l - w->learner); }

static void ask_soon(ranks_world *w, ranks_learner *l) {
    l->state = RANKS_ASKING;
    ranks_post(w, ranks_time(w, w->plan.look), RANKS_ASK, index_of(w, l), l->mark);
}

void ranks_wake(ranks_world *w, ranks_group *g) {
    for (int i = 0; i < w->plan.own; i++)
        if (g->learner[i].state == RANKS_HELD) ask_soon(w, &g->learner[i]);
}

static void start(ranks_world *w, int i) {
    ranks_group *g = group_of(w, i);
    ranks_learner *l = &w->learner[i];
    l->incarnation = mu_core_join(g->core, place_in(w, i));
    SIM_TRACE(w, "join     learner %d incarnation %u", i, l->incarnation);
    ask_soon(w, l);
    ranks_wake(w, g);
    ranks_poke(w, ranks_of(w, g));
}

static int64_t compute_time(ranks_world *w, const ranks_learner *l) {
    int64_t t = w->plan.compute * l->slow / 16;
    t = t * (900 + sim_below(&w->rng, 201)) / 1000;
    if (w->plan.spread == SIM_HEAVY && sim_chance(&w->rng, 50)) t *= 1 + sim_below(&w->rng, 20);
    return t;
}

// Chunk by chunk, as they are shown; it reads them until its gradient is complete.
static void read_weights(ranks_world *w, ranks_group *g, ranks_learner *l) {
    for (int c = 0; c < RANKS_CHUNKS; c++) {
        if (l->reads & 1u << c) continue;
        if (g->shown[c] < l->grant.version) return;
        if (g->shown[c] > l->grant.version)
            ranks_wrong(w, "learner %d wants weights of %" PRId64 ", those of %" PRId64 " are shown",
                        index_of(w, l), l->grant.version, g->shown[c]);
        l->reads |= 1u << c;
        l->seen[c] = ranks_hash(g->weights + (ptrdiff_t)c * RANKS_CHUNK, RANKS_CHUNK);
    }
    l->state = RANKS_COMPUTING;
    ranks_post(w, compute_time(w, l) / 2, RANKS_MARK, index_of(w, l), l->mark);
}

void ranks_show(ranks_world *w, ranks_group *g) {
    for (int i = 0; i < w->plan.own; i++)
        if (g->learner[i].state == RANKS_READING) read_weights(w, g, &g->learner[i]);
}

static void ask(ranks_world *w, int i) {
    ranks_group *g = group_of(w, i);
    ranks_learner *l = &w->learner[i];
    const int place = place_in(w, i);
    mu_lease lease;
    bool ended;
    if (!mu_core_learner_at(g->core, place)->handed) (void)mu_core_lease(g->core, place, &lease, &ended);
    const mu_answer a = mu_core_ask(g->core, place, l->incarnation, &l->grant);
    w->hash = (w->hash ^ (uint64_t)a) * 0x100000001B3u;
    if (a == MU_GO) {
        l->state = RANKS_READING;
        SIM_TRACE(w, "go       learner %d step %" PRId64, i, l->grant.step);
        ranks_book_go(w, g, &l->grant);
        read_weights(w, g, l);
    } else if (a == MU_HOLD) {
        l->state = RANKS_HELD;
    } else {
        l->state = RANKS_ENDED;
        SIM_TRACE(w, "end      learner %d", i);
        ranks_wake(w, g);
        ranks_poke(w, ranks_of(w, g));
        ranks_progress(w);
    }
}

// A gradient at the float of its group, which one learner, computing it again, computes again.
static void put(ranks_world *w, const ranks_group *g, const ranks_learner *l, int param) {
    const int slot = (int)(l->grant.step % MU_CORE_SLOTS);
    float dense[RANKS_PART] = {0};
    mu_param p = w->param[param];
    dense[g->number] = (float)ranks_book_number(g->number, l->grant.step, place_in(w, index_of(w, l)));
    p.grad = (mu_grad){.form = MU_GRAD_DENSE, .dense = dense};
    mu_message_put(&w->forms.message, l->slot[slot], param, &p);
}

static void mark(ranks_world *w, int i) {
    ranks_learner *l = &w->learner[i];
    const ranks_group *g = group_of(w, i);
    put(w, g, l, 0);
    l->marked[l->grant.step % MU_CORE_SLOTS] = l->grant.step;
    ranks_post(w, compute_time(w, l) / 2, RANKS_DONE, i, l->mark);
    ranks_poke(w, &w->rank[g->rank]);
}

static void push(ranks_world *w, int i) {
    ranks_group *g = group_of(w, i);
    ranks_learner *l = &w->learner[i];
    const mu_grant *m = &l->grant;
    const mu_gradient_id id = {place_in(w, i), l->incarnation, m->step, m->version, m->first, m->rows};
    put(w, g, l, 1);
    ranks_book_computed(w, g, l);
    l->reads = 0;
    const mu_push_result v = mu_core_push(g->core, &id);
    SIM_TRACE(w, "push     learner %d step %" PRId64 ": %d", i, m->step, (int)v);
    if (v != MU_ACCEPTED) ranks_wrong(w, "learner %d step %" PRId64 ": push answered %d", i, m->step, (int)v);
    else ranks_book_push(w, g, &id);
    if (w->book.top > RANKS_SAMPLES / 2 && !w->stopping) stop(w, 0);
    ranks_progress(w);
    ask_soon(w, l);
    ranks_poke(w, ranks_of(w, g));
}

// What a process that hung had computed comes when it was replaced: it is no part of anything.
static void push_late(ranks_world *w, int i, uint32_t incarnation) {
    ranks_group *g = group_of(w, i);
    const mu_grant *m = &w->learner[i].grant;
    const mu_gradient_id id = {place_in(w, i), incarnation, m->step, m->version, m->first, m->rows};
    if (incarnation == mu_core_learner_at(g->core, place_in(w, i))->incarnation) return; // not replaced yet
    if (mu_core_push(g->core, &id) != MU_FENCED) ranks_wrong(w, "learner %d: a late push is not refused", i);
}

// ---- faults ----

static void die(ranks_world *w, int i, bool hangs) {
    ranks_learner *l = &w->learner[i];
    if (l->state == RANKS_GONE || l->state == RANKS_STARTING || l->state == RANKS_ENDED) return;
    SIM_TRACE(w, "%s     learner %d", hangs ? "hang" : "dies", i);
    if (hangs && l->state == RANKS_COMPUTING)
        ranks_post(w, ranks_time(w, 3 * (w->plan.detect + w->plan.restart)), RANKS_LATE, i, l->incarnation);
    l->state = RANKS_GONE;
    l->reads = 0;
    l->mark++;
    ranks_post(w, ranks_time(w, w->plan.detect), RANKS_LOST, i, l->mark);
}

static void lost(ranks_world *w, int i) {
    ranks_learner *l = &w->learner[i];
    if (ranks_mutant_is(w, RANKS_M_NO_WATCHDOG)) return;
    ranks_group *g = group_of(w, i);
    if (sim_chance(&w->rng, 900)) mu_core_lost(g->core, place_in(w, i));
    l->state = RANKS_STARTING;
    ranks_post(w, ranks_time(w, w->plan.restart), RANKS_START, i, l->mark);
    ranks_wake(w, g);
    ranks_poke(w, ranks_of(w, g));
}

static void fault(ranks_world *w) {
    const ranks_plan *p = &w->plan;
    const int i = (int)sim_below(&w->rng, p->groups * p->own);
    ranks_rank *r = &w->rank[sim_below(&w->rng, p->ranks)];
    switch (sim_below(&w->rng, 8)) {
    case 0:
    case 1:
    case 2:
        if (p->kills) die(w, i, false);
        break;
    case 3:
        if (p->hangs) die(w, i, true);
        break;
    case 4: // all learners of a rank
        for (int k = 0; p->kills && sim_chance(&w->rng, 300) && k < p->own_groups * p->own; k++)
            die(w, r->first * p->own + k, false);
        break;
    case 5:
        if (p->stalls && !r->look_due) { // its parent is stopped for a while
            r->look_due = true;
            ranks_post(w, sim_below(&w->rng, 20 * p->compute), RANKS_LOOK, r->rank, 0);
        }
        break;
    case 6:
        if (p->stops && sim_chance(&w->rng, 20)) ranks_post(w, 0, RANKS_STOP, r->rank, 0);
        break;
    default:
        break;
    }
    ranks_post(w, 1 + ranks_time(w, p->fault_gap), RANKS_FAULT, 0, 0);
}

// ---- the loop ----

static void learner_event(ranks_world *w, const sim_event *e) {
    const ranks_learner *l = &w->learner[e->learner];
    if (e->kind == RANKS_LATE) {
        push_late(w, e->learner, e->mark);
        return;
    }
    if (l->mark != e->mark) return;
    switch ((ranks_kind)e->kind) {
    case RANKS_START:
        start(w, e->learner);
        break;
    case RANKS_ASK:
        ask(w, e->learner);
        break;
    case RANKS_MARK:
        mark(w, e->learner);
        break;
    case RANKS_DONE:
        push(w, e->learner);
        break;
    default:
        lost(w, e->learner);
        break;
    }
}

static void dispatch(ranks_world *w, const sim_event *e) {
    mu_err err = {0};
    switch ((ranks_kind)e->kind) {
    case RANKS_LOOK:
        w->rank[e->learner].look_due = false;
        ranks_look(w, &w->rank[e->learner]);
        break;
    case RANKS_DEPART:
        depart(w, e->learner);
        break;
    case RANKS_ARRIVE:
        arrive(w, e->learner);
        break;
    case RANKS_LET_GO:
        mu_root_copy_out(&w->root, w->value, NULL);
        ranks_check(w, mu_root_go_on(&w->root, &err), &err);
        ranks_book_look(w);
        ranks_poke(w, &w->rank[0]);
        break;
    case RANKS_FAULT:
        if (w->faults_on) fault(w);
        break;
    case RANKS_STOP:
        stop(w, e->learner);
        break;
    default:
        learner_event(w, e);
        break;
    }
}

// By adv* groups may be granted gradients on weights that are too old for the bound: these are rejected. The
// core's own check knows nothing of such learners.
static bool keeps_bound(const ranks_world *w) {
    bool bound = false;
    for (int i = 0; i < w->plan.setup.n_phases; i++) bound |= w->plan.setup.phase[i].bound > 0;
    return !bound || w->plan.architecture != MU_ARCHITECTURE_ADV_STAR;
}

// Every core on its own; those of groups in turn.
static void full_check(ranks_world *w) {
    char why[160];
    const ranks_group *g = &w->group[w->events % w->plan.groups];
    if (keeps_bound(w) && !mu_core_check(w->root.core, why, sizeof why))
        ranks_wrong(w, "core of the root: %s", why);
    if (!mu_core_check(g->core, why, sizeof why)) ranks_wrong(w, "core of group %d: %s", g->number, why);
    if (w->events % 128 == 0 && ranks_good(w)) ranks_book_stands(w);
}

static void trace_plan(ranks_world *w) {
    const ranks_plan *p = &w->plan;
    SIM_TRACE(w, "training %s %s, %d ranks of %d groups of %d, splits %d bound %d warm %" PRId64,
              p->architecture == MU_ARCHITECTURE_BASE  ? "base"
              : p->architecture == MU_ARCHITECTURE_ADV ? "adv"
                                                       : "adv*",
              p->setup.protocol->name, p->ranks, p->own_groups, p->own, p->setup.splits, p->setup.bound,
              p->setup.warm_versions);
}

// ---- a training ----

static mu_core_config config_of_group(const ranks_plan *p) {
    const int64_t width = p->setup.global_batch / p->groups;
    const int32_t hardsync = mu_protocol_index(mu_warm_protocol->name);
    return (mu_core_config){.learners = p->own,
                            .protocol = hardsync,
                            .splits = 1,
                            .n_phases = 1,
                            .phase = {{.until = INT64_MAX, .protocol = hardsync, .splits = 1}},
                            .lease_batches = 1,
                            .longest_run = MU_CORE_RUN,
                            .global_batch = width,
                            .rows = p->setup.rows,
                            .first_version = p->at.step + p->at.extra_updates,
                            .first_sample = p->at.samples,
                            .end_sample = INT64_MAX};
}

static bool begin_group(ranks_world *w, int i) {
    const ranks_plan *p = &w->plan;
    ranks_group *g = &w->group[i];
    const int64_t version = p->at.step + p->at.extra_updates;
    const mu_core_config c = config_of_group(p);
    *g = (ranks_group){.number = i,
                       .rank = i / p->own_groups,
                       .core = mu_alloc(mu_core_size(p->own), "sim"),
                       .learner = w->learner + (ptrdiff_t)i * p->own,
                       .version = version,
                       .used = {version, version}};
    if (!g->core) return false;
    mu_core_init(g->core, &c);
    mu_core_set_halt(g->core, version); // nothing is dealt yet
    mu_deal_begin(&g->deal, p->at.samples, c.global_batch);
    for (int k = 0; k < RANKS_CHUNKS; k++) g->shown[k] = version;
    memcpy(g->weights, w->value, sizeof g->weights);
    return true;
}

static bool begin_rank(ranks_world *w, int i) {
    ranks_rank *r = &w->rank[i];
    const int64_t version = w->plan.at.step + w->plan.at.extra_updates;
    *r = (ranks_rank){.rank = i, .first = i * w->plan.own_groups, .inbox = -1, .inbox_last = -1};
    r->tree = (mu_relay_tree){.version = version, .wanted = {-1, -1}};
    for (int k = 0; k < 2; k++) {
        r->tree.block[k] = mu_alloc(RANKS_FLOATS * sizeof(float), "sim");
        if (!r->tree.block[k]) return false;
        memcpy(r->tree.block[k], w->value, RANKS_FLOATS * sizeof(float));
    }
    for (int k = 0; k < RANKS_MOST; k++)
        w->link[i][k] = (ranks_link){.waiting = -1, .last_waiting = -1, .flying = -1, .last_flying = -1};
    return true;
}

static void begin_learners(ranks_world *w) {
    const ranks_plan *p = &w->plan;
    const int n = p->groups * p->own, slow = (int)sim_below(&w->rng, n);
    const size_t bytes = w->forms.message.bytes;
    for (int i = 0; i < n; i++) {
        ranks_learner *l = &w->learner[i];
        *l = (ranks_learner){.state = RANKS_STARTING, .slow = 16, .mark = l->mark + 1, .marked = {-1, -1}};
        for (int k = 0; k < MU_CORE_SLOTS; k++) {
            l->slot[k] = w->slots + (size_t)(i * MU_CORE_SLOTS + k) * bytes;
            memset(l->slot[k], 0, bytes);
        }
        if (p->spread == SIM_UNEQUAL) l->slow = 8 + (int)sim_below(&w->rng, 25);
        if (p->spread == SIM_STRAGGLER && i == slow) l->slow = 160;
        ranks_post(w, ranks_time(w, p->compute), RANKS_START, i, l->mark);
    }
}

static void make_shape(ranks_world *w) {
    const ranks_plan *p = &w->plan;
    w->shape = (mu_wire_shape){.ranks = p->ranks,
                               .learners = p->groups * p->own,
                               .workers = 1,
                               .groups = p->groups,
                               .rows = p->setup.global_batch / p->groups,
                               .count = RANKS_FLOATS,
                               .blocks = p->own_groups > 2 ? p->own_groups : 2,
                               .share = &w->forms.share};
    w->shape.layout = mu_wire_layout_hash(&w->shape);
}

static void end_training(ranks_world *w) {
    for (int g = 0; g < RANKS_GROUPS; g++) {
        mu_free(w->group[g].core);
        w->group[g].core = NULL;
    }
    for (int i = 0; i < RANKS_MOST; i++)
        for (int k = 0; k < 2; k++) {
            mu_free(w->rank[i].tree.block[k]);
            w->rank[i].tree.block[k] = NULL;
        }
    if (w->has_root) mu_root_close(&w->root);
    if (w->has_frame) mu_wire_frame_fini(&w->frame);
    w->has_root = w->has_frame = false;
}

static bool begin_training(ranks_world *w) {
    ranks_plan *p = &w->plan;
    mu_err err = {0};
    ranks_plan_draw(p, &w->opts, &w->updater, &w->rng);
    for (int i = 0; i < RANKS_FLOATS; i++) w->value[i] = (float)(i % 5);
    w->session.setup = p->setup;
    w->job->train.steps = p->steps ? p->at.step + p->steps : 0;
    w->training = (mu_training){.s = &w->session, .at = p->at};
    make_shape(w);
    sim_queue_clear(&w->queue);
    w->now = w->n_own = w->since_progress = 0;
    w->stopping = false;
    w->free_letter = -1;
    for (int32_t k = RANKS_LETTERS; k-- > 0;) {
        w->letter[k].next = w->free_letter;
        w->free_letter = k;
    }
    memset(w->pending, 0, sizeof w->pending);
    const mu_root_opts o = {&w->training, &w->shape, &w->forms, p->holds, ranks_granted, ranks_dealt, w};
    w->has_frame = mu_wire_frame_init(&w->shape, &w->frame, &err) == MU_OK;
    w->has_root = true;
    bool good = w->has_frame && mu_root_open(&w->root, &o, &err) == MU_OK;
    for (int g = 0; g < p->groups && good; g++) good = begin_group(w, g);
    for (int i = 0; i < p->ranks && good; i++) good = begin_rank(w, i);
    if (!good) return ranks_wrong(w, "a training does not begin: %s", err.msg);
    ranks_book_init(w);
    begin_learners(w);
    w->faults_on = p->kills || p->hangs || p->stalls || p->stops;
    w->rank[0].look_due = sim_chance(&w->rng, 250); // its parent has other things to do first
    if (w->rank[0].look_due) ranks_post(w, ranks_time(w, 3 * p->compute), RANKS_LOOK, 0, 0);
    for (int i = 0; i < p->ranks; i++) ranks_poke(w, &w->rank[i]);
    if (p->holds) ranks_post(w, ranks_time(w, 5 * p->compute), RANKS_LET_GO, 0, 0);
    ranks_post(w, ranks_time(w, p->fault_gap), RANKS_FAULT, 0, 0);
    trace_plan(w);
    return true;
}

// Faults end at some event; what is left must come to its end without them.
static void run_training(ranks_world *w, int64_t budget) {
    const ranks_plan *p = &w->plan;
    const int n = p->groups * p->own;
    const int64_t quiet = w->events + sim_below(&w->rng, budget + 1), end = w->opts.events;
    const int64_t patience = 4000 + 200 * (n + p->ranks), last = end + 20000 + 400 * (int64_t)n;
    while (w->n_own > 0 && ranks_good(w)) {
        const sim_event e = sim_queue_take(&w->queue);
        w->n_own -= e.kind != RANKS_FAULT;
        w->now = sim_event_time(&e);
        w->events++;
        w->hash = (w->hash ^ e.key ^ ((uint64_t)e.kind << 56 | (uint64_t)e.learner << 40)) * 0x100000001B3u;
        dispatch(w, &e);
        if (w->opts.mutant >= RANKS_M_ROOT) ranks_mutant_scribble(w);
        if (w->events % 16 == 0) full_check(w);
        if (w->events == quiet || w->events >= end) w->faults_on = false;
        if (w->events >= end && !w->stopping) stop(w, (int)sim_below(&w->rng, p->ranks));
        if (!w->faults_on && ++w->since_progress > patience)
            ranks_wrong(w, "no progress in %" PRId64 " events", w->since_progress);
        if (w->events > last) ranks_wrong(w, "the end does not come");
    }
    if (ranks_good(w)) full_check(w);
    if (ranks_good(w)) ranks_book_end(w);
}

bool ranks_run(ranks_world *w, int64_t seed) {
    w->seed = seed;
    w->rng = (uint64_t)seed * 0xD1342543DE82EF95u + 2;
    w->hash = 0xCBF29CE484222325u;
    w->events = 0;
    w->mutated = false;
    w->book.why[0] = 0;
    while (w->events < w->opts.events && ranks_good(w)) {
        if (begin_training(w)) run_training(w, w->opts.events - w->events);
        end_training(w);
    }
    return ranks_good(w);
}
