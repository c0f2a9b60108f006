// SPDX-License-Identifier: Apache-2.0
// Tests of learners/tables: what is told of server groups and workers, from rows that the test fills.
#include "run_help.h"

#include "base/clock.h"
#include "learners/nodes.h"
#include "learners/tables.h"

#include <math.h>

enum { GROUPS = 2, LEARNERS = 2, WORKERS = 2, PROCESSES = LEARNERS * WORKERS };

static struct {
    mu_session        session;
    mu_training       training;
    mu_server_group   group[GROUPS];
    mu_shared_head    head[GROUPS];
    mu_shared_learner row[GROUPS][PROCESSES];
    mu_executor       executor[GROUPS][PROCESSES];
    mu_tables         tables;
} f;

static void make(int groups, int workers) {
    memset(&f, 0, sizeof f);
    f.session.setup.server_groups = groups;
    f.session.setup.workers = workers;
    f.training.s = &f.session;
    for (int i = 0; i < groups; i++) {
        f.head[i].n_workers = workers;
        f.head[i].n_processes = LEARNERS * workers;
        f.group[i].shared = (mu_shared){.head = &f.head[i], .learner = f.row[i], .executor = f.executor[i]};
        f.group[i].begin.samples = 100;
        atomic_store(&f.head[i].samples, 100);
    }
    assert_ok(mu_tables_open(&f.tables, &f.training, f.group, groups, err));
}

static double told(const mu_metric_table *t, const char *column, int row) {
    for (int c = 0; c < t->columns; c++)
        if (!strcmp(t->column[c], column)) return t->value[c * t->rows + row];
    fail_msg("no column %s", column);
    return 0;
}

static void test_groups(void **state) {
    (void)state;
    mu_metric_table t[MU_TRAINING_TABLES];
    make(GROUPS, 1);
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 1);
    assert_string_equal(t->key, "server_groups");
    assert_int_equal(t->rows, GROUPS);
    assert_true(isnan(told(t, "loss", 0)) && isnan(told(t, "staleness", 1)));
    assert_true(isnan(told(t, "merged_version", 0)) && isnan(told(t, "merged_s_ago", 0)));

    mu_server_group *g = &f.group[1];
    g->seen = (mu_advance){.loss_sum = 6, .n = 4};
    g->merged = 3, g->merged_version = 30, g->merged_ns = mu_clock_ns() - 2000000000;
    g->waited_ns = 500000000;
    atomic_store(&f.head[1].version, 35);
    atomic_store(&f.head[1].samples, 380);
    atomic_store(&f.head[1].waiting, 1);
    atomic_store(&f.row[1][0].stale_sum, 5);
    atomic_store(&f.row[1][1].stale_sum, 1);
    atomic_store(&f.row[1][1].n_stale, 4);
    atomic_store(&f.row[1][0].pid, 17);
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 1);
    const struct { const char *column; double value; } want[] = {
        {"version", 35}, {"samples", 280}, {"loss", 1.5}, {"staleness", 1.5}, {"merges", 3},
        {"merged_version", 30}, {"waited_s", 0.5}, {"queued", 1}, {"learners", 1},
    };
    for (size_t i = 0; i < MU_COUNT(want); i++)
        if (fabs(told(t, want[i].column, 1) - want[i].value) > 1e-9)
            fail_msg("%s is %g, not %g", want[i].column, told(t, want[i].column, 1), want[i].value);
    const double ago = told(t, "merged_s_ago", 1);
    assert_true(ago >= 2 && ago < 60);
    assert_true(told(t, "version", 0) == 0 && told(t, "samples", 0) == 0); // the other one
    assert_true(isnan(told(t, "loss", 0)));

    g->seen = (mu_advance){.loss_sum = 6.5, .n = 6}; // since the line before: 0.5 of 2
    g->waited_ns += 250000000;
    atomic_fetch_add(&f.row[1][0].stale_sum, 3);
    atomic_fetch_add(&f.row[1][0].n_stale, 1);
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 1);
    assert_true(fabs(told(t, "loss", 1) - 0.25) < 1e-9 && fabs(told(t, "staleness", 1) - 3) < 1e-9);
    assert_true(fabs(told(t, "waited_s", 1) - 0.25) < 1e-9);
    assert_true(told(t, "version", 1) == 35 && told(t, "samples", 1) == 280 && told(t, "merges", 1) == 3);
    mu_tables_close(&f.tables);
    assert_null(f.training.tables.fill);
}

