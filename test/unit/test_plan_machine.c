// SPDX-License-Identifier: Apache-2.0
// Machines as text: what is read, derived, refused and written; where the profile of this machine is kept;
// what lies between the loads.
#include "run_help.h"

#include "base/alloc.h"
#include "plan/crew.h"
#include "plan/profile.h"
#include "updater/updater.h"

#include <string.h>

static const char small[] = "{cores: 8, core_flops_per_s: 10G, node_bytes_per_s: 40G}";

static mu_machine parse(const char *text) {
    mu_machine m;
    assert_ok(mu_machine_parse(text, strlen(text), "m.yaml", &m, err));
    return m;
}

// ---- reading ----

static void test_reads_all_keys(void **state) {
    (void)state;
    const mu_machine m = parse(
        "{\"name\": \"rack\", \"cpu\": \"X\", \"level\": \"v3\", \"made\": \"2026-01-05\", \"nodes\": 3, "
        "\"cores\": 4,"
        " \"memory_bytes\": 8e9, \"cache_bytes\": 5e5, \"shared_cache_bytes\": 1.6e7, \"busy\": 0.25,"
        " \"loads\": [{\"processes\": 1, \"flops_per_s\": 5e10, \"bytes_per_s\": 1e10},"
        " {\"processes\": 4, \"flops_per_s\": 4e10, \"bytes_per_s\": 4e9}],"
        " \"lines\": {\"round_trip_s\": 9e-8, \"bytes_per_s\": 5e9}, \"wake_s\": 7e-6, \"event_s\": 4e-7,"
        " \"rules\": [{\"name\": \"adam\", \"cached_bytes_per_s\": 2e10, \"bytes_per_s\": 6e9}],"
        " \"network\": {\"latency_s\": 2e-5, \"bytes_per_s\": 1e9, \"message_s\": 3e-6, \"byte_s\": 2e-10}}");
    assert_string_equal(m.name, "rack");
    assert_string_equal(m.cpu, "X");
    assert_string_equal(m.level, "v3");
    assert_string_equal(m.made, "2026-01-05");
    assert_int_equal(m.nodes, 3);
    assert_int_equal(m.cores, 4);
    assert_true(m.memory_bytes == 8e9 && m.cache_bytes == 5e5 && m.shared_cache_bytes == 1.6e7);
    assert_int_equal(m.n_loads, 2);
    assert_true(m.load[1].processes == 4 && m.load[1].flops_per_s == 4e10 && m.load[1].bytes_per_s == 4e9);
    assert_true(m.lines.round_trip_s == 9e-8 && m.lines.bytes_per_s == 5e9 && m.wake_s == 7e-6);
    assert_true(m.event_s == 4e-7 && m.busy == 0.25);
    assert_string_equal(m.rule[0].name, "adam");
    assert_true(m.rule[0].cached_bytes_per_s == 2e10 && m.rule[0].bytes_per_s == 6e9);
    assert_true(m.network.latency_s == 2e-5 && m.network.bytes_per_s == 1e9);
    assert_true(m.network.message_s == 3e-6 && m.network.byte_s == 2e-10);
}

