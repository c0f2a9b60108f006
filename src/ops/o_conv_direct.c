// SPDX-License-Identifier: Apache-2.0
// o_conv_direct.c - own convolution for the shapes libraries are poor at: few input channels (first
// layers) and channel counts that are no multiple of a vector.
//
// In a channels-last image the kw*c values under one row of a window are contiguous. So with
// kwc = kw*c the three products are tiles of ordinary matrix products (tile.h), without im2col:
//     forward   y[p][o]       = b[o] + sum_i sum_q  x[row(p)+i][col(p)+q] * w[i][q][o]
//     data      dx[row+i][col+q]    += sum_o  dy[p][o] * w[i][o][q]
//     weight    dw[i][q][o]   = sum_p  x[row(p)+i][col(p)+q] * dy[p][o]
// with p the output pixels, i < kh, q < kwc. Padded images are copied into a zero-bordered buffer, one
// or a few at a time. The data gradient is scattered into such a buffer; the rows of a tile are taken
// down the image, because windows of neighbours in a row overlap. The vectors of the weight gradient
// run along o or along q, whichever fills them better.
//
// Whole vectors are read and written: buffers here have room for one vector behind the last pixel, and
// the last images of the caller's tensors go through such a buffer.
#include "base/alloc.h"
#include "ops/op.h"
#include "ops/tile.h"

#include <string.h>

#define GROUP_PIXELS 256        // a weight-gradient tile should walk over at least so many
#define GROUP_BYTES (256 << 10) // of images, so that a group stays in the second-level cache
#define MAX_BLOCKS 64

typedef struct split {          // n floats cut into blocks of whole vectors
    int     width;              // floats in a vector
    int     n_blocks;
    int     vecs[MAX_BLOCKS];
    int64_t at[MAX_BLOCKS];     // first float of the block; blocks are `width` * vecs wide
    int64_t padded;             // n rounded up to vectors
} split;

typedef struct direct {
    split   out, win;           // the o outputs; the kwc values of a window row
    bool along_out; // weight gradient: vectors along o, rows are taps. Else along q, rows are outputs
    int64_t ph, pw;             // buffered image: rows and columns the windows reach
    int64_t kwc, pixels;
    int64_t image, group; // floats of one buffered image; images handled together by the weight gradient
    bool    exact;              // unpadded and fully covered: the caller's images can be read in place
    // offsets into scratch, in floats
    int64_t at_pack, at_bias, at_image, at_dw, at_tail;
} direct;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool split_init(split *s, int64_t n) {
    s->width = mu_tile_best_width(n);
    int64_t vecs = ceil_div(n, s->width), most = MU_TILE_VECS;
    while (!mu_tile_max_rows((int)most)) most--;
    s->n_blocks = (int)min64(ceil_div(vecs, most), MAX_BLOCKS + 1);
    s->padded = vecs * s->width;
    if (s->n_blocks > MAX_BLOCKS) return false;
    for (int64_t b = 0, at = 0; b < s->n_blocks; b++) {
        s->vecs[b] = (int)ceil_div(vecs - at, s->n_blocks - b);
        s->at[b] = at * s->width;
        at += s->vecs[b];
    }
    return true;
}

static int64_t block_width(const split *s, int b) { return (int64_t)s->vecs[b] * s->width; }

// ---- set-up ----

// oneDNN is at the machine's limit for whole vectors of channels and skips taps in the padding; here it is
// beaten by a fifth to a half elsewhere (bench/conv.c).
static bool accepts(const mu_op_desc *d) {
    const mu_conv_desc *c = &d->conv;
#ifdef MU_HAVE_DNNL
    if (c->c % 16 == 0 && c->o % 16 == 0) return false;
#endif
    return c->groups == 1 && c->dil_w == 1;
}

