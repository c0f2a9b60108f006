// SPDX-License-Identifier: Apache-2.0
// curves.c - see curves.h.
#include "look/curves.h"

#include "base/alloc.h"
#include "file/fs.h"
#include "file/json.h"
#include "store/metrics.h"
#include "store/rundir.h"

#include <math.h>
#include <string.h>

#define TAG "curves"
#define MAX_FILE ((size_t)1 << 30)
static const mu_json_limits limits = {.max_depth = MU_METRICS_DEPTH, .max_values = MU_METRICS_VALUES};

void mu_curves_fini(mu_curves *c) {
    for (size_t i = 0; i < c->n; i++) {
        mu_free(c->v[i].key);
        mu_free(c->v[i].v);
    }
    mu_free(c->v);
    *c = (mu_curves){0};
}

const mu_curve *mu_curves_find(const mu_curves *c, const char *key) {
    for (size_t i = 0; i < c->n; i++)
        if (!strcmp(c->v[i].key, key)) return &c->v[i];
    return NULL;
}

double mu_curve_last(const mu_curve *c) {
    for (size_t i = c ? c->n : 0; i-- > 0;)
        if (isfinite(c->v[i].value)) return c->v[i].value;
    return NAN;
}

// ---- one line ----

static double number(const json_t *v) { return json_is_number(v) ? json_number_value(v) : NAN; }

// The curve of a key, made when it comes first; NULL with MU_OK when there are too many.
static mu_status curve_of(mu_curves *c, const char *key, mu_curve **out, mu_err *err) {
    *out = (mu_curve *)mu_curves_find(c, key); // ours, so not const
    if (*out || c->n == MU_CURVES_MAX) return MU_OK;
    mu_curve *v = mu_grow(c->v, c->n, &c->cap, sizeof *v, 8, TAG);
    if (!v) return MU_FAIL_NOMEM(err, "the curves");
    c->v = v;
    char *name = mu_strdup(key, TAG);
    if (!name) return MU_FAIL_NOMEM(err, "the curves");
    c->v[c->n] = (mu_curve){.key = name};
    *out = &c->v[c->n++];
    return MU_OK;
}

static mu_status add_point(mu_curve *c, const mu_curve_point *p, mu_err *err) {
    while (c->n && c->v[c->n - 1].step >= p->step) c->n--; // told again
    mu_curve_point *v = mu_grow(c->v, c->n, &c->cap, sizeof *v, 64, TAG);
    if (!v) return MU_FAIL_NOMEM(err, "the curves");
    c->v = v;
    c->v[c->n++] = *p;
    return MU_OK;
}

static bool is_place(const char *key) {
    return !strcmp(key, "step") || !strcmp(key, "epoch") || !strcmp(key, "wall_s");
}

static mu_status add_line(mu_curves *c, json_t *line, mu_err *err) {
    mu_curve_point p = {.step = number(json_object_get(line, "step")),
                        .epoch = number(json_object_get(line, "epoch")),
                        .time_s = number(json_object_get(line, "wall_s"))};
    if (!isfinite(p.step)) {
        c->n_bad++;
        return MU_OK;
    }
    const char *key;
    json_t *value;
    json_object_foreach(line, key, value) {
        mu_curve *curve;
        if (is_place(key) || !(json_is_number(value) || json_is_null(value))) continue;
        MU_TRY(curve_of(c, key, &curve, err));
        p.value = number(value);
        if (curve) MU_TRY(add_point(curve, &p, err));
    }
    return MU_OK;
}

// ---- the whole ----

mu_status mu_curves_parse(mu_curves *c, const char *text, size_t size, const char *name, mu_err *err) {
    const char *end;
    mu_json_init();
    for (size_t at = 0; at < size && (end = memchr(text + at, '\n', size - at));
         at = (size_t)(end - text) + 1) {
        size_t n = (size_t)(end - text) - at;
        json_t *line = NULL;
        c->n_lines++;
        mu_status st = mu_json_parse(text + at, n, &limits, "line", &line, NULL);
        if (st == MU_ENOMEM) return MU_FAIL_NOMEM(err, "the curves");
        if (st != MU_OK) c->n_bad++;
        else st = add_line(c, line, err);
        json_decref(line);
        if (st == MU_ENOMEM) return st;
    }
    if (c->n) return MU_OK;
    MU_FAIL(err, MU_EDATA, c->n_lines ? "`%s` has no line of metrics that can be read" : "`%s` is empty",
            name);
    mu_err_hint(err, c->n_lines
                         ? "Each line is an object such as {\"step\": 10, \"train_loss\": 0.5}."
                         : "The run wrote nothing yet; `log.every` in the job says how often it does.");
    return MU_EDATA;
}

mu_status mu_curves_load(mu_curves *c, const char *run, mu_err *err) {
    char path[MU_FS_PATH], *text = NULL;
    size_t size = 0;
    MU_TRY(mu_fs_join(path, run, MU_RUN_METRICS, err));
    mu_status st = mu_fs_read(path, MAX_FILE, &text, &size, err);
    if (st == MU_ENOTFOUND) {
        mu_err_clear(err);
        MU_FAIL(err, MU_ENOTFOUND, "`%s` holds no run: it has no %s", run, MU_RUN_METRICS);
        mu_err_hint(err, "Name run folders, such as `runs/lenet-0abc12`.");
        return MU_ENOTFOUND;
    }
    if (st == MU_OK) st = mu_curves_parse(c, text, size, path, err);
    mu_free(text);
    return st;
}
