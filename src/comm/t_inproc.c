// SPDX-License-Identifier: Apache-2.0
// t_inproc.c - the transport `inproc`: any number of ranks in one process, see inproc.h.
//
// Each way from one rank to another has a list of messages in order. Every poll looks at the ways to its
// rank, beginning at another peer each time.
#include "comm/inproc.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "comm/buffers.h"

#include <string.h>
#include <unistd.h>

#define TAG "inproc"

typedef struct message {
    struct message *next;
    uint64_t token;
    int64_t due_ns;
    size_t bytes;
    int peer, n;
    struct iovec part[];
} message;

typedef struct list { // zeroed = empty
    message *first, *last;
} list;

typedef struct way {
    mu_inproc_way how;
    list under_way;
    mu_window window;
    int64_t last_due_ns;
    bool goodbye;              // behind the last message
    bool wants_room, has_room; // the sender was told FULL; something was released since
} way;

typedef struct rank {
    mu_transport t; // first
    mu_inproc *net;
    pid_t owner;
    list sent; // delivered: SENT is to be told
    mu_buffers buffers;
    int first; // peer to look at first
} rank;

struct mu_inproc {
    int n;
    mu_rng_key key;
    uint64_t drawn;
    int64_t now_ns;
    rank **rank; // (n) NULL = not open
    way *way;    // (n, n) from, to
    bool *deaf;  // (n)
};

static void append(list *l, message *m) {
    m->next = NULL;
    if (l->first) l->last->next = m;
    else l->first = m;
    l->last = m;
}

static message *take_first(list *l) {
    message *m = l->first;
    l->first = m->next;
    return m;
}

static void list_free(list *l) {
    while (l->first) mu_free(take_first(l));
}

// ---- the net ----

static way *way_at(const mu_inproc *net, int from, int to) {
    return &net->way[(size_t)from * (size_t)net->n + (size_t)to];
}

mu_status mu_inproc_create(int n, uint64_t seed, mu_inproc **out, mu_err *err) {
    mu_inproc *net = mu_alloc(sizeof *net, TAG);
    if (net) {
        net->n = n;
        net->key = mu_rng_key_make(seed, "inproc");
        net->rank = mu_alloc_array((size_t)n, sizeof *net->rank, TAG);
        net->way = mu_alloc_array((size_t)n, (size_t)n * sizeof *net->way, TAG);
        net->deaf = mu_alloc_array((size_t)n, sizeof *net->deaf, TAG);
    }
    if (!net || !net->rank || !net->way || !net->deaf) {
        mu_inproc_destroy(net);
        return MU_FAIL_NOMEM(err, "ranks in one process");
    }
    *out = net;
    return MU_OK;
}

void mu_inproc_destroy(mu_inproc *net) {
    if (!net) return;
    for (int i = 0; net->way && i < net->n; i++)
        for (int k = 0; k < net->n; k++) list_free(&way_at(net, i, k)->under_way);
    mu_free(net->rank);
    mu_free(net->way);
    mu_free(net->deaf);
    mu_free(net);
}

void mu_inproc_set_time(mu_inproc *net, int64_t now_ns) { net->now_ns = now_ns; }
void mu_inproc_set_deaf(mu_inproc *net, int r, bool deaf) { net->deaf[r] = deaf; }

void mu_inproc_set_way(mu_inproc *net, int from, int to, const mu_inproc_way *how) {
    for (int i = 0; i < net->n; i++)
        for (int k = 0; k < net->n; k++)
            if ((from < 0 || i == from) && (to < 0 || k == to)) way_at(net, i, k)->how = *how;
}

void mu_inproc_set_cut(mu_inproc *net, int a, int b, bool cut) {
    for (int i = 0; i < net->n; i++)
        for (int k = 0; k < net->n; k++)
            if ((a < 0 || i == a) && (b < 0 || k == b))
                way_at(net, i, k)->how.cut = way_at(net, k, i)->how.cut = cut;
}

// When something arrives by this way; INT64_MAX: nothing is under way, or it is cut.
static int64_t arrives(const way *w) {
    if (w->how.cut) return INT64_MAX;
    if (w->under_way.first) return w->under_way.first->due_ns;
    return w->goodbye ? w->last_due_ns : INT64_MAX;
}

