// SPDX-License-Identifier: Apache-2.0
// manifest.c - see manifest.h.
//
//   { "format": 1, "serial": 7, "step": 500, "version": 500, "epoch": 1, "sample": 3200,
//     "finished": [first, end, ...], "seed": 1,
//     "job": {"name": "lenet", "hash": "16 hex digits"}, "wall_s": 12.5, "saved_at": "...",
//     "numbers": {"best_accuracy": 0.91},
//     "files": {"model.safetensors": {"bytes": 1724, "xxh3_128": "32 digits", "xxh64_4mib": "16 per piece"}},
//     "checksum": "32 digits" }
//
// `version` and `finished` are not in manifests of before: the step is the version, nothing is finished.
// 64-bit hashes are texts because many JSON readers keep numbers as doubles. Numbers that JSON does not
// have (inf, -inf, nan) are texts too.
#include "store/manifest.h"

#include "file/fs.h"
#include "file/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAG "manifest"
#define MAX_SAMPLE ((int64_t)1 << 53)  // beyond it the cursor, a double, is not exact
#define SUM_HEAD "\"checksum\": \""
#define SUM_TAIL "\"\n}\n"
#define SUM_DIGITS 32u
#define SUM_ZEROS "00000000000000000000000000000000"

static const mu_json_limits limits = { .max_depth = 3, .max_values = 16384 };

double mu_ckpt_meta_number(const mu_ckpt_meta *m, const char *key, double otherwise) {
    for (size_t i = 0; i < m->n_numbers; i++)
        if (!strcmp(m->numbers[i].key, key)) return m->numbers[i].value;
    return otherwise;
}

const mu_manifest_file *mu_manifest_find(const mu_manifest *m, const char *file) {
    for (size_t i = 0; i < m->n_files; i++)
        if (!strcmp(m->files[i].name, file)) return &m->files[i];
    return NULL;
}

void mu_manifest_destroy(mu_manifest *m) {
    if (!m) return;
    mu_arena_fini(&m->arena);
    mu_free(m);
}

// ---- writing ----

static void put_number(mu_text *t, double v) {
    if (isnan(v)) mu_text_printf(t, "\"nan\"");
    else if (isinf(v)) mu_text_printf(t, v > 0 ? "\"inf\"" : "\"-inf\"");
    else if (v == 0) mu_text_printf(t, signbit(v) ? "-0.0" : "0");
    else mu_text_printf(t, "%.17g", v);
}

static void put_file(mu_text *t, const mu_manifest_file *f) {
    char hex[33];
    mu_digest_hex(f->digest.xxh3, hex);
    mu_text_json_string(t, f->name);
    mu_text_printf(t, ": {\"bytes\": %" PRIu64 ", \"xxh3_128\": \"%s\", \"xxh64_4mib\": \"",
                   f->digest.size_bytes, hex);
    for (size_t i = 0; i < f->digest.n_chunks; i++) mu_text_printf(t, "%016" PRIx64, f->digest.chunks[i]);
    mu_text_put(t, "\"}", 2);
}

static void put_fields(mu_text *t, const mu_manifest *m) {
    const mu_ckpt_meta *s = &m->meta;
    mu_text_printf(t, "{\n\"format\": %d,\n\"serial\": %" PRId64 ",\n", MU_MANIFEST_FORMAT, m->serial);
    mu_text_printf(t, "\"step\": %" PRId64 ",\n\"version\": %" PRId64 ",\n", s->step, s->version);
    mu_text_printf(t, "\"epoch\": %" PRId64 ",\n\"sample\": %" PRId64 ",\n", s->epoch, s->sample);
    mu_text_printf(t, "\"finished\": [");
    for (size_t i = 0; i < s->n_finished; i++)
        mu_text_printf(t, "%s%" PRId64 ", %" PRId64, i ? ", " : "", s->finished[i].first, s->finished[i].end);
    mu_text_printf(t, "],\n\"seed\": %" PRId64 ",\n\"job\": {\"name\": ", s->seed);
    mu_text_json_string(t, s->job_name ? s->job_name : "");
    mu_text_printf(t, ", \"hash\": \"%016" PRIx64 "\"},\n\"wall_s\": ", s->job_hash);
    put_number(t, s->wall_s);
    mu_text_printf(t, ",\n\"saved_at\": ");
    mu_text_json_string(t, m->saved_at ? m->saved_at : "");
    mu_text_printf(t, ",\n\"numbers\": {");
    for (size_t i = 0; i < s->n_numbers; i++) {
        mu_text_printf(t, i ? ", " : "");
        mu_text_json_string(t, s->numbers[i].key);
        mu_text_put(t, ": ", 2);
        put_number(t, s->numbers[i].value);
    }
    mu_text_printf(t, "},\n\"files\": {");
    for (size_t i = 0; i < m->n_files; i++) {
        mu_text_printf(t, i ? ",\n  " : "\n  ");
        put_file(t, &m->files[i]);
    }
    mu_text_printf(t, "},\n" SUM_HEAD SUM_ZEROS SUM_TAIL);
}

