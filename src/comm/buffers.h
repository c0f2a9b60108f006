// SPDX-License-Identifier: Apache-2.0
// buffers.h - memory for messages that come in, kept for the next ones: in a steady state nothing allocates.
//
// A buffer that is given back is kept if it is among the largest MU_BUFFERS_KEPT, and serves the next message
// that fills about a quarter of it.
#ifndef MU_COMM_BUFFERS_H
#define MU_COMM_BUFFERS_H

#include <stddef.h>

enum { MU_BUFFERS_KEPT = 16 };

typedef struct mu_buffer {              // before the bytes, which begin at a multiple of 64
    struct mu_buffer *next, *before;    // in use
    size_t room, bytes;                 // bytes: of the message
    int    peer;
    void  *raw;                         // as it was allocated
} mu_buffer;

typedef struct mu_buffers {             // zeroed = empty
    mu_buffer *kept[MU_BUFFERS_KEPT];
    int n;
    mu_buffer *used;
} mu_buffers;

mu_buffer *mu_buffer_take(mu_buffers *b, int peer, size_t bytes);       // NULL when out of memory
void       mu_buffer_give(mu_buffers *b, mu_buffer *one);
void       mu_buffers_fini(mu_buffers *b);      // those in use, too

static inline void *mu_buffer_data(mu_buffer *one) { return (char *)one + 64; }
static inline mu_buffer *mu_buffer_of(const void *data) { return (mu_buffer *)((size_t)data - 64); }

#endif
