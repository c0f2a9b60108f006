// SPDX-License-Identifier: Apache-2.0
// shared.c - see shared.h: where things lie in the region, its life, and the core under the lock.
#include "ps/shared.h"

#include "ps/exchange.h"
#include "ps/merge.h"
#include "ps/server.h"
#include "ps/workers.h"

#include "base/clock.h"
#include "base/failpoint.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC "MUSTER1"
#define TAG "shared memory"
#define PAGE 4096u
#define TRY_NS 100000000        // of taking the lock, between two signs of life

// ---- layout ----

// Blocks that are streamed together must not begin at the same offset of a page (net/params.c).
static const size_t shift_lines[1 + MU_MAX_SLOTS] = {0, 11, 17, 23};

size_t mu_shared_shift(int block) { return shift_lines[block] * MU_CACHE_LINE; }

static uint64_t place(uint64_t *at, uint64_t bytes, uint64_t align) {
    uint64_t here = (*at + align - 1) / align * align;
    *at = here + bytes;
    return here;
}

static void lay_out(mu_shared_head *h) {
    const mu_exchange *x = mu_exchange_of(&h->setup);
    uint64_t at = sizeof *h, block = h->count * sizeof(float) + PAGE;
    h->at_lock = place(&at, sizeof(mu_lock), 64);
    h->core_bytes = (mu_core_size(h->n_learners) + 63) / 64 * 64;
    h->at_core = place(&at, 2 * h->core_bytes, 64);
    h->at_rw = place(&at, mu_rwlock_size(h->n_processes), 64);
    h->at_ranks = place(&at, (uint64_t)h->n_ranks * sizeof(mu_shared_rank), 64);
    h->at_learners = place(&at, (uint64_t)h->n_processes * sizeof(mu_shared_learner), 64);
    h->at_executors = place(&at, (uint64_t)h->n_executors * sizeof(mu_executor), 64);
    h->workers_stride = mu_workers_row_bytes(h->n_workers);
    h->at_workers = place(&at, (uint64_t)h->n_learners * h->workers_stride, 64);
    h->at_channels = place(&at, (uint64_t)h->n_learners * h->channels_stride, 64);
    const uint64_t most_parts = (uint64_t)mu_core_most_parts(h->n_learners);
    h->at_update = place(&at, sizeof(mu_shared_update) + most_parts * sizeof(mu_update_part), 64);
    h->at_slices = place(&at, (uint64_t)h->n_slices * sizeof(mu_shared_slice), 64);
    h->at_owners = place(&at, (uint64_t)h->n_slices * sizeof(_Atomic int32_t), 64);
    h->at_extra = place(&at, h->extra_bytes, 64);
    h->at_journal = place(&at, h->journal_room ? mu_journal_size(h->journal_room) : 0, 64);
    h->at_weights = place(&at, block, PAGE);
    for (int k = 0; k < h->n_history; k++)
        h->at_history[k] = place(&at, block, PAGE) + mu_shared_shift(1 + k);
    h->own_stride = (block + PAGE - 1) / PAGE * PAGE;
    h->own_blocks = x->own_blocks ? x->own_blocks(h->n_history) : 0;
    h->at_own = place(&at, (uint64_t)h->n_learners * (uint64_t)h->own_blocks * h->own_stride, PAGE);
    h->at_exchange = place(&at, x->room ? x->room(h->n_learners) : 0, 64);
    h->at_snapshot = place(&at, block, PAGE);
    for (int k = 0; k < h->n_history; k++)
        h->at_snapshot_history[k] = place(&at, block, PAGE) + mu_shared_shift(1 + k);
    h->at_slots =
        place(&at, (uint64_t)h->n_learners * (uint64_t)h->n_slots_per_learner * h->slot_bytes, PAGE);
    h->total_bytes = place(&at, 0, PAGE);
}

