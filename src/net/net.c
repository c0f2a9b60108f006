// SPDX-License-Identifier: Apache-2.0
// net.c - life of a net, and running it.
//
// Shaping goes on after a problem as long as something can still be found, and fails at the end; making
// ready stops at the first error, whose place is the layer's. A net is destroyed in any state.
//
// Every pass of a layer goes through mu_net_pass. So hooks of a step are told the same by every algorithm:
// before the forward of each layer, after the backward of each that has one.
#include "net/net.h"

#include "net/build.h"
#include "net/partition_inner.h"

#include <string.h>

static mu_status setup_layers(mu_net *net, mu_err *err) {
    for (int i = 1; i < net->n_layers; i++) {
        mu_layer *l = net->layer[i];
        if (!l->class->setup) continue;
        mu_status s = l->class->setup(l, err);
        if (s != MU_OK) {
            mu_err_note(err, "while setting up layer `%s`", l->name);
            if (err && !err->pos.line) err->pos = l->pos;
            return s;
        }
    }
    return MU_OK;
}

static const mu_layer *find_energy(const mu_net *net) {
    for (int i = 1; i < net->n_layers; i++)
        if (net->layer[i]->class->contrast) return net->layer[i];
    return NULL;
}

static void check_has_loss(mu_net_builder *nb) {
    const mu_layer *energy = find_energy(nb->net);
    for (int i = 1; i < nb->net->n_layers; i++)
        if (nb->net->layer[i]->broken || (nb->net->layer[i]->class->flags & MU_LAYER_LOSS)) return;
    mu_diag *g = mu_diags_add(nb->b->diags, MU_DIAG_ERROR, nb->o->net->pos, "the net has no loss layer");
    if (energy)
        mu_diag_hint(nb->b->diags, g, "An energy layer such as `%s` learns without one by "
                                      "`train: {algorithm: cd}`.", energy->name);
    else
        mu_diag_hint(nb->b->diags, g, "Add one at the end, such as "
                                      "`{name: loss, type: softmax_loss, src: [ip2, data.label]}`.");
}

static bool wants_to_learn(const mu_layer *l) {
    for (int i = 0; i < l->n_param; i++)
        if (!l->param[i]->is_stat && l->param[i]->lr_mult > 0) return true;
    return false;
}

// Contrast trains energy layers only; others are worth a warning unless their rate says the same.
static void check_has_energy(mu_net_builder *nb) {
    mu_diags *d = nb->b->diags;
    const mu_layer *energy = find_energy(nb->net);
    bool learns = false;
    for (int i = 1; i < nb->net->n_layers; i++) {
        const mu_layer *l = nb->net->layer[i];
        learns |= l->broken || l->in_contrast;
        if (l->broken || l->in_contrast || !wants_to_learn(l)) continue;
        mu_diag *g =
            mu_diags_add(d, MU_DIAG_WARNING, l->pos,
                         "layer `%s` learns nothing: contrastive divergence trains energy layers only",
                         l->name);
        mu_diag_hint(d, g, "Train it afterwards by `algorithm: bp`, with this job's model in `init_from`.");
    }
    if (learns) return;
    mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, nb->o->net->pos,
                              energy ? "every energy layer of the net is frozen"
                                     : "the net has no energy layer for contrastive divergence to train");
    if (energy) mu_diag_hint(d, g, "Give a parameter of `%s` an `lr` above 0.", energy->name);
    else
        mu_diag_hint(d, g,
                     "Add one such as `{name: rbm1, type: rbm, hidden: 500}`, or write `algorithm: bp`.");
}

static mu_status shape(mu_net_builder *nb, mu_err *err) {
    mu_net *net = nb->net;
    size_t errors_before = nb->b->diags->n_errors;
    const mu_partition *p = nb->o->partition;
    net->owns_params = p || !nb->o->share;
    if (p) {
        MU_TRY(mu_params_create_pieces(p->whole->params, &net->params, err));
    } else if (nb->o->share) {
        net->params = nb->o->share;
    } else {
        MU_TRY(mu_params_create(&net->params, err));
        net->params->late = nb->o->restored;
    }
    MU_TRY(mu_build_layers(nb, err));
    MU_TRY(mu_build_splits(nb, err));
    MU_TRY(mu_build_infer(nb, err));
    if (net->phase == MU_TRAIN && !p) {
        if (nb->o->contrast) check_has_energy(nb);
        else check_has_loss(nb);
    }
    if (nb->b->diags->n_errors > errors_before)
        return MU_FAIL(err, MU_EJOB, "the net has problems");
    net->params->complete = true;
    if (p) MU_TRY(mu_partition_check(net, err));
    return mu_build_plan(nb, err);
}

mu_status mu_net_shape(mu_binder *b, const mu_net_opts *o, mu_net **out, mu_err *err) {
    mu_net *net = mu_alloc(sizeof *net, "net");
    if (!net) return MU_FAIL_NOMEM(err, "the net");
    mu_arena_init(&net->arena, "net");
    net->phase = o->phase;
    net->batch = o->batch;
    net->seed = o->seed;
    net->backward = o->phase == MU_TRAIN;
    mu_net_builder nb = {.b = b, .o = o, .net = net};
    mu_status s = shape(&nb, err);
    for (int i = 0; i < net->n_layers; i++) net->layer[i]->builder = NULL;
    if (s != MU_OK) {
        mu_net_destroy(net);
        return s;
    }
    *out = net;
    return MU_OK;
}

