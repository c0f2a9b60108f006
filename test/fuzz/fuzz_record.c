// SPDX-License-Identifier: Apache-2.0
// fuzz_record.c - libFuzzer target: any bytes as a record file.
//
// Checksums would keep the fuzzer out of everything behind them, so with an odd first byte they are
// put right before the file is read: header, index, footer and, when they can be found, all records and the
// notes. With the second bit set a model that knows two classes reads it.
#include "file/infile.h"
#include "fuzz_data.h"
#include "read/record.h"

#include <xxhash.h>

static void mend_records(uint8_t *file, const uint8_t *index, uint64_t n, uint64_t index_at) {
    uint64_t first = mu_le64(index), step = n > 1 ? mu_le64(index + 8) - first : index_at - first;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = mu_le64(index + 8 * i);
        if (step < 16 || at > index_at || index_at - at < step) return;
        mu_put_le64(file + at + step - 8, XXH3_64bits_withSeed(file + at, step - 8, i));
    }
}

// Where the notes begin, which end at index_at; index_at itself when there are none.
static uint64_t find_notes(const uint8_t *file, uint64_t head, uint64_t index_at) {
    for (uint64_t at = (head + 7) / 8 * 8; at + MU_RECORD_NOTES_HEAD + 8 <= index_at; at += 8)
        if (!memcmp(file + at, MU_RECORD_NOTES, 8)) return at;
    return index_at;
}

static void mend(uint8_t *file, size_t size) {
    if (size < MU_RECORD_HEAD + 8 + MU_RECORD_FOOTER) return;
    uint8_t *foot = file + size - MU_RECORD_FOOTER;
    uint64_t head = mu_le32(file + 8), index_at = mu_le64(foot + 8), foot_at = size - MU_RECORD_FOOTER;
    memcpy(file, MU_RECORD_MAGIC, 8);
    memcpy(foot + 32, MU_RECORD_END, 8);
    if (head < 8 || head > foot_at || index_at > foot_at) return;
    uint64_t n = (foot_at - index_at) / 8, hash = XXH3_64bits(file, head - 8);
    mu_put_le64(file + head - 8, hash);
    const uint64_t notes = find_notes(file, head, index_at);
    if (n) mend_records(file, file + index_at, n, notes);
    if (notes < index_at)
        mu_put_le64(file + index_at - 8, XXH3_64bits_withSeed(file + notes, index_at - 8 - notes, hash));
    mu_put_le64(foot, n);
    mu_put_le64(foot + 16, XXH3_64bits(file + index_at, 8 * n));
    mu_put_le64(foot + 24, XXH3_64bits_withSeed(foot, 24, hash));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    uint8_t *file = malloc(size);
    if (!file) return 0;
    memcpy(file, data + 1, size - 1);
    if (data[0] & 1) mend(file, size - 1);
    char path[32];
    const char *p = path;
    int fd = fuzz_file(file, size - 1, path);
    free(file);
    mu_arena a;
    mu_arena_init(&a, "fuzz");
    static const char *const labels[] = {"no", "yes"};
    const mu_known known = {.labels = labels, .n_labels = 2};
    fuzz_reader_known("record", fuzz_options(&a, "record", "file", &p), data[0] & 2 ? &known : NULL);
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
