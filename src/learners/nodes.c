// SPDX-License-Identifier: Apache-2.0
// nodes.c - see nodes.h.
//
// Letters are sent in order to each peer, a sign of life at once. A frame is packed once, whoever gets it.
#include "learners/nodes.h"

#include "base/clock.h"
#include "base/level.h"
#include "ps/merge.h"
#include "ps/part_forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAG "nodes"
#define SECOND_NS INT64_C(1000000000)

enum { EVENTS = 4096, NAP_NS = 300000, TELL_NS = 200000000, LEAVE_S = 5 };

typedef enum letter_state { DONE, TO_SEND, UNDER_WAY } letter_state;

typedef struct mu_letter {
    struct mu_letter *next;
    mu_wire_frame frame;
    int *owed;             // that counts it
    int left;              // peers that it is not sent to
    int only;              // the one that it is for; -1 = several
    unsigned char state[]; // (n) letter_state
} mu_letter;

typedef struct mu_lent {
    struct mu_lent *next;
    void *memory;
} mu_lent;

typedef struct mu_held {
    struct mu_held *next;
    int peer;
    const void *data;
    mu_wire wire;
} mu_held;

// ---- beginning ----

static mu_peers_terms usual_terms(void) {
    const char *text = getenv("MUSTER_RANK_TIMEOUT");
    const double asked = text ? strtod(text, NULL) : 0;
    const double lost_s = asked >= 0.1 && asked <= 1e6 ? asked : 10;
    const int64_t lost_ns = (int64_t)(lost_s * 1e9), tenth = lost_ns / 10;
    return (mu_peers_terms){.heartbeat_ns = tenth < SECOND_NS ? tenth : SECOND_NS,
                            .lost_ns = lost_ns,
                            .begin_ns = 600 * SECOND_NS};
}

static mu_status make(mu_nodes *n, const mu_peers_terms *terms, mu_err *err) {
    const size_t all = (size_t)n->n;
    MU_TRY(mu_peers_init(&n->peers, n->rank, n->n, terms, mu_clock_ns(), err));
    n->hello = mu_alloc_array(all, sizeof *n->hello, TAG);
    n->layout = mu_alloc_array(all, sizeof *n->layout, TAG);
    n->greeted = mu_alloc_array(all, sizeof *n->greeted, TAG);
    n->times = mu_alloc_array(all, sizeof *n->times, TAG);
    n->full = mu_alloc_array(all, sizeof *n->full, TAG);
    const bool good = n->hello && n->layout && n->greeted && n->times && n->full;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the list of ranks");
}

mu_status mu_nodes_open(const char *transport, const mu_transport_opts *o, const mu_peers_terms *terms,
                        mu_nodes **out, mu_err *err) {
    const mu_peers_terms usual = usual_terms();
    mu_nodes *n = mu_alloc(sizeof *n, TAG);
    if (!n) return MU_FAIL_NOMEM(err, "the ranks");
    mu_status st = mu_transport_open(transport, o, &n->t, err);
    if (st == MU_OK) {
        n->rank = n->t->rank, n->n = n->t->n;
        n->shape = (mu_wire_shape){.ranks = n->n, .learners = 1, .groups = 1, .blocks = 1};
        st = make(n, terms ? terms : &usual, err);
    }
    if (st != MU_OK) mu_nodes_destroy(n);
    else *out = n;
    return st;
}

// Names, shapes and forms of all parameters, and what travels of them.
static mu_status set_shape(mu_nodes *n, const mu_session *s, mu_err *err) {
    const mu_setup *p = &s->setup;
    const bool joint = mu_setup_is_joint(p), relayed = mu_setup_is_relayed(p);
    // A group that sends its gradients to a root is one of two that meet.
    const int parties = joint ? n->n : relayed ? 2 : 1;
    const int learners = p->learners / (relayed ? p->server_groups : n->n);
    const bool in_parts = joint && p->workers > 1;
    const bool clips = s->updater->clip_norm > 0;
    if (in_parts) MU_TRY(mu_part_forms_make(p, s->partition, s->worker_net, &n->parts, err));
    else MU_TRY(mu_wire_forms_make(s->params, parties, learners, clips, p->wire, &n->forms, err));
    const int center = s->merge ? 1 + s->merge->n_slots : 0, blocks = 1 + s->params->n_slots + center;
    const int own_groups = mu_setup_own_groups(p);
    n->shape = (mu_wire_shape){.ranks = n->n,
                               .learners = s->setup.learners,
                               .workers = 1,
                               .groups = s->setup.server_groups,
                               .rows = relayed ? p->global_batch / p->server_groups : p->rows,
                               .count = (int64_t)s->params->count,
                               .blocks = blocks > own_groups ? blocks : own_groups,
                               .half = in_parts ? MU_HALF_NONE : p->wire,
                               .share = &n->forms.share};
    if (in_parts) mu_part_forms_shape(n->parts, &n->shape);
    n->shape.layout = mu_wire_layout_hash(&n->shape);
    if (joint || relayed) return MU_OK;
    n->shape.workers = 0; // no gradients travel
    n->shape.share = NULL;
    mu_wire_forms_fini(&n->forms);
    return MU_OK;
}

