// SPDX-License-Identifier: Apache-2.0
// vocab.c - see vocab.h. The hash table is that of read/labels.h: an id for each word by appearance.
#include "read/vocab.h"

#include "file/infile.h"
#include "file/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const reserved[] = {"<pad>", "<unk>"};

void mu_vocab_init(mu_vocab *v, mu_arena *arena) {
    *v = (mu_vocab){0};
    mu_labels_init(&v->seen, arena);
}

void mu_vocab_fini(mu_vocab *v) {
    mu_labels_fini(&v->seen);
    mu_free(v->count);
    *v = (mu_vocab){0};
}

mu_status mu_vocab_count(mu_vocab *v, const char *word, size_t size, mu_err *err) {
    if (size > MU_WORD_MAX) return MU_OK;
    int32_t id;
    MU_TRY(mu_labels_add(&v->seen, word, size, &id, err));
    if (v->seen.n > v->count_cap) {
        size_t cap = v->seen.cap;
        int64_t *count = mu_realloc(v->count, cap * sizeof *count, "read/vocab");
        if (!count) return MU_FAIL_NOMEM(err, "the vocabulary");
        memset(count + v->count_cap, 0, (cap - v->count_cap) * sizeof *count);
        v->count = count;
        v->count_cap = cap;
    }
    v->count[id]++;
    return MU_OK;
}

typedef struct word_entry { int64_t count; int32_t id; } word_entry;

static int by_count(const void *a, const void *b) {
    const word_entry *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return x->id < y->id ? -1 : 1;
}

// The words list[0..n) get the numbers from 2 on.
static mu_status give_numbers(mu_vocab *v, const word_entry *list, size_t n, mu_err *err) {
    mu_arena *arena = v->seen.arena;
    const char **text = mu_arena_array(arena, n + MU_WORD_FIRST, sizeof *text);
    int32_t *number = mu_arena_array(arena, v->seen.n + 1, sizeof *number);
    if (!text || !number) return MU_FAIL_NOMEM(err, "the vocabulary");
    memcpy(text, reserved, sizeof reserved);
    for (size_t i = 0; i < v->seen.n; i++) number[i] = MU_WORD_UNKNOWN;
    for (size_t i = 0; i < n; i++) {
        number[list[i].id] = (int32_t)(i + MU_WORD_FIRST);
        text[i + MU_WORD_FIRST] = v->seen.text[list[i].id];
    }
    v->text = text;
    v->number = number;
    v->n = (int64_t)n + MU_WORD_FIRST;
    return MU_OK;
}

mu_status mu_vocab_number(mu_vocab *v, int64_t max_words, int64_t min_count, mu_err *err) {
    word_entry *list = mu_alloc_array(v->seen.n + 1, sizeof *list, "read/vocab");
    if (!list) return MU_FAIL_NOMEM(err, "the vocabulary");
    size_t n = 0;
    for (size_t i = 0; i < v->seen.n; i++)
        if (v->count[i] >= min_count) list[n++] = (word_entry){v->count[i], (int32_t)i};
    qsort(list, n, sizeof *list, by_count);
    if (max_words > 0 && n > (size_t)max_words) n = (size_t)max_words;
    mu_status st = give_numbers(v, list, n, err);
    mu_free(list);
    return st;
}

mu_status mu_vocab_take(mu_vocab *v, const char *const *words, size_t n, mu_err *err) {
    for (size_t i = 0; i < n; i++) {
        const size_t size = strlen(words[i]);
        if (!size || size > MU_WORD_MAX || mu_labels_find(&v->seen, words[i], size) >= 0)
            return MU_FAIL(err, MU_EMODEL,
                           "word %zu of the model's vocabulary is empty, too long or stands twice",
                           i + MU_WORD_FIRST);
        MU_TRY(mu_vocab_count(v, words[i], size, err));
    }
    return mu_vocab_number(v, 0, 1, err); // each counted once: by appearance
}

// ---- files ----

static mu_status bad_line(const mu_infile *in, int64_t line, const char *what, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 " %s", in->path, line, what);
}

static mu_status load_line(mu_vocab *v, const mu_infile *in, int64_t number, const char *line, size_t size,
                           mu_err *err) {
    mu_line_fault f = mu_line_check(line, size);
    if (f != MU_LINE_GOOD) return bad_line(in, number, mu_line_fault_text(f), err);
    const char *tab = size ? memchr(line, '\t', size) : NULL;
    if (tab) size = (size_t)(tab - line);
    if (!size) return bad_line(in, number, "holds no word", err);
    if (size > MU_WORD_MAX) return bad_line(in, number, "holds a word of more than 256 bytes", err);
    for (size_t i = 0; i < MU_COUNT(reserved) && !v->seen.n; i++)
        if (strlen(reserved[i]) == size && !memcmp(line, reserved[i], size)) return MU_OK;
    if (mu_labels_find(&v->seen, line, size) >= 0) return bad_line(in, number, "repeats a word", err);
    return mu_vocab_count(v, line, size, err);
}

mu_status mu_vocab_load(mu_vocab *v, const char *path, int64_t max_words, mu_err *err) {
    mu_infile in = {0};
    mu_status st = mu_infile_open(&in, path, err);
    if (st == MU_OK) st = mu_infile_load(&in, err);
    mu_lines lines;
    mu_lines_init(&lines, in.mem, in.mem ? (size_t)in.size : 0);
    const char *line;
    size_t size;
    while (st == MU_OK && mu_lines_next(&lines, &line, &size))
        st = load_line(v, &in, lines.number, line, size, err);
    if (st == MU_OK && !v->seen.n) st = MU_FAIL(err, MU_EDATA, "`%s` holds no words", path);
    if (st == MU_OK) st = mu_vocab_number(v, max_words, 1, err); // each counted once: by appearance
    mu_infile_close(&in);
    return st;
}

int32_t mu_vocab_find(const mu_vocab *v, const char *word, size_t size) {
    int32_t id = size <= MU_WORD_MAX ? mu_labels_find(&v->seen, word, size) : -1;
    return id < 0 ? MU_WORD_UNKNOWN : v->number[id];
}
