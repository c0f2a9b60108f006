// SPDX-License-Identifier: Apache-2.0
// params.c - the parameter set: names, places, blocks and initial values. The layout is in params.h.
//
// A parameter is added while the net that defines the set is shaped; from then on the list and all offsets
// stand, so an index or an offset means the same in every process and in every block. Blocks are taken later
// and one by one: the parent of learners needs no gradients, a prediction no history.
#include "net/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ALIGN_FLOATS 16u

mu_status mu_params_create(mu_params **out, mu_err *err) {
    mu_params *ps = mu_alloc(sizeof *ps, "params");
    if (!ps) return MU_FAIL_NOMEM(err, "the parameter set");
    mu_arena_init(&ps->arena, "params");
    *out = ps;
    return MU_OK;
}

void mu_params_destroy(mu_params *ps) {
    if (!ps) return;
    for (int i = 0; i < ps->n_raw; i++) ps->device->class->free(ps->device, ps->raw[i]);
    mu_arena_fini(&ps->arena);
    mu_free(ps->list);
    mu_free(ps);
}

mu_param *mu_params_find(const mu_params *ps, const char *name) {
    for (int i = 0; i < ps->n; i++)
        if (!strcmp(ps->list[i]->name, name)) return ps->list[i];
    return NULL;
}

static mu_status check_same(const mu_param *have, const mu_param *want, mu_err *err) {
    char a[96], b[96];
    if (mu_shape_equal(&have->shape, &want->shape)) return MU_OK;
    mu_status s = MU_FAIL_AT(err, MU_EJOB, want->pos,
                             "parameter `%s` is shared with shape %s here and %s elsewhere", want->name,
                             mu_shape_text(&want->shape, a), mu_shape_text(&have->shape, b));
    if (have->shape.n == 2 && want->shape.n == 2 && have->shape.d[0] == want->shape.d[1] &&
        have->shape.d[1] == want->shape.d[0])
        mu_err_hint(err, "An inner_product with `transpose: true` takes it the other way round.");
    return s;
}

static bool same_field(const mu_field *f, const char *a, const char *b) {
    const char *text_a, *text_b;
    switch (f->type) {
    case MU_BOOL: return *(const bool *)a == *(const bool *)b;
    case MU_INT:
    case MU_INT_OR_AUTO: return !memcmp(a, b, sizeof(int64_t));
    case MU_FLOAT: return !memcmp(a, b, sizeof(float));
    case MU_DOUBLE: return !memcmp(a, b, sizeof(double));
    case MU_ENUM: return !memcmp(a, b, sizeof(int));
    case MU_STRING:
    case MU_PATH:
        memcpy(&text_a, a, sizeof text_a);
        memcpy(&text_b, b, sizeof text_b);
        return !strcmp(text_a ? text_a : "", text_b ? text_b : "");
    default: return false; // no initialiser has lists
    }
}

bool mu_params_same_init(const mu_class_ref *a, const mu_class_ref *b) {
    if (a->plugin != b->plugin) return false;
    const char *at_a = a->state, *at_b = b->state;
    for (const mu_field *f = a->plugin ? a->plugin->fields : NULL; f && f->key; f++)
        if (!same_field(f, at_a + f->offset, at_b + f->offset)) return false;
    return true;
}