// Printable, as a frame wants it.
static void put_text(char *to, size_t size, const char *from) {
    size_t i = 0;
    for (; i + 1 < size && from[i]; i++)
        to[i] = (unsigned char)from[i] < ' ' || from[i] == 0x7f ? ' ' : from[i];
    for (; i < size; i++) to[i] = '\0';
}

// A shard has the samples of its own rank alone; rank 0 deals others to it, once groups are not in step.
static mu_status check_shard(const mu_session *s, mu_err *err) {
    const mu_source *data = s->train.source;
    const bool in_step = mu_setup_sync_versions(&s->setup, s->setup.warm_versions) == INT64_MAX;
    if (!data || !mu_source_reader(data)->shard.of || !mu_setup_is_relayed(&s->setup) || in_step) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EJOB, "shards of the data do not go with `architecture` and `%s`",
                                 s->setup.protocol->name),
                         err, "Samples go to whoever is fast. Use `protocol: hardsync`, or leave `architecture` out.");
}

mu_status mu_nodes_introduce(mu_nodes *n, const mu_session *s, mu_err *err) {
    mu_wire_hello *h = &n->hello[n->rank];
    MU_TRY(check_shard(s, err));
    MU_TRY(set_shape(n, s, err));
    *h = (mu_wire_hello){.rank = n->rank,
                         .ranks = n->n,
                         .learners = s->setup.learners,
                         .workers = s->setup.workers,
                         .pid = (int32_t)getpid(),
                         .level = mu_level(),
                         .job = mu_job_hash(s->job),
                         .seed = s->job->seed,
                         .data = s->train.source ? mu_source_reader(s->train.source)->shard.whole : 0};
    char host[256] = "", file[400] = "all data";
    if (h->data) mu_reader_describe_file(mu_source_reader(s->train.source), file, sizeof file);
    put_text(h->file, sizeof h->file, file);
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "?");
    put_text(h->host, sizeof h->host, host);
    n->layout[n->rank] = n->shape.layout;
    n->greeted[n->rank] = true;
    return MU_OK;
}

mu_status mu_nodes_greet(mu_nodes *n, const mu_session *s, mu_err *err) {
    MU_TRY(mu_nodes_introduce(n, s, err));
    const mu_wire w = {.type = MU_WIRE_HELLO, .hello = n->hello[n->rank]};
    return mu_nodes_send(n, -1, MU_TOPIC_WORD, &w, err);
}

static mu_status other_data(const mu_nodes *n, int peer, mu_err *err) {
    const mu_wire_hello *own = &n->hello[n->rank], *h = &n->hello[peer];
    return mu_err_hinted(MU_FAIL(err, MU_EJOB,
                                 "rank %d on %s has %s, which does not belong to %s of rank %d on %s", peer,
                                 h->host, h->file, own->file, n->rank, own->host),
                         err, "Shards are made for all ranks at once: `muster data shard --parts %d`.", n->n);
}

