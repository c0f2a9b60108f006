// SPDX-License-Identifier: Apache-2.0
// Chaos against real processes: a stand-in for a run whose parent replaces its children when they die.
#include "fake_run.h"

#include "watch/chaos.h"

enum { LEARNERS = 4 };

static fake_run fake;

static int set_up(void **state) {
    (void)state;
    fake_begin(&fake, LEARNERS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fake_end(&fake);
    return 0;
}

// ---- helpers ------------------------------------------------------------------------------------

typedef struct seen { int shots, recovered; double longest; int learner[64]; } seen;

static void on_shot(void *ctx, const mu_chaos_shot *s) {
    seen *n = ctx;
    if (n->shots < 64) n->learner[n->shots] = s->learner;
    n->shots++;
}

static void on_recovered(void *ctx, const char *what, int learner, double s) {
    seen *n = ctx;
    (void)what;
    (void)learner;
    n->recovered++;
    if (s > n->longest) n->longest = s;
}

static mu_chaos *begin(const char *text, uint64_t seed, seen *n) {
    mu_chaos_script script = {0};
    mu_chaos *c = NULL;
    mu_chaos_watch w = {n, on_shot, on_recovered};
    assert_ok(mu_chaos_parse(text, &script, err));
    assert_ok(mu_chaos_create(&script, seed, &fake.g, mu_clock_ns(), &w, &c, err));
    return c;
}

// Runs until it is done; fails after 20 s.
static mu_chaos_report run_out(mu_chaos *c) {
    int64_t limit = mu_clock_ns() + 20000000000;
    for (int64_t now = mu_clock_ns(); !mu_chaos_done(c, now); now = mu_clock_ns()) {
        assert_true(now < limit);
        int64_t next = mu_chaos_tick(c, now);
        assert_true(next > now && next <= now + 200000000);
        usleep((useconds_t)((next - now) / 1000));
    }
    mu_chaos_report r;
    mu_chaos_get_report(c, &r);
    return r;
}

static char state_of(pid_t pid) {
    char path[64], name[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return '-';
    if (fscanf(f, "%*d (%63[^)]) %c", name, &state) != 2) state = '?';
    fclose(f);
    return state;
}

// ---- tests --------------------------------------------------------------------------------------

static void test_storm(void **state) {
    (void)state;
    seen n = {0};
    mu_chaos *c = begin("kill learner random every ~8ms times 60", 7, &n);
    mu_chaos_report r = run_out(c);
    assert_int_equal(r.shots, 60);
    assert_int_equal(r.hits, 60);
    assert_int_equal(r.kills, 60);
    assert_int_equal(n.shots, 60);
    assert_int_equal(r.pending, 0);
    assert_true(r.replacements >= 50); // a learner killed before it lived is replaced without being seen
    assert_true(r.learner.n >= 20 && r.learner.n == n.recovered);
    assert_true(r.learner.p50_s > 0 && r.learner.p50_s <= r.learner.p99_s);
    assert_true(r.learner.p99_s <= r.learner.max_s);
    assert_true(r.learner.max_s == n.longest && r.learner.max_s < 5);
    int hit[LEARNERS] = {0};
    for (int i = 0; i < 60; i++) hit[n.learner[i]]++;
    for (int i = 0; i < LEARNERS; i++) assert_true(hit[i] >= 3); // 15 expected
    mu_chaos_destroy(c);
}

static void test_stop_and_continue(void **state) {
    (void)state;
    seen n = {0};
    mu_chaos *c = begin("stop learner 2 for 100ms", 1, &n);
    pid_t pid = atomic_load(&fake.g.learner[2].pid);
    mu_chaos_tick(c, mu_clock_ns());
    for (int i = 0; i < 1000 && state_of(pid) != 'T'; i++) usleep(1000);
    assert_int_equal(state_of(pid), 'T');
    mu_chaos_report r = run_out(c);
    for (int i = 0; i < 1000 && state_of(pid) == 'T'; i++) usleep(1000);
    assert_int_not_equal(state_of(pid), 'T');
    assert_int_equal(r.stops, 1);
    assert_int_equal(r.replacements, 0);
    mu_chaos_destroy(c);
}

// Whoever is still stopped or slowed when chaos ends goes on.
static void test_destroy_lets_go(void **state) {
    (void)state;
    seen n = {0};
    mu_chaos *c = begin("stop learner 0; slow learner 1 by 20ms; slow learner 3 by 1ms for 10s", 1, &n);
    pid_t pid = atomic_load(&fake.g.learner[0].pid);
    mu_chaos_tick(c, mu_clock_ns());
    assert_int_equal(atomic_load(&fake.g.learner[1].slow_us), 20000);
    assert_int_equal(atomic_load(&fake.g.learner[3].slow_us), 1000);
    atomic_store(&fake.g.learner[3].slow_us, 5); // somebody else's wish since then
    for (int i = 0; i < 1000 && state_of(pid) != 'T'; i++) usleep(1000);
    assert_int_equal(state_of(pid), 'T');
    mu_chaos_destroy(c);
    for (int i = 0; i < 1000 && state_of(pid) == 'T'; i++) usleep(1000);
    assert_int_not_equal(state_of(pid), 'T');
    assert_int_equal(atomic_load(&fake.g.learner[1].slow_us), 0);
    assert_int_equal(atomic_load(&fake.g.learner[3].slow_us), 5);
}

static void test_server_and_all(void **state) {
    (void)state;
    seen n = {0};
    mu_chaos *c = begin("kill server every 300ms times 3; kill all-learners at 20ms", 1, &n);
    mu_chaos_report r = run_out(c);
    assert_int_equal(r.shots, 4);
    assert_int_equal(r.hits, 3 + LEARNERS);
    assert_int_equal(r.server.n, 3);
    assert_int_equal(r.learner.n, LEARNERS);
    assert_int_equal(r.replacements, LEARNERS);
    mu_chaos_destroy(c);
}

// A pid in the table that is no child of the parent is left alone, and the shot waits.
static void test_foreigners_are_safe(void **state) {
    (void)state;
    seen n = {0};
    pid_t innocent = fork();
    assert_true(innocent >= 0);
    if (innocent == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) pause();
    }
    int32_t real = atomic_exchange(&fake.g.learner[1].pid, innocent);
    mu_chaos *c = begin("kill learner 1; stop learner 1", 1, &n);
    for (int i = 0; i < 5; i++) mu_chaos_tick(c, mu_clock_ns());
    assert_int_equal(n.shots, 0);
    assert_int_equal(kill(innocent, 0), 0);
    assert_int_not_equal(state_of(innocent), 'T');
    assert_int_not_equal(state_of(innocent), 'Z');
    atomic_store(&fake.g.learner[1].pid, 0); // being replaced: it waits as well
    mu_chaos_tick(c, mu_clock_ns());
    assert_int_equal(n.shots, 0);
    atomic_store(&fake.g.learner[1].pid, real);
    mu_chaos_tick(c, mu_clock_ns());
    assert_true(n.shots >= 1);
    mu_chaos_destroy(c);
    kill(innocent, SIGKILL);
    waitpid(innocent, NULL, 0);
}

static void test_ending_run_is_left_alone(void **state) {
    (void)state;
    seen n = {0};
    mu_chaos *c = begin("kill learner random every 1ms", 1, &n);
    atomic_store(&fake.g.head->state, MU_RUN_ENDING);
    usleep(3000);
    mu_chaos_tick(c, mu_clock_ns());
    assert_int_equal(n.shots, 0);
    assert_true(mu_chaos_done(c, mu_clock_ns()));
    mu_chaos_destroy(c);
}

static void test_refuses_what_is_not_there(void **state) {
    (void)state;
    mu_chaos_script script = {0};
    mu_chaos *c = NULL;
    assert_ok(mu_chaos_parse("kill learner 4", &script, err));
    assert_fails(mu_chaos_create(&script, 1, &fake.g, 0, NULL, &c, err), MU_EUSAGE, "learners 0 to 3, not 4");
    script.n = 0;
    assert_ok(mu_chaos_parse("kill server", &script, err));
    fake.g.head->setup.server_threads = 0;
    assert_fails(mu_chaos_create(&script, 1, &fake.g, 0, NULL, &c, err), MU_EUSAGE, "no server process");
    script.n = 0;
    assert_ok(mu_chaos_parse("kill learner 0", &script, err));
    for (int i = 1; i <= 2; i++) {
        mu_alloc_fail_at(i);
        assert_fails(mu_chaos_create(&script, 1, &fake.g, 0, NULL, &c, err), MU_ENOMEM, "out of memory");
    }
    mu_alloc_fail_at(0);
    assert_null(c);
}

// The same seed draws the same gaps: with a clock of our own nothing else decides.
static void test_seed_repeats(void **state) {
    (void)state;
    mu_chaos_script script = {0};
    assert_ok(mu_chaos_parse("kill judge every ~1ms", &script, err)); // nobody there: due, and waiting
    int64_t due[3];
    for (int i = 0; i < 3; i++) {
        mu_chaos *c = NULL;
        assert_ok(mu_chaos_create(&script, i < 2 ? 5 : 6, &fake.g, 1000, NULL, &c, err));
        due[i] = mu_chaos_tick(c, 1000);
        mu_chaos_destroy(c);
    }
    assert_int_equal(due[0], due[1]);
    assert_int_not_equal(due[0], due[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_storm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stop_and_continue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_destroy_lets_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_server_and_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_foreigners_are_safe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ending_run_is_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_what_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_seed_repeats, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
