// SPDX-License-Identifier: Apache-2.0
// bind.c - from the `net:` list to layers with resolved sources, shapes and parameters.
//
// Everything wrong with the job is reported to the diags and building goes on, so that one check
// shows all problems; a layer whose shapes are unknown is `broken` and silences its consumers.
#include "base/utf8.h"
#include "job/suggest.h"
#include "net/build.h"
#include "net/partition_inner.h"
#include "net/unroll.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct layer_opts {             // keys every layer block may have
    const char  *name, *type;
    mu_strings   src, include, exclude;
    int64_t      unroll, location;
    const mu_node *partition;
    mu_class_ref init;
} layer_opts;

const mu_field mu_layer_common_fields[] = {
    MU_FIELD(layer_opts, name, MU_STRING, NULL, NULL, "name of the layer, its output and its parameters"),
    MU_FIELD(layer_opts, type, MU_STRING, NULL, NULL, "layer type, see `muster help layer`"),
    MU_FIELD(layer_opts, src, MU_STRINGS, "[]", NULL,
             "sources: layers, data.<field>, blocks {layer, shift, connect}; the layer above when left out"),
    MU_FIELD(layer_opts, unroll, MU_INT, "0", "[0,1000]",
             "number of copies, one for each time step, which share parameters; 0 = no recurrence"),
    MU_FIELD(layer_opts, include, MU_STRINGS, "[]", NULL,
             "only in these phases: train, validation, test, predict"),
    MU_FIELD(layer_opts, exclude, MU_STRINGS, "[]", NULL, "not in these phases"),
    MU_FIELD_CLASS(layer_opts, init, "", "init",
                   "initial values of `weight`, of recurrent layers of both weights"),
    {"partition", MU_NODE, offsetof(layer_opts, partition), "", "batch: 1, feature: 1",
     "batch|feature|none|auto",
     "how the workers of a group split the layer, see `muster check --graph`; none = it stays whole; auto = "
     "as moves the fewest bytes, see `muster check --explain`"},
    MU_FIELD(layer_opts, location, MU_INT, "0", "[0,15]", "the worker of a layer that stays whole"),
    {0},
};

// ---- the input node ----

static mu_status input_infer(mu_layer *l, mu_err *err) { (void)l; (void)err; return MU_OK; }
static mu_status input_forward(MU_UNUSED mu_layer *l, MU_UNUSED const mu_step *s, MU_UNUSED mu_err *err) {
    return MU_OK;
}

const mu_layer_class mu_input_class = {
    .name = "data", .help = "the fields of the data set", .infer = input_infer, .forward = input_forward,
};

mu_status mu_build_append(mu_net_builder *nb, mu_layer *l, mu_err *err) {
    mu_net *net = nb->net;
    if (net->n_layers == nb->cap) {
        int cap = nb->cap ? 2 * nb->cap : 32;
        mu_layer **list = mu_arena_array(&net->arena, (size_t)cap, sizeof *list);
        if (!list) return MU_FAIL_NOMEM(err, "the layer list");
        if (net->n_layers) memcpy(list, net->layer, (size_t)net->n_layers * sizeof *list);
        net->layer = list;
        nb->cap = cap;
    }
    l->at = net->n_layers;
    net->layer[net->n_layers++] = l;
    return MU_OK;
}

mu_layer *mu_build_new_layer(mu_net_builder *nb, mu_err *err) {
    mu_layer *l = mu_arena_alloc(&nb->net->arena, sizeof *l);
    if (!l) {
        MU_FAIL_NOMEM(err, "a layer");
        return NULL;
    }
    l->arena = &nb->net->arena;
    l->phase = nb->net->phase;
    l->builder = nb;
    l->add_param = mu_build_add_param;
    l->contrast = nb->o->contrast;
    l->restored = nb->o->restored;
    l->shares_params = nb->o->share != NULL;
    return mu_build_append(nb, l, err) == MU_OK ? l : NULL;
}

