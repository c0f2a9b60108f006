// SPDX-License-Identifier: Apache-2.0
// g_shared.c - learner processes on this machine that share memory with a parameter server: the parent's
// part.
//
// The parent computes nothing. It makes the shared memory, starts the children, watches and replaces them,
// takes snapshots for the evaluator process, and at the end takes the weights back into the session. An
// advance is one look at them all.
#include "learners/gradients.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/live.h"
#include "learners/load.h"
#include "learners/record.h"
#include "learners/watchdog.h"
#include "ps/moved.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 5000000         // between two looks at the children when nothing rings
#define SNAPSHOT_NS 500000      // the same while a snapshot is wanted

typedef struct shared_run {
    mu_training *t;
    mu_shared     shared;
    mu_watchdog  dog;
    mu_position  begin;                 // where it began
    mu_range    *open;                  // (mu_core_most_open) for mu_server_point
    mu_recorder *recorder;              // NULL = the run is not recorded
    bool         pausing;               // a snapshot is wanted; no update begins
    double       pause_s;               // since when
    bool         ending;                // learners are to end
    bool         told;                  // and were told
    bool         opened, started;       // the shared memory; the children
    bool         looked;                // once
    uint32_t     rung;                  // the parent's bell at the last look
    mu_load      load;
    mu_advance   seen;                  // sums already taken from the learners' rows
} shared_run;

static bool wants(const mu_session *s, const mu_run_opts *o) {
    return mu_session_forks(s) || o->record;
}

// ---- the beginning ----

// Leases are large enough that small batches do not take the lock for each, and small enough that in a short
// run no learner holds what others should do. In the long run each learner does one gradient a step.
static void set_leases(mu_core_config *cfg, double steps) {
    int64_t batches = cfg->rows >= 64 ? 1 : 64 / cfg->rows < 16 ? 64 / cfg->rows : 16;
    if ((double)batches > steps / 32) batches = (int64_t)(steps / 32);
    cfg->lease_batches = batches < 1 ? 1 : (int32_t)batches;
    double most = steps / 4 / cfg->lease_batches;
    cfg->max_leases = most < 2 ? 2 : most > MU_CORE_LEASES ? MU_CORE_LEASES : (int32_t)most;
}

static mu_core_config config_of(const shared_run *c) {
    const mu_setup *p = &c->t->s->setup;
    const mu_position *at = &c->begin;
    const double end_steps = c->t->end.steps;
    mu_core_config cfg = {
        .learners = p->learners,
        .scale_free = p->stale.scale_free,
        .n_phases = p->n_phases,
        .longest_run = MU_CORE_RUN,
        .global_batch = p->global_batch,
        .rows = p->rows,
        .first_version = at->step + at->extra_updates,
        .first_sample = at->samples,
        .end_sample = mu_end_sample(c->t->s, at),
        .warm_versions = p->warm_versions > at->step ? p->warm_versions - at->step : 0,
    };
    for (int i = 0; i < p->n_phases; i++) {
        const mu_setup_phase *f = &p->phase[i];
        cfg.phase[i] = (mu_core_phase){f->until, f->protocol, f->splits, f->bound, f->own,
                                       (int32_t)f->rate_rule, mu_stale_gradient_scale(&f->stale)};
    }
    cfg.protocol = cfg.phase[0].protocol; // those that are all in step have one
    set_leases(&cfg, end_steps > 0 ? end_steps - (double)at->step : INFINITY);
    return cfg;
}

static mu_status open_shared(shared_run *c, mu_err *err) {
    mu_training *t = c->t;
    mu_core_config cfg = config_of(c);
    char id[MU_RUN_ID];
    if (t->o->no_files) snprintf(id, sizeof id, "%.40s-%d", t->s->job->name, (int)getpid());
    else mu_rundir_id(t->dir.path, id);
    mu_shared_opts o = {
        .run_id = id,
        .job_name = t->s->job->name,
        .run_dir = t->dir.path,
        .setup = &t->s->setup,
        .core = &cfg,
        .params = t->s->params,
        .partition = t->s->partition,
        .worker_net = t->s->worker_net,
        .updater = t->s->updater,
        .n_records = mu_source_n_records(t->s->train.source),
        .end_steps = (int64_t)t->end.steps,
        .end_epochs = t->end.epochs,
        .extra_bytes = sizeof(mu_learners_room),
        .record = t->o->record != NULL,
    };
    MU_TRY(mu_shared_create(&o, &c->shared, err));
    atomic_store(&c->shared.head->parent_pid, (int32_t)getpid());
    atomic_store(&c->shared.head->rate, mu_effective_rate_at(t->s, &c->begin, &t->end));
    atomic_store(&c->shared.head->time_share, c->begin.time_share);
    if (t->o->no_files) return MU_OK;
    return mu_live_write(t->dir.path, getpid(), c->shared.region.fd, id, err);
}