int64_t mu_inproc_next(const mu_inproc *net) {
    int64_t next = INT64_MAX;
    for (int to = 0; to < net->n; to++)
        for (int from = 0; from < net->n && net->rank[to] && !net->deaf[to]; from++) {
            const int64_t at = arrives(way_at(net, from, to));
            if (at < next) next = at;
        }
    return next;
}

// What is sent now arrives then.
static int64_t set_out(mu_inproc *net, way *w) {
    int64_t due = net->now_ns + w->how.delay_ns;
    if (w->how.jitter_ns > 0) {
        uint32_t words[4];
        mu_rng_block(net->key, 0, net->drawn++, words);
        due += (int64_t)(((uint64_t)words[0] << 31 | words[1] >> 1) % (uint64_t)w->how.jitter_ns);
    }
    if (due > w->last_due_ns) w->last_due_ns = due;
    return w->last_due_ns;
}

// ---- a rank ----

static bool close_rank(mu_transport *t);

static mu_status open_rank(const mu_transport_opts *o, mu_transport **out, mu_err *err) {
    if (!o->net || o->rank < 0 || o->rank >= o->net->n || o->net->rank[o->rank])
        return MU_FAIL(err, MU_EUSAGE, "rank %d of `inproc` has no net, or is open already", o->rank);
    const size_t n = (size_t)o->net->n;
    rank *r = mu_alloc(sizeof *r, TAG);
    if (!r) return MU_FAIL_NOMEM(err, "a rank");
    r->t = (mu_transport){.opts = *o, .rank = o->rank, .n = o->net->n};
    r->net = o->net;
    r->owner = getpid();
    r->t.state = mu_alloc_array(n, sizeof *r->t.state, TAG);
    r->t.signs = mu_alloc_array(n, sizeof *r->t.signs, TAG);
    if (!r->t.state || !r->t.signs) {
        close_rank(&r->t);
        return MU_FAIL_NOMEM(err, "a rank");
    }
    r->net->rank[o->rank] = r;
    *out = &r->t;
    return MU_OK;
}

static mu_status send(mu_transport *t, int peer, const struct iovec *part, int n, uint64_t token,
                      mu_sending *out, mu_err *err) {
    rank *r = (rank *)t;
    way *w = way_at(r->net, t->rank, peer);
    const size_t bytes = mu_parts_bytes(part, n);
    *out = MU_SEND_GONE;
    if (t->state[peer] != MU_PEER_HERE || t->left) return MU_OK;
    *out = MU_SEND_FULL;
    w->wants_room = !mu_window_admits(&w->window, bytes, t->opts.window_bytes);
    if (w->wants_room) return MU_OK;
    message *m = mu_alloc(sizeof *m + (size_t)n * sizeof *part, TAG);
    if (!m) return MU_FAIL_NOMEM(err, "a message");
    *m = (message){.token = token, .bytes = bytes, .peer = peer, .n = n, .due_ns = set_out(r->net, w)};
    if (n) memcpy(m->part, part, (size_t)n * sizeof *part);
    append(&w->under_way, m);
    mu_window_take(&w->window, bytes);
    t->lent++;
    *out = MU_SEND_TAKEN;
    return MU_OK;
}

static void gather(const message *m, char *to) {
    for (int i = 0; i < m->n; i++) {
        if (m->part[i].iov_len) memcpy(to, m->part[i].iov_base, m->part[i].iov_len);
        to += m->part[i].iov_len;
    }
}

// The first message of the way is at its goal: its memory is the sender's again.
static void delivered(rank *r, int from, way *w) {
    append(&r->net->rank[from]->sent, take_first(&w->under_way));
    r->t.signs[from]++;
}

