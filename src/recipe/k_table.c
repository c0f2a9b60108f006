// SPDX-License-Identifier: Apache-2.0
// k_table.c - a table as people have it: a class or a number from the other columns.
//
// One rule for classes, one for numbers, both a layer of units:
//   class   tanh units, which begin small, so that they are nearly linear until the rows ask for more.
//           L1 decay takes out the columns that say nothing
//   number  the columns also in pieces, so that an answer may change at a threshold as those of trees do,
//           and stays level where the data ends; relu units, half of which are dropped
// Decay keeps the units from learning few rows by heart, and falls as rows grow in number. The length is
// counted in updates, so that a table of a hundred rows gets enough of them. Tried on numbers from few rows
// by examples/table-accuracy.py, and worse: tanh without pieces (4 % more error), a linear path beside the
// units (2 %, it goes on straight where the data ends), several nets and their mean (no gain).
//
// Columns of text train in words where they hold sentences and rows are many; columns of more words than
// one place each would pay for are embedded. Up to SPLIT_ROWS rows all train: a held-back tenth would cost
// more than it tells.
#include "recipe/recipe.h"

#include "file/json.h"
#include "read/table.h"

#include <string.h>

enum {
    FEW_ROWS = 2000, MANY_ROWS = 20000, // where sizes change
    SPLIT_ROWS = 2000,                  // from here on a tenth is held back
    LEAST_STEPS = 1000,
    EPOCHS = 30,
    TEXT_ROWS = 1000,           // fewer cannot teach words
    TEXT_WORDS = 4,             // words of a cell, on average, that make sentences
    EMBEDDED_EACH = 4,          // rows for each word of an embedded column, on average
};

typedef struct plan {
    mu_arena *arena;
    mu_table t;
    const char *label;
    mu_strings embed, text;
    bool number;                // a number is predicted, not a class
    bool features;              // there are columns of numbers and categories
    int64_t rows;               // with a label
    int64_t batch, steps, hidden;
    const char *decay;          // as in `updater`, with l1 behind it
    const char *dropout, *rate;
} plan;

// ---- looking ----

static mu_status load(const mu_recipe_ask *a, plan *p, mu_err *err) {
    mu_infile in = {0};
    p->label = a->label;
    if (!p->label) MU_TRY(mu_table_guess_file(a->path, p->arena, &p->label, err));
    MU_TRY(mu_infile_open(&in, a->path, err));
    mu_status st = mu_infile_load(&in, err);
    const mu_table_options o = {.label = p->label, .only_look = true};
    if (st == MU_OK) st = mu_table_learn(&p->t, &in, mu_table_separator(&in), &o, err);
    mu_infile_close(&in);
    return st;
}

static double mean_words(const mu_table_column *c) {
    double n = 0;
    for (size_t i = 0; i < c->words.n; i++) {
        const char *s = c->words.text[i];
        n++;
        for (; *s; s++) n += *s == ' ';
    }
    return c->words.n ? n / (double)c->words.n : 0;
}

// By name where there is one, else by place.
static const char *asked_as(const plan *p, const mu_table_column *c) {
    return p->t.header ? c->name : mu_arena_printf(p->arena, "%lld", (long long)c->place);
}