static void set_pointers(mu_shared *g) {
    char *base = g->region.base;
    mu_shared_head *h = (mu_shared_head *)(void *)base;
    g->head = h;
    g->lock = (mu_lock *)(void *)(base + h->at_lock);
    g->rw = (mu_rwlock *)(void *)(base + h->at_rw);
    g->rank = (mu_shared_rank *)(void *)(base + h->at_ranks);
    g->learner = (mu_shared_learner *)(void *)(base + h->at_learners);
    g->executor = (mu_executor *)(void *)(base + h->at_executors);
    g->update = (mu_shared_update *)(void *)(base + h->at_update);
    g->slice = (mu_shared_slice *)(void *)(base + h->at_slices);
    g->owner = (_Atomic int32_t *)(void *)(base + h->at_owners);
    g->extra = base + h->at_extra;
    g->journal = h->journal_room ? (mu_journal *)(void *)(base + h->at_journal) : NULL;
    g->weights = (float *)(void *)(base + h->at_weights);
    g->snapshot = (float *)(void *)(base + h->at_snapshot);
    for (int k = 0; k < h->n_history; k++) {
        g->history[k] = (float *)(void *)(base + h->at_history[k]);
        g->snapshot_history[k] = (float *)(void *)(base + h->at_snapshot_history[k]);
    }
    g->slots = base + h->at_slots;
    g->exchange_room = base + h->at_exchange;
}

// ---- what the exchange decides ----

void mu_shared_copy_out(mu_shared *g, float *value, float *const *slot) {
    mu_exchange_of(g->setup)->copy_out(g, value, slot);
}

int64_t mu_shared_updates(const mu_shared *g, int64_t version) {
    const mu_exchange *x = mu_exchange_of(g->setup);
    return x->updates ? x->updates(g->head, version) : version;
}

void mu_shared_lost(mu_shared *g, int process) {
    const mu_exchange *x = mu_exchange_of(g->setup);
    mu_server_repair(g, process);
    mu_rwlock_clear(g->rw, process);
    if (x->lost) x->lost(g, process / g->head->n_workers);
}

// ---- the core's two copies ----

static mu_core *core_at(const mu_shared *g, int i) {
    return (mu_core *)(void *)(g->region.base + g->head->at_core + (uint64_t)i * g->head->core_bytes);
}

// ---- who gives what ----

// The parameter in this set that is a piece of the partition; -1 = there is none.
static int find_piece(const mu_params *ps, const mu_piece *piece) {
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        if (p->whole == piece->whole && p->row0 == piece->row0 && mu_param_rows(p) == piece->rows) return i;
    }
    return -1;
}

// Every piece once, as one of the workers has it.
static mu_status list_pieces(mu_shared *g, const mu_shared_opts *o, mu_err *err) {
    const mu_partition *p = o->partition;
    g->pieces = o->params;
    if (!p && !o->first) return MU_OK;
    mu_params *own = g->own_pieces = mu_alloc(sizeof *own, TAG);
    if (!own) return MU_FAIL_NOMEM(err, "the list of pieces");
    g->pieces = own;
    *own = *o->params;
    if (!p) return MU_OK;
    *own = (mu_params){.n = p->n_pieces, .count = o->params->count, .n_slots = o->params->n_slots};
    own->list = mu_alloc_array((size_t)p->n_pieces + 1, sizeof *own->list, TAG);
    if (!own->list) return MU_FAIL_NOMEM(err, "the list of pieces");
    for (int i = 0; i < p->n_pieces; i++)
        for (int w = 0; w < p->workers; w++) {
            const mu_params *ps = o->worker_net[w]->params;
            const int k = find_piece(ps, &p->piece[i]);
            if (k >= 0) own->list[i] = ps->list[k];
        }
    return MU_OK;
}

