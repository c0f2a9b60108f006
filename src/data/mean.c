// SPDX-License-Identifier: Apache-2.0
// mean.c - see mean.h.
#include "data/mean.h"

#include <inttypes.h>
#include <string.h>

mu_status mu_mean_from_values(mu_arena *a, const mu_floats *values, size_t n_channels, mu_srcpos pos,
                              mu_mean *out, mu_err *err) {
    if (values->n != 1 && values->n != n_channels)
        return mu_err_hinted(
            MU_FAIL_AT(err, MU_EJOB, pos, "`mean` has %zu numbers for %zu channels", values->n, n_channels),
            err, "Give one number, one per channel, or `auto` for the mean of the data.");
    float *v = mu_arena_array(a, n_channels, sizeof *v);
    if (!v) return MU_FAIL_NOMEM(err, "the mean");
    for (size_t i = 0; i < n_channels; i++) v[i] = values->v[values->n == 1 ? 0 : i];
    *out = (mu_mean){v, n_channels};
    return MU_OK;
}

mu_status mu_mean_from_file(mu_arena *a, const char *path, size_t n_channels, size_t n_elements, mu_mean *out,
                            mu_err *err) {
    mu_infile f = {0};
    MU_TRY(mu_infile_open(&f, path, err));
    mu_status st = MU_OK;
    size_t n = f.size == 4 * (uint64_t)n_channels ? n_channels : n_elements;
    float *v = NULL;
    if (f.size != 4 * (uint64_t)n)
        st = MU_FAIL(err, MU_EDATA,
                     "mean file `%s` has %" PRIu64 " bytes, not %zu (channels) or %zu (elements)", path,
                     f.size, 4 * n_channels, 4 * n_elements);
    else if (!(v = mu_arena_array(a, n, sizeof *v))) st = MU_FAIL_NOMEM(err, "the mean");
    else st = mu_infile_load(&f, err);
    for (size_t i = 0; st == MU_OK && i < n; i++) {
        uint32_t bits = mu_le32(f.mem + 4 * i);
        memcpy(&v[i], &bits, sizeof bits);
        if (!__builtin_isfinite(v[i]))
            st = MU_FAIL(err, MU_EDATA, "mean file `%s`: value %zu is not finite", path, i);
    }
    mu_infile_close(&f);
    if (st == MU_OK) *out = (mu_mean){v, n};
    return st;
}

void mu_mean_add(mu_mean_sum *m, const void *src, mu_store store) {
    double *restrict sum = m->sum;
    if (store == MU_STORE_U8) {
        const uint8_t *restrict p = src;
        for (size_t i = 0; i < m->n; i++) sum[i] += p[i];
    } else {
        const float *restrict p = src;
        for (size_t i = 0; i < m->n; i++) sum[i] += (double)p[i];
    }
    m->count++;
}

void mu_mean_finish(const mu_mean_sum *m, float *out) {
    double by = m->count ? 1.0 / (double)m->count : 0;
    for (size_t i = 0; i < m->n; i++) out[i] = (float)(m->sum[i] * by);
}
