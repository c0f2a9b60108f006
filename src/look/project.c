// SPDX-License-Identifier: Apache-2.0
// project.c - see project.h.
//
// Subspace iteration with Rayleigh-Ritz (Halko, Martinsson, Tropp 2011): a block V of a few more directions
// than wanted is multiplied by X'X again and again (as X'(XV): the d x d matrix is never built), made
// orthonormal each time, and at the end turned into eigenvectors by the small problem V'X'XV. The block
// starts at fixed pseudo-random directions. What the extra directions buy is speed where eigenvalues lie
// close together: the error falls like (lambda[p+1] / lambda[k])^rounds instead of (lambda[k+1] / lambda[k]).
#include "look/project.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define TAG "project"
enum { EXTRA = 6, BLOCK = MU_PROJECT_MAX + EXTRA, ROUNDS = 60, SWEEPS = 60 };

typedef struct projection_work {
    const float *x; // (n, d)
    int64_t n, d;
    int p;         // directions in the block
    double *mean;  // (d)
    double *v, *w; // (p, d): the block, and X'X times it
    double *z;     // (n, p): points along the block
    double total;  // sum of squared distances from the mean
} projection_work;

void mu_project_jacobi(double *a, double *v, int n) {
    for (int i = 0; i < n * n; i++) v[i] = i % (n + 1) == 0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double off = 0, all = 0;
        for (int i = 0; i < n * n; i++) {
            all += a[i] * a[i];
            if (i % (n + 1)) off += a[i] * a[i];
        }
        if (off <= 1e-30 * all) return;
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double apq = a[p * n + q];
                if (apq == 0) continue;
                double theta = (a[q * n + q] - a[p * n + p]) / (2 * apq);
                double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
                double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int i = 0; i < n; i++) { // columns p and q of a and v
                    double x = a[i * n + p], y = a[i * n + q];
                    a[i * n + p] = c * x - s * y, a[i * n + q] = s * x + c * y;
                    x = v[i * n + p], y = v[i * n + q];
                    v[i * n + p] = c * x - s * y, v[i * n + q] = s * x + c * y;
                }
                for (int i = 0; i < n; i++) { // rows
                    double x = a[p * n + i], y = a[q * n + i];
                    a[p * n + i] = c * x - s * y, a[q * n + i] = s * x + c * y;
                }
            }
    }
}

static double dot(const double *a, const double *b, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
    return s;
}

// Gram-Schmidt, twice for the sake of rounding. A direction that depends on the others becomes zero.
static void make_orthonormal(projection_work *k) {
    for (int i = 0; i < k->p; i++) {
        double *a = k->v + i * k->d, before = sqrt(dot(a, a, k->d));
        for (int twice = 0; twice < 2; twice++)
            for (int j = 0; j < i; j++) {
                const double *b = k->v + j * k->d;
                double s = dot(a, b, k->d);
                for (int64_t m = 0; m < k->d; m++) a[m] -= s * b[m];
            }
        double norm = sqrt(dot(a, a, k->d)), scale = norm > 1e-12 * before && norm > 0 ? 1 / norm : 0;
        for (int64_t m = 0; m < k->d; m++) a[m] *= scale;
    }
}

static mu_status centre(projection_work *k, mu_err *err) {
    for (int64_t r = 0; r < k->n; r++)
        for (int64_t m = 0; m < k->d; m++) {
            double v = (double)k->x[r * k->d + m];
            if (!isfinite(v))
                return MU_FAIL(err, MU_EDATA, "value %" PRId64 " of row %" PRId64 " is %g", m, r, v);
            k->mean[m] += v / (double)k->n;
        }
    for (int64_t r = 0; r < k->n; r++)
        for (int64_t m = 0; m < k->d; m++) {
            double v = (double)k->x[r * k->d + m] - k->mean[m];
            k->total += v * v;
        }
    return MU_OK;
}