static mu_status create(mu_op *op, mu_err *err) {
    direct *v = op->state;
    const mu_conv_desc *c = &op->desc.conv;
    v->kwc = c->kw * c->c;
    v->pixels = c->oh * c->ow;
    if (!split_init(&v->out, c->o) || !split_init(&v->win, v->kwc))
        return MU_FAIL(err, MU_EUNSUPPORTED, "too many channels for direct tiles");
    v->along_out = c->o * v->win.padded >= v->kwc * v->out.padded;
    v->ph = (c->oh - 1) * c->stride_h + (c->kh - 1) * c->dil_h + 1;
    v->pw = (c->ow - 1) * c->stride_w + c->kw;
    v->exact = !c->pad_h && !c->pad_w && v->ph <= c->h && v->pw <= c->w;
    if (v->exact) v->ph = c->h, v->pw = c->w; // same strides in buffers and in place
    v->image = v->ph * v->pw * c->c;
    int64_t fit = GROUP_BYTES / ((v->image + v->pixels * c->o) * (int64_t)sizeof(float));
    v->group = min64(max64(1, min64(fit, ceil_div(GROUP_PIXELS, v->pixels))), c->n);

    int64_t taps = c->kh * v->kwc;
    int64_t pack = max64(taps * v->out.padded, c->kh * c->o * v->win.padded);
    int64_t dw = v->along_out ? taps * v->out.padded : c->kh * c->o * v->win.padded;
    int64_t at = 0;
    v->at_pack = at, at += pack;
    v->at_bias = at, at += v->out.padded;
    v->at_image = at, at += ceil_div(v->group * v->image, 16) * 16 + MU_TILE_WIDTH;
    v->at_tail = at, at += ceil_div(v->group * v->pixels * c->o, 16) * 16 + MU_TILE_WIDTH;
    v->at_dw = at, at += dw;
    op->scratch_bytes = (size_t)at * sizeof(float);
    return MU_OK;
}

// ---- layouts ----

// w (o, c, kh, kw) -> for each block of outputs a panel [kh][kw][c][block], zeros behind the last output.
static void pack_forward(const direct *v, const mu_conv_desc *c, const float *w, float *pack) {
    int64_t taps = c->kh * v->kwc;
    for (int b = 0; b < v->out.n_blocks; b++) {
        int64_t wide = block_width(&v->out, b), o0 = v->out.at[b];
        for (int64_t k = 0; k < c->c; k++)
            for (int64_t i = 0; i < c->kh; i++)
                for (int64_t j = 0; j < c->kw; j++) {
                    float *to = pack + ((i * c->kw + j) * c->c + k) * wide;
                    const float *from = w + ((o0 * c->c + k) * c->kh + i) * c->kw + j;
                    for (int64_t o = 0; o < wide; o++)
                        to[o] = o0 + o < c->o ? from[o * c->c * c->kh * c->kw] : 0.0f;
                }
        pack += taps * wide;
    }
}

// w (o, c, kh, kw) -> [kh][block of the window row][o][block], zeros behind the last tap.
static void pack_data(const direct *v, const mu_conv_desc *c, const float *w, float *pack) {
    for (int64_t i = 0; i < c->kh; i++)
        for (int b = 0; b < v->win.n_blocks; b++) {
            int64_t wide = block_width(&v->win, b);
            for (int64_t o = 0; o < c->o; o++, pack += wide)
                for (int64_t q = v->win.at[b]; q < v->win.at[b] + wide; q++) {
                    int64_t j = q / c->c, k = q % c->c;
                    pack[q - v->win.at[b]] = q < v->kwc ? w[((o * c->c + k) * c->kh + i) * c->kw + j] : 0.0f;
                }
        }
}

static void unpack_weight(const direct *v, const mu_conv_desc *c, const float *dw, float *out, bool add) {
    for (int64_t o = 0; o < c->o; o++)
        for (int64_t k = 0; k < c->c; k++)
            for (int64_t i = 0; i < c->kh; i++)
                for (int64_t j = 0; j < c->kw; j++, out++) {
                    int64_t q = j * c->c + k;
                    float g = v->along_out ? dw[(i * v->kwc + q) * v->out.padded + o]
                                           : dw[(i * c->o + o) * v->win.padded + q];
                    *out = add ? *out + g : g;
                }
}

