// SPDX-License-Identifier: Apache-2.0
// gemm.h - single-precision matrix product, row-major:  C = A' * B' + beta * C,  beta 0 or 1.
//
// A' is m x k (A itself, or A stored k x m when trans_a), B' is k x n. The library is chosen by shape
// from what was measured (bench/gemm): see gemm.c for the table. mu_gemm_ref is the oracle.
#ifndef MU_OPS_GEMM_H
#define MU_OPS_GEMM_H

#include <stdbool.h>
#include <stdint.h>

void mu_gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
             const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void mu_gemm_ref(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
// "onednn", "openblas" or "plain"
const char *mu_gemm_choice(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k);

// The numeric libraries run on one thread in every learner: parallelism is between learners.
void mu_gemm_set_threads(int n);

#endif
