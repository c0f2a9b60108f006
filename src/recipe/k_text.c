// SPDX-License-Identifier: Apache-2.0
// k_text.c - labelled sentences: the better of Kim's convolutional net, a linear net over words and pairs of
// words, and their mean.
//
// The file is lines of columns, parted by tabs, commas or semicolons: `label<tab>text`, `text<tab>label`, or
// a table with both among its columns. It is looked at twice. The first pass finds the columns: the label's
// has the fewest different values, the text's the most words. The second counts sentences, labels and words,
// which the job follows from by rule (write_job).
#include "recipe/recipe.h"

#include "file/infile.h"
#include "file/lines.h"
#include "read/labels.h"
#include "read/tokenise.h"

#include <inttypes.h>
#include <string.h>

#define TAG "recipe/text"

enum {
    MAX_COLUMNS = 16,           // looked at; further ones stay out
    LONGEST = 400,              // words of a text that are read; the rest of longer ones is left out
};

typedef struct column {
    mu_labels values;
    double words;               // with letters, in all lines
    int64_t like_first;         // further lines whose value is that of the first
} column;

typedef struct look {
    const char *path;
    mu_infile in;
    mu_arena arena;
    char *copy;                 // of a line
    char separator;
    int n_columns;
    column column[MAX_COLUMNS];
    int64_t lines;              // that have all columns
    // found
    int label, text;            // columns
    bool header;
    int64_t sentences, n_labels, n_words, longest, rarest; // rarest: sentences of the rarest label
} look;

// ---- lines ----

// The columns of the next good line; 0 = the end. Others than those of a good line are passed over.
static int next_line(look *k, mu_lines *l, mu_column col[MU_LINE_COLUMNS]) {
    const char *line;
    size_t size;
    while (mu_lines_next(l, &line, &size)) {
        int n;
        if (!size || mu_line_check(line, size) != MU_LINE_GOOD) continue;
        memcpy(k->copy, line, size);
        if (mu_line_split(k->copy, size, k->separator, k->separator != '\t', col, &n) != MU_LINE_GOOD)
            continue;
        if (n > 1 && (!k->n_columns || n >= k->n_columns)) return n < MAX_COLUMNS ? n : MAX_COLUMNS;
    }
    return 0;
}

static bool has_letter(const char *word, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((word[i] >= 'a' && word[i] <= 'z') || (unsigned char)word[i] >= 0x80) return true;
    return false;
}

// Words and marks; `letters`: only words, not numbers.
static int64_t count_words(const mu_column *c, bool letters, char *room) {
    mu_tokens t;
    const char *word;
    size_t size;
    int64_t n = 0;
    mu_tokens_init(&t, room, mu_tokens_prepare(c->text, c->size, true, room), MU_MARKS_ALL);
    while (mu_tokens_next(&t, &word, &size)) n += !letters || has_letter(word, size);
    return n;
}

// Of the first lines: how many are parted by k->separator, and into how many columns at least.
static int try_separator(look *k, int *columns) {
    mu_column col[MU_LINE_COLUMNS];
    mu_lines l;
    mu_lines_init(&l, k->in.mem, (size_t)k->in.size);
    int hits = 0, n;
    *columns = MAX_COLUMNS;
    for (k->n_columns = 0; hits < 200 && (n = next_line(k, &l, col)); hits++)
        if (n < *columns) *columns = n;
    return hits;
}

// Tabs come first: they hardly stand in a text.
static mu_status find_separator(look *k, mu_err *err) {
    static const char separators[] = {'\t', ',', ';'};
    int most = 0, columns, best_columns = 0;
    char best = '\t';
    for (size_t i = 0; i < sizeof separators; i++) {
        k->separator = separators[i];
        const int hits = try_separator(k, &columns);
        if (hits <= 2 * most) continue;
        most = hits, best = separators[i], best_columns = columns;
    }
    k->separator = best;
    k->n_columns = best_columns;
    if (most) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` has no lines of a label and a text", k->path), err,
                         "Lines must be `label<tab>text`. A text without labels is continued by `muster "
                         "init char`.");
}

// ---- columns ----

static mu_status note_line(look *k, const mu_column *col, char *room, mu_err *err) {
    for (int i = 0; i < k->n_columns; i++) {
        column *c = &k->column[i];
        int32_t id;
        MU_TRY(mu_labels_add(&c->values, col[i].text, col[i].size, &id, err));
        c->words += (double)count_words(&col[i], true, room);
        c->like_first += k->lines && id == 0;
    }
    k->lines++;
    return MU_OK;
}

