// SPDX-License-Identifier: Apache-2.0
// unit.c - see unit.h.
#include "layer/unit.h"

#include "base/alloc.h"
#include "ops/vec.h"

// s(x) from e^-|x|, which never overflows. ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|): *factor is of the second
// part, 1 to 2, and may be multiplied with others before the logarithm.
MU_INLINE mu_vec logistic(mu_vec x, mu_vec *above, mu_vec *factor) {
    const mu_vec e = mu_vec_exp(-mu_vec_abs(x)), sum = 1.0f + e, big = 1.0f / sum;
    const mu_vmask positive = mu_vec_gt(x, mu_vec_set(0));
    *above = mu_vec_select(positive, x, mu_vec_set(0));
    *factor = sum;
    return mu_vec_select(positive, big, e * big);
}

enum {
    SUM_BLOCK = 4096,           // floats added up in single precision, by lanes, before they go to the double
    FACTORS = 64,               // multiplied before a logarithm: at most 2^64
};

static void logistic_sum(int64_t n, float *x, double *log_z) {
    mu_vec above, factor;
    int64_t i = 0;
    while (i + MU_LANES <= n) {
        mu_vec sum = mu_vec_set(0), product = mu_vec_set(1);
        for (int k = 0; k < FACTORS && i + MU_LANES <= n; k++, i += MU_LANES) {
            mu_vec_store(x + i, logistic(mu_vec_load(x + i, MU_LANES), &above, &factor), MU_LANES);
            sum += above;
            product *= factor;
        }
        *log_z += (double)mu_vec_sum(sum + mu_vec_log(product));
    }
    if (i < n) {
        mu_vec_store(x + i, logistic(mu_vec_load(x + i, n - i), &above, &factor), n - i);
        const mu_vec z = above + mu_vec_log(factor);
        for (int64_t k = 0; k < n - i; k++) *log_z += (double)z[k];
    }
}

void mu_unit_mean(mu_unit kind, int64_t n, float *x, double *log_z) {
    if (kind == MU_UNIT_GAUSSIAN) {
        if (log_z) *log_z += 0.5 * mu_unit_dot(x, x, n);
        return;
    }
    if (log_z) {
        logistic_sum(n, x, log_z);
        return;
    }
    for (int64_t i = 0; i < n; i += MU_LANES)
        mu_vec_store(x + i, 1.0f / (1.0f + mu_vec_exp(-mu_vec_load(x + i, n - i))), n - i);
}

enum { DRAWS = 512 }; // made at once; a multiple of 4, as the generator asks

void mu_unit_draw(mu_unit kind, mu_rng_key key, int64_t sample, int64_t draw, int64_t n, const float *mean,
                  float *out) {
    const uint64_t hi = (uint64_t)sample, first = (uint64_t)draw << 32;
    MU_ALIGNED(64) uint32_t word[DRAWS];
    MU_ALIGNED(64) float noise[DRAWS];
    for (int64_t at = 0; at < n; at += DRAWS) {
        const int64_t m = n - at < DRAWS ? n - at : DRAWS;
        const float *p = mean + at;
        float *to = out + at;
        if (kind == MU_UNIT_GAUSSIAN) {
            mu_rng_fill_gaussian(key, hi, first + (uint64_t)at, noise, (size_t)m);
            for (int64_t i = 0; i < m; i++) to[i] = p[i] + noise[i];
            continue;
        }
        mu_rng_fill_u32(key, hi, first + (uint64_t)at, word, (size_t)m);
        for (int64_t i = 0; i < m; i++) to[i] = mu_rng_to_uniform(word[i]) < p[i] ? 1.0f : 0.0f;
    }
}

void mu_unit_draw_rows(mu_unit kind, mu_rng_key key, int64_t first_sample, int64_t draw, int64_t rows,
                       int64_t n, const float *mean, float *out) {
    for (int64_t b = 0; b < rows; b++)
        mu_unit_draw(kind, key, first_sample + b, draw, n, mean + b * n, out + b * n);
}

// ---- loops ----

void mu_unit_add_bias(int64_t rows, int64_t n, const float *bias, bool own, float *x) {
    for (int64_t b = 0; b < rows; b++, bias += own ? n : 0)
        for (int64_t i = 0; i < n; i++) x[b * n + i] += bias[i];
}

void mu_unit_scale(int64_t n, float scale, const float *b, float *a) {
    for (int64_t i = 0; i < n; i++) a[i] = scale * b[i];
}

void mu_unit_add_columns(int64_t rows, int64_t n, float scale, const float *x, float *restrict dst) {
    for (int64_t b = 0; b < rows; b++)
        for (int64_t i = 0; i < n; i++) dst[i] += scale * x[b * n + i];
}

double mu_unit_dot(const float *a, const float *b, int64_t n) {
    double total = 0;
    for (int64_t at = 0; at < n; at += SUM_BLOCK) {
        const int64_t end = n - at < SUM_BLOCK ? n : at + SUM_BLOCK;
        mu_vec sum = mu_vec_set(0);
        for (int64_t i = at; i < end; i += MU_LANES)
            sum += mu_vec_load(a + i, end - i) * mu_vec_load(b + i, end - i);
        total += (double)mu_vec_sum(sum);
    }
    return total;
}

double mu_unit_distance(const float *a, const float *b, int64_t n) {
    double total = 0;
    for (int64_t at = 0; at < n; at += SUM_BLOCK) {
        const int64_t end = n - at < SUM_BLOCK ? n : at + SUM_BLOCK;
        mu_vec sum = mu_vec_set(0);
        for (int64_t i = at; i < end; i += MU_LANES) {
            const mu_vec d = mu_vec_load(a + i, end - i) - mu_vec_load(b + i, end - i);
            sum += d * d;
        }
        total += (double)mu_vec_sum(sum);
    }
    return total;
}
