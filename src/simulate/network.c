// SPDX-License-Identifier: Apache-2.0
// network.c - see network.h.
#include "simulate/network.h"

#include "base/alloc.h"
#include "comm/transport.h"
#include "simulate/machine.h"
#include "simulate/memory.h"

#include <simgrid/engine.h>
#include <smpi/smpi.h>

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define TAG "simulated network"

enum {
    DATA = 1,
    WORD = 2, // tags of t_mpi.c
    NEWS = 3,
    TIMER = 16,    // own ones: what comes; timers, one behind the other
    EAGER = 65000, // bytes: below SMPI's limits for what leaves at once
    ANNOUNCEMENT = 64,
    WORD_BYTES = 32, // bytes
    MOST_PARTS = 4096,
    SPECIAL = 8, // first requests: of news, words and timers
    TIMERS = SPECIAL - 2,
    WINDOW = 192,      // so many requests are looked at
    SCRATCH = 1 << 16, // bytes, of every message
    OFTEN = MU_TRANSPORT_WAITING / 4,
    OFTEN_BYTES = 8 << 20, // released: others should hear of it
};

// A timer is a message of a rank to itself by its loopback, which takes a second for so many bytes
// (machine.c).
#define TIMER_BYTES (1e6 * 0.941)       // main.c: of a link's rate
#define TIMER_MOST_NS INT64_C(60000000) // so much leaves at once

typedef struct piece {
    size_t at, bytes;
} piece;

typedef struct letter { // a message, and what it says besides zeros
    struct letter *next;
    int from;
    size_t bytes;
    int n;
    piece *piece; // (n)
    char *text;   // of all pieces
} letter;

typedef struct queue {
    letter *first, *last;
} queue;

typedef enum kind { SENDING, RECEIVING, HEARING, NEWS_HEARING, WORD_HEARING, TIMING } kind;

typedef struct op {  // what a request of the transport stands for
    struct op *next; // spare ones
    kind kind;
    int peer;
    letter *letter; // RECEIVING
    void *to;
    bool done;
    struct op *behind; // RECEIVING: waits for this one, of the same rank
    int64_t due_ns;    // TIMING
} op;

typedef struct said {
    uint64_t freed, freed_bytes;
} said;

typedef struct endpoint { // of a rank
    queue *data;          // (ranks) on its way from each, in order
    queue heard;          // words that are here
    op *hearing;          // what the transport hears them by; NULL = it does not listen
    said *said;           // (ranks) by the last word to each that went over SMPI
    queue come;           // data that was announced, or is here
    op **last;            // (ranks) of those that are received from each; NULL = none are
    int n;                // requests of SMPI; the first SPECIAL have places of their own
    size_t cap;
    MPI_Request *request;
    op **of;
    op *spare;
    int n_done; // operations that the transport was not told of
    bool opened;
    bool fresh;      // there are requests that were not looked at
    double looked_s; // when it looked last
    int timer;       // last tag
    MPI_Comm all;    // ranks; SMPI's own name for them it does not know while it matches
    size_t found;    // bytes of the message that was probed last
    mu_network_counts counts;
} endpoint;

static struct {
    int n;
    double ns_per_byte;
    endpoint *rank;
    char scratch[SCRATCH];
    struct iovec part[MOST_PARTS]; // of the message that is being sent
    int parts;
} net;

static endpoint *here(void) { return &net.rank[mu_machine_rank()]; }

mu_status mu_network_open(int ranks, double ns_per_byte, mu_err *err) {
    net.n = ranks;
    net.ns_per_byte = ns_per_byte;
    net.rank = mu_alloc_array((size_t)ranks, sizeof *net.rank, TAG);
    for (int r = 0; net.rank && r < ranks; r++) {
        net.rank[r].data = mu_alloc_array((size_t)ranks, sizeof *net.rank[r].data, TAG);
        net.rank[r].said = mu_alloc_array((size_t)ranks, sizeof *net.rank[r].said, TAG);
        net.rank[r].last = mu_alloc_array((size_t)ranks, sizeof *net.rank[r].last, TAG);
        if (!net.rank[r].data || !net.rank[r].last || !net.rank[r].said)
            return MU_FAIL_NOMEM(err, "the simulated network");
    }
    return net.rank ? MU_OK : MU_FAIL_NOMEM(err, "the simulated network");
}

mu_network_counts mu_network_get_counts(int rank) { return net.rank[rank].counts; }

// MPI knows no error of ours, and a simulation without memory is over.
static void *need(void *p) {
    if (!p) abort();
    return p;
}

