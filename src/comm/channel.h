// SPDX-License-Identifier: Apache-2.0
// channel.h - messages of one size from one writer to one reader, one at a time, in order.
//
// What travels between the workers of a group goes through channels (net/partition.h): the writer sends and
// goes on, the reader waits. Where they run decides on the kind: threads of one process, processes that share
// memory, ranks. The place of a message belongs to the channel, so it can be memory that both see: then
// nothing is copied but by who makes the message and who reads it.
//
//   writer   place > fill it > send              reader   receive > use it > release
//
// `place` waits until the reader has let go of the message before. A reader lets go of a message before it
// waits for what follows from it, so with all readers and writers in one global order nobody waits for ever
// (net/partition.h); and every wait has a limit, and ends at once when the group gives up.
#ifndef MU_COMM_CHANNEL_H
#define MU_COMM_CHANNEL_H

#include "base/err.h"
#include "comm/wait.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mu_channel_terms {       // of all channels of a group: shared as their memory is
    int64_t      limit_ns;              // longest wait
    _Atomic bool given_up;              // a worker has failed: all waits end
} mu_channel_terms;

typedef struct mu_channel {
    const struct mu_channel_class *class;
    const char *name;                   // "bridge(fc1@0>fc2@1)", for errors; borrowed
    size_t      bytes;                  // of a message
    uint64_t    sent;                   // messages; the writer's
    // (optional) Of the process that has this end, counted while it waits: signs of life, and time.
    _Atomic uint64_t *pulse;
    int64_t    *waited_ns;
} mu_channel;

typedef struct mu_channel_class {
    const char *name;
    mu_status (*place)(mu_channel *c, void **to, mu_err *err);          // until send, the writer's own
    void      (*send)(mu_channel *c);                                   // does not wait
    mu_status (*receive)(mu_channel *c, const void **message, mu_err *err);
    void      (*release)(mu_channel *c);
    void      (*close)(mu_channel *c);
} mu_channel_class;

void mu_channel_close(mu_channel *c);   // NULL is fine

// In memory that both ends see: any memory of threads, a region (comm/region.h) of processes. `memory` is
// mu_channel_memory_size(bytes) zeroed bytes at a multiple of 64, and outlives the channel. Each process
// opens a channel of its own in it; threads may share one.
size_t    mu_channel_memory_size(size_t bytes);
mu_status mu_channel_open_memory(const char *name, size_t bytes, mu_channel_terms *terms, void *memory,
                                 mu_channel **out, mu_err *err);
// As new: whatever was under way is forgotten. For who begins a group again, when no process uses it.
void      mu_channel_memory_reset(void *memory);

// A channel whose two ends are on different ranks has such memory on both. On the writer's rank the reader is
// the parent, on the reader's rank the writer is, and parents carry messages from the one to the other
// (learners/bridges.h). A parent waits for nobody, so it has no channel of its own but these, which give NULL
// where a channel would wait; the other end rings its bell whenever it has sent or let go.
mu_status   mu_channel_open_far(const char *name, size_t bytes, mu_channel_terms *terms, void *memory,
                                mu_bell *parent, mu_channel **out, mu_err *err);
const void *mu_channel_peek(void *memory);      // the message that is sent and not let go
void        mu_channel_let_go(void *memory);
void       *mu_channel_room(void *memory);      // where the next message goes: the one before is let go
void        mu_channel_put(void *memory);       // it is there

#endif
