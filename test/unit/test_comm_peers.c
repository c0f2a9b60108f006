// SPDX-License-Identifier: Apache-2.0
// test_comm_peers.c - who is lost, when and why; when a heartbeat is due; that time in which nobody listened
// counts for nothing.
#include "comm_help.h"

#include "comm/peers.h"

static const mu_peers_terms terms = {.heartbeat_ns = 100, .lost_ns = 1000, .begin_ns = 5000};

static mu_peers make(int n) {
    mu_peers p;
    assert_ok(mu_peers_init(&p, 0, n, &terms, 0, err));
    return p;
}

// Looks every 50 until `until`; the first that is lost, -1 = none.
static int look(mu_peers *p, int64_t *now, int64_t until) {
    while (*now < until) {
        *now += 50;
        const int lost = mu_peers_look(p, *now);
        if (lost >= 0) return lost;
    }
    return -1;
}

static void test_lost(void **unused) {
    (void)unused;
    mu_peers p = make(4);
    int64_t now = 0;
    mu_peers_heard(&p, 1), mu_peers_heard(&p, 2);
    assert_int_equal(p.peer[1].life, MU_PEER_ALIVE);
    assert_int_equal(look(&p, &now, 1000), -1);
    mu_peers_heard(&p, 2);
    assert_int_equal(look(&p, &now, 2000), 1);
    assert_int_equal(now, 1050);
    assert_int_equal(p.peer[1].life, MU_PEER_LOST);
    assert_string_equal(p.peer[1].why, "silent for 0.0 s");
    mu_peers_heard(&p, 1); // comes too late
    assert_int_equal(p.peer[1].life, MU_PEER_LOST);
    assert_int_equal(look(&p, &now, 4000), 2); // each is told once
    assert_int_equal(now, 2050);
    assert_int_equal(look(&p, &now, 9000), 3); // never heard of: by the other limit
    assert_int_equal(now, 5050);
    assert_non_null(strstr(p.peer[3].why, "not heard of"));
    assert_int_equal(look(&p, &now, 90000), -1);
    mu_peers_fini(&p);
}

static void test_others_know(void **unused) {
    (void)unused;
    mu_peers p = make(4);
    int64_t now = 0;
    mu_peers_lose(&p, 2, "rank 3 says so");
    mu_peers_lose(&p, 2, "again");
    mu_peers_ended(&p, 1);
    mu_peers_lose(&p, 1, "it has ended before");
    assert_int_equal(look(&p, &now, 50), 2);
    assert_string_equal(p.peer[2].why, "rank 3 says so");
    assert_int_equal(p.peer[1].life, MU_PEER_ENDED);
    mu_peers_ended(&p, 2);
    assert_int_equal(p.peer[2].life, MU_PEER_LOST);
    assert_int_equal(look(&p, &now, 4000), -1);
    mu_peers_fini(&p);
}

static void test_stopped_itself(void **unused) {
    (void)unused;
    mu_peers p = make(2);
    mu_peers_heard(&p, 1);
    assert_int_equal(mu_peers_look(&p, 100), -1);
    assert_int_equal(mu_peers_look(&p, 1000000), -1); // this one stood still, not the other
    int64_t now = 1000000;
    assert_int_equal(look(&p, &now, 2000000), 1);
    assert_int_equal(now, 1000000 + 850); // 200 were listened before
    mu_peers_fini(&p);
}

static void test_due(void **unused) {
    (void)unused;
    mu_peers p = make(4);
    assert_int_equal(mu_peers_due(&p, 0), 1); // at once, to all
    assert_int_equal(mu_peers_due(&p, 0), 1);
    for (int i = 1; i < 4; i++) mu_peers_sent(&p, i, 10 * i);
    assert_int_equal(mu_peers_due(&p, 109), -1);
    assert_int_equal(mu_peers_rest(&p, 60), 50);
    assert_int_equal(mu_peers_due(&p, 110), 1);
    assert_int_equal(mu_peers_rest(&p, 115), 0);
    mu_peers_ended(&p, 1);
    assert_int_equal(mu_peers_due(&p, 125), 2);
    mu_peers_lose(&p, 2, "x");
    assert_int_equal(mu_peers_due(&p, 125), -1);
    mu_peers_sent(&p, 3, 10000);
    int64_t now = 0;
    assert_int_equal(look(&p, &now, 4950), 2);
    assert_int_equal(look(&p, &now, 4950), -1);
    assert_int_equal(mu_peers_rest(&p, now), 51); // rank 3 may be lost then
    mu_peers_lose(&p, 3, "x");
    assert_int_equal(mu_peers_rest(&p, now), 100); // nobody is left to watch
    mu_peers_fini(&p);
}

static void test_out_of_memory(void **unused) {
    (void)unused;
    mu_peers p;
    mu_alloc_fail_at(1);
    assert_fails(mu_peers_init(&p, 0, 3, &terms, 0, err), MU_ENOMEM, "ranks");
    mu_alloc_fail_at(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lost),           cmocka_unit_test(test_others_know),
        cmocka_unit_test(test_stopped_itself), cmocka_unit_test(test_due),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