static void test_derives_the_rest(void **state) {
    (void)state;
    const mu_machine m = parse(small);
    assert_int_equal(m.nodes, 1);
    assert_int_equal(m.n_loads, 4); // 1, 2, 4, 8
    assert_true(m.load[0].bytes_per_s == 10e9 && m.load[2].bytes_per_s == 10e9 &&
                m.load[3].bytes_per_s == 5e9);
    assert_true(m.load[3].flops_per_s == 10e9 && m.load[3].processes == 8);
    assert_int_equal(m.n_rules, mu_updaters.n);
    assert_true(m.lines.round_trip_s == 150e-9 && m.wake_s == 10e-6 && m.network.bytes_per_s == 0);
    assert_near(m.event_s, 312.5e-9, 1e-12);
    assert_near(m.memory_bytes, 32.0 * 1073741824.0, 1);
    // A rule: 3 blocks of sgd with its history, of which 2 are written; adam divides.
    assert_near(mu_machine_rule_of(&m, "sgd")->bytes_per_s, 10e9 * 3 / 5, 1);
    assert_near(mu_machine_rule_of(&m, "sgd")->cached_bytes_per_s, 10e9, 1);
    assert_near(mu_machine_rule_of(&m, "adam")->cached_bytes_per_s, 5e9, 1);
    assert_near(mu_machine_rule_of(&m, "adam")->bytes_per_s, 5e9, 1);
    const double unknown = mu_machine_rule_of(&m, "no such rule")->bytes_per_s;
    for (int i = 0; i < m.n_rules; i++) assert_true(unknown <= m.rule[i].bytes_per_s);
    // Five cores: the last load is of all of them. The clock stands for flops.
    const mu_machine five = parse("cores: 5\nclock_hz: 2G\nlevel: v4\n");
    assert_int_equal(five.n_loads, 4);
    assert_int_equal(five.load[3].processes, 5);
    assert_true(five.load[0].flops_per_s == 128e9);
    assert_true(parse("{cores: 1, clock_hz: 2G}").load[0].flops_per_s == 32e9);
    const mu_machine net = parse("{cores: 2, nodes: 2, clock_hz: 2G, network: {bytes_per_s: 1.25G}}");
    assert_true(net.network.latency_s == 30e-6 && net.network.message_s == 7.5e-6);
    assert_near(net.network.byte_s, 2e-10, 1e-15);
    assert_true(parse("{cores: 2, nodes: 2, clock_hz: 2G, network: {bytes_per_s: 12G}}").network.latency_s ==
                3e-6);
}

