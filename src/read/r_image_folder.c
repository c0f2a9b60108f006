// SPDX-License-Identifier: Apache-2.0
// r_image_folder.c - images in one folder per class, or named with labels in a list file.
//
//     root/CAT/1.png  root/CAT/2.jpg  root/DOG/7.png      classes are the folders in byte order
//     list:  cats/1.png 0                                 one path and label a line; the path is under
//                                                         root, without root beside the list file
//     labels: false                                       all images in root and in the folders there, or the
//                                                         lines of the list as paths, or `files`
//
// Records are the files in byte order of class and name, or the lines in order. Each image is decoded
// when it is read; all are delivered in one size: height and width given, else that of the first good
// image, others are resized. A file that is missing, empty or damaged is one bad record.
#include "file/image.h"
#include "file/infile.h"
#include "read/reader.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MAX_FILE_BYTES ((uint64_t)256 << 20)
enum { PROBES = 10 };                   // images tried at open to learn the size

typedef struct item { const char *path; int32_t label; } item;

struct image_folder {
    const char *root, *list;
    mu_strings  files;
    bool        labels;
    int64_t     height, width, channels;
    // private
    item       *items;
    size_t      n, cap;
    uint8_t    *file;                   // compressed bytes of the last image; reused and grown
    size_t      file_cap;
    uint8_t    *pixels;                 // one record
    mu_image_decoder decoder;
    int32_t     label;
};

static const mu_field fields[] = {
    MU_FIELD(struct image_folder, root, MU_PATH, "", NULL,
             "folder with one folder of PNG or JPEG files per class"),
    MU_FIELD(struct image_folder, list, MU_PATH, "", NULL,
             "instead: text file with `path label` lines, paths under root, else beside this file"),
    MU_FIELD(struct image_folder, files, MU_PATHS, "[]", NULL,
             "instead, with labels: false: the images themselves"),
    MU_FIELD(struct image_folder, labels, MU_BOOL, "true", NULL,
             "false: images without labels, for prediction; root may then hold images itself"),
    MU_FIELD(struct image_folder, height, MU_INT, "0", "[0,65535]",
             "rows of a record; 0 takes the first image's"),
    MU_FIELD(struct image_folder, width, MU_INT, "0", "[0,65535]",
             "columns of a record; 0 takes the first image's"),
    MU_FIELD(struct image_folder, channels, MU_INT, "3", "[1,3]", "3 for colour, 1 for grey"),
    {0},
};

static bool given(const char *path) { return path && path[0]; }

static mu_status add_item(struct image_folder *s, const char *path, int32_t label, mu_err *err) {
    if (!path) return MU_FAIL_NOMEM(err, "the list of images");
    item *items = mu_grow(s->items, s->n, &s->cap, sizeof *items, 1024, "read/images");
    if (!items) return MU_FAIL_NOMEM(err, "the list of images");
    s->items = items;
    s->items[s->n++] = (item){path, label};
    return MU_OK;
}

// ---- a folder per class ----

typedef struct class_names { char **v; size_t n, cap; } class_names;

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_image_name(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (!strcasecmp(dot, ".png") || !strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"));
}

static mu_status add_name(mu_arena *a, class_names *list, const char *name, mu_err *err) {
    char **v = mu_grow(list->v, list->n, &list->cap, sizeof *v, 256, "read/images");
    if (!v) return MU_FAIL_NOMEM(err, "file names");
    list->v = v;
    list->v[list->n] = mu_arena_strdup(a, name);
    if (!list->v[list->n]) return MU_FAIL_NOMEM(err, "file names");
    list->n++;
    return MU_OK;
}

// A link counts as what it leads to; some file systems tell the kind only to those who ask by stat.
static bool is_folder(DIR *dir, const struct dirent *e) {
    struct stat info;
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return e->d_type == DT_DIR;
    return !fstatat(dirfd(dir), e->d_name, &info, 0) && S_ISDIR(info.st_mode);
}

// Names in a folder, sorted: those of images, or of the class folders.
static mu_status list_folder(mu_arena *a, const char *path, bool images, class_names *out, mu_err *err) {
    DIR *dir = opendir(path);
    if (!dir) return MU_FAIL(err, MU_EIO, "cannot open folder `%s`: %s", path, strerror(errno));
    mu_status st = MU_OK;
    errno = 0;
    for (struct dirent *e; st == MU_OK && (e = readdir(dir)); errno = 0) {
        if (e->d_name[0] == '.' || is_image_name(e->d_name) != images) continue;
        if (!images && !is_folder(dir, e)) continue;
        st = add_name(a, out, e->d_name, err);
    }
    if (st == MU_OK && errno) st = MU_FAIL(err, MU_EIO, "cannot read folder `%s`: %s", path, strerror(errno));
    closedir(dir);
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_name);
    return st;
}

