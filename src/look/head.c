// SPDX-License-Identifier: Apache-2.0
// head.c - see head.h.
#include "look/head.h"

#include "base/alloc.h"
#include "file/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define TAG "head"

const char *mu_head_name(const mu_layer *l) { return l->origin ? l->origin : l->name; }

static bool is_type(const mu_layer *l, const char *type) { return !strcmp(l->class->name, type); }

// What a blob is another name of: the source of splits and reshapes.
static const mu_blob *base_of(const mu_blob *b) {
    while ((b->producer->class->flags & MU_LAYER_ALIAS) && b->producer->n_src) b = b->producer->src[0];
    return b;
}

// ---- heads of classes ----

// Labels of a sample: 1, of sequences (n, t, c) t; 0 = the layer compares something else.
static int64_t label_places(const mu_net *net, const mu_layer *l) {
    const mu_tensor *x = &l->src[0]->value, *y = &l->src[1]->value;
    if (x->dtype != MU_F32 || y->dtype != MU_I32 || x->shape.n < 1 || x->shape.d[0] != net->batch) return 0;
    if (is_type(l, "sigmoid_loss"))
        return mu_shape_count(&x->shape) == net->batch && mu_shape_count(&y->shape) == net->batch;
    if (x->shape.n < 2) return 0;
    const int64_t t = x->shape.n == 3 ? x->shape.d[1] : 1;
    return mu_shape_count(&y->shape) == net->batch * t ? t : 0;
}

// 0 = no head of classes, else the lower the better.
static int class_rank(const mu_net *net, const mu_layer *l) {
    static const char *const types[] = {"accuracy", "softmax_loss", "sigmoid_loss"};
    for (int i = 0; i < (int)MU_COUNT(types); i++)
        if (is_type(l, types[i])) return label_places(net, l) ? i + 1 : 0;
    return 0;
}

static mu_confidence confidence_of(const mu_net *net, const mu_layer *l) {
    if (!is_type(l, "accuracy")) return MU_SCORES_LOGITS;
    const mu_blob *score = base_of(l->src[0]);
    if (score->producer->class->flags & MU_LAYER_PROBABILITIES) return MU_SCORES_PROBABILITIES;
    for (int i = 1; i < net->n_layers; i++)
        if (is_type(net->layer[i], "softmax_loss") && base_of(net->layer[i]->src[0]) == score)
            return MU_SCORES_LOGITS;
    return MU_SCORES_ONLY;
}

static void find_names(const mu_source *source, mu_head *h) {
    const mu_reader *r = mu_source_reader(source);
    const mu_blob *label = h->layer->src[1];
    while (label->producer->n_src) label = label->producer->src[0]; // splits and time steps
    if (label->names) {
        h->names = label->names;
        h->n_names = label->n_classes;
    } else if (r->label_names && (!strcmp(label->name, "data.label") || label->n_classes == r->n_labels)) {
        h->names = r->label_names;
        h->n_names = r->n_labels;
    }
}

static void describe_classes(const mu_net *net, const mu_source *source, mu_head *h) {
    const mu_layer *l = h->layer;
    const char *ignore = mu_node_text(mu_node_find(l->node, "ignore_label"));
    h->places = label_places(net, l);
    h->width = is_type(l, "sigmoid_loss") ? 2 : mu_shape_inner(&l->src[0]->value.shape, 1) / h->places;
    h->ignore = ignore ? strtoll(ignore, NULL, 10) : INT64_MIN;
    h->confidence = confidence_of(net, l);
    find_names(source, h);
}

// ---- heads of numbers ----

static size_t id_of(const mu_blob *b) {
    return (size_t)b->producer->at * MU_MAX_OUT + (size_t)(b - b->producer->out);
}

// Cuts its source into parts: data behind different outputs is different data.
static bool makes_parts(const mu_layer *l) { return l->n_out > 1 && !(l->class->flags & MU_LAYER_ALIAS); }

