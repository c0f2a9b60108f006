// SPDX-License-Identifier: Apache-2.0
// c_test.c - `muster test`: scores of a trained net on its test data, every sample once.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "train/evaluate.h"

#include <inttypes.h>
#include <string.h>

struct test { const char *model, *on; bool best; };

static const mu_opt options[] = {
    MU_OPT_MODEL(struct test),
    MU_OPT_ONE_OF(struct test, on, "on", "test|validation", "which data of the job; test when not given"),
    MU_OPT_KEY("batch-size", "N", "test.batch", "samples per forward pass"),
    MU_OPT_BEST(struct test),
    {0},
};

static void print(const mu_args *a, mu_phase phase, const mu_scores *sc) {
    fprintf(stderr, "%" PRId64 " samples in %.2f s (%.0f samples/s)\n", sc->samples, sc->seconds,
            (double)sc->samples / sc->seconds);
    if (!a->json) {
        for (int i = 0; i < sc->n; i++) printf("%s %.6g\n", sc->name[i], sc->value[i]);
        return;
    }
    json_t *o = json_object();
    json_object_set_new(o, "samples", json_integer(sc->samples));
    bool test = phase == MU_TEST;
    json_object_set_new(o, test ? "test_loss" : "val_loss", mu_json_number(sc->loss));
    json_object_set_new(o, test ? "test_accuracy" : "val_accuracy", mu_json_number(sc->accuracy));
    for (int i = 0; i < sc->n; i++) json_object_set_new(o, sc->name[i], mu_json_number(sc->value[i]));
    mu_cli_print_json(o);
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct test *v = values;
    mu_phase phase = v->on && !strcmp(v->on, "validation") ? MU_VALIDATION : MU_TEST;
    mu_cli_model m;
    mu_scores sc;
    mu_session_opts o = {.phases = (unsigned)phase};
    mu_status st = mu_cli_open_model(a, a->word[0], v->model, v->best, &o, &m, err);
    mu_session_phase *p = st != MU_OK ? NULL : phase == MU_TEST ? &m.session->test : &m.session->validation;
    if (p && !p->net) {
        st = MU_FAIL_AT(err, MU_EJOB, m.job->data ? m.job->data->pos : MU_NOPOS, "the job has no `data.%s`",
                        mu_phase_name(phase));
        mu_err_hint(err, "Add it, or choose other data with `--on`.");
    }
    if (st == MU_OK) st = mu_evaluate(p, phase, NULL, NULL, &sc, err);
    if (st == MU_OK) print(a, phase, &sc);
    mu_cli_close_model(&m, err);
    return st;
}

const mu_verb_class mu_verb_test = {
    .name = "test",
    .help = "evaluate a trained net on its test data",
    .state_size = sizeof(struct test),
    .usage = "RUN|MODEL|JOB [options]",
    .example = "muster test runs/lenet-0abc12\nmuster test lenet.yaml --model lenet.safetensors",
    .args = {.options = options, MU_ARGS_ONE_WORD("a run folder, a model file or a job file")},
    .run = run,
};
