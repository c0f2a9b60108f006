// SPDX-License-Identifier: Apache-2.0
// table.c - see table.h: values and words, and what a model keeps of them.
#include "read/table.h"

#include "base/utf8.h"
#include "read/learnt.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const mu_table_kind_names[] = {
    [MU_TABLE_NUMBER] = "number", [MU_TABLE_CATEGORY] = "category", [MU_TABLE_TEXT] = "text",
    [MU_TABLE_EMPTY] = "empty",   [MU_TABLE_IGNORED] = "ignored",   [MU_TABLE_LABEL] = "label",
    [MU_TABLE_EMBEDDED] = "embedded", [MU_TABLE_SENTENCES] = "sentences"};

void mu_table_init(mu_table *t, mu_arena *arena, const char *file) {
    *t = (mu_table){.arena = arena, .file = file, .label = -1};
    mu_vocab_init(&t->text, arena);
}

void mu_table_fini(mu_table *t) {
    for (size_t i = 0; i < t->n_known; i++) {
        mu_labels_fini(&t->column[i].words);
        mu_vocab_fini(&t->column[i].vocab);
        mu_free(t->column[i].count);
        t->column[i].count = NULL;
    }
    mu_vocab_fini(&t->text);
}

// ---- values ----

bool mu_table_used(const mu_table_column *c) {
    return c->kind == MU_TABLE_NUMBER || c->kind == MU_TABLE_CATEGORY;
}

bool mu_table_kept(const mu_table_column *c) {
    return mu_table_used(c) || c->kind == MU_TABLE_LABEL || c->kind == MU_TABLE_EMBEDDED ||
           c->kind == MU_TABLE_SENTENCES;
}

int64_t mu_table_width(const mu_table_column *c) {
    if (!mu_table_used(c)) return 0;
    const int64_t pieces = c->n_cuts ? (int64_t)c->n_cuts - 1 : 0;
    return (c->kind == MU_TABLE_NUMBER ? 1 + pieces : (int64_t)c->n_words) + (c->n_gaps > 0);
}

bool mu_table_missing(const mu_table *t, const char *text) {
    static const char *const usual[] = {"NA", "N/A", "nan", "NaN", "null", "NULL", "?", "-"};
    if (!text[0]) return true;
    const char *const *v = t->missing.n ? t->missing.v : usual;
    for (size_t i = 0; i < (t->missing.n ? t->missing.n : MU_COUNT(usual)); i++)
        if (!strcmp(v[i], text)) return true;
    return false;
}

bool mu_table_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    while (*end == ' ' || *end == '\t') end++;
    return end != text && !*end && isfinite(*out);
}

// Tables that had gaps in a column of whole numbers were often written with `3.0` for 3.
static size_t whole_number(const char *text, size_t n) {
    const char *dot = memchr(text, '.', n);
    size_t k = text[0] == '-';
    const size_t digits = dot ? (size_t)(dot - text) : n;
    if (!dot || digits <= k) return n;
    for (; k < digits; k++)
        if (!isdigit((unsigned char)text[k])) return n;
    for (k = digits + 1; k < n; k++)
        if (text[k] != '0') return n;
    return digits;
}

size_t mu_table_utf8(const char *text, size_t n, char *out) {
    const bool utf8 = mu_utf8_valid(text, n);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (utf8 || c < 0x80) out[used++] = (char)c;
        else out[used++] = (char)(0xC0 | c >> 6), out[used++] = (char)(0x80 | (c & 0x3F));
    }
    out[used] = '\0';
    return used;
}

void mu_table_word(const char *text, char out[MU_TABLE_WORD_SIZE]) {
    const size_t n = strnlen(text, MU_TABLE_WORD_BYTES);
    mu_table_utf8(text, mu_utf8_valid(text, n) ? whole_number(text, n) : n, out);
}

int32_t mu_table_find(const mu_table_column *c, const char *word) {
    const int32_t id = mu_labels_find(&c->words, word, strlen(word));
    return id < 0 ? -1 : c->rank[id];
}

// ---- to a model ----

