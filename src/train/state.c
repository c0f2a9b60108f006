// SPDX-License-Identifier: Apache-2.0
// state.c - see state.h. Arrays are stored by name and global shape, so nothing here knows how the
// parameters were spread over learners.
#include "train/state.h"

#include "base/log.h"
#include "ps/merge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static mu_status list_params(mu_arena *a, const mu_params *ps, mu_st_tensor **out, size_t *n, mu_err *err) {
    mu_st_tensor *t = mu_arena_array(a, (size_t)ps->n + 1, sizeof *t);
    if (!t) return MU_FAIL_NOMEM(err, "the list of parameters");
    *n = 0;
    for (int i = 0; i < ps->n; i++)
        if (!ps->list[i]->is_state)
            t[(*n)++] = mu_st_f32(ps->list[i]->name, ps->list[i]->shape, ps->list[i]->value);
    *out = t;
    return MU_OK;
}

static const char *slot_key(mu_arena *a, const mu_param *p, const mu_updater_class *c, int k) {
    return mu_arena_printf(a, "%s/%s", p->name, c->slot_name[k]);
}

static mu_status list_slots(mu_arena *a, const mu_params *ps, const mu_updater_class *c, mu_st_tensor **out,
                            size_t *n, mu_err *err) {
    mu_st_tensor *t = mu_arena_array(a, (size_t)ps->n * (size_t)(c->n_slots + 1) + 1, sizeof *t);
    if (!t) return MU_FAIL_NOMEM(err, "the list of updater history");
    *n = 0;
    for (int i = 0; i < ps->n; i++) {
        if (ps->list[i]->is_state) // memories of layers are history, too, and no part of the model
            t[(*n)++] = mu_st_f32(ps->list[i]->name, ps->list[i]->shape, ps->list[i]->value);
        for (int k = 0; k < c->n_slots && !ps->list[i]->is_stat; k++) {
            const char *name = slot_key(a, ps->list[i], c, k);
            if (!name) return MU_FAIL_NOMEM(err, "a name");
            t[(*n)++] = mu_st_f32(name, ps->list[i]->shape, ps->slot[k] + ps->list[i]->offset);
        }
    }
    *out = t;
    return MU_OK;
}

// The center of server groups, which is history of the training, too.
static const char *center_key(mu_arena *a, const mu_param *p) {
    return mu_arena_printf(a, "%s/center", p->name);
}
static const char *outer_key(mu_arena *a, const mu_session *s, const mu_param *p, int k) {
    const mu_class_ref *merge = &s->setup.merge;
    return mu_arena_printf(a, "%s/outer_%s", p->name,
                           mu_merge_class_of(&s->setup)->slot_name(merge->state, k));
}

static mu_status list_center(mu_arena *a, const mu_session *s, mu_st_tensor **list, size_t *n, mu_err *err) {
    const mu_merge_blocks *b = s->merge;
    const mu_params *ps = s->params;
    if (!b || !b->filled) return MU_OK;
    mu_st_tensor *t = mu_arena_array(a, *n + (size_t)ps->n * (size_t)(1 + b->n_slots) + 1, sizeof *t);
    if (!t) return MU_FAIL_NOMEM(err, "the list of the center");
    memcpy(t, *list, *n * sizeof *t);
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        if (p->is_state) continue;
        for (int k = -1; k < b->n_slots; k++) {
            const char *name = k < 0 ? center_key(a, p) : outer_key(a, s, p, k);
            if (!name) return MU_FAIL_NOMEM(err, "a name");
            t[(*n)++] = mu_st_f32(name, p->shape, (k < 0 ? b->center : b->history[k]) + p->offset);
        }
    }
    *list = t;
    return MU_OK;
}

