// SPDX-License-Identifier: Apache-2.0
// Configurations as edits, words and overlay files; what is no overlay is refused with its place.
#include "plan_help.h"

#include "job/job.h"
#include "plan/config.h"

static const mu_config some = {.nodes = 1, .learners = 4, .workers = 2, .server_groups = 1,
                               .protocol = "{type: softsync, n: 2}", .mu = 16, .server = MU_SERVER_BOTH,
                               .server_threads = 2, .auto_cut = true};

static const char job_text[] =
    "data: {train: {reader: synthetic, shape: [4], classes: 2, records: 64}}\n"
    "net: [{name: ip, type: inner_product, src: data.features, outputs: 2}]\n"
    "train: {batch: 64, epochs: 1}\nupdater: {type: sgd, rate: 0.1}\ncluster: {groups: 9, servers: 3, pin: false}\n";

static const char *text_of(const mu_job *job, const char *key) {
    return mu_node_text(mu_node_find(job->cluster, key));
}

// Edits reach the job; the user's other keys stay, and other names of the same number go.
static void test_edits_a_job(void **state) {
    (void)state;
    mu_config_edits e;
    mu_job *job = NULL;
    const char *set[MU_CONFIG_EDITS];
    mu_config_as_edits(&some, &e);
    for (int i = 0; i < e.n; i++) set[i] = e.text[i];
    assert_ok(mu_job_parse("job.yaml", job_text, sizeof job_text - 1, set, (size_t)e.n, &job, ok_err));
    assert_string_equal(text_of(job, "learners"), "4");
    assert_string_equal(text_of(job, "workers"), "2");
    assert_string_equal(text_of(job, "server"), "both");
    assert_string_equal(text_of(job, "server_threads"), "2");
    assert_string_equal(text_of(job, "partition"), "auto");
    assert_string_equal(text_of(job, "batch"), "0");
    assert_string_equal(text_of(job, "pin"), "false");
    assert_true(mu_node_is_null(mu_node_find(job->cluster, "groups")));
    assert_true(mu_node_is_null(mu_node_find(job->cluster, "servers")));
    assert_string_equal(mu_node_text(mu_node_find(mu_node_find(job->cluster, "protocol"), "n")), "2");
    mu_job_destroy(job);
}

static void expect_words(const mu_config *c, const char *want) {
    char text[160];
    mu_config_text(c, text, sizeof text);
    assert_string_equal(text, want);
}

static void test_speaks(void **state) {
    (void)state;
    expect_words(&some, "4 learners of 2 workers (auto), softsync n 2, mu 16, server process and learners of 2 threads");
    expect_words(&(mu_config){.nodes = 1, .learners = 1, .workers = 1, .server_groups = 1, .protocol = "hardsync",
                              .mu = 8},
                 "1 learner, mu 8");
    expect_words(&(mu_config){.nodes = 3, .learners = 6, .workers = 1, .server_groups = 3, .sync_every = 50,
                              .protocol = "async", .mu = 8, .server = MU_SERVER_BESIDE},
                 "3 nodes, 6 learners, async, 3 groups merged every 50, mu 8");
    expect_words(&(mu_config){.nodes = 2, .learners = 2, .workers = 1, .server_groups = 1,
                              .architecture = MU_ARCHITECTURE_ADV_STAR, .protocol = "ssp", .mu = 4},
                 "2 nodes, 2 learners, ssp, adv*, mu 4");
    char small[8];
    mu_config_text(&some, small, sizeof small);
    assert_int_equal(strlen(small), 7);
}

static void test_saves_and_loads(void **state) {
    (void)state;
    char path[] = "/tmp/muster-plan-XXXXXX";
    mu_config_edits e, again;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_ok(mu_config_save(&some, "two lines:\nof words # : {}", path, ok_err));
    assert_ok(mu_config_load(path, &again, ok_err));
    mu_config_as_edits(&some, &e);
    assert_int_equal(e.n, again.n);
    assert_int_equal(again.nodes, 1);
    for (int i = 0; i < e.n; i++) assert_string_equal(e.text[i], again.text[i]);
    remove(path);
}

static void refuse(const char *text, int line, const char *msg) {
    mu_config_edits e;
    mu_err err = {0};
    assert_int_equal(mu_config_parse("p.yaml", text, strlen(text), &e, &err), MU_EJOB);
    if (!strstr(err.msg, msg)) fail_msg("`%s`: %s", text, err.msg);
    assert_string_equal(err.pos.path, "p.yaml");
    if (err.pos.line != line) fail_msg("`%s`: line %d", text, err.pos.line);
}

static void test_refuses(void **state) {
    (void)state;
    refuse("", 1, "no plan");
    refuse("- 1\n", 1, "no plan");
    refuse("plan: {nodes: 1}\n", 1, "needs the block `set`");
    refuse("set: 4\n", 1, "needs the block `set`");
    refuse("set:\n  train.batch: 4\n", 2, "`train.batch` is no key that a plan may set");
    refuse("set:\n  cluster.: 4\n", 2, "no key that a plan may set");
    refuse("set:\n  cluster.learners: [1, 2]\n", 2, "a value that a plan cannot have");
    refuse("set:\n  cluster.protocol: {type: [a]}\n", 2, "a value that a plan cannot have");
    refuse("set:\n  cluster.merge: 'a = b'\n", 2, "a value that a plan cannot have");
    refuse("plan: {nodes: 0}\nset: {cluster.learners: 1}\n", 1, "`nodes` is a whole number");
    refuse("plan: {node: 1}\nset: {cluster.learners: 1}\n", 1, "unknown key `node`");
    refuse("set: {cluster.learners: 1}\nnet: []\n", 2, "unknown key `net`");
    refuse("set: {cluster.learners: 1\n", 1, "");
    char many[4000] = "set:\n";
    for (int i = 0; i <= MU_CONFIG_EDITS; i++) snprintf(many + strlen(many), 40, "  cluster.k%d: 1\n", i);
    refuse(many, MU_CONFIG_EDITS + 2, "at most 16 keys");
    mu_config_edits e;
    mu_err err = {0};
    assert_int_equal(mu_config_load("/nowhere/plan.yaml", &e, &err), MU_EJOB);
}

static void test_binds_protocols(void **state) {
    (void)state;
    mu_arena a;
    mu_class_ref r = {0};
    mu_err err = {0};
    mu_arena_init(&a, "test");
    assert_int_equal(mu_config_bind_protocol(&a, "{type: softsync, n: 3}", &r, &err), MU_OK);
    assert_string_equal(r.plugin->name, "softsync");
    r = (mu_class_ref){0};
    assert_int_equal(mu_config_bind_protocol(&a, "sofsync", &r, &err), MU_EUSAGE);
    mu_err_clear(&err), r = (mu_class_ref){0};
    assert_int_equal(mu_config_bind_protocol(&a, "{type: async, bond: 3}", &r, &err), MU_EUSAGE);
    mu_arena_fini(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_edits_a_job), cmocka_unit_test(test_speaks),
                                       cmocka_unit_test(test_saves_and_loads), cmocka_unit_test(test_refuses),
                                       cmocka_unit_test(test_binds_protocols)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
