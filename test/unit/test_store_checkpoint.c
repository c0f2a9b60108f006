// SPDX-License-Identifier: Apache-2.0
// Tests of store/checkpoint: what is kept, what is found again, what damage and failures do.
// Crashes are in test_store_crash.c.
#include "run_help.h"

#include <math.h>

static mu_ckpt_loaded *load(const char *dir) {
    mu_ckpt_loaded *c = NULL;
    assert_ok(mu_ckpt_load(dir, MU_CKPT_NEWEST, &c, err));
    return c;
}

static void assert_newest(const char *dir, int64_t step, float value) {
    mu_ckpt_loaded *c = load(dir);
    assert_int_equal(c->manifest->meta.step, step);
    float got = toy_value(c);
    if (got != value)
        fail_msg("step %lld holds %g, expected %g", (long long)step, (double)got, (double)value);
    mu_ckpt_unload(c);
}

static void assert_steps(const char *dir, const char *expected) {
    mu_ckpt_entry *list;
    size_t n;
    char text[400] = "";
    assert_ok(mu_ckpt_list(dir, &list, &n, err));
    for (size_t i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s ", list[i].name,
                 list[i].best ? "*" : "");
    mu_free(list);
    assert_string_equal(text, expected);
}

static void assert_record(const char *dir, const char *name, const char *expected) {
    char path[128], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(mu_fs_read(path, 100, &text, &n, err));
    assert_string_equal(text, expected);
    mu_free(text);
}

static void test_save_and_load(void **state) {
    (void)state;
    char dir[64], sub[128], exact[200], saved[MU_CKPT_NAME];
    snprintf(sub, sizeof sub, "%s/a/b", temp_dir(dir));
    mu_ckpt_loaded *c;
    assert_fails(mu_ckpt_load(sub, MU_CKPT_NEWEST, &c, err), MU_ENOTFOUND, "no checkpoint in");
    toy t;
    toy_fill(&t, 10, 1.5f);
    t.ckpt.meta.epoch = 2;
    t.ckpt.meta.sample = 77;
    assert_ok(mu_ckpt_save(sub, &t.ckpt, &(mu_ckpt_opts){.keep = 3}, saved, err));
    assert_string_equal(saved, "step-10");
    c = load(sub);
    assert_int_equal(c->manifest->meta.epoch, 2);
    assert_int_equal(c->manifest->meta.sample, 77);
    assert_int_equal(c->manifest->meta.seed, 7);
    assert_true(c->manifest->meta.job_hash == 0xfedcba9876543210u);
    assert_true(toy_value(c) == 1.5f);
    snprintf(exact, sizeof exact, "%.199s", c->path);
    mu_ckpt_unload(c);
    assert_ok(mu_ckpt_load(exact, MU_CKPT_BEST, &c, err)); // a step folder is itself
    mu_ckpt_unload(c);
    t.ckpt.n_slots = 0;
    t.ckpt.meta.step = t.ckpt.meta.version = 11;
    assert_ok(mu_ckpt_save(sub, &t.ckpt, &(mu_ckpt_opts){.keep = 3}, NULL, err));
    c = load(sub);
    assert_null(c->slots);
    mu_ckpt_unload(c);
    assert_fails(mu_ckpt_load(sub, MU_CKPT_BEST, &c, err), MU_ENOTFOUND, "marked as the best");
    assert_fails(mu_ckpt_save(sub, &t.ckpt, &(mu_ckpt_opts){.keep = 0}, NULL, err), MU_EUSAGE, "keep 0");
    remove_tree(dir);
}

static void test_keep_and_best(void **state) {
    (void)state;
    char dir[64];
    temp_dir(dir);
    for (int64_t step = 1; step <= 6; step++) assert_ok(toy_save(dir, step, (float)step, 3, step == 2, err));
    assert_steps(dir, "step-6 step-5 step-4 step-2* ");
    assert_record(dir, "LATEST", "step-6\n");
    assert_record(dir, "BEST", "step-2\n");
    mu_ckpt_loaded *c;
    assert_ok(mu_ckpt_load(dir, MU_CKPT_BEST, &c, err));
    assert_true(toy_value(c) == 2);
    mu_ckpt_unload(c);
    assert_ok(toy_save(dir, 7, 7, 3, true, err));
    assert_steps(dir, "step-7* step-6 step-5 ");
    // After a rollback versions are saved again, with other content: newest is what was saved last.
    assert_ok(toy_save(dir, 6, 60, 3, false, err));
    assert_steps(dir, "step-6-2 step-7* step-6 ");
    assert_newest(dir, 6, 60);
    assert_record(dir, "LATEST", "step-6-2\n");
    assert_ok(toy_save(dir, 6, 61, 1, true, err));
    assert_steps(dir, "step-6-3* ");
    assert_newest(dir, 6, 61);
    remove_tree(dir);
}

