// SPDX-License-Identifier: Apache-2.0
// r_sentences.c - labelled sentences, one a line: word numbers of a fixed length, and a class.
//
//     label <tab> text                     or CSV, with any columns
//     words = [pad x 0][word numbers, cut or filled up with 0 to `length`][pad x 0]
//
// The file is read in two passes. The first learns: vocabulary, labels and the longest sentence, from the
// file itself or from `vocab_of`, so that test data get the numbers of the training data. The second turns
// every line into word numbers. A damaged line keeps its record number and fails when it is read. Files
// without labels are there to be answered line by line: in them a line without words, also an empty one, is a
// sentence of padding alone.
#include "read/reader.h"
#include "file/infile.h"
#include "file/lines.h"
#include "read/learnt.h"
#include "read/tokenise.h"
#include "read/vocab.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum fault {            // of a line; the first are those of mu_line_fault
    FAULT_COLUMNS = 32,         // a column that is asked for is not there
    FAULT_LABEL,                // the label is empty
    FAULT_WORDS,                // the text holds no words
    FAULT_UNKNOWN,              // the label is not one of those learnt
    FAULT_NUMBER,               // labels are numbers, and this one is no class
} fault;

typedef struct sentence {
    int64_t line;               // in the file, from 1
    int64_t first;              // its words start at values[first]
    int32_t n;                  // words kept
    int32_t label;              // class; of an unknown label its id
    int32_t fault;              // 0 = good
} sentence;

struct sentences {
    const char *file, *vocab_of, *vocab, *separator;
    int64_t     max_words, min_count, length, pad, label_column;
    mu_ints     text_columns;
    bool        labels, header, lower;
    int         punctuation;            // mu_marks
    // private
    mu_vocab    words;
    mu_labels   label_words;            // learnt ones first, then those of bad rows
    int32_t    *class_of;               // [n_learnt]
    size_t      n_learnt;
    int64_t     kept;                   // words of a sentence kept
    bool        from_model;             // words and labels are those of a model
    sentence   *rows;
    int32_t    *values;                 // word numbers of all good rows
    size_t      n_rows, n_values, cap_values;
    int32_t    *now;                    // one record: pad, kept, pad
    int32_t     label_now;
};

static const mu_field fields[] = {
    MU_FIELD(struct sentences, file, MU_PATH, NULL, NULL,
             "the file, plain or compressed, UTF-8, one sentence a line; empty lines do not count, but with "
             "labels: false each is a sentence without words"),
    MU_FIELD(struct sentences, vocab_of, MU_PATH, "", NULL,
             "file whose words, labels and longest sentence count; left out: in training the file itself, "
             "else the training data"),
    MU_FIELD(struct sentences, vocab, MU_PATH, "", NULL,
             "vocabulary, one word a line, the most frequent first, instead of one made from the "
             "sentences"),
    MU_FIELD(struct sentences, max_words, MU_INT, "0", "[0,1000000000]",
             "keep only so many words, the most frequent or the first of vocab; 0 = all"),
    MU_FIELD(struct sentences, min_count, MU_INT, "1", "[1,)",
             "keep only words that occur so often; not with vocab"),
    MU_FIELD(struct sentences, length, MU_INT, "0", "[0,65536]",
             "words of a sentence, cut or filled up with 0; 0 = those of the longest one"),
    MU_FIELD(struct sentences, pad, MU_INT, "0", "[0,1024]", "zeros before and after each sentence"),
    MU_FIELD(struct sentences, labels, MU_BOOL, "true", NULL,
             "false: the file has no label column, for prediction; that of vocab_of has"),
    MU_FIELD(struct sentences, label_column, MU_INT, "1", "[1,64]", "column of the label, from 1"),
    MU_FIELD(struct sentences, text_columns, MU_INTS, "[]", "[1,64]",
             "columns of the text, joined; left out: all but the label's"),
    MU_FIELD(struct sentences, separator, MU_STRING, "tab", NULL,
             "tab, or one character: then columns may stand in double quotes"),
    MU_FIELD(struct sentences, header, MU_BOOL, "false", NULL, "the first line names the columns"),
    MU_FIELD(struct sentences, lower, MU_BOOL, "true", NULL, "ASCII letters become lower case"),
    MU_FIELD_ENUM(struct sentences, punctuation, "all", MU_MARKS_CHOICES,
                  "which marks are words of their own: all, some (, ! ? ( and ) only) or none"),
    {0},
};

