// SPDX-License-Identifier: Apache-2.0
// labels.h - the distinct label words of a text file, and their class numbers.
//
// Words get provisional ids in order of appearance; mu_labels_number then decides once, by the first: if it
// is a number, labels are numbers, and whole numbers from 0 are their own class; others (-1, 3.5, cat) are no
// labels. If it is a word, every text is a class; they count in byte order, so that they do not depend on the
// order of the lines.
#ifndef MU_DATA_LABELS_H
#define MU_DATA_LABELS_H

#include "base/alloc.h"
#include "base/err.h"

#include <stdint.h>

typedef struct mu_labels {
    mu_arena     *arena;        // borrowed; the texts live there
    const char  **text;         // [n]
    size_t        n, cap;
    uint32_t     *table;        // open addressing: id + 1, 0 = empty; size is a power of two
    size_t        table_size;
} mu_labels;

void mu_labels_init(mu_labels *w, mu_arena *arena);
void mu_labels_fini(mu_labels *w);        // frees the tables, not the texts
MU_MUST_CHECK mu_status mu_labels_add(mu_labels *w, const char *text, size_t size, int32_t *id, mu_err *err);
int32_t mu_labels_find(const mu_labels *w, const char *text, size_t size);      // its id, -1 = never added

// class_of[id] for all ids, -1 = no label; returns the number of classes through n_classes. MU_EDATA when no
// word is a label.
MU_MUST_CHECK mu_status mu_labels_number(const mu_labels *w, int32_t *class_of, int64_t *n_classes,
                                         mu_err *err);
// The word of each class, in the arena; *out = NULL when they are numbers with gaps, or two words are one
// class.
MU_MUST_CHECK mu_status mu_labels_names(const mu_labels *w, const int32_t *class_of, int64_t n_classes,
                                        const char *const **out, mu_err *err);

#endif
