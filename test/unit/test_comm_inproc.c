// SPDX-License-Identifier: Apache-2.0
// test_comm_inproc.c - what a net of ranks in one process lets go wrong: delays, peers that overtake each
// other, a cut, a rank that is stopped, one that ends without a word; and heartbeats that notice it, by a
// clock that stands in the test.
#include "comm_help.h"

#include "comm/inproc.h"
#include "comm/peers.h"

enum { N = 3 };

typedef struct world {
    mu_inproc *net;
    mu_transport *t[N];
    uint64_t live;
} world;

static world world_make(void) {
    world w = {.live = mu_alloc_get_stats().n_live};
    assert_ok(mu_inproc_create(N, 3, &w.net, err));
    for (int i = 0; i < N; i++) {
        const mu_transport_opts o = {.net = w.net, .rank = i};
        assert_ok(mu_transport_open("inproc", &o, &w.t[i], err));
    }
    return w;
}

static void world_end(world *w) {
    for (int i = 0; i < N; i++)
        if (w->t[i]) w->t[i]->class->close(w->t[i]);
    mu_inproc_destroy(w->net);
    assert_int_equal(mu_alloc_get_stats().n_live, w->live);
}

static mu_sending send(world *w, int from, int to, const void *data, size_t bytes, uint64_t token) {
    mu_sending how = MU_SEND_GONE;
    const struct iovec part = {(void *)(uintptr_t)data, bytes};
    assert_ok(mu_transport_send(w->t[from], to, &part, 1, token, &how, err));
    return how;
}

static mu_transport_event poll(world *w, int rank) {
    mu_transport_event e;
    assert_ok(w->t[rank]->class->poll(w->t[rank], &e, err));
    return e;
}

// The text that came from this peer now, released; NULL: nothing did.
static const char *come(world *w, int rank, int from) {
    static char text[32];
    const mu_transport_event e = poll(w, rank);
    if (!e.what) return NULL;
    assert_int_equal(e.what, MU_TRANSPORT_MESSAGE);
    assert_int_equal(e.peer, from);
    snprintf(text, sizeof text, "%.*s", (int)e.bytes, (const char *)e.data);
    w->t[rank]->class->release(w->t[rank], e.data);
    return text;
}

static void test_late(void **unused) {
    (void)unused;
    world w = world_make();
    mu_inproc_set_way(w.net, 0, 2, &(mu_inproc_way){.delay_ns = 1000});
    assert_int_equal(mu_inproc_next(w.net), INT64_MAX);
    assert_int_equal(send(&w, 0, 2, "slow", 4, 7), MU_SEND_TAKEN);
    assert_int_equal(send(&w, 1, 2, "fast", 4, 8), MU_SEND_TAKEN);
    assert_string_equal(come(&w, 2, 1), "fast"); // sent later, of another peer
    assert_null(come(&w, 2, 0));
    assert_int_equal(poll(&w, 0).what, MU_TRANSPORT_NOTHING); // still lent
    assert_int_equal(mu_inproc_next(w.net), 1000);
    mu_inproc_set_time(w.net, 999);
    assert_null(come(&w, 2, 0));
    mu_inproc_set_way(w.net, 0, 2, &(mu_inproc_way){.delay_ns = 0});
    send(&w, 0, 2, "after", 5, 9); // does not overtake its own peer's
    mu_inproc_set_time(w.net, 1000);
    assert_string_equal(come(&w, 2, 0), "slow");
    assert_string_equal(come(&w, 2, 0), "after");
    const mu_transport_event e = poll(&w, 0);
    assert_int_equal(e.what, MU_TRANSPORT_SENT);
    assert_int_equal(e.token, 7);
    world_end(&w);
}

static void test_jitter(void **unused) {
    (void)unused;
    world w = world_make();
    int overtaken = 0;
    mu_inproc_set_way(w.net, -1, 2, &(mu_inproc_way){.delay_ns = 10, .jitter_ns = 1000});
    for (int64_t now = 0; now < 100 * 2000; now += 2000) {
        mu_inproc_set_time(w.net, now);
        send(&w, 0, 2, "a", 1, 0);
        send(&w, 1, 2, "b", 1, 0);
        mu_inproc_set_time(w.net, mu_inproc_next(w.net));
        mu_transport_event first = poll(&w, 2), second;
        assert_int_equal(first.what, MU_TRANSPORT_MESSAGE);
        overtaken += first.peer == 1;
        mu_inproc_set_time(w.net, now + 1999);
        second = poll(&w, 2);
        assert_int_equal(second.peer, 1 - first.peer);
        w.t[2]->class->release(w.t[2], first.data);
        w.t[2]->class->release(w.t[2], second.data);
        assert_int_equal(poll(&w, 0).what, MU_TRANSPORT_SENT);
        assert_int_equal(poll(&w, 1).what, MU_TRANSPORT_SENT);
    }
    assert_in_range(overtaken, 20, 80);
    world_end(&w);
}

