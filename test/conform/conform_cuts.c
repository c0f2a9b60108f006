// SPDX-License-Identifier: Apache-2.0
// conform_cuts.c - every layer of the registry, new plug-ins included, may be cut as it says (layer/cut.h).
//
// For each layer, each of its settings in layer_table.h and each grid of up to 4 parts that its rules allow,
// uneven ones included: the parts get their shares of the sources and output gradients of the whole layer,
// and pieces of its parameters. Put together they must give the outputs, metrics, source gradients, parameter
// gradients and statistics of the whole one, in a short batch, too; energy layers also when they learn by
// contrast. Noise, dropout and drawn units are on.
#include "layer_rig.h"
#include "layer_table.h"

#include <unistd.h>

enum { MOST = 4, GRIDS = MOST * MOST };

typedef struct trial {
    const mu_layer_class *class;
    const char *settings, *sources, *ops;
    mu_phase phase;
    const mu_contrast *contrast; // NULL: learns by backward
    int64_t short_by;            // rows of the batch that are not valid
    uint64_t seed;
    int batch, feature; // parts
} trial;

#define FAIL(t, fmt, ...)                                                                                    \
    fail_msg("layer %s {%s} on %s, cut into %d x %d, ops %s, %s, seed %llu: " fmt, (t)->class->name,         \
             (t)->settings, (t)->sources, (t)->batch, (t)->feature, (t)->ops, mu_phase_name((t)->phase),     \
             (unsigned long long)(t)->seed, __VA_ARGS__)

static int n_cuts, n_layers_cut;

// ---- rigs ----

static bool learns(const mu_layer *l) {
    return l->phase == MU_TRAIN && (l->in_contrast || (l->class->backward && !l->contrast));
}

// The whole layer. False: the settings do not suit the phase.
static bool open_whole(rig *r, const trial *t) {
    mu_err err;
    if (rig_prepare(r, t->class, t->settings, t->sources, t->phase, t->seed, &err) != MU_OK) return false;
    r->layer.contrast = t->contrast;
    if (t->class->infer(&r->layer, &err) != MU_OK) return false;
    rig_setup(r);
    for (int k = 0; k < r->layer.n_out; k++) { // no loss says anything about rows that are not valid
        const mu_tensor *dy = &r->layer.out[k].grad;
        const int64_t row = mu_shape_inner(&dy->shape, 1), all = mu_shape_count(&dy->shape);
        memset(dy->f + all - t->short_by * row, 0, (size_t)(t->short_by * row) * sizeof(float));
    }
    r->layer.in_backward = learns(&r->layer) && !r->layer.in_contrast;
    return true;
}

static void open_part(rig *r, const rig *whole, const trial *t, const mu_cut_rules *rules, const mu_cut *cut,
                      int piece) {
    const mu_layer *w = &whole->layer;
    mu_layer *l = &r->layer;
    mu_err err;
    assert_int_equal(rig_prepare(r, t->class, t->settings, t->sources, t->phase, t->seed, &err), MU_OK);
    mu_params_destroy(r->net.params);
    assert_int_equal(mu_params_create_pieces(whole->net.params, &r->net.params, &err), MU_OK);
    l->contrast = t->contrast;
    l->cut = *cut;
    l->piece = piece;
    for (int k = 0; k < l->n_src; k++) {
        const mu_cut c = mu_layer_src_cut(w, rules, cut, k);
        l->src[k]->value.shape = l->src[k]->grad.shape = mu_cut_shape(mu_layer_src_shape(w, k), &c);
    }
    if (mu_is_cut(&cut->feature) && t->class->take_part) t->class->take_part(l);
    if (t->class->infer(l, &err) != MU_OK) FAIL(t, "part %d cannot be: %s", piece, err.msg);
    for (int k = 0; k < l->n_out; k++) {
        const mu_cut c = mu_layer_out_cut(w, cut, k);
        const mu_shape want = mu_cut_shape(&w->out[k].value.shape, &c);
        char a[96], b[96];
        if (!mu_shape_equal(&want, &l->out[k].value.shape))
            FAIL(t, "output %d of a part is %s, not %s", k, mu_shape_text(&l->out[k].value.shape, a),
                 mu_shape_text(&want, b));
    }
    rig_setup(r);
    l->in_backward = learns(l) && !l->in_contrast;
}

