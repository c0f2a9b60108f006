// SPDX-License-Identifier: Apache-2.0
// Option tables: values, places, edits, the environment, and what typos get for an answer.
#include "cli/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct values {
    bool flag;
    const char *text, *choice, *resume;
    int64_t count;
    double number, time;
};

static const mu_opt options[] = {
    MU_OPT(struct values, flag, "flag", MU_OPT_FLAG, NULL, "a flag"),
    MU_OPT(struct values, text, "text", MU_OPT_TEXT, "TEXT", "a text"),
    MU_OPT_ONE_OF(struct values, choice, "choice", "red|green", "a choice"),
    MU_OPT(struct values, resume, "resume", MU_OPT_MAYBE_FOLDER, "DIR", "goes on"),
    MU_OPT(struct values, count, "batch-size", MU_OPT_INT, "N", "a count"),
    MU_OPT(struct values, number, "number", MU_OPT_NUMBER, "X", "a number"),
    MU_OPT(struct values, time, "deadline", MU_OPT_DURATION, "TIME", "a time"),
    MU_OPT_KEY("epochs", "E", "train.epochs", "passes"),
    {0},
};
static const mu_args_spec spec = {.options = options, .common = MU_COMMON_SET | MU_COMMON_JSON,
                                  .min_words = 0, .max_words = 2, .words_are = "a job file"};

typedef struct parsed { mu_args a; struct values v; mu_err err; mu_status status; } parsed;

static void parse(parsed *p, const char *const *words) {
    int n = 0;
    char *argv[16];
    for (; words[n]; n++) argv[n] = (char *)(uintptr_t)words[n];
    memset(p, 0, sizeof *p);
    p->status = mu_args_parse(&spec, n, argv, &p->a, &p->v, &p->err);
}
#define PARSE(p, ...) parse((p), (const char *const[]){__VA_ARGS__, NULL})

static void test_values(void **state) {
    (void)state;
    parsed p;
    PARSE(&p, "job.yaml", "--flag", "--text", "a b", "--choice=green", "--batch-size", "10k", "--number=-1.5",
          "--deadline", "2h", "--json", "--", "--odd");
    assert_int_equal(p.status, MU_OK);
    assert_int_equal(p.a.n_words, 2);
    assert_string_equal(p.a.word[0], "job.yaml");
    assert_string_equal(p.a.word[1], "--odd");
    assert_true(p.v.flag);
    assert_string_equal(p.v.text, "a b");
    assert_string_equal(p.v.choice, "green");
    assert_int_equal(p.v.count, 10000);
    assert_true(p.v.number == -1.5);
    assert_true(p.v.time == 7200);
    assert_true(p.a.json);
    assert_true(mu_args_given(&p.a, "number"));
    assert_false(mu_args_given(&p.a, "resume"));
    assert_string_equal(p.a.log_format, "text");
    mu_args_fini(&p.a);
}

static void test_job_edits_keep_their_order(void **state) {
    (void)state;
    parsed p;
    PARSE(&p, "--set", "a.b=1", "--epochs", "3", "--set=c=x=y");
    assert_int_equal(p.status, MU_OK);
    assert_int_equal(p.a.n_sets, 3);
    assert_string_equal(p.a.set[0], "a.b=1");
    assert_string_equal(p.a.set[1], "train.epochs=3");
    assert_string_equal(p.a.set[2], "c=x=y");
    for (int i = 0; i < 40; i++) assert_int_equal(mu_args_add_set(&p.a, &p.err, "k%d=%d", i, i), MU_OK);
    assert_int_equal(p.a.n_sets, 43);
    assert_string_equal(p.a.set[0], "a.b=1");
    assert_string_equal(p.a.set[42], "k39=39");
    mu_args_fini(&p.a);
}

