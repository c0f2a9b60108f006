// SPDX-License-Identifier: Apache-2.0
// test_layer_rbm.c - the restricted Boltzmann machine against brute force: free energy, and the gradient of
// long Gibbs chains against the exact one of the likelihood, for all kinds of units and with a condition;
// and that a gradient is a function of the samples, not of how they are split.
#include "layer_rig.h"

#include "energy_help.h"
#include "layer/energy.h"

enum { V = 6, H = 4, C = 3, ROWS = 4000 };

static mu_contrast long_chains = {.k = 150, .chains = ROWS};

static void fail_if(mu_status st, const mu_err *err) {
    if (st != MU_OK) fail_msg("%s", err->msg);
}

// A layer that learns by contrast, with the rig's random weights, times `scale`.
static void make(rig *r, const char *settings, const char *sources, mu_phase phase, const mu_contrast *c,
                 float scale) {
    mu_err err = {0};
    const mu_layer_class *class = (const mu_layer_class *)mu_registry_find(&mu_layers, "rbm");
    fail_if(rig_prepare(r, class, settings, sources, phase, 11, &err), &err);
    r->layer.contrast = c;
    fail_if(class->infer(&r->layer, &err), &err);
    rig_setup(r);
    for (int k = 0; k < r->layer.n_param; k++)
        for (size_t i = 0; i < r->layer.param[k]->count && !r->layer.param[k]->is_stat; i++)
            r->layer.param[k]->value[i] *= scale;
}

static const mu_param *param_of(const rig *r, const char *name) {
    for (int k = 0; k < r->layer.n_param; k++)
        if (!strcmp(r->layer.param[k]->name + 3, name)) return r->layer.param[k]; // after "it."
    fail_msg("no parameter %s", name);
    return NULL;
}

static void contrast(rig *r, const mu_step *s, const mu_contrast *c) {
    mu_err err = {0};
    for (int k = 0; k < r->layer.n_param; k++) r->layer.param[k]->grad.form = MU_GRAD_NONE;
    rig_forward(r, s);
    fail_if(r->layer.class->contrast(&r->layer, s, c->k, c->persistent, &err), &err);
}

static tiny_rbm tiny_of(const rig *r) {
    tiny_rbm m;
    tiny_set(&m, V, H, param_of(r, "weight")->value, param_of(r, "visible_bias")->value,
             param_of(r, "hidden_bias")->value);
    return m;
}

static void set_binary_source(rig *r) {
    float *x = r->layer.src[0]->value.f;
    for (size_t i = 0; i < mu_tensor_count(&r->layer.src[0]->value); i++) x[i] = x[i] > 0.3f;
}

static void expect_near(const char *what, int j, int i, double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s[%d][%d] is %.5f, exactly %.5f, tolerance %.2g", what, j, i, got, want, tolerance);
}

// ---- free energy ----

static void free_energy_is_exact(void **state) {
    (void)state;
    rig r;
    make(&r, "hidden: 4", "f5,6", MU_TEST, &long_chains, 4);
    set_binary_source(&r);
    const tiny_rbm m = tiny_of(&r);
    mu_step s = rig_step(&r);
    s.rows = 4; // the last row does not count
    rig_forward(&r, &s);
    double want = 0, by_states = 0;
    for (int b = 0; b < 4; b++) {
        double v[TINY_MAX] = {0};
        for (int i = 0; i < V; i++) v[i] = (double)r.layer.src[0]->value.f[b * V + i];
        want += tiny_free_energy(&m, v);
        by_states += tiny_free_energy_by_states(&m, v);
    }
    expect_near("formula against states", 0, 0, want, by_states, 1e-9);
    assert_string_equal(r.layer.metric[1].name, "free_energy");
    expect_near("free energy", 0, 0, r.layer.metric[1].sum, want, 1e-4);
    assert_true(r.layer.metric[1].weight == 4);
    assert_true(r.layer.metric[0].is_loss && r.layer.metric[0].weight == 4);
    rig_fini(&r);
}

// ln of the integral over h of exp(x h - h^2 / 2), without the constant of x = 0.
static double integral_of(double x) {
    double sum = 0, none = 0;
    for (int i = -4000; i <= 4000; i++) {
        const double h = i * 0.01;
        sum += exp(x * h - 0.5 * h * h);
        none += exp(-0.5 * h * h);
    }
    return log(sum / none);
}

