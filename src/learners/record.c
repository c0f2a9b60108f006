// SPDX-License-Identifier: Apache-2.0
// record.c - writing the log of a run; record.h has the picture of the file.
//
// Frames are made in one buffer that is written when it is full and at the end of every drain. Nothing of it
// goes through the learners: they only leave entries in the journal.
#include "learners/record.h"

#include "file/digest.h"
#include "file/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define TAG "runlog"
#define BUFFER ((size_t)1 << 16)

const char mu_runlog_magic[8] = {'M', 'U', 'S', 'T', 'R', 'L', 'O', 'G'};

struct mu_recorder {
    int fd;
    char path[MU_FS_PATH];
    uint64_t check; // of the frame before
    bool failed;
    unsigned char *buf;
    size_t used, room;
    size_t frame; // where the frame in the making begins
};

// ---- sums ----

uint64_t mu_runlog_check(const void *kind_n_bytes, size_t n, uint64_t before) {
    return XXH64(kind_n_bytes, n, before);
}

void mu_runlog_sum(const mu_params *ps, uint64_t sum[2]) {
    uint64_t block[1 + MU_COUNT(ps->slot)][2] = {{0}};
    mu_digest_bytes(ps->value, ps->count * sizeof(float), block[0]);
    for (int k = 0; k < ps->n_slots; k++)
        mu_digest_bytes(ps->slot[k], ps->count * sizeof(float), block[1 + k]);
    mu_digest_bytes(block, sizeof block, sum);
}

uint64_t mu_runlog_layout(const mu_params *ps, const mu_message_layout *layout, int n_slices) {
    uint64_t h = XXH64(&n_slices, sizeof n_slices, 0);
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        const mu_message_part *m = &layout->part[i];
        const uint64_t words[] = {p->offset, p->count, p->is_stat, m->offset, m->bytes,
                                  m->form == MU_GRAD_FACTORS};
        h = XXH64(words, sizeof words, XXH64(p->name, strlen(p->name), h));
    }
    return h;
}

// ---- bytes ----

static void put(mu_recorder *r, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) r->buf[r->used++] = (unsigned char)(v >> (8 * i));
}
static void put_u32(mu_recorder *r, int64_t v) { put(r, (uint64_t)v, 4); }
static void put_i64(mu_recorder *r, int64_t v) { put(r, (uint64_t)v, 8); }
static void put_f32(mu_recorder *r, float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put(r, bits, 4);
}
static void put_f64(mu_recorder *r, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    put(r, bits, 8);
}
static void put_bytes(mu_recorder *r, const void *data, size_t n) {
    if (n) memcpy(r->buf + r->used, data, n);
    r->used += n;
}

static mu_status flush(mu_recorder *r, mu_err *err) {
    if (r->failed || !r->used) return MU_OK;
    mu_status st = mu_fs_write_all(r->fd, r->buf, r->used, r->path, err);
    r->used = 0;
    r->failed = st != MU_OK;
    return st;
}

// Room for a frame of n bytes of content.
static mu_status begin_frame(mu_recorder *r, int kind, size_t n, mu_err *err) {
    if (r->room - r->used < n + MU_RUNLOG_FRAME) MU_TRY(flush(r, err));
    r->frame = r->used;
    put_u32(r, kind);
    put_u32(r, (int64_t)n);
    return MU_OK;
}

static void end_frame(mu_recorder *r) {
    r->check = mu_runlog_check(r->buf + r->frame, r->used - r->frame, r->check);
    put(r, r->check, 8);
}

// ---- frames ----

static size_t head_bytes(const mu_runlog_head *h) {
    size_t n = 12 + MU_RUNLOG_PROTOCOL + 9 * 8;
    for (size_t i = 0; i < h->n_sets; i++) n += 4 + strlen(h->sets[i]);
    return n;
}

static mu_status write_head(mu_recorder *r, const mu_runlog_head *h, mu_err *err) {
    put_bytes(r, mu_runlog_magic, sizeof mu_runlog_magic);
    MU_TRY(begin_frame(r, MU_RUNLOG_HEAD, head_bytes(h), err));
    put_u32(r, MU_RUNLOG_FORMAT);
    put_u32(r, h->learners);
    put_u32(r, (int64_t)h->n_sets);
    put_bytes(r, h->protocol, MU_RUNLOG_PROTOCOL);
    const int64_t counts[] = {h->rows, h->global_batch, h->seed, h->first_version, h->first_sample};
    for (size_t i = 0; i < MU_COUNT(counts); i++) put_i64(r, counts[i]);
    const uint64_t sums[] = {h->job_hash, h->layout, h->start[0], h->start[1]};
    for (size_t i = 0; i < MU_COUNT(sums); i++) put(r, sums[i], 8);
    for (size_t i = 0; i < h->n_sets; i++) {
        size_t n = strlen(h->sets[i]);
        put_u32(r, (int64_t)n);
        put_bytes(r, h->sets[i], n);
    }
    end_frame(r);
    return flush(r, err);
}

