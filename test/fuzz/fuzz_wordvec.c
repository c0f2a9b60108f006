// SPDX-License-Identifier: Apache-2.0
// fuzz_wordvec.c - libFuzzer target: any bytes as a file of word vectors. What is found is finite, rows that
// are not found stay as they were.
#include "fuzz_data.h"

#include "layer/wordvec.h"

#include <math.h>

enum { DIM = 2, UNTOUCHED = 99 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const words[] = {"<pad>", "<unk>", "the", "caf\xc3\xa9", "a", ". .", "the"};
    char path[32];
    float v[MU_COUNT(words) * DIM];
    int fd = fuzz_file(data, size, path);
    uint64_t before = mu_alloc_get_stats().n_live;
    int64_t found = -1;
    mu_err err = {0};
    for (size_t i = 0; i < MU_COUNT(v); i++) v[i] = UNTOUCHED;
    if (mu_wordvec_load(path, MU_COUNT(words), words, DIM, v, &found, &err) == MU_OK) {
        int64_t same = 0;
        for (size_t i = 0; i < MU_COUNT(v); i++) {
            if (!isfinite(v[i])) abort();
            same += v[i] == UNTOUCHED;
        }
        if (found < 0 || found > (int64_t)MU_COUNT(words)) abort();
        if (same < (int64_t)MU_COUNT(v) - found * DIM) abort();
    } else if (!err.msg[0]) {
        abort();
    }
    if (mu_alloc_get_stats().n_live != before) abort();
    mu_err_clear(&err);
    if (mu_wordvec_load(path, 0, NULL, DIM, NULL, &found, &err) != MU_OK && !err.msg[0]) abort();
    close(fd);
    return 0;
}
