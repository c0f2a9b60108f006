// SPDX-License-Identifier: Apache-2.0
// costs_measure.c - see costs_measure.h.
//
// The child writes what it found as JSON into a region, and the parent reads it as it reads a file: so nothing of
// the child's memory is believed, and the format is tried each time.
#include "plan/costs_inner.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/level.h"
#include "comm/process.h"
#include "comm/region.h"
#include "device/device.h"
#include "file/outfile.h"
#include "train/model.h"
#include "train/stopflag.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { REGION = 8 << 20, MOST_EDITS = 256 };
static const double patience = 20; // times as long as asked for, on a busy machine

// ---- what costs depend on ----

static uint64_t mix(uint64_t h, uint64_t with) { return XXH3_64bits_withSeed(&with, sizeof with, h); }

uint64_t mu_costs_hash(const mu_job *job) {
    const mu_node *train = mu_node_find(job->root, "train");
    uint64_t h = mix(1, mu_node_hash(job->net));
    h = mix(h, mu_node_hash(mu_node_find(job->data, "train")));
    h = mix(h, mu_node_hash(job->updater));
    h = mix(h, mu_node_hash(mu_node_find(train, "algorithm")));
    h = mix(h, (uint64_t)job->train.batch);
    h = mix(h, (uint64_t)job->train.accumulate);
    h = mix(h, mu_node_hash(mu_node_find(job->root, "seed")));
    char folder[PATH_MAX]; // files of the data lie there, however the way to it is written
    const char *at = realpath(job->folder, folder) ? folder : job->folder;
    return XXH3_64bits_withSeed(at, strlen(at), h);
}

static double per_epoch(const mu_interval *every, double epoch_steps) {
    if (every->unit == MU_EVERY_EPOCH && every->n > 0) return 1 / every->n;
    if (every->unit == MU_EVERY_STEP && every->n > 0) return epoch_steps / every->n;
    return 0; // by the clock: then it does not hang on how an epoch is made
}

void mu_costs_of_job(const mu_job *job, mu_costs *c) {
    const double steps = (double)c->records / (double)c->batch;
    c->evals_per_epoch = c->test_records > 0 ? per_epoch(&job->test.every, steps) : 0;
    c->saves_per_epoch = per_epoch(&job->checkpoint.every, steps);
}

// ---- the job as it is measured ----

void mu_cost_close(mu_cost_job *j) {
    mu_session_close(j->s);
    mu_job_destroy(j->job);
    *j = (mu_cost_job){0};
}

mu_status mu_cost_open(const mu_cost_task *t, int64_t batch, bool check_only, mu_cost_job *out, mu_err *err) {
    const char *set[MOST_EDITS + 2];
    char rows[48];
    mu_model none = {0};
    *out = (mu_cost_job){0};
    if (t->n_sets > MOST_EDITS) return MU_FAIL(err, MU_EUSAGE, "more than %d edits", MOST_EDITS);
    for (size_t i = 0; i < t->n_sets; i++) set[i] = t->set[i];
    size_t n = t->n_sets;
    set[n++] = "cluster={learners: 1}";
    snprintf(rows, sizeof rows, "train.batch=%" PRId64, batch);
    if (batch > 0) set[n++] = rows;
    mu_err own = {0};
    mu_status st = mu_model_load_job(&none, t->job, set, n, &out->job, &own);
    const mu_session_opts o = {.phases = MU_TRAIN | (check_only && !batch ? MU_VALIDATION | MU_TEST : 0),
                               .check_only = check_only};
    if (st == MU_OK) st = mu_session_open(out->job, &o, &out->s, &own);
    if (st == MU_EJOB && out->job && out->job->diags.n_errors) {
        mu_err_clear(&own);
        st = mu_diags_report(&out->job->diags, &own);
    }
    if (st == MU_OK) return MU_OK;
    own.pos = MU_NOPOS; // it borrows from the job
    mu_cost_close(out);
    return mu_err_pass(st, &own, err);
}

// ---- the child ----

typedef struct room {                   // what the two share
    _Atomic int step, steps;            // what is being measured, of how many
    _Atomic int64_t batch;
    int32_t  status;
    mu_err   err;
    size_t   n;
    char     text[];
} room;

