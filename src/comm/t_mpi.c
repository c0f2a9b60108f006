// SPDX-License-Identifier: Apache-2.0
// t_mpi.c - the transport `mpi`: a module of its own, the only file that knows MPI (Open MPI 4 and later).
//
// All requests are in one list that is tested as a whole: messages that go out, messages that come in, what
// is told to each peer (a `word`), and one open receive for what any peer tells.
//
//   message   tag DATA. Several parts are one message by a datatype of addresses, so nothing is copied here.
//             What comes is matched in the order of its sending, gets a buffer of its size, and is handed on
//             in that order although a short one may be complete before a long one.
//   word      tag WORD. Everything in it is counted from the beginning, so only the last one matters: how
//             much this rank has released, and when it has left, how many messages it has sent. A peer has
//             left when so many have been handed on.
//
// MPI reports no deaths: requests with a dead peer stay as they are, and so does the memory that they use.
// Nothing is collective but MPI_Init and, when all have left, MPI_Finalize. That is told not to wait for the
// others, as everything was said before; after a death it is left out.
#include "base/alloc.h"
#include "comm/buffers.h"
#include "comm/transport.h"

#include <dlfcn.h>
#include <link.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG "mpi"

enum { DATA = 1, WORD = 2 }; // tags
enum { AT_ONCE = 32, A_QUARTER = MU_TRANSPORT_WAITING / 4 };

typedef enum kind { SEND, RECEIVE, TELL, HEAR } kind;

typedef struct incoming { // a message that is being received, or waits for one before it
    mu_buffer *b;
    bool done;
} incoming;

typedef struct doing { // what a request is for
    kind kind;
    int peer;
    uint64_t token;
    incoming *in;
} doing;

typedef struct word {
    uint64_t freed, freed_bytes; // released of the hearer's messages
    uint64_t left, sent;         // left 1: goodbye, behind so many messages
} word;

typedef struct peer {
    mu_window window;
    word own, out;                     // what there is to tell, and what was told last or is being told
    bool telling, parted;              // parted: its goodbye is out
    uint64_t matched, told;            // its messages: begun to come in, handed on
    uint64_t said;                     // how many it has sent in all; UINT64_MAX = it has not left
    bool left;                         // LEFT is among the events, or was
    bool wants_room, room;             // the caller was told FULL; ROOM is among the events
    incoming in[MU_TRANSPORT_WAITING]; // a ring: message i is in[i % MU_TRANSPORT_WAITING]
} peer;

typedef struct mpi {
    mu_transport t; // first
    pid_t owner;
    peer *peer; // (n)
    mu_buffers buffers;
    int n_doing;
    MPI_Request *request; // four arrays of one length
    doing *doing;
    int *index;
    MPI_Status *status;
    mu_transport_event *event; // a ring
    uint64_t pushed, popped, most_events;
    bool untold;         // some peer does not know what there is to tell
    int in_a_row;        // events handed on since MPI was last looked at
    word heard;          // the open receive writes here
    MPI_Message matched; // not NULL: there was no memory for it
    int matched_peer, matched_bytes;
} mpi;

static mu_status failed(int rc, const char *what, mu_err *err) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n = 0;
    MPI_Error_string(rc, text, &n);
    return MU_FAIL(err, MU_EBACKEND, "MPI: %s: %s", what, text);
}

// ---- events and requests ----

static void push(mpi *m, const mu_transport_event *e) { m->event[m->pushed++ % m->most_events] = *e; }

static MPI_Request *add(mpi *m, kind k, int p, uint64_t token, incoming *in) {
    m->doing[m->n_doing] = (doing){k, p, token, in};
    return &m->request[m->n_doing++];
}

static void forget(mpi *m, int p) {
    const peer *q = &m->peer[p];
    if (m->t.state[p] != MU_PEER_HERE) return;
    m->t.state[p] = MU_PEER_DROPPED;
    m->t.dropped = true;
    if (q->own.left && !q->parted) m->t.goodbyes--;
}

static void broken(mpi *m, int p, const char *why) {
    if (m->t.state[p] != MU_PEER_HERE) return;
    forget(m, p);
    push(m, &(mu_transport_event){.what = MU_TRANSPORT_BROKEN, .peer = p, .why = why});
}

// ---- what comes in ----

