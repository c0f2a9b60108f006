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

typedef struct record_writer {
    mu_reader  *r;
    mu_outfile *out;
    size_t      bytes[MU_MAX_FIELDS];   // of each field, unpadded
    size_t      record_bytes;           // padded fields without the checksum
    uint8_t    *record;                 // one record with its checksum
    uint8_t    *index;                  // 8 bytes a record
    uint64_t    head_hash;
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
    mu_outfile_write(w->out, head, size + 8);
    return MU_OK;
}

static void write_record(record_writer *w, const mu_record *rec, int64_t number) {
    uint8_t *p = w->record;
    for (int f = 0; f < w->r->n_fields; f++) {
        memcpy(p, rec->field[f], w->bytes[f]);          // little-endian machines only, as the rest of Muster
        p += mu_record_pad(w->bytes[f]);                // the padding stays zero from the allocation
    }
    mu_put_le64(p, XXH3_64bits_withSeed(w->record, w->record_bytes, (uint64_t)number));
    mu_put_le64(w->index + 8 * number, mu_outfile_size(w->out));
    mu_outfile_write(w->out, w->record, w->record_bytes + 8);
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

static mu_status write_records(record_writer *w, mu_record_progress *p, mu_err *err) {
    for (int64_t i = 0; i < w->r->n_records && mu_outfile_ok(w->out); i++) {
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
    return p->n_written ? MU_OK : MU_FAIL(err, MU_EDATA, "no good record to write");
}

static mu_status write_notes(record_writer *w, mu_err *err) {
    static const uint8_t zero[8];
    char *text;
    MU_TRY(mu_record_notes_make(w->r, &text, err));
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
        mu_outfile_write(w->out, head, sizeof head);
        mu_outfile_write(w->out, text, n);
        mu_outfile_write(w->out, zero, pad);
        mu_outfile_write(w->out, hash, sizeof hash);
    }
    XXH3_freeState(sum);
    mu_free(text);
    return sum ? MU_OK : MU_FAIL_NOMEM(err, "the notes of a record file");
}

static void write_tail(record_writer *w, int64_t n) {
    uint8_t foot[MU_RECORD_FOOTER];
    mu_put_le64(foot, (uint64_t)n);
    mu_put_le64(foot + 8, mu_outfile_size(w->out));
    mu_put_le64(foot + 16, XXH3_64bits(w->index, 8 * (size_t)n));
    mu_put_le64(foot + 24, XXH3_64bits_withSeed(foot, 24, w->head_hash));
    memcpy(foot + 32, MU_RECORD_END, 8);
    mu_outfile_write(w->out, w->index, 8 * (size_t)n);
    mu_outfile_write(w->out, foot, sizeof foot);
}

static mu_status make_buffers(record_writer *w, mu_err *err) {
    for (int f = 0; f < w->r->n_fields; f++) {
        w->bytes[f] = mu_data_field_bytes(&w->r->field[f]);
        if (!w->bytes[f] ||
            __builtin_add_overflow(w->record_bytes, mu_record_pad(w->bytes[f]), &w->record_bytes))
            return MU_FAIL(err, MU_EUNSUPPORTED, "records are too large for a record file");
    }
    w->record = mu_alloc(w->record_bytes + 8, "read/record");
    w->index = mu_alloc_array((size_t)w->r->n_records, 8, "read/record");
    return w->record && w->index ? MU_OK : MU_FAIL_NOMEM(err, "the record index");
}

mu_status mu_record_write(mu_reader *r, const char *path, mu_record_progress *p, mu_err *err) {
    record_writer w = {.r = r};
    p->n_written = p->n_bad = 0;
    mu_status st = mu_outfile_create(path, &w.out, err);
    if (st == MU_OK) st = make_buffers(&w, err);
    if (st == MU_OK) st = write_header(&w, err);
    if (st == MU_OK) st = write_records(&w, p, err);
    if (st == MU_OK) st = write_notes(&w, err);
    if (st == MU_OK) {
        write_tail(&w, p->n_written);
        st = mu_outfile_commit(w.out, err);
    } else {
        mu_outfile_abandon(w.out);
    }
    mu_free(w.record);
    mu_free(w.index);
    return st;
}
