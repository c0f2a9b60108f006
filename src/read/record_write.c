// SPDX-License-Identifier: Apache-2.0
// record_write.c - any reader's records into a packed record file; the byte picture is in record.h.
#include "read/record.h"

#include "base/log.h"
#include "file/infile.h"
#include "file/outfile.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

enum { REPORT_EVERY = 256, BAD_LOGGED = 5 };

typedef struct record_file {
    mu_outfile *out;
    uint8_t    *index;                  // 8 bytes a record
    int64_t     n;                      // records
} record_file;

typedef struct record_writer {
    mu_reader  *r;
    record_file file[MU_RECORD_SHARDS];
    int         n_files;                // records are dealt to them in turn
    size_t      bytes[MU_MAX_FIELDS];   // of each field, unpadded
    size_t      record_bytes;           // padded fields without the checksum
    uint8_t    *record;                 // one record with its checksum
    uint64_t    head_hash;
    XXH3_state_t *whole;                // of all records; NULL = there is one file
} record_writer;

static mu_status write_header(record_writer *w, mu_err *err) {
    uint8_t head[MU_RECORD_HEAD_MAX] = {0};
    const mu_reader *r = w->r;
    size_t size = MU_RECORD_HEAD + (size_t)r->n_fields * MU_RECORD_FIELD;
    memcpy(head, MU_RECORD_MAGIC, 8);
    mu_put_le32(head + 8, (uint32_t)size + 8);
    mu_put_le32(head + 12, (uint32_t)r->n_fields);
    for (int f = 0; f < r->n_fields; f++) {
        const mu_data_field *d = &r->field[f];
        uint8_t *p = head + MU_RECORD_HEAD + f * MU_RECORD_FIELD;
        if (strlen(d->name) >= MU_RECORD_NAME || d->shape.n > MU_RECORD_DIMS)
            return MU_FAIL(err, MU_EUNSUPPORTED, "field `%s` does not fit into a record file", d->name);
        memcpy(p, d->name, strlen(d->name));
        mu_put_le32(p + 24, (uint32_t)d->store);
        mu_put_le32(p + 28, d->is_image ? 1 : !d->is_begin ? 0 : d->one_text ? 3 : 2);
        mu_put_le32(p + 32, (uint32_t)d->shape.n);
        mu_put_le32(p + 36, (uint32_t)d->streams);
        for (int i = 0; i < d->shape.n; i++) mu_put_le64(p + 40 + 8 * i, (uint64_t)d->shape.d[i]);
        mu_put_le64(p + 72, (uint64_t)d->n_classes);
    }
    w->head_hash = XXH3_64bits(head, size);
    mu_put_le64(head + size, w->head_hash);
    for (int k = 0; k < w->n_files; k++) mu_outfile_write(w->file[k].out, head, size + 8);
    if (w->whole) XXH3_64bits_reset_withSeed(w->whole, w->head_hash);
    return MU_OK;
}

static void write_record(record_writer *w, const mu_record *rec, int64_t number) {
    record_file *to = &w->file[number % w->n_files];
    uint8_t *p = w->record;
    for (int f = 0; f < w->r->n_fields; f++) {
        memcpy(p, rec->field[f], w->bytes[f]);          // little-endian machines only, as the rest of Muster
        p += mu_record_pad(w->bytes[f]);                // the padding stays zero from the allocation
    }
    if (w->whole) XXH3_64bits_update(w->whole, w->record, w->record_bytes);
    mu_put_le64(p, XXH3_64bits_withSeed(w->record, w->record_bytes, (uint64_t)to->n));
    mu_put_le64(to->index + 8 * to->n++, mu_outfile_size(to->out));
    mu_outfile_write(to->out, w->record, w->record_bytes + 8);
}

