// SPDX-License-Identifier: Apache-2.0
// safetensors.c - the validating loader; the writer is file/safetensors_write.c.
//
// The order of checks matters only for the message: nothing is handed out before the last one passed.
// Descriptions live in the file's arena; array data stays where it is, in the mapping.
#include "file/safetensors.h"

#include "base/alloc.h"
#include "file/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG "safetensors"
#define METADATA "__metadata__"

// {name: {shape: [...]}}: three levels. Sixteen values per tensor is twice what the largest entry has.
static const mu_json_limits header_limits = { .max_depth = 3, .max_values = 16u * MU_ST_MAX_TENSORS };

static const struct { const char *name; size_t bytes; } dtypes[] = {
#define X(name, bytes) {#name, bytes},
    MU_ST_DTYPE_MAP(X)
#undef X
};

const char *mu_st_dtype_name(mu_st_dtype t) { return dtypes[t].name; }
size_t mu_st_dtype_bytes(mu_st_dtype t) { return dtypes[t].bytes; }

struct mu_st_file {
    mu_arena      arena;
    const char   *path;
    void         *map;          // NULL = parsed from borrowed memory
    size_t        map_bytes;
    mu_st_tensor *tensors;      // by name once parsed
    size_t        n;
    json_t       *about;        // the metadata; NULL = none
};

typedef struct extent { uint64_t begin, end; const char *name; } extent;

// A name as it may be shown: shortened, without control characters that would steer a terminal.
typedef struct shown { char s[72]; } shown;
static shown show(const char *name) {
    shown out = {0};
    for (size_t i = 0; i < sizeof out.s - 1 && name[i]; i++)
        out.s[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7F ? '?' : name[i];
    return out;
}

static mu_status bad_entry(const mu_st_file *f, const char *name, const char *what, mu_err *err) {
    return MU_FAIL(err, MU_EMODEL, "`%s`: tensor `%s`: %s", f->path, show(name).s, what);
}

static bool dtype_from_name(const char *s, mu_st_dtype *out) {
    for (size_t i = 0; i < MU_COUNT(dtypes); i++)
        if (!strcmp(dtypes[i].name, s)) return *out = (mu_st_dtype)i, true;
    return false;
}

static mu_status read_shape(const mu_st_file *f, const char *name, const json_t *shape, mu_st_tensor *t,
                            mu_err *err) {
    if (!json_is_array(shape)) return bad_entry(f, name, "`shape` is not a list", err);
    if (json_array_size(shape) > MU_MAX_DIMS) return bad_entry(f, name, "too many dimensions", err);
    size_t bytes = mu_st_dtype_bytes(t->dtype);
    t->shape.n = (int)json_array_size(shape);
    for (int i = 0; i < t->shape.n; i++) {
        const json_t *d = json_array_get(shape, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return bad_entry(f, name, "`shape` holds something else than sizes", err);
        t->shape.d[i] = json_integer_value(d);
        if (__builtin_mul_overflow(bytes, (uint64_t)t->shape.d[i], &bytes))
            return bad_entry(f, name, "`shape` is larger than any file", err);
    }
    t->size_bytes = bytes;
    return MU_OK;
}

static mu_status read_extent(const mu_st_file *f, const json_t *offsets, const mu_st_tensor *t,
                             uint64_t data_bytes, extent *out, mu_err *err) {
    const json_t *b = json_array_get(offsets, 0), *e = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return bad_entry(f, t->name, "`data_offsets` is not a pair of offsets", err);
    if (json_integer_value(b) < 0 || json_integer_value(e) < json_integer_value(b))
        return bad_entry(f, t->name, "`data_offsets` go backwards", err);
    *out = (extent){(uint64_t)json_integer_value(b), (uint64_t)json_integer_value(e), t->name};
    if (out->end > data_bytes)
        return MU_FAIL(err, MU_EMODEL, "`%s`: tensor `%s` ends at byte %llu of %llu bytes of data", f->path,
                       show(t->name).s, (unsigned long long)out->end, (unsigned long long)data_bytes);
    if (out->end - out->begin != t->size_bytes)
        return MU_FAIL(err, MU_EMODEL, "`%s`: tensor `%s` has %llu bytes, but its shape needs %zu", f->path,
                       show(t->name).s, (unsigned long long)(out->end - out->begin), t->size_bytes);
    return MU_OK;
}

static mu_status read_tensor(mu_st_file *f, const char *name, const json_t *entry, const char *data,
                             uint64_t data_bytes, extent *where, mu_err *err) {
    mu_st_tensor *t = &f->tensors[f->n];
    if (!json_is_object(entry)) return bad_entry(f, name, "not an object", err);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) return bad_entry(f, name, "no `dtype`", err);
    if (!dtype_from_name(dtype, &t->dtype)) return bad_entry(f, name, "unknown `dtype`", err);
    t->name = mu_arena_strdup(&f->arena, name);
    if (!t->name) return MU_FAIL_NOMEM(err, "tensor names");
    MU_TRY(read_shape(f, name, json_object_get(entry, "shape"), t, err));
    MU_TRY(read_extent(f, json_object_get(entry, "data_offsets"), t, data_bytes, where, err));
    t->data = data + where->begin;
    f->n++;
    return MU_OK;
}

static mu_status read_metadata(mu_st_file *f, json_t *meta, mu_err *err) {
    if (!json_is_object(meta))
        return MU_FAIL(err, MU_EMODEL, "`%s`: `" METADATA "` is not an object", f->path);
    const char *key;
    json_t *value;
    json_object_foreach(meta, key, value)
        if (!json_is_string(value))
            return MU_FAIL(err, MU_EMODEL, "`%s`: metadata `%s` is not a text", f->path, show(key).s);
    f->about = json_incref(meta);
    return MU_OK;
}

static int by_extent(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const mu_st_tensor *)a)->name, ((const mu_st_tensor *)b)->name);
}

