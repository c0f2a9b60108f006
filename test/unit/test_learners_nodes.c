// SPDX-License-Identifier: Apache-2.0
// test_learners_nodes.c - ranks in one process: they meet, or say what they do not agree on; rounds in which
// all see the weights of all, also when one is a round ahead; a rank that falls silent is lost for all
// others.
#include "training_help.h"

#include "comm/inproc.h"
#include "learners/rounds.h"

#include <time.h>

enum { N = 3, OWN = 2, ALL = N * OWN };

static const char text[] = "name: n\n"
                           "seed: 3\n"
                           "data: {train: {reader: synthetic, shape: [1, 4, 4], classes: 3, records: 60}}\n"
                           "net:\n"
                           "  - {name: fc, type: inner_product, src: data.image, outputs: 3}\n"
                           "  - {name: loss, type: softmax_loss, src: [fc, data.label]}\n"
                           "train: {batch: 12, steps: 4}\n"
                           "updater: {type: sgd, rate: 0.1}\n"
                           "cluster: {server_groups: 6}\n";

static const mu_peers_terms patient = {
    .heartbeat_ns = 1000000000, .lost_ns = 60000000000, .begin_ns = 60000000000};
static const mu_peers_terms hasty = {.heartbeat_ns = 5000000, .lost_ns = 100000000, .begin_ns = 60000000000};

typedef struct world {
    mu_inproc *net;
    mu_nodes *node[N];
    training t[N];
} world;

static world make(const mu_peers_terms *terms, const char *odd) { // odd: an edit of the last rank's job
    world w = {0};
    mu_err err = {0};
    if (mu_inproc_create(N, 5, &w.net, &err) != MU_OK) fail_msg("%s", err.msg);
    for (int i = 0; i < N; i++) {
        const mu_transport_opts o = {.net = w.net, .rank = i};
        training *t = &w.t[i];
        const mu_session_opts so = {.phases = MU_TRAIN, .trains = true, .nodes = N, .node = i};
        if (mu_nodes_open("inproc", &o, terms, &w.node[i], &err) != MU_OK ||
            mu_job_parse("t.yaml", text, strlen(text), &odd, odd && i == N - 1, &t->job, &err) != MU_OK ||
            mu_session_open(t->job, &so, &t->s, &err) != MU_OK ||
            mu_nodes_greet(w.node[i], t->s, &err) != MU_OK)
            fail_msg("rank %d: %s", i, err.msg);
    }
    return w;
}

static void unmake(world *w) {
    for (int i = 0; i < N; i++) {
        w->node[i]->t->class->close(w->node[i]->t);
        mu_nodes_destroy(w->node[i]);
        end(&w->t[i]);
    }
    mu_inproc_destroy(w->net);
}

static void look(world *w, int rank) {
    mu_err err = {0};
    if (mu_nodes_look(w->node[rank], &err) != MU_OK) fail_msg("rank %d: %s", rank, err.msg);
}

static void look_all(world *w, int times) {
    for (int k = 0; k < times; k++)
        for (int i = 0; i < N; i++) look(w, i);
}

static void test_meet(void **unused) {
    (void)unused;
    world w = make(&patient, NULL);
    mu_err err = {0};
    bool all;
    look(&w, 1);
    look_all(&w, 3);
    for (int i = 0; i < N; i++) {
        assert_int_equal(mu_nodes_agreed(w.node[i], &all, &err), MU_OK);
        assert_true(all);
        assert_true(mu_nodes_share_host(w.node[i]));
        assert_int_equal(mu_nodes_before_on_host(w.node[i]), i);
        assert_int_equal(w.t[i].s->setup.learners, ALL); // one a group where the job does not say
        assert_int_equal(mu_setup_first_group(&w.t[i].s->setup), i * OWN);
    }
    unmake(&w);
}

static void test_do_not_agree(void **unused) {
    (void)unused;
    static const char *const edits[] = {"train.steps=5", "cluster.workers=2"};
    for (size_t k = 0; k < MU_COUNT(edits); k++) {
        world w = make(&patient, edits[k]);
        look_all(&w, 3);
        for (int i = 0; i < N; i++) {
            mu_err err = {0};
            bool all;
            assert_int_equal(mu_nodes_agreed(w.node[i], &all, &err), MU_EJOB);
            if (!strstr(err.msg, i < N - 1 ? "rank 2 on" : "rank 0 on") || !strstr(err.msg, "another job"))
                fail_msg("rank %d: %s", i, err.msg);
        }
        unmake(&w);
    }
}

// Rank 0 hears how the learners of others did, by a sign of life that is due for nothing else; when there is
// news, and not at each look.
static void test_times(void **unused) {
    (void)unused;
    world w = make(&patient, NULL);
    look_all(&w, 3);
    for (int i = 0; i < N; i++) mu_nodes_note_times(w.node[i], (mu_node_times){100 + i, 10 + i});
    look_all(&w, 3);
    for (int i = 0; i < N; i++) {
        assert_int_equal(w.node[0]->times[i].compute_ns, 100 + i);
        assert_int_equal(w.node[0]->times[i].wait_ns, 10 + i);
    }
    const int64_t beats = w.node[1]->beats;
    mu_nodes_note_times(w.node[1], (mu_node_times){200, 20});
    look_all(&w, 3); // too soon
    assert_int_equal(w.node[1]->beats, beats);
    assert_int_equal(w.node[0]->times[1].compute_ns, 101);
    w.node[1]->told_ns = 0;
    look_all(&w, 3);
    assert_int_equal(w.node[0]->times[1].compute_ns, 200);
    w.node[1]->told_ns = 0;
    const int64_t again = w.node[1]->beats;
    look_all(&w, 3); // nothing new
    assert_int_equal(w.node[1]->beats, again);
    unmake(&w);
}

