// SPDX-License-Identifier: Apache-2.0
// test_net_auto.c - what a partition moves, and the choice of the cheapest one.
//
// Random nets, and one of each kind of gradient. What is predicted of a random assignment is what its nets
// send: bytes of bridges that were made, and gradients as a step left them in the workers' parameters. The
// choice is compared with all assignments of nets of up to 10 layers, under prices drawn at random.
// MUSTER_SEED draws others, MUSTER_NETS is their number.
#include "group_help.h"

#include "net/partition_auto.h"
#include "net/partition_explain.h"
#include "ps/message.h"

#include <inttypes.h>

static uint64_t seed = 20;
static int n_nets = 30;
static uint64_t n_drawn;

static int roll(int below) { return (int)draw(seed, ++n_drawn, (uint32_t)below); }

// ---- random nets: images, vectors, branches, shared parameters ----

enum { TEXT = 160 };

typedef struct output {
    char name[8];
    int c, side; // side 0: a vector of c
} output;

static char layer_text[LAYERS][TEXT];

typedef struct random_net {
    subject s;
    output out[LAYERS];
    int n;
} random_net;

static output *new_layer(random_net *r, output like) {
    output *o = &r->out[r->n];
    *o = like;
    snprintf(o->name, sizeof o->name, "l%d", r->n);
    r->s.layer[r->n] = layer_text[r->n];
    r->n++;
    return o;
}

static void add_image_layer(random_net *r, output from) {
    static const char *const same[] = {"relu", "tanh", "dropout", "batch_norm", "lrn"};
    const int kind = roll(9);
    output *o = new_layer(r, from);
    char *text = layer_text[r->n - 1];
    if (kind < 5) {
        snprintf(text, TEXT, "{name: %s, type: %s, src: %s", o->name, same[kind], from.name);
    } else if (kind == 5 && from.side >= 4) {
        snprintf(text, TEXT, "{name: %s, type: pooling, kernel: 2, src: %s", o->name, from.name);
        o->side /= 2;
    } else if (kind == 6) {
        o->c = 4 + roll(20);
        o->side = 0;
        snprintf(text, TEXT, "{name: %s, type: inner_product, outputs: %d, src: %s", o->name, o->c,
                 from.name);
    } else {
        o->c = 3 + roll(6);
        snprintf(text, TEXT, "{name: %s, type: convolution, kernel: 3, pad: 1, filters: %d, src: %s", o->name,
                 o->c, from.name);
    }
}

static void add_vector_layer(random_net *r, output from, output other) {
    const int kind = roll(7);
    output *o = new_layer(r, from);
    char *text = layer_text[r->n - 1];
    if (kind < 2) {
        snprintf(text, TEXT, "{name: %s, type: %s, src: %s", o->name, kind ? "sigmoid" : "batch_norm",
                 from.name);
    } else if (kind == 2 && other.side == 0 && strcmp(other.name, from.name)) {
        const bool add = other.c == from.c;
        snprintf(text, TEXT, "{name: %s, type: %s, src: [%s, %s]", o->name, add ? "add" : "concat", from.name,
                 other.name);
        if (!add) o->c += other.c;
    } else if (kind == 3 && from.c == 8) {
        snprintf(text, TEXT, "{name: %s, type: inner_product, outputs: 8, weight: {name: tied}, src: %s",
                 o->name, from.name);
    } else {
        static const int sizes[] = {8, 8, 7, 40};
        o->c = sizes[roll(4)];
        snprintf(text, TEXT, "{name: %s, type: inner_product, outputs: %d, src: %s", o->name, o->c,
                 from.name);
    }
}

static void finish_net(random_net *r) {
    snprintf(layer_text[r->n], TEXT, "{name: end, type: inner_product, outputs: 5, src: l%d", r->n - 1);
    r->s.layer[r->n] = layer_text[r->n];
    r->n++;
    snprintf(layer_text[r->n], TEXT, "{name: loss, type: softmax_loss, src: [end, data.label]");
    r->s.layer[r->n] = layer_text[r->n];
    r->n++;
}

static void draw_net(random_net *r, int layers) {
    *r = (random_net){.s = {"random", "bp", {0}, {NULL}}};
    const output data = {"D", 2, 8};
    while (r->n < layers - 2) {
        output from = data, other = data;
        if (r->n) from = r->out[r->n - 1 - roll(r->n < 3 ? r->n : 3)], other = r->out[roll(r->n)];
        if (from.side) add_image_layer(r, from);
        else add_vector_layer(r, from, other);
    }
    finish_net(r);
    for (int i = 0; i < r->n; i++) { // the data has a dot in its name
        char *d = strstr(layer_text[i], "src: D");
        if (d) memcpy(d, "src: data.image", sizeof "src: data.image");
    }
}

