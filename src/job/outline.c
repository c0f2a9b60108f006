// SPDX-License-Identifier: Apache-2.0
// outline.c - the sections of a job file and the options that belong to training itself.
//
// Here every key at the top and of the sections train, test, checkpoint and log has its row in a table;
// data, net, updater and cluster are kept as trees for the rooms that know them. An unknown key is reported
// and, when it is near a valid one, taken for that: one run of `check` tells all problems.
#include "job/outline.h"

#include "job/suggest.h"

#include <string.h>

static const mu_field top_fields[] = {
    MU_FIELD(mu_job, name, MU_STRING, "", NULL, "name of the run folder; the file's name when left out"),
    {"folder", MU_PATH, offsetof(mu_job, base), "", NULL, NULL,
     "relative paths in this job begin here; the job file's own folder when left out"},
    MU_FIELD(mu_job, seed, MU_INT, "1", "[0,)", "start of all random numbers; same seed, same result"),
    {0},
};
static const mu_field train_fields[] = { // `algorithm` stands first: binding skips it
    MU_FIELD_CLASS(mu_train_opts, algorithm, "bp", "algorithm", "how one batch is trained"),
    MU_FIELD(mu_train_opts, gradients, MU_STRING, "auto", NULL,
             "where gradients come from; auto = one learner in this process, or what `cluster` asks for"),
    MU_FIELD(mu_train_opts, batch, MU_INT, "64", "[1,1M]", "records per gradient, over all learners"),
    MU_FIELD(mu_train_opts, accumulate, MU_INT, "1", "[1,1M]",
             "batches whose mean gradient makes one update"),
    MU_FIELD(mu_train_opts, epochs, MU_DOUBLE, "0", "[0,1M]", "passes over the training data; 0 = no limit"),
    MU_FIELD(mu_train_opts, steps, MU_INT, "0", "[0,)", "updates; 0 = no limit"),
    MU_FIELD(mu_train_opts, deadline, MU_DURATION, "0", "[0,)",
             "time of training since start or resume, such as 90s or 2h; schedules that have a length end "
             "with it; 0 = no limit"),
    MU_FIELD_ENUM(mu_train_opts, nonfinite, "stop", "stop|skip|rollback",
                  "what to do when the loss or a gradient is not finite"),
    MU_FIELD(mu_train_opts, max_bad_steps, MU_INT, "10", "[1,)",
             "non-finite steps in a row before `skip` gives up"),
    MU_FIELD(mu_train_opts, patience, MU_INT, "0", "[0,)",
             "stop after this many validations without improvement; 0 = off"),
    MU_FIELD(mu_train_opts, min_improvement, MU_DOUBLE, "0", "[0,)",
             "smallest change of accuracy (or loss) that counts as improvement"),
    MU_FIELD(mu_train_opts, target_accuracy, MU_DOUBLE, "0", "[0,1]",
             "stop when this accuracy of the validation data is reached; 0 = off"),
    MU_FIELD(mu_train_opts, shuffle, MU_BOOL, "true", NULL,
             "a new order of the training records in each epoch"),
    MU_FIELD(mu_train_opts, init_from, MU_PATHS, "", NULL,
             "checkpoints or safetensors files with initial values, by name"),
    {0},
};
static const mu_field test_fields[] = {
    MU_FIELD(mu_test_opts, every, MU_INTERVAL, "1 epoch", NULL,
             "how often validation data is evaluated, or test data if there is none"),
    MU_FIELD(mu_test_opts, batch, MU_INT, "0", "[0,1M]", "records per batch; 0 = as in training"),
    MU_FIELD(mu_test_opts, at_start, MU_BOOL, "false", NULL, "also evaluate before the first step"),
    {0},
};
static const mu_field checkpoint_fields[] = {
    MU_FIELD(mu_checkpoint_opts, every, MU_INTERVAL, "auto", NULL,
             "how often a checkpoint is saved; one is always saved at the end. auto = by time: every minute, "
             "and never more than 3 % of the time (`1 epoch` with `nonfinite: rollback`)"),
    MU_FIELD(mu_checkpoint_opts, keep, MU_INT, "3", "[1,1k]", "newest checkpoints that stay on disk"),
    MU_FIELD(mu_checkpoint_opts, best, MU_BOOL, "true", NULL,
             "also keep the best one by accuracy (or loss) of the validation data; without such data, the "
             "last"),
    {0},
};
static const mu_field log_fields[] = {
    MU_FIELD(mu_log_opts, every, MU_INTERVAL, "100 steps", NULL, "how often a line of metrics is written"),
    MU_FIELD(mu_log_opts, tensorboard, MU_BOOL, "true", NULL, "also write TensorBoard event files"),
    {0},
};

