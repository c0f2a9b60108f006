// SPDX-License-Identifier: Apache-2.0
// test_net_partition.c - the layers of each worker, their names and order, what travels, and what is refused.
// That split nets learn the same is shown by test_net_group.
#include "group_help.h"

static const subject plain = {"mlp", "bp", {0}, {NULL}};

// ---- what a partition is ----

static void open_text(group *g, const subject *s, const char *layers, int workers) {
    char text[4096];
    snprintf(text, sizeof text,
             "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\n"
             "updater: {type: sgd, rate: 0.1}\nnet:\n%s",
             layers);
    open_group(g, s, text, workers, NONE);
}

#define MLP(fc1, fc2)                                                                                        \
    "- {name: fc1, type: inner_product, src: data.image, outputs: 9, " fc1 "}\n"                             \
    "- {name: act, type: relu, " fc1 "}\n"                                                                   \
    "- {name: fc2, type: inner_product, outputs: 5, " fc2 "}\n"                                              \
    "- {name: loss, type: softmax_loss, src: [fc2, data.label], partition: batch}\n"

static void names_and_order(void **state) {
    (void)state;
    static const char *const want[] = {"0 fc1@0",
                                       "1 fc1@1",
                                       "0 act@0",
                                       "0 bridge(act@0>fc2@1)",
                                       "1 act@1",
                                       "1 bridge(act@1>fc2@0)",
                                       "0 slice(act@0>fc2@0)",
                                       "0 bridge(act@1>fc2@0)",
                                       "0 concat(act>fc2@0)",
                                       "0 fc2@0",
                                       "1 bridge(act@0>fc2@1)",
                                       "1 slice(act@1>fc2@1)",
                                       "1 concat(act>fc2@1)",
                                       "1 fc2@1",
                                       "0 slice(data.label>loss@0)",
                                       "0 loss@0",
                                       "1 slice(data.label>loss@1)",
                                       "1 loss@1"};
    group g;
    open_text(&g, &plain, MLP("partition: feature", "partition: batch"), 2);
    assert_int_equal(g.p->n_layers, MU_COUNT(want));
    for (int i = 0; i < g.p->n_layers; i++) {
        char text[64];
        snprintf(text, sizeof text, "%d %s", g.p->layer[i]->worker, g.p->layer[i]->name);
        assert_string_equal(text, want[i]);
    }
    const mu_param *w = mu_params_find(g.net[1]->params, "fc1.weight@1"), *all = w->whole;
    assert_int_equal(w->row0, 4);
    assert_int_equal(w->shape.d[0], 5);
    assert_int_equal(w->offset, all->offset + 4 * 128);
    assert_ptr_equal(w->value, all->value + 4 * 128);
    assert_non_null(mu_params_find(g.net[1]->params, "fc2.weight")); // by batch: the whole one
    assert_int_equal(g.net[1]->layer[0]->cut.batch.whole, 0);        // fc1 reads all rows
    close_group(&g);
}

static void nothing_travels_between_parts_of_the_batch(void **state) {
    (void)state;
    group g;
    open_text(&g, &plain, MLP("partition: batch", "partition: batch"), 3);
    assert_int_equal(g.p->n_bridges, 0);
    assert_int_equal(mu_partition_bytes(g.p), 0);
    assert_int_equal(g.p->n_layers, 3 * 4); // no slice of the data either: each worker has its rows
    assert_int_equal(g.net[2]->layer[0]->cut.batch.begin, 7);
    close_group(&g);
}