// Sources and output gradients of a part are those of the whole in its place.
static void share_out(rig *r, const rig *whole, const mu_cut_rules *rules) {
    const mu_layer *w = &whole->layer;
    mu_layer *l = &r->layer;
    for (int k = 0; k < l->n_src; k++) {
        const mu_cut c = mu_layer_src_cut(w, rules, &l->cut, k);
        mu_cut_take(l->src[k]->value.data, w->src[k]->value.data, mu_layer_src_shape(w, k), &c);
    }
    for (int k = 0; k < l->n_out; k++) {
        const mu_cut c = mu_layer_out_cut(w, &l->cut, k);
        mu_cut_take(l->out[k].grad.data, w->out[k].grad.data, &w->out[k].value.shape, &c);
    }
}

static void run(rig *r, const trial *t, int64_t rows) {
    mu_layer *l = &r->layer;
    const mu_step s = {
        .phase = t->phase, .step = 3, .first_sample = 40, .rows = rows - t->short_by, .global_rows = rows};
    mu_err err = {0};
    for (int k = 0; k < l->n_param; k++) l->param[k]->grad.form = MU_GRAD_NONE;
    if (mu_net_pass(l, MU_PASS_FORWARD, &s, &err) != MU_OK || mu_net_pass(l, MU_PASS_BACK, &s, &err) != MU_OK)
        FAIL(t, "%s", err.msg);
}

// ---- what a layer gives, by places of the whole ----

typedef struct given {
    float *out[MU_MAX_OUT], *dsrc[MU_MAX_SRC], *grad, *stat;
    double sum[MU_MAX_METRIC], weight[MU_MAX_METRIC];
} given;

static float *zeros(size_t n) {
    float *p = mu_alloc((n + 1) * sizeof *p, "test");
    assert_non_null(p);
    return p;
}

static void open_given(given *g, const rig *whole) {
    const mu_layer *w = &whole->layer;
    *g = (given){.grad = zeros(whole->net.params->count), .stat = zeros(whole->net.params->count)};
    for (int k = 0; k < w->n_out; k++) g->out[k] = zeros(mu_tensor_count(&w->out[k].value));
    for (int k = 0; k < w->n_src; k++) g->dsrc[k] = zeros(mu_tensor_count(&w->src[k]->value));
}

static void close_given(given *g) {
    mu_free(g->grad);
    mu_free(g->stat);
    for (int k = 0; k < MU_MAX_OUT; k++) mu_free(g->out[k]);
    for (int k = 0; k < MU_MAX_SRC; k++) mu_free(g->dsrc[k]);
}

static void add_rectangle(float *to, const float *from, const mu_shape *shape, const mu_cut *c) {
    const mu_shape part = mu_cut_shape(shape, c);
    const size_t n = (size_t)mu_shape_count(&part);
    float *have = zeros(n);
    mu_cut_take(have, to, shape, c);
    for (size_t i = 0; i < n; i++) have[i] += from[i];
    mu_cut_put(to, have, shape, c);
    mu_free(have);
}