static const subject kinds[] = {
    {"factors", // of the first two layers, by batch and whole
     "bp",
     {0},
     {"{name: fc1, type: inner_product, src: data.image, outputs: 90", "{name: act, type: relu",
      "{name: fc2, type: inner_product, outputs: 70",
      "{name: frozen, type: inner_product, outputs: 30, "
      "weight: {lr: 0}, bias: {lr: 0}",
      "{name: fc3, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc3, data.label]"}},
    {"unrolled",
     "bptt",
     {0},
     {"{name: word, type: embedding, src: data.words, dim: 7, unroll: 6",
      "{name: gru, type: gru_cell, hidden: 8, unroll: 6, src: [word, {layer: gru, shift: 1}, "
      "{layer: data.begin, connect: one_to_all}]",
      "{name: drop, type: dropout, ratio: 0.2, src: gru, unroll: 6",
      "{name: out, type: inner_product, outputs: 9, unroll: 6",
      "{name: loss, type: softmax_loss, src: [out, data.next], unroll: 6"}},
    {"gathered",
     "bp",
     {0},
     {"{name: word, type: embedding, src: data.words, dim: 30, vocab: 100",
      "{name: conv, type: sentence_convolution, widths: [2, 3], filters: 60", "{name: drop, type: dropout",
      "{name: fc, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc, data.label]"}},
    {"tied",
     "bp",
     {0},
     {"{name: flat, type: flatten, src: data.image", "{name: enc, type: inner_product, outputs: 12",
      "{name: code, type: sigmoid",
      "{name: dec, type: inner_product, outputs: 128, transpose: true, weight: {name: enc.weight}",
      "{name: loss, type: sigmoid_loss, src: [dec, flat]"}},
    {"contrast",
     "cd",
     {.k = 2, .persistent = true, .chains = ROWS},
     {"{name: low, type: rbm, src: data.image, hidden: 300", "{name: high, type: rbm, hidden: 9"}},
};

// ---- a net and its choices ----

typedef struct trial {
    model m;
    mu_partition p; // just the arena
    mu_partition_opts o;
    mu_partitioner pr;
    mu_chooser *c;
} trial;

static void open_trial(trial *t, const subject *s, const mu_partition_opts *o) {
    char text[8192];
    mu_err err = {0};
    memset(t, 0, sizeof *t);
    write_job(text, sizeof text, s, NULL);
    open_model(&t->m, text);
    check(&t->m, shape_model(&t->m, s, &err), &err);
    t->o = *o;
    t->o.whole = t->m.net;
    t->o.split = MU_SPLIT_AUTO;
    mu_arena_init(&t->p.arena, "test");
    t->p.whole = t->m.net;
    t->p.workers = t->o.workers;
    t->pr = (mu_partitioner){.p = &t->p, .o = &t->o, .b = &t->m.b};
    check(&t->m, mu_partition_decide(&t->pr, &err), &err);
    check(&t->m, mu_chooser_open(&t->pr, &t->c, &err), &err);
    check(&t->m, mu_chooser_solve(t->c, &err), &err);
}

static void close_trial(trial *t) {
    mu_chooser_close(t->c);
    mu_arena_fini(&t->p.arena);
    mu_net_destroy(t->m.net);
    mu_job_destroy(t->m.job);
}

static void draw_ways(trial *t, uint8_t *option) {
    do {
        for (int v = 0; v < t->c->n; v++) option[v] = (uint8_t)roll(t->c->choice[v].n);
    } while (mu_chooser_price(t->c, option, -1) >= MU_PRICE_NEVER);
}

static void write_ways(const trial *t, const subject *s, const uint8_t *option, char *text, size_t size) {
    char how[LAYERS][64] = {{0}};
    for (int v = 0; v < t->c->n; v++) {
        const mu_option *o = &t->c->choice[v].option[option[v]];
        const char *name = mu_layer_job_name(t->c->choice[v].layer);
        for (int i = 0; s->layer[i]; i++) {
            const size_t n = strlen(name);
            if (strncmp(s->layer[i] + 7, name, n) || s->layer[i][7 + n] != ',') continue;
            if (o->grid.batch * o->grid.feature == 1)
                snprintf(how[i], sizeof how[i], ", partition: none, location: %d", o->location);
            else
                snprintf(how[i], sizeof how[i], ", partition: {batch: %d, feature: %d}", o->grid.batch,
                         o->grid.feature);
        }
    }
    write_job(text, size, s, how);
}