static char *checksum_digits(char *text, size_t size) { return text + size - strlen(SUM_TAIL) - SUM_DIGITS; }

mu_status mu_manifest_format(const mu_manifest *m, char **out, size_t *size, mu_err *err) {
    const mu_ckpt_meta *s = &m->meta;
    bool utf8 = !s->job_name || mu_json_utf8_valid(s->job_name, strlen(s->job_name));
    for (size_t i = 0; i < s->n_numbers; i++)
        utf8 = utf8 && mu_json_utf8_valid(s->numbers[i].key, strlen(s->numbers[i].key));
    if (!utf8) return MU_FAIL(err, MU_EUSAGE, "a name for the checkpoint's manifest is not UTF-8");
    mu_text t = {0};
    put_fields(&t, m);
    if (t.failed) {
        mu_text_fini(&t);
        return MU_FAIL_NOMEM(err, "a manifest");
    }
    uint64_t sum[2];
    char hex[33];
    mu_digest_bytes(t.s, t.n, sum);
    mu_digest_hex(sum, hex);
    memcpy(checksum_digits(t.s, t.n), hex, SUM_DIGITS);
    *out = t.s;
    *size = t.n;
    return MU_OK;
}

// ---- reading ----

typedef struct input { const json_t *root; const char *path; mu_err *err; } input;

static mu_status bad(const input *in, const char *key) {
    return MU_FAIL(in->err, MU_EMODEL, "`%s`: `%s` is missing or wrong", in->path, key);
}

static mu_status get_int(const input *in, const json_t *from, const char *key, int64_t min, int64_t *out) {
    const json_t *v = json_object_get(from, key);
    if (!json_is_integer(v) || json_integer_value(v) < min) return bad(in, key);
    *out = json_integer_value(v);
    return MU_OK;
}

static mu_status get_number(const input *in, const json_t *v, const char *key, double *out) {
    const char *word = json_string_value(v);
    if (json_is_number(v)) *out = json_number_value(v);
    else if (word && !strcmp(word, "nan")) *out = (double)NAN;
    else if (word && !strcmp(word, "inf")) *out = (double)INFINITY;
    else if (word && !strcmp(word, "-inf")) *out = -(double)INFINITY;
    else return bad(in, key);
    return MU_OK;
}

static mu_status get_text(const input *in, mu_arena *arena, const json_t *from, const char *key,
                          const char **out) {
    const char *s = json_string_value(json_object_get(from, key));
    if (!s) return bad(in, key);
    *out = mu_arena_strdup(arena, s);
    return *out ? MU_OK : MU_FAIL_NOMEM(in->err, "a manifest");
}

// n 64-bit words of exactly 16 lower-case digits each, high digit first.
static mu_status get_words(const input *in, const json_t *from, const char *key, size_t n, uint64_t *out) {
    const char *s = json_string_value(json_object_get(from, key));
    if (!s || strlen(s) != 16 * n) return bad(in, key);
    for (size_t i = 0; i < n; i++) {
        uint64_t w = 0;
        for (size_t k = 0; k < 16; k++) {
            char c = s[16 * i + k];
            if (c >= '0' && c <= '9') w = w << 4 | (uint64_t)(c - '0');
            else if (c >= 'a' && c <= 'f') w = w << 4 | (uint64_t)(c - 'a' + 10);
            else return bad(in, key);
        }
        out[i] = w;
    }
    return MU_OK;
}

