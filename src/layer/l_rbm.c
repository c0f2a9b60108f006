// SPDX-License-Identifier: Apache-2.0
// l_rbm.c - restricted Boltzmann machine: v (n, i) visible units, h (n, o) hidden units,
//
//     E(v, h) = -h' w v - a' v - b' h                    (gaussian units have |v - a|^2 / 2 instead of -a' v)
//
// with a = visible_bias, b = hidden_bias, w (o, i) as an inner_product of the same name has it. A second
// source u conditions it: a becomes a + condition_visible u, b becomes b + condition_hidden u.
//
// The output is the hidden units' mean. Under `cd` the layer learns by contrast: positive statistics of the
// data with the hidden means, negative ones after k steps of Gibbs sampling. As in SINGA and Hinton's guide
// hidden units are drawn, visible ones stand at their means unless `sample_visible`, and the last hidden ones
// are means. Persistent chains keep the drawn hidden units (rowstate.h). Under `bp` it is a feed-forward
// layer, so that a stack can be fine-tuned as it is; the visible side has no parameters then.
//
// keep: x = [v; reconstruction] (2n, i), dy = [-h; h of the reconstruction] / batch (2n, o), see energy.h.
//
// twice: `up` is a machine with two copies of every visible unit, which have one weight and one bias; `down`
// has two copies of every hidden unit. So the input from a doubled side counts twice; drawn copies are drawn
// apart, and their mean stands for both. The lowest (up) and the highest RBM (down) of a stack that becomes a
// deep Boltzmann machine are such: there every layer but these two has a second neighbour (Salakhutdinov and
// Hinton 2009, 3.1). Statistics are of one unit, so rates mean what they mean without it.
//
// sparsity: b and w feel cost * (q - target), q = running mean of the hidden means (Hinton's guide, 11).
// The q of the step before is used, which all learners have in common.
#include "layer/energy.h"
#include "layer/grad.h"
#include "layer/infer.h"
#include "layer/rowstate.h"
#include "ops/gemm.h"

#include <string.h>

#define ACTIVITY_DECAY 0.9f

enum { TWICE_UP = 1, TWICE_DOWN = 2 };  // visible, hidden units are doubled
enum { SECOND = 1 << 24 };              // added to the number of a draw: that of the second copy

struct rbm {
    int64_t hidden, chains;
    int visible_units, hidden_units;    // mu_unit
    bool sample_visible;
    int twice;                          // bits: TWICE_UP, TWICE_DOWN
    float sparsity, sparsity_cost;
    // derived
    mu_bond bond;
    mu_visible visible;
    int64_t n, v, h, c;                 // rows; visible, hidden and condition values (0 = no condition)
    mu_param *hidden_bias, *visible_bias, *condition_hidden, *condition_visible, *activity;
    mu_rowstate chain;
    mu_metric *error, *energy, *gap;    // NULL = not reported
    int64_t at_x, at_dy;                // offsets into keep, floats
    int64_t at_h, at_v, at_ch, at_cv;   // into scratch: drawn hidden units, visible ones, biases by condition
    int64_t at_second;                  // one row of a second draw
};

static const mu_field fields[] = {
    MU_FIELD(struct rbm, hidden, MU_INT, NULL, "[1,1M]", "number of hidden units"),
    MU_FIELD_ENUM(struct rbm, visible_units, "binary", MU_UNIT_CHOICES,
                  "binary (data in 0..1), or gaussian of variance 1"),
    MU_FIELD_ENUM(struct rbm, hidden_units, "binary", MU_UNIT_CHOICES, "binary, or gaussian of variance 1"),
    MU_FIELD(struct rbm, sample_visible, MU_BOOL, "false", NULL,
             "draw the visible units of a Gibbs chain instead of taking their means"),
    MU_FIELD_ENUM(struct rbm, twice, "no", "no|up|down|both",
                  "input that counts twice, for RBMs that become a dbm: up the lowest, down the highest"),
    MU_FIELD(struct rbm, sparsity, MU_FLOAT, "0", "[0,1)", "wanted mean of each hidden unit; 0 = off"),
    MU_FIELD(struct rbm, sparsity_cost, MU_FLOAT, "0.1", "[0,)", "how strongly it is wanted"),
    MU_FIELD(struct rbm, chains, MU_INT, "0", "[0,1M]",
             "persistent chains; 0 = one for each row of the batch"),
    {0},
};
static const char *const params[] = {"weight",           "hidden_bias", "visible_bias", "condition_hidden",
                                     "condition_visible", "activity",    "chain",        NULL};

