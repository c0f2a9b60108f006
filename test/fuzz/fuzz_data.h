// SPDX-License-Identifier: Apache-2.0
// fuzz_data.h - bytes as a file for a reader: opened, every record read, closed.
//
// The file is a memfd under its /proc name, so the whole path from open() on is fuzzed. Beyond not
// crashing: an open reader keeps its promises (fields, label range), and memory taken stays within a
// fixed multiple of the input.
#ifndef TEST_FUZZ_FUZZ_DATA_H
#define TEST_FUZZ_FUZZ_DATA_H

#include "read/reader.h"
#include "job/bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_MAX_RECORDS = 256, FUZZ_MAX_BYTES = 192 << 20 };

static inline int fuzz_file(const uint8_t *data, size_t size, char path[32]) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static inline void fuzz_check_record(const mu_reader *r, const mu_record *rec) {
    static volatile unsigned sink;
    for (int f = 0; f < r->n_fields; f++) {
        const mu_data_field *d = &r->field[f];
        const uint8_t *p = rec->field[f];
        unsigned sum = 0;
        for (size_t i = 0, n = mu_data_field_bytes(d); i < n; i++) sum += p[i];
        sink = sink + sum;
        if (d->store != MU_STORE_I32 || !d->n_classes) continue;
        const int32_t *v = rec->field[f];
        for (int64_t i = 0, n = mu_shape_count(&d->shape); i < n; i++)
            if (v[i] < 0 || v[i] >= d->n_classes) abort();
    }
}

// `state` holds the bound options (paths in place).
static inline void fuzz_reader_known(const char *name, const void *state, const mu_known *known) {
    const mu_reader_class *c = (const mu_reader_class *)(const void *)mu_registry_find(&mu_readers, name);
    mu_reader *r = NULL;
    mu_err err = {0};
    uint64_t before = mu_alloc_get_stats().n_live;
    if (mu_reader_open(c, state, MU_NOPOS, known, &r, &err) == MU_OK) {
        if (r->n_records < 1 || r->n_fields < 1) abort();
        for (int64_t i = 0; i < r->n_records && i < FUZZ_MAX_RECORDS; i++) {
            mu_record rec = {{0}};
            char where[64];
            mu_err why = {0};
            mu_reader_describe(r, i, where, sizeof where);
            if (mu_reader_read(r, i, &rec, &why) == MU_OK) fuzz_check_record(r, &rec);
            else if (!why.msg[0]) abort();
        }
        mu_reader_close(r);
    } else if (err.status == MU_OK || !err.msg[0]) {
        abort();
    }
    if (mu_alloc_get_stats().n_live != before || mu_alloc_get_stats().peak_bytes > FUZZ_MAX_BYTES) abort();
}

static inline void fuzz_reader(const char *name, const void *state) { fuzz_reader_known(name, state, NULL); }

// Options of the class at their defaults; `key` set to the file.
static inline void *fuzz_options(mu_arena *arena, const char *reader, const char *key,
                                 const char *const *path) {
    const mu_plugin *p = mu_registry_find(&mu_readers, reader);
    void *state = mu_arena_alloc(arena, p->state_size + 1);
    (void)mu_bind_defaults(arena, p->fields, state, NULL);
    for (const mu_field *f = p->fields; f->key; f++) {
        void *at = (char *)state + f->offset;
        if (strcmp(f->key, key)) continue;
        if (f->type == MU_PATHS) memcpy(at, &(mu_strings){1, path}, sizeof(mu_strings));
        else memcpy(at, path, sizeof *path);
    }
    return state;
}

static inline void *fuzz_option(void *state, const char *reader, const char *key) {
    for (const mu_field *f = mu_registry_find(&mu_readers, reader)->fields; f->key; f++)
        if (!strcmp(f->key, key)) return (char *)state + f->offset;
    abort();
}

#endif
