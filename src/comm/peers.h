// SPDX-License-Identifier: Apache-2.0
// peers.h - which of the other ranks are alive, by heartbeats and the clock. No I/O, no clock of its own.
//
// Above a transport (transport.h), which reports no deaths. The owner says when anything came from a peer or
// went to it, sends a heartbeat where one is due, and drops who is lost. Time is an argument, in nanoseconds,
// so a simulator can drive it.
//
// A peer is silent only while this rank listens: a stretch between two looks counts as a heartbeat's distance
// at most, as a process that was stopped or starved has heard nobody.
#ifndef MU_COMM_PEERS_H
#define MU_COMM_PEERS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum mu_peer_life {
    MU_PEER_AWAITED,                    // not heard of yet
    MU_PEER_ALIVE,
    MU_PEER_ENDED,                      // said goodbye
    MU_PEER_LOST
} mu_peer_life;

enum { MU_PEER_WHY = 120 };

typedef struct mu_peer {
    mu_peer_life life;
    int64_t heard_ns;                   // time listened when it was last heard
    int64_t sent_ns;                    // when something was last sent to it
    char    why[MU_PEER_WHY];           // it is lost
    bool    told;                       // mu_peers_look has said so
} mu_peer;

typedef struct mu_peers_terms {
    int64_t heartbeat_ns;               // between two signs of life
    int64_t lost_ns;                    // silent for longer: lost. A few heartbeats
    int64_t begin_ns;                   // the same until it is heard for the first time
} mu_peers_terms;

typedef struct mu_peers {
    mu_peers_terms terms;
    int      self, n;
    mu_peer *peer;                      // (n)
    int64_t  looked_ns, listened_ns;    // last look; time listened in all
} mu_peers;

MU_MUST_CHECK mu_status mu_peers_init(mu_peers *p, int self, int n, const mu_peers_terms *terms,
                                      int64_t now_ns, mu_err *err);
void mu_peers_fini(mu_peers *p);

void mu_peers_heard(mu_peers *p, int peer);             // anything came of it
void mu_peers_sent(mu_peers *p, int peer, int64_t now_ns);      // anything went to it, or could not now
void mu_peers_ended(mu_peers *p, int peer);             // it said goodbye: not watched any more
// It is lost by what somebody else knows, such as a transport or a third rank. Who has ended is not lost.
void mu_peers_lose(mu_peers *p, int peer, const char *why);

// To be called often. The next peer that is lost and was not told yet; -1 = none.
int  mu_peers_look(mu_peers *p, int64_t now_ns);
// The next peer that is owed a sign of life; -1 = none. It is told again until something was sent.
int  mu_peers_due(const mu_peers *p, int64_t now_ns);
// How long until one of both may be different, if nothing is heard: so long the owner may sleep.
int64_t mu_peers_rest(const mu_peers *p, int64_t now_ns);

#endif
