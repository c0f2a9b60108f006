// SPDX-License-Identifier: Apache-2.0
// table.h - what is learnt of the columns of a table, and how it becomes numbers.
//
//   number     all values are finite numbers: (x - mean) / deviation. A gap is 0, and 1 in a place of its own
//              where the training data has gaps. With `pieces`, behind its first place: the range of the
//              training data cut into as many pieces of equally many rows; below a piece its place is -1/2,
//              above it 1/2, inside it grows evenly, a gap is 0. So a net bends where the rows are
//   category   few different words: one place a word, in byte order (numbers by value). Where the training
//              data has gaps, one more for gaps and unknown words
//   text       anything else, also names and numbers of rows: left out
//   empty      no value at all: left out
//   embedded   asked for: the number of its word. Each column has a vocabulary (read/vocab.h), and its
//              numbers stand behind those of the column before, so one layer `embedding` serves them all
//   sentences  asked for: all such columns of a row as one text, in word numbers
//
// Few: at most MU_TABLE_CATEGORIES and at most half of the rows. A deviation is that of all values (over n,
// not n - 1). Words that are no UTF-8 count as Latin-1, and `3.0` is the word `3`.
//
// A word that the training data does not have: in a category with gaps it counts as a gap, otherwise as the
// mean of the training rows, which is each word's share of them (all zeros would be no row's place).
// Embedded, it is what the words seen once were, as these all train the number of unknown words.
#ifndef MU_DATA_TABLE_H
#define MU_DATA_TABLE_H

#include "file/csv_rows.h"
#include "read/labels.h"
#include "read/reader.h"
#include "read/vocab.h"

enum {
    MU_TABLE_COLUMNS = 1 << 14,         // of a file
    MU_TABLE_CATEGORIES = 100,          // of a column that is found to be one of categories
    MU_TABLE_WORDS = 10000,             // of a column that is said to be one, and classes of the label
    MU_TABLE_EMBEDDED_WORDS = 1 << 20,  // of an embedded column
    MU_TABLE_CODES = 1 << 24,           // of all embedded columns: what a float holds
    MU_TABLE_TEXT_LENGTH = 65536,       // words of a text
    MU_TABLE_PIECES = 64,               // of a column of numbers
    MU_TABLE_CLASSES = 20,              // different whole numbers of a label that are classes
    MU_TABLE_PLACES = 1 << 20,          // numbers of a record
    MU_TABLE_WORD_BYTES = 256,          // longer words make a column text; names are cut there
    MU_TABLE_WORD_SIZE = 2 * MU_TABLE_WORD_BYTES + 1,
};

typedef enum mu_table_kind {
    MU_TABLE_NUMBER, MU_TABLE_CATEGORY, MU_TABLE_TEXT, MU_TABLE_EMPTY, MU_TABLE_IGNORED, MU_TABLE_LABEL,
    MU_TABLE_EMBEDDED, MU_TABLE_SENTENCES
} mu_table_kind;
extern const char *const mu_table_kind_names[];

typedef enum mu_table_target {
    MU_TABLE_TARGET_AUTO, MU_TABLE_TARGET_CLASS, MU_TABLE_TARGET_NUMBER
} mu_table_target;

typedef struct mu_table_column {
    const char   *name;         // of the header, else `column N`
    int64_t       place;        // in the training file, from 0
    mu_table_kind kind;
    int64_t       n_values, n_gaps;     // rows with and without a value
    int64_t       n_numbers, n_whole;   // values that are numbers, whole ones
    double        sum_mean, sum_squares, least, most;   // of the numbers; Welford's
    float         mean, deviation;      // of the numbers; 0 = all are the same
    float        *cut;                  // [n_cuts] of its pieces, standardised, ascending; NULL = none
    size_t        n_cuts;               // 0, or pieces + 1
    mu_labels     words;                // different ones; stops one beyond MU_TABLE_WORDS
    int64_t      *count;                // [words.n]
    size_t        cap_count;
    bool          long_words;           // some are longer than MU_TABLE_WORD_BYTES
    const char   *odd;                  // the first value that is no number
    int64_t       odd_line;
    const char *const *word;            // [n_words] in order, set when learnt
    size_t        n_words;
    int32_t      *rank;                 // [words.n] place of a word in that order
    float        *share;                // [n_words] of the rows with a value; NULL = not known (old models)
    mu_vocab      vocab;                // of an embedded column
    int64_t       first_code;           // its numbers begin there
    bool          rare;                 // some words were seen once, so the unknown one is learnt
} mu_table_column;