// ---- the log ----

// A log needs every gradient computed on a copy of the weights of one version, taken under the lock.
static mu_status prepare(mu_session *s, const mu_run_opts *o, mu_err *err) {
    const mu_train_opts *t = &s->job->train;
    mu_status st = MU_EUSAGE;
    if (!o->record) return MU_OK;
    mu_objection no;
    if (mu_protocol_objects(s->setup.protocol, MU_CHOICE_RECORD, &no)) {
        MU_FAIL(err, st, "%s cannot be recorded: %s", s->setup.protocol->name, no.why);
        mu_err_hint(err, "%s", no.instead);
    } else if (t->nonfinite == MU_NONFINITE_ROLLBACK) {
        MU_FAIL(err, st, "a run that may go back to a checkpoint cannot be recorded");
        mu_err_hint(err, "Set `train.nonfinite` to stop or skip.");
    } else if (s->setup.workers > 1) {
        MU_FAIL(err, st, "a run whose learners have several workers cannot be recorded");
        mu_err_hint(err, "Leave out `cluster.workers`: one process makes the same gradients.");
    } else if (t->accumulate > 1) {
        MU_FAIL(err, st, "`train.accumulate` cannot be recorded");
        mu_err_hint(err, "One learner alone repeats itself; no log is needed.");
    } else if (o->resume) {
        MU_FAIL(err, st,
                "a resumed run cannot be recorded: its checkpoint will be gone when it is to be repeated");
        mu_err_hint(err, "Begin a new run with `train.init_from` at that checkpoint, and record that.");
    } else {
        s->setup.weights = MU_WEIGHTS_COPY;
        s->setup.locks = true;
        st = MU_OK;
    }
    return st;
}

static mu_status open_log(shared_run *c, mu_err *err) {
    const mu_training *t = c->t;
    const mu_shared *g = &c->shared;
    if (!t->o->record) return MU_OK;
    mu_runlog_head h = {
        .learners = g->setup->learners,
        .rows = g->setup->rows,
        .global_batch = g->setup->global_batch,
        .seed = t->s->job->seed,
        .first_version = atomic_load(&g->head->version),
        .first_sample = c->begin.samples,
        .job_hash = mu_job_hash(t->s->job),
        .layout = mu_runlog_layout(t->s->params, &g->share[0].message, g->slices.n),
        .sets = t->o->sets,
        .n_sets = t->o->n_sets,
    };
    snprintf(h.protocol, sizeof h.protocol, "%s", g->setup->protocol->name);
    mu_runlog_sum(t->s->params, h.start);
    return mu_recorder_open(t->o->record, &h, &c->recorder, err);
}

static void log_failed(const shared_run *c, const mu_err *err) {
    mu_training_say(c->t, "%s; the log ends here, training goes on", err->msg);
}

static void drain_journal(shared_run *c) {
    mu_err err = {0};
    if (c->recorder && mu_recorder_drain(c->recorder, c->shared.journal, &err) != MU_OK) log_failed(c, &err);
}

// whole: the run came to its end; where it stood is in c->t.
static void close_log(shared_run *c, bool whole) {
    mu_err err = {0};
    if (!c->recorder) return;
    drain_journal(c);
    mu_runlog_end end = {
        .version = atomic_load(&c->shared.head->version), .step = c->t->at.step, .samples = c->t->at.samples};
    mu_runlog_sum(c->t->s->params, end.weights);
    if (mu_recorder_close(c->recorder, whole ? &end : NULL, &err) != MU_OK) log_failed(c, &err);
    c->recorder = NULL;
}

// ---- what the learners have done ----

// Where a training stands after so many samples and updates.
static mu_position position_of(const shared_run *c, int64_t samples, int64_t version) {
    mu_position p = mu_position_at(c->t->s, &c->begin, samples);
    p.extra_updates = mu_shared_updates(&c->shared, version) - p.step;
    p.version = c->begin.version + version - (c->begin.step + c->begin.extra_updates);
    p.applied = c->begin.applied + samples - c->begin.samples;
    p.time_share = atomic_load(&c->shared.head->time_share);
    return p;
}

