// SPDX-License-Identifier: Apache-2.0
// machine_template.c - a text to describe a cluster in: the few keys that must be there, and all others as
// comments with the value that is taken where they stay out.
#include "plan/machine_fields.h"
#include "plan/profile.h"

#include <string.h>

static const char head[] =
    "# A cluster, described for `muster plan`. Only what follows here has to be said; numbers may be\n"
    "# written as 16, 2.1G, 1.25e9. Complete it with `muster profile --describe THIS_FILE`.\n"
    "name: my cluster\n"
    "nodes: 4\n"
    "cores: 16                      # of a node\n"
    "clock_hz: 2.1G                 # or: core_flops_per_s, multiplications and additions of a core\n"
    "node_bytes_per_s: 60G          # memory bandwidth of a node, read and written\n"
    "network: {bytes_per_s: 1.25G, latency_s: 30e-6}        # of a node: 10 Gb/s Ethernet\n"
    "\n"
    "# All that follows may stay out. Then these are the values, or those that follow from yours:\n";

static const char tail[] =
    "#loads:                        # in place of the speed of a core, where it was measured\n"
    "#  - {processes: 1, flops_per_s: 33.6G, bytes_per_s: 15G}     # of each of so many at once\n"
    "#  - {processes: 16, flops_per_s: 30G, bytes_per_s: 3.75G}\n";

static void put_fields(mu_text *t, const mu_field *fields, const void *values, const char *const *skip,
                       size_t n, const char *indent) {
    for (const mu_field *f = fields; f->key; f++) {
        bool skipped = f->type != MU_DOUBLE;
        for (size_t i = 0; i < n; i++) skipped |= !strcmp(skip[i], f->key);
        if (skipped) continue;
        char row[80];
        snprintf(row, sizeof row, "#%s%s: %.3g", indent, f->key,
                 *(const double *)(const void *)((const char *)values + f->offset));
        mu_text_printf(t, "%-30s # %s\n", row, f->help);
    }
}

// The head alone is a machine; what is derived from it fills the rest.
void mu_machine_template(mu_text *t) {
    static const char *const said[] = {"core_flops_per_s", "clock_hz", "core_bytes_per_s", "node_bytes_per_s",
                                       "busy"};
    mu_machine m = {0};
    if (mu_machine_parse(head, sizeof head - 1, "template", &m, NULL) != MU_OK) {
        t->failed = true;
        return;
    }
    const mu_machine_about_form about = {.memory_bytes = m.memory_bytes,
                                         .cache_bytes = m.cache_bytes,
                                         .shared_cache_bytes = m.shared_cache_bytes,
                                         .wake_s = m.wake_s,
                                         .event_s = m.event_s};
    mu_text_put(t, head, sizeof head - 1);
    put_fields(t, mu_machine_about, &about, said, MU_COUNT(said), "");
    mu_text_printf(t, "#lines:                        # memory of which another core has just written\n");
    put_fields(t, mu_machine_lines_fields, &m.lines, NULL, 0, "  ");
    mu_text_printf(t, "# more keys of `network`:\n");
    put_fields(t, mu_machine_network_fields, &m.network, said, 0, "  ");
    mu_text_printf(t, "#rules:                        # update rules; those left out are derived\n");
    mu_text_printf(t, "#  - {name: sgd, cached_bytes_per_s: %.3g, bytes_per_s: %.3g}\n",
                   mu_machine_rule_of(&m, "sgd")->cached_bytes_per_s,
                   mu_machine_rule_of(&m, "sgd")->bytes_per_s);
    mu_text_put(t, tail, sizeof tail - 1);
}
