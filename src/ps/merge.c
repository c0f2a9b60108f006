// SPDX-License-Identifier: Apache-2.0
// merge.c - the registry of merge rules, filled from the m_*.c file names, and the memory of a center.
#include "ps/merge.h"

#include <string.h>

#include "merge_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_merges = {"merge", MU_COUNT(list), list};

size_t mu_merge_blocks_floats(const mu_merge_blocks *b) { return b->count * (size_t)(1 + b->n_slots); }

void mu_merge_blocks_point(mu_merge_blocks *b, float *memory) {
    b->center = memory;
    for (int k = 0; k < b->n_slots; k++) b->history[k] = memory + b->count * (size_t)(1 + k);
}

mu_status mu_merge_blocks_create(size_t count, int n_slots, mu_merge_blocks **out, mu_err *err) {
    mu_merge_blocks *b = mu_alloc(sizeof *b, "merge");
    if (!b) return MU_FAIL_NOMEM(err, "the center of the server groups");
    *b = (mu_merge_blocks){.count = count, .n_slots = n_slots};
    b->own = mu_alloc_block(mu_merge_blocks_floats(b) * sizeof(float), "merge");
    if (!b->own) {
        mu_free(b);
        return MU_FAIL_NOMEM(err, "the center of the server groups");
    }
    mu_merge_blocks_point(b, b->own);
    *out = b;
    return MU_OK;
}

void mu_merge_blocks_destroy(mu_merge_blocks *b) {
    if (!b) return;
    mu_free(b->own);
    mu_free(b);
}

void mu_merge_blocks_copy(mu_merge_blocks *to, const mu_merge_blocks *from) {
    memcpy(to->center, from->center, mu_merge_blocks_floats(to) * sizeof(float));
    to->merges = from->merges;
    to->filled = from->filled;
}

// By floats: a parameter goes into the part in which its middle lies.
void mu_merge_cut(const mu_params *ps, int64_t parts, int *first) {
    size_t all = 0, at = 0;
    for (int i = 0; i < ps->n; i++) all += ps->list[i]->count;
    for (int64_t p = 0; p <= parts; p++) first[p] = ps->n;
    for (int i = ps->n - 1; i >= 0; i--) {
        at += ps->list[i]->count;
        const double middle = (double)(all - at) + 0.5 * (double)ps->list[i]->count;
        const int64_t part = (int64_t)(middle / (double)all * (double)parts);
        for (int64_t p = 0; p <= part; p++) first[p] = i;
    }
}

int64_t mu_merge_bytes(const mu_params *ps, int first, int end) {
    int64_t values = 0;
    for (int i = first; i < end; i++)
        if (!ps->list[i]->is_state) values += (int64_t)ps->list[i]->count;
    return 2 * values * (int64_t)sizeof(float);
}