// Rows and columns of the image that lie inside the buffer, from (0, 0) of the image.
static int64_t kept_rows(const direct *v, const mu_conv_desc *c) {
    return max64(0, min64(c->h, v->ph - c->pad_h));
}
static int64_t kept_cols(const direct *v, const mu_conv_desc *c) {
    return max64(0, min64(c->w, v->pw - c->pad_w));
}

static void image_in(const direct *v, const mu_conv_desc *c, const float *src, float *buffer) {
    size_t bytes = (size_t)(kept_cols(v, c) * c->c) * sizeof(float);
    for (int64_t y = 0; y < kept_rows(v, c); y++)
        memcpy(buffer + ((y + c->pad_h) * v->pw + c->pad_w) * c->c, src + y * c->w * c->c, bytes);
}

static void image_out(const direct *v, const mu_conv_desc *c, const float *buffer, float *dsrc) {
    int64_t rows = kept_rows(v, c), cols = kept_cols(v, c);
    for (int64_t y = 0; y < c->h; y++, dsrc += c->w * c->c) {
        int64_t n = y < rows ? cols * c->c : 0; // what no window reaches has no gradient
        memcpy(dsrc, buffer + ((y + c->pad_h) * v->pw + c->pad_w) * c->c, (size_t)n * sizeof(float));
        memset(dsrc + n, 0, (size_t)(c->w * c->c - n) * sizeof(float));
    }
}

static const float *window(const direct *v, const mu_conv_desc *c, const float *image, int64_t y, int64_t x) {
    return image + (y * c->stride_h * v->pw + x * c->stride_w) * c->c;
}

// ---- forward ----

// One tile of pixels for one block of outputs. The unused lanes of the last block spill into the next
// pixel, which is written later: blocks go from last to first, pixels and images from first to last. Only
// the very last tile of the tensor (`end`) has nothing behind it and goes through a buffer.
static void forward_tile(const direct *v, const mu_conv_desc *c, mu_tile_dot *t, int b, int rows,
                         const float *limit, float *dst) {
    int64_t wide = block_width(&v->out, b), valid = min64(wide, c->o - v->out.at[b]);
    float edge[MU_TILE_ROWS * MU_TILE_VECS * MU_TILE_WIDTH];
    bool end = (rows - 1) * c->o + wide > limit - dst;
    for (int m = 0; m < rows; m++) t->c[m] = end ? edge + m * wide : dst + m * c->o;
    mu_tile_run_dot(t, v->out.width, rows, v->out.vecs[b]);
    for (int m = 0; end && m < rows; m++)
        memcpy(dst + m * c->o, edge + m * wide, (size_t)valid * sizeof(float));
}

static void forward_image(const direct *v, const mu_conv_desc *c, const float *image, const float *pack,
                          const float *bias, const float *limit, float *dst) {
    int64_t taps = c->kh * v->kwc;
    mu_tile_dot t = {.a_seg = c->dil_h * v->pw * c->c, .n_seg = c->kh, .seg = v->kwc};
    for (int b = v->out.n_blocks - 1; b >= 0; b--) {
        t.b = pack + taps * v->out.at[b];
        t.ldb = block_width(&v->out, b);
        t.init = bias + v->out.at[b];
        int most = mu_tile_max_rows(v->out.vecs[b]);
        for (int64_t p = 0, y = 0, x = 0; p < v->pixels;) {
            int rows = (int)min64(most, v->pixels - p);
            for (int m = 0; m < rows; m++) {
                t.a[m] = window(v, c, image, y, x);
                if (++x == c->ow) x = 0, y++;
            }
            p += rows;
            forward_tile(v, c, &t, b, rows, limit, dst + (p - rows) * c->o + v->out.at[b]);
        }
    }
}