static bool given(const char *path) { return path && path[0]; }

// ---- a file, line by line ----

typedef struct scan {
    const struct sentences *s;
    mu_infile   in;
    mu_lines    lines;
    bool        labelled;
    char       *copy;           // of the line, for its columns
    char       *text;           // the joined text columns
    // of the line last read
    int         fault;
    mu_column   label, sentence;
} scan;

static mu_status scan_open(scan *c, const struct sentences *s, const char *path, bool labelled, mu_err *err) {
    *c = (scan){.s = s, .labelled = labelled};
    c->copy = mu_realloc(NULL, MU_LINE_MAX, "read/sentences");
    c->text = mu_realloc(NULL, MU_LINE_MAX, "read/sentences");
    if (!c->copy || !c->text) return MU_FAIL_NOMEM(err, path);
    MU_TRY(mu_infile_open(&c->in, path, err));
    MU_TRY(mu_infile_load(&c->in, err));
    mu_lines_init(&c->lines, c->in.mem, (size_t)c->in.size);
    const char *line;
    size_t size;
    if (s->header) (void)mu_lines_next(&c->lines, &line, &size);
    return MU_OK;
}

static void scan_close(scan *c) {
    mu_infile_close(&c->in);
    mu_free(c->copy);
    mu_free(c->text);
}

// Joins the text columns in c->text.
static int join(scan *c, const mu_column *column, int n, int label) {
    const mu_ints *want = &c->s->text_columns;
    size_t used = 0, n_want = want->n ? want->n : (size_t)n;
    bool any = false;
    for (size_t i = 0; i < n_want; i++) {
        int64_t k = want->n ? want->v[i] - 1 : (int64_t)i;
        if (k >= n) return FAULT_COLUMNS;
        if (k == label) continue;
        if (used + column[k].size + 1 > MU_LINE_MAX) return MU_LINE_LONG;
        if (any) c->text[used++] = ' ';
        if (column[k].size) memcpy(c->text + used, column[k].text, column[k].size);
        used += column[k].size;
        any = true;
    }
    c->sentence = (mu_column){c->text, mu_tokens_prepare(c->text, used, c->s->lower, c->text)};
    return any ? 0 : FAULT_COLUMNS;
}

static int take_line(scan *c, const char *line, size_t size) {
    mu_column column[MU_LINE_COLUMNS];
    int n, f = (int)mu_line_check(line, size);
    if (f) return f;
    if (!size) { // of a file without labels: a sentence without words, whatever its columns
        c->sentence = (mu_column){c->text, 0};
        return 0;
    }
    const char *sep = c->s->separator;
    bool tab = !strcmp(sep, "tab");
    memcpy(c->copy, line, size);
    f = (int)mu_line_split(c->copy, size, tab ? '\t' : sep[0], !tab, column, &n);
    if (f) return f;
    int label = c->labelled ? (int)c->s->label_column - 1 : -1;
    if (label >= n) return FAULT_COLUMNS;
    f = join(c, column, n, label);
    if (f || label < 0) return f;
    c->label = column[label];
    return c->label.size ? 0 : FAULT_LABEL;
}

// The next line, of a labelled file the next one that is not empty. False at the end.
static bool scan_next(scan *c) {
    const char *line;
    size_t size;
    do {
        if (!mu_lines_next(&c->lines, &line, &size)) return false;
    } while (!size && c->labelled);
    c->fault = take_line(c, line, size);
    return true;
}

static mu_tokens tokens_of(const scan *c) {
    mu_tokens t;
    mu_tokens_init(&t, c->sentence.text, c->sentence.size, (mu_marks)c->s->punctuation);
    return t;
}

