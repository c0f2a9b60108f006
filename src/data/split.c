// SPDX-License-Identifier: Apache-2.0
// split.c - see split.h.
//
// To choose, records are put in order of class and, within a class, of a number drawn for each. Walking
// along, every 1/fraction-th is held back. So each class has its share within one record, and all together
// too.
#include "data/split.h"

#include "base/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the job ----

// Keys of training that the block does not have itself.
static mu_status copy_keys(mu_job *job, const mu_node *from, mu_node *to, mu_err *err) {
    for (size_t i = 0; i < from->n; i++) {
        if (mu_node_find(to, from->item[i]->key)) continue;
        MU_TRY(mu_node_append(&job->arena, to, from->item[i], err));
    }
    return MU_OK;
}

static bool has_key(const mu_field *f, const char *key) {
    while (f && f->key && strcmp(f->key, key)) f++;
    return f && f->key;
}

static double number_or(const mu_node *block, const char *key, double otherwise) {
    const char *text = mu_node_text(mu_node_find(block, key));
    char *end;
    const double v = text ? strtod(text, &end) : 0;
    return text && end != text && !*end ? v : otherwise;
}

// The end of the file, in order.
static mu_status cut_range(mu_job *job, mu_node *train, mu_node *held, double fraction, mu_err *err) {
    char text[32];
    const double from = number_or(train, "from", 0), to = number_or(train, "to", 1);
    snprintf(text, sizeof text, "%.6g", to - fraction * (to - from));
    MU_TRY(mu_node_put_text(&job->arena, train, "to", text, err));
    return mu_node_put_text(&job->arena, held, "from", text, err);
}

static mu_status cut_records(mu_job *job, mu_node *train, mu_node *held, const char *fraction,
                             const char *seed, mu_err *err) {
    mu_node *block[] = {train, held};
    for (int i = 0; i < 2; i++) {
        MU_TRY(mu_node_put_text(&job->arena, block[i], "part", i ? "held" : "rest", err));
        MU_TRY(mu_node_put_text(&job->arena, block[i], "fraction", fraction, err));
        MU_TRY(mu_node_put_text(&job->arena, block[i], "split_seed", seed, err));
    }
    return MU_OK;
}

static void drop(mu_node *block, const char *key) {
    size_t kept = 0;
    for (size_t i = 0; i < block->n; i++)
        if (strcmp(block->item[i]->key, key)) block->item[kept++] = block->item[i];
    block->n = kept;
}

// False: reported.
static bool read_fraction(mu_job *job, const mu_node *held, double *out) {
    const mu_node *n = mu_node_find(held, "fraction");
    *out = number_or(held, "fraction", -1);
    if (*out > 0 && *out < 1) return true;
    mu_diag *g = mu_diags_add(&job->diags, MU_DIAG_ERROR, n->pos,
                              "`fraction` of `data.validation` must lie between 0 and 1");
    mu_diag_hint(&job->diags, g, "0.1 holds back a tenth of the training records.");
    return false;
}

mu_status mu_split_write_out(mu_job *job, mu_err *err) {
    mu_node *train = mu_node_find(job->data, "train"), *held = mu_node_find(job->data, "validation");
    if (!held || held->kind != MU_MAP || mu_node_find(held, "reader") || !mu_node_find(held, "fraction"))
        return MU_OK;
    const char *reader = mu_node_text(mu_node_find(train, "reader"));
    const mu_plugin *class = reader ? mu_registry_find(&mu_readers, reader) : NULL;
    double fraction;
    if (!class || train->kind != MU_MAP || !read_fraction(job, held, &fraction))
        return MU_OK;                   // its own problem is reported elsewhere
    const char *text = mu_node_text(mu_node_find(held, "fraction"));
    const char *seed = mu_node_text(mu_node_find(held, "seed"));
    if (!has_key(class->fields, "seed")) drop(held, "seed");
    MU_TRY(copy_keys(job, train, held, err));
    if (!has_key(class->fields, "from") || !has_key(class->fields, "to"))
        return cut_records(job, train, held, text, seed ? seed : "1", err);
    drop(held, "fraction");
    return cut_range(job, train, held, fraction, err);
}

