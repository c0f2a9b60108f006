// SPDX-License-Identifier: Apache-2.0
// rounds.c - see rounds.h.
#include "learners/rounds.h"

#include <string.h>

enum { CHUNK = 1 << 20 }; // floats of a frame

mu_status mu_rounds_init(mu_rounds *r, mu_nodes *n, int own, int all, mu_err *err) {
    *r = (mu_rounds){.nodes = n, .own = own, .first = n->rank * own, .all = all};
    r->theirs = mu_alloc_array((size_t)all, sizeof *r->theirs, "rounds");
    r->got = mu_alloc_array((size_t)all, sizeof *r->got, "rounds");
    bool good = r->theirs && r->got;
    for (int g = 0; good && g < all; g++) {
        if (g >= r->first && g < r->first + own) continue;
        good = (r->theirs[g] = mu_alloc_block((size_t)n->shape.count * sizeof(float), "rounds")) != NULL;
    }
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the weights of other ranks");
}

void mu_rounds_fini(mu_rounds *r) {
    for (int g = 0; r->theirs && g < r->all; g++) mu_free(r->theirs[g]);
    mu_free(r->theirs);
    mu_free(r->got);
    *r = (mu_rounds){0};
}

mu_status mu_rounds_begin(mu_rounds *r, int64_t begin, int64_t end, float *const *weights, mu_err *err) {
    r->begun = true;
    r->begin = begin, r->end = end;
    for (int g = 0; g < r->own; g++)
        for (int64_t at = begin; at < end; at += CHUNK) {
            const mu_wire w = {.type = MU_WIRE_EXCHANGE,
                               .exchange = {.group = r->first + g,
                                            .round = r->round,
                                            .share = 1.0f / (float)r->all,
                                            .begin = at,
                                            .end = end - at < CHUNK ? end : at + CHUNK,
                                            .floats = weights[g] + at}};
            MU_TRY(mu_nodes_send(r->nodes, -1, MU_TOPIC_ROUND, &w, err));
        }
    return MU_OK;
}

mu_status mu_rounds_take(mu_rounds *r, int peer, const mu_wire_exchange *x, bool *later, mu_err *err) {
    *later = x->round == r->round + 1;
    if (*later) return MU_OK;
    if (x->round != r->round || x->group / r->own != peer)
        return MU_FAIL(err, MU_EDATA, "rank %d sent group %d in round %lld, and this rank is in round %lld",
                       peer, x->group, (long long)x->round, (long long)r->round);
    memcpy(r->theirs[x->group] + x->begin, x->floats, (size_t)(x->end - x->begin) * sizeof(float));
    r->got[x->group] += x->end - x->begin;
    r->asked = true;
    return MU_OK;
}

bool mu_rounds_is_complete(const mu_rounds *r) {
    bool complete = r->begun && !r->nodes->owed[MU_TOPIC_ROUND];
    for (int g = 0; g < r->all; g++) complete &= !r->theirs[g] || r->got[g] >= r->end - r->begin;
    return complete;
}

void mu_rounds_next(mu_rounds *r) {
    r->round++;
    r->begun = r->asked = false;
    memset(r->got, 0, (size_t)r->all * sizeof *r->got);
}
