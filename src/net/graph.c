// SPDX-License-Identifier: Apache-2.0
// graph.c - gradients and memory of a net whose layers are known.
//
// Who needs a gradient: a blob does when something above it leads to a loss and something at or below
// its producer has parameters. A blob with several such consumers gets a split(x) layer, so every
// gradient has exactly one writer.
//
// Memory: moments are 0..n-1 for forward, n..2n-1 for backward (layer i at 2n-1-i), 2n for "after the
// step". Each group of blobs that share memory (same_as) becomes one item of the plan.
#include "net/build.h"
#include "net/memplan.h"

#include <stdio.h>
#include <string.h>

static mu_blob *root_of(mu_blob *b) {
    while (b->same_as) b = b->same_as;
    return b;
}

static bool has_params(const mu_layer *l) { return l->class->params != NULL; }

// ---- who needs gradients ----

static void mark_backward(mu_net *net) {
    int n = net->n_layers;
    for (int i = n - 1; i >= 0; i--) { // leads to a loss
        mu_layer *l = net->layer[i];
        bool leads = l->class->flags & MU_LAYER_LOSS;
        for (int k = 0; k < MU_MAX_OUT; k++) leads |= l->out[k].needs_grad; // n_out is not known before infer
        l->in_backward = net->backward && leads && l->class->backward;
        for (int k = 0; l->in_backward && k < l->n_src; k++) l->src[k]->needs_grad = true;
    }
    for (int i = 0; i < n; i++) { // something below has parameters
        mu_layer *l = net->layer[i];
        bool below = has_params(l);
        for (int k = 0; k < l->n_src; k++) below |= l->src[k]->needs_grad;
        l->in_backward &= below;
        for (int k = 0; k < MU_MAX_OUT; k++) l->out[k].needs_grad &= l->in_backward;
    }
}

static int count_gradient_uses(const mu_net *net, const mu_blob *b) {
    int uses = 0;
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; net->layer[i]->in_backward && k < net->layer[i]->n_src; k++)
            uses += net->layer[i]->src[k] == b;
    return uses;
}

static mu_status insert_split(mu_net_builder *nb, int at, mu_blob *b, int uses, mu_err *err) {
    mu_layer *s = mu_build_new_layer(nb, at, err);
    if (!s) return MU_ENOMEM;
    const mu_plugin *split = mu_registry_find(&mu_layers, "split");
    const char *name = b->name ? b->name : b->producer->name;
    s->class = (const mu_layer_class *)split;
    s->name = mu_arena_printf(&nb->net->arena, "split(%s)", name);
    s->state = mu_arena_alloc(&nb->net->arena, split->state_size + 1);
    s->pos = b->producer->pos;
    s->in_backward = true;
    if (!s->name || !s->state) return MU_FAIL_NOMEM(err, "a split layer");
    char text[16];
    snprintf(text, sizeof text, "%d", uses);
    mu_node count = {.kind = MU_SCALAR, .pos = s->pos, .text = text, .key = "outputs"};
    mu_node *item = &count;
    mu_node map = {.kind = MU_MAP, .pos = s->pos, .n = 1, .item = &item};
    mu_bind_part part = {split->fields, s->state};
    mu_bind(nb->b, &map, s->pos, "split", &part, 1, NULL, 0);
    s->src[s->n_src++] = b;
    int next = 0;
    for (int i = at + 1; i < nb->net->n_layers; i++)
        for (int k = 0; nb->net->layer[i]->in_backward && k < nb->net->layer[i]->n_src; k++)
            if (nb->net->layer[i]->src[k] == b) {
                s->out[next].producer = s;
                s->out[next].needs_grad = true;
                nb->net->layer[i]->src[k] = &s->out[next++];
            }
    return MU_OK;
}

mu_status mu_build_splits(mu_net_builder *nb, mu_err *err) {
    mark_backward(nb->net);
    for (int i = 0; i < nb->net->n_layers; i++) {
        mu_layer *l = nb->net->layer[i];
        for (int k = 0; k < MU_MAX_OUT; k++) {
            if (!l->out[k].needs_grad) continue;
            int uses = count_gradient_uses(nb->net, &l->out[k]);
            if (uses > MU_MAX_OUT) {
                mu_diag *g = mu_diags_add(nb->b->diags, MU_DIAG_ERROR, l->pos,
                                          "`%s` goes to %d layers that learn, at most %d are possible",
                                          l->name, uses, MU_MAX_OUT);
                mu_diag_hint(nb->b->diags, g, "Put a `split` layer after it and let some of them take that.");
            } else if (uses > 1) {
                MU_TRY(insert_split(nb, i + 1, &l->out[k], uses, err));
            }
        }
    }
    return MU_OK;
}

