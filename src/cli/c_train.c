// SPDX-License-Identifier: Apache-2.0
// c_train.c - `muster train`: runs the driver and shows it to a person.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/progress.h"

#include "base/log.h"
#include "run/driver.h"
#include "run/stopflag.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct train { const char *resume, *out; };

static const mu_opt options[] = {
    MU_OPT_KEY("epochs", "E", "train.epochs", "passes over the data"),
    MU_OPT_KEY("steps", "S", "train.steps", "updates"),
    MU_OPT_KEY("batch-size", "N", "train.batch", "samples per update"),
    MU_OPT_KEY("learners", "N", "cluster.learners", "learners"),
    MU_OPT_KEY("protocol", "P", "cluster.protocol", "synchronisation of learners"),
    MU_OPT_KEY("seed", "N", "seed", "seed of every random draw"),
    MU_OPT_KEY("deadline", "T", "train.deadline", "stop after this time, e.g. 90s, 15m, 2h"),
    MU_OPT(struct train, resume, "resume", MU_OPT_MAYBE_FOLDER, "RUN",
           "go on with this run, or with the newest of this job"),
    MU_OPT(struct train, out, "out", MU_OPT_FOLDER, "FOLDER", "run folder; runs/NAME-ID when not given"),
    {0},
};

typedef struct screen {
    mu_progress p;
    double      last_s;         // trained_s at the last row of the table
    double      accuracy;
    bool        quiet;
} screen;

static void started(void *ctx, const mu_session *s, const char *run_dir, bool resumed) {
    screen *sc = ctx;
    const mu_train_opts *t = &s->job->train;
    if (sc->quiet) return;
    fprintf(stderr,
            "%s: %" PRId64 " parameters, %" PRId64 " training samples, batch %" PRId64 " (mu %" PRId64
            " x lambda 1), %s rate %g\n",
            s->job->name, mu_params_n_trained(s->params), mu_source_n_records(s->train.source),
            t->batch * t->accumulate, t->batch, s->updater->class->name, s->updater->base);
    fprintf(stderr, "%s %s\n", resumed ? "resuming" : "run folder", run_dir);
}

static void progress(void *ctx, const mu_run_moment *m) {
    screen *sc = ctx;
    mu_progress_update(&sc->p, &(mu_progress_now){
        .epoch = m->epoch, .epochs = m->end_epochs, .step = m->step, .steps = m->end_steps, .loss = m->loss,
        .accuracy = sc->accuracy, .samples_per_s = m->samples_per_s, .eta_s = isnan(m->eta_s) ? -1 : m->eta_s,
        .learners = 1, .of_learners = 1});
}

static void judged(void *ctx, const mu_run_moment *m, mu_phase phase, const mu_scores *scores, bool is_best) {
    screen *sc = ctx;
    (void)phase;
    (void)is_best;
    sc->accuracy = scores->accuracy;
    mu_progress_add_row(&sc->p, &(mu_progress_row){.epoch = m->epoch,
                                                   .train_loss = m->loss,
                                                   .valid_loss = scores->loss,
                                                   .accuracy = scores->accuracy,
                                                   .time_s = m->trained_s - sc->last_s});
    sc->last_s = m->trained_s;
}

static void message(void *ctx, const char *text) {
    (void)ctx;
    mu_warn("%s", text);
}

