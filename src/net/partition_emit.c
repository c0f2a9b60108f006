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
    l->restored = true; // values are the whole net's
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

mu_status mu_partition_emit(mu_net_builder *nb, mu_err *err) {
    const mu_partition *p = nb->o->partition;
    mu_layer **of = mu_arena_array(&nb->net->arena, (size_t)p->n_layers + 1, sizeof *of);
    if (!of) return MU_FAIL_NOMEM(err, "the layer list");
    for (int i = 0; i < p->n_layers; i++)
        if (p->layer[i]->worker == nb->o->worker) MU_TRY(emit(nb, p->layer[i], of, err));
    return MU_OK;
}