static void test_refuses(void **state) {
    (void)state;
    static const struct {
        const char *text, *msg, *hint;
    } rows[] = {
        {"", "describes no machine", ""},
        {"- 1", "must be a block", ""},
        {"{\"cores\": 2,", "", ""},
        {"{clock_hz: 1G}", "missing key `cores`", ""},
        {"{cores: 2}", "nothing says how fast a core is", "clock_hz"},
        {"{cores: 0, clock_hz: 1G}", "`cores` in a machine is out of range: 0", "at least 1"},
        {"{cores: 2, clock_gz: 1G, core_flops_per_s: 1G}", "unknown key `clock_gz`", "clock_hz"},
        {"{cores: 2, clock_hz: 0}", "`clock_hz` in a machine is out of range", ""},
        {"{cores: 2, clock_hz: fast}", "clock_hz", ""},
        {"{cores: 2, clock_hz: 1G, core_flops_per_s: 1G}", "one of both must go", ""},
        {"{cores: 2, clock_hz: 1G, loads: [{processes: 1, flops_per_s: 1G, bytes_per_s: 1G}]}",
         "one of both must go", ""},
        {"{cores: 2, clock_hz: 1G, nodes: 4097}", "out of range", ""},
        {"{cores: 2, clock_hz: 1G, nodes: 2}", "several nodes without a network", "network"},
        {"{cores: 2, clock_hz: 1G, network: {latency_s: 1e-6}}", "missing key `bytes_per_s` in `network`",
         ""},
        {"{cores: 2, clock_hz: 1G, network: {bytes_per_s: 1G, latency: 1e-6}}", "unknown key `latency`",
         "latency_s"},
        {"{cores: 2, clock_hz: 1G, network: {bytes_per_s: 1G, latency_s: -1}}", "out of range", ""},
        {"{cores: 2, clock_hz: 1G, network: fast}", "must be a block", ""},
        {"{cores: 2, loads: [{processes: 2, flops_per_s: 1G, bytes_per_s: 1G}]}", "not of one process", ""},
        {"{cores: 2, loads: [{processes: 1, flops_per_s: 1G, bytes_per_s: 1G}, {processes: 1, flops_per_s: "
         "1G, "
         "bytes_per_s: 1G}]}",
         "rising", ""},
        {"{cores: 2, loads: [{processes: 1, flops_per_s: 1G, bytes_per_s: 1G}, {processes: 3, flops_per_s: "
         "1G, "
         "bytes_per_s: 1G}]}",
         "more processes than the node has cores", ""},
        {"{cores: 2, loads: [{processes: 1, bytes_per_s: 1G}]}", "missing key `flops_per_s` in a load", ""},
        {"{cores: 2, loads: 3}", "`loads` must be a list", ""},
        {"{cores: 2, loads: [7]}", "a load must be a block", ""},
        {"{cores: 2, loads: []}", "nothing says how fast", ""},
        {"{cores: 2, clock_hz: 1G, rules: [{name: adma}]}", "unknown update rule `adma`", "adam"},
        {"{cores: 2, clock_hz: 1G, rules: [{name: adam}, {name: adam}]}", "twice", ""},
        {"{cores: 2, clock_hz: 1G, rules: [{cached_bytes_per_s: 1G}]}", "missing key `name`", ""},
        {"{cores: 2, clock_hz: 1G, core_bytes_per_s: 2G, node_bytes_per_s: 1G}", "less than one alone", ""},
        {"{cores: 2, clock_hz: 1G, name: \"a\\tb\"}", "control characters", ""},
        {"{cores: 2, clock_hz: 1G, level: v1234567890}", "longer than 7 bytes", ""},
        {"{cores: 2, clock_hz: 1G, clock_hz: 1G}", "duplicate", ""},
        {"{cores: 2, clock_hz: 1G, busy: 2}", "out of range", ""},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_machine m = {.cores = -7};
        mu_err err = {0};
        const mu_status st = mu_machine_parse(rows[i].text, strlen(rows[i].text), "m.yaml", &m, &err);
        if (st != MU_EDATA || !strstr(err.msg, rows[i].msg) || !strstr(err.hint, rows[i].hint))
            fail_msg("`%s`: %s `%s`, hint `%s`; want `%s`, `%s`", rows[i].text, mu_status_name(st), err.msg,
                     err.hint, rows[i].msg, rows[i].hint);
        assert_true(m.cores == -7);
        assert_true(rows[i].text[0] == '\0' || err.pos.line > 0);
        assert_string_equal(err.pos.path, "m.yaml");
    }
}

// Every byte of a profile changed, left out or doubled: refused with a message or taken, never worse.
static void test_mutations(void **state) {
    (void)state;
    static const char with[] = "\0\t\"{}[]:,-9z#&*!";
    const mu_machine m = parse(small);
    mu_text t = {0};
    mu_machine_write(&m, &t);
    char *text = malloc(t.n + 1);
    int good = 0, bad = 0;
    for (size_t i = 0; i < 3 * t.n; i++) {
        const size_t at = i / 3;
        size_t n = t.n;
        memcpy(text, t.s, t.n + 1);
        if (i % 3 == 0) text[at] = with[at % (sizeof with - 1)];
        else if (i % 3 == 1) memmove(text + at, text + at + 1, --n - at);
        else n = at; // cut off
        mu_machine out;
        mu_err err = {0};
        const mu_status st = mu_machine_parse(text, n, "m", &out, &err);
        if (st != MU_OK && (st != MU_EDATA || !err.msg[0]))
            fail_msg("%zu: %s `%s`", i, mu_status_name(st), err.msg);
        good += st == MU_OK, bad += st != MU_OK;
    }
    assert_true(good > 50 && bad > (int)t.n);
    free(text);
    mu_text_fini(&t);
}