static void test_ranks(void **state) {
    (void)state;
    mu_metric_table t[MU_TRAINING_TABLES];
    mu_node_times times[3] = {{4000000000, 1000000000}, {3000000000, 3000000000}, {0, 0}};
    mu_nodes nodes = {.n = 3, .times = times};
    const mu_run_opts o = {.nodes = &nodes};
    make(1, 1);
    mu_tables_close(&f.tables);
    f.training.o = &o;
    assert_ok(mu_tables_open(&f.tables, &f.training, f.group, 1, err));
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 1);
    assert_string_equal(t->key, "rank_times");
    assert_int_equal(t->rows, 3);
    assert_true(fabs(told(t, "overlap", 0) - 0.8) < 1e-9 && fabs(told(t, "overlap", 1) - 0.5) < 1e-9);
    assert_true(isnan(told(t, "overlap", 2)));
    times[1] = (mu_node_times){6000000000, 4000000000};
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 1);
    assert_true(fabs(told(t, "compute_s", 1) - 3) < 1e-9 && fabs(told(t, "wait_s", 1) - 1) < 1e-9);
    assert_true(fabs(told(t, "overlap", 1) - 0.75) < 1e-9); // since the line before
    assert_true(told(t, "compute_s", 0) == 0 && isnan(told(t, "overlap", 0)));
    mu_tables_close(&f.tables);
}

static void test_workers(void **state) {
    (void)state;
    mu_metric_table t[MU_TRAINING_TABLES];
    make(GROUPS, WORKERS);
    mu_shared_learner *l = &f.row[1][3];
    atomic_store(&l->compute_ns, 4000000000);
    atomic_store(&l->wait_ns, 3000000000);
    atomic_store(&l->bridge_ns, 2000000000);
    atomic_store(&l->apply_ns, 1000000000);
    atomic_store(&l->values_moved, 11);
    atomic_store(&l->weights_moved, 12);
    atomic_store(&f.executor[1][3].moved, 13);
    atomic_store(&l->records, 14);
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 2);
    assert_string_equal(t[1].key, "workers");
    assert_int_equal(t[1].rows, GROUPS * PROCESSES);
    static const char *const column[] = {"compute_s", "wait_s", "bridge_wait_s", "apply_s", "value_bytes",
                                         "weight_bytes", "gradient_bytes", "records_read"};
    static const double want[] = {4, 3, 2, 1, 11, 12, 13, 14};
    for (size_t i = 0; i < MU_COUNT(want); i++) {
        for (int r = 0; r < GROUPS * PROCESSES; r++) // the last process of the last group
            assert_true(fabs(told(&t[1], column[i], r) - (r == 7 ? want[i] : 0)) < 1e-9);
    }
    atomic_fetch_add(&l->values_moved, 5);
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 2);
    assert_true(told(&t[1], "value_bytes", 7) == 5 && told(&t[1], "compute_s", 7) == 0);
    mu_tables_close(&f.tables);
    make(1, WORKERS);
    assert_int_equal(f.training.tables.fill(f.training.tables.ctx, t), 1);
    assert_string_equal(t->key, "workers");
    mu_tables_close(&f.tables);
}

static void test_nothing_to_tell(void **state) {
    (void)state;
    make(1, 1);
    assert_null(f.training.tables.fill);
    mu_tables_close(&f.tables);
    make(1, WORKERS); // more than are told
    mu_tables_close(&f.tables);
    f.head[0].n_processes = MU_TABLES_WORKERS + 1;
    assert_ok(mu_tables_open(&f.tables, &f.training, f.group, 1, err));
    assert_null(f.training.tables.fill);
    mu_tables_close(&f.tables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_ranks), cmocka_unit_test(test_workers),
        cmocka_unit_test(test_nothing_to_tell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