// Where a run stands whose weights are those of p: also what it has finished out of order. What the list has
// no room for will be done again.
static void stand_at(const shared_run *c, mu_server_point *p, mu_position *at, mu_finished *finished) {
    *finished = c->t->finished;
    mu_finished_extend(finished, p->open, p->n_open, p->next);
    *at = position_of(c, mu_finished_count(finished), p->version);
    at->applied = c->begin.applied + p->applied;
    at->repeated = c->begin.repeated + finished->dropped;
    finished->dropped = 0;
}

static void refresh(shared_run *c, mu_advance *out) {
    mu_shared_head *h = c->shared.head;
    atomic_store(&h->time_share, mu_training_time_share(c->t));
    c->t->at = position_of(c, atomic_load(&h->samples), atomic_load(&h->version));
    c->t->rate = atomic_load(&h->rate);
    mu_advance now = {0};
    for (int i = 0; i < h->n_processes; i++) {
        const mu_shared_learner *l = &c->shared.learner[i];
        now.loss_sum += atomic_load(&l->loss_sum);
        now.accuracy_sum += atomic_load(&l->accuracy_sum);
        now.n += atomic_load(&l->loss_n);
        now.learners += i % h->n_workers == 0 && atomic_load(&l->pid) != 0;
    }
    *out = (mu_advance){.loss_sum = now.loss_sum - c->seen.loss_sum,
                        .accuracy_sum = now.accuracy_sum - c->seen.accuracy_sum,
                        .n = now.n - c->seen.n,
                        .learners = now.learners};
    c->seen = now;
}

// ---- snapshots ----

static void ask_evaluator(shared_run *c, const mu_snapshot_task *task) {
    mu_evaluator_box *box = c->shared.extra;
    box->task = *task;
    atomic_store(&box->state, MU_EVALUATOR_ASKED);
    mu_bell_ring(&box->bell);
}

static void pause_updates(shared_run *c) {
    c->pausing = true;
    c->pause_s = mu_clock_s();
    mu_server_pause(&c->shared, true);
}

// True: the snapshot is taken and the evaluator asked, or it was waited for too long.
static bool take_snapshot(shared_run *c, const mu_snapshot_task *task, mu_snapshot_answer *out) {
    mu_evaluator_box *box = c->shared.extra;
    mu_server_point point = {.open = c->open};
    const bool got = mu_server_snapshot(&c->shared, &point);
    const double waited = mu_clock_s() - c->pause_s;
    out->missed = !got && waited >= 3 * c->shared.setup->hang_timeout;
    if (!got && !out->missed) return false;
    mu_server_pause(&c->shared, false);
    c->pausing = false;
    if (out->missed) {
        mu_err_clear(&out->error);
        MU_FAIL(&out->error, MU_EBACKEND, "no quiet moment for a snapshot in %.0f s", waited);
        return true;
    }
    stand_at(c, &point, &box->answer.at, &box->answer.finished);
    ask_evaluator(c, task);
    return true;
}

// The weights that the training holds become the snapshot.
static void put_kept(shared_run *c) {
    mu_evaluator_box *box = c->shared.extra;
    const mu_kept *k = &c->t->kept;
    mu_kept_copy_out(k, c->shared.snapshot, c->shared.snapshot_history);
    box->answer.at = k->at;
    box->answer.finished = k->finished;
}

static void weights(void *state, const float **value, float *const **slot) {
    shared_run *c = state;
    *value = c->shared.snapshot;
    *slot = c->shared.snapshot_history;
}

static mu_status snapshot(void *state, const mu_snapshot_task *task, mu_snapshot_answer *out, bool *done,
                          MU_UNUSED mu_err *err) {
    shared_run *c = state;
    mu_evaluator_box *box = c->shared.extra;
    *done = false;
    const int32_t box_state = atomic_load(&box->state);
    if (box_state == MU_EVALUATOR_ASKED) return MU_OK;
    if (box_state == MU_EVALUATOR_DONE) {
        *out = box->answer;
        out->paused_s = 0; // the learners went on
        *done = true;
        atomic_store(&box->state, MU_EVALUATOR_IDLE);
    } else if (task->same) {
        if (task->kept) put_kept(c);
        ask_evaluator(c, task);
    } else {
        if (!c->pausing) pause_updates(c);
        *done = take_snapshot(c, task, out) && out->missed;
    }
    return MU_OK;
}

// ---- one look ----

static void tell_learners_to_end(shared_run *c) {
    mu_core *core = mu_shared_begin(&c->shared);
    if (!core) return; // again at the next look
    mu_core_stop(core);
    mu_shared_commit(&c->shared);
    c->told = true;
    atomic_store(&c->shared.head->state, MU_RUN_ENDING);
    mu_shared_ring_all(&c->shared);
}

static void end(void *state) { ((shared_run *)state)->ending = true; }

