// SPDX-License-Identifier: Apache-2.0
// pieces.c - gradients added up, rows collected, factors multiplied out, a cache-sized piece at a time.
//
// One value an element, whatever the cut: every element is made by the same operations in the same
// order (gradients as given, samples of a gradient as given), only the walk over the elements differs.
// So vectors and their rests, tiles and edges must round alike; all of them are fused multiply-adds.
//
// Rows. A rule that is not linear in g must see the sum of a repeated row, not its parts one by one.
// Collecting without memory of our own: the entries of an id range are sorted by (id, position) in a
// fixed buffer; if a range has more entries than fit it is halved. Real batches fit at once; a range
// of a single id never needs sorting, so the halving always ends.
//
// Few samples. What each gives to a row, a number times a row of x, is left for the rule to add up.
//
// Blocks. Everything else is made in blocks of TILE_ROWS rows by BLOCK_COLS columns. A block of whole rows
// is contiguous in the parameter as well, so that the update behind it streams long runs. Factors,
// dW = dy' x, are done in register tiles over the samples of all gradients together: their dy of a block's
// rows are packed side by side first, weights included. The last tiles are masked, not another code path.
// (A library's matrix product is little faster, bench_update prints both, and its edges round differently.)
// Gathered gradients have nothing in common from row to row: each row is the sum of its own rows of x.
#include "updater/pieces.h"

#include "ops/tile.h"
#include "ops/vec.h"

#include <assert.h>

enum {
    ROWS_AT_ONCE = 2048, // entries sorted in one go: 2 x 24 KiB of stack
    ROW_PIECE = 1024,    // columns of a row added up in one go
    BLOCK_COLS = 1024,
    TILE_ROWS = MU_LANES == 16 ? 8 : 4, // accumulators, x and one broadcast fit the registers
    TILE_VECS = MU_LANES == 16 ? 2 : 3,
    TILE_COLS = TILE_VECS * MU_LANES,
    CHUNK = 256, // samples multiplied out in one go: 8 KiB of packed dy
    RUNS = 64,   // of so many gradients
    GATHERED = 64, // rows of x, added up in one go
    TERM_VECS = 4,
};

typedef struct box { // the part of the parameter, as a matrix, that is asked for
    size_t rows, cols;
    size_t r0, r1, c0, c1;
} box;

static float weight_of(const mu_grad_sum *s, int j) { return s->weight ? s->weight[j] : 1.0f; }

static void visit_plain(size_t offset, size_t n, const float *grad, mu_piece_visit visit, void *ctx) {
    visit(ctx, &(mu_piece){.offset = offset, .n = n, .grad = grad, .scale = 1});
}

static void set_scaled(float *restrict sum, float w, const float *restrict v, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] = w * v[i];
}
static void add_scaled(float *restrict sum, float w, const float *restrict v, size_t n) {
    for (size_t i = 0; i < n; i++) sum[i] += w * v[i];
}

// ---- rows ------------------------------------------------------------------------------------

typedef struct row_entry { // row id, its gradient and its position in there
    int32_t id, j, k;
} row_entry;

// Entries with lo <= id < hi in the order given; the count may exceed what was stored.
static int64_t find_entries(const mu_grad_sum *s, int64_t lo, int64_t hi, row_entry *out) {
    int64_t n = 0;
    for (int j = 0; j < s->n; j++) {
        const mu_grad *g = s->grad[j];
        if (g->form != MU_GRAD_ROWS) continue;
        assert(g->n_rows <= INT32_MAX);
        const volatile int32_t *row = g->row; // in shared memory: checked and used by one reading
        for (int64_t k = 0; k < g->n_rows; k++) {
            const int32_t id = row[k];
            if (id < lo || id >= hi) continue;
            if (n < ROWS_AT_ONCE) out[n] = (row_entry){id, j, (int32_t)k};
            n++;
        }
    }
    return n;
}

