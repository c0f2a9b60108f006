// SPDX-License-Identifier: Apache-2.0
// fuzz_record.c - libFuzzer target: any bytes as a record file.
//
// Checksums would keep the fuzzer out of everything behind them, so with an odd first byte they are
// put right before the file is read: header, index, footer and, when they can be found, all records.
#include "file/infile.h"
#include "read/record.h"
#include "fuzz_data.h"

#include <xxhash.h>

static void mend_records(uint8_t *file, const uint8_t *index, uint64_t n, uint64_t index_at) {
    uint64_t first = mu_le64(index), step = n > 1 ? mu_le64(index + 8) - first : index_at - first;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = mu_le64(index + 8 * i);
        if (step < 16 || at > index_at || index_at - at < step) return;
        mu_put_le64(file + at + step - 8, XXH3_64bits_withSeed(file + at, step - 8, i));
    }
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
    if (n) mend_records(file, file + index_at, n, index_at);
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
    fuzz_reader("record", fuzz_options(&a, "record", "file", &p));
    mu_arena_fini(&a);
    close(fd);
    return 0;
}
