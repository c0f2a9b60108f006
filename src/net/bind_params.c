// SPDX-License-Identifier: Apache-2.0
// bind_params.c - the parameters that layers declare in infer: what the job says of them, and their place in
// the set. Of a net that is one worker's part they are pieces of the whole net's.
#include "net/build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct param_opts {
    const char *name;
    mu_class_ref init;
    float lr, decay, max_norm;
    int rule; // 1 = descent
} param_opts;

const mu_field mu_param_fields[] = {
    MU_FIELD(param_opts, name, MU_STRING, "", NULL, "global name; equal names share one parameter"),
    MU_FIELD_CLASS(param_opts, init, "", "init", "initial values"),
    MU_FIELD(param_opts, lr, MU_FLOAT, "1", "[0,)", "multiplier of the learning rate"),
    MU_FIELD(param_opts, decay, MU_FLOAT, "1", "[0,)", "multiplier of the weight decay"),
    MU_FIELD_ENUM(param_opts, rule, "updater", "updater|descent",
                  "descent: plain gradient descent, without momentum and history, whatever the updater is"),
    MU_FIELD(
        param_opts, max_norm, MU_FLOAT, "0", "[0,)",
        "longest row (of an inner product the weights of one output, with `transpose` those of one input); "
        "longer ones are scaled back after each update, 0 = free"),
    {0},
};

void mu_build_check_params(mu_net_builder *nb, const mu_node *node, const mu_layer_class *c,
                           const char *name) {
    for (int k = 0; c->params && c->params[k]; k++) {
        const mu_node *block = mu_node_find(node, c->params[k]);
        if (!block) continue;
        char what[200];
        snprintf(what, sizeof what, "`%s` of layer `%s`", c->params[k], name);
        param_opts opts = {0};
        mu_bind_part part = {mu_param_fields, &opts};
        mu_bind(nb->b, block, block->pos, what, &part, 1, NULL, 0);
    }
}

// "word" or "word key=value": the default initialiser of a layer, as text.
static mu_class_ref default_init(mu_net_builder *nb, const char *text, mu_srcpos pos) {
    char word[64], key[64], value[64];
    int n = sscanf(text, "%63s %63[^=]=%63s", word, key, value);
    mu_node type = {.kind = MU_SCALAR, .pos = pos, .text = word, .key = "type"};
    mu_node option = {.kind = MU_SCALAR, .pos = pos, .text = value, .key = key};
    mu_node *items[2] = {&type, &option};
    mu_node map = {.kind = MU_MAP, .pos = pos, .n = n == 3 ? 2 : 1, .item = items};
    return mu_bind_class(nb->b, &map, pos, "initial values", &mu_inits, "type", NULL, 0);
}

// Initial values from outside are looked for at once, so that a check of the job finds what is missing.
static mu_status check_init(const mu_net_builder *nb, const mu_param *p, mu_srcpos pos, mu_err *err) {
    const mu_init_class *init = (const mu_init_class *)p->init.plugin;
    const mu_params *ps = nb->net->params;
    const bool known = ps->wholes || ps->complete || p->n_users > 1;
    if (!init || !init->load || known || nb->net->phase != MU_TRAIN || ps->late) return MU_OK;
    mu_status s = init->load(p->init.state, p->name, &p->shape, NULL, err);
    if (s != MU_OK && err && !err->pos.line) err->pos = pos;
    return s;
}

// An update keeps the old values of a row beside it while the row is scaled (ps/slices.h).
static mu_status check_max_norm(const mu_param *p, mu_err *err) {
    int64_t count;
    if (p->max_norm <= 0 || !mu_shape_count_checked(&p->shape, &count)) return MU_OK;
    const int64_t cols = p->shape.n > 1 ? count / p->shape.d[0] : 0;
    if (cols > 0 && cols <= MU_MAX_NORM_COLS) return MU_OK;
    mu_status st =
        cols
            ? MU_FAIL_AT(err, MU_EJOB, p->pos, "`max_norm` is for rows of up to %d values, `%s` has %" PRId64,
                         MU_MAX_NORM_COLS, p->name, cols)
            : MU_FAIL_AT(err, MU_EJOB, p->pos, "`max_norm` is for matrices, `%s` has no rows", p->name);
    mu_err_hint(err, cols ? "Use weight decay there (`updater.decay`)." : "Give it to the weight.");
    return st;
}

