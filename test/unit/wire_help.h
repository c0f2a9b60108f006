// SPDX-License-Identifier: Apache-2.0
// wire_help.h - a small net whose gradients have every form, two workers, and a frame of each type: for the
// test and the fuzz target of ps/wire.h.
#ifndef TEST_UNIT_WIRE_HELP_H
#define TEST_UNIT_WIRE_HELP_H

#include "ps/wire_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIRE_PARAMS = 7, WIRE_FLOATS = 8192, WIRE_BYTES = 1 << 16 };

typedef struct wire_rig {
    mu_params ps[2];
    mu_param p[WIRE_PARAMS], *list[WIRE_PARAMS];
    mu_message_layout layout[2];
    mu_wire_share share[2];
    int64_t channel_bytes[3];
    mu_wire_shape shape;
    char *slot[2];
    float floats[WIRE_FLOATS];
    int32_t ids[WIRE_FLOATS];
    mu_wire_part part[3];
    mu_range  range[2];
    int64_t   bins[MU_WIRE_BINS];
    mu_wire_frame frame;
} wire_rig;

static inline void wire_shapes(wire_rig *r) {
    static const mu_shape shape[WIRE_PARAMS] = {
        {2, {20, 50}}, {4, {5, 3, 3, 3}}, {2, {50, 6}}, {1, {41}}, {1, {7}}, {2, {40, 30}}, {2, {9, 4}},
    };
    static const char *const names[WIRE_PARAMS] = {"fc.weight", "conv.weight", "words", "bias",
                                                   "mean",      "filters",     "other"};
    for (int i = 0; i < WIRE_PARAMS; i++) {
        mu_param *p = r->list[i] = &r->p[i];
        *p = (mu_param){.name = names[i], .shape = shape[i], .n_users = 1, .allow_factors = true};
        p->count = (size_t)mu_shape_count(&shape[i]);
        p->value = p->grad.dense = r->floats;
        p->grad.form = MU_GRAD_DENSE;
    }
    r->p[0].max_batch = 5;
    r->p[2].max_rows = 20;
    r->p[4].is_stat = true;
    r->p[5].max_batch = 3, r->p[5].max_x = 2;
    r->p[6].max_rows = 3;
}

// Gradients of n samples in the forms there is room for; 0 samples: none at all.
static inline void wire_fill(wire_rig *r, int64_t n) {
    const mu_grad dense = {.form = MU_GRAD_DENSE, .dense = r->floats};
    for (int i = 0; i < WIRE_PARAMS; i++) r->p[i].grad = n ? dense : (mu_grad){.form = MU_GRAD_NONE};
    if (n) {
        r->p[0].grad =
            (mu_grad){.form = MU_GRAD_FACTORS, .batch = n, .x = r->floats + 1, .dy = r->floats + 2};
        r->p[2].grad =
            (mu_grad){.form = MU_GRAD_ROWS, .n_rows = 2 * n, .row = r->ids, .row_value = r->floats + 3};
        r->p[5].grad = (mu_grad){.form = MU_GRAD_GATHERED,
                                 .batch = n,
                                 .x = r->floats + 4,
                                 .dy = r->floats + 5,
                                 .n_x = 2 * n,
                                 .src_row = r->ids};
        r->p[6].grad = (mu_grad){.form = MU_GRAD_ROWS, .n_rows = n, .row = r->ids, .row_value = r->floats};
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < r->layout[k].n; i++)
            mu_message_put(&r->layout[k], r->slot[k], i, r->ps[k].list[i]);
}

// half: how wide the floats of a SUM are.
static inline wire_rig *wire_rig_make_half(mu_half half) {
    wire_rig *r = calloc(1, sizeof *r);
    mu_err err = {0};
    if (!r) abort();
    for (int i = 0; i < WIRE_FLOATS; i++) r->floats[i] = (float)(i % 977) - 300, r->ids[i] = i * 5 % 9;
    wire_shapes(r);
    r->ps[0] = (mu_params){.n = 6, .list = r->list};
    r->ps[1] = (mu_params){.n = 2, .list = r->list + 5};
    for (int k = 0; k < 2; k++) {
        if (mu_message_layout_make(&r->ps[k], &r->layout[k], &err) != MU_OK) abort();
        r->share[k] = (mu_wire_share){&r->ps[k], &r->layout[k], NULL};
        r->slot[k] = aligned_alloc(64, r->layout[k].bytes);
        if (!r->slot[k]) abort();
        memset(r->slot[k], 0, r->layout[k].bytes);
    }
    r->channel_bytes[0] = 24, r->channel_bytes[1] = 0, r->channel_bytes[2] = 7;
    r->shape = (mu_wire_shape){.ranks = 4,
                               .learners = 6,
                               .workers = 2,
                               .groups = 3,
                               .rows = 32,
                               .count = WIRE_FLOATS,
                               .blocks = 3,
                               .half = half,
                               .share = r->share,
                               .channels = 3,
                               .channel_bytes = r->channel_bytes};
    r->shape.layout = mu_wire_layout_hash(&r->shape);
    for (int i = 0; i < 3; i++)
        r->part[i] = (mu_wire_part){{i, 2, 40 + i, 90 - i, 1000 * i, 16}, 0.25f * (float)i};
    r->range[0] = (mu_range){80, 96}, r->range[1] = (mu_range){112, 120};
    for (int i = 0; i < MU_WIRE_BINS; i++) r->bins[i] = 3 * i;
    wire_fill(r, 2);
    if (mu_wire_frame_init(&r->shape, &r->frame, &err) != MU_OK) abort();
    return r;
}