typedef struct measuring { const mu_cost_task *t; room *room; } measuring;

static void choose_sizes(int64_t batch, int cores, mu_costs *c) {
    const int64_t least = batch / (cores > 16 ? cores : 16);
    // One sample goes its own way in many a layer, and its neighbours do not tell of it.
    const int64_t wanted[MU_COST_SIZES] = {1, least, batch / 4, batch / 2, batch};
    for (int i = 0; i < MU_COST_SIZES; i++)
        if (wanted[i] > 0 && (!c->n_sizes || wanted[i] > c->size[c->n_sizes - 1]))
            c->size[c->n_sizes++] = wanted[i];
}

static mu_status look_at_job(const mu_cost_task *t, mu_costs *c, mu_err *err) {
    mu_cost_job j;
    mu_phase phase;
    mu_device_props props;
    MU_TRY(mu_cost_open(t, 0, true, &j, err));
    const mu_session_phase *eval = mu_session_eval_phase(j.s, &phase);
    mu_device_cpu()->class->props(mu_device_cpu(), &props);
    snprintf(c->machine, sizeof c->machine, "%s", props.model);
    snprintf(c->level, sizeof c->level, "%s", mu_level_name(mu_level()));
    snprintf(c->rule, sizeof c->rule, "%s", j.s->updater->class->name);
    c->cores = t->cores;
    c->job = mu_costs_hash(j.job);
    c->batch = j.job->train.batch;
    c->histories = j.s->updater->class->n_slots;
    c->floats = (double)j.s->params->count;
    c->records = mu_source_n_records(j.s->train.source);
    c->test_records = eval ? mu_source_n_records(eval->source) : 0;
    mu_costs_of_job(j.job, c);
    choose_sizes(c->batch, t->cores, c);
    mu_cost_close(&j);
    return MU_OK;
}

// A checkpoint as far as the disk goes: it is written, synced and read back.
static void time_disk(mu_costs *c) {
    enum { MOST = 32 << 20 };
    char folder[MU_FS_PATH], path[MU_FS_PATH], name[64];
    const double bytes = 4 * c->floats * (1 + c->histories);
    const size_t n = bytes < MOST ? (size_t)bytes : MOST;
    mu_outfile *f;
    c->save_s = 0.02 + bytes / 200e6;
    char *data = mu_alloc(n + 1, "costs");
    const double began = mu_clock_s();
    snprintf(name, sizeof name, "probe-%016" PRIx64, c->job);
    if (!data || mu_costs_folder(folder, NULL) != MU_OK || mu_fs_mkdirs(folder, NULL) != MU_OK ||
        mu_fs_join(path, folder, name, NULL) != MU_OK || mu_outfile_create(path, &f, NULL) != MU_OK) {
        mu_free(data);
        return;
    }
    mu_outfile_write(f, data, n);
    if (mu_outfile_commit(f, NULL) == MU_OK) c->save_s = 0.005 + (mu_clock_s() - began) * bytes / (double)n;
    mu_fs_remove_file(path);
    mu_free(data);
}

// Forward alone: its share of the layers, of what a gradient takes.
static double forward_of(const mu_costs *c, int k) {
    double forward = 0, all = 0;
    for (int i = 0; i < c->n_layers; i++) {
        forward += c->layer[i].forward_s[k];
        all += c->layer[i].forward_s[k] + c->layer[i].backward_s[k];
    }
    return all > 0 ? c->gradient_s[k] * forward / all : 0;
}

static mu_status measure_size(const measuring *m, int k, double seconds, mu_costs *c, mu_err *err) {
    const bool first = k == c->n_sizes - 1;
    const int with_all = c->batch / m->t->cores > 0 ? (int)(c->batch / m->t->cores) : 1;
    mu_cost_job j;
    const double began = mu_clock_s();
    MU_TRY(mu_cost_open(m->t, c->size[k], false, &j, err));
    if (first) c->start_s = mu_clock_s() - began;
    mu_status st = mu_cost_time(j.s, k, first, seconds, c, err);
    // The crowd at the size that learners on all cores have.
    const bool crowds = c->size[k] <= with_all && (k + 1 == c->n_sizes || c->size[k + 1] > with_all);
    if (st == MU_OK && (crowds || (k == 0 && c->crowd == 0)))
        st = mu_cost_time_crowd(j.s, k, m->t->cores, seconds * 0.8, c, err);
    mu_cost_close(&j);
    return st;
}


