// SPDX-License-Identifier: Apache-2.0
// shard.c - see shard.h.
#include "data/shard.h"

#include <inttypes.h>
#include <stdio.h>

static mu_srcpos place_of(const mu_source_spec *spec, const char *key) {
    const mu_node *n = mu_node_find(spec->block, key);
    return n ? n->pos : spec->pos;
}

// "`parts/shard-1.rec` is shard 1 of 3"
typedef struct shard_text {
    char s[600];
} shard_text;
static shard_text name_of(const mu_reader *r) {
    shard_text t;
    char file[500];
    mu_reader_describe_file(r, file, sizeof file);
    snprintf(t.s, sizeof t.s, "%s is shard %d of %d", file, r->shard.index, r->shard.of);
    return t;
}

static mu_status check_rank(const mu_source_spec *spec, const mu_source_opts *o, const mu_reader *r,
                            mu_err *err) {
    const mu_shard *s = &r->shard;
    const shard_text name = name_of(r);
    if (o->nodes != s->of)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, spec->pos, "%s, and %s", name.s,
                                        o->nodes > 1 ? "there are other ranks" : "one process trains"),
                             err, "Start %d ranks, such as by `mpirun -n %d`, or make %d shards of the data.",
                             s->of, s->of, o->nodes);
    if (o->node != s->index)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, spec->pos, "%s, and this is rank %d", name.s, o->node),
                             err, "Write `{rank}` for its number in the name of the file.");
    return MU_OK;
}

// What needs to see all records.
static mu_status check_keys(const mu_source_spec *spec, const mu_reader *r, mu_err *err) {
    const char *key = spec->limit                 ? "limit"
                      : spec->part != MU_PART_ALL ? "part"
                      : spec->mean_auto           ? "mean"
                                                  : NULL;
    if (!key) return MU_OK;
    return mu_err_hinted(
        MU_FAIL_AT(err, MU_EJOB, place_of(spec, key), "`%s` needs all records, and %s", key, name_of(r).s),
        err, "%s",
        spec->mean_auto && !spec->limit && spec->part == MU_PART_ALL
            ? "Give the mean as numbers, or as a file (`mean_file`)."
        : spec->limit ? "Make shards of as many records as are wanted."
                      : "Give validation data of its own.");
}

mu_status mu_shard_open(const mu_source_spec *spec, const mu_source_opts *o, const mu_reader *r,
                        mu_own_records *out, mu_err *err) {
    *out = (mu_own_records){0};
    if (!r->shard.of) return MU_OK;
    if (o->phase != MU_TRAIN)
        return mu_err_hinted(
            MU_FAIL_AT(err, MU_EJOB, spec->pos, "%s, and only training reads shards", name_of(r).s), err,
            "Evaluations are made by rank 0: give it the whole data.");
    MU_TRY(check_keys(spec, r, err));
    if (o->nodes) MU_TRY(check_rank(spec, o, r, err));
    *out = (mu_own_records){.n = r->n_records, .stripe = {.index = o->node, .of = r->shard.of}};
    return MU_OK;
}

mu_status mu_shard_place(const mu_own_records *own, int64_t sample, int64_t *epoch, int64_t *position,
                         mu_err *err) {
    const int64_t n = own->stripe.width ? mu_stripe_count(&own->stripe, sample) : 0;
    if (!own->stripe.width || mu_stripe_sample(&own->stripe, n) != sample)
        return MU_FAIL(err, MU_EBACKEND, "sample %" PRId64 " is not one of shard %d of %d", sample,
                       own->stripe.index, own->stripe.of);
    *epoch = n / own->n;
    *position = n % own->n;
    return MU_OK;
}
