// SPDX-License-Identifier: Apache-2.0
// l_noise.c - spoils its source in training; in other phases it does nothing, unless told to. In front of
// an auto-encoder that is to restore the clean source it makes a denoising one (Vincent et al., 2008).
//
//   mask          a value becomes 0 with probability `level`; unlike dropout the others stay as they are
//   gaussian      x + level * N(0, 1)
//   salt_pepper   a value becomes 0 or 1, each with probability level / 2
//
// What happens to a value is a function of (seed, layer, sample number, element): the same for every batch
// size, number of learners and way of cutting the layer. A gradient passes where the value did; that is
// kept, a byte a value.
#include "layer/infer.h"
#include "layer/pass.h"

enum { MASK, GAUSSIAN, SALT_PEPPER };

struct noise {
    int kind;
    float level;
    bool always;
};

static const mu_field fields[] = {
    MU_FIELD_ENUM(struct noise, kind, "mask", "mask|gaussian|salt_pepper",
                  "values set to 0, shifted at random, or set to 0 or 1"),
    MU_FIELD(struct noise, level, MU_FLOAT, "0.3", "[0,)",
             "share of values that are spoilt; gaussian: the standard deviation"),
    MU_FIELD(struct noise, always, MU_BOOL, "false", NULL,
             "also in tests and predictions, to see what is restored"),
    {0},
};

static bool active(const mu_layer *l) {
    const struct noise *s = l->state;
    return (mu_layer_trains(l) || s->always) && s->level > 0;
}

static mu_status infer(mu_layer *l, mu_err *err) {
    const struct noise *s = l->state;
    MU_TRY(mu_infer_float(l, 0, err));
    if (s->kind != GAUSSIAN && s->level > 1)
        return mu_layer_fail(l, err, "level %g is a share of the values, at most 1", (double)s->level);
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (active(l) && s->kind != GAUSSIAN) l->keep_bytes = (size_t)mu_shape_count(in);
    return mu_layer_add_out(l, NULL, *in, MU_F32, err);
}

// y = x spoilt by the draws u of n values; passes[i] = 1 where the value stayed.
static void spoil(const struct noise *s, const float *x, const float *u, int64_t n, float *y,
                  uint8_t *passes) {
    if (s->kind == GAUSSIAN) {
        for (int64_t i = 0; i < n; i++) y[i] = x[i] + s->level * u[i];
        return;
    }
    float peak = s->kind == SALT_PEPPER ? 1 : 0, half = s->level / 2;
    for (int64_t i = 0; i < n; i++) {
        passes[i] = u[i] >= s->level;
        y[i] = passes[i] ? x[i] : u[i] < half ? 0 : peak;
    }
}

static mu_status forward(mu_layer *l, const mu_step *step, MU_UNUSED mu_err *err) {
    const struct noise *s = l->state;
    const float *x = l->src[0]->value.f;
    float *y = l->out[0].value.f, u[256];
    if (!active(l)) {
        mu_pass_on(y, x, &l->out[0].value);
        return MU_OK;
    }
    const mu_shape *in = mu_layer_src_shape(l, 0);
    const int64_t rows = in->d[0], width = mu_shape_inner(in, 1), piece = MU_COUNT(u);
    const mu_rng_part draws = mu_cut_draws(&l->cut);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t e = 0; e < width; e += piece) {
            const int64_t n = width - e < piece ? width - e : piece, at = r * width + e;
            const uint64_t sample = (uint64_t)(step->first_sample + r);
            if (s->kind == GAUSSIAN) mu_rng_part_gaussian(l->key, sample, &draws, (uint64_t)e, u, (size_t)n);
            else mu_rng_part_uniform(l->key, sample, &draws, (uint64_t)e, u, (size_t)n);
            spoil(s, x + at, u, n, y + at, s->kind == GAUSSIAN ? NULL : (uint8_t *)l->keep + at);
        }
    return MU_OK;
}

static mu_status backward(mu_layer *l, MU_UNUSED const mu_step *step, MU_UNUSED mu_err *err) {
    const struct noise *s = l->state;
    const float *dy = l->out[0].grad.f;
    const uint8_t *passes = l->keep;
    float *dx = l->src[0]->grad.f;
    if (!active(l) || s->kind == GAUSSIAN) {
        mu_pass_on(dx, dy, &l->out[0].value);
        return MU_OK;
    }
    const int64_t n = mu_shape_count(&l->out[0].value.shape);
    for (int64_t i = 0; dx && i < n; i++) dx[i] = passes[i] ? dy[i] : 0;
    return MU_OK;
}

const mu_layer_class mu_layer_noise = {
    .name = "noise",
    .help = "spoils values in training, for denoising auto-encoders",
    .fields = fields,
    .state_size = sizeof(struct noise),
    .flags = MU_LAYER_IN_PLACE,
    .infer = infer,
    .forward = forward,
    .backward = backward,
};
