// SPDX-License-Identifier: Apache-2.0
// seam.c - the layers that a partition inserts between parts: slice, concat and the two ends of a bridge.
//
// All move rectangles (layer/cut.h) of one blob of the whole net. They are no plug-ins: a job cannot write
// them, and where they stand follows from how its layers are cut.
#include "net/partition_inner.h"

#include <string.h>

static mu_seam *seam(const mu_layer *l) { return l->state; }

// What source k has of what the layer gives, or the layer of what its source has.
static mu_cut source_in_rect(const mu_part *p, int k) { return mu_rect_within(&p->src_rect[k], &p->rect); }
static mu_cut rect_in_source(const mu_part *p) { return mu_rect_within(&p->rect, &p->src_rect[0]); }

static mu_status infer(mu_layer *l, mu_err *err) {
    const mu_blob *b = seam(l)->part->blob;
    MU_TRY(mu_layer_add_out(l, NULL, mu_rect_shape(b, &seam(l)->part->rect), b->value.dtype, err));
    l->out[0].n_classes = b->n_classes;
    l->out[0].names = b->names;
    l->out[0].top_from = b->top_from;
    l->out[0].streams = b->streams;
    return MU_OK;
}

static mu_status infer_source(MU_UNUSED mu_layer *l, MU_UNUSED mu_err *err) { return MU_OK; }

// The gradient of a rectangle of the source; no other of its elements takes part.
static void give_gradient(const mu_layer *l, const float *dy) {
    const mu_cut c = rect_in_source(seam(l)->part);
    float *dx = l->src[0]->grad.f;
    if (!dx) return;
    if (mu_is_cut(&c.batch) || mu_is_cut(&c.feature))
        memset(dx, 0, mu_tensor_count(&l->src[0]->value) * sizeof *dx);
    mu_cut_put(dx, dy, mu_layer_src_shape(l, 0), &c);
}

// ---- slice ----

static mu_status slice_forward(mu_layer *l, MU_UNUSED const mu_step *s, MU_UNUSED mu_err *err) {
    const mu_cut c = rect_in_source(seam(l)->part);
    mu_cut_take(l->out[0].value.data, l->src[0]->value.data, mu_layer_src_shape(l, 0), &c);
    return MU_OK;
}

static mu_status slice_backward(mu_layer *l, MU_UNUSED const mu_step *s, MU_UNUSED mu_err *err) {
    give_gradient(l, l->out[0].grad.f);
    return MU_OK;
}

// ---- concat ----

static mu_status concat_forward(mu_layer *l, MU_UNUSED const mu_step *s, MU_UNUSED mu_err *err) {
    for (int k = 0; k < l->n_src; k++) {
        const mu_cut c = source_in_rect(seam(l)->part, k);
        mu_cut_put(l->out[0].value.data, l->src[k]->value.data, &l->out[0].value.shape, &c);
    }
    return MU_OK;
}

static mu_status concat_backward(mu_layer *l, MU_UNUSED const mu_step *s, MU_UNUSED mu_err *err) {
    for (int k = 0; k < l->n_src; k++) {
        const mu_cut c = source_in_rect(seam(l)->part, k);
        if (l->src[k]->grad.f) mu_cut_take(l->src[k]->grad.f, l->out[0].grad.f, &l->out[0].value.shape, &c);
    }
    return MU_OK;
}

// ---- bridges ----

static mu_status source_forward(mu_layer *l, MU_UNUSED const mu_step *s, mu_err *err) {
    const mu_cut c = rect_in_source(seam(l)->part);
    mu_channel *to = seam(l)->forward;
    void *message;
    MU_TRY(to->class->place(to, &message, err));
    mu_cut_take(message, l->src[0]->value.data, mu_layer_src_shape(l, 0), &c);
    to->class->send(to);
    return MU_OK;
}