static bool plain_name(const char *s) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t n = strspn(s, allowed);
    return n > 0 && n < 64 && !s[n] && s[0] != '.';
}

static mu_status read_file_entry(const input *in, mu_arena *arena, const char *name, const json_t *v,
                                 mu_manifest_file *out) {
    if (!plain_name(name)) return bad(in, "files");
    out->name = mu_arena_strdup(arena, name);
    if (!out->name) return MU_FAIL_NOMEM(in->err, "a manifest");
    int64_t bytes = 0;
    MU_TRY(get_int(in, v, "bytes", 0, &bytes));
    const char *chunks = json_string_value(json_object_get(v, "xxh64_4mib"));
    mu_digest *d = &out->digest;
    d->size_bytes = (uint64_t)bytes;
    d->n_chunks = (size_t)(d->size_bytes / MU_DIGEST_CHUNK + (d->size_bytes % MU_DIGEST_CHUNK != 0));
    if (!chunks || strlen(chunks) / 16 != d->n_chunks) return bad(in, "xxh64_4mib");
    d->chunks = mu_arena_array(arena, d->n_chunks, sizeof *d->chunks);
    if (!d->chunks) return MU_FAIL_NOMEM(in->err, "a manifest");
    MU_TRY(get_words(in, v, "xxh64_4mib", d->n_chunks, d->chunks));
    return get_words(in, v, "xxh3_128", 2, d->xxh3);
}

static mu_status read_files(const input *in, mu_manifest *m) {
    json_t *files = json_object_get(in->root, "files"), *v;
    const char *name;
    if (!json_is_object(files) || json_object_size(files) > MU_MANIFEST_MAX_FILES) return bad(in, "files");
    m->files = mu_arena_array(&m->arena, json_object_size(files), sizeof *m->files);
    if (!m->files) return MU_FAIL_NOMEM(in->err, "a manifest");
    json_object_foreach(files, name, v) {
        MU_TRY(read_file_entry(in, &m->arena, name, v, &m->files[m->n_files]));
        m->n_files++;
    }
    return MU_OK;
}

static mu_status read_numbers(const input *in, mu_manifest *m) {
    json_t *numbers = json_object_get(in->root, "numbers"), *v;
    const char *key;
    if (!json_is_object(numbers)) return bad(in, "numbers");
    mu_ckpt_number *list = mu_arena_array(&m->arena, json_object_size(numbers), sizeof *list);
    if (!list) return MU_FAIL_NOMEM(in->err, "a manifest");
    m->meta.numbers = list;
    json_object_foreach(numbers, key, v) {
        mu_ckpt_number *n = &list[m->meta.n_numbers];
        n->key = mu_arena_strdup(&m->arena, key);
        if (!n->key) return MU_FAIL_NOMEM(in->err, "a manifest");
        MU_TRY(get_number(in, v, key, &n->value));
        m->meta.n_numbers++;
    }
    return MU_OK;
}

static mu_status read_finished(const input *in, mu_manifest *m) {
    const json_t *list = json_object_get(in->root, "finished");
    const size_t n = json_array_size(list) / 2;
    if (!list) return MU_OK;
    if (!json_is_array(list) || json_array_size(list) % 2 || n > MU_FINISHED_MAX) return bad(in, "finished");
    mu_range *range = mu_arena_array(&m->arena, n, sizeof *range);
    if (!range) return MU_FAIL_NOMEM(in->err, "a manifest");
    int64_t before = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        const json_t *v = json_array_get(list, i);
        if (!json_is_integer(v) || json_integer_value(v) <= before || json_integer_value(v) > MAX_SAMPLE)
            return bad(in, "finished");
        before = json_integer_value(v);
        *(i % 2 ? &range[i / 2].end : &range[i / 2].first) = before;
    }
    m->meta.finished = range;
    m->meta.n_finished = n;
    return MU_OK;
}

