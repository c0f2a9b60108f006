// SPDX-License-Identifier: Apache-2.0
// test_ps_core_random.c - the protocol core under random events: every invariant after every event, every
// sample in exactly one gradient, no deadlock once faults end; and the law of staleness.
//
// A run: random protocol options, then random events (leases, asks, pushes, updates, losses, joins,
// old gradients again, sometimes a stop), then fair turns without faults until all learners have ended. A
// failing run prints the seed that repeats it: test_ps_core_random SEED.
#include "unit/core_rig.h"

enum { EVENTS = 20000, RUN_EVENTS = 400, LEARNERS = 9 };

static uint64_t first_seed = 1;

static uint64_t state;
static uint64_t rnd(uint64_t n) { // splitmix64
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}
static bool chance(unsigned percent) { return rnd(100) < percent; }

typedef struct run {
    rig r;
    uint64_t seed;
    int64_t version, events, max_samples;
    bool may_stop;
    uint8_t *seen;                // by sample from first_sample: accepted or rejected so often
    mu_gradient_id old[LEARNERS]; // an earlier push of each
    bool ended[LEARNERS];
} run;

#define assert_run(u, ok, ...)                                                                               \
    do {                                                                                                     \
        if (!(ok)) {                                                                                         \
            print_message("seed %" PRIu64 ", event %" PRId64 ", %s: ", (u)->seed, (u)->events,               \
                          mu_protocol_at((u)->r.c->config.protocol)->name);                                  \
            fail_msg(__VA_ARGS__);                                                                           \
        }                                                                                                    \
    } while (0)

static void after_event(run *u) {
    char why[200];
    const mu_core *c = u->r.c;
    u->events++;
    assert_run(u, mu_core_check(c, why, sizeof why), "%s", why);
    assert_run(u, c->version >= u->version && c->version <= u->version + 1,
               "clock from %" PRId64 " to %" PRId64, u->version, c->version);
    u->version = c->version;
}

static void use(run *u, const mu_gradient_id *id) {
    for (int64_t i = 0; i < id->rows; i++) {
        const int64_t at = id->first + i - u->r.c->config.first_sample;
        assert_run(u, at >= 0 && at < u->max_samples, "sample %" PRId64 " does not exist", at);
        assert_run(u, ++u->seen[at] == 1, "sample %" PRId64 " used twice", at);
    }
}

static void lease(run *u, int l) {
    mu_lease s;
    bool ended;
    (void)mu_core_lease(u->r.c, l, &s, &ended);
    after_event(u);
}

static mu_answer ask(run *u, int l) {
    mu_grant g;
    const mu_answer a = mu_core_ask(u->r.c, l, u->r.incarnation[l], &g);
    after_event(u);
    if (a == MU_GO) u->r.grant[l] = g;
    u->ended[l] = a == MU_END && mu_core_learner_at(u->r.c, l)->present;
    return a;
}

static void hand_over(run *u, int l) {
    const mu_gradient_id id = rig_id(&u->r, l);
    const bool expected = mu_core_learner_at(u->r.c, l)->computing;
    const mu_push_result v = mu_core_push(u->r.c, &id);
    assert_run(u, (v == MU_ACCEPTED) == expected, "push result %d", v);
    after_event(u);
    if (!expected) return;
    use(u, &id);
    u->old[l] = id;
}

static void push_old(run *u, int l) {
    if (u->old[l].incarnation == 0) return;
    const mu_ledger was = mu_core_ledger(u->r.c);
    const mu_push_result v = mu_core_push(u->r.c, &u->old[l]);
    after_event(u);
    assert_run(u, v == MU_FENCED || v == MU_UNEXPECTED, "an old gradient: verdict %d", v);
    const mu_ledger now = mu_core_ledger(u->r.c);
    assert_memory_equal(&was, &now, sizeof was);
}