// ---- letters ----

static void put(queue *q, letter *l) {
    l->next = NULL;
    if (q->last) q->last->next = l;
    else q->first = l;
    q->last = l;
}

static letter *pull(queue *q) {
    letter *l = q->first;
    q->first = l->next;
    if (!q->first) q->last = NULL;
    return l;
}

static bool is_taken_along(const struct iovec *p) { return p->iov_len && !mu_memory_is_zero(p->iov_base); }

static letter *write_letter(const struct iovec *part, int n) {
    size_t bytes = 0, text = 0;
    int pieces = 0;
    for (int i = 0; i < n; i++) {
        bytes += part[i].iov_len;
        text += is_taken_along(&part[i]) ? part[i].iov_len : 0;
        pieces += is_taken_along(&part[i]);
    }
    letter *l = need(malloc(sizeof *l + (size_t)pieces * sizeof(piece) + text));
    *l = (letter){.from = mu_machine_rank(), .bytes = bytes, .piece = (piece *)(void *)(l + 1)};
    l->text = (char *)(l->piece + pieces);
    for (size_t i = 0, at = 0, to = 0; i < (size_t)n; at += part[i++].iov_len) {
        if (!is_taken_along(&part[i])) continue;
        l->piece[l->n++] = (piece){at, part[i].iov_len};
        memcpy(l->text + to, part[i].iov_base, part[i].iov_len);
        to += part[i].iov_len;
    }
    return l;
}

// What another letter left in the same memory goes: no letter says more than `most` bytes at its beginning.
static void read_letter(letter *l, char *to) {
    static size_t most;
    const char *text = l->text;
    const size_t end = l->n ? l->piece[l->n - 1].at + l->piece[l->n - 1].bytes : 0;
    if (end > most) most = end;
    memset(to, 0, most < l->bytes ? most : l->bytes);
    for (int i = 0; i < l->n; text += l->piece[i++].bytes)
        memcpy(to + l->piece[i].at, text, l->piece[i].bytes);
    free(l);
}

// ---- requests ----

static op *new_op(endpoint *e, kind k, int peer) {
    op *o = e->spare;
    if (o) e->spare = o->next;
    else o = need(malloc(sizeof *o));
    *o = (op){.kind = k, .peer = peer};
    return o;
}

static void free_op(endpoint *e, op *o) {
    o->next = e->spare;
    e->spare = o;
}

static MPI_Request *place(endpoint *e, int i, op *o) {
    if ((size_t)e->n >= e->cap) {
        e->cap = e->cap ? 2 * e->cap : 64;
        e->request = need(realloc(e->request, e->cap * sizeof *e->request));
        e->of = need(realloc(e->of, e->cap * sizeof(op *)));
    }
    if (i < 0) i = e->n++;
    e->of[i] = o;
    e->fresh = true;
    return &e->request[i];
}

static void listen_for_news(endpoint *e) {
    MPI_Irecv(net.scratch, SCRATCH, MPI_BYTE, MPI_ANY_SOURCE, NEWS, e->all,
              place(e, 0, new_op(e, NEWS_HEARING, -1)));
}

static void listen_for_words(endpoint *e) {
    MPI_Irecv(net.scratch, SCRATCH, MPI_BYTE, MPI_ANY_SOURCE, WORD, e->all,
              place(e, 1, new_op(e, WORD_HEARING, -1)));
}

static void open_once(endpoint *e) {
    if (e->opened) return;
    e->opened = true;
    MPI_Comm_dup(MPI_COMM_WORLD, &e->all);
    (void)place(e, SPECIAL - 1, NULL); // room
    e->n = SPECIAL;
    for (int i = 0; i < SPECIAL; i++) e->request[i] = MPI_REQUEST_NULL, e->of[i] = NULL;
    listen_for_news(e);
    listen_for_words(e);
}

static void is_done(endpoint *e, op *o) {
    o->done = true;
    e->n_done++;
}

static void deliver(endpoint *e, op *o) {
    e->counts.bytes_received += (int64_t)o->letter->bytes;
    mu_machine_spend((double)o->letter->bytes * net.ns_per_byte);
    read_letter(o->letter, o->to);
    is_done(e, o);
}

// One long message after the other between two ranks: they have one connection.
static void receive(endpoint *e, op *o) {
    MPI_Irecv(net.scratch, (int)o->letter->bytes, MPI_BYTE, o->peer, DATA, e->all, place(e, -1, o));
}

static void receive_next(endpoint *e, op *o) {
    if (o->behind) receive(e, o->behind);
    else e->last[o->peer] = NULL;
}

