// SPDX-License-Identifier: Apache-2.0
// layer_rig.h - one layer on a bench: bound from job text, with sources, outputs, gradients, keep and
// scratch in memory of its own, so that tests can poison and compare everything it touches.
//
// Parameters come through the real net builder. Every buffer is followed by guard words.
#ifndef MU_TEST_LAYER_RIG_H
#define MU_TEST_LAYER_RIG_H

#include "net/build.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RIG_GUARD 16 // words behind each buffer
#define RIG_GUARD_WORD 0x5ca1ab1eu
#define RIG_BUFFERS 128

typedef struct rig {
    mu_job *job;
    mu_binder binder;
    mu_net net; // only arena and params are used
    mu_net_opts opts;
    mu_net_builder builder;
    mu_layer below; // producer of the sources
    mu_layer layer;
    int64_t bound[MU_MAX_SRC]; // integer sources: values are below it
    int n_buffers;
    struct {
        uint32_t *at;
        size_t words;
    } buffer[RIG_BUFFERS];
    uint64_t seed;
} rig;

static const mu_registry *const rig_registries[] = {&mu_inits, NULL};

// A random float in [-1, 1) that depends on (seed, stream, i) only.
static inline float rig_random(uint64_t seed, uint64_t stream, uint64_t i) {
    uint32_t w[4];
    mu_rng_block((mu_rng_key){{(uint32_t)seed, 77}}, stream, i / 4, w);
    return 2 * mu_rng_to_uniform(w[i % 4]) - 1;
}

// 4-byte words, 64-byte aligned, zeroed, guarded; freed by rig_fini.
static inline void *rig_buffer(rig *r, size_t words) {
    assert_true(r->n_buffers < RIG_BUFFERS);
    uint32_t *p = mu_alloc((words + RIG_GUARD) * sizeof *p, "rig");
    assert_non_null(p);
    for (size_t i = 0; i < RIG_GUARD; i++) p[words + i] = RIG_GUARD_WORD;
    r->buffer[r->n_buffers].at = p;
    r->buffer[r->n_buffers++].words = words;
    return p;
}

static inline bool rig_guards_hold(const rig *r) {
    for (int b = 0; b < r->n_buffers; b++)
        for (size_t i = 0; i < RIG_GUARD; i++)
            if (r->buffer[b].at[r->buffer[b].words + i] != RIG_GUARD_WORD) return false;
    return true;
}

static inline void rig_poison(void *p, size_t words) {
    for (size_t i = 0; p && i < words; i++) ((uint32_t *)p)[i] = 0x7fc00000u; // NaN
}

// Sources by a text such as "f4,3,6,6 i4<5@8": floats (4,3,6,6), then integers (4) below 5, of 8 streams.
static inline void rig_add_sources(rig *r, const char *spec) {
    mu_layer *l = &r->layer;
    for (const char *p = spec; *p;) {
        char *end = (char *)(uintptr_t)p;
        mu_blob *b = &r->below.out[l->n_src];
        b->value.dtype = *p == 'i' ? MU_I32 : MU_F32;
        do b->value.shape.d[b->value.shape.n++] = strtoll(end + 1, &end, 10);
        while (*end == ',');
        if (*end == '<') r->bound[l->n_src] = strtoll(end + 1, &end, 10);
        if (*end == '@') b->streams = strtoll(end + 1, &end, 10);
        b->grad.shape = b->value.shape;
        b->name = mu_arena_printf(&r->net.arena, "src%d", l->n_src);
        b->producer = &r->below;
        b->needs_grad = b->value.dtype == MU_F32;
        l->src[l->n_src++] = b;
        while (*end == ' ') end++;
        p = end;
    }
    r->below.n_out = l->n_src;
}

