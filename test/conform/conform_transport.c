// SPDX-License-Identifier: Apache-2.0
// conform_transport.c - what every transport must do: each message comes once, whole and in order, memory is
// lent until SENT, a peer that does not release stops its senders and nobody else, a goodbye comes last. Over
// `inproc` in one thread, and over `mpi` with 2, 4 and 8 processes of this machine where mpirun is there;
// these also fork children that are killed, and lose a rank.
//
//     conform_transport rank SCENARIO FOLDER      is one rank, started by mpirun
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "conform/transport_actor.h"
#include "conform/transport_ranks.h"

#include "comm/inproc.h"
#include "comm/peers.h"

#include <sys/prctl.h>

static const traffic ring = {RING, 60, 16 << 20, 1};
static const traffic all_to_all = {ALL_TO_ALL, 40, 1 << 20, 2};
static const traffic all_large = {ALL_TO_ALL, 2, 16 << 20, 6};
static const traffic to_one = {TO_ONE, 150, 300000, 3};
static const traffic from_one = {FROM_ONE, 150, 300000, 4};
static const traffic crowd = {ALL_TO_ALL, 700, 100, 5}; // far more than may wait

// ---- inproc ----

typedef struct world {
    mu_inproc *net;
    mu_transport *t[ACTORS];
    int n;
    int64_t now;
} world;

static world world_make(int n, size_t window) {
    world w = {.n = n};
    mu_err err = {0};
    if (mu_inproc_create(n, 11, &w.net, &err) != MU_OK) fail_msg("%s", err.msg);
    for (int i = 0; i < n; i++) {
        const mu_transport_opts o = {.window_bytes = window, .net = w.net, .rank = i};
        if (mu_transport_open("inproc", &o, &w.t[i], &err) != MU_OK) fail_msg("%s", err.msg);
    }
    return w;
}

static void world_end(world *w) {
    for (int i = 0; i < w->n; i++)
        if (!w->t[i]->class->close(w->t[i])) fail_msg("rank %d was not left in order", i);
    mu_inproc_destroy(w->net);
}

// To when something arrives; a little further where nothing is under way.
static void go_on(world *w) {
    const int64_t next = mu_inproc_next(w->net);
    w->now = next == INT64_MAX || next <= w->now ? w->now + 1000 : next;
    mu_inproc_set_time(w->net, w->now);
}

static void run_inproc(const traffic *plan, int n, size_t window, const mu_inproc_way *way) {
    static actor a[ACTORS];
    world w = world_make(n, window);
    if (way) mu_inproc_set_way(w.net, -1, -1, way);
    for (int i = 0; i < n; i++) a[i] = (actor){.t = w.t[i], .plan = plan, .limit = plan->messages};
    bool over = false;
    for (int turn = 0; !over; turn++, go_on(&w)) {
        over = true;
        for (int i = 0; i < n; i++) {
            over &= act(&a[(i + turn) % n]);
            if (a[i].failure[0]) fail_msg("%d ranks, pattern %d: %s", n, (int)plan->pattern, a[i].failure);
        }
        if (turn > 200000) fail_msg("%d ranks, pattern %d: nothing moves any more", n, (int)plan->pattern);
    }
    world_end(&w);
}

static void test_inproc_traffic(void **unused) {
    (void)unused;
    static const mu_inproc_way late = {.delay_ns = 50000, .jitter_ns = 400000};
    const uint64_t live = mu_alloc_get_stats().n_live;
    for (int n = 2; n <= ACTORS; n *= 2) {
        run_inproc(&ring, n, 0, NULL);
        run_inproc(&all_to_all, n, 0, &late);
        run_inproc(&to_one, n, 200000, &late);
        run_inproc(&from_one, n, 200000, NULL);
        run_inproc(&crowd, n, 0, &late);
    }
    assert_int_equal(mu_alloc_get_stats().n_live, live);
}

