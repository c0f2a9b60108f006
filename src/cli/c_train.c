// SPDX-License-Identifier: Apache-2.0
// c_train.c - `muster train`: runs the driver and shows it to a person.
//
// Messages, table and progress line go to stderr while it trains; stdout has one JSON object at the end, and
// only with --json.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/plan_text.h"
#include "cli/progress.h"

#include "base/log.h"
#include "cli/term.h"
#include "learners/nodes.h"
#include "learners/record.h"
#include "look/sample.h"
#include "plan/auto.h"
#include "ps/moved.h"
#include "run/driver.h"
#include "watch/live_view.h"
#include "train/stopflag.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct train { const char *resume, *out, *record, *replay, *plan, *cluster; };

static const mu_opt options[] = {
    MU_OPT_KEY("epochs", "E", "train.epochs", "passes over the data"),
    MU_OPT_KEY("steps", "S", "train.steps", "updates"),
    MU_OPT_KEY("learners", "N", "cluster.learners", "processes that train together; auto = one per core"),
    MU_OPT_KEY("workers", "N", "cluster.workers", "processes that compute each gradient of a learner"),
    MU_OPT_KEY("protocol", "P", "cluster.protocol", "how they synchronise: see `muster help protocol`"),
    MU_OPT_KEY("batch-size", "MU", "cluster.batch",
               "samples per gradient of one learner; the job's batch shared by all when not given"),
    MU_OPT_KEY("seed", "N", "seed", "seed of every random draw"),
    MU_OPT_KEY("deadline", "T", "train.deadline", "stop after this time, e.g. 90s, 15m, 2h"),
    MU_OPT(struct train, resume, "resume", MU_OPT_MAYBE_FOLDER, "RUN",
           "go on with this run, or with the newest of this job"),
    MU_OPT(struct train, out, "out", MU_OPT_FOLDER, "FOLDER", "run folder; runs/NAME-ID when not given"),
    MU_OPT(struct train, plan, "plan", MU_OPT_FILE, "FILE", "train as this plan says: `muster plan JOB --out FILE`"),
    MU_OPT_ONE_OF(struct train, cluster, "cluster", "auto",
                  "auto: find the fastest way on this machine first, as `cluster: auto` in the job"),
    MU_OPT(struct train, record, "record", MU_OPT_FILE, "FILE",
           "write the order of all updates into this new file, so that the run can be repeated exactly"),
    MU_OPT(struct train, replay, "replay", MU_OPT_FILE, "FILE",
           "repeat the run of this log bit for bit, in one process"),
    {0},
};

typedef struct screen {
    mu_progress p;
    double      last_s;         // trained_s at the last row of the table
    double      accuracy;
} screen;

// Under a queue a training may be a later part of one that began long ago.
static void tell_restart(void) {
    const char *job = getenv("SLURM_JOB_ID"), *count = getenv("SLURM_RESTART_COUNT");
    const long n = count ? strtol(count, NULL, 10) : 0;
    if (job && n > 0) mu_info("restart %ld of Slurm job %.32s", n, job);
}

static void started(MU_UNUSED void *ctx, const mu_session *s, const mu_run_moment *m, const char *run_dir,
                    bool resumed) {
    const mu_setup *p = &s->setup;
    char of[48] = ""; // warm-up, a later moment of a schedule, the protocol's rule
    if (fabs(m->rate - s->updater->base) > 1e-6 * s->updater->base)
        snprintf(of, sizeof of, " of base %g", s->updater->base);
    mu_info("%s: %" PRId64 " parameters, %" PRId64 " training samples, batch %" PRId64 " (mu %" PRId64
            " x lambda %d), %s rate %.4g%s",
            s->job->name, mu_params_n_trained(s->params), mu_source_n_records(s->train.source),
            p->global_batch * s->job->train.accumulate, p->rows, p->learners, s->updater->class->name,
            m->rate, of);
    if (mu_setup_processes(p) > 1 || p->rate_factor != 1) {
        char text[400];
        mu_setup_text(p, s->updater->base, text, sizeof text);
        mu_info("%s", text);
    }
    mu_info("%s %s", resumed ? "resuming" : "run folder", run_dir);
    tell_restart();
}