typedef struct seen { ino_t inode, manifest; } seen;

static seen look(const char *dir, const char *name) {
    struct stat model, manifest;
    char path[200];
    snprintf(path, sizeof path, "%s/%s/" MU_CKPT_MODEL, dir, name);
    assert_int_equal(stat(path, &model), 0);
    snprintf(path, sizeof path, "%s/%s/" MU_MANIFEST_NAME, dir, name);
    assert_int_equal(stat(path, &manifest), 0);
    return (seen){model.st_ino, manifest.st_ino};
}

// The folder of a name holds the same weights for good, whatever is saved later.
static void test_names_keep_their_weights(void **state) {
    (void)state;
    char dir[64], path[200];
    mu_ckpt_loaded *c;
    temp_dir(dir);
    assert_ok(toy_save(dir, 5, 5, 9, true, err));
    const seen first = look(dir, "step-5");
    assert_ok(toy_save(dir, 5, 50, 9, false, err)); // other weights
    assert_steps(dir, "step-5-2 step-5* ");
    toy t;
    toy_fill(&t, 5, 5); // the same weights: what is known about them is new, no file of theirs is
    t.ckpt.meta.epoch = 8;
    char saved[MU_CKPT_NAME];
    assert_ok(mu_ckpt_save(dir, &t.ckpt, &(mu_ckpt_opts){.keep = 9}, saved, err));
    assert_string_equal(saved, "step-5");
    assert_steps(dir, "step-5* step-5-2 ");
    const seen then = look(dir, "step-5");
    assert_true(then.inode == first.inode && then.manifest != first.manifest);
    assert_newest(dir, 5, 5);
    c = load(dir);
    assert_int_equal(c->manifest->meta.epoch, 8);
    mu_ckpt_unload(c);
    assert_ok(toy_save(dir, 5, 50, 9, false, err)); // found under its second name
    assert_steps(dir, "step-5-2 step-5* ");
    // A damaged folder gets its own weights back, and no others.
    snprintf(path, sizeof path, "%s/step-5/" MU_CKPT_MODEL, dir);
    assert_int_equal(truncate(path, 10), 0);
    assert_ok(toy_save(dir, 5, 51, 9, false, err));
    assert_steps(dir, "step-5-3 step-5-2 step-5* ");
    assert_fails(mu_ckpt_load(dir, MU_CKPT_BEST, &c, err), MU_EMODEL, "has 10 bytes");
    assert_ok(toy_save(dir, 5, 5, 9, false, err));
    assert_steps(dir, "step-5* step-5-3 step-5-2 ");
    assert_ok(mu_ckpt_load(dir, MU_CKPT_BEST, &c, err));
    assert_true(toy_value(c) == 5);
    mu_ckpt_unload(c);
    // One whose manifest cannot be read may be anybody's.
    snprintf(path, sizeof path, "%s/step-5-2/" MU_MANIFEST_NAME, dir);
    assert_int_equal(truncate(path, 10), 0);
    assert_ok(toy_save(dir, 5, 50, 9, false, err));
    assert_newest(dir, 5, 50);
    assert_steps(dir, "step-5-4 step-5* step-5-3 step-5-2 ");
    remove_tree(dir);
}

static void test_leftovers(void **state) {
    (void)state;
    char dir[64], path[200], path2[240];
    temp_dir(dir);
    assert_ok(toy_save(dir, 1, 1, 3, false, err));
    snprintf(path, sizeof path, "%s/step-9.tmp", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path2, sizeof path2, "%s/model.safetensors", path);
    write_file(path2, "half", 4);
    snprintf(path2, sizeof path2, "%s/LATEST", dir);
    write_file(path2, "step-999\n", 9); // a pointer to nothing changes nothing
    assert_newest(dir, 1, 1);
    assert_ok(toy_save(dir, 2, 2, 3, false, err));
    assert_int_equal(access(path, F_OK), -1);
    // Names that only look like checkpoints are not touched.
    snprintf(path, sizeof path, "%s/step-007", dir);
    assert_int_equal(mkdir(path, 0777), 0);
    static const char *const foreign[] = {"step-3-1",  "step-3-02", "step-3-2-2",
                                          "step-3--2", "step-3-",   "step-3-mine"};
    for (size_t i = 0; i < MU_COUNT(foreign); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, foreign[i]);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    assert_ok(toy_save(dir, 3, 3, 1, false, err));
    assert_steps(dir, "step-3 ");
    assert_int_equal(access(path, F_OK), 0);
    remove_tree(dir);
}