static mu_status forward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const direct *v = op->state;
    const mu_conv_desc *c = &op->desc.conv;
    float *s = a->scratch, *bias = s + v->at_bias, *buffer = s + v->at_image;
    pack_forward(v, c, a->weight, s + v->at_pack);
    for (int64_t o = 0; o < v->out.padded; o++) bias[o] = c->bias && o < c->o ? a->bias[o] : 0.0f;
    if (!v->exact) memset(buffer, 0, (size_t)v->image * sizeof(float));
    for (int64_t n = 0; n < c->n; n++) {
        const float *image = a->src + n * c->h * c->w * c->c;
        if (!v->exact) image_in(v, c, image, buffer), image = buffer;
        forward_image(v, c, image, s + v->at_pack, bias, a->dst + c->n * v->pixels * c->o,
                      a->dst + n * v->pixels * c->o);
    }
    return MU_OK;
}

// ---- data gradient ----

static void data_image(const direct *v, const mu_conv_desc *c, const float *ddst, const float *pack,
                       float *buffer) {
    mu_tile_dot t = {.n_seg = 1, .seg = c->o, .add = true};
    for (int64_t i = 0; i < c->kh; i++)
        for (int b = 0; b < v->win.n_blocks; b++, pack += c->o * t.ldb) {
            t.b = pack;
            t.ldb = block_width(&v->win, b);
            int64_t most = mu_tile_max_rows(v->win.vecs[b]), tiles = ceil_div(c->oh, most);
            for (int64_t x = 0; x < c->ow; x++)
                for (int64_t k = 0, y = 0; k < tiles; k++) {
                    int rows = (int)ceil_div(c->oh - y, tiles - k);
                    for (int m = 0; m < rows; m++, y++) {
                        t.a[m] = ddst + (y * c->ow + x) * c->o;
                        t.c[m] = buffer + ((y * c->stride_h + i * c->dil_h) * v->pw + x * c->stride_w) * c->c
                                 + v->win.at[b];
                    }
                    mu_tile_run_dot(&t, v->win.width, rows, v->win.vecs[b]);
                }
        }
}

static void backward_data(const direct *v, const mu_conv_desc *c, const mu_op_args *a) {
    float *s = a->scratch, *buffer = s + v->at_image;
    pack_data(v, c, a->weight, s + v->at_pack);
    for (int64_t n = 0; n < c->n; n++) {
        memset(buffer, 0, (size_t)(v->image + MU_TILE_WIDTH) * sizeof(float));
        data_image(v, c, a->ddst + n * v->pixels * c->o, s + v->at_pack, buffer);
        image_out(v, c, buffer, a->dsrc + n * c->h * c->w * c->c);
    }
}

// ---- weight gradient ----

typedef struct images {
    const float *x, *dy;
    int64_t n;
} images; // a group, readable one vector too far

// Rows are the kh*kwc taps, vectors run along the outputs.
static void weight_along_out(const direct *v, const mu_conv_desc *c, const images *g, float *dw, bool add) {
    int64_t taps = c->kh * v->kwc;
    mu_tile_outer t = {.n = {c->ow, c->oh, g->n}, .ldc = v->out.padded, .add = add,
                       .a_step = {c->stride_w * c->c, c->stride_h * v->pw * c->c, v->image},
                       .b_step = {c->o, c->ow * c->o, v->pixels * c->o}};
    for (int b = 0; b < v->out.n_blocks; b++) {
        int64_t tiles = ceil_div(taps, mu_tile_max_rows(v->out.vecs[b]));
        for (int64_t k = 0, tap = 0; k < tiles; k++) {
            int rows = (int)ceil_div(taps - tap, tiles - k);
            t.b = g->dy + v->out.at[b];
            t.c = dw + tap * v->out.padded + v->out.at[b];
            for (int m = 0; m < rows; m++, tap++)
                t.a[m] = g->x + tap / v->kwc * c->dil_h * v->pw * c->c + tap % v->kwc;
            mu_tile_run_outer(&t, v->out.width, rows, v->out.vecs[b]);
        }
    }
}

