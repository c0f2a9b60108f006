// SPDX-License-Identifier: Apache-2.0
// wire.h - what nodes of a training say to each other, as bytes. No I/O: a frame is a message of a transport
// (comm/transport.h).
//
//   +-------+---------+------+-------+--------+-------+---------+------------------+
//   | magic | version | type | bytes | layout | check | numbers | floats, or bytes |
//   |  u32  |   u16   | u16  |  u64  |  u64   |  u64  |         |                  |
//   +-------+---------+------+-------+--------+-------+---------+------------------+
//     0       4         6      8       16       24      32        a multiple of 8
//
// All numbers are little-endian and of fixed width; wire_types.c has the table of each type, by which they
// are packed, unpacked and checked. bytes: behind the 32. layout: mu_wire_layout_hash, what both ends agree
// on. check: XXH3-64 of the first 24 bytes and of what follows the 32.
//
// A frame is read as a stranger's file: every number has its range, sizes are compared with the frame's, and
// nothing is read beyond it or allocated by it. What is accepted packs to the same bytes again. Arrays of
// floats are taken as they are: a gradient that is not finite is legal, and marked by its sender.
//
// Of a gradient only what is used travels (PUSH): for each parameter form and sizes, then the arrays. Where
// they belong in a slot both ends know from the layout.
#ifndef MU_PS_WIRE_H
#define MU_PS_WIRE_H

#include "ops/half.h"
#include "ps/core.h"
#include "ps/message.h"

#include <sys/uio.h>

#define MU_WIRE_MOST ((uint64_t)1 << 30)        // bytes of a frame

enum {
    MU_WIRE_VERSION = 2,
    MU_WIRE_HEAD = 32,
    MU_WIRE_IDS = 4096,                 // gradients in a sum
    MU_WIRE_RANGES = 1 << 20,           // of samples, in a frame
    MU_WIRE_BINS = 128,                 // of staleness
    MU_WIRE_HOST = 64, MU_WIRE_WHY = 128, MU_WIRE_PATH = 256,   // texts, with their NUL
};

typedef enum mu_wire_type {
    MU_WIRE_HELLO = 1,                  // who a rank is
    MU_WIRE_HEARTBEAT,
    MU_WIRE_LEASE,                      // samples for a learner
    MU_WIRE_ASK,                        // for a learner: what `what` says
    MU_WIRE_GRANT,                      // the answer, of joining and beginning
    MU_WIRE_PUSH,                       // a gradient, or one worker's part of it
    MU_WIRE_SUM,                        // several gradients, added up: some floats of it
    MU_WIRE_WEIGHTS,                    // some floats of a block
    MU_WIRE_BRIDGE,                     // a message of a channel (comm/channel.h)
    MU_WIRE_EXCHANGE,                   // between server groups: some floats of their weights
    MU_WIRE_LOST,                       // a rank or a learner is lost
    MU_WIRE_STOP,                       // the training ends
    MU_WIRE_ERROR,                      // a rank has failed, as mu_err
    MU_WIRE_START,                      // where a training begins
    MU_WIRE_POINT,                      // where a server group stands
    MU_WIRE_COUNTS,                     // what has become of a rank's gradients
    MU_WIRE_TYPES
} mu_wire_type;

typedef struct mu_wire_share {          // of one worker: what it gives to a gradient
    const mu_params *params;
    const mu_message_layout *message;
    const bool *apart;                  // (params) a PUSH says only whether they have one; NULL = none
} mu_wire_share;

typedef struct mu_wire_shape {          // what both ends have agreed on
    int32_t  ranks, learners;           // learners of all ranks
    int32_t  workers;                   // of each learner
    int32_t  groups;                    // of servers
    int64_t  rows;                      // the most of a gradient
    int64_t  count;                     // floats of a block
    int32_t  blocks;                    // weights and histories
    mu_half  half;                      // floats of a SUM: as they are, or of two bytes
    uint64_t layout;                    // mu_wire_layout_hash of this
    const mu_wire_share *share;         // (workers)
    int32_t  channels;
    const int64_t *channel_bytes;       // (channels)
} mu_wire_shape;

