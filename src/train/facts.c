// SPDX-License-Identifier: Apache-2.0
// facts.c - see facts.h.
#include "train/facts.h"

#include <math.h>

enum { ROWS = 64 };             // of a batch: enough to see how large its numbers are

// Which field of the data a source of a layer is; -1 = none.
static int field_of(const mu_net *net, const mu_blob *b) {
    while (b->same_as) b = b->same_as;
    return b->producer == net->layer[0] ? (int)(b - net->layer[0]->out) : -1;
}

void mu_facts_begin(mu_facts *f, const mu_session *s) {
    const mu_net *net = s->train.net;
    *f = (mu_facts){.label_field = -1};
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        const bool compares = l->class->flags & (MU_LAYER_LOSS | MU_LAYER_OUTPUT);
        for (int k = 0; k < l->n_src; k++) {
            const int field = field_of(net, l->src[k]);
            if (field < 0) continue;
            const bool label = l->src[k]->value.dtype == MU_I32;
            // A copy of an input (split) is no reader: those behind it are looked at themselves.
            if (!compares && !label && !(l->class->flags & MU_LAYER_ALIAS)) f->numbers |= 1u << field;
            if (!(l->class->flags & MU_LAYER_LOSS) || !label || k == 0 || f->label_field >= 0) continue;
            const mu_shape *scores = &l->src[0]->value.shape;
            f->label_field = field;
            f->n_classes = mu_source_field(s->train.source, field)->n_classes;
            f->n_outputs = scores->n > 1 ? scores->d[scores->n - 1] : 0;
        }
    }
    // Labels of time steps are characters or words: a text need not have all of them.
    const bool single = f->label_field >= 0 &&
                        mu_shape_count(&mu_source_field(s->train.source, f->label_field)->shape) == 1;
    atomic_store(&f->counting, single && f->n_classes > 1 && f->n_classes <= MU_FACTS_CLASSES);
}

static mu_field_facts look_at(const float *x, size_t n) {
    mu_field_facts r = {.least = INFINITY, .most = -INFINITY, .whole = true};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i];
        sum += v;
        squares += v * v;
        if (v < r.least) r.least = v;
        if (v > r.most) r.most = v;
        r.whole &= v == rint(v);
    }
    r.mean = n ? sum / (double)n : NAN;
    r.deviation = n ? sqrt(fmax(0, squares / (double)n - r.mean * r.mean)) : NAN;
    return r;
}

static size_t per_row(const mu_tensor *t) {
    return t->shape.n > 0 && t->shape.d[0] > 0 ? mu_tensor_count(t) / (size_t)t->shape.d[0] : 0;
}

static void look_at_numbers(mu_facts *f, const mu_batch *b) {
    int32_t none = 0;
    if (b->begin >= b->end) return;
    if (atomic_load_explicit(&f->looked, memory_order_relaxed)) return;
    if (!atomic_compare_exchange_strong(&f->looked, &none, 1)) return; // another learner does
    const int64_t all = b->end - b->begin;
    const size_t first = (size_t)b->begin, rows = (size_t)(all < ROWS ? all : ROWS);
    for (int i = 0; i < MU_MAX_FIELDS; i++) {
        const size_t size = per_row(&b->field[i]);
        if (f->numbers >> i & 1) f->field[i] = look_at(b->field[i].f + first * size, rows * size);
    }
    atomic_store_explicit(&f->looked, 2, memory_order_release); // read by the parent after `field`
}

void mu_facts_add(mu_facts *f, const mu_batch *b) {
    look_at_numbers(f, b);
    if (!atomic_load_explicit(&f->counting, memory_order_relaxed)) return;
    const mu_tensor *t = &b->field[f->label_field];
    const size_t size = per_row(t), end = (size_t)b->end * size;
    for (size_t i = (size_t)b->begin * size; i < end; i++) {
        const int32_t k = t->i[i];
        if (k < 0 || k >= f->n_classes) continue;
        // A bit that is there is not written again: its line stays with all learners.
        if (!(atomic_load_explicit(&f->seen[k / 64], memory_order_relaxed) >> (k % 64) & 1))
            atomic_fetch_or_explicit(&f->seen[k / 64], (uint64_t)1 << (k % 64), memory_order_relaxed);
    }
}

int64_t mu_facts_missing(const mu_facts *f, int64_t *first) {
    int64_t n = 0;
    for (int64_t k = f->n_classes; k-- > 0;)
        if (!(atomic_load_explicit(&f->seen[k / 64], memory_order_relaxed) >> (k % 64) & 1)) {
            *first = k;
            n++;
        }
    return n;
}
