// SPDX-License-Identifier: Apache-2.0
// partition_keys.c - `partition` and `location` of a layer's block.
#include "net/partition.h"

#include <string.h>

const mu_field mu_grid_fields[] = {
    {"batch", MU_INT, 0, "1", "[1,16]", NULL, "parts of the batch"},
    {"feature", MU_INT, sizeof(int64_t), "1", "[1,16]", NULL, "parts of the features of each"},
    {0},
};

static void read_block(mu_binder *b, const mu_node *node, const char *layer, mu_layer_split *out) {
    int64_t parts[2] = {1, 1};
    const size_t before = b->diags->n_errors;
    char what[160];
    snprintf(what, sizeof what, "`partition` of layer `%.100s`", layer);
    mu_bind(b, node, node->pos, what, &(mu_bind_part){mu_grid_fields, parts}, 1, NULL, 0);
    if (b->diags->n_errors > before) return;
    out->kind = MU_LAYER_SPLIT_GRID;
    out->grid = (mu_grid){(int)parts[0], (int)parts[1]};
}

static void read_word(mu_binder *b, const mu_node *node, const char *layer, mu_layer_split *out) {
    static const char *const words[] = {"none", "batch", "feature", "auto"};
    const char *word = mu_node_text(node);
    for (size_t i = 0; word && i < MU_COUNT(words); i++)
        if (!strcmp(word, words[i])) out->kind = MU_LAYER_SPLIT_NONE + (unsigned)i;
    if (out->kind != MU_LAYER_SPLIT_DEFAULT) return;
    mu_diag *g =
        mu_diags_add(b->diags, MU_DIAG_ERROR, node->pos, "`partition` of layer `%s` is no way to cut it: %s",
                     layer, word ? word : "a list");
    const char *near = word ? mu_nearest(word, words, MU_COUNT(words)) : NULL;
    if (near) mu_diag_label(b->diags, g, "did you mean `%s`?", near);
    else
        mu_diag_hint(b->diags, g,
                     "Write batch, feature, none or auto, or both numbers: {batch: 2, feature: 2}.");
}

mu_layer_split mu_layer_split_read(mu_binder *b, const mu_node *block, const char *layer) {
    mu_layer_split s = {.location = -1};
    const mu_node *how = mu_node_find(block, "partition"), *where = mu_node_find(block, "location");
    if (how && how->kind == MU_MAP) read_block(b, how, layer, &s);
    else if (!mu_node_is_null(how)) read_word(b, how, layer, &s);
    if (mu_node_text(where) && !mu_parse_int(where->text, &s.location)) s.location = -1; // binding reports it
    return s;
}