mu_status mu_nodes_agreed(const mu_nodes *n, bool *all, mu_err *err) {
    const mu_wire_hello *own = &n->hello[n->rank];
    *all = true;
    for (int p = 0; p < n->n; p++) {
        const mu_wire_hello *h = &n->hello[p];
        *all &= n->greeted[p];
        if (!n->greeted[p]) continue;
        // The same updates have to give the same bits everywhere.
        if (h->level != own->level)
            return mu_err_hinted(MU_FAIL(err, MU_EJOB,
                                         "rank %d on %s has kernels of another level (%s) than "
                                         "rank %d on %s (%s)",
                                         p, h->host, mu_level_name(h->level), n->rank, own->host,
                                         mu_level_name(own->level)),
                                 err, "Set MUSTER_CPU=%s for all ranks, such as by `mpirun -x`.",
                                 mu_level_name(h->level < own->level ? h->level : own->level));
        const char *what = h->job != own->job                   ? "another job"
                           : h->seed != own->seed               ? "another seed"
                           : h->learners != own->learners       ? "another number of learners"
                           : h->workers != own->workers         ? "another number of workers"
                           : n->layout[p] != n->layout[n->rank] ? "a net with other parameters"
                                                                : NULL;
        if (!what && h->data != own->data) return other_data(n, p, err);
        if (what)
            return mu_err_hinted(MU_FAIL(err, MU_EJOB, "rank %d on %s trains %s than rank %d on %s", p,
                                         h->host, what, n->rank, own->host),
                                 err, "Start all ranks with the same job, options and data.");
    }
    return MU_OK;
}

typedef struct meeting {
    const mu_nodes *nodes;
    mu_status st;
    mu_err *err;
} meeting;

static bool has_met(void *ctx) {
    meeting *m = ctx;
    bool all;
    m->st = mu_nodes_agreed(m->nodes, &all, m->err);
    return m->st != MU_OK || all;
}

mu_status mu_nodes_meet(mu_nodes *n, const mu_session *s, mu_err *err) {
    meeting m = {.nodes = n, .err = err};
    MU_TRY(mu_nodes_greet(n, s, err));
    MU_TRY(mu_nodes_wait(n, has_met, &m, err));
    return m.st;
}

int mu_nodes_before_on_host(const mu_nodes *n) {
    int before = 0;
    for (int p = 0; p < n->rank; p++) before += !strcmp(n->hello[p].host, n->hello[n->rank].host);
    return before;
}

bool mu_nodes_share_host(const mu_nodes *n) {
    bool shared = false;
    for (int a = 0; a < n->n && !shared; a++)
        for (int b = 0; b < a && !shared; b++) shared = !strcmp(n->hello[a].host, n->hello[b].host);
    return shared;
}

// ---- failing ----

static const char *host_of(const mu_nodes *n, int peer) {
    return n->greeted[peer] ? n->hello[peer].host : "a host not heard of";
}

static mu_status failed(mu_nodes *n, mu_err *err) { return mu_err_pass(n->failed.status, &n->failed, err); }

static void say_lost(mu_nodes *n, int peer, const char *why) {
    mu_wire w = {.type = MU_WIRE_LOST, .lost = {.learner = -1, .rank = peer}};
    snprintf(w.lost.why, sizeof w.lost.why, "%s", why);
    for (int p = 0; p < n->n; p++)
        if (p != n->rank && p != peer && mu_nodes_send(n, p, MU_TOPIC_WORD, &w, NULL) != MU_OK) return;
}

static void lose(mu_nodes *n, int peer, const char *why) {
    n->t->class->drop(n->t, peer);
    if (n->failed.status != MU_OK) return;
    say_lost(n, peer, why);
    MU_FAIL(&n->failed, MU_ERANK, "rank %d on %s was lost: %s", peer, host_of(n, peer), why);
    mu_err_hint(&n->failed, "Start the ranks again with `--resume`: they go on from the last checkpoint.");
}

// ---- sending ----

static mu_letter *new_letter(mu_nodes *n, mu_err *err) {
    mu_letter *l = n->spare;
    if (l) {
        n->spare = l->next;
        return l;
    }
    l = mu_alloc(sizeof *l + (size_t)n->n, TAG);
    if (l && mu_wire_frame_init(&n->shape, &l->frame, err) == MU_OK) return l;
    mu_free(l);
    if (!l) MU_FAIL_NOMEM(err, "a frame to other ranks");
    return NULL;
}

static void keep_spare(mu_nodes *n, mu_letter *l) {
    l->next = n->spare;
    n->spare = l;
}

static mu_letter *pack(mu_nodes *n, const mu_wire *w, mu_err *err) {
    mu_letter *l = new_letter(n, err);
    if (!l) return NULL;
    if (mu_wire_pack(&n->shape, w, &l->frame, err) == MU_OK) return l;
    keep_spare(n, l);
    return NULL;
}