// Hands on what is complete, in order.
static void hand_on(mpi *m, int p) {
    peer *q = &m->peer[p];
    for (; q->told < q->matched && q->in[q->told % MU_TRANSPORT_WAITING].done; q->told++) {
        mu_buffer *b = q->in[q->told % MU_TRANSPORT_WAITING].b;
        if (m->t.state[p] == MU_PEER_DROPPED) mu_buffer_give(&m->buffers, b);
        else
            push(m,
                 &(mu_transport_event){
                     .what = MU_TRANSPORT_MESSAGE, .peer = p, .data = mu_buffer_data(b), .bytes = b->bytes});
    }
    if (q->told != q->said || q->left || m->t.state[p] != MU_PEER_HERE) return;
    q->left = true;
    push(m, &(mu_transport_event){.what = MU_TRANSPORT_LEFT, .peer = p});
}

static bool is_allowed(const mpi *m) {
    const peer *q = &m->peer[m->matched_peer];
    return m->matched_bytes >= 0 && (size_t)m->matched_bytes <= m->t.opts.max_bytes && q->matched < q->said &&
           q->matched - q->own.freed < MU_TRANSPORT_WAITING;
}

static mu_status receive(mpi *m, mu_err *err) {
    peer *q = &m->peer[m->matched_peer];
    m->t.signs[m->matched_peer]++;
    if (!is_allowed(m)) { // MPI keeps it
        broken(m, m->matched_peer, "it sent more than all ranks agreed on");
        m->matched = MPI_MESSAGE_NULL;
        return MU_OK;
    }
    mu_buffer *b = mu_buffer_take(&m->buffers, m->matched_peer, (size_t)m->matched_bytes);
    if (!b) return MU_FAIL_NOMEM(err, "a message that came");
    incoming *in = &q->in[q->matched++ % MU_TRANSPORT_WAITING];
    *in = (incoming){.b = b};
    MPI_Request *r = add(m, RECEIVE, m->matched_peer, 0, in);
    const int rc = MPI_Imrecv(mu_buffer_data(b), m->matched_bytes, MPI_BYTE, &m->matched, r);
    m->matched = MPI_MESSAGE_NULL;
    if (rc == MPI_SUCCESS) return MU_OK;
    *r = MPI_REQUEST_NULL;
    broken(m, m->matched_peer, "MPI cannot receive from it");
    return MU_OK;
}

static mu_status match(mpi *m, int *n, mu_err *err) {
    for (*n = 0; *n < AT_ONCE; ++*n) {
        int found = m->matched != MPI_MESSAGE_NULL;
        MPI_Status s;
        if (!found) {
            const int rc = MPI_Improbe(MPI_ANY_SOURCE, DATA, MPI_COMM_WORLD, &found, &m->matched, &s);
            if (rc != MPI_SUCCESS) return failed(rc, "looking for messages", err);
            if (!found) return MU_OK;
            m->matched_peer = s.MPI_SOURCE;
            MPI_Get_count(&s, MPI_BYTE, &m->matched_bytes);
        }
        MU_TRY(receive(m, err));
    }
    return MU_OK;
}

// Less is owed than before.
static void room_again(mpi *m, int p) {
    peer *q = &m->peer[p];
    if (!q->wants_room || q->room) return;
    push(m, &(mu_transport_event){.what = MU_TRANSPORT_ROOM, .peer = p});
    q->wants_room = false;
    q->room = true;
}

static bool is_possible(const peer *q, const word *w) {
    const mu_window *own = &q->window;
    return w->freed >= own->freed && w->freed <= own->sent && w->freed_bytes >= own->freed_bytes &&
           w->freed_bytes <= own->sent_bytes && (!w->left || w->sent >= q->matched);
}

static void hear(mpi *m, int p) {
    peer *q = &m->peer[p];
    const word w = m->heard;
    m->t.signs[p]++;
    if (m->t.state[p] == MU_PEER_DROPPED) return;
    if (!is_possible(q, &w)) {
        broken(m, p, "it acknowledged what was never sent");
        return;
    }
    q->window.freed = w.freed;
    q->window.freed_bytes = w.freed_bytes;
    if (w.left) q->said = w.sent;
    room_again(m, p);
    hand_on(m, p);
}

static mu_status listen_again(mpi *m, MPI_Request *r, mu_err *err) {
    const int rc = MPI_Irecv(&m->heard, sizeof m->heard, MPI_BYTE, MPI_ANY_SOURCE, WORD, MPI_COMM_WORLD, r);
    return rc == MPI_SUCCESS ? MU_OK : failed(rc, "listening", err);
}

// ---- what goes out ----