// ---- shared memory between blobs ----

static void count_uses(mu_net *net) {
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_src; k++) net->layer[i]->src[k]->n_uses++;
}

// May `l` overwrite the memory of its source? Nobody else may read that memory afterwards.
static bool may_overwrite(const mu_net *net, const mu_layer *l) {
    const mu_blob *s = l->src[0];
    if (!(l->class->flags & MU_LAYER_IN_PLACE) || s->n_uses != 1) return false;
    if (mu_shape_count(&s->value.shape) != mu_shape_count(&l->out[0].value.shape)) return false;
    if (s->value.dtype != l->out[0].value.dtype) return false;
    if (net->backward && (l->class->flags & MU_BACK_NEEDS_SRC)) return false;
    for (;; s = s->same_as) { // every layer that wrote this memory
        const mu_layer *p = s->producer;
        if (p->class == &mu_input_class || p->n_out > 1) return false;
        if (net->backward && p->in_backward && (p->class->flags & MU_BACK_NEEDS_DST)) return false;
        if (!s->same_as) return true;
        if (s->same_as->n_uses != 1) return false;
    }
}

static void share_memory(mu_net *net, bool in_place) {
    count_uses(net);
    for (int i = 1; i < net->n_layers; i++) {
        mu_layer *l = net->layer[i];
        if (l->class->flags & MU_LAYER_ALIAS)
            for (int k = 0; k < l->n_out; k++) l->out[k].same_as = l->src[0];
        else if (in_place && l->n_src && l->n_out == 1 && may_overwrite(net, l))
            l->out[0].same_as = l->src[0];
    }
}

// ---- lifetimes ----

typedef struct plan {
    mu_net       *net;
    bool          keep_factors;
    size_t        n;
    mu_plan_item *item;
    void       ***target;       // pointers to set to block + offset
} plan;

static mu_plan_item *add_item(plan *p, size_t bytes, int first, int last, void **target) {
    mu_plan_item *it = &p->item[p->n];
    *it = (mu_plan_item){bytes, first, last, 0};
    p->target[p->n++] = target;
    return it;
}

static void extend(mu_plan_item *it, int t) {
    if (t < it->first) it->first = t;
    if (t > it->last) it->last = t;
}

// Items of values: one per root; index by scanning (nets are small).
static mu_plan_item *item_of(plan *p, void **target) {
    for (size_t i = 0; i < p->n; i++)
        if (p->target[i] == target) return &p->item[i];
    return NULL;
}

static void plan_values(plan *p) {
    mu_net *net = p->net;
    int n = net->n_layers;
    for (int i = 1; i < n; i++)
        for (int k = 0; k < net->layer[i]->n_out; k++) {
            mu_layer *l = net->layer[i];
            mu_blob *b = &l->out[k], *r = root_of(b);
            if (r->producer->class == &mu_input_class) continue;
            mu_plan_item *it = item_of(p, &r->value.data);
            if (!it) it = add_item(p, mu_tensor_count(&r->value) * 4, i, i, &r->value.data);
            extend(it, i);
            if (net->backward && l->in_backward && (l->class->flags & MU_BACK_NEEDS_DST))
                extend(it, 2 * n - 1 - i);
            if (mu_net_is_end(net, b)) extend(it, 2 * n); // results stay readable after the step
        }
    for (int i = 1; i < n; i++)
        for (int k = 0; k < net->layer[i]->n_src; k++) {
            mu_layer *l = net->layer[i];
            mu_plan_item *it = item_of(p, &root_of(l->src[k])->value.data);
            if (!it) continue;
            extend(it, i);
            if (net->backward && l->in_backward && (l->class->flags & MU_BACK_NEEDS_SRC))
                extend(it, 2 * n - 1 - i);
            bool names_rows =
                l->src[k]->value.dtype == MU_I32; // of a gradient that is applied after backward
            if (has_params(l) && (p->keep_factors || names_rows)) extend(it, 2 * n);
        }
}

