// SPDX-License-Identifier: Apache-2.0
// fuzz_idx.c - libFuzzer target: any bytes as idx images, or (first byte odd) as the labels of two records.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t two[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 1, 7, 9};
    if (size < 1) return 0;
    bool labels = data[0] & 1;
    char path[32], other[32];
    const char *p = path;
    int fd = fuzz_file(data + 1, size - 1, path), fd2 = fuzz_file(two, sizeof two, other);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *state = fuzz_options(&a, "idx", labels ? "labels" : "images", &p);
    if (labels) *(const char **)fuzz_option(state, "idx", "images") = other;
    *(int *)fuzz_option(state, "idx", "order") = data[0] >> 1 & 1;
    fuzz_reader("idx", state);
    mu_arena_fini(&a);
    close(fd);
    close(fd2);
    return 0;
}