static void print_json(const mu_job *job, const mu_run_result *r) {
    double acc = r->tested ? r->test.accuracy : NAN, loss = r->tested ? r->test.loss : NAN;
    json_t *o = json_pack(
        "{s:I s:o s:o s:o s:o s:o s:o s:i s:s s:I s:i s:o s:{s:i s:i s:[]} s:{s:I s:I s:I s:i} s:i s:i s:o "
        "s:o s:o s:s s:s s:s s:s s:o s:I s:I}",
        "steps", (json_int_t)r->steps, "epochs", mu_json_number(r->epochs), "wall_s",
        mu_json_number(r->wall_s), "samples_per_s", mu_json_number(r->samples_per_s), "train_loss",
        mu_json_number(r->train_loss), "test_accuracy", mu_json_number(acc), "test_loss",
        mu_json_number(loss), "learners", 1, "protocol", job->cluster.protocol, "mu",
        (json_int_t)job->train.batch, "lambda", 1, "lr_effective", mu_json_number(r->rate), "staleness",
        "mean", 0, "max", 0, "hist", "gradients", "produced", (json_int_t)r->steps, "applied",
        (json_int_t)(r->steps - r->skipped), "rejected", (json_int_t)r->skipped, "lost", 0, "learners_lost",
        0, "learners_replaced", 0, "compute_s", mu_json_number(r->compute_s), "wait_s",
        mu_json_number(r->wait_s), "overlap", mu_json_number(r->compute_s / (r->compute_s + r->wait_s)),
        "checkpoint", r->checkpoint, "model", r->model, "run", r->run_dir, "stopped_by", r->why ? r->why : "",
        "best", mu_json_number(r->best), "best_step", (json_int_t)r->best_step, "bad_records",
        (json_int_t)r->bad_records);
    mu_cli_print_json(o);
}

static void print_summary(const char *word, const mu_run_result *r) {
    fprintf(stderr, "%" PRId64 " steps, %.4g epochs in %.1f s, %.0f samples/s, stopped by %s\n", r->steps,
            r->epochs, r->wall_s, r->samples_per_s, r->why);
    if (r->tested) {
        fprintf(stderr, "final");
        for (int i = 0; i < r->test.n; i++) fprintf(stderr, "  %s %.4f", r->test.name[i], r->test.value[i]);
        fprintf(stderr, "  (%" PRId64 " samples)\n", r->test.samples);
    }
    if (r->skipped || r->rollbacks || r->bad_records)
        fprintf(stderr,
                "%" PRId64 " steps skipped, %" PRId64 " rollbacks, %" PRId64 " bad records replaced\n",
                r->skipped, r->rollbacks, r->bad_records);
    (void)word;
    fprintf(stderr, "saved  %s   next: muster test %s\n", r->model, r->run_dir);
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct train *v = values;
    const char *word = a->n_words ? a->word[0] : v->resume && *v->resume ? v->resume : NULL;
    if (!word) {
        MU_FAIL(err, MU_EUSAGE, "`muster train` needs a job file");
        mu_err_hint(err, "`muster init lenet job.yaml` writes an example.");
        return MU_EUSAGE;
    }
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_session_opts o = {.phases = MU_TRAIN | MU_VALIDATION | MU_TEST};
    mu_status st = mu_stop_install(err);
    if (st == MU_OK) st = mu_cli_open(a, word, &o, &job, &s, err);
    if (st == MU_OK) {
        screen sc = {.accuracy = NAN, .quiet = a->quiet};
        mu_progress_init(&sc.p, stderr, a->quiet, a->log_format && !strcmp(a->log_format, "json"));
        mu_run_opts ro = {
            .out = v->out, .resume = v->resume, .watch = {&sc, started, progress, judged, message}};
        mu_run_result r;
        st = mu_run_train(s, &ro, &r, err);
        mu_progress_done(&sc.p);
        bool ended = st == MU_OK || st == MU_EINTERRUPTED || st == MU_ETERMINATED;
        if (ended && !a->quiet) print_summary(word, &r);
        if (ended && a->json) print_json(job, &r);
    }
    mu_session_close(s);
    mu_job_destroy(job);
    return st;
}

const mu_verb_class mu_verb_train = {
    .name = "train",
    .help = "train the net of a job file",
    .state_size = sizeof(struct train),
    .usage = "JOB [options]",
    .example = "muster train lenet.yaml --epochs 5\nmuster train lenet.yaml --resume",
    .about = "Ctrl-C saves a checkpoint and ends; --resume goes on exactly where it stopped.",
    .args = {.options = options,
             .common = MU_COMMON_SET | MU_COMMON_JSON,
             .min_words = 0,
             .max_words = 1,
             .words_are = "a job file"},
    .run = run,
};
