// SPDX-License-Identifier: Apache-2.0
// mirror.c - see mirror.h. What of this is under the lock: an entry of the log. Everything else a learner
// does with its own mirror, outside it: following the log, giving a copy (asked for by one word in the
// head), and the parent takes copies while all of them pause.
#include "ps/mirror.h"

#include "comm/stall_timer.h"
#include "ps/client_shared.h"

#include <string.h>

#define NAP_NS 2000000

typedef struct log_entry {              // at version modulo the log's length
    int32_t learner, slot;
    int32_t bad;                        // not finite: changes nothing
    float   weight;
    double  rate;
    mu_rule_step rule_step;
} log_entry;

static int log_length(int learners) { return learners * MU_MIRROR_SLOTS + 1; }
static size_t room(int learners) { return (size_t)log_length(learners) * sizeof(log_entry); }
static int slots(MU_UNUSED const mu_setup *p) { return MU_MIRROR_SLOTS; }
static int own_blocks(int n_history) { return n_history + 1; }

// A torn mirror's version is kept as -2 - version.
static bool is_torn(int64_t version) { return version < 0; }
static int64_t torn(int64_t version) { return -2 - version; }

static log_entry *entry(const mu_shared *g, int64_t version) {
    return (log_entry *)g->exchange_room + version % log_length(g->head->n_learners);
}

// The request for a copy while it is being given: who gets and who gives, one word, so that a death of either
// is told from the death of a third.
enum { GIVER = MU_MAX_EXECUTORS + 1 };
static int32_t being_given(int receiver, int giver) { return -(1 + receiver + GIVER * giver); }
static int giver_of(int32_t wanted) { return (-wanted - 1) / GIVER; }
static int receiver_of(int32_t wanted) { return (-wanted - 1) % GIVER; }

static _Atomic int64_t *version_of(const mu_shared *g, int learner) {
    return &g->learner[learner].mirror_version;
}

// ---- following the log ----

static int group_of(const mu_shared_head *h) { return h->setup.learners / h->setup.splits; }

static int64_t updates_until(const mu_shared_head *h, int64_t version) {
    if (version <= h->warm_end) return version; // by hardsync, one each
    return h->warm_end + (version - h->warm_end) / group_of(h);
}

typedef struct update { // one of a parameter
    mu_grad grad[MU_MIRROR_SLOTS];
    const mu_grad *at[MU_MIRROR_SLOTS];
    float weight[MU_MIRROR_SLOTS];
} update;

// Entries (from, to] of the log.
static mu_update read_update(const mu_shared *g, int param, int64_t from, int64_t to, update *into) {
    const log_entry *last = entry(g, to);
    int n = 0;
    for (int64_t v = from + 1; v <= to; v++) {
        const log_entry *u = entry(g, v);
        if (u->bad) continue;
        into->weight[n] = u->weight;
        into->grad[n] = mu_message_get(&g->share[0].message, mu_shared_slot(g, u->learner, u->slot), param,
                                       g->params->list[param]);
        into->at[n] = &into->grad[n];
        n++;
    }
    return (mu_update){n, into->at, into->weight, last->rate, last->rule_step};
}

// Do the updates name the rows that they change?
static bool names_rows(const mu_update *u, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < u[i].n; j++)
            if (u[i].grad[j]->form != MU_GRAD_ROWS && u[i].grad[j]->form != MU_GRAD_NONE) return false;
    return true;
}

// All updates on one slice before the next: it stays in the second cache, so memory is passed once. Named
// rows are few: looking for them slice by slice would take longer than changing them.
static void apply_updates(const mu_shared *g, const mu_params *view, int param, const mu_update *u, int n) {
    const mu_slice_range all = {param, 0, view->list[param]->count};
    const bool whole = names_rows(u, n);
    const mu_slice_range *range = whole ? &all : g->slices.range + g->first_slice[param];
    const int n_ranges = whole ? 1 : g->first_slice[param + 1] - g->first_slice[param];
    for (int i = 0; i < n_ranges; i++) mu_apply_series(g->updater, view, &range[i], n, u);
}

static void follow(const mu_shared *g, const mu_params *view, int param, int64_t from, int64_t to) {
    const int64_t step = group_of(g->head);
    update memory[MU_SERIES];
    mu_update u[MU_SERIES];
    while (from < to) {
        int n = 0;
        for (int64_t until; n < MU_SERIES && from < to; n++, from = until) {
            until = from + step < to ? from + step : to;
            u[n] = read_update(g, param, from, until, &memory[n]);
        }
        apply_updates(g, view, param, u, n);
    }
}

static void aim_at_newest(mu_mirror *m) {
    const mu_shared_head *h = m->shared->head;
    int64_t version = atomic_load_explicit(&m->shared->head->version, memory_order_acquire);
    m->target = h->warm_end + (updates_until(h, version) - h->warm_end) * group_of(h);
}