// Gradients follow values, but the outputs of a split have their own, and so has a layer that works in
// place on a source without gradient (an `add` of the data and something learned).
static mu_blob *grad_root(mu_blob *b) {
    while (b->same_as && b->producer->n_out == 1 && b->same_as->needs_grad) b = b->same_as;
    return b;
}

static void plan_grads(plan *p) {
    mu_net *net = p->net;
    int n = net->n_layers;
    for (int i = 1; i < n; i++) {
        mu_layer *l = net->layer[i];
        bool any = false;
        for (int k = 0; k < l->n_out; k++) any |= l->out[k].needs_grad;
        for (int k = 0; any && k < l->n_out; k++) {
            mu_blob *b = &l->out[k], *r = grad_root(b);
            if (r->producer->class == &mu_input_class) continue;
            mu_plan_item *it = item_of(p, &r->grad.data);
            int read = 2 * n - 1 - i;
            if (!it) it = add_item(p, mu_tensor_count(&r->value) * 4, read, read, &r->grad.data);
            extend(it, read);
            if (!b->needs_grad) extend(it, 0), extend(it, 2 * n); // nobody writes it: stays zero for ever
            b->needs_grad = true;
            if (p->keep_factors && has_params(l)) extend(it, 2 * n);
        }
    }
    for (int i = 1; i < n; i++) { // written in the backward of the consumer
        mu_layer *l = net->layer[i];
        for (int k = 0; l->in_backward && k < l->n_src; k++) {
            if (!l->src[k]->needs_grad) continue;
            mu_plan_item *it = item_of(p, &grad_root(l->src[k])->grad.data);
            if (it) extend(it, 2 * n - 1 - i);
        }
    }
}

static void plan_keeps(plan *p) {
    int n = p->net->n_layers;
    for (int i = 1; i < n; i++) {
        mu_layer *l = p->net->layer[i];
        if (!l->keep_bytes) continue;
        int last = !p->net->backward ? i : p->keep_factors ? 2 * n : 2 * n - 1 - i;
        add_item(p, l->keep_bytes, i, last, &l->keep);
    }
}

static void set_pointers(mu_net *net) {
    for (int i = 1; i < net->n_layers; i++) {
        mu_layer *l = net->layer[i];
        l->scratch = net->scratch;
        for (int k = 0; k < l->n_out; k++) {
            mu_blob *b = &l->out[k];
            b->value.data = root_of(b)->value.data;
            b->grad.shape = b->value.shape;
            b->grad.dtype = MU_F32;
            b->grad.data = b->needs_grad ? grad_root(b)->grad.data : NULL;
        }
    }
}

mu_status mu_build_plan(mu_net_builder *nb, mu_err *err) {
    mu_net *net = nb->net;
    share_memory(net, !nb->o->keep_all);
    size_t most = 0;
    for (int i = 0; i < net->n_layers; i++) most += 2 * (size_t)net->layer[i]->n_out + 1;
    plan p = {.net = net, .keep_factors = nb->o->keep_factors,
              .item = mu_arena_array(&net->arena, most, sizeof *p.item),
              .target = mu_arena_array(&net->arena, most, sizeof *p.target)};
    if (!p.item || !p.target) return MU_FAIL_NOMEM(err, "the memory plan");
    plan_values(&p);
    if (net->backward) plan_grads(&p);
    plan_keeps(&p);
    MU_TRY(mu_memplan(p.item, p.n, false, &net->unplanned_bytes, err));
    MU_TRY(mu_memplan(p.item, p.n, !nb->o->keep_all, &net->activation_bytes, err));
    for (int i = 0; i < net->n_layers; i++)
        if (net->layer[i]->scratch_bytes > net->scratch_bytes)
            net->scratch_bytes = net->layer[i]->scratch_bytes;
    const mu_device_class *dev = net->device->class;
    net->activations = dev->alloc(net->device, net->activation_bytes + 64, "activations");
    net->scratch = dev->alloc(net->device, net->scratch_bytes + 64, "scratch");
    if (!net->activations || !net->scratch) {
        MU_FAIL(err, MU_ENOMEM, "out of memory for %.1f MB of activations",
                (double)(net->activation_bytes + net->scratch_bytes) * 1e-6);
        mu_err_hint(err, "A smaller `train.batch` needs proportionally less.");
        return MU_ENOMEM;
    }
    for (size_t i = 0; i < p.n; i++) *p.target[i] = (char *)net->activations + p.item[i].offset;
    set_pointers(net);
    return MU_OK;
}
