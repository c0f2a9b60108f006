// SPDX-License-Identifier: Apache-2.0
// safetensors_write.c - the writer. Array data goes straight from the caller's memory to the file; only
// the header is built.
#include "file/safetensors.h"

#include "base/alloc.h"
#include "file/fs.h"
#include "file/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "safetensors"

static int by_name(const void *a, const void *b) {
    return strcmp(((const mu_st_tensor *)a)->name, ((const mu_st_tensor *)b)->name);
}

static int by_dtype_then_name(const void *a, const void *b) {
    const mu_st_tensor *x = a, *y = b;
    if (x->dtype != y->dtype) return x->dtype > y->dtype ? -1 : 1; // the enum rises with element size
    return by_name(a, b);
}

static mu_status check_tensor(mu_st_tensor *t, mu_err *err) {
    if (!t->name[0] || !strcmp(t->name, "__metadata__"))
        return MU_FAIL(err, MU_EUSAGE, "`%s` cannot be the name of a tensor", t->name);
    if (!mu_json_utf8_valid(t->name, strlen(t->name)))
        return MU_FAIL(err, MU_EUSAGE, "the name of a tensor is not UTF-8");
    int64_t count;
    size_t bytes;
    if (t->shape.n < 0 || t->shape.n > MU_MAX_DIMS || !mu_shape_count_checked(&t->shape, &count) ||
        __builtin_mul_overflow((size_t)count, mu_st_dtype_bytes(t->dtype), &bytes))
        return MU_FAIL(err, MU_EUSAGE, "tensor `%s`: its shape does not fit in memory", t->name);
    if (t->size_bytes && t->size_bytes != bytes)
        return MU_FAIL(err, MU_EUSAGE, "tensor `%s` has %zu bytes, but its shape needs %zu", t->name,
                       t->size_bytes, bytes);
    t->size_bytes = bytes;
    return MU_OK;
}

static mu_status check_and_sort(mu_st_tensor *t, size_t n, mu_err *err) {
    for (size_t i = 0; i < n; i++) MU_TRY(check_tensor(&t[i], err));
    if (n) qsort(t, n, sizeof *t, by_name);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(t[i].name, t[i - 1].name))
            return MU_FAIL(err, MU_EUSAGE, "two tensors are called `%s`", t[i].name);
    if (n) qsort(t, n, sizeof *t, by_dtype_then_name);
    return MU_OK;
}

static mu_status build_header(mu_text *h, const mu_st_tensor *t, size_t n, const mu_st_meta *meta,
                              size_t n_meta, mu_err *err) {
    uint64_t at = 0;
    mu_text_put(h, "{", 1);
    if (n_meta) mu_text_printf(h, "\"__metadata__\":{");
    for (size_t i = 0; i < n_meta; i++) {
        if (!mu_json_utf8_valid(meta[i].key, strlen(meta[i].key)) ||
            !mu_json_utf8_valid(meta[i].value, strlen(meta[i].value)))
            return MU_FAIL(err, MU_EUSAGE, "metadata is not UTF-8");
        if (i) mu_text_put(h, ",", 1);
        mu_text_json_string(h, meta[i].key);
        mu_text_put(h, ":", 1);
        mu_text_json_string(h, meta[i].value);
    }
    if (n_meta) mu_text_printf(h, n ? "}," : "}");
    for (size_t i = 0; i < n; i++) {
        if (i) mu_text_put(h, ",", 1);
        mu_text_json_string(h, t[i].name);
        mu_text_printf(h, ":{\"dtype\":\"%s\",\"shape\":[", mu_st_dtype_name(t[i].dtype));
        for (int d = 0; d < t[i].shape.n; d++)
            mu_text_printf(h, "%s%lld", d ? "," : "", (long long)t[i].shape.d[d]);
        uint64_t end = at + t[i].size_bytes;
        mu_text_printf(h, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at, (unsigned long long)end);
        at = end;
    }
    mu_text_put(h, "}", 1);
    while (!h->failed && h->n % 8) mu_text_put(h, " ", 1);
    if (h->failed) return MU_FAIL_NOMEM(err, "a safetensors header");
    if (h->n > MU_ST_MAX_HEADER)
        return MU_FAIL(err, MU_EUSAGE, "header of %zu bytes, the limit is %zu", h->n, MU_ST_MAX_HEADER);
    return MU_OK;
}

static void write_parts(mu_outfile *out, const mu_text *header, const mu_st_tensor *t, size_t n) {
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)header->n >> (8 * i));
    mu_outfile_write(out, length, sizeof length);
    mu_outfile_write(out, header->s, header->n);
    for (size_t i = 0; i < n && mu_outfile_ok(out); i++)
        if (t[i].size_bytes) mu_outfile_write(out, t[i].data, t[i].size_bytes);
}

mu_status mu_st_write(mu_outfile *out, const mu_st_tensor *tensors, size_t n, const mu_st_meta *meta,
                      size_t n_meta, mu_err *err) {
    if (n > MU_ST_MAX_TENSORS)
        return MU_FAIL(err, MU_EUSAGE, "%zu tensors, the limit is %u", n, MU_ST_MAX_TENSORS);
    mu_text header = {0};
    mu_status status;
    mu_st_tensor *t = mu_alloc_array(n ? n : 1, sizeof *t, TAG);
    if (!t) return MU_FAIL_NOMEM(err, "tensor descriptions");
    if (n) memcpy(t, tensors, n * sizeof *t);
    MU_TRY_GOTO(status, check_and_sort(t, n, err), done);
    MU_TRY_GOTO(status, build_header(&header, t, n, meta, n_meta, err), done);
    write_parts(out, &header, t, n);
done:
    mu_text_fini(&header);
    mu_free(t);
    return status;
}

mu_status mu_st_save(const char *dir, const char *name, const mu_st_tensor *tensors, size_t n,
                     const mu_st_meta *meta, size_t n_meta, mu_err *err) {
    char path[MU_FS_PATH];
    mu_outfile *f;
    MU_TRY(mu_fs_join(path, dir, name, err));
    MU_TRY(mu_outfile_create(path, &f, err));
    mu_status status = mu_st_write(f, tensors, n, meta, n_meta, err);
    if (status == MU_OK) return mu_outfile_commit(f, err);
    mu_outfile_abandon(f);
    return status;
}
