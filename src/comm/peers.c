// SPDX-License-Identifier: Apache-2.0
// peers.c - see peers.h.
#include "comm/peers.h"

#include "base/alloc.h"

#include <stdio.h>

mu_status mu_peers_init(mu_peers *p, int self, int n, const mu_peers_terms *terms, int64_t now_ns,
                        mu_err *err) {
    mu_peer *peer = mu_alloc_array((size_t)n, sizeof *peer, "peers");
    if (!peer) return MU_FAIL_NOMEM(err, "the list of ranks");
    *p = (mu_peers){.terms = *terms, .self = self, .n = n, .peer = peer, .looked_ns = now_ns};
    for (int i = 0; i < n; i++) peer[i].sent_ns = now_ns - terms->heartbeat_ns; // one is due at once
    return MU_OK;
}

void mu_peers_fini(mu_peers *p) {
    mu_free(p->peer);
    *p = (mu_peers){0};
}

static bool is_watched(const mu_peers *p, int i) {
    return i != p->self && (p->peer[i].life == MU_PEER_AWAITED || p->peer[i].life == MU_PEER_ALIVE);
}

void mu_peers_heard(mu_peers *p, int peer) {
    mu_peer *it = &p->peer[peer];
    it->heard_ns = p->listened_ns;
    if (it->life == MU_PEER_AWAITED) it->life = MU_PEER_ALIVE;
}

void mu_peers_sent(mu_peers *p, int peer, int64_t now_ns) { p->peer[peer].sent_ns = now_ns; }

void mu_peers_ended(mu_peers *p, int peer) {
    if (is_watched(p, peer)) p->peer[peer].life = MU_PEER_ENDED;
}

void mu_peers_lose(mu_peers *p, int peer, const char *why) {
    mu_peer *it = &p->peer[peer];
    if (!is_watched(p, peer)) return;
    it->life = MU_PEER_LOST;
    snprintf(it->why, sizeof it->why, "%s", why);
}

// How long it may still be silent; negative: it is lost.
static int64_t patience(const mu_peers *p, int i) {
    const mu_peer *it = &p->peer[i];
    const int64_t limit = it->life == MU_PEER_AWAITED ? p->terms.begin_ns : p->terms.lost_ns;
    return it->heard_ns + limit - p->listened_ns;
}

static void judge(mu_peers *p, int i) {
    const mu_peer *it = &p->peer[i];
    char why[MU_PEER_WHY];
    if (!is_watched(p, i) || patience(p, i) >= 0) return;
    const double silent_s = (double)(p->listened_ns - it->heard_ns) * 1e-9;
    if (it->life == MU_PEER_AWAITED) snprintf(why, sizeof why, "not heard of in %.1f s", silent_s);
    else snprintf(why, sizeof why, "silent for %.1f s", silent_s);
    mu_peers_lose(p, i, why);
}

int mu_peers_look(mu_peers *p, int64_t now_ns) {
    const int64_t since = now_ns - p->looked_ns, most = p->terms.heartbeat_ns;
    p->looked_ns = now_ns;
    p->listened_ns += since < most ? since : most;
    for (int i = 0; i < p->n; i++) {
        judge(p, i);
        if (p->peer[i].life != MU_PEER_LOST || p->peer[i].told) continue;
        p->peer[i].told = true;
        return i;
    }
    return -1;
}

static int64_t owed_at(const mu_peers *p, int i) { return p->peer[i].sent_ns + p->terms.heartbeat_ns; }

int mu_peers_due(const mu_peers *p, int64_t now_ns) {
    for (int i = 0; i < p->n; i++)
        if (is_watched(p, i) && owed_at(p, i) <= now_ns) return i;
    return -1;
}

int64_t mu_peers_rest(const mu_peers *p, int64_t now_ns) {
    int64_t rest = p->terms.heartbeat_ns;
    for (int i = 0; i < p->n; i++) {
        if (!is_watched(p, i)) continue;
        const int64_t owed = owed_at(p, i) - now_ns, left = patience(p, i) + 1;
        if (owed < rest) rest = owed;
        if (left < rest) rest = left;
    }
    return rest > 0 ? rest : 0;
}
