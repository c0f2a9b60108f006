// SPDX-License-Identifier: Apache-2.0
// r_raw.c - a file of numbers and nothing else: records of one size, one after the other.
//
//     record := as many elements as the shape has, last dimension fastest, little-endian
//
// The job says what the bytes mean. `shape` is always logical: an image is [channels, height, width],
// and its pixels lie as height, width, channel unless `planes` says that each channel is a plane of its
// own. Without a shape a record is one number, so a file of int32 is a file of labels. Several raw files
// that belong together are put side by side by the reader `zip`.
#include "file/infile.h"
#include "read/reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RECORD = 1 << 28 };          // bytes; a wrong shape is found before memory is asked for it

struct raw {
    const char *file, *field;
    mu_ints     shape;
    int         store;                  // a mu_store
    bool        planes;
    int64_t     classes;
    // private
    mu_infile   in;
    size_t      record_bytes, width;    // width: bytes of an element
    uint8_t    *bytes;                  // one record as stored
    void       *cooked;                 // one record converted and in delivery order
};

static const mu_field fields[] = {
    MU_FIELD(struct raw, file, MU_PATH, NULL, NULL, "file of the records, plain or compressed"),
    MU_FIELD(struct raw, shape, MU_INTS, "[]", "[1,16777216]",
             "of one record: [channels, height, width] or [numbers]; left out: one number"),
    MU_FIELD_ENUM(struct raw, store, "u8", "u8|f32|i32", "an element: byte, float or integer of 4 bytes"),
    MU_FIELD(struct raw, planes, MU_BOOL, "false", NULL,
             "the channels of an image are planes, one after the other"),
    MU_FIELD(struct raw, field, MU_STRING, "", NULL,
             "its name in the net, data.<field>; image, features or label when left out"),
    MU_FIELD(struct raw, classes, MU_INT, "0", "[0,2147483647]",
             "integers are from 0 to below this; 0 = any"),
    {0},
};

static mu_status describe_field(mu_reader *r, mu_data_field *f, mu_err *err) {
    const struct raw *s = r->state;
    if (s->shape.n > 3)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`shape` has %zu numbers, at most 3 are possible",
                          s->shape.n);
    *f = (mu_data_field){.store = (mu_store)s->store, .n_classes = s->classes};
    for (size_t i = 0; i < s->shape.n; i++) f->shape.d[f->shape.n++] = s->shape.v[i];
    f->is_image = s->shape.n == 3 && f->store != MU_STORE_I32;
    f->name = s->field          ? s->field
              : f->is_image     ? "image"
              : f->store == MU_STORE_I32 && !s->shape.n ? "label" : "features";
    if (s->planes && !f->is_image)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`planes` is for images, of three dimensions");
    if (s->classes && f->store != MU_STORE_I32)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`classes` is for integers, `store: i32`");
    return MU_OK;
}

static mu_status open_raw(mu_reader *r, mu_err *err) {
    struct raw *s = r->state;
    mu_data_field *f = &r->field[0];
    MU_TRY(describe_field(r, f, err));
    s->record_bytes = mu_data_field_bytes(f);
    s->width = s->store == MU_STORE_U8 ? 1 : 4;
    if (!s->record_bytes || s->record_bytes > MAX_RECORD)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "a record of this `shape` has more than %d bytes",
                          MAX_RECORD);
    MU_TRY(mu_infile_open(&s->in, s->file, err));
    uint64_t n = s->in.size / s->record_bytes, rest = s->in.size % s->record_bytes;
    if (rest) {
        MU_FAIL(err, MU_EDATA, "`%s` breaks off in record %" PRIu64 ": its %" PRIu64
                " bytes are no multiple of %zu", s->file, n, s->in.size, s->record_bytes);
        mu_err_hint(err, "The file is truncated, or `shape` and `store` are wrong for it.");
        return MU_EDATA;
    }
    if (!n) return MU_FAIL(err, MU_EDATA, "`%s` holds no records", s->file);
    s->bytes = mu_arena_alloc(r->arena, s->record_bytes);
    s->cooked = mu_arena_alloc(r->arena, s->record_bytes);
    if (!s->bytes || !s->cooked) return MU_FAIL_NOMEM(err, "one record");
    r->n_records = (int64_t)n;
    r->n_fields = 1;
    return MU_OK;
}

static mu_status bad_value(const struct raw *s, int64_t index, size_t at, const char *why, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "`%s` record %" PRId64 ": number %zu %s", s->file, index, at, why);
}

static mu_status check_values(const mu_reader *r, int64_t index, mu_err *err) {
    const struct raw *s = r->state;
    size_t n = s->record_bytes / s->width;
    const float *f = s->cooked;
    const int32_t *v = s->cooked;
    char why[80];
    for (size_t i = 0; s->store == MU_STORE_F32 && i < n; i++)
        if (!isfinite(f[i])) return bad_value(s, index, i, "is not finite", err);
    for (size_t i = 0; s->store == MU_STORE_I32 && s->classes && i < n; i++) {
        if (v[i] >= 0 && v[i] < s->classes) continue;
        snprintf(why, sizeof why, "is %" PRId32 ", outside 0..%" PRId64, v[i], s->classes - 1);
        return bad_value(s, index, i, why, err);
    }
    return MU_OK;
}

// Element i of plane c goes to place i * planes + c, which is i itself for a record without planes.
static void cook(struct raw *s, const mu_data_field *f, const uint8_t *from) {
    size_t n = s->record_bytes / s->width, planes = s->planes ? (size_t)f->shape.d[0] : 1, area = n / planes;
    for (size_t c = 0; c < planes; c++)
        for (size_t i = 0; i < area; i++) {
            size_t to = i * planes + c;
            if (s->width == 1) ((uint8_t *)s->cooked)[to] = from[c * area + i];
            else ((uint32_t *)s->cooked)[to] = mu_le32(from + 4 * (c * area + i));
        }
}

static mu_status read_raw(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct raw *s = r->state;
    const void *p;
    MU_TRY(mu_infile_read(&s->in, (uint64_t)index * s->record_bytes, s->record_bytes, s->bytes, &p, err));
    cook(s, &r->field[0], p);
    MU_TRY(check_values(r, index, err));
    out->field[0] = s->cooked;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct raw *s = r->state;
    snprintf(out, size, "`%s` record %" PRId64, s->file, index);
}

static void close_raw(mu_reader *r) {
    struct raw *s = r->state;
    mu_infile_close(&s->in);
}

const mu_reader_class mu_reader_raw = {
    .name = "raw", .help = "records of one size without any header; one field, see `field`",
    .fields = fields, .state_size = sizeof(struct raw),
    .open = open_raw, .read = read_raw, .describe = describe, .close = close_raw,
};