static void progress(void *ctx, const mu_run_moment *m) {
    screen *sc = ctx;
    mu_progress_update(&sc->p, &(mu_progress_now){
        .epoch = m->epoch, .epochs = m->end_epochs, .step = m->step, .steps = m->end_steps, .loss = m->loss,
        .accuracy = sc->accuracy, .samples_per_s = m->samples_per_s, .rate = m->rate,
        .eta_s = isnan(m->eta_s) ? -1 : m->eta_s,
        .learners = m->learners, .of_learners = m->of_learners});
}

static void evaluated(void *ctx, const mu_run_moment *m, mu_phase phase, const mu_scores *scores,
                      MU_UNUSED bool is_best) {
    screen *sc = ctx;
    sc->accuracy = scores->accuracy;
    mu_progress_add_row(&sc->p, &(mu_progress_row){.set = phase == MU_TEST ? "test" : "valid",
                                                   .epoch = m->epoch,
                                                   .train_loss = m->loss,
                                                   .loss = scores->loss,
                                                   .accuracy = scores->accuracy,
                                                   .time_s = m->trained_s - sc->last_s});
    sc->last_s = m->trained_s;
}

static void message(MU_UNUSED void *ctx, const char *text) { mu_warn("%s", text); }

// Keys are a contract: added, never renamed.
static json_t *staleness_json(const mu_learners_result *g) {
    json_t *o = json_object(), *hist = json_array();
    for (int i = 0; i < g->most_staleness; i++)
        json_array_append_new(hist, json_integer(g->staleness_hist[i]));
    json_object_set_new(o, "mean", mu_json_number(g->staleness_mean));
    json_object_set_new(o, "max", json_integer(g->staleness_max));
    json_object_set_new(o, "hist", hist);
    return o;
}

static int ranks_told(const mu_learners_result *g) {
    return g->ranks < 2 ? 0 : g->ranks < MU_RANKS_TOLD ? g->ranks : MU_RANKS_TOLD;
}

static void print_json(const mu_run_result *r) {
    const mu_learners_result *g = &r->learners;
    const mu_json_real numbers[] = {
        {"epochs", r->epochs}, {"wall_s", r->wall_s}, {"samples_per_s", r->samples_per_s},
        {"train_loss", r->train_loss},
        {"test_accuracy", r->tested ? r->test.accuracy : NAN}, {"test_loss", r->tested ? r->test.loss : NAN},
        {"val_accuracy", r->validated ? r->validation.accuracy : NAN},
        {"val_loss", r->validated ? r->validation.loss : NAN},
        {"lr_effective", g->rate_effective}, {"compute_s", g->compute_s}, {"wait_s", g->wait_s},
        {"overlap", g->overlap}, {"best", r->best}, {"apply_s", g->apply_s},
        {"replace_p50_s", g->replace_p50_s}, {"replace_p99_s", g->replace_p99_s},
    };
    const mu_json_int counts[] = {
        {"steps", r->steps}, {"learners", g->count}, {"mu", g->rows}, {"lambda", g->count},
        {"versions", g->versions}, {"learners_lost", g->learners_lost},
        {"learners_replaced", g->learners_replaced}, {"server_lost", g->server_lost},
        {"lock_repairs", g->lock_repairs}, {"repeated_samples", r->repeated_samples},
        {"torn_updates", g->torn_updates}, {"best_step", r->best_step},
        {"scored_step", r->tested || r->validated ? r->scored_step : -1}, {"bad_records", g->bad_records},
        {"records_read", g->records_read}, {"samples", r->samples}, {"applied_samples", r->applied_samples},
        {"server_groups", g->server_groups}, {"merges", g->merges}, {"merged_bytes", g->merged_bytes},
        {"ranks", g->ranks > 1 ? g->ranks : 1}, {"wire_bytes_sent", g->wire_sent},
        {"wire_bytes_received", g->wire_received}, {"bridge_bytes_sent", g->bridged_sent},
        {"bridge_bytes_received", g->bridged_received},
    };
    const struct { const char *key, *value; } texts[] = {
        {"protocol", g->protocol}, {"checkpoint", r->checkpoint}, {"model", r->model},
        {"run", r->run_dir}, {"stopped_by", r->why ? r->why : ""},
    };
    json_t *o = json_object();
    mu_json_put_ints(o, counts, MU_COUNT(counts));
    mu_json_put_reals(o, numbers, MU_COUNT(numbers));
    for (size_t i = 0; i < MU_COUNT(texts); i++)
        json_object_set_new(o, texts[i].key, json_string(texts[i].value));
    if (ranks_told(g)) json_object_set_new(o, "rank_times", mu_rank_times_json(g->rank, ranks_told(g)));
    json_object_set_new(o, "staleness", staleness_json(g));
    json_object_set_new(o, "bytes", mu_moved_json(g->counts_moved, &g->moved, g->steps));
    json_object_set_new(o, "gradients",
                        json_pack("{s:I s:I s:I s:I}", "produced", (json_int_t)g->produced, "applied",
                                  (json_int_t)g->applied, "rejected", (json_int_t)g->rejected, "lost",
                                  (json_int_t)g->lost));
    mu_cli_print_json(o);
}

