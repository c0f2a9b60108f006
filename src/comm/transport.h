// SPDX-License-Identifier: Apache-2.0
// transport.h - messages between ranks: processes on several nodes, one a node.
//
// A transport is a table of functions, a plug-in: t_inproc.c has any number of ranks in one process, t_mpi.c
// is a module of its own that links MPI (below). One thread owns a transport. No function but `open` waits
// for another rank, and nobody is told by a transport that a rank is dead: peers.h does that by the clock.
//
//   send    a message of several parts, to be gathered from where they lie. Without copying where that can be
//   poll    what has happened: a message came, one was sent, there is room again, a peer has left
//   leave   says goodbye; polling goes on until every peer has left, then `close`
//
// Order. Messages of one peer come in the order of its sends, its goodbye last. Between peers there is none.
//
// Sizes. 0 to opts.max_bytes bytes, at most MU_TRANSPORT_MOST, in at most MU_TRANSPORT_PARTS parts. All ranks
// open with the same opts.
//
// Memory. The list of parts is read during the call. What it points at is lent to the transport until SENT
// comes with the token of that send: it stays readable and unchanged. SENT says that the memory is free, not
// that the peer has read the message; of several sends to a peer it may come in any order. A message that
// came is lent to the caller until it is released, and begins at a multiple of 64 bytes.
//
// Back-pressure. A peer may owe the release of MU_TRANSPORT_WAITING messages, and of opts.window_bytes bytes
// or one longer message; and of so many sends SENT may not have come yet. What goes beyond is answered FULL,
// nothing is lent, and ROOM comes when it is worth another try. So a rank holds at most that much for each
// peer, whether it reads or not. Messages of up to MU_TRANSPORT_SMALL bytes are not counted in bytes, and
// some of the places are theirs alone: a heartbeat gets past a long gradient that is not released.
//
// Lost peers. A peer that is dead, stopped or cut off is silent: sends to it are FULL after a while, and what
// was lent may never come back. Who decides that it is lost calls `drop`. From then on no message comes of it
// and sends to it are GONE. MPI cannot end what it has begun with the dead, so SENT may never come for what
// was lent before: that has to stay mapped until the process ends, what it holds does not matter any more.
// BROKEN says that the transport itself has dropped a peer, and why.
//
// signs[p] changes whenever anything of peer p comes in, as soon as a message begins to arrive.
//
// A child of the process never uses a transport, and leaves by _exit.
#ifndef MU_COMM_TRANSPORT_H
#define MU_COMM_TRANSPORT_H

#include "base/plugin.h"

#include <sys/uio.h>

#define MU_TRANSPORT_MOST ((size_t)1 << 30)

enum {
    MU_TRANSPORT_PARTS = 4096,
    MU_TRANSPORT_SMALL = 1024,          // bytes
    MU_TRANSPORT_WAITING = 64,          // messages, of these
    MU_TRANSPORT_RESERVED = 16,         // for small ones alone
};

struct mu_inproc;

typedef struct mu_transport_opts {
    size_t max_bytes;                   // longest message; 0 = MU_TRANSPORT_MOST
    size_t window_bytes;                // see above; 0 = 32 MiB
    struct mu_inproc *net;              // of `inproc` alone (inproc.h), and which of its ranks this is;
    int rank;                           // elsewhere the launcher says
} mu_transport_opts;

typedef enum mu_peer_state { MU_PEER_HERE, MU_PEER_LEFT, MU_PEER_DROPPED } mu_peer_state;

typedef struct mu_transport {
    const struct mu_transport_class *class;
    mu_transport_opts opts;             // defaults filled in
    int       rank, n;                  // this one, of so many
    // to be read by the caller
    uint64_t *signs;                    // (n)
    mu_peer_state *state;               // (n)
    int       lent;                     // sends that are not SENT
    int       goodbyes;                 // of this rank, not sent yet
    bool      left, dropped;            // this rank has left; some peer was dropped
} mu_transport;

typedef enum mu_sending {
    MU_SEND_TAKEN,                      // lent until SENT
    MU_SEND_FULL,                       // not now: ROOM will come
    MU_SEND_GONE                        // never: the peer has left, or was dropped
} mu_sending;

typedef enum mu_transport_what {
    MU_TRANSPORT_NOTHING,
    MU_TRANSPORT_MESSAGE,               // data, bytes
    MU_TRANSPORT_SENT,                  // token
    MU_TRANSPORT_ROOM,
    MU_TRANSPORT_LEFT,                  // nothing follows
    MU_TRANSPORT_BROKEN                 // nothing follows; why
} mu_transport_what;

