// SPDX-License-Identifier: Apache-2.0
// fuzz_cifar.c - libFuzzer target: a byte of options, then any bytes repeated to about four records.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t file[4 * 3074];
    if (size < 4) return 0;
    size_t n = (size_t)(data[1] << 8 | data[2]) % sizeof file;
    for (size_t i = 0; i < n; i++) file[i] = data[3 + i % (size - 3)];
    char path[32];
    const char *p = path;
    int fd = fuzz_file(file, n, path);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *state = fuzz_options(&a, "cifar", "files", &p);
    *(int64_t *)fuzz_option(state, "cifar", "label_bytes") = data[0] % 3;
    *(bool *)fuzz_option(state, "cifar", "coarse") = data[0] >> 2 & 1;
    fuzz_reader("cifar", state);
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