// Marks everything that b is computed from, itself included. With `leaves`, marks stay only where this ends:
// at fields of the data, and at parts. Returns whether a parameter is involved.
static bool mark_origins(const mu_net *net, const mu_blob *b, bool leaves, bool *mark) {
    bool learned = false;
    memset(mark, 0, (size_t)net->n_layers * MU_MAX_OUT * sizeof *mark);
    mark[id_of(b)] = true;
    for (int i = b->producer->at; i > 0; i--) {
        const mu_layer *l = net->layer[i];
        bool used = false;
        if (leaves && makes_parts(l)) continue;
        for (int k = 0; k < l->n_out; k++) {
            used |= mark[id_of(&l->out[k])];
            if (leaves) mark[id_of(&l->out[k])] = false;
        }
        for (int k = 0; used && k < l->n_src; k++) mark[id_of(l->src[k])] = true;
        learned |= used && l->n_param > 0;
    }
    return learned;
}

// The source of the loss that has the answers; -1 = the other one is no target. `mark` and `leaf` have room
// for all outputs of the net.
static int answer_source(const mu_net *net, const mu_layer *l, bool *mark, bool *leaf) {
    if (!is_type(l, "euclidean_loss")) return -1;
    const mu_shape *s = &l->src[0]->value.shape;
    const bool learned[2] = {mark_origins(net, l->src[0], false, mark),
                             mark_origins(net, l->src[1], false, mark)};
    if (learned[0] == learned[1] || s->n < 1 || s->d[0] != net->batch) return -1;
    const int answer = learned[0] ? 0 : 1;
    mark_origins(net, l->src[answer], false, mark);
    mark_origins(net, l->src[1 - answer], true, leaf);
    for (size_t i = 0; i < (size_t)net->n_layers * MU_MAX_OUT; i++)
        if (mark[i] && leaf[i]) return -1;
    return answer;
}

static void describe_numbers(const mu_source *source, mu_head *h, int answer) {
    const mu_shape *s = &h->layer->src[answer]->value.shape;
    h->answer = answer;
    h->places = s->n == 3 ? s->d[1] : 1;
    h->width = mu_shape_inner(s, 1) / h->places;
    h->confidence = MU_SCORES_ONLY;
    h->ignore = INT64_MIN;
    const mu_blob *target = h->layer->src[1 - answer];
    while (target->producer->n_src == 1) target = target->producer->src[0]; // splits and time steps
    if (target->name && !strcmp(target->name, "data.target")) h->unit = mu_source_reader(source)->target_unit;
}

// ---- finding ----

typedef struct search {
    const mu_net *net;
    mu_head_kind kind;
    const char *name;
    bool *mark, *leaf;
} search;

// 0 = no head of the kind; *answer is the source with the answers.
static int rank_of(const search *s, const mu_layer *l, int *answer) {
    if (l->copy > 0) return 0; // the first copy stands for all
    *answer = 0;
    if (s->kind == MU_HEAD_CLASSES) return class_rank(s->net, l);
    *answer = answer_source(s->net, l, s->mark, s->leaf);
    return *answer >= 0;
}

// Are these scores, or probabilities made from them?
static bool comes_from(const mu_blob *b, const mu_blob *scores) {
    const mu_blob *base = base_of(b);
    if (base == scores) return true;
    const mu_layer *p = base->producer;
    for (int k = 0; (p->class->flags & MU_LAYER_PROBABILITIES) && k < p->n_src; k++)
        if (base_of(p->src[k]) == scores) return true;
    return false;
}

// The scores themselves; of probabilities the first that they are made from.
static const mu_blob *asked_of(const mu_blob *b) {
    const mu_blob *base = base_of(b);
    const bool made = base->producer->class->flags & MU_LAYER_PROBABILITIES;
    return made ? base_of(base->producer->src[0]) : base;
}

static bool same_question(const mu_layer *a, const mu_layer *b) {
    const mu_blob *x = a->src[0], *y = b->src[0];
    return (comes_from(x, asked_of(y)) || comes_from(y, asked_of(x))) &&
           base_of(a->src[1]) == base_of(b->src[1]);
}

static int choose(const search *s, mu_head *h) {
    int best = 0, answer = 0;
    for (int i = 1; i < s->net->n_layers; i++) {
        const mu_layer *l = s->net->layer[i];
        int at, rank = rank_of(s, l, &at);
        if (!rank || (s->name && strcmp(s->name, mu_head_name(l))) || (best && rank >= best)) continue;
        best = rank;
        answer = at;
        h->layer = l;
    }
    for (int i = 1; h->layer && i < s->net->n_layers; i++) {
        const mu_layer *l = s->net->layer[i];
        int at;
        if (l != h->layer && !h->other && rank_of(s, l, &at) && !same_question(l, h->layer))
            h->other = mu_head_name(l);
    }
    return answer;
}

