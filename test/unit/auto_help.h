// SPDX-License-Identifier: Apache-2.0
// auto_help.h - random nets, one net for each kind of gradient, and the choice among their cuts.
// MUSTER_SEED draws others, MUSTER_NETS is their number.
#ifndef MU_TEST_AUTO_HELP_H
#define MU_TEST_AUTO_HELP_H

#include "group_help.h"

#include "net/partition_auto.h"

#include <inttypes.h>

static uint64_t seed = 20;
static int n_nets = 100;
static uint64_t n_drawn;

static inline int roll(int below) { return (int)draw(seed, ++n_drawn, (uint32_t)below); }

// ---- random nets: images, vectors, branches, shared parameters ----

enum { TEXT = 160 };

typedef struct output {
    char name[8];
    int c, side; // side 0: a vector of c
} output;

static char layer_text[LAYERS][TEXT];

typedef struct random_net {
    subject s;
    output out[LAYERS];
    int n;
} random_net;

static inline output *new_layer(random_net *r, output like) {
    output *o = &r->out[r->n];
    *o = like;
    snprintf(o->name, sizeof o->name, "l%d", r->n);
    r->s.layer[r->n] = layer_text[r->n];
    r->n++;
    return o;
}

static inline void add_image_layer(random_net *r, output from) {
    static const char *const same[] = {"relu", "tanh", "dropout", "batch_norm", "lrn"};
    const int kind = roll(9);
    output *o = new_layer(r, from);
    char *text = layer_text[r->n - 1];
    if (kind < 5) {
        snprintf(text, TEXT, "{name: %s, type: %s, src: %s", o->name, same[kind], from.name);
    } else if (kind == 5 && from.side >= 4) {
        snprintf(text, TEXT, "{name: %s, type: pooling, kernel: 2, src: %s", o->name, from.name);
        o->side /= 2;
    } else if (kind == 6) {
        o->c = 4 + roll(20);
        o->side = 0;
        snprintf(text, TEXT, "{name: %s, type: inner_product, outputs: %d, src: %s", o->name, o->c,
                 from.name);
    } else {
        o->c = 3 + roll(6);
        snprintf(text, TEXT, "{name: %s, type: convolution, kernel: 3, pad: 1, filters: %d, src: %s", o->name,
                 o->c, from.name);
    }
}

static inline void add_vector_layer(random_net *r, output from, output other) {
    const int kind = roll(7);
    output *o = new_layer(r, from);
    char *text = layer_text[r->n - 1];
    if (kind < 2) {
        snprintf(text, TEXT, "{name: %s, type: %s, src: %s", o->name, kind ? "sigmoid" : "batch_norm",
                 from.name);
    } else if (kind == 2 && other.side == 0 && strcmp(other.name, from.name)) {
        const bool add = other.c == from.c;
        snprintf(text, TEXT, "{name: %s, type: %s, src: [%s, %s]", o->name, add ? "add" : "concat", from.name,
                 other.name);
        if (!add) o->c += other.c;
    } else if (kind == 3 && from.c == 8) {
        snprintf(text, TEXT, "{name: %s, type: inner_product, outputs: 8, weight: {name: tied}, src: %s",
                 o->name, from.name);
    } else {
        static const int sizes[] = {8, 8, 7, 40};
        o->c = sizes[roll(4)];
        snprintf(text, TEXT, "{name: %s, type: inner_product, outputs: %d, src: %s", o->name, o->c,
                 from.name);
    }
}

static inline void finish_net(random_net *r) {
    snprintf(layer_text[r->n], TEXT, "{name: end, type: inner_product, outputs: 5, src: l%d", r->n - 1);
    r->s.layer[r->n] = layer_text[r->n];
    r->n++;
    snprintf(layer_text[r->n], TEXT, "{name: loss, type: softmax_loss, src: [end, data.label]");
    r->s.layer[r->n] = layer_text[r->n];
    r->n++;
}

static inline void draw_net(random_net *r, int layers) {
    *r = (random_net){.s = {"random", "bp", {0}, {NULL}}};
    const output data = {"D", 2, 8};
    while (r->n < layers - 2) {
        output from = data, other = data;
        if (r->n) from = r->out[r->n - 1 - roll(r->n < 3 ? r->n : 3)], other = r->out[roll(r->n)];
        if (from.side) add_image_layer(r, from);
        else add_vector_layer(r, from, other);
    }
    finish_net(r);
    for (int i = 0; i < r->n; i++) { // the data has a dot in its name
        char *d = strstr(layer_text[i], "src: D");
        if (d) memcpy(d, "src: data.image", sizeof "src: data.image");
    }
}