static void test_not_finite(void **state) {
    (void)state;
    char dir[64];
    toy t;
    temp_dir(dir);
    assert_ok(toy_save(dir, 1, 1, 1, false, err));
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        toy_fill(&t, 2, 2);
        t.b[5] = bad[i];
        assert_fails(mu_ckpt_save(dir, &t.ckpt, &(mu_ckpt_opts){.keep = 1}, NULL, err), MU_EDIVERGED,
                     "parameter `fc.bias`");
        toy_fill(&t, 2, 2);
        t.v[17] = bad[i];
        assert_fails(mu_ckpt_save(dir, &t.ckpt, &(mu_ckpt_opts){.keep = 1}, NULL, err), MU_EDIVERGED,
                     "element 17");
    }
    assert_steps(dir, "step-1 ");
    remove_tree(dir);
}

// Flips random bits in random files of the newest checkpoint: each is found, named, and survived.
static void test_bit_rot(void **state) {
    (void)state;
    static const char *const files[] = {MU_CKPT_MODEL, MU_CKPT_UPDATER, MU_MANIFEST_NAME};
    uint64_t seed = seed_from_env();
    int trials = getenv("MU_SLOW") ? 10000 : 400;
    char dir[64], step_dir[128], path[200];
    temp_dir(dir);
    assert_ok(toy_save(dir, 1, 1, 3, false, err));
    assert_ok(toy_save(dir, 2, 2, 3, false, err));
    snprintf(step_dir, sizeof step_dir, "%s/step-2", dir);
    for (int i = 0; i < trials; i++) {
        const char *file = files[next_random(&seed) % 3];
        snprintf(path, sizeof path, "%s/%s", step_dir, file);
        int fd = open(path, O_RDWR);
        off_t size = lseek(fd, 0, SEEK_END), at = (off_t)(next_random(&seed) % (uint64_t)size);
        unsigned char byte, flipped;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        flipped = (unsigned char)(byte ^ 1u << next_random(&seed) % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
        mu_err e = {0};
        mu_status s = mu_ckpt_verify(step_dir, &e);
        if (s != MU_EMODEL || !strstr(e.msg, file))
            fail_msg("%s byte %lld: %s: %s", file, (long long)at, mu_status_name(s), e.msg);
        if (i % 20 == 0) assert_newest(dir, 1, 1);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        close(fd);
    }
    assert_newest(dir, 2, 2);
    remove_tree(dir);
}

// What is logged while the newest checkpoint of `dir` is loaded.
static const char *warnings_of_load(const char *dir, int64_t step, float value) {
    static char text[2048];
    FILE *file = tmpfile();
    assert_non_null(file);
    mu_log_set_file(fileno(file));
    assert_newest(dir, step, value);
    mu_log_drop_file(fileno(file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

// Whichever file of the newest checkpoint is damaged, a warning names it and the one taken instead.
static void test_damage_is_named(void **state) {
    (void)state;
    static const char *const files[] = {MU_CKPT_MODEL, MU_CKPT_UPDATER, MU_MANIFEST_NAME};
    char dir[64], path[200], part[80];
    for (size_t i = 0; i < MU_COUNT(files); i++) {
        temp_dir(dir);
        for (int k = 1; k <= 3; k++) assert_ok(toy_save(dir, k, (float)k, 3, false, err));
        assert_string_equal(warnings_of_load(dir, 3, 3), "");
        snprintf(path, sizeof path, "%s/step-3/%s", dir, files[i]);
        write_file(path, "damaged", 7);
        const char *log = warnings_of_load(dir, 2, 2);
        snprintf(part, sizeof part, "step-3/%s", files[i]);
        if (!strstr(log, "skipping checkpoint") || !strstr(log, part) || !strstr(log, "step-2` instead"))
            fail_msg("%s damaged, but the log says: %s", files[i], log);
        remove_tree(dir);
    }
}

// A damaged record of the best checkpoint is not the same as none.
static void test_damaged_best(void **state) {
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        {"step-8\n", "BEST` names `step-8`, which is not there"},
        {"stxp-1\n", "BEST` is damaged: it does not name a checkpoint"},
        {"", "BEST` is damaged"},
    };
    char dir[64], path[80];
    temp_dir(dir);
    assert_ok(toy_save(dir, 1, 1, 3, true, err));
    snprintf(path, sizeof path, "%s/BEST", dir);
    mu_ckpt_loaded *c;
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        write_file(path, cases[i].text, strlen(cases[i].text));
        assert_fails(mu_ckpt_load(dir, MU_CKPT_BEST, &c, err), MU_EMODEL, cases[i].says);
    }
    assert_int_equal(unlink(path), 0);
    assert_fails(mu_ckpt_load(dir, MU_CKPT_BEST, &c, err), MU_ENOTFOUND, "marked as the best");
    remove_tree(dir);
}

static void test_damage_is_located(void **state) {
    (void)state;
    char dir[64], path[200];
    size_t n = (MU_DIGEST_CHUNK * 2 + 4096) / sizeof(float);
    float *big = calloc(n, sizeof *big);
    mu_st_tensor t = mu_st_f32("big", MU_SHAPE((int64_t)n), big);
    mu_ckpt c = {.meta = {.step = 1, .version = 1, .job_name = "x"}, .params = &t, .n_params = 1};
    temp_dir(dir);
    assert_ok(mu_ckpt_save(dir, &c, &(mu_ckpt_opts){.keep = 1}, NULL, err));
    snprintf(path, sizeof path, "%s/step-1/" MU_CKPT_MODEL, dir);
    int fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, (off_t)MU_DIGEST_CHUNK + 5), 1);
    mu_ckpt_loaded *l;
    snprintf(path, sizeof path, "%s/step-1", dir);
    assert_fails(mu_ckpt_load(path, MU_CKPT_NEWEST, &l, err), MU_EMODEL,
                 "damaged between byte 4194304 and 8388608");
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_fails(mu_ckpt_load(path, MU_CKPT_NEWEST, &l, err), MU_EMODEL, "has 100 bytes, but");
    assert_fails(mu_ckpt_load(dir, MU_CKPT_NEWEST, &l, err), MU_EMODEL, "none of the 1 checkpoints");
    close(fd);
    free(big);
    remove_tree(dir);
}

