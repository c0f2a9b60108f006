// SPDX-License-Identifier: Apache-2.0
// vocab.h - words and their numbers.
//
// Number 0 fills up sentences, 1 stands for every word that is not in the vocabulary, words count from 2: the
// most frequent first, of equally frequent ones the one that appeared first. So the numbers are a function
// of the text, and a smaller vocabulary is the beginning of a larger one.
//
// Life: init, then either count every word and number, or load a file, or take a list; find; fini.
#ifndef MU_DATA_VOCAB_H
#define MU_DATA_VOCAB_H

#include "read/labels.h"

enum { MU_WORD_PAD, MU_WORD_UNKNOWN, MU_WORD_FIRST };
#define MU_WORD_MAX 256                 // bytes of a word; what is longer is unknown

typedef struct mu_vocab {
    int64_t      n;             // numbers in use, the first two included; 0 before number or load
    const char **text;          // [n] in the arena; the first two are "<pad>" and "<unk>"
    // private
    mu_labels    seen;          // every word, by appearance
    int64_t     *count;         // [count_cap] of each in `seen`
    size_t       count_cap;
    int32_t     *number;        // [seen.n] of each in `seen`
} mu_vocab;

void mu_vocab_init(mu_vocab *v, mu_arena *arena);       // the arena is borrowed; texts and numbers live there
void mu_vocab_fini(mu_vocab *v);

MU_MUST_CHECK mu_status mu_vocab_count(mu_vocab *v, const char *word, size_t size, mu_err *err);
// Keeps the words that were counted at least min_count times, of those the first max_words (0 = all).
MU_MUST_CHECK mu_status mu_vocab_number(mu_vocab *v, int64_t max_words, int64_t min_count, mu_err *err);
// One word a line, up to a tab if there is one, in the order of their numbers; gzip or plain. Lines "<pad>"
// and "<unk>" at the start are the first two numbers and may be left out. Keeps the first max_words (0 =
// all). MU_EDATA with file and line.
MU_MUST_CHECK mu_status mu_vocab_load(mu_vocab *v, const char *path, int64_t max_words, mu_err *err);

// The n words as they are, numbered from MU_WORD_FIRST on: those of a model. MU_EMODEL for one that stands
// twice.
MU_MUST_CHECK mu_status mu_vocab_take(mu_vocab *v, const char *const *words, size_t n, mu_err *err);

int32_t mu_vocab_find(const mu_vocab *v, const char *word, size_t size); // MU_WORD_UNKNOWN if it is not in

#endif