// ---- set-up ----

static mu_status infer_params(mu_layer *l, mu_err *err) {
    struct rbm *s = l->state;
    MU_TRY(mu_layer_add_param(l, "weight", MU_SHAPE(s->h, s->v), s->v, s->h, "gaussian std=0.01", err));
    const int weight = l->n_param - 1;
    MU_TRY(mu_layer_add_param(l, "hidden_bias", MU_SHAPE(s->h), s->v, s->h, "constant", err));
    s->hidden_bias = l->param[l->n_param - 1];
    if (s->c) {
        MU_TRY(mu_layer_add_param(l, "condition_hidden", MU_SHAPE(s->h, s->c), s->c, s->h,
                                  "gaussian std=0.01", err));
        s->condition_hidden = l->param[l->n_param - 1];
    }
    if (l->contrast) {
        MU_TRY(mu_layer_add_param(l, "visible_bias", MU_SHAPE(s->v), s->h, s->v, "constant", err));
        s->visible_bias = l->param[l->n_param - 1];
    }
    if (l->contrast && s->c) {
        MU_TRY(mu_layer_add_param(l, "condition_visible", MU_SHAPE(s->v, s->c), s->c, s->v,
                                  "gaussian std=0.01", err));
        s->condition_visible = l->param[l->n_param - 1];
    }
    mu_bond_infer(&s->bond, l, l->param[weight], s->n, s->v, s->h);
    if (!l->in_contrast || !mu_layer_trains(l)) return MU_OK;
    if (s->sparsity > 0) {
        MU_TRY(mu_layer_add_stat(l, "activity", MU_SHAPE(s->h), "constant", err));
        s->activity = l->param[l->n_param - 1];
    }
    if (!l->contrast->persistent) return MU_OK;
    MU_TRY(mu_rowstate_infer(&s->chain, l, "chain", s->chains ? s->chains : l->contrast->chains, s->h, err));
    s->chain.param->may_restart = true;
    return MU_OK;
}