static const mu_job_section sections[] = {
    {"", "keys at the top of the file", top_fields},
    {"data", "where records come from: a block with `reader` for each of train, validation, test, predict",
     NULL},
    {"net", "the layers, from input to loss: a list of blocks with `name` and `type`", NULL},
    {"train", "how long and in which batches to train", train_fields},
    {"updater", "from gradients to new weights: a block with `type` and `rate`", NULL},
    {"test", "evaluation while training", test_fields},
    {"cluster", "learners and how they synchronise: `learners`, `protocol` and more; or `auto`: planned first", NULL},
    {"checkpoint", "what is saved while training", checkpoint_fields},
    {"log", "what is recorded while training", log_fields},
};

const mu_job_section *mu_job_sections(size_t *n) {
    *n = MU_COUNT(sections);
    return sections;
}

// ---- outline --------------------------------------------------------------------------------------

static mu_diag *error_at(mu_job *job, mu_srcpos pos, const char *msg) {
    return mu_diags_add(&job->diags, MU_DIAG_ERROR, pos, "%s", msg);
}

// A key of a section that stands at the top: `batch` belongs to `train`. NULL if it is none.
static const mu_job_section *section_of(const char *key) {
    for (size_t i = 1; i < MU_COUNT(sections); i++)
        for (const mu_field *f = sections[i].fields; f && f->key; f++)
            if (!strcmp(f->key, key)) return &sections[i];
    return NULL;
}

static bool is_top_key(const char *key) {
    for (const mu_field *f = top_fields; f->key; f++)
        if (!strcmp(f->key, key)) return true;
    for (size_t i = 1; i < MU_COUNT(sections); i++)
        if (!strcmp(sections[i].key, key)) return true;
    return false;
}

// Reports an unknown key. A key that is near a valid one goes on under the valid name, if that is
// free, so that what is in it is checked all the same; a job with errors is neither run nor written.
static void unknown_name(mu_job *job, const mu_node *map, mu_node *n, mu_diag *g, const mu_words *valid,
                         const char *plural) {
    const char *near = mu_diag_suggest(&job->diags, g, n->key, valid, plural);
    if (near && !mu_node_find(map, near)) n->key = near;
}

static void check_top_keys(mu_job *job) {
    mu_words valid = {0};
    for (size_t i = 1; i < MU_COUNT(sections); i++) mu_words_add(&job->diags, &valid, sections[i].key);
    for (const mu_field *f = top_fields; f->key; f++) mu_words_add(&job->diags, &valid, f->key);
    for (size_t i = 0; i < job->root->n; i++) {
        mu_node *n = job->root->item[i];
        if (is_top_key(n->key)) continue;
        mu_diag *g = mu_diags_add(&job->diags, MU_DIAG_ERROR, n->key_pos, "unknown section `%s`", n->key);
        const mu_job_section *home = section_of(n->key);
        if (home) mu_diag_label(&job->diags, g, "belongs in `%s`", home->key);
        else unknown_name(job, job->root, n, g, &valid, "sections");
    }
}

static mu_node *need_section(mu_job *job, const char *key, const char *hint) {
    mu_node *n = mu_node_find(job->root, key);
    if (!mu_node_is_null(n)) return n;
    mu_srcpos pos = n ? n->key_pos : (mu_srcpos){.path = job->path};
    mu_diag *g = mu_diags_add(&job->diags, MU_DIAG_ERROR, pos,
                              n ? "section `%s` is empty" : "missing section `%s`", key);
    mu_diag_hint(&job->diags, g, "%s", hint);
    return NULL;
}

static void check_data(mu_job *job) {
    mu_node *data =
        need_section(job, "data", "Add `data:` with a block such as `train: {reader: idx, ...}`.");
    if (!data) return;
    if (data->kind != MU_MAP) {
        mu_diag *g = error_at(job, data->pos, "`data` must be a block of `key: value` lines");
        mu_diag_hint(&job->diags, g,
                     "Write `train:`, `validation:`, `test:` or `predict:` below it, each with a `reader`.");
        return;
    }
    mu_words valid = {0};
    mu_words_add_choices(&job->diags, &valid, MU_PHASE_CHOICES);
    for (size_t i = 0; i < data->n; i++) {
        mu_node *n = data->item[i];
        if (mu_choice_find(MU_PHASE_CHOICES, n->key) < 0) {
            mu_diag *g =
                mu_diags_add(&job->diags, MU_DIAG_ERROR, n->key_pos, "unknown key `%s` in `data`", n->key);
            if (!strcmp(n->key, "reader"))
                mu_diag_label(&job->diags, g, "belongs in `data.train` or another phase");
            else unknown_name(job, data, n, g, &valid, "keys");
        } else if (n->kind != MU_MAP) {
            mu_diag *g = mu_diags_add(&job->diags, MU_DIAG_ERROR, n->key_pos,
                                      "`data.%s` must be a block with `reader`", n->key);
            mu_diag_hint(&job->diags, g, "Write for example `%s: {reader: idx, images: ..., labels: ...}`.",
                         n->key);
        }
    }
    job->data = data;
}