static void test_inproc_window(void **unused) {
    (void)unused;
    for (int n = 2; n <= 4; n += 2) {
        filler f[4] = {{0}};
        world w = world_make(n, FILL_WINDOW);
        for (int i = 0; i < n; i++) f[i].t = w.t[i];
        bool over = false;
        for (int turn = 0; !over; turn++, go_on(&w)) {
            over = true;
            for (int i = 0; i < n; i++) {
                over &= fill_act(&f[i]);
                if (f[i].failure[0]) fail_msg("%s", f[i].failure);
            }
            if (turn > 100000) fail_msg("nothing moves any more");
        }
        world_end(&w);
    }
}

static void test_limits(void **unused) {
    (void)unused;
    world w = world_make(2, 0);
    static struct iovec part[MU_TRANSPORT_PARTS + 1];
    const struct iovec wrap[2] = {{"", SIZE_MAX}, {"", 2}}, most = {"", MU_TRANSPORT_MOST + 1};
    const struct {
        int peer, n;
        const struct iovec *part;
        const char *text;
    } bad[] = {{0, 0, part, "sends to rank 0"},
               {2, 0, part, "rank 2"},
               {-1, 0, part, "rank -1"},
               {1, -1, part, "-1 parts"},
               {1, 2, wrap, "at most"},
               {1, 1, &most, "at most"},
               {1, MU_TRANSPORT_PARTS + 1, part, "parts, at most"}};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        mu_err err = {0};
        mu_sending how;
        assert_int_equal(mu_transport_send(w.t[0], bad[i].peer, bad[i].part, bad[i].n, 0, &how, &err),
                         MU_EUSAGE);
        if (!strstr(err.msg, bad[i].text)) fail_msg("`%s` does not say `%s`", err.msg, bad[i].text);
    }
    for (int i = 0; i < 2; i++) w.t[i]->class->close(w.t[i]);
    mu_inproc_destroy(w.net);
}

// ---- one rank of MPI ----

static const struct {
    const char *name;
    const traffic *plan;
    size_t window;
} runs[] = {{"ring", &ring, 0},          {"all_to_all", &all_to_all, 0},  {"all_large", &all_large, 0},
            {"to_one", &to_one, 200000}, {"from_one", &from_one, 200000}, {"crowd", &crowd, 0}};

// ---- children ----

enum { FORKS = 600, CHILDREN = 4, LOOKS = 3 };

typedef struct nursery {
    pid_t child[CHILDREN];
    int number[CHILDREN], looks[CHILDREN];
    int born, most, killed;
} nursery;

// A child of a rank: touches memory, and ends or is killed. It never calls MPI.
static pid_t bear(int number) {
    const pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsigned char *p = malloc(1 << 20);
    while (p && (memset(p, number, 1 << 20), number % 2 == 0))
        nap_us(300); // every other goes on until it is killed
    _exit(p ? 0 : 1);
}

static void tend(nursery *f, int k, actor *a) {
    int how = 0;
    if (f->child[k] && ++f->looks[k] > LOOKS && f->number[k] % 2 == 0) kill(f->child[k], SIGKILL);
    if (f->child[k] && waitpid(f->child[k], &how, WNOHANG) == f->child[k]) {
        f->child[k] = 0;
        f->killed += WIFSIGNALED(how);
        if (WIFEXITED(how) && WEXITSTATUS(how)) FAILED(a, "a child ended with 0x%x", how);
    }
    if (f->child[k] || f->born == f->most) return;
    f->looks[k] = 0;
    f->number[k] = f->born;
    f->child[k] = bear(f->born++);
    if (f->child[k] < 0) FAILED(a, "fork: %s", strerror(errno));
}

// Ends children and bears others, without waiting for any. True: all were born, and have ended.
static bool nurse(nursery *f, actor *a) {
    bool empty = true;
    for (int k = 0; k < CHILDREN && !a->failure[0]; k++) {
        tend(f, k, a);
        empty &= !f->child[k];
    }
    return empty && f->born == f->most;
}

static bool rank_traffic(mu_transport *t, const traffic *plan, bool forks, char why[FAILURE]) {
    actor *a = calloc(1, sizeof *a);
    if (!a) return false;
    nursery f = {.most = forks ? FORKS / t->n : 0};
    *a = (actor){.t = t, .plan = plan, .limit = plan->messages};
    for (bool over = false, born = !forks; !over;) {
        if (!born) born = nurse(&f, a);
        if (!born) a->limit = plan->messages * f.born / (f.most + 1); // spread over the births
        else a->limit = plan->messages;
        over = act(a);
    }
    if (forks && f.killed < f.most / 2) FAILED(a, "%d of %d children were killed", f.killed, f.most);
    memcpy(why, a->failure, FAILURE);
    free(a);
    return !why[0];
}

