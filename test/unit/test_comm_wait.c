// SPDX-License-Identifier: Apache-2.0
// Tests of comm/wait: ping-pong between processes and between threads with sleeping, time-outs, deaths.
//
// A lost ring shows as a wait that lasts its whole time-out; none is allowed.
#include "comm_help.h"

#include "comm/wait.h"

#include <pthread.h>

enum { TURNS = 10000 };

typedef struct court {          // two players and a ball, each player with a bell of its own
    _Alignas(64) mu_bell bell[2];
    _Alignas(64) _Atomic int ball;      // whose turn: ball % 2
    _Atomic int timeouts;
    int64_t spin_ns;
    int turns;
    int plain;                  // not atomic: the bell must order it
} court;

static bool play(court *c, int me) {
    for (int k = me; k < c->turns; k += 2) {
        for (;;) {
            uint32_t seen = mu_bell_read(&c->bell[me]);
            if (atomic_load_explicit(&c->ball, memory_order_acquire) >= k) break;
            if (!mu_bell_wait(&c->bell[me], seen, c->spin_ns, 5000 * MS)) {
                atomic_fetch_add(&c->timeouts, 1);
                return false;
            }
        }
        if (c->plain != k) return false;
        c->plain = k + 1;
        atomic_store_explicit(&c->ball, k + 1, memory_order_release);
        mu_bell_ring(&c->bell[1 - me]);
    }
    return true;
}

static void child_plays(void *arg) { check(play(arg, 1)); }

static void *thread_plays(void *arg) { return play(arg, 1) ? arg : NULL; }

static void across_processes(int64_t spin_ns) {
    court *c = shared(sizeof *c);
    c->spin_ns = spin_ns;
    c->turns = TURNS;
    pid_t child = spawn(child_plays, c);
    bool done = play(c, 0);
    if (!done) fail_msg("lost at turn %d, %d time-outs", c->plain, atomic_load(&c->timeouts));
    assert_exits_0(child, 20);
    assert_int_equal(c->plain, TURNS);
    assert_int_equal(atomic_load(&c->timeouts), 0);
    assert_int_equal(atomic_load(&c->bell[0].sleepers), 0);
    assert_int_equal(atomic_load(&c->bell[1].sleepers), 0);
    munmap(c, sizeof *c);
}

static void test_processes_sleeping(void **state) {
    (void)state;
    across_processes(0);
}

static void test_processes_spinning_then_sleeping(void **state) {
    (void)state;
    across_processes(3000);
}

static void test_threads(void **state) {
    (void)state;
    court *c = shared(sizeof *c);
    c->spin_ns = 1000;
    c->turns = TURNS / 4;
    pthread_t t;
    void *result;
    assert_int_equal(pthread_create(&t, NULL, thread_plays, c), 0);
    bool done = play(c, 0);
    pthread_join(t, &result);
    assert_true(done);
    assert_non_null(result);
    assert_int_equal(c->plain, c->turns);
    munmap(c, sizeof *c);
}

static void test_timeout(void **state) {
    (void)state;
    mu_bell b = {0};
    double begin = mu_clock_s();
    assert_false(mu_bell_wait(&b, 0, 1 * MS, 30 * MS));
    double took = mu_clock_s() - begin;
    if (took < 0.029 || took > 2) fail_msg("waited %g s, expected 0.03", took);
    assert_false(mu_bell_wait(&b, 0, 100 * MS, 5 * MS));        // spinning is bounded by the time-out
    assert_false(mu_bell_wait(&b, 0, 0, 0));
    assert_false(mu_bell_wait(&b, 0, 0, -1));
    assert_int_equal(atomic_load(&b.sleepers), 0);
    mu_bell_ring(&b);
    assert_true(mu_bell_wait(&b, 0, 0, 0));
    assert_true(mu_bell_wait(&b, 0, INT64_MAX, INT64_MAX));     // no overflow, no wait
}

typedef struct hall { mu_bell bell; _Atomic int awake; } hall;

static void child_sleeps(void *arg) {
    hall *h = arg;
    check(mu_bell_wait(&h->bell, 0, 0, 20000 * MS));
    atomic_fetch_add(&h->awake, 1);
}

// One ring wakes all; sleepers that were killed leave a count too high, which costs a call and nothing else.
static void test_all_wake_after_deaths(void **state) {
    (void)state;
    hall *h = shared(sizeof *h);
    pid_t victim[3], sleeper[4];
    for (size_t i = 0; i < MU_COUNT(victim); i++) victim[i] = spawn(child_sleeps, h);
    await_at_least(&h->bell.sleepers, 3u, 10);
    for (size_t i = 0; i < MU_COUNT(victim); i++) {
        kill(victim[i], SIGKILL);
        assert_true(WIFSIGNALED(ended(victim[i], 10)));
    }
    for (size_t i = 0; i < MU_COUNT(sleeper); i++) sleeper[i] = spawn(child_sleeps, h);
    await_at_least(&h->bell.sleepers, 7u, 10);
    mu_bell_ring(&h->bell);
    for (size_t i = 0; i < MU_COUNT(sleeper); i++) assert_exits_0(sleeper[i], 10);
    assert_int_equal(atomic_load(&h->awake), 4);
    assert_int_equal(atomic_load(&h->bell.sleepers), 3);
    munmap(h, sizeof *h);
}

static void on_alarm(int signo) { (void)signo; }

static void test_signal_returns_early(void **state) {
    (void)state;
    mu_bell b = {0};
    struct sigaction act = {.sa_handler = on_alarm}, before;
    sigaction(SIGALRM, &act, &before);
    ualarm(20000, 20000);               // again and again: the first may come before the sleep
    double begin = mu_clock_s();
    bool news = mu_bell_wait(&b, 0, 0, 20000 * MS);
    double took = mu_clock_s() - begin;
    ualarm(0, 0);
    sigaction(SIGALRM, &before, NULL);
    assert_true(news);
    if (took > 10) fail_msg("a signal did not end the wait: %g s", took);
    assert_int_equal(atomic_load(&b.sleepers), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_processes_sleeping),
        cmocka_unit_test(test_processes_spinning_then_sleeping),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_all_wake_after_deaths),
        cmocka_unit_test(test_signal_returns_early),
    };
    return cmocka_run_group_tests_name("comm/wait", tests, NULL, NULL);
}