typedef struct mu_table {
    mu_arena        *arena;
    const char      *file;              // for messages
    mu_strings       missing;           // words that mean a gap; the empty one always does
    bool             header;            // the training file names its columns
    size_t           n_columns;         // of the training file
    mu_table_column *column;            // [n_known] all of the file; of a model those used, and the label
    size_t           n_known;
    int64_t          label;             // index in column; -1 = none
    mu_table_target  target;            // what the label is: class or number
    int64_t          n_rows;            // that were learnt from
    size_t           n_embedded, n_sentences;   // columns
    int64_t          n_codes;           // numbers of all embedded columns
    mu_vocab         text;              // of the columns that are sentences
    int64_t          text_length;       // words of a row that are kept
    char            *text_copy;         // room for one cell as it is taken apart; NULL = no such columns
    const char     **first;             // [n_columns] the first row, until it is known to be the header
    int64_t          first_line;
} mu_table;

typedef struct mu_table_options {
    const char     *label;              // name, number, last, none
    int             header;             // 0 auto, 1 yes, 2 no
    mu_table_target target;
    mu_strings      ignore, categorical, embed, text;
    int64_t         text_length, text_words;    // 0 = the longest text, all words
    int64_t         pieces;     // of a column of numbers; 0 = none
    bool            only_look;  // a table without a column to train on is none the worse for it
} mu_table_options;

void mu_table_init(mu_table *t, mu_arena *arena, const char *file);
void mu_table_fini(mu_table *t);        // frees the lookup of words; what is in the arena stays

// The separator of the loaded text: the one of , ; tab | that splits its first lines most often, and evenly.
char mu_table_separator(const mu_infile *in);

// Learns everything from the loaded file.
MU_MUST_CHECK mu_status mu_table_learn(mu_table *t, const mu_infile *in, char separator,
                                       const mu_table_options *o, mu_err *err);

// What a model keeps, and back. MU_EMODEL where it is damaged.
MU_MUST_CHECK mu_status mu_table_tell(const mu_table *t, json_t *out, mu_err *err);
MU_MUST_CHECK mu_status mu_table_take(mu_table *t, const json_t *learnt, mu_err *err);

bool mu_table_used(const mu_table_column *c);           // is it part of the features?
bool mu_table_kept(const mu_table_column *c);           // does a model need it, as input or label?
int64_t mu_table_width(const mu_table_column *c);       // places in the features
bool mu_table_missing(const mu_table *t, const char *text);
bool mu_table_number(const char *text, double *out);    // a finite number
void mu_table_word(const char *text, char out[MU_TABLE_WORD_SIZE]);     // the text as a word: UTF-8, cut
int32_t mu_table_find(const mu_table_column *c, const char *word);      // place of a word, -1 = unknown
// The text as UTF-8, at most n bytes of it, with its '\0': 2 n + 1 bytes of room. Returns its bytes.
size_t mu_table_utf8(const char *text, size_t n, char *out);

// The column of a learnt table that a person most likely wants predicted: the last one with a usual name
// (label, class, target, species, ...), else the last that is a number or a category; -1 = there is none.
int64_t mu_table_guess_label(const mu_table *t);
// The same of a file, as the key `label` has it: a name, or a number from 0; in the arena.
MU_MUST_CHECK mu_status mu_table_guess_file(const char *path, mu_arena *arena, const char **label,
                                            mu_err *err);
// What an open reader of class `table` knows; NULL of any other.
const mu_table *mu_table_of(const mu_reader *r);

// ---- numbers in pieces (table_pieces.c) ----

// A pass of its own over the file, where pieces are asked for: their cuts.
MU_MUST_CHECK mu_status mu_table_learn_pieces(mu_table *t, const mu_infile *in, char separator,
                                              int64_t pieces, mu_err *err);
json_t *mu_table_put_cuts(const mu_table_column *c);    // NULL when out of memory
MU_MUST_CHECK mu_status mu_table_take_cuts(mu_table *t, mu_table_column *c, const json_t *list, mu_err *err);
void mu_table_spread_pieces(const mu_table_column *c, float value, float *to);  // n_cuts - 1 places

// ---- embedded columns and sentences (table_words.c) ----

// The second pass of learning, where such columns are asked for: their words.
MU_MUST_CHECK mu_status mu_table_learn_words(mu_table *t, const mu_infile *in, char separator,
                                             const mu_table_options *o, mu_err *err);
// Members of a column's and of the table's description, and back.
MU_MUST_CHECK mu_status mu_table_tell_words(const mu_table *t, json_t *out, mu_err *err);
MU_MUST_CHECK mu_status mu_table_take_words(mu_table *t, const json_t *learnt, mu_err *err);
MU_MUST_CHECK mu_status mu_table_take_vocab(mu_table *t, mu_table_column *c, const json_t *column,
                                            mu_err *err);
// Number of a cell of an embedded column, below n_codes.
int64_t mu_table_code(const mu_table *t, const mu_table_column *c, const char *cell);
// Appends the word numbers of a cell to out[*n], at most up to text_length.
void mu_table_sentence(mu_table *t, const char *cell, int32_t *out, int64_t *n);

#endif