static mu_status scan_class(mu_reader *r, const char *folder, int32_t label, mu_err *err) {
    struct image_folder *s = r->state;
    class_names files = {0};
    mu_status st = folder ? list_folder(r->arena, folder, true, &files, err) : MU_FAIL_NOMEM(err, "a path");
    for (size_t i = 0; st == MU_OK && i < files.n; i++)
        st = add_item(s, mu_arena_printf(r->arena, "%s/%s", folder, files.v[i]), label, err);
    mu_free(files.v);
    return st;
}

// Class i is folder i; of a model that reads, the class of that name.
static mu_status find_class(const mu_reader *r, const char *name, size_t i, int32_t *out, mu_err *err) {
    const mu_known *k = r->known;
    const struct image_folder *s = r->state;
    *out = (int32_t)i;
    if (!s->labels || !k || !k->labels) return MU_OK;
    for (*out = 0; *out < k->n_labels; ++*out)
        if (!strcmp(k->labels[*out], name)) return MU_OK;
    MU_FAIL(err, MU_EDATA, "folder `%s` in `%s` is none of the model's %" PRId64 " classes", name, s->root,
            k->n_labels);
    return mu_err_suggest(MU_EDATA, err, "", mu_nearest(name, k->labels, (size_t)k->n_labels));
}

static mu_status scan_root(mu_reader *r, int64_t *n_classes, mu_err *err) {
    struct image_folder *s = r->state;
    class_names classes = {0};
    mu_status st = s->labels ? MU_OK : scan_class(r, s->root, 0, err);
    if (st == MU_OK) st = list_folder(r->arena, s->root, false, &classes, err);
    for (size_t i = 0; st == MU_OK && i < classes.n; i++) {
        int32_t label;
        st = find_class(r, classes.v[i], i, &label, err);
        if (st == MU_OK)
            st = scan_class(r, mu_arena_printf(r->arena, "%s/%s", s->root, classes.v[i]), label, err);
    }
    if (st == MU_OK && s->labels && !r->label_names)
        st = mu_reader_keep_names(r, (const char *const *)classes.v, classes.n, err);
    *n_classes = r->n_labels;
    mu_free(classes.v);
    if (st == MU_OK && !s->n) {
        st = MU_FAIL(err, MU_EDATA, "`%s` holds no images", s->root);
        mu_err_hint(err, "Expected one folder per class, with .png, .jpg or .jpeg files in it.");
    }
    return st;
}

// ---- a list file ----

// Of an image as the list names it.
static const char *path_of(const mu_reader *r, const char *line) {
    const struct image_folder *s = r->state;
    const char *slash = strrchr(s->list, '/');
    int n_folder = slash ? (int)(slash - s->list) + 1 : 0;      // of the list file, with its slash
    return line[0] == '/'   ? mu_arena_strdup(r->arena, line)
           : given(s->root) ? mu_arena_printf(r->arena, "%s/%s", s->root, line)
                            : mu_arena_printf(r->arena, "%.*s%s", n_folder, s->list, line);
}

