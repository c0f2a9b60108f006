// SPDX-License-Identifier: Apache-2.0
// training_help.h - whole trainings from the text of a job, for tests of what models do in src/run.
#ifndef MU_TEST_TRAINING_HELP_H
#define MU_TEST_TRAINING_HELP_H

#include "run_help.h"

#include "run/driver.h"
#include "train/worker.h"

#include <math.h>

typedef struct training {
    mu_job *job;
    mu_session *s;
    mu_run_result r;
    mu_err err;
} training;

// Parses and opens; problems fail the test.
MU_UNUSED static void prepare(training *t, const char *text, const char *const *sets, size_t n) {
    memset(t, 0, sizeof *t);
    mu_status st = mu_job_parse("t.yaml", text, strlen(text), sets, n, &t->job, &t->err);
    if (st == MU_OK)
        st = mu_session_open(t->job, &(mu_session_opts){.phases = MU_TRAIN | MU_VALIDATION | MU_TEST}, &t->s,
                             &t->err);
    if (st == MU_OK) return;
    if (t->job) mu_diags_print(&t->job->diags, stderr, false);
    fail_msg("%s", t->err.msg);
}

MU_UNUSED static void train(training *t, const char *text, const mu_run_opts *o, const char *const *sets,
                            size_t n) {
    prepare(t, text, sets, n);
    if (mu_run_train(t->s, o, &t->r, &t->err) != MU_OK) fail_msg("%s (%s)", t->err.msg, t->err.note);
}

MU_UNUSED static void end(training *t) {
    mu_session_close(t->s);
    mu_job_destroy(t->job);
}

// Largest difference of a parameter's elements, relative to its largest element; states are parameters, too.
MU_UNUSED static double distance(const training *a, const training *b) {
    double worst = 0;
    for (int i = 0; i < a->s->params->n; i++) {
        const mu_param *p = a->s->params->list[i], *q = b->s->params->list[i];
        double most = 0, off = 0;
        for (size_t k = 0; k < p->count; k++) {
            most = fmax(most, fabs((double)p->value[k]));
            double d = fabs((double)p->value[k] - (double)q->value[k]);
            off = d > off || isnan(d) ? d : off;
        }
        if (off / most > worst || isnan(off)) worst = off / most;
    }
    return worst;
}

// Steps after the first ones take nothing from the heap.
MU_UNUSED static void count_allocations(const char *text) {
    training t;
    prepare(&t, text, NULL, 0);
    mu_worker w;
    mu_worker_init(&w, t.s);
    for (int i = 0; i < 3; i++) assert_int_equal(mu_worker_step(&w, &t.err), MU_OK);
    uint64_t before = mu_alloc_get_stats().n_calls;
    for (int i = 0; i < 20; i++) assert_int_equal(mu_worker_step(&w, &t.err), MU_OK);
    assert_int_equal(mu_alloc_get_stats().n_calls, before);
    end(&t);
}

#endif