static int no_sync(int fd) { return (void)fd, 0; }

static void test_allocation_failures(void **state) {
    (void)state;
    char dir[64];
    mu_fs_ops ops = mu_fs_system;
    ops.fsync = no_sync; // hundreds of saves, and nobody pulls the plug
    mu_fs_set_ops(&ops);
    temp_dir(dir);
    assert_ok(toy_save(dir, 1, 1, 2, false, err));
    assert_ok(toy_save(dir, 2, 2, 2, false, err));
    uint64_t calls = mu_alloc_get_stats().n_calls;
    assert_ok(toy_save(dir, 3, 3, 2, true, err));
    int64_t n_save = (int64_t)(mu_alloc_get_stats().n_calls - calls);
    for (int64_t n = 1; n <= n_save; n++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_err e = {0};
        mu_alloc_fail_at(n);
        mu_status s = toy_save(dir, 3, (float)(n + 3), 2, true, &e);
        mu_alloc_fail_at(0);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (s != MU_OK && s != MU_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)n, mu_status_name(s), e.msg);
        mu_ckpt_unload(load(dir));
    }
    calls = mu_alloc_get_stats().n_calls;
    mu_ckpt_unload(load(dir));
    int64_t n_load = (int64_t)(mu_alloc_get_stats().n_calls - calls);
    for (int64_t n = 1; n <= n_load; n++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_ckpt_loaded *c = NULL;
        mu_alloc_fail_at(n);
        mu_status s = mu_ckpt_load(dir, MU_CKPT_NEWEST, &c, NULL);
        mu_alloc_fail_at(0);
        mu_ckpt_unload(c);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (s != MU_OK && s != MU_ENOMEM) fail_msg("allocation %lld: %s", (long long)n, mu_status_name(s));
    }
    assert_in_range(n_save, 100, 5000);
    assert_in_range(n_load, 50, 5000);
    mu_fs_set_ops(NULL);
    remove_tree(dir);
}

int main(void) {
    mu_log_set_level(MU_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_keep_and_best),
        cmocka_unit_test(test_names_keep_their_weights),
        cmocka_unit_test(test_leftovers),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_bit_rot),
        cmocka_unit_test(test_damage_is_named),
        cmocka_unit_test(test_damaged_best),
        cmocka_unit_test(test_damage_is_located),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests_name("store/checkpoint", tests, NULL, NULL);
}
