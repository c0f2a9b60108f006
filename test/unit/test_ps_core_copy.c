// SPDX-License-Identifier: Apache-2.0
// test_ps_core_copy.c - the spare copy of the core: what an event changed, and no more, is copied before the
// next one; and after changes in vain both copies are the same again.
#include "unit/core_rig.h"

#include "base/attr.h"

typedef struct pair {
    rig r;          // r.c is the copy that events are made in
    mu_core *good;
    size_t events, bytes, most;
} pair;

static pair pair_make(const mu_core_config *config) {
    pair p = {.good = malloc(mu_core_size(config->learners))};
    p.r.c = calloc(1, mu_core_size(config->learners));
    assert_non_null(p.good);
    assert_non_null(p.r.c);
    mu_core_init(p.good, config);
    (void)mu_core_catch_up(p.r.c, p.good);
    return p;
}

static void pair_fini(pair *p) {
    free(p->good);
    rig_fini(&p->r);
}

static void commit(pair *p) {
    mu_core *spare = p->good;
    p->good = p->r.c;
    p->r.c = spare;
    mu_core_retire(spare);
    const size_t n = mu_core_catch_up(spare, p->good);
    p->events++;
    p->bytes += n;
    p->most = n > p->most ? n : p->most;
}

static void assert_same_cores(const pair *p) {
    const mu_core *a = p->good, *b = p->r.c;
    const size_t noted = offsetof(mu_core, n_touched);
    assert_memory_equal(a, b, noted);
    assert_memory_equal(mu_core_learner_at(a, 0), mu_core_learner_at(b, 0),
                        (size_t)a->config.learners * sizeof(mu_core_learner));
    for (int i = 0; i < a->n_parts + a->fifo_n; i++)
        assert_memory_equal(mu_core_part_at(a, i), mu_core_part_at(b, i), sizeof(mu_core_part));
}

// Every learner in turn leases, asks and pushes, and each gradient is applied.
static void train(pair *p, int rounds, bool compare) {
    const int learners = p->good->config.learners;
    uint32_t *incarnation = calloc((size_t)learners, sizeof *incarnation);
    for (int round = 0; round < rounds; round++)
        for (int l = 0; l < learners; l++) {
            mu_lease lease;
            bool ended;
            mu_grant g;
            if (round == 0) incarnation[l] = mu_core_join(p->r.c, l), commit(p);
            if (mu_core_lease(p->r.c, l, &lease, &ended)) commit(p);
            assert_int_equal(mu_core_ask(p->r.c, l, incarnation[l], &g), MU_GO);
            commit(p);
            const mu_gradient_id id = {l, incarnation[l], g.step, g.version, g.first, g.rows};
            assert_int_equal(mu_core_push(p->r.c, &id), MU_ACCEPTED);
            commit(p);
            assert_true(mu_core_form(p->r.c));
            commit(p);
            mu_core_applied(p->r.c);
            commit(p);
            if (compare) assert_same_cores(p);
        }
    char why[200];
    if (!mu_core_check(p->r.c, why, sizeof why)) fail_msg("%s", why);
    free(incarnation);
}

// A few rows an event, whatever the number of learners.
static void test_bytes_of_an_event(void **unused) {
    (void)unused;
    static const int learners[] = {16, 1024};
    for (size_t i = 0; i < MU_COUNT(learners); i++) {
        mu_core_config config = rig_config("async", learners[i]);
        config.splits = learners[i];
        pair p = pair_make(&config);
        train(&p, 8, learners[i] < 100);
        assert_same_cores(&p);
        const double mean = (double)p.bytes / (double)p.events;
        print_message("%d learners: %zu events, %.0f bytes each, at most %zu, the core has %zu\n",
                      learners[i], p.events, mean, p.most, mu_core_size(learners[i]));
        if (p.most > 4 * sizeof(mu_core_learner)) fail_msg("%d learners: %zu bytes", learners[i], p.most);
        pair_fini(&p);
    }
}

// A process died in the middle of a change: rows that it had noted may hold anything.
static void test_changes_in_vain(void **unused) {
    (void)unused;
    mu_core_config config = rig_config("async", 5);
    pair p = pair_make(&config);
    train(&p, 3, true);
    for (int l = 0; l < 5; l++) {
        mu_lease lease;
        bool ended;
        mu_core_lost(p.r.c, l);
        (void)mu_core_join(p.r.c, (l + 2) % 5);
        (void)mu_core_lease(p.r.c, (l + 2) % 5, &lease, &ended);
        assert_true(p.r.c->n_touched > 0);
        for (int i = 0; i < p.r.c->n_touched; i++)
            memset((void *)mu_core_learner_at(p.r.c, mu_core_touched(p.r.c)[i]), 0xA5,
                   sizeof(mu_core_learner));
        (void)mu_core_catch_up(p.r.c, p.good);
        assert_same_cores(&p);
        rig_check(&p.r);
    }
    pair_fini(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes_of_an_event),
                                       cmocka_unit_test(test_changes_in_vain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
