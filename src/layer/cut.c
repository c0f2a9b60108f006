// SPDX-License-Identifier: Apache-2.0
// cut.c - see cut.h.
#include "layer/cut.h"

#include <assert.h>
#include <string.h>

enum { ELEMENT = 4 }; // bytes of both types

mu_extent mu_extent_part(int64_t whole, int64_t grain, int k, int n) {
    const int64_t units = whole / grain;
    return (mu_extent){units * k / n * grain, units * (k + 1) / n * grain, whole};
}

mu_extent mu_extent_scaled(const mu_extent *r, int64_t whole) {
    if (!mu_is_cut(r)) return (mu_extent){0, whole, 0};
    assert(r->begin * whole % r->whole == 0 && r->end * whole % r->whole == 0);
    return (mu_extent){r->begin * whole / r->whole, r->end * whole / r->whole, whole};
}

mu_shape mu_cut_shape(const mu_shape *whole, const mu_cut *c) {
    mu_shape s = *whole;
    if (mu_is_cut(&c->batch)) s.d[0] = c->batch.end - c->batch.begin;
    if (mu_is_cut(&c->feature)) s.d[mu_feature_axis(&s)] = c->feature.end - c->feature.begin;
    return s;
}

typedef struct walk { // runs of features: `n` in a row of the batch, `len` bytes each, `step` bytes apart
    int64_t row0, rows, n;
    size_t at, len, step;
} walk;

static walk walk_of(const mu_shape *s, const mu_cut *c) {
    const int64_t features = mu_features(s), rows = s->n ? s->d[0] : 1;
    const mu_extent f = mu_is_cut(&c->feature) ? c->feature : (mu_extent){0, features, features},
                    b = mu_is_cut(&c->batch) ? c->batch : (mu_extent){0, rows, rows};
    return (walk){.row0 = b.begin,
                  .rows = b.end - b.begin,
                  .n = mu_shape_inner(s, 1) / features,
                  .at = (size_t)f.begin * ELEMENT,
                  .len = (size_t)(f.end - f.begin) * ELEMENT,
                  .step = (size_t)features * ELEMENT};
}

void mu_cut_take(void *part, const void *whole, const mu_shape *shape, const mu_cut *c) {
    const walk w = walk_of(shape, c);
    const char *from = (const char *)whole + (size_t)(w.row0 * w.n) * w.step + w.at;
    char *to = part;
    if (w.len == w.step) {
        memcpy(to, from, (size_t)(w.rows * w.n) * w.len);
        return;
    }
    for (int64_t i = 0; i < w.rows * w.n; i++, from += w.step, to += w.len) memcpy(to, from, w.len);
}

void mu_cut_put(void *whole, const void *part, const mu_shape *shape, const mu_cut *c) {
    const walk w = walk_of(shape, c);
    char *to = (char *)whole + (size_t)(w.row0 * w.n) * w.step + w.at;
    const char *from = part;
    if (w.len == w.step) {
        memcpy(to, from, (size_t)(w.rows * w.n) * w.len);
        return;
    }
    for (int64_t i = 0; i < w.rows * w.n; i++, to += w.step, from += w.len) memcpy(to, from, w.len);
}

mu_rng_part mu_cut_draws(const mu_cut *c) {
    const mu_extent *f = &c->feature;
    if (!mu_is_cut(f)) return (mu_rng_part){0};
    return (mu_rng_part){
        .run = (uint64_t)(f->end - f->begin), .stride = (uint64_t)f->whole, .first = (uint64_t)f->begin};
}