static int column_named(const look *k, const char *name) {
    for (int i = 0; i < k->n_columns; i++)
        if (k->column[i].values.n && !strcmp(k->column[i].values.text[0], name)) return i;
    return -1;
}

// The first line names the columns when its label is that of no other line.
static mu_status choose_columns(look *k, const char *wanted, mu_err *err) {
    k->label = wanted ? column_named(k, wanted) : 0;
    if (k->label < 0)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` has no column `%s`", k->path, wanted), err,
                             "The first line must name the columns.");
    for (int i = 0; !wanted && i < k->n_columns; i++)
        if (k->column[i].values.n < k->column[k->label].values.n) k->label = i;
    k->text = k->label ? 0 : 1;
    for (int i = 0; i < k->n_columns; i++)
        if (i != k->label && k->column[i].words > k->column[k->text].words) k->text = i;
    const column *c = &k->column[k->label];
    k->header = wanted || (!c->like_first && 2 * (int64_t)c->values.n < k->lines);
    k->n_labels = (int64_t)c->values.n - (k->header && !c->like_first);
    if (2 * k->n_labels > k->lines)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA, "`%s` has no column of labels: nearly every value occurs once", k->path),
            err, "Lines must be `label<tab>text`, with several texts of each label.");
    if (k->n_labels < 2)
        return MU_FAIL(err, MU_EDATA, "all texts of `%s` have the same label", k->path);
    if (k->column[k->text].words >= 1.5 * (double)k->lines) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EDATA, "`%s` has no column of text", k->path), err,
                         "Columns of numbers and single words are a table: `muster init table`.");
}

static mu_status find_columns(look *k, const char *wanted, char *room, mu_err *err) {
    mu_column col[MU_LINE_COLUMNS];
    mu_lines l;
    MU_TRY(find_separator(k, err));
    mu_lines_init(&l, k->in.mem, (size_t)k->in.size);
    while (next_line(k, &l, col)) MU_TRY(note_line(k, col, room, err));
    return choose_columns(k, wanted, err);
}

// ---- counting ----

static mu_status count_sentences(look *k, char *room, mu_err *err) {
    const mu_labels *labels = &k->column[k->label].values;
    int64_t *of = mu_arena_array(&k->arena, labels->n + 1, sizeof *of);
    mu_column col[MU_LINE_COLUMNS];
    mu_lines l;
    if (!of) return MU_FAIL_NOMEM(err, "labels");
    mu_lines_init(&l, k->in.mem, (size_t)k->in.size);
    for (int64_t at = 0; next_line(k, &l, col); at++) {
        if (!at && k->header) continue;
        const int32_t id = mu_labels_find(labels, col[k->label].text, col[k->label].size);
        const int64_t n = count_words(&col[k->text], false, room);
        if (id >= 0) of[id]++;
        k->sentences++;
        k->n_words += n;
        if (n > k->longest) k->longest = n;
    }
    k->rarest = k->sentences;
    for (size_t i = 0; i < labels->n; i++)
        if (of[i] && of[i] < k->rarest) k->rarest = of[i];
    return MU_OK;
}

// ---- the job ----

// Rows for pairs: as many as there can be pairs, a power of two, within 64 MB of weights. Where less than an
// eighth of that fits, pairs would only disturb each other.
static int64_t buckets_for(const look *k) {
    int64_t n = 1024;
    while (n < k->n_words && n < 1 << 20) n *= 2;
    const int64_t wanted = n;
    while (n > 1 && n * k->n_labels > 1 << 24) n /= 2;
    return 8 * n < wanted ? 0 : n;
}

// About a thousand sentences are enough to choose by, and a tenth is the most that training can do without.
// Where labels are rare, no sentence can be spared, and the mean answers.
static double held_back(const look *k) {
    if (k->sentences < 500 || k->sentences < 30 * k->n_labels || k->rarest < 5) return 0;
    const double share = 1000 / (double)k->sentences;
    return share < 0.1 ? share : 0.1;
}

static void write_block(const look *k, const char *file, FILE *out) {
    fprintf(out, "{reader: sentences, file: \"%s\"", file);
    if (k->separator != '\t') fprintf(out, ", separator: \"%c\"", k->separator);
    if (k->header) fprintf(out, ", header: true");
    if (k->label) fprintf(out, ", label_column: %d", k->label + 1);
    if (k->n_columns > 2) fprintf(out, ", text_columns: [%d]", k->text + 1);
    if (k->longest > LONGEST) fprintf(out, ", length: %d", LONGEST);
    fprintf(out, "}\n");
}

static void write_data(const look *k, const mu_recipe_ask *a, FILE *out) {
    fprintf(out, "name: %s\nseed: 1\n\ndata:\n  train: ", a->name);
    write_block(k, a->file, out);
    const double held = held_back(k);
    if (held > 0) fprintf(out, "  validation: {fraction: %.3g, seed: 1}\n", held);
    if (a->test_file) {
        fprintf(out, "  test: ");
        write_block(k, a->test_file, out);
    }
}

// Mini-batches are GaDei's: 2 below 10,000 sentences, 4 below 100,000, else 32. The linear path descends
// with a rate of 1.5 for each sentence of a mini-batch: 75 times the updater's.
static void write_job(const look *k, const mu_recipe_ask *a, FILE *out) {
    const int64_t n = k->sentences, batch = n < 10000 ? 2 : n < 100000 ? 4 : 32;
    const int64_t epochs = n <= 20000 ? 20 : n > 133333 ? 3 : 400000 / n;
    fprintf(out,
            "# Two nets learn side by side: Kim's convolutional net for sentences, and a linear net over\n"
            "# words and pairs of words. `answer` is the mean of both, or the one that is right more\n"
            "# often on validation data.\n");
    write_data(k, a, out);
    fprintf(out,
            "\nnet:\n"
            "  # Word vectors learnt on much text help where sentences are few: add `vectors: FILE` here, a\n"
            "  # text file of lines `word v1 v2 ...` with `dim` values. GloVe, word2vec and fastText are\n"
            "  # published in that form.\n"
            "  - {name: words, type: embedding, src: data.words, dim: 300, pad: true}\n"
            "  - {name: windows, type: sentence_convolution, widths: [3, 4, 5], filters: 100}\n"
            "  - {name: drop, type: dropout, ratio: 0.5}\n"
            "  - {name: kim, type: inner_product, outputs: auto, weight: {max_norm: 3}}\n"
            "  - {name: kim_loss, type: softmax_loss, src: [kim, data.label], top: []}\n\n"
            "  - name: linear\n    type: linear_words\n    src: data.words\n    outputs: auto\n"
            "    buckets: %" PRId64 "\n    weight: {rule: descent, lr: %" PRId64 "}\n"
            "  - {name: linear_loss, type: softmax_loss, src: [linear, data.label], top: []}\n\n"
            "  - {name: answer, type: best_of, src: [kim, linear]}\n"
            "  - {name: accuracy, type: accuracy, src: [answer, data.label]}\n\n"
            "train: {batch: %" PRId64 ", epochs: %" PRId64 "}\n"
            "updater: {type: adagrad, rate: 0.02}\n"
            "test: {every: 1 epoch, batch: 50}\n",
            buckets_for(k), 75 * batch, batch, epochs);
}

// ---- the whole ----

static mu_status look_at(look *k, const mu_recipe_ask *a, mu_err *err) {
    k->path = a->path;
    k->copy = mu_alloc(2 * MU_LINE_MAX, TAG);
    if (!k->copy) return MU_FAIL_NOMEM(err, a->path);
    char *room = k->copy + MU_LINE_MAX; // for the words of a column
    MU_TRY(mu_infile_open(&k->in, a->path, err));
    MU_TRY(mu_infile_load(&k->in, err));
    MU_TRY(find_columns(k, a->label, room, err));
    return count_sentences(k, room, err);
}

static mu_status write_recipe(const mu_recipe_ask *a, FILE *out, char *found, size_t found_size,
                              mu_err *err) {
    look *k = mu_alloc(sizeof *k, TAG);
    if (!k) return MU_FAIL_NOMEM(err, a->path);
    mu_arena_init(&k->arena, TAG);
    for (int i = 0; i < MAX_COLUMNS; i++) mu_labels_init(&k->column[i].values, &k->arena);
    const mu_status st = look_at(k, a, err);
    if (st == MU_OK) {
        write_job(k, a, out);
        snprintf(found, found_size, "%" PRId64 " sentences, %" PRId64 " labels, %.0f words each on average",
                 k->sentences, k->n_labels, (double)k->n_words / (double)k->sentences);
    }
    for (int i = 0; i < MAX_COLUMNS; i++) mu_labels_fini(&k->column[i].values);
    mu_infile_close(&k->in);
    mu_arena_fini(&k->arena);
    mu_free(k->copy);
    mu_free(k);
    return st;
}

const mu_recipe_class mu_recipe_text = {
    .name = "text",
    .help = "classifier of your own labelled sentences",
    .write = write_recipe,
};
