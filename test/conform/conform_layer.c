// SPDX-License-Identifier: Apache-2.0
// conform_layer.c - what every layer of the registry must do, new plug-ins included.
//
// For each layer and each of its settings in layer_table.h, with the best op implementations and with the
// plain ones:
//   - forward writes exactly its declared outputs, the same ones again when repeated, allocates nothing
//   - backward agrees with central differences for every source and parameter
//   - backward reads only what the flags say: everything else is poisoned before it is called
//   - source gradients are written (=), parameter gradients written first and added after
//   - in place gives the same as apart
//   - losses count only valid rows
//   - teardown frees everything, also after an allocation has failed
#include "layer_rig.h"
#include "layer_table.h"

#include <unistd.h>

typedef struct where {
    const char *settings, *sources, *ops;
    uint64_t seed;
} where;

#define FAIL(r, w, fmt, ...)                                                                                 \
    fail_msg("layer %s {%s} on %s, ops %s, seed %llu: " fmt, (r)->layer.class->name, (w)->settings,          \
             (w)->sources, (w)->ops, (unsigned long long)(w)->seed, __VA_ARGS__)

static size_t words(const mu_tensor *t) { return mu_tensor_count(t); }

// ---- forward ----

static void check_outputs(rig *r, const where *w) {
    mu_layer *l = &r->layer;
    mu_step s = rig_step(r);
    bool alias = l->class->flags & MU_LAYER_ALIAS;
    for (int k = 0; k < l->n_out && !alias; k++) rig_poison(l->out[k].value.data, words(&l->out[k].value));
    rig_poison(l->scratch, l->scratch_bytes / 4);
    mu_metric said[MU_MAX_METRIC];
    memcpy(said, l->metric, sizeof said);
    uint64_t calls = mu_alloc_get_stats().n_calls;
    rig_forward(r, &s);
    for (int k = 0; k < l->n_metric; k++)
        if (l->metric[k].is_loss != said[k].is_loss || l->metric[k].name != said[k].name)
            FAIL(r, w, "metric %s is another one than infer said", l->metric[k].name);
    if (mu_alloc_get_stats().n_calls != calls) FAIL(r, w, "%s", "forward allocates");
    uint32_t *first[MU_MAX_OUT];
    for (int k = 0; k < l->n_out; k++) {
        size_t n = words(&l->out[k].value);
        first[k] = mu_alloc(n * 4 + 4, "test");
        memcpy(first[k], l->out[k].value.data, n * 4);
        for (size_t i = 0; i < n; i++)
            if (first[k][i] == 0x7fc00000u)
                FAIL(r, w, "output %d, element %zu of %zu is not written", k, i, n);
    }
    rig_poison(l->scratch, l->scratch_bytes / 4);
    rig_forward(r, &s);
    for (int k = 0; k < l->n_out; k++) {
        if (memcmp(first[k], l->out[k].value.data, words(&l->out[k].value) * 4))
            FAIL(r, w, "output %d differs the second time", k);
        mu_free(first[k]);
    }
}

// ---- gradients ----

static void poison_for_backward(rig *r) {
    mu_layer *l = &r->layer;
    unsigned flags = l->class->flags;
    bool alias = flags & MU_LAYER_ALIAS;
    if (!(flags & MU_BACK_NEEDS_SRC) && !(alias && (flags & MU_BACK_NEEDS_DST)))
        for (int k = 0; k < l->n_src; k++) {
            if (l->src[k]->value.dtype == MU_F32) rig_poison(l->src[k]->value.data, words(&l->src[k]->value));
            else memset(l->src[k]->value.data, 0, words(&l->src[k]->value) * 4);
        }
    if (!(flags & MU_BACK_NEEDS_DST) && !alias)
        for (int k = 0; k < l->n_out; k++) rig_poison(l->out[k].value.data, words(&l->out[k].value));
    for (int k = 0; k < l->n_src; k++) rig_poison(l->src[k]->grad.data, words(&l->src[k]->value));
    rig_poison(l->scratch, l->scratch_bytes / 4);
    for (int k = 0; k < l->n_param; k++) {
        l->param[k]->grad.form = MU_GRAD_NONE;
        rig_poison(l->param[k]->grad.dense, l->param[k]->count);
    }
}

