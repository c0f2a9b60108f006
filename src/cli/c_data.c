// SPDX-License-Identifier: Apache-2.0
// c_data.c - `muster data`: pack any data into one record file, or into shards for the ranks of a training,
// look into data, read it through.
//
// Data is named in one of three ways: a job file (its block --split), the words of a data block
// (`reader=idx images=a.gz`), or a file or folder alone, which tells its reader (look/survey.h). All three
// become one bound block and one reader.
#include "cli/cli.h"

#include "base/log.h"
#include "cli/survey_text.h"
#include "cli/term.h"
#include "look/survey.h"
#include "read/record.h"
#include "read/table.h"
#include "data/source.h"
#include "job/set.h"
#include "file/fs.h"
#include "file/json.h"
#include "train/stopflag.h"

#include <string.h>
#include <unistd.h>

struct data { const char *split, *out; int64_t parts; };

typedef struct data_block {         // what stands behind a reader
    mu_arena       arena;
    mu_diags       diags;       // of words; a job has its own
    mu_job        *job;         // NULL when the data was named by words
    mu_source_spec spec;
    mu_reader     *reader;
} data_block;

static const mu_registry *const registries[] = {&mu_readers, NULL};      // of nested blocks

// ---- naming data --------------------------------------------------------------------------------

static bool is_job(const char *word) {
    const char *dot = strrchr(word, '.');
    return dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml"));
}

// Problems of the job are shown here with their places; the caller then has nothing left to say.
static mu_status show_problems(const mu_diags *d, mu_status s, mu_err *err) {
    if (s != MU_EJOB || !d->n_errors) return s;
    mu_diags_print(d, stderr, mu_term_colour(stderr));
    mu_err_clear(err);
    return s;
}

static mu_status bind(mu_binder *b, const mu_node *block, data_block *o, mu_err *err) {
    return show_problems(b->diags, mu_source_bind(b, block, &o->spec, err), err);
}

static mu_status bind_job(data_block *o, const char *path, const mu_args *a, const char *split, mu_err *err) {
    mu_status s = mu_job_load(path, a->set, a->n_sets, &o->job, err);
    if (s) return o->job ? show_problems(&o->job->diags, s, err) : s;
    const mu_node *block = mu_node_find(o->job->data, split);
    if (!block) return MU_FAIL(err, MU_EUSAGE, "`%s` has no data block `%s`", path, split);
    if (!mu_node_find(block, "reader") && mu_node_find(block, "fraction"))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`data.%s` is a part of the training data", split), err,
                             "Name that instead: `--split train`.");
    mu_binder b = {.arena = &o->arena, .diags = &o->job->diags, .folder = o->job->folder,
                   .registries = registries};
    return bind(&b, block, o, err);
}

static mu_binder word_binder(data_block *o) {
    return (mu_binder){.arena = &o->arena, .diags = &o->diags, .folder = ".", .registries = registries};
}

// Words are edits of an empty block, so values may be lists: `files=[a.bin, b.bin]`.
static mu_status bind_words(data_block *o, const char *const *words, size_t n, mu_err *err) {
    mu_node *root = mu_node_create(&o->arena, MU_MAP, (mu_srcpos){.path = "data"});
    if (!root) return MU_FAIL_NOMEM(err, "the data block");
    mu_binder b = word_binder(o);
    MU_TRY(mu_set_apply(&o->arena, &o->diags, root, words, n, err));
    if (o->diags.n_errors) return show_problems(&o->diags, MU_FAIL(err, MU_EJOB, "bad words"), err);
    return bind(&b, root, o, err);
}

// One `key: "text"` of a block; the text is taken as it is.
static mu_status add_text(mu_arena *arena, mu_node *block, const char *key, const char *text, mu_err *err) {
    mu_node *n = mu_node_create(arena, MU_SCALAR, block->pos);
    if (!n) return MU_FAIL_NOMEM(err, "the data block");
    n->key = key;
    n->key_pos = block->pos;
    n->text = text;
    n->quoted = true;
    return mu_node_append(arena, block, n, err);
}