static void every_row_is_in_one_piece(void **state) {
    (void)state;
    group g;
    open_text(&g, &plain, MLP("partition: {batch: 2, feature: 2}", "partition: {feature: 3}"), 4);
    const mu_params *ps = g.m.net->params;
    for (int i = 0; i < ps->n; i++) {
        int64_t rows = 0;
        for (int k = 0; k < g.p->n_pieces; k++)
            rows += g.p->piece[k].whole == ps->list[i] ? g.p->piece[k].rows : 0;
        assert_int_equal(rows, mu_param_rows(ps->list[i]));
    }
    assert_int_equal(g.p->n_pieces, 2 * 2 + 2 * 3);
    assert_int_equal(g.p->piece[0].workers,
                     1 << 0 | 1 << 2); // parts 0 and 2 have the first half of the features
    assert_int_equal(g.p->piece[1].workers, 1 << 1 | 1 << 3);
    // fc1 is with two workers each: one hands over to the other. fc2 is with one.
    assert_int_equal(mu_partition_gradient_bytes(g.p), (9 * 128 + 9) * 4);
    close_group(&g);
}

static int count_parts(const group *g, mu_part_kind kind, int worker) {
    int n = 0;
    for (int i = 0; i < g->p->n_layers; i++)
        n += g->p->layer[i]->kind == kind && (worker < 0 || g->p->layer[i]->worker == worker);
    return n;
}

// A loss and an accuracy at one worker read the same scores: they travel once.
static void readers_share_what_travels(void **state) {
    (void)state;
    group g;
    open_text(&g, &plain,
              "- {name: fc, type: inner_product, src: data.image, outputs: 5}\n"
              "- {name: acc, type: accuracy, src: [fc, data.label], location: 1}\n"
              "- {name: loss, type: softmax_loss, src: [fc, data.label], location: 1}\n",
              2);
    assert_int_equal(g.p->n_bridges, 1);
    assert_true(g.p->bridge[0].gradient); // the loss needs it, the accuracy does not
    assert_string_equal(g.p->bridge[0].name, "bridge(fc>acc)");
    assert_int_equal(g.p->bridge[0].bytes, ROWS * 5 * 4);
    close_group(&g);
}

#define RNN(how)                                                                                             \
    "- {name: word, type: embedding, src: data.words, dim: 7, unroll: 6" how "}\n"                           \
    "- {name: gru, type: gru_cell, hidden: 8, unroll: 6, src: [word, {layer: gru, shift: 1}]" how "}\n"      \
    "- {name: all, type: inner_product, src: {layer: gru, connect: one_to_all}, axis: 2, outputs: 9" how     \
    "}\n"                                                                                                    \
    "- {name: loss, type: softmax_loss, src: [all, data.next]" how "}\n"

// Steps that unrolling has inserted are cut as their readers are, stacks as what they read.
static void inserted_layers_follow_their_neighbours(void **state) {
    (void)state;
    group g;
    open_text(&g, &plain, RNN(", partition: batch"), 3);
    assert_int_equal(g.p->n_bridges, 0);
    assert_int_equal(count_parts(&g, MU_PART_SLICE, -1), 0);
    assert_non_null(mu_net_find(g.net[2], "steps(data.words)@2"));
    const mu_layer *stack = mu_net_find(g.net[1], "stack(gru)@1"), *late = mu_net_find(g.net[1], "gru#5@1");
    assert_non_null(stack);
    assert_true(stack->inserted);
    assert_non_null(late);
    assert_string_equal(mu_net_family(late)->name, "gru#0@1");
    assert_int_equal(late->n_copies, 6);
    close_group(&g);
    open_text(&g, &plain, RNN(", location: 1"), 2);
    assert_int_equal(g.p->n_bridges, 0);
    assert_int_equal(count_parts(&g, MU_PART_LAYER, 0), 0);
    close_group(&g);
}

// What the whole net has noted in its parameters for itself is not the piece's.
static void pieces_begin_afresh(void **state) {
    (void)state;
    group g;
    mu_err err = {0};
    mu_net *net;
    open_text(&g, &plain, MLP("partition: feature", "partition: batch"), 2);
    mu_param *whole = mu_params_find(g.m.net->params, "fc1.weight");
    assert_int_equal(whole->max_batch, ROWS);
    whole->allow_factors = true;
    whole->grad.form = MU_GRAD_FACTORS;
    whole->max_rows = 77;
    whole->lr_mult = 3;
    check(&g.m, mu_partition_net(&g.m.b, g.p, 1, &net, &err), &err);
    const mu_param *p = mu_params_find(net->params, "fc1.weight@1");
    assert_false(p->allow_factors);
    assert_int_equal(p->grad.form, MU_GRAD_NONE);
    assert_int_equal(p->max_rows, 0);
    assert_true(p->lr_mult == 3);
    assert_int_equal(p->n_users, 1);
    assert_null(p->start);
    mu_net_destroy(net);
    close_group(&g);
}

