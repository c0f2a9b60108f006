// SPDX-License-Identifier: Apache-2.0
// tokenise.c - see tokenise.h.
//
// A run of word bytes is cut once, from its end: contractions and apostrophes are taken off as long as there
// are any, and what is left is the stem. All of them begin with an apostrophe or are n't, so reading the tail
// forwards finds the same pieces again.
#include "read/tokenise.h"

#include "base/attr.h"

#include <string.h>

static const char *const contractions[] = {"n't", "'s", "'ve", "'re", "'ll", "'d", "'m"};

static char lower_case(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool is_space(char c) { return (unsigned char)c <= ' ' || c == 0x7f; }

static bool is_word(char c) {
    char l = lower_case(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '\'' || (unsigned char)c >= 0x80;
}

size_t mu_tokens_prepare(const char *text, size_t size, bool lower, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        if (size - i >= 3 && !memcmp(text + i, "\xe2\x80\x99", 3)) { // U+2019
            out[n++] = '\'';
            i += 2;
        } else {
            out[n++] = lower ? lower_case(text[i]) : text[i];
        }
    }
    return n;
}

void mu_tokens_init(mu_tokens *t, const char *text, size_t size, mu_marks marks) {
    *t = (mu_tokens){.at = text, .end = text + size, .marks = marks, .stem = text, .run = text};
}

static bool same_word(const char *a, const char *word, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (lower_case(a[i]) != word[i]) return false;
    return true;
}

// Length of the contraction that [from, to) ends with (at_end) or begins with, 0 if there is none.
static size_t contraction(const char *from, const char *to, bool at_end) {
    for (size_t i = 0; i < MU_COUNT(contractions); i++) {
        size_t n = strlen(contractions[i]);
        if (n <= (size_t)(to - from) && same_word(at_end ? to - n : from, contractions[i], n)) return n;
    }
    return 0;
}

static void begin_run(mu_tokens *t) {
    const char *end = t->at;
    while (end < t->end && is_word(*end)) end++;
    t->run = end;
    while (end > t->at) {
        size_t n = contraction(t->at, end, true);
        if (!n && end[-1] == '\'') n = 1;
        if (!n) break;
        end -= n;
    }
    t->stem = end;
}

static size_t piece(const mu_tokens *t) {
    if (t->at < t->stem) return *t->at == '\'' ? 1 : (size_t)(t->stem - t->at);
    size_t n = contraction(t->at, t->run, false);
    return n ? n : 1;
}

static bool wanted(const mu_tokens *t, const char *token, size_t size) {
    if (size > 1 || (is_word(*token) && *token != '\'') || t->marks == MU_MARKS_ALL) return true;
    return t->marks == MU_MARKS_SOME && strchr(",!?()", *token);
}

bool mu_tokens_next(mu_tokens *t, const char **token, size_t *size) {
    for (;;) {
        if (t->at >= t->run) {
            while (t->at < t->end && is_space(*t->at)) t->at++;
            if (t->at == t->end) return false;
            begin_run(t);       // empty at a mark
        }
        const char *from = t->at;
        size_t n = from < t->run ? piece(t) : 1;
        t->at += n;
        if (!wanted(t, from, n)) continue;
        *token = from;
        *size = n;
        return true;
    }
}