static inline void rig_bind(rig *r, const mu_layer_class *c, const char *settings) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\nupdater: {type: sgd, rate: 0.1}\n"
        "net:\n- {name: it, type: %s%s%s}\n",
        c->name, *settings ? ", " : "", settings);
    mu_err err = {0};
    mu_status st = mu_job_parse("rig.yaml", text, strlen(text), NULL, 0, &r->job, &err);
    if (st != MU_OK) fail_msg("layer %s {%s}: %s", c->name, settings, err.msg);
    r->binder = (mu_binder){&r->job->arena, &r->job->diags, ".", rig_registries, 0};
    r->layer.node = r->job->net->item[0];
    r->layer.state = mu_arena_alloc(&r->net.arena, c->state_size + 1);
    assert_non_null(r->layer.state);
    size_t n_params = 0;
    while (c->params && c->params[n_params]) n_params++;
    const char *others[MU_MAX_PARAM + 8] = {"name", "type", "src", "include", "exclude", "init"};
    for (size_t i = 0; i < n_params; i++) others[6 + i] = c->params[i];
    mu_bind_part part = {c->fields, r->layer.state};
    mu_bind(&r->binder, r->layer.node, r->layer.node->pos, "layer `it`", &part, c->fields ? 1 : 0, others,
            6 + n_params);
}

// Binds. MU_EJOB: the settings do not suit the layer, err says why.
static inline mu_status rig_prepare(rig *r, const mu_layer_class *c, const char *settings,
                                    const char *sources, mu_phase phase, uint64_t seed, mu_err *err) {
    memset(r, 0, sizeof *r);
    mu_err_clear(err);
    r->seed = seed;
    mu_arena_init(&r->net.arena, "rig");
    mu_layer *l = &r->layer;
    *l = (mu_layer){.class = c, .name = "it", .phase = phase, .arena = &r->net.arena, .builder = &r->builder,
                    .add_param = mu_build_add_param};
    l->key = mu_rng_key_make(seed, "layer/it");
    r->below.class = &mu_input_class;
    r->below.name = "below";
    rig_bind(r, c, settings);
    l->pos = l->node->pos;
    if (r->job->diags.n_errors) return MU_FAIL(err, MU_EJOB, "%s", r->job->diags.list[0].msg);
    r->builder = (mu_net_builder){.b = &r->binder, .o = &r->opts, .net = &r->net};
    assert_int_equal(mu_params_create(&r->net.params, err), MU_OK);
    rig_add_sources(r, sources);
    for (int i = 0; i < MU_MAX_OUT; i++) l->out[i].needs_grad = true;
    return MU_OK;
}

// Binds and infers. MU_EJOB: the settings or the sources do not suit the layer, err says why.
static inline mu_status rig_infer(rig *r, const mu_layer_class *c, const char *settings, const char *sources,
                                  mu_phase phase, uint64_t seed, mu_err *err) {
    MU_TRY(rig_prepare(r, c, settings, sources, phase, seed, err));
    return c->infer(&r->layer, err);
}

static inline void rig_fill_sources(rig *r) {
    for (int k = 0; k < r->layer.n_src; k++) {
        mu_tensor *t = &r->layer.src[k]->value;
        size_t n = mu_tensor_count(t);
        for (size_t i = 0; i < n; i++) {
            float u = rig_random(r->seed, 100 + (uint64_t)k, i);
            if (t->dtype == MU_F32) t->f[i] = u;
            else t->i[i] = (int32_t)((double)(u + 1) / 2 * (double)(r->bound[k] ? r->bound[k] : 2));
        }
    }
}

