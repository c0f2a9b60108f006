// SPDX-License-Identifier: Apache-2.0
// test_train_sequence.c - trainings of recurrent nets whose state goes on from batch to batch: what is
// learned, resumed in the middle of an epoch, shared by several learners.
#include "training_help.h"

static char folder[] = "test-sequence-XXXXXX";

// 24 texts side by side in pieces of 6 words; a batch holds a piece of each of them. About five of them begin
// anew.
#define DATA                                                                                                 \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, vocab: 12, shape: [6], streams: 24, records: 480, noise: 0.05,"            \
    " reset_every: 5}\n"                                                                                     \
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

static const mu_param *param_of(const training *t, const char *name) {
    for (int i = 0; i < t->s->params->n; i++)
        if (!strcmp(t->s->params->list[i]->name, name)) return t->s->params->list[i];
    fail_msg("no parameter `%s`", name);
    return NULL;
}

// Both kinds of net begin anew where the data says so, and leave the same states.
static void fused_equals_unrolled(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{NET("gru"), UNROLLED("gru_cell", "")},
                                           {NET("lstm"), UNROLLED("lstm_cell", ".1")}};
    static const char *const resets[] = {"data.train.reset=random", "data.train.reset=counted"};
    const mu_run_opts quiet = {.no_files = true};
    for (size_t i = 0; i < 4; i++) {
        training t[2];
        for (int k = 0; k < 2; k++) {
            char text[2048];
            snprintf(text, sizeof text, "%s%s%s%s", TRAIN("30"), DATA, pairs[i / 2][k], SGD("0.05"));
            train(&t[k], text, &quiet, (const char *const[]){resets[i % 2], "net.drop.ratio=0"}, 2);
        }
        for (int p = 0; p < t[0].s->params->n; p++) {
            const mu_param *a = t[0].s->params->list[p], *b = param_of(&t[1], a->name);
            assert_int_equal(a->count, b->count);
            for (size_t e = 0; e < a->count; e++)
                if (!(fabsf(a->value[e] - b->value[e]) <= 1e-4f))
                    fail_msg("%s[%zu] is %g and %g", a->name, e, (double)a->value[e], (double)b->value[e]);
        }
        end(&t[0]);
        end(&t[1]);
    }
}

// Sixteen walks along a period of 16 words of which each is one of four, so that a net has to know where it
// is. With states that are never reset it learns to count by itself, and stays out of step when it begins
// with nothing: that is the failure. With resets it learns to find its place from what it reads.
static void a_text_can_begin_anywhere(void **state) {
    (void)state;
    static const char job[] =
        "name: t\ndata:\n"
        "  train: {reader: synthetic, vocab: 4, shape: [20], streams: 16, records: 64000, noise: 0}\n"
        "  test: {reader: synthetic, vocab: 4, shape: [20], streams: 16, records: 16, noise: 0}\n"
        "net:\n- {name: rec, type: gru, src: [data.words, data.begin], hidden: 32}\n"
        "- {name: ip, type: inner_product, outputs: 4, axis: 2}\n"
        "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
        "train: {batch: 16, steps: 1500}\ntest: {every: never, batch: 16}\n"
        "updater: {type: adam, clip_value: 5, rate: 0.01}\n";
    static const char *const resets[] = {"never", "random", "counted"}, *const cells[] = {"gru", "lstm"};
    const mu_run_opts quiet = {.no_files = true};
    for (size_t i = 0; i < 2 * MU_COUNT(resets); i++) {
        char reset[64], cell[64];
        const char *how = resets[i / 2];
        snprintf(reset, sizeof reset, "data.train.reset=%s", how);
        snprintf(cell, sizeof cell, "net.rec.type=%s", cells[i % 2]);
        training t;
        mu_scores sc;
        train(&t, job, &quiet, (const char *const[]){reset, cell}, 2);
        if (mu_evaluate(&t.s->test, MU_TEST, NULL, NULL, &sc, &t.err) != MU_OK) fail_msg("%s", t.err.msg);
        const double carried = t.r.train_loss, zero = sc.loss;
        print_message("%s, %s: loss %.4f carried on, %.4f from zero\n", cells[i % 2], how, carried, zero);
        assert_true(carried < 0.1);
        if (i / 2 == 0) assert_true(zero > carried + 1); // or the test shows nothing
        else if (!(zero < carried + 0.25)) fail_msg("reset %s: %g and %g", how, carried, zero);
        end(&t);
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
        assert_int_equal(t.r.learners.produced,
                         t.r.learners.applied + t.r.learners.rejected + t.r.learners.lost);
        assert_true(t.r.train_loss < 2.45);
        end(&t);
    }
}