// Columns of text that can be used after all.
static mu_status choose_columns(plan *p, mu_err *err) {
    const char **embed = mu_arena_array(p->arena, p->t.n_known, sizeof *embed);
    const char **text = mu_arena_array(p->arena, p->t.n_known, sizeof *text);
    if (!embed || !text) return MU_FAIL_NOMEM(err, "the columns");
    for (size_t i = 0; i < p->t.n_known; i++) {
        const mu_table_column *c = &p->t.column[i];
        p->features |= mu_table_used(c);
        if (c->kind != MU_TABLE_TEXT || 2 * c->n_numbers > c->n_values) continue;
        const bool repeated = (int64_t)c->words.n * EMBEDDED_EACH <= c->n_values && !c->long_words &&
                              c->words.n <= MU_TABLE_WORDS;
        const bool sentences = p->t.n_rows >= TEXT_ROWS && mean_words(c) >= TEXT_WORDS;
        if (!repeated && !sentences) continue;
        const char *name = asked_as(p, c);
        if (!name) return MU_FAIL_NOMEM(err, "the columns");
        if (repeated) embed[p->embed.n++] = name;
        else text[p->text.n++] = name;
    }
    p->embed.v = embed;
    p->text.v = text;
    if (p->features || p->embed.n || p->text.n) return MU_OK;
    return mu_err_hinted(
        MU_FAIL(err, MU_EDATA, "`%s` has no column to learn from beside `%s`", p->t.file, p->label), err,
        "Lines of a label and a text are sentences: `muster init text`.");
}

static void choose_sizes(plan *p) {
    const mu_table_column *label = &p->t.column[p->t.label];
    p->rows = label->n_values;
    p->number = p->t.target == MU_TABLE_TARGET_NUMBER;
    const bool few = p->rows < FEW_ROWS, many = p->rows >= MANY_ROWS;
    p->batch = many ? 256 : 32;
    p->hidden = many ? 256 : few ? 64 : 128;
    if (p->number) p->decay = many ? "0.0001" : few ? "0.01" : "0.001";
    else p->decay = many ? "0.00003, l1: 0.00002" : few ? "0.003, l1: 0.002" : "0.0003, l1: 0.0002";
    p->dropout = p->number && !many ? "0.5" : many ? "0.1" : "0.2";
    p->rate = p->number ? "0.01" : "0.02";
    p->steps = EPOCHS * p->rows / p->batch;
    if (p->steps < LEAST_STEPS) p->steps = LEAST_STEPS;
}

// ---- writing ----

static void put_names(mu_text *t, const char *key, mu_strings names) {
    for (size_t i = 0; i < names.n; i++) {
        if (i) mu_text_printf(t, ", ");
        else mu_text_printf(t, ", %s: [", key);
        mu_text_json_string(t, names.v[i]);
    }
    if (names.n) mu_text_printf(t, "]");
}

static void put_block(mu_text *t, const plan *p, const char *phase, const char *file) {
    mu_text_printf(t, "  %s: {reader: table, file: ", phase);
    mu_text_json_string(t, file);
    mu_text_printf(t, ", label: ");
    mu_text_json_string(t, p->label);
    mu_text_printf(t, ", target: %s", p->number ? "number, pieces: 8" : "class");
    put_names(t, "embed", p->embed);
    put_names(t, "text", p->text);
    mu_text_printf(t, "}\n");
}

static void put_data(mu_text *t, const mu_recipe_ask *a, const plan *p) {
    mu_text_printf(t, "data:\n");
    put_block(t, p, "train", a->file);
    if (a->test_file) put_block(t, p, "test", a->test_file);
    if (p->rows >= SPLIT_ROWS)
        mu_text_printf(t, "  # a tenth of the rows is held back and judges the net while it trains\n"
                          "  validation: {fraction: 0.1, seed: 1}\n");
    else
        mu_text_printf(t, "  # All rows train, because they are few. To see how well the net answers rows\n"
                          "  # that it was not trained on, hold some back:\n"
                          "  # validation: {fraction: 0.1, seed: 1}\n");
}