// ---- what was sent ----

// Values of the message that a step left in a parameter, in bytes. *rows: of the weights that it changes.
static int64_t sent_bytes(const mu_param *p, bool dense, int64_t *rows) {
    const int64_t n = mu_param_rows(p), cols = (int64_t)p->count / n;
    const mu_grad *g = &p->grad;
    *rows = n;
    if (p->is_stat) return n * cols * 4;
    if (g->form != MU_GRAD_NONE && dense) return n * cols * 4;
    switch (g->form) {
    case MU_GRAD_NONE:
        *rows = 0;
        return 0;
    case MU_GRAD_FACTORS:
        return g->batch * (cols + n) * 4;
    case MU_GRAD_GATHERED:
        return (g->n_x * cols + 2 * g->batch * n) * 4;
    case MU_GRAD_ROWS:
        *rows = g->n_rows;
        return g->n_rows * (1 + cols) * 4;
    default:
        return n * cols * 4;
    }
}

static mu_traffic sent_of_piece(const group *g, const mu_piece *piece, const mu_traffic_opts *o) {
    int64_t holders = 0, sent = 0, first = 0, named = 0, rows = 0, cols = 0;
    for (int w = 0; w < g->p->workers; w++) {
        const mu_param *q = found_piece(g, w, piece);
        if (!q) continue;
        const int64_t bytes = sent_bytes(q, o->dense, &rows);
        if (!holders) first = bytes;
        holders++;
        sent += bytes;
        named += rows;
        cols = (int64_t)q->count / mu_param_rows(q);
    }
    const int64_t learners = o->learners ? o->learners : 1;
    mu_traffic t = {0};
    if (holders * learners < 2) return t;
    named = named * learners < piece->rows ? named * learners : piece->rows;
    t.gradients = sent * learners - (o->apart ? 0 : first);
    if (piece->whole->is_stat || piece->whole->lr_mult > 0)
        t.weights = (holders * learners - !o->apart) * named * cols * 4;
    return t;
}

static mu_traffic sent_by(const group *g, const mu_traffic_opts *o) {
    mu_traffic all = {0};
    for (int i = 0; i < g->p->n_bridges; i++) {
        all.values += (int64_t)(g->forward[i]->sent * g->forward[i]->bytes);
        if (g->back[i]) all.values += (int64_t)(g->back[i]->sent * g->back[i]->bytes);
    }
    all.values *= o->learners ? o->learners : 1;
    for (int i = 0; i < g->p->n_pieces; i++) {
        const mu_traffic t = sent_of_piece(g, &g->p->piece[i], o);
        all.gradients += t.gradients;
        all.weights += t.weights;
    }
    return all;
}

static void same_traffic(const char *net, const char *what, const mu_traffic *a, const mu_traffic *b,
                         const char *text) {
    if (a->values == b->values && a->gradients == b->gradients && a->weights == b->weights) return;
    fail_msg("seed %" PRIu64 ", %s: %s %" PRId64 " + %" PRId64 " + %" PRId64 ", sent %" PRId64 " + %" PRId64
             " + %" PRId64 "\n%s",
             seed, net, what, a->values, a->gradients, a->weights, b->values, b->gradients, b->weights, text);
}

// The layouts of messages have room for the form that was counted.
static void check_layouts(const group *g) {
    for (int w = 0; w < g->p->workers; w++) {
        mu_message_layout layout;
        mu_err err = {0};
        const mu_params *ps = g->net[w]->params;
        assert_int_equal(mu_message_layout_make(ps, &layout, &err), MU_OK);
        for (int i = 0; i < ps->n; i++)
            if (ps->list[i]->grad.form != MU_GRAD_NONE && !ps->list[i]->is_stat)
                assert_int_equal(layout.part[i].form, ps->list[i]->grad.form);
        mu_message_layout_fini(&layout);
    }
}

static uint32_t forms_seen;

static void note_forms(const group *g) {
    for (int w = 0; w < g->p->workers; w++)
        for (int i = 0; i < g->net[w]->params->n; i++)
            forms_seen |= (uint32_t)1 << g->net[w]->params->list[i]->grad.form;
}