static void one_worker_has_the_net_as_it_is(void **state) {
    (void)state;
    group g;
    open_text(&g, &plain, MLP("partition: feature", "location: 3"), 1);
    assert_int_equal(g.net[0]->n_layers, g.m.net->n_layers);
    for (int i = 0; i < g.m.net->n_layers; i++)
        assert_string_equal(g.net[0]->layer[i]->name, g.m.net->layer[i]->name);
    assert_int_equal(g.net[0]->activation_bytes, g.m.net->activation_bytes);
    close_group(&g);
}

static void channels_count_what_was_told(void **state) {
    (void)state;
    group g;
    open_text(&g, &plain, MLP("partition: {batch: 2, feature: 2}", "partition: feature"), 4);
    uint64_t bytes = 0;
    for (int step = 0; step < 3; step++) {
        make_batch(step);
        for (int w = 0; w < 4; w++) set_batch(g.net[w]);
        step_by_threads(&g, &plain, step);
    }
    for (int w = 0; w < 4; w++) bytes += mu_partition_bytes_sent(g.net[w]);
    assert_true(bytes > 0);
    assert_int_equal(bytes, 3 * mu_partition_bytes(g.p));
    close_group(&g);
}

// A worker that fails ends the waits of the others, and says so.
static void a_failed_worker_ends_the_others(void **state) {
    (void)state;
    group g;
    mu_err err = {0};
    open_text(&g, &plain, MLP("partition: feature", "partition: feature"), 2);
    make_batch(0);
    set_batch(g.net[0]);
    const mu_step s = step_at(0);
    g.terms->limit_ns = 1000000;
    assert_int_equal(run_algo("bp", g.net[0], &s, &err), MU_EBACKEND);
    assert_non_null(strstr(err.msg, " waited 0.0 s for its writer"));
    mu_err_clear(&err);
    g.terms->limit_ns = 20000000000;
    atomic_store(&g.terms->given_up, true);
    assert_int_equal(run_algo("bp", g.net[0], &s, &err), MU_EBACKEND);
    assert_non_null(strstr(err.msg, "another worker of the group failed"));
    close_group(&g);
}

// ---- what cannot be ----

static void refused(const char *layers, int workers, const char *want) {
    char text[4096];
    model m;
    mu_partition *p = NULL;
    mu_err err = {0};
    snprintf(text, sizeof text,
             "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\n"
             "updater: {type: sgd, rate: 0.1}\nnet:\n%s"
             "- {name: end, type: inner_product, outputs: 5}\n"
             "- {name: loss, type: softmax_loss, src: [end, data.label]}\n",
             layers);
    open_model(&m, text);
    mu_status st = shape_model(&m, &plain, &err);
    if (st == MU_OK)
        st = mu_partition_create(&m.b, &(mu_partition_opts){.whole = m.net, .workers = workers}, &p, &err);
    const mu_diag *d = mu_diags_first_error(&m.job->diags);
    assert_int_equal(st, MU_EJOB);
    assert_null(p);
    assert_non_null(d);
    assert_true(d->pos.line >= 6 && d->hint);
    if (!strstr(d->msg, want)) fail_msg("said: %s\nnot: %s", d->msg, want);
    mu_net_destroy(m.net);
    mu_job_destroy(m.job);
}

#define FC "- {name: fc, type: inner_product, src: data.image, outputs: 6"

