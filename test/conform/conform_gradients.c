// SPDX-License-Identifier: Apache-2.0
// conform_gradients.c - every source of gradients (learners/g_*.c): it learns, moves the position by whole
// steps, balances its ledger, does what becomes due, ends where the job says, and may be asked to stop.
#include "learners/gradients.h"
#include "run/driver.h"
#include "unit/run_help.h"

#include <math.h>
#include <unistd.h>

#define JOB                                                                                                  \
    "name: t\ntrain: {batch: 20, steps: 30}\ntest: {every: 10 steps, at_start: true}\n"                      \
    "checkpoint: {every: never}\nlog: {every: 5 steps}\n"                                                    \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, shape: [30], classes: 4, records: 200, scale: 0.0078125}\n"                \
    "  validation: {reader: synthetic, shape: [30], classes: 4, records: 60, scale: 0.0078125}\n"            \
    "  test: {reader: synthetic, shape: [30], classes: 4, records: 60, scale: 0.0078125}\n"                  \
    "net:\n"                                                                                                 \
    "- {name: ip1, type: inner_product, src: data.features, outputs: 20}\n"                                  \
    "- {name: relu1, type: relu}\n"                                                                          \
    "- {name: ip2, type: inner_product, outputs: 4}\n"                                                       \
    "- {name: loss, type: softmax_loss, src: [ip2, data.label]}\n"                                           \
    "updater: {type: sgd, momentum: 0.9, rate: 0.02}\n"

typedef struct seen {
    int evaluated, best, progress;
    int64_t last_step;
    double first_loss;
    _Atomic int stop;
} seen;

static void on_evaluated(void *ctx, const mu_run_moment *m, mu_phase phase, const mu_scores *sc, bool best) {
    seen *s = ctx;
    (void)phase;
    if (!s->evaluated++) s->first_loss = sc->loss;
    s->best += best;
    assert_true(m->step >= s->last_step);
    s->last_step = m->step;
}

static void on_progress(void *ctx, const mu_run_moment *m) {
    seen *s = ctx;
    s->progress++;
    assert_true(m->learners <= m->of_learners);
}

static mu_status train(const char *source, int learners, const mu_run_opts *how, seen *s, mu_run_result *r,
                       mu_err *err) {
    char gradients[80], count[80];
    mu_job *job = NULL;
    mu_session *session = NULL;
    snprintf(gradients, sizeof gradients, "train.gradients=%s", source);
    snprintf(count, sizeof count, "cluster.learners=%d", learners);
    const char *const sets[] = {gradients, count};
    mu_run_opts o = *how;
    o.no_files = true;
    o.watch = (mu_run_watch){.ctx = s, .progress = on_progress, .evaluated = on_evaluated};
    mu_status st = mu_job_parse("t.yaml", JOB, strlen(JOB), sets, 2, &job, err);
    const mu_session_opts all = {.phases = MU_TRAIN | MU_VALIDATION | MU_TEST};
    if (st == MU_OK) st = mu_session_open(job, &all, &session, err);
    if (st == MU_OK) st = mu_run_train(session, &o, r, err);
    mu_session_close(session);
    mu_job_destroy(job);
    return st;
}

static char log_path[80];

// A log for the source that needs one.
static void record(void) {
    seen s = {0};
    mu_run_result r;
    mu_err err = {0};
    snprintf(log_path, sizeof log_path, "/tmp/muster-gradients-%d.log", (int)getpid());
    unlink(log_path);
    if (train("shared", 2, &(mu_run_opts){.record = log_path}, &s, &r, &err) != MU_OK)
        fail_msg("%s", err.msg);
}

static void test_every_source(void **state) {
    (void)state;
    record();
    for (size_t i = 0; i < mu_gradient_sources.n; i++) {
        const mu_gradient_source *g = (const mu_gradient_source *)mu_gradient_sources.list[i];
        const bool replays = !strcmp(g->name, "replay");
        const int learners = replays || !strcmp(g->name, "shared") ? 2 : 1;
        seen s = {0};
        mu_run_result r;
        mu_err err = {0};
        assert_true(g->help && g->wants && g->start && g->advance && g->stop);
        if (train(g->name, learners, &(mu_run_opts){.replay = replays ? log_path : NULL}, &s, &r, &err) !=
            MU_OK)
            fail_msg("%s: %s", g->name, err.msg);
        const mu_learners_result *l = &r.learners;
        print_message("%s: loss %.3f to %.3f, %d evaluations, %lld gradients\n", g->name, s.first_loss,
                      r.test.loss, s.evaluated, (long long)l->produced);
        assert_int_equal(r.steps, 30);
        assert_true(fabs(r.epochs - 3) < 1e-9);
        assert_true(r.tested && r.test.loss < 0.8 * s.first_loss && isfinite(r.train_loss));
        // Learners go on while the evaluator works, so fewer evaluations than were due may be made.
        assert_true(s.evaluated >= 1 && s.best >= 1 && s.progress >= 1);
        assert_int_equal(l->count, learners);
        assert_int_equal(l->produced, l->applied + l->rejected + l->lost);
        assert_int_equal(l->applied, 30 * learners);
        assert_non_null(l->protocol);
        assert_true(r.why && (!strcmp(r.why, "steps") || !strcmp(r.why, g->name)));
    }
    unlink(log_path);
}

static void test_stop_is_heard(void **state) {
    (void)state;
    record();
    for (size_t i = 0; i < mu_gradient_sources.n; i++) {
        const char *name = mu_gradient_sources.list[i]->name;
        const bool replays = !strcmp(name, "replay");
        seen s = {.stop = 1};
        mu_run_result r;
        mu_err err = {0};
        mu_run_opts o = {.stop = &s.stop, .replay = replays ? log_path : NULL};
        const mu_status st = train(name, replays || !strcmp(name, "shared") ? 2 : 1, &o, &s, &r, &err);
        if (st != MU_EINTERRUPTED || r.steps >= 30) fail_msg("%s: %s, %d steps", name, err.msg, (int)r.steps);
    }
    unlink(log_path);
}

static void test_unknown_source(void **state) {
    (void)state;
    seen s = {0};
    mu_run_result r;
    mu_err err = {0};
    assert_int_equal(train("shered", 1, &(mu_run_opts){0}, &s, &r, &err), MU_EJOB);
    assert_non_null(strstr(err.msg, "unknown source of gradients `shered`"));
    assert_non_null(strstr(err.hint, "`shared`"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_source),
        cmocka_unit_test(test_stop_is_heard),
        cmocka_unit_test(test_unknown_source),
    };
    return cmocka_run_group_tests_name("gradients", tests, NULL, NULL);
}