// Tells a peer what it does not know: at once if that is much, or when there is nothing else to do.
static void tell(mpi *m, int p, bool idle) {
    peer *q = &m->peer[p];
    const uint64_t freed = q->own.freed - q->out.freed, bytes = q->own.freed_bytes - q->out.freed_bytes;
    const bool news = freed || q->own.left != q->out.left;
    const bool much = freed >= A_QUARTER || bytes >= m->t.opts.window_bytes / 4 || q->own.left != q->out.left;
    if (q->telling || m->t.state[p] == MU_PEER_DROPPED || !(much || (idle && news))) return;
    q->out = q->own;
    q->telling = true;
    MPI_Request *r = add(m, TELL, p, 0, NULL);
    if (MPI_Isend(&q->out, sizeof q->out, MPI_BYTE, p, WORD, MPI_COMM_WORLD, r) == MPI_SUCCESS) return;
    *r = MPI_REQUEST_NULL;
    broken(m, p, "MPI cannot send to it");
}

static int describe(const struct iovec *part, int n, MPI_Datatype *out) {
    static int length[MU_TRANSPORT_PARTS];
    static MPI_Aint at[MU_TRANSPORT_PARTS];
    int used = 0;
    for (int i = 0; i < n; i++) {
        if (!part[i].iov_len) continue;
        length[used] = (int)part[i].iov_len;
        MPI_Get_address(part[i].iov_base, &at[used++]);
    }
    const int rc = MPI_Type_create_hindexed(used, length, at, MPI_BYTE, out);
    return rc == MPI_SUCCESS ? MPI_Type_commit(out) : rc;
}

static int begin_send(const struct iovec *part, int n, int p, MPI_Request *r) {
    MPI_Datatype type;
    if (n == 0) return MPI_Isend(NULL, 0, MPI_BYTE, p, DATA, MPI_COMM_WORLD, r);
    if (n == 1)
        return MPI_Isend(part[0].iov_base, (int)part[0].iov_len, MPI_BYTE, p, DATA, MPI_COMM_WORLD, r);
    int rc = describe(part, n, &type);
    if (rc != MPI_SUCCESS) return rc;
    rc = MPI_Isend(MPI_BOTTOM, 1, type, p, DATA, MPI_COMM_WORLD, r);
    MPI_Type_free(&type); // when the message is out
    return rc;
}

static mu_status send(mu_transport *t, int p, const struct iovec *part, int n, uint64_t token,
                      mu_sending *out, mu_err *err) {
    (void)err;
    mpi *m = (mpi *)t;
    peer *q = &m->peer[p];
    const size_t bytes = mu_parts_bytes(part, n);
    *out = MU_SEND_GONE;
    if (t->state[p] != MU_PEER_HERE || t->left) return MU_OK;
    *out = MU_SEND_FULL;
    q->wants_room = !mu_window_admits(&q->window, bytes, t->opts.window_bytes);
    if (q->wants_room) return MU_OK;
    MPI_Request *r = add(m, SEND, p, token, NULL);
    if (begin_send(part, n, p, r) != MPI_SUCCESS) {
        m->n_doing--;
        *out = MU_SEND_GONE;
        broken(m, p, "MPI cannot send to it");
        return MU_OK;
    }
    mu_window_take(&q->window, bytes);
    t->lent++;
    *out = MU_SEND_TAKEN;
    return MU_OK;
}

// ---- moving on ----

static mu_status finished(mpi *m, int i, const MPI_Status *s, bool good, mu_err *err) {
    const doing *d = &m->doing[i];
    if (d->kind == HEAR) {
        if (good) hear(m, s->MPI_SOURCE);
        return listen_again(m, &m->request[i], err);
    }
    peer *q = &m->peer[d->peer];
    if (d->kind == SEND)
        push(m, &(mu_transport_event){.what = MU_TRANSPORT_SENT, .peer = d->peer, .token = d->token});
    if (d->kind == TELL) q->telling = false;
    if (d->kind == TELL && q->out.left && !q->parted) {
        q->parted = true;
        if (m->t.state[d->peer] != MU_PEER_DROPPED) m->t.goodbyes--;
    }
    if (!good) broken(m, d->peer, "MPI has lost the connection");
    if (d->kind != RECEIVE) return MU_OK;
    d->in->done = true;
    m->t.signs[d->peer]++;
    hand_on(m, d->peer);
    return MU_OK;
}

static mu_status test(mpi *m, int *n, mu_err *err) {
    const int rc = MPI_Testsome(m->n_doing, m->request, n, m->index, m->status);
    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS) return failed(rc, "testing requests", err);
    for (int k = 0; k < *n; k++) {
        const bool good = rc == MPI_SUCCESS || m->status[k].MPI_ERROR == MPI_SUCCESS;
        MU_TRY(finished(m, m->index[k], &m->status[k], good, err));
    }
    for (int i = 0; *n && i < m->n_doing;) {
        if (m->request[i] != MPI_REQUEST_NULL) i++;
        else {
            m->request[i] = m->request[--m->n_doing];
            m->doing[i] = m->doing[m->n_doing];
        }
    }
    return MU_OK;
}