static void put_net(mu_text *t, const plan *p) {
    const bool several = (int)p->features + (p->embed.n > 0) + (p->text.n > 0) > 1;
    mu_text_printf(t, "\nnet:\n");
    if (p->embed.n)
        mu_text_printf(t, "  # a vector for each word of the columns in `embed`\n"
                          "  - {name: vectors, type: embedding, src: data.categories, dim: 8}\n"
                          "  - {name: places, type: flatten, src: vectors}\n");
    if (p->text.n)
        mu_text_printf(t, "  # which words the texts hold\n"
                          "  - {name: bag, type: bag_of_words, src: data.words}\n");
    const char *units = p->number ? "relu" : "tanh";
    const char *inputs = several ? "inputs" : p->features ? "data.features" : p->embed.n ? "places" : "bag";
    if (several)
        mu_text_printf(t, "  - {name: inputs, type: concat, src: [%s%s%s%s%s]}\n",
                       p->features ? "data.features" : "", p->features && p->embed.n ? ", " : "",
                       p->embed.n ? "places" : "", p->text.n ? ", " : "", p->text.n ? "bag" : "");
    mu_text_printf(t,
                   "  - {name: hidden, type: inner_product, src: %s, outputs: %lld,\n"
                   "     weight: {init: pytorch}, bias: {decay: 0}}\n"
                   "  - {name: %s, type: %s}\n"
                   "  - {name: drop, type: dropout, ratio: %s}\n"
                   "  - {name: scores, type: inner_product, outputs: auto,\n"
                   "     weight: {init: pytorch}, bias: {decay: 0}}\n",
                   inputs, (long long)p->hidden, units, units, p->dropout);
    if (p->number) mu_text_printf(t, "  - {name: loss, type: euclidean_loss, src: [scores, data.target]}\n");
    else
        mu_text_printf(t, "  - {name: loss, type: softmax_loss, src: [scores, data.label]}\n"
                          "  - {name: accuracy, type: accuracy, src: [scores, data.label]}\n");
}

static void put_job(mu_text *t, const mu_recipe_ask *a, const plan *p) {
    mu_text_printf(t,
                   "# %s from a table: %lld rows, %zu columns. Rows for an answer may have the columns\n"
                   "# in any order, with gaps and words that are new: muster predict RUN other.csv\n"
                   "name: ",
                   p->number ? "A number" : "A class", (long long)p->rows, p->t.n_columns);
    mu_text_json_string(t, a->name);
    mu_text_printf(t, "\nseed: 1\n\n");
    put_data(t, a, p);
    put_net(t, p);
    mu_text_printf(t,
                   "\ntrain: {batch: %lld, steps: %lld}\n"
                   "updater: {type: adam, decay: %s, rate: {type: cosine, base: %s}}\n",
                   (long long)p->batch, (long long)p->steps, p->decay, p->rate);
}

static void describe(const plan *p, char *found, size_t size) {
    const mu_table_column *label = &p->t.column[p->t.label];
    const int n = snprintf(found, size, "%lld rows, %zu columns; `%s` is ", (long long)p->rows,
                           p->t.n_columns, label->name);
    if (n < 0 || (size_t)n >= size) return;
    if (p->number) snprintf(found + n, size - (size_t)n, "a number, %g to %g", label->least, label->most);
    else snprintf(found + n, size - (size_t)n, "one of %zu classes", label->n_words);
}

static mu_status write_table(const mu_recipe_ask *a, FILE *out, char *found, size_t found_size, mu_err *err) {
    mu_arena arena;
    mu_text text = {0};
    mu_arena_init(&arena, "recipe-table");
    plan p = {.arena = &arena};
    mu_table_init(&p.t, &arena, a->path);
    mu_status st = load(a, &p, err);
    if (st == MU_OK) st = choose_columns(&p, err);
    if (st == MU_OK) {
        choose_sizes(&p);
        put_job(&text, a, &p);
        describe(&p, found, found_size);
    }
    if (st == MU_OK && text.failed) st = MU_FAIL_NOMEM(err, "the job");
    if (st == MU_OK) fputs(text.s, out);
    mu_text_fini(&text);
    mu_table_fini(&p.t);
    mu_arena_fini(&arena);
    return st;
}

const mu_recipe_class mu_recipe_table = {
    .name = "table",
    .help = "a class or a number from the columns of your own table",
    .write = write_table,
};
