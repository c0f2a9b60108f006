// SPDX-License-Identifier: Apache-2.0
// c_init.c - `muster init`: a job for a person's own data (recipe/recipe.h), one of the repository's own
// example jobs, carried in the program, or a script that trains a job on a cluster (recipe/queue.h).
//
//     muster init KIND FILE [OUT.yaml]     KIND is a recipe: it looks at FILE and writes the job for it
//     muster init KIND [OUT.yaml]          KIND is an example
//     muster init KIND [JOB.yaml] [OUT]    KIND is a queue: the script lies beside the job
//
// A word may be both (`images`): with data behind it, it is the recipe. The job is made in memory first, so a
// file appears only when there is a job to put in it.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "base/log.h"
#include "base/utf8.h"
#include "cli/term.h"
#include "comm/cores.h"
#include "file/fs.h"
#include "recipe/guess.h"
#include "recipe/place.h"
#include "recipe/queue.h"
#include "recipe/recipe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What a person types, which file of examples/ it is, and what it is for.
static const struct kind {
    const char *word, *example, *help;
} kinds[] = {
    {"lenet", "lenet-fashion", "convolutional net on Fashion-MNIST"},
    {"mlp", "mlp-fashion", "fully connected net on Fashion-MNIST"},
    {"cifar10", "cifar10_quick", "convolutional net on CIFAR-10"},
    {"csv", "csv", "fully connected net on a CSV table of numbers"},
    {"images", "images", "convolutional net on folders of images"},
};

struct init {
    const char *test, *label, *name;
    int64_t nodes, cpus;
};

static const mu_opt options[] = {
    MU_OPT(struct init, test, "test", MU_OPT_FILE, "FILE", "test data, of the same form as FILE"),
    MU_OPT(struct init, label, "label", MU_OPT_TEXT, "COLUMN",
           "column to be predicted; left out: found by the recipe"),
    MU_OPT(struct init, name, "name", MU_OPT_TEXT, "NAME", "name of the job; left out: that of its file"),
    MU_OPT(struct init, nodes, "nodes", MU_OPT_INT, "N", "nodes of a cluster; left out: 2"),
    MU_OPT(struct init, cpus, "cpus", MU_OPT_INT, "N",
           "CPUs of each node; left out: what the job's learners use"),
    {0},
};

typedef struct example {
    const char *name;
    const unsigned char *bytes;
    size_t n;
} example;
#define EMBED(name, ...)                                                                                     \
    {name, (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})},
static const example texts[] = {
#include "example_list.inc"
};

// ---- words ----

static const struct kind *find_kind(const char *word) {
    for (size_t i = 0; i < MU_COUNT(kinds); i++)
        if (!strcmp(kinds[i].word, word)) return &kinds[i];
    return NULL;
}

static const example *find_text(const char *name) {
    for (size_t i = 0; i < MU_COUNT(texts); i++)
        if (!strcmp(texts[i].name, name)) return &texts[i];
    return NULL;
}

static void list_kinds(void) {
    printf("for your own data, `muster init KIND FILE [OUT.yaml]`:\n");
    for (size_t i = 0; i < mu_recipes.n; i++)
        printf("  %-11s %s\n", mu_recipes.list[i]->name, mu_recipes.list[i]->help);
    printf("examples, `muster init KIND [OUT.yaml]`:\n");
    for (size_t i = 0; i < MU_COUNT(kinds); i++) printf("  %-11s %s\n", kinds[i].word, kinds[i].help);
    printf("to train a job on a cluster, `muster init KIND [JOB.yaml] [OUT]`:\n");
    for (size_t i = 0; i < mu_queues.n; i++)
        printf("  %-11s %s\n", mu_queues.list[i]->name, mu_queues.list[i]->help);
}

static mu_status unknown_kind(const char *word, mu_err *err) {
    const char *words[MU_COUNT(kinds) + 64];
    size_t n = 0;
    for (; n < mu_recipes.n && n < 48; n++) words[n] = mu_recipes.list[n]->name;
    for (size_t i = 0; i < mu_queues.n && i < 16; i++) words[n++] = mu_queues.list[i]->name;
    for (size_t i = 0; i < MU_COUNT(kinds); i++) words[n++] = kinds[i].word;
    const char *near = mu_nearest(word, words, n);
    MU_FAIL(err, MU_EUSAGE, "`init` knows no `%s`", word);
    if (near) return mu_err_suggest(MU_EUSAGE, err, "muster init ", near);
    return mu_err_hinted(MU_EUSAGE, err, "`muster init` lists what there is.");
}

