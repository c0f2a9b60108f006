// SPDX-License-Identifier: Apache-2.0
// retrieval.c - see retrieval.h.
//
// Nearness is a product of codes: the cosine of codes made unit length, or, since |q - a|^2 = |q|^2 - 2 q.a +
// |a|^2 and |q|^2 is the same for all answers, 2 q.a - |a|^2. Products are made for blocks of queries.
#include "look/retrieval.h"

#include "base/alloc.h"
#include "ops/gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { BLOCK = 64 };            // queries per product

struct mu_retrieval {
    int64_t  n, d, n_groups;
    float   *query, *answer;    // (n, d), unit length for the cosine
    float   *offset;            // [n] subtracted from twice the product; zeros for the cosine
    float   *product;           // (BLOCK, n)
    float   *best;              // [n_groups] nearness of the nearest member
    int64_t *nearest;           // [n_groups] its row
    int32_t *group;             // [n] from 0, without gaps
};

// ---- groups ----

mu_status mu_shared_rows(const void *rows, int64_t n, size_t bytes, int32_t *group, mu_err *err) {
    size_t size = 16;
    while (size < 2 * (size_t)n) size *= 2;
    int64_t *table = mu_alloc_array(size, sizeof *table, "retrieval");  // row + 1; 0 = empty
    if (!table) return MU_FAIL_NOMEM(err, "a table of rows");
    int32_t count = 0;
    const char *row = rows;
    for (int64_t i = 0; i < n; i++) {
        const char *own = row + (size_t)i * bytes;
        size_t at = (size_t)XXH3_64bits(own, bytes) & (size - 1);
        while (table[at] && memcmp(row + (size_t)(table[at] - 1) * bytes, own, bytes))
            at = (at + 1) & (size - 1);
        group[i] = table[at] ? group[table[at] - 1] : count++;
        if (!table[at]) table[at] = i + 1;
    }
    mu_free(table);
    return MU_OK;
}

static mu_status number_groups(mu_retrieval *r, const int32_t *group, mu_err *err) {
    if (group) MU_TRY(mu_shared_rows(group, r->n, sizeof *group, r->group, err));
    for (int64_t i = 0; i < r->n; i++) {
        if (!group) r->group[i] = (int32_t)i;
        if (r->group[i] >= r->n_groups) r->n_groups = r->group[i] + 1;
    }
    return MU_OK;
}

// ---- codes ----

static void normalise(float *v, int64_t n, int64_t d) {
    for (int64_t i = 0; i < n; i++, v += d) {
        double square = 0;
        for (int64_t k = 0; k < d; k++) square += (double)v[k] * (double)v[k];
        float inverse = square > 0 ? (float)(1 / sqrt(square)) : 0;
        for (int64_t k = 0; k < d; k++) v[k] *= inverse;
    }
}

static void measure(mu_retrieval *r) {
    for (int64_t i = 0; i < r->n; i++) {
        const float *v = r->answer + i * r->d;
        double square = 0;
        for (int64_t k = 0; k < r->d; k++) square += (double)v[k] * (double)v[k];
        r->offset[i] = (float)square;
    }
}

static mu_status take(mu_retrieval *r, const float *query, const float *answer, mu_err *err) {
    size_t n = (size_t)r->n, d = (size_t)r->d;
    r->query = mu_alloc_array(n * d + 1, sizeof *r->query, "retrieval");
    r->answer = mu_alloc_array(n * d + 1, sizeof *r->answer, "retrieval");
    r->offset = mu_alloc_array(n + 1, sizeof *r->offset, "retrieval");
    r->product = mu_alloc_array(n + 1, BLOCK * sizeof *r->product, "retrieval");
    r->best = mu_alloc_array(n + 1, sizeof *r->best, "retrieval");
    r->nearest = mu_alloc_array(n + 1, sizeof *r->nearest, "retrieval");
    r->group = mu_alloc_array(n + 1, sizeof *r->group, "retrieval");
    if (!r->query || !r->answer || !r->offset || !r->product || !r->best || !r->nearest || !r->group)
        return MU_FAIL_NOMEM(err, "the codes of a retrieval");
    memcpy(r->query, query, n * d * sizeof *query);
    memcpy(r->answer, answer, n * d * sizeof *answer);
    return MU_OK;
}

