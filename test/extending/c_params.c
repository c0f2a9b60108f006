// SPDX-License-Identifier: Apache-2.0
// c_params.c - `muster params`: the parameters of a job, one a line.
#include "cli/cli.h"
#include "cli/jobs.h"

#include <string.h>

struct params {
    const char *only;
};

static const mu_opt options[] = {
    MU_OPT(struct params, only, "only", MU_OPT_TEXT, "TEXT", "those with TEXT in their names"),
    {0},
};

static void print(const mu_params *ps, const char *only) {
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        char shape[96];
        if (!only || strstr(p->name, only))
            printf("%-20s %-20s %s\n", p->name, mu_shape_text(&p->shape, shape),
                   p->init.plugin ? p->init.plugin->name : "");
    }
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct params *o = values;
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_status st =
        mu_cli_open(a, a->word[0], &(mu_session_opts){.phases = MU_TRAIN, .check_only = true}, &job, &s, err);
    if (st == MU_OK) print(s->params, o->only);
    mu_session_close(s);
    mu_job_destroy(job);
    return st;
}

const mu_verb_class mu_verb_params = {
    .name = "params",
    .help = "list the parameters of a job",
    .state_size = sizeof(struct params),
    .usage = "JOB [options]",
    .example = "muster params lenet.yaml --only bias",
    .args = {.options = options,
             .common = MU_COMMON_SET,
             .min_words = 1,
             .max_words = 1,
             .words_are = "a job file"},
    .run = run,
};
