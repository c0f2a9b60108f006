// SPDX-License-Identifier: Apache-2.0
// c_export.c - `muster export`: the best or the newest model of a run as one file that stands alone.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "base/log.h"

#include <string.h>

struct export {
    bool last;
};

static const mu_opt options[] = {
    MU_OPT(struct export, last, "last", MU_OPT_FLAG, NULL, "the newest checkpoint instead of the best"),
    {0},
};

// "step 400, best_accuracy 0.983": what the model reached, as far as it tells.
static void put_scores(const json_t *scores, mu_text *out) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)scores, key, value) if (json_is_number(value))
        mu_text_printf(out, "%s%s %.6g", out->n ? ", " : "", key, json_number_value(value));
}

static void tell(const mu_args *a, const mu_model *m, const char *path) {
    static const mu_json_limits limits = {.max_depth = 2, .max_values = 1000};
    const char *text = mu_model_scores_text(m);
    json_t *scores = NULL;
    mu_text reached = {0};
    mu_err unused = {0};
    if (text && mu_json_parse(text, strlen(text), &limits, "scores", &scores, &unused) != MU_OK)
        scores = NULL;
    put_scores(scores, &reached);
    mu_info("wrote %s: %s%s%s%s", path, m->path, reached.n ? " (" : "",
            reached.n && reached.s ? reached.s : "", reached.n ? ")" : "");
    if (a->json)
        mu_cli_print_json(json_pack("{s:s, s:s, s:o}", "file", path, "from", m->path, "scores",
                                    scores ? json_incref(scores) : json_object()));
    mu_text_fini(&reached);
    json_decref(scores);
}

// A run that was never evaluated has no best model: its newest is all there is.
static mu_status open_model(const struct export *v, const char *run, mu_model *m, mu_err *err) {
    mu_status st = mu_model_open(m, run, v->last ? MU_CKPT_NEWEST : MU_CKPT_BEST, err);
    if (st != MU_ENOTFOUND || v->last) return st;
    mu_err own = {0};
    if (mu_model_open(m, run, MU_CKPT_NEWEST, &own) != MU_OK) return st;
    mu_err_clear(err);
    mu_info("the run marks no best model; this is its newest");
    return MU_OK;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    mu_model m = {0};
    mu_job *job = NULL;
    mu_err unread = {0};
    MU_TRY(open_model(values, a->word[0], &m, err));
    if (!mu_model_job_text(&m) && mu_model_load_job(&m, a->word[0], NULL, 0, &job, &unread) != MU_OK)
        mu_warn("the model is written without its job: %s", unread.msg);
    const mu_status st = mu_model_export(&m, job, a->word[1], err);
    if (st == MU_OK) tell(a, &m, a->word[1]);
    mu_job_destroy(job);
    mu_model_close(&m);
    return st;
}

const mu_verb_class mu_verb_export = {
    .name = "export",
    .help = "the best model of a run as one file that stands alone",
    .state_size = sizeof(struct export),
    .usage = "RUN FILE.safetensors [options]",
    .example = "muster export runs/intents-0abc12 intents.safetensors\n"
               "muster predict intents.safetensors \"turn off the light\"",
    .about =
        "The file holds parameters, job, vocabulary, class names and scores: nothing else of the run or its "
        "data is needed to test, predict, extract and sample. A file that exists is not replaced.",
    .args = {.options = options,
             .common = MU_COMMON_JSON,
             .min_words = 2,
             .max_words = 2,
             .words_are = "a run folder, and the file to write"},
    .run = run,
};
