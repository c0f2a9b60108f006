// SPDX-License-Identifier: Apache-2.0
// o_text_gemm.c - convolution over time of all widths as one matrix product, largest value at once.
//
// The product is P = weight (rows, d) * words^T (d, columns): a column is a word of a sentence, a row one
// place of one filter. A panel of up to 64 transposed words stays in the second cache, in strips as wide as a
// register tile (tile.h). A few filters, whose places fill whole tiles, are multiplied with all strips; their
// weights are read where they lie. The windows of a filter are sums of its shifted rows,
//     v[s] = P[0][s] + P[1][s + 1] + ... + P[w-1][s + w-1],
// and their maximum is taken while they are in the first cache: P itself never exists.
//
// Sentences end with padding, rows of zeros. A window behind the last word is 0 whatever the weights are, so
// it is compared without being computed: the result, also the place of the maximum, is that of computing all.
// Short sentences lie side by side in a panel. Long ones are cut; the parts overlap by a window.
//
// Backward passes through the places of the maxima only. It walks the rows of the weights once: their part of
// dsrc from the old values, then their gradient, the sum of as many words as samples have a gradient there.
// Rows are handed over in blocks while they are in the first cache (args.rows_ready).
#include "ops/op.h"
#include "ops/tile.h"
#include "ops/transpose.h"
#include "ops/vec.h"

enum {
    PANEL = 64,                            // the most columns of a panel
    STRIP = MU_LANES == 16 ? 4 : 2,        // the most vectors of a strip: a tile of the most rows to a load
    MAX_WIDTH = 2 * MU_TILE_ROWS,          // of a window
    MAX_ROWS = 3 * MAX_WIDTH,              // of the filters taken together
    OUT_LD = PANEL + MU_LANES + MAX_WIDTH, // a shifted vector may begin at the last column
    BLOCK_BYTES = 8 << 10,                 // of dweight handed over at once
};

typedef struct part { // of a sentence: words [begin, begin + cols), in the panel from column `at` on
    int64_t n, begin, cols, at;
    bool zeros; // behind it there is padding alone
} part;

typedef struct panel {
    int n_parts, vecs, strip, width; // vectors of a row, of a strip, and their length
    int64_t cols;
    part part[PANEL];
} panel;

typedef struct entry { // a gradient that passes: its value, and the first word of its window
    float g;
    int32_t at; // row of src
} entry;

typedef struct text {
    int64_t w_max;
    int64_t block;             // rows of dweight handed over together
    size_t at_count, at_block; // bytes into scratch, backward: after the entries
} text;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static size_t lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t widest(const mu_text_desc *d) {
    int64_t w = 0;
    for (int i = 0; i < d->n_widths; i++) w = max64(w, d->width[i]);
    return w;
}

static bool accepts(const mu_op_desc *d) {
    const mu_text_desc *x = &d->text;
    return widest(x) <= MAX_WIDTH && x->n * x->t <= INT32_MAX;
}

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    text *v = op->state;
    const mu_text_desc *d = &op->desc.text;
    const int64_t q = d->n_widths * d->o;
    v->w_max = widest(d);
    v->block = min64(max64(BLOCK_BYTES / (d->d * (int64_t)sizeof(float)), 1), d->o);
    v->at_count = lines((size_t)(q * d->n) * sizeof(entry));
    v->at_block = v->at_count + lines((size_t)q * sizeof(int32_t));
    const size_t backward = v->at_block + (size_t)(v->block * d->d) * sizeof(float);
    const size_t forward = (size_t)(d->d * PANEL) * sizeof(float);
    op->keep_bytes = (size_t)(q * d->n) * sizeof(int32_t);
    op->scratch_bytes = forward > backward ? forward : backward;
    return MU_OK;
}

// ---- panels ----

static bool is_zero(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0) return false;
    return true;
}

// Words of a sentence that windows are computed of: all windows that begin at a word.
static int64_t words_of(const mu_text_desc *d, const text *v, const float *src) {
    int64_t n = d->t;
    while (n > 0 && is_zero(src + (n - 1) * d->d, d->d)) n--;
    return min64(d->t, max64(n, 1) + v->w_max - 1);
}