// Opens phases of the job, or finds just this problem; says NULL: they must open.
static void check_phases(unsigned phases, const char *path, const char *text, const char *const *sets,
                         size_t n, const char *says, const char *hint) {
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_err err = {0};
    assert_int_equal(mu_job_parse(path, text, strlen(text), sets, n, &job, &err), MU_OK);
    const mu_session_opts o = {.phases = phases};
    mu_status st = mu_session_open(job, &o, &s, &err);
    if (st != (says ? MU_EJOB : MU_OK)) fail_msg("%s: %s", mu_status_name(st), err.msg);
    const mu_diag *g = job->diags.list;
    if (says && (job->diags.n_errors != 1 || !strstr(g->msg, says) || !g->hint || !strstr(g->hint, hint)
                 || !g->pos.line))
        fail_msg("%zu problems, the first `%s` (%s), not `%s` (%s)", job->diags.n_errors, g->msg,
                 g->hint ? g->hint : "", says, hint);
    mu_session_close(s);
    mu_job_destroy(job);
}

static void check_job(const char *path, const char *text, const char *const *sets, size_t n, const char *says,
                      const char *hint) {
    check_phases(MU_TRAIN | MU_VALIDATION | MU_TEST, path, text, sets, n, says, hint);
}

// Learners that wait for each other share a batch; a stream has one row in it.
static void batches_fit_the_streams(void **state) {
    (void)state;
    const char *const two[] = {"cluster.learners=2", "cluster.batch=24", "cluster.protocol=hardsync"};
    check_job("t.yaml", TRAIN("20") DATA NET("gru") SGD("0.1"), two, 3,
              "48 samples has more rows than the 24 streams", "share one batch");
    check_job("t.yaml", TRAIN("20") DATA UNROLLED("gru_cell", "") SGD("0.1"), two, 3,
              "48 samples has more rows", "streams");
    static const char rbm[] =
        "name: t\ndata: {train: {reader: synthetic, shape: [9], records: 480}}\n"
        "net:\n- {name: rbm, type: rbm, hidden: 4, chains: 30}\n"
        "train: {algorithm: {type: cd, persistent: true}, batch: 24, steps: 9}\n" SGD("0.1");
    check_job("t.yaml", rbm, two, 3,
              "a batch of 48 samples needs as many chains, `chains` is 30", "`chains`");
    check_job("t.yaml", rbm, (const char *const[]){"train.batch=31"}, 1,
              "a batch of 31 samples needs as many chains", "`chains`");
    const char *const turns[] = {"cluster.learners=2", "cluster.batch=24", "cluster.protocol=async"};
    check_job("t.yaml", TRAIN("20") DATA NET("gru") SGD("0.1"), turns, 3, NULL, NULL);
    const char *const warm[] = {turns[0], turns[1], turns[2], "cluster.warm_start=5 steps"};
    check_job("t.yaml", TRAIN("20") DATA NET("gru") SGD("0.1"), warm, 4,
              "48 samples has more rows", "streams");
}

static int64_t warm_steps(const char *text, const char *const *sets, size_t n) {
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_err err = {0};
    assert_int_equal(mu_job_parse("t.yaml", text, strlen(text), sets, n, &job, &err), MU_OK);
    assert_int_equal(mu_session_open(job, &(mu_session_opts){.phases = MU_TRAIN}, &s, &err), MU_OK);
    int64_t steps = s->setup.warm_versions;
    mu_session_close(s);
    mu_job_destroy(job);
    return steps;
}

// Nobody asked for a warm start: it is left out where its batch would not fit.
static void a_warm_start_fits_the_streams(void **state) {
    (void)state;
    const char *sets[] = {"cluster.learners=2", "cluster.protocol=async", "cluster.batch=12"};
    assert_int_equal(warm_steps(TRAIN("20") DATA NET("gru") SGD("0.1"), sets, 3), 4);
    sets[2] = "cluster.batch=24";
    assert_int_equal(warm_steps(TRAIN("20") DATA NET("gru") SGD("0.1"), sets, 3), 0);
}

