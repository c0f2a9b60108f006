// SPDX-License-Identifier: Apache-2.0
#include "look/survey.h"

#include "file/infile.h"
#include "read/record.h"

#include <string.h>
#include <strings.h>
#include <sys/stat.h>

// ---- values ----

static void see(mu_survey_field *f, double v) {
    if (!f->n++) f->least = f->most = v;
    if (v < f->least) f->least = v;
    if (v > f->most) f->most = v;
    f->mean += (v - f->mean) / (double)f->n;
}

static void see_field(mu_survey_field *f, const mu_data_field *d, const void *value) {
    const int64_t n = mu_shape_count(&d->shape);
    if (f->count) {
        const int32_t label = *(const int32_t *)value;
        if (label >= 0 && label < d->n_classes) f->count[label]++, f->n++;
        return;
    }
    for (int64_t i = 0; i < n && d->store == MU_STORE_U8; i++) see(f, (double)((const uint8_t *)value)[i]);
    for (int64_t i = 0; i < n && d->store == MU_STORE_F32; i++) see(f, (double)((const float *)value)[i]);
}

static int64_t stride_of(const mu_reader *r) {
    uint64_t bytes = 1;
    for (int i = 0; i < r->n_fields; i++) bytes += mu_data_field_bytes(&r->field[i]);
    int64_t most = (int64_t)(MU_SURVEY_BYTES / bytes);
    if (most < MU_SURVEY_LEAST) most = MU_SURVEY_LEAST;
    return (r->n_records + most - 1) / most;
}

mu_status mu_survey_take(mu_survey *s, mu_reader *r, mu_status (*stop)(void *ctx), void *ctx, mu_err *err) {
    *s = (mu_survey){0};
    for (int i = 0; i < r->n_fields; i++) {
        const mu_data_field *d = &r->field[i];
        if (d->store != MU_STORE_I32 || d->shape.n || d->n_classes < 1) continue;
        s->field[i].count = mu_alloc_array((size_t)d->n_classes, sizeof *s->field[i].count, "look/survey");
        if (!s->field[i].count) return MU_FAIL_NOMEM(err, "the number of records of each class");
        memset(s->field[i].count, 0, (size_t)d->n_classes * sizeof *s->field[i].count);
    }
    const int64_t stride = stride_of(r);
    for (int64_t i = 0; i < r->n_records; i += stride) {
        mu_record rec;
        mu_err why = {0};
        mu_status st = stop ? stop(ctx) : MU_OK;
        if (st != MU_OK) return st;
        st = mu_reader_read(r, i, &rec, &why);
        if (st != MU_OK && st != MU_EDATA) {
            *err = why;
            return st;
        }
        s->n_bad += st != MU_OK;
        s->n_read += st == MU_OK;
        for (int k = 0; st == MU_OK && k < r->n_fields; k++)
            see_field(&s->field[k], &r->field[k], rec.field[k]);
    }
    return MU_OK;
}

void mu_survey_fini(mu_survey *s) {
    for (int i = 0; i < MU_MAX_FIELDS; i++) {
        mu_free(s->field[i].count);
        s->field[i].count = NULL;
    }
}

size_t mu_survey_largest(const int64_t *count, size_t n, size_t k, size_t *place) {
    size_t have = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = have;
        while (at > 0 && count[i] > count[place[at - 1]]) at--;
        if (at == k) continue;
        if (have < k) have++;
        memmove(place + at + 1, place + at, (have - at - 1) * sizeof *place);
        place[at] = i;
    }
    return have;
}

// ---- what a file is ----

enum { LOOKED_AT = 50, LOOKED_AT_BYTES = 1 << 16 }; // lines, and bytes that hold them

static bool ends_with(const char *name, size_t n, const char *end) {
    const size_t k = strlen(end);
    return n > k && !strncasecmp(name + n - k, end, k);
}

static bool is_named(const char *path, const char *end) {
    static const char *const packed[] = {".gz", ".xz", ".zst"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (ends_with(path, n, packed[i])) n -= strlen(packed[i]);
    return ends_with(path, n, end);
}

// One tab a line, a label before it, and mostly several words behind it. `whole`: the text is not cut.
static bool are_sentences(const char *at, size_t size, bool whole) {
    const char *end = at + size;
    int lines = 0, several = 0;
    while (at < end && lines < LOOKED_AT) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop && !whole) break;
        if (!stop) stop = end;
        const char *tab = memchr(at, '\t', (size_t)(stop - at));
        if (stop > at && !(stop == at + 1 && *at == '\r')) { // an empty line does not count
            if (!tab || tab == at || memchr(tab + 1, '\t', (size_t)(stop - tab - 1))) return false;
            lines++;
            several += memchr(tab + 1, ' ', (size_t)(stop - tab - 1)) != NULL;
        }
        at = stop + 1;
    }
    return lines > 0 && 2 * several > lines;
}

static mu_file_kind kind_of(const char *path, const char *text, size_t size, bool whole) {
    if (size >= strlen(MU_RECORD_MAGIC) && !memcmp(text, MU_RECORD_MAGIC, strlen(MU_RECORD_MAGIC)))
        return MU_FILE_RECORDS;
    if (is_named(path, ".csv")) return MU_FILE_TABLE;
    if (are_sentences(text, size, whole)) return MU_FILE_SENTENCES;
    return is_named(path, ".tsv") ? MU_FILE_TABLE : MU_FILE_RECORDS;
}

mu_status mu_survey_file(const char *path, mu_file_kind *out, mu_err *err) {
    struct stat st;
    *out = MU_FILE_IMAGES;
    if (!stat(path, &st) && S_ISDIR(st.st_mode)) return MU_OK;
    mu_infile in = {0};
    MU_TRY(mu_infile_open(&in, path, err));
    const size_t n = in.size < LOOKED_AT_BYTES ? (size_t)in.size : LOOKED_AT_BYTES;
    char *copy = mu_alloc_array(n + 1, 1, "look/survey");
    const void *text = NULL;
    mu_status s = copy ? mu_infile_read(&in, 0, n, copy, &text, err) : MU_FAIL_NOMEM(err, path);
    if (s == MU_OK) *out = kind_of(path, text, n, n == in.size);
    mu_free(copy);
    mu_infile_close(&in);
    return s;
}