// The next panel, from word *begin of sentence *n on.
static void next_panel(const mu_text_desc *d, const text *v, const float *src, int64_t *n, int64_t *begin,
                       panel *p) {
    p->n_parts = 0;
    p->cols = 0;
    for (; *n < d->n; (*n)++, *begin = 0) {
        const int64_t words = words_of(d, v, src + *n * d->t * d->d), left = words - *begin;
        if (left > PANEL - p->cols && p->cols) break;
        const int64_t cols = min64(left, PANEL);
        p->part[p->n_parts++] = (part){*n, *begin, cols, p->cols, cols == left && words < d->t};
        p->cols += cols;
        if (cols == left) continue;
        *begin += cols - (v->w_max - 1);
        break;
    }
    p->width = mu_tile_best_width(p->cols);
    if (p->width < MU_LANES && p->cols > STRIP * p->width) p->width = MU_LANES;
    p->vecs = (int)((p->cols + p->width - 1) / p->width);
    p->strip = p->vecs < STRIP ? p->vecs : STRIP;
}

static int strip_vecs(const panel *p, int v) { return p->vecs - v < p->strip ? p->vecs - v : p->strip; }

// words^T strip by strip, zeros behind the last column.
static void pack(const mu_text_desc *d, const panel *p, const float *src, float *out) {
    const part *q = p->part;
    for (int v = 0; v < p->vecs; v += p->strip) {
        const int64_t ld = (int64_t)strip_vecs(p, v) * p->width, first = (int64_t)v * p->width;
        for (int64_t c = 0, n; c < ld; c += n) { // columns of one part, or behind the last
            while (q < p->part + p->n_parts && first + c == q->at + q->cols) q++;
            if (q == p->part + p->n_parts) {
                n = ld - c;
                for (int64_t k = 0; k < d->d; k++) memset(out + k * ld + c, 0, (size_t)n * sizeof *out);
                continue;
            }
            const int64_t word = first + c - q->at; // of the part
            n = min64(ld - c, q->cols - word);
            mu_transpose(out + c, ld, src + (q->n * d->t + q->begin + word) * d->d, d->d, n, d->d, NULL);
        }
        out += d->d * ld;
    }
}

// ---- windows ----

// The largest of n values and the first place of it.
static float largest(const float *v, int64_t n, int32_t *at) {
    float best = v[0];
    int32_t where = 0;
    if (n < MU_LANES) {
        for (int32_t i = 1; i < n; i++)
            if (v[i] > best) best = v[i], where = i;
        *at = where;
        return best;
    }
    mu_vec top = mu_vec_load(v, MU_LANES);
    mu_veci first = mu_veci_set(0); // of the vector
    for (int64_t i = MU_LANES; i < n; i += MU_LANES) {
        const int64_t from = min64(i, n - MU_LANES); // the last one overlaps: no value is new to it
        const mu_vec x = mu_vec_load(v + from, MU_LANES);
        const mu_vmask more = mu_vec_gt(x, top);
        top = mu_vec_select(more, x, top);
        first = mu_veci_select(more, mu_veci_set((int32_t)from), first);
    }
    best = top[0];
    for (int i = 1; i < MU_LANES; i++) best = top[i] > best ? top[i] : best;
    where = top[0] < best ? INT32_MAX : first[0];
    for (int32_t i = 1; i < MU_LANES; i++) {
        const int32_t place = top[i] == best ? first[i] + i : INT32_MAX;
        where = place < where ? place : where;
    }
    *at = where;
    return best;
}

// Sums of shifted rows of one filter's tile, and their maxima into dst and keep.
static void take_filter(const mu_text_desc *d, const mu_op_args *a, const panel *p, const float *tile,
                        int64_t w, int64_t k) {
    float sum[PANEL + MU_LANES];
    for (int64_t c = 0; c < p->cols; c += MU_LANES) {
        mu_vec v = mu_vec_load(tile + c, MU_LANES);
        for (int64_t j = 1; j < w; j++) v += mu_vec_load(tile + j * OUT_LD + c + j, MU_LANES);
        mu_vec_store(sum + c, v, MU_LANES);
    }
    for (int i = 0; i < p->n_parts; i++) {
        const part *q = &p->part[i];
        const int64_t to = q->n * d->n_widths * d->o + k;
        int32_t at, *keep = (int32_t *)a->keep + to;
        float v = largest(sum + q->at, q->cols - w + 1, &at);
        if (q->zeros && v < 0) v = 0, at = (int32_t)(q->cols - w + 1);
        if (q->begin && !(v > a->dst[to])) continue;
        a->dst[to] = v;
        *keep = (int32_t)q->begin + at;
    }
}