static mu_status bind_file(data_block *o, const char *path, mu_err *err) {
    static const char *const reader[] = {"record", "table", "sentences", "image_folder"};
    mu_file_kind kind;
    const char *label = NULL;
    MU_TRY(mu_survey_file(path, &kind, err));
    if (kind == MU_FILE_TABLE) MU_TRY(mu_table_guess_file(path, &o->arena, &label, err));
    mu_node *block = mu_node_create(&o->arena, MU_MAP, (mu_srcpos){.path = "data"});
    if (!block) return MU_FAIL_NOMEM(err, "the data block");
    mu_binder b = word_binder(o);
    MU_TRY(add_text(&o->arena, block, "reader", reader[kind], err));
    MU_TRY(add_text(&o->arena, block, kind == MU_FILE_IMAGES ? "root" : "file", path, err));
    if (label) MU_TRY(add_text(&o->arena, block, "label", label, err));
    return bind(&b, block, o, err);
}

// A word with `=` is a key and its value, unless a file has that name.
static bool is_file(const char *word) { return !strchr(word, '=') || !access(word, F_OK); }

static mu_status open_data(data_block *o, const mu_args *a, const char *const *words, int n,
                           const char *split, mu_err *err) {
    if (n == 1 && is_job(words[0])) MU_TRY(bind_job(o, words[0], a, split, err));
    else if (n == 1 && is_file(words[0])) MU_TRY(bind_file(o, words[0], err));
    else MU_TRY(bind_words(o, words, (size_t)n, err));
    MU_TRY(mu_reader_open(o->spec.reader, o->spec.reader_state, o->spec.pos, NULL, &o->reader, err));
    if (o->spec.limit && o->spec.limit < o->reader->n_records) o->reader->n_records = o->spec.limit;
    return MU_OK;
}

static void close_data(data_block *o) {
    mu_reader_close(o->reader);
    mu_job_destroy(o->job);
    mu_arena_fini(&o->arena);
}

// ---- info ---------------------------------------------------------------------------------------

static mu_status stop_asked(MU_UNUSED void *ctx) { return mu_stop_status(); }

static mu_status info(const mu_args *a, data_block *o, mu_err *err) {
    mu_survey survey;
    mu_text t = {0};
    MU_TRY(mu_stop_install(err));
    mu_status s = mu_survey_take(&survey, o->reader, stop_asked, NULL, err);
    mu_stop_uninstall();
    if (s == MU_OK) (a->json ? mu_survey_json : mu_survey_text)(&t, o->reader, &survey, &o->spec);
    if (s == MU_OK && t.failed) s = MU_FAIL_NOMEM(err, "the report");
    if (s == MU_OK) fputs(t.s, stdout);
    mu_text_fini(&t);
    mu_survey_fini(&survey);
    return s;
}

// ---- verify and pack ----------------------------------------------------------------------------

static void show_progress(void *ctx, int64_t done, int64_t total) {
    const char *what = ctx;
    if (total > 0) fprintf(stderr, "\r%s %lld%%\033[K", what, (long long)(100 * done / total));
}

static void erase_progress(bool live) {
    if (live) fputs("\r\033[K", stderr);
}

enum { NAMED_BAD = 10 };        // further bad records are only counted

static mu_status verify(const mu_args *a, data_block *o, mu_err *err) {
    mu_reader *r = o->reader;
    bool live = !a->quiet && mu_term_live(stderr);
    int64_t n_bad = 0;
    mu_record rec;
    for (int64_t i = 0; i < r->n_records; i++) {
        mu_err why = {0};
        if (live && i % 1000 == 0) show_progress((void *)(uintptr_t) "verify", i, r->n_records);
        mu_status s = mu_reader_read(r, i, &rec, &why);
        if (s && s != MU_EDATA) {
            *err = why;
            return s;
        }
        if (!s) continue;
        erase_progress(live);
        if (n_bad++ < NAMED_BAD) mu_warn("%s", why.msg);
    }
    erase_progress(live);
    if (a->json) printf("{\"records\":%lld,\"bad\":%lld}\n", (long long)r->n_records, (long long)n_bad);
    else if (!n_bad) printf("%lld records, all good\n", (long long)r->n_records);
    if (!n_bad) return MU_OK;
    return MU_FAIL(err, MU_EDATA, "%lld of %lld records are bad", (long long)n_bad, (long long)r->n_records);
}