mu_status mu_retrieval_create(const float *query, const float *answer, int64_t n, int64_t d,
                              mu_distance distance, const int32_t *group, mu_retrieval **out, mu_err *err) {
    if (n < 1 || d < 1 || n > INT32_MAX)
        return MU_FAIL(err, MU_EUSAGE, "%lld codes of %lld values cannot be ranked", (long long)n,
                       (long long)d);
    mu_retrieval *r = mu_alloc(sizeof *r, "retrieval");
    if (!r) return MU_FAIL_NOMEM(err, "a retrieval");
    r->n = n;
    r->d = d;
    mu_status st = take(r, query, answer, err);
    if (st == MU_OK) st = number_groups(r, group, err);
    if (st != MU_OK) {
        mu_retrieval_destroy(r);
        return st;
    }
    if (distance == MU_COSINE) {
        normalise(r->query, n, d);
        normalise(r->answer, n, d);
    } else {
        measure(r);
    }
    *out = r;
    return MU_OK;
}

void mu_retrieval_destroy(mu_retrieval *r) {
    if (!r) return;
    mu_free(r->query);
    mu_free(r->answer);
    mu_free(r->offset);
    mu_free(r->product);
    mu_free(r->best);
    mu_free(r->nearest);
    mu_free(r->group);
    mu_free(r);
}

// ---- ranks ----

static void multiply(mu_retrieval *r, int64_t first, int64_t rows) {
    mu_gemm(false, true, rows, r->n, r->d, r->query + first * r->d, r->d, r->answer, r->d, 0, r->product,
            r->n);
}

// Fills best and nearest for the query whose products these are. What is not a number is farthest.
static void find_nearest(mu_retrieval *r, const float *product) {
    for (int64_t g = 0; g < r->n_groups; g++) r->best[g] = -INFINITY, r->nearest[g] = -1;
    for (int64_t j = 0; j < r->n; j++) {
        float v = 2 * product[j] - r->offset[j];
        int32_t g = r->group[j];
        if (r->nearest[g] >= 0 && !(v > r->best[g])) continue;
        r->best[g] = isnan(v) ? -INFINITY : v;
        r->nearest[g] = j;
    }
}

static int64_t rank_of(const mu_retrieval *r, int32_t own) {
    int64_t rank = 1;
    for (int64_t g = 0; g < r->n_groups; g++) rank += g != own && r->best[g] >= r->best[own];
    return rank;
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void summarise(int64_t *rank, int64_t n, mu_recall *out) {
    qsort(rank, (size_t)n, sizeof *rank, by_size);
    int64_t at1 = 0, at5 = 0, at10 = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        at1 += rank[i] <= 1;
        at5 += rank[i] <= 5;
        at10 += rank[i] <= 10;
        sum += (double)rank[i];
    }
    double total = (double)n;
    out->at1 = (double)at1 / total, out->at5 = (double)at5 / total, out->at10 = (double)at10 / total;
    out->mean_rank = sum / total;
    const int64_t middle[2] = {rank[(n - 1) / 2], rank[n / 2]};
    out->median_rank = (double)(middle[0] + middle[1]) / 2;
}

mu_status mu_retrieval_score(mu_retrieval *r, int64_t *rank, mu_recall *out, mu_err *err) {
    int64_t *all = mu_alloc_array((size_t)r->n, sizeof *all, "retrieval");
    if (!all) return MU_FAIL_NOMEM(err, "the ranks");
    for (int64_t first = 0; first < r->n; first += BLOCK) {
        int64_t rows = r->n - first < BLOCK ? r->n - first : BLOCK;
        multiply(r, first, rows);
        for (int64_t i = 0; i < rows; i++) {
            find_nearest(r, r->product + i * r->n);
            all[first + i] = rank_of(r, r->group[first + i]);
        }
    }
    if (rank) memcpy(rank, all, (size_t)r->n * sizeof *rank);
    *out = (mu_recall){.queries = r->n, .groups = r->n_groups};
    summarise(all, r->n, out);
    mu_free(all);
    return MU_OK;
}

int64_t mu_retrieval_nearest(mu_retrieval *r, int64_t q, int64_t k, int64_t *row) {
    multiply(r, q, 1);
    find_nearest(r, r->product);
    int64_t n = 0;
    for (; n < k && n < r->n_groups; n++) {
        int64_t top = -1;
        for (int64_t g = 0; g < r->n_groups; g++)
            if (r->nearest[g] >= 0 && (top < 0 || r->best[g] > r->best[top])) top = g;
        row[n] = r->nearest[top];
        r->nearest[top] = -1;           // taken
    }
    return n;
}
