// SPDX-License-Identifier: Apache-2.0
// learnt.c - see learnt.h.
#include "plan/learnt.h"

#include "base/alloc.h"
#include "file/json.h"
#include "file/outfile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double least = 0.5, most = 2;      // of a factor
static const double worth = 0.05;               // of a step: smaller parts are not compared
static const char *const parts[MU_LEARNT_PARTS] = {"compute", "apply", "wait"};

// ---- rows ----

static void key_of(const mu_config *c, char out[MU_LEARNT_KEY]) {
    const bool alone = mu_config_processes(c) == 1 && c->server_threads == 0;
    snprintf(out, MU_LEARNT_KEY, "%.30s%s%s", alone ? "alone" : c->how.plugin ? c->how.plugin->name : "",
             c->workers > 1 ? " of workers" : "", c->nodes > 1 ? " on nodes" : "");
}

static mu_learnt_row *find(const mu_learnt *l, const char *key) {
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->row[i].key, key)) return (mu_learnt_row *)(uintptr_t)&l->row[i];
    return NULL;
}

const mu_learnt_row *mu_learnt_of(const mu_learnt *l, const mu_config *c) {
    char key[MU_LEARNT_KEY];
    key_of(c, key);
    return find(l, key);
}

static double mean_of(const mu_learnt_row *r, int part) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < r->n; i++)
        if (r->ratio[part][i] > 0) sum += log(r->ratio[part][i]), n++;
    return n ? fmin(fmax(exp(sum / n), least), most) : 1;
}

static void draw_factors(mu_learnt_row *r) {
    static const int part_of[MU_PLAN_TERMS] = {MU_LEARNT_COMPUTE, MU_LEARNT_APPLY, MU_LEARNT_APPLY, MU_LEARNT_WAIT,
                                               MU_LEARNT_WAIT,    MU_LEARNT_WAIT,  MU_LEARNT_COMPUTE};
    for (int t = 0; t < MU_PLAN_TERMS; t++) r->factors.of[t] = mean_of(r, part_of[t]);
}

void mu_learnt_parts(const mu_prediction *p, double out[MU_LEARNT_PARTS]) {
    const double *t = p->term_s;
    out[MU_LEARNT_COMPUTE] = t[MU_TERM_COMPUTE] + t[MU_TERM_DATA];
    out[MU_LEARNT_APPLY] = t[MU_TERM_APPLY] + t[MU_TERM_EXCHANGE];
    out[MU_LEARNT_WAIT] = t[MU_TERM_BRIDGES] + t[MU_TERM_WIRE] + t[MU_TERM_WAIT];
}

void mu_learnt_add(mu_learnt *l, const mu_config *c, const mu_prediction *predicted, const mu_learnt_run *run) {
    char key[MU_LEARNT_KEY];
    double said[MU_LEARNT_PARTS];
    key_of(c, key);
    mu_learnt_row *r = find(l, key);
    if (!r && l->n == MU_LEARNT_ROWS) return;
    if (!r) {
        r = &l->row[l->n++];
        *r = (mu_learnt_row){0};
        memcpy(r->key, key, sizeof key);
    }
    if (r->n == MU_LEARNT_RUNS) {
        for (int p = 0; p < MU_LEARNT_PARTS; p++)
            memmove(r->ratio[p], r->ratio[p] + 1, (MU_LEARNT_RUNS - 1) * sizeof **r->ratio);
        r->n--;
    }
    mu_learnt_parts(predicted, said);
    for (int p = 0; p < MU_LEARNT_PARTS; p++) {
        const bool large = said[p] > worth * predicted->step_s && run->part_s[p] > worth * run->step_s;
        r->ratio[p][r->n] = large ? run->part_s[p] / said[p] : 0;
    }
    r->n++;
    draw_factors(r);
}

static const mu_plan_factors *factors_of(const void *ctx, const mu_config *c) {
    const mu_learnt_row *r = mu_learnt_of(ctx, c);
    return r ? &r->factors : NULL;
}

mu_plan_corrections mu_learnt_corrections(const mu_learnt *l) { return (mu_plan_corrections){factors_of, l}; }

void mu_learnt_text(const mu_learnt *l, const mu_config *c, char *out, size_t size) {
    const mu_learnt_row *r = mu_learnt_of(l, c);
    *out = '\0';
    if (!r) return;
    int n = snprintf(out, size, "corrected by %d run%s of this job (%s):", r->n, r->n == 1 ? "" : "s", r->key);
    for (int p = 0; p < MU_LEARNT_PARTS && n > 0 && (size_t)n < size; p++)
        n += snprintf(out + n, size - (size_t)n, "%s %s x %.2f", p ? "," : "", parts[p], mean_of(r, p));
}

// ---- a run ----

bool mu_learnt_measure(const mu_setup *setup, const mu_run_result *r, mu_learnt_run *out) {
    enum { STEPS = 50 };
    const double seconds = 1;
    const mu_learners_result *g = &r->learners;
    *out = (mu_learnt_run){0};
    const double steps = g->steps > 0 ? g->steps : (double)r->steps;
    const bool warm = setup->warm_versions > 0 && (double)setup->warm_versions > 0.1 * steps;
    if (steps < STEPS || r->wall_s < seconds || g->learners_lost || g->server_lost || warm || r->samples_per_s <= 0 ||
        mu_setup_nodes(setup) > 1)
        return false;
    out->step_s = (double)setup->global_batch / r->samples_per_s;
    // Sums over all processes; each makes one part of a gradient in a step.
    const double each = steps * mu_setup_processes(setup);
    out->part_s[MU_LEARNT_COMPUTE] = g->compute_s / each;
    out->part_s[MU_LEARNT_APPLY] = g->apply_s / each;
    out->part_s[MU_LEARNT_WAIT] =
        fmax(0, out->step_s - out->part_s[MU_LEARNT_COMPUTE] - out->part_s[MU_LEARNT_APPLY]);
    return out->step_s > 0;
}

