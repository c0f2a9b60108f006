// SPDX-License-Identifier: Apache-2.0
// p_hogwild.c - learners write the shared weights themselves, without locks (Niu et al. 2011).
//
// There is no queue and no server: a push says that the gradient is in the weights already, and the clock
// ticks at once. Two learners that write the same weight at the same moment may lose one of the two changes;
// that is the price, small when gradients are sparse or small. History is each learner's own: what one core
// alone writes does not travel between them.
//
// A line of weights that is written has to travel to every other core. With `every: K` a learner leaves its
// gradients in slots of its own and writes the sum of K at once: a K-th of the lines, and of the passes over
// weights and history. The clock goes on counting gradients; those that are pushed and not yet written belong
// to the run, and survive their learner: its next process writes them, or the parent when none will come. So
// nothing is lost, nothing computed twice; a kill while a sum is written applies one slice of it twice at
// most, and is counted. Whoever pauses the run waits for the sums.
#include "ps/client_shared.h"

#include "base/clock.h"
#include "base/failpoint.h"

#include <string.h>

enum { MOST = 8 }; // gradients of a sum

struct hogwild {
    int64_t every;
};

static const mu_field fields[] = {
    MU_FIELD(struct hogwild, every, MU_INT, "1", "[1,8]",
             "gradients of a learner that it sums and writes at once: fewer written lines travel between "
             "many cores; the mean staleness is about learners (every + 1) / 2"),
    {0},
};

// Until a learner writes, each of the others makes one for its last gradient, two for the one before.
static double expected_staleness(const void *state, int learners) {
    return learners * 0.5 * (double)(((const struct hogwild *)state)->every + 1);
}

static int gathers(const void *state) { return (int)((const struct hogwild *)state)->every; }

static void configure(const void *state, mu_core_config *out) {
    out->splits = out->learners;
    out->own = gathers(state);
}

// ---- sums: gradients that are pushed and not written yet ----

typedef struct pending { // of a learner
    // Its first gradient that is not in the weights * PARTS + slices of the sum begun.
    _Alignas(64) _Atomic int64_t written;
    struct {
        int64_t version; // of its weights
        mu_step_rate rate;
    } entry[MOST]; // at its number modulo MOST
} pending;

#define PARTS ((int64_t)1 << 24)

static size_t room(int learners) { return (size_t)learners * sizeof(pending); }

static pending *pending_of(const mu_shared *g, int learner) { return (pending *)g->exchange_room + learner; }

static int every_of(const mu_shared *g) { return g->setup->own; }

static int slots(const mu_setup *p) { return p->own > MU_CORE_SLOTS ? p->own : MU_CORE_SLOTS; }

static const char *slot_of(const mu_shared *g, int learner, int64_t number) {
    return mu_shared_slot(g, learner, (int)(number % slots(g->setup)));
}

// How many of the first `accepted` gradients of a learner are not in the weights.
static int64_t n_pending(const mu_shared *g, int learner, int64_t accepted) {
    if (!mu_own_is_filled(g, learner)) return 0; // all were in step
    return accepted - atomic_load(&pending_of(g, learner)->written) / PARTS;
}

typedef struct summands { // of one parameter
    mu_grad grad[MOST];
    const mu_grad *at[MOST];
    float weight[MOST];
    int n;
    bool names_rows;
} summands;

// Gradients that are not finite are left out.
static void sum_up(const mu_shared *g, int learner, int64_t from, int64_t to, int param,
                   summands *out) {
    out->n = 0;
    out->names_rows = true;
    for (int64_t i = from; i < to; i++) {
        const mu_slot_head *h = mu_shared_slot_head(g, learner, (int)(i % slots(g->setup)));
        if (h->bad) continue;
        mu_grad *grad = &out->grad[out->n];
        *grad = mu_message_get(&g->share[0].message, slot_of(g, learner, i), param, g->params->list[param]);
        out->names_rows &= grad->form == MU_GRAD_ROWS || grad->form == MU_GRAD_NONE;
        out->at[out->n] = grad;
        out->weight[out->n++] = h->scale;
    }
}

