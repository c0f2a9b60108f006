// SPDX-License-Identifier: Apache-2.0
// c_test.c - `muster test`: scores of a trained net on its test data, every sample once.
//
// Metrics of the layers as they are, then what look/scorer.h finds out about the answers in the same pass.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/scores_text.h"

#include <inttypes.h>
#include <string.h>

struct test { const char *model, *on, *head; bool best, all; };

static const mu_opt options[] = {
    MU_OPT_MODEL(struct test),
    MU_OPT_ONE_OF(struct test, on, "on", "test|validation", "which data of the job; test when not given"),
    MU_OPT_KEY("batch-size", "N", "test.batch", "samples per forward pass"),
    MU_OPT_BEST(struct test),
    MU_OPT(struct test, all, "all", MU_OPT_FLAG, NULL,
           "every class or output in the table, also of more than 25"),
    MU_OPT(struct test, head, "head", MU_OPT_TEXT, "LAYER",
           "the loss or accuracy layer whose answers are scored; the first when not given"),
    {0},
};

static void print(const mu_args *a, const struct test *v, mu_phase phase, const mu_scores *sc,
                  const mu_scorer *j) {
    fprintf(stderr, "%" PRId64 " samples in %.2f s (%.0f samples/s)\n", sc->samples, sc->seconds,
            (double)sc->samples / sc->seconds);
    if (!a->json) {
        for (int i = 0; i < sc->n; i++) printf("%s %.6g\n", sc->name[i], sc->value[i]);
        mu_scores_print(j, sc->accuracy, v->all, stdout);
        return;
    }
    json_t *o = json_object();
    json_object_set_new(o, "samples", json_integer(sc->samples));
    bool test = phase == MU_TEST;
    json_object_set_new(o, test ? "test_loss" : "val_loss", mu_json_number(sc->loss));
    json_object_set_new(o, test ? "test_accuracy" : "val_accuracy", mu_json_number(sc->accuracy));
    for (int i = 0; i < sc->n; i++) json_object_set_new(o, sc->name[i], mu_json_number(sc->value[i]));
    mu_scores_json(j, o);
    mu_cli_print_json(o);
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct test *v = values;
    mu_phase phase = v->on && !strcmp(v->on, "validation") ? MU_VALIDATION : MU_TEST;
    mu_cli_model m;
    mu_scores sc;
    mu_scorer scorer = {0};
    mu_session_opts o = {.phases = (unsigned)phase};
    mu_status st = mu_cli_open_model(a, a->word[0], v->model, v->best, &o, &m, err);
    mu_session_phase *p = st != MU_OK ? NULL : phase == MU_TEST ? &m.session->test : &m.session->validation;
    if (p && !p->net) {
        st = MU_FAIL_AT(err, MU_EJOB, m.job->data ? m.job->data->pos : MU_NOPOS, "the job has no `data.%s`",
                        mu_phase_name(phase));
        mu_err_hint(err, "Add it, or choose other data with `--on`.");
    }
    if (st == MU_OK) st = mu_scorer_open(&scorer, p, v->head, err);
    if (st == MU_OK) st = mu_evaluate(p, phase, mu_scorer_batch, &scorer, &sc, err);
    if (st == MU_OK) print(a, v, phase, &sc, &scorer);
    mu_scorer_close(&scorer);
    mu_cli_close_model(&m, err);
    return st;
}

const mu_verb_class mu_verb_test = {
    .name = "test",
    .help = "scores of a trained net on its test data: loss, accuracy, precision, recall, F1, R2",
    .state_size = sizeof(struct test),
    .usage = "RUN|MODEL|JOB [options]",
    .example = "muster test runs/lenet-0abc12\nmuster test lenet.yaml --model lenet.safetensors",
    .args = {.options = options, MU_ARGS_ONE_WORD("a run folder, a model file or a job file")},
    .run = run,
};
