// SPDX-License-Identifier: Apache-2.0
// tables.c - see tables.h.
//
// Sums are read first, column by column. What is told is such a sum, what came to it since the line before,
// or a quotient of two such differences.
#include "learners/tables.h"

#include "base/clock.h"
#include "learners/nodes.h"

#include <math.h>
#include <string.h>

#define TAG "tables"

enum {
    G_VERSION, G_SAMPLES, G_LOSS, G_STALENESS, G_MERGES, G_MERGED_VERSION, G_MERGED_AGO, G_WAITED, G_QUEUED,
    G_LEARNERS, G_TOLD,
    G_LOSSES = G_TOLD, G_GRADIENTS, G_ALL,      // what loss and staleness are divided by
};
enum { W_COMPUTE, W_WAIT, W_BRIDGE, W_APPLY, W_VALUES, W_GRADIENTS, W_WEIGHTS, W_RECORDS, W_TOLD };

enum { R_COMPUTE, R_WAIT, R_OVERLAP, R_TOLD };

static const char *const group_column[G_TOLD] = {
    "version", "samples", "loss", "staleness", "merges", "merged_version", "merged_s_ago", "waited_s",
    "queued", "learners"};
static const char *const worker_column[W_TOLD] = {
    "compute_s", "wait_s", "bridge_wait_s", "apply_s", "value_bytes", "gradient_bytes", "weight_bytes",
    "records_read"};

static const char *const rank_column[R_TOLD] = {"compute_s", "wait_s", "overlap"};

static double seconds(int64_t ns) { return 1e-9 * (double)ns; }

// ---- sums ----

static void read_group(const mu_server_group *g, double *sum, int rows) {
    const mu_shared_head *h = g->shared.head;
    double stale = 0, gradients = 0, learners = 0;
    for (int i = 0; i < h->n_processes; i++) {
        const mu_shared_learner *l = &g->shared.learner[i];
        stale += (double)atomic_load(&l->stale_sum);
        gradients += (double)atomic_load(&l->n_stale);
        learners += i % h->n_workers == 0 && atomic_load(&l->pid) != 0;
    }
    const bool merged = g->merged > 0;
    sum[G_VERSION * rows] = (double)atomic_load(&h->version);
    sum[G_SAMPLES * rows] = (double)(atomic_load(&h->samples) - g->begin.samples);
    sum[G_LOSS * rows] = g->seen.loss_sum;
    sum[G_LOSSES * rows] = (double)g->seen.n;
    sum[G_STALENESS * rows] = stale;
    sum[G_GRADIENTS * rows] = gradients;
    sum[G_MERGES * rows] = (double)g->merged;
    sum[G_MERGED_VERSION * rows] = merged ? (double)g->merged_version : NAN;
    sum[G_MERGED_AGO * rows] = merged ? seconds(mu_clock_ns() - g->merged_ns) : NAN;
    sum[G_WAITED * rows] = seconds(g->waited_ns);
    sum[G_QUEUED * rows] = atomic_load(&h->waiting);
    sum[G_LEARNERS * rows] = learners;
}

static void read_worker(const mu_shared *g, int process, double *sum, int rows) {
    const mu_shared_learner *l = &g->learner[process];
    sum[W_COMPUTE * rows] = seconds(atomic_load(&l->compute_ns));
    sum[W_WAIT * rows] = seconds(atomic_load(&l->wait_ns));
    sum[W_BRIDGE * rows] = seconds(atomic_load(&l->bridge_ns));
    sum[W_APPLY * rows] = seconds(atomic_load(&l->apply_ns));
    sum[W_VALUES * rows] = (double)atomic_load(&l->values_moved);
    sum[W_WEIGHTS * rows] = (double)atomic_load(&l->weights_moved);
    sum[W_GRADIENTS * rows] = (double)atomic_load(&g->executor[process].moved);
    sum[W_RECORDS * rows] = (double)atomic_load(&l->records);
}

// ---- what is told ----

static bool is_since(int column) {
    return column == G_LOSS || column == G_STALENESS || column == G_WAITED || column >= G_TOLD;
}

