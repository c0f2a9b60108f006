// SPDX-License-Identifier: Apache-2.0
// r_chars.c - a text as parallel streams of characters, for models that predict the next one.
//
// The part from..to of the file is cut into `streams` pieces of as many records each, one directly behind the
// other, read side by side; what is left over at its end is not used:
//
//     stream 0  |record 0      |record S      |record 2S     | ...      S = streams
//     stream 1  |record 1      |record S + 1  | ...
//       ...
//
// With `of: stream` the whole file is cut so, and the part from..to is that of every piece: what is held back
// for validation then comes from all over the text, whose end may be of another kind than the rest.
//
// A record is `length` characters, and the same moved on by one: what comes next. So a batch of S records in
// order holds one piece of every stream, and record i continues record i - S.
// Characters are bytes: in UTF-8 a model learns the few bytes of a letter as it learns spelling. Their
// numbers count the different bytes of the whole file in order, so that all parts of one file agree; another
// file agrees with it by `vocab_of`, and may hold no other bytes then.
#include "read/reader.h"
#include "file/infile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 1 << 16 };

struct chars {
    const char *file, *vocab_of;
    int64_t     length, streams;
    double      from, to;
    int         of;                     // 0 file, 1 stream
    // private
    mu_infile   in;
    int32_t     number[256];            // of each byte; -1 = does not occur
    const char **names;                 // [n_classes] the bytes, as texts
    int64_t     n_classes;
    int64_t     first, stride;          // byte of the file where stream 0 begins; from stream to stream
    uint8_t    *raw;                    // length + 1 bytes
    int32_t    *chars;                  // length + 1 numbers: both fields overlap
    int32_t     begin;
};

static const mu_field fields[] = {
    MU_FIELD(struct chars, file, MU_PATH, NULL, NULL,
             "the text, plain or compressed; characters are its bytes"),
    MU_FIELD(struct chars, vocab_of, MU_PATH, "", NULL,
             "file whose different bytes count; left out: in training the file itself, else the training "
             "data"),
    MU_FIELD(struct chars, length, MU_INT, "50", "[1,65536]", "characters of a record"),
    MU_FIELD(struct chars, streams, MU_INT, "50", "[1,1000000]",
             "parts of the text read side by side; as many as the batch has rows"),
    MU_FIELD(struct chars, from, MU_DOUBLE, "0", "[0,1]", "where the part begins, as a share of the file"),
    MU_FIELD(struct chars, to, MU_DOUBLE, "1", "[0,1]", "where it ends"),
    MU_FIELD_ENUM(struct chars, of, "file", "file|stream",
                  "what they are shares of: the file, or each of its streams (as many in all phases, then)"),
    {0},
};

typedef struct bytes { int64_t first_at[256]; } bytes;   // where each occurs first; -1 = nowhere

// Which bytes occur in [from, to) of a file. A NUL is in no text.
static mu_status find_bytes(const mu_infile *in, const char *path, uint64_t from, uint64_t to, bytes *out,
                            mu_err *err) {
    uint8_t *buf = mu_realloc(NULL, CHUNK, "read/chars");
    if (!buf) return MU_FAIL_NOMEM(err, path);
    mu_status st = MU_OK;
    memset(out->first_at, -1, sizeof out->first_at);
    for (uint64_t at = from; st == MU_OK && at < to; at += CHUNK) {
        size_t n = to - at < CHUNK ? (size_t)(to - at) : CHUNK;
        const void *p = NULL;
        st = mu_infile_read(in, at, n, buf, &p, err);
        for (size_t i = 0; st == MU_OK && i < n; i++) {
            uint8_t c = ((const uint8_t *)p)[i];
            if (out->first_at[c] < 0) out->first_at[c] = (int64_t)(at + i);
            if (!c) st = MU_FAIL(err, MU_EDATA, "`%s` is no text: byte %" PRIu64 " is a NUL", path, at + i);
        }
    }
    mu_free(buf);
    return st;
}

