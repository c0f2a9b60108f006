// SPDX-License-Identifier: Apache-2.0
// o_pool_vec.c - pooling over contiguous channels.
//
// Forward: all channels of one output pixel read the same few source pixels ("taps"). Their offsets are
// listed once and listed anew only when the window is clipped differently, that is at the edges. Max
// keeps, for each output value, the number of the winning tap within the window in one byte.
//
// Backward gathers instead of scattering: each source pixel visits the windows that cover it (one for
// 2x2/2, at most four for 3x3/2) and takes their gradient if the kept byte names it. So every dsrc value
// is written once, nothing is zeroed first, and no read-modify-write is needed where windows overlap.
#include "base/alloc.h"
#include "ops/op.h"
#include "ops/vec.h"

#define MAX_TAPS 255    // tap numbers fit a byte ...
#define NO_TAP 255      // ... with one left for a window that lies outside the image

typedef struct span {           // a window along one axis
    int32_t start;              // may be negative: padding
    int32_t lo, hi;             // taps lo..hi-1 are inside the image, counted from start
    int32_t count;              // what an average divides by
} span;

typedef struct cover { int32_t first, last; } cover;    // windows over one source position, first > last: none

typedef struct axis { span *out; cover *in; } axis;     // by output position, by source position

typedef struct taps {           // of a window clipped in one way
    int64_t at[MAX_TAPS + 1];   // offset in floats from the window's start
    int32_t id[MAX_TAPS + 1];   // number within the whole window
    int     n;
    int32_t y0, y1, x0, x1;     // the clipping it was made for
} taps;

typedef struct pool { axis y, x; taps taps; } pool;

static mu_status make_axis(axis *a, int64_t in, int64_t out, int64_t k, int64_t stride, int64_t pad,
                           bool count_pad, mu_err *err) {
    a->out = mu_alloc_array((size_t)out, sizeof *a->out, "op");
    a->in = mu_alloc_array((size_t)in, sizeof *a->in, "op");
    if (!a->out || !a->in) return MU_FAIL_NOMEM(err, "pooling windows");
    for (int64_t i = 0; i < in; i++) a->in[i] = (cover){0, -1};
    for (int64_t o = 0; o < out; o++) {
        int64_t start = o * stride - pad, lo = start < 0 ? -start : 0;
        int64_t hi = start + k > in ? in - start : k, padded = start + k > in + pad ? in + pad - start : k;
        if (lo > k) lo = k;
        if (hi < lo) hi = lo;
        a->out[o] = (span){(int32_t)start, (int32_t)lo, (int32_t)hi, (int32_t)(count_pad ? padded : hi - lo)};
        for (int64_t i = start + lo; i < start + hi; i++) {
            if (a->in[i].last < 0) a->in[i].first = (int32_t)o;
            a->in[i].last = (int32_t)o;
        }
    }
    return MU_OK;
}

static bool accepts(const mu_op_desc *d) { return d->pool.kh * d->pool.kw <= MAX_TAPS; }

static mu_status create(mu_op *op, mu_err *err) {
    const mu_pool_desc *d = &op->desc.pool;
    pool *p = op->state;
    p->taps.y0 = -1; // no list yet
    MU_TRY(make_axis(&p->y, d->h, d->oh, d->kh, d->stride_h, d->pad_h, d->count_pad, err));
    MU_TRY(make_axis(&p->x, d->w, d->ow, d->kw, d->stride_w, d->pad_w, d->count_pad, err));
    if (d->kind == MU_POOL_MAX) op->keep_bytes = (size_t)(d->n * d->oh * d->ow * d->c);
    return MU_OK;
}

static void destroy(mu_op *op) {
    pool *p = op->state;
    mu_free(p->y.out);
    mu_free(p->y.in);
    mu_free(p->x.out);
    mu_free(p->x.in);
}

static void list_taps(taps *t, const mu_pool_desc *d, const span *y, const span *x) {
    if (t->y0 == y->lo && t->y1 == y->hi && t->x0 == x->lo && t->x1 == x->hi) return;
    t->y0 = y->lo, t->y1 = y->hi, t->x0 = x->lo, t->x1 = x->hi;
    t->n = 0;
    for (int32_t i = y->lo; i < y->hi; i++)
        for (int32_t j = x->lo; j < x->hi; j++, t->n++) {
            t->at[t->n] = (i * d->w + j) * d->c;
            t->id[t->n] = (int32_t)(i * d->kw + j);
        }
}

// `n` is a constant at the frequent sizes, so that the tap loop unrolls.
MU_INLINE void max_pixel(const taps *t, int n, const float *image, int64_t base, int64_t c_all, float *dst,
                         uint8_t *at) {
    for (int64_t c = 0; c < c_all; c += MU_LANES) {
        int64_t left = c_all - c;
        mu_vec best = mu_vec_load(image + (base + t->at[0] + c), left);
        mu_veci id = mu_veci_set(t->id[0]);
        for (int i = 1; i < n; i++) {
            mu_vec v = mu_vec_load(image + (base + t->at[i] + c), left);
            mu_vmask take = mu_vmask_or(mu_vec_gt(v, best), mu_vec_isnan(v)); // first of equals; NaN stays
            best = mu_vec_select(take, v, best);
            id = mu_veci_select(take, mu_veci_set(t->id[i]), id);
        }
        mu_vec_store(dst + c, best, left);
        mu_veci_store_u8(at + c, id, left);
    }
}

