// SPDX-License-Identifier: Apache-2.0
// live_text.c - see live_text.h.
#include "cli/live_text.h"

#include "cli/progress.h"
#include "ps/moved.h"
#include "store/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define QUIET_S 2.0             // a step that takes longer is worth a word
#define COLUMNS 80

typedef struct page { mu_text *t; bool colour; } page;

static const char *paint(const page *p, const char *code) { return p->colour ? code : ""; }
#define BOLD(p) paint(p, "\033[1m")
#define RED(p) paint(p, "\033[31m")
#define PLAIN(p) paint(p, "\033[0m")

static const char *number(char out[32], double x, const char *fmt) {
    if (!isfinite(x)) snprintf(out, 32, "-");
    else if (!strcmp(fmt, "count")) mu_format_count(out, 32, x);
    else if (!strcmp(fmt, "percent")) snprintf(out, 32, "%.1f%%", 100 * x);
    else if (!strcmp(fmt, "fixed")) snprintf(out, 32, "%.2f", x);
    else snprintf(out, 32, "%.4g", x);
    return out;
}

static void put_head(page *p, const mu_live_view *v) {
    char time[32];
    bool asked = v->stop_asked && v->state < MU_RUN_ENDING;
    mu_text_printf(p->t, "%s%s%s  %s%s for %s, %s%s, ", BOLD(p), v->job_name, PLAIN(p),
                   mu_run_state_name(v->state), asked ? " (asked to stop)" : "",
                   mu_format_time(time, sizeof time, v->elapsed_s), v->protocol,
                   v->warming ? " (warm start by hardsync)" : "");
    mu_text_printf(p->t, "%d learner%s", v->n_learners, v->n_learners == 1 ? "" : "s");
    if (v->n_processes > v->n_learners)
        mu_text_printf(p->t, " of %d workers", v->n_processes / v->n_learners);
    if (v->server_groups > 1) mu_text_printf(p->t, " in %d server groups", v->server_groups);
    mu_text_printf(p->t, ", mu %" PRId64 ", mu*lambda %" PRId64 "\n", v->rows, v->global_batch);
    mu_text_printf(p->t, "run        %s\n", v->run_dir[0] ? v->run_dir : v->run_id);
    if (v->alone) {
        mu_text_printf(p->t, "processes  one, %d\n", v->parent_pid);
        return;
    }
    mu_text_printf(p->t, "processes  parent %d", v->parent_pid);
    if (v->server_pid) mu_text_printf(p->t, ", server %d", v->server_pid);
    else mu_text_printf(p->t, ", server beside the learners");
    if (v->evaluator_pid) mu_text_printf(p->t, ", statistics %d", v->evaluator_pid);
    mu_text_put(p->t, "\n", 1);
}

static void put_ranks(page *p, const mu_live_view *v) {
    char a[32], b[32];
    const int low = mu_rank_by_overlap(v->rank, v->n_ranks, -1),
              high = mu_rank_by_overlap(v->rank, v->n_ranks, 1);
    const mu_rank_times *l = &v->rank[low], *h = &v->rank[high];
    mu_text_printf(p->t, "ranks      %d  overlap %s (rank %d) to %s (rank %d)\n", v->n_ranks,
                   number(a, mu_overlap(l->compute_s, l->wait_s), "percent"), low,
                   number(b, mu_overlap(h->compute_s, h->wait_s), "percent"), high);
}

