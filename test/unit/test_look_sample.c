// SPDX-License-Identifier: Apache-2.0
// test_look_sample.c - text from models whose right answers are known: a table of which character follows
// which.
#include "run_help.h"

#include "net/params.h"
#include "look/sample.h"

#include <math.h>

static char dir[64];

typedef struct rig { mu_job *job; mu_session *session; mu_sampler *sampler; float *table; } rig;

static const char bigram[] = "  - {name: table, type: embedding, src: data.chars, vocab: 4, dim: 4}\n"
                             "  - {name: scores, type: flatten}\n"
                             "  - {name: loss, type: softmax_loss, src: [scores, data.next]}\n";

// Characters: new line 0, a 1, b 2, c 3.
static mu_status rig_open(rig *r, const char *reader, const char *net, mu_err *err) {
    char yaml[1024], path[96];
    snprintf(path, sizeof path, "%s/text", dir);
    write_file(path, "abcabcabca\nbacbcac\nbca", 22);
    snprintf(yaml, sizeof yaml,
             "name: letters\ndata:\n  train: {%s, file: %s}\nnet:\n%strain: {batch: 2, steps: 1}\n"
             "updater: {type: sgd, rate: 0.1}\n",
             reader, "text", net);
    memset(r, 0, sizeof *r);
    snprintf(path, sizeof path, "%s/job.yaml", dir);
    mu_status st = mu_job_parse(path, yaml, strlen(yaml), NULL, 0, &r->job, err);
    if (st == MU_OK) st = mu_session_open(r->job, &(mu_session_opts){0}, &r->session, err);
    if (st == MU_OK) st = mu_sampler_create(r->session, &r->sampler, err);
    if (st == MU_OK && r->session->params->n) r->table = r->session->params->list[0]->value;
    return st;
}

static void rig_close(rig *r) {
    mu_sampler_destroy(r->sampler);
    mu_session_close(r->session);
    mu_job_destroy(r->job);
}

static const char chars[] = "reader: chars, streams: 2, length: 1";

typedef struct text { char s[8000]; size_t n; } text;

static mu_status take(void *ctx, char c, mu_err *err) {
    text *t = ctx;
    (void)err;
    t->s[t->n++] = c;
    t->s[t->n] = '\0';
    return MU_OK;
}

static void test_greedy_follows_the_table(void **ctx) {
    (void)ctx;
    rig r;
    assert_ok(rig_open(&r, chars, bigram, err));
    static const int next[4] = {2, 2, 3, 1};    // after a new line b, after a b, after b c, after c a
    memset(r.table, 0, 16 * sizeof *r.table);
    for (int i = 0; i < 4; i++) r.table[i * 4 + next[i]] = 9;
    static const struct {
        const char *prime, *want;
    } rows[] = {{"", "bcabca"}, {"a", "bcabca"}, {"bac", "abcabc"}};
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        text t = {.n = 0};
        double nats;
        mu_sample_opts o = {.prime = rows[i].prime, .length = 6};
        assert_ok(mu_sampler_draw(r.sampler, &o, take, &t, &nats, err));
        assert_string_equal(t.s, rows[i].want);
        assert_true(fabs(nats - log(1 + 3 * exp(-9))) < 1e-6);
    }
    rig_close(&r);
}

// Without a prime the model first writes for itself, and on to the end of a line if there is one.
static void test_warm_up(void **ctx) {
    (void)ctx;
    static const int next[2][4] = {{2, 2, 3, 1}, {1, 2, 3, 0}}; // round a b c; lines of abc
    static const struct {
        int table;
        const char *prime;
        int64_t warmup;
        const char *want;
    } rows[] = {
        {0, "", 0, "bcabca"}, {0, "", 1, "abcabc"},  {0, "", 3, "bcabca"}, // 0, 2 and 6 characters before
        {0, "", 4, "abcabc"}, {0, "ba", 4, "bcabca"},                      // 8; a prime is enough
        {1, "", 1, "c\nabc\n"}, {1, "", 2, "abc\nab"}, // c is left; a whole line, one again, two
        {1, "", 4, "abc\nab"}, {1, "", 5, "abc\nab"},
    };
    rig r;
    assert_ok(rig_open(&r, chars, bigram, err));
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        memset(r.table, 0, 16 * sizeof *r.table);
        for (int k = 0; k < 4; k++) r.table[k * 4 + next[rows[i].table][k]] = 99;
        text t = {.n = 0};
        mu_sample_opts o = {.prime = rows[i].prime, .length = 6, .warmup = rows[i].warmup};
        assert_ok(mu_sampler_draw(r.sampler, &o, take, &t, NULL, err));
        if (strcmp(t.s, rows[i].want)) fail_msg("row %zu: `%s`, not `%s`", i, t.s, rows[i].want);
    }
    static const int64_t bad[] = {-1, MU_SAMPLE_MAX + 1};
    for (size_t i = 0; i < MU_COUNT(bad); i++) {
        mu_err e = {0};
        mu_sample_opts o = {.length = 6, .warmup = bad[i]};
        assert_int_equal(mu_sampler_draw(r.sampler, &o, take, NULL, NULL, &e), MU_EUSAGE);
        assert_non_null(strstr(e.msg, "warm-up"));
    }
    rig_close(&r);
}

