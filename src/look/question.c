// SPDX-License-Identifier: Apache-2.0
// question.c - see question.h.
//
// Text that is typed or piped in becomes a file in memory.
#include "look/question.h"

#include "file/fs.h"
#include "file/memfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIED = 100 }; // records read to find out whether a file has labels

// ---- the block ----

static mu_node *scalar(mu_job *job, const char *key, const char *text) {
    mu_node *n = mu_node_create(&job->arena, MU_SCALAR, MU_NOPOS);
    if (!n) return NULL;
    n->key = key;
    n->text = mu_arena_strdup(&job->arena, text);
    n->quoted = true;
    return n->text ? n : NULL;
}

static mu_status set(mu_job *job, mu_node *map, mu_node *value, mu_err *err) {
    if (!value) return MU_FAIL_NOMEM(err, "the question");
    for (size_t i = 0; i < map->n; i++)
        if (!strcmp(map->item[i]->key, value->key)) {
            map->item[i] = value;
            return MU_OK;
        }
    return mu_node_append(&job->arena, map, value, err);
}

// A copy of `from` under the name `predict`, without what names or limits the training data.
static mu_status copy_block(mu_job *job, const mu_node *from, const mu_reader_ask *ask, mu_node **out,
                            mu_err *err) {
    const char *const gone[] = {"limit", "max_bad", "part", "fraction", "split_seed", ask->file, ask->folder, ask->files};
    mu_node *map = mu_node_create(&job->arena, MU_MAP, from->pos);
    if (!map) return MU_FAIL_NOMEM(err, "the question");
    map->key = "predict";
    for (size_t i = 0; i < from->n; i++) {
        bool keep = true;
        for (size_t k = 0; k < MU_COUNT(gone); k++) keep &= !gone[k] || strcmp(from->item[i]->key, gone[k]);
        for (const char *const *k = ask->names_training; keep && k && *k; k++)
            keep = strcmp(from->item[i]->key, *k) != 0;
        if (keep) MU_TRY(mu_node_append(&job->arena, map, from->item[i], err));
    }
    *out = map;
    return MU_OK;
}

static mu_status set_unlabelled(mu_job *job, mu_node *block, const mu_reader_ask *ask, mu_err *err) {
    if (!ask->unlabelled) return MU_OK;
    mu_node *n = scalar(job, ask->unlabelled, ask->unlabelled_value);
    if (n) n->quoted = false;
    return set(job, block, n, err);
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

// Can most of the first records be read with labels, and in the model's shape?
static bool reads_with_labels(mu_job *job, const mu_node *block, const mu_inputs *inputs) {
    mu_diags unheard;
    mu_diags_init(&unheard, &job->arena);
    static const mu_registry *const registries[] = {&mu_readers, NULL};
    mu_binder b = {&job->arena, &unheard, job->folder, registries};
    mu_source_spec spec;
    mu_reader *r = NULL;
    mu_err own = {0};
    const mu_known known = {inputs->learnt, inputs->labels, inputs->n_labels};
    if (mu_source_bind(&b, block, &spec, &own) != MU_OK ||
        mu_reader_open(spec.reader, spec.reader_state, spec.pos, &known, &r, &own) != MU_OK)
        return false;
    bool fits = r->n_fields > 1 && r->n_fields == inputs->n_fields;
    for (int i = 0; fits && i < r->n_fields; i++)
        fits = r->field[i].is_image || mu_shape_equal(&r->field[i].shape, &inputs->field[i].shape);
    const int64_t n = r->n_records < TRIED ? r->n_records : TRIED;
    int64_t good = 0;
    for (int64_t i = 0; fits && i < n; i++) {
        mu_record rec;
        mu_err_clear(&own);
        good += mu_reader_read(r, i, &rec, &own) == MU_OK;
    }
    mu_reader_close(r);
    return fits && 2 * good > n;
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
static mu_node *path_node(mu_job *job, const char *key, const char *word) {
    char *whole = realpath(word, NULL);
    mu_node *n = scalar(job, key, whole ? whole : word);
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

static mu_status put_images(mu_job *job, mu_node *block, const char *key, const char *const *words, size_t n,
                            mu_err *err) {
    mu_node *list = mu_node_create(&job->arena, MU_LIST, MU_NOPOS);
    if (!list) return MU_FAIL_NOMEM(err, "the question");
    list->key = key;
    for (size_t i = 0; i < n; i++) {
        if (access(words[i], R_OK))
            return MU_FAIL(err, MU_EUSAGE, "cannot read `%s`: %s", words[i], strerror(errno));
        mu_node *one = path_node(job, NULL, words[i]);
        if (!one) return MU_FAIL_NOMEM(err, "the question");
        MU_TRY(mu_node_append(&job->arena, list, one, err));
    }
    return set(job, block, list, err);
}

static mu_status put_input(mu_question *q, mu_job *job, mu_node *block, const mu_reader_class *class,
                           const mu_inputs *inputs, const char *const *words, size_t n, mu_err *err) {
    const mu_reader_ask *ask = class->ask;
    const bool piped = n == 1 && !strcmp(words[0], "-"), alone = n == 1 && !piped;
    char path[MU_MEMFILE_PATH];
    if (ask->files && !piped && !(alone && mu_fs_is_folder(words[0]))) {
        for (size_t i = 0; i < n; i++)
            if (!is_image(words[i])) return cannot(class->name, ask, words[i], err);
        MU_TRY(put_images(job, block, ask->files, words, n, err));
        q->input = words, q->n_input = n;
        return set_unlabelled(job, block, ask, err);
    }
    if (alone && ask->folder && mu_fs_is_folder(words[0]))
        MU_TRY(set(job, block, path_node(job, ask->folder, words[0]), err));
    else if (alone && ask->file && is_file(words[0]))
        MU_TRY(set(job, block, path_node(job, ask->file, words[0]), err));
    else if (piped && ask->file) {
        MU_TRY(keep_piped(q, path, err));
        MU_TRY(set(job, block, scalar(job, ask->file, path), err));
    } else if (ask->typed && !piped) {
        MU_TRY(keep_typed(q, words, n, path, err));
        MU_TRY(set(job, block, scalar(job, ask->file, path), err));
        return set_unlabelled(job, block, ask, err);
    } else return cannot(class->name, ask, words[0], err);
    q->labelled = inputs && reads_with_labels(job, block, inputs);
    return q->labelled ? MU_OK : set_unlabelled(job, block, ask, err);
}

mu_status mu_question_put(mu_question *q, mu_job *job, const mu_inputs *inputs, const char *const *words,
                          size_t n, mu_err *err) {
    *q = MU_QUESTION_NONE;
    const mu_node *from = mu_node_find(job->data, "train");
    if (!from) from = mu_node_find(job->data, "predict");
    if (!from) from = mu_node_find(job->data, "test");
    const char *name = mu_node_text(mu_node_find(from, "reader"));
    const mu_reader_class *class =
        name ? (const mu_reader_class *)(const void *)mu_registry_find(&mu_readers, name) : NULL;
    if (!class || !class->ask) return cannot(name ? name : "nothing", NULL, words[0], err);
    mu_node *block = NULL;
    MU_TRY(copy_block(job, from, class->ask, &block, err));
    MU_TRY(put_input(q, job, block, class, inputs, words, n, err));
    return set(job, job->data, block, err);
}

void mu_question_close(mu_question *q) {
    if (q->fd >= 0) close(q->fd);
    *q = MU_QUESTION_NONE;
}
