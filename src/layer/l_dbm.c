// SPDX-License-Identifier: Apache-2.0
// l_dbm.c - deep Boltzmann machine (Salakhutdinov and Hinton 2009): units u0 (visible), u1, u2 [, u3],
//
//     E(u) = - sum over j of u_j' w_j u_(j-1)  - sum over j of b_j' u_j
//
// Learning needs two expectations. Given the data, the hidden units are approximated by independent ones
// whose means are found by coordinate ascent: in turn, from the lowest up,
//     m_j = s(w_j m_(j-1) + w_(j+1)' m_(j+1) + b_j)
// for `mean_field` rounds after one pass upwards. Of the model, Gibbs chains: given the odd layers all even
// ones are independent, and the other way round, so a chain's state is the odd layers (rowstate.h). The last
// odd ones count with their means given the even ones, which has the same expectation and less noise.
//
// The output is the top layer's means. It learns under `cd`, by custom with `persistent: true`.
//
// keep, for each layer j: u_j = [data; chain] (2n, units), and scaled for the weights below, dy_j (energy.h).
#include "layer/energy.h"
#include "layer/grad.h"
#include "layer/rowstate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_HIDDEN = 3 };

struct dbm {
    mu_ints hidden;
    int visible_units;                  // mu_unit
    int64_t mean_field, chains;
    // derived
    int top;                            // number of hidden layers
    mu_visible visible;
    int64_t n, units[MAX_HIDDEN + 1];
    mu_bond bond[MAX_HIDDEN];           // [j - 1]: w_j, between layers j - 1 and j
    mu_param *bias[MAX_HIDDEN + 1];     // [0] NULL when the net does not learn by contrast
    mu_rowstate chain;                  // the drawn odd layers
    mu_metric *error, *energy;          // NULL = not reported
    int64_t at_u[MAX_HIDDEN + 1], at_dy[MAX_HIDDEN + 1];        // offsets into keep, floats
    int64_t at_up, at_sum, at_odd[MAX_HIDDEN + 1];              // into scratch: see setup
};

static const mu_field fields[] = {
    MU_FIELD(struct dbm, hidden, MU_INTS, NULL, "[1,1M]", "units of the hidden layers, such as [500, 1000]"),
    MU_FIELD_ENUM(struct dbm, visible_units, "binary", MU_UNIT_CHOICES,
                  "binary (data in 0..1), or gaussian of variance 1"),
    MU_FIELD(struct dbm, mean_field, MU_INT, "10", "[1,1k]", "rounds of mean field, given the data"),
    MU_FIELD(struct dbm, chains, MU_INT, "0", "[0,1M]",
             "persistent chains; 0 = one for each row of the batch"),
    {0},
};
static const char *const params[] = {"weight1",      "weight2",      "weight3",      "visible_bias",
                                     "hidden_bias1", "hidden_bias2", "hidden_bias3", "chain",
                                     NULL};
static const char *const weight_name[] = {"weight1", "weight2", "weight3"};
static const char *const bias_name[] = {"visible_bias", "hidden_bias1", "hidden_bias2", "hidden_bias3"};

// ---- set-up ----

static mu_status infer_params(mu_layer *l, mu_err *err) {
    struct dbm *s = l->state;
    mu_param *weight[MAX_HIDDEN];
    for (int j = 1; j <= s->top; j++) {
        const int64_t i = s->units[j - 1], o = s->units[j];
        MU_TRY(mu_layer_add_param(l, weight_name[j - 1], MU_SHAPE(o, i), i, o, "gaussian std=0.01", err));
        weight[j - 1] = l->param[l->n_param - 1];
    }
    for (int j = l->contrast ? 0 : 1; j <= s->top; j++) {
        MU_TRY(mu_layer_add_param(l, bias_name[j], MU_SHAPE(s->units[j]), s->units[j], 1, "constant", err));
        s->bias[j] = l->param[l->n_param - 1];
    }
    for (int j = 1; j <= s->top; j++)
        mu_bond_infer(&s->bond[j - 1], l, weight[j - 1], s->n, s->units[j - 1], s->units[j]);
    if (!l->in_contrast || !mu_layer_trains(l) || !l->contrast->persistent) return MU_OK;
    MU_TRY(mu_rowstate_infer(&s->chain, l, "chain", s->chains ? s->chains : l->contrast->chains,
                             s->units[1] + (s->top > 2 ? s->units[3] : 0), err));
    s->chain.param->may_restart = true;
    return MU_OK;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    struct dbm *s = l->state;
    MU_TRY(mu_visible_infer(&s->visible, l, err));
    if (s->hidden.n < 2 || s->hidden.n > MAX_HIDDEN)
        return mu_err_hinted(
            mu_layer_fail(l, err, "a dbm has 2 to %d hidden layers, not %zu", MAX_HIDDEN, s->hidden.n), err,
            "A machine with one hidden layer is a `rbm`.");
    s->top = (int)s->hidden.n;
    s->n = s->visible.n;
    s->units[0] = s->visible.v;
    for (int j = 1; j <= s->top; j++) s->units[j] = s->hidden.v[j - 1];
    MU_TRY(infer_params(l, err));
    if (l->in_contrast) s->error = mu_layer_add_metric(l, "reconstruction", true);
    if (l->in_contrast && !mu_layer_trains(l)) s->energy = mu_layer_add_metric(l, "free_energy", false);
    return mu_layer_add_out(l, NULL, MU_SHAPE(s->n, s->units[s->top]), MU_F32, err);
}

