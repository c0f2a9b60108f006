// SPDX-License-Identifier: Apache-2.0
// data_help.h - shared by the tests of src/data: temporary files, and readers opened from key=value pairs.
#ifndef TEST_UNIT_DATA_HELP_H
#define TEST_UNIT_DATA_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline const mu_reader_class *reader_class(const char *name) {
    return (const mu_reader_class *)(const void *)mu_registry_find(&mu_readers, name);
}

// A folder of its own for one test program, removed at exit.
static char test_dir[64];
static inline void remove_test_dir(void) {
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", test_dir);
    if (system(cmd) != 0) fprintf(stderr, "cannot remove %s\n", test_dir);
}
static inline void make_test_dir(void) {
    strcpy(test_dir, "/tmp/muster-test-XXXXXX");
    if (!mkdtemp(test_dir)) abort();
    atexit(remove_test_dir);
}
static inline const char *test_path(const char *name) { // one of 8 rotating buffers
    static char buf[8][128];
    static int i;
    char *p = buf[i++ % 8];
    snprintf(p, sizeof buf[0], "%s/%s", test_dir, name);
    return p;
}
static inline const char *write_file(const char *name, const void *bytes, size_t n) {
    const char *p = test_path(name);
    FILE *f = fopen(p, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    return p;
}

#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        mu_status st_ = (call);                                                                    \
        if (st_ != MU_OK) fail_msg("%s: %s: %s", #call, mu_status_name(st_), (err)->msg);          \
    } while (0)
#define assert_status(call, want, err)                                                             \
    do {                                                                                           \
        mu_status st_ = (call);                                                                    \
        if (st_ != (want))                                                                         \
            fail_msg("%s: got %s (%s), want %s", #call, mu_status_name(st_), (err)->msg, mu_status_name(want)); \
    } while (0)
#define assert_says(err, text)                                                                     \
    do {                                                                                           \
        if (!strstr((err)->msg, (text))) fail_msg("message `%s` lacks `%s`", (err)->msg, (text));  \
    } while (0)

// Big-endian idx file: type, dims, then bytes.
static inline const char *write_idx(const char *name, int type, int n_dims, const uint32_t *dim, const void *data,
                                    size_t n) {
    uint8_t *b = malloc(4 + 4 * (size_t)n_dims + n);
    b[0] = b[1] = 0, b[2] = (uint8_t)type, b[3] = (uint8_t)n_dims;
    for (int i = 0; i < n_dims; i++)
        for (int k = 0; k < 4; k++) b[4 + 4 * i + k] = (uint8_t)(dim[i] >> (24 - 8 * k));
    memcpy(b + 4 + 4 * n_dims, data, n);
    const char *p = write_file(name, b, 4 + 4 * (size_t)n_dims + n);
    free(b);
    return p;
}

#endif