static void what_cannot_be_cut_is_refused(void **state) {
    (void)state;
    refused(
        FC "}\n- {name: bn, type: batch_norm, partition: batch}\n", 2,
        "layer `bn` of type `batch_norm` cannot be cut by batch: mean and variance are those of all rows");
    refused("- {name: r, type: rbm, src: data.image, hidden: 4, partition: feature}\n", 2,
            "layer `r` of type `rbm` cannot be cut by feature: units see all units");
    refused("- {name: l, type: lstm, src: data.words, hidden: 4, outputs: last, partition: feature}\n", 2,
            "layer `l` of type `lstm` cannot be cut by feature: every gate");
    refused(FC ", partition: {feature: 8}}\n", 8, "cannot be cut by feature into 8 parts: it has 6 features");
    refused(FC ", partition: {batch: 12}}\n", 12, "cannot be cut by batch into 12 parts: it has 11 rows");
    refused(FC ", partition: {batch: 2, feature: 2}}\n", 3,
            "is cut into 2 x 2 parts, the group has 3 workers");
    refused(FC ", partition: batch, location: 1}\n", 2, "has a `location` and is cut into 2 parts");
    refused(FC ", partition: rows}\n", 2, "`partition` of layer `fc` is no way to cut it: rows");
    refused(FC ", partition: {row: 2}}\n", 2, "unknown key `row` in `partition` of layer `fc`");
    refused("- {name: c, type: convolution, src: data.image, filters: 6, groups: 2, kernel: 3, partition: "
            "{feature: 3}}\n",
            3, "by feature into 3 parts: it has 2 groups of features");
    refused(FC "0, weight: {name: w}, partition: feature}\n"
               "- {name: fd, type: inner_product, src: data.image, outputs: 60, weight: {name: w}, "
               "partition: {feature: 2}}\n",
            3, "layers `fc` and `fd` share `w` and are cut differently by feature");
    refused("- {name: e, type: embedding, src: data.words, dim: 4, partition: feature}\n"
            "- {name: f, type: flatten}\n",
            2, "layer `e` of type `embedding` cannot be cut by feature");
}

// Every allocation fails once: an error comes back, and nothing is lost.
static void no_memory(void **state) {
    (void)state;
    mu_status st = MU_ENOMEM;
    for (int n = 1; st != MU_OK; n++) {
        char text[4096];
        model m;
        mu_partition *p = NULL;
        mu_net *net = NULL;
        mu_err err = {0};
        const uint64_t live = mu_alloc_get_stats().n_live;
        snprintf(text, sizeof text,
                 "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\n"
                 "updater: {type: sgd, rate: 0.1}\nnet:\n%s",
                 MLP("partition: feature", "location: 1"));
        open_model(&m, text);
        check(&m, shape_model(&m, &plain, &err), &err);
        mu_alloc_fail_at(n);
        st = mu_partition_create(&m.b, &(mu_partition_opts){.whole = m.net, .workers = 2}, &p, &err);
        if (st == MU_OK) st = mu_partition_net(&m.b, p, 1, &net, &err);
        mu_alloc_fail_at(0);
        assert_int_equal(err.status, st);
        assert_true(st == MU_OK || st == MU_ENOMEM);
        mu_net_destroy(net);
        mu_partition_destroy(p);
        mu_net_destroy(m.net);
        mu_job_destroy(m.job);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        assert_true(n < 1000);
    }
}

int main(void) {
    describe_data();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_order),
        cmocka_unit_test(nothing_travels_between_parts_of_the_batch),
        cmocka_unit_test(every_row_is_in_one_piece),
        cmocka_unit_test(readers_share_what_travels),
        cmocka_unit_test(inserted_layers_follow_their_neighbours),
        cmocka_unit_test(pieces_begin_afresh),
        cmocka_unit_test(one_worker_has_the_net_as_it_is),
        cmocka_unit_test(channels_count_what_was_told),
        cmocka_unit_test(a_failed_worker_ends_the_others),
        cmocka_unit_test(what_cannot_be_cut_is_refused),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