// Said when the data is opened, not when a long training comes to its first test.
static mu_status check_bytes(const struct chars *s, const bytes *known, const char *where, mu_err *err) {
    bytes own;
    const uint64_t first = (uint64_t)s->first, end = first + (uint64_t)(s->streams * s->stride + 1);
    MU_TRY(find_bytes(&s->in, s->file, first, end < s->in.size ? end : s->in.size, &own, err));
    for (int c = 0; c < 256; c++) {
        if (own.first_at[c] < 0 || known->first_at[c] >= 0) continue;
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s`: byte %" PRId64 ", 0x%02x, does not occur in %s",
                                     s->file, own.first_at[c], (unsigned)c, where),
                             err, "A model of that text has no number for it: take it out or replace it.");
    }
    return MU_OK;
}

// The bytes of a model, as a list of their values.
static mu_status take_known(const struct chars *s, const json_t *list, bytes *out, mu_err *err) {
    memset(out->first_at, -1, sizeof out->first_at);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t c = json_integer_value(json_array_get(list, i));
        if (c < 1 || c > 255)
            return MU_FAIL(err, MU_EMODEL, "the model knows a character %lld", (long long)c);
        out->first_at[c] = 0;
    }
    return check_bytes(s, out, "the text of the model", err);
}

static mu_status find_vocab(const mu_reader *r, const struct chars *s, bytes *out, mu_err *err) {
    const json_t *list = r->known ? json_object_get(r->known->learnt, "bytes") : NULL;
    if (list) return take_known(s, list, out, err);
    if (!s->vocab_of || !s->vocab_of[0]) return find_bytes(&s->in, s->file, 0, s->in.size, out, err);
    mu_infile in = {0};
    mu_status st = mu_infile_open(&in, s->vocab_of, err);
    if (st == MU_OK) st = find_bytes(&in, s->vocab_of, 0, in.size, out, err);
    mu_infile_close(&in);
    return st == MU_OK ? check_bytes(s, out, s->vocab_of, err) : st;
}

static mu_status number_bytes(mu_reader *r, struct chars *s, mu_err *err) {
    bytes seen;
    MU_TRY(find_vocab(r, s, &seen, err));
    s->names = mu_arena_array(r->arena, 256, sizeof *s->names);
    if (!s->names) return MU_FAIL_NOMEM(err, s->file);
    for (int c = 0; c < 256; c++) {
        s->number[c] = seen.first_at[c] >= 0 ? (int32_t)s->n_classes : -1;
        if (s->number[c] < 0) continue;
        const char *name = mu_arena_printf(r->arena, "%c", c);
        if (!name) return MU_FAIL_NOMEM(err, s->file);
        s->names[s->n_classes++] = name;
    }
    return MU_OK;
}

static mu_status too_short(const struct chars *s, int64_t have, mu_err *err) {
    MU_FAIL(err, MU_EDATA, "`%s` is too short: %" PRId64 " characters from %g to %g%s, and %" PRId64
            " streams of %" PRId64 " need %" PRId64, s->file, have, s->from, s->to,
            s->of ? " of all streams" : "", s->streams, s->length, s->streams * s->length + 1);
    mu_err_hint(err, "Use fewer `streams` (and a smaller batch) or a smaller `length`.");
    return MU_EDATA;
}

// The streams of the part from..to; the last character only follows, nothing follows it.
static mu_status lay_out(mu_reader *r, struct chars *s, mu_err *err) {
    if (s->to <= s->from)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`from` %g is not before `to` %g", s->from, s->to);
    const int64_t whole = (int64_t)s->in.size, piece = whole > 0 ? (whole - 1) / s->streams : 0;
    const int64_t all = s->of ? piece : whole;
    const int64_t first = (int64_t)(s->from * (double)all), last = (int64_t)(s->to * (double)all);
    const int64_t of_one = s->of ? last - first : last > first ? (last - first - 1) / s->streams : 0;
    const int64_t per_stream = of_one / s->length;
    s->first = first;
    s->stride = s->of ? piece : per_stream * s->length; // a stream begins where the one before it ends
    r->n_records = per_stream * s->streams;
    return r->n_records ? MU_OK : too_short(s, (last - first) * (s->of ? s->streams : 1), err);
}

static mu_status open_chars(mu_reader *r, mu_err *err) {
    struct chars *s = r->state;
    MU_TRY(mu_infile_open(&s->in, s->file, err));
    MU_TRY(lay_out(r, s, err));
    MU_TRY(number_bytes(r, s, err));
    s->raw = mu_arena_array(r->arena, (size_t)s->length + 1, sizeof *s->raw);
    s->chars = mu_arena_array(r->arena, (size_t)s->length + 1, sizeof *s->chars);
    if (!s->raw || !s->chars) return MU_FAIL_NOMEM(err, "one record");
    mu_data_field text = {.name = "chars", .shape = MU_SHAPE(s->length), .store = MU_STORE_I32,
                          .n_classes = s->n_classes, .names = s->names, .streams = s->streams};
    r->field[r->n_fields++] = text;
    text.name = "next";
    r->field[r->n_fields++] = text;
    r->field[r->n_fields++] =
        (mu_data_field){.name = "begin", .store = MU_STORE_I32, .n_classes = 2, .streams = s->streams,
                        .is_begin = true, .one_text = true};
    return MU_OK;
}

static int64_t place_of(const struct chars *s, int64_t index) {
    return s->first + index % s->streams * s->stride + index / s->streams * s->length;
}

static mu_status read_chars(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct chars *s = r->state;
    const void *p;
    size_t n = (size_t)s->length + 1;
    MU_TRY(mu_infile_read(&s->in, (uint64_t)place_of(s, index), n, s->raw, &p, err));
    for (size_t i = 0; i < n; i++) {
        s->chars[i] = s->number[((const uint8_t *)p)[i]];
        if (s->chars[i] < 0) return MU_FAIL(err, MU_EDATA, "`%s` has changed while in use", s->file);
    }
    s->begin = index < s->streams;
    out->field[0] = s->chars;
    out->field[1] = s->chars + 1;
    out->field[2] = &s->begin;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct chars *s = r->state;
    snprintf(out, size, "`%s` byte %" PRId64, s->file, place_of(s, index));
}

static void close_chars(mu_reader *r) { mu_infile_close(&((struct chars *)r->state)->in); }

static mu_status tell(const mu_reader *r, json_t *out, mu_err *err) {
    const struct chars *s = r->state;
    json_t *list = json_array();
    int wrong = !list;
    for (int c = 0; c < 256 && !wrong; c++)
        if (s->number[c] >= 0) wrong = json_array_append_new(list, json_integer(c));
    wrong |= json_object_set_new(out, "bytes", list);
    return wrong ? MU_FAIL_NOMEM(err, "the characters") : MU_OK;
}

const mu_reader_class mu_reader_chars = {
    .name = "chars", .help = "a text as streams of characters (bytes); fields: chars, next, begin",
    .fields = fields, .state_size = sizeof(struct chars),
    .open = open_chars, .read = read_chars, .describe = describe, .close = close_chars, .tell = tell,
};
