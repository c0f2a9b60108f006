// SPDX-License-Identifier: Apache-2.0
// o_conv_gemm.c - convolution as matrix products (im2col), for what the convolution library refuses.
//
// For each group, the window of output pixel p becomes row p of a matrix:
//   col (P, K)  P = pixels of a few images, K = KH*KW*C/G, channels innermost: rows are copied in runs
//   wk  (O, K)  the weights in the same order of k, made anew at each call
//   forward   dst  = col wk^T + bias
//   backward  dwk += ddst^T col   -> dweight in its own order (= or +=)
//             dcol = ddst wk      -> added back into dsrc
// Images are taken together until col reaches COL_FLOATS: small feature maps alone make slim products.
// A 1x1 convolution without stride, padding and groups needs no col: src is it already.
#include "ops/gemm.h"
#include "ops/op.h"

#include <string.h>

#define COL_FLOATS ((int64_t)1 << 20)

typedef struct conv {
    int64_t cg, og, k;          // of one group
    int64_t images;             // in one col
    bool    direct;             // src and dsrc are their own col
} conv;

static mu_status create(mu_op *op, MU_UNUSED mu_err *err) {
    const mu_conv_desc *d = &op->desc.conv;
    conv *v = op->state;
    v->cg = d->c / d->groups;
    v->og = d->o / d->groups;
    v->k = d->kh * d->kw * v->cg;
    v->direct = d->kh * d->kw * d->stride_h * d->stride_w * d->groups == 1 && d->pad_h + d->pad_w == 0;
    int64_t one = d->oh * d->ow * v->k;
    v->images = one >= COL_FLOATS ? 1 : COL_FLOATS / one;
    if (v->images > d->n || v->direct) v->images = d->n;
    int64_t col = v->direct ? 0 : v->images * one;
    op->scratch_bytes = (size_t)(col + 2 * d->o * v->k) * sizeof(float);
    return MU_OK;
}

// ---- order of the weights: (O, C/G, KH, KW) <-> (O, KH, KW, C/G) ----

static void pack_weights(const mu_conv_desc *d, const conv *v, const float *w, float *wk) {
    int64_t taps = d->kh * d->kw;
    for (int64_t o = 0; o < d->o; o++, w += v->k, wk += v->k)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < v->cg; c++) wk[t * v->cg + c] = w[c * taps + t];
}

static void unpack_gradient(const mu_conv_desc *d, const conv *v, const float *dwk, bool add, float *dw) {
    int64_t taps = d->kh * d->kw;
    for (int64_t o = 0; o < d->o; o++, dw += v->k, dwk += v->k)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < v->cg; c++) {
                float old = add ? dw[c * taps + t] : 0.0f;
                dw[c * taps + t] = old + dwk[t * v->cg + c];
            }
}

// ---- windows ----

// Offset of source pixel (y,x) in its image, -1 when it lies outside.
static int64_t offset_of(const mu_conv_desc *d, int64_t y, int64_t x) {
    return y < 0 || y >= d->h || x < 0 || x >= d->w ? -1 : (y * d->w + x) * d->c;
}

// The row of col of output pixel (y,x).
static float *gather(const mu_conv_desc *d, int64_t cg, const float *image, int64_t y, int64_t x,
                     float *col) {
    for (int64_t ky = 0; ky < d->kh; ky++)
        for (int64_t kx = 0; kx < d->kw; kx++, col += cg) {
            int64_t in = offset_of(d, y * d->stride_h - d->pad_h + ky * d->dil_h,
                                   x * d->stride_w - d->pad_w + kx * d->dil_w);
            if (in < 0) memset(col, 0, (size_t)cg * sizeof *col);
            else memcpy(col, image + in, (size_t)cg * sizeof *col);
        }
    return col;
}

// Its reverse: adds the row of dcol to the gradient of the image.
static const float *scatter(const mu_conv_desc *d, int64_t cg, const float *restrict col, int64_t y,
                            int64_t x, float *restrict image) {
    for (int64_t ky = 0; ky < d->kh; ky++)
        for (int64_t kx = 0; kx < d->kw; kx++, col += cg) {
            int64_t in = offset_of(d, y * d->stride_h - d->pad_h + ky * d->dil_h,
                                   x * d->stride_w - d->pad_w + kx * d->dil_w);
            for (int64_t c = 0; in >= 0 && c < cg; c++) image[in + c] += col[c];
        }
    return col;
}

// Rows of `images` images from n on, as the matrix product wants them; first = first channel of the group.
static const float *columns(const mu_conv_desc *d, const conv *v, const float *src, int64_t n, int64_t images,
                            int64_t first, float *col) {
    int64_t in = d->h * d->w * d->c;
    if (v->direct) return src + n * in;
    float *row = col;
    for (int64_t i = n; i < n + images; i++)
        for (int64_t y = 0; y < d->oh; y++)
            for (int64_t x = 0; x < d->ow; x++) row = gather(d, v->cg, src + i * in + first, y, x, row);
    return col;
}