static mu_status advance(void *state, mu_advance *out, mu_err *err) {
    shared_run *c = state;
    mu_training *t = c->t;
    mu_shared_head *h = c->shared.head;
    if (c->looked) (void)mu_bell_wait(&h->parent, c->rung, 0, c->pausing ? SNAPSHOT_NS : LOOK_NS);
    c->rung = mu_bell_read(&h->parent); // what rings from here on is seen by the next look
    c->looked = true;
    drain_journal(c);
    MU_TRY(mu_watchdog_look(&c->dog, err));
    refresh(c, out);
    mu_learners_load load;
    if (!c->ending && mu_load_look(&c->load, &c->shared, &load)) mu_advisor_measured(t, &load);
    if (atomic_load(&h->stop_asked) && !t->why) t->why = "stop";
    if (c->ending && !c->told) tell_learners_to_end(c);
    out->ended = mu_watchdog_all_ended(&c->dog);
    if (out->ended && !mu_training_finished(t))
        t->why = t->s->job->train.steps > 0 ? "steps" : "epochs"; // all samples are used
    return MU_OK;
}

// ---- the end ----

// No child is left. What dead executors left half done is put right, and what lies in the queues is applied:
// the last learner may have gone during a pause, and the server before it saw the last gradients.
static mu_status drain(shared_run *c, mu_err *err) {
    mu_shared *g = &c->shared;
    mu_advance rest;
    mu_server_pause(g, false);
    for (int i = 0; i < g->head->n_executors; i++) mu_server_repair(g, i);
    for (int i = 0; i < g->head->n_processes; i++) mu_rwlock_clear(g->rw, i);
    mu_role role = {.session = c->t->s, .shared = g, .begin = &c->begin, .end = &c->t->end};
    mu_server s;
    MU_TRY(mu_server_init(&s, g, 0, mu_role_step_rate, &role, err));
    s.look_ns = 0;
    do drain_journal(c);
    while (mu_server_turn(&s) == MU_TURN_WORKED);
    mu_server_fini(&s);
    refresh(c, &rest);
    c->t->loss_sum += rest.loss_sum;
    c->t->accuracy_sum += rest.accuracy_sum;
    c->t->loss_n += rest.n;
    return MU_OK;
}

static void sum_up_staleness(const mu_shared *g, mu_learners_result *r) {
    double sum = 0, n = 0;
    for (int i = 0; i < g->head->n_processes; i++) {
        const mu_shared_learner *l = &g->learner[i];
        sum += (double)atomic_load(&l->stale_sum);
        n += (double)atomic_load(&l->n_stale);
        int64_t most = atomic_load(&l->stale_max);
        if (most > r->staleness_max) r->staleness_max = most;
        for (int b = 0; b < MU_STALENESS_BINS; b++) {
            r->staleness_hist[b] += atomic_load(&l->stale_hist[b]);
            if (r->staleness_hist[b] && b >= r->most_staleness) r->most_staleness = b + 1;
        }
        r->records_read += atomic_load(&l->records);
        r->compute_s += 1e-9 * (double)atomic_load(&l->compute_ns);
        r->wait_s += 1e-9 * (double)atomic_load(&l->wait_ns);
        r->apply_s += 1e-9 * (double)atomic_load(&l->apply_ns);
    }
    r->staleness_mean = n > 0 ? sum / n : 0;
    r->overlap = r->compute_s > 0 ? r->compute_s / (r->compute_s + r->wait_s) : 0;
}

static mu_core *begin_alone(shared_run *c, mu_err *err) {
    mu_core *core = mu_shared_begin(&c->shared);
    if (!core)
        MU_FAIL(err, MU_EBACKEND,
                "the lock of the protocol is held, but no process that could hold it lives");
    return core;
}

// No learner is left. From here on the training stands where its weights do: what waits is not in them.
static mu_status settle(shared_run *c, bool well, mu_err *err) {
    mu_training *t = c->t;
    mu_server_point point = {.open = c->open};
    mu_finished finished;
    const mu_core *core = begin_alone(c, err);
    if (!core) return MU_EBACKEND;
    mu_server_read_point(core, &point);
    const int64_t used = core->samples_applied + core->samples_rejected;
    mu_shared_cancel(&c->shared);
    if (well && t->loss_n) mu_training_log(t); // of what was done; the position may go back a little
    stand_at(c, &point, &t->at, &finished);
    t->finished = finished;
    const int64_t done = t->at.samples - c->begin.samples + t->at.repeated - c->begin.repeated;
    if (done == used) return MU_OK;
    return MU_FAIL(err, MU_EBACKEND, "the samples do not balance: %lld used, %lld finished", (long long)used,
                   (long long)done);
}

