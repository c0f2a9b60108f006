// SPDX-License-Identifier: Apache-2.0
// costs_json.c - costs as JSON: one table of keys writes and reads them.
//
// A file may be a stranger's, so every number is checked: finite, not negative, below what any machine could
// mean, and arrays as long as there are sizes. What is missing is an error, unless its row says otherwise.
#include "plan/costs.h"

#include "base/alloc.h"
#include "file/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1, MOST_PARAMS = 65536 };
static const mu_json_limits limits = {.max_depth = 6, .max_values = 2000000};

typedef enum kind { TEXT, WHOLE, SMALL, NUMBER, SIZES } kind;
typedef struct key {
    const char *name;
    kind kind;
    size_t at, room;            // in its struct; bytes of a text
    double least, most;
} key;

#define FAR_S 1e7               // seconds: nothing that is planned takes longer
#define MANY 1e18               // bytes, flops, floats
#define TEXT_OF(type, m) {#m, TEXT, offsetof(type, m), sizeof(((type *)0)->m), 0, 0}
#define SECONDS(type, m) {#m, NUMBER, offsetof(type, m), 0, 0, FAR_S}
#define SECONDS_OF_SIZES(type, m) {#m, SIZES, offsetof(type, m), 0, 0, FAR_S}
#define MANY_OF_SIZES(type, m) {#m, SIZES, offsetof(type, m), 0, 0, MANY}

static const key of_costs[] = {
    TEXT_OF(mu_costs, machine), TEXT_OF(mu_costs, level), TEXT_OF(mu_costs, rule),
    {"cores", SMALL, offsetof(mu_costs, cores), 0, 1, 65536},
    {"flops_per_s", NUMBER, offsetof(mu_costs, flops_per_s), 0, 1e6, 1e16},
    {"histories", SMALL, offsetof(mu_costs, histories), 0, 0, 16},
    {"floats", NUMBER, offsetof(mu_costs, floats), 0, 0, MANY},
    {"batch", WHOLE, offsetof(mu_costs, batch), 0, 1, 1e12},
    {"records", WHOLE, offsetof(mu_costs, records), 0, 0, 1e15},
    {"test_records", WHOLE, offsetof(mu_costs, test_records), 0, 0, 1e15},
    {"evals_per_epoch", NUMBER, offsetof(mu_costs, evals_per_epoch), 0, 0, 1e12},
    {"saves_per_epoch", NUMBER, offsetof(mu_costs, saves_per_epoch), 0, 0, 1e12},
    SECONDS_OF_SIZES(mu_costs, alone_s), SECONDS_OF_SIZES(mu_costs, gradient_s),
    SECONDS_OF_SIZES(mu_costs, apply_s), SECONDS_OF_SIZES(mu_costs, sweep_s),
    MANY_OF_SIZES(mu_costs, message_bytes), MANY_OF_SIZES(mu_costs, activation_bytes),
    {"undo", NUMBER, offsetof(mu_costs, undo), 0, 1, 100},
    {"spread", NUMBER, offsetof(mu_costs, spread), 0, 0, 100},
    {"busy", NUMBER, offsetof(mu_costs, busy), 0, 0, 1},
    {"crowd", SMALL, offsetof(mu_costs, crowd), 0, 1, 65536},
    {"crowd_gradient", NUMBER, offsetof(mu_costs, crowd_gradient), 0, 0.01, 1000},
    {"crowd_apply", NUMBER, offsetof(mu_costs, crowd_apply), 0, 0.01, 1000},
    SECONDS(mu_costs, lines_read_s), SECONDS(mu_costs, lines_apply_s),
    SECONDS(mu_costs, record_s), SECONDS(mu_costs, evaluate_s), SECONDS(mu_costs, save_s),
    SECONDS(mu_costs, start_s),
    {0},
};
static const key of_layer[] = {
    TEXT_OF(mu_cost_layer, name), TEXT_OF(mu_cost_layer, type), SECONDS_OF_SIZES(mu_cost_layer, forward_s),
    SECONDS_OF_SIZES(mu_cost_layer, backward_s), {"flops", NUMBER, offsetof(mu_cost_layer, flops), 0, 0, MANY},
    {0},
};
static const key of_param[] = {
    TEXT_OF(mu_cost_param, name), TEXT_OF(mu_cost_param, form),
    {"floats", NUMBER, offsetof(mu_cost_param, floats), 0, 0, MANY},
    MANY_OF_SIZES(mu_cost_param, message_bytes),
    {0},
};
static const key of_split[] = {
    {"workers", SMALL, offsetof(mu_cost_split, workers), 0, 2, 16},
    {"share", SIZES, offsetof(mu_cost_split, share), 0, 0, 16},
    MANY_OF_SIZES(mu_cost_split, values_bytes), MANY_OF_SIZES(mu_cost_split, gradient_bytes),
    MANY_OF_SIZES(mu_cost_split, weight_bytes),
    {"bridges", SMALL, offsetof(mu_cost_split, bridges), 0, 0, 1e6},
    {0},
};

