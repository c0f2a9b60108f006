// SPDX-License-Identifier: Apache-2.0
// gemm.c - which library multiplies a matrix of this shape; see gemm.h.
//
// Measured with bench/gemm.c on one core of an EPYC (Zen 4, limit 116 GFLOP/s), OpenBLAS 0.3.21 / oneDNN 2.6:
//     NN, TN, 16 rows and more         80-102 / 99-116     oneDNN, also for skinny ones (30-62 / 78-112)
//     NT, batch 8-100 of 1000 x 784    47-96  / 85-103     oneDNN,
//     NT, fewer than 128 columns       50-95  / 21-48      but not here,
//     NT, 32 x 1024 x 1024             52-84  / 50         nor where the rows of B alias in the cache
//     64 x 64 x 64 and smaller         95-115 / 32-99      OpenBLAS: less work around the product
// With AVX2 the same, but oneDNN reads the rows of B where they lie:
//     NN, TN, rows of B 2 KB apart     84-105 / 37-70      OpenBLAS where they alias in the cache,
//     NN, TN, 64 x 64 x 64 and smaller 57-96  / 76-109     oneDNN otherwise
// Fully connected layers do not come here with NT: o_inner_gemm.c has its own form.
#include "ops/gemm.h"

#include "base/level.h"
#include "ops/dnnl.h"

#include <string.h>

#ifdef MU_HAVE_BLAS
#include <cblas.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define BLAS_ROOM ((size_t)160 << 20)   // OpenBLAS's buffer has 128 MiB on x86-64
#endif

typedef enum choice { PLAIN, OPENBLAS, ONEDNN } choice;

#define TINY 512                        // products below cost less than a library call
#define SMALL (64 * 64 * 64)

static choice choose(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, int64_t ldb) {
    if (m * n * k < TINY) return PLAIN;
#if defined(MU_HAVE_DNNL) && defined(MU_HAVE_BLAS)
    if (mu_level() == 3 && !trans_b) return ldb % 512 == 0 && m > 1 ? OPENBLAS : ONEDNN;
    if (m * n * k <= SMALL && m >= 8 && n >= 8) return OPENBLAS;
    if (!trans_a && trans_b && (n < 128 || (k % 1024 == 0 && m >= 16))) return m == 1 ? ONEDNN : OPENBLAS;
    return ONEDNN;
#elif defined(MU_HAVE_DNNL)
    (void)trans_a;
    (void)trans_b;
    (void)ldb;
    return ONEDNN;
#elif defined(MU_HAVE_BLAS)
    (void)trans_a;
    (void)trans_b;
    (void)ldb;
    return OPENBLAS;
#else
    (void)trans_a;
    (void)trans_b;
    (void)ldb;
    return PLAIN;
#endif
}

const char *mu_gemm_choice(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k) {
    static const char *const names[] = {[PLAIN] = "plain", [OPENBLAS] = "openblas", [ONEDNN] = "onednn"};
    return names[choose(trans_a, trans_b, m, n, k, trans_b ? k : n)];
}

#ifdef MU_HAVE_BLAS
static atomic_int blas_threads = 1;
static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static bool blas_starved;               // written once: it cannot have the memory it needs
static void apply_blas_threads(void) { openblas_set_num_threads(atomic_load(&blas_threads)); }

// OpenBLAS takes a buffer with its first product, keeps it, and asks for ever where it cannot have it. So
// where memory is limited the first product is made here, if there is room. That may be in a training step,
// so its matrices are static.
static void take_blas_buffer(void) {
    enum { SIDE = 128 };                // larger than what it multiplies without a buffer
    static float zeros[SIDE * SIDE], product[SIDE * SIDE];
    struct rlimit most;
    if (getrlimit(RLIMIT_AS, &most) || most.rlim_cur == RLIM_INFINITY) return;
    void *room = mmap(NULL, BLAS_ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    blas_starved = room == MAP_FAILED;
    if (blas_starved) return;
    munmap(room, BLAS_ROOM);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1.0f, zeros, SIDE, zeros, SIDE,
                0.0f, product, SIDE);
}

static void start_blas(void) {
    apply_blas_threads();
    take_blas_buffer();
}

// False: OpenBLAS cannot be used.
static bool gemm_openblas(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    pthread_once(&blas_once, start_blas);
    if (blas_starved) return false;
    cblas_sgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans,
                (blasint)m, (blasint)n, (blasint)k, 1.0f, a, (blasint)lda, b, (blasint)ldb, beta, c,
                (blasint)ldc);
    return true;
}
#endif

#ifdef MU_HAVE_DNNL
static bool gemm_onednn(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a,
                        int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    mu_dnnl_enter();
    const char ta = trans_a ? 'T' : 'N', tb = trans_b ? 'T' : 'N';
    return dnnl_sgemm(ta, tb, m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc) == dnnl_success;
}
#endif

void mu_gemm_set_threads(int n) {
    if (n < 1) n = 1;
#ifdef MU_HAVE_DNNL
    mu_dnnl_set_threads(n);
    mu_dnnl_enter();
#endif
#ifdef MU_HAVE_BLAS
    // The library's number is set only when it changes: another thread may be multiplying.
    if (atomic_exchange(&blas_threads, n) != n) apply_blas_threads();
    pthread_once(&blas_once, start_blas);
#endif
}

void mu_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
             const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    const choice by = choose(trans_a, trans_b, m, n, k, ldb);
    (void)by;
#ifdef MU_HAVE_BLAS
    if (by == OPENBLAS && gemm_openblas(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc)) return;
#endif
#ifdef MU_HAVE_DNNL
    if (by != PLAIN && gemm_onednn(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc)) return;
#endif
    mu_gemm_ref(trans_a, trans_b, m, n, k, a, lda, b, ldb, beta, c, ldc);
}

void mu_gemm_ref(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = beta != 0 ? (double)beta * (double)c[i * ldc + j] : 0;
            for (int64_t p = 0; p < k; p++) {
                float x = trans_a ? a[p * lda + i] : a[i * lda + p],
                      y = trans_b ? b[j * ldb + p] : b[p * ldb + j];
                sum += (double)x * (double)y;
            }
            c[i * ldc + j] = (float)sum;
        }
}
