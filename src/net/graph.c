// SPDX-License-Identifier: Apache-2.0
// graph.c - gradients and memory of a net whose layers are known.
//
// Who needs a gradient: a blob does when something above it leads to a loss, or is a penalty, and something
// at or below its producer has parameters. A blob with several such consumers gets a split(x) layer, so
// every gradient has exactly one writer. Unrolled nets have thousands of layers: nothing here compares all
// with all.
//
// Memory: moments are 0..n-1 for forward, n..2n-1 for backward (layer i at 2n-1-i), 2n for "after the
// step". Each group of blobs that share memory (same_as) becomes one item of the plan.
#include "net/build.h"

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
        bool leads = l->leads || (l->class->flags & (MU_LAYER_LOSS | MU_LAYER_PENALTY));
        for (int k = 0; k < MU_MAX_OUT; k++) leads |= l->out[k].needs_grad; // n_out is not known before infer
        l->in_backward = net->backward && !l->contrast && leads && l->class->backward;
        for (int k = 0; l->in_backward && k < l->n_src; k++) l->src[k]->needs_grad = true;
    }
    for (int i = 0; i < n; i++) { // something below has parameters
        mu_layer *l = net->layer[i];
        bool below = l->learns || has_params(l);
        for (int k = 0; k < l->n_src; k++) below |= l->src[k]->needs_grad;
        l->in_backward &= below;
        for (int k = 0; k < MU_MAX_OUT; k++) l->out[k].needs_grad &= l->in_backward;
    }
}

typedef struct use { mu_layer *l; int src; } use; // layer l takes a blob as its source `src`

static size_t id_of(const mu_blob *b) {
    return (size_t)b->producer->at * MU_MAX_OUT + (size_t)(b - b->producer->out);
}

static mu_status new_split(mu_net_builder *nb, mu_blob *b, const char *name, size_t outputs, mu_layer **out,
                           mu_err *err) {
    mu_layer *s = mu_build_new_layer(nb, err);
    if (!s) return MU_ENOMEM;
    const mu_plugin *split = mu_registry_find(&mu_layers, "split");
    s->class = (const mu_layer_class *)split;
    s->name = mu_arena_printf(&nb->net->arena, "split(%s)", name);
    s->state = mu_arena_alloc(&nb->net->arena, split->state_size + 1);
    s->pos = b->producer->pos;
    s->in_backward = s->inserted = true;
    if (!s->name || !s->state) return MU_FAIL_NOMEM(err, "a split layer");
    char text[16];
    snprintf(text, sizeof text, "%zu", outputs);
    mu_node count = {.kind = MU_SCALAR, .pos = s->pos, .text = text, .key = "outputs"};
    mu_node *item = &count;
    mu_node map = {.kind = MU_MAP, .pos = s->pos, .n = 1, .item = &item};
    mu_bind_part part = {split->fields, s->state};
    mu_bind(nb->b, &map, s->pos, "split", &part, 1, NULL, 0);
    s->src[s->n_src++] = b;
    for (size_t k = 0; k < outputs; k++) {
        s->out[k].producer = s;
        s->out[k].needs_grad = true;
    }
    *out = s;
    return MU_OK;
}

// Gives each use of b a name of its own for it; a tree of splits when there are more than one can have.
static mu_status add_split(mu_net_builder *nb, mu_blob *b, const char *name, const use *uses, size_t n,
                           mu_err *err) {
    size_t outputs = n < MU_MAX_OUT ? n : MU_MAX_OUT;
    mu_layer *s = NULL;
    MU_TRY(new_split(nb, b, name, outputs, &s, err));
    for (size_t k = 0; k < outputs; k++) {
        const use *first = uses + k * n / outputs, *end = uses + (k + 1) * n / outputs;
        if (end - first == 1) {
            first->l->src[first->src] = &s->out[k];
            continue;
        }
        const char *part = mu_arena_printf(&nb->net->arena, "%s.%zu", s->name, k);
        if (!part) return MU_FAIL_NOMEM(err, "a name");
        MU_TRY(add_split(nb, &s->out[k], part, first, (size_t)(end - first), err));
    }
    return MU_OK;
}

