// SPDX-License-Identifier: Apache-2.0
// net_drawing.h - random nets.
//
// Nets are drawn layer by layer: each takes blobs that fit from all made so far, so that branches,
// joins, chains that work in place, slices with unused parts, blobs taken twice by one layer, shared
// parameters, dangling ends and several losses all occur.
#ifndef MU_TEST_NET_DRAWING_H
#define MU_TEST_NET_DRAWING_H

#include "net/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 3, MAX_BLOBS = 96, MAX_LAYERS = 64, TEXT = 16384 };

typedef struct blob { char name[24]; int c, hw, layer; } blob; // hw 0: a matrix (batch, c)

typedef struct drawing {
    uint64_t seed, drawn;
    int n_blobs, n_layers;
    blob blobs[MAX_BLOBS];
    struct { int src[4], n_src; bool loss, reaches; char name[16]; } layer[MAX_LAYERS];
    char text[TEXT];
    size_t used;
} drawing;

static inline uint32_t draw(drawing *d, uint32_t below) {
    uint32_t w[4];
    mu_rng_block((mu_rng_key){{(uint32_t)d->seed, (uint32_t)(d->seed >> 32)}}, 0, d->drawn++, w);
    return w[0] % below;
}

// ---- drawing ----

static inline void write_layer(drawing *d, const char *fmt, ...) MU_PRINTF(2, 3);
static inline void write_layer(drawing *d, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    d->used += (size_t)vsnprintf(d->text + d->used, TEXT - d->used, fmt, ap);
    va_end(ap);
    assert_true(d->used < TEXT);
}

// Begins a layer of `type` with these sources; returns its number. The caller adds more keys and "}\n".
static inline int begin(drawing *d, const char *type, const int *src, int n_src) {
    int at = d->n_layers++;
    snprintf(d->layer[at].name, sizeof d->layer[at].name, "n%d", at);
    d->layer[at].n_src = n_src;
    write_layer(d, "- {name: n%d, type: %s, src: [", at, type);
    for (int i = 0; i < n_src; i++) {
        d->layer[at].src[i] = d->blobs[src[i]].layer;
        write_layer(d, "%s%s", i ? ", " : "", d->blobs[src[i]].name);
    }
    write_layer(d, "]");
    return at;
}

static inline void output(drawing *d, int layer, int part, int c, int hw) {
    blob *b = &d->blobs[d->n_blobs++];
    assert_true(d->n_blobs < MAX_BLOBS);
    *b = (blob){.c = c, .hw = hw, .layer = layer};
    if (part < 0) snprintf(b->name, sizeof b->name, "n%d", layer);
    else snprintf(b->name, sizeof b->name, "n%d.%d", layer, part);
}

// Another blob of the same shape (`same_c`), or of the same height and width; may be `like` itself.
static inline int partner(drawing *d, int like, bool same_c) {
    for (int tries = 0; tries < 8; tries++) {
        int k = (int)draw(d, (uint32_t)d->n_blobs);
        const blob *a = &d->blobs[k], *b = &d->blobs[like];
        if (a->hw == b->hw && (!same_c || a->c == b->c)) return k;
    }
    return like;
}

static inline void draw_trained(drawing *d, int src) {
    static const int kernels[] = {1, 3};
    blob b = d->blobs[src];
    if (b.hw && draw(d, 2)) {
        int filters = 1 + (int)draw(d, 6), k = kernels[draw(d, 2)];
        int l = begin(d, "convolution", &src, 1);
        write_layer(d, ", filters: %d, kernel: %d, pad: %d", filters, k, k / 2);
        if (draw(d, 3) == 0) write_layer(d, ", weight: {name: conv-%d-%d-%d}", filters, b.c, k);
        write_layer(d, "}\n");
        output(d, l, -1, filters, b.hw);
    } else {
        int outputs = 4 + (int)draw(d, 3);
        int l = begin(d, "inner_product", &src, 1);
        write_layer(d, ", outputs: %d, bias_term: %s", outputs, draw(d, 4) ? "true" : "false");
        int values = b.c * (b.hw ? b.hw * b.hw : 1);
        if (draw(d, 3) == 0) write_layer(d, ", weight: {name: ip-%d-%d}", outputs, values);
        write_layer(d, "}\n");
        output(d, l, -1, outputs, 0);
    }
}

// Channels as words. Enough filters for their gradient to be left gathered.
static inline void draw_sentence(drawing *d, int src) {
    blob b = d->blobs[src];
    if (b.hw < 6 || b.c > 8) return;
    int l = begin(d, "reshape", &src, 1), words = d->n_blobs, filters = 10 * b.c + (int)draw(d, 20);
    write_layer(d, ", shape: [0, %d, %d]}\n", b.c, b.hw * b.hw);
    output(d, l, -1, 0, 0);
    l = begin(d, "sentence_convolution", &words, 1);
    d->n_blobs--; // nobody else takes the words
    write_layer(d, ", widths: [1], filters: %d}\n", filters);
    output(d, l, -1, filters, 0);
}

