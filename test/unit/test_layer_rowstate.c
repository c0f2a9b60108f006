// SPDX-License-Identifier: Apache-2.0
// test_layer_rowstate.c - the memory of streams: what a sample finds, after a repetition and after a merge.
#include "run_help.h"

#include "base/rng.h"
#include "layer/rowstate.h"

#include <math.h>

enum { STREAMS = 3, WIDTH = 2, ROW = 2 * (1 + WIDTH) };

static float values[STREAMS * ROW], other[STREAMS * ROW], third[STREAMS * ROW];

static mu_param param_of(float *v) {
    return (mu_param){.name = "x.state", .shape = MU_SHAPE(STREAMS, ROW), .count = STREAMS * ROW, .value = v};
}

static void leave(mu_rowstate *s, int64_t g, float v) {
    float *to = mu_rowstate_slot(s, g);
    for (int i = 0; i < WIDTH; i++) to[i] = v;
    mu_rowstate_commit(s, g);
}

static void expect(const float *found, float want) {
    assert_non_null(found);
    for (int i = 0; i < WIDTH; i++) assert_float_equal(found[i], want, 0);
}

static int clear(void **state) {
    (void)state;
    memset(values, 0, sizeof values);
    memset(other, 0, sizeof other);
    memset(third, 0, sizeof third);
    return 0;
}

static void test_successor_finds_it(void **state) {
    (void)state;
    mu_param p = param_of(values);
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .param = &p};
    assert_null(mu_rowstate_before(&s, 1)); // the first of its stream
    assert_null(mu_rowstate_before(&s, 4)); // nobody was there
    leave(&s, 1, 10);
    expect(mu_rowstate_before(&s, 4), 10);
    assert_null(mu_rowstate_before(&s, 5)); // another stream
    assert_null(mu_rowstate_before(&s, 7)); // 4 is still missing
    leave(&s, 4, 40);
    expect(mu_rowstate_before(&s, 7), 40);
    expect(mu_rowstate_before(&s, 4), 10); // made again after a death: it begins as the first time
    leave(&s, 7, 70);
    assert_null(mu_rowstate_before(&s, 4)); // long past
}

// Outside of training samples may stand before number 0.
static void test_a_warm_up_leads_to_the_first(void **state) {
    (void)state;
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .own = values};
    for (int64_t g = -2 * STREAMS; g < 0; g++) {
        if (g < -STREAMS) assert_null(mu_rowstate_before(&s, g));
        else expect(mu_rowstate_before(&s, g), (float)(g - STREAMS));
        leave(&s, g, (float)g);
    }
    for (int64_t g = 0; g < STREAMS; g++) expect(mu_rowstate_before(&s, g), (float)(g - STREAMS));
    for (int64_t g = 0; g < 2 * STREAMS; g++) leave(&s, g, (float)g);
    for (int64_t g = 0; g < STREAMS; g++) assert_null(mu_rowstate_before(&s, g)); // long past
    assert_null(mu_rowstate_before(&s, -MU_WARMUP_MAX * STREAMS));
}

static void test_latest_is_older(void **state) {
    (void)state;
    mu_param p = param_of(values);
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .param = &p};
    assert_null(mu_rowstate_latest(&s, 8));
    leave(&s, 2, 20);
    expect(mu_rowstate_latest(&s, 5), 20);
    expect(mu_rowstate_latest(&s, 29), 20); // however old
    assert_null(mu_rowstate_latest(&s, 2)); // not its own
    leave(&s, 5, 50);
    expect(mu_rowstate_latest(&s, 5), 20);
    expect(mu_rowstate_latest(&s, 8), 50);
}

// A float holds whole numbers up to 2^24 only.
static void test_long_streams_mix_nothing_up(void **state) {
    (void)state;
    mu_param p = param_of(values), q = param_of(third);
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .param = &p};
    mu_rowstate merged = {.streams = STREAMS, .width = WIDTH, .param = &q};
    const float *copies[] = {values, other};
    for (int64_t number = (1 << 24) - 4; number < (1 << 24) + 6; number++) {
        leave(&s, number * STREAMS, (float)(number & 15));
        expect(mu_rowstate_before(&s, (number + 1) * STREAMS), (float)(number & 15));
        assert_null(mu_rowstate_before(&s, (number + 3) * STREAMS)); // the same place, two numbers later
        expect(mu_rowstate_latest(&s, (number + 1) * STREAMS), (float)(number & 15));
        mu_rowstate_merge(&q, third, 0, STREAMS, 2, copies);
        expect(mu_rowstate_before(&merged, (number + 1) * STREAMS), (float)(number & 15));
        memcpy(other, values, sizeof other); // of a learner that has not got further
    }
    const int64_t last = (1 << 24) + (0x7f7fffff - 0x4b800000) - 1;
    leave(&s, last * STREAMS, 1);
    expect(mu_rowstate_before(&s, (last + 1) * STREAMS), 1);
    assert_true(isfinite(values[last % 2 * (1 + WIDTH)]));
    leave(&s, (last + 1) * STREAMS, 2); // no tag is left
    assert_null(mu_rowstate_before(&s, (last + 2) * STREAMS));
}

