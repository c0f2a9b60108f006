// SPDX-License-Identifier: Apache-2.0
// test_ps_part_forms.c - what travels between ranks where learners have several workers: the messages of all
// workers, a channel for each direction of each bridge and one that says what was let go, sums of what several
// workers of a rank have, and the line at the start.
#include "training_help.h"

#include "ps/part_forms.h"

static const char text[] = "name: n\n"
                           "seed: 3\n"
                           "data: {train: {reader: synthetic, shape: [1, 8, 8], classes: 3, records: 60}}\n"
                           "net:\n"
                           "  - {name: one, type: inner_product, src: data.image, outputs: 40, partition: batch}\n"
                           "  - {name: few, type: inner_product, outputs: 4, partition: batch}\n"
                           "  - {name: two, type: inner_product, outputs: 40, partition: feature}\n"
                           "  - {name: still, type: inner_product, outputs: 80, weight: {lr: 0}, partition: batch}\n"
                           "  - {name: out, type: inner_product, outputs: 3, partition: none}\n"
                           "  - {name: loss, type: softmax_loss, src: [out, data.label], partition: none}\n"
                           "train: {batch: 12, steps: 4}\n"
                           "updater: {type: sgd, rate: 0.1}\n";

typedef struct rig { training t; mu_part_forms *f; } rig;

static rig make(const char *cluster, int nodes, int node) {
    rig r = {0};
    mu_err err = {0};
    char job[2048];
    snprintf(job, sizeof job, "%scluster: %s\n", text, cluster);
    const mu_session_opts o = {.phases = MU_TRAIN, .trains = true, .nodes = nodes, .node = node};
    if (mu_job_parse("t.yaml", job, strlen(job), NULL, 0, &r.t.job, &err) != MU_OK ||
        mu_session_open(r.t.job, &o, &r.t.s, &err) != MU_OK ||
        mu_part_forms_make(&r.t.s->setup, r.t.s->partition, r.t.s->worker_net, &r.f, &err) != MU_OK)
        fail_msg("%s: %s", cluster, err.msg);
    return r;
}

static void unmake(rig *r) {
    mu_part_forms_destroy(r->f);
    end(&r->t);
}

// The weights of `one` have 40 x 64 values, and are dense; those of `still` are frozen.
static void sums(void **state) {
    (void)state;
    for (int node = 0; node < 2; node++) {
        rig r = make("{learners: 1, workers: 4, gradients: dense}", 2, node);
        const mu_part_forms *f = r.f;
        assert_int_equal(f->workers, 4);
        assert_int_equal(f->n_sums, 1);
        const mu_part_sum *s = &f->sum[0];
        assert_int_equal(s->n, 2);
        assert_int_equal(s->count, 40 * 64);
        assert_int_equal(f->sum_floats, s->count);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(s->worker[k], 2 * node + k);
            const mu_param *p = f->share[s->worker[k]].params->list[s->index[k]];
            assert_string_equal(p->whole->name, "one.weight");
        }
        unmake(&r);
    }
    rig r = make("{learners: 1, workers: 4, gradients: dense}", 4, 1); // a worker on each rank
    assert_int_equal(r.f->n_sums, 0);
    unmake(&r);
    r = make("{learners: 1, workers: 4}", 2, 1); // factors: 3 rows of 40 + 64
    assert_int_equal(r.f->n_sums, 0);
    assert_true(r.f->n_factors > 0);
    unmake(&r);
}

static void channels(void **state) {
    (void)state;
    rig r = make("{learners: 1, workers: 4}", 2, 0);
    const mu_partition *p = r.t.s->partition;
    mu_wire_shape shape = {0};
    assert_true(p->n_bridges > 0);
    assert_int_equal(r.f->channels, 4 * p->n_bridges);
    for (int i = 0; i < p->n_bridges; i++)
        for (int back = 0; back < 2; back++) {
            const int c = mu_part_channel(i, back), gone = 2 * p->n_bridges + c;
            assert_int_equal(r.f->channel_bytes[c], p->bridge[i].bytes);
            assert_int_equal(r.f->channel_bytes[gone], 0);
            assert_int_equal(mu_part_let_go(r.f, gone), c);
            assert_int_equal(mu_part_let_go(r.f, c), -1);
        }
    mu_part_forms_shape(r.f, &shape);
    assert_int_equal(shape.workers, 4);
    assert_int_equal(shape.channels, r.f->channels);
    int64_t values = 0;
    for (int i = 0; i < p->n_bridges; i++) {
        const mu_bridge *b = &p->bridge[i];
        if (b->source->worker < 2 && b->destination->worker >= 2) values += (int64_t)b->bytes;
        if (b->source->worker >= 2 && b->destination->worker < 2) values += b->gradient * (int64_t)b->bytes;
    }
    assert_int_equal(r.f->value_bytes, values);
    unmake(&r);
    r = make("{learners: 2, workers: 2}", 2, 0); // whole on their ranks
    assert_int_equal(r.f->channels, 0);
    assert_int_equal(r.f->value_bytes, 0);
    unmake(&r);
}

static void text_at_the_start(void **state) {
    (void)state;
    char out[200], cut[8];
    rig r = make("{learners: 1, workers: 4, gradients: dense}", 2, 0);
    mu_part_forms_text(r.f, out, sizeof out);
    assert_non_null(strstr(out, " dense; at most "));
    assert_non_null(strstr(out, " of values leave this rank in a step"));
    assert_null(strstr(out, "factors"));
    mu_part_forms_text(r.f, cut, sizeof cut);
    assert_true(strlen(cut) < sizeof cut);
    // What leaves: of the messages of workers 0 and 1, `one` once, and nothing of `still`'s weights.
    int64_t bytes = 0;
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < r.f->message[w].n; i++)
            if (strncmp(r.f->share[w].params->list[i]->name, "still.weight", 12) != 0)
                bytes += (int64_t)r.f->message[w].part[i].bytes;
    const mu_part_sum *s = &r.f->sum[0];
    bytes -= (int64_t)r.f->message[s->worker[0]].part[s->index[0]].bytes;
    assert_int_equal(r.f->gradient_bytes, bytes);
    unmake(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(channels),
                                       cmocka_unit_test(text_at_the_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