static mu_status fail_line(const struct sentences *s, const char *path, const sentence *w, mu_err *err) {
    const char *why = mu_line_fault_text((mu_line_fault)w->fault);
    if (w->fault == FAULT_COLUMNS)
        return mu_err_hinted(
            MU_FAIL(err, MU_EDATA,
                    "`%s` line %" PRId64 " has too few columns: there must be a label, the separator "
                    "and a text",
                    path, w->line),
            err, "`separator`, `label_column`, `text_columns` and `labels` say how a line looks.");
    if (w->fault == FAULT_UNKNOWN)
        return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 ": label `%s` does not occur in %s%s%s", path,
                       w->line, s->label_words.text[w->label], s->from_model ? "the model's classes" : "`",
                       s->from_model        ? ""
                       : given(s->vocab_of) ? s->vocab_of
                                            : path,
                       s->from_model ? "" : "`");
    if (w->fault == FAULT_LABEL) why = "has an empty label";
    if (w->fault == FAULT_NUMBER) why = "has a label that is no whole number from 0";
    if (w->fault == FAULT_WORDS) why = "has a text without words";
    return MU_FAIL(err, MU_EDATA, "`%s` line %" PRId64 " %s", path, w->line, why);
}

// ---- first pass: words, labels, longest sentence ----

// Number of words in the line; counts them unless the vocabulary comes from a file of its own.
static mu_status learn_words(struct sentences *s, const scan *c, int64_t *n, mu_err *err) {
    mu_tokens t = tokens_of(c);
    const char *word;
    size_t size;
    for (*n = 0; mu_tokens_next(&t, &word, &size); ++*n)
        if (!given(s->vocab)) MU_TRY(mu_vocab_count(&s->words, word, size, err));
    return MU_OK;
}

static mu_status learn_lines(struct sentences *s, scan *c, const char *path, mu_err *err) {
    int64_t n, longest = 0;
    sentence bad = {0};              // the first
    while (scan_next(c)) {
        int f = c->fault;
        if (!f) MU_TRY(learn_words(s, c, &n, err));
        if (!f && !n) f = FAULT_WORDS;
        if (f && !bad.fault) bad = (sentence){.line = c->lines.number, .fault = f};
        if (f) continue;
        int32_t id;
        if (c->labelled) MU_TRY(mu_labels_add(&s->label_words, c->label.text, c->label.size, &id, err));
        if (n > longest) longest = n;
    }
    if (!longest && bad.fault) {
        mu_status st = fail_line(s, path, &bad, err);
        mu_err_note(err, "no line of the file is good; this is the first");
        return st;
    }
    if (!longest) return MU_FAIL(err, MU_EDATA, "`%s` holds no sentences", path);
    s->kept = s->length ? s->length : longest;
    return MU_OK;
}

// Classes of the labels. They have names unless they are numbers with gaps.
static mu_status learn_classes(mu_reader *r, struct sentences *s, mu_err *err) {
    size_t n = s->label_words.n;
    s->class_of = mu_arena_array(r->arena, n + 1, sizeof *s->class_of);
    if (!s->class_of) return MU_FAIL_NOMEM(err, "labels");
    s->n_learnt = n;
    if (!n) return MU_OK;
    MU_TRY(mu_labels_number(&s->label_words, s->class_of, &r->n_labels, err));
    return mu_labels_names(&s->label_words, s->class_of, r->n_labels, &r->label_names, err);
}

