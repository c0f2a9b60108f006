// SPDX-License-Identifier: Apache-2.0
// gradients.c - see gradients.h.
#include "learners/gradients.h"

#include "base/log.h"

#include <string.h>

typedef mu_gradient_source mu_gradients_class; // as the list calls it
#include "gradients_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_gradient_sources = {"gradients", MU_COUNT(list), list};

static mu_status find(const mu_job *job, const char *name, const mu_gradient_source **out, mu_err *err) {
    *out = (const mu_gradient_source *)mu_registry_find(&mu_gradient_sources, name);
    if (*out) return MU_OK;
    const mu_node *node = mu_node_find(mu_node_find(job->root, "train"), "gradients");
    MU_FAIL_AT(err, MU_EJOB, node ? node->pos : MU_NOPOS, "unknown source of gradients `%s`", name);
    const char *near = mu_registry_nearest(&mu_gradient_sources, name);
    mu_err_hint(err, "Did you mean `%s`?", near ? near : "auto");
    return MU_EJOB;
}

mu_status mu_gradients_choose(mu_session *s, const mu_run_opts *o, const mu_gradient_source **out,
                              mu_err *err) {
    const char *name = s->job->train.gradients;
    *out = NULL;
    if (strcmp(name, "auto")) MU_TRY(find(s->job, name, out, err));
    for (size_t i = 0; !strcmp(name, "auto") && i < MU_COUNT(list); i++) {
        const mu_gradient_source *c = (const mu_gradient_source *)list[i]; // the head is the first member
        if ((!*out || c->rank > (*out)->rank) && c->wants(s, o)) *out = c;
    }
    mu_debug("gradients: %s", (*out)->name);
    return (*out)->prepare ? (*out)->prepare(s, o, err) : MU_OK;
}
