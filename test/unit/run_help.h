// SPDX-License-Identifier: Apache-2.0
// run_help.h - what the tests of src/run's files share: a folder of their own, asserts that show the error
// context, and one small training state whose content says which step it belongs to.
#ifndef MU_TEST_RUN_HELP_H
#define MU_TEST_RUN_HELP_H

// cmocka wants these before itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "store/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        mu_err e_ = {0};                                                                                     \
        mu_err *err = &e_;                                                                                   \
        mu_status s_ = (call);                                                                               \
        if (s_ != MU_OK) fail_msg("%s: %s: %s (%s)", #call, mu_status_name(s_), e_.msg, e_.note);            \
    } while (0)

// The call (with `err`) must give this status and a message that contains `text`.
#define assert_fails(call, status, text)                                                                     \
    do {                                                                                                     \
        mu_err e_ = {0};                                                                                     \
        mu_err *err = &e_;                                                                                   \
        mu_status s_ = (call);                                                                               \
        if (s_ != (status) || !strstr(e_.msg, (text)))                                                       \
            fail_msg("%s: got %s: `%s`, expected %s: `%s`", #call, mu_status_name(s_), e_.msg,               \
                     mu_status_name(status), (text));                                                        \
    } while (0)

// In double, unlike cmocka's assert_float_equal.
#define assert_near(got, want, slack)                                                                        \
    do {                                                                                                     \
        double g_ = (got), w_ = (want), t_ = (slack);                                                        \
        if (!(g_ - w_ <= t_ && w_ - g_ <= t_))                                                               \
            fail_msg("%s: %.12g, expected %.12g within %g", #got, g_, w_, t_);                               \
    } while (0)

MU_UNUSED static int rm_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

MU_UNUSED static void remove_tree(const char *path) { nftw(path, rm_one, 16, FTW_DEPTH | FTW_PHYS); }

// A new folder below the working directory; the caller removes it with remove_tree.
MU_UNUSED static const char *temp_dir(char out[64]) {
    snprintf(out, 64, "run-test-XXXXXX");
    if (!mkdtemp(out)) fail_msg("mkdtemp: %s", strerror(errno));
    return out;
}

MU_UNUSED static void write_file(const char *path, const void *data, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

// xorshift: tests print their seed, so a failing run can be repeated.
MU_UNUSED static uint64_t next_random(uint64_t *s) {
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

MU_UNUSED static uint64_t seed_from_env(void) {
    const char *text = getenv("MU_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + (uint64_t)getpid();
    print_message("seed %llu (repeat with MU_SEED)\n", (unsigned long long)seed);
    return seed ? seed : 1;
}

// ---- a training state: every array holds `value`, so that a mixture of two states shows ----

typedef struct toy {
    float w[6 * 5], b[6], v[6 * 5];
    mu_st_tensor params[2], slots[1];
    mu_ckpt_number n[1];
    mu_ckpt ckpt;
} toy;

MU_UNUSED static void toy_fill(toy *t, int64_t step, float value) {
    for (size_t i = 0; i < 30; i++) t->w[i] = value, t->v[i] = -value;
    for (size_t i = 0; i < 6; i++) t->b[i] = value;
    t->params[0] = mu_st_f32("fc.weight", MU_SHAPE(6, 5), t->w);
    t->params[1] = mu_st_f32("fc.bias", MU_SHAPE(6), t->b);
    t->slots[0] = mu_st_f32("fc.weight/velocity", MU_SHAPE(6, 5), t->v);
    t->n[0] = (mu_ckpt_number){"value", (double)value};
    t->ckpt = (mu_ckpt){.meta = {.step = step,
                                 .version = step,
                                 .seed = 7,
                                 .job_hash = 0xfedcba9876543210u,
                                 .job_name = "toy",
                                 .numbers = t->n,
                                 .n_numbers = 1},
                        .params = t->params,
                        .n_params = 2,
                        .slots = t->slots,
                        .n_slots = 1};
}

MU_UNUSED static mu_status toy_save(const char *dir, int64_t step, float value, int64_t keep, bool best,
                                    mu_err *err) {
    toy t;
    toy_fill(&t, step, value);
    return mu_ckpt_save(dir, &t.ckpt, &(mu_ckpt_opts){.keep = keep, .best = best}, NULL, err);
}

// The value of a loaded state; fails when its parts do not belong together.
MU_UNUSED static float toy_value(const mu_ckpt_loaded *c) {
    float w[30], b[6], v[30];
    float value = (float)mu_ckpt_meta_number(&c->manifest->meta, "value", -1);
    assert_ok(mu_st_copy_f32(mu_st_find(c->params, "fc.weight"), &MU_SHAPE(6, 5), w, err));
    assert_ok(mu_st_copy_f32(mu_st_find(c->params, "fc.bias"), &MU_SHAPE(6), b, err));
    assert_ok(mu_st_copy_f32(mu_st_find(c->slots, "fc.weight/velocity"), &MU_SHAPE(6, 5), v, err));
    for (size_t i = 0; i < 30; i++)
        if (w[i] != value || v[i] != -value || b[i % 6] != value)
            fail_msg("a mixture: value %g, w %g, v %g, b %g", (double)value, (double)w[i], (double)v[i],
                     (double)b[i % 6]);
    return value;
}

#endif