// The extents, laid end to end, must be the data section: a hole could hide bytes that no tensor has, an
// overlap makes two names one array.
static mu_status check_cover(const mu_st_file *f, extent *e, uint64_t data_bytes, mu_err *err) {
    uint64_t at = 0;
    if (f->n) qsort(e, f->n, sizeof *e, by_extent);
    for (size_t i = 0; i < f->n; i++) {
        if (e[i].begin != at)
            return MU_FAIL(err, MU_EMODEL, "`%s`: tensor `%s` starts at %llu, the one before ends at %llu",
                           f->path, show(e[i].name).s, (unsigned long long)e[i].begin,
                           (unsigned long long)at);
        at = e[i].end;
    }
    if (at != data_bytes)
        return MU_FAIL(err, MU_EMODEL, "`%s`: tensors cover %llu of %llu bytes of data", f->path,
                       (unsigned long long)at, (unsigned long long)data_bytes);
    return MU_OK;
}

static mu_status read_entries(mu_st_file *f, json_t *root, const char *data, uint64_t data_bytes,
                              mu_err *err) {
    size_t n = json_object_size(root);
    if (n > MU_ST_MAX_TENSORS)
        return MU_FAIL(err, MU_EMODEL, "`%s`: %zu tensors, the limit is %u", f->path, n, MU_ST_MAX_TENSORS);
    f->tensors = mu_arena_array(&f->arena, n, sizeof *f->tensors);
    extent *extents = mu_arena_array(&f->arena, n, sizeof *extents);
    if (!f->tensors || !extents) return MU_FAIL_NOMEM(err, "tensor descriptions");
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        if (!strcmp(key, METADATA)) MU_TRY(read_metadata(f, value, err));
        else MU_TRY(read_tensor(f, key, value, data, data_bytes, &extents[f->n], err));
    }
    MU_TRY(check_cover(f, extents, data_bytes, err));
    if (f->n) qsort(f->tensors, f->n, sizeof *f->tensors, by_name);
    return MU_OK;
}

static mu_status header_length(const unsigned char *p, size_t size, const char *path, size_t *out,
                               mu_err *err) {
    if (size < 8)
        return MU_FAIL(err, MU_EMODEL, "`%s`: %zu bytes are too few for a safetensors file", path, size);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | p[i];
    if (n > MU_ST_MAX_HEADER)
        return MU_FAIL(err, MU_EMODEL, "`%s`: header of %llu bytes, the limit is %zu", path,
                       (unsigned long long)n, MU_ST_MAX_HEADER);
    if (n > size - 8)
        return MU_FAIL(err, MU_EMODEL, "`%s`: header of %llu bytes in a file of %zu", path,
                       (unsigned long long)n, size);
    if (n < 2 || p[8] != '{') return MU_FAIL(err, MU_EMODEL, "`%s`: header does not start with `{`", path);
    *out = (size_t)n;
    return MU_OK;
}

