// SPDX-License-Identifier: Apache-2.0
// api_params.c - the installed C interface: parameters and layers of a run, one by one.
//
// Values lie in one block that every net of the run reads, so what is written here counts from the next pass
// on; a training by several learners begins with a copy of that block (run/helper.h).
#include "run/api.h"

#include "ops/finite.h"

#include <string.h>

_Static_assert(MUSTER_DIMS >= MU_MAX_DIMS, "every shape fits");

static void put_shape(const mu_shape *s, int from, size_t *n_dims, int64_t shape[MUSTER_DIMS]) {
    memset(shape, 0, MUSTER_DIMS * sizeof *shape);
    *n_dims = (size_t)(s->n - from);
    for (int i = from; i < s->n; i++) shape[i - from] = s->d[i];
}

// ---- parameters ----

static void describe_param(const mu_param *p, muster_param *out) {
    *out =
        (muster_param){.name = p->name, .count = (size_t)mu_shape_count(&p->shape), .trained = !p->is_stat};
    put_shape(&p->shape, 0, &out->n_dims, out->shape);
}

// Those of a model; *n counts them. The index-th one, or NULL.
static const mu_param *param_at(const mu_params *ps, size_t index, size_t *n) {
    const mu_param *found = NULL;
    *n = 0;
    for (int i = 0; ps && i < ps->n; i++) {
        if (ps->list[i]->is_state) continue;
        if (*n == index) found = ps->list[i];
        ++*n;
    }
    return found;
}

static mu_status find_param(const muster_run *run, const char *name, const mu_param **out, mu_err *err) {
    const mu_params *ps = run->session->params;
    const char *names[256];
    size_t n = 0;
    for (int i = 0; ps && i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        if (p->is_state) continue;
        if (!strcmp(p->name, name)) {
            *out = p;
            return MU_OK;
        }
        if (n < MU_COUNT(names)) names[n++] = p->name;
    }
    MU_FAIL(err, MU_EUSAGE, "the net has no parameter `%s`", name);
    return mu_err_suggest(MU_EUSAGE, err, "", mu_nearest(name, names, n));
}

static mu_status find_counted(const muster_run *run, const char *name, size_t count, const mu_param **out,
                              mu_err *err) {
    MU_TRY(find_param(run, name, out, err));
    const size_t have = (size_t)mu_shape_count(&(*out)->shape);
    if (have == count) return MU_OK;
    return MU_FAIL(err, MU_EUSAGE, "parameter `%s` has %zu values, not %zu", name, have, count);
}

static mu_status set_values(muster_run *run, const char *name, const float *values, size_t count,
                            mu_err *err) {
    const mu_param *p = NULL;
    MU_TRY(find_counted(run, name, count, &p, err));
    if (!mu_is_below(values, count, MU_BELOW_INFINITY))
        return MU_FAIL(err, MU_EDATA, "values for parameter `%s` are not finite", name);
    memcpy(p->value, values, count * sizeof *values);
    return MU_OK;
}

muster_status muster_run_param_count(muster_run *run, size_t *n, muster_error *err) {
    if (!run || !n)
        return mu_api_misuse(err, "muster_run_param_count needs a run and a place for the number");
    (void)param_at(run->session->params, 0, n);
    return MUSTER_OK;
}

muster_status muster_run_param_at(muster_run *run, size_t index, muster_param *out, muster_error *err) {
    size_t n;
    if (!run || !out) return mu_api_misuse(err, "muster_run_param_at needs a run and a place for the answer");
    const mu_param *p = param_at(run->session->params, index, &n);
    mu_err e = {0};
    if (!p) return mu_api_fail(MU_FAIL(&e, MU_EUSAGE, "parameter %zu asked of %zu", index, n), &e, err);
    describe_param(p, out);
    return MUSTER_OK;
}

muster_status muster_run_param_find(muster_run *run, const char *name, muster_param *out, muster_error *err) {
    if (!run || !name || !out)
        return mu_api_misuse(err, "muster_run_param_find needs a run, a name and a place for the answer");
    const mu_param *p = NULL;
    mu_err e = {0};
    const mu_status st = find_param(run, name, &p, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    describe_param(p, out);
    return MUSTER_OK;
}

muster_status muster_run_param_get(muster_run *run, const char *name, float *values, size_t count,
                                   muster_error *err) {
    if (!run || !name || !values)
        return mu_api_misuse(err, "muster_run_param_get needs a run, a name and an array");
    const mu_param *p = NULL;
    mu_err e = {0};
    const mu_status st = find_counted(run, name, count, &p, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    memcpy(values, p->value, count * sizeof *values);
    return MUSTER_OK;
}

muster_status muster_run_param_set(muster_run *run, const char *name, const float *values, size_t count,
                                   muster_error *err) {
    if (!run || !name || !values)
        return mu_api_misuse(err, "muster_run_param_set needs a run, a name and an array");
    mu_err e = {0};
    const mu_status st = set_values(run, name, values, count, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

// ---- layers ----

// Those of the job; copies of an unrolled layer count one by one, as they have outputs of their own.
static const mu_layer *layer_at(const mu_net *net, size_t index, size_t *n) {
    const mu_layer *found = NULL;
    *n = 0;
    for (int i = 1; i < net->n_layers; i++) {
        if (!net->layer[i]->node) continue;
        if (*n == index) found = net->layer[i];
        ++*n;
    }
    return found;
}

static void describe_layer(const mu_net *net, const mu_layer *l, muster_layer *out) {
    *out = (muster_layer){.name = l->name, .type = l->class->name, .n_outputs = (size_t)l->n_out};
    if (!l->n_out) return;
    const mu_shape *s = &l->out[0].value.shape;
    if (s->n < 1 || s->d[0] != net->batch) return;
    put_shape(s, 1, &out->n_dims, out->shape);
    out->count = mu_api_row_size(&l->out[0]);
}

muster_status muster_run_layer_count(muster_run *run, size_t *n, muster_error *err) {
    if (!run || !n)
        return mu_api_misuse(err, "muster_run_layer_count needs a run and a place for the number");
    mu_err e = {0};
    const mu_status st = mu_api_ready_predict(run, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    (void)layer_at(run->session->predict.net, 0, n);
    return MUSTER_OK;
}

muster_status muster_run_layer_at(muster_run *run, size_t index, muster_layer *out, muster_error *err) {
    if (!run || !out) return mu_api_misuse(err, "muster_run_layer_at needs a run and a place for the answer");
    mu_err e = {0};
    const mu_status st = mu_api_ready_predict(run, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    size_t n;
    const mu_net *net = run->session->predict.net;
    const mu_layer *l = layer_at(net, index, &n);
    if (!l) return mu_api_fail(MU_FAIL(&e, MU_EUSAGE, "layer %zu asked of %zu", index, n), &e, err);
    describe_layer(net, l, out);
    return MUSTER_OK;
}
