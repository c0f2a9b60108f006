// SPDX-License-Identifier: Apache-2.0
// test_learners_replay.c - asynchronous runs, recorded and repeated: every parameter and every history bit
// for bit, also when processes died in between; logs that are torn, changed or of another run.
#include "base/failpoint.h"
#include "run/driver.h"
#include "file/fs.h"
#include "learners/record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define JOB "name: t\nseed: 5\ntrain: {batch: 32, steps: 40}\ntest: {every: never}\n"
#define DATA(shape)                                                                                          \
    "data:\n"                                                                                                \
    "  train: {reader: synthetic, shape: " shape ", classes: 10, records: 300, scale: 0.0078125}\n"          \
    "  test: {reader: synthetic, shape: " shape ", classes: 10, records: 50, scale: 0.0078125}\n"
#define CONV                                                                                                 \
    JOB DATA("[1, 12, 12]") "net:\n"                                                                         \
                            "- {name: conv1, type: convolution, src: data.image, filters: 8, kernel: 3}\n"   \
                            "- {name: bn1, type: batch_norm}\n"                                              \
                            "- {name: relu1, type: relu}\n"                                                  \
                            "- {name: pool1, type: pooling, method: max, kernel: 2, stride: 2}\n"            \
                            "- {name: drop1, type: dropout, ratio: 0.4}\n"                                   \
                            "- {name: ip1, type: inner_product, outputs: 10}\n"                              \
                            "- {name: loss, type: softmax_loss, src: [ip1, data.label]}\n"                   \
                            "updater: {type: sgd, momentum: 0.9, decay: 0.0005, rate: {type: step, base: "   \
                            "0.05, every: 10, gamma: 0.7}}\n"
#define MLP(updater)                                                                                         \
    JOB DATA("[200]") "net:\n"                                                                               \
                      "- {name: fc1, type: inner_product, src: data.features, outputs: 300, init: msra}\n"   \
                      "- {name: relu1, type: relu}\n"                                                        \
                      "- {name: drop1, type: dropout, ratio: 0.2}\n"                                         \
                      "- {name: fc2, type: inner_product, outputs: 10}\n"                                    \
                      "- {name: loss, type: softmax_loss, src: [fc2, data.label]}\n" updater
#define ADAM "updater: {type: adam, rate: 0.002}\n"
#define CLIPPED "updater: {type: sgd, momentum: 0.9, early: 15 steps, rate: 0.1, clip_norm: 0.5}\n"

static char folder[] = "/tmp/muster-replay-XXXXXX";
static char log_path[64];

typedef struct training {
    mu_job *job;
    mu_session *s;
    mu_run_result r;
    mu_err err;
    mu_status status;
} training;

static void say(void *ctx, const char *text) {
    (void)ctx;
    print_message("    %s\n", text);
}

static void run(training *t, const char *text, const char *const *sets, size_t n, const char *record,
                const char *replay) {
    memset(t, 0, sizeof *t);
    mu_status st = mu_job_parse("t.yaml", text, strlen(text), sets, n, &t->job, &t->err);
    if (st == MU_OK)
        st = mu_session_open(t->job, &(mu_session_opts){.phases = MU_TRAIN | MU_TEST}, &t->s, &t->err);
    if (st != MU_OK) {
        if (t->job) mu_diags_print(&t->job->diags, stderr, false);
        fail_msg("%s", t->err.msg);
    }
    mu_run_opts o = {.no_files = true,
                     .record = record,
                     .replay = replay,
                     .sets = sets,
                     .n_sets = n,
                     .watch.message = say};
    t->status = mu_run_train(t->s, &o, &t->r, &t->err);
}

static void end(training *t) {
    mu_session_close(t->s);
    mu_job_destroy(t->job);
}

static void expect_ok(const training *t, const char *what) {
    if (t->status != MU_OK) fail_msg("%s: %s (%s)", what, t->err.msg, t->err.hint);
}

// Floats of all blocks that differ in any bit.
static size_t n_different(const mu_params *a, const mu_params *b) {
    size_t n = 0;
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->n_slots, b->n_slots);
    for (int k = -1; k < a->n_slots; k++) {
        const float *x = k < 0 ? a->value : a->slot[k], *y = k < 0 ? b->value : b->slot[k];
        for (size_t i = 0; i < a->count; i++) n += memcmp(&x[i], &y[i], sizeof *x) != 0;
    }
    return n;
}

static void same_run(const training *a, const training *b) {
    assert_int_equal(n_different(a->s->params, b->s->params), 0);
    assert_int_equal(a->r.steps, b->r.steps);
    assert_true(a->r.epochs == b->r.epochs);
    assert_true(a->r.test.loss == b->r.test.loss);
    assert_int_equal(a->r.learners.versions, b->r.learners.versions);
    assert_int_equal(a->r.learners.applied, b->r.learners.applied);
    assert_int_equal(a->r.learners.staleness_max, b->r.learners.staleness_max);
    assert_memory_equal(a->r.learners.staleness_hist, b->r.learners.staleness_hist,
                        sizeof a->r.learners.staleness_hist);
}

static int n_repeated; // runs that came out the same

