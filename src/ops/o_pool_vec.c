// SPDX-License-Identifier: Apache-2.0
// o_pool_vec.c - pooling over contiguous channels.
//
// Forward: all channels of one output pixel read the same few source pixels ("taps"). Runs of whole windows
// take a path with a constant number of taps; windows clipped at the edges take the general one. Max keeps,
// for each output value, the number of the winning tap within the window in one byte. A source beyond the
// second cache is prefetched: the processor does not follow three rows at once by itself.
//
// Backward runs along each source row for one vector of channels and holds the gradient of the KW columns
// under the current window in registers: a window adds to them, then the columns that no later window
// reaches are written. So every dsrc value is written once, nothing is zeroed first, and windows may
// overlap (3x3/2), touch (2x2/2) or leave gaps.
#include "base/alloc.h"
#include "ops/op.h"
#include "ops/vec.h"

#define MAX_TAPS 255    // tap numbers fit a byte ...
#define NO_TAP 255      // ... with one left for a window that lies outside the image
#define FAR_BYTES (2 << 20)     // sources larger than this come from beyond the second cache

typedef struct span {           // a window along one axis
    int32_t start;              // may be negative: padding
    int32_t lo, hi;             // taps lo..hi-1 are inside the image, counted from start
    int32_t count;              // what an average divides by
} span;

typedef struct cover { int32_t first, last; } cover;    // windows over a source position; first > last: none

typedef struct pool {
    span   *y, *x;              // (oh), (ow)
    cover  *rows;               // (h)
    int64_t taps[MAX_TAPS];     // of a whole window: floats from its first tap
    int     n_taps;
} pool;

// Where the last vector of n channels begins, when those before c are done. Without masks a whole vector is
// faster: some channels are then computed twice.
static inline int64_t last_vector(int64_t c, int64_t n) {
    return MU_LANES == 16 || n < MU_LANES ? c : n - MU_LANES;
}

// ---- set-up ----

static mu_status make_spans(span **out, int64_t n_out, int64_t n_in, int64_t k, int64_t stride, int64_t pad,
                            bool count_pad, mu_err *err) {
    span *s = *out = mu_alloc_array((size_t)n_out, sizeof *s, "op");
    if (!s) return MU_FAIL_NOMEM(err, "pooling windows");
    for (int64_t o = 0; o < n_out; o++) {
        int64_t start = o * stride - pad, lo = start < 0 ? -start : 0;
        int64_t hi = start + k > n_in ? n_in - start : k;
        int64_t padded = start + k > n_in + pad ? n_in + pad - start : k;
        if (lo > k) lo = k;
        if (hi < lo) hi = lo;
        s[o] = (span){(int32_t)start, (int32_t)lo, (int32_t)hi, (int32_t)(count_pad ? padded : hi - lo)};
    }
    return MU_OK;
}

static bool accepts(const mu_op_desc *d) { return d->pool.kh * d->pool.kw <= MAX_TAPS; }

static mu_status create(mu_op *op, mu_err *err) {
    const mu_pool_desc *d = &op->desc.pool;
    pool *p = op->state;
    for (int64_t i = 0; i < d->kh; i++)
        for (int64_t j = 0; j < d->kw; j++) p->taps[p->n_taps++] = (i * d->w + j) * d->c;
    MU_TRY(make_spans(&p->y, d->oh, d->h, d->kh, d->stride_h, d->pad_h, d->count_pad, err));
    MU_TRY(make_spans(&p->x, d->ow, d->w, d->kw, d->stride_w, d->pad_w, d->count_pad, err));
    p->rows = mu_alloc_array((size_t)d->h, sizeof *p->rows, "op");
    if (!p->rows) return MU_FAIL_NOMEM(err, "pooling windows");
    for (int64_t y = 0; y < d->h; y++) p->rows[y] = (cover){0, -1};
    for (int32_t o = 0; o < d->oh; o++)
        for (int64_t y = p->y[o].start + p->y[o].lo; y < p->y[o].start + p->y[o].hi; y++)
            p->rows[y] = (cover){p->rows[y].last < 0 ? o : p->rows[y].first, o};
    if (d->kind == MU_POOL_MAX) op->keep_bytes = (size_t)(d->n * d->oh * d->ow * d->c);
    return MU_OK;
}