// ---- rounds ----

typedef struct exchange {
    mu_rounds rounds;
    float *block[OWN];
} exchange;

static mu_status take(void *ctx, int peer, const mu_wire *w, bool *later, mu_err *err) {
    assert_int_equal(w->type, MU_WIRE_EXCHANGE);
    return mu_rounds_take(ctx, peer, &w->exchange, later, err);
}

static float value_of(int group, int64_t round, int64_t i) {
    return (float)(1000 * group) + (float)(100 * round) + (float)i;
}

static void begin(world *w, exchange *x, int rank, int64_t first, int64_t last) {
    mu_err err = {0};
    exchange *own = &x[rank];
    for (int g = 0; g < OWN; g++)
        for (int64_t i = 0; i < w->node[rank]->shape.count; i++)
            own->block[g][i] = value_of(rank * OWN + g, own->rounds.round, i);
    if (mu_rounds_begin(&own->rounds, first, last, own->block, &err) != MU_OK) fail_msg("%s", err.msg);
}

static void expect(exchange *x, int rank, int64_t first, int64_t last) {
    const mu_rounds *r = &x[rank].rounds;
    assert_true(mu_rounds_is_complete(r));
    for (int g = 0; g < ALL; g++) {
        assert_int_equal(r->theirs[g] == NULL, g / OWN == rank);
        for (int64_t i = first; i < last && r->theirs[g]; i++)
            assert_true(r->theirs[g][i] == value_of(g, r->round, i));
    }
}

static void test_rounds(void **unused) {
    (void)unused;
    world w = make(&patient, NULL);
    exchange x[N] = {0};
    mu_err err = {0};
    look_all(&w, 3);
    const int64_t count = w.node[0]->shape.count;
    for (int i = 0; i < N; i++) {
        assert_int_equal(mu_rounds_init(&x[i].rounds, w.node[i], OWN, ALL, &err), MU_OK);
        for (int g = 0; g < OWN; g++) x[i].block[g] = calloc((size_t)count, sizeof(float));
        w.node[i]->take = take;
        w.node[i]->ctx = &x[i].rounds;
    }
    // Rank 2's floats come late to rank 1: rank 0 is through and begins the next round meanwhile.
    mu_inproc_set_way(w.net, 2, 1, &(mu_inproc_way){.delay_ns = 1000});
    for (int i = 0; i < N; i++) begin(&w, x, i, 0, count);
    assert_true(x[0].rounds.begun && !mu_rounds_is_complete(&x[0].rounds));
    look_all(&w, 4);
    expect(x, 0, 0, count);
    assert_true(x[1].rounds.asked && !mu_rounds_is_complete(&x[1].rounds));
    mu_rounds_next(&x[0].rounds);
    begin(&w, x, 0, 16, 32);
    look_all(&w, 4);
    assert_true(!mu_rounds_is_complete(&x[1].rounds)); // what came of the next round waits
    mu_inproc_set_time(w.net, 2000);
    look_all(&w, 4);
    for (int i = 1; i < N; i++) {
        expect(x, i, 0, count);
        mu_rounds_next(&x[i].rounds);
    }
    mu_inproc_set_way(w.net, 2, 1, &(mu_inproc_way){0});
    look_all(&w, 2);
    assert_true(x[1].rounds.asked); // by what waited
    for (int i = 1; i < N; i++) begin(&w, x, i, 16, 32);
    look_all(&w, 4);
    for (int i = 0; i < N; i++) expect(x, i, 16, 32);
    for (int i = 0; i < N; i++) {
        mu_rounds_fini(&x[i].rounds);
        for (int g = 0; g < OWN; g++) free(x[i].block[g]);
    }
    unmake(&w);
}

// ---- losses ----

static void test_lost(void **unused) {
    (void)unused;
    world w = make(&hasty, NULL);
    mu_err err[N] = {0};
    mu_status st[N] = {MU_OK};
    look_all(&w, 20);
    mu_inproc_set_deaf(w.net, 1, true); // as by SIGSTOP
    for (int k = 0; k < 5000 && (st[0] == MU_OK || st[2] == MU_OK); k++) {
        for (int i = 0; i < N; i += 2)
            if (st[i] == MU_OK) st[i] = mu_nodes_look(w.node[i], &err[i]);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (int i = 0; i < N; i += 2) {
        assert_int_equal(st[i], MU_ERANK);
        assert_int_equal(mu_status_exit_code(st[i]), 5);
        if (!strstr(err[i].msg, "rank 1 on ") || !strstr(err[i].msg, "was lost: silent for"))
            fail_msg("%s", err[i].msg);
        mu_err again = {0};
        assert_int_equal(mu_nodes_look(w.node[i], &again), MU_ERANK); // it stays
        assert_string_equal(again.msg, err[i].msg);
    }
    unmake(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_meet), cmocka_unit_test(test_times), cmocka_unit_test(test_do_not_agree),
                                       cmocka_unit_test(test_rounds), cmocka_unit_test(test_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