// Results are what a person asked for: --quiet silences the way to them, so they go to stdout then. With
// --json that has its one line alone.
static void tell(const mu_args *a, const char *fmt, ...) MU_PRINTF(2, 3);
static void tell(const mu_args *a, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!a->quiet) mu_info("%s", text);
    else if (!a->json) puts(text);
}

static void print_ranks(const mu_args *a, const mu_learners_result *g) {
    const int n = ranks_told(g);
    if (!n) return;
    const int low = mu_rank_by_overlap(g->rank, n, -1), high = mu_rank_by_overlap(g->rank, n, 1);
    tell(a, "%d ranks: overlap %.1f %% (rank %d) to %.1f %% (rank %d); rank 0 sent %.1f MB", g->ranks,
         100 * mu_overlap(g->rank[low].compute_s, g->rank[low].wait_s), low,
         100 * mu_overlap(g->rank[high].compute_s, g->rank[high].wait_s), high,
         1e-6 * (double)g->wire_sent);
}

static void print_learners(const mu_args *a, const mu_learners_result *g) {
    tell(a,
         "%d learner%s, %s: %" PRId64 " gradients = %" PRId64 " applied + %" PRId64 " rejected + %" PRId64
         " lost; staleness %.2f (at most %" PRId64 "); overlap %.1f %%",
         g->count, g->count == 1 ? "" : "s", g->protocol, g->produced, g->applied, g->rejected, g->lost,
         g->staleness_mean, g->staleness_max, 100 * g->overlap);
    print_ranks(a, g);
    if (g->server_groups > 1)
        tell(a, "%d server groups: %" PRId64 " merges, %.1f MB given and taken", g->server_groups, g->merges,
             1e-6 * (double)g->merged_bytes);
    if (g->counts_moved && g->steps > 0)
        tell(a, "a step moved %.4g MB of values, %.4g MB of gradients, %.4g MB of weights between processes",
             1e-6 * mu_moved_per_step(g->moved.values, g->steps, false),
             1e-6 * mu_moved_per_step(g->moved.gradients, g->steps, false),
             1e-6 * mu_moved_per_step(g->moved.weights, g->steps, true));
    if (g->learners_lost || g->server_lost)
        tell(a, "%" PRId64 " learners lost and %" PRId64
                " replaced (%.3f s, 99 %% within %.3f s), server lost %" PRId64 " times",
                g->learners_lost, g->learners_replaced, g->replace_p50_s, g->replace_p99_s, g->server_lost);
}

// What the run is good for now.
// What a person may do with the model, before and behind the name of its folder.
typedef struct next_words { const char *verb, *input; } next_words;

static next_words next_of(const mu_session *s) {
    const mu_reader_ask *ask = mu_source_reader(s->train.source)->class->ask;
    if (s->test.net) return (next_words){"test", ""};
    if (mu_sampler_fits(s)) return (next_words){"sample", ""};
    if (mu_node_find(s->job->data, "predict")) return (next_words){"predict", ""};
    if (!ask) return (next_words){"plot", ""};
    return (next_words){"predict", ask->typed ? " \"TEXT\"" : ask->files ? " IMAGE" : " FILE"};
}

