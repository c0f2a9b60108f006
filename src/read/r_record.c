// SPDX-License-Identifier: Apache-2.0
// r_record.c - Muster's packed record files; the byte picture is in record.h.
//
// Header, footer and index are verified at open, each record's checksum when it is read, so damage
// costs one record, not the file. Nothing is allocated by a number from the file before that number
// has been checked against the file's size.
#include "file/infile.h"
#include "read/record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

struct record {
    const char *file;
    // private
    mu_infile   in;
    uint64_t    head_bytes, head_hash, index_at;
    size_t      offset[MU_MAX_FIELDS];  // of each field in a record
    size_t      record_bytes;           // padded fields without the checksum
    uint64_t   *index;                  // [n_records] offsets
    uint8_t    *raw;                    // one record
    json_t     *notes;                  // NULL = the file has none
};

static const mu_field fields[] = {
    MU_FIELD(struct record, file, MU_PATH, NULL, NULL,
             "record file as `muster data` writes it; `{rank}` in a path is the number of the rank, from 0"),
    {0},
};

static mu_status damaged(const struct record *s, const char *what, mu_err *err) {
    return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` is damaged: %s", s->file, what), err,
                         "Make it again with `muster data`.");
}

static mu_status parse_field(mu_reader *r, struct record *s, const uint8_t *p, mu_err *err) {
    mu_data_field *d = &r->field[r->n_fields];
    uint32_t store = mu_le32(p + 24), kind = mu_le32(p + 28), n_dims = mu_le32(p + 32);
    if (!memchr(p, 0, MU_RECORD_NAME) || !p[0] || store > MU_STORE_I32 || n_dims > MU_RECORD_DIMS)
        return damaged(s, "bad field in the header", err);
    *d = (mu_data_field){
        .store = (mu_store)store, .is_image = kind == 1, .streams = mu_le32(p + 36), .one_text = kind == 3};
    d->name = mu_arena_strdup(r->arena, (const char *)p);
    if (!d->name) return MU_FAIL_NOMEM(err, "field names");
    d->shape.n = (int)n_dims;
    for (uint32_t i = 0; i < n_dims; i++) {
        d->shape.d[i] = (int64_t)mu_le64(p + 40 + 8 * i);
        if (d->shape.d[i] < 1) return damaged(s, "bad dimension in the header", err);
    }
    d->n_classes = (int64_t)mu_le64(p + 72);
    const bool may_begin = store == MU_STORE_I32 && !n_dims && d->streams;
    d->is_begin = may_begin && (kind > 1 || !strcmp(d->name, "begin")); // by name in files of old
    if (kind > 1 && (kind > 3 || !may_begin)) return damaged(s, "impossible field in the header", err);
    size_t bytes = mu_data_field_bytes(d);
    if (!bytes || bytes > s->in.size || (d->is_image && (n_dims != 3 || store == MU_STORE_I32)) ||
        d->n_classes < 0)
        return damaged(s, "impossible field in the header", err);
    s->offset[r->n_fields++] = s->record_bytes;
    s->record_bytes += mu_record_pad(bytes);
    return MU_OK;
}

static mu_status parse_header(mu_reader *r, struct record *s, mu_err *err) {
    uint8_t buf[MU_RECORD_HEAD_MAX];
    const void *p;
    if (s->in.size < MU_RECORD_HEAD + MU_RECORD_FIELD + 8 + MU_RECORD_FOOTER)
        return MU_FAIL(err, MU_EDATA, "`%s` is too short for a record file: %" PRIu64 " bytes", s->file,
                       s->in.size);
    MU_TRY(mu_infile_read(&s->in, 0, MU_RECORD_HEAD, buf, &p, err));
    const uint8_t *h = p;
    if (memcmp(h, MU_RECORD_MAGIC, 8))
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` is no record file", s->file), err,
                             "A record file is made by `muster data` and begins with " MU_RECORD_MAGIC ".");
    uint32_t size = mu_le32(h + 8), n = mu_le32(h + 12);
    if (n < 1 || n > MU_MAX_FIELDS || size != MU_RECORD_HEAD + n * MU_RECORD_FIELD + 8)
        return damaged(s, "bad header size", err);
    MU_TRY(mu_infile_read(&s->in, 0, size, buf, &p, err));
    h = p;
    s->head_bytes = size;
    s->head_hash = mu_le64(h + size - 8);
    if (XXH3_64bits(h, size - 8) != s->head_hash) return damaged(s, "header checksum is wrong", err);
    for (uint32_t i = 0; i < n; i++)
        MU_TRY(parse_field(r, s, h + MU_RECORD_HEAD + i * MU_RECORD_FIELD, err));
    return MU_OK;
}

// Number of records and place of the index; both are then known to fit the file exactly.
static mu_status parse_footer(mu_reader *r, struct record *s, uint64_t *index_hash, mu_err *err) {
    uint8_t buf[MU_RECORD_FOOTER];
    const void *p;
    uint64_t foot_at = s->in.size - MU_RECORD_FOOTER;
    MU_TRY(mu_infile_read(&s->in, foot_at, sizeof buf, buf, &p, err));
    const uint8_t *f = p;
    if (memcmp(f + 32, MU_RECORD_END, 8)) return damaged(s, "it has no footer; it was cut short", err);
    if (XXH3_64bits_withSeed(f, 24, s->head_hash) != mu_le64(f + 24))
        return damaged(s, "footer checksum is wrong", err);
    uint64_t n = mu_le64(f), index_at = mu_le64(f + 8);
    if (index_at < s->head_bytes || index_at > foot_at || !n || n != (foot_at - index_at) / 8
        || (foot_at - index_at) % 8)
        return damaged(s, "the index does not fit", err);
    s->index_at = index_at;
    r->n_records = (int64_t)n;
    *index_hash = mu_le64(f + 16);
    return MU_OK;
}

