// SPDX-License-Identifier: Apache-2.0
// r_idx.c - idx files as of MNIST: one file of images, one of labels, each plain or compressed.
//
//     byte 0,1  zero
//     byte 2    element type: 08 unsigned byte, 0C int32, 0D float32 (big-endian)
//     byte 3    number of dimensions, 1..4; the first counts the records
//     4 + 4i    size of dimension i, big-endian uint32
//     ...       elements, last dimension fastest
//
// (n, h, w) gives `image` of one channel; four dimensions are (n, h, w, c), or (n, c, h, w) with
// `order: chw`; one or two dimensions give `features`. int32 and float32 elements are delivered as
// floats. Labels are read whole at open: they are few bytes and their range must be known.
#include "file/infile.h"
#include "read/class_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum idx_type { IDX_U8 = 0x08, IDX_I32 = 0x0c, IDX_F32 = 0x0d } idx_type;

typedef struct idx_head {
    int      type, n_dims;
    uint32_t dim[4];
    uint64_t offset;            // of the first element
    uint64_t item_bytes;        // of one record
} idx_head;

struct idx {
    const char *images, *labels;
    int64_t     classes;
    const char *class_names;
    int         order;                  // 0 hwc, 1 chw
    // private
    mu_infile   image_file, label_file;
    idx_head    head;
    uint8_t    *raw;                    // one record as stored
    void       *cooked;                 // one record converted or reordered; NULL = raw is delivered
    int32_t    *label;                  // [n_records], NULL = no labels
    int32_t     label_now;
};

static const mu_field fields[] = {
    MU_FIELD(struct idx, images, MU_PATH, NULL, NULL,
             "idx file of the images or feature rows, plain or compressed"),
    MU_FIELD(struct idx, labels, MU_PATH, "", NULL,
             "idx file of the labels, plain or compressed; left out: no field label"),
    MU_FIELD(struct idx, classes, MU_INT, "0", "[0,2147483647]",
             "number of classes; 0 = the largest label + 1"),
    MU_FIELD(struct idx, class_names, MU_PATH, "", NULL, MU_CLASS_NAMES_HELP),
    MU_FIELD_ENUM(struct idx, order, "hwc", "hwc|chw", "order of the last three of four dimensions"),
    {0},
};

static bool given(const char *path) { return path && path[0]; }

static mu_status parse_dims(const mu_infile *f, idx_head *h, mu_err *err) {
    uint8_t buf[16];
    const void *p;
    MU_TRY(mu_infile_read(f, 4, 4 * (size_t)h->n_dims, buf, &p, err));
    uint64_t item = h->type == IDX_U8 ? 1 : 4, total;
    bool too_big = false;
    for (int i = 0; i < h->n_dims; i++) {
        h->dim[i] = mu_be32((const uint8_t *)p + 4 * i);
        if (!h->dim[i]) return MU_FAIL(err, MU_EDATA, "`%s` is empty: dimension %d is 0", f->path, i);
        if (i) too_big |= __builtin_mul_overflow(item, (uint64_t)h->dim[i], &item);
    }
    h->item_bytes = item;
    h->offset = 4 + 4 * (uint64_t)h->n_dims;
    too_big |= __builtin_mul_overflow(item, (uint64_t)h->dim[0], &total);
    uint64_t present = f->size - h->offset;
    if (too_big || total > present)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                     "`%s` declares %" PRIu32 " records but ends in record %" PRIu64, f->path,
                                     h->dim[0], too_big ? 0 : present / item),
                             err, "The file is truncated or its header is damaged; fetch it again.");
    if (total < present)
        return MU_FAIL(err, MU_EDATA, "`%s` has %" PRIu64 " bytes behind its last record", f->path,
                       present - total);
    return MU_OK;
}