// Sets up, gives memory and fills sources, parameters and output gradients with random values.
static inline void rig_setup(rig *r) {
    mu_layer *l = &r->layer;
    mu_err err = {0};
    if (l->class->setup && l->class->setup(l, &err) != MU_OK)
        fail_msg("layer %s: setup: %s", l->class->name, err.msg);
    const bool part = r->net.params->wholes; // a part has the values of the whole layer
    if (part) mu_params_follow(r->net.params);
    else if (mu_params_alloc(r->net.params, mu_device_cpu(), true, r->seed, &err) != MU_OK)
        fail_msg("%s", err.msg);
    if (mu_params_alloc_grads(r->net.params, &err) != MU_OK) fail_msg("%s", err.msg);
    for (int k = 0; k < l->n_src; k++) {
        size_t n = mu_tensor_count(&l->src[k]->value);
        l->src[k]->value.data = rig_buffer(r, n);
        if (l->src[k]->needs_grad) l->src[k]->grad.data = rig_buffer(r, n);
    }
    for (int k = 0; k < l->n_out; k++) {
        size_t n = mu_tensor_count(&l->out[k].value);
        bool alias = l->class->flags & MU_LAYER_ALIAS;
        l->out[k].value.data = alias ? l->src[0]->value.data : rig_buffer(r, n);
        l->out[k].grad.data = rig_buffer(r, n);
        for (size_t i = 0; i < n; i++) l->out[k].grad.f[i] = rig_random(r->seed, 200 + (uint64_t)k, i);
    }
    l->keep = rig_buffer(r, (l->keep_bytes + 3) / 4);
    l->scratch = rig_buffer(r, (l->scratch_bytes + 3) / 4);
    rig_fill_sources(r);
    for (int k = 0; k < l->n_param && !part; k++) {
        mu_param *p = l->param[k];
        for (size_t i = 0; i < p->count && !p->is_stat; i++)
            p->value[i] += 0.5f * rig_random(r->seed, 300 + (uint64_t)k, i);
    }
}

static inline void rig_fini(rig *r) {
    if (r->layer.class->teardown) r->layer.class->teardown(&r->layer);
    mu_op_destroy(r->layer.op);
    for (int i = 0; i < r->n_buffers; i++) mu_free(r->buffer[i].at);
    mu_params_destroy(r->net.params);
    mu_arena_fini(&r->net.arena);
    mu_job_destroy(r->job);
}

static inline mu_step rig_step(const rig *r) {
    int64_t n = r->layer.n_src ? r->layer.src[0]->value.shape.d[0] : 0;
    return (mu_step){.phase = r->layer.phase, .first_sample = 40, .rows = n, .global_rows = n};
}

static inline void rig_forward(rig *r, const mu_step *s) {
    mu_err err = {0};
    if (r->layer.class->forward(&r->layer, s, &err) != MU_OK)
        fail_msg("layer %s: %s", r->layer.class->name, err.msg);
}

static inline void rig_backward(rig *r, const mu_step *s) {
    mu_err err = {0};
    if (r->layer.class->backward(&r->layer, s, &err) != MU_OK)
        fail_msg("layer %s: %s", r->layer.class->name, err.msg);
}

// Rows that a loss counts for each sample: the time steps of labels (n, t).
static inline int64_t rig_steps_of_loss(const rig *r) {
    const mu_layer *l = &r->layer;
    bool labels = l->n_src > 1 && l->src[1]->value.dtype == MU_I32 && l->src[1]->value.shape.n == 2;
    return labels ? l->src[1]->value.shape.d[1] : 1;
}

// What the gradients are of: the losses, or the outputs weighted by their (random) gradients.
static inline double rig_objective(rig *r, const mu_step *s) {
    rig_forward(r, s);
    double sum = 0;
    const mu_layer *l = &r->layer;
    for (int k = 0; k < l->n_metric; k++)
        if (l->metric[k].is_loss) sum += l->metric[k].sum / (double)(s->global_rows * rig_steps_of_loss(r));
    for (int k = 0; k < l->n_out; k++)
        if (l->out[k].value.dtype == MU_F32)
            for (size_t i = 0; i < mu_tensor_count(&l->out[k].value); i++)
                sum += (double)l->out[k].value.f[i] * (double)l->out[k].grad.f[i];
    return sum;
}

#endif