static void test_cut(void **unused) {
    (void)unused;
    world w = world_make();
    mu_inproc_set_cut(w.net, 0, -1, true);
    send(&w, 0, 1, "lost?", 5, 1);
    send(&w, 1, 0, "lost!", 5, 2);
    assert_null(come(&w, 1, 0));
    assert_null(come(&w, 0, 1));
    assert_int_equal(mu_inproc_next(w.net), INT64_MAX);
    mu_inproc_set_cut(w.net, 0, 1, false);
    assert_string_equal(come(&w, 1, 0), "lost?");
    assert_int_equal(w.t[0]->lent, 1);
    assert_int_equal(w.t[0]->class->drop(w.t[0], 1), 0); // it has come; SENT is to be told
    assert_int_equal(poll(&w, 0).what, MU_TRANSPORT_SENT);
    assert_int_equal(poll(&w, 0).what, MU_TRANSPORT_NOTHING); // what a dropped peer sent is thrown away
    assert_int_equal(send(&w, 0, 1, "x", 1, 1), MU_SEND_GONE);
    world_end(&w);
}

static void test_lost_for_good(void **unused) {
    (void)unused;
    world w = world_make();
    mu_inproc_set_cut(w.net, 1, -1, true);
    assert_int_equal(send(&w, 0, 1, "a", 1, 1), MU_SEND_TAKEN);
    assert_int_equal(send(&w, 0, 1, "b", 1, 1), MU_SEND_TAKEN);
    assert_int_equal(w.t[0]->class->drop(w.t[0], 1), 2);
    w.t[2]->class->drop(w.t[2], 1);
    w.t[0]->class->leave(w.t[0]);
    w.t[2]->class->leave(w.t[2]);
    assert_int_equal(poll(&w, 0).what, MU_TRANSPORT_LEFT);
    assert_int_equal(poll(&w, 2).what, MU_TRANSPORT_LEFT);
    assert_false(mu_transport_is_over(w.t[0])); // two are lent
    assert_true(mu_transport_is_over(w.t[2]));
    assert_false(w.t[2]->class->close(w.t[2])); // but a peer died: not as if nothing had been
    w.t[2] = NULL;
    world_end(&w);
}

static void test_deaf(void **unused) {
    (void)unused;
    world w = world_make();
    int taken = 0;
    mu_inproc_set_deaf(w.net, 1, true);
    while (send(&w, 0, 1, "x", 1, 0) == MU_SEND_TAKEN) taken++;
    assert_int_equal(taken, MU_TRANSPORT_WAITING);
    assert_int_equal(poll(&w, 1).what, MU_TRANSPORT_NOTHING);
    assert_int_equal(send(&w, 0, 2, "y", 1, 0), MU_SEND_TAKEN); // nobody else is held up
    assert_string_equal(come(&w, 2, 0), "y");
    mu_inproc_set_deaf(w.net, 1, false);
    assert_string_equal(come(&w, 1, 0), "x");
    int room = 0;
    for (mu_transport_event e; (e = poll(&w, 0)).what;) room += e.what == MU_TRANSPORT_ROOM;
    assert_int_equal(room, 1);
    assert_int_equal(send(&w, 0, 1, "x", 1, 0), MU_SEND_TAKEN);
    world_end(&w);
}

// Who does not poll is not told SENT, and may not send without end even if all of it is released.
static void test_sender_does_not_poll(void **unused) {
    (void)unused;
    world w = world_make();
    int taken = 0;
    for (; send(&w, 0, 1, "x", 1, 0) == MU_SEND_TAKEN; taken++) assert_string_equal(come(&w, 1, 0), "x");
    assert_int_equal(taken, MU_TRANSPORT_WAITING);
    assert_int_equal(w.t[0]->lent, MU_TRANSPORT_WAITING);
    assert_int_equal(poll(&w, 0).what, MU_TRANSPORT_SENT);
    assert_int_equal(send(&w, 0, 1, "x", 1, 0), MU_SEND_TAKEN);
    assert_int_equal(send(&w, 0, 1, "x", 1, 0), MU_SEND_FULL);
    int room = 0;
    for (mu_transport_event e; (e = poll(&w, 0)).what;) room += e.what == MU_TRANSPORT_ROOM;
    assert_int_equal(room, 1);
    world_end(&w);
}

// A rank that closes without a goodbye is silent, and its messages under way are lost.
static void test_dies(void **unused) {
    (void)unused;
    world w = world_make();
    send(&w, 0, 1, "x", 1, 0);
    assert_false(w.t[0]->class->close(w.t[0]));
    w.t[0] = NULL;
    assert_int_equal(poll(&w, 1).what, MU_TRANSPORT_NOTHING);
    world_end(&w);
}