// The uses of all blobs that take part in backward, those of one blob together: uses[start[id]..start[id+1]).
static mu_status collect_uses(const mu_net *net, use **uses, size_t **start, mu_err *err) {
    size_t n_ids = (size_t)net->n_layers * MU_MAX_OUT, n = 0;
    *start = mu_alloc_array(n_ids + 2, sizeof **start, "net");
    if (!*start) return MU_FAIL_NOMEM(err, "the net");
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; net->layer[i]->in_backward && k < net->layer[i]->n_src; k++, n++)
            (*start)[id_of(net->layer[i]->src[k]) + 2]++;
    for (size_t id = 2; id < n_ids + 2; id++) (*start)[id] += (*start)[id - 1];
    *uses = mu_alloc_array(n + 1, sizeof **uses, "net");
    if (!*uses) return MU_FAIL_NOMEM(err, "the net");
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; net->layer[i]->in_backward && k < net->layer[i]->n_src; k++)
            (*uses)[(*start)[id_of(net->layer[i]->src[k]) + 1]++] = (use){net->layer[i], k};
    return MU_OK;
}

static mu_status insert_splits(mu_net_builder *nb, const use *uses, const size_t *start, mu_err *err) {
    mu_net *net = nb->net;
    mu_layer **old = net->layer;
    int n_old = net->n_layers;
    net->layer = NULL;
    net->n_layers = nb->cap = 0;
    for (int i = 0; i < n_old; i++) {
        mu_layer *l = old[i];
        MU_TRY(mu_build_append(nb, l, err));
        for (size_t k = 0; k < MU_MAX_OUT; k++) {
            size_t id = (size_t)i * MU_MAX_OUT + k, n = start[id + 1] - start[id];
            if (!l->out[k].needs_grad || n < 2) continue;
            const char *name = l->out[k].name ? l->out[k].name : l->name;
            if (k && !l->out[k].name) name = mu_arena_printf(&net->arena, "%s.%zu", l->name, k);
            if (!name) return MU_FAIL_NOMEM(err, "a name");
            MU_TRY(add_split(nb, &l->out[k], name, uses + start[id], n, err));
        }
    }
    return MU_OK;
}

mu_status mu_build_splits(mu_net_builder *nb, mu_err *err) {
    use *uses = NULL;
    size_t *start = NULL;
    mark_backward(nb->net);
    mu_status st = collect_uses(nb->net, &uses, &start, err);
    if (st == MU_OK) st = insert_splits(nb, uses, start, err);
    mu_free(uses);
    mu_free(start);
    return st;
}

// ---- shared memory between blobs ----

static void count_uses(mu_net *net) {
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_src; k++) net->layer[i]->src[k]->n_uses++;
}