static inline void draw_pointwise(drawing *d, int src) {
    static const char *const types[] = {"relu", "relu", "tanh", "sigmoid", "dropout", "batch_norm"};
    blob b = d->blobs[src];
    int l = begin(d, types[draw(d, MU_COUNT(types))], &src, 1);
    write_layer(d, "}\n");
    output(d, l, -1, b.c, b.hw);
}

static inline void draw_window(drawing *d, int src) {
    blob b = d->blobs[src];
    if (!b.hw) {
        int l = begin(d, "softmax", &src, 1);
        write_layer(d, "}\n");
        output(d, l, -1, b.c, 0);
    } else if (b.hw >= 2 && draw(d, 3)) {
        int l = begin(d, "pooling", &src, 1);
        write_layer(d, ", kernel: 2, method: %s}\n", draw(d, 2) ? "max" : "average");
        output(d, l, -1, b.c, (b.hw + 1) / 2);
    } else {
        int l = begin(d, draw(d, 2) ? "lrn" : "flatten", &src, 1);
        write_layer(d, "}\n");
        bool flat = strstr(d->text + d->used - 40, "flatten") != NULL;
        output(d, l, -1, flat ? b.c * b.hw * b.hw : b.c, flat ? 0 : b.hw);
    }
}

static inline void draw_parts(drawing *d, int src) {
    blob b = d->blobs[src];
    bool cut = b.c % 2 == 0 && draw(d, 3);
    int n = cut ? 2 : 1 + (int)draw(d, 3);
    int l = begin(d, cut ? "slice" : "split", &src, 1);
    write_layer(d, ", outputs: %d}\n", n);
    for (int i = 0; i < n; i++) output(d, l, i, cut ? b.c / 2 : b.c, b.hw);
}

static inline void draw_join(drawing *d, int src) {
    bool add = draw(d, 2);
    int from[3] = {src, partner(d, src, add), partner(d, src, add)}, n = 2 + (int)draw(d, 2), c = 0;
    for (int i = 0; i < n; i++) c += d->blobs[from[i]].c;
    if (!add && c > 64) return;
    int l = begin(d, add ? "add" : "concat", from, n);
    if (add && draw(d, 2)) write_layer(d, ", coefficients: [%s]", n == 2 ? "1, -2" : "0.5, 1, -1");
    write_layer(d, "}\n");
    output(d, l, -1, add ? d->blobs[src].c : c, d->blobs[src].hw);
}

static inline void draw_end(drawing *d, int src) {
    bool scores = !d->blobs[src].hw && d->blobs[src].c >= 5;
    uint32_t which = draw(d, 3);
    if (scores && which < 2) { // a loss, or a judge that takes no gradient
        int l = begin(d, which ? "softmax_loss" : "accuracy", &src, 1);
        d->used--; // the label joins the list of sources
        write_layer(d, ", data.label]}\n");
        d->layer[l].loss = which;
        return;
    }
    int from[2] = {src, partner(d, src, true)};
    int l = begin(d, draw(d, 2) ? "euclidean_loss" : "sigmoid_loss", from, 2);
    write_layer(d, ", loss_weight: 0.3}\n");
    d->layer[l].loss = true;
}

static inline void draw_net(drawing *d, uint64_t seed) {
    static void (*const kinds[])(drawing *, int) = {draw_trained,   draw_trained, draw_pointwise,
                                                    draw_pointwise, draw_window,  draw_parts,
                                                    draw_join,      draw_join,    draw_sentence};
    memset(d, 0, sizeof *d);
    d->seed = seed;
    d->blobs[d->n_blobs++] = (blob){.name = "data.image", .c = 2, .hw = 8, .layer = -1};
    int n = 4 + (int)draw(d, 20);
    for (int i = 0; i < n; i++) { // recent blobs more often: long chains
        int back = (int)draw(d, draw(d, 2) ? 3 : (uint32_t)d->n_blobs);
        int src = d->n_blobs - 1 - (back < d->n_blobs ? back : 0);
        if (draw(d, 12) == 0) draw_end(d, src);
        else kinds[draw(d, MU_COUNT(kinds))](d, src);
    }
    draw_trained(d, d->n_blobs - 1);
    int l = begin(d, "euclidean_loss", (int[]){d->n_blobs - 1, partner(d, d->n_blobs - 1, true)}, 2);
    write_layer(d, "}\n");
    d->layer[l].loss = true;
    for (int i = d->n_layers - 1; i >= 0; i--) {
        d->layer[i].reaches |= d->layer[i].loss;
        for (int k = 0; d->layer[i].reaches && k < d->layer[i].n_src; k++)
            if (d->layer[i].src[k] >= 0) d->layer[d->layer[i].src[k]].reaches = true;
    }
}

#endif
