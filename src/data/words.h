// SPDX-License-Identifier: Apache-2.0
// words.h - the distinct label words of a text file, and their class numbers.
//
// Words get provisional ids in order of appearance; mu_words_number then decides once: if every word
// is a whole number from 0, that number is the class, otherwise classes count the words in byte order,
// so that they do not depend on the order of the lines.
#ifndef MU_DATA_WORDS_H
#define MU_DATA_WORDS_H

#include "base/alloc.h"
#include "base/err.h"

#include <stdint.h>

typedef struct mu_words {
    mu_arena     *arena;        // borrowed; the texts live there
    const char  **text;         // [n]
    size_t        n, cap;
    uint32_t     *table;        // open addressing: id + 1, 0 = empty; size is a power of two
    size_t        table_size;
} mu_words;

void mu_words_init(mu_words *w, mu_arena *arena);
void mu_words_fini(mu_words *w);        // frees the tables, not the texts
MU_MUST_CHECK mu_status mu_words_add(mu_words *w, const char *text, size_t size, int32_t *id, mu_err *err);

// class_of[id] for all ids; returns the number of classes through n_classes.
MU_MUST_CHECK mu_status mu_words_number(const mu_words *w, int32_t *class_of, int64_t *n_classes, mu_err *err);

#endif
