// SPDX-License-Identifier: Apache-2.0
// fuzz_csv.c - libFuzzer target: a byte of options, then any bytes as a CSV file.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const label[] = {"last", "0", "none", "kind"};
    static const char *const separator[] = {",", ";", "tab", " "};
    static const char *const words[] = {"cat", "dog"};
    if (size < 1) return 0;
    char path[32];
    const char *p = path;
    int fd = fuzz_file(data + 1, size - 1, path);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *state = fuzz_options(&a, "csv", "file", &p);
    *(const char **)fuzz_option(state, "csv", "label") = label[data[0] & 3];
    *(const char **)fuzz_option(state, "csv", "separator") = separator[data[0] >> 2 & 3];
    *(int *)fuzz_option(state, "csv", "header") = (data[0] >> 4 & 3) % 3;
    if (data[0] & 64) *(mu_strings *)fuzz_option(state, "csv", "classes") = (mu_strings){2, words};
    fuzz_reader("csv", state);
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
