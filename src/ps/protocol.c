// SPDX-License-Identifier: Apache-2.0
// protocol.c - the registry of protocols, filled from the p_*.c file names.
#include "ps/protocol.h"

#include "base/attr.h"

#include <assert.h>
#include <string.h>

#define X(name) extern const mu_protocol_class mu_protocol_##name;
#include "protocol_list.inc"
#undef X

static const mu_plugin *const list[] = {
#define X(name) &mu_protocol_##name.plugin,
#include "protocol_list.inc"
#undef X
};

const mu_registry mu_protocols = {"protocol", MU_COUNT(list), list};

const mu_protocol_class *mu_protocol_at(int index) {
    assert(index >= 0 && (size_t)index < MU_COUNT(list));
    return (const mu_protocol_class *)(const void *)list[index];
}

int mu_protocol_index(const char *name) {
    for (size_t i = 0; i < MU_COUNT(list); i++)
        if (!strcmp(list[i]->name, name)) return (int)i;
    return -1;
}
