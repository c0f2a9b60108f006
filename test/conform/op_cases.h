// SPDX-License-Identifier: Apache-2.0
// op_cases.h - what conform_op.c asks every op implementation to compute.
#ifndef MU_TEST_CONFORM_OP_CASES_H
#define MU_TEST_CONFORM_OP_CASES_H

#include "ops/op.h"

// dilation and groups that are not given are 1, output sizes of convolutions are computed: finish_desc
#define CONV(...) { .prim = MU_PRIM_CONV, .conv = { __VA_ARGS__ } }
#define POOL(...) { .prim = MU_PRIM_POOL, .pool = { __VA_ARGS__ } }
#define LRN(...) { .prim = MU_PRIM_LRN, .lrn = { __VA_ARGS__ } }
#define NORM(...) { .prim = MU_PRIM_NORM, .norm = { .momentum = .1f, __VA_ARGS__ } }
#define INNER(...) { .prim = MU_PRIM_INNER, .inner = { __VA_ARGS__ } }
#define ACT(...) { .prim = MU_PRIM_ACTIVATION, .act = { __VA_ARGS__ } }
#define RNN(c_, n_, t_, i_, h_, ...) \
    { .prim = MU_PRIM_RNN, .rnn = { .cell = MU_CELL_##c_, .n = n_, .t = t_, .i = i_, .h = h_, __VA_ARGS__ } }
#define TEXT(...) { .prim = MU_PRIM_TEXT, .text = { __VA_ARGS__ } }
#define FULL .bias = true, .need_dsrc = true
#define IMAGE(n_, c_, h_, w_) .n = n_, .c = c_, .h = h_, .w = w_
#define KERNEL(k, s, p) .kh = k, .kw = k, .stride_h = s, .stride_w = s, .pad_h = p, .pad_w = p

static const mu_op_desc cases[] = {
    CONV(IMAGE(2, 3, 9, 7), KERNEL(3, 1, 1), .o = 5, FULL),
    CONV(IMAGE(3, 1, 12, 12), KERNEL(5, 1, 0), .o = 20, FULL),
    CONV(IMAGE(2, 20, 8, 8), KERNEL(5, 1, 0), .o = 50, FULL),
    CONV(IMAGE(2, 32, 8, 8), KERNEL(5, 1, 2), .o = 32, FULL),
    CONV(IMAGE(1, 3, 23, 19), KERNEL(11, 4, 2), .o = 16, FULL),
    CONV(IMAGE(2, 16, 6, 5), KERNEL(1, 1, 0), .o = 7, FULL),
    CONV(IMAGE(2, 16, 7, 7), KERNEL(1, 2, 0), .o = 8, FULL),
    CONV(IMAGE(2, 8, 7, 6), KERNEL(3, 1, 1), .o = 12, .groups = 2, FULL),
    CONV(IMAGE(2, 6, 7, 6), KERNEL(3, 2, 1), .o = 9, .groups = 3, FULL),
    CONV(IMAGE(2, 5, 6, 6), KERNEL(3, 1, 1), .o = 5, .groups = 5, FULL),
    CONV(IMAGE(2, 4, 6, 6), KERNEL(3, 1, 1), .o = 8, .groups = 4, FULL),
    CONV(IMAGE(1, 32, 6, 6), KERNEL(3, 1, 1), .o = 32, .groups = 32, FULL),
    CONV(IMAGE(2, 4, 11, 10), KERNEL(3, 1, 2), .o = 6, .dil_h = 2, .dil_w = 2, FULL),
    CONV(IMAGE(1, 6, 12, 11), KERNEL(3, 2, 3), .o = 4, .dil_h = 3, .dil_w = 2, .groups = 2, FULL),
    CONV(IMAGE(2, 3, 8, 10), .kh = 2, .kw = 5, .stride_h = 2, .stride_w = 1, .pad_w = 2, .o = 10, FULL),
    CONV(IMAGE(5, 20, 28, 28), KERNEL(5, 1, 2), .o = 3, FULL), // conv_gemm: images 2 + 2 + 1
    CONV(IMAGE(2, 3, 7, 7), KERNEL(3, 1, 1), .o = 17, .need_dsrc = true),
    CONV(IMAGE(2, 3, 7, 7), KERNEL(3, 1, 1), .o = 17, .bias = true),

    POOL(IMAGE(3, 20, 8, 8), KERNEL(2, 2, 0), .oh = 4, .ow = 4),
    POOL(IMAGE(2, 32, 8, 8), KERNEL(3, 2, 0), .oh = 4, .ow = 4),
    POOL(IMAGE(2, 1, 7, 9), KERNEL(3, 2, 0), .oh = 3, .ow = 4),
    POOL(IMAGE(2, 3, 8, 6), KERNEL(3, 2, 1), .oh = 5, .ow = 4),
    POOL(IMAGE(1, 33, 9, 9), KERNEL(3, 1, 1), .oh = 9, .ow = 9),
    POOL(IMAGE(2, 5, 6, 7), .kh = 2, .kw = 3, .stride_h = 1, .stride_w = 2, .oh = 5, .ow = 3),
    POOL(IMAGE(2, 17, 7, 7), KERNEL(2, 3, 0), .oh = 3, .ow = 3),
    POOL(IMAGE(2, 40, 5, 5), KERNEL(5, 1, 0), .oh = 1, .ow = 1),
    POOL(IMAGE(1, 2, 20, 20), KERNEL(20, 1, 0), .oh = 1, .ow = 1),
    POOL(IMAGE(2, 20, 8, 8), KERNEL(2, 2, 0), .oh = 4, .ow = 4, .kind = MU_POOL_AVG, .count_pad = true),
    POOL(IMAGE(2, 32, 8, 8), KERNEL(3, 2, 0), .oh = 4, .ow = 4, .kind = MU_POOL_AVG, .count_pad = true),
    POOL(IMAGE(2, 32, 8, 8), KERNEL(3, 2, 0), .oh = 4, .ow = 4, .kind = MU_POOL_AVG),
    POOL(IMAGE(2, 3, 8, 6), KERNEL(3, 2, 1), .oh = 5, .ow = 4, .kind = MU_POOL_AVG, .count_pad = true),
    POOL(IMAGE(2, 3, 8, 6), KERNEL(3, 2, 1), .oh = 5, .ow = 4, .kind = MU_POOL_AVG),
    POOL(IMAGE(1, 65, 4, 4), KERNEL(4, 1, 0), .oh = 1, .ow = 1, .kind = MU_POOL_AVG),
    POOL(IMAGE(1, 2, 20, 20), KERNEL(20, 1, 0), .oh = 1, .ow = 1, .kind = MU_POOL_AVG),

    LRN(IMAGE(2, 32, 5, 6), .size = 3, .alpha = 5e-1f, .beta = .75f, .k = 1, .within = true),
    LRN(IMAGE(2, 3, 7, 5), .size = 5, .alpha = 2, .beta = .5f, .k = 1, .within = true),
    LRN(IMAGE(2, 1, 2, 2), .size = 3, .alpha = 2, .beta = .6f, .k = 2, .within = true),
    LRN(IMAGE(1, 5, 9, 8), .size = 7, .alpha = 3, .beta = .75f, .k = 1, .within = true),
    LRN(IMAGE(2, 20, 3, 3), .size = 5, .alpha = 1, .beta = .75f, .k = 1),
    LRN(IMAGE(2, 96, 2, 3), .size = 5, .alpha = 1e-4f, .beta = .75f, .k = 1),
    LRN(IMAGE(2, 3, 3, 3), .size = 3, .alpha = 2, .beta = .5f, .k = 1),
    LRN(IMAGE(2, 3, 3, 3), .size = 7, .alpha = 2, .beta = 1.25f, .k = 2),
    LRN(IMAGE(2, 1, 3, 3), .size = 5, .alpha = 2, .beta = .75f, .k = 1),

    NORM(.rows = 50, .c = 20, .eps = 1e-5f, .training = true, .affine = true),
    NORM(.rows = 1031, .c = 33, .eps = 1e-3f, .training = true, .affine = true),
    NORM(.rows = 9001, .c = 1, .eps = 1e-5f, .training = true, .affine = true),
    NORM(.rows = 7, .c = 5000, .eps = 1e-5f, .training = true),
    NORM(.rows = 40, .c = 3, .eps = 1e-5f, .affine = true),
    NORM(.rows = 40, .c = 32, .eps = 1e-5f),

    INNER(.n = 1, .i = 784, .o = 100, FULL),
    INNER(.n = 3, .i = 37, .o = 10, FULL),
    INNER(.n = 8, .i = 500, .o = 33, .need_dsrc = true),
    INNER(.n = 64, .i = 129, .o = 70, FULL),
    INNER(.n = 17, .i = 1, .o = 1, FULL),
    INNER(.n = 5, .i = 64, .o = 500, .bias = true),
    INNER(.n = 3, .i = 37, .o = 10, .transposed = true, FULL),
    INNER(.n = 64, .i = 129, .o = 70, .transposed = true, FULL),
    INNER(.n = 100, .i = 33, .o = 784, .transposed = true, .need_dsrc = true),
    INNER(.n = 17, .i = 1, .o = 1, .transposed = true, FULL),
    INNER(.n = 9, .i = 300, .o = 50, .transposed = true, .bias = true),

    ACT(.count = 1, .kind = MU_ACT_RELU),
    ACT(.count = 1003, .kind = MU_ACT_RELU),
    ACT(.count = 1003, .kind = MU_ACT_RELU, .slope = .1f),
    ACT(.count = 1003, .kind = MU_ACT_SIGMOID),
    ACT(.count = 1003, .kind = MU_ACT_TANH),
    ACT(.count = 1003, .kind = MU_ACT_STANH),

    { .prim = MU_PRIM_SOFTMAX, .softmax = { .n = 7, .c = 10 } },
    { .prim = MU_PRIM_SOFTMAX, .softmax = { .n = 3, .c = 1 } },
    { .prim = MU_PRIM_SOFTMAX, .softmax = { .n = 3, .c = 32 } },
    { .prim = MU_PRIM_SOFTMAX, .softmax = { .n = 2, .c = 1003 } },

    { .prim = MU_PRIM_DROPOUT, .dropout = { .n = 3, .per_sample = 1003, .ratio = .5f } },
    { .prim = MU_PRIM_DROPOUT, .dropout = { .n = 5, .per_sample = 7, .ratio = .3f } },
    { .prim = MU_PRIM_DROPOUT, .dropout = { .n = 5, .per_sample = 64, .ratio = 0 } },

    TEXT(.n = 1, .t = 64, .d = 40, .o = 7, .n_widths = 3, .width = {3, 4, 5}, FULL),
    TEXT(.n = 4, .t = 21, .d = 33, .o = 10, .n_widths = 3, .width = {3, 4, 5}, FULL), // some share a panel
    TEXT(.n = 3, .t = 150, .d = 12, .o = 5, .n_widths = 2, .width = {2, 7}, FULL),    // some are cut
    TEXT(.n = 2, .t = 5, .d = 300, .o = 3, .n_widths = 1, .width = {5}, .bias = true),
    TEXT(.n = 9, .t = 3, .d = 16, .o = 17, .n_widths = 2, .width = {1, 3}, .need_dsrc = true),
    TEXT(.n = 2, .t = 40, .d = 20, .o = 4, .n_widths = 3, .width = {11, 1, 9}, FULL),

    RNN(RNN, 3, 5, 7, 6, FULL),
    RNN(RNN, 2, 1, 4, 51, FULL),
    RNN(RNN, 9, 6, 11, 50, .bias = true, .one_hot = true),
    RNN(RNN, 21, 12, 5, 50, FULL), // from 240 rows on panels are packed
    RNN(RNN, 8, 31, 11, 9, .bias = true, .one_hot = true),
    RNN(RNN, 1, 9, 3, 1, .need_dsrc = true),
    RNN(GRU, 5, 7, 9, 33, FULL),
    RNN(GRU, 11, 22, 20, 64, FULL),
    RNN(GRU, 13, 19, 7, 33, .need_dsrc = true),
    RNN(GRU, 50, 5, 3, 49, .bias = true, .one_hot = true),
    RNN(GRU, 50, 3, 10, 40, FULL),
    RNN(GRU, 4, 1, 10, 17, FULL),
    RNN(GRU, 1, 8, 5, 3, .need_dsrc = true),
    RNN(GRU, 9, 6, 11, 48, .bias = true, .one_hot = true),
    RNN(GRU, 2, 4, 300, 19, .bias = true, .one_hot = true), // more numbers than places
    RNN(GRU, 3, 2, 13, 21, .one_hot = true),
    RNN(LSTM, 5, 7, 9, 33, FULL),
    RNN(LSTM, 13, 19, 6, 32, .bias = true),
    RNN(LSTM, 7, 35, 8, 19, FULL),
    RNN(LSTM, 31, 8, 12, 35, .one_hot = true),
    RNN(LSTM, 4, 1, 10, 17, FULL),
    RNN(LSTM, 1, 8, 5, 3, .need_dsrc = true),
    RNN(LSTM, 9, 6, 11, 48, .bias = true, .one_hot = true),
    RNN(LSTM, 2, 4, 300, 19, .one_hot = true),
};

static void finish_desc(mu_op_desc *d) {
    for (int i = 0; d->prim == MU_PRIM_TEXT && i < d->text.n_widths; i++)
        d->text.sum_widths += d->text.width[i];
    if (d->prim != MU_PRIM_CONV) return;
    mu_conv_desc *c = &d->conv;
    if (!c->groups) c->groups = 1;
    if (!c->dil_h) c->dil_h = c->dil_w = 1;
    c->oh = (c->h + 2 * c->pad_h - c->dil_h * (c->kh - 1) - 1) / c->stride_h + 1;
    c->ow = (c->w + 2 * c->pad_w - c->dil_w * (c->kw - 1) - 1) / c->stride_w + 1;
}

#endif