// Of records that continue each other none can be left out.
static mu_status skip_bad(const mu_reader *r, mu_record_progress *p, const mu_err *why, mu_err *err) {
    if (++p->n_bad > p->max_bad || r->field[0].streams > 0) {
        if (err && err->status == MU_OK) *err = *why;
        mu_err_note(err, "bad record %" PRId64 " of this data set, %" PRId64 " are allowed", p->n_bad,
                    p->max_bad);
        return MU_EDATA;
    }
    if (p->n_bad <= BAD_LOGGED) mu_warn("left out a bad record: %s", why->msg);
    return MU_OK;
}

static bool all_ok(const record_writer *w) {
    bool ok = true;
    for (int k = 0; k < w->n_files; k++) ok &= mu_outfile_ok(w->file[k].out);
    return ok;
}

static mu_status write_records(record_writer *w, mu_record_progress *p, mu_err *err) {
    for (int64_t i = 0; i < w->r->n_records && all_ok(w); i++) {
        mu_err why;
        why.status = MU_OK;
        mu_record rec = {{0}};
        mu_status st = p->stop ? p->stop(p->ctx) : MU_OK;
        if (st != MU_OK)
            return MU_FAIL(err, st, "stopped after %" PRId64 " of %" PRId64 " records; nothing was written",
                           i, w->r->n_records);
        st = mu_reader_read(w->r, i, &rec, &why);
        if (st == MU_OK) write_record(w, &rec, p->n_written++);
        else if (st == MU_EDATA) MU_TRY(skip_bad(w->r, p, &why, err));
        else return mu_err_pass(st, &why, err);
        if (p->report && (i + 1) % REPORT_EVERY == 0) p->report(p->ctx, i + 1, w->r->n_records);
    }
    if (p->report) p->report(p->ctx, w->r->n_records, w->r->n_records);
    if (!p->n_written) return MU_FAIL(err, MU_EDATA, "no good record to write");
    return p->n_written >= w->n_files || !all_ok(w)
               ? MU_OK
               : MU_FAIL(err, MU_EDATA, "%" PRId64 " good records cannot fill %d shards", p->n_written,
                         w->n_files);
}

static mu_status write_notes(const record_writer *w, mu_outfile *out, const mu_shard *shard, mu_err *err) {
    static const uint8_t zero[8];
    char *text;
    MU_TRY(mu_record_notes_make(w->r, shard, &text, err));
    if (!text) return MU_OK;
    uint8_t head[MU_RECORD_NOTES_HEAD], hash[8];
    const size_t n = strlen(text), pad = mu_record_pad(n) - n;
    memcpy(head, MU_RECORD_NOTES, 8);
    mu_put_le64(head + 8, n);
    XXH3_state_t *sum = XXH3_createState();
    if (sum) {
        XXH3_64bits_reset_withSeed(sum, w->head_hash);
        XXH3_64bits_update(sum, head, sizeof head);
        XXH3_64bits_update(sum, text, n);
        XXH3_64bits_update(sum, zero, pad);
        mu_put_le64(hash, XXH3_64bits_digest(sum));
        mu_outfile_write(out, head, sizeof head);
        mu_outfile_write(out, text, n);
        mu_outfile_write(out, zero, pad);
        mu_outfile_write(out, hash, sizeof hash);
    }
    XXH3_freeState(sum);
    mu_free(text);
    return sum ? MU_OK : MU_FAIL_NOMEM(err, "the notes of a record file");
}

static void write_tail(const record_writer *w, const record_file *to) {
    uint8_t foot[MU_RECORD_FOOTER];
    const size_t bytes = 8 * (size_t)to->n;
    mu_put_le64(foot, (uint64_t)to->n);
    mu_put_le64(foot + 8, mu_outfile_size(to->out));
    mu_put_le64(foot + 16, XXH3_64bits(to->index, bytes));
    mu_put_le64(foot + 24, XXH3_64bits_withSeed(foot, 24, w->head_hash));
    memcpy(foot + 32, MU_RECORD_END, 8);
    mu_outfile_write(to->out, to->index, bytes);
    mu_outfile_write(to->out, foot, sizeof foot);
}

