// SPDX-License-Identifier: Apache-2.0
// wordvec.c - see wordvec.h.
//
// Files of vectors are far larger than a vocabulary (millions of lines), so the words of the vocabulary are
// sorted once and each line is looked up by halving; only numbers of wanted words are converted.
//
// Some files hold words with blanks (". . ."): the numbers are therefore counted from the end of a line. So
// that a wrong `dim` is not taken for such words, the first vector has exactly one column more than numbers.
#include "layer/wordvec.h"

#include "file/infile.h"
#include "file/lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct wanted {
    const char *text;
    int64_t row;
} wanted;

typedef struct line { // of the file, without its end
    const char *text;
    size_t size;
    int64_t number; // from 1
} line;

static int by_text(const void *a, const void *b) {
    const wanted *x = a, *y = b;
    const int c = strcmp(x->text, y->text);
    return c ? c : (x->row > y->row) - (x->row < y->row);
}

static mu_status sort_words(int64_t n, const char *const *word, wanted **out, mu_err *err) {
    *out = mu_alloc_array((size_t)(n ? n : 1), sizeof **out, "word vectors");
    if (!*out) return MU_FAIL_NOMEM(err, "the list of words");
    for (int64_t i = 0; i < n; i++) (*out)[i] = (wanted){word[i], i};
    qsort(*out, (size_t)n, sizeof **out, by_text);
    return MU_OK;
}

// The row of a word that is not ended by 0; -1 = not wanted.
static int64_t find(const wanted *list, int64_t n, const char *text, size_t size) {
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        const int64_t mid = lo + (hi - lo) / 2;
        int c = strncmp(list[mid].text, text, size);
        if (!c && list[mid].text[size]) c = 1;
        if (c < 0) lo = mid + 1;
        else hi = mid;
    }
    if (lo == n || strncmp(list[lo].text, text, size) || list[lo].text[size]) return -1;
    return list[lo].row;
}

static bool next_line(const mu_infile *f, size_t *at, line *l) {
    if (*at >= f->size) return false;
    const char *begin = (const char *)f->mem + *at, *end = memchr(begin, '\n', (size_t)f->size - *at);
    l->text = begin;
    l->size = end ? (size_t)(end - begin) : (size_t)f->size - *at;
    *at += l->size + 1;
    if (l->size && begin[l->size - 1] == '\r') l->size--;
    while (l->size && (begin[l->size - 1] == ' ' || begin[l->size - 1] == '\t')) l->size--;
    l->number++;
    return true;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static int64_t count_columns(const line *l) {
    int64_t n = 0;
    for (size_t i = 0; i < l->size; i++) n += !is_blank(l->text[i]) && (i == 0 || is_blank(l->text[i - 1]));
    return n;
}

// Bytes before the last dim columns: the word, which may hold blanks, and the blanks that follow it. The line
// has more columns than that.
static size_t word_end(const line *l, int64_t dim) {
    size_t at = l->size;
    for (int64_t i = 0; i < dim; i++) {
        while (is_blank(l->text[at - 1])) at--;
        while (!is_blank(l->text[at - 1])) at--;
    }
    return at;
}

// Numbers of a line, from behind its word on. out NULL: just their form.
static mu_status read_numbers(const char *path, const line *l, size_t at, int64_t dim, float *out,
                              mu_err *err) {
    for (int64_t i = 0; i < dim; i++) {
        char text[64], *end = text;
        while (at < l->size && is_blank(l->text[at])) at++;
        const size_t begin = at;
        while (at < l->size && !is_blank(l->text[at])) at++;
        const size_t n = at - begin, shown = n < sizeof text ? n : sizeof text - 1;
        memcpy(text, l->text + begin, shown);
        text[shown] = 0;
        const float v = strtof(text, &end);
        if (!n || n != shown || *end || !isfinite(v))
            return MU_FAIL(err, MU_EDATA, "%s:%" PRId64 ": number %" PRId64 " of the word's vector is `%s%s`",
                           path, l->number, i + 1, text, n != shown ? "..." : "");
        if (out) out[i] = v;
    }
    return MU_OK;
}

static mu_status check_line(const char *path, const line *l, int64_t dim, bool first, mu_err *err) {
    if (memchr(l->text, 0, l->size))
        return MU_FAIL(err, MU_EDATA, "%s:%" PRId64 ": %s", path, l->number,
                       mu_line_fault_text(MU_LINE_NUL));
    const int64_t columns = count_columns(l);
    if (columns == dim + 1 || (columns > dim + 1 && !first)) return MU_OK;
    mu_status st = MU_FAIL(err, MU_EDATA, "%s:%" PRId64 ": a word with %" PRId64 " numbers, not %" PRId64,
                           path, l->number, columns - 1, dim);
    mu_err_hint(err, "`dim` of the layer is the length of the vectors in the file.");
    return st;
}

static mu_status read_line(const char *path, const line *l, int64_t dim, const wanted *list, int64_t n,
                           bool *seen, float *out, int64_t *n_found, mu_err *err) {
    const size_t numbers = word_end(l, dim);
    size_t word = numbers;
    while (word && is_blank(l->text[word - 1])) word--;
    const int64_t row = find(list, n, l->text, word);
    if (out && (row < 0 || seen[row])) return MU_OK;
    if (out) seen[row] = true;
    ++*n_found;
    return read_numbers(path, l, numbers, dim, out ? out + row * dim : NULL, err);
}

static mu_status read_all(const mu_infile *f, int64_t n, const wanted *list, int64_t dim, bool *seen,
                          float *out, int64_t *n_found, mu_err *err) {
    line l = {0};
    size_t at = 0;
    bool first = true;
    while (next_line(f, &at, &l)) {
        if (!l.size || (l.number == 1 && count_columns(&l) == 2 && dim != 1)) continue; // `count dim`
        MU_TRY(check_line(f->path, &l, dim, first, err));
        first = false;
        MU_TRY(read_line(f->path, &l, dim, list, n, seen, out, n_found, err));
        if (!out) return MU_OK;
    }
    if (out) return MU_OK;
    return MU_FAIL(err, MU_EDATA, "%s: holds no word vectors", f->path);
}

mu_status mu_wordvec_load(const char *path, int64_t n, const char *const *word, int64_t dim, float *out,
                          int64_t *n_found, mu_err *err) {
    mu_infile f = {0};
    wanted *list = NULL;
    bool *seen = NULL;
    mu_status st = mu_infile_open(&f, path, err);
    *n_found = 0;
    if (st == MU_OK) st = mu_infile_load(&f, err);
    if (st == MU_OK) st = sort_words(n, word, &list, err);
    if (st == MU_OK && !(seen = mu_alloc_array((size_t)(n ? n : 1), sizeof *seen, "word vectors")))
        st = MU_FAIL_NOMEM(err, "the list of words");
    if (st == MU_OK) st = read_all(&f, n, list, dim, seen, out, n_found, err);
    mu_infile_close(&f);
    mu_free(list);
    mu_free(seen);
    return st;
}
