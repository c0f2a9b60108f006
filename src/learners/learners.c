// SPDX-License-Identifier: Apache-2.0
// cluster.c - see cluster.h.
#include "learners/learners.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "store/live.h"
#include "learners/record.h"
#include "learners/watchdog.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 5000000         // between two looks at the children when nothing rings
#define SNAPSHOT_NS 500000      // the same while a snapshot is wanted

typedef struct cluster {
    mu_training *t;
    mu_shared     shared;
    mu_watchdog  dog;
    mu_worker    at;                    // where it began
    mu_recorder *recorder;              // NULL = the run is not recorded
    bool         want_test, want_save;
    bool         pausing;               // a snapshot is wanted; no update begins
    double       pause_s;               // since when
    bool         stopping;              // learners were told to end
    double       loss_seen, accuracy_seen;      // sums already taken from the learners' rows
    int64_t      loss_n_seen;
} cluster;

bool mu_learners_wanted(const mu_session *s) {
    return s->setup.learners > 1 || s->setup.server == MU_SERVER_PROCESS;
}

// ---- the beginning ----

// Leases are large enough that small batches do not take the lock for each, and small enough that in a short
// run nobody holds what others should do. In the long run each learner does one gradient a step.
static void set_leases(mu_core_config *cfg, double steps) {
    int64_t batches = cfg->rows >= 64 ? 1 : 64 / cfg->rows < 16 ? 64 / cfg->rows : 16;
    if ((double)batches > steps / 32) batches = (int64_t)(steps / 32);
    cfg->lease_batches = batches < 1 ? 1 : (int32_t)batches;
    double most = steps / 4 / cfg->lease_batches;
    cfg->max_leases = most < 2 ? 2 : most > MU_CORE_LEASES ? MU_CORE_LEASES : (int32_t)most;
}

static mu_core_config config_of(const cluster *c) {
    const mu_setup *p = &c->t->s->setup;
    const mu_worker *w = &c->at;
    int64_t version = w->step + w->extra_updates;
    mu_core_config cfg = {
        .learners = p->learners,
        .protocol = mu_protocol_index(p->protocol->name),
        .splits = p->splits,
        .bound = p->bound,
        .own = p->own,
        .rate_rule = (int32_t)p->rate_rule,
        .global_batch = p->global_batch,
        .rows = p->rows,
        .first_version = version,
        .first_sample = w->samples,
        .end_sample = INT64_MAX,
        .warm_versions = p->warm_versions > w->step ? p->warm_versions - w->step : 0,
    };
    set_leases(&cfg, w->end_steps > 0 ? w->end_steps - (double)w->step : INFINITY);
    if (w->end_steps > 0) cfg.end_sample = w->samples + ((int64_t)w->end_steps - w->step) * p->global_batch;
    return cfg;
}

static mu_status open_group(cluster *c, mu_err *err) {
    mu_training *t = c->t;
    mu_core_config cfg = config_of(c);
    const char *slash = strrchr(t->dir.path, '/');
    char id[64];
    if (t->o->no_files) snprintf(id, sizeof id, "%.40s-%d", t->s->job->name, (int)getpid());
    else snprintf(id, sizeof id, "%.63s", slash ? slash + 1 : t->dir.path);
    mu_shared_opts o = {
        .run_id = id,
        .job_name = t->s->job->name,
        .run_dir = t->dir.path,
        .setup = &t->s->setup,
        .core = &cfg,
        .params = t->s->params,
        .updater = t->s->updater,
        .n_records = mu_source_n_records(t->s->train.source),
        .end_steps = (int64_t)t->w.end_steps,
        .end_epochs = t->w.end_epochs,
        .extra_bytes = sizeof(mu_evaluator_box),
        .record = t->o->record != NULL,
    };
    MU_TRY(mu_shared_create(&o, &c->shared, err));
    atomic_store(&c->shared.head->parent_pid, (int32_t)getpid());
    atomic_store(&c->shared.head->rate,
                 mu_role_pace(&(mu_role){.session = t->s, .at = &c->at}, 0, c->at.samples).rate);
    if (t->o->no_files) return MU_OK;
    return mu_live_write(t->dir.path, getpid(), c->shared.region.fd, id, err);
}

