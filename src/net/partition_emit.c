// SPDX-License-Identifier: Apache-2.0
// partition_emit.c - one worker's net: its parts and inserted layers in the global order, with their sources.
//
// What follows (splits, infer, memory plan) is as for any net. Layers are bound from the blocks of the whole
// net's layers once more; what binding has to say was said there.
#include "net/partition_inner.h"

#include <string.h>

// The part of the step before at the same worker: reports and checks go by it.
static mu_layer *copy_before(const mu_net *net, const mu_part *p) {
    const mu_layer *before = p->whole->copy_before;
    for (int i = net->n_layers - 2; before && i > 0; i--) {
        mu_layer *l = net->layer[i];
        if (l->origin && l->copy == before->copy && l->piece == p->piece &&
            !strcmp(l->origin, mu_layer_job_name(before)))
            return l;
    }
    return NULL;
}

static mu_status take_whole(mu_net_builder *nb, mu_layer *l, const mu_part *p, mu_err *err) {
    const mu_layer *w = p->whole;
    l->class = w->class;
    l->state = mu_arena_alloc(&nb->net->arena, w->class->state_size + 1);
    if (!l->state) return MU_FAIL_NOMEM(err, "a layer");
    mu_build_bind_quietly(nb, w->node, l);
    l->origin = mu_layer_job_name(w);
    l->copy = w->copy;
    l->n_copies = w->n_copies;
    l->left_out = w->left_out;
    l->node = w->node;
    l->pos = w->pos;
    l->inserted = w->inserted;
    l->key = w->key;
    l->cut = p->cut;
    l->piece = p->piece;
    if (mu_is_cut(&l->cut.feature) && w->class->take_part) w->class->take_part(l);
    l->copy_before = copy_before(nb->net, p);
    return MU_OK;
}

static mu_status take_seam(mu_net_builder *nb, mu_layer *l, const mu_part *p, mu_err *err) {
    mu_seam *s = mu_arena_alloc(&nb->net->arena, sizeof *s);
    if (!s) return MU_FAIL_NOMEM(err, "a layer");
    *s = (mu_seam){.part = p};
    l->class = mu_seam_class(p->kind);
    l->state = s;
    l->pos = p->blob->producer->pos;
    l->inserted = true;
    l->leads = p->kind == MU_PART_SOURCE && p->gradient;
    l->learns = p->kind == MU_PART_DESTINATION && p->gradient;
    return MU_OK;
}

// The whole net's fields, with the rows that this worker reads.
static mu_status emit_input(mu_net_builder *nb, mu_err *err) {
    const mu_layer *w = nb->o->partition->whole->layer[0];
    mu_layer *l = mu_build_new_layer(nb, err);
    if (!l) return MU_ENOMEM;
    l->class = w->class;
    l->name = w->name;
    l->cut.batch = nb->o->partition->rows[nb->o->worker];
    for (l->n_out = 0; l->n_out < w->n_out; l->n_out++) {
        const mu_blob *b = &w->out[l->n_out];
        l->out[l->n_out] = (mu_blob){.name = b->name,
                                     .producer = l,
                                     .n_classes = b->n_classes,
                                     .names = b->names,
                                     .top_from = b->top_from,
                                     .streams = b->streams};
        l->out[l->n_out].value.shape = mu_cut_shape(&b->value.shape, &l->cut);
        l->out[l->n_out].value.dtype = b->value.dtype;
    }
    return MU_OK;
}

static mu_status emit(mu_net_builder *nb, const mu_part *p, mu_layer **of, mu_err *err) {
    mu_layer *l = mu_build_new_layer(nb, err), *data = nb->net->layer[0];
    if (!l) return MU_ENOMEM;
    l->name = p->name;
    MU_TRY(p->whole ? take_whole(nb, l, p, err) : take_seam(nb, l, p, err));
    for (int k = 0; k < p->n_src; k++) {
        mu_layer *from = p->src[k].l ? of[p->src[k].l->at] : data;
        from->out[p->src[k].out].producer = from;
        l->src[l->n_src++] = &from->out[p->src[k].out];
    }
    of[p->at] = l;
    return MU_OK;
}

mu_status mu_partition_net(mu_binder *b, const mu_partition *p, int worker, mu_net **out, mu_err *err) {
    const mu_net *w = p->whole;
    const mu_net_opts o = {.partition = p,
                           .worker = worker,
                           .phase = w->phase,
                           .batch = w->batch,
                           .seed = w->seed,
                           .keep_all = !w->plan->reuse,
                           .keep_factors = w->plan->keep_factors,
                           .contrast = w->n_layers > 1 ? w->layer[1]->contrast : NULL,
                           .restored = true}; // values are the whole net's
    return mu_net_shape(b, &o, out, err);
}

mu_status mu_partition_emit(mu_net_builder *nb, mu_err *err) {
    const mu_partition *p = nb->o->partition;
    MU_TRY(emit_input(nb, err));
    mu_layer **of = mu_arena_array(&nb->net->arena, (size_t)p->n_layers + 1, sizeof *of);
    if (!of) return MU_FAIL_NOMEM(err, "the layer list");
    for (int i = 0; i < p->n_layers; i++)
        if (p->layer[i]->worker == nb->o->worker) MU_TRY(emit(nb, p->layer[i], of, err));
    return MU_OK;
}