static void repeat(const char *name, const char *text, const char *const *sets, size_t n) {
    training a, b;
    (void)unlink(log_path);
    run(&a, text, sets, n, log_path, NULL);
    mu_failpoints_close();
    unsetenv("MUSTER_FAILPOINTS");
    expect_ok(&a, name);
    run(&b, text, sets, n, NULL, log_path);
    expect_ok(&b, name);
    same_run(&a, &b);
    n_repeated++;
    print_message("%s: %lld updates again, staleness %.2f at most %lld, %lld lost\n", name,
                  (long long)b.r.learners.versions, b.r.learners.staleness_mean,
                  (long long)b.r.learners.staleness_max,
                  (long long)(a.r.learners.learners_lost + a.r.learners.server_lost));
    end(&a);
    end(&b);
    int status;
    assert_int_equal(waitpid(-1, &status, WNOHANG), -1); // no child, not even a dead one
}

// ---- the same again ----

static const char *const servers[] = {"cluster.server=beside", "cluster.server=process",
                                          "cluster.server=both"};

static void every_protocol_repeats(void **state) {
    (void)state;
    static const char *const protocols[] = {"async", "softsync", "{type: softsync, n: 2}",
                                            "{type: ssp, bound: 2}"};
    static const struct { const char *name, *text; } nets[] = {{"conv", CONV}, {"mlp", MLP(ADAM)}};
    for (size_t i = 0; i < MU_COUNT(nets); i++)
        for (size_t p = 0; p < MU_COUNT(protocols); p++)
            for (size_t k = 0; k < MU_COUNT(servers); k++) {
                char protocol[80], name[160];
                snprintf(protocol, sizeof protocol, "cluster.protocol=%s", protocols[p]);
                snprintf(name, sizeof name, "%s, %s, %s", nets[i].name, protocols[p], servers[k]);
                repeat(name, nets[i].text,
                       (const char *const[]){"cluster.learners=4", protocol, "cluster.warm_start=never",
                                             servers[k]},
                       4);
            }
}

static void special_runs_repeat(void **state) {
    (void)state;
    repeat("hardsync", CONV, (const char *const[]){"cluster.learners=3", "train.batch=31"}, 2);
    repeat("warm start, uneven end", CONV,
           (const char *const[]){"cluster.learners=4", "cluster.protocol=async", "cluster.warm_start=5 steps",
                                 "train.steps=37", "cluster.batch=7"},
           5);
    repeat("clipped, three threads", MLP(CLIPPED),
           (const char *const[]){"cluster.learners=4", "cluster.protocol=async", "cluster.server=process",
                                 "cluster.server_threads=3"},
           4);
    repeat("one learner", CONV, (const char *const[]){"cluster.learners=1"}, 1);
}

// ---- deaths ----

static void deaths_are_no_difference(void **state) {
    (void)state;
    static const char *const points[] = {
        "server/journaled=kill@20*2", "client/copying=kill@15*3",   "server/not-opened=kill@25*2",
        "server/claimed=kill@30*2",   "server/closed=kill@20*2",    "server/piece-written=kill@50*3",
        "client/pushed=kill@11*4",    "learner/backward=kill@90*4",
    };
    for (size_t i = 0; i < MU_COUNT(points); i++) {
        setenv("MUSTER_FAILPOINTS", points[i], 1);
        repeat(points[i], CONV,
               (const char *const[]){"cluster.learners=4", "cluster.protocol=async", servers[i % 3]}, 3);
    }
}

static void enough_were_repeated(void **state) {
    (void)state;
    print_message("%d of %d runs were repeated bit for bit\n", n_repeated, n_repeated);
    assert_true(n_repeated >= 20);
}

// ---- what is refused ----

static void refuse(const char *text, const char *const *sets, size_t n, bool record, const char *say_what) {
    training t;
    run(&t, text, sets, n, record ? log_path : NULL, record ? NULL : log_path);
    if (t.status == MU_OK || !strstr(t.err.msg, say_what))
        fail_msg("expected `%s`, got %s `%s`", say_what, mu_status_name(t.status), t.err.msg);
    end(&t);
}

static void wrong_requests_are_refused(void **state) {
    (void)state;
    const char *const async[] = {"cluster.learners=2", "cluster.protocol=async", "train.steps=20"};
    training t;
    (void)unlink(log_path);
    refuse(CONV, (const char *const[]){"cluster.learners=2", "cluster.protocol=hogwild"}, 2, true,
           "hogwild cannot be recorded");
    refuse(CONV, (const char *const[]){"cluster.learners=2", "train.nonfinite=rollback"}, 2, true,
           "cannot be recorded");
    run(&t, CONV, async, 3, log_path, NULL);
    expect_ok(&t, "async");
    end(&t);
    refuse(CONV, async, 3, true, "exists already");
    refuse(CONV, async, 1, false, "the log is of 2 learners, async");
    refuse(CONV, (const char *const[]){async[0], async[1], "seed=6"}, 3, false,
           "does not begin with the weights");
    refuse(CONV, (const char *const[]){async[0], async[1], "updater.momentum=0.5"}, 3, false,
           "recorded were");
    refuse(CONV, (const char *const[]){async[0], async[1], "data.train.scale=0.01"}, 3, false,
           "recorded were");
}

