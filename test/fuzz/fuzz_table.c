// SPDX-License-Identifier: Apache-2.0
// fuzz_table.c - libFuzzer target: two bytes of options, then any bytes as a table.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const label[] = {"last", "0", "none", "kind"};
    static const char *const separator[] = {"auto", ";", "tab", ","};
    static const char *const columns[] = {"1"};
    static const char *const more[] = {"0", "2"};
    if (size < 2) return 0;
    char path[32];
    const char *p = path;
    int fd = fuzz_file(data + 2, size - 2, path);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *state = fuzz_options(&a, "table", "file", &p);
    *(const char **)fuzz_option(state, "table", "label") = label[data[0] & 3];
    *(const char **)fuzz_option(state, "table", "separator") = separator[data[0] >> 2 & 3];
    *(int *)fuzz_option(state, "table", "header") = (data[0] >> 4 & 3) % 3;
    if (data[0] & 64) *(mu_strings *)fuzz_option(state, "table", "categorical") = (mu_strings){1, columns};
    if (data[0] & 128) *(mu_strings *)fuzz_option(state, "table", "ignore") = (mu_strings){1, columns};
    if (data[1] & 1) *(mu_strings *)fuzz_option(state, "table", "embed") = (mu_strings){1, more};
    if (data[1] & 2) *(mu_strings *)fuzz_option(state, "table", "text") = (mu_strings){1, more + 1};
    if (data[1] & 4) *(mu_strings *)fuzz_option(state, "table", "text") = (mu_strings){2, more};
    *(int64_t *)fuzz_option(state, "table", "pieces") = data[1] & 8 ? 5 : 0;
    *(int64_t *)fuzz_option(state, "table", "text_length") = data[1] >> 4;
    fuzz_reader("table", state);
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
