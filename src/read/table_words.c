// SPDX-License-Identifier: Apache-2.0
// table_words.c - see table.h: columns whose words become numbers, embedded ones and sentences.
//
// Their words are learnt in a pass of its own, because only after the first it is known which row names the
// columns. An embedded column uses its vocabulary so: 0 is a gap, 1 a word seen once or never, others count
// from 2. A number that no training row has would stand for a vector that nobody taught: where the training
// data has no gaps, a gap is an unknown word; where it has no rare words, an unknown word is a gap; where it
// has neither, both are the most frequent word.
#include "read/table.h"

#include "read/learnt.h"
#include "read/tokenise.h"

#include <inttypes.h>
#include <string.h>

typedef struct pass {
    mu_table *t;
    bool header; // the first row is still to come, and names the columns
    int64_t longest;
} pass;

static mu_tokens tokens_of(mu_table *t, const char *cell) {
    mu_tokens tokens;
    const size_t n = mu_table_utf8(cell, strnlen(cell, MU_CSV_MAX_COLUMN_BYTES), t->text_copy);
    mu_tokens_init(&tokens, t->text_copy, mu_tokens_prepare(t->text_copy, n, true, t->text_copy),
                   MU_MARKS_ALL);
    return tokens;
}

static mu_status learn_embedded(mu_table *t, mu_table_column *c, const char *cell, mu_err *err) {
    char word[MU_TABLE_WORD_SIZE];
    if (mu_table_missing(t, cell)) return MU_OK;
    mu_table_word(cell, word);
    if (c->vocab.seen.n > MU_TABLE_EMBEDDED_WORDS)
        return MU_FAIL(err, MU_EDATA, "column `%s` of `%s` has more than %d different words", c->name,
                       t->file, MU_TABLE_EMBEDDED_WORDS);
    return mu_vocab_count(&c->vocab, word, strlen(word), err);
}

static mu_status learn_sentence(mu_table *t, const char *cell, int64_t *n, mu_err *err) {
    if (mu_table_missing(t, cell)) return MU_OK;
    mu_tokens tokens = tokens_of(t, cell);
    const char *word;
    size_t size;
    for (; mu_tokens_next(&tokens, &word, &size); ++*n)
        MU_TRY(mu_vocab_count(&t->text, word, size, err));
    return MU_OK;
}

static mu_status learn_row(void *ctx, const mu_csv_row *row, mu_err *err) {
    pass *p = ctx;
    mu_table *t = p->t;
    const bool names = p->header;
    p->header = false;
    if (names || row->n != t->n_columns) return MU_OK;
    int64_t n = 0;
    for (size_t i = 0; i < t->n_known; i++) {
        mu_table_column *c = &t->column[i];
        const char *cell = mu_csv_column(row, i);
        if (c->kind == MU_TABLE_EMBEDDED) MU_TRY(learn_embedded(t, c, cell, err));
        if (c->kind == MU_TABLE_SENTENCES) MU_TRY(learn_sentence(t, cell, &n, err));
    }
    if (n > p->longest) p->longest = n;
    return MU_OK;
}

// Each column's numbers behind those of the column before.
static mu_status place_codes(mu_table *t, mu_err *err) {
    t->n_codes = 0;
    for (size_t i = 0; i < t->n_known; i++) {
        mu_table_column *c = &t->column[i];
        if (c->kind != MU_TABLE_EMBEDDED) continue;
        c->first_code = t->n_codes;
        t->n_codes += c->vocab.n;
    }
    return t->n_codes <= MU_TABLE_CODES ? MU_OK
                                        : MU_FAIL(err, MU_EDATA, "embedded columns have more than %d words",
                                                  MU_TABLE_CODES);
}

static mu_status finish_embedded(mu_table *t, mu_table_column *c, mu_err *err) {
    const size_t seen = c->vocab.seen.n;
    MU_TRY(mu_vocab_number(&c->vocab, 0, 2, err));
    if (c->vocab.n <= MU_WORD_FIRST)
        return mu_err_hinted(MU_FAIL(err, MU_EDATA,
                                     "no word of column `%s` of `%s` occurs twice, so none has anything to "
                                     "teach",
                                     c->name, t->file),
                             err, "Leave the column out: `ignore: [%s]`.", c->name);
    c->rare = seen > (size_t)c->vocab.n - MU_WORD_FIRST;
    return MU_OK;
}