typedef struct mu_wire_hello {
    int32_t  rank, ranks, learners, workers, pid;
    int32_t  level;                     // of the processor, as its kernels are chosen (base/level.h)
    uint64_t job;                       // mu_job_hash
    int64_t  seed;
    uint64_t data;                      // hash of the data that it has a shard of; 0 = it has it whole
    char     host[MU_WIRE_HOST], file[MU_WIRE_PATH];     // file: of the shard, for messages
} mu_wire_hello;

typedef struct mu_wire_heartbeat {
    int64_t  number;                    // of this sender to this receiver
    int64_t  sent_ns, echo_ns;          // its clock; and the receiver's, of the last one it heard. 0 = none
    int64_t  version;                   // of its weights
    int64_t  compute_ns, wait_ns;       // of its learners so far
} mu_wire_heartbeat;

typedef struct mu_wire_lease {
    int32_t  learner;
    uint32_t incarnation;
    int32_t  ended;                     // 1: none is left, and lease is zero
    mu_lease lease;
} mu_wire_lease;

typedef enum mu_wire_asking {
    MU_ASK_JOIN,                        // a process has started; incarnation 0
    MU_ASK_LEASE,                       // and the next gradient is of these weights, or of newer ones
    MU_ASK_BEGIN,
    MU_ASK_WEIGHTS,                     // those that are newer than `version`
    MU_ASKINGS
} mu_wire_asking;

typedef struct mu_wire_ask {
    int32_t  learner;
    uint32_t incarnation;
    int32_t  what;                      // mu_wire_asking
    int64_t  version;                   // that it has; -1 = none
} mu_wire_ask;

typedef struct mu_wire_grant {
    int32_t  learner;
    uint32_t incarnation;               // to a JOIN: the new one
    int32_t  answer;                    // mu_answer
    mu_grant grant;                     // of HOLD only the version
} mu_wire_grant;

typedef struct mu_wire_push {
    mu_gradient_id id;
    int32_t  worker;
    int32_t  bad;                       // 1: it is not finite
    float    scale;
    double   loss, accuracy;            // any
    double   time_share;                // of the training, by the clock of its rank
    int64_t  global_rows;
    int32_t  params;                    // of the share
    const char *slot;                   // packing: the message of this worker
    const void *data;                   // unpacked: mu_wire_put_message
} mu_wire_push;

typedef struct mu_wire_part { mu_gradient_id id; float weight; } mu_wire_part;

typedef struct mu_wire_sum {
    int32_t  rank;                      // who has added
    int32_t  group;                     // whose learners'
    int64_t  number;                    // its n-th sum
    int64_t  version;                   // of the newest weights that a part was computed on
    int64_t  begin, end;                // floats of the block, or of what is summed of it (wire_forms.h)
    int32_t  parts;                     // perhaps with the first floats, else 0
    const mu_wire_part *part;           // packing
    const void *ids;                    // unpacked: mu_wire_sum_part
    const void *floats;                 // as wide as the shape says
} mu_wire_sum;

typedef struct mu_wire_weights {
    int64_t  version;
    // 0 = weights, k = history k - 1. From a root to a group: weights, and the group's place on its rank
    int32_t  block;
    int64_t  begin, end;
    const void *floats;                 // of begin
} mu_wire_weights;

typedef struct mu_wire_bridge {
    int32_t  channel;
    int64_t  number;                    // of its messages
    const void *message;
} mu_wire_bridge;

typedef struct mu_wire_exchange {
    int32_t  group;                     // of the sender
    int64_t  round, version, samples;
    float    share;                     // of the sender in the mean, above 0, at most 1
    int64_t  begin, end;
    const void *floats;
} mu_wire_exchange;

typedef struct mu_wire_lost {
    int32_t  learner;                   // -1: a rank is
    int32_t  rank;                      // that is lost, or had the learner
    uint32_t incarnation;               // of the learner; 0: of a rank
    char     why[MU_WIRE_WHY];
} mu_wire_lost;

typedef enum mu_wire_stopping {
    MU_STOP_ENDED,                      // nothing is left to be done
    MU_STOP_ASKED,                      // by a person
    MU_STOP_FAILED,
    MU_STOP_DUE,                        // it is good enough, or takes too long
    MU_STOPS
} mu_wire_stopping;

typedef struct mu_wire_stop {
    int32_t  why;                       // mu_wire_stopping
    int64_t  version, samples;          // where the training stood
} mu_wire_stop;