mu_status mu_net_ready(mu_net *net, mu_device *d, mu_err *err) {
    if (net->ready) return MU_OK;
    if (net->device) return MU_FAIL(err, MU_EBACKEND, "the net could not be made ready before");
    net->device = d;
    MU_TRY(setup_layers(net, err));
    if (net->params->wholes) mu_params_follow(net->params);
    else if (!net->params->value) MU_TRY(mu_params_alloc(net->params, d, net->backward, net->seed, err));
    if (net->backward) MU_TRY(mu_params_alloc_grads(net->params, err));
    MU_TRY(mu_build_memory(net, err));
    net->ready = true;
    return MU_OK;
}

mu_status mu_net_create(mu_binder *b, const mu_net_opts *o, mu_net **out, mu_err *err) {
    mu_net *net;
    MU_TRY(mu_net_shape(b, o, &net, err));
    mu_status s = mu_net_ready(net, mu_device_cpu(), err);
    if (s == MU_OK) *out = net;
    else mu_net_destroy(net);
    return s;
}

void mu_net_destroy(mu_net *net) {
    if (!net) return;
    for (int i = net->n_layers - 1; i >= 0; i--) {
        mu_layer *l = net->layer[i];
        if (l->class->teardown && !l->broken) l->class->teardown(l);
        mu_op_destroy(l->op);
    }
    if (net->device) {
        net->device->class->free(net->device, net->activations);
        net->device->class->free(net->device, net->scratch);
    }
    if (net->owns_params) mu_params_destroy(net->params);
    mu_arena_fini(&net->arena);
    mu_free(net);
}

mu_layer *mu_net_find(const mu_net *net, const char *name) {
    mu_layer *last = NULL;
    for (int i = 0; i < net->n_layers; i++) {
        mu_layer *l = net->layer[i];
        if (!strcmp(l->name, name)) return l;
        if (l->origin && !strcmp(l->origin, name)) last = l;
    }
    return last;
}

const mu_layer *mu_net_family(const mu_layer *l) {
    for (;;) {
        const mu_layer *from = l->inserted && l->n_src ? l->src[0]->producer : l;
        if (l->inserted && !from->inserted && !from->n_copies) return l;
        if (!l->copy_before && from == l) return l;
        l = l->copy_before ? l->copy_before : from;
    }
}

bool mu_net_is_end(const mu_net *net, const mu_blob *b) {
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_src; k++)
            if (net->layer[i]->src[k] == b &&
                !(net->layer[i]->class->flags & (MU_LAYER_LOSS | MU_LAYER_OUTPUT)))
                return false;
    return true;
}

void mu_net_set_input(mu_net *net, const mu_tensor *fields, int n_fields) {
    mu_layer *in = net->layer[0];
    for (int i = 0; i < n_fields && i < in->n_out; i++) {
        const mu_shape *s = &in->out[i].value.shape; // of a worker's net: after the rows of other workers
        const int64_t skipped = s->n ? in->cut.batch.begin * mu_shape_inner(s, 1) : 0;
        in->out[i].value.data = (char *)fields[i].data + 4 * skipped;
    }
    for (int i = 1; i < net->n_layers; i++) // blobs that are views of the input
        for (int k = 0; k < net->layer[i]->n_out; k++) {
            mu_blob *b = &net->layer[i]->out[k], *r = b;
            while (r->same_as) r = r->same_as;
            if (r->producer == in) b->value.data = r->value.data;
        }
}

// ---- passes ----

static mu_status back(mu_layer *l, const mu_step *s, mu_err *err) {
    return l->in_contrast ? l->class->contrast(l, s, l->contrast->k, l->contrast->persistent, err)
                          : l->class->backward(l, s, err);
}

// The moment as a layer sees it that has rows [begin, end) of the batch.
static mu_step step_of_part(const mu_extent *rows, const mu_step *s) {
    mu_step own = *s;
    const int64_t valid = s->rows - rows->begin, most = rows->end - rows->begin;
    own.first_sample += rows->begin;
    own.rows = valid < 0 ? 0 : valid < most ? valid : most;
    return own;
}

mu_status mu_net_pass(mu_layer *l, mu_pass pass, const mu_step *s, mu_err *err) {
    mu_step own;
    if (mu_is_cut(&l->cut.batch)) {
        own = step_of_part(&l->cut.batch, s);
        s = &own;
    }
    const mu_step_hooks *h = s->hooks;
    const bool forward = pass == MU_PASS_FORWARD;
    if (!forward && !mu_layer_runs_in_backward(l)) return MU_OK;
    if (forward && h && h->before_forward) h->before_forward(h->ctx, l);
    mu_status st = forward ? l->class->forward(l, s, err) : back(l, s, err);
    if (MU_UNLIKELY(st != MU_OK)) {
        mu_err_note(err, "in the %s of layer `%s`",
                    forward ? "forward pass" : l->in_contrast ? "Gibbs chain" : "backward pass", l->name);
        return st;
    }
    if (!forward && h && h->after_backward) h->after_backward(h->ctx, l);
    return MU_OK;
}

mu_status mu_net_forward(mu_net *net, const mu_step *s, mu_err *err) {
    for (int i = 1; i < net->n_layers; i++) MU_TRY(mu_net_pass(net->layer[i], MU_PASS_FORWARD, s, err));
    return MU_OK;
}

void mu_net_begin_grads(mu_net *net, const mu_step *s) {
    for (int i = 0; i < net->params->n && !s->accumulate; i++) net->params->list[i]->grad.form = MU_GRAD_NONE;
}

mu_status mu_net_backward(mu_net *net, const mu_step *s, mu_err *err) {
    mu_net_begin_grads(net, s);
    for (int i = net->n_layers - 1; i > 0; i--) MU_TRY(mu_net_pass(net->layer[i], MU_PASS_BACK, s, err));
    return MU_OK;
}
