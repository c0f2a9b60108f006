// SPDX-License-Identifier: Apache-2.0
// extract_record.c - arrays as a packed record file that trains another job.
//
// The writer of record files takes any reader, so the arrays become one: record i is row i of each. Images
// are handed over as readers do, channels last.
#include "look/extract.h"
#include "read/record.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

typedef struct array_reader {
    const mu_extract *x;
    float *image[MU_MAX_FIELDS]; // one record of a field, channels last; NULL = it is no image
} array_reader;

// A name for `data.<name>`.
static mu_status field_name(mu_reader *r, const char *name, const char **out, mu_err *err) {
    if (!strncmp(name, "data.", 5)) name += 5;
    char *kept = mu_arena_strdup(r->arena, name);
    if (!kept) return MU_FAIL_NOMEM(err, "a name");
    for (char *p = kept; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    for (int f = 0; f < r->n_fields; f++)
        if (!strcmp(r->field[f].name, kept))
            return MU_FAIL(err, MU_EUSAGE, "two arrays would be the field `%s` of a record file", kept);
    *out = kept;
    return MU_OK;
}

static mu_status add_field(mu_reader *r, array_reader *s, int i, mu_err *err) {
    const mu_tensor *t = &s->x->array[i];
    const mu_extract_classes *c = &s->x->classes[i];
    mu_data_field f = {
        .store = t->dtype == MU_I32 ? MU_STORE_I32 : MU_STORE_F32, .n_classes = c->n, .names = c->names};
    MU_TRY(field_name(r, s->x->name[i], &f.name, err));
    f.shape.n = t->shape.n - 1;
    memcpy(f.shape.d, t->shape.d + 1, (size_t)f.shape.n * sizeof *f.shape.d);
    f.is_image = f.shape.n == 3 && f.store == MU_STORE_F32;
    if (f.is_image) {
        s->image[i] = mu_arena_array(r->arena, (size_t)mu_shape_count(&f.shape), sizeof(float));
        if (!s->image[i]) return MU_FAIL_NOMEM(err, "one record");
    }
    if (c->names && !strcmp(f.name, "label")) r->label_names = c->names, r->n_labels = c->n;
    r->field[r->n_fields++] = f;
    return MU_OK;
}

static mu_status open_arrays(mu_reader *r, mu_err *err) {
    array_reader *s = r->state;
    if (s->x->n > MU_MAX_FIELDS)
        return MU_FAIL(err, MU_EUSAGE, "a record file has at most %d fields, not %zu", MU_MAX_FIELDS,
                       s->x->n);
    r->n_records = s->x->rows;
    for (int i = 0; i < (int)s->x->n; i++) MU_TRY(add_field(r, s, i, err));
    return MU_OK;
}

static mu_status read_row(mu_reader *r, int64_t index, mu_record *out, MU_UNUSED mu_err *err) {
    array_reader *s = r->state;
    for (int f = 0; f < r->n_fields; f++) {
        const mu_tensor *t = &s->x->array[f];
        const int64_t width = mu_shape_inner(&t->shape, 1);
        const float *row = t->f + index * width;
        const mu_shape *d = &r->field[f].shape;
        if (s->image[f]) mu_nchw_to_nhwc(s->image[f], row, 1, d->d[0], d->d[1] * d->d[2]);
        out->field[f] = s->image[f] ? s->image[f] : row;
    }
    return MU_OK;
}

static void close_arrays(MU_UNUSED mu_reader *r) {}

static const mu_reader_class class_of_arrays = {
    .name = "extract",
    .help = "outputs of layers",
    .state_size = sizeof(array_reader),
    .open = open_arrays,
    .read = read_row,
    .close = close_arrays,
};

mu_status mu_extract_save_record(const mu_extract *x, const char *path, mu_err *err) {
    const array_reader bound = {.x = x};
    mu_record_progress p = {0};
    mu_reader *r = NULL;
    MU_TRY(mu_reader_open(&class_of_arrays, &bound, MU_NOPOS, NULL, &r, err));
    const mu_status st = mu_record_write(r, path, &p, err);
    mu_reader_close(r);
    return st;
}