MU_INLINE void avg_pixel(const taps *t, int n, const float *image, int64_t base, int64_t c_all, float *dst,
                         float share) {
    for (int64_t c = 0; c < c_all; c += MU_LANES) {
        mu_vec sum = mu_vec_load(image + (base + t->at[0] + c), c_all - c);
        for (int i = 1; i < n; i++) sum += mu_vec_load(image + (base + t->at[i] + c), c_all - c);
        mu_vec_store(dst + c, sum * share, c_all - c);
    }
}

static void empty_window(const mu_pool_desc *d, float *dst, uint8_t *at) {
    memset(dst, 0, (size_t)d->c * sizeof *dst);
    if (at) memset(at, NO_TAP, (size_t)d->c);
}

static void max_forward(const mu_pool_desc *d, const taps *t, const float *image, int64_t base, float *dst,
                        uint8_t *at) {
    if (t->n == 9) max_pixel(t, 9, image, base, d->c, dst, at);
    else if (t->n == 4) max_pixel(t, 4, image, base, d->c, dst, at);
    else max_pixel(t, t->n, image, base, d->c, dst, at);
}

static void avg_forward(const mu_pool_desc *d, const taps *t, const float *image, int64_t base, float *dst,
                        float share) {
    if (t->n == 9) avg_pixel(t, 9, image, base, d->c, dst, share);
    else if (t->n == 4) avg_pixel(t, 4, image, base, d->c, dst, share);
    else avg_pixel(t, t->n, image, base, d->c, dst, share);
}

static mu_status forward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_pool_desc *d = &op->desc.pool;
    pool *p = op->state;
    float *dst = a->dst;
    uint8_t *at = d->kind == MU_POOL_MAX ? a->keep : NULL;
    for (int64_t n = 0; n < d->n; n++) {
        const float *image = a->src + n * d->h * d->w * d->c;
        for (int64_t oy = 0; oy < d->oh; oy++)
            for (int64_t ox = 0; ox < d->ow; ox++, dst += d->c) {
                const span *y = &p->y.out[oy], *x = &p->x.out[ox];
                int64_t base = (y->start * d->w + x->start) * d->c;
                list_taps(&p->taps, d, y, x);
                if (p->taps.n == 0) empty_window(d, dst, at);
                else if (at) max_forward(d, &p->taps, image, base, dst, at);
                else avg_forward(d, &p->taps, image, base, dst, 1.0f / (float)(y->count * x->count));
                if (at) at += d->c;
            }
    }
    return MU_OK;
}

// The gradient of source pixel (y,x) from the windows over it; ddst and at are those of the image.
MU_INLINE void gather(const mu_pool_desc *d, const pool *p, int64_t y, int64_t x, const float *ddst,
                      const uint8_t *at, bool is_max, float *dsrc) {
    cover cy = p->y.in[y], cx = p->x.in[x];
    for (int64_t c = 0; c < d->c; c += MU_LANES) {
        int64_t left = d->c - c;
        mu_vec sum = {0};
        for (int64_t oy = cy.first; oy <= cy.last; oy++)
            for (int64_t ox = cx.first; ox <= cx.last; ox++) {
                const span *wy = &p->y.out[oy], *wx = &p->x.out[ox];
                int64_t o = (oy * d->ow + ox) * d->c + c;
                mu_vec g = mu_vec_load(ddst + o, left);
                if (is_max) {
                    mu_veci me = mu_veci_set((int32_t)((y - wy->start) * d->kw + x - wx->start));
                    sum += mu_vec_select(mu_veci_eq(mu_veci_load_u8(at + o, left), me), g, (mu_vec){0});
                } else {
                    sum += g * (1.0f / (float)(wy->count * wx->count));
                }
            }
        mu_vec_store(dsrc + c, sum, left);
    }
}

static mu_status backward(mu_op *op, const mu_op_args *a, mu_err *err) {
    (void)err;
    const mu_pool_desc *d = &op->desc.pool;
    const pool *p = op->state;
    float *dsrc = a->dsrc;
    for (int64_t n = 0; dsrc && n < d->n; n++) {
        const float *ddst = a->ddst + n * d->oh * d->ow * d->c;
        const uint8_t *at = (const uint8_t *)a->keep + n * d->oh * d->ow * d->c;
        for (int64_t y = 0; y < d->h; y++)
            for (int64_t x = 0; x < d->w; x++, dsrc += d->c) {
                if (d->kind == MU_POOL_MAX) gather(d, p, y, x, ddst, at, true, dsrc);
                else gather(d, p, y, x, ddst, at, false, dsrc);
            }
    }
    return MU_OK;
}

const mu_op_class mu_op_pool_vec = {
    .name = "pool_vec", .help = "pooling, vectorised over channels", .prim = MU_PRIM_POOL, .rank = 20,
    .state_size = sizeof(pool), .accepts = accepts, .create = create, .forward = forward,
    .backward = backward, .destroy = destroy,
};
