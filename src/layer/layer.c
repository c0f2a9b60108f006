// SPDX-License-Identifier: Apache-2.0
// layer.c - the registry of layers and what infer and setup functions call.
#include "layer/layer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "layer_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_layers = {"layer", MU_COUNT(list), list};

mu_status mu_layer_add_out(mu_layer *l, const char *suffix, mu_shape shape, mu_dtype type, mu_err *err) {
    char text[96];
    int64_t count, bytes;
    if (l->n_out == MU_MAX_OUT) return mu_layer_fail(l, err, "more than %d outputs", MU_MAX_OUT);
    if (!mu_shape_count_checked(&shape, &count) ||
        __builtin_mul_overflow(count, (int64_t)sizeof(float), &bytes))
        return mu_layer_fail(l, err, "output %s is too large", mu_shape_text(&shape, text));
    if (count == 0) return mu_layer_fail(l, err, "output %s is empty", mu_shape_text(&shape, text));
    const char *name = suffix ? mu_arena_printf(l->arena, "%s.%s", l->name, suffix) : l->name;
    if (!name) return MU_FAIL_NOMEM(err, "the name of an output");
    mu_blob *b = &l->out[l->n_out++]; // what the net has noted in it (needs_grad) stays
    b->name = name;
    b->producer = l;
    b->value = (mu_tensor){.shape = shape, .dtype = type};
    b->grad = (mu_tensor){.shape = shape, .dtype = MU_F32};
    return MU_OK;
}

mu_status mu_layer_add_param(mu_layer *l, const char *what, mu_shape shape, int64_t fan_in, int64_t fan_out,
                             const char *init, mu_err *err) {
    mu_param proto = {.shape = shape, .fan_in = fan_in, .fan_out = fan_out};
    return l->add_param(l, &proto, what, init, err);
}

mu_status mu_layer_add_stat(mu_layer *l, const char *what, mu_shape shape, const char *init, mu_err *err) {
    mu_param proto = {.shape = shape, .fan_in = 1, .fan_out = 1, .is_stat = true};
    return l->add_param(l, &proto, what, init, err);
}

mu_status mu_layer_add_state(mu_layer *l, const char *what, mu_shape shape, mu_err *err) {
    mu_param proto = {.shape = shape, .fan_in = 1, .fan_out = 1, .is_stat = true, .is_state = true};
    return l->add_param(l, &proto, what, "constant", err);
}

mu_status mu_layer_add_choice(mu_layer *l, const char *what, int options, mu_err *err) {
    mu_param proto = {.shape = MU_SHAPE(1), .fan_in = 1, .fan_out = 1, .is_stat = true, .options = options};
    return l->add_param(l, &proto, what, "constant", err);
}

// Any number can stand in a file.
int mu_layer_choice(const mu_param *p) {
    const float v = p->value[0];
    return v > 0 && v < (float)p->options - 0.5f ? (int)(v + 0.5f) : 0;
}

mu_status mu_layer_fail(const mu_layer *l, mu_err *err, const char *fmt, ...) {
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return MU_FAIL_AT(err, MU_EJOB, l->pos, "layer `%s`: %s", l->name, text);
}

mu_metric *mu_layer_add_metric(mu_layer *l, const char *name, bool is_loss) {
    assert(l->n_metric < MU_MAX_METRIC); // classes limit what the job can ask for
    mu_metric *m = &l->metric[l->n_metric++];
    *m = (mu_metric){.name = name, .is_loss = is_loss};
    return m;
}

// ---- parts ----

static bool has_features(const mu_tensor *t) { return t->dtype == MU_F32 && mu_feature_axis(&t->shape) >= 0; }

mu_cut_rules mu_layer_cut_rules(const mu_layer *l) {
    const mu_layer_class *c = l->class;
    mu_cut_rules r = {.cuts = c->cuts, .grain = 1};
    if (!r.cuts && (c->flags & MU_LAYER_IN_PLACE)) r.cuts = MU_CUT_BATCH | MU_CUT_FEATURE;
    if (c->cut_rules) c->cut_rules(l, &r);
    bool features = l->n_out > 0;
    for (int k = 0; k < l->n_out; k++) features &= has_features(&l->out[k].value);
    if (!features) r.cuts &= ~(unsigned)MU_CUT_FEATURE;
    return r;
}

mu_cut mu_layer_src_cut(const mu_layer *l, const mu_cut_rules *rules, const mu_cut *part, int k) {
    const mu_tensor *t = &l->src[k]->value;
    mu_cut c = {.batch = part->batch};
    if (mu_is_cut(&part->feature) && !(rules->cuts & MU_CUT_READS_ALL) && has_features(t))
        c.feature = mu_extent_scaled(&part->feature, mu_features(&t->shape));
    return c;
}

mu_cut mu_layer_out_cut(const mu_layer *l, const mu_cut *part, int k) {
    mu_cut c = {.batch = part->batch};
    if (mu_is_cut(&part->feature))
        c.feature = mu_extent_scaled(&part->feature, mu_features(&l->out[k].value.shape));
    return c;
}

static size_t whole_lines(size_t bytes) { return (bytes + MU_CACHE_LINE - 1) & ~(size_t)(MU_CACHE_LINE - 1); }

mu_status mu_layer_set_op(mu_layer *l, const mu_op_desc *d, mu_err *err) {
    assert(!l->op && !l->keep_bytes && !l->scratch_bytes);
    MU_TRY(mu_op_create(d, l->name, &l->op, err));
    l->keep_bytes = whole_lines(l->op->keep_bytes);
    l->scratch_bytes = whole_lines(l->op->scratch_bytes);
    return MU_OK;
}

mu_cost mu_layer_cost(const mu_layer *l) {
    mu_cost c = {0};
    if (l->class->cost) {
        l->class->cost(l, &c);
        return c;
    }
    for (int k = 0; k < l->n_src; k++) c.bytes += (double)mu_tensor_count(&l->src[k]->value);
    for (int k = 0; k < l->n_out; k++) c.bytes += (double)mu_tensor_count(&l->out[k].value);
    c.bytes *= (double)sizeof(float); // integers are as long
    return c;
}
