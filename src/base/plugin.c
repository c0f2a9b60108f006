// SPDX-License-Identifier: Apache-2.0
// plugin.c - registry look-up and nearest words.
#include "base/plugin.h"

#include <ctype.h>
#include <string.h>

const mu_plugin *mu_registry_find(const mu_registry *r, const char *name) {
    for (size_t i = 0; i < r->n; i++)
        if (!strcmp(r->list[i]->name, name)) return r->list[i];
    return NULL;
}

#define LONGEST 48

// Damerau-Levenshtein (optimal string alignment); words longer than LONGEST never match. Case and
// the difference between `-` and `_` cost nothing.
static int fold(char c) { return c == '-' ? '_' : tolower((unsigned char)c); }

static int distance(const char *a, const char *b) {
    int na = (int)strlen(a), nb = (int)strlen(b);
    if (na > LONGEST || nb > LONGEST) return LONGEST;
    int d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= na; i++) d[i][0] = i;
    for (int j = 0; j <= nb; j++) d[0][j] = j;
    for (int i = 1; i <= na; i++)
        for (int j = 1; j <= nb; j++) {
            int cost = fold(a[i - 1]) != fold(b[j - 1]), best = d[i - 1][j - 1] + cost;
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1])
                && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[na][nb];
}

// A word is near when at most a third of it (at least one letter) is wrong, or when one is the
// beginning of the other ("conv" for "convolution").
static int score(const char *word, const char *known) {
    size_t nw = strlen(word), nk = strlen(known), longer = nw > nk ? nw : nk;
    int d = distance(word, known), limit = (int)(longer / 3);
    if (d <= (limit ? limit : 1)) return d;
    if (nw >= 3 && !strncmp(word, known, nw)) return limit + 1;
    if (nk >= 3 && !strncmp(word, known, nk)) return limit + 2;
    return -1;
}

const char *mu_nearest(const char *word, const char *const *list, size_t n) {
    const char *best = NULL;
    int best_score = 1 << 20;
    for (size_t i = 0; i < n; i++) {
        int s = score(word, list[i]);
        if (s >= 0 && s < best_score) best = list[i], best_score = s;
    }
    return best;
}

const char *mu_registry_nearest(const mu_registry *r, const char *word) {
    const char *best = NULL;
    int best_score = 1 << 20;
    for (size_t i = 0; i < r->n; i++) {
        int s = score(word, r->list[i]->name);
        if (s >= 0 && s < best_score) best = r->list[i]->name, best_score = s;
    }
    return best;
}

int mu_choice_find(const char *choices, const char *word) {
    size_t nw = strlen(word);
    int i = 0;
    for (const char *p = choices; *p; i++) {
        size_t n = strcspn(p, "|");
        if (n == nw && !strncmp(p, word, n)) return i;
        p += n + (p[n] == '|');
    }
    return -1;
}

bool mu_choice_name(const char *choices, int i, char *out, size_t size) {
    const char *p = choices;
    for (; i > 0 && *p; i--) {
        p += strcspn(p, "|");
        p += *p == '|';
    }
    size_t n = strcspn(p, "|");
    if (!n || n >= size) return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}
