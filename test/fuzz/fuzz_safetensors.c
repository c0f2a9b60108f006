// SPDX-License-Identifier: Apache-2.0
// Any bytes given to the safetensors loader are refused with a message or give arrays that lie inside them.
#include "base/alloc.h"
#include "file/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mu_err err = {0};
    mu_st_file *f = NULL;
    mu_status status = mu_st_parse(data, size, "fuzz", &f, &err);
    if (status != MU_OK) {
        if (status != MU_EMODEL || !err.msg[0]) abort();
        return 0;
    }
    static volatile unsigned sink; // every byte is read, so that a bad pointer faults
    for (size_t i = 0; i < mu_st_count(f); i++) {
        const mu_st_tensor *t = mu_st_at(f, i);
        const uint8_t *p = t->data;
        if (p < data + 8 || t->size_bytes > (size_t)(data + size - p)) abort();
        for (size_t k = 0; k < t->size_bytes; k++) sink = sink + p[k];
        if (mu_st_find(f, t->name) != t) abort();
    }
    mu_st_close(f);
    if (mu_alloc_get_stats().n_live) abort();
    return 0;
}
