// SPDX-License-Identifier: Apache-2.0
// c_tradeoff.c - `muster tradeoff`: error and time of protocol x mu x lambda on one job, as a table and a
// picture.
//
// The words are read and checked as far as a job can be checked without training; run/tradeoff.h trains. What
// is known of each cell is printed as it comes.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/term.h"

#include "base/log.h"
#include "comm/cores.h"
#include "file/fs.h"
#include "file/outfile.h"
#include "plot/trials_chart.h"
#include "ps/protocol.h"
#include "run/tradeoff.h"
#include "train/stopflag.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

enum { MAX_WORDS = 64, MAX_CELLS = 100000, MAX_LAMBDA = 1024, MAX_MU = 1000000 };
static const double default_limit_s = 24 * 3600;

struct tradeoff {
    const char *protocols, *batches, *learners, *out;
    int64_t repeat, seed;
    double limit;
    bool again, keep;
};

static const mu_opt options[] = {
    MU_OPT(struct tradeoff, protocols, "protocols", MU_OPT_TEXT, "P,...",
           "protocols; softsync:2 and ssp:3 give n and the bound; hardsync,softsync:1,async when not given"),
    MU_OPT(struct tradeoff, batches, "batches", MU_OPT_TEXT, "MU,...",
           "samples per gradient of one learner; 4,16,64 when not given"),
    MU_OPT(struct tradeoff, learners, "learners", MU_OPT_TEXT, "N,...",
           "numbers of learners; 1,2,4,... of each server group, up to the cores, when not given"),
    MU_OPT_KEY("epochs", "E", "train.epochs", "passes over the data of each training"),
    MU_OPT(struct tradeoff, repeat, "repeat", MU_OPT_INT, "K",
           "train each cell with K seeds; 1 when not given"),
    MU_OPT(struct tradeoff, seed, "seed", MU_OPT_INT, "N", "the first seed; the job's when not given"),
    MU_OPT(struct tradeoff, out, "out", MU_OPT_FOLDER, "FOLDER",
           "where table, chart and runs go; tradeoff-NAME when not given"),
    MU_OPT(struct tradeoff, limit, "limit", MU_OPT_DURATION, "T",
           "end a training after this time; 24h when not given"),
    MU_OPT(struct tradeoff, again, "again", MU_OPT_FLAG, NULL,
           "train also the cells that the table has already"),
    MU_OPT(struct tradeoff, keep, "keep", MU_OPT_FLAG, NULL, "keep checkpoints and models of all trainings"),
    {0},
};

typedef struct grid {
    int n_protocols, n_mu, n_lambda;
    mu_tradeoff_protocol protocol[MAX_WORDS];
    int64_t mu[MAX_WORDS], lambda[MAX_WORDS];   // no lambda = nobody said how many learners
    int64_t repeat;
    char name[64], out[MU_FS_PATH]; // of the job
    // how it is shown
    FILE *rows; // NULL = not at all
    bool has_head, live;
} grid;

// ---- words --------------------------------------------------------------------------------------

// The next word of "a, b,c", owned by the arena; NULL at the end.
static const char *next_word(mu_arena *arena, const char **list) {
    *list += strspn(*list, ", ");
    size_t n = strcspn(*list, ", ");
    const char *word = n ? mu_arena_strndup(arena, *list, n) : NULL;
    *list += n;
    return word;
}

static mu_status read_numbers(mu_arena *arena, const char *option, const char *list, int64_t most,
                              int64_t *out, int *n, mu_err *err) {
    const char *word;
    while ((word = next_word(arena, &list))) {
        int64_t v;
        bool known = false;
        if (!mu_parse_int(word, &v) || v < 1 || v > most)
            return mu_err_hinted(MU_FAIL(err, MU_EUSAGE,
                                         "`--%s` has `%.40s`, which is no whole number from 1 to %" PRId64,
                                         option, word, most),
                                 err, "Give numbers with commas between, such as --%s 1,2,4.", option);
        for (int i = 0; i < *n; i++) known |= out[i] == v;
        if (known) continue;
        if (*n == MAX_WORDS)
            return MU_FAIL(err, MU_EUSAGE, "`--%s` has more than %d numbers", option, MAX_WORDS);
        out[(*n)++] = v;
    }
    return *n ? MU_OK : MU_FAIL(err, MU_EUSAGE, "`--%s` is empty", option);
}