static bool rank_window(mu_transport *t, char why[FAILURE]) {
    filler f = {.t = t};
    while (!fill_act(&f)) {}
    memcpy(why, f.failure, FAILURE);
    return !why[0];
}

// ---- losing a rank ----

enum { VICTIM = 1, ROUNDS = 20, HEARTBEAT = 1, LAST_WORDS = 2 }; // first byte of a message
#define HEARTBEAT_NS 100000000
#define LOST_NS 3000000000
#define NOTICE_NS 12000000000 // for all to notice, on a machine that is busy
#define LIFE_NS 500000000     // of the victim

typedef struct survivor {
    mu_transport *t;
    mu_peers peers;
    uint64_t signs[ACTORS];
    bool blocked[ACTORS];
    int32_t pid[ACTORS]; // as the others say
    int words[ACTORS];   // LAST_WORDS that came
    unsigned char beat[8], last[8];
    int lost, lent;
    int64_t began_ns, lost_ns;
    char failure[FAILURE];
} survivor;

static mu_sending say(survivor *s, int p, const unsigned char *what, size_t bytes) {
    mu_sending how = MU_SEND_GONE;
    mu_err err = {0};
    const struct iovec part = {(void *)(uintptr_t)what, bytes};
    if (mu_transport_send(s->t, p, &part, 1, 0, &how, &err) != MU_OK) FAILED(s, "%s", err.msg);
    return how;
}

static void hear_all(survivor *s) {
    mu_transport_event e = {.what = MU_TRANSPORT_ROOM};
    while (e.what && !s->failure[0]) {
        mu_err err = {0};
        if (s->t->class->poll(s->t, &e, &err) != MU_OK) FAILED(s, "poll: %s", err.msg);
        if (e.what != MU_TRANSPORT_MESSAGE) continue;
        const unsigned char *m = e.data;
        if (s->lost == e.peer) FAILED(s, "rank %d was dropped, and is heard", e.peer);
        if (e.bytes == 8) memcpy(&s->pid[e.peer], m + 4, 4);
        s->words[e.peer] += e.bytes == 8 && m[0] == LAST_WORDS;
        s->t->class->release(s->t, e.data);
    }
}

static void keep_alive(survivor *s) {
    for (int p = 0; p < s->t->n; p++) {
        if (s->signs[p] != s->t->signs[p]) mu_peers_heard(&s->peers, p);
        s->signs[p] = s->t->signs[p];
    }
    for (int p; (p = mu_peers_due(&s->peers, mu_clock_ns())) >= 0;) {
        say(s, p, s->beat, sizeof s->beat);
        mu_peers_sent(&s->peers, p, mu_clock_ns());
    }
    const int lost = mu_peers_look(&s->peers, mu_clock_ns());
    if (lost < 0) return;
    if (lost != VICTIM) FAILED(s, "rank %d was taken for lost: %s", lost, s->peers.peer[lost].why);
    s->lost = lost;
    s->lost_ns = mu_clock_ns() - s->began_ns;
    s->lent = s->t->class->drop(s->t, lost);
}

static void until_lost(survivor *s, int how) {
    const int64_t end = s->began_ns + LIFE_NS + NOTICE_NS;
    while (s->lost < 0 && !s->failure[0]) {
        hear_all(s);
        keep_alive(s);
        const bool begun = s->peers.peer[(s->t->rank + 1) % s->t->n].life == MU_PEER_ALIVE;
        if (s->t->rank == VICTIM && begun && mu_clock_ns() > s->began_ns + LIFE_NS) kill(getpid(), how);
        if (mu_clock_ns() > end) FAILED(s, "nobody was lost in %.1f s", (double)(end - s->began_ns) * 1e-9);
        nap_us(300);
    }
}