static void destroy(mu_op *op) {
    pool *p = op->state;
    mu_free(p->y);
    mu_free(p->x);
    mu_free(p->rows);
}

// ---- forward ----

typedef struct run {            // neighbouring output pixels whose windows are clipped alike
    const pool  *p;
    const mu_pool_desc *d;
    const span  *y, *x;         // of the first
    const float *src;           // its first tap inside the image
    int64_t      n;             // pixels
    float       *dst;
    uint8_t     *at;            // max only
    float        share;         // average only
    const float *ahead;         // what the next row will need and this part of the row fetches; NULL = near
} run;

// One vector of channels of a window with any clipping and any values: the first of the largest wins, and
// a NaN counts as larger than anything.
static void max_any(const run *r, const float *src, int64_t left, float *dst, uint8_t *at) {
    mu_vec best = mu_vec_load(src, left);
    mu_veci id = mu_veci_set((int32_t)(r->y->lo * r->d->kw + r->x->lo));
    for (int64_t i = r->y->lo; i < r->y->hi; i++)
        for (int64_t j = r->x->lo; j < r->x->hi; j++) {
            mu_vec v = mu_vec_load(src + ((i - r->y->lo) * r->d->w + j - r->x->lo) * r->d->c, left);
            mu_veci me = mu_veci_set((int32_t)(i * r->d->kw + j));
            id = mu_veci_select(mu_vec_gt(v, best), me, id);
            best = mu_vec_select(mu_vec_gt(v, best), v, best);
            id = mu_veci_select(mu_vec_isnan(v), me, id);
            best = mu_vec_select(mu_vec_isnan(v), v, best);
        }
    mu_vec_store(dst, best, left);
    mu_veci_store_u8(at, id, left);
}

// The same for a whole window: the maximum first, then its number by comparing backwards, so that the first
// of equals stays. These chains are shorter than those of carrying both along. The sum is there to notice
// a NaN. n is a constant.
MU_INLINE void max_whole(const run *r, int n, const float *src, int64_t left, float *dst, uint8_t *at) {
    mu_vec v[MAX_TAPS], best = v[0] = mu_vec_load(src, left), sum = best;
    for (int i = 1; i < n; i++) {
        v[i] = mu_vec_load(src + r->p->taps[i], left);
        best = mu_vec_max(best, v[i]);
        sum += v[i];
    }
    mu_veci id = mu_veci_set(n - 1);
    for (int i = n - 2; i >= 0; i--) id = mu_veci_select(mu_vec_eq(v[i], best), mu_veci_set(i), id);
    if (MU_UNLIKELY(mu_vmask_any(mu_vec_isnan(sum)))) {
        max_any(r, src, left, dst, at);
        return;
    }
    mu_vec_store(dst, best, left);
    mu_veci_store_u8(at, id, left);
}

static void avg_any(const run *r, const float *src, int64_t left, float *dst) {
    mu_vec sum = {0};
    for (int64_t i = 0; i < r->y->hi - r->y->lo; i++)
        for (int64_t j = 0; j < r->x->hi - r->x->lo; j++)
            sum += mu_vec_load(src + (i * r->d->w + j) * r->d->c, left);
    mu_vec_store(dst, sum * r->share, left);
}

MU_INLINE void avg_whole(const run *r, int n, const float *src, int64_t left, float *dst) {
    mu_vec sum = mu_vec_load(src, left);
    for (int i = 1; i < n; i++) sum += mu_vec_load(src + r->p->taps[i], left);
    mu_vec_store(dst, sum * r->share, left);
}

// n: number of taps when it is that of a whole window, and a constant; 0 = any window
MU_INLINE void lanes(const run *r, int n, bool is_max, const float *src, int64_t left, float *dst,
                     uint8_t *at) {
    if (is_max && n) max_whole(r, n, src, left, dst, at);
    else if (is_max) max_any(r, src, left, dst, at);
    else if (n) avg_whole(r, n, src, left, dst);
    else avg_any(r, src, left, dst);
}