static mu_status check_twice(const mu_layer *l, mu_err *err) {
    const struct rbm *s = l->state;
    mu_status st = MU_OK;
    if ((s->twice & TWICE_UP) && !l->contrast) {
        st = mu_layer_fail(l, err, "`twice` is for learning by `cd`, this net learns by backward");
        mu_err_hint(err, "Leave it out; to begin with the same outputs, double the weights.");
    } else if ((s->twice & TWICE_DOWN) && l->in_contrast && l->contrast->persistent) {
        st = mu_layer_fail(l, err, "persistent chains have no doubled hidden units");
        mu_err_hint(err, "Train this machine with `algorithm: cd`; it is a start for a `dbm` only.");
    }
    return st;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct rbm *s = l->state;
    MU_TRY(mu_visible_infer(&s->visible, l, err));
    s->n = s->visible.n;
    s->v = s->visible.v;
    s->h = s->hidden;
    if (l->n_src > 1) {
        int64_t rows;
        MU_TRY(mu_infer_float(l, 1, err));
        MU_TRY(mu_infer_matrix(l, 1, &rows, &s->c, err));
        if (rows != s->n)
            return mu_layer_fail(l, err, "the condition `%s` has %lld rows, the visible units %lld",
                                 mu_infer_src_name(l, 1), (long long)rows, (long long)s->n);
    }
    if (s->sparsity > 0 && s->hidden_units == MU_UNIT_GAUSSIAN)
        return mu_layer_fail(l, err, "`sparsity` is the mean of binary hidden units, these are gaussian");
    MU_TRY(infer_params(l, err));
    MU_TRY(check_twice(l, err));
    if (l->in_contrast) {
        s->error = mu_layer_add_metric(l, "reconstruction", true);
        if (!mu_layer_trains(l)) {
            s->energy = mu_layer_add_metric(l, "free_energy", false);
            s->gap = mu_layer_add_metric(l, "free_energy_gap", false);
        }
    }
    return mu_layer_add_out(l, NULL, MU_SHAPE(s->n, s->h), MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    struct rbm *s = l->state;
    const bool learns = l->in_contrast && mu_layer_trains(l), evaluated = l->in_contrast && !learns;
    const bool goes_back = mu_layer_trains(l) && !l->contrast;
    MU_TRY(mu_bond_setup(&s->bond, l, err));
    s->at_x = mu_energy_room(&l->keep_bytes, (learns ? 2 : s->visible.reorder) * s->n * s->v);
    s->at_dy = mu_energy_room(&l->keep_bytes, (learns ? 2 : goes_back) * s->n * s->h);
    s->at_h = mu_energy_room(&l->scratch_bytes, l->in_contrast ? s->n * s->h : 0);
    s->at_v = mu_energy_room(&l->scratch_bytes, evaluated || s->c || s->visible.reorder ? s->n * s->v : 0);
    s->at_second = mu_energy_room(&l->scratch_bytes, !s->twice ? 0 : s->v > s->h ? s->v : s->h);
    s->at_ch = mu_energy_room(&l->scratch_bytes, s->c ? s->n * s->h : 0);
    s->at_cv = mu_energy_room(&l->scratch_bytes, s->c ? s->n * s->v : 0);
    return MU_OK;
}

static void cut_rules(const mu_layer *l, mu_cut_rules *rules) {
    if (((const struct rbm *)l->state)->sparsity > 0) rules->cuts = MU_CUT_NEVER;
}

static void teardown(mu_layer *l) { mu_bond_teardown(&((struct rbm *)l->state)->bond); }

// ---- both directions ----

static float *in_keep(const mu_layer *l, int64_t at) { return (float *)l->keep + at; }
static float *in_scratch(const mu_layer *l, int64_t at) { return (float *)l->scratch + at; }

static const float *flat_src(const mu_layer *l) {
    const struct rbm *s = l->state;
    return mu_visible_value(&s->visible, l, in_keep(l, s->at_x));
}

// What the condition adds to the biases: of hidden units alone; of visible ones with their bias.
static void condition(const mu_layer *l, bool visible) {
    const struct rbm *s = l->state;
    if (!s->c) return;
    const float *u = l->src[1]->value.f;
    mu_gemm(false, true, s->n, s->h, s->c, u, s->c, s->condition_hidden->value, s->c, 0.0f,
            in_scratch(l, s->at_ch), s->h);
    if (!visible) return;
    float *cv = in_scratch(l, s->at_cv);
    mu_gemm(false, true, s->n, s->v, s->c, u, s->c, s->condition_visible->value, s->c, 0.0f, cv, s->v);
    mu_unit_add_bias(s->n, s->v, s->visible_bias->value, false, cv);
}

// x = 2 x - bias: what came from the other side counts twice, the bias in it once.
static void count_twice(int64_t rows, int64_t n, const float *bias, float *x) {
    for (int64_t b = 0; b < rows; b++, x += n)
        for (int64_t i = 0; i < n; i++) x[i] = 2 * x[i] - bias[i];
}

// h (n, o) = means of the hidden units given v; log_z as mu_unit_mean, of the valid rows.
static mu_status hidden_mean(const mu_layer *l, int64_t rows, const float *v, float *h, double *log_z,
                             mu_err *err) {
    const struct rbm *s = l->state;
    MU_TRY(mu_bond_up(&s->bond, l, rows, v, s->hidden_bias->value, h, err));
    if (s->twice & TWICE_UP) count_twice(s->n, s->h, s->hidden_bias->value, h);
    if (s->c) mu_unit_add_bias(s->n, s->h, in_scratch(l, s->at_ch), true, h);
    mu_unit_mean((mu_unit)s->hidden_units, rows * s->h, h, log_z);
    mu_unit_mean((mu_unit)s->hidden_units, (s->n - rows) * s->h, h + rows * s->h, NULL);
    return MU_OK;
}

static const float *visible_bias(const mu_layer *l) {
    const struct rbm *s = l->state;
    return s->c ? in_scratch(l, s->at_cv) : s->visible_bias->value;
}

static mu_status visible_mean(const mu_layer *l, const float *h, float *v, mu_err *err) {
    const struct rbm *s = l->state;
    MU_TRY(mu_bond_down(&s->bond, l, h, v, err));
    if (s->twice & TWICE_DOWN) mu_unit_scale(s->n * s->v, 2, v, v);
    mu_unit_add_bias(s->n, s->v, visible_bias(l), s->c > 0, v);
    mu_unit_mean((mu_unit)s->visible_units, s->n * s->v, v, NULL);
    return MU_OK;
}

// The free energy of rows whose hidden units left log_z: the visible units' own part is added.
static double free_energy(const mu_layer *l, int64_t rows, const float *v, double log_z) {
    const struct rbm *s = l->state;
    const float *bias = visible_bias(l);
    double sum = 0;
    for (int64_t b = 0; b < rows; b++, v += s->v, bias += s->c ? s->v : 0)
        sum += s->visible_units == MU_UNIT_BINARY ? -mu_unit_dot(v, bias, s->v)
                                                  : 0.5 * mu_unit_distance(v, bias, s->v);
    return (s->twice & TWICE_UP ? 2 : 1) * sum - (s->twice & TWICE_DOWN ? 2 : 1) * log_z;
}

// Draws rows of units; of doubled ones the mean of two draws. out may be mean.
static void draw_rows(const mu_layer *l, const mu_step *step, int64_t draw, bool hidden, const float *mean,
                      float *out) {
    const struct rbm *s = l->state;
    const mu_unit kind = (mu_unit)(hidden ? s->hidden_units : s->visible_units);
    const int64_t n = hidden ? s->h : s->v;
    float *second = in_scratch(l, s->at_second);
    if (!(s->twice & (hidden ? TWICE_DOWN : TWICE_UP))) {
        mu_unit_draw_rows(kind, l->key, step->first_sample, draw, step->rows, n, mean, out);
        return;
    }
    for (int64_t b = 0; b < step->rows; b++, mean += n, out += n) {
        mu_unit_draw(kind, l->key, step->first_sample + b, draw + SECOND, n, mean, second);
        mu_unit_draw(kind, l->key, step->first_sample + b, draw, n, mean, out);
        for (int64_t i = 0; i < n; i++) out[i] = 0.5f * (out[i] + second[i]);
    }
}

// Rows that no sample has are 0.
static void draw_hidden(const mu_layer *l, const mu_step *step, int64_t draw, const float *mean, float *out) {
    const struct rbm *s = l->state;
    draw_rows(l, step, draw, true, mean, out);
    memset(out + step->rows * s->h, 0, (size_t)((s->n - step->rows) * s->h) * sizeof *out);
}

static void set_metric(mu_metric *m, double sum, int64_t rows) {
    m->sum = sum;
    m->weight = (double)rows;
}

// ---- forward ----

// Evaluation: one Gibbs step from the data, and how much better the model likes the data than that.
static mu_status evaluate(mu_layer *l, const mu_step *step, double energy, mu_err *err) {
    struct rbm *s = l->state;
    float *h = in_scratch(l, s->at_h), *v = in_scratch(l, s->at_v);
    const int64_t rows = step->rows;
    double log_z = 0;
    draw_hidden(l, step, 0, l->out[0].value.f, h);
    MU_TRY(visible_mean(l, h, v, err));
    set_metric(s->error, mu_unit_distance(flat_src(l), v, rows * s->v), rows);
    MU_TRY(hidden_mean(l, rows, v, h, &log_z, err));
    set_metric(s->gap, free_energy(l, rows, v, log_z) - energy, rows);
    return MU_OK;
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    struct rbm *s = l->state;
    double log_z = 0;
    const bool evaluated = l->in_contrast && !mu_layer_trains(l);
    mu_visible_flatten(&s->visible, l, in_keep(l, s->at_x));
    condition(l, l->in_contrast);
    MU_TRY(hidden_mean(l, step->rows, flat_src(l), l->out[0].value.f, evaluated ? &log_z : NULL, err));
    if (!evaluated) return MU_OK; // in training contrast tells the error
    const double energy = free_energy(l, step->rows, flat_src(l), log_z);
    set_metric(s->energy, energy, step->rows);
    return evaluate(l, step, energy, err);
}

// ---- contrast ----

// Persistent chains go on from where their streams were; a stream without a past begins at its sample.
static void continue_chains(mu_layer *l, const mu_step *step, float *h) {
    const struct rbm *s = l->state;
    for (int64_t b = 0; b < step->rows; b++) {
        const float *past = mu_rowstate_latest(&s->chain, step->first_sample + b);
        if (past) memcpy(h + b * s->h, past, (size_t)s->h * sizeof *h);
    }
}

static void keep_chains(mu_layer *l, const mu_step *step, int64_t draw, const float *mean) {
    struct rbm *s = l->state;
    for (int64_t b = 0; b < step->rows; b++) {
        const int64_t g = step->first_sample + b;
        mu_unit_draw((mu_unit)s->hidden_units, l->key, g, draw, s->h, mean + b * s->h,
                     mu_rowstate_slot(&s->chain, g));
        mu_rowstate_commit(&s->chain, g);
    }
}

// Fills the lower halves: v (n, i) and the hidden means h (n, o) after k steps. Draw 0 is of the data's
// hidden units, 2t - 1 and 2t are those of step t.
static mu_status run_chain(mu_layer *l, const mu_step *step, int64_t k, bool persistent, float *v, float *h,
                           mu_err *err) {
    struct rbm *s = l->state;
    const int64_t rows = step->rows;
    float *drawn = in_scratch(l, s->at_h);
    draw_hidden(l, step, 0, l->out[0].value.f, drawn);
    MU_TRY(visible_mean(l, drawn, v, err));
    set_metric(s->error, mu_unit_distance(in_keep(l, s->at_x), v, rows * s->v), rows);
    if (persistent) {
        continue_chains(l, step, drawn);
        MU_TRY(visible_mean(l, drawn, v, err));
    }
    for (int64_t t = 1; t <= k; t++) {
        if (s->sample_visible) draw_rows(l, step, 2 * t - 1, false, v, v);
        MU_TRY(hidden_mean(l, rows, v, h, NULL, err));
        if (t == k) break;
        draw_hidden(l, step, 2 * t, h, drawn);
        MU_TRY(visible_mean(l, drawn, v, err));
    }
    if (persistent) keep_chains(l, step, 2 * k, h);
    return MU_OK;
}

// grad (o, c) += dy (rows, o)' * u (rows, c)
static void add_product(mu_param *p, int64_t rows, const float *dy, const float *u) {
    const int64_t o = p->shape.d[0], c = p->shape.d[1];
    const float beta = mu_param_accumulates(p) ? 1.0f : 0.0f;
    p->grad.form = MU_GRAD_DENSE;
    mu_gemm(true, false, o, c, rows, dy, o, u, c, beta, p->grad.dense, c);
}

static void visible_grads(mu_layer *l, int64_t rows, float scale, const float *data, const float *v) {
    const struct rbm *s = l->state;
    float *da = mu_grad_add_to(s->visible_bias), *dv = in_scratch(l, s->at_v);
    mu_unit_add_columns(rows, s->v, scale, v, da);
    mu_unit_add_columns(rows, s->v, -scale, data, da);
    if (!s->c) return;
    for (int64_t i = 0; i < rows * s->v; i++) dv[i] = scale * (v[i] - data[i]);
    add_product(s->condition_visible, rows, dv, l->src[1]->value.f);
}

// The upper half of dy: -h / batch, plus the pull towards the wanted activity.
static void positive_grads(mu_layer *l, int64_t rows, float scale, float *dy) {
    const struct rbm *s = l->state;
    const float *h = l->out[0].value.f;
    mu_unit_scale(rows * s->h, -scale, h, dy);
    if (!s->activity || rows < 1) return;
    float *q = s->activity->value;
    const float cost = scale * s->sparsity_cost;
    for (int64_t b = 0; b < rows; b++)
        for (int64_t j = 0; j < s->h; j++) dy[b * s->h + j] += cost * (q[j] - s->sparsity);
    mu_unit_scale(s->h, ACTIVITY_DECAY, q, q);
    mu_unit_add_columns(rows, s->h, (1 - ACTIVITY_DECAY) / (float)rows, h, q);
}

static mu_status contrast(mu_layer *l, const mu_step *step, int64_t k, bool persistent, mu_err *err) {
    struct rbm *s = l->state;
    const int64_t rows = step->rows, rest = s->n - rows;
    const float scale = 1.0f / (float)step->global_rows;
    float *x = in_keep(l, s->at_x), *v = x + s->n * s->v, *dy = in_keep(l, s->at_dy), *h = dy + s->n * s->h;
    if (!s->visible.reorder) memcpy(x, l->src[0]->value.f, (size_t)(rows * s->v) * sizeof *x);
    condition(l, true);
    MU_TRY(run_chain(l, step, k, persistent, v, h, err));
    visible_grads(l, rows, scale, x, v);
    positive_grads(l, rows, scale, dy);
    mu_unit_scale(rows * s->h, scale, h, h);
    for (int half = 0; half < 2; half++) { // rows that no sample has
        memset(x + (half * s->n + rows) * s->v, 0, (size_t)(rest * s->v) * sizeof *x);
        memset(dy + (half * s->n + rows) * s->h, 0, (size_t)(rest * s->h) * sizeof *dy);
        if (s->c) add_product(s->condition_hidden, rows, dy + half * s->n * s->h, l->src[1]->value.f);
    }
    return mu_bond_learn(&s->bond, l, step, s->hidden_bias, x, dy, err);
}

// ---- backward: as a feed-forward layer ----

static mu_status backward(mu_layer *l, const mu_step *step, mu_err *err) {
    struct rbm *s = l->state;
    const float *y = l->out[0].value.f, *g = l->out[0].grad.f;
    float *restrict dx = in_keep(l, s->at_dy), *dsrc = l->src[0]->grad.f;
    if (s->hidden_units == MU_UNIT_BINARY)
        for (int64_t i = 0; i < s->n * s->h; i++) dx[i] = g[i] * y[i] * (1 - y[i]);
    else memcpy(dx, g, (size_t)(s->n * s->h) * sizeof *dx);
    if (s->c) {
        add_product(s->condition_hidden, s->n, dx, l->src[1]->value.f);
        if (l->src[1]->grad.f)
            mu_gemm(false, false, s->n, s->c, s->h, dx, s->h, s->condition_hidden->value, s->c, 0.0f,
                    l->src[1]->grad.f, s->c);
    }
    const mu_op_args a = {.src = flat_src(l), .ddst = dx, .weight = s->bond.weight->value,
                          .dsrc = dsrc && s->visible.reorder ? in_scratch(l, s->at_v) : dsrc,
                          .scratch = l->scratch};
    MU_TRY(mu_grad_inner(l, step, s->bond.op, s->bond.weight, s->hidden_bias, &a, err));
    if (dsrc && s->visible.reorder) mu_nchw_to_nhwc(dsrc, a.dsrc, s->n, s->visible.channels, s->visible.hw);
    return MU_OK;
}

static void cost(const mu_layer *l, mu_cost *out) {
    const struct rbm *s = l->state;
    const double product = 2.0 * (double)s->n * (double)s->v * (double)s->h;
    out->flops_forward = product;
    out->flops_backward = product * (l->in_contrast  ? 2 + 2 * (double)l->contrast->k
                                     : l->contrast ? 0
                                                   : 1 + l->src[0]->needs_grad);
    out->bytes = (double)sizeof(float) * (double)s->n * (double)(s->v + s->h);
}

const mu_layer_class mu_layer_rbm = {
    .name = "rbm",
    .help = "restricted Boltzmann machine; a second source conditions it",
    .fields = fields,
    .state_size = sizeof(struct rbm),
    .params = params,
    .n_src_max = 2,
    .flags = MU_BACK_NEEDS_SRC | MU_BACK_NEEDS_DST,
    .cuts = MU_CUT_BATCH,
    .uncut = "units see all units of the other side, and `sparsity` the mean of all rows",
    .cut_rules = cut_rules,
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .backward = backward,
    .contrast = contrast,
    .cost = cost,
    .teardown = teardown,
};