// The weights of `rows` places, from filter f on, times all strips of the panel.
static void multiply(const mu_text_desc *d, const panel *p, const float *words, const float *weight,
                     int64_t w, int64_t f, int64_t rows, float *out) {
    mu_tile_dot t = {.n_seg = 1, .seg = d->d, .b = words};
    for (int v = 0; v < p->vecs; v += p->strip, t.b += d->d * t.ldb) {
        const int vecs = strip_vecs(p, v), most = mu_tile_max_rows(vecs);
        t.ldb = vecs * p->width;
        for (int64_t r = 0; r < rows; r += most) {
            const int m = (int)min64(most, rows - r);
            for (int k = 0; k < m; k++) {
                t.a[k] = weight + ((r + k) % w * d->o + f + (r + k) / w) * d->d;
                t.c[k] = out + (r + k) * OUT_LD + v * p->width;
            }
            mu_tile_run_dot(&t, p->width, m, vecs);
        }
    }
}

// The fewest filters of w places that fill whole tiles of `most` rows.
static int64_t filters_at_once(int64_t w, int64_t most) {
    int64_t n = 1;
    while (n * w % most && (n + 1) * w <= MAX_ROWS) n++;
    return n;
}

static void run_width(const mu_text_desc *d, const mu_op_args *a, const panel *p, int i, const float *weight,
                      float *out) {
    const int64_t w = d->width[i], at_once = filters_at_once(w, mu_tile_max_rows(p->strip));
    for (int64_t f = 0; f < d->o; f += at_once) {
        const int64_t n = min64(at_once, d->o - f);
        multiply(d, p, a->scratch, weight, w, f, n * w, out);
        for (int64_t k = 0; k < n; k++) take_filter(d, a, p, out + k * w * OUT_LD, w, i * d->o + f + k);
    }
}

// Bias and relu behind the maximum: both keep the order of the windows.
static void finish(const mu_text_desc *d, const mu_op_args *a) {
    const int64_t q = d->n_widths * d->o;
    int32_t *at = a->keep;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t k = 0; k < q; k++) {
            const float y = a->dst[n * q + k] + (d->bias ? a->bias[k] : 0.0f);
            const bool cut = y <= 0;
            a->dst[n * q + k] = cut ? 0.0f : y;
            at[n * q + k] = cut ? -1 : at[n * q + k];
        }
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const text *v = op->state;
    const mu_text_desc *d = &op->desc.text;
    MU_ALIGNED(64) float out[MAX_ROWS * OUT_LD] = {0};
    panel p;
    for (int64_t n = 0, begin = 0; n < d->n;) {
        next_panel(d, v, a->src, &n, &begin, &p);
        pack(d, &p, a->src, a->scratch);
        const float *weight = a->weight;
        for (int i = 0; i < d->n_widths; weight += d->width[i] * d->o * d->d, i++)
            run_width(d, a, &p, i, weight, out);
    }
    finish(d, a);
    return MU_OK;
}

// ---- backward ----

// The gradients that pass, filter by filter.
static void collect(const mu_text_desc *d, const mu_op_args *a, entry *e, int32_t *count) {
    const int64_t q = d->n_widths * d->o;
    const int32_t *at = a->keep;
    memset(count, 0, (size_t)q * sizeof *count);
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t k = 0; k < q; k++) {
            const float g = a->ddst[n * q + k];
            if (g != 0 && at[n * q + k] >= 0)
                e[k * d->n + count[k]++] = (entry){g, (int32_t)(n * d->t) + at[n * q + k]};
        }
}

static void add_bias(const mu_text_desc *d, const mu_op_args *a, const entry *e, const int32_t *count) {
    for (int64_t k = 0; k < d->n_widths * d->o; k++, e += d->n) {
        float sum = a->accumulate ? a->dbias[k] : 0.0f;
        for (int32_t i = 0; i < count[k]; i++) sum += e[i].g;
        a->dbias[k] = sum;
    }
}

