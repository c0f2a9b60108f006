// SPDX-License-Identifier: Apache-2.0
// tokenise.h - a sentence as words and punctuation marks.
//
// A word is a run of letters, digits and apostrophes; bytes from 0x80 on belong to words, so other scripts
// stay whole. English contractions come off a word's end, as in the usual preparation of sentences for
// convolutional nets (Kim 2014): "couldn't've" is could, n't, 've. Apostrophes around a word are quotation
// marks. Every other visible character is a mark, one token each; white space and control characters
// separate.
#ifndef MU_DATA_TOKENISE_H
#define MU_DATA_TOKENISE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum mu_marks {
    MU_MARKS_ALL,       // every mark is a token
    MU_MARKS_SOME,      // only , ! ? ( and ), as Kim has it; the others separate
    MU_MARKS_NONE,      // all separate
} mu_marks;
#define MU_MARKS_CHOICES "all|some|none"

// Copies text to `out` (as many bytes, may be `text` itself) as mu_tokens_next wants it: typographic
// apostrophes become plain ones, ASCII letters lower case if asked. Returns the bytes written.
size_t mu_tokens_prepare(const char *text, size_t size, bool lower, char *out);

typedef struct mu_tokens {
    const char *at, *end;       // what is left
    mu_marks    marks;
    const char *stem, *run;     // ends of the word's stem and of its run; at or before `at` = outside a run
} mu_tokens;

void mu_tokens_init(mu_tokens *t, const char *text, size_t size, mu_marks marks);
// The next token, a part of the text. False at the end. Linear in the text over all calls.
bool mu_tokens_next(mu_tokens *t, const char **token, size_t *size);

#endif