// Adds what r has left, a part or the whole layer itself.
static void collect(given *g, const rig *r, const rig *whole, const mu_cut_rules *rules) {
    const mu_layer *l = &r->layer, *w = &whole->layer;
    for (int k = 0; k < l->n_out; k++) {
        const mu_cut c = mu_layer_out_cut(w, &l->cut, k);
        mu_cut_put(g->out[k], l->out[k].value.data, &w->out[k].value.shape, &c);
    }
    for (int k = 0; k < l->n_src && l->in_backward; k++) {
        const mu_cut c = mu_layer_src_cut(w, rules, &l->cut, k);
        if (l->src[k]->grad.f) add_rectangle(g->dsrc[k], l->src[k]->grad.f, mu_layer_src_shape(w, k), &c);
    }
    for (int k = 0; k < l->n_param; k++) {
        const mu_param *p = l->param[k];
        for (size_t i = 0; i < p->count; i++)
            if (p->is_stat) g->stat[p->offset + i] = p->value[i];
            else if (p->grad.form == MU_GRAD_DENSE) g->grad[p->offset + i] += p->grad.dense[i];
    }
    for (int k = 0; k < l->n_metric; k++) {
        g->sum[k] += l->metric[k].sum;
        g->weight[k] += l->metric[k].weight;
    }
}

// ---- comparing ----

static void same_floats(const trial *t, const char *what, int k, const float *want, const float *got,
                        size_t n) {
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)want[i] * (double)want[i];
    const double tol = 2e-5 * sqrt(square / (double)(n ? n : 1)) + 1e-6;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)want[i] - (double)got[i]) <= tol + 1e-5 * fabs((double)want[i])))
            FAIL(t, "%s %d: element %zu of %zu is %.8g, of the whole layer %.8g", what, k, i, n,
                 (double)got[i], (double)want[i]);
}

// Of the valid rows; the others hold what nobody reads.
static void compare(const trial *t, const rig *whole, const given *want, const given *got, int64_t rows) {
    const mu_layer *w = &whole->layer;
    for (int k = 0; k < w->n_out; k++) {
        const mu_tensor *v = &w->out[k].value;
        const size_t n = (size_t)(mu_shape_inner(&v->shape, 1) * rows);
        if (v->dtype == MU_F32) same_floats(t, "output", k, want->out[k], got->out[k], n);
        else if (memcmp(want->out[k], got->out[k], n * 4)) FAIL(t, "integers of output %d differ", k);
    }
    for (int k = 0; k < w->n_src; k++)
        same_floats(t, "gradient of source", k, want->dsrc[k], got->dsrc[k],
                    (size_t)(mu_shape_inner(mu_layer_src_shape(w, k), 1) * rows));
    for (int k = 0; k < w->n_param; k++) {
        const mu_param *p = w->param[k];
        same_floats(t, p->is_stat ? "statistic" : "gradient of parameter", k,
                    (p->is_stat ? want->stat : want->grad) + p->offset,
                    (p->is_stat ? got->stat : got->grad) + p->offset, p->count);
    }
    for (int k = 0; k < w->n_metric; k++) {
        const double tol = 1e-5 * (1 + fabs(want->sum[k]));
        if (!(fabs(want->sum[k] - got->sum[k]) <= tol) || !(fabs(want->weight[k] - got->weight[k]) <= 1e-9))
            FAIL(t, "metric %s is %.8g of %g, of the whole layer %.8g of %g", w->metric[k].name, got->sum[k],
                 got->weight[k], want->sum[k], want->weight[k]);
    }
}

// ---- the loop ----

static void check_grid(const trial *t, rig *whole, const mu_cut_rules *rules, const given *want,
                       const float *values) {
    const mu_layer *w = &whole->layer;
    const int64_t rows = mu_layer_src_shape(w, 0)->d[0], features = mu_layer_features(w);
    given got;
    open_given(&got, whole);
    memcpy(whole->net.params->value, values, whole->net.params->count * sizeof *values);
    for (int b = 0; b < t->batch; b++)
        for (int f = 0; f < t->feature; f++) {
            mu_cut cut = {{0}, {0}};
            if (t->batch > 1) cut.batch = mu_extent_part(rows, 1, b, t->batch);
            if (t->feature > 1) cut.feature = mu_extent_part(features, rules->grain, f, t->feature);
            rig *r = calloc(1, sizeof *r);
            open_part(r, whole, t, rules, &cut, f);
            share_out(r, whole, rules);
            run(r, t, rows);
            if (!rig_guards_hold(r)) FAIL(t, "part %d, %d writes behind a buffer", b, f);
            collect(&got, r, whole, rules);
            rig_fini(r);
            free(r);
        }
    compare(t, whole, want, &got, rows - t->short_by);
    close_given(&got);
    n_cuts++;
}