static const subject kinds[] = {
    {"factors", // of the first two layers, by batch and whole
     "bp",
     {0},
     {"{name: fc1, type: inner_product, src: data.image, outputs: 90", "{name: act, type: relu",
      "{name: fc2, type: inner_product, outputs: 70",
      "{name: frozen, type: inner_product, outputs: 30, "
      "weight: {lr: 0}, bias: {lr: 0}",
      "{name: fc3, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc3, data.label]"}},
    {"unrolled",
     "bptt",
     {0},
     {"{name: word, type: embedding, src: data.words, dim: 7, unroll: 6",
      "{name: gru, type: gru_cell, hidden: 8, unroll: 6, src: [word, {layer: gru, shift: 1}, "
      "{layer: data.begin, connect: one_to_all}]",
      "{name: drop, type: dropout, ratio: 0.2, src: gru, unroll: 6",
      "{name: out, type: inner_product, outputs: 9, unroll: 6",
      "{name: loss, type: softmax_loss, src: [out, data.next], unroll: 6"}},
    {"gathered",
     "bp",
     {0},
     {"{name: word, type: embedding, src: data.words, dim: 30, vocab: 100",
      "{name: conv, type: sentence_convolution, widths: [2, 3], filters: 60", "{name: drop, type: dropout",
      "{name: fc, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc, data.label]"}},
    {"tied",
     "bp",
     {0},
     {"{name: flat, type: flatten, src: data.image", "{name: enc, type: inner_product, outputs: 12",
      "{name: code, type: sigmoid",
      "{name: dec, type: inner_product, outputs: 128, transpose: true, weight: {name: enc.weight}",
      "{name: loss, type: sigmoid_loss, src: [dec, flat]"}},
    {"half", // the last user of a shared parameter leads to no loss
     "bp",
     {0},
     {"{name: fc1, type: inner_product, src: data.image, outputs: 8, weight: {name: one}",
      "{name: fc2, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc2, data.label]",
      "{name: aside, type: inner_product, src: data.image, outputs: 8, weight: {name: one}"}},
    {"contrast",
     "cd",
     {.k = 2, .persistent = true, .chains = ROWS},
     {"{name: low, type: rbm, src: data.image, hidden: 300", "{name: high, type: rbm, hidden: 9"}},
};

// ---- a net and its choices ----

typedef struct trial {
    model m;
    mu_partition p; // just the arena
    mu_partition_opts o;
    mu_partitioner pr;
    mu_chooser *c;
} trial;

static inline void open_trial(trial *t, const subject *s, const mu_partition_opts *o) {
    char text[8192];
    mu_err err = {0};
    memset(t, 0, sizeof *t);
    write_job(text, sizeof text, s, NULL);
    open_model(&t->m, text);
    check(&t->m, shape_model(&t->m, s, &err), &err);
    t->o = *o;
    t->o.whole = t->m.net;
    t->o.split = MU_SPLIT_AUTO;
    mu_arena_init(&t->p.arena, "test");
    t->p.whole = t->m.net;
    t->p.workers = t->o.workers;
    t->pr = (mu_partitioner){.p = &t->p, .o = &t->o, .b = &t->m.b};
    check(&t->m, mu_partition_decide(&t->pr, &err), &err);
    check(&t->m, mu_chooser_open(&t->pr, &t->c, &err), &err);
    check(&t->m, mu_chooser_solve(t->c, &err), &err);
}

static inline void close_trial(trial *t) {
    mu_chooser_close(t->c);
    mu_arena_fini(&t->p.arena);
    mu_net_destroy(t->m.net);
    mu_job_destroy(t->m.job);
}

static inline void same_traffic(const char *net, const char *what, const mu_traffic *a, const mu_traffic *b,
                                const char *text) {
    if (a->values == b->values && a->gradients == b->gradients && a->weights == b->weights) return;
    fail_msg("seed %" PRIu64 ", %s: %s %" PRId64 " + %" PRId64 " + %" PRId64 ", sent %" PRId64 " + %" PRId64
             " + %" PRId64 "\n%s",
             seed, net, what, a->values, a->gradients, a->weights, b->values, b->gradients, b->weights, text);
}

static inline void read_settings(void) {
    if (getenv("MUSTER_SEED")) seed = strtoull(getenv("MUSTER_SEED"), NULL, 10);
    if (getenv("MUSTER_NETS")) n_nets = atoi(getenv("MUSTER_NETS"));
    printf("seed %" PRIu64 "\n", seed);
    describe_data();
}

#endif