// Stable radix sort by (id - lo), one byte a pass; returns the buffer that holds the result.
static row_entry *sort(row_entry *a, row_entry *b, int64_t n, int64_t lo, int64_t hi) {
    for (int shift = 0; (hi - 1 - lo) >> shift > 0; shift += 8) {
        int32_t start[257] = {0};
        for (int64_t i = 0; i < n; i++) start[(((a[i].id - lo) >> shift) & 255) + 1]++;
        for (int d = 0; d < 256; d++) start[d + 1] += start[d];
        for (int64_t i = 0; i < n; i++) b[start[((a[i].id - lo) >> shift) & 255]++] = a[i];
        row_entry *t = a;
        a = b, b = t;
    }
    return a;
}

static const float *entry_value(const mu_grad_sum *s, size_t cols, const row_entry *e) {
    return s->grad[e->j]->row_value + (size_t)e->k * cols;
}

// One row from the entries that name it.
static void visit_row(const mu_grad_sum *s, const box *x, const row_entry *e, int64_t n, mu_piece_visit visit,
                      void *ctx) {
    const size_t row = (size_t)e->id * x->cols;
    if (n == 1 && weight_of(s, e->j) == 1.0f) {
        visit_plain(row + x->c0, x->c1 - x->c0, entry_value(s, x->cols, e) + x->c0, visit, ctx);
        return;
    }
    float sum[ROW_PIECE];
    for (size_t c = x->c0; c < x->c1; c += ROW_PIECE) {
        size_t m = x->c1 - c < ROW_PIECE ? x->c1 - c : ROW_PIECE;
        set_scaled(sum, weight_of(s, e->j), entry_value(s, x->cols, e) + c, m);
        for (int64_t i = 1; i < n; i++)
            add_scaled(sum, weight_of(s, e[i].j), entry_value(s, x->cols, e + i) + c, m);
        visit_plain(row + c, m, sum, visit, ctx);
    }
}

// Adds what row-form gradient j has for columns [c, c + n) of a row.
static void add_row(const mu_grad_sum *s, int j, size_t cols, size_t row, size_t c, size_t n, float *sum) {
    const mu_grad *g = s->grad[j];
    for (int64_t k = 0; k < g->n_rows; k++)
        if (g->row[k] == (int64_t)row)
            add_scaled(sum, weight_of(s, j), g->row_value + (size_t)k * cols + c, n);
}

// A row named by more entries than the buffer holds.
static void visit_hot_row(const mu_grad_sum *s, const box *x, size_t row, mu_piece_visit visit, void *ctx) {
    float sum[ROW_PIECE];
    for (size_t c = x->c0; c < x->c1; c += ROW_PIECE) {
        size_t m = x->c1 - c < ROW_PIECE ? x->c1 - c : ROW_PIECE;
        memset(sum, 0, m * sizeof(float));
        for (int j = 0; j < s->n; j++)
            if (s->grad[j]->form == MU_GRAD_ROWS) add_row(s, j, x->cols, row, c, m, sum);
        visit_plain(row * x->cols + c, m, sum, visit, ctx);
    }
}

static void visit_rows(const mu_grad_sum *s, const box *x, mu_piece_visit visit, void *ctx) {
    row_entry a[ROWS_AT_ONCE], b[ROWS_AT_ONCE];
    const int64_t end = (int64_t)x->r1;
    for (int64_t lo = (int64_t)x->r0, span = end - lo; lo < end;) {
        int64_t n = find_entries(s, lo, lo + span, a);
        if (n > ROWS_AT_ONCE) {
            if (span > 1) {
                span /= 2;
                continue;
            }
            visit_hot_row(s, x, (size_t)lo, visit, ctx);
            n = 0;
        }
        const row_entry *e = sort(a, b, n, lo, lo + span);
        for (int64_t i = 0, j; i < n; i = j) {
            for (j = i + 1; j < n && e[j].id == e[i].id; j++) {}
            visit_row(s, x, e + i, j - i, visit, ctx);
        }
        lo += span;
        span = end - lo < 2 * span ? end - lo : 2 * span;
    }
}

// ---- blocks ----------------------------------------------------------------------------------

