// SPDX-License-Identifier: Apache-2.0
// test_layer_recurrent.c - what recurrent layers remember between batches, and what their fields mean.
//
// Gradients inside one batch are looked at by conform_layer, the numbers themselves by test_net_torch.
#include "layer_rig.h"

#include "layer/recurrent.h"

static const char *const cells[] = {"rnn", "gru", "lstm"};
static const char *const op_choices[] = {"", "ref"};

enum { STREAMS = 3, PIECE = 4, PIECES = 3, WIDTH = 5, HIDDEN = 7 };

static void open_rig(rig *r, const char *cell, const char *settings, const char *sources, mu_phase phase) {
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, cell);
    assert_non_null(c);
    if (rig_infer(r, c, settings, sources, phase, 5, &err) != MU_OK) fail_msg("%s: %s", cell, err.msg);
    rig_setup(r);
}

// Every test runs for each cell, with the fast and with the plain op.
typedef void (*body)(const char *cell, mu_phase phase);
static void for_all(body f) {
    for (size_t c = 0; c < MU_COUNT(cells); c++)
        for (size_t o = 0; o < MU_COUNT(op_choices); o++)
            for (int p = 0; p < 2; p++) {
                setenv("MUSTER_OPS", op_choices[o], 1);
                f(cells[c], p ? MU_TEST : MU_TRAIN);
            }
    unsetenv("MUSTER_OPS");
}

static float input(int64_t stream, int64_t step, int64_t k) {
    return rig_random(11, (uint64_t)stream, (uint64_t)(step * WIDTH + k));
}

// Piece q of all streams as one batch.
static void feed(rig *r, int64_t q, const int32_t *begin) {
    float *x = r->layer.src[0]->value.f;
    for (int64_t b = 0; b < STREAMS; b++) {
        for (int64_t s = 0; s < PIECE; s++)
            for (int64_t k = 0; k < WIDTH; k++) *x++ = input(b, q * PIECE + s, k);
        r->layer.src[1]->value.i[b] = begin[b];
    }
    mu_step step = rig_step(r);
    step.first_sample = q * STREAMS;
    rig_forward(r, &step);
}

static void expect_near(const char *what, const float *got, const float *want, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 2e-6f))
            fail_msg("%s, element %d: %.8g, want %.8g", what, (int)i, (double)got[i], (double)want[i]);
}

// ---- carrying ----

#define SETTINGS "hidden: 7"
#define LONG_SOURCE "f3,12,5"
#define PIECE_SOURCES "f3,4,5 i3<2@3"

static void pieces_equal_the_whole(const char *cell, mu_phase phase) {
    rig *whole = calloc(1, sizeof *whole), *parts = calloc(1, sizeof *parts);
    open_rig(whole, cell, SETTINGS, LONG_SOURCE, phase);
    open_rig(parts, cell, SETTINGS, PIECE_SOURCES, phase);
    float *x = whole->layer.src[0]->value.f;
    for (int64_t b = 0; b < STREAMS; b++)
        for (int64_t s = 0; s < PIECE * PIECES; s++)
            for (int64_t k = 0; k < WIDTH; k++) *x++ = input(b, s, k);
    mu_step step = rig_step(whole);
    rig_forward(whole, &step);
    const float *want = whole->layer.out[0].value.f, *got = parts->layer.out[0].value.f;
    for (int64_t q = 0; q < PIECES; q++) {
        feed(parts, q, (const int32_t[]){q == 0, q == 0, q == 0});
        for (int64_t b = 0; b < STREAMS; b++)
            expect_near(cell, got + b * PIECE * HIDDEN, want + (b * PIECES + q) * PIECE * HIDDEN,
                        PIECE * HIDDEN);
    }
    rig_fini(whole), free(whole);
    rig_fini(parts), free(parts);
}
static void test_pieces(void **state) { (void)state, for_all(pieces_equal_the_whole); }

static void begin_resets(const char *cell, mu_phase phase) {
    rig *a = calloc(1, sizeof *a), *b = calloc(1, sizeof *b);
    open_rig(a, cell, SETTINGS, PIECE_SOURCES, phase);
    open_rig(b, cell, SETTINGS, PIECE_SOURCES, phase);
    feed(a, 0, (const int32_t[]){1, 1, 1});
    feed(a, 1, (const int32_t[]){0, 1, 0});
    feed(b, 1, (const int32_t[]){1, 1, 1}); // nothing before it
    const int64_t row = PIECE * HIDDEN;
    const float *carried = a->layer.out[0].value.f, *fresh = b->layer.out[0].value.f;
    expect_near(cell, carried + row, fresh + row, row);
    float apart = 0;
    for (int64_t i = 0; i < row; i++) apart += fabsf(carried[i] - fresh[i]);
    if (!(apart > 0.01f)) fail_msg("%s: a carried state makes no difference", cell);
    rig_fini(a), free(a);
    rig_fini(b), free(b);
}
static void test_begin(void **state) { (void)state, for_all(begin_resets); }

