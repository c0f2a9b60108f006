// SPDX-License-Identifier: Apache-2.0
// fuzz_vocab.c - libFuzzer target: any bytes as a vocabulary file. What it holds is found again by its
// number.
#include "fuzz_data.h"

#include "read/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32];
    int fd = fuzz_file(data, size, path);
    uint64_t before = mu_alloc_get_stats().n_live;
    mu_arena a;
    mu_vocab v;
    mu_err err = {0};
    mu_arena_init(&a, "fuzz");
    mu_vocab_init(&v, &a);
    if (mu_vocab_load(&v, path, 0, &err) == MU_OK) {
        for (int64_t i = MU_WORD_FIRST; i < v.n; i++)
            if (mu_vocab_find(&v, v.text[i], strlen(v.text[i])) != i) abort();
    } else if (!err.msg[0]) {
        abort();
    }
    mu_vocab_fini(&v);
    mu_arena_fini(&a);
    if (mu_alloc_get_stats().n_live != before) abort();
    close(fd);
    return 0;
}