// Everything from the model instead. Its labels come first and in its order, so an id is looked up as after
// learning.
static mu_status take_known(mu_reader *r, struct sentences *s, const json_t *learnt, mu_err *err) {
    const char *const *text;
    size_t n;
    s->from_model = true;
    MU_TRY(mu_learnt_get_texts(json_object_get(learnt, "words"), r->arena, &text, &n, err));
    MU_TRY(mu_vocab_take(&s->words, text, n, err));
    s->kept = json_integer_value(json_object_get(learnt, "length"));
    if (s->kept < 1 || s->kept > 65536)
        return MU_FAIL(err, MU_EMODEL, "the model has sentences without words");
    MU_TRY(mu_learnt_get_texts(json_object_get(learnt, "label_words"), r->arena, &text, &n, err));
    int32_t id;
    for (size_t i = 0; i < n; i++)
        MU_TRY(mu_labels_add(&s->label_words, text[i], strlen(text[i]), &id, err));
    return learn_classes(r, s, err);
}

static mu_status tell(const mu_reader *r, json_t *out, mu_err *err) {
    const struct sentences *s = r->state;
    json_t *words = mu_learnt_put_texts(s->words.text + MU_WORD_FIRST, (size_t)s->words.n - MU_WORD_FIRST);
    json_t *labels = mu_learnt_put_texts(s->label_words.text, s->n_learnt);
    int wrong = json_object_set_new(out, "words", words) | json_object_set_new(out, "label_words", labels);
    wrong |= json_object_set_new(out, "length", json_integer(s->kept));
    return wrong ? MU_FAIL_NOMEM(err, "the vocabulary") : MU_OK;
}

static mu_status learn(mu_reader *r, struct sentences *s, mu_err *err) {
    if (r->known && r->known->learnt) return take_known(r, s, r->known->learnt, err);
    bool other = given(s->vocab_of);
    const char *path = other ? s->vocab_of : s->file;
    scan c;
    mu_status st = scan_open(&c, s, path, other || s->labels, err);
    if (st == MU_OK) st = learn_lines(s, &c, path, err);
    scan_close(&c);
    if (st == MU_OK && given(s->vocab)) st = mu_vocab_load(&s->words, s->vocab, s->max_words, err);
    else if (st == MU_OK) st = mu_vocab_number(&s->words, s->max_words, s->min_count, err);
    return st == MU_OK ? learn_classes(r, s, err) : st;
}

// ---- second pass: rows ----

static mu_status put_word(struct sentences *s, int32_t number, mu_err *err) {
    int32_t *v = mu_grow(s->values, s->n_values, &s->cap_values, sizeof *v, 4096, "read/sentences");
    if (!v) return MU_FAIL_NOMEM(err, s->file);
    s->values = v;
    s->values[s->n_values++] = number;
    return MU_OK;
}

static mu_status put_row(struct sentences *s, const scan *c, sentence *w, mu_err *err) {
    *w = (sentence){.line = c->lines.number, .first = (int64_t)s->n_values, .fault = c->fault};
    if (w->fault) return MU_OK;
    if (s->labels) {
        MU_TRY(mu_labels_add(&s->label_words, c->label.text, c->label.size, &w->label, err));
        if ((size_t)w->label >= s->n_learnt) w->fault = FAULT_UNKNOWN;
        else if ((w->label = s->class_of[w->label]) < 0) w->fault = FAULT_NUMBER;
    }
    mu_tokens t = tokens_of(c);
    const char *word;
    size_t size;
    while (!w->fault && w->n < s->kept && mu_tokens_next(&t, &word, &size)) {
        MU_TRY(put_word(s, mu_vocab_find(&s->words, word, size), err));
        w->n++;
    }
    if (!w->fault && !w->n && s->labels) w->fault = FAULT_WORDS;
    return MU_OK;
}

static size_t count_lines(const mu_infile *in) {
    size_t n = 1;
    for (uint64_t i = 0; i < in->size; i++) n += in->mem[i] == '\n';
    return n;
}

static mu_status list_rows(struct sentences *s, mu_err *err) {
    scan c;
    mu_status st = scan_open(&c, s, s->file, s->labels, err);
    if (st == MU_OK) s->rows = mu_alloc_array(count_lines(&c.in), sizeof *s->rows, "read/sentences");
    if (st == MU_OK && !s->rows) st = MU_FAIL_NOMEM(err, s->file);
    while (st == MU_OK && scan_next(&c)) st = put_row(s, &c, &s->rows[s->n_rows++], err);
    scan_close(&c);
    if (st == MU_OK && !s->n_rows) st = MU_FAIL(err, MU_EDATA, "`%s` holds no sentences", s->file);
    return st;
}