// Half the slots of all since the weights were brought up to date: others may soon wait for theirs.
static bool is_far_behind(const mu_mirror *m) {
    const mu_shared_head *h = m->shared->head;
    return atomic_load_explicit(&h->version, memory_order_relaxed) - m->target >=
           h->n_learners * MU_MIRROR_SLOTS / 2;
}

static void aim(mu_mirror *m) {
    if (m->n_more-- > 0 && !is_far_behind(m)) return;
    aim_at_newest(m);
    m->n_more = m->shared->setup->own - 1;
}

static void follow_one(mu_mirror *m, int param) {
    follow(m->shared, &m->view, param, m->at[param], m->target);
    m->at[param] = m->target;
}

static void follow_all(mu_mirror *m) {
    for (int i = 0; i < m->view.n; i++) follow_one(m, i);
    mu_shared *g = m->shared;
    if (atomic_load_explicit(version_of(g, m->learner), memory_order_relaxed) == m->target) return;
    atomic_store_explicit(version_of(g, m->learner), m->target, memory_order_release);
    for (int i = 0; i < g->head->n_learners; i++) // one may wait for a slot
        if (i != m->learner) mu_bell_ring(&g->learner[i].turn);
}

// ---- copies ----

static void copy_mirror(const mu_shared *g, int from, float *value, float *const *slot) {
    size_t bytes = g->head->count * sizeof(float);
    memcpy(value, mu_own_weights(g, from), bytes);
    for (int k = 0; k < g->head->n_history; k++) memcpy(slot[k], mu_own_history(g, from, k), bytes);
}

static void give_copy(mu_mirror *m) {
    mu_shared *g = m->shared;
    int32_t wanted = atomic_load(&g->head->mirror_wanted);
    if (wanted <= 0 || wanted - 1 == m->learner) return;
    const int32_t giving = being_given(wanted - 1, m->learner);
    if (!atomic_compare_exchange_strong(&g->head->mirror_wanted, &wanted, giving)) return; // another gives
    float *slot[MU_MAX_SLOTS] = {0};
    for (int k = 0; k < g->head->n_history; k++) slot[k] = mu_own_history(g, wanted - 1, k);
    // It may have asked once more just when it was given a copy, and be using it.
    if (is_torn(atomic_load(version_of(g, wanted - 1)))) {
        copy_mirror(g, m->learner, mu_own_weights(g, wanted - 1), slot);
        atomic_store(version_of(g, wanted - 1), atomic_load(version_of(g, m->learner)));
    }
    atomic_store(&g->head->mirror_wanted, 0);
    mu_bell_ring(&g->learner[wanted - 1].turn);
}

static bool has_donor(const mu_shared *g, int self) {
    for (int i = 0; i < g->head->n_learners; i++)
        if (i != self && atomic_load(&g->learner[i].pid) && mu_own_is_filled(g, i) &&
            !is_torn(atomic_load(version_of(g, i)))) return true;
    return false;
}

// Of learners that all lost their mirrors the first one goes on with what it has.
static bool is_first_torn(const mu_shared *g, int self) {
    for (int i = 0; i < self; i++)
        if (is_torn(atomic_load(version_of(g, i))) && atomic_load(&g->learner[i].pid)) return false;
    return true;
}

// A learner that has ended left a whole mirror, which no process writes any more. A copy of it can follow
// the log from there: entries behind the torn mirror's version are kept until that one has passed them. -1 =
// none.
static int find_ended(const mu_shared *g, int self, int64_t version) {
    for (int i = 0; i < g->head->n_learners; i++) {
        const mu_shared_learner *l = &g->learner[i];
        if (i != self && !atomic_load(&l->pid) && atomic_load(&l->mirror_ended) &&
            atomic_load(&l->mirror_version) >= version) return i;
    }
    return -1;
}

// A request that outlived its reason would keep all others from asking. False: the copy is just being given.
static bool withdraw(const mu_mirror *m) {
    int32_t wanted = m->learner + 1;
    if (atomic_compare_exchange_strong(&m->shared->head->mirror_wanted, &wanted, 0)) return true;
    return wanted >= 0 || receiver_of(wanted) != m->learner;
}

static void take_copy(mu_mirror *m, int from) {
    const mu_shared *g = m->shared;
    if (!withdraw(m)) return;
    copy_mirror(g, from, m->view.value, m->view.slot);
    atomic_store(version_of(g, m->learner), atomic_load(version_of(g, from)));
}