static void put_progress(page *p, const mu_live_view *v) {
    char a[32], b[32];
    mu_text_printf(p->t, "progress   step %" PRId64, v->step);
    if (v->end_steps > 0) mu_text_printf(p->t, " of %" PRId64, v->end_steps);
    mu_text_printf(p->t, "  epoch %.2f", v->epoch);
    if (v->end_epochs > 0) mu_text_printf(p->t, " of %g", v->end_epochs);
    mu_text_printf(p->t, "  samples %s\n", number(a, (double)v->samples, "count"));
    mu_text_printf(p->t, "weights    version %" PRId64 "  rate %s", v->version, number(a, v->rate, ""));
    mu_text_printf(p->t, "  loss %s  queued gradients %d\n", number(a, v->loss, ""), v->waiting);
    if (v->server_groups > 1)
        mu_text_printf(p->t, "merged     %" PRId64 " times  %s values given and taken\n", v->merges,
                       number(a, (double)v->merged_bytes / 4, "count"));
    mu_text_printf(p->t, "speed      %s samples/s  overlap %s\n", number(a, v->samples_per_s, "count"),
                   number(b, v->overlap, "percent"));
    if (v->n_ranks) put_ranks(p, v);
}

static void put_moved(page *p, const mu_live_view *v) {
    char a[32], b[32], c[32];
    const mu_traffic *t = &v->moved;
    mu_text_printf(p->t, "moved      %sB of values, %sB of gradients, %sB of weights a step\n",
                   number(a, mu_moved_per_step(t->values, v->run_steps, false), "count"),
                   number(b, mu_moved_per_step(t->gradients, v->run_steps, false), "count"),
                   number(c, mu_moved_per_step(t->weights, v->run_steps, true), "count"));
}

static void put_books(page *p, const mu_live_view *v) {
    char a[32];
    const mu_ledger *l = &v->ledger;
    mu_text_printf(p->t, "staleness  mean %s  max %" PRId64 "  of %" PRId64 " gradients\n",
                   number(a, v->stale_mean, "fixed"), v->stale_max, v->n_stale);
    if (v->ledger_known)
        mu_text_printf(p->t,
                       "gradients  %" PRId64 " = %" PRId64 " applied + %" PRId64 " rejected + %" PRId64
                       " lost + %" PRId64 " in flight\n",
                       l->produced, l->applied, l->rejected, l->lost, l->in_flight);
    else mu_text_printf(p->t, "gradients  - (no quiet moment to count them)\n");
    if (v->counts_moved && !v->alone) put_moved(p, v);
    if (v->losses || v->server_losses || v->skipped_updates || v->lock_repairs)
        mu_text_printf(p->t,
                       "trouble    %" PRId64 " learners lost, %" PRId64 " servers lost, %" PRId64
                       " updates skipped, %" PRId64 " locks repaired\n",
                       v->losses, v->server_losses, v->skipped_updates, v->lock_repairs);
}

static void put_learner(page *p, int i, int workers, const mu_live_learner *l) {
    char name[24], rate[32], mean[32], doing[32];
    bool quiet = l->quiet_s > QUIET_S, odd = (!l->pid && !l->rank) || quiet;
    double m = l->n_stale ? (double)l->stale_sum / (double)l->n_stale : NAN;
    if (l->rank) snprintf(doing, sizeof doing, "on rank %d", l->rank);
    else if (!l->pid) snprintf(doing, sizeof doing, "gone");
    else if (quiet) snprintf(doing, sizeof doing, "%s %.0fs", mu_doing_name(l->doing), l->quiet_s);
    else snprintf(doing, sizeof doing, "%s", mu_doing_name(l->doing));
    if (workers > 1) snprintf(name, sizeof name, "%d.%d", i / workers, i % workers);
    else snprintf(name, sizeof name, "%d", i);
    mu_text_printf(p->t, "%s%7s %8d %5u  %-11s %9s %7.0f%% %4.0f%% ", odd ? RED(p) : "", name, l->pid,
                   l->incarnation, doing, number(rate, l->samples_per_s, "count"), 100 * l->compute_share,
                   100 * l->wait_share);
    mu_text_printf(p->t, "%6s %5" PRId64 " %6d%s\n", number(mean, m, "fixed"), l->stale_max, l->losses,
                   odd ? PLAIN(p) : "");
}