static mu_status share_make(mu_share *s, const mu_shared *g, const mu_params *params, size_t at,
                            mu_err *err) {
    const int n = g->pieces->n;
    *s = (mu_share){.params = params, .at = at};
    MU_TRY(mu_message_layout_make(params, &s->message, err));
    s->index = mu_alloc_array((size_t)n + 1, sizeof *s->index, TAG);
    s->piece = mu_alloc_array((size_t)params->n + 1, sizeof *s->piece, TAG);
    if (!s->index || !s->piece) return MU_FAIL_NOMEM(err, "the shares of workers");
    for (int i = 0; i < n; i++) {
        s->index[i] = g->partition ? find_piece(params, &g->partition->piece[i]) : i;
        if (s->index[i] >= 0) s->piece[s->index[i]] = i;
    }
    return MU_OK;
}

static mu_status make_shares(mu_shared *g, const mu_shared_opts *o, mu_err *err) {
    const int n = o->setup->workers;
    g->partition = o->partition;
    MU_TRY(list_pieces(g, o, err));
    g->share = mu_alloc_array((size_t)n, sizeof *g->share, TAG);
    if (!g->share) return MU_FAIL_NOMEM(err, "the shares of workers");
    for (int w = 0; w < n; w++) {
        const size_t at = w ? g->share[w - 1].at + g->share[w - 1].message.bytes : 0;
        MU_TRY(share_make(&g->share[w], g, o->partition ? o->worker_net[w]->params : o->params, at, err));
    }
    return MU_OK;
}

static size_t message_bytes(const mu_shared *g) {
    const mu_share *last = &g->share[g->setup->workers - 1];
    return last->at + last->message.bytes;
}

static void free_shares(mu_shared *g) {
    for (int w = 0; g->share && w < g->setup->workers; w++) {
        mu_message_layout_fini(&g->share[w].message);
        mu_free(g->share[w].index);
        mu_free(g->share[w].piece);
    }
    mu_free(g->share);
    if (g->own_pieces && g->partition) mu_free(g->own_pieces->list);
    mu_free(g->own_pieces);
}

// ---- life ----

static void fill_head(mu_shared_head *h, const mu_shared *g, const mu_shared_opts *o) {
    const mu_setup *p = o->setup;
    const int slots = mu_exchange_of(p)->slots(p);
    const int64_t sync = mu_setup_sync_versions(p, o->core->warm_versions), first = o->core->first_version;
    *h = (mu_shared_head){
        .head_bytes = sizeof *h,
        .n_learners = p->learners,
        .n_workers = p->workers,
        .n_processes = mu_setup_processes(p),
        .own_first = mu_setup_first_learner(p),
        .own_n = mu_setup_own_learners(p),
        .n_ranks = o->n_ranks > 1 && !o->first ? o->n_ranks : 0,
        .own_process = mu_setup_first_process(p),
        .own_processes = mu_setup_own_processes(p),
        .group = o->first ? o->group : 0,
        .n_groups = o->n_groups > 1 ? o->n_groups : 1,
        .n_executors = mu_setup_processes(p) + p->server_threads,
        .n_params = o->params->n,
        .n_slots_per_learner = slots > MU_CORE_SLOTS ? slots : MU_CORE_SLOTS, // warm starts need these
        .n_history = o->params->n_slots,
        .n_slices = g->slices.n,
        .count = o->params->count,
        .slot_bytes = (sizeof(mu_slot_head) + message_bytes(g) + 63) / 64 * 64,
        .channels_stride = mu_workers_channels_bytes(o->partition),
        .extra_bytes = o->extra_bytes,
        .journal_room = o->record ? mu_journal_room(p->learners) : 0,
        .rows = p->rows,
        .global_batch = p->global_batch,
        .n_records = o->n_records,
        .end_steps = o->end_steps,
        .end_epochs = o->end_epochs,
        .rate_factor = p->rate_factor,
        .warm_end = first + o->core->warm_versions,
        .sync_end = sync > INT64_MAX - first ? INT64_MAX : first + sync,
        .start_ns = mu_clock_ns(),
        .alone = o->alone,
        .counts_moved = o->alone || mu_exchange_of(p) == &mu_exchange_queue,
        .first_sample = o->core->first_sample,
        .setup = *p,
    };
    memcpy(h->magic, MAGIC, sizeof MAGIC);
    snprintf(h->run_id, sizeof h->run_id, "%s", o->run_id);
    snprintf(h->job_name, sizeof h->job_name, "%s", o->job_name);
    snprintf(h->run_dir, sizeof h->run_dir, "%s", o->run_dir ? o->run_dir : "");
    snprintf(h->protocol, sizeof h->protocol, "%s", p->protocol->name);
    lay_out(h);
}

