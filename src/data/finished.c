// SPDX-License-Identifier: Apache-2.0
// finished.c - see finished.h.
#include "data/finished.h"

#include <stdlib.h>
#include <string.h>

static int64_t size_of(mu_range r) { return r.end - r.first; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t mu_finished_count(const mu_finished *f) {
    int64_t n = f->cursor;
    for (int i = 0; i < f->n; i++) n += size_of(f->range[i]);
    return n;
}

// ---- adding ----

// Ranges [from, to) of the list become one, or none.
static void replace(mu_finished *f, int from, int to, const mu_range *by) {
    const int n = by != NULL;
    memmove(f->range + from + n, f->range + to, (size_t)(f->n - to) * sizeof *f->range);
    if (by) f->range[from] = *by;
    f->n += from + n - to;
}

static void drop_smallest(mu_finished *f) {
    int least = 0;
    for (int i = 1; i < f->n; i++)
        if (size_of(f->range[i]) < size_of(f->range[least])) least = i;
    f->dropped += size_of(f->range[least]);
    replace(f, least, least + 1, NULL);
}

void mu_finished_add(mu_finished *f, mu_range r) {
    r.first = max64(r.first, f->cursor);
    if (r.first >= r.end) return;
    int to = f->n; // one past the last range that it touches: mostly the list is extended at its end
    while (to > 0 && f->range[to - 1].first > r.end) to--;
    int from = to;
    while (from > 0 && f->range[from - 1].end >= r.first) from--;
    if (from < to) {
        r.first = min64(r.first, f->range[from].first);
        r.end = max64(r.end, f->range[to - 1].end);
    }
    if (r.first == f->cursor) {
        f->cursor = r.end;
        replace(f, from, to, NULL);
        return;
    }
    replace(f, from, to, &r);
    if (f->n > MU_FINISHED_MAX) drop_smallest(f);
}

// ---- numbers ----

int64_t mu_finished_sample(const mu_finished *f, int64_t number) {
    if (f->n == 0 || number >= f->range[f->n - 1].end) return number;
    int64_t left = number - mu_finished_count(f), at = f->cursor;
    for (int i = 0; i < f->n && at + left >= f->range[i].first; i++) {
        left -= f->range[i].first - at;
        at = f->range[i].end;
    }
    return at + left;
}

// Adds the samples that the numbers [from, to) of `begin` stand for.
static void add_numbers(mu_finished *f, const mu_finished *begin, int64_t from, int64_t to) {
    int64_t number = mu_finished_count(begin), at = begin->cursor;
    for (int i = 0; i <= begin->n && from < to; i++) {
        const int64_t gap = i < begin->n ? begin->range[i].first - at : INT64_MAX - at;
        const int64_t end = number > INT64_MAX - gap ? INT64_MAX : number + gap; // of the numbers in this gap
        if (from < end) {
            const int64_t until = min64(to, end);
            mu_finished_add(f, (mu_range){at + from - number, at + until - number});
            from = until;
        }
        if (i < begin->n) at = begin->range[i].end;
        number = end;
    }
}

static int by_first(const void *a, const void *b) {
    const mu_range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

void mu_finished_extend(mu_finished *f, mu_range *open, int n_open, int64_t next) {
    const mu_finished begin = *f;
    int64_t at = mu_finished_count(f);
    if (n_open > 1) qsort(open, (size_t)n_open, sizeof *open, by_first);
    for (int i = 0; i < n_open; i++) {
        add_numbers(f, &begin, at, min64(open[i].first, next));
        at = max64(at, open[i].end);
    }
    add_numbers(f, &begin, at, next);
}
