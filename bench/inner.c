// SPDX-License-Identifier: Apache-2.0
// inner.c - the fully connected layers of an MLP 784-1000-500-250-10: forward, backward and a momentum
// update fused through rows_ready, as a training step does them. Prints samples/s of every implementation
// by batch size, best of several windows, and what mu_op_create would choose.
//     bench_inner [alexnet] [batch ...]       alexnet: its three layers 9216-4096-4096-1000 instead
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "ops/gemm.h"
#include "ops/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 4
static const int64_t mlp_sizes[] = {784, 1000, 500, 250, 10}, alexnet_sizes[] = {9216, 4096, 4096, 1000};
static const int64_t *sizes = mlp_sizes;
static int n_layers = 4;

typedef struct layer {
    mu_op *op;
    int64_t in, out;
    float *weight, *velocity, *bias, *dbias, *bias_velocity;
} layer;

typedef struct mlp {
    layer  layer[MAX_LAYERS];
    float *act[MAX_LAYERS + 1], *grad[MAX_LAYERS + 1];
    void  *scratch;
    float *params;
} mlp;

static void momentum(float *restrict w, float *restrict v, const float *restrict g, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        v[i] = 0.9f * v[i] - 1e-4f * (g[i] + 5e-4f * w[i]);
        w[i] += v[i];
    }
}

static void rows_ready(void *ctx, int64_t row0, int64_t n_rows, const float *grad) {
    layer *l = ctx;
    momentum(l->weight + row0 * l->in, l->velocity + row0 * l->in, grad, n_rows * l->in);
}

static float *part(mlp *m, size_t *at, int64_t n) {
    float *p = m->params ? m->params + *at : NULL;
    *at += (size_t)(n + 15) & ~(size_t)15;
    return p;
}

// Parameters, velocities and gradients each contiguous, as in a training run. First call with params NULL:
// counts.
static size_t layout(mlp *m) {
    size_t at = 0;
    for (int i = 0; i < n_layers; i++) m->layer[i].weight = part(m, &at, sizes[i] * sizes[i + 1]);
    for (int i = 0; i < n_layers; i++) m->layer[i].bias = part(m, &at, sizes[i + 1]);
    for (int i = 0; i < n_layers; i++) m->layer[i].velocity = part(m, &at, sizes[i] * sizes[i + 1]);
    for (int i = 0; i < n_layers; i++) m->layer[i].bias_velocity = part(m, &at, sizes[i + 1]);
    for (int i = 0; i < n_layers; i++) m->layer[i].dbias = part(m, &at, sizes[i + 1]);
    return at;
}

static bool create(mlp *m, const mu_op_class *class, int64_t batch) {
    *m = (mlp){0};
    size_t scratch = 64;
    mu_err err = {0};
    if (!(m->params = mu_alloc_block(layout(m) * sizeof(float), "bench"))) return false;
    layout(m);
    for (int i = 0; i <= n_layers; i++) {
        m->act[i] = mu_alloc_block((size_t)(batch * sizes[i]) * sizeof(float), "bench");
        m->grad[i] = mu_alloc_block((size_t)(batch * sizes[i]) * sizeof(float), "bench");
        if (!m->act[i] || !m->grad[i]) return false;
    }
    mu_rng_fill_uniform(mu_rng_key_make(1, "x"), 0, 0, m->act[0], (size_t)(batch * sizes[0]));
    for (int i = 0; i < n_layers; i++) {
        layer *l = &m->layer[i];
        l->in = sizes[i], l->out = sizes[i + 1];
        mu_rng_fill_gaussian(mu_rng_key_make((uint64_t)i, "w"), 0, 0, l->weight, (size_t)(l->in * l->out));
        for (int64_t k = 0; k < l->in * l->out; k++) l->weight[k] *= 0.03f;
        mu_op_desc d = {.prim = MU_PRIM_INNER, .inner = {.n = batch, .i = l->in, .o = l->out, .bias = true,
                                                         .need_dsrc = i > 0 || l->in == 9216}};
        mu_status s =
            class ? (class->accepts && !class->accepts(&d) ? MU_EUNSUPPORTED
                                                           : mu_op_create_class(class, &d, &l->op, &err))
                  : mu_op_create(&d, "bench", &l->op, &err);
        if (s != MU_OK) return false;
        if (l->op->scratch_bytes > scratch) scratch = l->op->scratch_bytes;
    }
    return (m->scratch = mu_alloc_block(scratch, "bench")) != NULL;
}