static mu_status setup(mu_layer *l, mu_err *err) {
    struct dbm *s = l->state;
    const bool learns = l->in_contrast && mu_layer_trains(l);
    int64_t widest = 0;
    for (int j = 0; j < s->top; j++) MU_TRY(mu_bond_setup(&s->bond[j], l, err));
    for (int j = 0; j <= s->top; j++) {
        const int64_t floats = s->n * s->units[j];
        if (s->units[j] > widest) widest = s->units[j];
        s->at_u[j] = mu_energy_room(&l->keep_bytes, (learns ? 2 : 1) * floats);
        s->at_dy[j] = mu_energy_room(&l->keep_bytes, learns && j ? 2 * floats : 0);
        s->at_odd[j] = mu_energy_room(&l->scratch_bytes, learns && j % 2 ? floats : 0);
    }
    s->at_up = mu_energy_room(&l->scratch_bytes, s->n * s->units[1]);   // what the data gives layer 1
    s->at_sum = mu_energy_room(&l->scratch_bytes, s->n * widest);       // what comes from above
    return MU_OK;
}

static void teardown(mu_layer *l) {
    struct dbm *s = l->state;
    for (int j = 0; j < MAX_HIDDEN; j++) mu_bond_teardown(&s->bond[j]);
}

// ---- units ----

static float *data_units(const mu_layer *l, int j) {
    return (float *)l->keep + ((const struct dbm *)l->state)->at_u[j];
}
static float *chain_units(const mu_layer *l, int j) {
    const struct dbm *s = l->state;
    return data_units(l, j) + s->n * s->units[j];
}
static float *in_scratch(const mu_layer *l, int64_t at) { return (float *)l->scratch + at; }

static mu_unit kind_of(const struct dbm *s, int j) { return j ? MU_UNIT_BINARY : (mu_unit)s->visible_units; }

// dst (n, units of j) = input of layer j from its neighbours; below NULL: dst holds that part already.
static mu_status add_inputs(const mu_layer *l, int j, int64_t rows, const float *below, const float *above,
                            float *dst, mu_err *err) {
    const struct dbm *s = l->state;
    if (below) MU_TRY(mu_bond_up(&s->bond[j - 1], l, rows, below, s->bias[j]->value, dst, err));
    if (!above) return MU_OK;
    float *sum = in_scratch(l, s->at_sum);
    MU_TRY(mu_bond_down(&s->bond[j], l, above, sum, err));
    mu_unit_add_bias(s->n, s->units[j], sum, true, dst);
    return MU_OK;
}

static mu_status visible_mean(const mu_layer *l, const float *above, float *dst, mu_err *err) {
    const struct dbm *s = l->state;
    MU_TRY(mu_bond_down(&s->bond[0], l, above, dst, err));
    mu_unit_add_bias(s->n, s->units[0], s->bias[0]->value, false, dst);
    mu_unit_mean(kind_of(s, 0), s->n * s->units[0], dst, NULL);
    return MU_OK;
}

