// SPDX-License-Identifier: Apache-2.0
// fuzz_series.c - libFuzzer target: four bytes of options, then any bytes as a series.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const target[] = {"last", "0", "none", "value"};
    static const char *const columns[] = {"1"};
    if (size < 4) return 0;
    char path[32];
    const char *p = path;
    int fd = fuzz_file(data + 4, size - 4, path);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *s = fuzz_options(&a, "series", "file", &p);
    *(const char **)fuzz_option(s, "series", "target") = target[data[0] & 3];
    *(int64_t *)fuzz_option(s, "series", "ahead") = 1 + (data[0] >> 2 & 7);
    *(int64_t *)fuzz_option(s, "series", "window") = 2 + data[1] % 16;
    *(int64_t *)fuzz_option(s, "series", "season") = data[1] / 16;
    *(double *)fuzz_option(s, "series", "from") = data[2] / 255.0;
    *(double *)fuzz_option(s, "series", "to") = data[3] / 255.0;
    if (data[0] & 64) *(mu_strings *)fuzz_option(s, "series", "ignore") = (mu_strings){1, columns};
    fuzz_reader("series", s);
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
