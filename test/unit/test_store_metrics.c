// SPDX-License-Identifier: Apache-2.0
// Tests of store/metrics: the exact lines, and what a resume keeps.
#include "run_help.h"

#include "store/metrics.h"

#include <math.h>

static char dir[64], path[100];

static int set_up(void **state) {
    (void)state;
    snprintf(path, sizeof path, "%s/metrics.jsonl", temp_dir(dir));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_tree(dir);
    return 0;
}

static void assert_content(const char *expected) {
    char *text;
    size_t n;
    assert_ok(mu_fs_read(path, 100000, &text, &n, err));
    assert_string_equal(text, expected);
    mu_free(text);
}

static void test_lines(void **state) {
    (void)state;
    mu_metrics *m;
    assert_ok(mu_metrics_open(path, -1, &m, err));
    const mu_metric_value line[] = {{"step", 10},
                                    {"epoch", 0.5},
                                    {"train_loss", (double)0.1f},
                                    {"lr", 1e-5},
                                    {"val_loss", NAN},
                                    {"grad_norm", INFINITY},
                                    {"large", 1e300},
                                    {"count", -9007199254740991.0},
                                    {"k\"\\\n", 0}};
    uint64_t calls = mu_alloc_get_stats().n_calls;
    assert_ok(mu_metrics_write(m, line, MU_COUNT(line), err));
    assert_ok(mu_metrics_write(m, NULL, 0, err));
    assert_int_equal(mu_alloc_get_stats().n_calls, calls);
    static const char *const columns[] = {"version", "loss"};
    static const double values[] = {3, 4, 0.25, NAN};
    const mu_metric_table table[] = {{"server_groups", columns, 2, 2, values},
                                     {"workers", columns + 1, 1, 0, values}};
    assert_ok(mu_metrics_write_tables(m, line, 1, table, 2, err));
    assert_ok(mu_metrics_write_tables(m, NULL, 0, table, 1, err));
    assert_int_equal(mu_alloc_get_stats().n_calls, calls);
    char key[MU_METRICS_LINE];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    assert_fails(mu_metrics_write(m, &(mu_metric_value){key, 1}, 1, err), MU_EUSAGE, "longer than 32768");
    mu_metric_value many[4000];
    for (int i = 0; i < 4000; i++) many[i] = (mu_metric_value){"abc", 1.0 / 3};
    for (size_t n = 1500; n < 4000; n += 3) {
        mu_status s = mu_metrics_write(m, many, n, NULL); // the limit lies somewhere here: no overrun (ASan)
        assert_true(s == MU_OK || s == MU_EUSAGE);
        if (s == MU_EUSAGE) break;
        assert_true(n < 3990);
    }
    mu_metrics_close(m);
    assert_ok(mu_metrics_open(path, 10, &m, err));
    mu_metrics_close(m);
    char *text;
    size_t n;
    assert_ok(mu_fs_read(path, 100000000, &text, &n, err));
    static const char first[] = "{\"step\":10,\"epoch\":0.5,\"train_loss\":0.100000001,\"lr\":1e-05,\"val_"
                                "loss\":null,\"grad_norm\":null,"
                                "\"large\":1e+300,\"count\":-9007199254740991,\"k\\\"\\\\\\u000a\":0}\n{}\n"
                                "{\"step\":10,\"server_groups\":{\"version\":[3,4],\"loss\":[0.25,null]},"
                                "\"workers\":{\"loss\":[]}}\n"
                                "{\"server_groups\":{\"version\":[3,4],\"loss\":[0.25,null]}}\n";
    assert_memory_equal(text, first, strlen(first));
    mu_free(text);
}

static void test_resume(void **state) {
    (void)state;
    static const char before[] = "{\"step\":1}\nnot ours\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n{\"st";
    mu_metrics *m;
    write_file(path, before, strlen(before));
    assert_ok(mu_metrics_open(path, -1, &m, err)); // only the torn line goes
    mu_metrics_close(m);
    assert_content("{\"step\":1}\nnot ours\n{\"step\":2}\n{\"step\":3}\n{\"step\":4}\n");
    assert_ok(mu_metrics_open(path, 2, &m, err));
    assert_ok(mu_metrics_write(m, &(mu_metric_value){"step", 3}, 1, err));
    mu_metrics_close(m);
    assert_content("{\"step\":1}\nnot ours\n{\"step\":2}\n{\"step\":3}\n");
    for (int64_t n = 1;; n++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        m = NULL;
        mu_alloc_fail_at(n);
        mu_status s = mu_metrics_open(path, 2, &m, NULL);
        mu_alloc_fail_at(0);
        mu_metrics_close(m);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (s == MU_OK) break;
        assert_int_equal(s, MU_ENOMEM);
        assert_content("{\"step\":1}\nnot ours\n{\"step\":2}\n{\"step\":3}\n"); // nothing is cut on a guess
    }
    assert_content("{\"step\":1}\nnot ours\n{\"step\":2}\n");
    assert_fails(mu_metrics_open("no/such/folder/x", -1, &m, err), MU_EIO, "No such file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_resume, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("store/metrics", tests, NULL, NULL);
}
