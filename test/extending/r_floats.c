// SPDX-License-Identifier: Apache-2.0
// r_floats.c - records of one fixed size, nothing around them, little endian:
//
//   | features * float32 | int32 label |  | features * float32 | int32 label |  ...
#include "file/infile.h"
#include "read/reader.h"

#include <inttypes.h>
#include <string.h>

struct floats {
    const char *file;
    int64_t features, classes;
    // private
    mu_infile in;
    size_t record_bytes;
    void *scratch; // one record
    int32_t label; // of the last record read
};

static const mu_field fields[] = {
    MU_FIELD(struct floats, file, MU_PATH, NULL, NULL, "the records; .gz is inflated"),
    MU_FIELD(struct floats, features, MU_INT, "1", "[1,1M]", "numbers in a record"),
    MU_FIELD(struct floats, classes, MU_INT, "2", "[1,1M]", "number of classes; labels are below it"),
    {0},
};

static mu_status open_floats(mu_reader *r, mu_err *err) {
    struct floats *s = r->state;
    MU_TRY(mu_infile_open(&s->in, s->file, err));
    s->record_bytes = (size_t)s->features * sizeof(float) + sizeof(int32_t);
    if (!s->in.size || s->in.size % s->record_bytes)
        return MU_FAIL(err, MU_EDATA, "`%s` has %" PRIu64 " bytes, no whole number of records of %zu",
                       s->file, s->in.size, s->record_bytes);
    s->scratch = mu_arena_alloc(r->arena, s->record_bytes);
    if (!s->scratch) return MU_FAIL_NOMEM(err, "one record");
    r->n_records = (int64_t)(s->in.size / s->record_bytes);
    r->field[r->n_fields++] =
        (mu_data_field){.name = "features", .shape = MU_SHAPE(s->features), .store = MU_STORE_F32};
    r->field[r->n_fields++] = mu_label_field(s->classes);
    return MU_OK;
}

static mu_status read_floats(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct floats *s = r->state;
    const void *p;
    MU_TRY(mu_infile_read(&s->in, (uint64_t)index * s->record_bytes, s->record_bytes, s->scratch, &p, err));
    memcpy(&s->label, (const char *)p + s->record_bytes - sizeof s->label, sizeof s->label);
    if (s->label < 0 || s->label >= s->classes)
        return MU_FAIL(err, MU_EDATA, "`%s` record %" PRId64 ": label %" PRId32 " is not in 0..%" PRId64,
                       s->file, index, s->label, s->classes - 1);
    out->field[0] = p;
    out->field[1] = &s->label;
    return MU_OK;
}

static void close_floats(mu_reader *r) { mu_infile_close(&((struct floats *)r->state)->in); }

const mu_reader_class mu_reader_floats = {
    .name = "floats",
    .help = "plain records of float32 numbers and an int32 label",
    .fields = fields,
    .state_size = sizeof(struct floats),
    .open = open_floats,
    .read = read_floats,
    .close = close_floats,
};