// The slope of the objective in direction x[i]; NAN at a kink.
static double slope(rig *r, const mu_step *s, float *x) {
    float x0 = *x;
    double d[2];
    for (int j = 0; j < 2; j++) {
        float eps = j ? 0.005f : 0.01f, up = x0 + eps, down = x0 - eps;
        *x = up;
        double above = rig_objective(r, s);
        *x = down;
        double below = rig_objective(r, s);
        d[j] = (above - below) / ((double)up - (double)down);
    }
    *x = x0;
    double size = fabs(d[0]) > fabs(d[1]) ? fabs(d[0]) : fabs(d[1]);
    if (fabs(d[0] - d[1]) > 0.02 * size + 2e-4) return NAN;
    return (4 * d[1] - d[0]) / 3;
}

static void compare_slopes(rig *r, const where *w, const mu_step *s, const char *name, float *x,
                           const float *dx, size_t n) {
    enum { TRIES = 40 };
    double square = 0;
    for (size_t i = 0; i < n; i++) square += (double)dx[i] * (double)dx[i];
    if (isnan(square)) FAIL(r, w, "the gradient of %s is not written or not finite", name);
    double rms = sqrt(square / (double)n);
    size_t skipped = 0, tried = n < TRIES ? n : TRIES;
    for (size_t t = 0; t < tried; t++) {
        size_t i = n <= TRIES ? t : (t * 2654435761u + (size_t)w->seed) % n;
        double want = slope(r, s, &x[i]), got = (double)dx[i], tol = 5e-3 * fabs(got) + 2e-3 * rms + 2e-4;
        if (isnan(want)) skipped++;
        else if (!(fabs(want - got) <= tol))
            FAIL(r, w, "gradient of %s[%zu] is %.6g, central difference %.6g, tolerance %.2g", name, i, got,
                 want, tol);
    }
    if (skipped > tried / 2) FAIL(r, w, "%s: %zu of %zu elements are at kinks", name, skipped, tried);
}

static float *copy_of(const float *x, size_t n) {
    float *c = mu_alloc(n * sizeof *c + 4, "test");
    memcpy(c, x, n * sizeof *c);
    return c;
}

static void check_slopes(rig *r, const where *w, const mu_step *s) {
    mu_layer *l = &r->layer;
    float *dsrc[MU_MAX_SRC] = {0}, *dparam[MU_MAX_PARAM] = {0};
    for (int k = 0; k < l->n_src; k++)
        if (l->src[k]->grad.data) dsrc[k] = copy_of(l->src[k]->grad.f, words(&l->src[k]->value));
    for (int k = 0; k < l->n_param; k++)
        if (!l->param[k]->is_stat) dparam[k] = copy_of(l->param[k]->grad.dense, l->param[k]->count);
    rig_fill_sources(r);
    for (int k = 0; k < l->n_src; k++)
        if (dsrc[k])
            compare_slopes(r, w, s, l->src[k]->name, l->src[k]->value.f, dsrc[k], words(&l->src[k]->value));
    for (int k = 0; k < l->n_param; k++)
        if (dparam[k])
            compare_slopes(r, w, s, l->param[k]->name, l->param[k]->value, dparam[k], l->param[k]->count);
    for (int k = 0; k < l->n_src; k++) mu_free(dsrc[k]);
    for (int k = 0; k < l->n_param; k++) mu_free(dparam[k]);
}

static void check_gradients(rig *r, const where *w) {
    mu_layer *l = &r->layer;
    mu_step s = rig_step(r);
    rig_fill_sources(r);
    rig_forward(r, &s);
    poison_for_backward(r);
    uint64_t calls = mu_alloc_get_stats().n_calls;
    rig_backward(r, &s);
    if (mu_alloc_get_stats().n_calls != calls) FAIL(r, w, "%s", "backward allocates");
    for (int k = 0; k < l->n_param; k++) {
        const mu_param *p = l->param[k];
        if (!p->is_stat && p->grad.form != MU_GRAD_DENSE)
            FAIL(r, w, "the gradient of %s has form %d, not dense, though factors are not allowed", p->name,
                 (int)p->grad.form);
    }
    check_slopes(r, w, &s);
}

// A second backward in the same step: parameters shared by two layers add up.
static void check_accumulation(rig *r, const where *w) {
    mu_layer *l = &r->layer;
    mu_step s = rig_step(r);
    rig_fill_sources(r);
    for (int k = 0; k < l->n_param; k++) l->param[k]->grad.form = MU_GRAD_NONE;
    rig_forward(r, &s);
    rig_backward(r, &s);
    float *once[MU_MAX_PARAM];
    for (int k = 0; k < l->n_param; k++) once[k] = copy_of(l->param[k]->grad.dense, l->param[k]->count);
    rig_forward(r, &s);
    if (l->n_param > 1) l->param[1]->grad.form = MU_GRAD_NONE; // only the first one is shared
    rig_backward(r, &s);
    for (int k = 0; k < l->n_param; k++) {
        const mu_param *p = l->param[k];
        for (size_t i = 0; i < p->count && !p->is_stat; i++) {
            double want = (k == 1 ? 1 : 2) * (double)once[k][i], got = (double)p->grad.dense[i];
            if (!(fabs(want - got) <= 1e-5 + 1e-4 * fabs(want)))
                FAIL(r, w, "%s[%zu] after a second producer is %.7g, want %.7g", p->name, i, got, want);
        }
        mu_free(once[k]);
    }
}