static mu_status add_input(mu_net_builder *nb, mu_err *err) {
    mu_layer *l = mu_build_new_layer(nb, err);
    if (!l) return MU_ENOMEM;
    l->class = &mu_input_class;
    l->name = "data";
    for (int i = 0; i < nb->o->n_fields; i++) {
        const mu_data_field *f = &nb->o->fields[i];
        mu_blob *b = &l->out[l->n_out++];
        b->name = mu_arena_printf(&nb->net->arena, "data.%s", f->name);
        if (!b->name) return MU_FAIL_NOMEM(err, "a name");
        b->producer = l;
        b->value.shape = mu_shape_prepend(nb->net->batch, &f->shape);
        b->value.dtype = f->store == MU_STORE_I32 ? MU_I32 : MU_F32;
        b->n_classes = f->n_classes;
        b->top_from = f->top_from;
        b->names = f->names;
        b->streams = f->streams;
    }
    return MU_OK;
}

// ---- names ----

static size_t slot_of(const mu_net_builder *nb, const char *name, size_t n) {
    uint64_t h = 1469598103934665603u; // FNV-1a
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)name[i]) * 1099511628211u;
    return (size_t)(h ^ h >> 32) & (nb->by_name_cap - 1);
}

// The layer of this name above the one that is being bound.
static mu_layer *find_layer(const mu_net_builder *nb, const char *name, size_t n) {
    for (size_t i = slot_of(nb, name, n); nb->by_name[i]; i = (i + 1) & (nb->by_name_cap - 1))
        if (!strncmp(nb->by_name[i]->name, name, n) && !nb->by_name[i]->name[n]) return nb->by_name[i];
    return NULL;
}

static void remember(mu_net_builder *nb, mu_layer *l) {
    size_t i = slot_of(nb, l->name, strlen(l->name));
    while (nb->by_name[i]) i = (i + 1) & (nb->by_name_cap - 1);
    nb->by_name[i] = l;
}

static mu_blob *output_of(mu_layer *l, int k) {
    l->out[k].producer = l;
    return &l->out[k];
}

static mu_blob *find_blob(const mu_net_builder *nb, const char *name) {
    mu_layer *data = nb->net->layer[0], *l = find_layer(nb, name, strlen(name));
    if (l) return output_of(l, 0);
    for (int k = 0; k < data->n_out; k++)
        if (!strcmp(data->out[k].name, name)) return &data->out[k];
    // outputs beyond the first are named in infer; before that `layer.k` is taken on trust
    const char *dot = strrchr(name, '.');
    int k = 0, used = 0;
    if (!dot || sscanf(dot + 1, "%d%n", &k, &used) != 1 || dot[1 + used] || k < 0 || k >= MU_MAX_OUT)
        return NULL;
    l = find_layer(nb, name, (size_t)(dot - name));
    return l ? output_of(l, k) : NULL;
}

static const mu_node *find_in_file(const mu_net_builder *nb, const char *name) {
    for (size_t i = 0; i < nb->o->net->n; i++) {
        const char *n = mu_node_text(mu_node_find(nb->o->net->item[i], "name"));
        if (n && !strcmp(n, name)) return nb->o->net->item[i];
    }
    return NULL;
}