static void form(run *u) {
    const mu_core *c = u->r.c;
    const bool in_step = mu_core_is_in_step(c);
    if (mu_core_form(u->r.c)) {
        for (int i = 0; i < c->n_parts; i++) {
            const int64_t stale = mu_core_staleness(c, i);
            if (in_step) assert_run(u, stale == 0, "staleness %" PRId64, stale);
            if (mu_core_is_bound(c, mu_core_part_at(c, i)->id.learner, mu_core_part_at(c, i)->id.step))
                assert_run(u, stale <= c->config.bound, "staleness %" PRId64 " over %d", stale,
                           c->config.bound);
        }
    }
    after_event(u);
}

static void random_event(run *u) {
    const int l = (int)rnd((uint64_t)u->r.c->config.learners);
    switch (rnd(16)) {
    case 0:
    case 1:
    case 2:
        lease(u, l);
        break;
    case 3:
    case 4:
    case 5:
    case 6:
        (void)ask(u, l);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        hand_over(u, l);
        break;
    case 11:
        form(u);
        break;
    case 12:
    case 13:
        mu_core_applied(u->r.c);
        after_event(u);
        break;
    case 14:
        if (chance(30)) mu_core_lost(u->r.c, l);
        else if (chance(30) || !mu_core_learner_at(u->r.c, l)->present)
            u->r.incarnation[l] = mu_core_join(u->r.c, l);
        after_event(u);
        break;
    default:
        if (u->may_stop && chance(1)) mu_core_stop(u->r.c);
        push_old(u, l);
    }
}

// Others before and behind it.
static void random_phases(mu_core_config *g) {
    static const char *const queued[] = {"softsync", "async", "ssp"};
    int64_t until = g->first_sample + g->warm_versions * g->global_batch;
    g->n_phases = 1 + (int32_t)rnd(MU_CORE_PHASES);
    for (int i = 0; i < g->n_phases; i++) {
        until += (int64_t)rnd(200);
        const int protocol = chance(40) ? g->protocol : mu_protocol_index(queued[rnd(3)]);
        g->phase[i] = (mu_core_phase){.until = i + 1 < g->n_phases ? until : INT64_MAX, .protocol = protocol,
                                      .splits = 1 + (int32_t)rnd((uint64_t)g->learners),
                                      .bound = (int32_t)rnd(4), .own = (int32_t)rnd(4),
                                      .rate_rule = (int32_t)rnd(3)};
    }
}

static mu_core_config random_config(int protocol) {
    mu_core_config g = {.learners = 1 + (int32_t)rnd(LEARNERS), .protocol = protocol};
    g.splits = 1 + (int32_t)rnd((uint64_t)g.learners);
    g.bound = mu_protocol_at(protocol)->take ? (int32_t)rnd(4) : 0; // else nothing ever waits
    g.own = (int32_t)rnd(4);
    g.rate_rule = (int32_t)rnd(3);
    g.lease_batches = 1 + (int32_t)rnd(4);
    g.rows = 1 + (int64_t)rnd(5);
    g.global_batch = g.learners + (int64_t)rnd(9);
    g.first_version = (int64_t)rnd(3) * 100;
    g.first_sample = (int64_t)rnd(3) * 1000;
    g.end_sample = g.first_sample + (int64_t)rnd(600);
    g.warm_versions = chance(30) ? (int64_t)rnd(12) : 0;
    const mu_protocol_class *p = mu_protocol_at(protocol);
    if (p->take && !p->sync_versions && chance(40)) random_phases(&g);
    return g;
}

// Fair turns without faults: everybody ends, nothing is left behind.
static void drain(run *u) {
    const mu_core *c = u->r.c;
    bool all = false;
    for (int turn = 0; !(all && mu_core_idle(c)); turn++) {
        assert_run(u, turn < 3000, "no end in sight: version %" PRId64 ", %d wait, %d compute", c->version,
                   c->fifo_n, c->computing);
        all = true;
        for (int l = 0; l < c->config.learners; l++) {
            if (!mu_core_learner_at(c, l)->present) u->r.incarnation[l] = mu_core_join(u->r.c, l);
            if (chance(30)) { // not everybody in every turn
                all = false;
                continue;
            }
            lease(u, l);
            if (ask(u, l) == MU_GO) hand_over(u, l);
            all = all && u->ended[l];
        }
        form(u);
        if (chance(70)) mu_core_applied(u->r.c);
        after_event(u);
    }
}