// Whatever stands before, a new line, a, b and c have scores 0, 1, 2, 3: at temperature T, p ~ exp(score /
// T).
static void test_temperature_and_seed(void **ctx) {
    (void)ctx;
    enum { N = 6000 };
    rig r;
    assert_ok(rig_open(&r, chars, bigram, err));
    for (int i = 0; i < 16; i++) r.table[i] = (float)(i % 4);
    static text first;
    for (double temperature = 0.5; temperature < 3; temperature *= 2) {
        static text t;
        t.n = 0;
        double count[4] = {0}, p[4], sum = 0;
        mu_sample_opts o = {.length = N, .temperature = temperature, .seed = 7};
        assert_ok(mu_sampler_draw(r.sampler, &o, take, &t, NULL, err));
        for (size_t i = 0; i < t.n; i++) count[t.s[i] == '\n' ? 0 : t.s[i] - 'a' + 1]++;
        for (int i = 0; i < 4; i++) sum += p[i] = exp(i / temperature);
        for (int i = 0; i < 4; i++) { // five standard deviations
            double want = N * p[i] / sum, room = 5 * sqrt(want * (1 - p[i] / sum));
            if (fabs(count[i] - want) > room)
                fail_msg("T %g: character %d came %g times, expected %g +- %g", temperature, i, count[i],
                         want, room);
        }
        first.n = 0;
        assert_ok(mu_sampler_draw(r.sampler, &o, take, &first, NULL, err));
        assert_string_equal(first.s, t.s);
        o.seed = 8;
        t.n = 0;
        assert_ok(mu_sampler_draw(r.sampler, &o, take, &t, NULL, err));
        assert_true(strcmp(first.s, t.s) != 0);
    }
    rig_close(&r);
}

// An unrolled net is sampled one step at a time, too, with the state carried: the text of the fused net.
static void test_unrolled_draws_as_fused(void **ctx) {
    (void)ctx;
    static const char *const nets[] = {
        "  - {name: rec, type: lstm, hidden: 9, src: [data.chars, data.begin],\n"
        "     init: {type: gaussian, std: 2}}\n"
        "  - {name: ip, type: inner_product, outputs: 4, axis: 2, init: {type: gaussian, std: 2}}\n"
        "  - {name: loss, type: softmax_loss, src: [ip, data.next]}\n",
        "  - {name: rec, type: lstm_cell, hidden: 9, unroll: 3, init: {type: gaussian, std: 2},\n"
        "     src: [data.chars, {layer: rec.1, shift: 1}, {layer: data.begin, connect: one_to_all}]}\n"
        "  - {name: ip, type: inner_product, outputs: 4, unroll: 3, init: {type: gaussian, std: 2}}\n"
        "  - {name: loss, type: softmax_loss, src: [ip, data.next], unroll: 3}\n"};
    static text drawn[2];
    for (int k = 0; k < 2; k++) {
        rig r;
        assert_ok(rig_open(&r, "reader: chars, streams: 2, length: 3", nets[k], err));
        mu_sample_opts o = {.prime = "cab", .length = 200, .temperature = 1, .seed = 3};
        assert_ok(mu_sampler_draw(r.sampler, &o, take, &drawn[k], NULL, err));
        rig_close(&r);
    }
    assert_string_equal(drawn[0].s, drawn[1].s);
}