// Notes and tail of all, then all appear.
static mu_status finish(record_writer *w, int64_t records, mu_err *err) {
    mu_status st = MU_OK;
    const uint64_t whole = w->whole ? XXH3_64bits_digest(w->whole) : 0;
    for (int k = 0; k < w->n_files && st == MU_OK; k++) {
        const mu_shard shard = {k, w->n_files, records, whole};
        st = write_notes(w, w->file[k].out, w->whole ? &shard : NULL, err);
        if (st == MU_OK) write_tail(w, &w->file[k]);
    }
    for (int k = 0; k < w->n_files && st == MU_OK; k++) {
        st = mu_outfile_commit(w->file[k].out, err);
        w->file[k].out = NULL;
    }
    return st;
}

static mu_status make_buffers(record_writer *w, mu_err *err) {
    for (int f = 0; f < w->r->n_fields; f++) {
        w->bytes[f] = mu_data_field_bytes(&w->r->field[f]);
        if (!w->bytes[f] ||
            __builtin_add_overflow(w->record_bytes, mu_record_pad(w->bytes[f]), &w->record_bytes))
            return MU_FAIL(err, MU_EUNSUPPORTED, "records are too large for a record file");
    }
    w->record = mu_alloc(w->record_bytes + 8, "read/record");
    bool good = w->record != NULL;
    const size_t most = (size_t)(w->r->n_records / w->n_files + 1);
    for (int k = 0; k < w->n_files && good; k++)
        good = (w->file[k].index = mu_alloc_array(most, 8, "read/record")) != NULL;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the record index");
}

static mu_status write_all(record_writer *w, const char *const *path, mu_record_progress *p, mu_err *err) {
    p->n_written = p->n_bad = 0;
    for (int k = 0; k < w->n_files; k++) MU_TRY(mu_outfile_create(path[k], &w->file[k].out, err));
    MU_TRY(make_buffers(w, err));
    MU_TRY(write_header(w, err));
    MU_TRY(write_records(w, p, err));
    return finish(w, p->n_written, err);
}

static void fini(record_writer *w) {
    for (int k = 0; k < w->n_files; k++) {
        mu_outfile_abandon(w->file[k].out);
        mu_free(w->file[k].index);
    }
    mu_free(w->record);
    XXH3_freeState(w->whole);
}

mu_status mu_record_write(mu_reader *r, const char *path, mu_record_progress *p, mu_err *err) {
    record_writer w = {.r = r, .n_files = 1};
    const mu_status st = write_all(&w, &path, p, err);
    fini(&w);
    return st;
}

mu_status mu_record_write_shards(mu_reader *r, const char *const *path, int n, mu_record_progress *p,
                                 mu_err *err) {
    record_writer w = {.r = r, .n_files = n, .whole = XXH3_createState()};
    bool in_streams = false;
    for (int f = 0; f < r->n_fields; f++) in_streams |= r->field[f].streams > 0;
    mu_status st = MU_OK;
    if (n < 2 || n > MU_RECORD_SHARDS)
        st = MU_FAIL(err, MU_EUSAGE, "%d shards, not within 2 to %d", n, MU_RECORD_SHARDS);
    else if (in_streams)
        st = mu_err_hinted(MU_FAIL(err, MU_EUNSUPPORTED, "the records continue each other: no shard can have "
                                                         "some of them"),
                           err, "Let all ranks read one file.");
    else if (r->shard.of)
        st = MU_FAIL(err, MU_EUSAGE, "this is a shard already, %d of %d", r->shard.index, r->shard.of);
    else if (!w.whole) st = MU_FAIL_NOMEM(err, "the hash of all records");
    if (st != MU_OK) w.n_files = 0;
    else st = write_all(&w, path, p, err);
    fini(&w);
    return st;
}