// A learner that is behind: the others have left states of later numbers only.
static void test_only_newer_states(void **state) {
    (void)state;
    mu_param p = param_of(values);
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .param = &p};
    leave(&s, 14, 140), leave(&s, 17, 170);     // numbers 4 and 5 of stream 2
    expect(mu_rowstate_latest(&s, 8), 170);     // number 2: the newest
    assert_null(mu_rowstate_before(&s, 8));     // a text cannot go on from its own future
    expect(mu_rowstate_latest(&s, 17), 140);    // older before newer
    leave(&s, 8, 80);                           // in the place of number 4
    expect(mu_rowstate_latest(&s, 8), 170);     // not its own result, when it is made again
    expect(mu_rowstate_latest(&s, 14), 80);
}

// Two learners with leases of eight batches each, in any order: chains begin at the data only where nobody
// has been before. Each works on its own copy, which is merged with the others' after every batch.
static void test_learners_restart_no_chain(void **state) {
    (void)state;
    enum { LEASE = 8, BATCHES = 400 };
    const mu_rng_key key = mu_rng_key_make(17, "test");
    int64_t next_lease = 0, at[2] = {0}, left[2] = {0}, restarts = 0;
    mu_param all = param_of(values), own = param_of(other);
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .param = &own};
    for (uint64_t n = 0; n < BATCHES; n++) {
        uint32_t u[4];
        mu_rng_block(key, 0, n / 6, u);         // one of them runs for six batches
        const int who = (int)(u[0] & 1);
        if (!left[who]) at[who] = LEASE * next_lease++, left[who] = LEASE;
        memcpy(other, values, sizeof other);
        for (int64_t g = at[who] * STREAMS; g < (at[who] + 1) * STREAMS; g++) {
            restarts += !mu_rowstate_latest(&s, g);
            leave(&s, g, (float)n);
        }
        const float *copies[] = {other};
        mu_rowstate_merge(&all, values, 0, STREAMS, 1, copies);
        at[who]++, left[who]--;
    }
    print_message("seed 17: %d of %d chains restarted\n", (int)restarts, BATCHES * STREAMS);
    if (restarts > STREAMS) fail_msg("%d restarts, the first batch alone has %d", (int)restarts, STREAMS);
}

// Learners that share the memory see no state while it is written, neither the new one nor what was there.
static void test_nobody_finds_half_a_state(void **state) {
    (void)state;
    mu_param p = param_of(values);
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .param = &p};
    leave(&s, 1, 10);
    float *to = mu_rowstate_slot(&s, 7);
    to[0] = 70;
    assert_null(mu_rowstate_before(&s, 10));
    assert_null(mu_rowstate_before(&s, 4));
    assert_null(mu_rowstate_latest(&s, 10));
    to[1] = 70;
    mu_rowstate_commit(&s, 7);
    expect(mu_rowstate_before(&s, 10), 70);
}

static void test_phases_without_training_remember(void **state) {
    (void)state;
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .own = other};
    leave(&s, 0, 1);
    expect(mu_rowstate_before(&s, 3), 1);
    leave(&s, 3, 2);
    assert_null(mu_rowstate_before(&s, 0)); // a second pass begins anew
}

static void test_merge_takes_the_newest(void **state) {
    (void)state;
    mu_param all = param_of(values), a = param_of(other), b = param_of(third);
    mu_rowstate s = {.streams = STREAMS, .width = WIDTH, .param = &all}, sa = s, sb = s;
    sa.param = &a;
    sb.param = &b;
    leave(&s, 2, 22); // known before
    leave(&sa, 0, 1), leave(&sa, 3, 2);
    leave(&sb, 1, 3), leave(&sb, 0, 4); // stream 0: the same number from both, the first one counts
    const float *copies[] = {other, third};
    mu_rowstate_merge(&all, values, 0, 2, 2, copies);
    expect(mu_rowstate_before(&s, 6), 2);
    expect(mu_rowstate_before(&s, 3), 1);
    expect(mu_rowstate_before(&s, 4), 3);
    expect(mu_rowstate_before(&s, 5), 22);
    float once[STREAMS * ROW];
    memcpy(once, values, sizeof once);
    values[1] = -5; // half written by somebody who was killed
    mu_rowstate_merge(&all, values, 0, 2, 2, copies);
    assert_memory_equal(once, values, sizeof once);
    mu_rowstate_merge(&all, values, 2, 3, 2, copies); // nothing newer there
    expect(mu_rowstate_before(&s, 5), 22);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_warm_up_leads_to_the_first, clear),
        cmocka_unit_test_setup(test_successor_finds_it, clear),
        cmocka_unit_test_setup(test_latest_is_older, clear),
        cmocka_unit_test_setup(test_only_newer_states, clear),
        cmocka_unit_test_setup(test_long_streams_mix_nothing_up, clear),
        cmocka_unit_test_setup(test_learners_restart_no_chain, clear),
        cmocka_unit_test_setup(test_nobody_finds_half_a_state, clear),
        cmocka_unit_test_setup(test_phases_without_training_remember, clear),
        cmocka_unit_test_setup(test_merge_takes_the_newest, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