// The whole prime as one record through a net that shares the parameters: scores after its last character.
static void score_at_once(rig *r, const char *prime, float out[4]) {
    int32_t in[32], begin = 1;
    const int n = (int)strlen(prime);
    for (int i = 0; i < n; i++) in[i] = prime[i] == '\n' ? 0 : prime[i] - 'a' + 1;
    mu_data_field fields[] = {{.name = "chars", .shape = MU_SHAPE(n), .store = MU_STORE_I32, .n_classes = 4},
                              {.name = "begin", .store = MU_STORE_I32}};
    fields[0].streams = fields[1].streams = 1;
    mu_net_opts o = {.net = r->job->net,
                     .fields = fields,
                     .n_fields = 2,
                     .phase = MU_PREDICT,
                     .batch = 1,
                     .share = r->session->params,
                     .keep_all = true};
    mu_net *net = NULL;
    assert_ok(mu_net_create(&r->session->binder, &o, &net, err));
    mu_tensor input[2] = {{.data = in}, {.data = &begin}};
    mu_net_set_input(net, input, 2);
    mu_step step = {.phase = MU_PREDICT, .rows = 1, .global_rows = 1};
    assert_ok(mu_net_forward(net, &step, err));
    memcpy(out, mu_net_find(net, "ip")->out[0].value.f + 4 * (n - 1), 4 * sizeof *out);
    mu_net_destroy(net);
}

// What a recurrent layer knows after reading character by character is what it knows after reading at once,
// and a second text does not remember the first.
static void test_state_is_carried(void **ctx) {
    (void)ctx;
    static const char net[] =
        "  - {name: gru, type: gru, src: [data.chars, data.begin], hidden: 7}\n"
        "  - {name: ip, type: inner_product, axis: 2, outputs: 4, init: {type: gaussian}}\n"
        "  - {name: loss, type: softmax_loss, src: [ip, data.next]}\n";
    static const char *const primes[] = {"a", "abcc\nba", "ccc", "abcabcabcabcabcabcabca"};
    rig r;
    assert_ok(rig_open(&r, "reader: chars, streams: 2, length: 5", net, err));
    for (size_t i = 0; i < MU_COUNT(primes); i++) {
        float x[4];
        score_at_once(&r, primes[i], x);
        int best = 0;
        double sum = 0, nats;
        for (int k = 1; k < 4; k++) best = x[k] > x[best] ? k : best;
        for (int k = 0; k < 4; k++) sum += exp((double)(x[k] - x[best]));
        text t = {.n = 0};
        mu_sample_opts o = {.prime = primes[i], .length = 1};
        assert_ok(mu_sampler_draw(r.sampler, &o, take, &t, &nats, err));
        if (t.s[0] != "\nabc"[best] || fabs(nats - log(sum)) > 1e-5)
            fail_msg("prime %zu: `%c` at %.7g nats, expected %d at %.7g", i, t.s[0], nats, best, log(sum));
    }
    rig_close(&r);
}

// A layer that would forget the text with every character is refused, in every way it can be written.
static void test_forgetful_nets(void **ctx) {
    (void)ctx;
    static const char *const nets[][2] = {
        {"  - {name: rec, type: gru, hidden: 5, src: data.chars}\n"
         "  - {name: ip, type: inner_product, outputs: 4, axis: 2}\n"
         "  - {name: loss, type: softmax_loss, src: [ip, data.next]}\n",
         "layer `rec` begins anew with every character"},
        {"  - {name: rec, type: gru_cell, hidden: 5, unroll: 3, src: [data.chars, {layer: rec, shift: 1}]}\n"
         "  - {name: ip, type: inner_product, outputs: 4, unroll: 3}\n"
         "  - {name: loss, type: softmax_loss, src: [ip, data.next], unroll: 3}\n",
         "layer `rec` begins anew with every character"},
        {"  - {name: e, type: embedding, src: data.chars, vocab: 4, dim: 4}\n"
         "  - {name: a, type: add, src: [e, {layer: e, shift: 1}], unroll: 3}\n"
         "  - {name: loss, type: softmax_loss, src: [a, data.next], unroll: 3}\n",
         "layer `a` begins anew with every character"},
        {"  - {name: e, type: embedding, src: data.chars, vocab: 4, dim: 4}\n"
         "  - {name: u, type: inner_product, src: {layer: a, shift: 1}, outputs: 4, unroll: 3}\n"
         "  - {name: a, type: add, src: [e, u], unroll: 3}\n"
         "  - {name: loss, type: softmax_loss, src: [a, data.next], unroll: 3}\n",
         "layer `u` takes only what was before"},
    };
    for (size_t i = 0; i < MU_COUNT(nets); i++) {
        rig r;
        mu_err err = {0};
        mu_status st = rig_open(&r, "reader: chars, streams: 2, length: 3", nets[i][0], &err);
        if (st != MU_EJOB || !strstr(err.msg, nets[i][1]) || !err.pos.line)
            fail_msg("net %zu: %s: `%s` lacks `%s`", i, mu_status_name(st), err.msg, nets[i][1]);
        rig_close(&r);
    }
}