void mu_build_report_src(mu_net_builder *nb, const char *layer, const char *name, mu_srcpos pos) {
    mu_diags *d = nb->b->diags;
    const mu_node *later = find_in_file(nb, name);
    for (int i = 0; i < nb->n_absent; i++)
        if (!strcmp(nb->absent[i], name)) {
            mu_diag *g =
                mu_diags_add(d, MU_DIAG_ERROR, pos, "layer `%s` takes `%s`, which is not part of phase %s",
                             layer, name, mu_phase_name(nb->net->phase));
            mu_diag_hint(d, g, "Exclude `%s` from that phase too, or give it another source there.", layer);
            return;
        }
    if (later) {
        bool self = !strcmp(name, layer);
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, pos, self ? "layer `%s` takes itself as source"
                                  : "layer `%s` takes `%s`, which is defined below it", layer, name);
        mu_diag_hint(d, g,
                     "A net is written in the order of execution: sources stand above their consumers.");
        return;
    }
    const char *known[256];
    size_t n = 0;
    for (int i = 0; i < nb->net->n_layers; i++) {
        mu_layer *s = nb->net->layer[i];
        if (i && !s->n_copies && n < MU_COUNT(known)) known[n++] = s->name;
        for (int k = 0; k < s->n_out && n < MU_COUNT(known); k++)
            if (s->out[k].name) known[n++] = s->out[k].name;
    }
    for (size_t i = 0; i < nb->o->net->n && n < MU_COUNT(known); i++) {
        const char *t = mu_node_text(mu_node_find(nb->o->net->item[i], "name"));
        if (t) known[n++] = t;
    }
    mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, pos, "layer `%s` takes unknown source `%s`", layer, name);
    const char *near = mu_nearest(name, known, n);
    if (near) mu_diag_label(d, g, "did you mean `%s`?", near);
    else if (nb->net->layer[0]->n_out)
        mu_diag_hint(d, g, "Sources are layers above, or fields of the data such as `%s`.",
                     nb->net->layer[0]->out[0].name);
}

static void add_src(mu_net_builder *nb, mu_layer *l, const char *name, mu_srcpos pos) {
    mu_blob *b = find_blob(nb, name);
    if (!b) {
        mu_build_report_src(nb, mu_layer_job_name(l), name, pos);
        l->broken = true;
    } else if (l->n_src == MU_MAX_SRC) {
        mu_diags_add(nb->b->diags, MU_DIAG_ERROR, pos, "layer `%s` has more than %d sources",
                     mu_layer_job_name(l), MU_MAX_SRC);
        l->broken = true;
    } else {
        l->src[l->n_src++] = b;
    }
}

static void resolve_src(mu_net_builder *nb, mu_layer *l, int index) {
    const mu_node *src = mu_node_find(l->node, "src");
    if (src && src->kind == MU_LIST) {
        for (size_t i = 0; i < src->n; i++)
            if (mu_node_text(src->item[i])) add_src(nb, l, src->item[i]->text, src->item[i]->pos);
    } else if (src && !mu_node_is_null(src)) {
        if (mu_node_text(src)) add_src(nb, l, src->text, src->pos);
    } else if (index > 0) { // the layer above, or the first field of the data
        mu_layer *above = nb->net->layer[index - 1];
        if (above->class == &mu_input_class && !above->n_out) l->broken = true;
        else l->src[l->n_src++] = output_of(above, 0);
    }
    if (l->broken) return;
    const int least = mu_layer_min_src(l->class), most = mu_layer_max_src(l->class);
    if (l->n_src < least || l->n_src > most) {
        mu_srcpos pos = src ? src->pos : l->pos;
        mu_diag *g =
            least == most
                ? mu_diags_add(nb->b->diags, MU_DIAG_ERROR, pos,
                               "layer `%s` of type `%s` takes %d source%s, not %d", mu_layer_job_name(l),
                               l->class->name, least, least == 1 ? "" : "s", l->n_src)
                : mu_diags_add(nb->b->diags, MU_DIAG_ERROR, pos,
                               "layer `%s` of type `%s` takes %d to %d sources, not %d", mu_layer_job_name(l),
                               l->class->name, least, most, l->n_src);
        if (least == 2 && l->n_src == 1)
            mu_diag_hint(nb->b->diags, g, "Write `src: [%s, data.label]`.",
                         l->src[0]->name ? l->src[0]->name : l->src[0]->producer->name);
        l->broken = true;
    }
}

// ---- phases ----