static void test_out_of_memory(void **state) {
    (void)state;
    for (int64_t n = 1; n < 1000; n++) {
        const uint64_t before = mu_alloc_get_stats().n_live;
        mu_machine m;
        mu_err err = {0};
        mu_alloc_fail_at(n);
        const mu_status st = mu_machine_parse(small, sizeof small - 1, "m", &m, &err);
        mu_alloc_fail_at(0);
        assert_int_equal(mu_alloc_get_stats().n_live, before);
        if (st == MU_OK) return;
        assert_int_equal(st, MU_ENOMEM);
    }
    fail_msg("it never succeeded");
}

// ---- writing and keeping ----

static void test_round_trip(void **state) {
    (void)state;
    char dir[64], path[MU_FS_PATH];
    mu_machine m = parse("{name: \"a \\\"rack\\\" \xc3\xa4\", cores: 6, clock_hz: 2.123456789G, nodes: 5,"
                         " network: {bytes_per_s: 1.25G}}"),
               again;
    mu_text one = {0}, two = {0};
    temp_dir(dir);
    assert_ok(mu_fs_join(path, dir, "m.json", err));
    assert_ok(mu_machine_save_file(&m, path, err));
    assert_ok(mu_machine_load_file(path, &again, err));
    assert_string_equal(again.name, m.name);
    assert_near(again.load[0].flops_per_s / m.load[0].flops_per_s, 1, 1e-4);
    mu_machine_write(&m, &one);
    mu_machine_write(&again, &two);
    assert_string_equal(one.s, two.s);
    mu_text_fini(&one);
    mu_text_fini(&two);
    assert_fails(mu_machine_load_file("no/such/file", &again, err), MU_ENOTFOUND, "no/such/file");
    remove_tree(dir);
}

static void test_template_is_a_machine(void **state) {
    (void)state;
    mu_text t = {0};
    mu_machine_template(&t);
    assert_false(t.failed);
    const mu_machine m = parse(t.s);
    assert_int_equal(m.nodes, 4);
    // Also with every value that stands there as a comment, up to those that say something twice.
    mu_text all = {0};
    bool behind = false;
    for (const char *p = t.s, *end; (end = strchr(p, '\n')); p = end + 1) {
        behind |= !strncmp(p, "#memory_bytes", 13);
        if (!strncmp(p, "# more keys", 11)) break;
        mu_text_put(&all, p + behind, (size_t)(end + 1 - p) - behind);
    }
    const mu_machine full = parse(all.s);
    assert_non_null(strstr(all.s, "\nwake_s: 1e-05"));
    assert_non_null(strstr(all.s, "\n  round_trip_s: 1.5e-07"));
    assert_near(full.memory_bytes / m.memory_bytes, 1, 1e-2);
    assert_near(full.lines.bytes_per_s / m.lines.bytes_per_s, 1, 1e-2);
    mu_text_fini(&all);
    mu_text_fini(&t);
}