static void completed(endpoint *e, int i, const MPI_Status *s) {
    op *o = e->of[i];
    e->of[i] = NULL;
    switch (o->kind) {
    case NEWS_HEARING:
        put(&e->come, pull(&e->data[s->MPI_SOURCE]));
        free_op(e, o);
        listen_for_news(e);
        return;
    case WORD_HEARING:
        free_op(e, o); // what it says was there before
        listen_for_words(e);
        return;
    case RECEIVING:
        receive_next(e, o);
        deliver(e, o);
        return;
    case TIMING:
        free_op(e, o);
        return;
    default:
        is_done(e, o);
    }
}

static void sweep(endpoint *e) {
    int to = SPECIAL;
    for (int i = SPECIAL; i < e->n; i++) {
        if (e->request[i] == MPI_REQUEST_NULL) continue;
        e->request[to] = e->request[i];
        e->of[to++] = e->of[i];
    }
    e->n = to;
}

// The first ones: they are the oldest, and go first.
static int window(const endpoint *e) { return e->n < WINDOW ? e->n : WINDOW; }

// Nothing ends without time passing, and a question to SMPI is not cheap.
static void look(endpoint *e) {
    int n, index[WINDOW];
    MPI_Status status[WINDOW];
    if (!e->fresh && simgrid_get_clock() <= e->looked_s) return;
    do {
        n = 0;
        e->fresh = false;
        e->looked_s = simgrid_get_clock();
        MPI_Testsome(window(e), e->request, &n, index, status);
        if (n == MPI_UNDEFINED) n = 0;
        for (int k = 0; k < n; k++) completed(e, index[k], &status[k]);
        if (n) sweep(e);
    } while (n);
}

// A word that is here, to the transport. One at a time: it listens again when it has read it.
static void hear(endpoint *e) {
    op *o = e->hearing;
    if (!o || !e->heard.first) return;
    letter *l = pull(&e->heard);
    e->hearing = NULL;
    o->peer = l->from;
    read_letter(l, o->to);
    is_done(e, o);
}

// ---- waiting ----

// A place for one more; the one that is due first, if that is soon enough.
static int timer_place(const endpoint *e, int64_t until) {
    int free_one = -1;
    for (int i = SPECIAL - TIMERS; i < SPECIAL; i++) {
        if (!e->of[i]) free_one = i;
        else if (e->of[i]->due_ns <= until) return -1;
    }
    return free_one;
}

// Of what SMPI takes at once nobody has to hear that it is out.
static void speak(endpoint *e, int bytes, int to, int tag) {
    MPI_Request r;
    MPI_Isend(net.scratch, bytes, MPI_BYTE, to, tag, e->all, &r);
    MPI_Request_free(&r);
}

static void set_timer(endpoint *e, int64_t until) {
    const int64_t now = mu_machine_now_ns();
    if (until - now > TIMER_MOST_NS) until = now + TIMER_MOST_NS;
    const int at = timer_place(e, until), self = mu_machine_rank();
    if (at < 0) return;
    const int bytes = 1 + (int)((double)(until - now) * 1e-9 * TIMER_BYTES);
    op *o = new_op(e, TIMING, self);
    o->due_ns = until;
    const int tag = TIMER + e->timer++ % 1024;
    MPI_Irecv(net.scratch, SCRATCH, MPI_BYTE, self, tag, e->all, place(e, at, o));
    speak(e, bytes, self, tag);
}

// Also when only what nobody asks for has ended, such as a timer of before.
void mu_network_wait(int64_t until_ns) {
    endpoint *e = here();
    open_once(e);
    for (;;) {
        int i = MPI_UNDEFINED;
        MPI_Status s;
        look(e);
        if (e->n_done || e->come.first || e->heard.first || until_ns <= mu_machine_now_ns()) return;
        if (until_ns < INT64_MAX) set_timer(e, until_ns);
        MPI_Waitany(window(e), e->request, &i, &s);
        if (i == MPI_UNDEFINED) return;
        completed(e, i, &s);
        sweep(e);
    }
}

// ---- MPI, as t_mpi.c calls it ----

static MPI_Request token(op *o) { return (MPI_Request)(void *)o; }

int mu_network_get_address(const void *at, MPI_Aint *out) {
    *out = (MPI_Aint)at;
    return MPI_SUCCESS;
}

int mu_network_parts(int n, const int *length, const MPI_Aint *at, MPI_Datatype type, MPI_Datatype *out) {
    for (int i = 0; i < n; i++) net.part[i] = (struct iovec){(void *)at[i], (size_t)length[i]};
    net.parts = n;
    *out = type;
    return MPI_SUCCESS;
}