static mu_status save(mu_arena *a, const char *dir, const mu_session *s, const mu_position *at,
                      const mu_finished *finished, const mu_progress_state *ps, const mu_ckpt_opts *o,
                      char saved[MU_CKPT_NAME], mu_err *err) {
    const mu_job *job = s->job;
    int64_t per_epoch = mu_source_n_records(s->train.source);
    const mu_ckpt_number numbers[] = {
        {"samples", (double)finished->cursor},
        {"partial_step", (double)at->partial},
        {"applied_samples", (double)at->applied},
        {"repeated_samples", (double)at->repeated},
        {"rate_scale", at->rate_scale},
        {"time_share", at->time_share},
        {"extra_updates", (double)at->extra_updates},
        {"best", ps->best},
        {"best_is_loss", ps->best_is_loss},
        {"best_step", (double)ps->best_step},
        {"stale", (double)ps->stale},
        {"judged_step", (double)ps->evaluated_step},
        {"skipped", (double)ps->skipped},
        {"rollbacks", (double)ps->rollbacks},
        {"merges", s->merge ? (double)s->merge->merges : 0},
    };
    mu_ckpt c = {.meta = {.step = at->step,
                          .version = at->version,
                          .epoch = finished->cursor / per_epoch,
                          .sample = finished->cursor % per_epoch,
                          .finished = finished->range,
                          .n_finished = (size_t)finished->n,
                          .seed = job->seed,
                          .job_hash = mu_job_hash(job),
                          .job_name = job->name,
                          .wall_s = ps->trained_s,
                          .numbers = numbers,
                          .n_numbers = MU_COUNT(numbers)}};
    mu_st_tensor *params, *slots = NULL;
    MU_TRY(list_params(a, s->params, &params, &c.n_params, err));
    MU_TRY(list_slots(a, s->params, s->updater->class, &slots, &c.n_slots, err));
    MU_TRY(list_center(a, s, &slots, &c.n_slots, err));
    c.params = params;
    c.slots = slots;
    mu_model_about about;
    const mu_model_score scores[] = {{"step", (double)at->step},
                                     {"epoch", (double)at->samples / (double)per_epoch},
                                     {ps->best_is_loss ? "best_loss" : "best_accuracy",
                                      ps->best_is_loss ? -ps->best : ps->best}};
    MU_TRY(mu_model_describe(s, scores, MU_COUNT(scores), &about, err));
    c.about = about.row;
    c.n_about = about.n;
    mu_status st = mu_ckpt_save(dir, &c, o, saved, err);
    mu_model_about_fini(&about);
    return st;
}

mu_status mu_state_save(const char *dir, const mu_session *s, const mu_position *at,
                        const mu_finished *finished, const mu_progress_state *ps, const mu_ckpt_opts *o,
                        char saved[MU_CKPT_NAME], mu_err *err) {
    mu_arena a;
    mu_arena_init(&a, "checkpoint");
    mu_status st = save(&a, dir, s, at, finished, ps, o, saved, err);
    mu_arena_fini(&a);
    return st;
}

// ---- loading ----

// The number of streams follows the batch, and so the learners and the protocol. Gibbs chains are of the
// model, not of its samples: where there are more or fewer of them, they begin anew and the run goes on. What
// a recurrent layer remembers belongs to the samples before, and is missed.
static mu_status copy_state(const mu_ckpt_loaded *c, mu_param *p, mu_err *err) {
    const mu_st_tensor *t = c->slots ? mu_st_find(c->slots, p->name) : NULL;
    if (t && mu_st_copy_f32(t, &p->shape, p->value, err) == MU_OK) return MU_OK;
    mu_err_clear(err);
    if (p->may_restart) {
        memset(p->value, 0, p->count * sizeof *p->value);
        mu_info("`%s` begins anew: the checkpoint has another number of chains", p->name);
        return MU_OK;
    }
    MU_FAIL_AT(err, MU_EMODEL, p->pos, "checkpoint `%s` has no state `%s` of this size", c->path, p->name);
    mu_err_hint(err, "The number of streams has changed; start anew with `train.init_from: %s`.", c->path);
    return MU_EMODEL;
}

