// SPDX-License-Identifier: Apache-2.0
// test_learners_bridges.c - ranks in one process whose parents carry the messages of far channels: each comes
// once, whole and in order, whatever the network does; one of a channel is under way, whoever reads or not;
// when a rank begins again nothing of before is ever read; frames that are not due are refused.
#include "comm_help.h"

#include "comm/channel.h"
#include "comm/inproc.h"
#include "learners/bridges.h"
#include "ps/part_forms.h"

enum { RANKS = 3, EACH = 2, MOST = RANKS * (RANKS - 1) * EACH, OPS = 20000, SEEDS = 24, FIRST_RANK = 1 };

static const mu_peers_terms patient = {
    .heartbeat_ns = 1000000000, .lost_ns = 600000000000, .begin_ns = 600000000000};

typedef struct message { int64_t beginning, number; } message; // and bytes that follow from these

typedef struct end { // of a channel, as its worker sees it
    mu_channel *c;
    mu_channel_terms *terms;
    void *memory;
    int64_t done; // messages written, or read, since the last beginning
    const void *reads; // a message that is not let go
} end;

// Ranks FIRST_RANK to FIRST_RANK + RANKS - 1 have workers of the learner; those around have other business.
typedef struct world {
    mu_inproc *net;
    int64_t now_ns, channel_bytes[2 * MOST];
    int from[MOST], to[MOST];
    mu_part_forms forms;
    mu_channel_terms terms;
    mu_bell bell;
    struct rank {
        struct world *w;
        int rank;
        mu_nodes *nodes;
        mu_bridges bridges;
        end writer[MOST], reader[MOST];
        bool runs; // its workers do
        int beginnings;
    } rank[FIRST_RANK + RANKS + 1];
    uint64_t chance;
} world;

static uint32_t draw(world *w, uint32_t n) {
    w->chance = w->chance * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->chance >> 33) % n;
}

// ---- making it ----

static end make_end(world *w, int k) {
    const size_t size = (mu_channel_memory_size((size_t)w->channel_bytes[k]) + 63) / 64 * 64;
    end e = {.memory = aligned_alloc(64, size), .terms = &w->terms};
    assert_non_null(e.memory);
    memset(e.memory, 0, size);
    const size_t bytes = (size_t)w->channel_bytes[k];
    assert_ok(mu_channel_open_far("far", bytes, e.terms, e.memory, &w->bell, &e.c, err));
    return e;
}

static mu_status take(void *ctx, int peer, const mu_wire *f, MU_UNUSED bool *later, mu_err *err) {
    struct rank *r = ctx;
    bool begins;
    if (f->type == MU_WIRE_BRIDGE) return mu_bridges_take(&r->bridges, peer, &f->bridge, err);
    if (f->type != MU_WIRE_LOST) return MU_FAIL(err, MU_EDATA, "a frame of another type");
    MU_TRY(mu_bridges_take_lost(&r->bridges, peer, &f->lost, &begins, err));
    if (begins) {
        for (int k = 0; k < MOST; k++) r->reader[k].done = r->writer[k].done = 0, r->reader[k].reads = NULL;
        r->beginnings++;
        MU_TRY(mu_bridges_follow(&r->bridges, peer, err));
    }
    r->runs = mu_bridges_all_told(&r->bridges);
    return MU_OK;
}

