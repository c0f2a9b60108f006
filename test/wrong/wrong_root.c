// SPDX-License-Identifier: Apache-2.0
// wrong_root.c - learners/root.c with gradients that are not counted, or too often.
#include "wrong/wrong.h"

#include "learners/root.h"

mu_status right_put(mu_root *r, const mu_wire_push *p, mu_err *err);
mu_status right_put_sum(mu_root *r, const mu_wire_sum *w, mu_half width, mu_err *err);

static float wrong_weight(const mu_core *c, int64_t sigma, int parts) {
    return mu_core_weight(c, sigma, parts) * (wrong("factor") ? (float)c->config.learners : 1);
}

#define mu_core_weight wrong_weight
#define mu_root_put right_put
#define mu_root_put_sum right_put_sum
#include "../../src/learners/root.c"
#undef mu_root_put
#undef mu_root_put_sum

static bool is_of_rank_1(const mu_root *r, int group) {
    return group / (r->n / mu_setup_nodes(&r->o.training->s->setup)) == 1;
}

mu_status mu_root_put(mu_root *r, const mu_wire_push *p, mu_err *err) {
    mu_wire_push w = *p;
    if (wrong("dropped") && is_of_rank_1(r, w.id.learner / r->own)) w.scale = 0;
    return right_put(r, &w, err);
}

mu_status mu_root_put_sum(mu_root *r, const mu_wire_sum *w, mu_half width, mu_err *err) {
    static const float zero[WRONG_MOST];
    mu_wire_sum sum = *w;
    if (wrong("dropped") && is_of_rank_1(r, w->group) && w->end - w->begin <= WRONG_MOST) sum.floats = zero;
    return right_put_sum(r, &sum, width, err);
}
