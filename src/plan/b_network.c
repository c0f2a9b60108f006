// SPDX-License-Identifier: Apache-2.0
// b_network.c - messages between rank 0 and rank 1, through the transport that trainings use.
//
//   latency      half of the way of a small message there and back; the lower quartile, as on a busy machine
//                most of them wait for a core
//   bytes        both send long messages at once, as nodes do that exchange gradients
//   processor    moving messages costs a processor time in send, poll and release. What a poll takes that
//   finds
//                nothing is left out: it is waiting. The process's own clock counts, as MPI may yield in a
//                poll. Small messages in a row show what each costs, long ones what a byte does
//
// Both ranks do the same, in step; the others leave. Rank 0 says with a ping how many messages follow, so a
// slow network is given fewer and longer tries; none ends a part. And there is a deadline: nobody waits for
// ever.
#include "plan/crew.h"
#include "plan/profile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/futex.h"
#include "comm/transport.h"

#include <sched.h>
#include <string.h>

enum { SMALL = 8, LONG = 1 << 20, MOST = 512, IN_A_ROW = 32, LONG_IN_A_ROW = 16, IDLE = 400, LOOKS = 500 };
static const int64_t limit_ns = 40000000000;

typedef struct wire { // between this rank and the other one
    mu_transport *t;
    int peer;
    char *out;     // LONG bytes to send
    int64_t *say;  // the number of a ping, behind these
    int64_t heard; // the other rank's
    int64_t until_ns;
    int64_t came, sent; // messages, so far
    int64_t due, given; // that are to come by now; taken by the transport
    bool gone;          // the other rank has left: it is done
    double idle_s;      // of a poll that finds nothing
    double poll_s;      // of the last one
    double busy_s;      // of the processor, for messages, so far
} wire;

// Of this process alone.
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double since(int64_t at) { return 1e-9 * (double)(mu_clock_ns() - at); }

// One poll. *found: it had something.
static mu_status look(wire *w, bool *found, mu_err *err) {
    mu_transport_event e;
    const double at = cpu_s();
    MU_TRY(w->t->class->poll(w->t, &e, err));
    if (e.what == MU_TRANSPORT_MESSAGE) {
        w->came++;
        // The ping is the last one that is due, or the next one where it comes early.
        if ((w->came == w->due || w->came == w->due + 1) && e.bytes == SMALL)
            memcpy(&w->heard, e.data, SMALL);
        w->t->class->release(w->t, e.data);
    }
    const double took = w->poll_s = cpu_s() - at;
    *found = e.what != MU_TRANSPORT_NOTHING;
    // Parts of a long message move in polls that find nothing; but short ones are the noise of waiting.
    if (took > w->idle_s && (*found || took > 3 * w->idle_s)) w->busy_s += took - w->idle_s;
    w->sent += e.what == MU_TRANSPORT_SENT;
    w->gone |= (e.what == MU_TRANSPORT_LEFT || e.what == MU_TRANSPORT_BROKEN) && e.peer == w->peer;
    if (w->gone && w->came < w->due)
        return MU_FAIL(err, MU_ERANK, "rank %d has left while the network was measured", w->peer);
    if (mu_clock_ns() > w->until_ns) return MU_FAIL(err, MU_ERANK, "rank %d does not answer", w->peer);
    return MU_OK;
}

// Until all that is due has come. sent: and all that was given is sent. The other rank may be ahead, so more
// may come than is due.
static mu_status settle(wire *w, bool sent, mu_err *err) {
    bool found;
    for (unsigned looks = 1; w->came < w->due || (sent && w->sent < w->given); looks++) {
        MU_TRY(look(w, &found, err));
        if (!found && looks % LOOKS == 0) sched_yield(); // both may be on one core
    }
    return MU_OK;
}

static mu_status give(wire *w, void *data, size_t bytes, mu_err *err) {
    const struct iovec part = {data, bytes};
    for (;;) {
        mu_sending how;
        bool found;
        const double at = cpu_s();
        MU_TRY(mu_transport_send(w->t, w->peer, &part, 1, 0, &how, err));
        w->busy_s += cpu_s() - at;
        if (how == MU_SEND_TAKEN) break;
        if (how == MU_SEND_GONE) return MU_FAIL(err, MU_ERANK, "rank %d has left", w->peer);
        MU_TRY(look(w, &found, err));
    }
    w->given++;
    return MU_OK;
}

// ---- what is measured ---------------------------------------------------------------------------