// Rows that are named are few, and changed all at once, with the first slice.
static void write_slice(const mu_shared *g, int learner, int64_t from, int64_t to, const mu_params *view,
                        int slice) {
    const mu_slice_range *range = &g->slices.range[slice];
    const mu_param *p = g->params->list[range->param];
    if (p->is_stat) return; // moves in the forward pass
    summands s;
    sum_up(g, learner, from, to, range->param, &s);
    const mu_slice_range all = {range->param, 0, p->count};
    if (s.n == 0 || (s.names_rows && range->begin > 0)) return;
    const mu_shared_head *h = g->head;
    const pending *own = pending_of(g, learner);
    const mu_step_rate *r = &own->entry[(to - 1) % MOST].rate;
    const int64_t behind = own->entry[(to - 1) % MOST].version - h->warm_end;
    mu_update u = {s.n, s.at, s.weight, r->rate, {0, r->young, r->stale}};
    u.step.update = behind > 0 ? h->warm_end + behind / h->n_learners / every_of(g) : h->warm_end;
    u.step.stale.share = (float)s.n * (r->stale.share > 0 ? r->stale.share : 1); // decay, of each of them
    mu_apply_series(g->updater, view, s.names_rows ? &all : range, 1, &u);
}

// Every learner begins at another place, so that two seldom write the same lines at the same time.
static void write_sum(const mu_shared *g, int learner, int64_t accepted) {
    pending *own = pending_of(g, learner);
    const int n = g->head->n_slices, first = (int)((int64_t)n * learner / g->head->n_learners);
    const int64_t was = atomic_load(&own->written), from = was / PARTS;
    mu_params view = *g->params;
    view.value = g->weights;
    for (int k = 0; k < g->head->n_history; k++) view.slot[k] = mu_own_history(g, learner, k);
    int begun = (int)(was % PARTS);
    if (begun) atomic_fetch_add(&g->head->torn_updates, 1); // its process died in the last of these
    for (int i = begun ? begun - 1 : 0; i < n; i++) {
        atomic_store(&own->written, from * PARTS + i + 1);
        mu_failpoint("hogwild/writing");
        write_slice(g, learner, from, accepted, &view, (first + i) % n);
        if (g->pulse) atomic_fetch_add_explicit(g->pulse, 1, memory_order_relaxed);
    }
    atomic_store(&own->written, accepted * PARTS);
}

static void write_own(mu_shared_client *c) {
    mu_shared *g = c->shared;
    const int64_t began = mu_clock_ns(), n = n_pending(g, c->base.learner, c->accepted);
    if (n <= 0) return;
    write_sum(g, c->base.learner, c->accepted);
    const int64_t now = atomic_load(&g->head->version), spent = mu_clock_ns() - began;
    for (int64_t i = c->accepted - n; i < c->accepted; i++)
        mu_shared_client_note_staleness(c, now - 1 - pending_of(g, c->base.learner)->entry[i % MOST].version);
    c->base.applied_ns += spent;
    atomic_fetch_add(&g->learner[c->process].apply_ns, spent);
}

// ---- the exchange ----

static int own_blocks(int n_history) { return n_history; }

static mu_status enter(mu_shared_client *c, MU_UNUSED mu_err *err) {
    mu_shared *g = c->shared;
    float *own[MU_MAX_SLOTS] = {0};
    // What it has done in this run before was in step.
    if (!mu_own_is_filled(g, c->base.learner))
        atomic_store(&pending_of(g, c->base.learner)->written, c->accepted * PARTS);
    mu_own_fill(g, c->base.learner, c->accepted > 0 ? mu_stale_share(&g->setup->stale, g->updater) : 1);
    for (int k = 0; k < g->head->n_history; k++) own[k] = mu_own_history(g, c->base.learner, k);
    if (c->params) mu_params_rebase(c->params, g->weights, own);
    return MU_OK;
}