// dx[word j of each window] += g * w
static void add_dsrc(const mu_text_desc *d, float *dsrc, const entry *e, int32_t n, const float *w) {
    for (int32_t i = 0; i < n; i++) {
        float *dx = dsrc + e[i].at * d->d;
        const mu_vec g = mu_vec_set(e[i].g);
        int64_t c = 0;
        for (; c + MU_LANES <= d->d; c += MU_LANES)
            mu_vec_store(dx + c, mu_vec_load(dx + c, MU_LANES) + g * mu_vec_load(w + c, MU_LANES), MU_LANES);
        if (c < d->d)
            mu_vec_store(dx + c, mu_vec_load(dx + c, d->d - c) + g * mu_vec_load(w + c, d->d - c), d->d - c);
    }
}

// Columns [c, c + vecs vectors), n of them left: out = or += sum of g * x.
MU_INLINE void dweight_part(const mu_text_desc *d, const float *x, const entry *e, int32_t n_entries,
                            int64_t c, int64_t n, const int vecs, bool add, float *out) {
    mu_vec acc[4];
    MU_UNROLL for (int v = 0; v < vecs; v++) acc[v] =
        add ? mu_vec_load(out + c + v * MU_LANES, n - v * MU_LANES) : mu_vec_set(0);
    for (int32_t i = 0; i < n_entries; i++) {
        const float *from = x + e[i].at * d->d + c;
        const mu_vec g = mu_vec_set(e[i].g);
        MU_UNROLL for (int v = 0; v < vecs; v++) acc[v] +=
            g * mu_vec_load(from + v * MU_LANES, n - v * MU_LANES);
    }
    MU_UNROLL for (int v = 0; v < vecs; v++) mu_vec_store(out + c + v * MU_LANES, acc[v], n - v * MU_LANES);
}

static void dweight_row(const mu_text_desc *d, const float *x, const entry *e, int32_t n, bool add,
                        float *out) {
    int64_t c = 0;
    for (; c + 4 * MU_LANES <= d->d; c += 4 * MU_LANES)
        dweight_part(d, x, e, n, c, 4 * MU_LANES, 4, add, out);
    for (; c < d->d; c += MU_LANES) dweight_part(d, x, e, n, c, d->d - c, 1, add, out);
}

// Filters [f, f + rows) at one place of width i; `first` is the first row of that place.
static void take_rows(const mu_text_desc *d, const mu_op_args *a, int64_t first, int64_t j, const entry *e,
                      const int32_t *count, int64_t rows, float *block) {
    const bool weight = a->rows_ready || a->dweight;
    float *out = a->rows_ready ? block : weight ? a->dweight + first * d->d : NULL;
    for (int64_t r = 0; r < rows; r++, e += d->n) {
        if (a->dsrc) add_dsrc(d, a->dsrc + j * d->d, e, count[r], a->weight + (first + r) * d->d);
        if (weight)
            dweight_row(d, a->src + j * d->d, e, count[r], !a->rows_ready && a->accumulate, out + r * d->d);
    }
    if (a->rows_ready) a->rows_ready(a->rows_ctx, first, rows, block);
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const text *v = op->state;
    const mu_text_desc *d = &op->desc.text;
    char *s = a->scratch;
    entry *e = (entry *)(void *)s;
    int32_t *count = (int32_t *)(void *)(s + v->at_count);
    float *block = (float *)(void *)(s + v->at_block);
    collect(d, a, e, count);
    if (d->bias && a->dbias) add_bias(d, a, e, count);
    if (a->dsrc) memset(a->dsrc, 0, (size_t)(d->n * d->t * d->d) * sizeof(float));
    int64_t first = 0;
    for (int i = 0; i < d->n_widths; i++)
        for (int64_t j = 0; j < d->width[i]; j++, first += d->o)
            for (int64_t f = 0; f < d->o; f += v->block) {
                const int64_t k = i * d->o + f;
                take_rows(d, a, first + f, j, e + k * d->n, count + k, min64(v->block, d->o - f), block);
            }
    return MU_OK;
}

const mu_op_class mu_op_text_gemm = {
    .name = "text_gemm",
    .help = "convolution over time in register tiles, backward through the maxima",
    .state_size = sizeof(text),
    .prim = MU_PRIM_TEXT,
    .rank = 20,
    .accepts = accepts,
    .create = create,
    .forward = forward,
    .backward = backward,
};