typedef struct mu_wire_error {
    int32_t  rank;
    int32_t  status;                    // mu_status, not MU_OK
    int32_t  line, col, span;           // in path, where that is not ""
    char     path[MU_WIRE_PATH];
    char     msg[400], hint[300], note[160];    // as in mu_err
} mu_wire_error;

typedef struct mu_wire_start {
    // as mu_position of train/position.h
    int64_t  step, partial, samples, extra_updates, version, applied, repeated;
    double   rate_scale, time_share;
    int64_t  merges;                    // by the runs before this one
    int64_t  cursor, dropped;           // as mu_finished, with its ranges
    int32_t  center;                    // 1: a center of server groups is among the blocks that follow
    int32_t  ranges;
    const void *range;                  // (ranges) mu_range
} mu_wire_start;

typedef struct mu_wire_point {          // as mu_server_point of ps/server.h
    int32_t  group;                     // among those of all ranks
    int32_t  missed;                    // 1: it could not be copied in time
    int64_t  number;                    // of the snapshot
    int64_t  version, applied, next;
    int64_t  updates;                   // whole ones in this version
    int32_t  ranges;                    // that are open
    const void *range;                  // (ranges) mu_range
} mu_wire_point;

typedef struct mu_wire_counts {         // of a rank, at its end
    int32_t  rank;
    int64_t  versions, produced, applied, rejected, lost;
    int64_t  learners_lost, learners_replaced, server_lost, lock_repairs, torn_updates;
    int64_t  merges, merged_bytes, records_read, bad_records, skipped;
    int64_t  used;                      // samples
    int64_t  stale, stale_max;          // gradients whose staleness is known
    int64_t  weights;                   // hash of them, where all ranks should have the same; else 0
    double   stale_mean, compute_s, wait_s, apply_s, replace_p50_s, replace_p99_s;
    const void *bins;                   // (MU_WIRE_BINS) int64_t
} mu_wire_counts;

typedef struct mu_wire {
    mu_wire_type type;
    uint64_t layout;                    // unpacked: of the sender. HELLO and ERROR may have another
    union {
        mu_wire_hello     hello;
        mu_wire_heartbeat heartbeat;
        mu_wire_lease     lease;
        mu_wire_ask       ask;
        mu_wire_grant     grant;
        mu_wire_push      push;
        mu_wire_sum       sum;
        mu_wire_weights   weights;
        mu_wire_bridge    bridge;
        mu_wire_exchange  exchange;
        mu_wire_lost      lost;
        mu_wire_stop      stop;
        mu_wire_error     error;
        mu_wire_start     start;
        mu_wire_point     point;
        mu_wire_counts    counts;
    };
} mu_wire;

typedef struct mu_wire_frame {          // room for one frame, used again and again
    unsigned char *head;                // head, numbers, tables
    size_t         head_room;
    struct iovec  *part;                // what to send: head, then arrays where they lie
    int            n, cap;
    size_t         bytes;
} mu_wire_frame;

uint64_t mu_wire_layout_hash(const mu_wire_shape *shape);
// Room for every type of frame, as the shape has them. MU_EUNSUPPORTED: more parameters than a message has
// parts, or a message longer than MU_WIRE_MOST. One frame is packed at a time: it may be used again when the
// transport has SENT it. Owned: mu_wire_frame_fini.
MU_MUST_CHECK mu_status mu_wire_frame_init(const mu_wire_shape *shape, mu_wire_frame *out, mu_err *err);
void mu_wire_frame_fini(mu_wire_frame *f);

// Points at the arrays of w: they stay as they are until the frame is sent. MU_EUSAGE: a number is not within
// its range.
MU_MUST_CHECK mu_status mu_wire_pack(const mu_wire_shape *shape, const mu_wire *w, mu_wire_frame *f,
                                     mu_err *err);
// Arrays of `out` point into data, which needs no alignment. MU_EDATA says what is wrong.
MU_MUST_CHECK mu_status mu_wire_unpack(const mu_wire_shape *shape, const void *data, size_t size,
                                       mu_wire *out, mu_err *err);
// Of a PUSH that was unpacked: into the worker's message in a slot.
void mu_wire_put_message(const mu_wire_shape *shape, const mu_wire_push *push, char *slot);
// Of a SUM that was unpacked: part i.
mu_wire_part mu_wire_sum_part(const mu_wire_sum *sum, int i);

const char *mu_wire_type_name(mu_wire_type type);       // "HELLO"; "?" if there is none

#endif
