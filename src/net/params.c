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

static mu_status room_for_one(mu_params *ps, mu_err *err) {
    if (ps->n < ps->cap) return MU_OK;
    int cap = ps->cap ? 2 * ps->cap : 16;
    mu_param **list = mu_realloc(ps->list, (size_t)cap * sizeof *list, "params");
    if (!list) return MU_FAIL_NOMEM(err, "the parameter list");
    ps->list = list;
    ps->cap = cap;
    return MU_OK;
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
    MU_TRY(room_for_one(ps, err));
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

// ---- pieces ----

mu_status mu_params_create_pieces(const mu_params *wholes, mu_params **out, mu_err *err) {
    MU_TRY(mu_params_create(out, err));
    (*out)->wholes = wholes;
    (*out)->count = wholes->count;
    return MU_OK;
}

// The rows of `whole` that a part with these features has. False: they cannot be shared out like that.
static bool rows_of(const mu_param *whole, const mu_extent *feature, mu_extent *rows) {
    const int64_t n = mu_param_rows(whole);
    *rows = (mu_extent){0, n, 0};
    if (!mu_is_cut(feature)) return true;
    if (!whole->shape.n) return false;
    if (feature->begin * n % feature->whole || feature->end * n % feature->whole) return false;
    *rows = mu_extent_scaled(feature, n);
    return true;
}

static mu_status check_piece(const mu_param *whole, const mu_param *want, const mu_extent *feature,
                             mu_extent *rows, mu_err *err) {
    char a[96], b[96];
    mu_shape shape = whole->shape;
    const bool shared_out = rows_of(whole, feature, rows);
    if (shape.n) shape.d[0] = rows->end - rows->begin;
    if (shared_out && mu_shape_equal(&shape, &want->shape)) return MU_OK;
    return MU_FAIL_AT(err, MU_EJOB, want->pos,
                      "a part of `%s` %s has shape %s: its rows are not shared out as the features are",
                      whole->name, mu_shape_text(&whole->shape, a), mu_shape_text(&want->shape, b));
}

static bool same_piece(const mu_param *p, const mu_param *whole, const mu_extent *rows) {
    return p->whole == whole && p->row0 == rows->begin && mu_param_rows(p) == rows->end - rows->begin;
}

mu_status mu_params_add_piece(mu_params *ps, const mu_param *proto, const mu_extent *feature, int piece,
                              mu_param **out, mu_err *err) {
    const mu_param *whole = mu_params_find(ps->wholes, proto->name);
    mu_extent rows;
    if (!whole)
        return MU_FAIL_AT(err, MU_EJOB, proto->pos, "parameter `%s` does not exist in the whole net",
                          proto->name);
    MU_TRY(check_piece(whole, proto, feature, &rows, err));
    for (int i = 0; i < ps->n; i++)
        if (same_piece(ps->list[i], whole, &rows)) {
            ps->list[i]->n_users++;
            *out = ps->list[i];
            return MU_OK;
        }
    MU_TRY(room_for_one(ps, err));
    mu_param *p = mu_arena_alloc(&ps->arena, sizeof *p);
    const char *name = mu_is_cut(feature) ? mu_arena_printf(&ps->arena, "%s@%d", whole->name, piece)
                                          : mu_arena_strdup(&ps->arena, whole->name);
    if (!p || !name) return MU_FAIL_NOMEM(err, "a piece of a parameter");
    *p = *whole; // how it learns
    p->name = name;
    p->whole = whole;
    p->row0 = rows.begin;
    p->shape = proto->shape;
    p->count = (size_t)mu_shape_count(&p->shape);
    p->offset = whole->offset + (size_t)rows.begin * (whole->count / (size_t)mu_param_rows(whole));
    p->index = ps->n;
    p->n_users = 1;
    p->grad = (mu_grad){0};
    p->max_rows = p->max_batch = p->max_x = 0; // its layer says
    p->allow_factors = false;
    p->start = NULL;
    ps->list[ps->n++] = *out = p;
    return MU_OK;
}

void mu_params_follow(mu_params *ps) {
    const mu_params *w = ps->wholes;
    ps->device = w->device;
    ps->n_slots = w->n_slots;
    mu_params_rebase(ps, w->value, w->slot);
}

// ---- blocks ----

// Blocks that are streamed together (value, gradient, history at one index) must not lie at the same
// offset of a page: the core would take a load for one that depends on a store to another block
// (14-18 % of an update's time at 4 MB). So each block starts some odd number of cache lines later.
static mu_status take_block(mu_params *ps, const char *tag, float **out, mu_err *err) {
    static const size_t lines[MU_PARAM_BLOCKS] = {0, 5, 11, 17, 23};
    size_t shift = lines[ps->n_raw + (ps->wholes != NULL)] * MU_CACHE_LINE; // values are the wholes'
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
