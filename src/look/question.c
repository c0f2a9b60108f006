// SPDX-License-Identifier: Apache-2.0
// question.c - see question.h.
//
// Text that is typed or piped in becomes a file in memory. The block is built in an arena of its own choice:
// the job's, where the question becomes part of it, or the caller's.
#include "look/question.h"

#include "file/fs.h"
#include "file/memfile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIED = 100 }; // images read to find out whether a folder of them can be

static const mu_registry *const registries[] = {&mu_readers, NULL};

typedef struct asker { // what a block is built from
    mu_question *q;
    mu_arena *arena;
    const mu_job *job;
    const mu_inputs *inputs; // of the model; NULL = none
    const mu_reader_class *class;
    const mu_reader_ask *ask;
    mu_node *block;
} asker;

// ---- nodes ----

static mu_node *scalar(mu_arena *arena, const char *key, const char *text, bool quoted) {
    mu_node *n = mu_node_create(arena, MU_SCALAR, MU_NOPOS);
    if (!n) return NULL;
    n->key = key;
    n->text = mu_arena_strdup(arena, text);
    n->quoted = quoted;
    return n->text ? n : NULL;
}

static mu_status set(mu_arena *arena, mu_node *map, mu_node *value, mu_err *err) {
    if (!value) return MU_FAIL_NOMEM(err, "the question");
    for (size_t i = 0; i < map->n; i++)
        if (!strcmp(map->item[i]->key, value->key)) {
            map->item[i] = value;
            return MU_OK;
        }
    return mu_node_append(arena, map, value, err);
}

// A value of JSON as the job would write it. NULL when memory ran out, or for what no key has.
static mu_node *from_json(mu_arena *arena, const char *key, const json_t *v) {
    char text[48];
    mu_err unused = {0};
    if (json_is_string(v)) return scalar(arena, key, json_string_value(v), true);
    if (json_is_boolean(v)) return scalar(arena, key, json_is_true(v) ? "true" : "false", false);
    if (json_is_number(v)) {
        if (json_is_integer(v)) snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
        else snprintf(text, sizeof text, "%.9g", json_real_value(v));
        return scalar(arena, key, text, false);
    }
    mu_node *list = json_is_array(v) ? mu_node_create(arena, MU_LIST, MU_NOPOS) : NULL;
    if (list) list->key = key;
    for (size_t i = 0; list && i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        mu_node *n = json_is_array(item) ? NULL : from_json(arena, NULL, item);
        if (!n || mu_node_append(arena, list, n, &unused) != MU_OK) list = NULL;
    }
    return list;
}

// ---- the block ----

// Does the key name or limit the training data?
static bool is_of_training(const mu_reader_ask *ask, const char *key) {
    const char *const gone[] = {"limit",      "max_bad", "part",      "fraction",
                                "split_seed", ask->file, ask->folder, ask->files};
    for (size_t k = 0; k < MU_COUNT(gone); k++)
        if (gone[k] && !strcmp(key, gone[k])) return true;
    for (const char *const *k = ask->names_training; k && *k; k++)
        if (!strcmp(key, *k)) return true;
    return false;
}

// A copy of the training data's block under the name `predict`. The mean is left out: it is inherited, so
// that the model's counts and its file may be gone.
static mu_status copy_block(asker *a, const mu_node *from, mu_err *err) {
    const bool inherits = from->key && !strcmp(from->key, "train");
    for (size_t i = 0; i < from->n; i++) {
        const char *key = from->item[i]->key;
        const bool is_mean = !strcmp(key, "mean") || !strcmp(key, "mean_file");
        if (is_of_training(a->ask, key) || (is_mean && inherits)) continue;
        MU_TRY(mu_node_append(a->arena, a->block, from->item[i], err));
    }
    return MU_OK;
}

// The block of the reader that read the training data before it was packed.
static mu_status copy_keys(asker *a, mu_err *err) {
    const char *key;
    json_t *value;
    MU_TRY(set(a->arena, a->block, scalar(a->arena, "reader", a->class->name, false), err));
    json_object_foreach((json_t *)(uintptr_t)a->inputs->keys, key, value) {
        if (is_of_training(a->ask, key)) continue;
        const char *kept = mu_arena_strdup(a->arena, key);
        mu_node *n = kept ? from_json(a->arena, kept, value) : NULL;
        if (!n) return MU_FAIL(err, MU_EMODEL, "the description of the inputs is damaged: key `%s`", key);
        MU_TRY(mu_node_append(a->arena, a->block, n, err));
    }
    return MU_OK;
}

static mu_status set_unlabelled(asker *a, mu_err *err) {
    if (!a->ask->unlabelled) return MU_OK;
    return set(a->arena, a->block, scalar(a->arena, a->ask->unlabelled, a->ask->unlabelled_value, false),
               err);
}

// ---- text without a file ----