static void check_in_place(rig *r, const where *w) {
    mu_layer *l = &r->layer;
    if (!(l->class->flags & MU_LAYER_IN_PLACE)) return;
    mu_step s = rig_step(r);
    mu_blob *x = l->src[0], *y = &l->out[0];
    size_t n = words(&y->value);
    if (n != words(&x->value)) FAIL(r, w, "in place, but %zu values become %zu", words(&x->value), n);
    rig_fill_sources(r);
    rig_forward(r, &s);
    rig_backward(r, &s);
    float *apart = copy_of(y->value.f, n), *dy = copy_of(y->grad.f, n), *dapart[MU_MAX_SRC];
    for (int k = 0; k < l->n_src; k++) dapart[k] = copy_of(l->src[k]->grad.f, words(&l->src[k]->value));
    void *value = y->value.data, *grad = y->grad.data;
    y->value.data = x->value.data;
    y->grad.data = x->grad.data;
    rig_fill_sources(r);
    rig_forward(r, &s);
    if (memcmp(apart, y->value.f, n * 4)) FAIL(r, w, "%s", "forward in place differs");
    memcpy(y->grad.f, dy, n * 4);
    rig_backward(r, &s);
    for (int k = 0; k < l->n_src; k++) {
        if (memcmp(dapart[k], l->src[k]->grad.f, words(&l->src[k]->value) * 4))
            FAIL(r, w, "backward in place gives source %d another gradient", k);
        mu_free(dapart[k]);
    }
    y->value.data = value;
    y->grad.data = grad;
    mu_free(apart);
    mu_free(dy);
}

// ---- short batches ----

static void check_short_batch(rig *r, const where *w) {
    mu_layer *l = &r->layer;
    mu_step s = rig_step(r);
    if (!(l->class->flags & (MU_LAYER_LOSS | MU_LAYER_OUTPUT))) return;
    int64_t all = s.rows;
    s.rows = all - 1;
    s.global_rows = 2 * all; // another learner has as many
    rig_fill_sources(r);
    for (int k = 0; k < l->n_src; k++) { // what lies in the rows beyond must not matter
        mu_tensor *t = &l->src[k]->value;
        size_t row = words(t) / (size_t)all;
        if (t->dtype == MU_I32)
            for (size_t i = words(t) - row; i < words(t); i++) t->i[i] = 1 << 30;
    }
    rig_forward(r, &s);
    for (int k = 0; k < l->n_metric; k++)
        if (l->metric[k].weight > (double)(s.rows * rig_steps_of_loss(r)))
            FAIL(r, w, "metric %s counts %g of %d rows", l->metric[k].name, l->metric[k].weight,
                 (int)(s.rows * rig_steps_of_loss(r)));
    if (!l->class->backward) return;
    for (int k = 0; k < l->n_src; k++) rig_poison(l->src[k]->grad.data, words(&l->src[k]->value));
    rig_backward(r, &s);
    for (int k = 0; k < l->n_src; k++) {
        size_t n = words(&l->src[k]->value), row = n / (size_t)all;
        for (size_t i = n - row; l->src[k]->grad.data && i < n; i++)
            if (l->src[k]->grad.f[i] != 0)
                FAIL(r, w, "an invalid row has gradient %g", (double)l->src[k]->grad.f[i]);
    }
    check_slopes(r, w, &s);
}

// ---- out of memory ----

// Every allocation of infer and setup fails once: an error comes back, and nothing is lost.
static void check_no_memory(const mu_layer_class *c, const char *settings, const char *sources) {
    mu_status st = MU_ENOMEM;
    for (int n = 1; st != MU_OK; n++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        rig *r = calloc(1, sizeof *r);
        mu_err err;
        assert_int_equal(rig_prepare(r, c, settings, sources, MU_TRAIN, 1, &err), MU_OK);
        mu_alloc_fail_at(n);
        st = c->infer(&r->layer, &err);
        if (st == MU_OK && c->setup) st = c->setup(&r->layer, &err);
        mu_alloc_fail_at(0);
        if (err.status != st)
            fail_msg("layer %s, allocation %d fails: reported %s, returned %s", c->name, n,
                     mu_status_name(err.status), mu_status_name(st));
        rig_fini(r);
        free(r);
        if (mu_alloc_get_stats().n_live != live)
            fail_msg("layer %s leaks when allocation %d fails", c->name, n);
        assert_true(n < 1000);
    }
}