// `softsync:2`: the number is for the protocol's first whole-number key.
static const char *number_key(const mu_plugin *p) {
    for (const mu_field *f = p->fields; f && f->key; f++)
        if (f->type == MU_INT) return f->key;
    return NULL;
}

static mu_status unknown_protocol(const char *word, const char *name, mu_err *err) {
    char all[200] = "";
    MU_FAIL(err, MU_EUSAGE, "`--protocols` has `%.60s`, which is no protocol", word);
    mu_err_suggest(MU_EUSAGE, err, "", mu_registry_nearest(&mu_protocols, name));
    for (size_t i = 0, n = 0; i < mu_protocols.n && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", mu_protocols.list[i]->name);
    return mu_err_hinted(MU_EUSAGE, err, "The protocols are %s.", all);
}

static mu_status read_protocol(mu_arena *arena, const char *word, mu_tradeoff_protocol *out, mu_err *err) {
    const char *colon = strchr(word, ':');
    const char *name = colon ? mu_arena_strndup(arena, word, (size_t)(colon - word)) : word;
    int64_t v;
    if (!name) return MU_FAIL_NOMEM(err, "the protocols");
    const mu_plugin *p = mu_registry_find(&mu_protocols, name);
    if (!p || strlen(word) >= sizeof((mu_trial *)0)->protocol) return unknown_protocol(word, name, err);
    *out = (mu_tradeoff_protocol){word, name, (const mu_protocol_class *)(const void *)p};
    if (!colon) return MU_OK;
    const char *key = number_key(p);
    if (!key) return MU_FAIL(err, MU_EUSAGE, "protocol `%s` takes no number, found `%s`", name, word);
    if (!mu_parse_int(colon + 1, &v))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` in `%s` is no whole number", colon + 1, word), err,
                             "Write `%s:2` for `%s: 2`.", name, key);
    out->yaml = mu_arena_printf(arena, "{type: %s, %s: %" PRId64 "}", name, key, v);
    return out->yaml ? MU_OK : MU_FAIL_NOMEM(err, "the protocols");
}

static mu_status read_protocols(mu_arena *arena, const char *list, grid *g, mu_err *err) {
    const char *word;
    while ((word = next_word(arena, &list))) {
        bool known = false;
        for (int i = 0; i < g->n_protocols; i++) known |= !strcmp(g->protocol[i].word, word);
        if (known) continue;
        if (g->n_protocols == MAX_WORDS)
            return MU_FAIL(err, MU_EUSAGE, "`--protocols` has more than %d words", MAX_WORDS);
        MU_TRY(read_protocol(arena, word, &g->protocol[g->n_protocols++], err));
    }
    return g->n_protocols ? MU_OK : MU_FAIL(err, MU_EUSAGE, "`--protocols` is empty");
}

static mu_status read_grid(mu_args *a, const struct tradeoff *o, grid *g, mu_err *err) {
    MU_TRY(read_protocols(&a->arena, o->protocols ? o->protocols : "hardsync,softsync:1,async", g, err));
    MU_TRY(read_numbers(&a->arena, "batches", o->batches ? o->batches : "4,16,64", MAX_MU, g->mu, &g->n_mu,
                        err));
    if (o->learners)
        MU_TRY(read_numbers(&a->arena, "learners", o->learners, MAX_LAMBDA, g->lambda, &g->n_lambda, err));
    g->repeat = mu_args_given(a, "repeat") ? o->repeat : 1;
    if (g->repeat < 1 || g->repeat > MAX_CELLS)
        return MU_FAIL(err, MU_EUSAGE, "`--repeat` is %" PRId64 ", not 1 or more", g->repeat);
    return MU_OK;
}

// ---- the job ------------------------------------------------------------------------------------

// What a job can be told about its cluster before training; problems are printed. The most learners: a
// protocol that does not fit fewer fails there, and is a row of the table.
static mu_status check_protocol(mu_args *a, const grid *g, const mu_tradeoff_protocol *p, mu_err *err) {
    int64_t most = 1, mu = g->mu[0];
    for (int i = 0; i < g->n_lambda; i++) most = g->lambda[i] > most ? g->lambda[i] : most;
    mu_args with = *a;
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_session_opts so = {.phases = MU_TRAIN, .check_only = true};
    with.json = false;
    const char *cluster[] = {MU_TRADEOFF_NO_GROUPS,
                             mu_arena_printf(&a->arena, "cluster.protocol=%s", p->yaml),
                             mu_arena_printf(&a->arena, "cluster.learners=%" PRId64, most),
                             mu_arena_printf(&a->arena, "cluster.batch=%" PRId64, mu)};
    with.set = mu_arena_array(&a->arena, a->n_sets + MU_COUNT(cluster), sizeof *with.set);
    if (!with.set || !cluster[1] || !cluster[2] || !cluster[3]) return MU_FAIL_NOMEM(err, "the edits");
    if (a->n_sets) memcpy(with.set, a->set, a->n_sets * sizeof *a->set);
    memcpy(with.set + a->n_sets, cluster, sizeof cluster);
    with.n_sets = a->n_sets + MU_COUNT(cluster);
    mu_status st = mu_cli_open(&with, a->word[0], &so, &job, &s, err);
    mu_cli_close(job, s, err);
    return st;
}

// Where nobody says how many learners, each server group has 1, 2, 4, ...
static void usual_learners(grid *g, int64_t groups) {
    for (int64_t n = groups; n <= MAX_LAMBDA && (n == groups || n <= mu_cores_count()); n *= 2)
        g->lambda[g->n_lambda++] = n;
}

typedef struct left_out { char text[300]; size_t n; } left_out;

static void leave_out(left_out *l, const char *fmt, ...) MU_PRINTF(2, 3);
static void leave_out(left_out *l, const char *fmt, ...) {
    va_list args;
    if (l->n) l->n += (size_t)snprintf(l->text + l->n, sizeof l->text - l->n, ", ");
    va_start(args, fmt);
    const int n = vsnprintf(l->text + l->n, sizeof l->text - l->n, fmt, args);
    va_end(args);
    if (n < 0 || l->n + (size_t)n + 8 > sizeof l->text) l->n = sizeof l->text - 8; // the end is not told
    else l->n += (size_t)n;
}

// What no training of several server groups can be is left out, and said so.
static mu_status fit_to_groups(grid *g, int64_t groups, mu_err *err) {
    const int n_lambda = g->n_lambda, n_protocols = g->n_protocols;
    left_out left = {.n = 0};
    mu_objection no;
    if (!n_lambda) usual_learners(g, groups);
    if (groups == 1) return MU_OK;
    g->n_protocols = 0;
    for (int i = 0; i < n_protocols; i++) {
        const mu_tradeoff_protocol *p = &g->protocol[i];
        if (mu_protocol_objects(p->class, MU_CHOICE_SERVER_GROUPS, &no)) leave_out(&left, "%s", p->word);
        else g->protocol[g->n_protocols++] = *p;
    }
    if (n_lambda) g->n_lambda = 0;
    for (int i = 0; i < n_lambda; i++) {
        const int64_t n = g->lambda[i];
        if (n % groups) leave_out(&left, "%" PRId64 " learner%s", n, n == 1 ? "" : "s");
        else g->lambda[g->n_lambda++] = n;
    }
    if (!g->n_lambda || !g->n_protocols) {
        MU_FAIL(err, MU_EUSAGE, "nothing is left: %" PRId64 " server groups cannot have %s", groups,
                left.text);
        mu_err_hint(err, "Learners are spread evenly: --learners %" PRId64 ",%" PRId64 ".", groups,
                    2 * groups);
        return MU_EUSAGE;
    }
    if (left.n) mu_warn("left out, as %" PRId64 " server groups cannot have them: %s", groups, left.text);
    return MU_OK;
}

static mu_status check_job(mu_args *a, const struct tradeoff *o, grid *g, mu_job **job, mu_err *err) {
    mu_session *s = NULL;
    mu_session_opts so = {.phases = MU_TRAIN | MU_VALIDATION | MU_TEST, .check_only = true};
    mu_status st = mu_cli_open(a, a->word[0], &so, job, &s, err);
    if (st == MU_OK) {
        snprintf(g->name, sizeof g->name, "%s", (*job)->name);
        for (char *c = g->name; *c; c++)
            if (*c == '/') *c = '-';
        if (o->out) snprintf(g->out, sizeof g->out, "%s", o->out);
        else snprintf(g->out, sizeof g->out, "tradeoff-%s", g->name);
        if (!s->test.net && !s->validation.net)
            mu_warn("the job has no test data: times are measured, errors are not");
        st = fit_to_groups(g, s->setup.server_groups, err);
    }
    mu_session_close(s);
    if (st == MU_OK && (int64_t)g->n_protocols * g->n_mu * g->n_lambda * g->repeat > MAX_CELLS)
        st = MU_FAIL(err, MU_EUSAGE, "more than %d trainings", MAX_CELLS);
    for (int i = 0; st == MU_OK && i < g->n_protocols; i++) st = check_protocol(a, g, &g->protocol[i], err);
    return st;
}

// ---- the table for people -----------------------------------------------------------------------

static void print_head(grid *g) {
    if (!g->rows || g->has_head) return;
    g->has_head = true;
    fprintf(g->rows, "%-12s %6s %6s %9s %5s %9s %10s %7s %8s %9s %8s  %s\n", "protocol", "mu", "lambda",
            "mu*lambda", "seed", "time s", "samples/s", "error", "loss", "staleness", "overlap", "status");
}

static void print_number(FILE *f, int width, const char *fmt, double v) {
    char text[32] = "-";
    if (isfinite(v)) snprintf(text, sizeof text, fmt, v);
    fprintf(f, " %*s", width, text);
}

static void print_row(FILE *f, const mu_trial *t) {
    fprintf(f, "%-12s %6" PRId64 " %6" PRId64 " %9" PRId64 " %5" PRId64, t->protocol, t->mu, t->lambda,
            t->mu * t->lambda, t->seed);
    print_number(f, 9, "%.2f", t->wall_s);
    print_number(f, 10, "%.0f", t->samples_per_s);
    print_number(f, 7, "%.4f", t->test_error);
    print_number(f, 8, "%.4f", t->test_loss);
    print_number(f, 9, "%.2f", t->staleness_mean);
    print_number(f, 8, "%.3f", t->overlap);
    fprintf(f, "  %s\n", t->status);
    fflush(f);
}

static json_t *row_json(const mu_trial *t) {
    json_t *o = json_pack("{s:s s:I s:I s:I s:s}", "protocol", t->protocol, "mu", (json_int_t)t->mu, "lambda",
                          (json_int_t)t->lambda, "seed", (json_int_t)t->seed, "status", t->status);
    const mu_json_real numbers[] = {
        {"epochs", t->epochs},
        {"wall_s", t->wall_s},
        {"samples_per_s", t->samples_per_s},
        {"test_error", t->test_error},
        {"test_loss", t->test_loss},
        {"staleness_mean", t->staleness_mean},
        {"staleness_max", t->staleness_max},
        {"overlap", t->overlap},
    };
    mu_json_put_reals(o, numbers, MU_COUNT(numbers));
    return o;
}

static void print_json(const grid *g, const mu_tradeoff_count *n, const mu_trials *table) {
    json_t *rows = json_array();
    for (size_t i = 0; i < table->n; i++) json_array_append_new(rows, row_json(&table->v[i]));
    json_t *o =
        json_pack("{s:s s:I s:I s:I s:b}", "out", g->out, "cells", (json_int_t)n->cells, "trained",
                  (json_int_t)n->trained, "failed", (json_int_t)n->failed, "complete", n->done == n->cells);
    json_object_set_new(o, "rows", rows);
    mu_cli_print_json(o);
}

// ---- the work -----------------------------------------------------------------------------------

static void clear_line(const grid *g) {
    if (g->live) fputs("\r\033[K", stderr);
}

static void on_begins(void *ctx, const mu_trial *t, int64_t number, int64_t of) {
    grid *g = ctx;
    print_head(g);
    if (g->live)
        fprintf(stderr, "%s: training %" PRId64 " of %" PRId64 ": %s, mu %" PRId64 ", lambda %" PRId64 " ...",
                g->name, number, of, t->protocol, t->mu, t->lambda);
}

static void on_ended(void *ctx, const mu_trial *t) {
    grid *g = ctx;
    print_head(g);
    clear_line(g);
    if (g->rows) print_row(g->rows, t);
}

static mu_status draw(const grid *g, const mu_trials *table, mu_err *err) {
    mu_text svg = {0};
    mu_status st = mu_trials_chart(table, g->name, &svg, err);
    if (st == MU_OK) st = mu_outfile_replace(g->out, "tradeoff.svg", svg.s, svg.n, err);
    mu_text_fini(&svg);
    return st;
}

// What was measured is drawn also when the work was broken off.
static mu_status finish(const mu_args *a, const grid *g, const mu_trials *table,
                        const mu_tradeoff_count *n, mu_status st,
                        mu_err *err) {
    bool stopped = mu_stop_was_asked(st);
    if (st != MU_OK && !stopped) return st;
    mu_err own = {0};
    mu_status drawn = draw(g, table, &own);
    if (a->json) print_json(g, n, table);
    mu_info("%s/tradeoff.csv and .svg: %" PRId64 " of %" PRId64 " cells, %" PRId64 " trained now, %" PRId64
            " without a result",
            g->out, n->done, n->cells, n->trained, n->failed);
    if (stopped) {
        mu_info("stopped; the same command goes on");
        err->msg[0] = '\0'; // asked for, so not an error
        return st;
    }
    if (drawn != MU_OK) *err = own;
    if (drawn == MU_OK && n->failed == n->cells)
        return MU_FAIL(err, MU_EBACKEND,
                       "no training of %" PRId64 " ended well; the reasons are in the table", n->cells);
    return drawn;
}

static mu_status train(const mu_args *a, const struct tradeoff *o, grid *g, const mu_job *job, mu_err *err) {
    mu_trials table = {0};
    mu_tradeoff_count n;
    const mu_tradeoff t = {.job_path = a->word[0],
                           .job = job,
                           .out = g->out,
                           .set = a->set,
                           .n_sets = a->n_sets,
                           .protocol = g->protocol,
                           .mu = g->mu,
                           .lambda = g->lambda,
                           .n_protocols = g->n_protocols,
                           .n_mu = g->n_mu,
                           .n_lambda = g->n_lambda,
                           .seed = mu_args_given(a, "seed") ? o->seed : job->seed,
                           .repeat = g->repeat,
                           .limit_s = o->limit > 0 ? o->limit : default_limit_s,
                           .again = o->again,
                           .keep = o->keep,
                           .ctx = g,
                           .begins = on_begins,
                           .ended = on_ended};
    g->rows = !a->json ? stdout : a->quiet ? NULL : stderr;
    g->live = !a->quiet && mu_term_live(stderr);
    mu_status st = mu_tradeoff_run(&t, &table, &n, err);
    clear_line(g);
    st = finish(a, g, &table, &n, st, err);
    mu_trials_fini(&table);
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct tradeoff *o = values;
    mu_job *job = NULL;
    grid *g = mu_arena_alloc(&a->arena, sizeof *g);
    if (!g) return MU_FAIL_NOMEM(err, "the grid");
    mu_json_init();
    MU_TRY(read_grid(a, o, g, err));
    MU_TRY(mu_stop_install(err));
    signal(SIGPIPE, SIG_IGN);   // the reader of the messages may leave; hours of training do not depend on it
    mu_status st = check_job(a, o, g, &job, err);
    if (st == MU_OK) st = train(a, o, g, job, err);
    mu_cli_close(job, NULL, err);
    return st;
}

const mu_verb_class mu_verb_tradeoff = {
    .name = "tradeoff",
    .help = "train protocol x mu x lambda; table and chart of error against time",
    .state_size = sizeof(struct tradeoff),
    .usage = "JOB [options]",
    .example = "muster tradeoff lenet.yaml --epochs 2\n"
               "muster tradeoff lenet.yaml --protocols hardsync,softsync:1,async \\\n"
               "    --batches 4,16,64 --learners 1,2,4,8 --repeat 3",
    .about =
        "Each cell is a fresh training in a process of its own, tested once at its end: mu samples per "
        "gradient, lambda learners. Rates follow mu and lambda as `muster train` does it.\n\n"
        "The table tradeoff.csv grows with every training, and tradeoff.svg is drawn at the end. Ctrl-C "
        "keeps "
        "what was measured. The same command goes on where it stopped: cells of the table are not trained "
        "again, except those that failed. Other words extend the table.",
    .args = {.options = options, MU_ARGS_ONE_WORD("a job file")},
    .run = run,
};