mu_status mu_st_parse(const void *bytes, size_t size, const char *path, mu_st_file **out, mu_err *err) {
    const char *p = bytes;
    size_t n = 0;
    MU_TRY(header_length(bytes, size, path, &n, err));
    mu_st_file *f = mu_alloc(sizeof *f, TAG);
    if (!f) return MU_FAIL_NOMEM(err, path);
    mu_arena_init(&f->arena, TAG);
    mu_status status;
    json_t *root = NULL;
    f->path = mu_arena_strdup(&f->arena, path);
    if (!f->path) {
        status = MU_FAIL_NOMEM(err, path);
        goto undo;
    }
    MU_TRY_GOTO(status, mu_json_parse(p + 8, n, &header_limits, path, &root, err), undo);
    status = read_entries(f, root, p + 8 + n, size - 8 - n, err);
    json_decref(root);
    if (status != MU_OK) goto undo;
    *out = f;
    return MU_OK;
undo:
    mu_st_close(f);
    return status;
}

static mu_status map_file(const char *path, void **map, size_t *size, mu_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? MU_FAIL(err, MU_ENOTFOUND, "`%s` does not exist", path)
                               : MU_FAIL(err, MU_EIO, "cannot open `%s`: %s", path, strerror(errno));
    mu_status status = MU_OK;
    struct stat st;
    if (fstat(fd, &st)) status = MU_FAIL(err, MU_EIO, "cannot read `%s`: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) status = MU_FAIL(err, MU_EMODEL, "`%s` is not a plain file", path);
    else if (st.st_size < 8)
        status = MU_FAIL(err, MU_EMODEL, "`%s`: %lld bytes are too few for a safetensors file", path,
                         (long long)st.st_size);
    else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) status = MU_FAIL(err, MU_EIO, "cannot map `%s`: %s", path, strerror(errno));
        else *map = p, *size = (size_t)st.st_size;
    }
    close(fd);
    return status;
}

mu_status mu_st_open(const char *path, mu_st_file **out, mu_err *err) {
    void *map;
    size_t size;
    MU_TRY(map_file(path, &map, &size, err));
    mu_st_file *f;
    mu_status status = mu_st_parse(map, size, path, &f, err);
    if (status != MU_OK) {
        munmap(map, size);
        return status;
    }
    f->map = map;
    f->map_bytes = size;
    *out = f;
    return MU_OK;
}

void mu_st_close(mu_st_file *f) {
    if (!f) return;
    if (f->map) munmap(f->map, f->map_bytes);
    json_decref(f->about);
    mu_arena_fini(&f->arena);
    mu_free(f);
}

size_t mu_st_count(const mu_st_file *f) { return f->n; }
const mu_st_tensor *mu_st_at(const mu_st_file *f, size_t i) { return &f->tensors[i]; }

const mu_st_tensor *mu_st_find(const mu_st_file *f, const char *name) {
    mu_st_tensor key = { .name = name };
    return f->n ? bsearch(&key, f->tensors, f->n, sizeof key, by_name) : NULL;
}

const char *mu_st_about(const mu_st_file *f, const char *key) {
    return json_string_value(json_object_get(f->about, key));
}

mu_status mu_st_copy_f32(const mu_st_tensor *t, const mu_shape *want, float *out, mu_err *err) {
    char have_text[96], want_text[96];
    if (t->dtype != MU_ST_F32)
        return MU_FAIL(err, MU_EMODEL, "tensor `%s` is stored as %s, expected F32", show(t->name).s,
                       mu_st_dtype_name(t->dtype));
    if (!mu_shape_equal(&t->shape, want))
        return MU_FAIL(err, MU_EMODEL, "tensor `%s` has shape %s, expected %s", show(t->name).s,
                       mu_shape_text(&t->shape, have_text), mu_shape_text(want, want_text));
    if (t->size_bytes) memcpy(out, t->data, t->size_bytes);
    return MU_OK;
}
