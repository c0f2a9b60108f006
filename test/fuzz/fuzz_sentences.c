// SPDX-License-Identifier: Apache-2.0
// fuzz_sentences.c - libFuzzer target: two bytes of options, then any bytes as a file of labelled sentences,
// cut in two at the last byte 0x1e when the options say so: training file, test file.
#include "fuzz_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const separator[] = {"tab", ",", ";", " "};
    static const int64_t columns[] = {2, 3};
    if (size < 2) return 0;
    const uint8_t *text = data + 2, *cut = NULL;
    size -= 2;
    for (size_t i = size; !cut && (data[1] & 1) && i-- > 0;)
        if (text[i] == 0x1e) cut = text + i;
    char path[32], other[32];
    const char *p = path, *q = other;
    int fd = fuzz_file(cut ? cut + 1 : text, cut ? size - (size_t)(cut - text) - 1 : size, path);
    int of = fuzz_file(text, cut ? (size_t)(cut - text) : 0, other);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    void *s = fuzz_options(&a, "sentences", "file", &p);
    *(const char **)fuzz_option(s, "sentences", "separator") = separator[data[0] & 3];
    *(int64_t *)fuzz_option(s, "sentences", "length") = (data[0] >> 2 & 3) * 5;
    *(int64_t *)fuzz_option(s, "sentences", "pad") = data[0] >> 4 & 1;
    *(int64_t *)fuzz_option(s, "sentences", "label_column") = 1 + (data[0] >> 5 & 1) * 3;
    *(int64_t *)fuzz_option(s, "sentences", "min_count") = 1 + (data[0] >> 6 & 1);
    *(bool *)fuzz_option(s, "sentences", "header") = data[0] >> 7;
    if (cut) *(const char **)fuzz_option(s, "sentences", "vocab_of") = q;
    if (data[1] & 2) *(mu_ints *)fuzz_option(s, "sentences", "text_columns") = (mu_ints){2, columns};
    *(bool *)fuzz_option(s, "sentences", "labels") = !(data[1] & 4);
    *(bool *)fuzz_option(s, "sentences", "lower") = !(data[1] & 8);
    *(int *)fuzz_option(s, "sentences", "punctuation") = (data[1] >> 4 & 3) % 3;
    fuzz_reader("sentences", s);
    mu_arena_fini(&a);
    close(fd);
    close(of);
    return 0;
}
