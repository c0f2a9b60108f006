// SPDX-License-Identifier: Apache-2.0
// test_net_traffic.c - what a partition moves in a step (net/traffic.h).
//
// What is predicted of a random assignment is what its nets send: bytes of bridges that were made, and
// gradients as a step left them in the workers' parameters.
#include "auto_help.h"

#include "ps/message.h"

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
    const int64_t groups = o->groups ? o->groups : 1; // each moves the same
    mu_traffic t = {0};
    named = named * learners < piece->rows ? named * learners : piece->rows;
    t.gradients = groups * (sent * learners - (o->apart ? 0 : first));
    if (piece->whole->is_stat || piece->whole->lr_mult > 0)
        t.weights = groups * (holders * learners - !o->apart) * named * cols * 4;
    return t;
}

static mu_traffic sent_by(const group *g, const mu_traffic_opts *o) {
    mu_traffic all = {0};
    for (int w = 0; w < g->p->workers; w++) all.values += (int64_t)mu_partition_bytes_sent(g->net[w]);
    all.values *= (o->learners ? o->learners : 1) * (o->groups ? o->groups : 1);
    for (int i = 0; i < g->p->n_pieces; i++) {
        const mu_traffic t = sent_of_piece(g, &g->p->piece[i], o);
        all.gradients += t.gradients;
        all.weights += t.weights;
    }
    return all;
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
    const mu_traffic_opts o = {
        .learners = roll(3), .groups = roll(4), .apart = roll(2), .dense = roll(3) == 0};
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
    o.groups = 2; // two copies of the weights
    const mu_cut_load two = mu_chooser_load(t.c, option, -1, &o);
    assert_int_equal(mu_traffic_sum(&two.moved), 2 * 2 * p * n * 3 * 4);
    assert_true(fabs(two.idle - 2 * l.idle) < l.idle * 1e-9 && fabs(two.largest - l.largest) < l.idle * 1e-9);
    // rows 0-1, 2-4, 5-7, 8-10: the first worker is idle for a row
    const double flops = 2.0 * ROWS * (2 * 128 * 40 + 3 * 40 * 20);
    assert_true(fabs(l.largest - flops * 3 / ROWS) < flops * 1e-3);
    assert_true(fabs(l.idle - flops / ROWS) < flops * 1e-3);
    // 2DNB, less what is at hand: fc2 reads 40 features of every row, the loss by batch 20
    option[0] = option[1] = 1;
    o = (mu_traffic_opts){.dense = true};
    l = mu_chooser_load(t.c, option, -1, &o);
    assert_int_equal(l.moved.gradients + l.moved.weights, 0);
    assert_int_equal(l.moved.values, 2 * 4 * (40 * ROWS * (n - 1) + 20 * ROWS * (n - 1) / n));
    close_trial(&t);
}

int main(void) {
    read_settings();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_counted_is_what_is_sent),
        cmocka_unit_test(closed_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
