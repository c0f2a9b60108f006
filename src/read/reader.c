// SPDX-License-Identifier: Apache-2.0
// reader.c - the registry of readers, and opening one whose options are bound.
#include "read/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "reader_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_readers = {"reader", MU_COUNT(list), list};

typedef struct opened_reader { mu_reader reader; mu_arena arena; } opened_reader;

mu_status mu_reader_open(const mu_reader_class *class, const void *bound, mu_srcpos pos,
                         const mu_known *known, mu_reader **out, mu_err *err) {
    opened_reader *b = mu_alloc(sizeof *b, "read/reader");
    if (!b) return MU_FAIL_NOMEM(err, "a reader");
    mu_arena_init(&b->arena, "read/reader");
    void *state = mu_arena_alloc(&b->arena, class->state_size + 1);
    if (!state) {
        mu_free(b);
        return MU_FAIL_NOMEM(err, "a reader");
    }
    memcpy(state, bound, class->state_size);
    b->reader = (mu_reader){.class = class, .state = state, .pos = pos, .arena = &b->arena, .known = known};
    mu_status st = class->open(&b->reader, err);
    b->reader.known = NULL;
    if (st != MU_OK) {
        if (err && err->status != MU_OK && !err->pos.path) err->pos = pos;
        mu_reader_close(&b->reader);
        return st;
    }
    *out = &b->reader;
    return MU_OK;
}

void mu_reader_close(mu_reader *r) {
    if (!r) return;
    r->class->close(r);
    mu_arena_fini(r->arena);
    mu_free(r);                 // first member of its box
}

mu_status mu_reader_read(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    if (index < 0 || index >= r->n_records)
        return MU_FAIL(err, MU_EDATA, "record %" PRId64 " asked of %" PRId64, index, r->n_records);
    return r->class->read(r, index, out, err);
}

void mu_reader_describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    if (r->class->describe) r->class->describe(r, index, out, size);
    else snprintf(out, size, "record %" PRId64, index);
}

void mu_reader_describe_file(const mu_reader *r, char *out, size_t size) {
    mu_reader_describe(r, 0, out, size);
    char *end = strstr(out, " record ");
    if (end) *end = '\0';
}

mu_status mu_reader_keep_names(mu_reader *r, const char *const *names, size_t n, mu_err *err) {
    const char **kept = mu_arena_array(r->arena, n + 1, sizeof *kept);
    if (!kept) return MU_FAIL_NOMEM(err, "the names of classes");
    for (size_t i = 0; i < n; i++)
        if (!(kept[i] = mu_arena_strdup(r->arena, names[i])))
            return MU_FAIL_NOMEM(err, "the names of classes");
    r->label_names = kept;
    r->n_labels = (int64_t)n;
    return MU_OK;
}

size_t mu_data_field_bytes(const mu_data_field *f) {
    int64_t n;
    size_t bytes;
    if (!mu_shape_count_checked(&f->shape, &n)) return 0;
    return __builtin_mul_overflow((size_t)n, f->store == MU_STORE_U8 ? 1u : 4u, &bytes) ? 0 : bytes;
}

mu_data_field mu_label_field(int64_t n_classes) {
    return (mu_data_field){.name = "label", .store = MU_STORE_I32, .n_classes = n_classes};
}
