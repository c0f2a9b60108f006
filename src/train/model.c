// SPDX-License-Identifier: Apache-2.0
// model.c - see model.h.
#include "train/model.h"

#include "base/log.h"
#include "ops/finite.h"
#include "store/rundir.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB "muster.job"
#define INPUTS "muster.inputs"
#define SCORES "muster.scores"

// ---- what is saved ----

static void add(mu_model_about *a, const char *key, char *text) {
    if (!text) return;
    a->row[a->n] = (mu_st_meta){key, text};
    a->owned[a->n++] = text;
}

static char *job_text(const mu_job *job) {
    char *text = NULL, *kept = NULL;
    size_t size = 0;
    mu_err why = {0};
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    mu_status st = mu_job_write(job, f, &why);
    if (fclose(f) == 0 && st == MU_OK && mu_json_utf8_valid(text, size))
        kept = mu_strdup(text, "model/about");
    else mu_warn("the model is saved without its job: %s", why.msg[0] ? why.msg : "it is no UTF-8");
    free(text);
    return kept;
}

static char *scores_text(const mu_model_score *scores, size_t n) {
    json_t *o = json_object();
    for (size_t i = 0; o && i < n; i++)
        if (json_object_set_new(o, scores[i].name, mu_json_number(scores[i].value))) break;
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(o);
    return text;
}