MU_INLINE void pixels(const run *r, int n, bool is_max) {
    const int64_t all = r->d->c, step = r->d->stride_w * all, slice = r->d->stride_h * step;
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t j = 0; r->ahead && j < slice; j += MU_CACHE_LINE / 4)
            __builtin_prefetch(r->ahead + i * slice + j, 0, 2);
        const float *src = r->src + i * step;
        float *dst = r->dst + i * all;
        uint8_t *at = is_max ? r->at + i * all : NULL;
        int64_t c = 0;
        for (; c + MU_LANES <= all; c += MU_LANES)
            lanes(r, n, is_max, src + c, MU_LANES, dst + c, is_max ? at + c : NULL);
        if (c < all) {
            c = last_vector(c, all);
            lanes(r, n, is_max, src + c, all - c, dst + c, is_max ? at + c : NULL);
        }
    }
}

static void pool_run(const run *r) {
    int inside = (r->y->hi - r->y->lo) * (r->x->hi - r->x->lo), n = inside == r->p->n_taps ? inside : 0;
    if (inside == 0) {
        memset(r->dst, 0, (size_t)(r->n * r->d->c) * sizeof *r->dst);
        if (r->at) memset(r->at, NO_TAP, (size_t)(r->n * r->d->c));
    } else if (r->at) {
        if (n == 9) pixels(r, 9, true);
        else if (n == 4) pixels(r, 4, true);
        else pixels(r, 0, true);
    } else {
        if (n == 9) pixels(r, 9, false);
        else if (n == 4) pixels(r, 4, false);
        else pixels(r, 0, false);
    }
}

static int64_t count_alike(const mu_pool_desc *d, const span *x, int64_t ox) {
    int64_t n = 1;
    while (ox + n < d->ow && x[n].lo == x->lo && x[n].hi == x->hi && x[n].count == x->count) n++;
    return n;
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_pool_desc *d = &op->desc.pool;
    const pool *p = op->state;
    const int64_t row = d->w * d->c, size = d->n * d->h * row;
    const bool far = size * (int64_t)sizeof(float) > FAR_BYTES;
    run r = { .p = p, .d = d, .dst = a->dst, .at = d->kind == MU_POOL_MAX ? a->keep : NULL };
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t oy = 0; oy < d->oh; oy++) {
            r.y = &p->y[oy];
            int64_t next = (n * d->h + r.y->start + d->kh) * row;
            bool fetch = far && next + 2 * d->stride_h * row <= size; // in slices, one a pixel
            for (int64_t ox = 0; ox < d->ow; ox += r.n) {
                r.x = &p->x[ox];
                r.ahead = fetch ? a->src + next + ox * d->stride_h * d->stride_w * d->c : NULL;
                r.n = count_alike(d, r.x, ox);
                r.src = a->src + (n * d->h + r.y->start + r.y->lo) * row + (r.x->start + r.x->lo) * d->c;
                r.share = 1.0f / (float)(r.y->count * r.x->count);
                pool_run(&r);
                r.dst += r.n * d->c;
                if (r.at) r.at += r.n * d->c;
            }
        }
    return MU_OK;
}

// ---- backward ----

typedef struct row {            // one source row and the windows over it
    const mu_pool_desc *d;
    const pool *p;
    int64_t y;
    const float *ddst;          // of the image
    const uint8_t *at;
    float *dsrc;                // of the row
} row;