typedef struct chunk { // factors of some samples, for the rows of one block
    int n_runs;
    int64_t n; // samples in all
    struct {
        const float *x; // (n, cols)
        int64_t n;
    } run[RUNS];
    MU_ALIGNED(64) float d[CHUNK][TILE_ROWS]; // weight * dy; rows beyond the block are 0
} chunk;

typedef struct grad_block { // rows [r, r + nr), columns [c, c + nc) of the parameter
    size_t r, nr, c, nc;
    bool filled; // out holds the sum of the gradients so far; else nothing
    float *out;  // (nr, nc)
} grad_block;

// Columns [at, at + n) of the block's product; vecs vectors hold them.
MU_INLINE void tile(const chunk *k, const grad_block *to, size_t cols, size_t at, int64_t n, const int vecs) {
    mu_vec acc[TILE_ROWS][TILE_VECS];
    MU_UNROLL for (int r = 0; r < TILE_ROWS; r++) MU_UNROLL for (int v = 0; v < vecs; v++) acc[r][v] =
        (mu_vec){0};
    const float *d = k->d[0];
    for (int i = 0; i < k->n_runs; i++) {
        const float *x = k->run[i].x + to->c + at;
        for (int64_t b = k->run[i].n; b > 0; b--, x += cols, d += TILE_ROWS) {
            mu_vec xv[TILE_VECS];
            MU_UNROLL for (int v = 0; v < vecs; v++) xv[v] = mu_vec_load(x + v * MU_LANES, n - v * MU_LANES);
            MU_UNROLL for (int r = 0; r < TILE_ROWS; r++) {
                const mu_vec dr = d[r] - (mu_vec){0}; // a broadcasting load, unlike d[r] + 0
                MU_UNROLL for (int v = 0; v < vecs; v++) acc[r][v] += dr * xv[v];
            }
        }
    }
    float *out = to->out + at;
    MU_UNROLL for (int r = 0; r < TILE_ROWS; r++, out += to->nc) {
        if ((size_t)r >= to->nr) break;
        MU_UNROLL for (int v = 0; v < vecs; v++) {
            const int64_t left = n - v * MU_LANES;
            if (to->filled) acc[r][v] += mu_vec_load(out + v * MU_LANES, left);
            mu_vec_store(out + v * MU_LANES, acc[r][v], left);
        }
    }
}

static void tile_full(const chunk *k, const grad_block *to, size_t cols, size_t at) {
    tile(k, to, cols, at, TILE_COLS, TILE_VECS);
}
static void tile_rest(const chunk *k, const grad_block *to, size_t cols, size_t at, int64_t n) {
    if (n > 2 * MU_LANES) tile(k, to, cols, at, n, TILE_VECS);
    else if (n > MU_LANES) tile(k, to, cols, at, n, 2);
    else tile(k, to, cols, at, n, 1);
}

// Multiplies the collected factors out into the block.
static void flush(chunk *k, grad_block *to, size_t cols) {
    if (!k->n) return;
    size_t at = 0;
    for (; at + TILE_COLS <= to->nc; at += TILE_COLS) tile_full(k, to, cols, at);
    if (at < to->nc) tile_rest(k, to, cols, at, (int64_t)(to->nc - at));
    to->filled = true;
    k->n = k->n_runs = 0;
}

static void add_factors(const mu_grad *g, float weight, const box *x, chunk *k, grad_block *to) {
    for (int64_t b = 0; b < g->batch;) {
        if (k->n == CHUNK || k->n_runs == RUNS) flush(k, to, x->cols);
        const int64_t n = g->batch - b < CHUNK - k->n ? g->batch - b : CHUNK - k->n;
        k->run[k->n_runs].x = g->x + (size_t)b * x->cols;
        k->run[k->n_runs++].n = n;
        for (int64_t i = 0; i < n; i++, b++) {
            const float *dy = g->dy + (size_t)b * x->rows + to->r;
            float *d = k->d[k->n++];
            for (size_t r = 0; r < TILE_ROWS; r++) d[r] = r < to->nr ? weight * dy[r] : 0.0f;
        }
    }
}

