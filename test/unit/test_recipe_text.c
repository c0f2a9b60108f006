// SPDX-License-Identifier: Apache-2.0
// test_recipe_text.c - what `muster init text` finds in a file, and that the job it writes trains.
#include "training_help.h"

#include "recipe/recipe.h"

static char folder[] = "test-recipe-XXXXXX";

typedef struct written {
    char *job;
    size_t size;
    char found[128];
    mu_status status;
    mu_err err;
} written;

static written write_for(const char *path, const char *label) {
    const mu_recipe_class *c = (const mu_recipe_class *)mu_registry_find(&mu_recipes, "text");
    assert_non_null(c);
    written w = {0};
    FILE *f = open_memstream(&w.job, &w.size);
    assert_non_null(f);
    const mu_recipe_ask a = {.path = path, .file = path, .test_file = path, .label = label, .name = "t"};
    w.status = c->write(&a, f, w.found, sizeof w.found, &w.err);
    fclose(f);
    return w;
}

static void expect_text(const written *w, const char *text) {
    if (w->status != MU_OK) fail_msg("%s", w->err.msg);
    if (!strstr(w->job, text)) fail_msg("no `%s` in the job:\n%s", text, w->job);
}

// n sentences; `line` has places for the label and a word of its class.
static void write_lines(const char *path, const char *head, int n, int labels, const char *line) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(head, f);
    for (int i = 0; i < n; i++)
        for (const char *p = line; *p; p++) {
            if (*p == 'L') fprintf(f, "label%d", i % labels);
            else if (*p == 'W') fprintf(f, "own%d w%d", i % labels * 3 + i % 2, i * 13 % 97);
            else fputc(*p, f);
        }
    assert_int_equal(fclose(f), 0);
}

static void columns_are_found(void **state) {
    (void)state;
    static const struct { const char *head, *line, *want; } cases[] = {
        {"", "L\tthe W\n", "{reader: sentences, file: \"a.tsv\"}"},
        {"", "the W\tL\n", "file: \"a.tsv\", label_column: 2}"},
        {"kind,text\n", "L,\"the, W\"\n", "separator: \",\", header: true}"},
        {"text;kind\n", "the W;L\n", "separator: \";\", header: true, label_column: 2}"},
        {"id\ttext\tkind\n", "W\tthe long W\tL\n", "header: true, label_column: 3, text_columns: [2]}"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        write_lines("a.tsv", cases[i].head, 600, 3, cases[i].line);
        written w = write_for("a.tsv", NULL);
        expect_text(&w, cases[i].want);
        assert_non_null(strstr(w.found, "600 sentences, 3 labels"));
        free(w.job);
    }
    written w = write_for("a.tsv", "kind"); // the last of the cases, told which
    expect_text(&w, "label_column: 3");
    free(w.job);
}

static void sizes_decide(void **state) {
    (void)state;
    static const struct { int n, labels; const char *held, *batch; } cases[] = {
        {600, 3, "validation: {fraction: 0.1, seed: 1}", "train: {batch: 2, epochs: 20}"},
        {12000, 3, "validation: {fraction: 0.0833, seed: 1}", "train: {batch: 4, epochs: 20}"},
        {100000, 3, "validation: {fraction: 0.01, seed: 1}", "train: {batch: 32, epochs: 4}"},
        {600, 100, NULL, "train: {batch: 2"}, // six of a class: none to spare
        {60, 2, NULL, "train: {batch: 2"},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        write_lines("b.tsv", "", cases[i].n, cases[i].labels, "L\tthe W\n");
        written w = write_for("b.tsv", NULL);
        expect_text(&w, cases[i].batch);
        if (cases[i].held) expect_text(&w, cases[i].held);
        else assert_null(strstr(w.job, "validation: {"));
        free(w.job);
    }
}

static void expect_refused(const char *content, const char *label, const char *why) {
    FILE *f = fopen("c.tsv", "w");
    assert_non_null(f);
    fputs(content, f);
    assert_int_equal(fclose(f), 0);
    written w = write_for("c.tsv", label);
    if (w.status != MU_EDATA || !strstr(w.err.msg, why))
        fail_msg("%s: got %s `%s`, expected `%s`", content, mu_status_name(w.status), w.err.msg, why);
    assert_string_equal(w.job ? w.job : "", "");
    free(w.job);
}

static void other_files_are_refused(void **state) {
    (void)state;
    expect_refused("", NULL, "no lines of a label and a text");
    expect_refused("once upon a time\nthere was\n", NULL, "no lines of a label and a text");
    expect_refused("a\tone two\na\tthree four\na\tfive six\n", NULL, "the same label");
    expect_refused("a\tone two\nb\tthree four\nc\tfive six\n", NULL, "no column of labels");
    expect_refused("1,2.5\n1,3.5\n2,4.5\n2,7.5\n1,8.5\n2,9.5\n", NULL, "no column of text");
    expect_refused("x,y\nx,z\nw,v\nw,u\nx,r\nw,s\n", NULL, "no column of text");
    expect_refused("a\tone two\nb\tthree four\n", "kind", "no column `kind`");
}

// As it is written, but shorter.
static void the_job_trains(void **state) {
    static const char *const sets[] = {"train.epochs=3", "net.words.dim=12", "net.windows.filters=6"};
    (void)state;
    write_lines("d.tsv", "", 600, 3, "L\tthe W of it\n");
    written w = write_for("d.tsv", NULL);
    expect_text(&w, "best_of");
    training t;
    train(&t, w.job, &(mu_run_opts){.no_files = true}, sets, MU_COUNT(sets));
    if (!(t.r.test.accuracy > 0.97)) fail_msg("accuracy %g", t.r.test.accuracy);
    end(&t);
    free(w.job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found),
        cmocka_unit_test(sizes_decide),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(the_job_trains),
    };
    if (!mkdtemp(folder) || chdir(folder)) return 1;
    const int wrong = cmocka_run_group_tests(tests, NULL, NULL);
    if (!chdir("..")) remove_tree(folder);
    return wrong;
}