static void check_net(mu_job *job) {
    mu_node *net =
        need_section(job, "net", "Add `net:` with a list of layers, each `- {name: ..., type: ...}`.");
    if (!net) return;
    if (net->kind != MU_LIST) {
        mu_diag *g = error_at(job, net->pos, "`net` must be a list of layers");
        mu_diag_hint(&job->diags, g,
                     "Begin each layer with `- `, as in `- {name: conv1, type: convolution, ...}`.");
        return;
    }
    if (!net->n) error_at(job, net->pos, "`net` has no layers");
    bool good = net->n > 0;
    for (size_t i = 0; i < net->n; i++) {
        if (net->item[i]->kind == MU_MAP) continue;
        good = false;
        mu_diag *g = error_at(job, net->item[i]->pos, "a layer must be a block with `name` and `type`");
        mu_diag_hint(&job->diags, g, "Write for example `- {name: relu1, type: relu}`.");
    }
    if (good) job->net = net;
}

// ---- options --------------------------------------------------------------------------------------

static void bind_section(mu_binder *b, const mu_node *n, const char *key, const mu_field *fields, void *out) {
    static const char *const later[] = {"algorithm"}; // a plug-in's block: left to those who know it
    const bool train = fields == train_fields;
    char what[40];
    snprintf(what, sizeof what, "`%s`", key);
    mu_bind_part part = {fields + train, out};
    mu_bind(b, n, n ? n->key_pos : MU_NOPOS, what, &part, 1, later, train);
}

static void check_train(mu_job *job, const mu_node *train) {
    const mu_train_opts *t = &job->train;
    if (!mu_node_find(job->data, "train")) return;      // a job that only evaluates
    if (t->epochs > 0 || t->steps > 0 || t->deadline > 0) return;
    mu_srcpos pos = train ? train->key_pos : mu_node_find(job->data, "train")->key_pos;
    mu_diag *g = mu_diags_add(&job->diags, MU_DIAG_ERROR, pos, "the training has no end");
    mu_diag_label(&job->diags, g, "give `epochs`, `steps` or `deadline` in `train`");
}

static void bind_sections(mu_job *job, mu_binder *b) {
    const struct { const char *key; const mu_field *fields; void *out; } rows[] = {
        {"train", train_fields, &job->train},
        {"test", test_fields, &job->test},
        {"checkpoint", checkpoint_fields, &job->checkpoint},
        {"log", log_fields, &job->log},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        const mu_node *n = mu_node_find(job->root, rows[i].key);
        size_t before = job->diags.n_errors;
        bind_section(b, n, rows[i].key, rows[i].fields, rows[i].out);
        if (rows[i].out == &job->train && job->diags.n_errors == before) check_train(job, n);
    }
}

// The name becomes a folder.
static void check_name(mu_job *job) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const mu_node *n = mu_node_find(job->root, "name");
    if (job->name) {
        size_t size = strlen(job->name);
        if (strspn(job->name, allowed) == size && job->name[0] != '.' && size <= 100) return;
        mu_diag *g =
            mu_diags_add(&job->diags, MU_DIAG_ERROR, n->pos, "`name` cannot be used as a folder name");
        mu_diag_label(&job->diags, g, "use letters, digits, `-`, `_` and `.`");
        return;
    }
    const char *slash = strrchr(job->path, '/'), *stem = slash ? slash + 1 : job->path;
    const char *dot = strrchr(stem, '.');
    char *name = mu_arena_strndup(&job->arena, stem, dot && dot > stem ? (size_t)(dot - stem) : strlen(stem));
    if (!name) mu_diags_no_memory(&job->diags);
    for (char *p = name; p && *p; p++)
        if (!strchr(allowed, *p)) *p = '-';
    job->name = name && *name && *name != '.' ? name : "job";
}

void mu_outline_bind(mu_job *job) {
    mu_srcpos whole = {.path = job->path};
    if (mu_node_is_null(job->root)) {
        mu_diag *g = error_at(job, whole, "the job file is empty");
        mu_diag_hint(&job->diags, g, "`muster init` writes an example job.");
        return;
    }
    if (job->root->kind != MU_MAP) {
        mu_diag *g =
            error_at(job, job->root->pos, "a job file begins with keys such as `name:`, `data:` and `net:`");
        mu_diag_hint(&job->diags, g, "`muster init` writes an example job.");
        return;
    }
    check_top_keys(job);
    check_data(job);
    check_net(job);
    job->updater = mu_node_find(job->root, "updater");
    job->cluster = mu_node_find(job->root, "cluster");

    mu_binder b = {.arena = &job->arena, .diags = &job->diags, .folder = job->folder};
    mu_words keys = {0};        // unknown keys are reported above, so every key is allowed here
    for (size_t i = 0; i < job->root->n; i++) mu_words_add(&job->diags, &keys, job->root->item[i]->key);
    mu_bind_part top = {top_fields, job};
    mu_bind(&b, job->root, whole, "the job", &top, 1, keys.v, keys.n);
    if (job->base) b.folder = job->folder = job->base;
    bind_sections(job, &b);
    check_name(job);
}
