// SPDX-License-Identifier: Apache-2.0
// record_notes.c - what a record file knows besides its records; the picture is in record.h.
//
// The packing reader's options are written by its field table, all but those that name files: they are what
// a question to a model needs, so that it is read as the original was (look/question.h).
#include "read/record.h"

#include "base/log.h"
#include "read/learnt.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mu_json_limits limits = {.max_depth = 12, .max_values = MU_RECORD_NOTES_MAX};

// ---- making: the options of a block ----

static json_t *put_numbers(const mu_field *f, const void *at) {
    json_t *list = json_array();
    const mu_ints *ints = at;
    const mu_floats *floats = at;
    const int64_t *pair = at;
    const size_t n = f->type == MU_PAIR ? 2 : f->type == MU_INTS ? ints->n : floats->n;
    for (size_t i = 0; list && i < n; i++)
        if (json_array_append_new(list, f->type == MU_FLOATS
                                            ? json_real((double)floats->v[i])
                                            : json_integer(f->type == MU_PAIR ? pair[i] : ints->v[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

// NULL = left out: it names a file, is a block of its own, or is not given.
static json_t *put_option(const mu_field *f, const void *at) {
    char word[64];
    switch (f->type) {
    case MU_BOOL:
        return json_boolean(*(const bool *)at);
    case MU_INT:
        return json_integer(*(const int64_t *)at);
    case MU_INT_OR_AUTO:
        return *(const int64_t *)at == MU_AUTO ? json_string("auto") : json_integer(*(const int64_t *)at);
    case MU_FLOAT:
        return json_real((double)*(const float *)at);
    case MU_DOUBLE:
        return json_real(*(const double *)at);
    case MU_STRING:
        return *(const char *const *)at ? json_string(*(const char *const *)at) : NULL;
    case MU_ENUM:
        return mu_choice_name(f->choices, *(const int *)at, word, sizeof word) ? json_string(word) : NULL;
    case MU_PAIR:
    case MU_INTS:
    case MU_FLOATS:
        return put_numbers(f, at);
    case MU_STRINGS:
        return mu_learnt_put_texts(((const mu_strings *)at)->v, ((const mu_strings *)at)->n);
    default:
        return NULL;
    }
}

static json_t *put_keys(const mu_reader *r) {
    json_t *keys = json_object();
    for (const mu_field *f = r->class->fields; keys && f && f->key; f++) {
        json_t *v = put_option(f, (const char *)r->state + f->offset);
        if (v && json_object_set_new(keys, f->key, v)) {
            json_decref(keys);
            return NULL;
        }
    }
    return keys;
}

// ---- making: names ----

// Single bytes are no UTF-8: their numbers stand for them. NULL where names are neither.
static json_t *put_names(const char *const *names, size_t n) {
    json_t *list = mu_learnt_put_texts(names, n);
    if (list) return list;
    list = json_array();
    for (size_t i = 0; list && i < n; i++)
        if ((names[i][0] && names[i][1]) ||
            json_array_append_new(list, json_integer((unsigned char)names[i][0]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static int put_all_names(const mu_reader *r, json_t *root) {
    json_t *names = json_object();
    int wrong = !names;
    for (int i = 0; !wrong && i < r->n_fields; i++) {
        const mu_data_field *f = &r->field[i];
        if (!f->names || f->n_classes < 1 || !strcmp(f->name, "label")) continue; // labels have a list
        json_t *list = put_names(f->names, (size_t)f->n_classes);
        if (list) wrong = json_object_set_new(names, f->name, list);
    }
    if (!wrong && json_object_size(names)) wrong = json_object_set(root, "names", names);
    json_decref(names);
    if (wrong || !r->label_names) return wrong;
    json_t *list = put_names(r->label_names, (size_t)r->n_labels);
    return list ? json_object_set_new(root, "labels", list) : 0;
}

// Of records that are packed again the first reader counts.
static int put_origin(const mu_reader *r, json_t *root, mu_err *err) {
    const mu_origin *o = &r->origin;
    if (o->reader) {
        int wrong = json_object_set_new(root, "reader", json_string(o->reader));
        if (o->learnt) wrong |= json_object_set(root, "learnt", (json_t *)(uintptr_t)o->learnt);
        if (o->keys) wrong |= json_object_set(root, "keys", (json_t *)(uintptr_t)o->keys);
        return wrong;
    }
    if (!r->class->ask && !r->class->tell) return 0; // nothing that a model could use
    json_t *learnt = json_object();
    int wrong = json_object_set_new(root, "reader", json_string(r->class->name)) |
                json_object_set_new(root, "learnt", learnt) | json_object_set_new(root, "keys", put_keys(r));
    if (!wrong && r->class->tell) wrong = r->class->tell(r, learnt, err) != MU_OK;
    return wrong;
}

static int put_unit(const mu_reader *r, json_t *root) {
    const mu_data_unit *u = &r->target_unit;
    if (!(u->deviation > 0)) return 0;
    return json_object_set_new(
        root, "target", json_pack("{s:f, s:f}", "mean", (double)u->mean, "deviation", (double)u->deviation));
}

static json_t *make_root(const mu_shard *shard) {
    char whole[17];
    if (!shard) return json_pack("{s:i}", "format", 1);
    snprintf(whole, sizeof whole, "%016" PRIx64, shard->whole);
    return json_pack("{s:i, s:{s:i, s:i, s:I, s:s}}", "format", 1, "shard", "index", shard->index, "of",
                     shard->of, "records", (json_int_t)shard->records, "whole", whole);
}

static char *dump(const json_t *root) { return json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9)); }

// Without names and words.
static mu_status make_short(const mu_shard *shard, char **out, mu_err *err) {
    mu_warn("names and words are too large for a record file: it keeps their numbers only");
    if (!shard) return MU_OK;
    json_t *root = make_root(shard);
    *out = root ? dump(root) : NULL;
    json_decref(root);
    return *out ? MU_OK : MU_FAIL_NOMEM(err, "the notes of a record file");
}

mu_status mu_record_notes_make(const mu_reader *r, const mu_shard *shard, char **out, mu_err *err) {
    mu_json_init();
    *out = NULL;
    json_t *root = make_root(shard);
    const bool wrong = !root || put_all_names(r, root) || put_unit(r, root) || put_origin(r, root, err);
    const bool empty = !wrong && json_object_size(root) == 1;
    char *text = wrong || empty ? NULL : dump(root);
    json_decref(root);
    if (empty) return MU_OK;
    if (!text)
        return err && err->status != MU_OK ? err->status : MU_FAIL_NOMEM(err, "the notes of a record file");
    if (strlen(text) > MU_RECORD_NOTES_MAX) {
        mu_free(text);
        return make_short(shard, out, err);
    }
    *out = text;
    return MU_OK;
}

// ---- taking ----

static mu_status damaged(const char *what, const char *file, mu_err *err) {
    return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` is damaged: its notes have %s", file, what), err,
                         "Make it again with `muster data`.");
}

static mu_status get_names(mu_reader *r, const json_t *list, const char *file, const char *const **out,
                           size_t *n, mu_err *err) {
    *n = json_array_size(list);
    const char **v = json_is_array(list) ? mu_arena_array(r->arena, *n + 1, sizeof *v) : NULL;
    if (!json_is_array(list)) return damaged("no list of names", file, err);
    if (!v) return MU_FAIL_NOMEM(err, "names of a record file");
    for (size_t i = 0; i < *n; i++) {
        const json_t *e = json_array_get(list, i);
        const json_int_t byte = json_integer_value(e);
        const char one[2] = {(char)(unsigned char)byte};
        const char *text = json_is_integer(e) && byte >= 0 && byte < 256 ? one : json_string_value(e);
        if (!text) return damaged("a name that is no text", file, err);
        if (!(v[i] = mu_arena_strdup(r->arena, text))) return MU_FAIL_NOMEM(err, "names of a record file");
    }
    *out = v;
    return MU_OK;
}

static mu_status take_names(mu_reader *r, const json_t *root, const char *file, mu_err *err) {
    const json_t *names = json_object_get(root, "names"), *labels = json_object_get(root, "labels");
    size_t n;
    if (labels) {
        MU_TRY(get_names(r, labels, file, &r->label_names, &n, err));
        r->n_labels = (int64_t)n;
    }
    for (int i = 0; i < r->n_fields; i++) {
        mu_data_field *f = &r->field[i];
        const json_t *list = json_object_get(names, f->name);
        if (!strcmp(f->name, "label") && r->label_names && f->n_classes == r->n_labels)
            f->names = r->label_names;
        if (!list) continue;
        MU_TRY(get_names(r, list, file, &f->names, &n, err));
        if ((int64_t)n != f->n_classes) return damaged("other names than the field has classes", file, err);
    }
    return MU_OK;
}

static mu_status take_unit(mu_reader *r, const json_t *unit, const char *file, mu_err *err) {
    const float mean = (float)json_number_value(json_object_get(unit, "mean"));
    const float deviation = (float)json_number_value(json_object_get(unit, "deviation"));
    if (!unit) return MU_OK;
    if (!isfinite(mean) || !isfinite(deviation) || deviation <= 0)
        return damaged("a unit that is none", file, err);
    r->target_unit = (mu_data_unit){mean, deviation};
    return MU_OK;
}

static mu_status take_origin(mu_reader *r, const json_t *root, const char *file, mu_err *err) {
    const json_t *reader = json_object_get(root, "reader");
    if (!reader) return MU_OK;
    const mu_origin o = {json_string_value(reader), json_object_get(root, "learnt"),
                         json_object_get(root, "keys")};
    if (!o.reader || (o.learnt && !json_is_object(o.learnt)) || (o.keys && !json_is_object(o.keys)))
        return damaged("a reader that is none", file, err);
    r->origin = o;
    return MU_OK;
}

static mu_status take_shard(mu_reader *r, const json_t *shard, const char *file, mu_err *err) {
    const json_int_t index = json_integer_value(json_object_get(shard, "index"));
    const json_int_t of = json_integer_value(json_object_get(shard, "of"));
    const json_int_t records = json_integer_value(json_object_get(shard, "records"));
    const char *whole = json_string_value(json_object_get(shard, "whole"));
    char *end = NULL;
    if (!shard) return MU_OK;
    const bool numbers = of >= 2 && of <= MU_RECORD_SHARDS && index >= 0 && index < of;
    const bool fits = numbers && records >= of && r->n_records == (records - index + of - 1) / of;
    const uint64_t hash = whole && strlen(whole) == 16 ? strtoull(whole, &end, 16) : 0;
    if (!fits || !end || *end) return damaged("a shard that is none", file, err);
    r->shard = (mu_shard){(int)index, (int)of, records, hash};
    return MU_OK;
}

// The model's names count. Numbers that stand for other names here would give figures without meaning.
static mu_status compare(mu_reader *r, const char *file, mu_err *err) {
    const mu_known *k = r->known;
    if (!k) return MU_OK;
    for (int64_t i = 0; r->label_names && k->labels && i < r->n_labels; i++) {
        const char *there = i < k->n_labels ? k->labels[i] : NULL;
        if (there && !strcmp(there, r->label_names[i])) continue;
        return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                     "class %" PRId64 " is `%s` in `%s` and `%s` in the training data", i,
                                     r->label_names[i], file, there ? there : "(none)"),
                             err, "Pack both with the same classes in the same order.");
    }
    if (r->origin.reader && k->told_by && k->told && r->origin.learnt &&
        !strcmp(r->origin.reader, k->told_by) &&
        !json_equal((json_t *)(uintptr_t)r->origin.learnt, (json_t *)(uintptr_t)k->told))
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` was packed by other words, columns or sizes than the training data",
                    file),
            err,
            "Pack it by those of the training data (`vocab_of`), or read the original with `reader: %s`.",
            k->told_by);
    return k->labels ? mu_reader_keep_names(r, k->labels, (size_t)k->n_labels, err) : MU_OK;
}

mu_status mu_record_notes_take(mu_reader *r, const char *text, size_t size, const char *what, json_t **root,
                               mu_err *err) {
    mu_err own = {0};
    if (!text) return compare(r, what, err);
    mu_json_init();
    const mu_status st = mu_json_parse(text, size, &limits, what, root, &own);
    if (st == MU_EMODEL) return damaged("no JSON", what, err);
    if (st != MU_OK) return mu_err_pass(st, &own, err);
    const json_t *format = json_object_get(*root, "format");
    if (!json_is_integer(format)) return damaged("no format", what, err);
    if (json_integer_value(format) != 1) { // of a newer version: the records are what they were
        mu_warn("`%s` has notes in a newer format: names of classes and words are not read", what);
        return compare(r, what, err);
    }
    MU_TRY(take_names(r, *root, what, err));
    MU_TRY(take_unit(r, json_object_get(*root, "target"), what, err));
    MU_TRY(take_origin(r, *root, what, err));
    MU_TRY(take_shard(r, json_object_get(*root, "shard"), what, err));
    return compare(r, what, err);
}
