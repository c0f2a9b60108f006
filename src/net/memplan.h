// SPDX-License-Identifier: Apache-2.0
// memplan.h - overlays buffers whose lifetimes do not meet.
//
// Pure function: sizes and lifetimes in, offsets out. Largest first, each at the lowest place that is
// free during its life; at most a few percent above the lower bound for nets of the usual kind.
#ifndef MU_NET_MEMPLAN_H
#define MU_NET_MEMPLAN_H

#include "base/err.h"

#include <stddef.h>

typedef struct mu_plan_item {
    size_t bytes;               // 0 is allowed
    int    first, last;         // moments, inclusive
    size_t offset;              // out: multiple of 64
} mu_plan_item;

mu_status mu_memplan(mu_plan_item *items, size_t n, bool reuse, size_t *total, mu_err *err);

#endif