static mu_status keep_typed(mu_question *q, const char *const *words, size_t n, char path[MU_MEMFILE_PATH],
                            mu_err *err) {
    MU_TRY(mu_memfile_open(&q->fd, path, err));
    for (size_t i = 0; i < n; i++) {
        if (strpbrk(words[i], "\r\n"))
            return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "text %zu has more than one line", i + 1), err,
                                 "Give each as a word of its own, or pipe them in: `muster predict RUN -`.");
        MU_TRY(mu_memfile_add(q->fd, words[i], strlen(words[i]), err));
        MU_TRY(mu_memfile_add(q->fd, "\n", 1, err));
    }
    q->input = words;
    q->n_input = n;
    return MU_OK;
}

static mu_status keep_piped(mu_question *q, char path[MU_MEMFILE_PATH], mu_err *err) {
    MU_TRY(mu_memfile_open(&q->fd, path, err));
    return mu_memfile_add_stream(q->fd, stdin, "standard input", err);
}

// ---- with labels or without ----

// Its problems are found again, with their places, when the session opens it.
static mu_status open_reader(const asker *a, mu_reader **out, mu_err *err) {
    mu_diags unheard;
    mu_source_spec spec;
    mu_diags_init(&unheard, a->arena);
    mu_binder b = {.arena = a->arena, .diags = &unheard, .folder = a->job->folder, .registries = registries};
    const mu_inputs *in = a->inputs;
    const mu_known known = {in ? in->learnt : NULL, in ? in->labels : NULL, in ? in->n_labels : 0,
                            in ? in->reader : NULL, in ? in->learnt : NULL};
    MU_TRY(mu_source_bind(&b, a->block, &spec, err));
    return mu_reader_open(spec.reader, spec.reader_state, spec.pos, in ? &known : NULL, out, err);
}

typedef struct labelling {
    int64_t good, n; // records that can be read with labels and in the model's shape
    mu_err why;      // what is wrong with the first other one
} labelling;

// A folder says by its folders whether it has labels; a few of its images show whether they can be read.
static void find_labels(const asker *a, labelling *l) {
    mu_reader *r = NULL;
    mu_err own = {0};
    if (!a->inputs || open_reader(a, &r, &own) != MU_OK) return;
    bool fits = r->n_fields > 1 && r->n_fields == a->inputs->n_fields;
    for (int i = 0; fits && i < r->n_fields; i++)
        fits = r->field[i].is_image || mu_shape_equal(&r->field[i].shape, &a->inputs->field[i].shape);
    l->n = !fits ? 0 : a->ask->folder && r->n_records > TRIED ? TRIED : r->n_records;
    for (int64_t i = 0; i < l->n; i++) {
        mu_record rec;
        mu_err_clear(&own);
        if (mu_reader_read(r, i, &rec, &own) == MU_OK) l->good++;
        else if (l->why.status == MU_OK) l->why = own;
    }
    mu_reader_close(r);
}

// All records have labels or none: what a line means must not depend on a guess.
static mu_status decide_labels(asker *a, mu_err *err) {
    labelling l = {0};
    if (!a->ask->answers_beyond) find_labels(a, &l);
    a->q->labelled = l.n && (a->ask->folder ? 2 * l.good > l.n : l.good == l.n);
    if (a->q->labelled) return MU_OK;
    if (!l.good || a->ask->folder) return set_unlabelled(a, err);
    MU_FAIL(err, MU_EDATA, "%" PRId64 " of the %" PRId64 " records have a label and %" PRId64 " do not",
            l.good, l.n, l.n - l.good);
    mu_err_note(err, "the first: %s", l.why.msg);
    if (!a->ask->unlabelled) return mu_err_hinted(MU_EDATA, err, "Give a label to all of them or to none.");
    return mu_err_hinted(MU_EDATA, err,
                         "Give a label to all of them or to none; `--set data.train.%s=%s` answers all of "
                         "them as records without.",
                         a->ask->unlabelled, a->ask->unlabelled_value);
}

// ---- what the words are ----