mu_status mu_params_add(mu_params *ps, const mu_param *proto, mu_param **out, mu_err *err) {
    mu_param *p = mu_params_find(ps, proto->name);
    if (p) {
        MU_TRY(check_same(p, proto, err));
        if (!ps->complete) p->n_users++; // nets of other phases do not count
        *out = p;
        return MU_OK;
    }
    if (ps->complete)
        return MU_FAIL_AT(err, MU_EJOB, proto->pos, "parameter `%s` does not exist in the training net",
                          proto->name);
    int64_t count;
    if (!mu_shape_count_checked(&proto->shape, &count) || count <= 0 || count > (int64_t)1 << 40) {
        char a[96];
        return MU_FAIL_AT(err, MU_EJOB, proto->pos, "parameter `%s` has an impossible shape %s", proto->name,
                          mu_shape_text(&proto->shape, a));
    }
    if (ps->n == ps->cap) {
        int cap = ps->cap ? 2 * ps->cap : 16;
        mu_param **list = mu_realloc(ps->list, (size_t)cap * sizeof *list, "params");
        if (!list) return MU_FAIL_NOMEM(err, "the parameter list");
        ps->list = list;
        ps->cap = cap;
    }
    p = mu_arena_alloc(&ps->arena, sizeof *p);
    char *name = mu_arena_strdup(&ps->arena, proto->name);
    void *state = proto->init.plugin ? mu_arena_alloc(&ps->arena, proto->init.plugin->state_size + 1) : NULL;
    if (!p || !name || (proto->init.plugin && !state)) return MU_FAIL_NOMEM(err, "a parameter");
    *p = *proto;
    p->name = name;
    if (state) { // the binder's arena dies with the net's builder; the set outlives it
        if (proto->init.plugin->state_size) memcpy(state, proto->init.state, proto->init.plugin->state_size);
        p->init.state = state;
    }
    p->index = ps->n;
    p->offset = ps->count;
    p->count = (size_t)count;
    p->n_users = 1;
    ps->count += (p->count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    ps->list[ps->n++] = p;
    *out = p;
    return MU_OK;
}

// Blocks that are streamed together (value, gradient, history at one index) must not lie at the same
// offset of a page: the core would take a load for one that depends on a store to another block
// (14-18 % of an update's time at 4 MB). So each block starts some odd number of cache lines later.
static mu_status take_block(mu_params *ps, const char *tag, float **out, mu_err *err) {
    static const size_t lines[MU_PARAM_BLOCKS] = {0, 5, 11, 17, 23};
    size_t shift = lines[ps->n_raw] * MU_CACHE_LINE;
    char *raw = ps->device->class->alloc(ps->device, ps->count * sizeof(float) + shift + MU_CACHE_LINE, tag);
    if (raw) {
        ps->raw[ps->n_raw++] = raw;
        *out = (float *)(void *)(raw + shift);
        return MU_OK;
    }
    MU_FAIL(err, MU_ENOMEM, "out of memory for %.1f MB of %s", (double)ps->count * 4e-6, tag);
    mu_err_hint(err, "Make the net smaller, or close other programs.");
    return MU_ENOMEM;
}

mu_status mu_params_load(mu_params *ps, mu_err *err) {
    for (int i = 0; i < ps->n; i++) {
        mu_param *p = ps->list[i];
        const mu_init_class *init = (const mu_init_class *)p->init.plugin;
        if (init && init->load) MU_TRY(init->load(p->init.state, p->name, &p->shape, p->value, err));
        if (p->start) MU_TRY(p->start(p, p->start_ctx, err));
    }
    ps->late = false;
    return MU_OK;
}

mu_status mu_params_alloc(mu_params *ps, mu_device *d, bool training, uint64_t seed, mu_err *err) {
    ps->device = d;
    MU_TRY(take_block(ps, "parameters", &ps->value, err));
    for (int i = 0; i < ps->n; i++) {
        mu_param *p = ps->list[i];
        p->value = ps->value + p->offset;
        const char *purpose = mu_arena_printf(&ps->arena, "init/%s", p->name);
        if (!purpose) return MU_FAIL_NOMEM(err, "a name");
        const mu_init_class *init = (const mu_init_class *)p->init.plugin;
        const mu_init_args a = {mu_rng_key_make(seed, purpose), &p->shape, p->fan_in, p->fan_out};
        if (init && init->fill) init->fill(p->init.state, &a, p->value);
    }
    // Where nothing is trained the values are about to be read from a model, or given by the caller.
    return training && !ps->late ? mu_params_load(ps, err) : MU_OK;
}

mu_status mu_params_alloc_grads(mu_params *ps, mu_err *err) {
    if (ps->grad) return MU_OK;
    MU_TRY(take_block(ps, "gradients", &ps->grad, err));
    for (int i = 0; i < ps->n; i++) ps->list[i]->grad.dense = ps->grad + ps->list[i]->offset;
    return MU_OK;
}

mu_status mu_params_alloc_slots(mu_params *ps, int n_slots, mu_err *err) {
    for (int i = ps->n_slots; i < n_slots; i++) {
        MU_TRY(take_block(ps, "updater history", &ps->slot[i], err));
        ps->n_slots = i + 1;
    }
    return MU_OK;
}

void mu_params_rebase(mu_params *ps, float *value, float *const *slot) {
    ps->value = value;
    for (int k = 0; k < ps->n_slots; k++) ps->slot[k] = slot[k];
    for (int i = 0; i < ps->n; i++) ps->list[i]->value = value + ps->list[i]->offset;
}

int64_t mu_params_n_trained(const mu_params *ps) {
    int64_t n = 0;
    for (int i = 0; i < ps->n; i++)
        if (!ps->list[i]->is_stat) n += (int64_t)ps->list[i]->count;
    return n;
}