typedef struct kind { // of machine
    const char *settings, *sources;
    bool gauss_v, gauss_h;
    int copies_v, copies_h; // `twice`
} kind;

static tiny_rbm conditioned(const rig *r, int row) {
    tiny_rbm m = tiny_of(r);
    if (r->layer.n_src < 2) return m;
    const float *u = r->layer.src[1]->value.f + row * C, *to_h = param_of(r, "condition_hidden")->value,
                *to_v = param_of(r, "condition_visible")->value;
    for (int k = 0; k < C; k++) {
        for (int j = 0; j < H; j++) m.b[j] += (double)to_h[j * C + k] * (double)u[k];
        for (int i = 0; i < V; i++) m.a[i] += (double)to_v[i * C + k] * (double)u[k];
    }
    return m;
}

// The input of hidden unit j when all copies of the visible units are v.
static double input_of(const tiny_rbm *m, int copies, int j, const double *v) {
    return m->b[j] + copies * (tiny_input(m, j, v) - m->b[j]);
}

static double energy_of(const tiny_rbm *m, const kind *k, const double *v) {
    double f = 0;
    for (int i = 0; i < V; i++)
        f += k->copies_v * (k->gauss_v ? 0.5 * (v[i] - m->a[i]) * (v[i] - m->a[i]) : -m->a[i] * v[i]);
    for (int j = 0; j < H; j++) {
        const double x = input_of(m, k->copies_v, j, v);
        f -= k->copies_h * (k->gauss_h ? integral_of(x) : log(exp(0) + exp(x)));
    }
    return f;
}

// What the layer reconstructs v from: hidden units drawn with its own numbers.
static void reconstruct(const rig *r, const tiny_rbm *m, const kind *k, int64_t sample, int row, double *v) {
    float drawn[2][H];
    for (int64_t copy = 0; copy < 2; copy++)
        mu_unit_draw(k->gauss_h ? MU_UNIT_GAUSSIAN : MU_UNIT_BINARY, r->layer.key, sample, copy << 24, H,
                     r->layer.out[0].value.f + row * H, drawn[copy]);
    for (int i = 0; i < V; i++) {
        double x = m->a[i];
        for (int j = 0; j < H; j++)
            x += m->w[j][i] * ((double)drawn[0][j] + (k->copies_h > 1 ? (double)drawn[1][j] : 0));
        v[i] = k->gauss_v ? x : logistic_of(x);
    }
}

static void energies_of_all_kinds(void **state) {
    (void)state;
    static const kind kinds[] = {
        {"hidden: 4", "f5,6", false, false, 1, 1},
        {"hidden: 4, visible_units: gaussian", "f5,6", true, false, 1, 1},
        {"hidden: 4, hidden_units: gaussian", "f5,6", false, true, 1, 1},
        {"hidden: 4, visible_units: gaussian, hidden_units: gaussian", "f5,6", true, true, 1, 1},
        {"hidden: 4", "f5,6 f5,3", false, false, 1, 1},
        {"hidden: 4, visible_units: gaussian", "f5,6 f5,3", true, false, 1, 1},
        {"hidden: 4, twice: up", "f5,6", false, false, 2, 1},
        {"hidden: 4, twice: down", "f5,6", false, false, 1, 2},
        {"hidden: 4, twice: both", "f5,6 f5,3", false, false, 2, 2},
    };
    for (size_t n = 0; n < MU_COUNT(kinds); n++) {
        const kind *k = &kinds[n];
        rig r;
        make(&r, k->settings, k->sources, MU_TEST, &long_chains, k->gauss_h ? 1 : 3);
        if (!k->gauss_v) set_binary_source(&r);
        mu_step s = rig_step(&r);
        s.rows = 4; // the last row does not count
        s.first_sample = 40;
        rig_forward(&r, &s);
        double energy = 0, gap = 0;
        for (int b = 0; b < 4; b++) {
            const tiny_rbm m = conditioned(&r, b);
            double v[TINY_MAX] = {0}, again[TINY_MAX] = {0};
            for (int i = 0; i < V; i++) v[i] = (double)r.layer.src[0]->value.f[b * V + i];
            reconstruct(&r, &m, k, 40 + b, b, again);
            energy += energy_of(&m, k, v);
            gap += energy_of(&m, k, again) - energy_of(&m, k, v);
        }
        assert_string_equal(r.layer.metric[1].name, "free_energy");
        assert_string_equal(r.layer.metric[2].name, "free_energy_gap");
        expect_near(k->settings, (int)n, 1, r.layer.metric[1].sum, energy, 2e-4);
        expect_near(k->settings, (int)n, 2, r.layer.metric[2].sum, gap, 4e-4);
        assert_true(r.layer.metric[2].weight == 4 && fabs(gap) > 0.1);
        rig_fini(&r);
    }
}