// A batch with fewer rows leaves the states of the other streams alone, and reads nothing of them.
static void short_batch(const char *cell, mu_phase phase) {
    rig *r = calloc(1, sizeof *r);
    open_rig(r, cell, "hidden: 7, vocab: 6", "i3,4<6 i3<2@3", phase);
    mu_recurrent *s = r->layer.state;
    mu_step step = rig_step(r);
    step.first_sample = 0;
    step.rows = 2;
    for (int64_t k = 2 * PIECE; k < 3 * PIECE; k++) r->layer.src[0]->value.i[k] = 1 << 30;
    rig_forward(r, &step);
    assert_non_null(mu_rowstate_before(&s->memory, STREAMS));
    assert_non_null(mu_rowstate_before(&s->memory, STREAMS + 1));
    assert_null(mu_rowstate_before(&s->memory, STREAMS + 2));
    step.rows = 3;
    mu_err err = {0};
    assert_int_equal(r->layer.class->forward(&r->layer, &step, &err), MU_EDATA);
    assert_non_null(strstr(err.msg, "sample 2"));
    rig_fini(r), free(r);
}
static void test_short_batch(void **state) { (void)state, for_all(short_batch); }

// Another learner that shares the memory (hogwild) finds a state only when it is complete.
static const mu_op_class *real_op;
static const mu_rowstate *watched;

static mu_status look_inside(mu_op *op, const mu_op_args *a, mu_err *err) {
    for (int64_t b = 0; b < STREAMS; b++) assert_null(mu_rowstate_before(watched, STREAMS + b));
    mu_status st = real_op->forward(op, a, err);
    for (int64_t b = 0; b < STREAMS; b++) assert_null(mu_rowstate_before(watched, STREAMS + b));
    return st;
}

static void no_half_states(const char *cell, mu_phase phase) {
    rig *r = calloc(1, sizeof *r);
    open_rig(r, cell, SETTINGS, PIECE_SOURCES, phase);
    real_op = r->layer.op->class;
    watched = &((mu_recurrent *)r->layer.state)->memory;
    mu_op_class spy = *real_op;
    spy.forward = look_inside;
    r->layer.op->class = &spy;
    feed(r, 0, (const int32_t[]){1, 1, 1});
    r->layer.op->class = real_op;
    for (int64_t b = 0; b < STREAMS; b++) assert_non_null(mu_rowstate_before(watched, STREAMS + b));
    rig_fini(r), free(r);
}
static void test_no_half_states(void **state) { (void)state, for_all(no_half_states); }

// Another learner goes on to a later piece while this one is at work: its numbers are those of its own.
static mu_status overwrite(mu_op *op, const mu_op_args *a, mu_err *err) {
    mu_rowstate m = *watched;
    for (int64_t g = 2 * STREAMS; g < 3 * STREAMS; g++)
        for (int64_t i = 0; i < m.width; i++) mu_rowstate_slot(&m, g)[i] = 9;
    return real_op->forward(op, a, err);
}

static void memory_overwritten(const char *cell, mu_phase phase) {
    rig *alone = calloc(1, sizeof *alone), *shared = calloc(1, sizeof *shared), *rigs[] = {alone, shared};
    for (int k = 0; k < 2; k++) {
        open_rig(rigs[k], cell, SETTINGS, PIECE_SOURCES, phase);
        feed(rigs[k], 0, (const int32_t[]){1, 1, 1});
        real_op = rigs[k]->layer.op->class;
        watched = &((mu_recurrent *)rigs[k]->layer.state)->memory;
        mu_op_class spy = *real_op;
        if (k) spy.forward = overwrite;
        rigs[k]->layer.op->class = &spy;
        feed(rigs[k], 1, (const int32_t[]){0, 0, 1});
        rigs[k]->layer.op->class = real_op;
    }
    expect_near(cell, shared->layer.out[0].value.f, alone->layer.out[0].value.f, STREAMS * PIECE * HIDDEN);
    rig_fini(alone), free(alone);
    rig_fini(shared), free(shared);
}
static void test_memory_overwritten(void **state) { (void)state, for_all(memory_overwritten); }

// ---- gradients after a carried state: it is a constant ----