static bool is_image(const char *word) {
    const char *dot = strrchr(word, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static bool is_file(const char *word) {
    struct stat st;
    return stat(word, &st) == 0 && !S_ISDIR(st.st_mode);
}

// Paths of a job begin in its folder, words in the current one.
static mu_node *path_node(mu_arena *arena, const char *key, const char *word) {
    char *whole = realpath(word, NULL);
    mu_node *n = scalar(arena, key, whole ? whole : word, true);
    free(whole);
    return n;
}

static mu_status cannot(const char *reader, const mu_reader_ask *ask, const char *word, mu_err *err) {
    MU_FAIL(err, MU_EUSAGE, "the model cannot be asked `%s`: its data is read by `%s`%s", word, reader,
            !ask || ask->typed                       ? ""
            : is_file(word) || mu_fs_is_folder(word) ? ""
                                                     : ", and there is no such file");
    return mu_err_hinted(MU_EUSAGE, err, "It takes %s.",
                         !ask         ? "a block `data.predict` in the job"
                         : ask->typed ? "typed texts, a file of them, or - for standard input"
                         : ask->files ? "image files, or a folder of them"
                                      : "a file like that of the training data, or - for standard input");
}

static mu_status put_images(asker *a, const char *const *words, size_t n, mu_err *err) {
    mu_node *list = mu_node_create(a->arena, MU_LIST, MU_NOPOS);
    if (!list) return MU_FAIL_NOMEM(err, "the question");
    list->key = a->ask->files;
    for (size_t i = 0; i < n; i++) {
        if (!is_image(words[i])) return cannot(a->class->name, a->ask, words[i], err);
        if (access(words[i], R_OK))
            return MU_FAIL(err, MU_EUSAGE, "cannot read `%s`: %s", words[i], strerror(errno));
        mu_node *one = path_node(a->arena, NULL, words[i]);
        if (!one) return MU_FAIL_NOMEM(err, "the question");
        MU_TRY(mu_node_append(a->arena, list, one, err));
    }
    a->q->input = words, a->q->n_input = n;
    MU_TRY(set(a->arena, a->block, list, err));
    return set_unlabelled(a, err);
}

static mu_status put_typed(asker *a, const char *const *words, size_t n, mu_err *err) {
    char path[MU_MEMFILE_PATH];
    MU_TRY(keep_typed(a->q, words, n, path, err));
    MU_TRY(set(a->arena, a->block, scalar(a->arena, a->ask->file, path, true), err));
    return set_unlabelled(a, err);
}

static mu_status put_input(asker *a, const char *const *words, size_t n, mu_err *err) {
    const mu_reader_ask *ask = a->ask;
    const bool piped = n == 1 && !strcmp(words[0], "-"), alone = n == 1 && !piped;
    char path[MU_MEMFILE_PATH];
    if (ask->files && !piped && !(alone && mu_fs_is_folder(words[0]))) return put_images(a, words, n, err);
    if (alone && ask->folder && mu_fs_is_folder(words[0]))
        MU_TRY(set(a->arena, a->block, path_node(a->arena, ask->folder, words[0]), err));
    else if (alone && ask->file && is_file(words[0]))
        MU_TRY(set(a->arena, a->block, path_node(a->arena, ask->file, words[0]), err));
    else if (piped && ask->file) {
        MU_TRY(keep_piped(a->q, path, err));
        MU_TRY(set(a->arena, a->block, scalar(a->arena, ask->file, path, true), err));
    } else if (ask->typed && !piped) return put_typed(a, words, n, err);
    else return cannot(a->class->name, ask, words[0], err);
    return decide_labels(a, err);
}

// ---- whose block ----

static const mu_reader_class *reader_called(const char *name) {
    return name ? (const mu_reader_class *)(const void *)mu_registry_find(&mu_readers, name) : NULL;
}

// Finds the reader to be asked and begins its block; `word` is what was asked first, for messages.
static mu_status begin(asker *a, const char *word, mu_err *err) {
    const mu_node *from = mu_node_find(a->job->data, "train");
    if (!from) from = mu_node_find(a->job->data, "predict");
    if (!from) from = mu_node_find(a->job->data, "test");
    const char *name = mu_node_text(mu_node_find(from, "reader"));
    a->class = reader_called(name);
    const bool packed = a->class && !a->class->ask && a->inputs && a->inputs->keys;
    if (packed) a->class = reader_called(a->inputs->reader);
    if (!a->class || !a->class->ask) return cannot(name ? name : "nothing", NULL, word, err);
    a->ask = a->class->ask;
    a->block = mu_node_create(a->arena, MU_MAP, from->pos);
    if (!a->block) return MU_FAIL_NOMEM(err, "the question");
    a->block->key = "predict";
    return packed ? copy_keys(a, err) : copy_block(a, from, err);
}

mu_status mu_question_put(mu_question *q, mu_job *job, const mu_inputs *inputs, const char *const *words,
                          size_t n, mu_err *err) {
    asker a = {.q = q, .arena = &job->arena, .job = job, .inputs = inputs};
    *q = MU_QUESTION_NONE;
    MU_TRY(begin(&a, words[0], err));
    MU_TRY(put_input(&a, words, n, err));
    return set(&job->arena, job->data, a.block, err);
}

mu_status mu_question_open_typed(mu_question *q, mu_arena *arena, const mu_job *job, const mu_inputs *inputs,
                                 const char *const *texts, size_t n, mu_reader **out, mu_err *err) {
    asker a = {.q = q, .arena = arena, .job = job, .inputs = inputs};
    *q = MU_QUESTION_NONE;
    if (!inputs) // words would be numbered by the texts themselves
        return MU_FAIL(err, MU_EMODEL, "the model does not tell how its training data was read");
    MU_TRY(begin(&a, texts[0], err));
    if (!a.ask->typed)
        return MU_FAIL(err, MU_EUSAGE, "the model cannot be asked texts: its data is read by `%s`",
                       a.class->name);
    MU_TRY(put_typed(&a, texts, n, err));
    return open_reader(&a, out, err);
}

void mu_question_close(mu_question *q) {
    if (q->fd >= 0) close(q->fd);
    *q = MU_QUESTION_NONE;
}