static void test_kept_by_machine(void **state) {
    (void)state;
    char dir[64], cache[MU_FS_PATH], here[2048], path[MU_FS_PATH];
    mu_machine m, found;
    const char *why;
    temp_dir(dir);
    assert_non_null(getcwd(here, sizeof here));
    snprintf(cache, sizeof cache, "%s/%s", here, dir);
    setenv("XDG_CACHE_HOME", cache, 1);
    mu_err err0 = {0};
    assert_int_equal(mu_machine_find(&found, &err0), MU_ENOTFOUND);
    assert_non_null(strstr(err0.hint, "muster profile"));
    mu_machine_describe_here(&m);
    assert_true(m.cores >= 1 && m.cpu[0] && m.level[0]);
    assert_false(mu_machine_is_here(&m, &why));
    assert_non_null(strstr(why, "described"));
    snprintf(m.made, sizeof m.made, "2026-01-05T10:11:12Z");
    mu_machine_derive(&m, &(mu_machine_load){1, 5e10, 1e10}, 0);
    assert_ok(mu_machine_keep(&m, err));
    assert_ok(mu_machine_find(&found, err));
    assert_true(mu_machine_is_here(&found, &why));
    assert_null(why);
    found.cores++;
    assert_false(mu_machine_is_here(&found, &why));
    assert_non_null(strstr(why, "cores"));
    found.cores--, found.level[1]++;
    assert_false(mu_machine_is_here(&found, &why));
    assert_non_null(strstr(why, "level"));
    snprintf(found.cpu, sizeof found.cpu, "another");
    assert_false(mu_machine_is_here(&found, &why));
    assert_non_null(strstr(why, "processor"));
    // What doctor says of it; a busy one and a broken one.
    mu_finding f = {0};
    mu_profile_check(&f);
    assert_int_equal(f.level, MU_FINDING_OK);
    assert_non_null(strstr(f.text, "2026-01-05T10:11:12Z"));
    m.busy = 0.5;
    assert_ok(mu_machine_keep(&m, err));
    mu_profile_check(&f);
    assert_int_equal(f.level, MU_FINDING_NOTE);
    assert_ok(mu_machine_path(path, err));
    write_file(path, "{\"cores\": 1,", 12);
    mu_err broken = {0};
    assert_int_equal(mu_machine_find(&found, &broken), MU_EDATA);
    assert_true(broken.hint[0] != '\0');
    mu_profile_check(&f);
    assert_int_equal(f.level, MU_FINDING_NOTE);
    assert_true(f.advice[0] != '\0');
    // Without a home there is no place, and that is said.
    setenv("XDG_CACHE_HOME", "relative/is/not/obeyed", 1);
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("HOME");
    assert_fails(mu_machine_keep(&m, err), MU_ENOTFOUND, "HOME");
    setenv("HOME", cache, 1);
    assert_ok(mu_machine_path(path, err));
    assert_non_null(strstr(path, "/.cache/muster/machine-"));
    if (home) setenv("HOME", home, 1);
    free(home);
    remove_tree(dir);
}

// ---- between the loads ----

static void test_between_loads(void **state) {
    (void)state;
    mu_machine m = parse("{cores: 8, loads: [{processes: 1, flops_per_s: 10G, bytes_per_s: 8G},"
                         " {processes: 2, flops_per_s: 10G, bytes_per_s: 7G},"
                         " {processes: 4, flops_per_s: 8G, bytes_per_s: 4G}]}");
    assert_near(mu_machine_at(&m, 1).bytes_per_s, 8e9, 1);
    assert_near(mu_machine_at(&m, 0).bytes_per_s, 8e9, 1);
    assert_near(mu_machine_at(&m, 2).bytes_per_s, 7e9, 1);
    assert_near(mu_machine_at(&m, 3).bytes_per_s, 5.5e9, 1);
    assert_near(mu_machine_at(&m, 3).flops_per_s, 9e9, 1);
    assert_int_equal(mu_machine_at(&m, 3).processes, 3);
    // Beyond what was measured all get together what they got; beyond the cores that goes for flops, too.
    assert_near(mu_machine_at(&m, 8).bytes_per_s, 2e9, 1);
    assert_near(mu_machine_at(&m, 8).flops_per_s, 8e9, 1);
    assert_near(mu_machine_at(&m, 16).bytes_per_s, 1e9, 1);
    assert_near(mu_machine_at(&m, 16).flops_per_s, 4e9, 1);
}

static void test_updates(void **state) {
    (void)state;
    mu_machine m = parse("{cores: 1, clock_hz: 1G, cache_bytes: 1000k,"
                         " rules: [{name: sgd, cached_bytes_per_s: 8G, bytes_per_s: 2G}]}");
    assert_near(mu_machine_apply_s(&m, "sgd", 1e5, 0), 8e5 / 8e9, 1e-12);  // in the cache
    assert_near(mu_machine_apply_s(&m, "sgd", 1e6, 1), 12e6 / 2e9, 1e-12); // in memory
    assert_near(mu_machine_apply_s(&m, "sgd", 187500, 0), 1.5e6 * 0.5 * (1 / 8e9 + 1 / 2e9), 1e-12);
    m.lines.round_trip_s = 100e-9;
    assert_string_equal(mu_machine_mode(&m), ""); // described
    m.cores = 2;
    snprintf(m.made, sizeof m.made, "now");
    assert_string_equal(mu_machine_mode(&m), "near");
    m.lines.round_trip_s = 400e-9;
    assert_string_equal(mu_machine_mode(&m), "far");
}