// The others go on: each says so to each.
static void go_on_without(survivor *s) {
    const int64_t end = mu_clock_ns() + NOTICE_NS;
    bool all = false;
    if (!s->failure[0] && say(s, VICTIM, s->beat, 8) != MU_SEND_GONE) FAILED(s, "a dropped rank is not gone");
    for (int p = 0; p < s->t->n; p++)
        for (int k = 0; k < ROUNDS && p != s->t->rank && p != VICTIM; k++)
            if (say(s, p, s->last, 8) != MU_SEND_TAKEN) FAILED(s, "rank %d does not listen any more", p);
    while (!all && !s->failure[0]) {
        hear_all(s);
        all = true;
        for (int p = 0; p < s->t->n; p++) all &= p == s->t->rank || p == VICTIM || s->words[p] == ROUNDS;
        if (mu_clock_ns() > end) FAILED(s, "the survivors do not hear each other");
        nap_us(300);
    }
}

// How the victim ends: SIGKILL, or SIGSTOP and SIGKILL by rank 0 when all is over. Never returns to an end of
// MPI that waits for the dead.
static bool rank_loses(mu_transport *t, int how, char why[FAILURE]) {
    survivor *s = calloc(1, sizeof *s);
    const mu_peers_terms terms = {HEARTBEAT_NS, LOST_NS, 2 * NOTICE_NS};
    mu_err err = {0};
    if (!s) return false;
    *s = (survivor){.t = t, .lost = -1, .began_ns = mu_clock_ns(), .beat = {HEARTBEAT}, .last = {LAST_WORDS}};
    const int32_t pid = getpid();
    memcpy(s->beat + 4, &pid, 4), memcpy(s->last + 4, &pid, 4);
    if (mu_peers_init(&s->peers, t->rank, t->n, &terms, mu_clock_ns(), &err) != MU_OK) return false;
    if (t->rank == 0) say(s, VICTIM, pool(), 4 << 20); // may be under way
    until_lost(s, how);
    if (!s->failure[0]) go_on_without(s);
    if (how == SIGSTOP && t->rank == 0 && s->pid[VICTIM]) kill(s->pid[VICTIM], SIGKILL);
    if (!s->failure[0] && mu_transport_end(t, 2000000000)) FAILED(s, "left as if nobody had died");
    fprintf(stderr, "rank %d noticed after %.1f s, %d lent\n", t->rank, (double)s->lost_ns * 1e-9, s->lent);
    memcpy(why, s->failure, FAILURE);
    mu_peers_fini(&s->peers);
    free(s);
    return !why[0];
}

// ---- dropping a rank that lives ----

// Rank 0 drops rank 1 at its first message, and hears nothing of it from then on.
static bool rank_drops(mu_transport *t, char why[FAILURE]) {
    survivor *s = calloc(1, sizeof *s);
    if (!s) return false;
    *s = (survivor){.t = t, .lost = -1, .last = {LAST_WORDS}};
    for (int k = 0; k < MU_TRANSPORT_WAITING && t->rank == VICTIM; k++) say(s, 0, s->last, 8);
    const int64_t end = mu_clock_ns() + NOTICE_NS, until = mu_clock_ns() + LIFE_NS;
    while (t->rank == 0 && !s->failure[0] && (s->lost < 0 || mu_clock_ns() < until)) {
        mu_transport_event e = {.what = MU_TRANSPORT_NOTHING};
        if (s->lost >= 0) hear_all(s);
        else if (t->class->poll(t, &e, NULL) != MU_OK) FAILED(s, "poll");
        if (mu_clock_ns() > end) FAILED(s, "nothing came");
        if (e.what != MU_TRANSPORT_MESSAGE) continue;
        t->class->release(t, e.data);
        s->lost = e.peer;
        t->class->drop(t, e.peer);
    }
    if (!s->failure[0] && mu_transport_end(t, LIFE_NS)) FAILED(s, "left as if nobody had been dropped");
    memcpy(why, s->failure, FAILURE);
    free(s);
    return !why[0];
}

// ---- the ranks ----

