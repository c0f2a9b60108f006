// SPDX-License-Identifier: Apache-2.0
// counts.c - see counts.h.
#include "learners/counts.h"

#include <string.h>

_Static_assert(MU_WIRE_BINS == sizeof((mu_learners_result *)0)->staleness_hist / sizeof(int64_t),
               "all bins travel");

mu_wire_counts mu_counts_of(int rank, const mu_learners_result *r, int64_t used, int64_t skipped) {
    return (mu_wire_counts){.rank = rank,
                            .versions = r->versions,
                            .produced = r->produced,
                            .applied = r->applied,
                            .rejected = r->rejected,
                            .lost = r->lost,
                            .learners_lost = r->learners_lost,
                            .learners_replaced = r->learners_replaced,
                            .server_lost = r->server_lost,
                            .lock_repairs = r->lock_repairs,
                            .torn_updates = r->torn_updates,
                            .merges = r->merges,
                            .merged_bytes = r->merged_bytes,
                            .records_read = r->records_read,
                            .bad_records = r->bad_records,
                            .skipped = skipped,
                            .used = used,
                            .stale = (int64_t)r->n_stale,
                            .stale_max = r->staleness_max,
                            .stale_mean = r->staleness_mean,
                            .compute_s = r->compute_s,
                            .wait_s = r->wait_s,
                            .apply_s = r->apply_s,
                            .replace_p50_s = r->replace_p50_s,
                            .replace_p99_s = r->replace_p99_s,
                            .bins = r->staleness_hist};
}

static void add_staleness(const mu_wire_counts *c, mu_learners_result *r) {
    int64_t bins[MU_WIRE_BINS];
    const double n = r->n_stale + (double)c->stale;
    if (n > 0) r->staleness_mean = (r->staleness_mean * r->n_stale + c->stale_mean * (double)c->stale) / n;
    r->n_stale = n;
    if (c->stale_max > r->staleness_max) r->staleness_max = c->stale_max;
    memcpy(bins, c->bins, sizeof bins);
    for (int b = 0; b < MU_WIRE_BINS; b++) {
        r->staleness_hist[b] += bins[b];
        if (r->staleness_hist[b] && b >= r->most_staleness) r->most_staleness = b + 1;
    }
}

void mu_counts_add(const mu_wire_counts *c, mu_learners_result *r) {
    r->versions += c->versions;
    r->produced += c->produced;
    r->applied += c->applied;
    r->rejected += c->rejected;
    r->lost += c->lost;
    r->learners_lost += c->learners_lost;
    r->learners_replaced += c->learners_replaced;
    r->server_lost += c->server_lost;
    r->lock_repairs += c->lock_repairs;
    r->torn_updates += c->torn_updates;
    r->merges += c->merges;
    r->merged_bytes += c->merged_bytes;
    r->records_read += c->records_read;
    r->bad_records += c->bad_records;
    r->compute_s += c->compute_s;
    r->wait_s += c->wait_s;
    r->apply_s += c->apply_s;
    r->overlap = mu_overlap(r->compute_s, r->wait_s);
    if (c->rank < MU_RANKS_TOLD) r->rank[c->rank] = (mu_rank_times){c->compute_s, c->wait_s};
    r->replace_p50_s = fmax(r->replace_p50_s, c->replace_p50_s); // fmax passes over NaN
    r->replace_p99_s = fmax(r->replace_p99_s, c->replace_p99_s);
    add_staleness(c, r);
}

mu_status mu_counts_check(const mu_learners_result *r, mu_err *err) {
    if (r->produced == r->applied + r->rejected + r->lost) return MU_OK;
    return MU_FAIL(err, MU_EBACKEND,
                   "the ledger of all ranks does not balance: %lld produced, %lld + %lld + %lld",
                   (long long)r->produced, (long long)r->applied, (long long)r->rejected, (long long)r->lost);
}