mu_status mu_split_add(mu_job *job, mu_err *err) {
    mu_node *train = mu_node_find(job->data, "train");
    if (!train) return MU_OK;
    mu_node *held = mu_node_create(&job->arena, MU_MAP, train->pos);
    if (!held) return MU_FAIL_NOMEM(err, "the job");
    held->key = "validation";
    held->key_pos = train->key_pos;
    MU_TRY(mu_node_put_text(&job->arena, held, "fraction", MU_SPLIT_FRACTION, err));
    return mu_node_append(&job->arena, job->data, held, err);
}

// ---- the records ----

typedef struct drawn { int64_t record, class; uint64_t number; } drawn;

static int by_class(const void *a, const void *b) {
    const drawn *x = a, *y = b;
    if (x->class != y->class) return x->class < y->class ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->record < y->record ? -1 : x->record > y->record;
}

static int label_field(const mu_reader *r) {
    for (int i = 0; i < r->n_fields; i++)
        if (!strcmp(r->field[i].name, "label") && r->field[i].store == MU_STORE_I32 && !r->field[i].shape.n)
            return i;
    return -1;
}

// A record that cannot be read counts as a class of its own: the source finds it bad later.
static mu_status class_of(mu_reader *r, int64_t i, int label, int64_t *out, mu_err *err) {
    mu_record rec;
    mu_err why = {0};
    *out = -1;
    if (label < 0) return MU_OK;
    if (r->class->label_of) {
        *out = r->class->label_of(r, i);
        return MU_OK;
    }
    const mu_status st = mu_reader_read(r, i, &rec, &why);
    if (st == MU_OK) *out = *(const int32_t *)rec.field[label];
    return st == MU_OK || st == MU_EDATA ? MU_OK : mu_err_pass(st, &why, err);
}

static mu_status draw(mu_reader *r, int64_t n, uint64_t seed, drawn *d, mu_err *err) {
    const mu_rng_key key = mu_rng_key_make(seed, "split");
    const int label = label_field(r);
    for (int64_t i = 0; i < n; i++) {
        uint32_t word[4];
        mu_rng_block(key, 0, (uint64_t)i, word);
        d[i] = (drawn){.record = i, .number = (uint64_t)word[0] << 32 | word[1]};
        MU_TRY(class_of(r, i, label, &d[i].class, err));
    }
    qsort(d, (size_t)n, sizeof *d, by_class);
    return MU_OK;
}

static int64_t mark_held(const drawn *d, int64_t n, double fraction, uint8_t *held) {
    int64_t n_held = 0;
    double share = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool only = (!i || d[i - 1].class != d[i].class) &&
                          (i + 1 == n || d[i + 1].class != d[i].class);
        if (only) continue;
        share += fraction;
        if (share < 1) continue;
        share -= 1;
        held[d[i].record] = 1;
        n_held++;
    }
    return n_held;
}

static mu_status check_count(const mu_reader *r, int64_t n, int64_t n_held, double fraction, mu_err *err) {
    if (n_held > 0 && n_held < n) return MU_OK;
    return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, r->pos,
                                    "a fraction of %g of %" PRId64 " records holds back %s", fraction, n,
                                    n_held ? "all" : "none"),
                         err, "Give another `fraction`, or validation data of its own.");
}

mu_status mu_split_choose(mu_reader *r, int64_t n, mu_split_part part, double fraction, uint64_t seed,
                          mu_arena *arena, int64_t **record, int64_t *count, mu_err *err) {
    drawn *d = mu_alloc_array((size_t)n + 1, sizeof *d, "data/split");
    uint8_t *held = mu_alloc_array((size_t)n + 1, 1, "data/split");
    mu_status st = d && held ? draw(r, n, seed, d, err) : MU_FAIL_NOMEM(err, "the split");
    if (st == MU_OK) {
        const int64_t n_held = mark_held(d, n, fraction, held);
        *count = part == MU_PART_HELD ? n_held : n - n_held;
        st = check_count(r, n, n_held, fraction, err);
    }
    if (st == MU_OK && !(*record = mu_arena_array(arena, (size_t)*count, sizeof **record)))
        st = MU_FAIL_NOMEM(err, "the split");
    for (int64_t i = 0, k = 0; st == MU_OK && i < n; i++)
        if (held[i] == (part == MU_PART_HELD)) (*record)[k++] = i;
    mu_free(held);
    mu_free(d);
    return st;
}