static void add_dense(const float *g, float weight, size_t cols, grad_block *to) {
    for (size_t i = 0; i < to->nr; i++) {
        const float *v = g + (to->r + i) * cols + to->c;
        if (to->filled) add_scaled(to->out + i * to->nc, weight, v, to->nc);
        else set_scaled(to->out + i * to->nc, weight, v, to->nc);
    }
    to->filled = true;
}

MU_INLINE void add_terms_part(const mu_term *p, int terms, float *out, int64_t c, int64_t n, const int vecs,
                              bool add) {
    mu_vec acc[TERM_VECS];
    MU_UNROLL for (int v = 0; v < vecs; v++) acc[v] =
        add ? mu_vec_load(out + c + v * MU_LANES, n - v * MU_LANES) : (mu_vec){0};
    for (int i = 0; i < terms; i++)
        MU_UNROLL for (int v = 0; v < vecs; v++) acc[v] =
            mu_vec_fma(mu_vec_set(p[i].d), mu_vec_load(p[i].x + c + v * MU_LANES, n - v * MU_LANES), acc[v]);
    MU_UNROLL for (int v = 0; v < vecs; v++) mu_vec_store(out + c + v * MU_LANES, acc[v], n - v * MU_LANES);
}

static void add_terms(const mu_term *p, int terms, float *out, int64_t n, bool add) {
    enum { STEP = TERM_VECS * MU_LANES };
    int64_t c = 0;
    for (; c + STEP <= n; c += STEP) add_terms_part(p, terms, out, c, STEP, TERM_VECS, add);
    for (; c < n; c += MU_LANES) add_terms_part(p, terms, out, c, n - c, 1, add);
}

// The row of x that a row gets in a sample; NULL = none. Its number is checked and used, and may lie in
// memory that another process writes: it is read once.
static const float *gathered_row(const mu_grad *g, int64_t sample, const box *x, size_t row) {
    const int64_t from = ((const volatile int32_t *)g->src_row)[(size_t)sample * x->rows + row];
    return from >= 0 && from < g->n_x ? g->x + (size_t)from * x->cols : NULL;
}

// One row of the block from gradients [j, end), gathered or none.
static void add_gathered_row(const mu_grad_sum *s, const box *x, int j, int end, size_t row,
                             const grad_block *to, float *out) {
    mu_term p[GATHERED]; // their columns of the block
    int n = 0;
    bool add = to->filled;
    for (; j < end; j++) {
        const mu_grad *g = s->grad[j];
        for (int64_t b = 0; b < g->batch && g->form == MU_GRAD_GATHERED; b++) {
            const float *from = gathered_row(g, b, x, row);
            if (!from) continue;
            p[n++] = (mu_term){weight_of(s, j) * g->dy[(size_t)b * x->rows + row], from + to->c};
            if (n < GATHERED) continue;
            add_terms(p, n, out, (int64_t)to->nc, add);
            add = true;
            n = 0;
        }
    }
    if (n || !add) add_terms(p, n, out, (int64_t)to->nc, add);
}

// Returns the first gradient behind j that has another form.
static int add_gathered(const mu_grad_sum *s, const box *x, int j, grad_block *to) {
    int end = j;
    while (end < s->n &&
           (s->grad[end]->form == MU_GRAD_GATHERED || s->grad[end]->form == MU_GRAD_NONE)) end++;
    for (size_t i = 0; i < to->nr; i++) add_gathered_row(s, x, j, end, to->r + i, to, to->out + i * to->nc);
    to->filled = true;
    return end;
}

