// SPDX-License-Identifier: Apache-2.0
// test_device_cpu.c - the CPU device: its properties, its memory, its probes.
#include "base/alloc.h"
#include "device/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void props_are_filled(void **state) {
    (void)state;
    mu_device *d = mu_device_cpu();
    mu_device_props p;
    d->class->props(d, &p);
    assert_true(strlen(p.model) > 0 && strlen(p.isa) > 0);
    assert_in_range(p.n_cores, 1, 1 << 16);
    assert_true(p.memory_bytes > (int64_t)1 << 20);
}

static void blocks_are_zeroed_and_page_aligned(void **state) {
    (void)state;
    mu_device *d = mu_device_cpu();
    uint64_t live = mu_alloc_get_stats().n_live;
    unsigned char *p = d->class->alloc(d, 10000, "test"), *q = d->class->alloc(d, 10000, "test");
    assert_non_null(p);
    assert_non_null(q);
    assert_int_equal((uintptr_t)p % 4096, 0);
    for (int i = 0; i < 10000; i++) assert_int_equal(p[i], 0);
    memset(q, 7, 10000);
    assert_int_equal(p[9999], 0);
    d->class->free(d, p);
    d->class->free(d, q);
    assert_int_equal(mu_alloc_get_stats().n_live, live);
}

static void no_memory_is_null(void **state) {
    (void)state;
    mu_device *d = mu_device_cpu();
    mu_alloc_fail_at(1);
    void *p = d->class->alloc(d, 100, "test");
    mu_alloc_fail_at(0);
    assert_null(p);
}

static void this_machine_fits_its_build(void **state) {
    (void)state;
    mu_err err;
    mu_err_clear(&err);
    assert_int_equal(mu_device_check_build(&err), MU_OK);
}

// What a build asks of a processor, as told to a processor that lacks one thing after the other.
static const char *asked[16], *lacking;
static int n_asked;

static bool has_all_but_one(const char *feature) {
    if (lacking) return strcmp(feature, lacking) != 0;
    assert_true(n_asked < (int)MU_COUNT(asked));
    asked[n_asked++] = feature;
    return true;
}

static void a_foreign_processor_is_refused(void **state) {
    (void)state;
    mu_err err;
    mu_err_clear(&err);
    lacking = NULL;
    n_asked = 0;
    assert_int_equal(mu_device_check_build_on(has_all_but_one, &err), MU_OK);
    if (!n_asked) {
        print_message("skipped: this build needs nothing special\n");
        skip();
    }
    for (int i = 0; i < n_asked; i++) {
        char want[120];
        lacking = asked[i];
        mu_err_clear(&err);
        assert_int_equal(mu_device_check_build_on(has_all_but_one, &err), MU_EUNSUPPORTED);
        snprintf(want, sizeof want, "built for processors with %s, this one lacks it", lacking);
        if (!strstr(err.msg, want)) fail_msg("`%s` lacks `%s`", err.msg, want);
        assert_non_null(strstr(err.hint, "MUSTER_ARCH"));
    }
}

static void probes_are_plausible_and_remembered(void **state) {
    (void)state;
    double peak = mu_device_cpu_peak_gflops(), stream = mu_device_cpu_stream_gbs();
    print_message("peak %.1f GFLOP/s, stream %.1f GB/s\n", peak, stream);
    assert_true(peak > 0.05 && peak < 2000);
    assert_true(stream > 0.05 && stream < 2000);
    assert_true(peak == mu_device_cpu_peak_gflops());
    assert_true(stream == mu_device_cpu_stream_gbs());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(props_are_filled),
        cmocka_unit_test(blocks_are_zeroed_and_page_aligned),
        cmocka_unit_test(no_memory_is_null),
        cmocka_unit_test(this_machine_fits_its_build),
        cmocka_unit_test(a_foreign_processor_is_refused),
        cmocka_unit_test(probes_are_plausible_and_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