static mu_status heal(mu_mirror *m, mu_err *err) {
    mu_shared *g = m->shared;
    _Atomic int64_t *version = version_of(g, m->learner);
    mu_stall_timer p = mu_stall_timer_new();
    while (is_torn(atomic_load(version))) {
        uint32_t seen = mu_bell_read(&g->learner[m->learner].turn);
        int32_t none = 0;
        int ended = -1;
        if (has_donor(g, m->learner)) {
            (void)atomic_compare_exchange_strong(&g->head->mirror_wanted, &none, m->learner + 1);
        } else if ((ended = find_ended(g, m->learner, torn(atomic_load(version)))) >= 0) {
            take_copy(m, ended);
        } else if (is_first_torn(g, m->learner)) {
            atomic_store(&g->head->mirror_wanted, 0); // a request of the dead, or to them
            atomic_fetch_add(&g->head->torn_updates, 1);
            atomic_store(version, torn(atomic_load(version)));
            break;
        }
        if (g->pulse) atomic_fetch_add(g->pulse, 1);
        if (mu_stall_timer_is_over(&p, 5 * g->setup->hang_timeout))
            return MU_FAIL(err, MU_EBACKEND, "learner %d found no learner to copy the weights from",
                           m->learner);
        (void)mu_bell_wait(&g->learner[m->learner].turn, seen, 0, NAP_NS);
    }
    (void)withdraw(m); // it may have asked once more just when it was given one
    return MU_OK;
}

// What the predecessor pushed may still be read by others. The log knows which update came from which slot.
static bool find_slots(mu_mirror *m) {
    mu_shared *g = m->shared;
    const mu_core *core = mu_shared_begin(g);
    if (!core) return false;
    int64_t v = core->version - log_length(g->head->n_learners);
    for (v = v > g->head->warm_end ? v : g->head->warm_end; ++v <= core->version;)
        if (entry(g, v)->learner == m->learner) m->slot_version[entry(g, v)->slot] = v;
    mu_shared_cancel(g);
    return true;
}

static mu_status mirror_init(mu_mirror *m, mu_shared *g, int learner, mu_err *err) {
    *m = (mu_mirror){.shared = g, .learner = learner, .view = *g->params};
    m->view.value = mu_own_weights(g, learner);
    for (int k = 0; k < g->head->n_history; k++) m->view.slot[k] = mu_own_history(g, learner, k);
    m->at = mu_alloc_array((size_t)g->params->n, sizeof *m->at, "mirror");
    if (!m->at) return MU_FAIL_NOMEM(err, "the mirror");
    MU_TRY(heal(m, err));
    m->target = atomic_load(version_of(g, learner));
    for (int i = 0; i < g->params->n; i++) m->at[i] = m->target;
    if (find_slots(m)) return MU_OK;
    return MU_FAIL(err, MU_EBACKEND, "learner %d: the protocol's lock is held", learner);
}

// ---- slots ----

static bool all_passed(const mu_shared *g, int64_t version) {
    for (int i = 0; i < g->head->n_learners; i++) {
        int64_t at = atomic_load_explicit(version_of(g, i), memory_order_acquire);
        if (atomic_load(&g->learner[i].mirror_ended)) continue;
        if ((is_torn(at) ? torn(at) : at) < version) return false;
    }
    return true;
}

// Nothing is written between two steps while a snapshot is taken: either the learner sees the pause, or the
// parent sees that it writes, and waits.
static bool start_writing(mu_mirror *m) {
    atomic_store(&m->shared->learner[m->learner].mirror_busy, 1);
    if (!atomic_load(&m->shared->head->pause)) return true;
    atomic_store(&m->shared->learner[m->learner].mirror_busy, 0);
    return false;
}
static void stop_writing(mu_mirror *m) { atomic_store(&m->shared->learner[m->learner].mirror_busy, 0); }

// ---- the learner's side of the exchange ----

static mu_mirror *of(const mu_shared_client *c) { return c->exchange_state; }

// From now on to weights and history of its own. Running statistics stay with these weights.
static mu_status enter(mu_shared_client *c, mu_err *err) {
    mu_shared *g = c->shared;
    mu_mirror *m = c->exchange_state = mu_alloc(sizeof *m, "mirror");
    if (!m) return MU_FAIL_NOMEM(err, "the mirror");
    mu_own_fill(g, c->base.learner, 1);
    MU_TRY(mirror_init(m, g, c->base.learner, err));
    if (c->params) mu_params_rebase(c->params, m->view.value, m->view.slot);
    return MU_OK;
}

static void close_mirror(mu_shared_client *c) {
    if (of(c)) mu_free(of(c)->at);
    mu_free(c->exchange_state);
    c->exchange_state = NULL;
}