static json_t *put_shares(const mu_table_column *c) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < c->n_words; i++)
        if (json_array_append_new(list, json_real((double)c->share[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *put_column(const mu_table_column *c) {
    json_t *o = json_pack("{s:s, s:I, s:s, s:b}", "name", c->name, "place", (json_int_t)c->place, "kind",
                          mu_table_kind_names[c->kind], "gaps", c->n_gaps > 0);
    json_t *words = c->n_words ? mu_learnt_put_texts(c->word, c->n_words) : NULL;
    int wrong = !o || (c->n_words && !words);
    if (!wrong && words) wrong |= json_object_set(o, "words", words);
    json_decref(words);
    if (!wrong && c->kind == MU_TABLE_CATEGORY && c->share)
        wrong |= json_object_set_new(o, "shares", put_shares(c));
    if (!wrong && c->n_cuts) wrong |= json_object_set_new(o, "cuts", mu_table_put_cuts(c));
    if (!wrong && c->kind == MU_TABLE_EMBEDDED) {
        wrong |= json_object_set_new(o, "rare", json_boolean(c->rare));
        wrong |= json_object_set_new(o, "words", mu_learnt_put_texts(c->vocab.text + MU_WORD_FIRST,
                                                                     (size_t)c->vocab.n - MU_WORD_FIRST));
    }
    if (!wrong && c->n_numbers)
        wrong |= json_object_set_new(o, "mean", json_real((double)c->mean)) |
                 json_object_set_new(o, "deviation", json_real((double)c->deviation));
    if (!wrong) return o;
    json_decref(o);
    return NULL;
}

mu_status mu_table_tell(const mu_table *t, json_t *out, mu_err *err) {
    json_t *columns = json_array(), *missing = mu_learnt_put_texts(t->missing.v, t->missing.n);
    int wrong = !columns || !missing;
    wrong |= json_object_set_new(out, "columns", columns) | json_object_set_new(out, "missing", missing);
    for (size_t i = 0; !wrong && i < t->n_known; i++)
        if (mu_table_kept(&t->column[i]))
            wrong |= json_array_append_new(columns, put_column(&t->column[i]));
    wrong = wrong || json_object_set_new(out, "n_columns", json_integer((json_int_t)t->n_columns)) ||
            json_object_set_new(out, "header", json_boolean(t->header)) ||
            json_object_set_new(out, "target",
                                json_string(t->target == MU_TABLE_TARGET_NUMBER ? "number" : "class"));
    return wrong ? MU_FAIL_NOMEM(err, "the columns of the table") : mu_table_tell_words(t, out, err);
}

// ---- from a model ----

static mu_status damaged(const char *what, mu_err *err) {
    return MU_FAIL(err, MU_EMODEL, "the model's table is damaged: %s", what);
}

static mu_status take_words(mu_table *t, mu_table_column *c, const json_t *list, mu_err *err) {
    MU_TRY(mu_learnt_get_texts(list, t->arena, &c->word, &c->n_words, err));
    if (!c->n_words || c->n_words > MU_TABLE_WORDS) return damaged("a column has no words, or too many", err);
    c->rank = mu_arena_array(t->arena, c->n_words, sizeof *c->rank);
    if (!c->rank) return MU_FAIL_NOMEM(err, "the columns of the table");
    for (size_t i = 0; i < c->n_words; i++) {
        int32_t id;
        MU_TRY(mu_labels_add(&c->words, c->word[i], strlen(c->word[i]), &id, err));
        if (id != (int32_t)i) return damaged("a column has a word twice", err);
        c->rank[i] = id;
    }
    return MU_OK;
}

// Models written before there were shares have none.
static mu_status take_shares(mu_table *t, mu_table_column *c, const json_t *list, mu_err *err) {
    if (!list || c->kind != MU_TABLE_CATEGORY) return MU_OK;
    if (json_array_size(list) != c->n_words) return damaged("a column has no share for each word", err);
    c->share = mu_arena_array(t->arena, c->n_words, sizeof *c->share);
    if (!c->share) return MU_FAIL_NOMEM(err, "the columns of the table");
    for (size_t i = 0; i < c->n_words; i++) {
        const json_t *v = json_array_get(list, i);
        c->share[i] = (float)json_number_value(v);
        if (!json_is_number(v) || !(c->share[i] >= 0 && c->share[i] <= 1))
            return damaged("the share of a word is no such number", err);
    }
    return MU_OK;
}

static mu_status take_numbers(mu_table_column *c, const json_t *o, mu_err *err) {
    const json_t *mean = json_object_get(o, "mean"), *deviation = json_object_get(o, "deviation");
    if (!json_is_number(mean) || !json_is_number(deviation))
        return damaged("a column of numbers lacks mean or deviation", err);
    c->mean = (float)json_number_value(mean);
    c->deviation = (float)json_number_value(deviation);
    if (!isfinite(c->mean) || !isfinite(c->deviation) || c->deviation < 0)
        return damaged("the mean or deviation of a column is no such number", err);
    c->n_numbers = 1;
    return MU_OK;
}

static mu_status take_column(mu_table *t, mu_table_column *c, const json_t *o, mu_err *err) {
    const char *name = json_string_value(json_object_get(o, "name"));
    const char *kind = json_string_value(json_object_get(o, "kind"));
    const json_t *place = json_object_get(o, "place");
    mu_labels_init(&c->words, t->arena);
    mu_vocab_init(&c->vocab, t->arena);
    if (!name || !kind || !json_is_integer(place)) return damaged("a column lacks name, kind or place", err);
    c->place = json_integer_value(place);
    if (c->place < 0 || c->place >= (int64_t)t->n_columns) return damaged("a column has no place", err);
    if (!(c->name = mu_arena_strdup(t->arena, name))) return MU_FAIL_NOMEM(err, "the columns of the table");
    c->n_gaps = json_is_true(json_object_get(o, "gaps"));
    static const mu_table_kind kept[] = {MU_TABLE_NUMBER, MU_TABLE_CATEGORY, MU_TABLE_LABEL,
                                         MU_TABLE_EMBEDDED, MU_TABLE_SENTENCES};
    size_t k = 0;
    while (k < MU_COUNT(kept) && strcmp(mu_table_kind_names[kept[k]], kind)) k++;
    if (k == MU_COUNT(kept)) return damaged("a column is of an unknown kind", err);
    c->kind = kept[k];
    if (c->kind == MU_TABLE_LABEL) {
        if (t->label >= 0) return damaged("it has two labels", err);
        t->label = c - t->column;
    }
    const bool number =
        c->kind == MU_TABLE_NUMBER || (c->kind == MU_TABLE_LABEL && t->target == MU_TABLE_TARGET_NUMBER);
    if (c->kind == MU_TABLE_SENTENCES) t->n_sentences++;
    if (c->kind == MU_TABLE_SENTENCES) return MU_OK;
    if (c->kind == MU_TABLE_EMBEDDED) return mu_table_take_vocab(t, c, o, err);
    if (number) MU_TRY(take_numbers(c, o, err));
    if (number) return mu_table_take_cuts(t, c, json_object_get(o, "cuts"), err);
    MU_TRY(take_words(t, c, json_object_get(o, "words"), err));
    return take_shares(t, c, json_object_get(o, "shares"), err);
}

mu_status mu_table_take(mu_table *t, const json_t *learnt, mu_err *err) {
    const json_t *columns = json_object_get(learnt, "columns"), *n = json_object_get(learnt, "n_columns");
    const char *target = json_string_value(json_object_get(learnt, "target"));
    if (!json_is_array(columns) || !json_is_integer(n) || !target) return damaged("it has no columns", err);
    const size_t n_kept = json_array_size(columns);
    if (json_integer_value(n) < 1 || json_integer_value(n) > MU_TABLE_COLUMNS || !n_kept ||
        n_kept > (size_t)json_integer_value(n))
        return damaged("the number of its columns", err);
    t->n_columns = (size_t)json_integer_value(n);
    t->header = json_is_true(json_object_get(learnt, "header"));
    t->target = !strcmp(target, "number") ? MU_TABLE_TARGET_NUMBER : MU_TABLE_TARGET_CLASS;
    MU_TRY(mu_learnt_get_texts(json_object_get(learnt, "missing"), t->arena,
                               (const char *const **)&t->missing.v, &t->missing.n, err));
    t->column = mu_arena_array(t->arena, n_kept, sizeof *t->column);
    if (!t->column) return MU_FAIL_NOMEM(err, "the columns of the table");
    for (; t->n_known < n_kept; t->n_known++) {
        mu_table_column *c = &t->column[t->n_known];
        mu_status st = take_column(t, c, json_array_get(columns, t->n_known), err);
        if (st == MU_OK) continue;
        mu_labels_fini(&c->words);
        mu_vocab_fini(&c->vocab);
        return st;
    }
    return mu_table_take_words(t, learnt, err);
}