static mu_status mean_field(const mu_layer *l, int64_t rows, const float *data, mu_err *err) {
    const struct dbm *s = l->state;
    float *up = in_scratch(l, s->at_up);
    MU_TRY(mu_bond_up(&s->bond[0], l, rows, data, s->bias[1]->value, up, err));
    for (int64_t round = 0; round <= s->mean_field; round++)
        for (int j = 1; j <= s->top; j++) {
            float *m = data_units(l, j);
            const float *above = round && j < s->top ? data_units(l, j + 1) : NULL;
            if (j == 1) memcpy(m, up, (size_t)(s->n * s->units[1]) * sizeof *m);
            MU_TRY(add_inputs(l, j, rows, j > 1 ? data_units(l, j - 1) : NULL, above, m, err));
            mu_unit_mean(MU_UNIT_BINARY, s->n * s->units[j], m, NULL);
        }
    return MU_OK;
}

static mu_status reconstruct(const mu_layer *l, int64_t rows, const float *data, mu_err *err) {
    const struct dbm *s = l->state;
    float *v = in_scratch(l, s->at_sum);
    MU_TRY(visible_mean(l, data_units(l, 1), v, err));
    s->error->sum = mu_unit_distance(data, v, rows * s->units[0]);
    s->error->weight = (double)rows;
    return MU_OK;
}

// ---- forward ----

static double entropy(int64_t n, const float *p) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)p[i], b = 1 - a;
        sum -= (a > 0 ? a * log(a) : 0) + (b > 0 ? b * log(b) : 0);
    }
    return sum;
}

// The variational free energy, an upper bound of -ln of the data's unnormalised probability: expected energy
// minus entropy under the mean field.
static mu_status bound_energy(const mu_layer *l, int64_t rows, const float *data, mu_err *err) {
    const struct dbm *s = l->state;
    float *up = in_scratch(l, s->at_up), *sum = in_scratch(l, s->at_sum);
    double energy = 0;
    for (int64_t b = 0; b < rows; b++) {
        const float *v = data + b * s->units[0], *a = s->bias[0]->value;
        energy += kind_of(s, 0) == MU_UNIT_BINARY ? -mu_unit_dot(v, a, s->units[0])
                                                  : 0.5 * mu_unit_distance(v, a, s->units[0]);
    }
    for (int j = 1; j <= s->top; j++) {
        const float *m = data_units(l, j), *input = j == 1 ? up : sum;
        if (j > 1) MU_TRY(add_inputs(l, j, rows, data_units(l, j - 1), NULL, sum, err));
        energy -= mu_unit_dot(m, input, rows * s->units[j]) + entropy(rows * s->units[j], m);
    }
    s->energy->sum = energy;
    s->energy->weight = (double)rows;
    return MU_OK;
}

static mu_status forward(mu_layer *l, const mu_step *step, mu_err *err) {
    struct dbm *s = l->state;
    float *flat = data_units(l, 0);
    mu_visible_flatten(&s->visible, l, flat);
    const float *data = mu_visible_value(&s->visible, l, flat);
    MU_TRY(mean_field(l, step->rows, data, err));
    memcpy(l->out[0].value.f, data_units(l, s->top), (size_t)(s->n * s->units[s->top]) * sizeof *flat);
    if (s->energy) MU_TRY(bound_energy(l, step->rows, data, err));
    return s->error ? reconstruct(l, step->rows, data, err) : MU_OK;
}

// ---- contrast ----

// The odd layers of every row: as drawn last time, or drawn from the data's mean field.
static void begin_chains(mu_layer *l, const mu_step *step, bool persistent) {
    struct dbm *s = l->state;
    for (int64_t b = 0; b < s->n; b++) {
        const int64_t g = step->first_sample + b;
        const float *past = persistent && b < step->rows ? mu_rowstate_latest(&s->chain, g) : NULL;
        for (int j = 1; j <= s->top; j += 2) {
            const int64_t n = s->units[j];
            float *u = in_scratch(l, s->at_odd[j]) + b * n;
            if (past) memcpy(u, past, (size_t)n * sizeof *u), past += n;
            else mu_unit_draw(MU_UNIT_BINARY, l->key, g, j, n, data_units(l, j) + b * n, u);
        }
    }
}

static void keep_chains(mu_layer *l, const mu_step *step) {
    struct dbm *s = l->state;
    for (int64_t b = 0; b < step->rows; b++) {
        float *to = mu_rowstate_slot(&s->chain, step->first_sample + b);
        for (int j = 1; j <= s->top; j += 2) {
            memcpy(to, in_scratch(l, s->at_odd[j]) + b * s->units[j], (size_t)s->units[j] * sizeof *to);
            to += s->units[j];
        }
        mu_rowstate_commit(&s->chain, step->first_sample + b);
    }
}