// ---- the loop ----

static bool check_one(const mu_layer_class *c, const where *w, mu_phase phase) {
    uint64_t live = mu_alloc_get_stats().n_live;
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    mu_status st = rig_infer(r, c, w->settings, w->sources, phase, w->seed, &err);
    if (st == MU_OK) {
        rig_setup(r);
        check_outputs(r, w);
        if (c->backward && phase == MU_TRAIN) {
            check_gradients(r, w);
            check_accumulation(r, w);
            check_in_place(r, w);
        }
        check_short_batch(r, w);
        if (!rig_guards_hold(r)) FAIL(r, w, "%s", "something is written behind a buffer");
    } else if (phase == MU_TRAIN) {
        print_message("layer %s {%s} on %s: %s\n", c->name, w->settings, w->sources, err.msg);
    }
    rig_fini(r);
    free(r);
    if (mu_alloc_get_stats().n_live != live)
        fail_msg("layer %s {%s}: %lld blocks leak", c->name, w->settings,
                 (long long)(mu_alloc_get_stats().n_live - live));
    return st == MU_OK;
}

static bool check_variant(const mu_layer_class *c, const char *settings, const char *sources) {
    bool ok = true;
    static const char *const ops[] = {"", "ref"};
    for (size_t o = 0; o < MU_COUNT(ops); o++) {
        if (*ops[o]) setenv("MUSTER_OPS", ops[o], 1);
        else unsetenv("MUSTER_OPS");
        for (uint64_t seed = 1; seed <= 2; seed++) {
            where w = {settings, sources, *ops[o] ? ops[o] : "all", seed};
            ok = check_one(c, &w, MU_TRAIN) && check_one(c, &w, MU_TEST) && ok;
        }
    }
    unsetenv("MUSTER_OPS");
    if (ok) check_no_memory(c, settings, sources);
    return ok;
}

static void every_layer_conforms(void **state) {
    (void)state;
    for (size_t i = 0; i < mu_layers.n; i++) {
        const mu_layer_class *c = (const mu_layer_class *)mu_layers.list[i];
        int known = 0, accepted = 0;
        for (size_t k = 0; k < MU_COUNT(layer_table); k++)
            if (!strcmp(layer_table[k].layer, c->name)) {
                known++;
                if (!check_variant(c, layer_table[k].settings, layer_table[k].sources))
                    fail_msg("layer %s refuses {%s} on %s", c->name, layer_table[k].settings,
                             layer_table[k].sources);
            }
        for (size_t k = 0; !known && k < MU_COUNT(layer_fallback); k++) {
            int n = 1;
            for (const char *p = layer_fallback[k]; *p; p++) n += *p == ' ';
            if (n >= mu_layer_min_src(c) && n <= mu_layer_max_src(c))
                accepted += check_variant(c, "", layer_fallback[k]);
        }
        if (!known && !accepted)
            print_message("NOT TESTED: layer %s accepts none of the usual sources\n", c->name);
    }
    unlink("conform_layer.out");
}

static void every_class_is_complete(void **state) {
    (void)state;
    for (size_t i = 0; i < mu_layers.n; i++) {
        const mu_layer_class *c = (const mu_layer_class *)mu_layers.list[i];
        assert_non_null(c->name);
        if (!c->help || !*c->help) fail_msg("layer %s has no help", c->name);
        if (!c->infer || !c->forward) fail_msg("layer %s lacks infer or forward", c->name);
        const int least = mu_layer_min_src(c), most = mu_layer_max_src(c);
        if (least < 1 || most < least || most > MU_MAX_SRC)
            fail_msg("layer %s takes %d to %d sources", c->name, least, most);
        if ((c->flags & MU_LAYER_LOSS) && !c->backward) fail_msg("loss layer %s has no backward", c->name);
        for (const mu_field *f = c->fields; f && f->key; f++) {
            if (!f->help || !*f->help) fail_msg("layer %s: field %s has no help", c->name, f->key);
            if (f->offset >= c->state_size)
                fail_msg("layer %s: field %s lies outside its state", c->name, f->key);
        }
        assert_ptr_equal(mu_registry_find(&mu_layers, c->name), &c->plugin);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_class_is_complete),
                                       cmocka_unit_test(every_layer_conforms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