static void tell_groups(const mu_tables *t, mu_metric_table *out) {
    const int rows = t->n;
    for (int r = 0; r < rows; r++) read_group(&t->group[r], t->now + r, rows);
    for (int i = 0; i < G_ALL * rows; i++) t->value[i] = t->now[i] - (is_since(i / rows) ? t->seen[i] : 0);
    for (int r = 0; r < rows; r++) { // 0 / 0 is NaN: there was none
        t->value[G_LOSS * rows + r] /= t->value[G_LOSSES * rows + r];
        t->value[G_STALENESS * rows + r] /= t->value[G_GRADIENTS * rows + r];
    }
    memcpy(t->seen, t->now, (size_t)(G_ALL * rows) * sizeof *t->seen);
    *out = (mu_metric_table){"server_groups", group_column, G_TOLD, rows, t->value};
}

static void tell_workers(const mu_tables *t, mu_metric_table *out) {
    const int rows = t->processes, of_group = t->group->shared.head->n_processes;
    const size_t begin = (size_t)(G_ALL * t->n);
    double *now = t->now + begin, *seen = t->seen + begin, *value = t->value + begin;
    for (int r = 0; r < rows; r++) read_worker(&t->group[r / of_group].shared, r % of_group, now + r, rows);
    for (int i = 0; i < W_TOLD * rows; i++) {
        value[i] = now[i] - seen[i];
        seen[i] = now[i];
    }
    *out = (mu_metric_table){"workers", worker_column, W_TOLD, rows, value};
}

static void tell_ranks(const mu_tables *t, mu_metric_table *out) {
    const int rows = t->ranks;
    const size_t begin = (size_t)(G_ALL * t->n + W_TOLD * t->processes);
    double *now = t->now + begin, *seen = t->seen + begin, *value = t->value + begin;
    for (int r = 0; r < rows; r++) {
        const mu_node_times *of = &t->t->o->nodes->times[r];
        now[R_COMPUTE * rows + r] = seconds(of->compute_ns);
        now[R_WAIT * rows + r] = seconds(of->wait_ns);
    }
    for (int i = 0; i < R_OVERLAP * rows; i++) {
        value[i] = now[i] - seen[i];
        seen[i] = now[i];
    }
    for (int r = 0; r < rows; r++) { // NaN: it told nothing since the line before
        const double compute = value[R_COMPUTE * rows + r], wait = value[R_WAIT * rows + r];
        value[R_OVERLAP * rows + r] = compute + wait > 0 ? mu_overlap(compute, wait) : NAN;
    }
    *out = (mu_metric_table){"rank_times", rank_column, R_TOLD, rows, value};
}

static size_t fill(void *ctx, mu_metric_table *out) {
    const mu_tables *t = ctx;
    size_t n = 0;
    if (t->ranks) tell_ranks(t, &out[n++]);
    if (mu_setup_merges(&t->t->s->setup)) tell_groups(t, &out[n++]);
    if (t->processes) tell_workers(t, &out[n++]);
    return n;
}

mu_status mu_tables_open(mu_tables *tables, mu_training *t, const mu_server_group *group, int n,
                         mu_err *err) {
    const mu_setup *p = &t->s->setup;
    const int all = n * group->shared.head->n_processes;
    *tables = (mu_tables){.t = t, .group = group, .n = n};
    if (p->workers > 1 && all <= MU_TABLES_WORKERS) tables->processes = all;
    if (t->o && t->o->nodes && t->o->nodes->n <= MU_TABLES_WORKERS) tables->ranks = t->o->nodes->n;
    if (!mu_setup_merges(p) && !tables->processes && !tables->ranks) return MU_OK;
    const size_t count = (size_t)(G_ALL * n + W_TOLD * tables->processes + R_TOLD * tables->ranks);
    tables->now = mu_alloc_array(3 * count, sizeof *tables->now, TAG);
    if (!tables->now) return MU_FAIL_NOMEM(err, "tables of the metrics");
    tables->seen = tables->now + count;
    tables->value = tables->seen + count;
    t->tables = (mu_training_tables){fill, tables};
    return MU_OK;
}

void mu_tables_close(mu_tables *tables) {
    if (tables->t) tables->t->tables = (mu_training_tables){0};
    mu_free(tables->now);
    *tables = (mu_tables){0};
}
