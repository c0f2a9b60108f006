// SPDX-License-Identifier: Apache-2.0
// Costs: numbers between sizes, the file as a stranger may have changed it, and measuring a small job.
#include "plan_help.h"

#include "job/job.h"
#include "plan/costs_measure.h"

#include <unistd.h>

// ---- between sizes ----

static void test_interpolates(void **state) {
    (void)state;
    mu_costs k = {.n_sizes = 3, .size = {4, 8, 16}};
    const double v[MU_COST_SIZES] = {1, 3, 5};
    assert_true(fabs(mu_cost_at(&k, v, 4) - 1) < 1e-12);
    assert_true(fabs(mu_cost_at(&k, v, 6) - 2) < 1e-12);
    assert_true(fabs(mu_cost_at(&k, v, 12) - 4) < 1e-12);
    assert_true(fabs(mu_cost_at(&k, v, 32) - 9) < 1e-12);          // the last line goes on
    assert_true(fabs(mu_cost_at(&k, v, 2) - 0.5) < 1e-12);         // not below what is in proportion
    const double falls[MU_COST_SIZES] = {1, 5, 3};
    assert_true(mu_cost_at(&k, falls, 64) >= 3);                   // noise does not lead below
    k.n_sizes = 1;
    assert_true(fabs(mu_cost_at(&k, v, 8) - 2) < 1e-12);
}

// ---- the file ----

static void expect_same(const mu_costs *a, const mu_costs *b) {
    char *x = mu_costs_write(a), *y = mu_costs_write(b);
    assert_non_null(x);
    assert_string_equal(x, y);
    mu_free(x);
    mu_free(y);
}

static void test_round_trip(void **state) {
    (void)state;
    dice d = {99};
    mu_costs k = random_costs(&d), again;
    char *text = mu_costs_write(&k);
    assert_ok(mu_costs_parse(text, strlen(text), "test", &again, ok_err));
    assert_int_equal(again.job, k.job);
    assert_int_equal(again.n_params, k.n_params);
    assert_true(fabs(again.gradient_s[2] - k.gradient_s[2]) < 1e-6 * k.gradient_s[2]);
    expect_same(&k, &again);
    mu_free(text);
    mu_costs_fini(&k);
    mu_costs_fini(&again);
}

