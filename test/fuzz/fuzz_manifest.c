// SPDX-License-Identifier: Apache-2.0
// Any text given to the manifest parser is refused with a message, or survives being written and parsed
// again. The checksum would stop nearly every mutation at the door, so the target first makes it right.
#include "base/alloc.h"
#include "store/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void sign(char *text, size_t size) {
    static const char tail[] = "\"\n}\n";
    uint64_t sum[2];
    char hex[33];
    if (size < 36 || memcmp(text + size - 4, tail, 4)) return;
    memset(text + size - 36, '0', 32);
    mu_digest_bytes(text, size, sum);
    mu_digest_hex(sum, hex);
    memcpy(text + size - 36, hex, 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mu_err err = {0};
    mu_manifest *m = NULL, *again = NULL;
    char *text = malloc(size + 1), *out = NULL;
    size_t out_size = 0;
    if (size) memcpy(text, data, size);
    sign(text, size);
    mu_status status = mu_manifest_parse(text, size, "fuzz", &m, &err);
    free(text);
    if (status != MU_OK) {
        if (status != MU_EMODEL || !err.msg[0]) abort();
        return 0;
    }
    if (mu_manifest_format(m, &out, &out_size, &err) != MU_OK) abort();
    if (mu_manifest_parse(out, out_size, "again", &again, &err) != MU_OK) abort();
    if (again->meta.step != m->meta.step || again->n_files != m->n_files) abort();
    mu_free(out);
    mu_manifest_destroy(m);
    mu_manifest_destroy(again);
    if (mu_alloc_get_stats().n_live) abort();
    return 0;
}