static mu_status source_backward(mu_layer *l, MU_UNUSED const mu_step *s, mu_err *err) {
    mu_channel *from = seam(l)->back;
    const void *message;
    MU_TRY(from->class->receive(from, &message, err));
    give_gradient(l, message);
    from->class->release(from);
    return MU_OK;
}

static mu_status destination_forward(mu_layer *l, MU_UNUSED const mu_step *s, mu_err *err) {
    mu_channel *from = seam(l)->forward;
    const void *message;
    MU_TRY(from->class->receive(from, &message, err));
    memcpy(l->out[0].value.data, message, from->bytes);
    from->class->release(from);
    return MU_OK;
}

static mu_status destination_backward(mu_layer *l, MU_UNUSED const mu_step *s, mu_err *err) {
    mu_channel *to = seam(l)->back;
    void *message;
    MU_TRY(to->class->place(to, &message, err));
    memcpy(message, l->out[0].grad.f, to->bytes);
    to->class->send(to);
    return MU_OK;
}

static void teardown(mu_layer *l) {
    mu_channel_close(seam(l)->forward);
    mu_channel_close(seam(l)->back);
}

// ---- classes ----

static const mu_layer_class slice_class = {
    .name = "slice",
    .help = "a rectangle of a blob",
    .state_size = sizeof(mu_seam),
    .infer = infer,
    .forward = slice_forward,
    .backward = slice_backward,
};
static const mu_layer_class concat_class = {
    .name = "concat",
    .help = "rectangles of a blob put together",
    .state_size = sizeof(mu_seam),
    .n_src_max = MU_MAX_SRC,
    .infer = infer,
    .forward = concat_forward,
    .backward = concat_backward,
};
static const mu_layer_class source_class = {
    .name = "bridge",
    .help = "sends a rectangle to another worker",
    .state_size = sizeof(mu_seam),
    .infer = infer_source,
    .forward = source_forward,
    .backward = source_backward,
    .teardown = teardown,
};
static const mu_layer_class destination_class = {
    .name = "bridge",
    .help = "what another worker sends",
    .state_size = sizeof(mu_seam),
    .infer = infer,
    .forward = destination_forward,
    .backward = destination_backward,
    .teardown = teardown,
};

const mu_layer_class *mu_seam_class(mu_part_kind kind) {
    switch (kind) {
    case MU_PART_SLICE:
        return &slice_class;
    case MU_PART_CONCAT:
        return &concat_class;
    case MU_PART_SOURCE:
        return &source_class;
    case MU_PART_DESTINATION:
        return &destination_class;
    case MU_PART_LAYER:
        break;
    }
    return NULL;
}

static bool is_end(const mu_layer *l) { return l->class == &source_class || l->class == &destination_class; }

mu_status mu_partition_connect(mu_net *net, const mu_partition *p, mu_bridge_opener *open, void *ctx,
                               mu_err *err) {
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (!is_end(l)) continue;
        const mu_bridge *b = &p->bridge[seam(l)->part->bridge];
        MU_TRY(open(ctx, b, false, &seam(l)->forward, err));
        if (b->gradient) MU_TRY(open(ctx, b, true, &seam(l)->back, err));
    }
    return MU_OK;
}

uint64_t mu_partition_bytes_sent(const mu_net *net) {
    uint64_t bytes = 0;
    for (int i = 1; i < net->n_layers; i++) {
        if (!is_end(net->layer[i])) continue;
        const mu_seam *s = seam(net->layer[i]);
        if (s->forward) bytes += s->forward->sent * s->forward->bytes;
        if (s->back) bytes += s->back->sent * s->back->bytes;
    }
    return bytes;
}

mu_status mu_partition_check(const mu_net *net, mu_err *err) {
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (is_end(l) && l->in_backward != seam(l)->part->gradient)
            return MU_FAIL(err, MU_EBACKEND, "the two ends of `%s` do not agree on a gradient", l->name);
    }
    return MU_OK;
}