// ---- the gradient of long chains ----

// g = E_model - E_data; each element is a mean over ROWS chains of something in [0, 1] (or a little beyond
// for gaussian units), so five standard errors are at most 5 * spread / sqrt(ROWS).
static void compare_gradient(const rig *r, const tiny_stats *model, const tiny_stats *data, double spread) {
    const double tolerance = 5 * spread / sqrt(ROWS);
    const float *dw = param_of(r, "weight")->grad.dense, *da = param_of(r, "visible_bias")->grad.dense,
                *db = param_of(r, "hidden_bias")->grad.dense;
    for (int j = 0; j < H; j++) {
        expect_near("hidden_bias", j, 0, (double)db[j], model->h[j] - data->h[j], tolerance);
        for (int i = 0; i < V; i++)
            expect_near("weight", j, i, (double)dw[j * V + i], model->hv[j][i] - data->hv[j][i], tolerance);
    }
    for (int i = 0; i < V; i++)
        expect_near("visible_bias", i, 0, (double)da[i], model->v[i] - data->v[i], tolerance);
}

static void data_stats(const rig *r, const tiny_rbm *m, tiny_stats *out) {
    memset(out, 0, sizeof *out);
    for (int b = 0; b < ROWS; b++) {
        double v[TINY_MAX] = {0};
        for (int i = 0; i < V; i++) v[i] = (double)r->layer.src[0]->value.f[b * V + i];
        tiny_add_stats(m, v, 1.0 / ROWS, out);
    }
}

static void long_chains_give_the_exact_gradient(void **state) {
    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        rig r;
        mu_contrast c = {.k = persistent ? 10 : 150, .persistent = persistent, .chains = ROWS};
        make(&r, "hidden: 4, sample_visible: true", "f4000,6", MU_TRAIN, &c, 3);
        set_binary_source(&r);
        const tiny_rbm m = tiny_of(&r);
        mu_step s = rig_step(&r);
        s.first_sample = 0;
        for (int t = 0; t < (persistent ? 15 : 1); t++, s.first_sample += ROWS) contrast(&r, &s, &c);
        tiny_stats model, data;
        tiny_model_stats(&m, &model);
        data_stats(&r, &m, &data);
        compare_gradient(&r, &model, &data, 0.5);
        // One step from the data is another direction on such a model: the tolerance can tell them apart.
        c.k = 1;
        c.persistent = false;
        contrast(&r, &s, &c);
        double off = 0;
        const float *dw = param_of(&r, "weight")->grad.dense;
        for (int j = 0; j < H; j++)
            for (int i = 0; i < V; i++)
                off = fmax(off, fabs((double)dw[j * V + i] - (model.hv[j][i] - data.hv[j][i])));
        if (!(off > 5 * 0.5 / sqrt(ROWS))) fail_msg("CD-1 is within %g of the exact gradient", off);
        rig_fini(&r);
    }
}

// p(h) of a machine with gaussian visible units: v given h is a + w'h with variance 1, so
// ln p(h) = b'h + a'w'h + |w'h|^2 / 2 + constant. The same with the sides exchanged for gaussian hidden
// units.
static void gaussian_stats(const tiny_rbm *m, bool visible, tiny_stats *out) {
    const int n = visible ? m->h : m->v, other = visible ? m->v : m->h; // n binary units are visited
    double z = 0;
    memset(out, 0, sizeof *out);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < 1u << n; s++) {
            double u[TINY_MAX] = {0}, mean[TINY_MAX] = {0}, log_p = 0;
            tiny_bits(s, n, u);
            for (int k = 0; k < n; k++) log_p += u[k] * (visible ? m->b[k] : m->a[k]);
            for (int k = 0; k < other; k++) {
                double in = 0, bias = visible ? m->a[k] : m->b[k];
                for (int q = 0; q < n; q++) in += u[q] * (visible ? m->w[q][k] : m->w[k][q]);
                mean[k] = bias + in;
                log_p += bias * in + 0.5 * in * in;
            }
            if (!pass) z += exp(log_p);
            const double p = pass ? exp(log_p) / z : 0;
            const double *v = visible ? mean : u, *h = visible ? u : mean;
            for (int i = 0; i < m->v; i++) out->v[i] += p * v[i];
            for (int j = 0; j < m->h; j++) {
                out->h[j] += p * h[j];
                for (int i = 0; i < m->v; i++) out->hv[j][i] += p * h[j] * v[i];
            }
        }
}