static const char *first_user(const mu_net *net, const mu_param *p) {
    for (int i = 0; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_param; k++)
            if (net->layer[i]->param[k] == p) return mu_layer_job_name(net->layer[i]);
    return "";
}

// A shared parameter learns as its first user says. What a later one says must be the same, or it would be
// dropped silently. Values are compared: copies of an unrolled layer repeat their block.
static mu_status check_described(const mu_net_builder *nb, const mu_param *p, const mu_param *want,
                                 const mu_node *block, const mu_node *init, mu_err *err) {
    static const char *const keys[] = {"lr", "decay", "max_norm"};
    const bool differs[] = {want->lr_mult != p->lr_mult, want->decay_mult != p->decay_mult,
                            want->max_norm != p->max_norm};
    const mu_node *at = init && !mu_params_same_init(&want->init, &p->init) ? init : NULL;
    for (size_t i = 0; block && i < MU_COUNT(keys); i++)
        if (differs[i] && mu_node_find(block, keys[i])) at = mu_node_find(block, keys[i]);
    if (!at || nb->net->params->complete || nb->net->params->wholes || p->n_users < 2) return MU_OK;
    const char *layer = first_user(nb->net, p);
    mu_status st = MU_FAIL_AT(err, MU_EJOB, at->pos, "`%s` is described by layer `%s`, with another `%s`",
                              p->name, layer, at->key);
    mu_err_hint(err, "Layers that share a parameter share how it begins and learns: write `%s` in `%s`.",
                at->key, layer);
    return st;
}

mu_status mu_build_add_param(mu_layer *l, mu_param *proto, const char *what, const char *init_text,
                             mu_err *err) {
    mu_net_builder *nb = l->builder;
    const mu_node *block = l->node ? mu_node_find(l->node, what) : NULL;
    param_opts opts = {.lr = 1, .decay = 1};
    mu_class_ref common = {0};
    if (block) {
        mu_bind_part part = {mu_param_fields, &opts};
        mu_diags quiet = *nb->b->diags; // problems of this block were reported when the layer was bound
        mu_binder again = *nb->b;
        again.diags = &quiet;
        mu_bind(&again, block, block->pos, what, &part, 1, NULL, 0);
    }
    const mu_node *short_init = l->node && !strncmp(what, "weight", 6) ? mu_node_find(l->node, "init") : NULL;
    if (!opts.init.plugin && short_init) {
        mu_diags quiet = *nb->b->diags;
        mu_binder again = *nb->b;
        again.diags = &quiet;
        common =
            mu_bind_class(&again, short_init, short_init->pos, "initial values", &mu_inits, "type", NULL, 0);
    }
    proto->init = opts.init.plugin ? opts.init : common.plugin ? common : default_init(nb, init_text, l->pos);
    proto->lr_mult = opts.lr;
    proto->decay_mult = opts.decay;
    proto->descends = opts.rule == 1;
    proto->max_norm = opts.max_norm;
    proto->pos = block ? block->pos : l->pos;
    proto->name =
        opts.name && *opts.name ? opts.name : mu_arena_printf(l->arena, "%s.%s", mu_layer_job_name(l), what);
    if (!proto->name) return MU_FAIL_NOMEM(err, "a name");
    MU_TRY(check_max_norm(proto, err));
    if (l->n_param == MU_MAX_PARAM)
        return mu_layer_fail(l, err, "layer `%s` declares too many parameters", l->name);
    mu_params *ps = nb->net->params;
    MU_TRY(ps->wholes ? mu_params_add_piece(ps, proto, &l->cut.feature, l->piece, &l->param[l->n_param], err)
                      : mu_params_add(ps, proto, &l->param[l->n_param], err));
    const mu_param *p = l->param[l->n_param++];
    l->in_contrast |= l->contrast && l->class->contrast && !p->is_stat && p->lr_mult > 0;
    const mu_node *init = opts.init.plugin ? mu_node_find(block, "init") : short_init;
    MU_TRY(check_described(nb, p, proto, block, init, err));
    return check_init(nb, p, init ? init->pos : proto->pos, err);
}