static mu_status add_line(mu_reader *r, char *line, int64_t number, int32_t *top, mu_err *err) {
    struct image_folder *s = r->state;
    char *end = line + strlen(line);
    while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t')) *--end = '\0';
    if (end == line) return MU_OK;
    if (!s->labels) return add_item(s, path_of(r, line), 0, err);
    char *word = end;
    while (word > line && word[-1] != ' ' && word[-1] != '\t') word--;
    char *rest, *cut = word;
    long label = strtol(word, &rest, 10);
    while (cut > line && (cut[-1] == ' ' || cut[-1] == '\t')) cut--;
    if (cut == line || rest == word || *rest || label < 0 || label >= INT32_MAX)
        return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 ": expected a path and a label", s->list, number);
    *cut = '\0';
    if (label > *top) *top = (int32_t)label;
    return add_item(s, path_of(r, line), (int32_t)label, err);
}

static mu_status parse_list(mu_reader *r, mu_infile *in, int64_t *n_classes, mu_err *err) {
    MU_TRY(mu_infile_load(in, err));
    char *text = mu_arena_strndup(r->arena, (const char *)in->mem, (size_t)in->size);
    if (!text) return MU_FAIL_NOMEM(err, "the list of images");
    int32_t top = -1;
    int64_t number = 1;
    for (char *line = text, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        MU_TRY(add_line(r, line, number, &top, err));
    }
    *n_classes = (int64_t)top + 1;
    return MU_OK;
}

static mu_status load_list(mu_reader *r, int64_t *n_classes, mu_err *err) {
    struct image_folder *s = r->state;
    mu_infile in = {0};
    MU_TRY(mu_infile_open(&in, s->list, err));
    mu_status st = parse_list(r, &in, n_classes, err);
    mu_infile_close(&in);
    if (st == MU_OK && !s->n) st = MU_FAIL(err, MU_EDATA, "`%s` names no images", s->list);
    return st;
}

// ---- reading ----

static mu_status load_file(struct image_folder *s, const char *path, size_t *size, mu_err *err) {
    mu_infile in = {0};
    const void *p;
    MU_TRY(mu_infile_open(&in, path, err));
    mu_status st = MU_OK;
    if (in.size > MAX_FILE_BYTES) st = MU_FAIL(err, MU_EDATA, "`%s` is too large for an image", path);
    if (st == MU_OK && in.size > s->file_cap) {
        mu_free(s->file);
        s->file = mu_realloc(NULL, (size_t)in.size, "read/images");
        s->file_cap = s->file ? (size_t)in.size : 0;
        if (!s->file) st = MU_FAIL_NOMEM(err, path);
    }
    if (st == MU_OK) st = mu_infile_read(&in, 0, (size_t)in.size, s->file, &p, err);
    if (st == MU_OK && in.size && p != s->file) memcpy(s->file, p, (size_t)in.size);
    *size = (size_t)in.size;
    mu_infile_close(&in);
    return st;
}

static mu_status decode(struct image_folder *s, const char *path, mu_err *err) {
    size_t size;
    mu_status st = load_file(s, path, &size, err);
    if (st == MU_EIO) {                 // a file that is gone costs one record, not the run
        if (err) err->status = MU_EDATA;
        return MU_EDATA;
    }
    MU_TRY(st);
    return mu_image_decode(&s->decoder, s->file, size, (int)s->channels, path, err);
}

// Takes missing sizes from the first good image.
static mu_status learn_size(struct image_folder *s, mu_err *err) {
    mu_status st = MU_OK;
    for (size_t i = 0; i < s->n && i < PROBES; i++) {
        mu_err_clear(err);
        st = decode(s, s->items[i].path, err);
        if (st != MU_OK && st != MU_EDATA) return st;
        if (st == MU_OK) break;
    }
    if (st != MU_OK) return st;
    if (!s->height) s->height = s->decoder.h;
    if (!s->width) s->width = s->decoder.w;
    return MU_OK;
}

// The size that the model was trained on.
static void take_size(const mu_reader *r, struct image_folder *s) {
    const json_t *learnt = r->known ? r->known->learnt : NULL;
    const int64_t h = json_integer_value(json_object_get(learnt, "height")),
                  w = json_integer_value(json_object_get(learnt, "width"));
    if (!s->height && h > 0 && h < 65536) s->height = h;
    if (!s->width && w > 0 && w < 65536) s->width = w;
}