static mu_status load_index(mu_reader *r, struct record *s, uint64_t want, mu_err *err) {
    size_t n = (size_t)r->n_records;
    const void *p;
    s->index = mu_alloc_array(n, sizeof *s->index, "read/record");
    if (!s->index) return MU_FAIL_NOMEM(err, "the record index");
    MU_TRY(mu_infile_read(&s->in, s->index_at, 8 * n, s->index, &p, err));
    if (p != s->index) memcpy(s->index, p, 8 * n);
    if (XXH3_64bits(s->index, 8 * n) != want) return damaged(s, "index checksum is wrong", err);
    for (size_t i = 0; i < n; i++) {
        uint64_t at = mu_le64((const uint8_t *)&s->index[i]);
        if (at < s->head_bytes || at % 8 || at > s->index_at || s->index_at - at < s->record_bytes + 8)
            return damaged(s, "the index points outside the records", err);
        s->index[i] = at;
    }
    return MU_OK;
}

// Between the last record and the index.
static mu_status load_notes(mu_reader *r, struct record *s, mu_err *err) {
    uint64_t end = s->head_bytes;
    for (int64_t i = 0; i < r->n_records; i++)
        if (s->index[i] + s->record_bytes + 8 > end) end = s->index[i] + s->record_bytes + 8;
    const uint64_t room = s->index_at - end;
    if (!room) return mu_record_notes_take(r, NULL, 0, s->file, &s->notes, err);
    if (room < MU_RECORD_NOTES_HEAD + 8 || room > MU_RECORD_NOTES_MAX + MU_RECORD_NOTES_HEAD + 16)
        return damaged(s, "something lies before the index", err);
    uint8_t *bytes = mu_alloc(room, "read/record");
    const void *p;
    if (!bytes) return MU_FAIL_NOMEM(err, "the notes of a record file");
    mu_status st = mu_infile_read(&s->in, end, room, bytes, &p, err);
    const uint8_t *b = p;
    const uint64_t n = st == MU_OK ? mu_le64(b + 8) : 0;
    if (st == MU_OK && (memcmp(b, MU_RECORD_NOTES, 8) || n > room ||
                        MU_RECORD_NOTES_HEAD + mu_record_pad(n) + 8 != room))
        st = damaged(s, "something lies before the index", err);
    if (st == MU_OK && XXH3_64bits_withSeed(b, room - 8, s->head_hash) != mu_le64(b + room - 8))
        st = damaged(s, "the checksum of its notes is wrong", err);
    if (st == MU_OK)
        st = mu_record_notes_take(r, (const char *)b + MU_RECORD_NOTES_HEAD, n, s->file, &s->notes, err);
    mu_free(bytes);
    return st;
}

static mu_status open_record(mu_reader *r, mu_err *err) {
    struct record *s = r->state;
    uint64_t index_hash = 0;    // gcc does not know that parse_footer sets it whenever it succeeds
    MU_TRY(mu_infile_open(&s->in, s->file, err));
    MU_TRY(parse_header(r, s, err));
    MU_TRY(parse_footer(r, s, &index_hash, err));
    MU_TRY(load_index(r, s, index_hash, err));
    MU_TRY(load_notes(r, s, err));
    s->raw = mu_alloc(s->record_bytes + 8, "read/record");
    return s->raw ? MU_OK : MU_FAIL_NOMEM(err, "one record");
}

static mu_status read_record(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct record *s = r->state;
    const void *p;
    MU_TRY(mu_infile_read(&s->in, s->index[index], s->record_bytes + 8, s->raw, &p, err));
    const uint8_t *b = p;
    if (XXH3_64bits_withSeed(b, s->record_bytes, (uint64_t)index) != mu_le64(b + s->record_bytes))
        return MU_FAIL(err, MU_EDATA, "`%s` record %" PRId64 ": checksum is wrong", s->file, index);
    for (int f = 0; f < r->n_fields; f++) {
        const mu_data_field *d = &r->field[f];
        out->field[f] = b + s->offset[f];
        if (d->store != MU_STORE_I32 || !d->n_classes) continue;
        const int32_t *v = out->field[f];
        for (int64_t i = mu_shape_count(&d->shape); i-- > 0;)
            if (v[i] < 0 || v[i] >= d->n_classes)
                return MU_FAIL(err, MU_EDATA,
                               "`%s` record %" PRId64 ": %s %" PRId32 " is outside 0..%" PRId64, s->file,
                               index, d->name, v[i], d->n_classes - 1);
    }
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    snprintf(out, size, "`%s` record %" PRId64, ((const struct record *)r->state)->file, index);
}

static void close_record(mu_reader *r) {
    struct record *s = r->state;
    mu_infile_close(&s->in);
    mu_free(s->index);
    mu_free(s->raw);
    json_decref(s->notes);
    s->index = NULL, s->raw = NULL, s->notes = NULL;
}

const mu_reader_class mu_reader_record = {
    .name = "record", .help = "packed records with checksums, made by `muster data`; fields as packed",
    .fields = fields, .state_size = sizeof(struct record),
    .open = open_record, .read = read_record, .describe = describe, .close = close_record,
};