static unsigned phase_mask(mu_net_builder *nb, const mu_node *node, const char *key, const char *layer) {
    unsigned mask = 0;
    const mu_node *list = mu_node_find(node, key);
    size_t n = !list ? 0 : list->kind == MU_LIST ? list->n : 1;
    for (size_t i = 0; i < n; i++) {
        const mu_node *it = list->kind == MU_LIST ? list->item[i] : list;
        const char *word = mu_node_text(it);
        if (!word) continue;
        int k = mu_choice_find(MU_PHASE_CHOICES, word);
        if (k >= 0) { mask |= 1u << k; continue; }
        static const char *const names[] = {"train", "validation", "test", "predict"};
        mu_diag *g = mu_diags_add(nb->b->diags, MU_DIAG_ERROR, it->pos, "unknown phase `%s` in layer `%s`",
                                  word, layer);
        const char *near = mu_nearest(word, names, MU_COUNT(names));
        if (near) mu_diag_label(nb->b->diags, g, "did you mean `%s`?", near);
        else mu_diag_hint(nb->b->diags, g, "Phases are train, validation, test and predict.");
    }
    return mask;
}

// Prediction needs no losses, and no output layer whose data field (the label) is not delivered.
static bool pointless(mu_net_builder *nb, const mu_node *node, const mu_layer_class *c) {
    if (nb->net->phase != MU_PREDICT || !c) return false;
    if (c->flags & MU_LAYER_LOSS) return true;
    const mu_node *src = mu_node_find(node, "src");
    for (size_t i = 0; (c->flags & MU_LAYER_OUTPUT) && src && src->kind == MU_LIST && i < src->n; i++) {
        const mu_node *it = src->item[i];
        const char *name = mu_node_text(it->kind == MU_MAP ? mu_node_find(it, "layer") : it);
        if (name && !strncmp(name, "data.", 5) && !find_blob(nb, name)) return true;
    }
    return false;
}

static bool in_phase(mu_net_builder *nb, const mu_node *node, const char *layer) {
    const mu_node *inc = mu_node_find(node, "include"), *exc = mu_node_find(node, "exclude");
    unsigned include = phase_mask(nb, node, "include", layer),
             exclude = phase_mask(nb, node, "exclude", layer);
    if (inc && exc) {
        mu_diag *g = mu_diags_add(nb->b->diags, MU_DIAG_ERROR, exc->key_pos,
                                  "layer `%s` has both `include` and `exclude`", layer);
        mu_diag_hint(nb->b->diags, g, "Keep one of them.");
    }
    if (include) return include & (unsigned)nb->net->phase;
    return !(exclude & (unsigned)nb->net->phase);
}

bool mu_build_is_absent(mu_net_builder *nb, const mu_node *block, const char *name) {
    const char *type = mu_node_text(mu_node_find(block, "type"));
    const mu_plugin *c = type ? mu_registry_find(&mu_layers, type) : NULL;
    return !in_phase(nb, block, name) || pointless(nb, block, (const mu_layer_class *)c);
}

// ---- one block ----

// A required key is missing. When another key of the block looks like it, that one is the mistake.
static void missing_key(mu_net_builder *nb, const mu_node *node, mu_srcpos where, const char *key,
                        const char *what, const char *hint) {
    mu_diags *d = nb->b->diags;
    mu_words want = {0}, known = {0};
    mu_words_add(d, &want, key);
    for (const mu_field *f = mu_layer_common_fields; f->key; f++) mu_words_add(d, &known, f->key);
    for (size_t i = 0; node->kind == MU_MAP && i < node->n; i++) {
        const mu_node *item = node->item[i];
        const char *near = mu_suggest(item->key, &want) ? mu_suggest(item->key, &known) : NULL;
        if (!near || strcmp(near, key) || !strcmp(item->key, key)) continue;
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, item->key_pos, "unknown key `%s`: %s", item->key, what);
        mu_diag_label(d, g, "did you mean `%s`?", key);
        return;
    }
    mu_diag_hint(d, mu_diags_add(d, MU_DIAG_ERROR, where, "%s", what), "%s", hint);
}

