// SPDX-License-Identifier: Apache-2.0
// test_run_sequence.c - trainings of recurrent nets whose state goes on from batch to batch: what is learned,
// resumed in the middle of an epoch, shared by several learners.
#include "training_help.h"

static char folder[] = "test-sequence-XXXXXX";

// 24 texts side by side in pieces of 6 words; a batch holds a piece of each of them.
#define DATA                                                                                                 \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, vocab: 12, shape: [6], streams: 24, records: 480, noise: 0.05}\n"          \
    "  test: {reader: synthetic, vocab: 12, shape: [6], streams: 24, records: 96, noise: 0.05}\n"
#define NET(cell)                                                                                            \
    "net:\n"                                                                                                 \
    "- {name: rec, type: " cell ", src: [data.words, data.begin], hidden: 20}\n"                             \
    "- {name: drop, type: dropout, ratio: 0.1}\n"                                                            \
    "- {name: ip, type: inner_product, outputs: 12, axis: 2}\n"                                              \
    "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
// The same with a copy of every layer for each time step; `state`: ".1" if the state is the second output.
#define UNROLLED(cell, state)                                                                                \
    "net:\n"                                                                                                 \
    "- {name: rec, type: " cell ", hidden: 20, unroll: 6, src: [data.words, {layer: rec" state               \
    ", shift: 1},"                                                                                           \
    " {layer: data.begin, connect: one_to_all}]}\n"                                                          \
    "- {name: drop, type: dropout, ratio: 0.1, unroll: 6}\n"                                                 \
    "- {name: ip, type: inner_product, outputs: 12, unroll: 6}\n"                                            \
    "- {name: loss, type: softmax_loss, src: [ip, data.label], unroll: 6}\n"
#define SGD(rate) "updater: {type: sgd, momentum: 0.9, rate: " rate "}\n"
#define TRAIN(steps) "name: t\ntrain: {batch: 24, steps: " steps "}\ntest: {every: never, batch: 24}\n"

static const mu_param *state_of(const training *t) {
    for (int i = 0; i < t->s->params->n; i++)
        if (t->s->params->list[i]->is_state) return t->s->params->list[i];
    fail_msg("no parameter is a state");
    return NULL;
}

static const char *const nets[] = {NET("rnn"), NET("gru"), NET("lstm"), UNROLLED("gru_cell", ""),
                                   UNROLLED("lstm_cell", ".1")};
static const char *const names[] = {"rnn", "gru", "lstm", "gru_cell", "lstm_cell"};

static void it_learns(void **state) {
    (void)state;
    const mu_run_opts quiet = {.no_files = true};
    for (size_t c = 0; c < MU_COUNT(nets); c++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s%s%s", TRAIN("600"), DATA, nets[c], SGD("0.1"));
        training t;
        train(&t, text, &quiet, NULL, 0);
        print_message("%s: loss %.3f of ln 12 = 2.485\n", names[c], t.r.train_loss);
        if (!(t.r.train_loss < 1.9)) fail_msg("%s learns nothing: loss %g", names[c], t.r.train_loss);
        // The tag of each text is the number of its last piece: all of them went on to the end.
        const mu_param *p = state_of(&t);
        const int64_t half = p->shape.d[1] / 2;
        for (int64_t r = 0; r < p->shape.d[0]; r++)
            assert_float_equal(fmaxf(p->value[2 * r * half], p->value[(2 * r + 1) * half]), 600, 0);
        end(&t);
    }
}

static void resume_is_exact(void **state) {
    (void)state;
    for (size_t c = 0; c < MU_COUNT(nets); c++) {
        char text[2048], one[64], two[64];
        snprintf(text, sizeof text, "%s%s%s%s", TRAIN("50"), DATA, nets[c], SGD("0.1"));
        snprintf(one, sizeof one, "%s/whole-%s", folder, names[c]);
        snprintf(two, sizeof two, "%s/halves-%s", folder, names[c]);
        training whole, first, second;
        train(&whole, text, &(mu_run_opts){.out = one}, NULL, 0);
        train(&first, text, &(mu_run_opts){.out = two}, (const char *const[]){"train.steps=27"}, 1);
        end(&first); // an epoch has 20 steps: this is in the middle of one
        train(&second, text, &(mu_run_opts){.resume = two}, NULL, 0);
        assert_int_equal(second.r.steps, 50);
        assert_true(distance(&whole, &second) == 0.0);
        end(&whole);
        end(&second);
    }
}

static void two_learners_equal_one(void **state) {
    (void)state;
    const mu_run_opts quiet = {.no_files = true};
    for (size_t c = 0; c < MU_COUNT(nets); c++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s%s%s", TRAIN("45"), DATA, nets[c], SGD("0.02"));
        training one, two;
        train(&one, text, &quiet, NULL, 0);
        train(&two, text, &quiet, (const char *const[]){"cluster.learners=2"}, 1);
        double d = distance(&one, &two);
        print_message("%s: largest relative difference %.2g\n", names[c], d);
        if (!(d <= 1e-5)) fail_msg("%s with 2 learners is off by %g", names[c], d);
        end(&one);
        end(&two);
    }
}

static void every_protocol_ends(void **state) {
    (void)state;
    static const char *const protocols[] = {"hardsync", "softsync", "async", "hogwild", "mirror", "ssp"};
    const mu_run_opts quiet = {.no_files = true};
    static const char *const jobs[] = {TRAIN("200") DATA NET("gru") SGD("0.1"),
                                       TRAIN("200") DATA UNROLLED("gru_cell", "") SGD("0.1")};
    for (size_t i = 0; i < 2 * MU_COUNT(protocols); i++) {
        char p[80];
        snprintf(p, sizeof p, "cluster.protocol=%s", protocols[i / 2]);
        training t;
        train(&t, jobs[i % 2], &quiet, (const char *const[]){"cluster.learners=2", p}, 2);
        print_message("%s%s: loss %.3f\n", protocols[i / 2], i % 2 ? ", unrolled" : "", t.r.train_loss);
        assert_int_equal(t.r.group.produced, t.r.group.applied + t.r.group.rejected + t.r.group.lost);
        assert_true(t.r.train_loss < 2.45);
        end(&t);
    }
}

// Back-propagation through time is back-propagation on the unrolled net.
static void bptt_gives_the_bits_of_bp(void **state) {
    (void)state;
    const mu_run_opts quiet = {.no_files = true};
    for (size_t c = 0; c < MU_COUNT(nets); c++) {
        char text[2048];
        snprintf(text, sizeof text, "%s%s%s%s", TRAIN("20"), DATA, nets[c], SGD("0.1"));
        training bp, bptt;
        train(&bp, text, &quiet, NULL, 0);
        train(&bptt, text, &quiet, (const char *const[]){"train.algorithm=bptt"}, 1);
        assert_true(distance(&bp, &bptt) == 0.0);
        end(&bp);
        end(&bptt);
    }
}

static void a_step_allocates_nothing(void **state) {
    (void)state;
    count_allocations(TRAIN("50") DATA NET("lstm") SGD("0.1"));
    count_allocations(TRAIN("50") DATA UNROLLED("lstm_cell", ".1") SGD("0.1"));
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}
static int remove_folder(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns),
        cmocka_unit_test(resume_is_exact),
        cmocka_unit_test(two_learners_equal_one),
        cmocka_unit_test(every_protocol_ends),
        cmocka_unit_test(bptt_gives_the_bits_of_bp),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
