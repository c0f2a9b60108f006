// SPDX-License-Identifier: Apache-2.0
// conv.c - times every convolution implementation on the layers of LeNet, cifar10_full and AlexNet.
//
// Prints the best time of a call in microseconds and the useful GFLOP/s (taps that fall into the padding
// are not counted), forward and backward (weight gradient, and data gradient where the net needs one).
//     bench_conv [word]      only rows whose layer or implementation contains the word
//
// Build and run: ninja -C build bench_conv && taskset -c 1 build/bench_conv
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "ops/gemm.h"
#include "ops/op.h"

#include <stdio.h>
#include <string.h>

typedef struct row { const char *name; mu_conv_desc d; } row;

static const row rows[] = {
    {"lenet conv1 b64",    {64, 1, 28, 28, 20, 24, 24, 5, 5, 1, 1, 0, 0, 1, 1, 1, true, false}},
    {"lenet conv2 b64",    {64, 20, 12, 12, 50, 8, 8, 5, 5, 1, 1, 0, 0, 1, 1, 1, true, true}},
    {"cifar conv1 b4",     {4, 3, 32, 32, 32, 32, 32, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, false}},
    {"cifar conv1 b100",   {100, 3, 32, 32, 32, 32, 32, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, false}},
    {"cifar conv2 b4",     {4, 32, 16, 16, 32, 16, 16, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, true}},
    {"cifar conv2 b100",   {100, 32, 16, 16, 32, 16, 16, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, true}},
    {"cifar conv3 b4",     {4, 32, 8, 8, 64, 8, 8, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, true}},
    {"cifar conv3 b100",   {100, 32, 8, 8, 64, 8, 8, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, true}},
    {"alexnet conv1 b16",  {16, 3, 224, 224, 64, 55, 55, 11, 11, 4, 4, 2, 2, 1, 1, 1, true, false}},
    {"alexnet conv2 b16",  {16, 64, 27, 27, 192, 27, 27, 5, 5, 1, 1, 2, 2, 1, 1, 1, true, true}},
    {"alexnet conv3 b16",  {16, 192, 13, 13, 384, 13, 13, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, true}},
    {"alexnet conv4 b16",  {16, 384, 13, 13, 256, 13, 13, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, true}},
    {"alexnet conv5 b16",  {16, 256, 13, 13, 256, 13, 13, 3, 3, 1, 1, 1, 1, 1, 1, 1, true, true}},
};

// Number of (output, tap) pairs along one axis that meet a real input.
static int64_t useful_taps(int64_t in, int64_t out, int64_t k, int64_t stride, int64_t dil, int64_t pad) {
    int64_t n = 0;
    for (int64_t o = 0; o < out; o++)
        for (int64_t t = 0; t < k; t++) {
            int64_t at = o * stride - pad + t * dil;
            n += at >= 0 && at < in;
        }
    return n;
}

static double flops(const mu_conv_desc *c) {
    return 2.0 * (double)(c->n * c->o * (c->c / c->groups))
           * (double)useful_taps(c->h, c->oh, c->kh, c->stride_h, c->dil_h, c->pad_h)
           * (double)useful_taps(c->w, c->ow, c->kw, c->stride_w, c->dil_w, c->pad_w);
}

static float *buffer(int64_t n, const char *purpose) {
    float *p = mu_alloc_block((size_t)n * sizeof *p, "bench");
    if (p) mu_rng_fill_uniform(mu_rng_key_make(1, purpose), 0, 0, p, (size_t)n);
    return p;
}

typedef mu_status (*op_call)(mu_op *, const mu_op_args *, mu_err *);

static double best_us(op_call f, mu_op *op, const mu_op_args *a) {
    double best = 1e30, spent = 0;
    mu_err err = {0};
    for (int i = 0; i < 400 && (spent < 0.4e6 || i < 5); i++) {
        double t = mu_clock_s();
        if (f(op, a, &err) != MU_OK) return -1;
        t = (mu_clock_s() - t) * 1e6;
        spent += t;
        if (t < best) best = t;
    }
    return best;
}

static void time_row(const row *r, const mu_op_class *class, const mu_op_args *given) {
    mu_op_desc d = {.prim = MU_PRIM_CONV, .conv = r->d};
    mu_err err = {0};
    mu_op *op;
    if ((class->accepts && !class->accepts(&d)) || mu_op_create_class(class, &d, &op, &err) != MU_OK) return;
    mu_op_args a = *given;
    a.scratch = mu_alloc_block(op->scratch_bytes + 64, "bench");
    a.keep = mu_alloc_block(op->keep_bytes + 64, "bench");
    double f = flops(&r->d), fwd = best_us(mu_op_forward, op, &a);
    float *dsrc = a.dsrc;
    a.dsrc = NULL;
    double bw = best_us(mu_op_backward, op, &a);
    a.dsrc = dsrc;
    a.dweight = a.dbias = NULL;
    double bd = dsrc ? best_us(mu_op_backward, op, &a) : 0;
    printf("%-18s %-12s forward %9.1f us %6.1f GF   weight %9.1f us %6.1f GF", r->name, class->name, fwd,
           f / fwd / 1e3, bw, f / bw / 1e3);
    if (dsrc) printf("   data %9.1f us %6.1f GF", bd, f / bd / 1e3);
    printf("\n");
    fflush(stdout);
    mu_free(a.scratch);
    mu_free(a.keep);
    mu_op_destroy(op);
}

int main(int argc, char **argv) {
    mu_gemm_set_threads(1);
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        const mu_conv_desc *c = &rows[i].d;
        int64_t src = c->n * c->c * c->h * c->w, dst = c->n * c->o * c->oh * c->ow;
        int64_t weight = c->o * (c->c / c->groups) * c->kh * c->kw;
        float *p[] = {buffer(src, "src"), buffer(weight, "weight"), buffer(c->o, "bias"), buffer(dst, "dst"),
                      buffer(dst, "ddst"), buffer(src, "dsrc"), buffer(weight, "dw"), buffer(c->o, "db")};
        for (size_t j = 0; j < MU_COUNT(p); j++)
            if (!p[j]) return 1;
        mu_op_args a = {.src = p[0], .weight = p[1], .bias = p[2], .dst = p[3], .ddst = p[4],
                        .dsrc = c->need_dsrc ? p[5] : NULL, .dweight = p[6], .dbias = p[7]};
        for (size_t j = 0; j < mu_ops.n; j++) {
            const mu_op_class *class = mu_op_at(j);
            if (class->prim != MU_PRIM_CONV || (class->rank == 0 && argc < 2)) continue;
            if (argc > 1 && !strstr(rows[i].name, argv[1]) && !strstr(class->name, argv[1])) continue;
            time_row(&rows[i], class, &a);
        }
        for (size_t j = 0; j < MU_COUNT(p); j++) mu_free(p[j]);
    }
    return 0;
}