static void print_summary(const mu_args *a, const mu_session *s, const mu_run_result *r) {
    tell(a, "%" PRId64 " steps, %.3g epochs in %.1f s, %.0f samples/s, stopped by %s", r->steps, r->epochs,
            r->wall_s, r->samples_per_s, r->why);
    const mu_scores *sc = r->tested ? &r->test : r->validated ? &r->validation : NULL;
    char line[256];
    int n = 0;
    for (int i = 0; sc && i < sc->n && n < (int)sizeof line; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, "  %s %.4f", sc->name[i], sc->value[i]);
    char of[64] = ""; // a training that was stopped is not evaluated again
    if (sc && r->scored_step != r->steps)
        snprintf(of, sizeof of, ", at step %" PRId64 " of %" PRId64, r->scored_step, r->steps);
    if (sc)
        tell(a, "%s%s  (%" PRId64 " samples%s)", r->tested ? "test" : "validation", line, sc->samples, of);
    if (r->skipped || r->rollbacks || r->learners.bad_records)
        tell(a, "%" PRId64 " steps skipped, %" PRId64 " rollbacks, %" PRId64 " bad records replaced",
                r->skipped, r->rollbacks, r->learners.bad_records);
    if (mu_session_forks(s)) print_learners(a, &r->learners);
    const next_words next = next_of(s);
    tell(a, "saved  %s   next: muster %s %s%s", r->model, next.verb, r->run_dir, next.input);
}

// ---- several ranks ----

// Started by mpirun or srun with others: they train one model, and rank 0 alone speaks.
static mu_status open_ranks(mu_args *a, const struct train *v, mu_session_opts *o, mu_nodes **out,
                            mu_err *err) {
    const char *transport = mu_transport_wanted();
    const mu_transport_opts usual = {0};
    if (!transport) return MU_OK;
    MU_TRY(mu_nodes_open(transport, &usual, NULL, out, err));
    const mu_nodes *n = *out;
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); // all ranks write to one terminal: whole lines
    o->nodes = n->n, o->node = n->rank;
    if (n->rank > 0) {
        a->quiet = true;
        a->json = false;
        o->restored = true; // rank 0 gives it all values
        mu_log_set_level(MU_LOG_ERROR);
    }
    if (v->record || v->replay)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "a run of several ranks cannot be %s",
                                     v->record ? "recorded" : "repeated"),
                             err, "Start one process without mpirun.");
    return MU_OK;
}

// Where a rank is lost the transport is left as it is, and the process ends here.
static void close_ranks(mu_nodes *n, mu_status st, const mu_err *err) {
    const bool told = st == MU_OK || mu_stop_was_asked(st);
    mu_err shown = {0}; // the job's problems are on this rank's terminal already, and no error any more
    if (!told && err->status == MU_OK) MU_FAIL(&shown, st, "it has problems with the job, and says which");
    if (mu_nodes_end(n, told ? NULL : shown.status != MU_OK ? &shown : err)) {
        mu_nodes_destroy(n);
        return;
    }
    if (!told) mu_err_print(err, stderr, mu_term_colour(stderr));
    fflush(NULL);
    _exit(mu_status_exit_code(st));
}

static void tell_end(const mu_args *a, const mu_session *s, const mu_run_result *r, mu_status st,
                     mu_err *err) {
    if (s->node == 0) print_summary(a, s, r);
    if (st != MU_OK) { // asked for, so not an error
        if (s->node == 0) tell(a, "%s\n%s", err->msg, err->hint);
        err->msg[0] = '\0';
    }
    if (a->json) print_json(r);
}

// ---- a plan ----

// Edits of a plan, in front of those of the command line.
static mu_status plan_first(mu_args *a, const struct train *v, const char *word, int ranks, bool alone, mu_err *err) {
    mu_plan_screen told = {.quiet = a->quiet};
    const mu_auto_opts o = {.planner = {.job = word, .set = a->set, .n_sets = a->n_sets,
                                        .watch = mu_plan_screen_watch(&told)},
                            .overlay = v->plan, .asked = v->cluster != NULL, .resume = v->resume, .out = v->out,
                            .ranks = ranks};
    mu_auto plan;
    char line[400];
    if (!alone && (v->plan || v->cluster))
        return MU_FAIL(err, MU_EUSAGE, "a run that is repeated is trained as its log says, not by a plan");
    if (v->plan && v->cluster) return MU_FAIL(err, MU_EUSAGE, "`--plan` and `--cluster auto` exclude each other");
    if (!alone) return MU_OK;
    const mu_status st = mu_auto_resolve(&a->arena, &o, &plan, err);
    mu_plan_screen_end(&told);
    if (st != MU_OK || !plan.any) return st;
    a->set = (const char **)(uintptr_t)plan.set;
    a->n_sets = plan.n_sets;
    if (plan.planned) {
        mu_plan_text_line(&plan.planner, mu_planner_wanted(&plan.planner), line, sizeof line);
        if (!a->quiet) mu_info("planned: %s", line);
    }
    mu_auto_close(&plan);
    return MU_OK;
}

