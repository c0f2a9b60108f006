// SPDX-License-Identifier: Apache-2.0
// test_train_step_rate.c - early momentum lasts as many samples with several learners as with one, whatever
// number of updates a protocol makes of a step. With an early momentum of 0 sgd leaves its history alone: a
// run that is young to the end has none, and one that is not has some.
#include "training_help.h"

#include "ps/protocol.h"
#include "learners/learner.h"

#define JOB                                                                                                  \
    "name: t\ndata: {train: {reader: synthetic, shape: [12], classes: 4, records: 96, scale: 0.0039}}\n"     \
    "net:\n- {name: ip, type: inner_product, outputs: 4, src: data.features}\n"                             \
    "- {name: loss, type: softmax_loss, src: [ip, data.label]}\ntrain: {batch: 12, steps: 24}\n"

static double history_after(const char *updater, const char *const *sets, size_t n) {
    char text[1024];
    training t;
    snprintf(text, sizeof text, JOB "updater: {type: sgd, rate: 0.05, momentum: 0.9, %s}\n", updater);
    train(&t, text, &(mu_run_opts){.no_files = true}, sets, n);
    double most = 0;
    const mu_param *p = mu_params_find(t.s->params, "ip.weight");
    for (size_t i = 0; i < p->count; i++)
        most = fmax(most, fabs((double)t.s->params->slot[0][p->offset + i]));
    end(&t);
    return most;
}

static void expect_history(bool some, const char *updater, const char *const *sets, size_t n) {
    const double most = history_after(updater, sets, n);
    if ((most > 0) == some) return;
    fail_msg("%s, %s %s: history of %g", updater, n ? sets[0] : "", n > 1 ? sets[1] : "", most);
}

static void history_begins_when_early_ends(void **state) {
    (void)state;
    expect_history(false, "early_momentum: 0, early: 24 steps", NULL, 0);
    expect_history(true, "early_momentum: 0, early: 23 steps", NULL, 0);
    for (size_t i = 0; i < mu_protocols.n; i++) {
        char protocol[60];
        snprintf(protocol, sizeof protocol, "cluster.protocol=%s", mu_protocols.list[i]->name);
        const char *const sets[] = {protocol, "cluster.learners=3"};
        expect_history(false, "early_momentum: 0, early: 24 steps", sets, 2);
        expect_history(false, "early_momentum: 0, early: 3 epochs", sets, 2);
        expect_history(true, "early_momentum: 0, early: 20 steps", sets, 2);
        expect_history(true, "early_momentum: 0, early: 2 epochs", sets, 2);
    }
}

static void warm_start_and_uneven_splits(void **state) {
    (void)state;
    static const char *const ways[][3] = {
        {"cluster.protocol=async", "cluster.learners=3", "cluster.warm_start=1 epoch"},
        {"cluster.protocol={type: softsync, n: 2}", "cluster.learners=3", "cluster.warm_start=never"},
        {"cluster.protocol={type: ssp, bound: 0}", "cluster.learners=3", "cluster.warm_start=never"}};
    for (size_t i = 0; i < MU_COUNT(ways); i++) {
        expect_history(false, "early_momentum: 0, early: 3 epochs", ways[i], 3);
        expect_history(true, "early_momentum: 0, early: 2 epochs", ways[i], 3);
    }
}

// The boundary itself, to the sample.
static void early_ends_with_its_samples(void **state) {
    (void)state;
    for (int learners = 1; learners <= 4; learners++) {
        char set[40];
        training t;
        snprintf(set, sizeof set, "cluster.learners=%d", learners);
        prepare(&t, JOB "updater: {type: nesterov, rate: 0.1, early: 5 steps}\n",
                (const char *const[]){"cluster.protocol=async", set}, 2);
        const mu_position begin = MU_POSITION_START;
        const mu_length length = mu_length_of(t.s);
        mu_role role = {.session = t.s, .begin = &begin, .end = &length};
        for (int64_t samples = 0; samples < 100; samples++)
            if (mu_role_step_rate(&role, samples, samples).young != (samples < 60))
                fail_msg("%d learners, %d samples: wrong", learners, (int)samples);
        end(&t);
    }
}

// A server group is a training of its own, with its part of the samples: its updates are made as those of as
// many learners alone.
static void server_groups_step_alike(void **state) {
    (void)state;
    static const char *const protocols[] = {"async", "softsync", "hogwild", "{type: ssp, bound: 2}"};
    for (size_t i = 0; i < MU_COUNT(protocols); i++) {
        char protocol[60];
        training one, two;
        snprintf(protocol, sizeof protocol, "cluster.protocol=%s", protocols[i]);
        static const char job[] =
            JOB "updater: {type: sgd, momentum: 0.9, rate: {type: inverse, base: 0.1, gamma: 0.1}}\n";
        prepare(&one, job,
                (const char *const[]){protocol, "cluster.learners=2", "cluster.warm_start=5 steps"}, 3);
        prepare(&two, job,
                (const char *const[]){protocol, "cluster.learners=4", "cluster.server_groups=2",
                                      "cluster.warm_start=5 steps"}, 4);
        const mu_position begin = MU_POSITION_START;
        const mu_length length = mu_length_of(one.s);
        mu_role alone = {.session = one.s, .begin = &begin, .end = &length};
        mu_role group = {.session = two.s, .begin = &begin, .end = &length, .stripe = {0, 6, 1, 2}};
        for (int64_t v = 0; v < 40; v++) {
            const int64_t samples = v <= 5 ? 6 * v : 30 + 3 * (v - 5);
            const mu_step_rate a = mu_role_step_rate(&alone, v, 2 * samples),
                               b = mu_role_step_rate(&group, v, samples);
            if (a.rate != b.rate || a.stale.lowers != b.stale.lowers || a.stale.keep != b.stale.keep ||
                a.stale.ahead != b.stale.ahead || a.stale.share != b.stale.share)
                fail_msg("%s, update %d: rate %g or %g, keep %g or %g", protocols[i], (int)v, a.rate, b.rate,
                         (double)a.stale.keep, (double)b.stale.keep);
        }
        end(&one);
        end(&two);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_begins_when_early_ends),
        cmocka_unit_test(warm_start_and_uneven_splits),
        cmocka_unit_test(early_ends_with_its_samples),
        cmocka_unit_test(server_groups_step_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