static void gaussian_units_give_the_exact_gradient(void **state) {
    (void)state;
    for (int visible = 0; visible < 2; visible++) {
        rig r;
        make(&r, visible ? "hidden: 4, sample_visible: true, visible_units: gaussian"
                         : "hidden: 4, sample_visible: true, hidden_units: gaussian",
             "f4000,6", MU_TRAIN, &long_chains, 1);
        if (!visible) set_binary_source(&r);
        const tiny_rbm m = tiny_of(&r);
        mu_step s = rig_step(&r);
        contrast(&r, &s, &long_chains);
        tiny_stats model, data;
        gaussian_stats(&m, visible, &model);
        memset(&data, 0, sizeof data);
        for (int b = 0; b < ROWS; b++) {
            const float *v = r.layer.src[0]->value.f + b * V, *h = r.layer.out[0].value.f + b * H;
            for (int i = 0; i < V; i++) data.v[i] += (double)v[i] / ROWS;
            for (int j = 0; j < H; j++) {
                data.h[j] += (double)h[j] / ROWS;
                for (int i = 0; i < V; i++) data.hv[j][i] += (double)h[j] * (double)v[i] / ROWS;
            }
        }
        compare_gradient(&r, &model, &data, 1.5);
        rig_fini(&r);
    }
}

// All rows have the same condition, so the machine is one whose biases hold it.
static void condition_gives_the_exact_gradient(void **state) {
    (void)state;
    rig r;
    make(&r, "hidden: 4, sample_visible: true", "f4000,6 f4000,3", MU_TRAIN, &long_chains, 2);
    set_binary_source(&r);
    float *u = r.layer.src[1]->value.f;
    for (int b = 0; b < ROWS; b++) memcpy(u + b * C, (const float[]){0.7f, -1.0f, 0.4f}, C * sizeof *u);
    tiny_rbm m = tiny_of(&r);
    const float *to_h = param_of(&r, "condition_hidden")->value;
    const float *to_v = param_of(&r, "condition_visible")->value;
    for (int k = 0; k < C; k++) {
        for (int j = 0; j < H; j++) m.b[j] += (double)to_h[j * C + k] * (double)u[k];
        for (int i = 0; i < V; i++) m.a[i] += (double)to_v[i * C + k] * (double)u[k];
    }
    mu_step s = rig_step(&r);
    contrast(&r, &s, &long_chains);
    tiny_stats model, data;
    tiny_model_stats(&m, &model);
    data_stats(&r, &m, &data);
    compare_gradient(&r, &model, &data, 0.5);
    const float *dh = param_of(&r, "condition_hidden")->grad.dense,
                *dv = param_of(&r, "condition_visible")->grad.dense;
    for (int k = 0; k < C; k++) { // the bias gradient times the condition
        for (int j = 0; j < H; j++)
            expect_near("condition_hidden", j, k, (double)dh[j * C + k],
                        (double)param_of(&r, "hidden_bias")->grad.dense[j] * (double)u[k], 1e-4);
        for (int i = 0; i < V; i++)
            expect_near("condition_visible", i, k, (double)dv[i * C + k],
                        (double)param_of(&r, "visible_bias")->grad.dense[i] * (double)u[k], 1e-4);
    }
    rig_fini(&r);
}

