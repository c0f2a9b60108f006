// SPDX-License-Identifier: Apache-2.0
// stream.h - copies of memory that another core will read.
//
// Lines that one core has just written arrive at another at as little as 2 GB/s; stores past the caches
// (16-25 GB/s there) are slower for the writer's own next read, which does not happen here.
#ifndef MU_COMM_STREAM_H
#define MU_COMM_STREAM_H

#include "base/level.h"

#include <stddef.h>

// memcpy with non-temporal stores where the processor has them; visible to other cores after the next
// release operation of the caller (a store fence is included). Any alignment, no overlap.
#define mu_stream_copy MU_LEVELLED(mu_stream_copy)
MU_AT_LEVELS(void, mu_stream_copy, (void *restrict to, const void *restrict from, size_t bytes));

#endif