// ---- the reader ----

static mu_status check_options(mu_reader *r, struct sentences *s, mu_err *err) {
    if (!given(s->separator)) s->separator = "tab";
    const char *sep = s->separator;
    if (strcmp(sep, "tab") && (strlen(sep) != 1 || strchr("\"\r\n", sep[0])))
        return MU_FAIL_AT(err, MU_EJOB, r->pos, "`separator` must be one character or the word tab, not `%s`",
                          sep);
    if (given(s->vocab) && s->min_count > 1)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, r->pos,
                                        "`min_count` counts words of sentences, `vocab` has none to count"),
                             err, "Leave one of the two out; `max_words` cuts a vocabulary.");
    for (size_t i = 0; s->labels && i < s->text_columns.n; i++)
        if (s->text_columns.v[i] == s->label_column)
            return MU_FAIL_AT(err, MU_EJOB, r->pos, "column %" PRId64 " is both the label and text",
                              s->label_column);
    return MU_OK;
}

static mu_status open_sentences(mu_reader *r, mu_err *err) {
    struct sentences *s = r->state;
    mu_vocab_init(&s->words, r->arena);
    mu_labels_init(&s->label_words, r->arena);
    MU_TRY(check_options(r, s, err));
    MU_TRY(learn(r, s, err));
    MU_TRY(list_rows(s, err));
    int64_t width = s->kept + 2 * s->pad;
    s->now = mu_arena_array(r->arena, (size_t)width, sizeof *s->now);
    if (!s->now) return MU_FAIL_NOMEM(err, "one sentence");
    r->field[r->n_fields++] = (mu_data_field){.name = "words",
                                              .shape = MU_SHAPE(width),
                                              .store = MU_STORE_I32,
                                              .n_classes = s->words.n,
                                              .names = s->words.text};
    if (s->labels) {
        r->field[r->n_fields] = mu_label_field(r->n_labels);
        r->field[r->n_fields++].names = r->label_names;
    }
    r->n_records = (int64_t)s->n_rows;
    return MU_OK;
}

static mu_status read_sentence(mu_reader *r, int64_t index, mu_record *out, mu_err *err) {
    struct sentences *s = r->state;
    const sentence *w = &s->rows[index];
    if (w->fault) return fail_line(s, s->file, w, err);
    int32_t *to = s->now + s->pad;      // the pads are zero and stay so
    if (w->n) memcpy(to, s->values + w->first, (size_t)w->n * sizeof *to);
    memset(to + w->n, 0, (size_t)(s->kept - w->n) * sizeof *to);
    s->label_now = w->label;
    out->field[0] = s->now;
    if (s->labels) out->field[1] = &s->label_now;
    return MU_OK;
}

static void describe(const mu_reader *r, int64_t index, char *out, size_t size) {
    const struct sentences *s = r->state;
    snprintf(out, size, "`%s` line %" PRId64, s->file, s->rows[index].line);
}

static void close_sentences(mu_reader *r) {
    struct sentences *s = r->state;
    mu_vocab_fini(&s->words);
    mu_labels_fini(&s->label_words);
    mu_free(s->rows);
    mu_free(s->values);
    s->rows = NULL, s->values = NULL;
}

static const mu_reader_ask ask = {
    .file = "file", .typed = true, .unlabelled = "labels", .unlabelled_value = "false",
    .names_training = (const char *const[]){"vocab_of", "vocab", "min_count", NULL},
};

const mu_reader_class mu_reader_sentences = {
    .name = "sentences",
    .help = "labelled sentences, one a line, as word numbers; fields: words, label",
    .fields = fields,
    .state_size = sizeof(struct sentences),
    .open = open_sentences,
    .read = read_sentence,
    .describe = describe,
    .close = close_sentences,
    .tell = tell,
    .ask = &ask,
};