// One sweep: even layers drawn given the odd ones, then odd layers' means given these, and drawn.
static mu_status sweep(mu_layer *l, const mu_step *step, int64_t t, mu_err *err) {
    struct dbm *s = l->state;
    const int64_t first = step->first_sample, draw = (MAX_HIDDEN + 1) * t;
    for (int j = 0; j <= s->top; j += 2) {
        float *u = chain_units(l, j);
        const float *above = j < s->top ? in_scratch(l, s->at_odd[j + 1]) : NULL;
        if (j) {
            MU_TRY(add_inputs(l, j, s->n, in_scratch(l, s->at_odd[j - 1]), above, u, err));
            mu_unit_mean(MU_UNIT_BINARY, s->n * s->units[j], u, NULL);
        } else {
            MU_TRY(visible_mean(l, above, u, err));
        }
        mu_unit_draw_rows(kind_of(s, j), l->key, first, draw + j, s->n, s->units[j], u, u);
    }
    for (int j = 1; j <= s->top; j += 2) {
        float *u = chain_units(l, j);
        const float *above = j < s->top ? chain_units(l, j + 1) : NULL;
        MU_TRY(add_inputs(l, j, s->n, chain_units(l, j - 1), above, u, err));
        mu_unit_mean(MU_UNIT_BINARY, s->n * s->units[j], u, NULL);
        mu_unit_draw_rows(MU_UNIT_BINARY, l->key, first, draw + j, s->n, s->units[j], u,
                          in_scratch(l, s->at_odd[j]));
    }
    return MU_OK;
}

// Scaled copies for the weights below each layer; rows that no sample has count as nothing.
static void scale_units(mu_layer *l, int64_t rows, float scale) {
    struct dbm *s = l->state;
    for (int j = 0; j <= s->top; j++)
        for (int half = 0; half < 2; half++) {
            const int64_t n = s->units[j], begin = half * s->n * n;
            float *u = data_units(l, j) + begin, *dy = (float *)l->keep + s->at_dy[j] + begin;
            const size_t rest = (size_t)((s->n - rows) * n) * sizeof *u;
            memset(u + rows * n, 0, rest);
            if (!j) continue;
            memset(dy + rows * n, 0, rest);
            mu_unit_scale(rows * n, half ? scale : -scale, u, dy);
        }
}

static mu_status contrast(mu_layer *l, const mu_step *step, int64_t k, bool persistent, mu_err *err) {
    struct dbm *s = l->state;
    const float scale = 1.0f / (float)step->global_rows;
    const int64_t rows = step->rows, v = s->units[0];
    if (!s->visible.reorder)
        memcpy(data_units(l, 0), l->src[0]->value.f, (size_t)(rows * v) * sizeof(float));
    begin_chains(l, step, persistent);
    for (int64_t t = 1; t <= k; t++) MU_TRY(sweep(l, step, t, err));
    if (persistent) keep_chains(l, step);
    scale_units(l, rows, scale);
    float *da = mu_grad_add_to(s->bias[0]);
    mu_unit_add_columns(rows, v, scale, chain_units(l, 0), da);
    mu_unit_add_columns(rows, v, -scale, data_units(l, 0), da);
    for (int j = s->top; j > 0; j--)
        MU_TRY(mu_bond_learn(&s->bond[j - 1], l, step, s->bias[j], data_units(l, j - 1),
                             (float *)l->keep + s->at_dy[j], err));
    return MU_OK;
}

static void cost(const mu_layer *l, mu_cost *out) {
    const struct dbm *s = l->state;
    const double rounds = (double)s->mean_field, k = l->contrast ? (double)l->contrast->k : 0;
    for (int j = 0; j < s->top; j++) {
        const double product = 2.0 * (double)s->n * (double)s->units[j] * (double)s->units[j + 1];
        out->flops_forward += product * (j ? 1 + 2 * rounds : 2);
        if (l->in_contrast) out->flops_backward += product * (2 + 2 * k);
        out->bytes += (double)sizeof(float) * (double)s->n * (double)s->units[j + 1];
    }
}

const mu_layer_class mu_layer_dbm = {
    .name = "dbm",
    .help = "deep Boltzmann machine with 2 or 3 hidden layers",
    .fields = fields,
    .state_size = sizeof(struct dbm),
    .params = params,
    .flags = MU_BACK_NEEDS_SRC,
    .cuts = MU_CUT_BATCH,
    .infer = infer,
    .setup = setup,
    .forward = forward,
    .contrast = contrast,
    .cost = cost,
    .teardown = teardown,
};
