// SPDX-License-Identifier: Apache-2.0
// beginning.c - see beginning.h.
#include "learners/beginning.h"

#include "ps/merge.h"

#include <string.h>

enum { CHUNK = 1 << 20, BLOCKS = 2 + 2 * MU_MAX_SLOTS };

typedef struct beginning {
    mu_nodes *nodes;
    mu_training *t;
    float *block[BLOCKS]; // weights, histories, center, its histories
    int n;
    bool started;
    int64_t got; // floats
} beginning;

static void list_blocks(beginning *b) {
    const mu_params *ps = b->t->s->params;
    mu_merge_blocks *m = b->t->s->merge;
    b->block[b->n++] = ps->value;
    for (int k = 0; k < ps->n_slots; k++) b->block[b->n++] = ps->slot[k];
    if (m) b->block[b->n++] = m->center;
    for (int k = 0; m && k < m->n_slots; k++) b->block[b->n++] = m->history[k];
}

mu_status mu_beginning_send_block(mu_nodes *n, int peer, int block, int64_t number, const float *floats,
                                  mu_err *err) {
    const int64_t count = n->shape.count;
    for (int64_t at = 0; at < count; at += CHUNK) {
        const mu_wire w = {.type = MU_WIRE_WEIGHTS,
                           .weights = {.version = number,
                                       .block = block,
                                       .begin = at,
                                       .end = count - at < CHUNK ? count : at + CHUNK,
                                       .floats = floats + at}};
        MU_TRY(mu_nodes_send(n, peer, MU_TOPIC_COPY, &w, err));
    }
    return MU_OK;
}

static mu_status give(beginning *b, mu_err *err) {
    const mu_position *at = &b->t->at;
    const mu_finished *f = &b->t->finished;
    const mu_merge_blocks *m = b->t->s->merge;
    const mu_wire w = {.type = MU_WIRE_START,
                       .start = {.step = at->step,
                                 .partial = at->partial,
                                 .samples = at->samples,
                                 .extra_updates = at->extra_updates,
                                 .version = at->version,
                                 .applied = at->applied,
                                 .repeated = at->repeated,
                                 .rate_scale = at->rate_scale,
                                 .time_share = at->time_share,
                                 .merges = m ? m->merges : 0,
                                 .cursor = f->cursor,
                                 .dropped = f->dropped,
                                 .center = m && m->filled,
                                 .ranges = f->n,
                                 .range = f->range}};
    MU_TRY(mu_nodes_send(b->nodes, -1, MU_TOPIC_WORD, &w, err));
    for (int i = 0; i < b->n; i++) MU_TRY(mu_beginning_send_block(b->nodes, -1, i, 0, b->block[i], err));
    return mu_nodes_wait(b->nodes, NULL, NULL, err);
}

static mu_status take_start(beginning *b, const mu_wire_start *w, mu_err *err) {
    mu_finished *f = &b->t->finished;
    mu_merge_blocks *m = b->t->s->merge;
    b->t->at = (mu_position){.step = w->step,
                             .partial = w->partial,
                             .samples = w->samples,
                             .extra_updates = w->extra_updates,
                             .version = w->version,
                             .applied = w->applied,
                             .repeated = w->repeated,
                             .rate_scale = w->rate_scale,
                             .time_share = w->time_share};
    if (w->ranges > MU_FINISHED_MAX)
        return MU_FAIL(err, MU_EDATA, "a list of %d ranges of samples", w->ranges);
    *f = (mu_finished){.cursor = w->cursor, .dropped = w->dropped, .n = w->ranges};
    if (w->ranges) memcpy(f->range, w->range, (size_t)w->ranges * sizeof *f->range);
    int64_t end = f->cursor;
    for (int i = 0; i < f->n; i++) {
        if (f->range[i].first <= end || f->range[i].end <= f->range[i].first)
            return MU_FAIL(err, MU_EDATA, "ranges of samples that do not rise");
        end = f->range[i].end;
    }
    if (m) m->filled = w->center, m->merges = w->merges;
    b->started = true;
    return MU_OK;
}

static mu_status take(void *ctx, int peer, const mu_wire *w, bool *later, mu_err *err) {
    beginning *b = ctx;
    if (peer == 0 && w->type == MU_WIRE_START) return take_start(b, &w->start, err);
    if (peer != 0 || w->type != MU_WIRE_WEIGHTS || w->weights.version || w->weights.block >= b->n) {
        *later = true; // of the training, which this rank has not begun yet
        return MU_OK;
    }
    const mu_wire_weights *x = &w->weights;
    memcpy(b->block[x->block] + x->begin, x->floats, (size_t)(x->end - x->begin) * sizeof(float));
    b->got += x->end - x->begin;
    return MU_OK;
}

static bool has_all(void *ctx) {
    const beginning *b = ctx;
    return b->started && b->got >= b->n * b->nodes->shape.count;
}

mu_status mu_beginning_share(mu_nodes *n, mu_training *t, mu_err *err) {
    beginning b = {.nodes = n, .t = t};
    list_blocks(&b);
    if (n->rank == 0) return give(&b, err);
    n->take = take;
    n->ctx = &b;
    const mu_status st = mu_nodes_wait(n, has_all, &b, err);
    n->take = NULL;
    n->ctx = NULL;
    MU_TRY(st);
    return mu_state_seek(t->s, &t->at, &t->finished, err);
}