// ---- forward and backward ----

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_conv_desc *d = &op->desc.conv;
    const conv *v = op->state;
    float *wk = a->scratch, *col = wk + 2 * d->o * v->k;
    int64_t pixels = d->oh * d->ow;
    pack_weights(d, v, a->weight, wk);
    for (int64_t n = 0; n < d->n; n += v->images) {
        int64_t images = d->n - n < v->images ? d->n - n : v->images, rows = images * pixels;
        float *dst = a->dst + n * pixels * d->o;
        for (int64_t p = 0; d->bias && p < rows; p++)
            memcpy(dst + p * d->o, a->bias, (size_t)d->o * sizeof *dst);
        for (int64_t g = 0; g < d->groups; g++) {
            const float *rows_of = columns(d, v, a->src, n, images, g * v->cg, col);
            mu_gemm(false, true, rows, v->og, v->k, rows_of, v->k, wk + g * v->og * v->k, v->k,
                    d->bias ? 1.0f : 0.0f, dst + g * v->og, d->o);
        }
    }
    return MU_OK;
}

// dbias = column sums of ddst (P, O), in blocks of rows: floats within a block, doubles over the blocks, so
// that the rounding error does not grow with the number of pixels. Columns are taken by what the stack holds.
enum { BIAS_ROWS = 64, BIAS_COLUMNS = 128 };

static void sum_block(const float *restrict m, int64_t rows, int64_t n_columns, int64_t stride,
                      float *restrict sum) {
    int64_t p = 0;
    for (int64_t o = 0; o < n_columns; o++) sum[o] = 0;
    for (; p + 4 <= rows; p += 4, m += 4 * stride)
        for (int64_t o = 0; o < n_columns; o++)
            sum[o] += (m[o] + m[stride + o]) + (m[2 * stride + o] + m[3 * stride + o]);
    for (; p < rows; p++, m += stride)
        for (int64_t o = 0; o < n_columns; o++) sum[o] += m[o];
}

static void backward_bias(const mu_conv_desc *d, const mu_op_args *a) {
    int64_t rows = d->n * d->oh * d->ow;
    for (int64_t first = 0; first < d->o; first += BIAS_COLUMNS) {
        int64_t n = d->o - first < BIAS_COLUMNS ? d->o - first : BIAS_COLUMNS;
        float *dbias = a->dbias + first, part[BIAS_COLUMNS];
        double sum[BIAS_COLUMNS];
        for (int64_t o = 0; o < n; o++) sum[o] = a->accumulate ? (double)dbias[o] : 0.0;
        for (int64_t p = 0; p < rows; p += BIAS_ROWS) {
            int64_t block = rows - p < BIAS_ROWS ? rows - p : BIAS_ROWS;
            sum_block(a->ddst + p * d->o + first, block, n, d->o, part);
            for (int64_t o = 0; o < n; o++) sum[o] += (double)part[o];
        }
        for (int64_t o = 0; o < n; o++) dbias[o] = (float)sum[o];
    }
}

static void backward_weight(const mu_conv_desc *d, const conv *v, const mu_op_args *a, float *dwk,
                            float *col) {
    int64_t pixels = d->oh * d->ow;
    for (int64_t n = 0; n < d->n; n += v->images) {
        int64_t images = d->n - n < v->images ? d->n - n : v->images, rows = images * pixels;
        for (int64_t g = 0; g < d->groups; g++) {
            const float *rows_of = columns(d, v, a->src, n, images, g * v->cg, col);
            const float *ddst = a->ddst + n * pixels * d->o + g * v->og;
            mu_gemm(true, false, v->og, v->k, rows, ddst, d->o, rows_of, v->k, n ? 1.0f : 0.0f,
                    dwk + g * v->og * v->k, v->k);
        }
    }
    unpack_gradient(d, v, dwk, a->accumulate, a->dweight);
}

static void backward_src(const mu_conv_desc *d, const conv *v, const mu_op_args *a, const float *wk,
                         float *col) {
    int64_t pixels = d->oh * d->ow, in = d->h * d->w * d->c;
    if (!v->direct) memset(a->dsrc, 0, (size_t)(d->n * in) * sizeof(float));
    for (int64_t n = 0; n < d->n; n += v->images) {
        int64_t images = d->n - n < v->images ? d->n - n : v->images, rows = images * pixels;
        for (int64_t g = 0; g < d->groups; g++) {
            mu_gemm(false, false, rows, v->k, v->og, a->ddst + n * pixels * d->o + g * v->og, d->o,
                    wk + g * v->og * v->k, v->k, 0.0f, v->direct ? a->dsrc + n * in : col, v->k);
            if (v->direct) continue;
            const float *row = col;
            for (int64_t i = n; i < n + images; i++)
                for (int64_t y = 0; y < d->oh; y++)
                    for (int64_t x = 0; x < d->ow; x++)
                        row = scatter(d, v->cg, row, y, x, a->dsrc + i * in + g * v->cg);
        }
    }
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const mu_conv_desc *d = &op->desc.conv;
    const conv *v = op->state;
    float *wk = a->scratch, *dwk = wk + d->o * v->k, *col = dwk + d->o * v->k;
    if (a->dbias) backward_bias(d, a);
    if (a->dweight) backward_weight(d, v, a, dwk, col);
    if (a->dsrc) {
        pack_weights(d, v, a->weight, wk); // scratch is shared with other layers between the calls
        backward_src(d, v, a, wk, col);
    }
    return MU_OK;
}

const mu_op_class mu_op_conv_gemm = {
    .name = "conv_gemm", .help = "convolution by matrix products", .prim = MU_PRIM_CONV, .rank = 10,
    .state_size = sizeof(conv), .create = create, .forward = forward, .backward = backward,
};
