// SPDX-License-Identifier: Apache-2.0
// rng_part.c - series for some of a sample's elements: whole blocks are drawn and those of the part picked.
#include "base/rng.h"

#include <string.h>

enum { DRAWN = 256 }; // at once; a multiple of 4

typedef struct walk {
    const mu_rng_part *p;
    uint64_t run, at; // the next element: number `at` of run `run`
} walk;

static uint64_t place(const walk *w) { return w->run * w->p->stride + w->p->first + w->at; }

// Copies the elements of the part that lie in `drawn`, the elements of the whole from `first` on; at most n.
static size_t pick(walk *w, const void *drawn, uint64_t first, void *out, size_t n) {
    size_t done = 0;
    while (done < n && place(w) < first + DRAWN) {
        const uint64_t from = place(w) - first, left = w->p->run - w->at;
        size_t m = left < DRAWN - from ? (size_t)left : (size_t)(DRAWN - from);
        if (m > n - done) m = n - done;
        memcpy((char *)out + 4 * done, (const char *)drawn + 4 * from, 4 * m);
        done += m;
        w->at += m;
        if (w->at == w->p->run) w->run++, w->at = 0;
    }
    return done;
}

static walk begin(const mu_rng_part *p, uint64_t e) { return (walk){p, e / p->run, e % p->run}; }

void mu_rng_part_u32(mu_rng_key key, uint64_t hi, const mu_rng_part *p, uint64_t e, uint32_t *out, size_t n) {
    if (!p->run) {
        mu_rng_fill_u32(key, hi, e, out, n);
        return;
    }
    uint32_t drawn[DRAWN];
    walk w = begin(p, e);
    for (size_t i = 0; i < n;) {
        const uint64_t first = place(&w) & ~(uint64_t)3;
        mu_rng_fill_u32(key, hi, first, drawn, DRAWN);
        i += pick(&w, drawn, first, out + i, n - i);
    }
}

static void part_f32(void fill(mu_rng_key key, uint64_t hi, uint64_t first, float *out, size_t n),
                     mu_rng_key key, uint64_t hi, const mu_rng_part *p, uint64_t e, float *out, size_t n) {
    if (!p->run) {
        fill(key, hi, e, out, n);
        return;
    }
    float drawn[DRAWN];
    walk w = begin(p, e);
    for (size_t i = 0; i < n;) {
        const uint64_t first = place(&w) & ~(uint64_t)3;
        fill(key, hi, first, drawn, DRAWN);
        i += pick(&w, drawn, first, out + i, n - i);
    }
}

void mu_rng_part_uniform(mu_rng_key key, uint64_t hi, const mu_rng_part *p, uint64_t e, float *out,
                         size_t n) {
    part_f32(mu_rng_fill_uniform, key, hi, p, e, out, n);
}

void mu_rng_part_gaussian(mu_rng_key key, uint64_t hi, const mu_rng_part *p, uint64_t e, float *out,
                          size_t n) {
    part_f32(mu_rng_fill_gaussian, key, hi, p, e, out, n);
}