static mu_status copy_slots(mu_arena *a, const mu_ckpt_loaded *c, mu_session *s, mu_err *err) {
    const mu_updater_class *u = s->updater->class;
    for (int i = 0; i < s->params->n; i++) {
        if (s->params->list[i]->is_state) MU_TRY(copy_state(c, s->params->list[i], err));
        for (int k = 0; k < u->n_slots && !s->params->list[i]->is_stat; k++) {
            mu_param *p = s->params->list[i];
            const char *name = slot_key(a, p, u, k);
            if (!name) return MU_FAIL_NOMEM(err, "a name");
            const mu_st_tensor *t = c->slots ? mu_st_find(c->slots, name) : NULL;
            if (!t)
                return mu_err_hinted(
                    MU_FAIL(err, MU_EMODEL, "checkpoint `%s` has no updater history `%s`", c->path, name),
                    err, "It was trained with another updater; start anew with `train.init_from: %s`.",
                    c->path);
            MU_TRY(mu_st_copy_f32(t, &p->shape, s->params->slot[k] + p->offset, err));
        }
    }
    return MU_OK;
}

// whole: all of its arrays are there.
static mu_status read_center(mu_arena *a, const mu_ckpt_loaded *c, const mu_session *s, bool *whole,
                             mu_err *err) {
    const mu_merge_blocks *b = s->merge;
    *whole = false;
    for (int i = 0; i < s->params->n; i++) {
        const mu_param *p = s->params->list[i];
        for (int k = -1; k < b->n_slots && !p->is_state; k++) {
            const char *name = k < 0 ? center_key(a, p) : outer_key(a, s, p, k);
            if (!name) return MU_FAIL_NOMEM(err, "a name");
            const mu_st_tensor *t = c->slots ? mu_st_find(c->slots, name) : NULL;
            if (!t) return MU_OK;
            MU_TRY(mu_st_copy_f32(t, &p->shape, (k < 0 ? b->center : b->history[k]) + p->offset, err));
        }
    }
    *whole = true;
    return MU_OK;
}

// A run that had none, or another rule, begins with a center at its weights.
static mu_status copy_center(mu_arena *a, const mu_ckpt_loaded *c, mu_session *s, mu_err *err) {
    mu_merge_blocks *b = s->merge;
    if (!b) return MU_OK;
    const mu_status st = read_center(a, c, s, &b->filled, err);
    if (!b->filled) memset(b->center, 0, mu_merge_blocks_floats(b) * sizeof(float)); // histories, too
    b->merges = b->filled ? (int64_t)mu_ckpt_meta_number(&c->manifest->meta, "merges", 0) : 0;
    return st;
}

// The step stays with the number of updates where the position is moved without any.
static void move_to(const mu_session *s, mu_position *at, int64_t samples) {
    const int64_t updates = at->step + at->extra_updates;
    *at = mu_position_at(s, at, samples);
    at->extra_updates = updates - at->step;
}

// What an older version has saved is without ranges: its learners go on from the oldest open sample.
static void read_position(const mu_ckpt_meta *m, const mu_session *s, mu_position *at, mu_finished *f) {
    const int64_t cursor = (int64_t)mu_ckpt_meta_number(m, "samples", 0), per_step = mu_samples_per_step(s);
    const int64_t rest = cursor - m->step * per_step;
    memset(f, 0, sizeof *f);
    f->cursor = cursor;
    for (size_t i = 0; i < m->n_finished; i++) mu_finished_add(f, m->finished[i]);
    *at = (mu_position){
        .step = m->step,
        .partial = (int64_t)mu_ckpt_meta_number(m, "partial_step",
                                                (double)(rest > 0 && rest < per_step ? rest : 0)),
        .samples = mu_finished_count(f),
        .extra_updates = (int64_t)mu_ckpt_meta_number(m, "extra_updates", 0),
        .version = m->version,
        .applied = (int64_t)mu_ckpt_meta_number(m, "applied_samples", (double)cursor),
        .repeated = (int64_t)mu_ckpt_meta_number(m, "repeated_samples", 0),
        .rate_scale = mu_ckpt_meta_number(m, "rate_scale", 1),
        .time_share = mu_ckpt_meta_number(m, "time_share", 0),
    };
    const mu_source *source = s->train.source;
    const int64_t begin = source ? mu_source_begin(source, cursor) : cursor;
    if (source && mu_source_in_order(source) && (f->n > 0 || begin < cursor)) {
        at->repeated += at->samples - begin;
        f->n = 0;
        f->cursor = begin;
        move_to(s, at, begin);
    }
    move_to(s, at, at->samples); // a step may have another number of samples now
}