static void destroy(mlp *m) {
    for (int i = 0; i < n_layers; i++) mu_op_destroy(m->layer[i].op);
    for (int i = 0; i <= n_layers; i++) {
        mu_free(m->act[i]);
        mu_free(m->grad[i]);
    }
    mu_free(m->params);
    mu_free(m->scratch);
}

static double forward_s, backward_s;

static void step(mlp *m, int64_t batch) {
    mu_err err = {0};
    double t0 = mu_clock_s();
    for (int i = 0; i < n_layers; i++) {
        layer *l = &m->layer[i];
        mu_op_args a = {.src = m->act[i], .dst = m->act[i + 1], .weight = l->weight, .bias = l->bias,
                        .scratch = m->scratch};
        if (mu_op_forward(l->op, &a, &err) != MU_OK) abort();
        float *y = m->act[i + 1];
        for (int64_t k = 0; i + 1 < n_layers && k < batch * l->out; k++) y[k] = y[k] > 0 ? y[k] : 0;
    }
    double t1 = mu_clock_s();
    for (int64_t k = 0; k < batch * sizes[n_layers]; k++) m->grad[n_layers][k] = m->act[n_layers][k] * 1e-2f;
    for (int i = n_layers - 1; i >= 0; i--) {
        layer *l = &m->layer[i];
        const float *y = m->act[i + 1];
        float *dy = m->grad[i + 1];
        for (int64_t k = 0; i + 1 < n_layers && k < batch * l->out; k++) dy[k] = y[k] > 0 ? dy[k] : 0;
        mu_op_args a = {.src = m->act[i],
                        .dst = m->act[i + 1],
                        .ddst = dy,
                        .dsrc = i || l->in == 9216 ? m->grad[i] : NULL,
                        .weight = l->weight,
                        .bias = l->bias,
                        .dbias = l->dbias,
                        .scratch = m->scratch,
                        .rows_ready = rows_ready,
                        .rows_ctx = l};
        if (mu_op_backward(l->op, &a, &err) != MU_OK) abort();
        momentum(l->bias, l->bias_velocity, l->dbias, l->out);
    }
    forward_s += t1 - t0;
    backward_s += mu_clock_s() - t1;
}

// Forward, weight gradient, and data gradient but for the first layer; two operations a weight each.
static double flop_per_sample(void) {
    double n = 0;
    for (int i = 0; i < n_layers; i++)
        n += (i || sizes[0] == 9216 ? 6.0 : 4.0) * (double)(sizes[i] * sizes[i + 1]);
    return n;
}

static void time_class(const mu_op_class *class, int64_t batch) {
    mlp m;
    if (create(&m, class, batch)) {
        double best = 1e30, fwd = 0, bwd = 0;
        int reps = (int)((n_layers == 3 ? 0 : 400) / batch) + 2;
        for (int w = 0; w < (n_layers == 3 ? 3 : 25); w++) {
            forward_s = backward_s = 0;
            for (int i = 0; i < reps; i++) step(&m, batch);
            double t = (forward_s + backward_s) / reps;
            if (t < best) best = t, fwd = forward_s / reps, bwd = backward_s / reps;
        }
        printf("batch %4ld  %-13s %8.0f samples/s  step %8.1f us  forward %8.1f  backward+update %8.1f  "
               "%5.1f GF\n",
               (long)batch, class ? class->name : m.layer[0].op->class->name, (double)batch / best,
               best * 1e6, fwd * 1e6, bwd * 1e6, flop_per_sample() * (double)batch / best * 1e-9);
        fflush(stdout);
    }
    destroy(&m);
}

int main(int argc, char **argv) {
    static const int64_t usual[] = {1, 4, 8, 16, 32, 64, 256};
    mu_gemm_set_threads(1);
    if (argc > 1 && !strcmp(argv[1], "alexnet")) {
        sizes = alexnet_sizes;
        n_layers = 3;
        argc--, argv++;
    }
    int n = argc > 1 ? argc - 1 : (int)MU_COUNT(usual);
    for (int i = 0; i < n; i++) {
        int64_t batch = argc > 1 ? atol(argv[i + 1]) : usual[i];
        for (size_t j = 0; j < mu_ops.n; j++) {
            const mu_op_class *class = mu_op_at(j);
            if (class->prim == MU_PRIM_INNER && class->rank > 0) time_class(class, batch);
        }
        time_class(NULL, batch);
    }
    return 0;
}