static void carried_gradients(const char *cell, mu_phase phase) {
    if (phase != MU_TRAIN) return;
    rig *r = calloc(1, sizeof *r);
    open_rig(r, cell, SETTINGS, PIECE_SOURCES, phase);
    feed(r, 0, (const int32_t[]){1, 1, 1});
    feed(r, 1, (const int32_t[]){0, 0, 1});
    mu_step step = rig_step(r);
    step.first_sample = STREAMS;
    rig_backward(r, &step);
    for (int k = 0; k < 4; k++) {
        mu_param *p = r->layer.param[k];
        for (size_t i = 0; i < p->count; i += p->count / 12 + 1) {
            const float x0 = p->value[i], eps = 0.01f;
            double side[2];
            for (int j = 0; j < 2; j++) {
                p->value[i] = j ? x0 + eps : x0 - eps;
                side[j] = rig_objective(r, &step);
            }
            p->value[i] = x0;
            const double want = (side[1] - side[0]) / (2.0 * (double)eps), got = (double)p->grad.dense[i];
            if (!(fabs(want - got) <= 2e-3 + 5e-3 * fabs(got)))
                fail_msg("%s: gradient of %s[%zu] is %.6g, central difference %.6g", cell, p->name, i, got,
                         want);
        }
    }
    rig_fini(r), free(r);
}
static void test_carried_gradients(void **state) { (void)state, for_all(carried_gradients); }

// ---- fields ----

static void test_last(void **state) {
    (void)state;
    for (size_t c = 0; c < MU_COUNT(cells); c++) {
        rig *all = calloc(1, sizeof *all), *last = calloc(1, sizeof *last);
        open_rig(all, cells[c], "hidden: 7", "f3,4,5", MU_TRAIN);
        open_rig(last, cells[c], "hidden: 7, outputs: last", "f3,4,5", MU_TRAIN);
        mu_step step = rig_step(all);
        rig_forward(all, &step);
        rig_forward(last, &step);
        assert_int_equal(last->layer.out[0].value.shape.n, 2);
        for (int64_t b = 0; b < 3; b++)
            expect_near(cells[c], last->layer.out[0].value.f + b * HIDDEN,
                        all->layer.out[0].value.f + (b * PIECE + PIECE - 1) * HIDDEN, HIDDEN);
        rig_fini(all), free(all);
        rig_fini(last), free(last);
    }
}

static void test_forget_bias(void **state) {
    (void)state;
    rig *plain = calloc(1, sizeof *plain), *open = calloc(1, sizeof *open);
    open_rig(plain, "lstm", "hidden: 3", "f2,4,5", MU_TRAIN);
    open_rig(open, "lstm", "hidden: 3, forget_bias: 1.5", "f2,4,5", MU_TRAIN);
    for (int k = 0; k < 12; k++) {
        const float d = open->layer.param[2]->value[k] - plain->layer.param[2]->value[k];
        assert_float_equal(d, k >= 3 && k < 6 ? 1.5f : 0.0f, 1e-6f);
        assert_float_equal(open->layer.param[3]->value[k], plain->layer.param[3]->value[k], 0);
    }
    rig_fini(plain), free(plain);
    rig_fini(open), free(open);
}

static void refuses(const char *cell, const char *settings, const char *sources, const char *text) {
    rig *r = calloc(1, sizeof *r);
    mu_err err;
    const mu_layer_class *c = (const mu_layer_class *)mu_registry_find(&mu_layers, cell);
    assert_int_equal(rig_infer(r, c, settings, sources, MU_TRAIN, 1, &err), MU_EJOB);
    if (!strstr(err.msg, text))
        fail_msg("%s {%s} on %s: `%s`, not `%s`", cell, settings, sources, err.msg, text);
    rig_fini(r), free(r);
}

static void test_refusals(void **state) {
    (void)state;
    refuses("gru", "hidden: 3", "f4,5", "sequences (batch, time, values)");
    refuses("lstm", "hidden: 3, vocab: 5", "i4<5", "sequences");
    refuses("rnn", "hidden: 3", "i4,5<9", "how many different integers");
    refuses("gru", "hidden: 3", "f4,5,6 i4<2", "do not continue each other");
    refuses("gru", "hidden: 3", "f4,5,6 f4", "whether a sequence begins");
    refuses("gru", "hidden: 3", "f4,5,6 i4,5<2@4", "whether a sequence begins");
    refuses("gru", "hidden: 3", "f4,5,6 i4<2@3", "more rows than the 3 streams");
    refuses("lstm", "hidden: 3, bias_term: false, forget_bias: 1", "f4,5,6", "forget_bias");
    refuses("softmax_loss", "", "f4,3,5 i4<5", "one integer label for each of 3 time steps");
    refuses("softmax_loss", "", "f4,5 i4,3<5", "one integer label for each sample");
    refuses("accuracy", "", "f4,3,5 i4,2<5", "one integer label for each of 3 time steps");
    refuses("one_hot", "vocab: 3", "f4,3", "one_hot needs integers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),      cmocka_unit_test(test_begin),
        cmocka_unit_test(test_no_half_states),
        cmocka_unit_test(test_memory_overwritten),
        cmocka_unit_test(test_short_batch), cmocka_unit_test(test_carried_gradients),
        cmocka_unit_test(test_last),        cmocka_unit_test(test_forget_bias),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