static mu_status sum_up(shared_run *c, mu_learners_result *r, mu_err *err) {
    const mu_setup *p = c->shared.setup;
    mu_core *core = begin_alone(c, err);
    if (!core) return MU_EBACKEND;
    mu_core_abandon(core); // what still waits counts as rejected, what was computed as lost
    mu_ledger ledger = mu_core_ledger(core);
    char why[160];
    bool sound = mu_core_check(core, why, sizeof why);
    *r = (mu_learners_result){
        .count = p->learners,
        .protocol = p->protocol->name,
        .rows = p->rows,
        .global_batch = p->global_batch,
        .versions = core->version - core->config.first_version,
        .produced = ledger.produced,
        .applied = ledger.applied,
        .rejected = ledger.rejected,
        .lost = ledger.lost,
        .learners_lost = c->dog.lost,
        .learners_replaced = c->dog.replaced,
        .server_lost = c->dog.server_lost,
        .lock_repairs = atomic_load(&c->shared.head->lock_repairs),
        .torn_updates = atomic_load(&c->shared.head->torn_updates),
        .bad_records = mu_source_get_stats(c->t->s->train.source).n_bad,
        .rate_effective = atomic_load(&c->shared.head->rate),
        .replace_p50_s = mu_watchdog_replace_s(&c->dog, 0.5),
        .replace_p99_s = mu_watchdog_replace_s(&c->dog, 0.99),
    };
    mu_shared_cancel(&c->shared);
    sum_up_staleness(&c->shared, r);
    r->steps = (double)(c->t->at.samples - c->begin.samples) / (double)p->global_batch;
    r->counts_moved = mu_moved(&c->shared, &r->moved);
    c->t->ps.skipped += atomic_load(&c->shared.head->skipped_updates);
    if (!sound) return MU_FAIL(err, MU_EBACKEND, "the ledger does not balance: %s", why);
    if (r->produced != r->applied + r->rejected + r->lost)
        return MU_FAIL(err, MU_EBACKEND, "the ledger does not balance: %lld produced, %lld + %lld + %lld",
                       (long long)r->produced, (long long)r->applied, (long long)r->rejected,
                       (long long)r->lost);
    return MU_OK;
}

// ---- beginning and end ----

static mu_status start(void *state, mu_training *t, bool hold, mu_err *err) {
    shared_run *c = state;
    c->t = t;
    c->begin = t->at;
    c->shared.region.fd = -1;
    c->open = mu_alloc_array((size_t)mu_core_most_open(t->s->setup.learners), sizeof *c->open, "learners");
    if (!c->open) return MU_FAIL_NOMEM(err, "the list of open samples");
    MU_TRY(mu_failpoints_open(err));
    MU_TRY(open_shared(c, err));
    c->opened = true;
    MU_TRY(open_log(c, err));
    mu_facts *facts = &((mu_learners_room *)c->shared.extra)->facts;
    mu_facts_begin(facts, t->s);
    t->advisor.facts = facts;
    if (hold) pause_updates(c);
    c->started = true;
    const char *ckpt_dir = t->o->no_files ? "" : t->ckpt_dir;
    MU_TRY(mu_watchdog_start(&c->dog, t, &c->shared, &c->begin, ckpt_dir, err));
    atomic_store(&c->shared.head->state, MU_RUN_TRAINING);
    return MU_OK;
}

static mu_status stop(void *state, mu_status how, mu_learners_result *out, mu_err *err) {
    shared_run *c = state;
    if (!c->opened) { // made perhaps, but not announced
        if (c->shared.region.base) mu_shared_release(&c->shared);
        mu_free(c->open);
        return MU_OK;
    }
    if (c->started) mu_watchdog_stop(&c->dog);
    mu_status st = drain(c, err);
    if (st == MU_OK) st = settle(c, how == MU_OK, err);
    if (how == MU_OK && st == MU_OK) st = sum_up(c, out, err);
    close_log(c, how == MU_OK && st == MU_OK);
    mu_watchdog_destroy(&c->dog);
    if (!c->t->o->no_files) mu_live_remove(c->t->dir.path);
    mu_shared_release(&c->shared);
    mu_free(c->open);
    return st;
}

const mu_gradient_source mu_gradients_shared = {
    .name = "shared",
    .help = "learner processes on this machine and a parameter server in shared memory",
    .state_size = sizeof(shared_run),
    .rank = 10,
    .wants = wants,
    .prepare = prepare,
    .start = start,
    .advance = advance,
    .end = end,
    .snapshot = snapshot,
    .weights = weights,
    .stop = stop,
};