static bool is_untold(const peer *q) {
    return q->telling || q->own.freed != q->out.freed || q->own.left != q->out.left;
}

static mu_status move_on(mpi *m, mu_err *err) {
    int matched, ended;
    MU_TRY(match(m, &matched, err));
    MU_TRY(test(m, &ended, err));
    const bool look = m->untold;
    m->untold = false;
    for (int p = 0; p < m->t.n && look; p++) {
        if (p == m->t.rank) continue;
        tell(m, p, !matched && !ended);
        m->untold |= is_untold(&m->peer[p]);
    }
    return MU_OK;
}

// The next event that still means something; false: there is none.
static bool pop(mpi *m, mu_transport_event *out) {
    while (m->popped < m->pushed) {
        *out = m->event[m->popped++ % m->most_events];
        mu_peer_state *state = &m->t.state[out->peer];
        if (out->what == MU_TRANSPORT_SENT) {
            m->t.lent--;
            m->peer[out->peer].window.lent--;
            room_again(m, out->peer);
        }
        if (out->what == MU_TRANSPORT_ROOM) m->peer[out->peer].room = false;
        if (out->what == MU_TRANSPORT_SENT || out->what == MU_TRANSPORT_BROKEN) return true;
        if (*state != MU_PEER_DROPPED) {
            if (out->what == MU_TRANSPORT_LEFT) *state = MU_PEER_LEFT;
            return true;
        }
        if (out->what == MU_TRANSPORT_MESSAGE) mu_buffer_give(&m->buffers, mu_buffer_of(out->data));
    }
    return false;
}

static mu_status poll(mu_transport *t, mu_transport_event *out, mu_err *err) {
    mpi *m = (mpi *)t;
    if (m->popped == m->pushed || m->in_a_row >= AT_ONCE) {
        m->in_a_row = 0;
        MU_TRY(move_on(m, err));
    }
    m->in_a_row++;
    if (!pop(m, out)) *out = (mu_transport_event){.what = MU_TRANSPORT_NOTHING};
    return MU_OK;
}

static void release(mu_transport *t, const void *data) {
    mpi *m = (mpi *)t;
    mu_buffer *b = mu_buffer_of(data);
    word *own = &m->peer[b->peer].own;
    m->untold = true;
    own->freed++;
    own->freed_bytes += mu_window_weight(b->bytes);
    mu_buffer_give(&m->buffers, b);
}

static int drop(mu_transport *t, int p) {
    mpi *m = (mpi *)t;
    int lent = 0;
    forget(m, p);
    for (int i = 0; i < m->n_doing; i++) lent += m->doing[i].kind == SEND && m->doing[i].peer == p;
    return lent;
}

static void leave(mu_transport *t) {
    mpi *m = (mpi *)t;
    for (int p = 0; p < t->n && !t->left; p++) {
        if (p == t->rank || t->state[p] == MU_PEER_DROPPED) continue;
        m->peer[p].own.left = 1;
        m->peer[p].own.sent = m->peer[p].window.sent;
        t->goodbyes++;
    }
    t->left = m->untold = true;
}

// ---- beginning and end ----

static void free_all(mpi *m) {
    mu_buffers_fini(&m->buffers);
    mu_free(m->peer);
    mu_free(m->request);
    mu_free(m->doing);
    mu_free(m->index);
    mu_free(m->status);
    mu_free(m->event);
    mu_free(m->t.signs);
    mu_free(m->t.state);
    mu_free(m);
}

enum { MOST_OBJECTS = 512 };

typedef struct objects {
    const char *name[MOST_OBJECTS];
    int n;
} objects;

static int note_object(struct dl_phdr_info *info, size_t size, void *ctx) {
    (void)size;
    objects *o = ctx;
    if (o->n < MOST_OBJECTS && info->dlpi_name && info->dlpi_name[0]) o->name[o->n++] = info->dlpi_name;
    return 0;
}