// Texts in two files count their characters alike, or figures about the second one would mean nothing.
static void vocabularies_agree(void **state) {
    (void)state;
    static const struct {
        const char *file, *text, *vocab_of;
        const char *trains;     // what is wrong beside the training data; NULL = nothing
        bool good;              // without it
    } rows[] = {
        {"a", "abcdabcdabcdabcdabcd", "", NULL, true},
        {"b", "abxdabxdabxdabxdabxd", "", "0x78, does not occur in the text of the model", false},
        {"c", "abddabddabddabddabdd", "", NULL, false}, // fewer characters: numbered as in training
        {"c", "abddabddabddabddabdd", ", vocab_of: a.txt", NULL, true},
    };
    char path[96], text[1500], job[96];
    snprintf(job, sizeof job, "%s/t.yaml", folder);
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        snprintf(path, sizeof path, "%s/%s.txt", folder, rows[i].file);
        write_file(path, rows[i].text, 20);
        snprintf(text, sizeof text,
                 "name: t\ndata:\n  train: {reader: chars, file: a.txt, streams: 2, length: 2}\n"
                 "  test: {reader: chars, file: %s.txt, streams: 2, length: 2%s}\n"
                 "net:\n- {name: e, type: gru, src: data.chars, hidden: 4}\n"
                 "- {name: loss, type: softmax_loss, src: [e, data.next]}\n"
                 "train: {batch: 2, steps: 1}\n" SGD("0.1"), rows[i].file, rows[i].vocab_of);
        const char *says = "number 2 of `chars` is `d` in `data.test` and `c` in `data.train`";
        check_job(job, text, NULL, 0, rows[i].trains, "take it out or replace it");
        check_phases(MU_TEST, job, text, NULL, 0, rows[i].good ? NULL : says, "Add `vocab_of: a.txt`");
    }
    static const char train[] = "yes\tone two one\nno\ttwo one\n", test[] = "yes\ttwo one two\nno\ttwo one\n";
    snprintf(path, sizeof path, "%s/train.tsv", folder);
    write_file(path, train, sizeof train - 1);
    snprintf(path, sizeof path, "%s/test.tsv", folder);
    write_file(path, test, sizeof test - 1);
    const char *sentences =
        "name: t\ndata:\n  train: {reader: sentences, file: train.tsv}\n"
        "  test: {reader: sentences, file: test.tsv}\n"
        "net:\n- {name: e, type: embedding, src: data.words, vocab: 9, dim: 2}\n"
        "- {name: ip, type: inner_product, outputs: 2}\n"
        "- {name: loss, type: softmax_loss, src: [ip, data.label]}\n"
        "train: {batch: 2, steps: 1}\n" SGD("0.1");
    check_job(job, sentences, NULL, 0, NULL, NULL);
    check_phases(MU_TEST, job, sentences, NULL, 0,
                 "of `words` is `two` in `data.test` and `one` in `data.train`", "Add `vocab_of: train.tsv`");
    check_job(job, sentences, (const char *const[]){"data.test.vocab_of=train.tsv"}, 1, NULL, NULL);
}

// A line again and again, now and then a letter is wrong: who reads on in the middle has to find the place.
static void write_lines(const char *path, size_t size, uint64_t seed) {
    static const char line[] = "abacadbbcdcaddb\n";
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        text[i] = (seed >> 33) % 100 < 2 ? (char)('a' + (seed >> 48) % 4) : line[i % 16];
    }
    write_file(path, text, size);
    free(text);
}

static const char letters[] =
    "name: t\ndata:\n  train: {reader: chars, file: train.txt, streams: 16, length: 10}\n"
    "  test: {reader: chars, file: test.txt, vocab_of: train.txt, streams: 16, length: 10}\n"
    "net:\n- {name: gru, type: gru, src: [data.chars, data.begin], hidden: 24}\n"
    "- {name: ip, type: inner_product, outputs: 5, axis: 2}\n"
    "- {name: loss, type: softmax_loss, src: [ip, data.next]}\n"
    "train: {batch: 16, steps: 400}\ntest: {every: never, batch: 16}\n"
    "updater: {type: adam, clip_value: 5, rate: 0.01}\n";