static int64_t allowed_bad(const data_block *o) {
    int64_t thousandth = o->reader->n_records / 1000;
    if (o->spec.max_bad >= 0) return o->spec.max_bad;
    return thousandth > 10 ? thousandth : 10;
}

// To one file, or dealt to several.
static mu_status write_files(const mu_args *a, data_block *o, const char *const *path, int n,
                             mu_record_progress *p, mu_err *err) {
    bool live = !a->quiet && mu_term_live(stderr);
    *p = (mu_record_progress){.report = live ? show_progress : NULL, .ctx = (void *)(uintptr_t) "pack",
                              .stop = stop_asked, .max_bad = allowed_bad(o)};
    MU_TRY(mu_stop_install(err));       // half-written files are removed before the program ends
    mu_status s = n == 1 ? mu_record_write(o->reader, path[0], p, err)
                         : mu_record_write_shards(o->reader, path, n, p, err);
    mu_stop_uninstall();
    erase_progress(live);
    if (s == MU_OK && p->n_bad) mu_warn("%lld bad records were left out", (long long)p->n_bad);
    return s;
}

static mu_status pack(const mu_args *a, data_block *o, const char *path, mu_err *err) {
    mu_record_progress p;
    MU_TRY(write_files(a, o, &path, 1, &p, err));
    if (a->json) printf("{\"records\":%lld,\"bad\":%lld}\n", (long long)p.n_written, (long long)p.n_bad);
    mu_info("wrote %s: %lld records\nin a job: {reader: record, file: %s}", path, (long long)p.n_written,
            path);
    return MU_OK;
}

// ---- shards ----

typedef struct shard_files {
    char path[MU_RECORD_SHARDS][MU_FS_PATH];
    const char *list[MU_RECORD_SHARDS];
} shard_files;

static mu_status write_shards(const mu_args *a, const struct data *d, data_block *o, shard_files *f,
                              mu_err *err) {
    const int n = (int)d->parts;
    mu_record_progress p;
    for (int k = 0; k < n; k++) {
        char name[32];
        snprintf(name, sizeof name, "shard-%d.rec", k);
        MU_TRY(mu_fs_join(f->path[k], d->out, name, err));
        f->list[k] = f->path[k];
    }
    MU_TRY(mu_fs_mkdirs(d->out, err));
    MU_TRY(write_files(a, o, f->list, n, &p, err));
    if (a->json)
        printf("{\"records\":%lld,\"bad\":%lld,\"shards\":%d}\n", (long long)p.n_written,
               (long long)p.n_bad, n);
    mu_info("wrote %s to shard-%d.rec: %lld records in %d shards\nin a job for %d ranks: {reader: record, "
            "file: \"%s/shard-{rank}.rec\"}",
            f->path[0], n - 1, (long long)p.n_written, n, n, d->out);
    return MU_OK;
}

static mu_status shard(const mu_args *a, const struct data *d, data_block *o, mu_err *err) {
    if (!d->out) return MU_FAIL(err, MU_EUSAGE, "`data shard` needs `--out`, the folder to write into");
    if (d->parts < 2 || d->parts > MU_RECORD_SHARDS)
        return MU_FAIL(err, MU_EUSAGE, "`data shard` needs `--parts`, a number from 2 to %d",
                       MU_RECORD_SHARDS);
    shard_files *f = mu_alloc(sizeof *f, "data/shard");
    if (!f) return MU_FAIL_NOMEM(err, "the names of shards");
    const mu_status s = write_shards(a, d, o, f, err);
    mu_free(f);
    return s;
}