static bool rank_scenario(mu_transport *t, const char *what, char why[FAILURE]) {
    if (!strcmp(what, "window")) return rank_window(t, why);
    if (!strcmp(what, "forks")) return rank_traffic(t, &all_to_all, true, why);
    if (!strcmp(what, "kill")) return rank_loses(t, SIGKILL, why);
    if (!strcmp(what, "stop")) return rank_loses(t, SIGSTOP, why);
    if (!strcmp(what, "drop")) return rank_drops(t, why);
    for (size_t i = 0; i < MU_COUNT(runs); i++)
        if (!strcmp(runs[i].name, what)) return rank_traffic(t, runs[i].plan, false, why);
    return snprintf(why, FAILURE, "no scenario `%s`", what), false;
}

static int rank_main(const char *what, const char *dir) {
    mu_transport *t;
    mu_err err = {0};
    char why[FAILURE] = "";
    mu_transport_opts o = {.window_bytes = strcmp(what, "window") ? 0 : FILL_WINDOW};
    for (size_t i = 0; i < MU_COUNT(runs); i++)
        if (!strcmp(runs[i].name, what)) o.window_bytes = runs[i].window;
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    const int rank = number ? atoi(number) : 0;
    begin_rank(dir, rank);
    (void)pool(); // before the clock runs
    if (mu_transport_open("mpi", &o, &t, &err) != MU_OK) {
        verdict(dir, rank, err.msg);
        return 1;
    }
    const bool loses = !strcmp(what, "kill") || !strcmp(what, "stop") || !strcmp(what, "drop");
    bool good = rank_scenario(t, what, why);
    if (good && !loses && !t->class->close(t)) {
        good = false;
        snprintf(why, sizeof why, "not left in order");
    }
    verdict(dir, rank, good ? "ok" : why);
    if (!loses && good) return 0;
    fflush(NULL);
    _exit(!good);
}

// ---- starting them ----

static void need_mpi(void) {
#ifndef MU_HAVE_MPI_MODULE
    print_message("skipped: built without the transport `mpi` (libopenmpi-dev, and no sanitizer)\n");
    skip();
#endif
    if (has_mpirun()) return;
    print_message("skipped: no mpirun in PATH (openmpi-bin)\n");
    skip();
}

static void run_mpi(int n, const char *what, int victim, const char *btl) {
    char why[600] = "";
    const double began = mu_clock_s();
    if (!run_ranks(n, what, victim, btl, why, sizeof why))
        fail_msg("%s, %d ranks, %s: %s", what, n, btl, why);
    print_message("%-12s %d ranks %-15s %.1f s\n", what, n, btl, mu_clock_s() - began);
}

#define SHARED "self,vader,tcp"
#define SOCKETS "self,tcp"

static void test_mpi_traffic(void **unused) {
    (void)unused;
    need_mpi();
    run_mpi(2, "ring", -1, SHARED);
    run_mpi(4, "all_to_all", -1, SHARED);
    run_mpi(4, "all_large", -1, SOCKETS);
    run_mpi(8, "ring", -1, SOCKETS);
    run_mpi(8, "crowd", -1, SHARED);
}

static void test_mpi_pressure(void **unused) {
    (void)unused;
    need_mpi();
    run_mpi(2, "window", -1, SHARED);
    run_mpi(4, "window", -1, SOCKETS);
    run_mpi(8, "to_one", -1, SHARED);
    run_mpi(4, "from_one", -1, SOCKETS);
}

static void test_mpi_forks(void **unused) {
    (void)unused;
    need_mpi();
    run_mpi(4, "forks", -1, SHARED);
}

static void test_mpi_lost(void **unused) {
    (void)unused;
    need_mpi();
    run_mpi(4, "kill", VICTIM, SHARED);
    run_mpi(4, "stop", VICTIM, SOCKETS);
    run_mpi(2, "drop", VICTIM, SHARED);
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "rank")) return rank_main(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inproc_traffic), cmocka_unit_test(test_inproc_window),
        cmocka_unit_test(test_limits),         cmocka_unit_test(test_mpi_traffic),
        cmocka_unit_test(test_mpi_pressure),   cmocka_unit_test(test_mpi_forks),
        cmocka_unit_test(test_mpi_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
