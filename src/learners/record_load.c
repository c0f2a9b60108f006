// SPDX-License-Identifier: Apache-2.0
// record_load.c - reading the log of a run.
//
// Two kinds of trouble. A frame that is cut off or whose check is wrong ends the log: what is before it is
// used (a machine that lost its power leaves that). A frame whose check is right and whose content is
// impossible is refused, because a replay would index and allocate by it.
#include "learners/record.h"

#include "file/fs.h"

#include <math.h>
#include <string.h>

#define TAG "runlog"
#define MAX_FILE ((size_t)1 << 34)

typedef struct cursor {
    const unsigned char *at, *end;
} cursor;

// The caller has compared sizes before: these never run past the end.
static uint64_t get(cursor *c, int bytes) {
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)*c->at++ << (8 * i);
    return v;
}
static int64_t get_u32(cursor *c) { return (int64_t)get(c, 4); }
static int64_t get_i64(cursor *c) { return (int64_t)get(c, 8); }
static float get_f32(cursor *c) {
    uint32_t bits = (uint32_t)get(c, 4);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static double get_f64(cursor *c) {
    uint64_t bits = get(c, 8);
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

typedef struct frame {
    int64_t kind;
    cursor content;
    size_t n;
} frame;

// The next whole frame. False: there is none, or it is torn.
static bool next_frame(cursor *c, uint64_t *check, frame *out) {
    size_t left = (size_t)(c->end - c->at);
    if (left < MU_RUNLOG_FRAME) return false;
    cursor look = *c;
    out->kind = get_u32(&look);
    out->n = (size_t)get_u32(&look);
    if (out->n > left - MU_RUNLOG_FRAME) return false;
    out->content = (cursor){look.at, look.at + out->n};
    cursor sum = {out->content.end, c->end};
    uint64_t is = mu_runlog_check(c->at, 8 + out->n, *check);
    if (get(&sum, 8) != is) return false;
    *check = is;
    c->at = sum.at;
    return true;
}

// ---- the head ----

static mu_status read_sets(mu_runlog *log, cursor *c, size_t n_sets, const char *path, mu_err *err) {
    const char **sets = mu_arena_array(&log->arena, n_sets ? n_sets : 1, sizeof *sets);
    if (!sets) return MU_FAIL_NOMEM(err, "the log");
    for (size_t i = 0; i < n_sets; i++) {
        if (c->end - c->at < 4) return MU_FAIL(err, MU_EDATA, "`%s`: the head is too short", path);
        size_t n = (size_t)get_u32(c);
        if (n > (size_t)(c->end - c->at) || memchr(c->at, 0, n))
            return MU_FAIL(err, MU_EDATA, "`%s`: edit %zu of the job is broken", path, i);
        sets[i] = mu_arena_strndup(&log->arena, (const char *)c->at, n);
        if (!sets[i]) return MU_FAIL_NOMEM(err, "the log");
        c->at += n;
    }
    log->head.sets = sets;
    log->head.n_sets = n_sets;
    return MU_OK;
}

static bool head_is_sound(const mu_runlog_head *h) {
    return h->learners >= 1 && h->learners <= MU_RUNLOG_MAX_LEARNERS && h->rows >= 1 &&
           h->rows <= INT32_MAX && h->global_batch >= 1 && h->global_batch <= INT32_MAX &&
           h->first_version >= 0 && h->first_sample >= 0 && memchr(h->protocol, 0, sizeof h->protocol);
}

static mu_status read_head(mu_runlog *log, const frame *f, const char *path, mu_err *err) {
    cursor c = f->content;
    mu_runlog_head *h = &log->head;
    if (f->kind != MU_RUNLOG_HEAD || f->n < 12 + MU_RUNLOG_PROTOCOL + 9 * 8 || f->n > MU_RUNLOG_MAX_HEAD)
        return MU_FAIL(err, MU_EDATA, "`%s` has no head", path);
    int64_t format = get_u32(&c);
    if (format != MU_RUNLOG_FORMAT)
        return MU_FAIL(err, MU_EDATA, "`%s` has format %lld, this program reads %d", path, (long long)format,
                       MU_RUNLOG_FORMAT);
    h->learners = (int32_t)get_u32(&c);
    size_t n_sets = (size_t)get_u32(&c);
    memcpy(h->protocol, c.at, MU_RUNLOG_PROTOCOL);
    c.at += MU_RUNLOG_PROTOCOL;
    int64_t *const counts[] = {&h->rows, &h->global_batch, &h->seed, &h->first_version, &h->first_sample};
    for (size_t i = 0; i < MU_COUNT(counts); i++) *counts[i] = get_i64(&c);
    uint64_t *const sums[] = {&h->job_hash, &h->layout, &h->start[0], &h->start[1]};
    for (size_t i = 0; i < MU_COUNT(sums); i++) *sums[i] = get(&c, 8);
    if (!head_is_sound(h) || n_sets > MU_RUNLOG_MAX_SETS)
        return MU_FAIL(err, MU_EDATA, "`%s`: the head is of no run", path);
    return read_sets(log, &c, n_sets, path, err);
}

// ---- updates ----

static mu_status grow(void **list, size_t n, size_t add, size_t size, size_t *room, mu_err *err) {
    if (n + add <= *room) return MU_OK;
    size_t want = 2 * *room + add + 64;
    void *more = want > SIZE_MAX / size ? NULL : mu_realloc(*list, want * size, TAG);
    if (!more) return MU_FAIL_NOMEM(err, "the log");
    *list = more;
    *room = want;
    return MU_OK;
}

typedef struct room {
    size_t updates, parts;
} room;

static mu_journal_part read_part(cursor *c) {
    mu_journal_part p = {0};
    p.id.learner = (int32_t)get_u32(c);
    p.id.incarnation = (uint32_t)get_u32(c);
    p.id.step = get_i64(c);
    p.id.version = get_i64(c);
    p.id.first = get_i64(c);
    p.id.rows = get_u32(c);
    p.global_rows = get_u32(c);
    p.weight = get_f32(c);
    p.scale = get_f32(c);
    p.bad = (int32_t)get_u32(c);
    (void)get_u32(c);
    p.loss = get_f64(c);
    return p;
}

static bool part_is_sound(const mu_runlog_head *h, const mu_journal_update *u, const mu_journal_part *p) {
    return p->id.learner >= 0 && p->id.learner < h->learners && p->id.step >= 0 &&
           p->id.version >= h->first_version && p->id.version < u->version && p->id.first >= 0 &&
           p->id.first <= INT64_MAX / 2 && p->id.rows >= 1 && p->id.rows <= h->rows && p->global_rows >= 1 &&
           isfinite(p->weight) && isfinite(p->scale) && (!p->bad || u->skip);
}

static mu_status read_update(mu_runlog *log, const frame *f, room *has, const char *path, mu_err *err) {
    cursor c = f->content;
    const mu_runlog_head *h = &log->head;
    mu_journal_update u = {0};
    if (f->n >= MU_RUNLOG_UPDATE_BYTES) {
        u.version = get_i64(&c);
        u.rate = get_f64(&c);
        u.n_parts = (int32_t)get_u32(&c);
        u.skip = (int32_t)get_u32(&c);
    }
    int64_t expected = h->first_version + (int64_t)log->n_updates + 1;
    if (u.version != expected || u.n_parts < 1 || u.n_parts > mu_core_most_parts(h->learners) ||
        !isfinite(u.rate) || f->n != MU_RUNLOG_UPDATE_BYTES + (size_t)u.n_parts * MU_RUNLOG_PART_BYTES)
        return MU_FAIL(err, MU_EDATA, "`%s`: record %zu is not that of update %lld", path, log->n_updates,
                       (long long)expected);
    void *updates = log->updates, *parts = log->parts;
    mu_status st = grow(&updates, log->n_updates, 1, sizeof *log->updates, &has->updates, err);
    log->updates = updates;
    if (st == MU_OK) st = grow(&parts, log->n_parts, (size_t)u.n_parts, sizeof *log->parts, &has->parts, err);
    log->parts = parts;
    MU_TRY(st);
    for (int i = 0; i < u.n_parts; i++) {
        mu_journal_part p = read_part(&c);
        if (!part_is_sound(h, &u, &p))
            return MU_FAIL(err, MU_EDATA, "`%s`: gradient %d of update %lld is of no run", path, i,
                           (long long)u.version);
        log->parts[log->n_parts + (size_t)i] = p;
    }
    log->updates[log->n_updates++] = (mu_runlog_update){u, log->n_parts};
    log->n_parts += (size_t)u.n_parts;
    return MU_OK;
}

static mu_status read_end(mu_runlog *log, const frame *f, const char *path, mu_err *err) {
    cursor c = f->content;
    if (f->n == MU_RUNLOG_END_BYTES) {
        log->end.version = get_i64(&c);
        log->end.step = get_i64(&c);
        log->end.samples = get_i64(&c);
        log->end.weights[0] = get(&c, 8);
        log->end.weights[1] = get(&c, 8);
        log->ended = log->end.version == log->head.first_version + (int64_t)log->n_updates &&
                     log->end.step >= 0 && log->end.samples >= 0;
    }
    return log->ended ? MU_OK : MU_FAIL(err, MU_EDATA, "`%s`: the end does not belong to this log", path);
}

// ---- the file ----

static mu_status read_all(mu_runlog *log, cursor *c, const char *path, mu_err *err) {
    frame f;
    uint64_t check = 0;
    room has = {0};
    c->at += sizeof mu_runlog_magic;
    if (!next_frame(c, &check, &f))
        return MU_FAIL(err, MU_EDATA, "`%s` is torn before its first record", path);
    MU_TRY(read_head(log, &f, path, err));
    while (!log->ended && next_frame(c, &check, &f)) {
        if (f.kind == MU_RUNLOG_UPDATE) MU_TRY(read_update(log, &f, &has, path, err));
        else if (f.kind == MU_RUNLOG_END) MU_TRY(read_end(log, &f, path, err));
        else return MU_FAIL(err, MU_EDATA, "`%s`: unknown record %lld", path, (long long)f.kind);
    }
    log->lost_bytes = (size_t)(c->end - c->at);
    return MU_OK;
}

mu_status mu_runlog_parse(const void *data, size_t size, const char *path, mu_runlog **out, mu_err *err) {
    if (size < sizeof mu_runlog_magic || memcmp(data, mu_runlog_magic, sizeof mu_runlog_magic))
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` is no log of a run", path), err,
                             "`muster train ... --record FILE` writes one.");
    mu_runlog *log = mu_alloc(sizeof *log, TAG);
    if (!log) return MU_FAIL_NOMEM(err, "the log");
    mu_arena_init(&log->arena, TAG);
    cursor c = {data, (const unsigned char *)data + size};
    mu_status st = read_all(log, &c, path, err);
    if (st == MU_OK) *out = log;
    else mu_runlog_destroy(log);
    return st;
}

mu_status mu_runlog_load(const char *path, mu_runlog **out, mu_err *err) {
    char *data = NULL;
    size_t size = 0;
    MU_TRY(mu_fs_read(path, MAX_FILE, &data, &size, err));
    mu_status st = mu_runlog_parse(data, size, path, out, err);
    mu_free(data);
    return st;
}

void mu_runlog_destroy(mu_runlog *log) {
    if (!log) return;
    mu_arena_fini(&log->arena);
    mu_free(log->updates);
    mu_free(log->parts);
    mu_free(log);
}

mu_status mu_runlog_edits(const char *path, mu_arena *arena, const char ***sets, size_t *n_sets,
                          mu_err *err) {
    mu_runlog *log;
    MU_TRY(mu_runlog_load(path, &log, err));
    size_t n = log->head.n_sets;
    const char **all = mu_arena_array(arena, n + 1 + *n_sets, sizeof *all);
    bool ok = all != NULL;
    for (size_t i = 0; ok && i < n; i++) ok = (all[i] = mu_arena_strdup(arena, log->head.sets[i])) != NULL;
    if (ok) ok = (all[n] = mu_arena_printf(arena, "cluster.learners=%d", log->head.learners)) != NULL;
    for (size_t i = 0; ok && i < *n_sets; i++) all[n + 1 + i] = (*sets)[i];
    mu_runlog_destroy(log);
    if (!ok) return MU_FAIL_NOMEM(err, "the edits of the job");
    *sets = all;
    *n_sets += n + 1;
    return MU_OK;
}