static mu_status find_copies(const mu_net *net, mu_head *h, mu_err *err) {
    const mu_layer *l = h->layer;
    h->copy = mu_alloc_array((size_t)net->n_layers, sizeof(const mu_layer *), TAG);
    if (!h->copy) return MU_FAIL_NOMEM(err, "the head of the net");
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *o = net->layer[i];
        if (o == l || (l->origin && o->origin && !strcmp(o->origin, l->origin))) h->copy[h->n_copies++] = o;
    }
    return MU_OK;
}

mu_status mu_head_find(const mu_net *net, const mu_source *source, mu_head_kind kind, const char *name,
                       mu_head *out, mu_err *err) {
    const size_t ids = (size_t)net->n_layers * MU_MAX_OUT;
    search s = {.net = net, .kind = kind, .name = name};
    *out = (mu_head){0};
    s.mark = mu_alloc_array(ids, sizeof *s.mark, TAG);
    s.leaf = mu_alloc_array(ids, sizeof *s.leaf, TAG);
    const bool room = s.mark && s.leaf;
    const int answer = room ? choose(&s, out) : 0;
    mu_free(s.mark);
    mu_free(s.leaf);
    if (!room) return MU_FAIL_NOMEM(err, "the head of the net");
    if (!out->layer) return MU_OK;
    if (kind == MU_HEAD_CLASSES) describe_classes(net, source, out);
    else describe_numbers(source, out, answer);
    return find_copies(net, out, err);
}

void mu_head_fini(mu_head *h) {
    mu_free(h->copy);
    *h = (mu_head){0};
}

// ---- names ----

const char *mu_class_name(const char *const *names, int64_t n_names, int64_t k, char out[64]) {
    const char *name = names && k < n_names ? names[k] : NULL;
    if (!name || !name[0]) {
        snprintf(out, 64, "%" PRId64, k);
        return out;
    }
    const unsigned char first = (unsigned char)name[0];
    if (!name[1] && (first <= ' ' || first > '~')) {
        snprintf(out, 64, "byte 0x%02x", first);
        return out;
    }
    bool clean = mu_json_utf8_valid(name, strlen(name));
    for (const char *p = name; *p; p++) clean &= (unsigned char)*p >= ' ' && *p != 0x7f;
    if (clean) return name;
    size_t n = 0;
    for (; n < 63 && name[n]; n++) out[n] = name[n] >= ' ' && name[n] <= '~' ? name[n] : '?';
    out[n] = '\0';
    return out;
}

// ---- reading ----

void mu_head_each_class(const mu_head *h, int64_t rows, mu_class_visitor visit, void *ctx) {
    const bool single = is_type(h->layer, "sigmoid_loss");
    for (int c = 0; c < h->n_copies; c++) {
        const float *score = h->copy[c]->src[0]->value.f;
        const int32_t *label = h->copy[c]->src[1]->value.i;
        for (int64_t i = 0; i < rows * h->places; i++) {
            if (label[i] == h->ignore || label[i] < 0 || label[i] >= h->width) continue;
            const float pair[2] = {0, score[single ? i : 0]}; // its softmax is (1 - sigmoid, sigmoid)
            visit(ctx, single ? pair : score + i * h->width, label[i]);
        }
    }
}

static double in_unit(const mu_data_unit *u, float v) {
    return u->deviation > 0 ? (double)u->mean + (double)u->deviation * (double)v : (double)v;
}

void mu_head_add_numbers(const mu_head *h, int64_t rows, mu_number_scores *to) {
    const mu_shape *s = &h->layer->src[h->answer]->value.shape;
    const int64_t channels = s->n == 4 ? s->d[1] : h->width, hw = h->width / channels;
    for (int c = 0; c < h->n_copies; c++) {
        const float *answer = h->copy[c]->src[h->answer]->value.f;
        const float *target = h->copy[c]->src[1 - h->answer]->value.f;
        for (int64_t i = 0; i < rows * h->places; i++)
            for (int64_t k = 0; k < h->width; k++) {
                const int64_t at = i * h->width + k; // images lie channels-last
                mu_number_scores_add(to, k % channels * hw + k / channels, in_unit(&h->unit, answer[at]),
                                     in_unit(&h->unit, target[at]));
            }
    }
}