// One change of a good file; the message names the key.
static void refuse_with(const char *from, const char *to, const char *names) {
    mu_costs k = plain_costs(2), out;
    char *text = mu_costs_write(&k), *at = strstr(text, from);
    mu_err err = {0};
    if (!at) fail_msg("no `%s` in the file", from);
    const size_t n = strlen(text) + strlen(to) + 1;
    char *bad = malloc(n);
    snprintf(bad, n, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    if (mu_costs_parse(bad, strlen(bad), "test", &out, &err) != MU_EDATA) fail_msg("`%s` was taken", to);
    if (!strstr(err.msg, names)) fail_msg("`%s`: %s", to, err.msg);
    free(bad);
    mu_free(text);
    mu_costs_fini(&k);
}

static void test_refuses(void **state) {
    (void)state;
    const uint64_t live = mu_alloc_get_stats().n_live;
    refuse_with("\"undo\": 1.1", "\"undo\": 0.5", "undo");
    refuse_with("\"undo\": 1.1", "\"undo\": \"x\"", "undo");
    refuse_with("\"undo\": 1.1", "\"undoing\": 1.1", "undo");
    refuse_with("\"batch\": 64", "\"batch\": 0", "batch");
    refuse_with("\"batch\": 64", "\"batch\": 6.5", "batch");
    refuse_with("\"format\": 1", "\"format\": 2", "format");
    refuse_with("0000000000000007", "000000000000000g", "job");
    refuse_with("\"rule\": \"sgd\"", "\"rule\": \"a rule with a name that is much too long\"", "rule");
    refuse_with("  16,\n  32", "  32,\n  16", "sizes");
    refuse_with("  16,\n  32", "  32", "is not a list with a number for each size");
    refuse_with("\"spread\": 0.02", "\"spread\": 1e400", "");
    refuse_with("\"fixed\": false", "\"fixed\": 0", "fixed");
    refuse_with("\"layers\": [", "\"layers\": [1, ", "");
    refuse_with("\"splits\": []", "\"splits\": {}", "splits");
    refuse_with("{", "", "");
    assert_int_equal(mu_alloc_get_stats().n_live, live);
}

// ---- kept ----

static void test_keeps(void **state) {
    (void)state;
    char folder[] = "/tmp/muster-costs-XXXXXX", command[80];
    mu_costs k = plain_costs(1), out;
    mu_err err = {0};
    assert_non_null(mkdtemp(folder));
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_int_equal(mu_costs_find(7, "X", "v3", &out, &err), MU_ENOTFOUND);
    mu_err_clear(&err);
    assert_ok(mu_costs_keep(&k, ok_err));
    assert_ok(mu_costs_find(7, "X", "v3", &out, ok_err));
    mu_costs_fini(&out);
    assert_int_equal(mu_costs_find(7, "X", "v4", &out, &err), MU_ENOTFOUND);
    mu_costs_fini(&k);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

// ---- measuring ----

static const char job_text[] =
    "name: small\n"
    "data: {train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 64}}\n"
    "net:\n"
    "  - {name: fc1, type: inner_product, src: data.image, outputs: 256}\n"
    "  - {name: relu1, type: relu}\n"
    "  - {name: fc2, type: inner_product, outputs: 4}\n"
    "  - {name: loss, type: softmax_loss, src: [fc2, data.label]}\n"
    "train: {batch: 16, epochs: 1}\n"
    "updater: {type: sgd, momentum: 0.9, rate: 0.01}\n";

static void write_job(char path[], const char *text) {
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

// No figure can be foretold; what they have to do with each other can.
static void test_measures(void **state) {
    (void)state;
    char path[] = "/tmp/muster-costs-job-XXXXXX";
    mu_costs k;
    write_job(path, job_text);
    const mu_cost_task t = {.job = path, .seconds = 1, .cores = 2};
    assert_ok(mu_costs_measure(&t, &k, ok_err));
    assert_int_equal(k.batch, 16);
    assert_int_equal(k.records, 64);
    assert_int_equal(k.n_sizes, 4);
    assert_int_equal(k.size[0], 1);
    assert_int_equal(k.size[3], 16);
    assert_int_equal(k.histories, 1);
    assert_int_equal(k.n_layers, 4);
    assert_int_equal(k.n_params, 4);
    assert_string_equal(k.param[0].name, "fc1.weight");
    assert_string_equal(k.param[0].form, "factors"); // 16 * (64 + 256) floats instead of 16384
    assert_true(k.param[0].message_bytes[3] >= 4 * 16 * (64 + 256));
    assert_true(k.param[0].message_bytes[0] < k.param[0].message_bytes[3]);
    assert_true(k.layer[0].flops >= 2 * 2 * 64 * 256); // forward and weights, of a sample
    for (int i = 0; i < k.n_sizes; i++) {
        assert_true(k.alone_s[i] > 0 && k.gradient_s[i] > 0 && k.apply_s[i] > 0);
        assert_true(k.sweep_s[i] >= 0 && k.sweep_s[i] <= k.apply_s[i]);
    }
    assert_true(k.undo >= 1 && (k.crowd == 2 || k.busy > 0) && k.crowd_gradient > 0 && k.record_s > 0 && k.start_s > 0);
    assert_non_null(mu_costs_split(&k, 2, false));
    assert_non_null(mu_costs_split(&k, 2, true));
    assert_null(mu_costs_split(&k, 4, false)); // more than there are cores
    const mu_cost_split *s = mu_costs_split(&k, 2, false);
    assert_true(s->share[3] > 0.4 && s->share[3] <= 1 && s->weight_bytes[3] > 0);
    mu_costs_fini(&k);
    remove(path);
}

static void test_tells_what_is_wrong(void **state) {
    (void)state;
    char path[] = "/tmp/muster-costs-job-XXXXXX", bad[sizeof job_text];
    mu_costs k;
    mu_err err = {0};
    memcpy(bad, job_text, sizeof bad);
    memcpy(strstr(bad, "relu1, type: relu"), "relu1, type: rely", 17);
    write_job(path, bad);
    const mu_cost_task t = {.job = path, .seconds = 0.2, .cores = 1};
    assert_int_equal(mu_costs_measure(&t, &k, &err), MU_EJOB);
    if (!strstr(err.msg, "rely")) fail_msg("%s", err.msg);
    remove(path);
}

static uint64_t hash_of(const char *text, const char *const *set, size_t n) {
    mu_job *job = NULL;
    assert_ok(mu_job_parse("/tmp/job.yaml", text, strlen(text), set, n, &job, ok_err));
    const uint64_t h = mu_costs_hash(job);
    mu_job_destroy(job);
    return h;
}

// What costs do not hang on does not change their name.
static void test_hashes(void **state) {
    (void)state;
    const char *const same[] = {"cluster.learners=2", "train.epochs=9", "name=other", "test.every=never"};
    const char *const other[] = {"train.batch=32", "net.fc1.outputs=255", "updater.momentum=0.5", "data.train.records=9"};
    const uint64_t h = hash_of(job_text, NULL, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_true(hash_of(job_text, &same[i], 1) == h);
        assert_true(hash_of(job_text, &other[i], 1) != h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interpolates), cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_keeps), cmocka_unit_test(test_measures), cmocka_unit_test(test_tells_what_is_wrong),
        cmocka_unit_test(test_hashes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
