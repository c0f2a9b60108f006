// SPDX-License-Identifier: Apache-2.0
// test_base_level.c - which level of instructions is chosen for which word and processor, and what it caps.
#include "base/level.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#ifdef MU_LEVELS

static void expect(const char *word, int cpu, mu_status want, int level, const char *text) {
    mu_err err;
    mu_err_clear(&err);
    int got = -1;
    const mu_status s = mu_level_parse(word, cpu, &got, &err);
    if (s != want || got != level)
        fail_msg("MUSTER_CPU=%s on v%d: %s, level %d, want %s, level %d", word ? word : "", cpu,
                 mu_status_name(s), got, mu_status_name(want), level);
    if (text && !strstr(err.msg, text)) fail_msg("`%s` lacks `%s`", err.msg, text);
    if (s) assert_true(err.hint[0] != '\0');
}

static void words_and_processors(void **state) {
    (void)state;
    for (int cpu = 2; cpu <= 4; cpu++) {
        expect(NULL, cpu, MU_OK, cpu, NULL);
        expect("", cpu, MU_OK, cpu, NULL);
        expect("v2", cpu, MU_OK, 2, NULL);
    }
    expect("v3", 4, MU_OK, 3, NULL);
    expect("v4", 4, MU_OK, 4, NULL);
    expect("v3", 2, MU_EUNSUPPORTED, -1, "MUSTER_CPU=v3, but this processor has only x86-64-v2");
    expect("v4", 3, MU_EUNSUPPORTED, -1, "only x86-64-v3");
    static const char *const wrong[] = {"v1", "v5", "3", "V3", "v3 ", "x86-64-v3", "native"};
    for (size_t i = 0; i < MU_COUNT(wrong); i++) expect(wrong[i], 4, MU_EUSAGE, -1, wrong[i]);
}

#else

static void words_and_processors(void **state) {
    (void)state;
    mu_err err;
    mu_err_clear(&err);
    int level = -1;
    assert_int_equal(mu_level_parse(NULL, 3, &level, &err), MU_OK);
    assert_int_equal(level, MU_LEVEL_ONLY);
    assert_int_equal(mu_level_parse("v2", 3, &level, &err), MU_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "built for one kind of processor"));
}

#endif

// The level of this process is what the environment asks for, or the processor's best.
static void the_process_has_a_level(void **state) {
    (void)state;
    const char *word = getenv("MUSTER_CPU");
    mu_err err;
    mu_err_clear(&err);
    assert_int_equal(mu_device_check_build(&err), MU_OK);
#ifdef MU_LEVELS
    if (word && *word) assert_string_equal(mu_level_name(mu_level()), word);
    else assert_int_equal(mu_level(), mu_level_of_cpu());
    assert_int_equal(mu_level_index(), mu_level() - MU_LEVEL_FIRST);
    assert_non_null(strstr(mu_level_suffix(), mu_level_name(mu_level())));
#else
    assert_true(!word || !*word);
    assert_int_equal(mu_level(), MU_LEVEL_ONLY);
    assert_string_equal(mu_level_suffix(), "");
#endif
}

static void core_types_of_openblas(void **state) {
    (void)state;
    unsetenv("OPENBLAS_CORETYPE");
    assert_false(mu_level_set_core_type(4));
    assert_null(getenv("OPENBLAS_CORETYPE"));
    assert_true(mu_level_set_core_type(3));
    assert_string_equal(getenv("OPENBLAS_CORETYPE"), "Haswell");
    assert_false(mu_level_set_core_type(2)); // somebody has said so already
    assert_string_equal(getenv("OPENBLAS_CORETYPE"), "Haswell");
    unsetenv("OPENBLAS_CORETYPE");
    assert_true(mu_level_set_core_type(2));
    assert_string_equal(getenv("OPENBLAS_CORETYPE"), "Nehalem");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_processors),
        cmocka_unit_test(the_process_has_a_level),
        cmocka_unit_test(core_types_of_openblas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