// Between two steps: gives a copy to a learner that waits for one. False: others still read the next slot.
static bool may_ask(mu_shared_client *c) {
    mu_mirror *m = of(c);
    int64_t version = m->slot_version[c->accepted % MU_MIRROR_SLOTS];
    bool free_slot = all_passed(m->shared, version);
    if (free_slot && atomic_load_explicit(&m->shared->head->mirror_wanted, memory_order_relaxed) <= 0)
        return true;
    if (!start_writing(m)) return false;
    aim_at_newest(m); // others may wait for this mirror just as well
    follow_all(m);
    give_copy(m); // not older than what is torn: slots behind that may be in use again
    stop_writing(m);
    return all_passed(m->shared, version);
}

static mu_status begin(mu_shared_client *c, MU_UNUSED mu_err *err) {
    aim(of(c));
    return MU_OK;
}

static mu_status collect(mu_shared_client *c, int param, MU_UNUSED mu_err *err) {
    follow_one(of(c), param);
    return MU_OK;
}

// What no layer asked for; then the mirror is whole.
static void computed(mu_shared_client *c) { follow_all(of(c)); }

// The log's entry for core->version, and the staleness in updates.
static void accepted(mu_shared_client *c, const mu_core *core, const mu_gradient_id *id) {
    mu_mirror *m = of(c);
    const mu_shared_head *h = c->shared->head;
    const int64_t before = updates_until(h, core->version - 1), sigma = before - updates_until(h, m->target);
    const mu_step_rate r = c->rate_at(c->rate_ctx, core->version - 1, mu_core_samples(core) - id->rows);
    *entry(c->shared, core->version) = (log_entry){
        .learner = c->base.learner,
        .slot = c->slot,
        .bad = c->bad,
        .weight = c->scale * mu_core_weight(core, sigma, group_of(h)),
        .rate = r.rate,
        .rule_step = {before, r.young, r.stale},
    };
    m->slot_version[c->slot] = core->version;
    atomic_store_explicit(&c->shared->head->rate, r.rate * (double)mu_core_rate_share(core, sigma),
                          memory_order_relaxed);
    mu_shared_client_note_staleness(c, sigma < 0 ? 0 : sigma);
}

static void end(mu_shared_client *c) {
    mu_mirror *m = of(c);
    if (start_writing(m)) {
        aim_at_newest(m);
        follow_all(m);
        stop_writing(m);
    }
    atomic_store(&m->shared->learner[m->learner].mirror_ended, 1); // no learner needs to wait for it any more
}

// ---- the parent's ----

static void open_mirrors(mu_shared *g) {
    for (int i = 0; i < g->head->n_learners; i++) atomic_store(version_of(g, i), g->head->warm_end);
}

static void lost(mu_shared *g, int learner) {
    int64_t version = atomic_load(version_of(g, learner));
    int32_t wanted = atomic_load(&g->head->mirror_wanted);
    atomic_store(&g->learner[learner].mirror_busy, 0);
    if (!mu_own_is_filled(g, learner)) return; // it did not use it yet
    if (!is_torn(version)) atomic_store(version_of(g, learner), torn(version));
    // What it asked for is not needed now, and a copy that it was giving is asked for again. One that it was
    // getting is finished by its giver: a second one meanwhile would write the same memory.
    if (wanted == learner + 1 || (wanted < 0 && giver_of(wanted) == learner))
        (void)atomic_compare_exchange_strong(&g->head->mirror_wanted, &wanted, 0);
}

static bool is_quiet(const mu_shared *g, const mu_core *c) {
    for (int i = 0; i < g->head->n_learners; i++)
        if (atomic_load(&g->learner[i].mirror_busy)) return false;
    return mu_own_is_quiet(g, c);
}

// The newest mirror, brought up to date.
static void copy_out(mu_shared *g, float *value, float *const *slot) {
    int best = -1;
    int64_t at = INT64_MIN;
    for (int i = 0; i < g->head->n_learners; i++) {
        int64_t version = atomic_load(version_of(g, i));
        if (!mu_own_is_filled(g, i)) continue;
        if (version > at) at = version, best = i;
    }
    if (best < 0) { // still the warm start
        mu_exchange_queue.copy_out(g, value, slot);
        return;
    }
    copy_mirror(g, best, value, slot);
    if (is_torn(at)) at = torn(at);
    mu_params view = *g->params;
    view.value = value;
    for (int k = 0; k < g->head->n_history; k++) view.slot[k] = slot[k];
    int64_t to = atomic_load(&g->head->version);
    for (int i = 0; i < view.n; i++) follow(g, &view, i, at, to);
}

const mu_exchange mu_mirror_exchange = {
    .slots = slots,
    .own_blocks = own_blocks,
    .room = room,
    .open = open_mirrors,
    .enter = enter,
    .may_ask = may_ask,
    .is_held = mu_own_is_held,
    .begin = begin,
    .collect = collect,
    .computed = computed,
    .accepted = accepted,
    .end = end,
    .close = close_mirror,
    .lost = lost,
    .is_quiet = is_quiet,
    .copy_out = copy_out,
    .updates = updates_until,
};
