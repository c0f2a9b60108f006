// SPDX-License-Identifier: Apache-2.0
// protocol.c - the registry of protocols, filled from the p_*.c file names, and their hooks' defaults.
#include "ps/protocol.h"

#include "base/attr.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "protocol_class_list.inc" // the tables of all files, as `list`

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

// ---- defaults ----

// Early weights move fast, and with momentum a gradient that is one update old is enough to make many a net
// diverge (docs/protocols.md, "The rate"). An epoch in step heals that and costs little.
double mu_warm_steps(double asked, double epoch, double end) {
    return isnan(asked) ? fmin(epoch, 0.2 * end) : asked;
}

void mu_share_rounded(mu_setup *p, int64_t asked) {
    const int64_t n = p->learners, share = (2 * p->reference_batch + n) / (2 * n);
    p->rows = asked ? asked : share < 1 ? 1 : share;
    p->global_batch = p->rows * n;
    p->rate_factor = 1;
}

bool mu_protocol_objects(const mu_protocol_class *p, mu_choice choice, mu_objection *out) {
    return p->objects && p->objects(choice, out);
}

int mu_protocol_wakes(const mu_protocol_class *p, const mu_core *c) {
    if (p->wakes) return p->wakes(c);
    return c->n_parts == 1 ? mu_core_part_at(c, 0)->id.learner : -1;
}

int64_t mu_setup_sync_versions(const mu_setup *p, int64_t warm_versions) {
    return p->protocol->sync_versions ? p->protocol->sync_versions(warm_versions) : warm_versions;
}