// ---- the file ----

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

// A replay takes these from the log: rate and momentum of stale gradients follow from them.
static const char *const logged[] = {"cluster.learners=2", "cluster.protocol=async",
                                     "cluster.warm_start=never", "train.steps=10"};

static bytes a_log(void) {
    training t;
    mu_err err = {0};
    bytes b;
    (void)unlink(log_path);
    run(&t, MLP(ADAM), logged, MU_COUNT(logged), log_path, NULL);
    expect_ok(&t, "async");
    end(&t);
    assert_int_equal(mu_fs_read(log_path, 1 << 20, &b.data, &b.size, &err), MU_OK);
    return b;
}

static void torn_logs_count_to_the_last_record(void **state) {
    (void)state;
    bytes b = a_log();
    mu_err err;
    size_t updates = 0;
    for (size_t n = 0; n <= b.size; n++) {
        mu_runlog *log = NULL;
        mu_err_clear(&err);
        mu_status st = mu_runlog_parse(b.data, n, "log", &log, &err);
        if (st != MU_OK) { // not even the head
            assert_int_equal(st, MU_EDATA);
            assert_int_equal(updates, 0);
            continue;
        }
        if (log->n_updates < updates || log->n_updates > updates + 1)
            fail_msg("%zu updates in %zu bytes, %zu before", log->n_updates, n, updates);
        updates = log->n_updates;
        assert_int_equal(log->ended, n == b.size);
        mu_runlog_destroy(log);
    }
    assert_int_equal(updates, 20);
    // a replay of a torn log goes as far as it is good
    FILE *f = fopen(log_path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.size / 2, f), b.size / 2);
    fclose(f);
    training t;
    run(&t, MLP(ADAM), logged, MU_COUNT(logged), NULL, log_path);
    expect_ok(&t, "torn");
    assert_in_range(t.r.learners.versions, 5, 15);
    end(&t);
    mu_free(b.data);
}

// Any changed bit ends the log before it, or makes it no log at all.
static void changed_bits_are_noticed(void **state) {
    (void)state;
    bytes b = a_log();
    for (size_t bit = 0; bit < 8 * b.size; bit++) {
        mu_runlog *log = NULL;
        mu_err err;
        mu_err_clear(&err);
        b.data[bit / 8] = (char)(b.data[bit / 8] ^ 1 << bit % 8);
        if (mu_runlog_parse(b.data, b.size, "log", &log, &err) == MU_OK) {
            if (log->ended || !log->lost_bytes) fail_msg("bit %zu changes nothing", bit);
            mu_runlog_destroy(log);
        }
        b.data[bit / 8] = (char)(b.data[bit / 8] ^ 1 << bit % 8);
    }
    for (int64_t n = 1;; n++) { // and no memory is an error, nothing else
        mu_runlog *log = NULL;
        mu_err err;
        mu_err_clear(&err);
        mu_alloc_fail_at(n);
        mu_status st = mu_runlog_parse(b.data, b.size, "log", &log, &err);
        mu_alloc_fail_at(0);
        mu_runlog_destroy(log);
        if (st == MU_OK) break;
        assert_int_equal(st, MU_ENOMEM);
        assert_true(n < 1000);
    }
    mu_free(b.data);
}

// ---- the journal ----

static void journal_neither_loses_nor_repeats(void **state) {
    (void)state;
    uint64_t room = 8;
    mu_journal *j = mu_alloc_block(mu_journal_size(room), "test");
    assert_non_null(j);
    j->n = room;
    int64_t version = 0, seen = 0;
    for (int round = 0; round < 1000; round++) {
        int n = 1 + round % 3;
        assert_false(mu_journal_has(j, version + 1));
        if (mu_journal_free(j) >= (uint64_t)n) {
            version++;
            for (int i = 0; i < n; i++)
                *mu_journal_next(j, i) =
                    (mu_journal_entry){.update = {.version = version, .n_parts = n}, .part.id.step = i};
            assert_false(version > 1 && mu_journal_has(j, version)); // not before it is published
            mu_journal_publish(j, n);
            assert_true(mu_journal_has(j, version));
        }
        if (round % 5 < 2) continue; // now and then the reader is late
        for (const mu_journal_entry *e; (e = mu_journal_peek(j)); mu_journal_take(j)) {
            seen += e->part.id.step == 0;
            assert_int_equal(e->update.version, seen);
        }
    }
    assert_int_equal(seen, version);
    mu_free(j);
}

static int set_up(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(log_path, sizeof log_path, "%s/run.log", folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    (void)unlink(log_path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(journal_neither_loses_nor_repeats),
        cmocka_unit_test(every_protocol_repeats),
        cmocka_unit_test(special_runs_repeat),
        cmocka_unit_test(deaths_are_no_difference),
        cmocka_unit_test(enough_were_repeated),
        cmocka_unit_test(wrong_requests_are_refused),
        cmocka_unit_test(torn_logs_count_to_the_last_record),
        cmocka_unit_test(changed_bits_are_noticed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