static void make_rank(world *w, int i, int n) {
    struct rank *r = &w->rank[i];
    const mu_transport_opts o = {.net = w->net, .rank = i};
    mu_far far[MOST];
    mu_bridges_opts b = {.forms = &w->forms, .first = FIRST_RANK, .n = RANKS, .far = far};
    *r = (struct rank){.w = w, .rank = i, .runs = true};
    assert_ok(mu_nodes_open("inproc", &o, &patient, &r->nodes, err));
    assert_int_equal(r->nodes->n, n);
    mu_part_forms_shape(&w->forms, &r->nodes->shape);
    r->nodes->shape.workers = 0;
    r->nodes->shape.layout = mu_wire_layout_hash(&r->nodes->shape);
    for (int k = 0; k < MOST; k++) {
        if (w->from[k] != i && w->to[k] != i) continue;
        end *e = w->from[k] == i ? &r->writer[k] : &r->reader[k];
        *e = make_end(w, k);
        far[b.n_far++] = (mu_far){.number = k,
                                  .peer = w->from[k] == i ? w->to[k] : w->from[k],
                                  .goes = w->from[k] == i,
                                  .memory = e->memory,
                                  .bytes = (size_t)w->channel_bytes[k]};
    }
    b.nodes = r->nodes;
    assert_ok(mu_bridges_init(&r->bridges, &b, err));
    r->nodes->take = take;
    r->nodes->ctx = r;
}

static world *make(uint64_t seed) {
    const int n = FIRST_RANK + RANKS + 1;
    world *w = calloc(1, sizeof *w);
    int k = 0;
    assert_non_null(w);
    assert_ok(mu_inproc_create(n, seed, &w->net, err));
    for (int p = FIRST_RANK; p < FIRST_RANK + RANKS; p++)
        for (int q = FIRST_RANK; q < FIRST_RANK + RANKS; q++)
            for (int e = 0; e < EACH && p != q; e++, k++) {
                w->from[k] = p, w->to[k] = q;
                w->channel_bytes[k] = e ? 9000 : (int64_t)sizeof(message);
            }
    w->forms = (mu_part_forms){.channels = 2 * MOST, .channel_bytes = w->channel_bytes};
    w->terms.limit_ns = 20 * MS;
    w->chance = seed + 1;
    for (int i = 0; i < n; i++) make_rank(w, i, n);
    return w;
}

static void unmake(world *w) {
    const int n = FIRST_RANK + RANKS + 1;
    for (int i = 0; i < n; i++) {
        struct rank *r = &w->rank[i];
        for (int k = 0; k < MOST; k++) {
            mu_channel_close(r->writer[k].c), free(r->writer[k].memory);
            mu_channel_close(r->reader[k].c), free(r->reader[k].memory);
        }
        mu_bridges_fini(&r->bridges);
        r->nodes->t->class->close(r->nodes->t);
        mu_nodes_destroy(r->nodes);
    }
    mu_inproc_destroy(w->net);
    free(w);
}

// ---- what happens ----

static void look(struct rank *r) {
    bool moved = false;
    assert_ok(mu_nodes_look(r->nodes, err));
    assert_ok(mu_bridges_look(&r->bridges, &moved, err));
}

static void look_all(world *w, int times) {
    for (int k = 0; k < times; k++)
        for (int i = FIRST_RANK; i < FIRST_RANK + RANKS; i++) look(&w->rank[i]);
}

static void fill(unsigned char *to, const message *m, size_t bytes) {
    memcpy(to, m, sizeof *m);
    for (size_t i = sizeof *m; i < bytes; i++)
        to[i] = (unsigned char)(i * 7 + (size_t)m->number * 31 + (size_t)m->beginning);
}

// False: a writer would have to wait.
static bool write_one(struct rank *r, int k) {
    end *e = &r->writer[k];
    void *to;
    if (!mu_channel_room(e->memory)) return false;
    assert_ok(e->c->class->place(e->c, &to, err));
    fill(to, &(message){r->beginnings, e->done++}, e->c->bytes);
    e->c->class->send(e->c);
    return true;
}

static bool read_one(struct rank *r, int k) {
    end *e = &r->reader[k];
    unsigned char want[9000];
    if (e->reads || !mu_channel_peek(e->memory)) return false;
    assert_ok(e->c->class->receive(e->c, &e->reads, err));
    fill(want, &(message){r->beginnings, e->done++}, e->c->bytes);
    const message *m = e->reads;
    if (memcmp(e->reads, want, e->c->bytes) != 0)
        fail_msg("channel %d: message %ld of beginning %ld, or bytes of it; due was %ld of %d", k,
                 (long)m->number, (long)m->beginning, (long)e->done - 1, r->beginnings);
    return true;
}