// A machine with copies of its units, all states of the visible copies visited; S is their sum.
static void doubled_stats(const tiny_rbm *m, const kind *k, tiny_stats *out) {
    double z = 0;
    memset(out, 0, sizeof *out);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t s = 0; s < 1u << k->copies_v * V; s++) {
            double sum[TINY_MAX] = {0}, bits[TINY_MAX] = {0}, log_p = 0;
            for (int copy = 0; copy < k->copies_v; copy++) {
                tiny_bits(s >> copy * V, V, bits);
                for (int i = 0; i < V; i++) sum[i] += bits[i];
            }
            for (int i = 0; i < V; i++) log_p += m->a[i] * sum[i];
            for (int j = 0; j < H; j++) log_p += k->copies_h * softplus(tiny_input(m, j, sum));
            if (!pass) z += exp(log_p);
            const double p = pass ? exp(log_p) / z : 0;
            for (int i = 0; i < V; i++) out->v[i] += p * sum[i] / k->copies_v;
            for (int j = 0; j < H; j++) {
                const double h = logistic_of(tiny_input(m, j, sum));
                out->h[j] += p * h;
                for (int i = 0; i < V; i++) out->hv[j][i] += p * h * sum[i] / k->copies_v;
            }
        }
}

static void doubled_units_give_the_exact_gradient(void **state) {
    (void)state;
    static const kind kinds[] = {{"hidden: 4, sample_visible: true, twice: up", NULL, false, false, 2, 1},
                                 {"hidden: 4, sample_visible: true, twice: down", NULL, false, false, 1, 2},
                                 {"hidden: 4, sample_visible: true, twice: both", NULL, false, false, 2, 2}};
    for (size_t n = 0; n < MU_COUNT(kinds); n++) {
        rig r;
        make(&r, kinds[n].settings, "f4000,6", MU_TRAIN, &long_chains, 2);
        set_binary_source(&r);
        const tiny_rbm m = tiny_of(&r);
        mu_step s = rig_step(&r);
        contrast(&r, &s, &long_chains);
        tiny_stats model, data;
        doubled_stats(&m, &kinds[n], &model);
        memset(&data, 0, sizeof data);
        for (int b = 0; b < ROWS; b++) {
            double v[TINY_MAX] = {0};
            for (int i = 0; i < V; i++) v[i] = (double)r.layer.src[0]->value.f[b * V + i];
            for (int i = 0; i < V; i++) data.v[i] += v[i] / ROWS;
            for (int j = 0; j < H; j++) {
                const double h = logistic_of(input_of(&m, kinds[n].copies_v, j, v));
                data.h[j] += h / ROWS;
                for (int i = 0; i < V; i++) data.hv[j][i] += h * v[i] / ROWS;
            }
        }
        compare_gradient(&r, &model, &data, 0.5);
        rig_fini(&r);
    }
}

static void doubling_is_refused(void **state) {
    (void)state;
    const mu_layer_class *class = (const mu_layer_class *)mu_registry_find(&mu_layers, "rbm");
    const mu_contrast persistent = {.k = 1, .persistent = true, .chains = 8};
    for (int i = 0; i < 2; i++) {
        rig r;
        mu_err err = {0};
        const char *settings = i ? "hidden: 4, twice: down" : "hidden: 4, twice: up";
        fail_if(rig_prepare(&r, class, settings, "f8,6", MU_TRAIN, 11, &err), &err);
        r.layer.contrast = i ? &persistent : NULL;
        assert_int_equal(class->infer(&r.layer, &err), MU_EJOB);
        assert_non_null(strstr(err.msg, i ? "persistent" : "by backward"));
        rig_fini(&r);
    }
}

// ---- samples, not batches ----

