// SPDX-License-Identifier: Apache-2.0
// fuzz_raw.c - libFuzzer target: a few bytes of options, then the file.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4) return 0;
    char path[32];
    const char *p = path;
    int64_t shape[3] = {data[1] % 5 + 1, data[2] % 7 + 1, data[3] % 7 + 1};
    int fd = fuzz_file(data + 4, size - 4, path);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *state = fuzz_options(&a, "raw", "file", &p);
    *(mu_ints *)fuzz_option(state, "raw", "shape") = (mu_ints){data[0] & 3, shape};
    *(int *)fuzz_option(state, "raw", "store") = (data[0] >> 2) % 3;
    *(bool *)fuzz_option(state, "raw", "planes") = data[0] >> 4 & 1;
    *(int64_t *)fuzz_option(state, "raw", "classes") = data[0] >> 5;
    fuzz_reader("raw", state);
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