static mu_status receive(rank *r, int from, way *w, mu_transport_event *out, mu_err *err) {
    while (arrives(w) <= r->net->now_ns) {
        const message *m = w->under_way.first;
        if (m && r->t.state[from] == MU_PEER_DROPPED) {
            delivered(r, from, w);
            continue;
        }
        if (!m) {
            w->goodbye = false;
            if (r->t.state[from] == MU_PEER_DROPPED) break;
            r->t.state[from] = MU_PEER_LEFT;
            r->t.signs[from]++;
            *out = (mu_transport_event){.what = MU_TRANSPORT_LEFT, .peer = from};
            break;
        }
        mu_buffer *b = mu_buffer_take(&r->buffers, from, m->bytes);
        if (!b) return MU_FAIL_NOMEM(err, "a message that came");
        gather(m, mu_buffer_data(b));
        *out = (mu_transport_event){
            .what = MU_TRANSPORT_MESSAGE, .peer = from, .data = mu_buffer_data(b), .bytes = b->bytes};
        delivered(r, from, w);
        break;
    }
    return MU_OK;
}

// Less is owed than before.
static void room_again(way *w) {
    w->has_room |= w->wants_room;
    w->wants_room = false;
}

static void tell_sent(rank *r, mu_transport_event *out) {
    message *m = take_first(&r->sent);
    *out = (mu_transport_event){.what = MU_TRANSPORT_SENT, .peer = m->peer, .token = m->token};
    way *w = way_at(r->net, r->t.rank, m->peer);
    r->t.lent--;
    w->window.lent--;
    room_again(w);
    mu_free(m);
}

static mu_status poll(mu_transport *t, mu_transport_event *out, mu_err *err) {
    rank *r = (rank *)t;
    *out = (mu_transport_event){.what = MU_TRANSPORT_NOTHING};
    if (r->net->deaf[t->rank]) return MU_OK;
    if (r->sent.first) {
        tell_sent(r, out);
        return MU_OK;
    }
    for (int i = 0; i < t->n && !out->what; i++) {
        const int peer = (r->first + i) % t->n;
        way *to = way_at(r->net, t->rank, peer);
        if (to->has_room && t->state[peer] == MU_PEER_HERE) {
            to->has_room = false;
            *out = (mu_transport_event){.what = MU_TRANSPORT_ROOM, .peer = peer};
        } else {
            MU_TRY(receive(r, peer, way_at(r->net, peer, t->rank), out, err));
        }
        if (out->what) r->first = peer + 1;
    }
    return MU_OK;
}

static void release(mu_transport *t, const void *data) {
    rank *r = (rank *)t;
    mu_buffer *b = mu_buffer_of(data);
    way *w = way_at(r->net, b->peer, t->rank);
    w->window.freed++;
    w->window.freed_bytes += mu_window_weight(b->bytes);
    room_again(w);
    mu_buffer_give(&r->buffers, b);
}

static int drop(mu_transport *t, int peer) {
    rank *r = (rank *)t;
    int lent = 0;
    if (t->state[peer] == MU_PEER_HERE) {
        t->state[peer] = MU_PEER_DROPPED;
        t->dropped = true;
    }
    for (const message *m = way_at(r->net, t->rank, peer)->under_way.first; m; m = m->next) lent++;
    return lent;
}

static void leave(mu_transport *t) {
    rank *r = (rank *)t;
    for (int p = 0; p < t->n && !t->left; p++) {
        way *w = way_at(r->net, t->rank, p);
        if (p == t->rank || t->state[p] == MU_PEER_DROPPED) continue;
        w->goodbye = true;
        set_out(r->net, w);
    }
    t->left = true;
}

// Messages of its own that are under way are lost, as their memory may be.
static bool close_rank(mu_transport *t) {
    rank *r = (rank *)t;
    if (!t || r->owner != getpid()) return true;
    const bool clean = r->net->rank[t->rank] == r && mu_transport_is_over(t) && !t->dropped;
    for (int p = 0; p < t->n; p++) list_free(&way_at(r->net, t->rank, p)->under_way);
    r->net->rank[t->rank] = NULL;
    list_free(&r->sent);
    mu_buffers_fini(&r->buffers);
    mu_free(t->state);
    mu_free(t->signs);
    mu_free(r);
    return clean;
}

const mu_transport_class mu_transport_inproc = {
    .name = "inproc",
    .help = "ranks in one process, for tests and simulation",
    .open = open_rank,
    .send = send,
    .poll = poll,
    .release = release,
    .drop = drop,
    .leave = leave,
    .close = close_rank,
};
