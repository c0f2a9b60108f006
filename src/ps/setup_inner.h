// SPDX-License-Identifier: Apache-2.0
// setup_inner.h - what the two files of the section `cluster:` share: setup_bind.c and setup.c.
#ifndef MU_PS_SETUP_INNER_H
#define MU_PS_SETUP_INNER_H

#include "ps/merge.h"

static inline bool cluster_is_given(const mu_node *node, const char *key) {
    return !mu_node_is_null(mu_node_find(node, key));
}

// Of a key's value; of the section, when the key is not in it.
static inline mu_srcpos cluster_place_of(const mu_node *node, const char *key) {
    const mu_node *value = mu_node_find(node, key);
    return value ? value->pos : node ? node->key_pos : MU_NOPOS;
}

static inline const mu_protocol_class *cluster_protocol(const mu_cluster_opts *o) {
    return (const mu_protocol_class *)o->protocol.plugin;
}

static inline bool cluster_is_in_step(const mu_class_ref *ref) {
    return ref->plugin && ((const mu_protocol_class *)(const void *)ref->plugin)->sync_versions;
}

#endif