// ---- kept ----

enum { MAX_FILE = 1 << 20, FORMAT = 1 };

static mu_status name_file(const mu_costs *k, char out[MU_FS_PATH], char folder[MU_FS_PATH], char name[64],
                           mu_err *err) {
    snprintf(name, 64, "learnt-%016" PRIx64 ".json", k->job);
    MU_TRY(mu_costs_folder(folder, err));
    return mu_fs_join(out, folder, name, err);
}

mu_status mu_learnt_find(const mu_costs *k, mu_learnt *out, mu_err *err) {
    char path[MU_FS_PATH], folder[MU_FS_PATH], name[64], *text;
    size_t size;
    *out = (mu_learnt){.job = k->job};
    MU_TRY(name_file(k, path, folder, name, err));
    MU_TRY(mu_fs_read(path, MAX_FILE, &text, &size, err));
    mu_status st = mu_learnt_parse(text, size, path, out, err);
    mu_free(text);
    if (st == MU_OK && out->job != k->job)
        st = MU_FAIL(err, MU_EDATA, "`%s` is of another job", path);
    if (st != MU_OK) *out = (mu_learnt){.job = k->job};
    return st;
}

mu_status mu_learnt_keep(const mu_costs *k, const mu_learnt *l, mu_err *err) {
    char path[MU_FS_PATH], folder[MU_FS_PATH], name[64];
    MU_TRY(name_file(k, path, folder, name, err));
    MU_TRY(mu_fs_mkdirs(folder, err));
    char *text = mu_learnt_write(l);
    if (!text) return MU_FAIL_NOMEM(err, "what was learnt");
    const mu_status st = mu_outfile_replace(folder, name, text, strlen(text), err);
    mu_free(text);
    return st;
}

char *mu_learnt_write(const mu_learnt *l) {
    char hash[24];
    mu_json_init();
    json_t *o = json_object(), *rows = json_array();
    snprintf(hash, sizeof hash, "%016" PRIx64, l->job);
    json_object_set_new(o, "format", json_integer(FORMAT));
    json_object_set_new(o, "job", json_string(hash));
    for (int i = 0; i < l->n; i++) {
        json_t *row = json_object();
        json_object_set_new(row, "of", json_string(l->row[i].key));
        for (int p = 0; p < MU_LEARNT_PARTS; p++) {
            json_t *a = json_array();
            for (int k = 0; k < l->row[i].n; k++) json_array_append_new(a, mu_json_number(l->row[i].ratio[p][k]));
            json_object_set_new(row, parts[p], a);
        }
        json_array_append_new(rows, row);
    }
    json_object_set_new(o, "rows", rows);
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    json_decref(o);
    return text;
}

static bool read_row(const json_t *o, mu_learnt_row *r) {
    const json_t *of = json_object_get(o, "of");
    const size_t n = json_array_size(json_object_get(o, parts[0]));
    if (!json_is_string(of) || json_string_length(of) >= sizeof r->key || n < 1 || n > MU_LEARNT_RUNS) return false;
    memcpy(r->key, json_string_value(of), json_string_length(of) + 1);
    r->n = (int)n;
    for (int p = 0; p < MU_LEARNT_PARTS; p++) {
        const json_t *a = json_object_get(o, parts[p]);
        if (json_array_size(a) != n) return false;
        for (size_t k = 0; k < n; k++) {
            const json_t *v = json_array_get(a, k);
            const double x = json_is_number(v) ? json_number_value(v) : NAN;
            if (!isfinite(x) || x < 0 || x > 1e9) return false;
            r->ratio[p][k] = x;
        }
    }
    draw_factors(r);
    return true;
}

mu_status mu_learnt_parse(const char *text, size_t size, const char *what, mu_learnt *out, mu_err *err) {
    static const mu_json_limits limits = {.max_depth = 5, .max_values = 4096};
    json_t *o = NULL;
    mu_err own = {0};
    *out = (mu_learnt){0};
    const mu_status st = mu_json_parse(text, size, &limits, what, &o, &own);
    if (st != MU_OK && st != MU_EMODEL) return mu_err_pass(st, &own, err);
    const char *hash = json_string_value(json_object_get(o, "job"));
    const json_t *rows = json_object_get(o, "rows");
    bool good = o && hash && strlen(hash) == 16 && strspn(hash, "0123456789abcdef") == 16 &&
                json_integer_value(json_object_get(o, "format")) == FORMAT && json_is_array(rows) &&
                json_array_size(rows) <= MU_LEARNT_ROWS;
    if (good) out->job = strtoull(hash, NULL, 16);
    for (size_t i = 0; good && i < json_array_size(rows); i++) good = read_row(json_array_get(rows, i), &out->row[out->n++]);
    json_decref(o);
    if (good) return MU_OK;
    *out = (mu_learnt){0};
    return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` is not what was learnt of a job", what), err,
                         "Remove the file: it is made again by the next runs.");
}
