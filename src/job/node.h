// SPDX-License-Identifier: Apache-2.0
// node.h - the job file as a tree in which every node knows its place.
//
// The tree is made by job/yaml.c from libyaml events (YAML 1.1, one document, no tags; anchors and
// aliases allowed up to limits; duplicate keys are errors), lives in the job's arena and is read-only
// afterwards, except that --set edits it before anything is bound.
#ifndef MU_JOB_NODE_H
#define MU_JOB_NODE_H

#include "base/alloc.h"
#include "base/err.h"

typedef enum mu_node_kind { MU_SCALAR, MU_LIST, MU_MAP } mu_node_kind;

typedef struct mu_node {
    mu_node_kind     kind;
    mu_srcpos        pos;       // of the value; span = its length for scalars
    const char      *text;      // scalar: its text ("" for null); NULL otherwise
    bool             quoted;    // scalar written in quotes: never a number, bool or null
    size_t           n, cap;    // list and map: number of items
    struct mu_node **item;
    const char      *key;       // in a map: the key of this node; NULL otherwise
    mu_srcpos        key_pos;
    bool             merged;    // taken over by a merge key (`<<: *base`)
} mu_node;

mu_node *mu_node_find(const mu_node *map, const char *key); // NULL if absent or map is no map (NULL is fine)
const char *mu_node_text(const mu_node *n);                     // scalar text, NULL if n is NULL or no scalar
bool mu_node_is_null(const mu_node *n); // NULL, or an unquoted empty / ~ / null scalar

mu_node *mu_node_create(mu_arena *a, mu_node_kind kind, mu_srcpos pos);         // NULL when out of memory
mu_status mu_node_append(mu_arena *a, mu_node *parent, mu_node *child,
                         mu_err *err); // child->key set by the caller for maps

// A scalar in the block `map` under `key`, in the place of what is there: that node may stand in other blocks
// too, so it is not changed. `key` must live as long as the tree; the text is copied.
mu_status mu_node_put_text(mu_arena *a, mu_node *map, const char *key, const char *text, mu_err *err);

#endif