// ---- out ----

static json_t *numbers(const double *v, int n) {
    json_t *a = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(a, mu_json_number(v[i]));
    return a;
}

static json_t *write_rows(const key *keys, const void *of, int n_sizes) {
    json_t *o = json_object();
    for (const key *k = keys; k->name; k++) {
        const char *at = (const char *)of + k->at;
        json_t *v = k->kind == TEXT     ? json_string(at)
                    : k->kind == WHOLE  ? json_integer(*(const int64_t *)(const void *)at)
                    : k->kind == SMALL  ? json_integer(*(const int *)(const void *)at)
                    : k->kind == NUMBER ? mu_json_number(*(const double *)(const void *)at)
                                        : numbers((const double *)(const void *)at, n_sizes);
        json_object_set_new(o, k->name, v);
    }
    return o;
}

char *mu_costs_write(const mu_costs *c) {
    char hash[24];
    mu_json_init();
    json_t *o = write_rows(of_costs, c, c->n_sizes), *layers = json_array(), *params = json_array(),
           *splits = json_array(), *sizes = json_array();
    snprintf(hash, sizeof hash, "%016" PRIx64, c->job);
    json_object_set_new(o, "format", json_integer(FORMAT));
    json_object_set_new(o, "job", json_string(hash));
    for (int i = 0; i < c->n_sizes; i++) json_array_append_new(sizes, json_integer(c->size[i]));
    for (int i = 0; i < c->n_layers; i++)
        json_array_append_new(layers, write_rows(of_layer, &c->layer[i], c->n_sizes));
    for (int i = 0; i < c->n_params; i++) {
        json_t *p = write_rows(of_param, &c->param[i], c->n_sizes);
        json_object_set_new(p, "fixed", json_boolean(c->param[i].fixed));
        json_array_append_new(params, p);
    }
    for (int i = 0; i < c->n_splits; i++) {
        json_t *p = write_rows(of_split, &c->split[i], c->n_sizes);
        json_object_set_new(p, "auto", json_boolean(c->split[i].auto_cut));
        json_array_append_new(splits, p);
    }
    json_object_set_new(o, "sizes", sizes);
    json_object_set_new(o, "layers", layers);
    json_object_set_new(o, "params", params);
    json_object_set_new(o, "splits", splits);
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9)); // its heap is ours (mu_json_init)
    json_decref(o);
    return text;
}

// ---- in ----

typedef struct reading { const char *what; int n_sizes; mu_err *err; } reading;

static mu_status wrong(const reading *r, const char *name, const char *is) {
    return mu_err_hinted(MU_FAIL(r->err, MU_EDATA, "`%s`: `%s` %s", r->what, name, is), r->err,
                         "Remove the file: costs are measured again by `muster plan`.");
}

static bool in_range(const json_t *v, const key *k) {
    const double x = json_is_number(v) ? json_number_value(v) : NAN;
    return isfinite(x) && x >= k->least && x <= k->most;
}

static mu_status read_sizes(const reading *r, const json_t *v, const key *k, double *out) {
    if (!json_is_array(v) || json_array_size(v) != (size_t)r->n_sizes)
        return wrong(r, k->name, "is not a list with a number for each size");
    for (int i = 0; i < r->n_sizes; i++) {
        const json_t *x = json_array_get(v, (size_t)i);
        if (!in_range(x, k)) return wrong(r, k->name, "has a number that cannot be");
        out[i] = json_number_value(x);
    }
    return MU_OK;
}

static mu_status read_one(const reading *r, const json_t *v, const key *k, char *at) {
    const bool whole = k->kind == WHOLE || k->kind == SMALL;
    if (!v) return wrong(r, k->name, "is missing");
    if (k->kind == SIZES) return read_sizes(r, v, k, (double *)(void *)at);
    if (k->kind == TEXT) {
        if (!json_is_string(v) || json_string_length(v) >= k->room)
            return wrong(r, k->name, "is no text, or too long");
        memcpy(at, json_string_value(v), json_string_length(v) + 1);
        return MU_OK;
    }
    if ((whole && !json_is_integer(v)) || !in_range(v, k)) return wrong(r, k->name, "is no number that can be");
    if (k->kind == WHOLE) *(int64_t *)(void *)at = json_integer_value(v);
    else if (k->kind == SMALL) *(int *)(void *)at = (int)json_integer_value(v);
    else *(double *)(void *)at = json_number_value(v);
    return MU_OK;
}

