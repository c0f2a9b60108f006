// SPDX-License-Identifier: Apache-2.0
// extract_save.c - arrays as .npy, .csv and .safetensors files; records are in extract_record.c.
//
// A .npy file is ten bytes, a Python dictionary padded with spaces so that the data begins at a multiple
// of 64, and the elements, little-endian:
//
//     93 'N' 'U' 'M' 'P' 'Y' 1 0 | u16 length of the text | {'descr': '<f4', ... } ... \n | data
#include "file/json.h"
#include "file/outfile.h"
#include "file/safetensors.h"
#include "look/extract.h"

#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are written as they lie in memory");

static bool ends_in(const char *path, const char *ending) {
    size_t n = strlen(path), m = strlen(ending);
    return n > m && !strcmp(path + n - m, ending);
}

mu_extract_format mu_extract_format_of(mu_extract_format format, const char *path) {
    static const char *const endings[] = {[MU_EXTRACT_NPY] = ".npy",
                                          [MU_EXTRACT_CSV] = ".csv",
                                          [MU_EXTRACT_SAFETENSORS] = ".safetensors",
                                          [MU_EXTRACT_RECORD] = ".rec"};
    for (int i = MU_EXTRACT_NPY; format == MU_EXTRACT_BY_NAME && i <= MU_EXTRACT_RECORD; i++)
        if (ends_in(path, endings[i])) format = (mu_extract_format)i;
    return format;
}

static const char *short_name(const char *name) { return strncmp(name, "data.", 5) ? name : name + 5; }

// ---- npy ----

enum { NPY_TEXT = 256, NPY_HEAD = 10, NPY_ALIGN = 64 };

static mu_status save_npy(const mu_tensor *t, const char *path, mu_err *err) {
    char head[NPY_HEAD + NPY_TEXT] = "\x93NUMPY\x01", *text = head + NPY_HEAD;
    int n = snprintf(text, NPY_TEXT, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                     t->dtype == MU_I32 ? "<i4" : "<f4");
    for (int i = 0; i < t->shape.n; i++)
        n += snprintf(text + n, (size_t)(NPY_TEXT - n), "%" PRId64 ",", t->shape.d[i]);
    n += snprintf(text + n, (size_t)(NPY_TEXT - n), "), }");
    int whole = (NPY_HEAD + n + 1 + NPY_ALIGN - 1) / NPY_ALIGN * NPY_ALIGN;
    memset(text + n, ' ', (size_t)(whole - NPY_HEAD - n));
    head[whole - 1] = '\n';
    head[8] = (char)((whole - NPY_HEAD) & 0xff);
    head[9] = (char)((whole - NPY_HEAD) >> 8);
    mu_outfile *f;
    MU_TRY(mu_outfile_create(path, &f, err));
    mu_outfile_write(f, head, (size_t)whole);
    mu_outfile_write(f, t->data, mu_tensor_count(t) * sizeof(float));
    return mu_outfile_commit(f, err);
}

// Array i has a file of its own, beside the first one's. False = its name is too long.
static bool npy_path(const mu_extract *x, const char *path, size_t i, char out[MU_FS_PATH]) {
    if (!i) return snprintf(out, MU_FS_PATH, "%s", path) < MU_FS_PATH;
    int stem = (int)(strlen(path) - (ends_in(path, ".npy") ? strlen(".npy") : 0));
    return snprintf(out, MU_FS_PATH, "%.*s.%s.npy", stem, path, short_name(x->name[i])) < MU_FS_PATH;
}

static mu_status save_all_npy(const mu_extract *x, const char *path, mu_err *err) {
    char beside[MU_FS_PATH];
    for (size_t i = 0; i < x->n; i++) {
        if (!npy_path(x, path, i, beside)) return MU_FAIL(err, MU_EUSAGE, "`%.60s...` is too long", path);
        MU_TRY(save_npy(&x->array[i], beside, err));
    }
    return MU_OK;
}

// ---- csv ----

static void csv_name(const char *name, int64_t k, mu_text *line) {
    mu_text cell = {0};
    mu_text_printf(&cell, "%s", name);
    if (k >= 0) mu_text_printf(&cell, ".%" PRId64, k);
    mu_text_put(line, ",", 1);
    mu_text_csv_cell(line, cell.s ? cell.s : "");
    line->failed |= cell.failed;
    mu_text_fini(&cell);
}