static void put_part(mu_recorder *r, const mu_journal_part *p) {
    put_u32(r, p->id.learner);
    put_u32(r, p->id.incarnation);
    put_i64(r, p->id.step);
    put_i64(r, p->id.version);
    put_i64(r, p->id.first);
    put_u32(r, p->id.rows);
    put_u32(r, p->global_rows);
    put_f32(r, p->weight);
    put_f32(r, p->scale);
    put_u32(r, p->bad);
    put_u32(r, 0);
    put_f64(r, p->loss);
}

// All entries of the oldest update in the journal: they were published together.
static mu_status write_update(mu_recorder *r, mu_journal *j, mu_err *err) {
    const mu_journal_update u = mu_journal_peek(j)->update;
    size_t n = (size_t)u.n_parts;
    mu_status st =
        r->failed ? MU_OK
                  : begin_frame(r, MU_RUNLOG_UPDATE, MU_RUNLOG_UPDATE_BYTES + n * MU_RUNLOG_PART_BYTES, err);
    bool writes = !r->failed;
    if (writes) {
        put_i64(r, u.version);
        put_f64(r, u.rate);
        put_u32(r, u.n_parts);
        put_u32(r, u.skip);
    }
    for (size_t i = 0; i < n; i++) {
        if (writes) put_part(r, &mu_journal_peek(j)->part);
        mu_journal_take(j);
    }
    if (writes) end_frame(r);
    return st;
}

// ---- life ----

static mu_status too_long(const mu_runlog_head *h, const char *path, mu_err *err) {
    if (strlen(path) >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s...`", path);
    if (h->n_sets <= MU_RUNLOG_MAX_SETS && head_bytes(h) <= MU_RUNLOG_MAX_HEAD) return MU_OK;
    return MU_FAIL(err, MU_EUSAGE, "%zu edits of the job are too many for a log", h->n_sets);
}

static mu_status create_file(mu_recorder *r, mu_err *err) {
    r->fd = mu_fs()->open(r->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (r->fd >= 0) return MU_OK;
    if (errno != EEXIST) return mu_fs_fail(err, "create", r->path);
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` exists already", r->path), err,
                         "Give the log another name, or remove the old one.");
}

static void discard(mu_recorder *r) {
    if (r->fd >= 0) mu_fs()->close(r->fd);
    mu_free(r->buf);
    mu_free(r);
}

mu_status mu_recorder_open(const char *path, const mu_runlog_head *head, mu_recorder **out, mu_err *err) {
    MU_TRY(too_long(head, path, err));
    mu_recorder *r = mu_alloc(sizeof *r, TAG);
    if (!r) return MU_FAIL_NOMEM(err, "the log");
    memcpy(r->path, path, strlen(path) + 1);
    size_t most = MU_RUNLOG_UPDATE_BYTES + (size_t)mu_core_most_parts(head->learners) * MU_RUNLOG_PART_BYTES,
           first = head_bytes(head);
    r->fd = -1;
    r->room = BUFFER + (most > first ? most : first) + MU_RUNLOG_FRAME;
    r->buf = mu_alloc(r->room, TAG);
    mu_status st = r->buf ? create_file(r, err) : MU_FAIL_NOMEM(err, "the log");
    if (st == MU_OK) st = write_head(r, head, err);
    if (st == MU_OK) {
        *out = r;
        return MU_OK;
    }
    discard(r);
    return st;
}

mu_status mu_recorder_drain(mu_recorder *r, mu_journal *j, mu_err *err) {
    mu_status st = MU_OK;
    while (mu_journal_peek(j)) {
        mu_status one = write_update(r, j, err);
        if (st == MU_OK) st = one;
    }
    mu_status rest = flush(r, err);
    return st == MU_OK ? rest : st;
}

static mu_status write_end(mu_recorder *r, const mu_runlog_end *e, mu_err *err) {
    MU_TRY(begin_frame(r, MU_RUNLOG_END, MU_RUNLOG_END_BYTES, err));
    put_i64(r, e->version);
    put_i64(r, e->step);
    put_i64(r, e->samples);
    put(r, e->weights[0], 8);
    put(r, e->weights[1], 8);
    end_frame(r);
    return flush(r, err);
}

mu_status mu_recorder_close(mu_recorder *r, const mu_runlog_end *end, mu_err *err) {
    if (!r) return MU_OK;
    mu_status st = end && !r->failed ? write_end(r, end, err) : MU_OK;
    if (st == MU_OK && !r->failed && mu_fs()->fsync(r->fd)) st = mu_fs_fail(err, "sync", r->path);
    discard(r);
    return st;
}
