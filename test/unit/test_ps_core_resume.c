// SPDX-License-Identifier: Apache-2.0
// test_ps_core_resume.c - trainings by the protocol core that are killed at any moment and resumed from what
// was in the weights then, by another protocol and another number of learners: in the end every sample is in
// the weights exactly once.
#include "unit/core_rig.h"

enum { SAMPLES = 700, LEARNERS = 6, RUNS = 12 };
static const uint64_t SEED = 5;
static uint64_t drawn;

static int64_t below(int64_t n) {
    uint32_t word[4];
    mu_rng_block(mu_rng_key_make(SEED, "resume"), drawn++, 0, word);
    return (int64_t)(word[0] % (uint64_t)n);
}

typedef struct leg {            // one run between two resumes
    rig r;
    mu_finished begin;
    uint8_t *in_weights;        // by sample, so often
    uint8_t stopped[LEARNERS];  // computes for ever
} leg;

static void count(leg *g, const mu_gradient_id *id) {
    for (int64_t i = 0; i < id->rows; i++) g->in_weights[mu_finished_sample(&g->begin, id->first + i)]++;
}

static void finish_update(leg *g) {
    for (int i = 0; i < g->r.c->n_parts; i++) count(g, &mu_core_part_at(g->r.c, i)->id);
    rig_applied(&g->r);
}

static void turn(leg *g, int l) {
    const bool itself = !mu_core_is_in_step(g->r.c) &&
                        !mu_protocol_at(g->r.c->config.protocol)->take;
    mu_lease lease;
    bool ended;
    if (below(2)) (void)mu_core_lease(g->r.c, l, &lease, &ended);
    if (g->stopped[l]) return;
    if (rig_ask(&g->r, l) != MU_GO) return;
    if (!below(40)) {
        rig_lost(&g->r, l);
        rig_join(&g->r, l);
    } else if (below(3)) {
        const mu_gradient_id id = rig_id(&g->r, l);
        assert_int_equal(rig_push(&g->r, l), MU_ACCEPTED);
        if (itself) count(g, &id);
    }
}

static mu_core_config draw_config(const mu_finished *f, int64_t version) {
    const int protocol = (int)below((int64_t)mu_protocols.n);
    mu_core_config c = {.learners = 1 + (int32_t)below(LEARNERS), .protocol = protocol};
    c.splits = 1 + (int32_t)below(c.learners);
    c.bound = mu_protocol_at(protocol)->take ? (int32_t)below(4) : 0;
    c.own = (int32_t)below(4);
    c.lease_batches = 1 + (int32_t)below(4);
    c.rows = 1 + below(5);
    c.global_batch = c.learners + below(9);
    c.first_version = version;
    c.first_sample = mu_finished_count(f);
    c.end_sample = SAMPLES;
    c.warm_versions = below(3) ? 0 : below(6);
    return c;
}

// Ends at its last sample, or where it is killed. f: what is finished then.
static int64_t run(mu_finished *f, int64_t version, uint8_t *in_weights, bool to_the_end) {
    const mu_core_config config = draw_config(f, version);
    leg g = {.r = rig_make(&config), .begin = *f, .in_weights = in_weights};
    const int64_t events = to_the_end ? INT64_MAX : below(400);
    for (int l = 0; l < config.learners && !to_the_end; l++) g.stopped[l] = below(4) == 0;
    for (int64_t i = 0; i < events && mu_core_samples(g.r.c) < SAMPLES; i++) {
        if (i > 100000) fail_msg("seed %" PRIu64 ": no end in sight", SEED);
        turn(&g, (int)below(config.learners));
        if (below(2) && mu_core_form(g.r.c) && below(2)) finish_update(&g);
        if (below(2) && g.r.c->applying) finish_update(&g);
    }
    if (g.r.c->applying) finish_update(&g); // no snapshot is taken in an update
    mu_range open[LEARNERS * (MU_CORE_SLOTS + MU_CORE_LEASES)];
    const int n = mu_core_open(g.r.c, open);
    assert_true(n <= mu_core_most_open(config.learners));
    mu_finished_extend(f, open, n, g.r.c->next_sample);
    if (mu_finished_count(f) != mu_core_samples(g.r.c))
        fail_msg("seed %" PRIu64 ", %s: %" PRId64 " finished, %" PRId64 " in the weights", SEED,
                 mu_protocol_at(config.protocol)->name, mu_finished_count(f), mu_core_samples(g.r.c));
    version = g.r.c->version;
    rig_fini(&g.r);
    return version;
}

static void test_every_sample_once(void **unused) {
    (void)unused;
    int64_t with_ranges = 0;
    for (int round = 0; round < 400; round++) {
        static mu_finished f;
        uint8_t in_weights[SAMPLES] = {0};
        int64_t version = 0;
        memset(&f, 0, sizeof f);
        for (int k = 0; mu_finished_count(&f) < SAMPLES; k++) {
            version = run(&f, version, in_weights, k == RUNS);
            with_ranges += f.n > 0;
            for (int64_t i = 0, at = 0; i < SAMPLES; i++) {
                while (at < f.n && f.range[at].end <= i) at++;
                const bool done = i < f.cursor || (at < f.n && i >= f.range[at].first);
                if (in_weights[i] != done)
                    fail_msg("seed %" PRIu64 ", round %d, run %d: sample %" PRId64 " %d times in the weights",
                             SEED, round, k, i, in_weights[i]);
            }
        }
        assert_int_equal(f.cursor, SAMPLES);
    }
    print_message("%" PRId64 " resumes with ranges beyond the cursor\n", with_ranges);
    assert_true(with_ranges > 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_sample_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