// A full sum here is one of the process before. In a pause all that is pushed is written.
static bool may_ask(mu_shared_client *c) {
    const int64_t n = n_pending(c->shared, c->base.learner, c->accepted);
    if (n > 0 && (n >= every_of(c->shared) || mu_own_is_held(c->shared))) write_own(c);
    return true;
}

static mu_status begin(mu_shared_client *c, MU_UNUSED mu_err *err) {
    c->base.writes = every_of(c->shared) == 1;
    const int64_t samples = atomic_load(&c->shared->head->samples);
    c->base.step_rate = c->rate_at(c->rate_ctx, c->base.grant.version, samples);
    c->base.step_rate.rate *= (double)c->rate_share;
    atomic_store_explicit(&c->shared->head->rate, c->base.step_rate.rate, memory_order_relaxed);
    return MU_OK;
}

// The number of the gradient is what the core counts: a death before its commit leaves an entry for the next.
static void accepted(mu_shared_client *c, const mu_core *core, const mu_gradient_id *id) {
    pending *own = pending_of(c->shared, c->base.learner);
    const int64_t number = mu_core_learner_at(core, c->base.learner)->accepted - 1;
    if (!c->base.writes) {
        own->entry[number % MOST].version = id->version;
        own->entry[number % MOST].rate = c->base.step_rate;
        return;
    }
    atomic_store(&own->written, (number + 1) * PARTS);
    mu_shared_client_note_staleness(c, core->version - 1 - id->version);
}

static void pushed(mu_shared_client *c) {
    if (n_pending(c->shared, c->base.learner, c->accepted) >= every_of(c->shared)) write_own(c);
}

static bool is_quiet(const mu_shared *g, const mu_core *c) {
    for (int l = 0; l < g->head->n_learners; l++)
        if (n_pending(g, l, mu_core_learner_at(c, l)->accepted) > 0) return false;
    return mu_own_is_quiet(g, c);
}

// Sums that learners have left which will not come again. In a snapshot there are none.
static void write_left(mu_shared *g) {
    const mu_core *c = mu_shared_begin(g);
    if (!c) return;
    for (int l = 0; l < g->head->n_learners; l++) {
        const int64_t accepted = mu_core_learner_at(c, l)->accepted;
        if (n_pending(g, l, accepted) > 0) write_sum(g, l, accepted);
    }
    mu_shared_cancel(g);
}

// The weights, and the mean of the histories of those that have one: all learners wait for this.
static void copy_out(mu_shared *g, float *value, float *const *slot) {
    const size_t n = g->head->count;
    int filled = 0;
    for (int l = 0; l < g->head->n_learners; l++) filled += mu_own_is_filled(g, l);
    if (!filled) {
        mu_exchange_queue.copy_out(g, value, slot);
        return;
    }
    write_left(g);
    const float share = 1.0f / (float)filled;
    memcpy(value, g->weights, n * sizeof(float));
    for (int k = 0; k < g->head->n_history; k++) {
        float *restrict sum = slot[k];
        memset(sum, 0, n * sizeof(float));
        for (int l = 0; l < g->head->n_learners; l++) {
            if (!mu_own_is_filled(g, l)) continue;
            const float *restrict own = mu_own_history(g, l, k);
            for (size_t i = 0; i < n; i++) sum[i] += share * own[i];
        }
    }
}

static const mu_exchange exchange = {
    .slots = slots,
    .own_blocks = own_blocks,
    .room = room,
    .enter = enter,
    .may_ask = may_ask,
    .is_held = mu_own_is_held,
    .begin = begin,
    .accepted = accepted,
    .pushed = pushed,
    .end = write_own,
    .is_quiet = is_quiet,
    .copy_out = copy_out,
};

const mu_protocol_class mu_protocol_hogwild = {
    .name = "hogwild",
    .help = "learners change the shared weights themselves, without locks; fastest at small batches",
    .fields = fields,
    .state_size = sizeof(struct hogwild),
    .expected_staleness = expected_staleness,
    .configure = configure,
    .objects = mu_own_objects,
    .exchange = &exchange,
    .own_histories = true,
    .gathers = gathers,
};