static void compare_with_step(const subject *s, int workers) {
    static char text[8192];
    uint8_t option[LAYERS];
    trial t;
    group g;
    const mu_traffic_opts o = {.learners = roll(3), .apart = roll(2), .dense = roll(3) == 0};
    open_trial(&t, s, &(mu_partition_opts){.workers = workers, .traffic = o});
    draw_ways(&t, option);
    write_ways(&t, s, option, text, sizeof text);
    open_group(&g, s, text, workers, NONE);
    make_batch(0);
    for (int w = 0; w < workers; w++) set_batch(g.net[w]);
    step_by_threads(&g, s, 0);
    const mu_traffic sent = sent_by(&g, &o), known = mu_partition_traffic(g.p, &o);
    const mu_cut_load told = mu_chooser_load(t.c, option, -1, &o);
    same_traffic(s->name, "of the partition", &known, &sent, text);
    same_traffic(s->name, "told", &told.moved, &sent, text);
    check_layouts(&g);
    note_forms(&g);
    close_group(&g);
    close_trial(&t);
}

static void what_is_counted_is_what_is_sent(void **state) {
    (void)state;
    for (int i = 0; i < n_nets; i++) {
        random_net r;
        draw_net(&r, 4 + roll(9));
        compare_with_step(&r.s, 2 + roll(3));
    }
    for (size_t k = 0; k < MU_COUNT(kinds); k++)
        for (int i = 0; i < 6; i++) compare_with_step(&kinds[k], 2 + i % 3);
    assert_int_equal(forms_seen, 1 << MU_GRAD_NONE | 1 << MU_GRAD_DENSE | 1 << MU_GRAD_ROWS |
                                     1 << MU_GRAD_FACTORS | 1 << MU_GRAD_GATHERED);
}

// ---- the choice ----

typedef struct random_price {
    int64_t values, gradients, weights, flops;
} random_price;

static int64_t price_at_random(const void *ctx, const mu_cut_load *l) {
    const random_price *r = ctx;
    return l->moved.values * r->values + l->moved.gradients * r->gradients + l->moved.weights * r->weights +
           (int64_t)l->idle * r->flops / 8;
}

static bool next_way(const mu_chooser *c, uint8_t *option) {
    for (int v = 0; v < c->n; v++) {
        if (++option[v] < c->choice[v].n) return true;
        option[v] = 0;
    }
    return false;
}

static int rank_of(const mu_chooser *c, const uint8_t *option) {
    int rank = 0;
    for (int v = 0; v < c->n; v++) rank += option[v];
    return rank;
}

static void compare_with_all(const subject *s, const mu_partition_opts *o) {
    trial t;
    uint8_t option[LAYERS] = {0};
    int64_t least = INT64_MAX;
    int rank = 0;
    open_trial(&t, s, o);
    do {
        const int64_t price = mu_chooser_price(t.c, option, -1);
        const int own = rank_of(t.c, option);
        if (price < least || (price == least && own < rank)) least = price, rank = own;
    } while (next_way(t.c, option));
    const int64_t found = mu_chooser_price(t.c, t.c->best, -1);
    if (found != least || rank_of(t.c, t.c->best) != rank) {
        for (int i = 0; s->layer[i]; i++) fprintf(stderr, "- %s}\n", s->layer[i]);
        fail_msg("seed %" PRIu64 ", %d workers: found %" PRId64 " (%d), the least is %" PRId64 " (%d)", seed,
                 o->workers, found, rank_of(t.c, t.c->best), least, rank);
    }
    assert_true(t.c->exact);
    close_trial(&t);
}

static void no_assignment_is_cheaper(void **state) {
    (void)state;
    for (int i = 0; i < n_nets; i++) {
        random_net r;
        const int workers = 2 + roll(3);
        const random_price price = {roll(3), roll(3), roll(2), roll(3)};
        mu_partition_opts o = {.workers = workers, .traffic = {.learners = roll(3), .dense = roll(2)}};
        if (i % 3) o.pricing = (mu_pricing){price_at_random, &price};
        draw_net(&r, 4 + roll(workers == 4 ? 5 : 7));
        compare_with_all(&r.s, &o);
    }
    for (size_t k = 0; k < MU_COUNT(kinds); k++)
        compare_with_all(&kinds[k], &(mu_partition_opts){.workers = 2 + (int)k % 3});
}

