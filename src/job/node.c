// SPDX-License-Identifier: Apache-2.0
// node.c - building and reading of job-tree nodes; see node.h.
#include "job/node.h"

#include <string.h>
#include <strings.h>

mu_node *mu_node_find(const mu_node *map, const char *key) {
    if (!map || map->kind != MU_MAP) return NULL;
    for (size_t i = 0; i < map->n; i++)
        if (!strcmp(map->item[i]->key, key)) return map->item[i];
    return NULL;
}

const char *mu_node_text(const mu_node *n) { return n && n->kind == MU_SCALAR ? n->text : NULL; }

bool mu_node_is_null(const mu_node *n) {
    if (!n) return true;
    if (n->kind != MU_SCALAR || n->quoted) return false;
    return !*n->text || !strcmp(n->text, "~") || !strcasecmp(n->text, "null");
}

mu_node *mu_node_create(mu_arena *a, mu_node_kind kind, mu_srcpos pos) {
    mu_node *n = mu_arena_alloc(a, sizeof *n);
    if (!n) return NULL;
    n->kind = kind;
    n->pos = pos;
    if (kind == MU_SCALAR) n->text = "";
    return n;
}

mu_status mu_node_append(mu_arena *a, mu_node *parent, mu_node *child, mu_err *err) {
    mu_node **item = mu_arena_grow(a, parent->item, parent->n, &parent->cap, sizeof *item, 4);
    if (!item) return MU_FAIL_NOMEM(err, "the job tree");
    parent->item = item;
    parent->item[parent->n++] = child;
    return MU_OK;
}

mu_status mu_node_put_text(mu_arena *a, mu_node *map, const char *key, const char *text, mu_err *err) {
    mu_node *n = mu_node_create(a, MU_SCALAR, map->pos);
    if (!n || !(n->text = mu_arena_strdup(a, text))) return MU_FAIL_NOMEM(err, "the job");
    n->key = key;
    n->key_pos = map->pos;
    for (size_t i = 0; i < map->n; i++)
        if (!strcmp(map->item[i]->key, key)) {
            map->item[i] = n;
            return MU_OK;
        }
    return mu_node_append(a, map, n, err);
}