static bool is_job_name(const char *word) {
    const char *dot = strrchr(word, '.');
    return !strcmp(word, "-") || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
}

// ---- writing ----

// The files of examples/ speak of themselves and of the data folder beside them; the copy speaks of its
// own name and of a data folder in its own.
static void write_text(FILE *f, const example *t, const char *path) {
    char self[80];
    int n_self = snprintf(self, sizeof self, "examples/%s.yaml", t->name);
    const char *p = (const char *)t->bytes, *end = p + t->n;
    while (p < end) {
        if (end - p >= n_self && !memcmp(p, self, (size_t)n_self)) fputs(path, f), p += n_self;
        else if (end - p >= 8 && !memcmp(p, "../data/", 8)) p += 3;
        else fputc(*p++, f);
    }
}

// O_EXCL: an existing file is never touched, not even in a race. words: of the command, before the name.
static mu_status write_new(const char *path, const char *content, size_t size, const char *words,
                           mu_err *err) {
    int fd = mu_fs()->open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const char *ending = strrchr(path, '.');
    if (fd < 0 && errno == EEXIST)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` exists and is not overwritten", path), err,
                             "Give another name: `muster init %s other%s`, or `-` for standard output.",
                             words, ending ? ending : "");
    if (fd < 0) return mu_fs_fail(err, "create", path);
    mu_status st = mu_fs_write_all(fd, content, size, path, err);
    if (mu_fs()->close(fd) && st == MU_OK) st = mu_fs_fail(err, "close", path);
    if (st != MU_OK) mu_fs_remove_file(path);
    return st;
}

// next: the command that takes it.
static mu_status put_out(const char *path, const char *content, size_t size, const char *words,
                         const char *what, const char *next, mu_err *err) {
    if (!strcmp(path, "-")) {
        fwrite(content, 1, size, stdout);
        return MU_OK;
    }
    MU_TRY(write_new(path, content, size, words, err));
    char shown[MU_QUEUE_WORD];
    mu_queue_word(path, shown);
    mu_info("wrote %s: %s\nnext: %s %s", path, what, next, shown);
    return MU_OK;
}

static const char *const of_recipes[] = {"test", "label", "name", NULL};
static const char *const of_queues[] = {"nodes", "cpus", NULL};

// The first of them that was given; NULL = none.
static const char *option_given(const mu_args *a, const char *const *names) {
    for (; *names; names++)
        if (mu_args_given(a, *names)) return *names;
    return NULL;
}

static mu_status refuse_option(const char *kind, const char *option, mu_err *err) {
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`init %s` takes no --%s", kind, option), err,
                         "`muster init -h` says what options are for.");
}

// ---- an example ----

static mu_status init_example(mu_args *a, const struct kind *k, mu_err *err) {
    const example *t = find_text(k->example);
    if (!t) return MU_FAIL(err, MU_ENOTFOUND, "this build carries no example `%s`", k->example);
    if (a->n_words > 2 || option_given(a, of_recipes) || option_given(a, of_queues))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE,
                                     "`%s` is an example: it takes the name of a job and no "
                                     "options",
                                     k->word),
                             err, "Jobs for your own data: `muster init` lists them.");
    char name[64];
    snprintf(name, sizeof name, "%s.yaml", k->word);
    const char *path = a->n_words > 1 ? a->word[1] : name;
    char *content = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&content, &size);
    if (f) write_text(f, t, strcmp(path, "-") ? path : name);
    mu_status st = !f || fclose(f) ? MU_FAIL_NOMEM(err, path)
                                   : put_out(path, content, size, k->word, k->help, "muster train", err);
    free(content);
    return st;
}

// ---- a recipe ----

// What a file looks like, where that is not what was asked for.
static void hint_kind(const mu_recipe_class *c, const char *path, char *out, size_t size) {
    const char *guess = mu_recipe_guess(path);
    out[0] = '\0';
    if (guess && strcmp(guess, c->name) && mu_registry_find(&mu_recipes, guess))
        snprintf(out, size, "It looks like data for `muster init %s`.", guess);
}

static mu_status write_recipe(const mu_recipe_class *c, const mu_recipe_ask *ask, char **content,
                              size_t *size, char found[256], mu_err *err) {
    FILE *f = open_memstream(content, size);
    if (!f) return MU_FAIL_NOMEM(err, ask->path);
    mu_status st = c->write(ask, f, found, 256, err);
    if (fclose(f) && st == MU_OK) st = MU_FAIL_NOMEM(err, ask->path);
    return st;
}

static mu_status init_recipe(mu_args *a, const mu_recipe_class *c, const struct init *o, mu_err *err) {
    if (a->n_words < 2)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`init %s` needs your data: a file or folder", c->name),
                             err, "Such as `muster init %s FILE`.", c->name);
    if (option_given(a, of_queues)) return refuse_option(c->name, option_given(a, of_queues), err);
    const char *data = a->word[1];
    char usual[64], file[MU_FS_PATH], test[MU_FS_PATH], name[MU_RECIPE_NAME], found[256] = "", hint[128],
                                                                              words[300];
    snprintf(usual, sizeof usual, "%s.yaml", c->name);
    const char *path = a->n_words > 2 ? a->word[2] : usual;
    MU_TRY(mu_recipe_place(data, path, file, err));
    if (o->test) MU_TRY(mu_recipe_place(o->test, path, test, err));
    mu_recipe_name(strcmp(path, "-") ? path : usual, name);
    const mu_recipe_ask ask = {data, file, o->test ? test : NULL, o->label, o->name ? o->name : name};
    if (!mu_recipe_name_fits(ask.name))
        return MU_FAIL(err, MU_EUSAGE, "a job cannot be called `%s`: use letters, digits, `-`, `_` and `.`",
                       ask.name);
    if (ask.label && !mu_utf8_valid(ask.label, strlen(ask.label)))
        return MU_FAIL(err, MU_EUSAGE, "the name of column `%s` is not UTF-8", ask.label);
    char *content = NULL;
    size_t size = 0;
    mu_status st = write_recipe(c, &ask, &content, &size, found, err);
    hint_kind(c, data, hint, sizeof hint);
    if (st == MU_EDATA && hint[0])
        snprintf(err->hint, sizeof err->hint, "%s", hint); // says more than another
    snprintf(words, sizeof words, "%s %.250s", c->name, data);
    if (st == MU_OK) mu_info("%s: %s%s%s", data, found, hint[0] ? ". " : "", hint);
    if (st == MU_OK) st = put_out(path, content, size, words, c->help, "muster train", err);
    free(content);
    return st;
}

// ---- a script for a queue ----

// So many CPUs as there are processes on a node that compute, and one for their parent, if there are as many.
static int64_t cpus_of(const mu_setup *p, int64_t nodes) {
    const int64_t busy = mu_setup_processes(p) / nodes, here = mu_cores_count();
    return busy < here ? busy + 1 : busy;
}

// Is the job one that so many nodes can train? Its problems are printed.
static mu_status look_at_job(const mu_args *a, const char *path, struct init *o, mu_err *err) {
    mu_job *job = NULL;
    mu_session *s = NULL;
    const mu_session_opts so = {.phases = MU_TRAIN | MU_VALIDATION | MU_TEST,
                                .trains = true,
                                .check_only = true,
                                .nodes = (int)o->nodes};
    const mu_status st = mu_cli_open(a, path, &so, &job, &s, err);
    if (st == MU_OK && !mu_args_given(a, "cpus")) o->cpus = cpus_of(&s->setup, o->nodes);
    mu_cli_close(job, s, err);
    return st;
}

static mu_status check_queue_words(const mu_args *a, const mu_queue_class *c, const char *path,
                                   struct init *o, mu_err *err) {
    if (option_given(a, of_recipes)) return refuse_option(c->name, option_given(a, of_recipes), err);
    if (mu_fs_is_folder(path) || access(path, F_OK))
        return mu_err_hinted(
            MU_FAIL(err, MU_EUSAGE, "`init %s` needs a job file; there is no `%s`", c->name, path), err,
            "Such as `muster init %s lenet.yaml`, behind `muster init lenet`.", c->name);
    if (!mu_args_given(a, "nodes")) o->nodes = 2;
    if (o->nodes < 1 || o->nodes > 1024)
        return MU_FAIL(err, MU_EUSAGE, "--nodes %" PRId64 ": there may be 1 to 1024", o->nodes);
    if (mu_args_given(a, "cpus") && (o->cpus < 1 || o->cpus > 65536))
        return MU_FAIL(err, MU_EUSAGE, "--cpus %" PRId64 ": there may be 1 to 65536", o->cpus);
    return look_at_job(a, path, o, err);
}

// The job's folder, its training's name, and where the script goes if nothing else is said: beside the job.
static mu_status place_script(const char *job, const char *ending, char folder[PATH_MAX],
                              char name[MU_RECIPE_NAME], char usual[MU_FS_PATH], mu_err *err) {
    char parent[MU_FS_PATH];
    const char *slash = strrchr(job, '/'), *dot = strrchr(slash ? slash : job, '.');
    const int n_parent = slash ? (int)(slash - job) + 1 : 0;
    snprintf(parent, sizeof parent, "%.*s.", n_parent, job);
    mu_recipe_name(job, name);
    const bool yaml = dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
    const int n =
        snprintf(usual, MU_FS_PATH, "%.*s%s", yaml ? (int)(dot - job) : (int)strlen(job), job, ending);
    if (n >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "the path of `%s` is too long", job);
    return realpath(parent, folder) ? MU_OK : mu_fs_fail(err, "find", parent);
}

static mu_status init_queue(mu_args *a, const mu_queue_class *c, struct init *o, mu_err *err) {
    const char *job = a->n_words > 1 ? a->word[1] : "job.yaml", *slash = strrchr(job, '/');
    char folder[PATH_MAX], program[PATH_MAX], name[MU_RECIPE_NAME], usual[MU_FS_PATH], what[96], words[300];
    MU_TRY(check_queue_words(a, c, job, o, err));
    MU_TRY(place_script(job, c->ending, folder, name, usual, err));
    if (!realpath("/proc/self/exe", program)) return mu_fs_fail(err, "find", "/proc/self/exe");
    const mu_queue_ask ask = {folder, slash ? slash + 1 : job, name, program, o->nodes, o->cpus};
    const char *path = a->n_words > 2 ? a->word[2] : usual;
    char *content = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&content, &size);
    if (f) c->write(&ask, f);
    snprintf(words, sizeof words, "%s %.250s", c->name, job);
    snprintf(what, sizeof what, "%" PRId64 " node%s, %" PRId64 " CPUs each", o->nodes,
             o->nodes == 1 ? "" : "s", o->cpus);
    mu_status st = !f || fclose(f) ? MU_FAIL_NOMEM(err, path)
                                   : put_out(path, content, size, words, what, c->command, err);
    free(content);
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    if (a->n_words == 0) {
        list_kinds();
        return MU_OK;
    }
    const struct kind *k = find_kind(a->word[0]);
    const mu_recipe_class *c = (const mu_recipe_class *)mu_registry_find(&mu_recipes, a->word[0]);
    const mu_queue_class *q = (const mu_queue_class *)mu_registry_find(&mu_queues, a->word[0]);
    if (q) return init_queue(a, q, values, err);
    if (!k && !c) return unknown_kind(a->word[0], err);
    const bool no_data =
        a->n_words < 2 || (a->n_words == 2 && is_job_name(a->word[1]) && !mu_fs_is_folder(a->word[1]));
    return !c || (k && no_data) ? init_example(a, k, err) : init_recipe(a, c, values, err);
}

const mu_verb_class mu_verb_init = {
    .name = "init",
    .help = "write a job for your own data, an example, or a script for a cluster",
    .state_size = sizeof(struct init),
    .usage = "[KIND] [FILE] [OUT.yaml] [options]",
    .example = "muster init table sales.csv\nmuster init char book.txt book.yaml\nmuster init lenet\n"
               "muster init slurm lenet.yaml --nodes 4",
    .about =
        "Looks at your data (a file, or a folder of images) and writes a commented job that trains on it: "
        "a validation part split off, a net, how long to train. Other kinds are examples that need no "
        "FILE. The job goes to KIND.yaml when no OUT.yaml is given, to standard output for `-`. An existing "
        "file is never overwritten. `slurm` writes a script beside a job, which trains it on several nodes. "
        "Without words it lists the kinds.",
    .args = {.options = options, .min_words = 0, .max_words = 3},
    .run = run,
};