static void csv_head(const mu_extract *x, mu_text *line) {
    mu_text_printf(line, "sample");
    for (size_t i = 0; i < x->n; i++) {
        int64_t width = mu_shape_inner(&x->array[i].shape, 1);
        const char *name = short_name(x->name[i]);
        if (x->array[i].shape.n == 1) csv_name(name, -1, line);
        for (int64_t k = 0; x->array[i].shape.n > 1 && k < width; k++) csv_name(name, k, line);
    }
    mu_text_put(line, "\n", 1);
}

static void csv_row(const mu_extract *x, int64_t row, mu_text *line) {
    mu_text_printf(line, "%" PRId64, row);
    for (size_t i = 0; i < x->n; i++) {
        const mu_tensor *t = &x->array[i];
        int64_t width = mu_shape_inner(&t->shape, 1);
        for (int64_t k = row * width; k < (row + 1) * width; k++) {
            if (t->dtype == MU_I32) mu_text_printf(line, ",%" PRId32, t->i[k]);
            else mu_text_printf(line, ",%.9g", (double)t->f[k]);
        }
    }
    mu_text_put(line, "\n", 1);
}

static mu_status save_csv(const mu_extract *x, const char *path, mu_err *err) {
    mu_text line = {0};
    mu_outfile *f;
    MU_TRY(mu_outfile_create(path, &f, err));
    csv_head(x, &line);
    for (int64_t row = 0; row < x->rows && !line.failed && mu_outfile_ok(f); row++) {
        mu_outfile_write(f, line.s, line.n);
        line.n = 0;
        csv_row(x, row, &line);
    }
    bool failed = line.failed;
    if (!failed) mu_outfile_write(f, line.s, line.n);
    mu_text_fini(&line);
    if (!failed) return mu_outfile_commit(f, err);
    mu_outfile_abandon(f);
    return MU_FAIL_NOMEM(err, "a line of text");
}

// ---- safetensors ----

static mu_status save_safetensors(const mu_extract *x, const char *path, mu_err *err) {
    char folder[MU_FS_PATH], base[MU_FS_PATH];
    mu_st_tensor *t = mu_alloc_array(x->n + 1, sizeof *t, "extract");
    if (!t) return MU_FAIL_NOMEM(err, "the list of arrays");
    for (size_t i = 0; i < x->n; i++)
        t[i] = (mu_st_tensor){.name = x->name[i],
                              .shape = x->array[i].shape,
                              .data = x->array[i].data,
                              .dtype = x->array[i].dtype == MU_I32 ? MU_ST_I32 : MU_ST_F32};
    mu_status st = MU_OK;
    if (strlen(path) >= sizeof folder) st = MU_FAIL(err, MU_EUSAGE, "`%.60s...` is too long", path);
    if (st == MU_OK)
        st = mu_st_save(dirname(strcpy(folder, path)), basename(strcpy(base, path)), t, x->n, NULL, 0, err);
    mu_free(t);
    return st;
}

mu_status mu_extract_save(const mu_extract *x, const char *path, mu_extract_format format, mu_err *err) {
    switch (mu_extract_format_of(format, path)) {
    case MU_EXTRACT_NPY:
        return save_all_npy(x, path, err);
    case MU_EXTRACT_CSV:
        return save_csv(x, path, err);
    case MU_EXTRACT_SAFETENSORS:
        return save_safetensors(x, path, err);
    case MU_EXTRACT_RECORD:
        return mu_extract_save_record(x, path, err);
    case MU_EXTRACT_BY_NAME:
        break;
    }
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` is no kind of file for arrays", path), err,
                         "Let the name end in .npy, .csv, .safetensors or .rec, or say `--format`.");
}

bool mu_extract_file_at(const mu_extract *x, const char *path, mu_extract_format format, size_t i,
                        mu_extract_file *out) {
    format = mu_extract_format_of(format, path);
    const bool apart = format == MU_EXTRACT_NPY;
    if (i >= (apart ? x->n : 1)) return false;
    *out = (mu_extract_file){.first = apart ? i : 0, .n = apart ? 1 : x->n, .rows = x->rows};
    if (apart) (void)npy_path(x, path, i, out->path); // mu_extract_save has refused what is too long
    else snprintf(out->path, sizeof out->path, "%s", path);
    if (format == MU_EXTRACT_CSV) out->columns = 1;
    for (size_t k = out->first; k < out->first + out->n; k++)
        out->columns += mu_shape_inner(&x->array[k].shape, 1);
    return true;
}
