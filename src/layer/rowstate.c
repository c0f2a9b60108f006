// SPDX-License-Identifier: Apache-2.0
// rowstate.c - see rowstate.h.
//
// Tags are floats: numbers of a stream are exact up to 2^24, far beyond the steps of any run.
#include "layer/rowstate.h"

#include <inttypes.h>
#include <string.h>

static int64_t row_floats(const mu_rowstate *s) { return 2 * (1 + s->width); }

mu_status mu_rowstate_infer(mu_rowstate *s, mu_layer *l, const char *what, int64_t streams, int64_t width,
                            mu_err *err) {
    const int64_t rows = mu_layer_src_shape(l, 0)->d[0];
    if (rows > streams) {
        mu_status st = mu_layer_fail(l, err, "a batch of %" PRId64 " samples has more rows than the %" PRId64
                                             " streams whose state layer `%s` keeps", rows, streams, l->name);
        mu_err_hint(err, "Make the number of streams at least `train.batch` and `test.batch`.");
        return st;
    }
    if (width > MU_ROWSTATE_MAX)
        return mu_layer_fail(l, err, "layer `%s` keeps %" PRId64 " values of each stream, at most %d are "
                                     "possible", l->name, width, MU_ROWSTATE_MAX);
    *s = (mu_rowstate){.streams = streams, .width = width};
    if (mu_layer_trains(l)) {
        MU_TRY(mu_layer_add_state(l, what, MU_SHAPE(streams, row_floats(s)), err));
        s->param = l->param[l->n_param - 1];
        return MU_OK;
    }
    s->own = mu_arena_array(l->arena, (size_t)(streams * row_floats(s)), sizeof *s->own);
    return s->own ? MU_OK : MU_FAIL_NOMEM(err, "the states of a layer");
}

// The state of the stream of sample g after its number q.
static float *slot(const mu_rowstate *s, int64_t g, int64_t q) {
    float *base = s->param ? s->param->value : s->own;
    return base + g % s->streams * row_floats(s) + (q & 1) * (1 + s->width);
}

const float *mu_rowstate_before(const mu_rowstate *s, int64_t g) {
    const int64_t q = g / s->streams - 1;
    if (q < 0) return NULL;
    const float *at = slot(s, g, q);
    return at[0] == (float)(q + 1) ? at + 1 : NULL;
}

const float *mu_rowstate_latest(const mu_rowstate *s, int64_t g) {
    const int64_t q = g / s->streams;
    const float *a = slot(s, g, 0), *b = slot(s, g, 1), now = (float)(q + 1);
    const float tag_a = a[0] < now ? a[0] : 0, tag_b = b[0] < now ? b[0] : 0;
    if (tag_a <= 0 && tag_b <= 0) return NULL;
    return tag_a > tag_b ? a + 1 : b + 1;
}

float *mu_rowstate_after(mu_rowstate *s, int64_t g) {
    const int64_t q = g / s->streams;
    float *at = slot(s, g, q);
    at[0] = (float)(q + 1);
    return at + 1;
}

void mu_rowstate_merge(const mu_param *p, float *value, int64_t row0, int64_t row1, int n,
                       const float *const *copy) {
    const size_t half = (size_t)p->shape.d[1] / 2;
    for (size_t at = 2 * half * (size_t)row0; at < 2 * half * (size_t)row1; at += half) {
        const float *newest = NULL;
        for (int j = 0; j < n; j++)
            if (copy[j][at] >= value[at] && (!newest || copy[j][at] > newest[0])) newest = copy[j] + at;
        if (newest) memcpy(value + at, newest, half * sizeof *value);
    }
}