// ---- the verb -----------------------------------------------------------------------------------

static mu_status run_opened(const mu_args *a, const struct data *d, data_block *o, mu_err *err) {
    const char *what = a->word[0], *split = d->split ? d->split : "train";
    bool packs = !strcmp(what, "pack");
    int n = a->n_words - 1 - packs;
    if (n < 1)
        return MU_FAIL(err, MU_EUSAGE,
                       packs ? "`data pack` needs data and a file to write" : "no data is named");
    if (strcmp(what, "shard") && (d->out || d->parts))
        return MU_FAIL(err, MU_EUSAGE, "`--%s` is for `data shard`", d->out ? "out" : "parts");
    const char *const *words = a->word + 1;
    const char *out = a->word[a->n_words - 1];
    if (packs && strchr(out, '='))
        return MU_FAIL(err, MU_EUSAGE, "the last word, `%s`, is no file to write", out);
    MU_TRY(open_data(o, a, words, n, split, err));
    if (packs) return pack(a, o, out, err);
    if (!strcmp(what, "shard")) return shard(a, d, o, err);
    return !strcmp(what, "info") ? info(a, o, err) : verify(a, o, err);
}

// The place of an error is printed after the job is gone: it may name the job's file only by the word
// that the caller gave.
static void keep_place(const data_block *o, const mu_args *a, mu_err *err) {
    if (o->job && err->pos.path == o->job->path) err->pos.path = a->word[1];
    else err->pos = MU_NOPOS;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    static const char *const known[] = {"pack", "shard", "info", "verify"};
    bool found = false;
    for (size_t i = 0; i < MU_COUNT(known); i++) found |= !strcmp(known[i], a->word[0]);
    if (!found)
        return mu_err_suggest(
            MU_FAIL(err, MU_EUSAGE, "`muster data` knows pack, shard, info and verify, not `%s`", a->word[0]),
            err,
            "muster data ", mu_nearest(a->word[0], known, MU_COUNT(known)));
    data_block o = {0};
    mu_arena_init(&o.arena, "data-verb");
    mu_diags_init(&o.diags, &o.arena);
    mu_status s = run_opened(a, values, &o, err);
    keep_place(&o, a, err);
    close_data(&o);
    return s;
}

static const mu_opt options[] = {
    MU_OPT_ONE_OF(struct data, split, "split", MU_PHASE_CHOICES,
                  "block of the job's data; train when not given"),
    MU_OPT(struct data, parts, "parts", MU_OPT_INT, "N", "shard: so many files, one for each rank"),
    MU_OPT(struct data, out, "out", MU_OPT_FOLDER, "FOLDER", "shard: where they go"),
    {0},
};

const mu_verb_class mu_verb_data = {
    .name = "data",
    .help = "pack data into checked files, one or one a rank, look into data, verify it",
    .state_size = sizeof(struct data),
    .usage = "pack DATA OUT.rec | shard DATA | info DATA | verify DATA",
    .example = "muster data pack job.yaml train.rec --split train\n"
               "muster data pack reader=image_folder root=photos out.rec\n"
               "muster data shard job.yaml --parts 4 --out parts\n"
               "muster data info table.csv",
    .about =
        "DATA is a job file (with --split), the keys of a data block as KEY=VALUE words, or a file alone: a "
        "record file, a table (.csv, .tsv), lines `label TAB text`, or a folder of images in folders. "
        "`pack` writes the records as they are read, before scale, mean, crop and mirror. `shard` deals them "
        "to N files, shard-0.rec and so on, for a training of N ranks each of which has one of them alone: "
        "`file: parts/shard-{rank}.rec`. `info` shows "
        "columns, fields, values and classes, and the block of a job that reads them; `verify` reads every "
        "record and names the bad ones.",
    .args = {.options = options,
             .common = MU_COMMON_SET | MU_COMMON_JSON,
             .min_words = 1,
             .max_words = -1,
             .words_are = "pack, shard, info or verify"},
    .run = run,
};
