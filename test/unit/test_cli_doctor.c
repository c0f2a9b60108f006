// SPDX-License-Identifier: Apache-2.0
// test_cli_doctor.c - the findings of `muster doctor` about machines good and bad, and its exit status.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "run/doctor.h"
#include "file/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const mu_verb_class mu_verb_doctor;

// advice NULL = there must be none.
static void expect(mu_finding *f, mu_finding_level want, const char *text, const char *advice) {
    if (f->level != want || !strstr(f->text, text))
        fail_msg("%s: `%s`, want %s: `%s`", mu_finding_level_name(f->level), f->text,
                 mu_finding_level_name(want), text);
    if (advice ? !strstr(f->advice, advice) : f->advice[0] != '\0')
        fail_msg("`%s` advises `%s`, want `%s`", f->text, f->advice, advice ? advice : "nothing");
    *f = (mu_finding){0};
}

static void processors(void **state) {
    (void)state;
    mu_finding f = {0};
    mu_check_cpu(&f, "P", 3, 3, false, "any", NULL);
    expect(&f, MU_FINDING_OK, "P; has x86-64-v3, kernels for v3 (the best it has)", NULL);
    mu_check_cpu(&f, "P", 4, 4, true, "any", NULL);
    expect(&f, MU_FINDING_OK, "P; has x86-64-v4, kernels for v4 (MUSTER_CPU)", NULL);
    mu_check_cpu(&f, "P", 4, 2, true, "any", NULL);
    expect(&f, MU_FINDING_NOTE, "has x86-64-v4, kernels for v2 (MUSTER_CPU)", "unset MUSTER_CPU");
    mu_check_cpu(&f, "P", 4, 0, false, "native", NULL);
    expect(&f, MU_FINDING_OK, "P; one level of kernels (MUSTER_ARCH=native)", NULL);
    mu_check_cpu(&f, "P", 3, 3, true, "any", &(mu_err){.msg = "it lacks something", .hint = "Buy one."});
    expect(&f, MU_FINDING_MISSING, "P; it lacks something", "Buy one.");
    mu_check_latency(&f, 140, 0, 1);
    expect(&f, MU_FINDING_OK, "140 ns there and back between cores 0 and 1", NULL);
    mu_check_latency(&f, 1001, 0, 64);
    expect(&f, MU_FINDING_NOTE, "cores 0 and 64", "far apart");
}

static void memory_and_disk(void **state) {
    (void)state;
    mu_finding f = {0};
    mu_check_memory(&f, 16, 1);
    expect(&f, MU_FINDING_OK, "16.0 GiB, 1.0 available", NULL);
    mu_check_memory(&f, 16, 0.9);
    expect(&f, MU_FINDING_NOTE, "0.9 available", "close other programs");
    mu_check_shm(&f, 0, 256);
    expect(&f, MU_FINDING_OK, "256 MiB free", NULL);
    mu_check_shm(&f, 0, 64);    // what a container gets when its owner asks for nothing else
    expect(&f, MU_FINDING_NOTE, "64 MiB free", "--shm-size");
    mu_check_shm(&f, ENOENT, 0);
    expect(&f, MU_FINDING_NOTE, "No such file", "mount a tmpfs");
    mu_check_folder(&f, 0, true, 10);
    expect(&f, MU_FINDING_OK, "writable, 10.0 GiB free", NULL);
    mu_check_folder(&f, 0, true, 0.5);
    expect(&f, MU_FINDING_NOTE, "0.5 GiB free", "need room");
    mu_check_folder(&f, 0, false, 10);
    expect(&f, MU_FINDING_NOTE, "no fsync", "power cut");
    mu_check_folder(&f, EACCES, false, 0);
    expect(&f, MU_FINDING_MISSING, "cannot be written: Permission denied", "--out");
}

static void libraries_and_data(void **state) {
    (void)state;
    mu_finding f = {0};
    mu_check_images(&f, true, true);
    expect(&f, MU_FINDING_OK, "PNG, JPEG", NULL);
    mu_check_images(&f, false, true);
    expect(&f, MU_FINDING_NOTE, "no PNG, JPEG", "libpng-dev");
    mu_check_images(&f, true, false);
    expect(&f, MU_FINDING_NOTE, "PNG, no JPEG", "libturbojpeg0-dev");
    mu_check_compression(&f, true, true);
    expect(&f, MU_FINDING_OK, "gzip, xz, zstd", NULL);
    mu_check_compression(&f, false, true);
    expect(&f, MU_FINDING_NOTE, "gzip, no xz, zstd", "liblzma-dev");
    mu_check_compression(&f, true, false);
    expect(&f, MU_FINDING_NOTE, "gzip, xz, no zstd", "libzstd-dev");
    mu_check_data(&f, true);
    expect(&f, MU_FINDING_OK, "Fashion-MNIST", NULL);
    mu_check_data(&f, false);
    expect(&f, MU_FINDING_NOTE, "no Fashion-MNIST", "dataset-fashion-mnist");
}

// ---- the verb, in a folder that is there and in one that is not ----

static char printed[8192];

static mu_status doctor(bool json, mu_err *err) {
    char values[16] = {0};
    mu_args a = {.json = json, .log_format = "text"};
    FILE *catch = tmpfile();
    assert_non_null(catch);
    assert_true(mu_verb_doctor.state_size <= sizeof values);
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    assert_true(before >= 0 && dup2(fileno(catch), STDOUT_FILENO) >= 0);
    mu_status st = mu_verb_doctor.run(&a, values, err);
    fflush(stdout);
    assert_true(dup2(before, STDOUT_FILENO) >= 0);
    close(before);
    rewind(catch);
    printed[fread(printed, 1, sizeof printed - 1, catch)] = '\0';
    fclose(catch);
    return st;
}

static const char *verdict_of(const char *check) {
    static char verdict[16];
    mu_json_init();
    json_t *root = json_loads(printed, 0, NULL);
    if (!root) fail_msg("no JSON: %s", printed);
    size_t i;
    json_t *item;
    verdict[0] = '\0';
    json_array_foreach(json_object_get(root, "checks"), i, item)
        if (!strcmp(json_string_value(json_object_get(item, "check")), check))
            snprintf(verdict, sizeof verdict, "%s", json_string_value(json_object_get(item, "verdict")));
    json_decref(root);
    return verdict;
}

static void a_missing_thing_is_the_exit_status(void **state) {
    (void)state;
    char here[1024], folder[] = "/tmp/muster-doctor-XXXXXX";
    mu_err err = {0};
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    mu_status good = doctor(true, &err);
    char good_verdict[16];
    snprintf(good_verdict, sizeof good_verdict, "%s", verdict_of("folder"));
    assert_int_equal(rmdir(folder), 0);         // nothing was left in it, and now it is gone
    mu_err_clear(&err);
    mu_status bad = doctor(true, &err);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(good, MU_OK);
    assert_string_not_equal(good_verdict, "missing");
    assert_int_equal(bad, MU_EUNSUPPORTED);
    assert_string_equal(err.msg, "1 check(s) failed");
    assert_string_equal(verdict_of("folder"), "missing");
    assert_string_not_equal(verdict_of("memory"), "");
    assert_string_equal(verdict_of("latency"), "");     // only when asked for
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processors),
        cmocka_unit_test(memory_and_disk),
        cmocka_unit_test(libraries_and_data),
        cmocka_unit_test(a_missing_thing_is_the_exit_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