// The partition that is made is the one that was chosen, and cuts nothing that may not be cut.
static void the_choice_can_be_made(void **state) {
    (void)state;
    for (int i = 0; i < n_nets; i++) {
        random_net r;
        trial t;
        mu_partition *p = NULL;
        mu_err err = {0};
        draw_net(&r, 4 + roll(9));
        const mu_partition_opts o = {.workers = 2 + roll(3)};
        open_trial(&t, &r.s, &o);
        check(&t.m, mu_partition_create(&t.m.b, &t.o, &p, &err), &err);
        const mu_traffic made = mu_partition_traffic(p, &o.traffic);
        const mu_cut_load told = mu_chooser_load(t.c, t.c->best, -1, &o.traffic);
        same_traffic("random", "told", &told.moved, &made, "");
        for (int k = 1; k < t.m.net->n_layers; k++) {
            const mu_layer *l = t.m.net->layer[k];
            const mu_cut_rules rules = mu_layer_cut_rules(l);
            if (!(rules.cuts & MU_CUT_BATCH)) assert_true(p->grid[k].batch <= 1);
            if (!(rules.cuts & MU_CUT_FEATURE)) assert_true(p->grid[k].feature <= 1);
        }
        for (int w = 0; w < o.workers; w++) {
            mu_net *net = NULL;
            check(&t.m, mu_partition_net(&t.m.b, p, w, &net, &err), &err);
            mu_net_destroy(net);
        }
        mu_partition_destroy(p);
        close_trial(&t);
    }
}

// More branches than can be tried in all ways: what is found is good, not known to be the best, and says so.
static void many_branches(void **state) {
    (void)state;
    random_net r = {.s = {"branches", "bp", {0}, {NULL}}};
    trial t;
    uint8_t option[LAYERS] = {0};
    char all[TEXT] = "";
    for (; r.n < 12; r.n++) {
        snprintf(layer_text[r.n], TEXT, "{name: l%d, type: inner_product, src: data.image, outputs: %d", r.n,
                 20 + r.n);
        r.s.layer[r.n] = layer_text[r.n];
        snprintf(all + strlen(all), TEXT - strlen(all), "%sl%d", r.n ? ", " : "", r.n);
    }
    snprintf(layer_text[r.n], TEXT, "{name: l12, type: concat, src: [%s]", all);
    r.s.layer[r.n] = layer_text[r.n];
    r.n++;
    finish_net(&r);
    open_trial(&t, &r.s, &(mu_partition_opts){.workers = 4});
    assert_false(t.c->exact);
    const int64_t found = mu_chooser_price(t.c, t.c->best, -1);
    assert_true(found <= mu_chooser_price(t.c, option, -1)); // all by batch
    close_trial(&t);
}

// ---- by hand ----

static const subject big = {
    "big",
    "bp",
    {0},
    {"{name: c1, type: convolution, src: data.image, filters: 64, kernel: 3, pad: 1", "{name: r1, type: relu",
     "{name: c2, type: convolution, filters: 64, kernel: 3, pad: 1",
     "{name: fc1, type: inner_product, outputs: 500", "{name: fc2, type: inner_product, outputs: 5",
     "{name: loss, type: softmax_loss, src: [fc2, data.label]"}};

static int64_t bytes_alone(MU_UNUSED const void *ctx, const mu_cut_load *l) {
    return mu_traffic_sum(&l->moved);
}

static const mu_option *chosen(const trial *t, const char *name) {
    for (int v = 0; v < t->c->n; v++)
        if (!strcmp(t->c->choice[v].layer->name, name)) return &t->c->choice[v].option[t->c->best[v]];
    fail_msg("no layer %s", name);
    return NULL;
}

// Bytes alone would leave all work to one worker; what its idle partners could do decides against that.
static void work_is_shared(void **state) {
    (void)state;
    trial t;
    open_trial(&t, &big, &(mu_partition_opts){.workers = 4, .pricing = {bytes_alone, NULL}});
    assert_int_equal(mu_chooser_price(t.c, t.c->best, -1), 0);
    assert_int_equal(chosen(&t, "c2")->grid.batch * chosen(&t, "c2")->grid.feature, 1);
    close_trial(&t);
    open_trial(&t, &big, &(mu_partition_opts){.workers = 4});
    assert_int_equal(chosen(&t, "c1")->grid.batch * chosen(&t, "c1")->grid.feature, 4);
    assert_int_equal(chosen(&t, "c2")->grid.batch * chosen(&t, "c2")->grid.feature, 4);
    assert_int_equal(chosen(&t, "fc1")->grid.feature, 4);
    close_trial(&t);
}