static bool check_trial(trial t) {
    rig *whole = calloc(1, sizeof *whole);
    bool any = false;
    if (open_whole(whole, &t)) {
        const mu_layer *w = &whole->layer;
        const mu_cut_rules rules = mu_layer_cut_rules(w);
        const int64_t rows = mu_layer_src_shape(w, 0)->d[0], units = mu_layer_features(w) / rules.grain;
        const int64_t most_b = rules.cuts & MU_CUT_BATCH ? rows : 1,
                      most_f = rules.cuts & MU_CUT_FEATURE ? units : 1;
        const size_t count = whole->net.params->count;
        float *values = zeros(count);
        memcpy(values, whole->net.params->value, count * sizeof *values);
        given want;
        open_given(&want, whole);
        run(whole, &t, rows);
        collect(&want, whole, whole, &rules);
        for (t.batch = 1; t.batch <= MOST && t.batch <= most_b; t.batch++)
            for (t.feature = 1; t.batch * t.feature <= MOST && t.feature <= most_f; t.feature++) {
                if (t.batch * t.feature == 1) continue;
                check_grid(&t, whole, &rules, &want, values);
                any = true;
            }
        close_given(&want);
        mu_free(values);
    }
    rig_fini(whole);
    free(whole);
    return any;
}

static bool check_settings(const mu_layer_class *c, const char *settings, const char *sources) {
    static const char *const ops[] = {"all", "ref"};
    static const mu_contrast contrasts[] = {{.k = 2, .chains = 8}, {.k = 1, .persistent = true, .chains = 8}};
    bool any = false;
    for (size_t o = 0; o < MU_COUNT(ops); o++)
        for (int64_t short_by = 0; short_by < 2; short_by++) {
            if (o) setenv("MUSTER_OPS", ops[o], 1);
            trial t = {.class = c,
                       .settings = settings,
                       .sources = sources,
                       .ops = ops[o],
                       .phase = MU_TRAIN,
                       .short_by = short_by,
                       .seed = 1 + (uint64_t)short_by};
            any |= check_trial(t);
            for (size_t k = 0; c->contrast && k < MU_COUNT(contrasts); k++) {
                t.contrast = &contrasts[k];
                any |= check_trial(t);
            }
            t.contrast = NULL;
            t.phase = MU_TEST;
            any |= check_trial(t);
            unsetenv("MUSTER_OPS");
        }
    return any;
}

static int count_sources(const char *sources) {
    int n = 1;
    for (const char *p = sources; *p; p++) n += *p == ' ';
    return n;
}

static void every_layer_may_be_cut_as_it_says(void **state) {
    (void)state;
    for (size_t i = 0; i < mu_layers.n; i++) {
        const mu_layer_class *c = (const mu_layer_class *)mu_layers.list[i];
        bool known = false, any = false;
        for (size_t k = 0; k < MU_COUNT(layer_table); k++)
            if (!strcmp(layer_table[k].layer, c->name)) {
                known = true;
                any |= check_settings(c, layer_table[k].settings, layer_table[k].sources);
            }
        for (size_t k = 0; !known && k < MU_COUNT(layer_fallback); k++) {
            const int n = count_sources(layer_fallback[k]);
            if (n >= mu_layer_min_src(c) && n <= mu_layer_max_src(c))
                any |= check_settings(c, "", layer_fallback[k]);
        }
        n_layers_cut += any;
        if (!any)
            print_message("layer %s is never cut: %s\n", c->name, c->uncut ? c->uncut : "it says nothing");
    }
    unlink("conform_layer.out");
    print_message("%d layers, %d cuts\n", n_layers_cut, n_cuts);
    assert_true(n_layers_cut > 35 && n_cuts > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layer_may_be_cut_as_it_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
