// SPDX-License-Identifier: Apache-2.0
// Tests of store/events: known answers for checksums and records, and a file read back record by record.
#include "run_help.h"

#include "store/events.h"

#include <dirent.h>

static void assert_hex(const unsigned char *p, size_t n, const char *expected) {
    char text[400] = "";
    for (size_t i = 0; i < n && i < 199; i++) sprintf(text + 2 * i, "%02x", p[i]);
    assert_string_equal(text, expected);
}

static void test_crc32c(void **state) {
    (void)state;
    unsigned char zeros[32] = {0}, ones[32], rising[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++) rising[i] = (unsigned char)i;
    assert_int_equal(mu_crc32c("123456789", 9), 0xE3069283u);
    assert_int_equal(mu_crc32c(zeros, 32), 0x8A9136AAu); // RFC 3720 B.4
    assert_int_equal(mu_crc32c(ones, 32), 0x62A8AB43u);
    assert_int_equal(mu_crc32c(rising, 32), 0x46DD794Eu);
    assert_int_equal(mu_crc32c("", 0), 0);
}

static void test_known_records(void **state) {
    (void)state;
    unsigned char record[200];
    size_t n = mu_events_encode_header(1.0, record, sizeof record);
    assert_hex(record, n, "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
    n = mu_events_encode(2.0, 1, &(mu_scalar){"loss", 0.5f}, 1, record, sizeof record);
    assert_hex(record, n,
               "1a00000000000000129bd82d09000000000000004010012a0d0a0b0a046c6f7373150000003fe20576ce");
    // Exactly fitting is enough, one byte less is not.
    assert_int_equal(mu_events_encode(2.0, 1, &(mu_scalar){"loss", 0.5f}, 1, record, n), n);
    assert_int_equal(mu_events_encode(2.0, 1, &(mu_scalar){"loss", 0.5f}, 1, record, n - 1), 0);
    assert_int_equal(mu_events_encode_header(1.0, record, 39), 0);
}

static uint64_t le(const unsigned char *p, int n) {
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static uint64_t varint(const unsigned char **p) {
    uint64_t v = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char c = *(*p)++;
        v |= (uint64_t)(c & 0x7F) << shift;
        if (!(c & 0x80)) return v;
    }
}

static void test_file(void **state) {
    (void)state;
    char dir[64], sub[100], path[400] = "", long_tag[200], *text;
    size_t size;
    memset(long_tag, 't', sizeof long_tag - 1);
    long_tag[sizeof long_tag - 1] = '\0';
    snprintf(sub, sizeof sub, "%s/train", temp_dir(dir));
    mu_events *e, *second;
    assert_ok(mu_events_open(sub, &e, err));
    assert_ok(mu_events_open(sub, &second, err)); // same second, same process: another name
    mu_events_close(second);
    const mu_scalar scalars[] = {{MU_TAG_TRAIN_LOSS, 0.25f}, {long_tag, -1}, {MU_TAG_LR, 1e-3f}};
    uint64_t calls = mu_alloc_get_stats().n_calls;
    for (int64_t step = 0; step < 300; step += 100) assert_ok(mu_events_write(e, step, scalars, 3, err));
    assert_int_equal(mu_alloc_get_stats().n_calls, calls);
    mu_scalar many[100];
    for (int i = 0; i < 100; i++) many[i] = scalars[1];
    assert_fails(mu_events_write(e, 1, many, 100, err), MU_EUSAGE, "longer than 8192");
    mu_events_close(e);

    DIR *d = opendir(sub);
    for (struct dirent *x; (x = readdir(d));)
        if (strstr(x->d_name, "events.out.tfevents.") && x->d_name[strlen(x->d_name) - 1] == '0')
            snprintf(path, sizeof path, "%s/%s", sub, x->d_name);
    closedir(d);
    assert_ok(mu_fs_read(path, 10000, &text, &size, err));
    const unsigned char *p = (unsigned char *)text, *end = p + size;
    for (int64_t record = -1; record < 3; record++) {
        uint64_t n = le(p, 8);
        assert_int_equal(le(p + 8, 4), mu_crc32c_masked(p, 8));
        assert_int_equal(le(p + 12 + n, 4), mu_crc32c_masked(p + 12, n));
        if (record >= 0) { // wall time, step, summary length; then the first value's tag
            const unsigned char *q = p + 12 + 9;
            assert_int_equal(*q++, 2 << 3);
            assert_int_equal(varint(&q), 100 * record);
            assert_int_equal(*q++, 5 << 3 | 2);
            uint64_t summary = varint(&q);
            assert_int_equal(summary, p + 12 + n - q);
            assert_int_equal(*q++, 1 << 3 | 2);
            uint64_t value = varint(&q);
            assert_int_equal(value, 2 + strlen(MU_TAG_TRAIN_LOSS) + 5);
            assert_memory_equal(q + 2, MU_TAG_TRAIN_LOSS, strlen(MU_TAG_TRAIN_LOSS));
        }
        p += n + 16;
    }
    assert_ptr_equal(p, end);
    mu_free(text);
    remove_tree(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_known_records),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests_name("store/events", tests, NULL, NULL);
}