// 2PN of SPEC B5, less the share that is at hand: 2P(N - 1) values.
static void closed_forms(void **state) {
    (void)state;
    static const subject s = {
        "closed",
        "bp",
        {0},
        {"{name: fc1, type: inner_product, src: data.image, outputs: 40, bias_term: false",
         "{name: fc2, type: inner_product, outputs: 20, bias_term: false",
         "{name: loss, type: softmax_loss, src: [fc2, data.label]"}};
    const int64_t p = 128 * 40 + 40 * 20, n = 4;
    trial t;
    open_trial(&t, &s, &(mu_partition_opts){.workers = (int)n, .traffic = {.dense = true}});
    uint8_t option[3] = {0}; // by batch
    mu_traffic_opts o = {.dense = true};
    mu_cut_load l = mu_chooser_load(t.c, option, -1, &o);
    assert_int_equal(mu_traffic_sum(&l.moved), 2 * p * (n - 1) * 4);
    o.apart = true;
    l = mu_chooser_load(t.c, option, -1, &o);
    assert_int_equal(mu_traffic_sum(&l.moved), 2 * p * n * 4);
    o.learners = 3;
    l = mu_chooser_load(t.c, option, -1, &o);
    assert_int_equal(mu_traffic_sum(&l.moved), 2 * p * n * 3 * 4);
    // 2DNB, less what is at hand: fc2 reads 40 features of every row, the loss by batch 20
    option[0] = option[1] = 1;
    o = (mu_traffic_opts){.dense = true};
    l = mu_chooser_load(t.c, option, -1, &o);
    assert_int_equal(l.moved.gradients + l.moved.weights, 0);
    assert_int_equal(l.moved.values, 2 * 4 * (40 * ROWS * (n - 1) + 20 * ROWS * (n - 1) / n));
    close_trial(&t);
}

static void keys_of_the_job_stand(void **state) {
    (void)state;
    static const subject s = {
        "keys",
        "bp",
        {0},
        {"{name: c1, type: convolution, src: data.image, filters: 64, kernel: 3, partition: feature",
         "{name: r1, type: relu, partition: auto",
         "{name: fc1, type: inner_product, outputs: 50, location: 2",
         "{name: fc2, type: inner_product, outputs: 5, partition: none",
         "{name: loss, type: softmax_loss, src: [fc2, data.label]"}};
    trial t;
    open_trial(&t, &s, &(mu_partition_opts){.workers = 3});
    assert_int_equal(chosen(&t, "c1")->grid.feature, 3);
    assert_int_equal(chosen(&t, "r1")->grid.feature, 3);
    assert_int_equal(chosen(&t, "fc1")->location, 2);
    assert_int_equal(chosen(&t, "fc2")->location, 0);
    close_trial(&t);
}

// Every allocation fails once: an error comes back, and nothing is lost.
static void no_memory(void **state) {
    (void)state;
    trial t;
    mu_status st = MU_ENOMEM;
    open_trial(&t, &big, &(mu_partition_opts){.workers = 3});
    for (int n = 1; st != MU_OK; n++) {
        mu_partition *p = NULL;
        mu_xray *x = NULL;
        mu_err err = {0};
        const uint64_t live = mu_alloc_get_stats().n_live;
        mu_alloc_fail_at(n);
        st = mu_partition_create(&t.m.b, &t.o, &p, &err);
        if (st == MU_OK) st = mu_partition_explain(&t.m.b, &t.o, &x, &err);
        mu_alloc_fail_at(0);
        assert_int_equal(err.status, st);
        assert_true(st == MU_OK || st == MU_ENOMEM);
        mu_xray_destroy(x);
        mu_partition_destroy(p);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        assert_true(n < 1000);
    }
    close_trial(&t);
}

int main(void) {
    if (getenv("MUSTER_SEED")) seed = strtoull(getenv("MUSTER_SEED"), NULL, 10);
    if (getenv("MUSTER_NETS")) n_nets = atoi(getenv("MUSTER_NETS"));
    printf("seed %" PRIu64 "\n", seed);
    describe_data();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_counted_is_what_is_sent),
        cmocka_unit_test(no_assignment_is_cheaper),
        cmocka_unit_test(the_choice_can_be_made),
        cmocka_unit_test(many_branches),
        cmocka_unit_test(work_is_shared),
        cmocka_unit_test(closed_forms),
        cmocka_unit_test(keys_of_the_job_stand),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