static double score_of(const char *const *sets, size_t n) {
    training t;
    mu_scores sc;
    char folder_is[96];
    const char *all[8];
    snprintf(folder_is, sizeof folder_is, "folder=%s", folder);
    for (size_t i = 0; i < n; i++) all[i] = sets[i];
    all[n] = folder_is;
    train(&t, letters, &(mu_run_opts){.no_files = true}, all, n + 1);
    if (mu_evaluate(&t.s->test, MU_TEST, NULL, NULL, &sc, &t.err) != MU_OK) fail_msg("%s", t.err.msg);
    assert_int_equal(sc.samples, 96); // each record, and none twice
    end(&t);
    return sc.loss;
}

static void write_letters(void) {
    char path[96];
    snprintf(path, sizeof path, "%s/train.txt", folder);
    write_lines(path, 20001, 1);
    snprintf(path, sizeof path, "%s/test.txt", folder);
    write_lines(path, 961, 2);  // 96 records, in whatever number of streams
}

// The loss of one text is that of its characters in their places, however it is cut into streams and batches.
// Begun with state zero, 32 streams of three records are another matter.
static void a_score_is_of_the_text(void **state) {
    (void)state;
    write_letters();
    static const char *const cut[][2] = {{"data.test.streams=1", "test.batch=1"},
                                         {"data.test.streams=6", "test.batch=4"},
                                         {"data.test.streams=16", "test.batch=16"},
                                         {"data.test.streams=32", "test.batch=5"},
                                         {"data.test.streams=32", "test.batch=32"}};
    double loss[MU_COUNT(cut)] = {0};
    for (size_t i = 0; i < MU_COUNT(cut); i++) {
        loss[i] = score_of(cut[i], 2);
        print_message("%s, %s: %.5f\n", cut[i][0], cut[i][1], loss[i]);
        if (!(fabs(loss[i] - loss[0]) < 0.003)) fail_msg("%g is not %g", loss[i], loss[0]);
    }
    assert_true(fabs(loss[3] - loss[4]) < 1e-6); // batches change nothing
    const double zero = score_of((const char *const[]){cut[4][0], cut[4][1], "data.test.warmup=0"}, 3);
    print_message("begun with zeros: %.5f\n", zero);
    assert_true(zero > loss[4] + 0.01);
}

static int lines_of(const char *name) {
    char path[96], line[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    int lines = 0;
    while (fgets(line, sizeof line, f)) lines++;
    fclose(f);
    return lines;
}

// Layers that write files begin anew with record 0, so that what counts is left.
static void a_warm_up_leaves_no_rows(void **state) {
    (void)state;
    char job[2048];
    write_letters();
    const char *at = strstr(letters, "train: {batch");
    snprintf(job, sizeof job,
             "folder: %s\n%.*s- {name: last, type: time_step, src: ip, step: -1, include: test}\n"
             "- {name: rows, type: csv_output, src: last, path: rows, include: test}\n"
             "- {name: sorted, type: argsort, src: last, top: 2, path: sorted, include: test}\n%s",
             folder, (int)(at - letters), letters, at);
    training t;
    mu_scores sc;
    train(&t, job, &(mu_run_opts){.no_files = true}, (const char *const[]){"train.steps=3"}, 1);
    if (mu_evaluate(&t.s->test, MU_TEST, NULL, NULL, &sc, &t.err) != MU_OK) fail_msg("%s", t.err.msg);
    end(&t);
    assert_int_equal(lines_of("rows"), 97);     // and a header
    assert_int_equal(lines_of("sorted"), 96);
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
        cmocka_unit_test(batches_fit_the_streams),
        cmocka_unit_test(a_warm_start_fits_the_streams),
        cmocka_unit_test(vocabularies_agree),
        cmocka_unit_test(two_learners_equal_one),
        cmocka_unit_test(fused_equals_unrolled),
        cmocka_unit_test(a_text_can_begin_anywhere),
        cmocka_unit_test(a_score_is_of_the_text),
        cmocka_unit_test(a_warm_up_leaves_no_rows),
        cmocka_unit_test(every_protocol_ends),
        cmocka_unit_test(bptt_gives_the_bits_of_bp),
        cmocka_unit_test(a_step_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