// ---- the log ----

mu_status mu_learners_prepare_record(mu_session *s, const mu_run_opts *o, mu_err *err) {
    const mu_train_opts *t = &s->job->train;
    mu_status st = MU_EUSAGE;
    mu_objection no;
    if (mu_protocol_objects(s->setup.protocol, MU_CHOICE_RECORD, &no)) {
        MU_FAIL(err, st, "%s cannot be recorded: %s", s->setup.protocol->name, no.why);
        mu_err_hint(err, "%s", no.instead);
    } else if (t->nonfinite == MU_NONFINITE_ROLLBACK) {
        MU_FAIL(err, st, "a run that may go back to a checkpoint cannot be recorded");
        mu_err_hint(err, "Set `train.nonfinite` to stop or skip.");
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

static mu_status open_log(cluster *c, mu_err *err) {
    const mu_training *t = c->t;
    const mu_shared *g = &c->shared;
    if (!t->o->record) return MU_OK;
    mu_runlog_head h = {
        .learners = g->setup->learners,
        .rows = g->setup->rows,
        .global_batch = g->setup->global_batch,
        .seed = t->s->job->seed,
        .first_version = atomic_load(&g->head->version),
        .first_sample = c->at.samples,
        .job_hash = mu_job_hash(t->s->job),
        .layout = mu_runlog_layout(t->s->params, &g->message, g->slices.n),
        .sets = t->o->sets,
        .n_sets = t->o->n_sets,
    };
    snprintf(h.protocol, sizeof h.protocol, "%s", g->setup->protocol->name);
    mu_runlog_sum(t->s->params, h.start);
    return mu_recorder_open(t->o->record, &h, &c->recorder, err);
}

static void log_failed(const cluster *c, const mu_err *err) {
    mu_training_say(c->t, "%s; the log ends here, training goes on", err->msg);
}

static void drain_journal(cluster *c) {
    mu_err err;
    mu_err_clear(&err);
    if (c->recorder && mu_recorder_drain(c->recorder, c->shared.journal, &err) != MU_OK) log_failed(c, &err);
}

// whole: the run came to its end; where it stood is in c->t.
static void close_log(cluster *c, bool whole) {
    mu_err err;
    mu_err_clear(&err);
    if (!c->recorder) return;
    drain_journal(c);
    mu_runlog_end end = {
        .version = atomic_load(&c->shared.head->version), .step = c->t->w.step, .samples = c->t->w.samples};
    mu_runlog_sum(c->t->s->params, end.weights);
    if (mu_recorder_close(c->recorder, whole ? &end : NULL, &err) != MU_OK) log_failed(c, &err);
    c->recorder = NULL;
}

// ---- what the learners have done ----

static void refresh(cluster *c) {
    mu_training *t = c->t;
    const mu_shared_head *h = c->shared.head;
    int64_t samples = atomic_load(&h->samples), version = atomic_load(&h->version);
    t->w.samples = samples;
    t->w.step = c->at.step + (samples - c->at.samples) / h->global_batch;
    t->w.extra_updates = mu_shared_updates(&c->shared, version) - t->w.step;
    t->w.rate = atomic_load(&h->rate);
    double loss = 0, accuracy = 0;
    int64_t n = 0;
    for (int i = 0; i < h->n_learners; i++) {
        loss += atomic_load(&c->shared.learner[i].loss_sum);
        accuracy += atomic_load(&c->shared.learner[i].accuracy_sum);
        n += atomic_load(&c->shared.learner[i].loss_n);
    }
    t->loss_sum += loss - c->loss_seen;
    t->accuracy_sum += accuracy - c->accuracy_seen;
    t->loss_n += n - c->loss_n_seen;
    c->loss_seen = loss;
    c->accuracy_seen = accuracy;
    c->loss_n_seen = n;
}

// ---- snapshots, evaluation, checkpoints ----

static void ask_judge(cluster *c, int task, bool best) {
    mu_evaluator_box *box = c->shared.extra;
    box->task = task;
    box->best = best;
    box->progress = c->t->ps;
    box->progress.trained_s = c->t->before_s + mu_clock_s() - c->t->start_s;
    box->rate_scale = c->t->w.rate_scale;
    atomic_store(&box->state, MU_EVALUATOR_ASKED);
    mu_bell_ring(&box->bell);
}

static void take_snapshot(cluster *c) {
    mu_evaluator_box *box = c->shared.extra;
    int64_t version, samples;
    bool got = mu_server_snapshot(&c->shared, &version, &samples);
    double waited = mu_clock_s() - c->pause_s;
    if (!got && waited < 3 * c->shared.setup->hang_timeout) return;
    mu_server_pause(&c->shared, false);
    c->pausing = false;
    if (!got) {
        mu_training_say(c->t, "no quiet moment for a snapshot in %.0f s; tried again later", waited);
        c->want_test = c->want_save = false;
        return;
    }
    box->step = c->at.step + (samples - c->at.samples) / c->shared.head->global_batch;
    box->samples = samples;
    box->extra_updates = mu_shared_updates(&c->shared, version) - box->step;
    ask_judge(c, c->want_test ? MU_EVALUATOR_EVALUATE : MU_EVALUATOR_SAVE, false);
}

static bool saves(const cluster *c) { return !c->t->o->no_files; }

static void take_saved(cluster *c, const mu_evaluator_box *box) {
    mu_training *t = c->t;
    mu_err err;
    mu_err_clear(&err);
    c->want_save = false;
    if (box->status != MU_OK) {
        mu_training_say(t, "checkpoint not saved: %s; training goes on", box->error.msg);
        return;
    }
    t->saved_step = box->step;
    if (mu_fs_join(t->out->checkpoint, t->ckpt_dir, box->saved, &err) != MU_OK) t->out->checkpoint[0] = 0;
}

static mu_status take_scores(cluster *c, const mu_evaluator_box *box, mu_err *err) {
    mu_training *t = c->t;
    c->want_test = false;
    if (box->status != MU_OK) {
        if (err && err->status == MU_OK) *err = box->error;
        return (mu_status)box->status;
    }
    double epoch = (double)box->samples / (double)c->shared.head->n_records;
    bool best = mu_training_judged(t, (mu_phase)box->phase, &box->scores, box->step, epoch);
    bool keep = best && box->step > 0 && t->s->job->checkpoint.every.unit != MU_EVERY_NEVER;
    if (saves(c) && (keep || c->want_save)) ask_judge(c, MU_EVALUATOR_SAVE, best); // of the same snapshot
    return MU_OK;
}

static mu_status look_at_judge(cluster *c, mu_err *err) {
    mu_evaluator_box *box = c->shared.extra;
    int32_t state = atomic_load(&box->state);
    if (state == MU_EVALUATOR_DONE) {
        atomic_store(&box->state, MU_EVALUATOR_IDLE);
        if (box->task == MU_EVALUATOR_SAVE) take_saved(c, box);
        else return take_scores(c, box, err);
    } else if (state == MU_EVALUATOR_IDLE && c->pausing) {
        take_snapshot(c);
    } else if (state == MU_EVALUATOR_IDLE && (c->want_test || c->want_save) && !c->stopping) {
        c->pausing = true;
        c->pause_s = mu_clock_s();
        mu_server_pause(&c->shared, true);
        take_snapshot(c);
    }
    return MU_OK;
}

static bool judge_is_busy(const cluster *c) {
    const mu_evaluator_box *box = c->shared.extra;
    return c->pausing || atomic_load(&box->state) != MU_EVALUATOR_IDLE;
}

// ---- the loop ----

static void tell_learners_to_end(cluster *c) {
    mu_core *core = mu_shared_begin(&c->shared);
    if (!core) return; // again at the next look
    mu_core_stop(core);
    mu_shared_commit(&c->shared);
    c->stopping = true;
    atomic_store(&c->shared.head->state, MU_RUN_ENDING);
    mu_shared_ring_all(&c->shared);
}

static int alive(const mu_shared *g) {
    int n = 0;
    for (int i = 0; i < g->head->n_learners; i++) n += atomic_load(&g->learner[i].pid) != 0;
    return n;
}

static void between(cluster *c) {
    mu_training *t = c->t;
    mu_phase phase;
    if (mu_training_due(t, &t->log)) mu_training_log(t);
    if (mu_training_due(t, &t->test) && mu_session_eval_phase(t->s, &phase)) c->want_test = true;
    if (mu_training_due(t, &t->save) && saves(c)) c->want_save = true;
    double now = mu_clock_s();
    if (t->o->watch.progress && now >= t->next_progress) {
        mu_run_moment m = mu_training_moment(t);
        m.of_learners = c->shared.head->n_learners;
        m.learners = alive(&c->shared);
        t->o->watch.progress(t->o->watch.ctx, &m);
        t->next_progress = now + MU_PROGRESS_EVERY_S;
    }
}

static mu_status loop(cluster *c, mu_err *err) {
    mu_training *t = c->t;
    mu_shared_head *h = c->shared.head;
    atomic_store(&h->state, MU_RUN_TRAINING);
    while (!mu_watchdog_all_ended(&c->dog)) {
        uint32_t seen = mu_bell_read(&h->parent);
        drain_journal(c);
        MU_TRY(mu_watchdog_look(&c->dog, err));
        refresh(c);
        between(c);
        MU_TRY(look_at_judge(c, err));
        if (atomic_load(&h->stop_asked) && !t->why) t->why = "stop";
        if (!c->stopping && mu_training_finished(t)) tell_learners_to_end(c);
        (void)mu_bell_wait(&h->parent, seen, 0, c->pausing ? SNAPSHOT_NS : LOOK_NS);
    }
    refresh(c);
    while (judge_is_busy(c)) { // its answer belongs to this training
        MU_TRY(mu_watchdog_look(&c->dog, err));
        MU_TRY(look_at_judge(c, err));
        (void)mu_bell_wait(&h->parent, mu_bell_read(&h->parent), 0, LOOK_NS);
    }
    if (!mu_training_finished(t))
        t->why = t->s->job->train.steps > 0 ? "steps" : "epochs"; // all samples are used
    return MU_OK;
}

// ---- the end ----

// No child is left. What dead executors left half done is put right, and what lies in the queues is applied:
// the last learner may have gone during a pause, and the server before it saw the last gradients.
static mu_status drain(cluster *c, mu_err *err) {
    mu_shared *g = &c->shared;
    mu_server_pause(g, false);
    for (int i = 0; i < g->head->n_executors; i++) mu_server_repair(g, i);
    for (int i = 0; i < g->head->n_learners; i++) mu_rwlock_clear(g->rw, i);
    mu_role role = {.session = c->t->s, .shared = g, .at = &c->at};
    mu_server s;
    MU_TRY(mu_server_init(&s, g, 0, mu_role_pace, &role, err));
    do drain_journal(c);
    while (mu_server_turn(&s) == MU_TURN_WORKED);
    mu_server_fini(&s);
    refresh(c);
    return MU_OK;
}

static void sum_up_staleness(const mu_shared *g, mu_learners_result *r) {
    double sum = 0, n = 0;
    for (int i = 0; i < g->head->n_learners; i++) {
        const mu_shared_learner *l = &g->learner[i];
        sum += (double)atomic_load(&l->stale_sum);
        n += (double)atomic_load(&l->n_stale);
        int64_t most = atomic_load(&l->stale_max);
        if (most > r->staleness_max) r->staleness_max = most;
        for (int b = 0; b < MU_STALENESS_BINS; b++) {
            r->staleness_hist[b] += atomic_load(&l->stale_hist[b]);
            if (r->staleness_hist[b] && b >= r->most_staleness) r->most_staleness = b + 1;
        }
        r->compute_s += 1e-9 * (double)atomic_load(&l->compute_ns);
        r->wait_s += 1e-9 * (double)atomic_load(&l->wait_ns);
        r->apply_s += 1e-9 * (double)atomic_load(&l->apply_ns);
    }
    r->staleness_mean = n > 0 ? sum / n : 0;
    r->overlap = r->compute_s > 0 ? r->compute_s / (r->compute_s + r->wait_s) : 0;
}

static mu_status sum_up(cluster *c, mu_err *err) {
    const mu_setup *p = c->shared.setup;
    mu_learners_result *r = &c->t->out->learners;
    mu_core *core = mu_shared_begin(&c->shared);
    if (!core) return MU_FAIL(err, MU_EBACKEND, "the protocol's lock is held by nobody who lives");
    mu_core_abandon(core); // nobody is left: what still waits counts as rejected, what was computed as lost
    mu_ledger ledger = mu_core_ledger(core);
    int64_t cursor = mu_core_cursor(core);
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
        .repeated_samples = mu_core_samples(core) - cursor,
        .torn_updates = atomic_load(&c->shared.head->torn_updates),
        .rate_effective = atomic_load(&c->shared.head->rate) * (double)mu_core_weight(core, 1, 1),
        .replace_p50_s = mu_watchdog_replace_s(&c->dog, 0.5),
        .replace_p99_s = mu_watchdog_replace_s(&c->dog, 0.99),
    };
    mu_shared_cancel(&c->shared);
    sum_up_staleness(&c->shared, r);
    c->t->ps.skipped += atomic_load(&c->shared.head->skipped_updates);
    if (c->t->loss_n) mu_training_log(c->t); // of what was done; the cursor may go back a little
    c->t->w.samples = cursor;
    if (!sound) return MU_FAIL(err, MU_EBACKEND, "the ledger does not balance: %s", why);
    if (r->produced != r->applied + r->rejected + r->lost)
        return MU_FAIL(err, MU_EBACKEND, "the ledger does not balance: %lld produced, %lld + %lld + %lld",
                       (long long)r->produced, (long long)r->applied, (long long)r->rejected,
                       (long long)r->lost);
    return MU_OK;
}

// An evaluation before the first step: nobody begins until the snapshot is taken.
static void want_first_test(cluster *c) {
    mu_training *t = c->t;
    const mu_test_opts *test = &t->s->job->test;
    bool owed = t->o->resume && mu_training_crossed(t, test->every) && t->ps.judged_step != t->w.step;
    mu_phase phase;
    c->want_test = (owed || (test->at_start && t->w.step == 0)) && mu_session_eval_phase(t->s, &phase);
    if (!c->want_test) return;
    c->pausing = true;
    c->pause_s = mu_clock_s();
    mu_server_pause(&c->shared, true);
}

mu_status mu_learners_run(mu_training *t, mu_err *err) {
    cluster c = {.t = t, .at = t->w, .shared.region.fd = -1};
    MU_TRY(mu_failpoints_open(err));
    mu_status st = open_group(&c, err);
    if (st != MU_OK) {
        if (c.shared.region.base) mu_shared_release(&c.shared); // made, but not announced
        return st;
    }
    st = open_log(&c, err);
    bool started = st == MU_OK;
    if (started) {
        want_first_test(&c);
        st = mu_watchdog_start(&c.dog, t, &c.shared, &c.at, saves(&c) ? t->ckpt_dir : "", err);
    }
    if (st == MU_OK) st = loop(&c, err);
    if (started) mu_watchdog_stop(&c.dog);
    mu_status ledger = drain(&c, err);
    if (st == MU_OK && ledger == MU_OK) ledger = sum_up(&c, err);
    close_log(&c, st == MU_OK && ledger == MU_OK);
    mu_free(c.dog.times);
    if (!t->o->no_files) mu_live_remove(t->dir.path);
    mu_shared_release(&c.shared);
    return st == MU_OK ? ledger : st;
}