void mu_live_text(mu_text *t, const mu_live_view *v, bool colour) {
    page p = {t, colour};
    put_head(&p, v);
    put_progress(&p, v);
    put_books(&p, v);
    mu_text_printf(t, "\n%s%7s %8s %5s  %-11s %9s %8s %5s %6s %5s %6s%s\n", BOLD(&p), "learner", "pid",
                   "life", "doing", "samples/s", "compute", "wait", "stale", "max", "losses", PLAIN(&p));
    const int workers = v->n_processes / v->n_learners;
    for (int i = 0; i < v->n_processes; i++) put_learner(&p, i, workers, &v->learner[i]);
}

void mu_live_text_other(mu_text *t, const mu_live *l) {
    if (l->state == MU_LIVE_SINGLE)
        mu_text_printf(t, "%s  one process works on it, %ld\n", l->dir, (long)l->pid);
    else if (l->state == MU_LIVE_VANISHED)
        mu_text_printf(t, "%s  ended without goodbye (process %ld); go on with: muster train --resume %s\n",
                       l->dir, (long)l->pid, l->dir);
    else if (l->state == MU_LIVE_HIDDEN && l->pid)
        mu_text_printf(t, "%s  process %ld of another user works on it\n", l->dir, (long)l->pid);
    else if (l->state == MU_LIVE_HIDDEN)
        mu_text_printf(t, "%s  its lock may not be read by you, so whether it trains is not known\n", l->dir);
    else mu_text_printf(t, "%s  ended\n", l->dir);
}

static void word_of(const json_t *v, char *out, size_t size) {
    const char *word = json_string_value(v);
    if (json_is_integer(v)) snprintf(out, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v)) snprintf(out, size, "%.5g", json_real_value(v));
    else snprintf(out, size, "%s", word ? word : "-");
}

// A line for each column, as far as it goes.
static void put_columns(mu_text *t, const char *key, json_t *table) {
    const char *column;
    json_t *list, *value;
    size_t i;
    json_object_foreach(table, column, list) {
        char word[64];
        const size_t begin = t->n;
        mu_text_printf(t, "%s.%s ", key, column);
        json_array_foreach(list, i, value) {
            word_of(value, word, sizeof word);
            const bool fits = t->n - begin + 5 + strlen(word) <= COLUMNS;
            mu_text_printf(t, " %s", fits ? word : "...");
            if (!fits) break;
        }
        mu_text_put(t, "\n", 1);
    }
}

static void put_values(mu_text *t, json_t *line) {
    const char *key;
    json_t *value;
    size_t at = 0;
    json_object_foreach(line, key, value) {
        char word[64];
        if (json_is_object(value)) continue;
        word_of(value, word, sizeof word);
        const size_t n = strlen(key) + 1 + strlen(word);
        if (at && at + 2 + n > COLUMNS) mu_text_put(t, "\n", 1), at = 0;
        mu_text_printf(t, "%s%s %s", at ? "  " : "", key, word);
        at += (at ? 2 : 0) + n;
    }
    mu_text_put(t, "\n", 1);
}

void mu_live_text_metrics(mu_text *t, const char *line) {
    static const mu_json_limits limits = {.max_depth = MU_METRICS_DEPTH, .max_values = MU_METRICS_VALUES};
    json_t *o = NULL, *value;
    const char *key;
    if (mu_json_parse(line, strlen(line), &limits, "metrics", &o, NULL) != MU_OK) {
        mu_text_printf(t, "%s\n", line);
        return;
    }
    put_values(t, o);
    json_object_foreach(o, key, value)
        if (json_is_object(value)) put_columns(t, key, value);
    json_decref(o);
}

mu_status mu_live_open(const char *path, mu_live *live, mu_shared *g, bool *attached, mu_err *err) {
    mu_err own = {0};
    *attached = false;
    MU_TRY(mu_live_find(path, live, err));
    if (live->state != MU_LIVE_GROUP) return MU_OK;
    mu_status s = mu_shared_attach(live->pid, live->fd, g, &own);
    *attached = s == MU_OK;
    if (s == MU_ENOTFOUND) return mu_live_find(live->dir, live, err); // it ended just now
    if (s != MU_OK && err) *err = own;
    return s;
}