// Rows are the outputs, vectors run along the window's rows.
static void weight_along_win(const direct *v, const mu_conv_desc *c, const images *g, float *dw, bool add) {
    mu_tile_outer t = {.n = {c->ow, c->oh, g->n}, .ldc = v->win.padded, .add = add,
                       .a_step = {c->o, c->ow * c->o, v->pixels * c->o},
                       .b_step = {c->stride_w * c->c, c->stride_h * v->pw * c->c, v->image}};
    for (int64_t i = 0; i < c->kh; i++)
        for (int b = 0; b < v->win.n_blocks; b++) {
            int64_t tiles = ceil_div(c->o, mu_tile_max_rows(v->win.vecs[b]));
            for (int64_t k = 0, o = 0; k < tiles; k++) {
                int rows = (int)ceil_div(c->o - o, tiles - k);
                t.b = g->x + i * c->dil_h * v->pw * c->c + v->win.at[b];
                t.c = dw + (i * c->o + o) * v->win.padded + v->win.at[b];
                for (int m = 0; m < rows; m++, o++) t.a[m] = g->dy + o;
                mu_tile_run_outer(&t, v->win.width, rows, v->win.vecs[b]);
            }
        }
}

static void bias_gradient(const direct *v, const mu_conv_desc *c, const images *g, float *sum, bool add) {
    static const float one = 1.0f;
    mu_tile_outer t = {.a = {&one}, .n = {g->n * v->pixels, 1, 1}, .b_step = {c->o}, .ldc = 0, .add = add};
    for (int b = 0; b < v->out.n_blocks; b++) {
        t.b = g->dy + v->out.at[b];
        t.c = sum + v->out.at[b];
        mu_tile_run_outer(&t, v->out.width, 1, v->out.vecs[b]);
    }
}

// The group of images from number n on: in place where reading a vector too far stays in the tensor.
static images group_at(const direct *v, const mu_conv_desc *c, const mu_op_args *a, int64_t n) {
    float *s = a->scratch, *buffer = s + v->at_image, *tail = s + v->at_tail;
    images g = {a->src + n * c->h * c->w * c->c, a->ddst + n * v->pixels * c->o, min64(v->group, c->n - n)};
    int64_t behind = c->n - n - g.n; // images
    if (!v->exact || behind * c->h * c->w * c->c < MU_TILE_WIDTH) {
        for (int64_t k = 0; k < g.n; k++) image_in(v, c, g.x + k * c->h * c->w * c->c, buffer + k * v->image);
        g.x = buffer;
    }
    if (behind * v->pixels * c->o < MU_TILE_WIDTH)
        g.dy = memcpy(tail, g.dy, (size_t)(g.n * v->pixels * c->o) * sizeof(float));
    return g;
}

static void backward_weight(const direct *v, const mu_conv_desc *c, const mu_op_args *a) {
    float *s = a->scratch, *dw = s + v->at_dw, *bias = s + v->at_bias;
    memset(s + v->at_image, 0, (size_t)(v->at_dw - v->at_image) * sizeof(float));
    for (int64_t n = 0; n < c->n; n += v->group) {
        images g = group_at(v, c, a, n);
        (v->along_out ? weight_along_out : weight_along_win)(v, c, &g, dw, n > 0);
        if (c->bias && a->dbias) bias_gradient(v, c, &g, bias, n > 0);
    }
    if (a->dweight) unpack_weight(v, c, dw, a->dweight, a->accumulate);
    if (!c->bias || !a->dbias) return;
    for (int64_t o = 0; o < c->o; o++) a->dbias[o] = a->accumulate ? a->dbias[o] + bias[o] : bias[o];
}

static mu_status backward(mu_op *op, const mu_op_args *a, MU_UNUSED mu_err *err) {
    const direct *v = op->state;
    const mu_conv_desc *c = &op->desc.conv;
    if (a->dweight || a->dbias) backward_weight(v, c, a);
    if (a->dsrc) backward_data(v, c, a);
    return MU_OK;
}

const mu_op_class mu_op_conv_direct = {
    .name = "conv_direct",
    .help = "own register tiles over channels-last images",
    .state_size = sizeof(direct),
    .prim = MU_PRIM_CONV,
    .rank = 60,
    .accepts = accepts,
    .create = create,
    .forward = forward,
    .backward = backward,
};
