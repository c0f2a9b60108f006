// SPDX-License-Identifier: Apache-2.0
// outputs.c - see outputs.h.
#include "net/outputs.h"

#include "layer/layer.h"

#include <inttypes.h>
#include <string.h>

typedef struct search {
    const mu_node *net;
    const mu_data_field *fields;
    int n_fields;
    bool *follows;      // [net->n] has as many values as the layer in question
} search;

static const mu_layer_class *class_of(const mu_node *layer) {
    const char *type = mu_node_text(mu_node_find(layer, "type"));
    return type ? (const mu_layer_class *)mu_registry_find(&mu_layers, type) : NULL;
}

// Source k of layer i, the layer above where it names none; NULL = no such source.
static const char *source_of(const mu_node *net, size_t i, size_t k) {
    const mu_node *src = mu_node_find(net->item[i], "src");
    if (mu_node_is_null(src))
        return k || !i ? NULL : mu_node_text(mu_node_find(net->item[i - 1], "name"));
    if (src->kind != MU_LIST) return k ? NULL : mu_node_text(src);
    if (k >= src->n) return NULL;
    const mu_node *it = src->item[k];
    return mu_node_text(it->kind == MU_MAP ? mu_node_find(it, "layer") : it);
}

// Is the source one of the layers that follow? Names of outputs (`slice.1`) are not.
static bool is_followed(const search *s, size_t before, const char *name) {
    for (size_t i = 0; i < before; i++) {
        const char *n = s->follows[i] ? mu_node_text(mu_node_find(s->net->item[i], "name")) : NULL;
        if (n && !strcmp(n, name)) return true;
    }
    return false;
}

static const mu_data_field *field_of(const search *s, const char *name) {
    for (int i = 0; !strncmp(name, "data.", 5) && i < s->n_fields; i++)
        if (!strcmp(s->fields[i].name, name + 5)) return &s->fields[i];
    return NULL;
}

// One score says yes or no to a label of two classes; everything else has a score for each.
static int64_t values_for(const mu_data_field *f, const mu_layer_class *c) {
    if (f->store != MU_STORE_I32) return mu_shape_count(&f->shape);
    return !strcmp(c->name, "sigmoid_loss") && f->n_classes <= 2 ? 1 : f->n_classes;
}

// The field that layer i, a loss or a metric, compares followed values with.
static const mu_data_field *compared(const search *s, size_t i, bool *reads) {
    const mu_data_field *truth = NULL;
    const char *name;
    *reads = false;
    for (size_t k = 0; (name = source_of(s->net, i, k)); k++) {
        const mu_data_field *f = field_of(s, name);
        if (f) truth = f;
        else *reads |= is_followed(s, i, name);
    }
    return *reads ? truth : NULL;
}

// Number of values that layer `at` must have; 0 = no loss says so, -1 = the data does not know it.
static int64_t find_number(search *s, size_t at, const char **field) {
    int64_t found = 0;
    memset(s->follows, 0, s->net->n * sizeof *s->follows);
    s->follows[at] = true;
    for (size_t i = at + 1; i < s->net->n; i++) {
        const mu_layer_class *c = class_of(s->net->item[i]);
        bool reads;
        const mu_data_field *f = c ? compared(s, i, &reads) : NULL;
        if (!c || !reads) continue;
        if (!(c->flags & (MU_LAYER_LOSS | MU_LAYER_OUTPUT))) {
            s->follows[i] = c->flags & (MU_LAYER_IN_PLACE | MU_LAYER_SAME_SHAPE);
            continue;
        }
        if (!f) continue;
        *field = f->name;
        found = values_for(f, c);
        if (found > 0) return found;
        found = -1;
    }
    return found;
}

static void report(mu_diags *d, const mu_node *layer, const mu_node *outputs, int64_t found,
                   const char *field) {
    const char *name = mu_node_text(mu_node_find(layer, "name"));
    mu_diag *g;
    if (found < 0) {
        g = mu_diags_add(d, MU_DIAG_ERROR, outputs->pos,
                         "`outputs: auto` of layer `%s`: the data does not say how many classes `%s` has",
                         name ? name : "?", field);
        mu_diag_hint(d, g, "Write the number, or give `classes` in the data block.");
        return;
    }
    g = mu_diags_add(d, MU_DIAG_ERROR, outputs->pos,
                     "`outputs: auto` of layer `%s`: no loss below compares it with a field of the data",
                     name ? name : "?");
    mu_diag_hint(d, g, "It is for the last layer, which a loss reads; write the number here.");
}

static mu_status fill(search *s, mu_arena *arena, mu_diags *d, size_t i, mu_node *outputs, mu_err *err) {
    const char *field = "?";
    const int64_t n = find_number(s, i, &field);
    if (n <= 0) {
        report(d, s->net->item[i], outputs, n, field);
        return MU_OK;
    }
    outputs->text = mu_arena_printf(arena, "%" PRId64, n);
    return outputs->text ? MU_OK : MU_FAIL_NOMEM(err, "the job");
}

mu_status mu_outputs_fill(mu_arena *arena, mu_diags *diags, mu_node *net, const mu_data_field *fields,
                          int n_fields, mu_err *err) {
    search s = {.net = net, .fields = fields, .n_fields = n_fields};
    for (size_t i = 0; net && net->kind == MU_LIST && i < net->n; i++) {
        mu_node *outputs = mu_node_find(net->item[i], "outputs");
        const char *text = mu_node_text(outputs);
        if (!text || strcmp(text, "auto")) continue;
        if (!s.follows) s.follows = mu_arena_array(arena, net->n, sizeof *s.follows);
        if (!s.follows) return MU_FAIL_NOMEM(err, "the job");
        MU_TRY(fill(&s, arena, diags, i, outputs, err));
    }
    return MU_OK;
}