// MPI_Finalize of Open MPI 4 closes its plug-ins while a thread of its own may be inside one, which ends the
// process with SIGSEGV now and then. So what is loaded stays where it is.
static void keep_loaded(void) {
    objects o = {.n = 0};
    dl_iterate_phdr(note_object, &o);
    for (int i = 0; i < o.n; i++) (void)dlopen(o.name[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

// MPI may still write into what a request uses, so where one is left everything stays.
static bool close_all(mu_transport *t) {
    mpi *m = (mpi *)t;
    if (!t || m->owner != getpid()) return true;
    if (!mu_transport_is_over(t) || t->dropped) return false;
    for (int i = 0; i < m->n_doing; i++)
        if (m->doing[i].kind == HEAR) {
            MPI_Cancel(&m->request[i]);
            MPI_Wait(&m->request[i], MPI_STATUS_IGNORE); // of a receive that is cancelled: at once
        }
    keep_loaded();
    MPI_Finalize();
    free_all(m);
    return true;
}

static mpi *make(const mu_transport_opts *o, int rank, int n) {
    const size_t ranks = (size_t)n, requests = ranks * (2 * MU_TRANSPORT_WAITING + 1) + 1;
    mpi *m = mu_alloc(sizeof *m, TAG);
    if (!m) return NULL;
    m->t = (mu_transport){.opts = *o, .rank = rank, .n = n};
    m->owner = getpid();
    m->matched = MPI_MESSAGE_NULL;
    m->most_events = ranks * (2 * MU_TRANSPORT_WAITING + 3);
    m->peer = mu_alloc_array(ranks, sizeof *m->peer, TAG);
    m->request = mu_alloc_array(requests, sizeof *m->request, TAG);
    m->doing = mu_alloc_array(requests, sizeof *m->doing, TAG);
    m->index = mu_alloc_array(requests, sizeof *m->index, TAG);
    m->status = mu_alloc_array(requests, sizeof *m->status, TAG);
    m->event = mu_alloc_array(m->most_events, sizeof *m->event, TAG);
    m->t.signs = mu_alloc_array(ranks, sizeof *m->t.signs, TAG);
    m->t.state = mu_alloc_array(ranks, sizeof *m->t.state, TAG);
    const bool good =
        m->peer && m->request && m->doing && m->index && m->status && m->event && m->t.signs && m->t.state;
    for (int p = 0; good && p < n; p++) m->peer[p].said = UINT64_MAX;
    if (good) return m;
    free_all(m);
    return NULL;
}

// What the user says by `--mca` or in the environment goes before.
static void set_defaults(void) {
    setenv("OMPI_MCA_pml", "ob1", 0);              // others do not survive that the process forks
    setenv("OMPI_MCA_async_mpi_finalize", "1", 0); // no barrier at the end
    setenv("OMPI_MCA_mpi_warn_on_fork", "0", 0);   // children do not use MPI
}

// What Open MPI has to say about a peer that hung up goes through the daemon of the node, and the rank waits
// inside MPI until that answers: for ever, where the daemon is stopped, and as long as the daemon itself
// waits before it kills. Who is lost peers.h finds. While MPI begins its texts are of use: there is no way to
// a peer.
static void silence(void) {
    bool *quiet = dlsym(RTLD_DEFAULT, "orte_execute_quiet");
    if (quiet) *quiet = true;
}

// Tasks that srun starts find each other through PMIx or PMI only. Without either MPI_Init ends the process,
// with words about how Open MPI was built.
static mu_status check_launcher(mu_err *err) {
    static const char *const any[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"};
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    bool known = !tasks;
    for (size_t i = 0; i < MU_COUNT(any); i++) known |= getenv(any[i]) != NULL;
    if (known) return MU_OK;
    return mu_err_hinted(
        MU_FAIL(err, MU_EUSAGE, "srun started %.16s tasks that cannot find each other", tasks), err,
        "`srun --mpi=pmix` starts them for one training; with SLURM_STEP_NUM_TASKS=1 each trains alone.");
}

static mu_status open_all(const mu_transport_opts *o, mu_transport **out, mu_err *err) {
    int begun = 0, level, rank, n;
    MU_TRY(check_launcher(err));
    MPI_Initialized(&begun);
    if (begun) return MU_FAIL(err, MU_EUSAGE, "MPI can be opened once in a process");
    set_defaults();
    const int rc = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (rc != MPI_SUCCESS) return failed(rc, "it does not begin", err);
    silence();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    mpi *m = make(o, rank, n);
    if (!m) return MU_FAIL_NOMEM(err, "the transport `mpi`");
    MU_TRY(listen_again(m, add(m, HEAR, rank, 0, NULL), err));
    *out = &m->t;
    return MU_OK;
}

const mu_transport_class mu_transport_mpi = {
    .name = "mpi",
    .help = "processes that mpirun or srun has started",
    .open = open_all,
    .send = send,
    .poll = poll,
    .release = release,
    .drop = drop,
    .leave = leave,
    .close = close_all,
};

MU_EXPORT const mu_transport_module mu_module = {MU_VERSION, sizeof(mu_transport_class), &mu_transport_mpi};
