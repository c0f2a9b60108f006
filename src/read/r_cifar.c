// SPDX-License-Identifier: Apache-2.0
// r_cifar.c - the binary files of CIFAR-10 and CIFAR-100, in one or more parts.
//
//     record := label bytes | 1024 red | 1024 green | 1024 blue        (planes of 32 x 32, row by row)
//
// CIFAR-10 has one label byte (3073-byte records), CIFAR-100 two: the coarse class (20), then the fine
// one (100). Planes are interleaved to HWC on reading.
#include "file/infile.h"
#include "read/class_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 32, AREA = SIDE * SIDE, CHANNELS = 3, MAX_LABEL_BYTES = 2 };

typedef struct cifar_file { mu_infile file; int64_t first; } cifar_file; // first: number of its first record

struct cifar {
    mu_strings files;
    int64_t    label_bytes;
    bool       coarse;
    int64_t    classes;
    const char *class_names;
    // private
    cifar_file *parts;             // [files.n], in the arena
    size_t     record_bytes;
    uint8_t    raw[MAX_LABEL_BYTES + AREA * CHANNELS];
    uint8_t    pixels[AREA * CHANNELS];
    int32_t    label;
};

static const mu_field fields[] = {
    MU_FIELD(struct cifar, files, MU_PATHS, NULL, NULL, "binary files, read as one data set in this order"),
    MU_FIELD(struct cifar, label_bytes, MU_INT, "1", "[0,2]",
             "label bytes of a record: 1 CIFAR-10, 2 CIFAR-100"),
    MU_FIELD(struct cifar, coarse, MU_BOOL, "false", NULL, "with two label bytes, take the coarse class"),
    MU_FIELD(struct cifar, classes, MU_INT, "0", "[0,256]",
             "number of classes; 0 = 10, 100 or 20 by format"),
    MU_FIELD(struct cifar, class_names, MU_PATH, "", NULL,
             MU_CLASS_NAMES_HELP "; left out: CIFAR's own file beside the data, if it is there"),
    {0},
};

static mu_status open_part(struct cifar *s, size_t i, int64_t *n_records, mu_err *err) {
    cifar_file *p = &s->parts[i];
    MU_TRY(mu_infile_open(&p->file, s->files.v[i], err));
    uint64_t n = p->file.size / s->record_bytes, rest = p->file.size % s->record_bytes;
    if (rest)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA,
                    "`%s` breaks off in record %" PRIu64 ": its %" PRIu64 " bytes are no multiple of %zu",
                    p->file.path, n, p->file.size, s->record_bytes),
            err, "The file is truncated, or label_bytes (%" PRId64 ") is wrong for it.", s->label_bytes);
    p->first = *n_records;
    *n_records += (int64_t)n;
    return MU_OK;
}

// The file of names that CIFAR's archives bring, beside the first file of data; NULL = it is not there.
static const char *names_beside(mu_reader *r, const struct cifar *s) {
    const char *name = s->label_bytes == 1 ? "batches.meta.txt"
                       : s->coarse         ? "coarse_label_names.txt"
                                           : "fine_label_names.txt";
    const char *first = s->files.v[0], *slash = strrchr(first, '/');
    const int folder = slash ? (int)(slash + 1 - first) : 0;
    const char *path = mu_arena_printf(r->arena, "%.*s%s", folder, first, name);
    return path && !access(path, R_OK) ? path : NULL;
}

static mu_status open_names(mu_reader *r, struct cifar *s, int64_t usual, int64_t *n_classes, mu_err *err) {
    const bool is_said = s->class_names && s->class_names[0];
    const char *path = is_said ? s->class_names : s->label_bytes ? names_beside(r, s) : NULL;
    *n_classes = s->classes;
    if (!is_said && s->classes && s->classes != usual) path = NULL;     // names of other classes
    MU_TRY(mu_class_names_open(r, path, n_classes, err));
    if (!*n_classes) *n_classes = usual;
    return MU_OK;
}

static mu_status open_cifar(mu_reader *r, mu_err *err) {
    struct cifar *s = r->state;
    s->record_bytes = (size_t)s->label_bytes + AREA * CHANNELS;
    s->parts = mu_arena_array(r->arena, s->files.n, sizeof *s->parts);
    if (!s->parts) return MU_FAIL_NOMEM(err, "the list of files");
    int64_t n = 0;
    for (size_t i = 0; i < s->files.n; i++) MU_TRY(open_part(s, i, &n, err));
    if (!n) return MU_FAIL(err, MU_EDATA, "`%s` holds no records", s->files.n ? s->files.v[0] : "files");
    r->n_records = n;
    r->field[r->n_fields++] = (mu_data_field){.name = "image", .shape = MU_SHAPE(CHANNELS, SIDE, SIDE),
                                              .store = MU_STORE_U8, .is_image = true};
    int64_t usual = s->label_bytes == 2 ? (s->coarse ? 20 : 100) : 10, n_classes;
    MU_TRY(open_names(r, s, usual, &n_classes, err));
    if (s->label_bytes) r->field[r->n_fields++] = mu_label_field(n_classes);
    return MU_OK;
}

static const cifar_file *part_of(const struct cifar *s, int64_t index) {
    size_t i = s->files.n - 1;
    while (s->parts[i].first > index) i--;
    return &s->parts[i];
}

static mu_status read_cifar(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct cifar *s = r->state;
    const cifar_file *p = part_of(s, index);
    const void *raw;
    uint64_t at = (uint64_t)(index - p->first) * s->record_bytes;
    MU_TRY(mu_infile_read(&p->file, at, s->record_bytes, s->raw, &raw, err));
    const uint8_t *b = raw;
    if (s->label_bytes) {
        s->label = b[s->label_bytes == 2 && !s->coarse ? 1 : 0];
        if (s->label >= r->field[1].n_classes)
            return mu_class_names_beyond(r, p->file.path, index - p->first, s->label, r->field[1].n_classes,
                                         err);
        out->field[1] = &s->label;
    }
    const uint8_t *restrict plane = b + s->label_bytes;
    uint8_t *restrict to = s->pixels;
    for (int i = 0; i < AREA; i++) {
        to[3 * i] = plane[i];
        to[3 * i + 1] = plane[AREA + i];
        to[3 * i + 2] = plane[2 * AREA + i];
    }
    out->field[0] = s->pixels;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const cifar_file *p = part_of(r->state, index);
    snprintf(out, size, "`%s` record %" PRId64, p->file.path, index - p->first);
}

static void close_cifar(mu_reader *r) {
    struct cifar *s = r->state;
    for (size_t i = 0; s->parts && i < s->files.n; i++) mu_infile_close(&s->parts[i].file);
}

const mu_reader_class mu_reader_cifar = {
    .name = "cifar", .help = "binary files of CIFAR-10 and CIFAR-100; fields: image, label",
    .fields = fields, .state_size = sizeof(struct cifar),
    .open = open_cifar, .read = read_cifar, .describe = describe, .close = close_cifar,
};