static mu_status number_slices(mu_shared *g, mu_err *err) {
    g->first_slice = mu_alloc_array((size_t)g->pieces->n + 1, sizeof *g->first_slice, TAG);
    if (!g->first_slice) return MU_FAIL_NOMEM(err, "the list of slices");
    for (int i = 0; i < g->slices.n; i++) g->first_slice[g->slices.range[i].param + 1] = i + 1;
    for (int p = 0; p < g->pieces->n; p++) // a piece without slices begins where the one before ended
        if (g->first_slice[p + 1] < g->first_slice[p]) g->first_slice[p + 1] = g->first_slice[p];
    return MU_OK;
}

// Pieces are applied in the blocks of the wholes, wherever these are.
static void follow_params(mu_shared *g) {
    mu_params *own = g->own_pieces;
    if (!own) return;
    own->value = g->weights;
    for (int k = 0; k < own->n_slots; k++) own->slot[k] = g->history[k];
}

static void copy_params(mu_shared *g) {
    const mu_params *ps = g->params;
    const size_t bytes = ps->count * sizeof(float);
    memcpy(g->weights, ps->value, bytes);
    for (int k = 0; k < ps->n_slots; k++) memcpy(g->history[k], ps->slot[k], bytes);
    follow_params(g);
}

static void adopt_params(mu_shared *g) {
    mu_params *ps = g->params;
    g->own_value = ps->value;
    for (int k = 0; k < ps->n_slots; k++) g->own_slot[k] = ps->slot[k];
    mu_params_rebase(ps, g->weights, g->history);
}

// Are most of the weights such that two updates of one gradient each are made in one pass over them?
static bool pairs_pay(const mu_shared *g) {
    const mu_message_layout *m = &g->share[0].message;
    size_t n = 0;
    for (int i = 0; i < m->n; i++) {
        const mu_param *p = g->params->list[i];
        const bool few = m->part[i].form == MU_GRAD_FACTORS && m->part[i].max_batch <= MU_TERMS;
        if (few && mu_updater_takes_outer(g->updater, p)) n += p->count;
    }
    return g->updater->class->pairs && n > g->params->count / 2;
}

static void init_core(mu_shared *g, const mu_shared_opts *o) {
    mu_core_config config = *o->core;
    // Recorded updates keep what they change, piece by piece: no two of them are made in one pass.
    config.pairs = !o->alone && !o->record && o->setup->workers == 1 && pairs_pay(g);
    mu_core_init(core_at(g, 0), &config);
}

static mu_status open_region(mu_shared *g, const mu_shared_opts *o, mu_err *err) {
    mu_shared_head head;
    MU_TRY(make_shares(g, o, err));
    MU_TRY(mu_slices_make(g->pieces, &g->slices, err));
    MU_TRY(number_slices(g, err));
    fill_head(&head, g, o);
    if (head.n_executors > MU_MAX_EXECUTORS)
        return MU_FAIL(err, MU_EJOB, "at most %d learners or server threads on one machine",
                       MU_MAX_EXECUTORS);
    MU_TRY(mu_region_create(o->run_id, head.total_bytes, &g->region, err));
    memcpy(g->region.base, &head, sizeof head);
    set_pointers(g);
    MU_TRY(mu_lock_init(g->lock, err));
    mu_rwlock_init(g->rw, head.n_processes);
    if (g->journal) g->journal->n = head.journal_room;
    init_core(g, o);
    for (int i = 0; i < head.n_slices; i++) atomic_store(&g->slice[i].version, o->core->first_version);
    if (mu_exchange_of(g->setup)->open) mu_exchange_of(g->setup)->open(g);
    atomic_store(&g->head->halt, INT64_MAX);
    atomic_store(&g->head->version, o->core->first_version);
    atomic_store(&g->head->samples, o->core->first_sample);
    atomic_store(&g->head->phase, core_at(g, 0)->phase);
    atomic_store(&g->head->phase_version, core_at(g, 0)->phase_version);
    return MU_OK;
}