static void append(mu_nodes *n, mu_letter *l, int *owed) {
    mu_letter **end = &n->first;
    while (*end) end = &(*end)->next;
    l->next = NULL;
    l->owed = owed;
    ++*owed;
    *end = l;
}

static void settle(mu_letter *l, int peer) {
    if (l->state[peer] == DONE) return;
    l->state[peer] = DONE;
    l->left--;
}

static void sweep(mu_nodes *n) {
    for (mu_letter **at = &n->first; *at;) {
        mu_letter *l = *at;
        if (l->left) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        --*l->owed;
        keep_spare(n, l);
    }
}

// False: there is no room for it now.
static bool send_one(mu_nodes *n, mu_letter *l, int peer) {
    mu_sending how = MU_SEND_FULL;
    mu_err err = {0};
    const uint64_t token = (uint64_t)(uintptr_t)l;
    if (mu_transport_send(n->t, peer, l->frame.part, l->frame.n, token, &how, &err) != MU_OK) return false;
    if (how == MU_SEND_FULL) return false;
    if (how == MU_SEND_GONE) settle(l, peer);
    else l->state[peer] = UNDER_WAY;
    if (how == MU_SEND_TAKEN) n->bytes_sent += (int64_t)l->frame.bytes;
    mu_peers_sent(&n->peers, peer, mu_clock_ns());
    return true;
}

static void try_one(mu_nodes *n, mu_letter *l, int peer) {
    if (l->state[peer] == TO_SEND && !n->full[peer]) n->full[peer] = !send_one(n, l, peer);
}

// In order to each peer: behind a letter that there is no room for, no other goes.
static void flush(mu_nodes *n) {
    if (n->first) memset(n->full, 0, (size_t)n->n * sizeof *n->full);
    for (mu_letter *l = n->first; l; l = l->next) {
        if (l->only >= 0) try_one(n, l, l->only);
        for (int p = 0; p < n->n && l->only < 0; p++) try_one(n, l, p);
    }
    sweep(n);
}

mu_status mu_nodes_send(mu_nodes *n, int peer, mu_node_topic topic, const mu_wire *w, mu_err *err) {
    return mu_nodes_send_counted(n, peer, &n->owed[topic], w, err);
}

mu_status mu_nodes_send_counted(mu_nodes *n, int peer, int *owed, const mu_wire *w, mu_err *err) {
    mu_letter *l = pack(n, w, err);
    if (!l) return err ? err->status : MU_ENOMEM;
    l->left = 0;
    l->only = peer;
    for (int p = 0; p < n->n; p++) {
        const bool to = p != n->rank && (peer < 0 || p == peer);
        l->state[p] = to ? TO_SEND : DONE;
        l->left += to;
    }
    append(n, l, owed);
    flush(n);
    return MU_OK;
}

// Past all that waits. Where there is no room it is left out: what fills the room is a sign of life, too.
static void beat(mu_nodes *n, int peer, int64_t now) {
    const mu_node_times *own = &n->times[n->rank];
    const mu_wire w = {.type = MU_WIRE_HEARTBEAT,
                       .heartbeat = {.number = n->beats++,
                                     .sent_ns = now,
                                     .compute_ns = own->compute_ns,
                                     .wait_ns = own->wait_ns}};
    mu_letter *l = pack(n, &w, NULL);
    mu_peers_sent(&n->peers, peer, now);
    if (!l) return;
    for (int p = 0; p < n->n; p++) l->state[p] = DONE;
    l->state[peer] = TO_SEND;
    l->only = peer;
    l->left = 1;
    if (send_one(n, l, peer) && l->state[peer] == UNDER_WAY) append(n, l, &n->owed[MU_TOPIC_WORD]);
    else keep_spare(n, l);
}

// ---- what comes in ----

static void take_error(mu_nodes *n, const mu_wire_error *e) {
    if (n->failed.status != MU_OK) return;
    MU_FAIL(&n->failed, (mu_status)e->status, "rank %d on %s: %s", e->rank, host_of(n, e->rank), e->msg);
    if (e->hint[0]) mu_err_hint(&n->failed, "%s", e->hint);
    if (e->note[0]) mu_err_note(&n->failed, "%s", e->note);
}

