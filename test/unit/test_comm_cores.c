// SPDX-License-Identifier: Apache-2.0
// Tests of comm/cores: the list obeys the affinity mask, pinning pins, the round trip is a plausible time.
#include "comm_help.h"

#include "comm/cores.h"

#include <sched.h>

static void test_count(void **state) {
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_in_range(mu_cores_count(), 1, CPU_COUNT(&set));
}

// In a child, because the list is made once per process: a mask of one processor is one core.
static void child_of_one_core(void *arg) {
    (void)arg;
    cpu_set_t set;
    check(!sched_getaffinity(0, sizeof set, &set));
    size_t last = 0;
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set)) last = i;
    }
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    check(!sched_setaffinity(0, sizeof set, &set));
    check(mu_cores_count() == 1);
    check(mu_cores_pin(0) && mu_cores_pin(5));
    check(sched_getcpu() == (int)last);
    check(mu_cores_round_trip_ns(0, 1) == -1);  // there is no second core
}

static void child_pins(void *arg) {
    (void)arg;
    int n = mu_cores_count(), cpu[2] = {-1, -1};
    for (int i = 0; i < 2 * n; i++) {
        check(mu_cores_pin(i));
        cpu_set_t set;
        check(!sched_getaffinity(0, sizeof set, &set));
        check(CPU_COUNT(&set) == 1 && CPU_ISSET((size_t)sched_getcpu(), &set));
        if (i < 2) cpu[i] = sched_getcpu();
        if (i == n) check(n == 1 || sched_getcpu() == cpu[0]);  // modulo the count
    }
    check(n == 1 || cpu[0] != cpu[1]);
    check(mu_cores_count() == n);       // not the mask this thread has now
    check(mu_cores_pin(-1));
}

// Runs before anything else has made the list.
static void test_masks(void **state) {
    (void)state;
    assert_exits_0(spawn(child_of_one_core, NULL), 10);
    assert_exits_0(spawn(child_pins, NULL), 10);
}

static void test_round_trip(void **state) {
    (void)state;
    cpu_set_t before, after;
    if (mu_cores_count() < 2) {
        print_message("one core: no round trip\n");
        skip();
    }
    sched_getaffinity(0, sizeof before, &before);
    double begin = mu_clock_s(), ns = mu_cores_round_trip_ns(0, 1), took = mu_clock_s() - begin;
    print_message("round trip between cores 0 and 1: %.0f ns, measured in %.1f ms\n", ns, took * 1e3);
    // A busy machine may not let both threads run at once within the limit: that is said, not measured.
    if (ns != -1 && (ns < 10 || ns > 20e6)) fail_msg("round trip of %g ns", ns);
    if (took > 1) fail_msg("took %g s, promised well under 0.05 on a free machine", took);
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    assert_true(mu_cores_round_trip_ns(1, 1) == -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests_name("comm/cores", tests, NULL, NULL);
}