// May `l` overwrite the memory of its source? No other layer may read that memory afterwards.
static bool may_overwrite(const mu_net *net, const mu_layer *l) {
    const mu_blob *s = l->src[0];
    if (!(l->class->flags & MU_LAYER_IN_PLACE) || s->n_uses != 1) return false;
    if (mu_shape_count(&s->value.shape) != mu_shape_count(&l->out[0].value.shape)) return false;
    if (s->value.dtype != l->out[0].value.dtype) return false;
    if (net->backward && (l->class->flags & MU_BACK_NEEDS_SRC)) return false;
    for (;; s = s->same_as) { // every layer that wrote this memory
        const mu_layer *p = s->producer;
        if (p->class == &mu_input_class || p->n_out > 1) return false;
        if (net->backward && mu_layer_runs_in_backward(p) && (p->class->flags & MU_BACK_NEEDS_DST))
            return false;
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

typedef struct planner {
    mu_net       *net;
    mu_net_plan  *plan;
    size_t       *value_item;   // by id_of a root: number + 1 of its item, 0 = none yet
    size_t       *grad_item;
    bool         *inner;        // by id: read by more than losses and outputs
} planner;

static mu_plan_item *add_item(mu_net_plan *p, size_t bytes, int first, int last, void **target) {
    mu_plan_item *it = &p->item[p->n];
    *it = (mu_plan_item){bytes, first, last, 0};
    p->target[p->n++] = target;
    return it;
}

static void extend(mu_plan_item *it, int t) {
    if (t < it->first) it->first = t;
    if (t > it->last) it->last = t;
}

static mu_plan_item *item_of(planner *p, const size_t *number, const mu_blob *root) {
    size_t k = number[id_of(root)];
    return k ? &p->plan->item[k - 1] : NULL;
}

static void plan_values(planner *p) {
    mu_net *net = p->net;
    int n = net->n_layers;
    for (int i = 1; i < n; i++)
        for (int k = 0; k < net->layer[i]->n_src; k++)
            if (!(net->layer[i]->class->flags & (MU_LAYER_LOSS | MU_LAYER_OUTPUT)))
                p->inner[id_of(net->layer[i]->src[k])] = true;
    for (int i = 1; i < n; i++)
        for (int k = 0; k < net->layer[i]->n_out; k++) {
            mu_layer *l = net->layer[i];
            mu_blob *b = &l->out[k], *r = root_of(b);
            if (r->producer->class == &mu_input_class) continue;
            mu_plan_item *it = item_of(p, p->value_item, r);
            if (!it) {
                it = add_item(p->plan, mu_tensor_count(&r->value) * 4, i, i, &r->value.data);
                p->value_item[id_of(r)] = p->plan->n;
            }
            extend(it, i);
            if (net->backward && mu_layer_runs_in_backward(l) && (l->class->flags & MU_BACK_NEEDS_DST))
                extend(it, 2 * n - 1 - i);
            if (!p->inner[id_of(b)]) extend(it, 2 * n); // results stay readable after the step
        }
    for (int i = 1; i < n; i++)
        for (int k = 0; k < net->layer[i]->n_src; k++) {
            mu_layer *l = net->layer[i];
            mu_plan_item *it = item_of(p, p->value_item, root_of(l->src[k]));
            if (!it) continue;
            extend(it, i);
            if (net->backward && mu_layer_runs_in_backward(l) && (l->class->flags & MU_BACK_NEEDS_SRC))
                extend(it, 2 * n - 1 - i);
            if (!net->backward && (l->class->flags & (MU_LAYER_LOSS | MU_LAYER_OUTPUT)))
                extend(it, 2 * n); // who looks at answers reads them after the pass (look/head.h)
            bool names_rows =
                l->src[k]->value.dtype == MU_I32; // of a gradient that is applied after backward
            if (has_params(l) && (p->plan->keep_factors || names_rows)) extend(it, 2 * n);
        }
}

// Gradients follow values, but the outputs of a split have their own, and so has a layer that works in
// place on a source without gradient (an `add` of the data and something learned).
static mu_blob *grad_root(mu_blob *b) {
    while (b->same_as && b->producer->n_out == 1 && b->same_as->needs_grad) b = b->same_as;
    return b;
}

static void plan_grads(planner *p) {
    mu_net *net = p->net;
    int n = net->n_layers;
    for (int i = 1; i < n; i++) {
        mu_layer *l = net->layer[i];
        bool any = false;
        for (int k = 0; k < l->n_out; k++) any |= l->out[k].needs_grad;
        for (int k = 0; any && k < l->n_out; k++) {
            mu_blob *b = &l->out[k], *r = grad_root(b);
            if (r->producer->class == &mu_input_class) continue;
            mu_plan_item *it = item_of(p, p->grad_item, r);
            int read = 2 * n - 1 - i;
            if (!it) {
                it = add_item(p->plan, mu_tensor_count(&r->value) * 4, read, read, &r->grad.data);
                p->grad_item[id_of(r)] = p->plan->n;
            }
            extend(it, read);
            if (!b->needs_grad) extend(it, 0), extend(it, 2 * n); // no layer writes it: stays zero for ever
            b->needs_grad = true;
            if (p->plan->keep_factors && has_params(l)) extend(it, 2 * n);
        }
    }
    for (int i = 1; i < n; i++) { // written in the backward of the consumer
        mu_layer *l = net->layer[i];
        for (int k = 0; l->in_backward && k < l->n_src; k++) {
            if (!l->src[k]->needs_grad) continue;
            mu_plan_item *it = item_of(p, p->grad_item, grad_root(l->src[k]));
            if (it) extend(it, 2 * n - 1 - i);
        }
    }
}

static void plan_keeps(mu_net *net) {
    int n = net->n_layers;
    for (int i = 1; i < n; i++) {
        mu_layer *l = net->layer[i];
        if (!l->keep_bytes) continue;
        int last = !net->backward ? i : net->plan->keep_factors ? 2 * n : 2 * n - 1 - i;
        add_item(net->plan, l->keep_bytes, i, last, &l->keep);
    }
}

static mu_status place(mu_net *net, mu_err *err) {
    mu_net_plan *p = net->plan;
    MU_TRY(mu_memplan(p->item, p->n, false, &net->unplanned_bytes, err));
    return mu_memplan(p->item, p->n, p->reuse, &net->activation_bytes, err);
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
    size_t n_ids = (size_t)net->n_layers * MU_MAX_OUT;
    net->plan = mu_arena_alloc(&net->arena, sizeof *net->plan);
    if (!net->plan) return MU_FAIL_NOMEM(err, "the memory plan");
    *net->plan = (mu_net_plan){.reuse = !nb->o->keep_all,
                               .keep_factors = nb->o->keep_factors,
                               .item = mu_arena_array(&net->arena, most, sizeof *net->plan->item),
                               .target = mu_arena_array(&net->arena, most, sizeof *net->plan->target)};
    planner p = {.net = net,
                 .plan = net->plan,
                 .value_item = mu_arena_array(&net->arena, n_ids, sizeof *p.value_item),
                 .grad_item = mu_arena_array(&net->arena, n_ids, sizeof *p.grad_item),
                 .inner = mu_arena_array(&net->arena, n_ids, sizeof *p.inner)};
    if (!net->plan->item || !net->plan->target || !p.value_item || !p.grad_item || !p.inner)
        return MU_FAIL_NOMEM(err, "the memory plan");
    plan_values(&p);
    if (net->backward) plan_grads(&p);
    return place(net, err);
}

mu_status mu_build_memory(mu_net *net, mu_err *err) {
    const mu_net_plan *p = net->plan;
    plan_keeps(net);
    MU_TRY(place(net, err));
    for (int i = 0; i < net->n_layers; i++)
        if (net->layer[i]->scratch_bytes > net->scratch_bytes)
            net->scratch_bytes = net->layer[i]->scratch_bytes;
    const mu_device_class *dev = net->device->class;
    net->activations = dev->alloc(net->device, net->activation_bytes + 64, "activations");
    net->scratch = dev->alloc(net->device, net->scratch_bytes + 64, "scratch");
    if (!net->activations || !net->scratch)
        return mu_err_hinted(MU_FAIL(err, MU_ENOMEM, "out of memory for %.1f MB of activations",
                                     (double)(net->activation_bytes + net->scratch_bytes) * 1e-6),
                             err, "A smaller `train.batch` needs proportionally less.");
    for (size_t i = 0; i < p->n; i++) *p->target[i] = (char *)net->activations + p->item[i].offset;
    set_pointers(net);
    return MU_OK;
}