// A small message each way, with the number n of rank 0; it has the time of both.
static mu_status ping(wire *w, int *n, double *round_s, mu_err *err) {
    const bool asks = w->t->rank == 0;
    if (asks && *w->say != *n) MU_TRY(settle(w, true, err)); // the transport may still read the one before
    if (asks) *w->say = *n;
    const int64_t at = mu_clock_ns();
    w->due++;
    if (asks) MU_TRY(give(w, w->say, SMALL, err));
    MU_TRY(settle(w, false, err));
    if (!asks) *n = (int)w->heard;
    if (!asks) MU_TRY(give(w, w->out, SMALL, err));
    *round_s = since(at);
    return MU_OK;
}

// The first ones find connections that are not open yet.
static mu_status latency(wire *w, int most, double seconds, double *out, mu_err *err) {
    double s[MOST];
    int n = 0, go_on = 1;
    const int64_t begin = mu_clock_ns();
    for (int i = 0; go_on; i++) {
        double round;
        if (w->t->rank == 0) go_on = n < most && (n < 3 || since(begin) < seconds);
        MU_TRY(ping(w, &go_on, &round, err));
        if (i < 5 || n >= MOST) continue;
        s[n++] = 0.5 * round;
    }
    (void)mu_median(s, n); // sorts them
    *out = s[n / 4];
    return MU_OK;
}

// n messages to the other rank while as many come from it. Time and the processor's, of each.
static mu_status exchange(wire *w, size_t bytes, int *n, double *took_s, double *busy_s, mu_err *err) {
    double round;
    const double busy = w->busy_s; // the other rank may begin a little earlier
    MU_TRY(ping(w, n, &round, err));
    MU_TRY(settle(w, true, err));
    if (!*n) return MU_OK;
    const int64_t at = mu_clock_ns();
    w->due += *n;
    for (int i = 0; i < *n; i++) MU_TRY(give(w, w->out, bytes, err));
    MU_TRY(settle(w, true, err));
    *took_s = since(at) / *n;
    *busy_s = (w->busy_s - busy) / *n;
    return MU_OK;
}

// The best of some tries, as other programs only ever make it slower: at most so many, one after so many
// seconds no more. A try is as long as a tenth of them, of 1 to `most` messages.
static mu_status best(wire *w, size_t bytes, int most, int tries, double seconds, double *took_s,
                      double *busy_s, mu_err *err) {
    const int64_t begin = mu_clock_ns();
    *took_s = *busy_s = 1e9;
    for (int i = 0, n = 1;; i++) {
        double took = 1e9, busy = 1e9;
        MU_TRY(exchange(w, bytes, &n, &took, &busy, err));
        if (took < *took_s) *took_s = took;
        if (busy < *busy_s) *busy_s = busy;
        if (!n) return MU_OK; // both know
        if (w->t->rank > 0) continue;
        const double fit = 0.1 * seconds / *took_s;
        n = i >= tries || since(begin) > seconds ? 0 : fit < 1 ? 1 : fit > most ? most : (int)fit;
    }
}

static mu_status idle(wire *w, mu_err *err) {
    double s[IDLE];
    for (int i = 0; i < IDLE; i++) {
        bool found;
        MU_TRY(look(w, &found, err));
        s[i] = w->poll_s;
    }
    w->idle_s = mu_median(s, IDLE);
    return MU_OK;
}

// Every message costs both ends: as many go out as come.
static mu_status measure(mu_profile *p, wire *w, mu_err *err) {
    mu_machine_network *n = &p->m->network;
    const int tries = p->quick ? 6 : 24;
    const double seconds = p->quick ? 2 : 6;
    double took, busy;
    MU_TRY(latency(w, p->quick ? 100 : MOST, seconds, &n->latency_s, err));
    MU_TRY(idle(w, err));
    MU_TRY(best(w, SMALL, IN_A_ROW, tries, seconds, &took, &busy, err));
    n->message_s = 0.5 * busy;
    MU_TRY(best(w, LONG, LONG_IN_A_ROW, tries, seconds, &took, &busy, err));
    n->bytes_per_s = LONG / took;
    n->byte_s = busy > 2 * n->message_s ? (0.5 * busy - n->message_s) / LONG : 0; // 0: derived
    return settle(w, true, err);
}

static mu_status run(mu_profile *p, mu_err *err) {
    mu_transport *t = p->transport;
    wire w = {.t = t, .peer = 1 - t->rank, .until_ns = mu_clock_ns() + limit_ns};
    if (t->rank > 1) return MU_OK;
    w.out = mu_alloc_block(LONG + SMALL, "probe");
    if (!w.out) return MU_FAIL_NOMEM(err, "messages");
    w.say = (int64_t *)(void *)(w.out + LONG);
    memset(w.out, 1, LONG);
    const mu_status st = measure(p, &w, err);
    if (st == MU_OK) mu_free(w.out); // else the transport may still read it
    return st;
}

const mu_probe_class mu_probe_network = {
    .name = "network",
    .help = "messages between the ranks",
    .share = 3,
    .of_ranks = true,
    .run = run,
};