static const mu_layer_class *find_class(mu_net_builder *nb, const mu_node *node, const char *name) {
    const mu_node *type = mu_node_find(node, "type");
    const char *word = mu_node_text(type);
    if (!word) {
        char what[160];
        snprintf(what, sizeof what, "layer `%.120s` has no `type`", name);
        missing_key(nb, node, type ? type->pos : node->pos, "type", what,
                    "`muster help layer` lists the types.");
        return NULL;
    }
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, word);
    if (c) return c;
    mu_diag *g = mu_diags_add(nb->b->diags, MU_DIAG_ERROR, type->pos, "unknown layer type `%s`", word);
    mu_words valid = {0};
    mu_words_add_registry(nb->b->diags, &valid, &mu_layers);
    mu_diag_suggest(nb->b->diags, g, word, &valid, "layer types");
    return NULL;
}

static void check_name(mu_net_builder *nb, const char *name, const mu_node *node, bool copy) {
    mu_diags *d = nb->b->diags;
    const mu_layer *other = find_layer(nb, name, strlen(name));
    if (other && !(copy && other->n_copies)) { // unrolling has said it of all copies
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, node->pos, "two layers are called `%s`", name);
        mu_diag_hint(d, g, "The first one is at line %d.", other->pos.line);
    }
    if (mu_utf8_has_control(name))
        mu_diags_add(d, MU_DIAG_ERROR, node->pos, "the name of a layer has a control character in it");
    if (!strcmp(name, "data"))
        mu_diags_add(d, MU_DIAG_ERROR, node->pos, "`data` is the name of the data set, not free for a layer");
}

static mu_status new_layer(mu_net_builder *nb, const mu_unrolled *u, mu_layer **out, mu_err *err) {
    mu_layer *l = mu_build_new_layer(nb, err);
    if (!l) return MU_ENOMEM;
    const char *purpose = mu_arena_printf(&nb->net->arena, "layer/%s", u->name);
    l->name = mu_arena_strdup(&nb->net->arena, u->name);
    if (u->n_copies) l->origin = mu_arena_strdup(&nb->net->arena, u->origin);
    if (!l->name || !purpose || (u->n_copies && !l->origin)) return MU_FAIL_NOMEM(err, "a name");
    l->inserted = u->inserted;
    l->copy = u->copy;
    l->n_copies = u->n_copies;
    l->left_out = u->left_out;
    l->node = u->node;
    l->pos = mu_node_find(u->node, "name")->pos;
    l->key = mu_rng_key_make(nb->net->seed, purpose);
    if (u->copy) {
        const char *before = mu_arena_printf(&nb->net->arena, "%s#%d", u->origin, u->copy - 1);
        if (!before) return MU_FAIL_NOMEM(err, "a name");
        l->copy_before = find_layer(nb, before, strlen(before));
    }
    *out = l;
    return MU_OK;
}

static void bind_keys(mu_binder *b, const mu_node *node, const mu_layer_class *c, void *state,
                      const char *name) {
    size_t n_params = 0;
    while (c->params && c->params[n_params]) n_params++;
    layer_opts common = {0};
    char what[160];
    snprintf(what, sizeof what, "layer `%.120s`", name);
    const mu_bind_part parts[2] = {{mu_layer_common_fields, &common}, {c->fields, state}};
    mu_bind(b, node, node->pos, what, parts, c->fields ? 2 : 1, c->params, n_params);
}

void mu_build_bind_quietly(mu_net_builder *nb, const mu_node *block, const mu_layer *l) {
    mu_diags quiet = *nb->b->diags;
    mu_binder again = *nb->b;
    again.diags = &quiet;
    bind_keys(&again, block, l->class, l->state, l->name);
}

