// SPDX-License-Identifier: Apache-2.0
// The language of `muster chaos`: what it means, and what it says about mistakes.
#include "run_help.h"

#include "watch/chaos_script.h"

static mu_chaos_rule one(const char *text) {
    mu_chaos_script script = {0};
    mu_err err = {0};
    if (mu_chaos_parse(text, &script, &err) != MU_OK) fail_msg("`%s`: %s", text, err.msg);
    assert_int_equal(script.n, 1);
    return script.rule[0];
}

static void test_meaning(void **state) {
    (void)state;
    mu_chaos_rule r = one("kill learner random every 1s times 1000");
    assert_int_equal(r.act, MU_CHAOS_KILL);
    assert_int_equal(r.target, MU_CHAOS_RANDOM);
    assert_true(r.every_s == 1 && !r.random_gap && r.times == 1000 && r.at_s < 0 && r.until_s < 0);
    r = one("stop learner 2 for 15s at 5s");
    assert_int_equal(r.act, MU_CHAOS_STOP);
    assert_int_equal(r.target, MU_CHAOS_LEARNER);
    assert_int_equal(r.learner, 2);
    assert_true(r.for_s == 15 && r.at_s == 5 && r.every_s == 0 && r.times == 1);
    r = one("  slow\tlearner 1 by 20ms for 10s ;");
    assert_int_equal(r.act, MU_CHAOS_SLOW);
    assert_true(r.by_s == 0.02 && r.for_s == 10);
    r = one("kill server every ~10s until 1m");
    assert_int_equal(r.target, MU_CHAOS_SERVER);
    assert_true(r.every_s == 10 && r.random_gap && r.times == 0 && r.until_s == 60);
    r = one("kill all-learners at 0");
    assert_int_equal(r.target, MU_CHAOS_ALL_LEARNERS);
    assert_true(r.at_s == 0);
    assert_int_equal(one("stop evaluator").target, MU_CHAOS_EVALUATOR);
    assert_int_equal(one("stop judge").target, MU_CHAOS_EVALUATOR); // as earlier versions called it
}

static void test_lists_add_up(void **state) {
    (void)state;
    mu_chaos_script script = {0};
    assert_ok(mu_chaos_parse("kill server; kill judge ;; stop learner 0", &script, err));
    assert_ok(mu_chaos_parse("kill all-learners", &script, err));
    assert_int_equal(script.n, 4);
    assert_int_equal(script.rule[3].target, MU_CHAOS_ALL_LEARNERS);
    // A wrong list adds nothing, not even its good half.
    assert_fails(mu_chaos_parse("kill server; kill sever", &script, err), MU_EUSAGE, "column 19");
    assert_int_equal(script.n, 4);
    for (int i = 4; i < MU_CHAOS_RULES; i++) assert_ok(mu_chaos_parse("kill server", &script, err));
    assert_fails(mu_chaos_parse("kill server", &script, err), MU_EUSAGE, "more than 32 rules");
}

static void test_mistakes(void **state) {
    (void)state;
    static const struct { const char *text, *msg, *hint; } rows[] = {
        {"", "column 1: expected an action, found the end", "kill|stop|slow"},
        {"kil learner 1", "column 1: expected an action, found `kil`", "`kill`"},
        {"kill", "column 5: expected a target, found the end", "learner|all-learners|server|evaluator"},
        {"kill lerner 1", "column 6: expected a target, found `lerner`", "`learner`"},
        {"kill learner", "column 13: `learner` needs a number or `random`", "all-learners"},
        {"kill learner -1", "column 14: `learner` needs a number", ""},
        {"kill learner 99999999999", "column 14: `learner` needs a number", ""},
        {"kill server evry 1s", "column 13: expected `at`, `every`", "`every`"},
        {"kill server every soon", "column 19: `every` needs a time", "`every 2s`"},
        {"kill server every 0s", "column 19: `every` needs a time", ""},
        {"kill server every ~", "column 19: `every` needs a time", ""},
        {"kill server every", "column 18: `every` needs a time", ""},
        {"kill server at 99999d", "column 16: `at` needs a time", ""},
        {"kill server every 1s every 2s", "column 22: `every` was already said", ""},
        {"kill server every 1s times 0", "column 28: `times` needs a whole number", ""},
        {"kill server times 3", "`times` needs `every`", ""},
        {"kill server for 3s", "`for` goes with `stop` and `slow`", ""},
        {"stop server by 3s", "`by` goes with `slow` only", ""},
        {"slow learner 1", "`slow` needs `by`", "20ms"},
        {"slow learner 1 by 1h", "up to 2000s", ""},
        {"slow server by 1s", "only learners", ""},
        {"kill learner 1; stop learner x", "column 30: `learner` needs a number", ""},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_chaos_script script = {0};
        mu_err err = {0};
        mu_status s = mu_chaos_parse(rows[i].text, &script, &err);
        if (s != MU_EUSAGE || !strstr(err.msg, rows[i].msg) || !strstr(err.hint, rows[i].hint))
            fail_msg("`%s`: got %s `%s` hint `%s`, expected `%s` hint `%s`", rows[i].text, mu_status_name(s),
                     err.msg, err.hint, rows[i].msg, rows[i].hint);
        assert_int_equal(script.n, 0);
    }
}

static void test_text_parses_back(void **state) {
    (void)state;
    static const char *const texts[] = {
        "kill learner random every ~1.5s times 1000 until 7200s",
        "stop learner 2 for 15s at 5s",
        "slow all-learners by 0.02s for 0.1s every 3s",
        "kill evaluator at 0s",
    };
    for (size_t i = 0; i < MU_COUNT(texts); i++) {
        char text[200];
        mu_chaos_rule r = one(texts[i]);
        mu_chaos_rule_text(&r, text, sizeof text);
        assert_string_equal(text, texts[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meaning),
        cmocka_unit_test(test_lists_add_up),
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_text_parses_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