static void send_data(endpoint *e, int to, size_t bytes, op *o) {
    const int now = bytes ? (int)bytes : 1;
    if (bytes <= EAGER) {
        MPI_Isend(net.scratch, now, MPI_BYTE, to, NEWS, e->all, place(e, -1, o));
        return;
    }
    MPI_Isend(net.scratch, (int)bytes, MPI_BYTE, to, DATA, e->all, place(e, -1, o));
    speak(e, ANNOUNCEMENT, to, NEWS);
}

// A word says what was released, ever, and a goodbye: t_mpi.c. It matters to who may send no more, which is
// long after so much was released: that rank is woken by a message. Others get it when they look next. Only
// the last word counts, so none may be late.
static int send_word(endpoint *e, int to, letter *l, op *o) {
    uint64_t w[3];
    said *last = &e->said[to];
    memcpy(w, l->text, sizeof w);
    put(&net.rank[to].heard, l);
    if (!w[2] && w[0] - last->freed < OFTEN && w[1] - last->freed_bytes < OFTEN_BYTES) {
        is_done(e, o);
        return MPI_SUCCESS;
    }
    *last = (said){w[0], w[1]};
    speak(e, WORD_BYTES, to, WORD);
    is_done(e, o);
    return MPI_SUCCESS;
}

int mu_network_isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                     MPI_Request *request) {
    (void)type;
    (void)comm;
    endpoint *e = here();
    op *o = new_op(e, SENDING, to);
    open_once(e);
    if (from != MPI_BOTTOM)
        net.part[0] = (struct iovec){(void *)(uintptr_t)from, (size_t)count}, net.parts = 1;
    letter *l = write_letter(net.part, net.parts);
    const size_t bytes = l->bytes;
    e->counts.messages++;
    *request = token(o);
    if (tag == WORD) return send_word(e, to, l, o);
    put(&net.rank[to].data[mu_machine_rank()], l);
    e->counts.bytes_sent += (int64_t)bytes;
    mu_machine_spend((double)bytes * net.ns_per_byte);
    send_data(e, to, bytes, o);
    return MPI_SUCCESS;
}

// What any rank tells: the transport has one of these open.
int mu_network_irecv(void *to, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                     MPI_Request *request) {
    (void)count;
    (void)type;
    (void)tag;
    (void)comm;
    endpoint *e = here();
    op *o = new_op(e, HEARING, source);
    open_once(e);
    o->to = to;
    *request = token(o);
    e->hearing = o;
    return MPI_SUCCESS;
}

int mu_network_improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                       MPI_Status *status) {
    (void)source;
    (void)tag;
    (void)comm;
    endpoint *e = here();
    *flag = e->come.first != NULL;
    if (!*flag) return MPI_SUCCESS;
    letter *l = pull(&e->come);
    *message = (MPI_Message)(void *)l;
    status->MPI_SOURCE = l->from;
    e->found = l->bytes;
    return MPI_SUCCESS;
}

int mu_network_get_count(const MPI_Status *status, MPI_Datatype type, int *count) {
    (void)status;
    (void)type;
    *count = (int)here()->found;
    return MPI_SUCCESS;
}

int mu_network_imrecv(void *to, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request) {
    (void)count;
    (void)type;
    endpoint *e = here();
    letter *l = (letter *)*message;
    op *o = new_op(e, RECEIVING, l->from);
    o->letter = l;
    o->to = to;
    *request = token(o);
    if (l->bytes > EAGER) {
        op **last = &e->last[l->from];
        if (*last) (*last)->behind = o;
        else receive(e, o);
        *last = o;
    } else {
        deliver(e, o);
    }
    return MPI_SUCCESS;
}

int mu_network_testsome(int n, MPI_Request *request, int *done, int *index, MPI_Status *status) {
    endpoint *e = here();
    *done = 0;
    look(e);
    hear(e);
    for (int i = 0; i < n && e->n_done; i++) {
        op *o = (op *)(void *)request[i];
        if (!o->done) continue;
        status[*done].MPI_SOURCE = o->peer;
        status[*done].MPI_ERROR = MPI_SUCCESS;
        index[(*done)++] = i;
        request[i] = MPI_REQUEST_NULL;
        e->n_done--;
        free_op(e, o);
    }
    return MPI_SUCCESS;
}

// At the end: what could still come does not.
int mu_network_cancel(MPI_Request *request) {
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}