static void fill_block(const mu_grad_sum *s, const box *x, grad_block *to) {
    chunk k;
    k.n = k.n_runs = 0;
    for (int j = 0; j < s->n; j++) {
        const mu_grad *g = s->grad[j];
        if (g->form == MU_GRAD_FACTORS) add_factors(g, weight_of(s, j), x, &k, to);
        if (g->form == MU_GRAD_NONE || g->form == MU_GRAD_FACTORS) continue;
        flush(&k, to, x->cols);
        if (g->form == MU_GRAD_GATHERED) {
            j = add_gathered(s, x, j, to) - 1;
            continue;
        }
        if (g->form == MU_GRAD_DENSE) {
            add_dense(g->dense, weight_of(s, j), x->cols, to);
            continue;
        }
        if (!to->filled) memset(to->out, 0, to->nr * to->nc * sizeof(float));
        to->filled = true;
        for (size_t i = 0; i < to->nr; i++)
            add_row(s, j, x->cols, to->r + i, to->c, to->nc, to->out + i * to->nc);
    }
    flush(&k, to, x->cols);
    if (!to->filled) memset(to->out, 0, to->nr * to->nc * sizeof(float));
}

static void visit_blocks(const mu_grad_sum *s, const box *x, mu_piece_visit visit, void *ctx) {
    MU_ALIGNED(64) float out[TILE_ROWS * BLOCK_COLS];
    for (size_t r = x->r0; r < x->r1; r += TILE_ROWS) {
        const size_t nr = x->r1 - r < TILE_ROWS ? x->r1 - r : TILE_ROWS;
        for (size_t c = x->c0; c < x->c1; c += BLOCK_COLS) {
            const size_t nc = x->c1 - c < BLOCK_COLS ? x->c1 - c : BLOCK_COLS;
            grad_block to = {r, nr, c, nc, false, out};
            fill_block(s, x, &to);
            if (nc == x->cols) visit_plain(r * x->cols, nr * nc, out, visit, ctx);
            else
                for (size_t i = 0; i < nr; i++)
                    visit_plain((r + i) * x->cols + c, nc, out + i * nc, visit, ctx);
        }
    }
}

// ---- few samples -----------------------------------------------------------------------------

static void visit_zeros(size_t offset, size_t n, mu_piece_visit visit, void *ctx) {
    static const float zero[ROW_PIECE];
    for (size_t i = 0; i < n; i += ROW_PIECE)
        visit_plain(offset + i, n - i < ROW_PIECE ? n - i : ROW_PIECE, zero, visit, ctx);
}

typedef struct grad_sample {
    const mu_grad *g;
    int64_t b; // its number in there
    float weight;
} grad_sample;

// The samples of all gradients; 0 = none, too many, or gradients of another form among them.
static int find_samples(const mu_grad_sum *s, grad_sample *out) {
    int n = 0;
    for (int j = 0; j < s->n; j++) {
        const mu_grad *g = s->grad[j];
        if (g->form == MU_GRAD_NONE) continue;
        if ((g->form != MU_GRAD_FACTORS && g->form != MU_GRAD_GATHERED) || g->batch > MU_TERMS - n) return 0;
        for (int64_t b = 0; b < g->batch; b++) out[n++] = (grad_sample){g, b, weight_of(s, j)};
    }
    return n;
}

// What the samples give to a row; returns how many do.
static int row_terms(const grad_sample *s, int n_samples, const box *x, size_t row, mu_term *out) {
    int n = 0;
    for (int i = 0; i < n_samples; i++) {
        const mu_grad *g = s[i].g;
        const float *from =
            g->form == MU_GRAD_GATHERED ? gathered_row(g, s[i].b, x, row) : g->x + (size_t)s[i].b * x->cols;
        if (from)
            out[n++] = (mu_term){s[i].weight * g->dy[(size_t)s[i].b * x->rows + row], from + x->c0};
    }
    return n;
}

// n of them, of a row from `offset` on; one is the gradient itself, at its scale.
static mu_piece piece_of(const mu_term *term, int n, size_t offset, size_t floats) {
    mu_piece p = {offset, floats, .scale = 1, .n_terms = n, .term = term};
    if (n == 1) p.grad = term->x, p.scale = term->d, p.n_terms = 0, p.term = NULL;
    return p;
}

