// SPDX-License-Identifier: Apache-2.0
// ridge.c - see ridge.h: normal equations by Cholesky's decomposition.
#include "recipe/ridge.h"

#include "base/alloc.h"

#include <math.h>

mu_status mu_ridge_init(mu_ridge *r, size_t d, mu_err *err) {
    const size_t m = d + 1;
    *r = (mu_ridge){.d = d};
    r->xx = mu_alloc_array(m * m, sizeof *r->xx, "recipe/ridge");
    r->xy = mu_alloc_array(m, sizeof *r->xy, "recipe/ridge");
    r->w = mu_alloc_array(m, sizeof *r->w, "recipe/ridge");
    r->work = mu_alloc_array(m * m, sizeof *r->work, "recipe/ridge");
    return r->xx && r->xy && r->w && r->work ? MU_OK : MU_FAIL_NOMEM(err, "a linear fit");
}

void mu_ridge_fini(mu_ridge *r) {
    mu_free(r->xx);
    mu_free(r->xy);
    mu_free(r->w);
    mu_free(r->work);
    *r = (mu_ridge){0};
}

void mu_ridge_add(mu_ridge *r, const double *x, double y) {
    const size_t d = r->d, m = d + 1;
    for (size_t i = 0; i < d; i++)
        for (size_t k = 0; k <= i; k++) r->xx[i * m + k] += x[i] * x[k];
    for (size_t k = 0; k < d; k++) r->xx[d * m + k] += x[k];
    r->xx[d * m + d] += 1;
    for (size_t i = 0; i < d; i++) r->xy[i] += x[i] * y;
    r->xy[d] += y;
    r->n++;
}

// work = L with L L' = xx + n decay (the constant has none).
static bool decompose(mu_ridge *r, double decay) {
    const size_t m = r->d + 1;
    double *l = r->work;
    for (size_t i = 0; i < m; i++)
        for (size_t k = 0; k <= i; k++) {
            double sum = r->xx[i * m + k] + (i == k && i < r->d ? decay * (double)r->n : 0);
            const double all = sum;
            for (size_t j = 0; j < k; j++) sum -= l[i * m + j] * l[k * m + j];
            if (i != k) l[i * m + k] = sum / l[k * m + k];
            else if (!(sum > 1e-12 * all)) return false;
            else l[i * m + i] = sqrt(sum);
        }
    return true;
}

bool mu_ridge_solve(mu_ridge *r, double decay) {
    const size_t m = r->d + 1;
    if (!r->n || !decompose(r, decay)) return false;
    const double *l = r->work;
    for (size_t i = 0; i < m; i++) {
        double sum = r->xy[i];
        for (size_t k = 0; k < i; k++) sum -= l[i * m + k] * r->w[k];
        r->w[i] = sum / l[i * m + i];
    }
    for (size_t i = m; i-- > 0;) {
        double sum = r->w[i];
        for (size_t k = i + 1; k < m; k++) sum -= l[k * m + i] * r->w[k];
        r->w[i] = sum / l[i * m + i];
    }
    return true;
}

double mu_ridge_answer(const mu_ridge *r, const double *x) {
    double sum = r->w[r->d];
    for (size_t i = 0; i < r->d; i++) sum += r->w[i] * x[i];
    return sum;
}