// Behind a run: was it as predicted?
static void judge(const mu_args *a, const mu_session *s, const mu_run_result *r) {
    mu_plan_screen told = {.quiet = a->quiet};
    const mu_planner_opts o = {.job = s->job->path, .set = a->set, .n_sets = a->n_sets,
                               .watch = mu_plan_screen_watch(&told)};
    if (s->node == 0 && s->nodes < 2) mu_planner_judge(&o, s, r);
}

static mu_status train(const mu_args *a, const struct train *v, mu_session *s, mu_nodes *nodes, mu_err *err) {
    screen sc = {.accuracy = NAN};
    mu_run_result r;
    mu_run_opts ro = {.out = v->out,
                      .resume = v->resume,
                      .record = v->record,
                      .replay = v->replay,
                      .sets = a->set,
                      .n_sets = a->n_sets,
                      .nodes = s->nodes > 1 ? nodes : NULL,
                      .watch = {&sc, started, progress, evaluated, message}};
    if (s->node > 0) {
        ro.no_files = true;
        ro.out = ro.resume = NULL;
        ro.watch = (mu_run_watch){0};
    }
    mu_progress_init(&sc.p, stderr, a->quiet, a->log_format && !strcmp(a->log_format, "json"));
    const mu_status st = mu_run_train(s, &ro, &r, err);
    mu_progress_done(&sc.p);
    const bool asked = mu_stop_was_asked(st);
    if (st == MU_OK || asked) tell_end(a, s, &r, st, err);
    if (st == MU_OK && !v->replay) judge(a, s, &r);
    // mpirun ends rank 0, which may still save, as soon as another one says that it has failed.
    return asked && s->node > 0 ? MU_OK : st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct train *v = values;
    const char *word = a->n_words ? a->word[0] : v->resume && *v->resume ? v->resume : NULL;
    if (!word)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`muster train` needs a job file"), err,
                             "`muster init lenet job.yaml` writes an example.");
    if (v->resume && !*v->resume && mu_fs_is_folder(word)) v->resume = word; // `train RUN --resume`
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_nodes *nodes = NULL;
    mu_session_opts o = {
        .phases = MU_TRAIN | MU_VALIDATION | MU_TEST, .trains = true, .restored = v->resume != NULL};
    mu_status st = mu_stop_install(err);
    signal(SIGPIPE, SIG_IGN);   // the reader of the messages may leave; training does not depend on it
    if (st == MU_OK) st = open_ranks(a, v, &o, &nodes, err);
    if (st == MU_OK) st = plan_first(a, v, word, o.nodes, !v->replay, err);
    if (st == MU_OK && v->replay) st = mu_runlog_edits(v->replay, &a->arena, &a->set, &a->n_sets, err);
    if (st == MU_OK) st = mu_cli_open(a, word, &o, &job, &s, err);
    if (st == MU_OK) st = train(a, v, s, nodes, err);
    if (nodes) close_ranks(nodes, st, err);
    mu_cli_close(job, s, err);
    return st;
}

const mu_verb_class mu_verb_train = {
    .name = "train",
    .help = "train the net of a job file",
    .state_size = sizeof(struct train),
    .usage = "JOB [options]",
    .example = "muster train lenet.yaml --epochs 5\n"
               "muster train lenet.yaml --learners 4 --protocol softsync\n"
               "muster train lenet.yaml --resume\n"
               "muster train lenet.yaml --learners 4 --protocol async --record run.log\n"
               "muster train lenet.yaml --replay run.log\n"
               "mpirun -n 2 muster train lenet.yaml",
    .about = "Ctrl-C saves a checkpoint and ends; --resume goes on exactly where it stopped.",
    .args = {.options = options,
             .common = MU_COMMON_SET | MU_COMMON_JSON,
             .min_words = 0,
             .max_words = 1,
             .words_are = "a job file"},
    .run = run,
};