typedef struct mu_transport_event {
    mu_transport_what what;
    int         peer;
    const void *data;
    size_t      bytes;
    uint64_t    token;
    const char *why;                    // a text that stays
} mu_transport_event;

typedef struct mu_transport_class {
    MU_PLUGIN_HEAD;
    // Waits for the other ranks to begin, as long as the launcher lets it.
    mu_status (*open)(const mu_transport_opts *opts, mu_transport **out, mu_err *err);
    // MU_ENOMEM: nothing is lent. `peer` is another rank.
    mu_status (*send)(mu_transport *t, int peer, const struct iovec *part, int n, uint64_t token,
                      mu_sending *out, mu_err *err);
    // Moves things on, and gives one event; NOTHING when there is none now. After MU_ENOMEM, for a message
    // that came, nothing is lost: call again.
    mu_status (*poll)(mu_transport *t, mu_transport_event *out, mu_err *err);
    void      (*release)(mu_transport *t, const void *data);
    // Returns how many sends to it are not SENT, and may never be.
    int       (*drop)(mu_transport *t, int peer);
    void      (*leave)(mu_transport *t);        // nothing is sent behind this
    // True: all ranks have left, and nothing is lent. Else the process has to end by _exit, as MPI waits for
    // the dead where it is left in order. What was not released is gone. Called by a child it does nothing.
    bool      (*close)(mu_transport *t);
} mu_transport_class;

extern const mu_registry mu_transports;         // those that are built in

// Of the name, built in or in a module. MU_ENOTFOUND: there is none of this name. MU_EUNSUPPORTED: its module
// cannot be opened; the hint says what to install.
MU_MUST_CHECK mu_status mu_transport_find(const char *name, const mu_transport_class **out, mu_err *err);
MU_MUST_CHECK mu_status mu_transport_open(const char *name, const mu_transport_opts *opts, mu_transport **out,
                                          mu_err *err);
// Checks that the sizes are within the limits, then as in the class. MU_EUSAGE: they are not, or there is no
// such peer.
MU_MUST_CHECK mu_status mu_transport_send(mu_transport *t, int peer, const struct iovec *part, int n,
                                          uint64_t token, mu_sending *out, mu_err *err);
// `leave`, then polls, throwing away what comes, until all peers have left or were dropped, but no longer
// than that; then `close`. For the end of a process.
bool mu_transport_end(mu_transport *t, int64_t limit_ns);
// The transport that the environment asks for: "mpi" when a launcher (mpirun, srun) has started several
// processes, else NULL.
const char *mu_transport_wanted(void);

// ---- modules ----
// A transport that needs a large library is a shared object, libmuster-<name>.so beside the program or in
// ../lib/.../muster, which is opened when the transport is asked for. It exports one symbol, mu_module.

typedef struct mu_transport_module {
    const char *version;                // MU_VERSION, and the size of the table: those of the program
    size_t class_bytes;
    const mu_transport_class *class;
} mu_transport_module;
extern const mu_transport_module mu_module;

// ---- for transports ----

typedef struct mu_window {              // what a peer owes; of one direction
    int      lent;                      // SENT has not been told
    uint64_t sent, sent_bytes;          // taken, so far
    uint64_t freed, freed_bytes;        // released by the peer
} mu_window;

static inline size_t mu_window_weight(size_t bytes) { return bytes > MU_TRANSPORT_SMALL ? bytes : 0; }

static inline bool mu_window_admits(const mu_window *w, size_t bytes, size_t window_bytes) {
    const uint64_t waiting = w->sent - w->freed, held = w->sent_bytes - w->freed_bytes;
    const size_t weight = mu_window_weight(bytes);
    if (w->lent >= MU_TRANSPORT_WAITING) return false;
    if (waiting >= MU_TRANSPORT_WAITING - (weight ? MU_TRANSPORT_RESERVED : 0)) return false;
    return !weight || !held || held + weight <= window_bytes;
}

static inline void mu_window_take(mu_window *w, size_t bytes) {
    w->lent++;
    w->sent++;
    w->sent_bytes += mu_window_weight(bytes);
}

static inline bool mu_transport_is_over(const mu_transport *t) {
    bool over = t->left && !t->lent && !t->goodbyes;
    for (int p = 0; p < t->n; p++) over &= p == t->rank || t->state[p] != MU_PEER_HERE;
    return over;
}

static inline size_t mu_parts_bytes(const struct iovec *part, int n) {
    size_t bytes = 0;
    for (int i = 0; i < n; i++) bytes += part[i].iov_len;
    return bytes;
}

#endif