static mu_status read_fields(const input *in, mu_manifest *m) {
    mu_ckpt_meta *s = &m->meta;
    const json_t *job = json_object_get(in->root, "job");
    MU_TRY(get_int(in, in->root, "serial", 0, &m->serial));
    MU_TRY(get_int(in, in->root, "step", 0, &s->step));
    s->version = s->step;
    if (json_object_get(in->root, "version")) MU_TRY(get_int(in, in->root, "version", 0, &s->version));
    MU_TRY(get_int(in, in->root, "epoch", 0, &s->epoch));
    MU_TRY(get_int(in, in->root, "sample", 0, &s->sample));
    MU_TRY(get_int(in, in->root, "seed", INT64_MIN, &s->seed));
    MU_TRY(get_text(in, &m->arena, job, "name", &s->job_name));
    MU_TRY(get_words(in, job, "hash", 1, &s->job_hash));
    MU_TRY(get_number(in, json_object_get(in->root, "wall_s"), "wall_s", &s->wall_s));
    MU_TRY(get_text(in, &m->arena, in->root, "saved_at", &m->saved_at));
    MU_TRY(read_finished(in, m));
    MU_TRY(read_numbers(in, m));
    return read_files(in, m);
}

static mu_status check_format(const input *in) {
    int64_t format = 0;
    MU_TRY(get_int(in, in->root, "format", 1, &format));
    if (format == MU_MANIFEST_FORMAT) return MU_OK;
    MU_FAIL(in->err, MU_EMODEL, "`%s` has format %" PRId64 ", this version reads up to %d", in->path, format,
            MU_MANIFEST_FORMAT);
    mu_err_hint(in->err, "Load it with the newer muster that saved it.");
    return MU_EMODEL;
}

static mu_status check_sum(const char *text, size_t size, const char *path, mu_err *err) {
    size_t head = strlen(SUM_HEAD), tail = strlen(SUM_TAIL), all = head + SUM_DIGITS + tail;
    bool shaped = size > all && !memcmp(text + size - all, SUM_HEAD, head) &&
                  !memcmp(text + size - tail, SUM_TAIL, tail);
    if (!shaped) return MU_FAIL(err, MU_EMODEL, "`%s` does not end with its checksum", path);
    char *copy = mu_alloc(size, TAG);
    if (!copy) return MU_FAIL_NOMEM(err, "a manifest");
    memcpy(copy, text, size);
    char hex[33];
    uint64_t sum[2];
    memcpy(checksum_digits(copy, size), SUM_ZEROS, SUM_DIGITS);
    mu_digest_bytes(copy, size, sum);
    mu_free(copy);
    mu_digest_hex(sum, hex);
    if (memcmp(text + size - tail - SUM_DIGITS, hex, SUM_DIGITS))
        return MU_FAIL(err, MU_EMODEL, "`%s` is damaged between byte 0 and %zu (checksum differs)", path,
                       size);
    return MU_OK;
}

mu_status mu_manifest_parse(const char *text, size_t size, const char *path, mu_manifest **out, mu_err *err) {
    json_t *root = NULL;
    if (size > MU_MANIFEST_MAX_BYTES)
        return MU_FAIL(err, MU_EMODEL, "`%s` has %zu bytes, the limit is %zu", path, size,
                       MU_MANIFEST_MAX_BYTES);
    MU_TRY(mu_json_parse(text, size, &limits, path, &root, err));
    input in = {root, path, err};
    mu_manifest *m = NULL;
    mu_status status;
    MU_TRY_GOTO(status, check_format(&in), done);
    MU_TRY_GOTO(status, check_sum(text, size, path, err), done);
    m = mu_alloc(sizeof *m, TAG);
    if (!m) {
        status = MU_FAIL_NOMEM(err, "a manifest");
        goto done;
    }
    mu_arena_init(&m->arena, TAG);
    status = read_fields(&in, m);
done:
    json_decref(root);
    if (status == MU_OK) *out = m;
    else mu_manifest_destroy(m);
    return status;
}

mu_status mu_manifest_load(const char *path, mu_manifest **out, mu_err *err) {
    char *text;
    size_t size;
    MU_TRY(mu_fs_read(path, MU_MANIFEST_MAX_BYTES, &text, &size, err));
    mu_status status = mu_manifest_parse(text, size, path, out, err);
    mu_free(text);
    return status;
}