static bool let_go(struct rank *r, int k) {
    end *e = &r->reader[k];
    if (!e->reads) return false;
    const void *now = mu_channel_peek(e->memory);
    assert_ptr_equal(now, e->reads); // nobody has written it meanwhile
    e->c->class->release(e->c);
    e->reads = NULL;
    return true;
}

static void begin_again(struct rank *r) {
    for (int k = 0; k < MOST; k++) r->reader[k].done = r->writer[k].done = 0, r->reader[k].reads = NULL;
    r->beginnings++;
    assert_ok(mu_bridges_begin_again(&r->bridges, err));
    r->runs = mu_bridges_all_told(&r->bridges);
}

static void any_op(world *w, bool dies) {
    struct rank *r = &w->rank[FIRST_RANK + (int)draw(w, RANKS)];
    const int k = (int)draw(w, MOST);
    const bool writes = w->from[k] == r->rank, reads = w->to[k] == r->rank;
    switch (draw(w, 6)) {
    case 0:
        if (writes && r->runs) (void)write_one(r, k);
        break;
    case 1:
        if (reads && r->runs) (void)read_one(r, k);
        break;
    case 2:
        if (reads) (void)let_go(r, k);
        break;
    case 3:
        if (dies && !draw(w, 40)) begin_again(r);
        break;
    case 4:
        w->now_ns += draw(w, 200000);
        mu_inproc_set_time(w->net, w->now_ns);
        break;
    default:
        look(r);
    }
}

// Everything that was written is read.
static void drain(world *w) {
    bool moved = true;
    for (int rest = 50; rest > 0; rest = moved ? 50 : rest - 1) {
        moved = false;
        w->now_ns += 1000000;
        mu_inproc_set_time(w->net, w->now_ns);
        look_all(w, 1);
        for (int k = 0; k < MOST; k++) {
            struct rank *to = &w->rank[w->to[k]];
            moved |= let_go(to, k);
            if (to->runs) moved |= read_one(to, k);
        }
    }
    for (int k = 0; k < MOST; k++) {
        assert_true(w->rank[w->from[k]].runs && w->rank[w->to[k]].runs);
        assert_int_equal(w->rank[w->to[k]].reader[k].done, w->rank[w->from[k]].writer[k].done);
    }
}

static void go(uint64_t seed, bool dies) {
    world *w = make(seed);
    const mu_inproc_way way = {.delay_ns = 50000, .jitter_ns = 300000};
    int64_t total = 0;
    mu_inproc_set_way(w->net, -1, -1, &way);
    for (int i = 0; i < OPS; i++) any_op(w, dies && i < OPS * 3 / 4);
    drain(w);
    for (int k = 0; k < MOST; k++) total += w->rank[w->to[k]].reader[k].done;
    assert_true(total > 20);
    int64_t sent = 0, received = 0;
    for (int i = FIRST_RANK; i < FIRST_RANK + RANKS; i++) {
        sent += w->rank[i].bridges.sent, received += w->rank[i].bridges.received;
        assert_int_equal(w->rank[i].beginnings, w->rank[FIRST_RANK].beginnings);
        assert_true(dies || !w->rank[i].beginnings);
    }
    assert_true(dies ? sent >= received : sent == received);
    unmake(w);
}

static void in_order(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) go(seed, false);
}

static void beginning_again(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) go(100 + seed, true);
}

// ---- one of a channel is under way ----