// The scores are found however the loss names them.
static void test_scores_by_any_name(void **ctx) {
    (void)ctx;
    static const char *const names[] = {"scores", "scores.0", "{layer: scores}", "{layer: scores.0}"};
    for (size_t i = 0; i < MU_COUNT(names); i++) {
        char net[400];
        snprintf(net, sizeof net, "  - {name: table, type: embedding, src: data.chars, vocab: 4, dim: 4}\n"
                                  "  - {name: scores, type: flatten}\n"
                                  "  - {name: loss, type: softmax_loss, src: [%s, data.next]}\n", names[i]);
        rig r;
        assert_ok(rig_open(&r, chars, net, err));
        rig_close(&r);
    }
}

static void test_bad_options(void **ctx) {
    (void)ctx;
    rig r;
    text t = {.n = 0};
    assert_ok(rig_open(&r, chars, bigram, err));
    mu_sample_opts o = {.prime = "abz", .length = 2};
    assert_fails(mu_sampler_draw(r.sampler, &o, take, &t, NULL, err), MU_EUSAGE, "byte 0x7a at place 2");
    o = (mu_sample_opts){.length = 1 << 25};
    assert_fails(mu_sampler_draw(r.sampler, &o, take, &t, NULL, err), MU_EUSAGE, "33554432 characters");
    o = (mu_sample_opts){.length = 2, .temperature = -1};
    assert_fails(mu_sampler_draw(r.sampler, &o, take, &t, NULL, err), MU_EUSAGE, "temperature -1");
    for (int i = 0; i < 16; i++) r.table[i] = NAN;
    o = (mu_sample_opts){.length = 2};
    assert_fails(mu_sampler_draw(r.sampler, &o, take, &t, NULL, err), MU_EMODEL, "not finite");
    assert_int_equal(t.n, 0);
    rig_close(&r);
}

// Every allocation on the way to the first character fails once.
static void test_allocation_failures(void **ctx) {
    (void)ctx;
    uint64_t live = mu_alloc_get_stats().n_live;
    for (int64_t n = 1;; n++) {
        if (n > 5000) fail_msg("never succeeds");
        rig r;
        mu_err err = {0};
        text t = {.n = 0};
        mu_sample_opts o = {.prime = "ab", .length = 3};
        mu_alloc_fail_at(n);
        mu_status st = rig_open(&r, chars, bigram, &err);
        if (st == MU_OK) st = mu_sampler_draw(r.sampler, &o, take, &t, NULL, &err);
        mu_alloc_fail_at(0);
        rig_close(&r);
        uint64_t now = mu_alloc_get_stats().n_live;
        if (now != live) fail_msg("%d blocks stay when allocation %d fails", (int)(now - live), (int)n);
        if (st == MU_OK) break;
        if (st != MU_ENOMEM && st != MU_EJOB)
            fail_msg("%s: `%s` for allocation %d", mu_status_name(st), err.msg, (int)n);
    }
}

static void test_no_character_model(void **ctx) {
    (void)ctx;
    static const char *const nets[][3] = {
        {"reader: csv", "  - {name: loss, type: softmax_loss, src: [data.features, data.label]}\n",
         "no text of characters"},
        {"reader: chars, streams: 2, length: 1",
         "  - {name: table, type: embedding, src: data.chars, vocab: 4, dim: 4}\n", "no softmax_loss"},
        {"reader: chars, streams: 2, length: 1",
         "  - {name: table, type: embedding, src: data.chars, vocab: 4, dim: 5}\n"
         "  - {name: scores, type: flatten}\n  - {name: loss, type: softmax_loss, src: [scores, "
         "data.next]}\n",
         "5 scores for 4 different characters"},
        {"reader: chars, streams: 90, length: 1", "  - {name: a, type: relu}\n", "is too short"},
    };
    for (size_t i = 0; i < MU_COUNT(nets); i++) {
        rig r;
        mu_err err = {0};
        mu_status st = rig_open(&r, nets[i][0], nets[i][1], &err);
        if (st == MU_OK || !strstr(err.msg, nets[i][2]))
            fail_msg("net %zu: %s: `%s` lacks `%s`", i, mu_status_name(st), err.msg, nets[i][2]);
        rig_close(&r);
    }
}

int main(void) {
    temp_dir(dir);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_follows_the_table), cmocka_unit_test(test_temperature_and_seed),
        cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_state_is_carried),         cmocka_unit_test(test_unrolled_draws_as_fused),
        cmocka_unit_test(test_bad_options),              cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_no_character_model),       cmocka_unit_test(test_forgetful_nets),
        cmocka_unit_test(test_scores_by_any_name),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_tree(dir);
    return failed;
}