static void test_resume_takes_only_folders(void **state) {
    (void)state;
    parsed p;
    PARSE(&p, "--resume", "job.yaml");
    assert_int_equal(p.status, MU_OK);
    assert_string_equal(p.v.resume, "");
    assert_int_equal(p.a.n_words, 1);
    mu_args_fini(&p.a);
    PARSE(&p, "job.yaml", "--resume", ".");
    assert_string_equal(p.v.resume, ".");
    assert_int_equal(p.a.n_words, 1);
    mu_args_fini(&p.a);
}

static void expect_usage(const char *const *words, const char *msg, const char *hint) {
    parsed p;
    parse(&p, words);
    assert_int_equal(p.status, MU_EUSAGE);
    if (!strstr(p.err.msg, msg)) fail_msg("message `%s` has no `%s`", p.err.msg, msg);
    if (hint && !strstr(p.err.hint, hint)) fail_msg("hint `%s` has no `%s`", p.err.hint, hint);
    mu_args_fini(&p.a);
}
#define USAGE(msg, hint, ...) expect_usage((const char *const[]){__VA_ARGS__, NULL}, msg, hint)

static void test_wrong_lines(void **state) {
    (void)state;
    USAGE("unknown option `--bach-size`", "--batch-size", "--bach-size", "3");
    USAGE("unknown option `--epoch`", "--epochs", "--epoch=3");
    USAGE("unknown option `-x`", NULL, "-x");
    USAGE("needs a value", NULL, "--text");
    USAGE("takes no value", NULL, "--flag=1");
    USAGE("takes red|green, not `blue`", NULL, "--choice", "blue");
    USAGE("a whole number, not `many`", NULL, "--batch-size", "many");
    USAGE("a whole number, not `-3`", NULL, "--batch-size", "-3");
    USAGE("a time such as", NULL, "--deadline", "soon");
    USAGE("is no KEY=VALUE", "--set train.batch=32", "--set", "batch");
    USAGE("unexpected word `c`", NULL, "a", "b", "c");
}

static void test_environment_comes_second(void **state) {
    (void)state;
    parsed p;
    setenv("MUSTER_BATCH_SIZE", "7", 1);
    setenv("MUSTER_EPOCHS", "2", 1);
    setenv("MUSTER_FLAG", "0", 1);
    PARSE(&p, "--epochs", "5");
    assert_int_equal(p.status, MU_OK);
    assert_int_equal(p.v.count, 7);
    assert_int_equal(p.a.n_sets, 1);
    assert_string_equal(p.a.set[0], "train.epochs=5");
    assert_false(p.v.flag);
    mu_args_fini(&p.a);
    setenv("MUSTER_BATCH_SIZE", "seven", 1);
    PARSE(&p, "job.yaml");
    assert_int_equal(p.status, MU_EUSAGE);
    assert_non_null(strstr(p.err.note, "MUSTER_BATCH_SIZE"));
    mu_args_fini(&p.a);
    unsetenv("MUSTER_BATCH_SIZE");
    unsetenv("MUSTER_EPOCHS");
    unsetenv("MUSTER_FLAG");
}

static void test_help_wins_over_what_follows(void **state) {
    (void)state;
    parsed p;
    PARSE(&p, "-h", "--nonsense");
    assert_int_equal(p.status, MU_OK);
    assert_true(p.a.help);
    mu_args_fini(&p.a);
}

static void test_out_of_memory(void **state) {
    (void)state;
    for (int64_t n = 1; n < 50; n++) {
        parsed p;
        mu_alloc_fail_at(n);
        PARSE(&p, "job.yaml", "--epochs", "3", "--set", "a=b");
        mu_alloc_fail_at(0);
        mu_args_fini(&p.a);
        if (p.status == MU_OK) return;
        assert_int_equal(p.status, MU_ENOMEM);
    }
    fail_msg("never succeeded");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_job_edits_keep_their_order),
        cmocka_unit_test(test_resume_takes_only_folders),
        cmocka_unit_test(test_wrong_lines),
        cmocka_unit_test(test_environment_comes_second),
        cmocka_unit_test(test_help_wins_over_what_follows),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