static void back_pressure(void **state) {
    (void)state;
    world *w = make(7);
    struct rank *from = &w->rank[w->from[0]], *to = &w->rank[w->to[0]];
    int written = 0;
    void *at;
    for (int i = 0; i < 20; i++) {
        written += write_one(from, 0);
        look_all(w, 3);
    }
    // One with the reader's rank, whose reader does not come; one waits to be sent.
    assert_int_equal(written, 2);
    assert_int_equal(from->bridges.sent, from->writer[0].c->bytes);
    assert_fails(from->writer[0].c->class->place(from->writer[0].c, &at, err), MU_EBACKEND, "`far` waited");
    atomic_store(&w->terms.given_up, true);
    w->terms.limit_ns = 60000 * MS;
    assert_fails(from->writer[0].c->class->place(from->writer[0].c, &at, err), MU_EBACKEND, "another worker");
    atomic_store(&w->terms.given_up, false);
    assert_true(read_one(to, 0));
    look_all(w, 3);
    assert_false(write_one(from, 0)); // it is being read
    assert_true(let_go(to, 0));
    const uint32_t rung = mu_bell_read(&w->bell);
    look_all(w, 5);
    assert_true(write_one(from, 0));
    assert_true(mu_bell_read(&w->bell) != rung); // the parent is told
    assert_int_equal(from->bridges.sent, 2 * from->writer[0].c->bytes);
    drain(w);
    unmake(w);
}

// ---- frames that are not due ----

static void refused(void **state) {
    (void)state;
    static const char bytes[9000];
    enum { AWAY = -1 };
    const struct { int by, channel; int64_t number; bool ack; } wrong[] = {
        {1, 0, 1, false},               // the second before the first
        {2, 0, 0, false},               // another rank's channel
        {0, 0, 0, false}, {4, 0, 0, false}, // ranks without workers of the learner
        {1, 0, 0, true},                // nothing was sent that could be let go
        {1, AWAY, 0, false},            // a channel of which the reader is elsewhere
    };
    for (size_t i = 0; i < MU_COUNT(wrong); i++) {
        world *w = make(i);
        const int k = 0; // from rank 1 to 2
        assert_int_equal(w->from[k], FIRST_RANK);
        struct rank *to = &w->rank[w->to[k]];
        int away = 0;
        while (w->from[away] != FIRST_RANK || w->to[away] == to->rank) away++;
        const int channel = wrong[i].channel == AWAY ? away : k;
        const mu_wire_bridge b = {.channel = channel + (wrong[i].ack ? MOST : 0),
                                  .number = wrong[i].number,
                                  .message = bytes};
        const int by = i == 1 ? 3 : wrong[i].by;
        assert_fails(mu_bridges_take(&to->bridges, by, &b, err), MU_EDATA, "not due");
        unmake(w);
    }
    world *w = make(1);
    struct rank *to = &w->rank[w->to[0]];
    const mu_wire_bridge first = {.channel = 0, .number = 0, .message = bytes};
    const mu_wire_bridge second = {.channel = 0, .number = 1, .message = bytes};
    mu_wire_lost lost = {.learner = 0, .rank = 1, .incarnation = 1};
    bool begins;
    assert_ok(mu_bridges_take(&to->bridges, 1, &first, err));
    assert_fails(mu_bridges_take(&to->bridges, 1, &second, err), MU_EDATA, "not due"); // is not read
    assert_fails(mu_bridges_take_lost(&to->bridges, 0, &lost, &begins, err), MU_EDATA, "cannot be");
    lost.incarnation = 2;
    assert_fails(mu_bridges_take_lost(&to->bridges, 1, &lost, &begins, err), MU_EDATA, "cannot be");
    lost.incarnation = 1, lost.rank = 0;
    assert_fails(mu_bridges_take_lost(&to->bridges, 1, &lost, &begins, err), MU_EDATA, "cannot be");
    lost.rank = 1, lost.learner = 1;
    assert_fails(mu_bridges_take_lost(&to->bridges, 1, &lost, &begins, err), MU_EDATA, "cannot be");
    lost.learner = 0; // of a beginning that this rank has not told of yet: nobody may send
    assert_ok(mu_bridges_take_lost(&to->bridges, 1, &lost, &begins, err));
    assert_true(begins && !mu_bridges_all_told(&to->bridges));
    assert_fails(mu_bridges_take(&to->bridges, 1, &first, err), MU_EDATA, "not due");
    unmake(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order), cmocka_unit_test(beginning_again), cmocka_unit_test(back_pressure),
        cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