mu_status mu_model_describe(const mu_session *s, const mu_model_score *scores, size_t n_scores,
                            mu_model_about *out, mu_err *err) {
    char *inputs = NULL;
    *out = (mu_model_about){.row = {{"format", "pt"}}, .n = 1}; // what PyTorch's loader asks for
    mu_json_init();
    if (s->train.source) MU_TRY(mu_inputs_write(s->train.source, &inputs, err));
    else if (s->inputs) inputs = json_dumps(s->inputs->root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    add(out, INPUTS, inputs);
    add(out, JOB, job_text(s->job));
    add(out, SCORES, n_scores ? scores_text(scores, n_scores) : NULL);
    return MU_OK;
}

void mu_model_about_fini(mu_model_about *a) {
    for (size_t i = 0; i < a->n; i++) mu_free(a->owned[i]);
    *a = (mu_model_about){0};
}

// ---- opening ----

static mu_status open_arrays(mu_model *m, const char *path, mu_ckpt_which which, mu_err *err) {
    if (!mu_fs_is_folder(path)) {
        MU_TRY(mu_st_open(path, &m->file, err));
        m->arrays = m->file;
        m->path = path;
        return MU_OK;
    }
    char inner[MU_FS_PATH];
    MU_TRY(mu_fs_join(inner, path, MU_RUN_CHECKPOINTS, err)); // a run folder, or already the checkpoints
    MU_TRY(mu_ckpt_load(mu_fs_is_folder(inner) ? inner : path, which, &m->checkpoint, err));
    m->arrays = m->checkpoint->params;
    m->path = m->checkpoint->path;
    return MU_OK;
}

mu_status mu_model_open(mu_model *m, const char *path, mu_ckpt_which which, mu_err *err) {
    *m = (mu_model){0};
    mu_status st = open_arrays(m, path, which, err);
    const char *text = st == MU_OK ? mu_st_about(m->arrays, INPUTS) : NULL;
    if (text) st = mu_inputs_read(text, strlen(text), m->path, &m->inputs, err);
    if (st != MU_OK) mu_model_close(m);
    return st;
}

void mu_model_close(mu_model *m) {
    mu_inputs_destroy(m->inputs);
    mu_st_close(m->file);
    mu_ckpt_unload(m->checkpoint);
    *m = (mu_model){0};
}

bool mu_model_is_file(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && !strcmp(dot, ".safetensors");
}

mu_status mu_model_load_job(const mu_model *m, const char *word, const char *const *sets, size_t n_sets,
                            mu_job **job, mu_err *err) {
    char path[MU_FS_PATH];
    if (mu_model_is_file(word)) {
        const char *text = m->arrays ? mu_st_about(m->arrays, JOB) : NULL;
        const char *slash =
            strrchr(word, '/'); // paths begin in the current folder: the model may be anywhere
        if (text) return mu_job_parse(slash ? slash + 1 : word, text, strlen(text), sets, n_sets, job, err);
        return mu_err_hinted(MU_FAIL(err, MU_EMODEL, "`%s` does not hold the job it was trained by", word),
                             err, "Name the job file, and the model with `--model`.");
    }
    if (mu_fs_is_folder(word)) MU_TRY(mu_fs_join(path, word, MU_RUN_JOB, err));
    else if (snprintf(path, sizeof path, "%s", word) >= (int)sizeof path)
        return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s...`", word);
    return mu_job_load(path, sets, n_sets, job, err);
}

const char *mu_model_job_text(const mu_model *m) { return m->arrays ? mu_st_about(m->arrays, JOB) : NULL; }

const char *mu_model_scores_text(const mu_model *m) {
    return m->arrays ? mu_st_about(m->arrays, SCORES) : NULL;
}

// ---- one file ----

static mu_status write_copy(const mu_model *m, const mu_st_meta *meta, size_t n_meta, const char *path,
                            mu_err *err) {
    char folder[MU_FS_PATH], base[MU_FS_PATH];
    const size_t n = mu_st_count(m->arrays);
    if (strlen(path) >= sizeof folder) return MU_FAIL(err, MU_EUSAGE, "`%.60s...` is too long", path);
    mu_st_tensor *t = mu_alloc_array(n + 1, sizeof *t, "model/export");
    if (!t) return MU_FAIL_NOMEM(err, "the list of parameters");
    for (size_t i = 0; i < n; i++) t[i] = *mu_st_at(m->arrays, i);
    const mu_status st =
        mu_st_save(dirname(strcpy(folder, path)), basename(strcpy(base, path)), t, n, meta, n_meta, err);
    mu_free(t);
    return st;
}

mu_status mu_model_export(const mu_model *m, const mu_job *job, const char *path, mu_err *err) {
    static const char *const keys[] = {"format", INPUTS, JOB, SCORES};
    mu_st_meta meta[MU_COUNT(keys)];
    size_t n = 0;
    if (!mu_model_is_file(path))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` is no name for a model", path), err,
                             "Let it end in .safetensors.");
    if (access(path, F_OK) == 0)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` exists already", path), err,
                             "Choose another name, or remove it first.");
    char *own = !mu_model_job_text(m) && job ? job_text(job) : NULL;
    for (size_t i = 0; i < MU_COUNT(keys); i++) {
        const char *text = mu_st_about(m->arrays, keys[i]);
        if (!text && !strcmp(keys[i], JOB)) text = own;
        if (text) meta[n++] = (mu_st_meta){keys[i], text};
    }
    if (!m->inputs) mu_warn("the model does not tell what it was trained on: to be used it needs that data");
    const mu_status st = write_copy(m, meta, n, path, err);
    mu_free(own);
    return st;
}

// ---- arrays in place of data ----

static mu_status add_scalar(mu_job *job, mu_node *to, const char *key, const char *text, mu_err *err) {
    mu_node *n = mu_node_create(&job->arena, MU_SCALAR, MU_NOPOS);
    if (!n || !(n->text = mu_arena_strdup(&job->arena, text))) return MU_FAIL_NOMEM(err, "the job");
    n->key = key;
    return mu_node_append(&job->arena, to, n, err);
}

mu_status mu_model_add_arrays(const mu_model *m, mu_job *job, mu_err *err) {
    if (!m->inputs || !m->inputs->n_fields || !job->data || mu_node_find(job->data, "predict")) return MU_OK;
    const mu_data_field *f = &m->inputs->field[0];
    mu_node *block = mu_node_create(&job->arena, MU_MAP, job->data->pos),
            *shape = mu_node_create(&job->arena, MU_LIST, MU_NOPOS);
    char number[24];
    if (!block || !shape) return MU_FAIL_NOMEM(err, "the job");
    block->key = "predict";
    shape->key = "shape";
    MU_TRY(add_scalar(job, block, "reader", "array", err));
    MU_TRY(add_scalar(job, block, "field", f->name, err));
    for (int i = 0; i < f->shape.n; i++) {
        snprintf(number, sizeof number, "%lld", (long long)f->shape.d[i]);
        MU_TRY(add_scalar(job, shape, NULL, number, err));
    }
    snprintf(number, sizeof number, "%lld", (long long)f->n_classes);
    if (f->store == MU_STORE_I32) MU_TRY(add_scalar(job, block, "classes", number, err));
    MU_TRY(mu_node_append(&job->arena, block, shape, err));
    return mu_node_append(&job->arena, job->data, block, err);
}

mu_status mu_model_take_params(const mu_model *m, mu_params *ps, bool all, int *n_taken, mu_err *err) {
    *n_taken = 0;
    for (int i = 0; i < ps->n; i++) {
        mu_param *p = ps->list[i];
        if (p->is_state) continue;
        const mu_st_tensor *t = mu_st_find(m->arrays, p->name);
        if (!t && !all) continue;
        if (!t)
            return mu_err_hinted(
                MU_FAIL_AT(err, MU_EMODEL, p->pos, "`%s` has no array `%s`", m->path, p->name), err,
                "The file belongs to another net; it holds %zu arrays.", mu_st_count(m->arrays));
        mu_status st = mu_st_copy_f32(t, &p->shape, p->value, err);
        if (st == MU_OK && !mu_is_below(p->value, p->count, MU_BELOW_INFINITY))
            st = mu_err_hinted(
                MU_FAIL_AT(err, MU_EMODEL, p->pos, "`%s` holds values that are not finite", p->name), err,
                "The model diverged before it was saved, or the file is damaged.");
        if (st != MU_OK) {
            mu_err_note(err, "while loading `%s`", m->path);
            return st;
        }
        ++*n_taken;
    }
    return MU_OK;
}
