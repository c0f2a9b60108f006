// SPDX-License-Identifier: Apache-2.0
// labels.c - see labels.h.
#include "read/labels.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void mu_labels_init(mu_labels *w, mu_arena *arena) { *w = (mu_labels){.arena = arena}; }

void mu_labels_fini(mu_labels *w) {
    mu_free(w->text);
    mu_free(w->table);
    *w = (mu_labels){0};
}

static size_t find_slot(const mu_labels *w, const char *text, size_t size) {
    size_t i = (size_t)XXH3_64bits(text, size) & (w->table_size - 1);
    for (; w->table[i]; i = (i + 1) & (w->table_size - 1)) {
        const char *have = w->text[w->table[i] - 1];
        if (!strncmp(have, text, size) && !have[size]) break;
    }
    return i;
}

static mu_status grow(mu_labels *w, mu_err *err) {
    size_t cap = w->cap ? w->cap * 2 : 64;
    const char **text = mu_realloc(w->text, cap * sizeof *text, "read/labels");
    if (!text) return MU_FAIL_NOMEM(err, "label words");
    w->text = text;
    uint32_t *table = mu_alloc_array(cap * 2, sizeof *table, "read/labels");
    if (!table) return MU_FAIL_NOMEM(err, "label words");
    mu_free(w->table);
    w->cap = cap;
    w->table = table;
    w->table_size = cap * 2;
    for (size_t i = 0; i < w->n; i++) table[find_slot(w, text[i], strlen(text[i]))] = (uint32_t)i + 1;
    return MU_OK;
}

mu_status mu_labels_add(mu_labels *w, const char *text, size_t size, int32_t *id, mu_err *err) {
    size = strnlen(text, size);         // a NUL inside ends the word
    if (w->n == w->cap) {
        if (w->n >= INT32_MAX / 4) return MU_FAIL(err, MU_EDATA, "too many different labels");
        MU_TRY(grow(w, err));
    }
    size_t slot = find_slot(w, text, size);
    if (!w->table[slot]) {
        const char *copy = mu_arena_strndup(w->arena, text, size);
        if (!copy) return MU_FAIL_NOMEM(err, "label words");
        w->text[w->n] = copy;
        w->table[slot] = (uint32_t)++w->n;
    }
    *id = (int32_t)w->table[slot] - 1;
    return MU_OK;
}

int32_t mu_labels_find(const mu_labels *w, const char *text, size_t size) {
    if (!w->n) return -1;
    return (int32_t)w->table[find_slot(w, text, strnlen(text, size))] - 1;
}

static bool as_class(const char *text, int32_t *out) {
    char *end;
    long v = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || v > INT32_MAX - 1) return false;
    *out = (int32_t)v;
    return true;
}

static bool is_number(const char *text) {
    char *end;
    (void)strtod(text, &end);
    return end != text && !*end;
}

// Of labels that are numbers.
static mu_status take_numbers(const mu_labels *w, int32_t *class_of, int64_t *n_classes, mu_err *err) {
    int32_t top = -1;
    for (size_t i = 0; i < w->n; i++) {
        if (!as_class(w->text[i], &class_of[i])) class_of[i] = -1;
        if (class_of[i] > top) top = class_of[i];
    }
    *n_classes = (int64_t)top + 1;
    if (top >= 0) return MU_OK;
    return mu_err_hinted(
        MU_FAIL(err, MU_EDATA, "no label is a whole number from 0; the first is `%.40s`", w->text[0]), err,
        "Number the classes from 0, or name all labels in `classes`.");
}

typedef struct label_entry { const char *text; int32_t id; } label_entry;

static int by_text(const void *a, const void *b) {
    return strcmp(((const label_entry *)a)->text, ((const label_entry *)b)->text);
}

mu_status mu_labels_number(const mu_labels *w, int32_t *class_of, int64_t *n_classes, mu_err *err) {
    size_t i;
    *n_classes = 0;
    if (!w->n) return MU_OK;
    if (is_number(w->text[0])) return take_numbers(w, class_of, n_classes, err);
    label_entry *list = mu_alloc_array(w->n, sizeof *list, "read/labels");
    if (!list) return MU_FAIL_NOMEM(err, "label words");
    for (i = 0; i < w->n; i++) list[i] = (label_entry){w->text[i], (int32_t)i};
    qsort(list, w->n, sizeof *list, by_text);
    for (i = 0; i < w->n; i++) class_of[list[i].id] = (int32_t)i;
    *n_classes = (int64_t)w->n;
    mu_free(list);
    return MU_OK;
}

mu_status mu_labels_names(const mu_labels *w, const int32_t *class_of, int64_t n_classes,
                          const char *const **out, mu_err *err) {
    *out = NULL;
    if (n_classes != (int64_t)w->n) return MU_OK;
    const char **names = mu_arena_array(w->arena, w->n + 1, sizeof *names);
    if (!names) return MU_FAIL_NOMEM(err, "labels");
    for (size_t i = 0; i < w->n; i++)
        if (class_of[i] >= 0) names[class_of[i]] = w->text[i];
    for (size_t i = 0; i < w->n; i++)
        if (!names[i]) return MU_OK; // "1" and "01" are one class
    *out = names;
    return MU_OK;
}