static void test_out_of_memory(void **unused) {
    (void)unused;
    world w = world_make();
    mu_sending how;
    const struct iovec part = {"xyz", 3};
    mu_alloc_fail_at(1);
    assert_fails(mu_transport_send(w.t[0], 1, &part, 1, 0, &how, err), MU_ENOMEM, "message");
    send(&w, 0, 1, "xyz", 3, 0);
    mu_transport_event e;
    mu_alloc_fail_at(1);
    assert_fails(w.t[1]->class->poll(w.t[1], &e, err), MU_ENOMEM, "message");
    mu_alloc_fail_at(0);
    assert_string_equal(come(&w, 1, 0), "xyz"); // nothing is lost
    for (int n = 1; n <= 4; n++) {
        mu_inproc *net = NULL;
        mu_alloc_fail_at(n);
        assert_fails(mu_inproc_create(2, 0, &net, err), MU_ENOMEM, "ranks");
    }
    mu_alloc_fail_at(0);
    world_end(&w);
}

// ---- heartbeats over it ----

#define SECOND INT64_C(1000000000)

typedef struct watcher {
    mu_peers peers;
    uint64_t signs[N];
    int lost, losses;
    int64_t lost_ns;
} watcher;

static void watch(world *w, watcher *s, int rank, int64_t now) {
    for (const char *m = ""; m;) {
        const mu_transport_event e = poll(w, rank);
        m = e.what ? "" : NULL;
        if (e.what == MU_TRANSPORT_MESSAGE) w->t[rank]->class->release(w->t[rank], e.data);
        if (e.what == MU_TRANSPORT_LEFT) mu_peers_ended(&s->peers, e.peer);
    }
    for (int p = 0; p < N; p++) {
        if (s->signs[p] != w->t[rank]->signs[p]) mu_peers_heard(&s->peers, p);
        s->signs[p] = w->t[rank]->signs[p];
    }
    for (int p; (p = mu_peers_due(&s->peers, now)) >= 0; mu_peers_sent(&s->peers, p, now))
        if (!w->t[rank]->left) send(w, rank, p, "beat", 4, 0);
    const int lost = mu_peers_look(&s->peers, now);
    if (lost < 0) return;
    s->lost = lost;
    s->losses++;
    s->lost_ns = now;
    w->t[rank]->class->drop(w->t[rank], lost);
}

static void run(world *w, watcher s[N], int64_t *now, int64_t until, int but) {
    for (; *now < until; *now += SECOND / 50) {
        mu_inproc_set_time(w->net, *now);
        for (int i = 0; i < N; i++)
            if (i != but) watch(w, &s[i], i, *now);
    }
}

static void test_heartbeats(void **unused) {
    (void)unused;
    static const mu_peers_terms terms = {SECOND / 5, 2 * SECOND, 10 * SECOND};
    for (int how = 0; how < 3; how++) { // cut off, stopped, gone in order
        world w = world_make();
        watcher s[N] = {{.lost = -1}, {.lost = -1}, {.lost = -1}};
        int64_t now = 0;
        mu_inproc_set_way(w.net, -1, -1, &(mu_inproc_way){.delay_ns = SECOND / 20, .jitter_ns = SECOND / 10});
        for (int i = 0; i < N; i++) assert_ok(mu_peers_init(&s[i].peers, i, N, &terms, now, err));
        run(&w, s, &now, 20 * SECOND, -1);
        for (int i = 0; i < N; i++) assert_int_equal(s[i].losses, 0);
        if (how == 0) mu_inproc_set_cut(w.net, 1, -1, true);
        if (how == 1) mu_inproc_set_deaf(w.net, 1, true);
        if (how == 2) w.t[1]->class->leave(w.t[1]);
        run(&w, s, &now, 30 * SECOND, how == 1 ? 1 : -1);
        for (int i = 0; i < N; i += 2) {
            assert_int_equal(s[i].losses, how < 2);
            assert_int_equal(s[i].peers.peer[1].life, how < 2 ? MU_PEER_LOST : MU_PEER_ENDED);
            if (how < 2) assert_in_range(s[i].lost_ns, 21.5 * SECOND, 22.6 * SECOND);
            if (how < 2) assert_int_equal(s[i].lost, 1);
        }
        for (int i = 0; i < N; i++) mu_peers_fini(&s[i].peers);
        world_end(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_deaf),
        cmocka_unit_test(test_lost_for_good),
        cmocka_unit_test(test_dies),
        cmocka_unit_test(test_sender_does_not_poll),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_heartbeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