mu_status mu_shared_create(const mu_shared_opts *o, mu_shared *out, mu_err *err) {
    mu_shared g = {.params = o->params, .updater = o->updater, .setup = o->setup, .region.fd = -1};
    g.self = (int32_t)getpid();
    mu_status st = open_region(&g, o, err);
    if (st != MU_OK) {
        mu_shared_close(&g);
        return st;
    }
    copy_params(&g);
    if (!o->first) adopt_params(&g);
    *out = g;
    out->parent = o->first ? o->first->parent : &out->head->parent;
    return MU_OK;
}

static bool is_ours(const mu_region *r) {
    const mu_shared_head *h = (const mu_shared_head *)(const void *)r->base;
    return r->size >= sizeof *h && !memcmp(h->magic, MAGIC, sizeof MAGIC) && h->head_bytes == sizeof *h &&
           h->total_bytes == r->size;
}

static mu_status attach_one(pid_t pid, int fd, mu_shared *out, mu_err *err) {
    mu_shared g = {.self = (int32_t)getpid()};
    MU_TRY(mu_region_attach(pid, fd, true, &g.region, err));
    if (!is_ours(&g.region)) {
        mu_region_close(&g.region);
        MU_FAIL(err, MU_EUSAGE, "process %d belongs to another version of this program", (int)pid);
        mu_err_hint(err, "Use the program that started the run.");
        return MU_EUSAGE;
    }
    set_pointers(&g);
    *out = g;
    return MU_OK;
}

mu_status mu_shared_attach(pid_t pid, int fd, mu_shared *out, mu_err *err) {
    MU_TRY(attach_one(pid, fd, out, err));
    mu_shared *last = out;
    for (int i = 1, n = out->head->n_groups; i < n && i < MU_MERGE_GROUPS; i++) {
        mu_status st = MU_ENOMEM;
        last->next = mu_alloc(sizeof *last->next, TAG);
        if (last->next) st = attach_one(pid, atomic_load(&last->head->next_fd), last->next, err);
        else MU_FAIL_NOMEM(err, "a view of the run");
        if (st != MU_OK) {
            mu_free(last->next);
            last->next = NULL;
            mu_shared_close(out);
            return st;
        }
        last = last->next;
    }
    return MU_OK;
}

mu_shared_learner *mu_shared_row(const mu_shared *g, int process) {
    for (; g; g = g->next) {
        if (process < g->head->n_processes) return &g->learner[process];
        process -= g->head->n_processes;
    }
    return NULL;
}

int mu_shared_all_processes(const mu_shared *g) {
    int n = 0;
    for (; g; g = g->next) n += g->head->n_processes;
    return n;
}

uint64_t mu_shared_done(const mu_shared *g) {
    uint64_t done = (uint64_t)atomic_load(&g->head->version) + atomic_load(&g->head->held_pulse);
    for (int i = 0; i < g->head->n_processes; i++)
        if (atomic_load(&g->learner[i].doing) != MU_DOING_WAIT) done += atomic_load(&g->learner[i].pulse);
    return done;
}

void mu_shared_close(mu_shared *g) {
    if (g->next) mu_shared_close(g->next);
    mu_free(g->next);
    free_shares(g);
    mu_slices_fini(&g->slices);
    mu_free(g->first_slice);
    if (g->region.base) mu_region_close(&g->region);
    *g = (mu_shared){.region.fd = -1};
}