// ---- crews ----

static double count(void *ctx, const mu_crew_turn *t) {
    (void)ctx;
    _Atomic int *met = t->shared;
    return 1 + t->who + 10 * atomic_fetch_add(met, 1);
}
static double dawdle(void *ctx, const mu_crew_turn *t) {
    (void)ctx, (void)t;
    usleep(50000);
    return 1;
}
static mu_status furnish(void *ctx, void *shared, mu_err *err) {
    (void)err;
    *(_Atomic int *)shared = *(int *)ctx;
    return MU_OK;
}
static bool too_little_memory(void *ctx, int who) { return ctx || who == 0; }
static double die(void *ctx, const mu_crew_turn *t) {
    (void)ctx;
    if (t->who == 1) _exit(7);
    return 1;
}

static void test_crews(void **state) {
    (void)state;
    int from = 5, sum = 0;
    mu_crew c = {.name = "muster:test",
                 .n = 3,
                 .windows = 4,
                 .window_s = 0.001,
                 .ctx = &from,
                 .furnish = furnish,
                 .work = count,
                 .shared_bytes = 64};
    mu_crew_result r;
    assert_ok(mu_crew_run(&c, &r, err));
    const int calls = 3 * r.windows; // a busy machine may end it early
    assert_true(r.windows >= 3 && r.windows <= 4);
    for (int i = 0; i < calls; i++) sum += (int)r.w[i].amount;
    assert_int_equal(sum, 2 * calls + 10 * (calls * 5 + calls * (calls - 1) / 2)); // all saw the same memory
    assert_true(r.lost >= 0 && r.lost <= 1 && mu_crew_median(&r, 2) >= mu_crew_least(&r, 2));
    mu_crew_fini(&r);
    // Windows that take far longer than they should: few are made.
    c.work = dawdle, c.windows = MU_CREW_WINDOWS, c.n = 1;
    assert_ok(mu_crew_run(&c, &r, err));
    assert_true(r.windows >= 3 && r.windows < MU_CREW_WINDOWS / 2);
    mu_crew_fini(&r);
    c.n = 3;
    c.prepare = too_little_memory, c.ctx = NULL, c.furnish = NULL;
    assert_fails(mu_crew_run(&c, &r, err), MU_ENOMEM, "muster:test");
    c.prepare = NULL, c.work = die;
    assert_fails(mu_crew_run(&c, &r, err), MU_EBACKEND, "could not work at once");
    double v[] = {9, 1, 2, 3, 50};
    assert_near(mu_median(v, 5), 3, 0);
    assert_near(mu_typical(v, 5), 3.75, 1e-9); // 50 is left out
    assert_near(mu_median(v, 4), 2.5, 1e-9);
    assert_near(mu_median(v, 0), 0, 0);
}

// The best of the third of windows that lost least, by each process's own time.
static void test_best_rate(void **state) {
    (void)state;
    mu_crew_window w[] = {{10, 1, 0.0}, {20, 1, 0.0}, {90, 1, 0.5}, {90, 1, 0.0}, {30, 2, 0.1}, {30, 2, 0.1}};
    const mu_crew_result r = {.n = 2, .windows = 3, .w = w};
    assert_near(mu_crew_best_rate(&r), 15, 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_all_keys),
        cmocka_unit_test(test_derives_the_rest),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_template_is_a_machine),
        cmocka_unit_test(test_kept_by_machine),
        cmocka_unit_test(test_between_loads),
        cmocka_unit_test(test_updates),
        cmocka_unit_test(test_crews),
        cmocka_unit_test(test_best_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
