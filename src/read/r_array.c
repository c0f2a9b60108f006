// SPDX-License-Identifier: Apache-2.0
// r_array.c - no file at all: the shape of samples that a program hands over as arrays.
//
// A net is built for the fields of its data. A program that only predicts (muster_run_predict) has no
// data files, so `data.predict: {reader: array, shape: [1, 28, 28]}` says what fields they would have.
#include "read/reader.h"

struct array { mu_ints shape; const char *field; int64_t classes; };

static const mu_field fields[] = {
    MU_FIELD(struct array, shape, MU_INTS, NULL, "[1,65536]",
             "of one sample: [channels, height, width] or [features]"),
    MU_FIELD(struct array, field, MU_STRING, "", NULL,
             "its name in the net, data.<field>; image or features when left out"),
    MU_FIELD(struct array, classes, MU_INT, "0", "[0,2147483647]",
             "values are whole numbers below this, such as words; 0 = any numbers"),
    {0},
};

static mu_status open_array(mu_reader *r, mu_err *err) {
    const struct array *a = r->state;
    if (a->shape.n != 1 && a->shape.n != 3)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`shape` has %zu numbers, not 1 or 3", a->shape.n);
    bool image = a->shape.n == 3;
    mu_data_field f = {.name = image ? "image" : "features", .store = MU_STORE_F32, .is_image = image};
    if (a->field && a->field[0]) f.name = a->field;
    if (a->classes) f.store = MU_STORE_I32, f.n_classes = a->classes, f.is_image = false;
    f.shape.n = (int)a->shape.n;
    for (size_t i = 0; i < a->shape.n; i++) f.shape.d[i] = a->shape.v[i];
    size_t bytes = mu_data_field_bytes(&f);
    if (!bytes || bytes > (size_t)1 << 30)
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`shape` is too large for one sample");
    r->field[r->n_fields++] = f;
    r->n_records = 0;
    return MU_OK;
}

static mu_status read_array(mu_reader *r, MU_UNUSED int64_t index, MU_UNUSED mu_record *out, mu_err *err) {
    return MU_FAIL_AT(err, MU_EUSAGE, r->pos, "reader `array` has no records: a program hands them over");
}

static void close_array(mu_reader *r) { (void)r; }

const mu_reader_class mu_reader_array = {
    .name = "array", .help = "no files: samples come as arrays from a program (data.predict only)",
    .fields = fields, .state_size = sizeof(struct array),
    .open = open_array, .read = read_array, .close = close_array,
};
