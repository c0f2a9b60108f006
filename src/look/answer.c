// SPDX-License-Identifier: Apache-2.0
// answer.c - see answer.h.
#include "look/answer.h"

#include <math.h>
#include <string.h>

static bool is_type(const mu_layer *l, const char *type) { return !strcmp(l->class->name, type); }

// ---- the net as it is evaluated ----

// The fields of the training data: those that are open as they are after transformation, the others (labels,
// targets) as the model knows them.
static int known_fields(const mu_session *s, const mu_source *source, mu_data_field out[MU_MAX_FIELDS]) {
    const mu_inputs *in = s->inputs;
    const int n = in ? in->n_fields : mu_source_n_fields(source);
    for (int i = 0; i < n; i++) {
        out[i] = in ? in->field[i] : *mu_source_field(source, i);
        for (int k = 0; in && k < mu_source_n_fields(source); k++)
            if (!strcmp(mu_source_field(source, k)->name, out[i].name)) out[i] = *mu_source_field(source, k);
        if (out[i].store == MU_STORE_U8) out[i].store = MU_STORE_F32;
    }
    return n;
}

// Shaped only: no memory is taken and no file opened. *out = NULL where that net cannot be built, as the one
// for prediction could.
static mu_status shape(const mu_session *s, const mu_source *source, mu_net **out, mu_err *err) {
    mu_data_field fields[MU_MAX_FIELDS];
    mu_diags unheard;
    mu_err own = {0};
    mu_diags_init(&unheard, &s->job->arena);
    mu_binder b = s->binder;
    b.diags = &unheard;
    const mu_net_opts o = {.net = s->job->net,
                           .fields = fields,
                           .n_fields = known_fields(s, source, fields),
                           .phase = MU_TEST,
                           .batch = s->predict.net->batch,
                           .share = s->params,
                           .contrast = s->contrast.k ? &s->contrast : NULL};
    *out = NULL;
    const mu_status st = mu_net_shape(&b, &o, out, &own);
    if (st == MU_OK) return MU_OK;
    *out = NULL;
    return st == MU_ENOMEM ? mu_err_pass(st, &own, err) : MU_OK;
}

// ---- who compares ----

// Is it an output of the layer called `name`, through splits and reshapes?
static bool comes_from(const mu_blob *b, const char *name) {
    while ((b->producer->class->flags & MU_LAYER_ALIAS) && b->producer->n_src &&
           strcmp(mu_head_name(b->producer), name))
        b = b->producer->src[0];
    return !strcmp(mu_head_name(b->producer), name);
}

static bool is_loss(const mu_layer *l) {
    for (int i = 0; i < l->n_metric; i++)
        if (l->metric[i].is_loss) return true;
    return false;
}

static mu_status find_form(const mu_net *net, const mu_source *source, const char *name, bool is_last,
                           mu_answer_form *out, mu_err *err) {
    bool losses = false, classes = false, compared = false;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (l->copy > 0 || l->n_src < 2) continue;
        mu_head h;
        MU_TRY(mu_head_find(net, source, MU_HEAD_CLASSES, mu_head_name(l), &h, err));
        const bool of_classes = h.layer == l, reads = comes_from(l->src[0], name);
        mu_head_fini(&h);
        losses |= is_loss(l);
        classes |= of_classes;
        compared |= is_loss(l) && (reads || comes_from(l->src[1], name));
        if (!of_classes || !reads) continue;
        *out = is_type(l, "sigmoid_loss") ? MU_ANSWER_YES_NO : MU_ANSWER_SCORES;
        return MU_OK;
    }
    *out = compared || (is_last && losses && !classes) ? MU_ANSWER_VALUES : MU_ANSWER_SCORES;
    return MU_OK;
}

mu_status mu_answer_find_form(const mu_session *s, const mu_layer *layer, bool is_last, mu_answer_form *out,
                              mu_err *err) {
    const mu_source *source = mu_session_array_source(s);
    mu_net *net;
    *out = layer->class->flags & MU_LAYER_PROBABILITIES ? MU_ANSWER_PROBABILITIES : MU_ANSWER_SCORES;
    if (*out == MU_ANSWER_PROBABILITIES || !source || !s->predict.net) return MU_OK;
    MU_TRY(shape(s, source, &net, err));
    if (!net) return MU_OK;
    const mu_status st = find_form(net, source, mu_head_name(layer), is_last, out, err);
    mu_net_destroy(net);
    return st;
}

// ---- the best ----

int64_t mu_answer_classes(mu_answer_form form, int64_t n) {
    return form == MU_ANSWER_VALUES ? 0 : form == MU_ANSWER_YES_NO ? 2 : n;
}

int64_t mu_answer_best(mu_answer_form form, const float *v, int64_t n, int64_t top, mu_class_answer *out) {
    const float pair[2] = {0, v[0]}; // its softmax is (1 - sigmoid, sigmoid)
    if (form == MU_ANSWER_YES_NO) v = pair, n = 2;
    int64_t found = 0;
    for (int64_t k = 0; k < n; k++) {
        const double score = (double)v[k];
        int64_t at = found;
        while (at > 0 && out[at - 1].probability < score) at--;
        if (at >= top) continue;
        const int64_t last = found < top ? found++ : found - 1;
        memmove(out + at + 1, out + at, (size_t)(last - at) * sizeof *out);
        out[at] = (mu_class_answer){k, score};
    }
    if (form == MU_ANSWER_PROBABILITIES || !found) return found;
    double sum = 0;
    const double most = out[0].probability;
    for (int64_t k = 0; k < n; k++) sum += exp((double)v[k] - most);
    for (int64_t i = 0; i < found; i++) out[i].probability = exp(out[i].probability - most) / sum;
    return found;
}