static mu_status parse_head(const mu_infile *f, idx_head *h, mu_err *err) {
    uint8_t buf[4];
    const void *p;
    if (f->size < 8) return MU_FAIL(err, MU_EDATA, "`%s` is too short for an idx file: %" PRIu64 " bytes",
                                    f->path, f->size);
    MU_TRY(mu_infile_read(f, 0, 4, buf, &p, err));
    const uint8_t *m = p;
    h->type = m[2];
    h->n_dims = m[3];
    if (m[0] || m[1] || h->n_dims < 1 || h->n_dims > 4)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` is no idx file: it begins %02x %02x %02x %02x",
                                     f->path, m[0], m[1], m[2], m[3]),
                             err, "An idx file of images begins 00 00 08 03, one of labels 00 00 08 01.");
    if (h->type != IDX_U8 && h->type != IDX_I32 && h->type != IDX_F32)
        return MU_FAIL(err, MU_EUNSUPPORTED, "`%s` has idx element type %02x; 08, 0c and 0d are supported",
                       f->path, h->type);
    return parse_dims(f, h, err);
}

static mu_status load_labels(mu_reader *r, struct idx *s, int64_t n, mu_err *err) {
    idx_head h;
    MU_TRY(mu_infile_open(&s->label_file, s->labels, err));
    MU_TRY(parse_head(&s->label_file, &h, err));
    if (h.n_dims != 1 || h.type == IDX_F32)
        return MU_FAIL(err, MU_EDATA, "`%s` holds no labels: idx type %02x, %d dimensions", s->labels, h.type,
                       h.n_dims);
    if (h.dim[0] != n)
        return MU_FAIL(err, MU_EDATA, "`%s` has %" PRIu32 " labels for %" PRId64 " records in `%s`",
                       s->labels, h.dim[0], n, s->images);
    MU_TRY(mu_infile_load(&s->label_file, err));
    s->label = mu_alloc_array((size_t)n, sizeof *s->label, "read/labels");
    if (!s->label) return MU_FAIL_NOMEM(err, "labels");
    const uint8_t *p = s->label_file.mem + h.offset;
    int32_t top = 0;
    int64_t top_at = 0;
    for (int64_t i = 0; i < n; i++) {
        s->label[i] = h.type == IDX_U8 ? p[i] : (int32_t)mu_be32(p + 4 * i);
        if (s->label[i] > top) top = s->label[i], top_at = i;
    }
    mu_infile_close(&s->label_file);
    mu_data_field *f = &r->field[r->n_fields++];
    *f = mu_label_field(s->classes ? s->classes : (int64_t)top + 1);
    if (!s->classes)
        f->top_from = mu_arena_printf(r->arena, "`%.200s` record %" PRId64, s->labels, top_at);
    return MU_OK;
}

static mu_data_field image_field(const struct idx *s) {
    const idx_head *h = &s->head;
    int64_t d[4] = {0};
    for (int i = 0; i < h->n_dims; i++) d[i] = h->dim[i];
    mu_data_field f = {.name = "features", .store = h->type == IDX_U8 ? MU_STORE_U8 : MU_STORE_F32};
    if (h->n_dims == 1) f.shape = MU_SHAPE(1);
    else if (h->n_dims == 2) f.shape = MU_SHAPE(d[1]);
    else {
        f.name = "image";
        f.is_image = true;
        if (h->n_dims == 3) f.shape = MU_SHAPE(1, d[1], d[2]);
        else f.shape = s->order ? MU_SHAPE(d[1], d[2], d[3]) : MU_SHAPE(d[3], d[1], d[2]);
    }
    return f;
}

static mu_status open_idx(mu_reader *r, mu_err *err) {
    struct idx *s = r->state;
    MU_TRY(mu_infile_open(&s->image_file, s->images, err));
    MU_TRY(parse_head(&s->image_file, &s->head, err));
    r->n_records = s->head.dim[0];
    r->field[r->n_fields++] = image_field(s);
    s->raw = mu_realloc(NULL, (size_t)s->head.item_bytes, "read/reader");
    if (!s->raw) return MU_FAIL_NOMEM(err, "one record");
    bool planes = s->head.n_dims == 4 && s->order;
    if (planes || s->head.type != IDX_U8) {
        s->cooked = mu_realloc(NULL, (size_t)s->head.item_bytes, "read/reader");
        if (!s->cooked) return MU_FAIL_NOMEM(err, "one record");
    }
    MU_TRY(mu_class_names_open(r, s->class_names, &s->classes, err));
    return given(s->labels) ? load_labels(r, s, r->n_records, err) : MU_OK;
}

static float element(const uint8_t *p, int type) {
    uint32_t bits = mu_be32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return type == IDX_I32 ? (float)(int32_t)bits : f;
}

// Element j of the record in delivery order (HWC) comes from position from(j) in the file.
static void cook(struct idx *s, const uint8_t *raw) {
    const idx_head *h = &s->head;
    size_t width = h->type == IDX_U8 ? 1 : 4, n = (size_t)h->item_bytes / width;
    size_t planes = h->n_dims == 4 && s->order ? h->dim[1] : 1, area = n / planes;
    for (size_t c = 0; c < planes; c++)
        for (size_t i = 0; i < area; i++) {
            const uint8_t *p = raw + (c * area + i) * width;
            if (h->type == IDX_U8) ((uint8_t *)s->cooked)[i * planes + c] = *p;
            else ((float *)s->cooked)[i * planes + c] = element(p, h->type);
        }
}

static mu_status read_idx(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct idx *s = r->state;
    const void *p;
    if (s->label) {
        int64_t top = r->field[1].n_classes;
        s->label_now = s->label[index];
        if (s->label_now < 0 || s->label_now >= top)
            return mu_class_names_beyond(r, s->labels, index, s->label_now, top, err);
        out->field[1] = &s->label_now;
    }
    uint64_t at = s->head.offset + (uint64_t)index * s->head.item_bytes;
    MU_TRY(mu_infile_read(&s->image_file, at, (size_t)s->head.item_bytes, s->raw, &p, err));
    if (s->cooked) cook(s, p);
    out->field[0] = s->cooked ? s->cooked : p;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct idx *s = r->state;
    snprintf(out, size, "`%s` record %" PRId64, s->images, index);
}

static void close_idx(mu_reader *r) {
    struct idx *s = r->state;
    mu_infile_close(&s->image_file);
    mu_infile_close(&s->label_file);
    mu_free(s->raw);
    mu_free(s->cooked);
    mu_free(s->label);
    s->raw = NULL, s->cooked = NULL, s->label = NULL;
}

const mu_reader_class mu_reader_idx = {
    .name = "idx", .help = "idx files as of MNIST, plain or compressed; fields: image (or features), label",
    .fields = fields, .state_size = sizeof(struct idx),
    .open = open_idx, .read = read_idx, .describe = describe, .close = close_idx,
};