mu_status mu_state_seek(mu_session *s, const mu_position *at, const mu_finished *finished, mu_err *err) {
    mu_source_stop(s->train.source);
    mu_source_set_finished(s->train.source, finished);
    return mu_source_seek(s->train.source, at->samples, err);
}

static mu_status restore(mu_arena *a, const mu_ckpt_loaded *c, mu_session *s, mu_position *at,
                         mu_finished *finished, mu_progress_state *ps, mu_err *err) {
    int n;
    const mu_ckpt_meta *m = &c->manifest->meta;
    MU_TRY(mu_model_take_params(&(mu_model){.arrays = c->params, .path = c->path}, s->params, true, &n, err));
    MU_TRY(copy_slots(a, c, s, err));
    MU_TRY(copy_center(a, c, s, err));
    read_position(m, s, at, finished);
    const double best = mu_ckpt_meta_number(m, "best", NAN);
    *ps = (mu_progress_state){
        .best = best,
        .best_is_loss = mu_ckpt_meta_number(m, "best_is_loss", best < 0) != 0,
        .best_step = (int64_t)mu_ckpt_meta_number(m, "best_step", 0),
        .stale = (int64_t)mu_ckpt_meta_number(m, "stale", 0),
        .evaluated_step = (int64_t)mu_ckpt_meta_number(m, "judged_step", -1),
        .skipped = (int64_t)mu_ckpt_meta_number(m, "skipped", 0),
        .rollbacks = (int64_t)mu_ckpt_meta_number(m, "rollbacks", 0),
        .trained_s = m->wall_s,
        .choices = mu_choices_read(s->params),
    };
    return mu_state_seek(s, at, finished, err);
}

mu_status mu_state_restore(const char *path, mu_ckpt_which which, mu_session *s, mu_position *at,
                           mu_finished *finished, mu_progress_state *ps, mu_err *err) {
    mu_ckpt_loaded *c;
    MU_TRY(mu_ckpt_load(path, which, &c, err));
    mu_arena a;
    mu_arena_init(&a, "checkpoint");
    mu_status st = restore(&a, c, s, at, finished, ps, err);
    mu_arena_fini(&a);
    mu_ckpt_unload(c);
    return st;
}

mu_status mu_state_load_params(const char *path, mu_ckpt_which which, mu_params *params, bool all,
                               int *n_taken, mu_err *err) {
    mu_model m;
    MU_TRY(mu_model_open(&m, path, which, err));
    mu_status st = mu_model_take_params(&m, params, all, n_taken, err);
    mu_model_close(&m);
    return st;
}

mu_status mu_state_load_initial(const mu_job *job, mu_params *params, mu_err *err) {
    for (size_t i = 0; i < job->train.init_from.n; i++) {
        int n;
        MU_TRY(mu_state_load_params(job->train.init_from.v[i], MU_CKPT_NEWEST, params, false, &n, err));
        mu_info("%d of %d parameters taken from %s", n, params->n, job->train.init_from.v[i]);
    }
    return MU_OK;
}

mu_status mu_state_export(const char *dir, const char *file, const mu_session *s,
                          const mu_model_score *scores, size_t n_scores, mu_err *err) {
    mu_arena a;
    mu_model_about about;
    MU_TRY(mu_model_describe(s, scores, n_scores, &about, err));
    mu_arena_init(&a, "export");
    mu_st_tensor *t;
    size_t n;
    mu_status st = list_params(&a, s->params, &t, &n, err);
    if (st == MU_OK) st = mu_st_save(dir, file, t, n, about.row, about.n, err);
    mu_arena_fini(&a);
    mu_model_about_fini(&about);
    return st;
}