static void take_lost(mu_nodes *n, int peer, const mu_wire_lost *l) {
    if (l->rank != n->rank) mu_peers_lose(&n->peers, l->rank, l->why);
    else if (n->failed.status == MU_OK)
        MU_FAIL(&n->failed, MU_ERANK, "rank %d took this rank, %d, for lost: %s", peer, n->rank, l->why);
}

static mu_status take_frame(mu_nodes *n, int peer, const mu_wire *w, bool *later, mu_err *err) {
    *later = false;
    switch (w->type) {
    case MU_WIRE_HEARTBEAT:
        n->times[peer] = (mu_node_times){w->heartbeat.compute_ns, w->heartbeat.wait_ns};
        return MU_OK;
    case MU_WIRE_HELLO:
        n->hello[peer] = w->hello;
        n->layout[peer] = w->layout;
        n->greeted[peer] = true;
        return MU_OK;
    case MU_WIRE_ERROR:
        take_error(n, &w->error);
        return MU_OK;
    case MU_WIRE_LOST:
        if (w->lost.learner < 0) {
            take_lost(n, peer, &w->lost);
            return MU_OK;
        }
        break; // a learner is the business of who trains
    default:
        break;
    }
    *later = !n->take;
    return n->take ? n->take(n->ctx, peer, w, later, err) : MU_OK;
}

static mu_status came(mu_nodes *n, const mu_transport_event *e, mu_err *err) {
    mu_wire w;
    bool later = false;
    mu_held *h = NULL;
    n->bytes_received += (int64_t)e->bytes;
    mu_status st = mu_wire_unpack(&n->shape, e->data, e->bytes, &w, err);
    if (st == MU_OK) st = take_frame(n, e->peer, &w, &later, err);
    if (later && st == MU_OK && !(h = mu_alloc(sizeof *h, TAG))) st = MU_FAIL_NOMEM(err, "a frame that came");
    if (!h) {
        n->t->class->release(n->t, e->data);
        return st;
    }
    mu_held **end = &n->held;
    while (*end) end = &(*end)->next;
    *h = (mu_held){.peer = e->peer, .data = e->data, .wire = w};
    *end = h;
    return st;
}

static mu_status give_again(mu_nodes *n, mu_err *err) {
    for (mu_held **at = &n->held; *at && n->take;) {
        mu_held *h = *at;
        bool later = false;
        MU_TRY(n->take(n->ctx, h->peer, &h->wire, &later, err));
        if (later) {
            at = &h->next;
            continue;
        }
        *at = h->next;
        n->t->class->release(n->t, h->data);
        mu_free(h);
    }
    return MU_OK;
}

static mu_status handle(mu_nodes *n, const mu_transport_event *e, mu_err *err) {
    switch (e->what) {
    case MU_TRANSPORT_MESSAGE:
        return came(n, e, err);
    case MU_TRANSPORT_SENT:
        settle((mu_letter *)(uintptr_t)e->token, e->peer);
        return MU_OK;
    case MU_TRANSPORT_LEFT:
        mu_peers_ended(&n->peers, e->peer);
        if (!n->parting && n->failed.status == MU_OK) lose(n, e->peer, "it has ended");
        return MU_OK;
    case MU_TRANSPORT_BROKEN:
        mu_peers_lose(&n->peers, e->peer, e->why);
        return MU_OK;
    default:
        return MU_OK;
    }
}

// What else goes to rank 0 says nothing of times.
static void tell_times(mu_nodes *n, int64_t now) {
    const mu_node_times *own = &n->times[n->rank];
    const bool news = own->compute_ns != n->told.compute_ns || own->wait_ns != n->told.wait_ns;
    if (!n->rank || !news || now - n->told_ns < TELL_NS) return;
    n->told = *own;
    n->told_ns = now;
    beat(n, 0, now);
}

static void look_at_peers(mu_nodes *n) {
    const int64_t now = mu_clock_ns();
    int p;
    tell_times(n, now);
    while ((p = mu_peers_look(&n->peers, now)) >= 0) lose(n, p, n->peers.peer[p].why);
    while ((p = mu_peers_due(&n->peers, now)) >= 0) beat(n, p, now);
}

