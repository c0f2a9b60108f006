// SPDX-License-Identifier: Apache-2.0
// gemm.c - the table behind the choice in src/ops/gemm.c: GFLOP/s of each library on the shapes that
// training makes, one thread, operands hot in the cache; the last column is what mu_gemm does.
//
// Build and run: ninja -C build bench_gemm && taskset -c 1 build/bench_gemm
#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "ops/gemm.h"

#include <inttypes.h>
#include <stdio.h>

#ifdef MU_HAVE_BLAS
#include <cblas.h>
#endif
#ifdef MU_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

typedef struct problem { bool ta, tb; int64_t m, n, k; const float *a, *b; float *c; } problem;
typedef void (*multiply)(const problem *p);

static int64_t lda(const problem *p) { return p->ta ? p->m : p->k; }
static int64_t ldb(const problem *p) { return p->tb ? p->k : p->n; }

static void by_muster(const problem *p) {
    mu_gemm(p->ta, p->tb, p->m, p->n, p->k, p->a, lda(p), p->b, ldb(p), 0.0f, p->c, p->n);
}

#ifdef MU_HAVE_BLAS
static void by_openblas(const problem *p) {
    cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans,
                (blasint)p->m, (blasint)p->n, (blasint)p->k, 1.0f, p->a, (blasint)lda(p), p->b,
                (blasint)ldb(p), 0.0f, p->c, (blasint)p->n);
}
#endif

#ifdef MU_HAVE_DNNL
static void by_onednn(const problem *p) {
    (void)!dnnl_sgemm(p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', p->m, p->n, p->k, 1.0f, p->a, lda(p), p->b,
                      ldb(p), 0.0f, p->c, p->n);
}
#endif

static double gflops(multiply f, const problem *p) {
    double work = 2.0 * (double)p->m * (double)p->n * (double)p->k, best = 0;
    int reps = work > 2e7 ? 1 : (int)(2e7 / work) + 1;
    f(p);
    for (int i = 0; i < 15; i++) {
        double t = mu_clock_s();
        for (int r = 0; r < reps; r++) f(p);
        t = mu_clock_s() - t;
        if (work * reps / t > best) best = work * reps / t;
    }
    return best * 1e-9;
}

static const struct { const char *op; int64_t m, n, k; } shapes[] = {
    {"NN", 64, 64, 64},     {"NN", 256, 256, 256},  {"NN", 1024, 1024, 1024},
    {"NT", 1, 1000, 784},   {"NT", 4, 1000, 784},   {"NT", 8, 1000, 784},     {"NT", 16, 1000, 784},
    {"NT", 32, 1000, 784},  {"NT", 64, 1000, 784},  {"NT", 256, 1000, 784},   {"NT", 64, 500, 800},
    {"NT", 16, 4096, 9216}, {"NT", 32, 10, 250},    {"NT", 256, 10, 250},     {"NT", 100, 784, 1000},
    {"NN", 1, 1000, 500},   {"NN", 4, 1000, 500},   {"NN", 8, 1000, 500},     {"NN", 16, 1000, 500},
    {"NN", 32, 1000, 500},  {"NN", 64, 1000, 500},  {"NN", 256, 1000, 500},   {"NN", 64, 800, 500},
    {"NN", 16, 9216, 4096}, {"NN", 32, 250, 10},    {"NN", 100, 1000, 784},
    {"TN", 1000, 784, 1},   {"TN", 1000, 784, 4},   {"TN", 64, 784, 8},       {"TN", 64, 784, 16},
    {"TN", 64, 784, 32},    {"TN", 64, 784, 64},    {"TN", 64, 784, 256},     {"TN", 1000, 784, 256},
    {"TN", 16, 9216, 16},   {"TN", 10, 250, 32},    {"TN", 500, 800, 64},
    {"NN", 32, 1024, 75},   {"NN", 32, 256, 800},   {"NN", 64, 64, 800},      {"NN", 96, 3025, 363},
    {"NT", 32, 75, 1024},   {"NT", 32, 800, 256},   {"NT", 64, 800, 64},      {"TN", 75, 1024, 32},
    {"TN", 800, 256, 32},   {"TN", 800, 64, 64},
};

int main(void) {
    mu_gemm_set_threads(1);
    size_t floats = (size_t)40 << 20;
    float *pool[3];
    for (int i = 0; i < 3; i++) {
        if (!(pool[i] = mu_alloc_block(floats * sizeof(float), "bench"))) return 1;
        mu_rng_fill_uniform(mu_rng_key_make((uint64_t)i, "bench"), 0, 0, pool[i], floats);
    }
    printf("%-24s %9s %9s %9s  %s\n", "shape", "openblas", "onednn", "mu_gemm", "choice");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        problem p = {shapes[i].op[0] == 'T', shapes[i].op[1] == 'T', shapes[i].m, shapes[i].n, shapes[i].k,
                     pool[0], pool[1], pool[2]};
        double blas = 0, dnnl = 0;
#ifdef MU_HAVE_BLAS
        blas = gflops(by_openblas, &p);
#endif
#ifdef MU_HAVE_DNNL
        dnnl = gflops(by_onednn, &p);
#endif
        printf("%s %5" PRId64 " x %5" PRId64 " x %5" PRId64 " %9.1f %9.1f %9.1f  %s\n", shapes[i].op, p.m,
               p.n, p.k, blas, dnnl, gflops(by_muster, &p), mu_gemm_choice(p.ta, p.tb, p.m, p.n, p.k));
        fflush(stdout);
    }
    for (int i = 0; i < 3; i++) mu_free(pool[i]);
    return 0;
}