static mu_status tell(const mu_reader *r, json_t *out, mu_err *err) {
    const struct image_folder *s = r->state;
    const mu_json_int rows[] = {{"height", s->height}, {"width", s->width}};
    return mu_json_put_ints(out, rows, MU_COUNT(rows)) ? MU_FAIL_NOMEM(err, "the size of images") : MU_OK;
}

static mu_status open_folder(mu_reader *r, mu_err *err) {
    struct image_folder *s = r->state;
    int64_t n_classes = 0;
    if (s->channels == 2) return MU_FAIL_AT(err, MU_EJOB, r->pos, "`channels` must be 1 or 3, not 2");
    if (r->known && r->known->labels)
        MU_TRY(mu_reader_keep_names(r, r->known->labels, (size_t)r->known->n_labels, err));
    if (s->files.n && s->labels)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, r->pos, "`files`, `%s`, names images without labels",
                                        s->files.v[0]),
                             err, "Add `labels: false`.");
    for (size_t i = 0; i < s->files.n; i++) MU_TRY(add_item(s, s->files.v[i], 0, err));
    if (s->files.n) n_classes = 0;
    else if (given(s->list)) MU_TRY(load_list(r, &n_classes, err));
    else if (given(s->root)) MU_TRY(scan_root(r, &n_classes, err));
    else return MU_FAIL_AT(err, MU_EJOB, r->pos, "the reader image_folder needs `root` or `list`");
    take_size(r, s);
    if (!s->height || !s->width) MU_TRY(learn_size(s, err));
    r->field[r->n_fields++] = (mu_data_field){.name = "image", .store = MU_STORE_U8, .is_image = true,
                                              .shape = MU_SHAPE(s->channels, s->height, s->width)};
    if (s->labels) r->field[r->n_fields++] = mu_label_field(n_classes);
    r->n_records = (int64_t)s->n;
    s->pixels = mu_realloc(NULL, mu_data_field_bytes(&r->field[0]), "read/images");
    return s->pixels ? MU_OK : MU_FAIL_NOMEM(err, "one image");
}

static mu_status read_folder(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct image_folder *s = r->state;
    const item *it = &s->items[index];
    MU_TRY(decode(s, it->path, err));
    const mu_image_decoder *d = &s->decoder;
    out->field[0] = d->pixels;
    if (d->h != s->height || d->w != s->width) {
        mu_image_resize(d->pixels, d->h, d->w, s->pixels, s->height, s->width, s->channels);
        out->field[0] = s->pixels;
    }
    s->label = it->label;
    if (s->labels) out->field[1] = &s->label;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct image_folder *s = r->state;
    snprintf(out, size, "`%s`", s->items[index].path);
}

static void close_folder(mu_reader *r) {
    struct image_folder *s = r->state;
    mu_image_decoder_fini(&s->decoder);
    mu_free(s->items);
    mu_free(s->file);
    mu_free(s->pixels);
    s->items = NULL, s->file = NULL, s->pixels = NULL;
    s->n = s->cap = s->file_cap = 0;
}

static const mu_reader_ask ask = {
    .folder = "root", .files = "files", .unlabelled = "labels", .unlabelled_value = "false",
    .names_training = (const char *const[]){"list", NULL},
};

static int64_t label_of(const mu_reader *r, int64_t index) {
    return ((const struct image_folder *)r->state)->items[index].label;
}

const mu_reader_class mu_reader_image_folder = {
    .name = "image_folder",
    .help = "PNG and JPEG files in a folder per class, or from a list; fields: image, label",
    .fields = fields,
    .state_size = sizeof(struct image_folder),
    .open = open_folder,
    .read = read_folder,
    .describe = describe,
    .label_of = label_of,
    .close = close_folder,
    .tell = tell,
    .ask = &ask,
};