static mu_status read_rows(const reading *r, const json_t *o, const key *keys, void *of) {
    for (const key *k = keys; k->name; k++)
        MU_TRY(read_one(r, json_object_get(o, k->name), k, (char *)of + k->at));
    return MU_OK;
}

static mu_status read_batches(reading *r, const json_t *o, mu_costs *c) {
    const json_t *a = json_object_get(o, "sizes");
    const size_t n = json_array_size(a);
    if (n < 1 || n > MU_COST_SIZES) return wrong(r, "sizes", "is not a list of 1 to 5 numbers");
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(a, i);
        c->size[i] = json_is_integer(v) ? json_integer_value(v) : 0;
        if (c->size[i] < 1 || c->size[i] > (int64_t)1e9 || (i && c->size[i] <= c->size[i - 1]))
            return wrong(r, "sizes", "is not a list of rising numbers");
    }
    r->n_sizes = c->n_sizes = (int)n;
    return MU_OK;
}

static mu_status read_job(const reading *r, const json_t *o, mu_costs *c) {
    const char *hash = json_string_value(json_object_get(o, "job"));
    const json_t *format = json_object_get(o, "format");
    if (!json_is_integer(format) || json_integer_value(format) != FORMAT)
        return wrong(r, "format", "is not that of this version");
    if (!hash || strlen(hash) != 16 || strspn(hash, "0123456789abcdef") != 16)
        return wrong(r, "job", "is not 16 hexadecimal digits");
    c->job = strtoull(hash, NULL, 16);
    return MU_OK;
}

// An array of objects; *out gets room for them. The list may be empty.
static mu_status open_list(const reading *r, const json_t *o, const char *name, size_t most, size_t each,
                           void **out, int *n, const json_t **list) {
    *list = json_object_get(o, name);
    if (!json_is_array(*list) || json_array_size(*list) > most) return wrong(r, name, "is no list, or too long");
    *n = (int)json_array_size(*list);
    if (!out) return MU_OK;
    *out = mu_alloc_array((size_t)*n + 1, each, "costs");
    return *out ? MU_OK : MU_FAIL_NOMEM(r->err, "the costs");
}

static bool read_flag(const json_t *o, const char *name, bool *out) {
    const json_t *v = json_object_get(o, name);
    *out = json_is_true(v);
    return json_is_boolean(v);
}

static mu_status read_lists(const reading *r, const json_t *o, mu_costs *c) {
    const json_t *list;
    int n = 0;
    MU_TRY(open_list(r, o, "layers", MU_COST_LAYERS, sizeof *c->layer, (void **)&c->layer, &n, &list));
    for (; c->n_layers < n; c->n_layers++)
        MU_TRY(read_rows(r, json_array_get(list, (size_t)c->n_layers), of_layer, &c->layer[c->n_layers]));
    MU_TRY(open_list(r, o, "params", MOST_PARAMS, sizeof *c->param, (void **)&c->param, &n, &list));
    for (; c->n_params < n; c->n_params++) {
        const json_t *p = json_array_get(list, (size_t)c->n_params);
        MU_TRY(read_rows(r, p, of_param, &c->param[c->n_params]));
        if (!read_flag(p, "fixed", &c->param[c->n_params].fixed)) return wrong(r, "fixed", "is not true or false");
    }
    MU_TRY(open_list(r, o, "splits", sizeof c->split / sizeof *c->split, 0, NULL, &n, &list));
    for (; c->n_splits < n; c->n_splits++) {
        const json_t *p = json_array_get(list, (size_t)c->n_splits);
        MU_TRY(read_rows(r, p, of_split, &c->split[c->n_splits]));
        if (!read_flag(p, "auto", &c->split[c->n_splits].auto_cut)) return wrong(r, "auto", "is not true or false");
    }
    return MU_OK;
}

mu_status mu_costs_parse(const char *text, size_t size, const char *what, mu_costs *out, mu_err *err) {
    json_t *o = NULL;
    mu_err own = {0};
    reading r = {.what = what, .err = err};
    *out = (mu_costs){0};
    mu_status st = mu_json_parse(text, size, &limits, what, &o, &own);
    if (st == MU_EMODEL) return mu_err_hinted(MU_FAIL(err, MU_EDATA, "%s", own.msg), err,
                                              "Remove the file: costs are measured again by `muster plan`.");
    if (st != MU_OK) return mu_err_pass(st, &own, err);
    st = read_job(&r, o, out);
    if (st == MU_OK) st = read_batches(&r, o, out);
    if (st == MU_OK) st = read_rows(&r, o, of_costs, out);
    if (st == MU_OK) st = read_lists(&r, o, out);
    json_decref(o);
    if (st != MU_OK) mu_costs_fini(out);
    return st;
}