// Adds what window column ox sends to the kw columns under it, from the n_over window rows over y.
MU_INLINE void add_windows(const row *r, int n_over, int64_t ox, int64_t kw, bool is_max, int64_t c,
                           int64_t left, mu_vec *columns) {
    int64_t first = r->p->rows[r->y].first;
    for (int64_t oy = first; oy < first + n_over; oy++) {
        const span *wy = &r->p->y[oy];
        int64_t o = (oy * r->d->ow + ox) * r->d->c + c;
        mu_vec g = mu_vec_load(r->ddst + o, left);
        if (is_max) {
            mu_veci id = mu_veci_load_u8(r->at + o, left);
            int32_t mine = (int32_t)((r->y - wy->start) * kw);
            for (int32_t i = 0; i < kw; i++)
                columns[i] = mu_vec_add_if(mu_veci_eq(id, mu_veci_set(mine + i)), columns[i], g);
        } else {
            g *= 1.0f / (float)(wy->count * r->p->x[ox].count);
            for (int64_t i = 0; i < kw; i++) columns[i] += g;
        }
    }
}

// The row's gradient for one vector of channels.
MU_INLINE void row_lanes(const row *r, int n_over, int64_t kw, int64_t stride, bool is_max, int64_t c,
                         int64_t left) {
    mu_vec columns[MAX_TAPS];
    const int64_t width = r->d->w, step = r->d->c;
    int64_t x = r->p->x[0].start; // of columns[0]
    float *dsrc = r->dsrc + c;
    for (int64_t i = 0; i < kw; i++) columns[i] = (mu_vec){0};
    for (int64_t ox = 0; ox < r->d->ow; ox++, x += stride) {
        add_windows(r, n_over, ox, kw, is_max, c, left, columns);
        for (int64_t i = 0; i < stride; i++)
            if (x + i >= 0 && x + i < width)
                mu_vec_store(dsrc + (x + i) * step, i < kw ? columns[i] : (mu_vec){0}, left);
        for (int64_t i = 0; i < kw; i++) columns[i] = i + stride < kw ? columns[i + stride] : (mu_vec){0};
    }
    for (int64_t i = 0; x + i < width; i++)
        if (x + i >= 0) mu_vec_store(dsrc + (x + i) * step, i < kw ? columns[i] : (mu_vec){0}, left);
}

MU_INLINE void row_all(const row *r, int n_over, int64_t kw, int64_t stride, bool is_max) {
    int64_t c = 0;
    for (; c + MU_LANES <= r->d->c; c += MU_LANES) row_lanes(r, n_over, kw, stride, is_max, c, MU_LANES);
    if (c < r->d->c) {
        c = last_vector(c, r->d->c);
        row_lanes(r, n_over, kw, stride, is_max, c, r->d->c - c);
    }
}

// The frequent sizes as constants, so that the columns stay in registers.
MU_INLINE void row_sizes(const row *r, bool is_max) {
    const int64_t kw = r->d->kw, stride = r->d->stride_w;
    int n_over = r->p->rows[r->y].last - r->p->rows[r->y].first + 1;
    if (kw == 3 && stride == 2 && n_over == 2) row_all(r, 2, 3, 2, is_max);
    else if (kw == 3 && stride == 2 && n_over == 1) row_all(r, 1, 3, 2, is_max);
    else if (kw == 2 && stride == 2 && n_over == 1) row_all(r, 1, 2, 2, is_max);
    else row_all(r, n_over, kw, stride, is_max);
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_pool_desc *d = &op->desc.pool;
    if (!a->dsrc) return MU_OK;
    row r = { .d = d, .p = op->state, .ddst = a->ddst, .at = a->keep, .dsrc = a->dsrc };
    for (int64_t n = 0; n < d->n; n++) {
        for (r.y = 0; r.y < d->h; r.y++, r.dsrc += d->w * d->c) {
            if (d->kind == MU_POOL_MAX) row_sizes(&r, true);
            else row_sizes(&r, false);
        }
        r.ddst += d->oh * d->ow * d->c;
        if (d->kind == MU_POOL_MAX) r.at += d->oh * d->ow * d->c;
    }
    return MU_OK;
}

const mu_op_class mu_op_pool_vec = {
    .name = "pool_vec", .help = "pooling, vectorised over channels", .prim = MU_PRIM_POOL, .rank = 20,
    .state_size = sizeof(pool), .accepts = accepts, .create = create, .forward = forward,
    .backward = backward, .destroy = destroy,
};
