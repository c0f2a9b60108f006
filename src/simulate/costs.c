// SPDX-License-Identifier: Apache-2.0
// costs.c - see costs.h.
#include "simulate/costs.h"

#include "file/fs.h"
#include "file/json.h"
#include "simulate/machine.h"
#include "simulate/wraps.h"

#include <string.h>

#define TAG "costs"

// An update by one gradient reads it, weights and a history, and writes both of these: each gradient more is
// one of five ways more.
#define WAYS 5.0

static double ns_per_float;

static mu_status wrong(const char *path, const char *what, mu_err *err) {
    return mu_err_hinted(MU_FAIL(err, MU_EMODEL, "`%s`: %s", path, what), err,
                         "`muster time JOB --json` of the same net writes it.");
}

// Copies of an unrolled layer have one row together.
static int copies_of(const mu_net *net, const mu_layer *family) {
    int n = 0;
    for (int i = 1; i < net->n_layers; i++) n += mu_net_family(net->layer[i]) == family;
    return n;
}

static const json_t *row_of(const json_t *list, const mu_layer *family) {
    const char *wanted = family->n_copies ? family->origin : family->name;
    size_t i;
    const json_t *l;
    json_array_foreach(list, i, l) {
        const char *name = json_string_value(json_object_get(l, "name"));
        if (name && !strcmp(name, wanted)) return l;
    }
    return NULL;
}

static mu_status take_layers(const json_t *list, const char *path, const mu_net *net, mu_sim_costs *c,
                             mu_err *err) {
    for (int i = 0; i < c->n; i++) {
        const mu_layer *family = mu_net_family(net->layer[i + 1]);
        const json_t *l = row_of(list, family);
        const double share = 1e-3 / copies_of(net, family);
        if (!l) return wrong(path, "has not all layers of the net", err);
        c->forward_s[i] = share * json_number_value(json_object_get(l, "forward_ms"));
        c->backward_s[i] = share * json_number_value(json_object_get(l, "backward_ms"));
        if (!(c->forward_s[i] >= 0) || !(c->backward_s[i] >= 0))
            return wrong(path, "has a time below 0", err);
    }
    return MU_OK;
}

static mu_status take(json_t *o, const char *path, const mu_net *net, int64_t rows, mu_sim_costs *c,
                      mu_err *err) {
    const double bytes_ms = json_number_value(json_object_get(o, "floor_bytes_ms"));
    const double update_ms = json_number_value(json_object_get(o, "update_ms"));
    c->batch = json_integer_value(json_object_get(o, "batch"));
    if (c->batch < 1) return wrong(path, "does not say of how many samples it is", err);
    MU_TRY(take_layers(json_object_get(o, "layers"), path, net, c, err));
    for (int i = 0; i < c->n; i++) {
        c->forward_s[i] *= (double)rows / (double)c->batch;
        c->backward_s[i] *= (double)rows / (double)c->batch;
    }
    c->update_s = 1e-3 * (update_ms > bytes_ms ? update_ms : bytes_ms);
    return MU_OK;
}

mu_status mu_sim_costs_load(const char *path, const mu_net *net, int64_t rows, mu_sim_costs *out, mu_err *err) {
    static const mu_json_limits limits = {8, 1 << 20};
    mu_sim_costs c = {.n = net->n_layers - 1};
    char *text = NULL;
    size_t size;
    json_t *o = NULL;
    c.forward_s = mu_alloc_array((size_t)c.n, sizeof(double), TAG);
    c.backward_s = mu_alloc_array((size_t)c.n, sizeof(double), TAG);
    mu_status st = c.forward_s && c.backward_s ? MU_OK : MU_FAIL_NOMEM(err, "the costs of layers");
    mu_json_init();
    if (st == MU_OK) st = mu_fs_read(path, (size_t)16 << 20, &text, &size, err);
    if (st == MU_OK) st = mu_json_parse(text, size, &limits, path, &o, err);
    if (st == MU_OK) st = take(o, path, net, rows, &c, err);
    json_decref(o);
    mu_free(text);
    if (st == MU_OK) *out = c;
    else mu_sim_costs_fini(&c);
    return st;
}

void mu_sim_costs_fini(mu_sim_costs *c) {
    mu_free(c->forward_s);
    mu_free(c->backward_s);
    *c = (mu_sim_costs){0};
}

double mu_sim_costs_gradient_s(const mu_sim_costs *c) {
    double sum = 0;
    for (int i = 0; i < c->n; i++) sum += c->forward_s[i] + c->backward_s[i];
    return sum;
}

void mu_sim_costs_set_update(const mu_sim_costs *c, size_t floats, int threads) {
    ns_per_float = 1e9 * c->update_s / (double)floats / threads;
}

void __wrap_mu_apply_slice(const mu_apply *a, const mu_slice_range *range, _Atomic size_t *done,
                           mu_undo *undo) {
    (void)undo;
    const size_t n = range->end - range->begin;
    double ways = 0;
    for (int i = 0; i < a->n; i++) ways += (WAYS - 1 + a->update[i].n) / WAYS;
    mu_machine_spend((double)n * ways * ns_per_float);
    atomic_store(done, n * (size_t)a->n);
}
