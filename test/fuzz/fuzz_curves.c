// SPDX-License-Identifier: Apache-2.0
// Any bytes given to the reader of metrics.jsonl are refused with a message, or give curves whose steps
// ascend.
#include "base/alloc.h"
#include "look/curves.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mu_err err = {0};
    mu_curves c = {0};
    char *text = malloc(size + 1); // no terminator behind it: ASan sees a reader that wants one
    if (size) memcpy(text, data, size);
    mu_status status = mu_curves_parse(&c, text, size, "fuzz", &err);
    free(text);
    if (status != MU_OK && (status != MU_EDATA || !err.msg[0] || c.n)) abort();
    if (c.n > MU_CURVES_MAX || c.n_bad > c.n_lines) abort();
    for (size_t i = 0; i < c.n; i++) {
        if (!c.v[i].n) abort();
        for (size_t k = 0; k < c.v[i].n; k++) {
            if (!isfinite(c.v[i].v[k].step) || isinf(c.v[i].v[k].value)) abort();
            if (k && c.v[i].v[k].step <= c.v[i].v[k - 1].step) abort();
        }
    }
    mu_curves_fini(&c);
    if (mu_alloc_get_stats().n_live) abort();
    return 0;
}