static void visit_terms(const grad_sample *s, int n_samples, const box *x, mu_piece_visit visit, void *ctx) {
    mu_term term[MU_TERMS];
    for (size_t r = x->r0; r < x->r1; r++) {
        const int n = row_terms(s, n_samples, x, r, term);
        const mu_piece p = piece_of(term, n, r * x->cols + x->c0, x->c1 - x->c0);
        if (n) visit(ctx, &p);
        else visit_zeros(p.offset, p.n, visit, ctx);
    }
}

// ---- all forms -------------------------------------------------------------------------------

static bool has_form(const mu_grad_sum *s, mu_grad_form form) {
    for (int j = 0; j < s->n; j++)
        if (s->grad[j]->form == form) return true;
    return false;
}

// The range as a part of a matrix of `rows` rows.
static box box_make(size_t count, size_t rows, size_t begin, size_t end) {
    box x = {.rows = rows, .cols = count / rows, .r0 = begin / (count / rows)};
    const size_t last = (end - 1) / x.cols; // row of the last float
    x.r1 = last + 1;
    if (x.r1 - x.r0 == 1) {
        x.c0 = begin - x.r0 * x.cols;
        x.c1 = end - x.r0 * x.cols;
    } else {
        assert(begin % x.cols == 0 && end % x.cols == 0);
        x.c1 = x.cols;
    }
    return x;
}

void mu_grad_sum_pieces(const mu_param *p, const mu_grad_sum *s, mu_piece_visit visit, void *ctx) {
    const size_t rows = (size_t)mu_param_rows(p);
    if (s->begin >= s->end || s->end > p->count) return;
    const bool dense = has_form(s, MU_GRAD_DENSE);
    const bool factors = has_form(s, MU_GRAD_FACTORS) || has_form(s, MU_GRAD_GATHERED);
    const bool named = has_form(s, MU_GRAD_ROWS);
    box x = box_make(p->count, rows, s->begin, s->end);
    grad_sample few[MU_TERMS];
    const int n_samples = s->outer ? find_samples(s, few) : 0;
    if (dense && s->n == 1 && !s->weight) {
        visit_plain(s->begin, s->end - s->begin, s->grad[0]->dense + s->begin, visit, ctx);
    } else if (n_samples) {
        visit_terms(few, n_samples, &x, visit, ctx);
    } else if (named && !dense && !factors) {
        visit_rows(s, &x, visit, ctx);
    } else if (dense || factors) {
        if (!named && !factors) x = box_make(p->count, 1, s->begin, s->end); // one long row
        visit_blocks(s, &x, visit, ctx);
    }
}

// How many samples each of the two sums has; 0 = not equally many, none, too many, or not all factors.
// (Factors give to every row, so both pieces of a row have as many terms as there are samples.)
static int find_pair(const mu_grad_sum *s, grad_sample (*few)[MU_TERMS]) {
    int n[2];
    for (int i = 0; i < 2; i++) {
        n[i] = s[i].outer && !has_form(&s[i], MU_GRAD_GATHERED) ? find_samples(&s[i], few[i]) : 0;
    }
    return n[0] == n[1] ? n[0] : 0;
}

bool mu_grad_sum_pairs(const mu_param *p, const mu_grad_sum *s, mu_piece_visit visit, void *ctx) {
    grad_sample few[2][MU_TERMS];
    const int n = s->begin < s->end && s->end <= p->count ? find_pair(s, few) : 0;
    if (!n) return false;
    const box x = box_make(p->count, (size_t)mu_param_rows(p), s->begin, s->end);
    for (size_t r = x.r0; r < x.r1; r++) {
        mu_term term[2][MU_TERMS];
        mu_piece pair[2];
        for (int i = 0; i < 2; i++) {
            (void)row_terms(few[i], n, &x, r, term[i]);
            pair[i] = piece_of(term[i], n, r * x.cols + x.c0, x.c1 - x.c0);
        }
        visit(ctx, pair);
    }
    return true;
}

void mu_grad_pieces(const mu_param *p, const mu_grad *g, mu_piece_visit visit, void *ctx) {
    mu_grad_sum_pieces(p, &(mu_grad_sum){1, &g, NULL, 0, p->count, false}, visit, ctx);
}