static inline wire_rig *wire_rig_make(void) { return wire_rig_make_half(MU_HALF_NONE); }

static inline void wire_rig_free(wire_rig *r) {
    for (int k = 0; k < 2; k++) free(r->slot[k]), mu_message_layout_fini(&r->layout[k]);
    mu_wire_frame_fini(&r->frame);
    free(r);
}

// An example of each type.
static inline mu_wire wire_example(const wire_rig *r, mu_wire_type type) {
    mu_wire w = {.type = type};
    switch (type) {
    case MU_WIRE_HELLO:
        w.hello = (mu_wire_hello){2,  4,  3,  2, 4711, 3, 0x123456789abcdef0u,
                                  -5, 77, "node-2.example", "`b.rec`"};
        break;
    case MU_WIRE_HEARTBEAT:
        w.heartbeat = (mu_wire_heartbeat){77, 1000000007, 999999937, 12, 7000000021, 81};
        break;
    case MU_WIRE_LEASE:
        w.lease = (mu_wire_lease){5, 3, 0, {640, 4, 16, 96, 9}};
        break;
    case MU_WIRE_ASK:
        w.ask = (mu_wire_ask){4, 2, MU_ASK_BEGIN, 11};
        break;
    case MU_WIRE_GRANT:
        w.grant = (mu_wire_grant){1, 2, MU_GO, {17, 9, 512, 16, 64}};
        break;
    case MU_WIRE_PUSH:
        w.push = (mu_wire_push){.id = {3, 2, 17, 9, 512, 16},
                                .worker = 0,
                                .scale = 0.5f,
                                .loss = 2.3,
                                .accuracy = 0.5,
                                .time_share = 0.25,
                                .global_rows = 64,
                                .params = 6,
                                .slot = r->slot[0]};
        break;
    case MU_WIRE_SUM:
        w.sum = (mu_wire_sum){1, 1, 3, 91, 0, 40, 3, r->part, NULL, r->floats};
        break;
    case MU_WIRE_WEIGHTS:
        w.weights = (mu_wire_weights){92, 1, 100, 130, r->floats + 100};
        break;
    case MU_WIRE_BRIDGE:
        w.bridge = (mu_wire_bridge){2, 8, r->floats};
        break;
    case MU_WIRE_EXCHANGE:
        w.exchange = (mu_wire_exchange){2, 5, 93, 4096, 0.25f, 0, 64, r->floats};
        break;
    case MU_WIRE_LOST:
        w.lost = (mu_wire_lost){4, 1, 2, "silent for 5.0 s"};
        break;
    case MU_WIRE_STOP:
        w.stop = (mu_wire_stop){MU_STOP_ASKED, 94, 8192};
        break;
    case MU_WIRE_START:
        w.start = (mu_wire_start){9, 4, 148, -2, 8, 140, 1, 0.5, 0.25, 3, 64, 2, 1, 2, r->range};
        break;
    case MU_WIRE_POINT:
        w.point = (mu_wire_point){1, 0, 6, 95, 160, 172, 94, 2, r->range};
        break;
    case MU_WIRE_COUNTS:
        w.counts = (mu_wire_counts){.rank = 2,
                                    .versions = 12,
                                    .produced = 40,
                                    .applied = 36,
                                    .rejected = 3,
                                    .lost = 1,
                                    .used = 640,
                                    .stale = 36,
                                    .stale_mean = 1.5,
                                    .bins = r->bins};
        break;
    default:
        w.error = (mu_wire_error){3,          MU_EDATA,       7, 3, 5, "job.yaml", "record 4 is broken",
                                  "Mend it.", "while reading"};
        break;
    }
    return w;
}

// The bytes of the frame that was packed.
static inline size_t wire_bytes(const wire_rig *r, unsigned char out[WIRE_BYTES]) {
    size_t n = 0;
    for (int i = 0; i < r->frame.n; i++) {
        memcpy(out + n, r->frame.part[i].iov_base, r->frame.part[i].iov_len);
        n += r->frame.part[i].iov_len;
    }
    return n;
}

static inline void wire_sign(unsigned char *frame, size_t size) {
    if (size < MU_WIRE_HEAD) return;
    const uint64_t check = mu_wire_check(frame, size);
    memcpy(frame + 24, &check, sizeof check);
}

// Packs what was unpacked: gradients by the way of a slot.
static inline mu_status wire_pack_again(wire_rig *r, mu_wire *w, mu_err *err) {
    static mu_wire_part part[MU_WIRE_IDS];
    if (w->type == MU_WIRE_PUSH) {
        w->push.slot = r->slot[w->push.worker];
        mu_wire_put_message(&r->shape, &w->push, r->slot[w->push.worker]);
    }
    for (int i = 0; w->type == MU_WIRE_SUM && i < w->sum.parts; i++) part[i] = mu_wire_sum_part(&w->sum, i);
    if (w->type == MU_WIRE_SUM) w->sum.part = part;
    return mu_wire_pack(&r->shape, w, &r->frame, err);
}

// Is what was accepted legal: does it pack, to the same bytes but for the layout of a stranger?
static inline bool wire_is_legal(wire_rig *r, mu_wire *w, const unsigned char *frame, size_t size) {
    static unsigned char again[WIRE_BYTES];
    mu_err err = {0};
    const uint64_t own = r->shape.layout;
    r->shape.layout = w->layout;
    const mu_status st = wire_pack_again(r, w, &err);
    r->shape.layout = own;
    return st == MU_OK && r->frame.bytes == size && wire_bytes(r, again) == size &&
           !memcmp(again, frame, size);
}

#endif