mu_status mu_nodes_look(mu_nodes *n, mu_err *err) {
    mu_transport_event e = {.what = MU_TRANSPORT_ROOM};
    if (n->failed.status != MU_OK) return failed(n, err);
    MU_TRY(give_again(n, err));
    for (int i = 0; i < EVENTS && e.what != MU_TRANSPORT_NOTHING; i++) {
        MU_TRY(n->t->class->poll(n->t, &e, err));
        if (e.what != MU_TRANSPORT_NOTHING && e.what != MU_TRANSPORT_SENT) mu_peers_heard(&n->peers, e.peer);
        MU_TRY(handle(n, &e, err));
    }
    flush(n);
    look_at_peers(n);
    return n->failed.status == MU_OK ? MU_OK : failed(n, err);
}

mu_status mu_nodes_wait(mu_nodes *n, bool (*done)(void *), void *ctx, mu_err *err) {
    for (;;) {
        MU_TRY(mu_nodes_look(n, err));
        if (done ? done(ctx) : !n->first) return MU_OK;
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
}

bool mu_nodes_has_left(const mu_nodes *n, int peer) { return n->t->state[peer] == MU_PEER_LEFT; }

// ---- the end ----

static void tell_error(mu_nodes *n, const mu_err *e) {
    mu_wire w = {.type = MU_WIRE_ERROR, .error = {.rank = n->rank, .status = (int32_t)e->status}};
    put_text(w.error.msg, sizeof w.error.msg, e->msg[0] ? e->msg : mu_status_text(e->status));
    put_text(w.error.hint, sizeof w.error.hint, e->hint);
    put_text(w.error.note, sizeof w.error.note, e->note);
    mu_err own = {0}; // where not even that can be said, silence will tell them
    if (mu_nodes_send(n, -1, MU_TOPIC_WORD, &w, &own) != MU_OK) return;
}

bool mu_nodes_end(mu_nodes *n, const mu_err *err) {
    if (!n || !n->t) return !n || !n->unclean;
    const bool own = n->failed.status == MU_OK;
    const int64_t until = mu_clock_ns() + SECOND_NS;
    mu_transport_event e = {0};
    n->parting = true;
    if (err && err->status != MU_OK && own) tell_error(n, err);
    for (flush(n); n->first && mu_clock_ns() < until; flush(n)) { // what can still be sent
        if (n->t->class->poll(n->t, &e, NULL) != MU_OK) break;
        if (e.what == MU_TRANSPORT_MESSAGE) n->t->class->release(n->t, e.data);
        if (e.what == MU_TRANSPORT_SENT) settle((mu_letter *)(uintptr_t)e.token, e.peer);
        if (e.what == MU_TRANSPORT_NOTHING) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    const bool in_order = n->failed.status != MU_ERANK; // else what the lost rank was sent never ends
    n->unclean = !mu_transport_end(n->t, in_order ? LEAVE_S * SECOND_NS : SECOND_NS);
    n->t = NULL;
    return !n->unclean;
}

// Where there is no memory to note it, it is never freed.
void mu_nodes_give_back(mu_nodes *n, void *memory) {
    mu_lent *l = NULL;
    if (!memory) return;
    if (!n->first && !n->unclean) mu_free(memory);
    else l = mu_alloc(sizeof *l, TAG);
    if (!l) return;
    *l = (mu_lent){n->lent, memory};
    n->lent = l;
}

static void free_letters(mu_letter *l) {
    while (l) {
        mu_letter *next = l->next;
        mu_wire_frame_fini(&l->frame);
        mu_free(l);
        l = next;
    }
}

void mu_nodes_destroy(mu_nodes *n) {
    if (!n) return;
    while (n->held) {
        mu_held *next = n->held->next;
        mu_free(n->held);
        n->held = next;
    }
    if (n->unclean) return; // some of it is lent for good
    free_letters(n->first);
    free_letters(n->spare);
    while (n->lent) {
        mu_lent *next = n->lent->next;
        mu_free(n->lent->memory);
        mu_free(n->lent);
        n->lent = next;
    }
    mu_peers_fini(&n->peers);
    mu_wire_forms_fini(&n->forms);
    mu_part_forms_destroy(n->parts);
    mu_free(n->hello);
    mu_free(n->layout);
    mu_free(n->greeted);
    mu_free(n->times);
    mu_free(n->full);
    mu_free(n);
}