static void shares_of_a_batch_add_up(void **state) {
    (void)state;
    mu_contrast c = {.k = 3, .persistent = true, .chains = 8};
    rig whole, part;
    const char *settings = "hidden: 21, sparsity: 0.1";
    make(&whole, settings, "f8,2,3,3", MU_TRAIN, &c, 1);
    make(&part, settings, "f5,2,3,3", MU_TRAIN, &c, 1);
    float *sum[MU_MAX_PARAM];
    mu_step s = rig_step(&whole);
    s.first_sample = 16;
    contrast(&whole, &s, &c);
    for (int k = 0; k < part.layer.n_param; k++) sum[k] = rig_buffer(&part, part.layer.param[k]->count);
    for (int b = 0; b < 8; b += 4) { // four rows in a net for five
        mu_step t = {.phase = MU_TRAIN, .first_sample = 16 + b, .rows = 4, .global_rows = 8};
        memcpy(part.layer.src[0]->value.f, whole.layer.src[0]->value.f + b * 18, 4 * 18 * sizeof(float));
        for (size_t i = 4 * 18; i < 5 * 18; i++) part.layer.src[0]->value.f[i] = 1e6f;
        memset(param_of(&part, "activity")->value, 0, 21 * sizeof(float)); // as every learner begins
        contrast(&part, &t, &c);
        for (int k = 0; k < part.layer.n_param; k++)
            for (size_t i = 0; i < part.layer.param[k]->count; i++)
                sum[k][i] += part.layer.param[k]->grad.dense[i];
    }
    for (int k = 0; k < part.layer.n_param; k++) {
        const mu_param *p = whole.layer.param[k];
        for (size_t i = 0; i < p->count && !p->is_stat; i++)
            if (!(fabsf(sum[k][i] - p->grad.dense[i]) <= 2e-6f))
                fail_msg("%s[%zu] is %g of one batch, %g of two shares", p->name, i, (double)p->grad.dense[i],
                         (double)sum[k][i]);
    }
    const mu_param *chain = param_of(&whole, "chain"), *shared = param_of(&part, "chain");
    assert_memory_equal(chain->value, shared->value, chain->count * sizeof(float));
    assert_true(rig_guards_hold(&whole) && rig_guards_hold(&part));
    rig_fini(&whole);
    rig_fini(&part);
}

// The activity is a running mean: units as active as before leave it where it is, others draw it to them.
static void activity_follows_the_units(void **state) {
    (void)state;
    enum { SAMPLES = 8, HIDDEN = 21 };
    mu_contrast c = {.k = 1};
    rig r;
    make(&r, "hidden: 21, sparsity: 0.1", "f8,12", MU_TRAIN, &c, 1);
    mu_step s = rig_step(&r);
    contrast(&r, &s, &c);
    float mean[HIDDEN], *activity = param_of(&r, "activity")->value;
    for (int j = 0; j < HIDDEN; j++) {
        mean[j] = 0;
        for (int b = 0; b < SAMPLES; b++) mean[j] += r.layer.out[0].value.f[b * HIDDEN + j] / SAMPLES;
        activity[j] = mean[j] - (j % 2 ? 0 : 0.25f);
    }
    contrast(&r, &s, &c);
    for (int j = 0; j < HIDDEN; j++) {
        const float left = mean[j] - activity[j];
        if (j % 2 ? fabsf(left) > 1e-6f : left < 0.1f || left > 0.249f)
            fail_msg("unit %d: mean %g, activity %g", j, (double)mean[j], (double)activity[j]);
    }
    rig_fini(&r);
}

// A chain that is made again (its learner died) gives the same, and the next batch goes on where it was.
static void chains_go_on(void **state) {
    (void)state;
    mu_contrast c = {.k = 1, .persistent = true, .chains = 8};
    rig r;
    make(&r, "hidden: 33", "f8,12", MU_TRAIN, &c, 2);
    mu_step s = rig_step(&r);
    s.first_sample = 0;
    const mu_param *w = param_of(&r, "weight");
    float *first = rig_buffer(&r, w->count), *second = rig_buffer(&r, w->count);
    contrast(&r, &s, &c);
    s.first_sample = 8;
    contrast(&r, &s, &c);
    memcpy(first, w->grad.dense, w->count * sizeof *first);
    contrast(&r, &s, &c);
    memcpy(second, w->grad.dense, w->count * sizeof *second);
    assert_memory_equal(first, second, w->count * sizeof *first);
    s.first_sample = 16;
    contrast(&r, &s, &c);
    assert_memory_not_equal(first, w->grad.dense, w->count * sizeof *first);
    rig_fini(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_energy_is_exact),
        cmocka_unit_test(activity_follows_the_units),
        cmocka_unit_test(energies_of_all_kinds),
        cmocka_unit_test(long_chains_give_the_exact_gradient),
        cmocka_unit_test(gaussian_units_give_the_exact_gradient),
        cmocka_unit_test(condition_gives_the_exact_gradient),
        cmocka_unit_test(doubled_units_give_the_exact_gradient),
        cmocka_unit_test(doubling_is_refused),
        cmocka_unit_test(shares_of_a_batch_add_up),
        cmocka_unit_test(chains_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
