// SPDX-License-Identifier: Apache-2.0
// fuzz_chars.c - libFuzzer target: three bytes of options, then any bytes as a text.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    char path[32];
    const char *p = path;
    int fd = fuzz_file(data + 3, size - 3, path);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *s = fuzz_options(&a, "chars", "file", &p);
    *(int64_t *)fuzz_option(s, "chars", "length") = 1 + data[0] % 16;
    *(int64_t *)fuzz_option(s, "chars", "streams") = 1 + data[0] / 16;
    *(int *)fuzz_option(s, "chars", "of") = data[1] & 1;
    *(double *)fuzz_option(s, "chars", "from") = data[1] / 255.0;
    *(double *)fuzz_option(s, "chars", "to") = data[2] / 255.0;
    fuzz_reader("chars", s);
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