static mu_status room_for_text(mu_table *t, mu_err *err) {
    if (!t->n_sentences) return MU_OK;
    t->text_copy = mu_arena_alloc(t->arena, 2 * (size_t)MU_CSV_MAX_COLUMN_BYTES + 1);
    return t->text_copy ? MU_OK : MU_FAIL_NOMEM(err, "a text");
}

mu_status mu_table_learn_words(mu_table *t, const mu_infile *in, char separator, const mu_table_options *o,
                               mu_err *err) {
    if (!t->n_embedded && !t->n_sentences) return MU_OK;
    pass p = {.t = t, .header = t->header};
    MU_TRY(room_for_text(t, err));
    MU_TRY(mu_csv_parse(in, separator, learn_row, &p, err));
    for (size_t i = 0; i < t->n_known; i++)
        if (t->column[i].kind == MU_TABLE_EMBEDDED) MU_TRY(finish_embedded(t, &t->column[i], err));
    MU_TRY(place_codes(t, err));
    if (!t->n_sentences) return MU_OK;
    if (!p.longest) return MU_FAIL(err, MU_EDATA, "the text columns of `%s` hold no words", t->file);
    t->text_length = o->text_length ? o->text_length : p.longest;
    if (t->text_length > MU_TABLE_TEXT_LENGTH) t->text_length = MU_TABLE_TEXT_LENGTH;
    return mu_vocab_number(&t->text, o->text_words, 1, err);
}

// ---- cells ----

int64_t mu_table_code(const mu_table *t, const mu_table_column *c, const char *cell) {
    char word[MU_TABLE_WORD_SIZE];
    int64_t number = MU_WORD_PAD;
    if (!mu_table_missing(t, cell)) {
        mu_table_word(cell, word);
        number = mu_vocab_find(&c->vocab, word, strlen(word));
    }
    if (number == MU_WORD_PAD && !c->n_gaps) number = MU_WORD_UNKNOWN;
    if (number == MU_WORD_UNKNOWN && !c->rare) number = c->n_gaps ? MU_WORD_PAD : MU_WORD_FIRST;
    return c->first_code + number;
}

void mu_table_sentence(mu_table *t, const char *cell, int32_t *out, int64_t *n) {
    if (mu_table_missing(t, cell)) return;
    mu_tokens tokens = tokens_of(t, cell);
    const char *word;
    size_t size;
    while (*n < t->text_length && mu_tokens_next(&tokens, &word, &size))
        out[(*n)++] = mu_vocab_find(&t->text, word, size);
}

// ---- to and from a model ----

mu_status mu_table_tell_words(const mu_table *t, json_t *out, mu_err *err) {
    if (!t->n_sentences) return MU_OK;
    int wrong = json_object_set_new(
        out, "text", mu_learnt_put_texts(t->text.text + MU_WORD_FIRST, (size_t)t->text.n - MU_WORD_FIRST));
    wrong |= json_object_set_new(out, "text_length", json_integer(t->text_length));
    return wrong ? MU_FAIL_NOMEM(err, "the words of the table") : MU_OK;
}

mu_status mu_table_take_vocab(mu_table *t, mu_table_column *c, const json_t *column, mu_err *err) {
    const char *const *word;
    size_t n;
    MU_TRY(mu_learnt_get_texts(json_object_get(column, "words"), t->arena, &word, &n, err));
    if (!n || n > MU_TABLE_EMBEDDED_WORDS)
        return mu_learnt_damaged("a column has no words, or too many", err);
    c->rare = json_is_true(json_object_get(column, "rare"));
    t->n_embedded++;
    return mu_vocab_take(&c->vocab, word, n, err);
}

mu_status mu_table_take_words(mu_table *t, const json_t *learnt, mu_err *err) {
    MU_TRY(place_codes(t, err));
    if (!t->n_sentences) return MU_OK;
    const char *const *word;
    size_t n;
    MU_TRY(room_for_text(t, err));
    MU_TRY(mu_learnt_get_texts(json_object_get(learnt, "text"), t->arena, &word, &n, err));
    t->text_length = json_integer_value(json_object_get(learnt, "text_length"));
    if (t->text_length < 1 || t->text_length > MU_TABLE_TEXT_LENGTH)
        return mu_learnt_damaged("its texts have no length", err);
    return mu_vocab_take(&t->text, word, n, err);
}
