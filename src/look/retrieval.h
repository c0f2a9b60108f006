// SPDX-License-Identifier: Apache-2.0
// retrieval.h - how well codes of one kind find their partners among codes of another.
//
// Row i of the queries and row i of the answers belong to the same pair. Several pairs may be of one
// group (three drawings of one thing with the same text): every answer of the query's group is right, and
// a group answers once, by its member nearest to the query. So the rank of the right answer is counted
// among groups, and copies of one wrong answer do not push it down several places.
//
//   rank of a query = 1 + number of other groups that are at least as near as its own
//   recall at k     = share of the queries with rank <= k
//
// A tie counts against us: codes that are all the same find nothing.
#ifndef MU_LOOK_RETRIEVAL_H
#define MU_LOOK_RETRIEVAL_H

#include "base/err.h"

#include <stdint.h>

typedef enum mu_distance { MU_COSINE, MU_EUCLIDEAN } mu_distance;
#define MU_DISTANCE_CHOICES "cosine|euclidean"

typedef struct mu_retrieval mu_retrieval;

// n queries and n answers of d values; borrowed only for this call. `group` [n]: numbers of groups;
// NULL = every pair is its own.
MU_MUST_CHECK mu_status mu_retrieval_create(const float *query, const float *answer, int64_t n, int64_t d,
                                            mu_distance distance, const int32_t *group, mu_retrieval **out,
                                            mu_err *err);
void mu_retrieval_destroy(mu_retrieval *r);     // NULL is fine

typedef struct mu_recall {
    int64_t queries, groups;    // every query chooses among so many groups
    double  at1, at5, at10;     // shares
    double  median_rank, mean_rank;
} mu_recall;

// Ranks all queries. rank [n] gets each one's rank; NULL = not wanted.
MU_MUST_CHECK mu_status mu_retrieval_score(mu_retrieval *r, int64_t *rank, mu_recall *out, mu_err *err);

// The k groups nearest to query q, nearest first, each by the row of its nearest answer. Returns how
// many: fewer than k when there are fewer groups.
int64_t mu_retrieval_nearest(mu_retrieval *r, int64_t q, int64_t k, int64_t *row);

// Numbers rows of `bytes` bytes each by their content, from 0 in order of appearance: equal rows get equal
// numbers. MU_ENOMEM.
MU_MUST_CHECK mu_status mu_shared_rows(const void *rows, int64_t n, size_t bytes, int32_t *group,
                                      mu_err *err);

#endif