static mu_status measure_all(const measuring *m, mu_costs *c, mu_err *err) {
    MU_TRY(look_at_job(m->t, c, err));
    const double each = m->t->seconds / (c->n_sizes + 1);
    atomic_store(&m->room->steps, c->n_sizes + 1);
    // The largest first: it is the job's own, and finds the most memory.
    for (int k = c->n_sizes - 1; k >= 0; k--) {
        atomic_store(&m->room->batch, c->size[k]);
        atomic_store(&m->room->step, c->n_sizes - 1 - k);
        MU_TRY(measure_size(m, k, each, c, err));
    }
    atomic_store(&m->room->step, c->n_sizes);
    if (!c->crowd) c->crowd = 1, c->crowd_gradient = c->crowd_apply = 1;
    c->evaluate_s = c->record_s + forward_of(c, c->n_sizes - 1) / (double)c->size[c->n_sizes - 1];
    time_disk(c);
    return mu_cost_splits(m->t, c, err);
}

static int measure(void *ctx) {
    measuring *m = ctx;
    mu_costs c = {0};
    mu_err err = {0};
    mu_status st = measure_all(m, &c, &err);
    char *text = st == MU_OK ? mu_costs_write(&c) : NULL;
    const size_t n = text ? strlen(text) : 0;
    if (st == MU_OK && (!text || n >= REGION - sizeof(room)))
        st = MU_FAIL(&err, MU_EUNSUPPORTED, "the net has too many parameters for a plan");
    if (st == MU_OK) memcpy(m->room->text, text, n), m->room->n = n;
    err.pos = MU_NOPOS;
    m->room->err = err;
    m->room->status = (int32_t)st;
    return st != MU_OK;
}

// ---- the parent ----

static void tell(const mu_cost_task *t, const room *r) {
    char text[96];
    const int step = atomic_load(&r->step), steps = atomic_load(&r->steps);
    if (!t->progress || !steps) return;
    if (step < steps - 1)
        snprintf(text, sizeof text, "measuring the costs of this job: batches of %" PRId64 " (%d of %d)",
                 atomic_load(&r->batch), step + 1, steps - 1);
    else snprintf(text, sizeof text, "measuring the costs of this job: disk and cuts");
    t->progress(t->ctx, text, (double)step / steps);
}

static mu_status await(const mu_cost_task *t, const room *r, pid_t pid, mu_err *err) {
    const struct timespec nap = {.tv_nsec = 50000000};
    const double until = mu_clock_s() + 30 + patience * t->seconds;
    mu_process_end end = {0};
    while (!mu_process_reap(pid, &end)) {
        const bool stop = mu_stop_requested(), late = mu_clock_s() > until;
        if (stop || late) {
            mu_process_end_all(&pid, 1, 1);
            return stop ? MU_FAIL(err, mu_stop_status(), "stopped by a signal")
                        : MU_FAIL(err, MU_EUNSUPPORTED, "the costs of this job are not known after %.0f s",
                                  30 + patience * t->seconds);
        }
        tell(t, r);
        nanosleep(&nap, NULL);
    }
    if (end.signal)
        return MU_FAIL(err, MU_EBACKEND, "the process that measures costs was killed by signal %d (%s)", end.signal,
                       strsignal(end.signal));
    return r->status == MU_OK ? MU_OK : mu_err_pass((mu_status)r->status, &r->err, err);
}

mu_status mu_costs_measure(const mu_cost_task *t, mu_costs *out, mu_err *err) {
    mu_region region = {0};
    pid_t pid;
    *out = (mu_costs){0};
    MU_TRY(mu_region_create("costs", REGION, &region, err));
    room *r = (room *)(void *)region.base;
    measuring m = {t, r};
    r->status = MU_EBACKEND;
    mu_status st = mu_process_start("muster-costs", measure, &m, &pid, err);
    if (st == MU_OK) st = await(t, r, pid, err);
    if (st == MU_OK) st = mu_costs_parse(r->text, r->n, "measured costs", out, err);
    mu_region_close(&region);
    return st;
}