// z = (x - mean) v'; with `back`, w = (x - mean)' z.
static void multiply(projection_work *k, bool back) {
    if (back) memset(k->w, 0, (size_t)(k->p * k->d) * sizeof *k->w);
    for (int64_t r = 0; r < k->n; r++) {
        const float *x = k->x + r * k->d;
        for (int i = 0; i < k->p; i++) {
            const double *v = k->v + i * k->d;
            double s = 0;
            for (int64_t m = 0; m < k->d; m++) s += ((double)x[m] - k->mean[m]) * v[m];
            k->z[r * k->p + i] = s;
            double *w = k->w + i * k->d;
            for (int64_t m = 0; back && m < k->d; m++) w[m] += s * ((double)x[m] - k->mean[m]);
        }
    }
}

// The block's directions settle when the variance they catch grows no more.
static void iterate(projection_work *k) {
    double before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        make_orthonormal(k);
        multiply(k, true);
        double caught = dot(k->z, k->z, k->n * k->p);
        memcpy(k->v, k->w, (size_t)(k->p * k->d) * sizeof *k->v);
        if (round > 8 && caught - before <= 1e-13 * k->total) break;
        before = caught;
    }
    make_orthonormal(k);
    multiply(k, false);
}

static void sort_values(const double *a, int p, int order[BLOCK]) {
    for (int i = 0; i < p; i++) {
        int j = i;
        for (; j > 0 && a[order[j - 1] * (p + 1)] < a[i * (p + 1)]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
}

// Rotates the block into eigenvectors and fills the outputs.
static void finish(projection_work *k, int n_out, double *out, double *share) {
    double a[BLOCK * BLOCK] = {0}, u[BLOCK * BLOCK];
    int order[BLOCK], p = k->p;
    for (int64_t r = 0; r < k->n; r++)
        for (int i = 0; i < p * p; i++) a[i] += k->z[r * p + i / p] * k->z[r * p + i % p];
    mu_project_jacobi(a, u, p);
    sort_values(a, p, order);
    for (int o = 0; o < n_out; o++) {
        int c = order[o];
        double largest = 0;
        for (int64_t m = 0; m < k->d; m++) {
            double axis = 0;
            for (int i = 0; i < p; i++) axis += u[i * p + c] * k->v[i * k->d + m];
            if (fabs(axis) > fabs(largest) * (1 + 1e-9)) largest = axis;
        }
        double sign = largest < 0 ? -1 : 1;
        share[o] = k->total > 0 ? fmax(a[c * (p + 1)], 0) / k->total : 0;
        for (int64_t r = 0; r < k->n; r++) {
            double s = 0;
            for (int i = 0; i < p; i++) s += u[i * p + c] * k->z[r * p + i];
            out[r * n_out + o] = sign * s;
        }
    }
}

static void start_block(projection_work *k) {
    mu_rng_key key = mu_rng_key_make(1, "project");
    for (int64_t i = 0; i < k->p * k->d; i++) {
        float r;
        mu_rng_fill_uniform(key, (uint64_t)i, 0, &r, 1);
        k->v[i] = (double)r - 0.5;
    }
}

mu_status mu_project_pca(const float *x, int64_t n, int64_t d, int k, double *out, double *share,
                         mu_err *err) {
    if (n < 1 || k < 1 || k > d || k > MU_PROJECT_MAX)
        return MU_FAIL(err, MU_EUSAGE, "%" PRId64 " points of %" PRId64 " values have no %d principal axes",
                       n, d, k);
    int p = d < k + EXTRA ? (int)d : k + EXTRA;
    projection_work w = {.x = x,
              .n = n,
              .d = d,
              .p = p,
              .mean = mu_alloc_array((size_t)d, sizeof(double), TAG),
              .v = mu_alloc_array((size_t)(p * d), sizeof(double), TAG),
              .w = mu_alloc_array((size_t)(p * d), sizeof(double), TAG),
              .z = mu_alloc_array((size_t)(n * p), sizeof(double), TAG)};
    mu_status st = w.mean && w.v && w.w && w.z ? centre(&w, err) : MU_FAIL_NOMEM(err, "the projection");
    if (st == MU_OK) {
        start_block(&w);
        iterate(&w);
        finish(&w, k, out, share);
    }
    mu_free(w.mean);
    mu_free(w.v);
    mu_free(w.w);
    mu_free(w.z);
    return st;
}