static void check_end(run *u) {
    const mu_core *c = u->r.c;
    const mu_core_config *g = &c->config;
    const mu_ledger s = mu_core_ledger(c);
    assert_run(u, s.in_flight == 0, "%" PRId64 " gradients left behind", s.in_flight);
    assert_run(u, !mu_core_form(u->r.c), "an update after the end");
    int64_t used = 0;
    for (int64_t i = 0; i < u->max_samples; i++) used += u->seen[i];
    assert_run(u, used == c->samples_applied + c->samples_rejected, "%" PRId64 " samples seen", used);
    if (c->stopping) return;
    assert_run(u, used == g->end_sample - g->first_sample, "ended after %" PRId64 " samples", used);
    assert_run(u, mu_core_cursor(c) == g->end_sample, "cursor at %" PRId64, mu_core_cursor(c));
}

static int64_t one_run(int protocol, uint64_t seed) {
    state = seed;
    const mu_core_config config = random_config(protocol);
    run u = {.seed = seed, .version = config.first_version, .may_stop = chance(20)};
    u.max_samples = config.end_sample - config.first_sample;
    u.seen = calloc((size_t)u.max_samples + 1, 1);
    u.r.c = malloc(mu_core_size(config.learners));
    assert_non_null(u.seen);
    assert_non_null(u.r.c);
    mu_core_init(u.r.c, &config);
    after_event(&u);
    const uint64_t n = rnd(RUN_EVENTS);
    for (uint64_t i = 0; i < n; i++) random_event(&u);
    drain(&u);
    check_end(&u);
    free(u.seen);
    free(u.r.c);
    return u.events;
}

static void test_random_events(void **unused) {
    (void)unused;
    for (size_t p = 0; p < mu_protocols.n; p++) {
        int64_t events = 0;
        uint64_t seed = first_seed;
        for (; events < EVENTS; seed++) events += one_run((int)p, seed);
        print_message("%s: seeds %" PRIu64 " to %" PRIu64 ", %" PRId64 " events\n",
                      mu_protocols.list[p]->name, first_seed, seed - 1, events);
    }
}

// ---- the law of staleness ----

static staleness staleness_of(const char *protocol, int splits, int bound) {
    mu_core_config config = rig_config(protocol, 30);
    config.splits = splits, config.bound = bound;
    return rig_staleness(&config, rnd(1000));
}

static void test_staleness_law(void **unused) {
    (void)unused;
    static const int splits[] = {1, 2, 4, 15, 30};
    state = first_seed;
    print_message("seed %" PRIu64 "\n", first_seed);
    staleness x = staleness_of("hardsync", 1, 0);
    assert_int_equal(x.max, 0);
    for (int i = 0; i < 10; i++) { // without a bound, and with the one that jobs have by default
        const int n = splits[i / 2], bound = i % 2 ? 2 * n : 0;
        const double far = n == 1 ? 0.3 : 0.2 * n;
        x = staleness_of("softsync", n, bound);
        print_message("%d-softsync, bound %d: mean %.3f, max %" PRId64 "\n", n, bound, x.mean, x.max);
        if (x.mean < n - far || x.mean > n + far || x.max > 2 * n)
            fail_msg("%d-softsync, bound %d: mean %g, max %" PRId64, n, bound, x.mean, x.max);
    }
    x = staleness_of("async", 30, 0);
    if (x.mean < 24 || x.mean > 36) fail_msg("async: mean %g", x.mean);
}

int main(int argc, char **argv) {
    if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_events),
                                       cmocka_unit_test(test_staleness_law)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
