// SPDX-License-Identifier: Apache-2.0
// unroll_inner.h - what reading (unroll.c) hands to writing (unroll_emit.c).
#ifndef MU_NET_UNROLL_INNER_H
#define MU_NET_UNROLL_INNER_H

#include "net/unroll.h"

#define MU_UNROLL_MAX 1000              // copies

typedef enum connect { ONE_TO_ONE, ONE_TO_ALL, FIRST_TO_LAST } connect; // in the order of the job's words

typedef struct source {                 // an entry of `src`
    const char   *name, *suffix;        // as written, "lstm.1"; its ".1" or ""
    mu_srcpos     pos;
    struct block *of;                   // NULL: a field of the data
    connect       connect;
    int64_t       shift;
} source;

typedef struct block {                  // a layer as the file has it
    const mu_node *node;
    const char    *name;                // NULL: it has none
    mu_srcpos      name_pos;
    int64_t        copies;              // 0 = not unrolled
    int            group;               // members run step by step
    bool           absent, broken;      // not in this phase; a source is wrong
    size_t         n_src;
    source        *src;
    bool          *exists;              // (copies) false: no source was left for this copy
} block;

typedef struct inserted { const char *name; int64_t steps; } inserted;

typedef struct unroller {
    mu_net_builder *nb;
    block          *block;
    size_t          n;
    mu_unrolled    *out;                // the result so far
    size_t          n_out, cap_out;
    inserted       *done;               // steps(x) and stack(x) that are in it
    size_t          n_done, cap_done;
} unroller;

mu_status mu_unroll_pass(unroller *u, const mu_node *node, mu_err *err);        // a block as it is
mu_status mu_unroll_emit(unroller *u, mu_err *err);

#endif