void mu_shared_give_back(mu_shared *g, const float *value, float *const *slot) {
    const size_t bytes = g->params->count * sizeof(float);
    memcpy(g->own_value, value, bytes);
    for (int k = 0; k < g->params->n_slots; k++) memcpy(g->own_slot[k], slot[k], bytes);
    mu_params_rebase(g->params, g->own_value, g->own_slot);
    g->own_value = NULL;
}

void mu_shared_release(mu_shared *g) {
    mu_params *ps = g->params;
    if (g->own_value) {
        mu_shared_copy_out(g, g->own_value, g->own_slot);
        mu_params_rebase(ps, g->own_value, g->own_slot);
    }
    mu_shared_close(g);
}

void mu_shared_ring_all(mu_shared *g) {
    mu_bell_ring(&g->head->turn);
    mu_bell_ring(&g->head->work);
    for (int i = 0; i < g->head->n_processes; i++) {
        mu_bell_ring(&g->learner[i].turn);
        mu_bell_ring(&g->learner[i].leases);
    }
}

// ---- the core, crash-safe ----

// What is read without the lock. After a death inside commit the next one to take the lock does it again.
static void publish(mu_shared *g, const mu_core *c) {
    atomic_store_explicit(&g->head->samples, mu_core_samples(c), memory_order_relaxed);
    atomic_store_explicit(&g->head->waiting, c->fifo_n + c->n_parts, memory_order_relaxed);
    atomic_store_explicit(&g->head->phase, c->phase, memory_order_relaxed);
    atomic_store_explicit(&g->head->phase_version, c->phase_version, memory_order_relaxed);
    atomic_store_explicit(&g->head->halt, c->halt, memory_order_relaxed);
    atomic_store_explicit(&g->head->version, c->version, memory_order_release);
    if (c->version >= c->halt && g->parent) mu_bell_ring(g->parent); // it may want to merge
}

mu_core *mu_shared_begin(mu_shared *g) {
    // The process that waits here is alive; a holder of the lock that is not is killed by the watchdog.
    mu_lock_result got = MU_LOCK_TIMEOUT;
    // Tries are counted, not time: a process that was stopped has not waited.
    int64_t tries = g->pulse ? (int64_t)(10e9 * g->head->setup.hang_timeout / TRY_NS) : 0;
    while ((got = mu_lock_take(g->lock, TRY_NS)) == MU_LOCK_TIMEOUT && tries-- > 0)
        if (g->pulse) atomic_fetch_add_explicit(g->pulse, 1, memory_order_relaxed);
    if (got == MU_LOCK_TIMEOUT) return NULL;
    atomic_fetch_add_explicit(&g->head->held, 1, memory_order_relaxed);
    atomic_store_explicit(&g->head->holder, g->self, memory_order_release);
    int good = atomic_load(&g->head->core_at);
    mu_core *from = core_at(g, good), *spare = core_at(g, 1 - good);
    if (got == MU_LOCKED_AFTER_DEATH) {
        atomic_fetch_add(&g->head->lock_repairs, 1);
        publish(g, from);
    }
    (void)mu_core_catch_up(spare, from);
    mu_failpoint("shared/inside-lock");
    return spare;
}

void mu_shared_switch(mu_shared *g) {
    int spare = 1 - atomic_load(&g->head->core_at);
    atomic_store(&g->head->core_at, spare);
    mu_core_retire(core_at(g, 1 - spare));
    mu_failpoint("shared/switched");
    publish(g, core_at(g, spare));
}

void mu_shared_unlock(mu_shared *g) {
    atomic_store_explicit(&g->head->holder, 0, memory_order_relaxed);
    mu_lock_unlock(g->lock);
}

void mu_shared_commit(mu_shared *g) {
    mu_shared_switch(g);
    mu_shared_unlock(g);
}

void mu_shared_cancel(mu_shared *g) { mu_shared_unlock(g); }