static mu_status bind_block(mu_net_builder *nb, const mu_unrolled *u, mu_err *err) {
    mu_diags *d = nb->b->diags;
    size_t errors_before = d->n_errors;
    const mu_node *node = u->node, *name_node = mu_node_find(node, "name");
    if (!u->name || !*u->name) {
        missing_key(nb, node, name_node ? name_node->pos : node->pos, "name", "a layer has no `name`",
                    "Every layer needs a name: `- {name: conv1, type: convolution, ...}`.");
        nb->absent[nb->n_absent++] = "?";
        return MU_OK;
    }
    const mu_layer_class *c = find_class(nb, node, u->origin);
    void *state = c ? mu_arena_alloc(&nb->net->arena, c->state_size + 1) : NULL;
    if (c && !state) return MU_FAIL_NOMEM(err, "a layer");
    if (c) bind_keys(nb->b, node, c, state, u->origin);
    if (c) mu_build_check_params(nb, node, c, u->origin);
    if (c) (void)mu_layer_split_read(nb->b, node, u->origin);
    if (u->absent || (!u->inserted && mu_build_is_absent(nb, node, u->origin))) {
        nb->absent[nb->n_absent++] = u->name;
        return MU_OK;
    }
    check_name(nb, u->name, name_node, u->n_copies > 0);
    mu_layer *l = NULL;
    MU_TRY(new_layer(nb, u, &l, err));
    l->class = c ? c : &mu_input_class;
    l->broken = u->broken || d->n_errors > errors_before; // its shapes would be guesses
    l->state = state;
    if (c && !u->broken) resolve_src(nb, l, nb->net->n_layers - 1);
    remember(nb, l);
    return MU_OK;
}

mu_status mu_build_layers(mu_net_builder *nb, mu_err *err) {
    if (nb->o->partition) return mu_partition_emit(nb, err);
    MU_TRY(add_input(nb, err));
    mu_unrolled *list = NULL;
    size_t n = 0;
    nb->absent = mu_arena_array(&nb->net->arena, 2 * nb->o->net->n + 1, sizeof *nb->absent);
    nb->by_name_cap = 16;
    nb->by_name = mu_arena_array(&nb->net->arena, nb->by_name_cap, sizeof(mu_layer *)); // while unrolling
    if (!nb->absent || !nb->by_name) return MU_FAIL_NOMEM(err, "the layer list");
    MU_TRY(mu_unroll(nb, &list, &n, err));
    while (nb->by_name_cap < 2 * n + 2) nb->by_name_cap *= 2;
    nb->by_name = mu_arena_array(&nb->net->arena, nb->by_name_cap, sizeof(mu_layer *));
    if (!nb->by_name) return MU_FAIL_NOMEM(err, "the layer list");
    for (size_t i = 0; i < n; i++) MU_TRY(bind_block(nb, &list[i], err));
    return MU_OK;
}

// ---- shapes ----

static bool sources_known(const mu_layer *l) {
    for (int i = 0; i < l->n_src; i++)
        if (l->src[i]->producer->broken) return false;
    return true;
}

mu_status mu_build_infer(mu_net_builder *nb, mu_err *err) {
    for (int i = 0; i < nb->net->n_layers; i++) {
        mu_layer *l = nb->net->layer[i];
        if (l->broken || !sources_known(l) || (l->copy_before && l->copy_before->broken)) {
            l->broken = true; // what is wrong with one copy need not be said of all
            continue;
        }
        for (int k = 0; k < l->n_src; k++)
            if (l->src[k] >= l->src[k]->producer->out + l->src[k]->producer->n_out) {
                mu_diags_add(nb->b->diags, MU_DIAG_ERROR, l->pos,
                             "layer `%s` takes output %d of `%s`, which has %d", l->name,
                             (int)(l->src[k] - l->src[k]->producer->out), l->src[k]->producer->name,
                             l->src[k]->producer->n_out);
                l->broken = true;
            }
        if (l->broken) continue;
        mu_err own = {0};
        mu_status s = l->class->infer(l, &own);
        if (s == MU_ENOMEM) return mu_err_pass(s, &own, err);
        if (s != MU_OK) {
            if (!own.pos.line) own.pos = l->pos;
            mu_diags_add_err(nb->b->diags, &own);
            l->broken = true;
        }
    }
    return MU_OK;
}
