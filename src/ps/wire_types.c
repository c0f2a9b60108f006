// SPDX-License-Identifier: Apache-2.0
// wire_types.c - the numbers of each type of frame, in the order in which they lie in it.
#include "ps/wire_inner.h"

#define ROW(type, member, kind, lo, hi, limit)                                                               \
    { #member, kind, offsetof(type, member), sizeof(((type *)0)->member), lo, hi, limit }
#define FIELD(type, member, kind, lo, hi) ROW(type, member, kind, lo, hi, MU_LIMIT_HI)
#define BELOW(type, member, kind, lo, limit) ROW(type, member, kind, lo, 0, limit)
#define TEXT(type, member) FIELD(type, member, MU_WIRE_TEXT, 0, 0)

// Far beyond what trainings have, and sums of a few of them do not overflow.
#define MUCH ((int64_t)1 << 60)
#define SOME ((int64_t)1 << 24)

static const mu_wire_field hello[] = {
    BELOW(mu_wire_hello, rank, MU_WIRE_I32, 0, MU_LIMIT_RANKS),
    FIELD(mu_wire_hello, ranks, MU_WIRE_I32, 1, SOME),
    FIELD(mu_wire_hello, learners, MU_WIRE_I32, 0, SOME),
    FIELD(mu_wire_hello, workers, MU_WIRE_I32, 1, SOME),
    FIELD(mu_wire_hello, pid, MU_WIRE_I32, 1, INT32_MAX),
    FIELD(mu_wire_hello, level, MU_WIRE_I32, 0, SOME),
    FIELD(mu_wire_hello, job, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_hello, seed, MU_WIRE_I64, INT64_MIN, INT64_MAX),
    FIELD(mu_wire_hello, data, MU_WIRE_BITS, 0, 0),
    TEXT(mu_wire_hello, host),
    TEXT(mu_wire_hello, file),
};

static const mu_wire_field heartbeat[] = {
    FIELD(mu_wire_heartbeat, number, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_heartbeat, sent_ns, MU_WIRE_I64, 0, INT64_MAX),
    FIELD(mu_wire_heartbeat, echo_ns, MU_WIRE_I64, 0, INT64_MAX),
    FIELD(mu_wire_heartbeat, version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_heartbeat, compute_ns, MU_WIRE_I64, 0, INT64_MAX),
    FIELD(mu_wire_heartbeat, wait_ns, MU_WIRE_I64, 0, INT64_MAX),
};

static const mu_wire_field lease[] = {
    BELOW(mu_wire_lease, learner, MU_WIRE_I32, 0, MU_LIMIT_LEARNERS),
    FIELD(mu_wire_lease, incarnation, MU_WIRE_U32, 1, UINT32_MAX),
    FIELD(mu_wire_lease, ended, MU_WIRE_I32, 0, 1),
    FIELD(mu_wire_lease, lease.first, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_lease, lease.batches, MU_WIRE_I32, 0, SOME),
    BELOW(mu_wire_lease, lease.rows, MU_WIRE_I32, 0, MU_LIMIT_ROWS),
    FIELD(mu_wire_lease, lease.stride, MU_WIRE_I64, 0, (int64_t)1 << 32),
    BELOW(mu_wire_lease, lease.last_rows, MU_WIRE_I32, 0, MU_LIMIT_ROWS),
};

static const mu_wire_field ask[] = {
    BELOW(mu_wire_ask, learner, MU_WIRE_I32, 0, MU_LIMIT_LEARNERS),
    FIELD(mu_wire_ask, incarnation, MU_WIRE_U32, 0, UINT32_MAX),
    FIELD(mu_wire_ask, what, MU_WIRE_I32, 0, MU_ASKINGS - 1),
    FIELD(mu_wire_ask, version, MU_WIRE_I64, -1, MUCH),
};

static const mu_wire_field grant[] = {
    BELOW(mu_wire_grant, learner, MU_WIRE_I32, 0, MU_LIMIT_LEARNERS),
    FIELD(mu_wire_grant, incarnation, MU_WIRE_U32, 1, UINT32_MAX),
    FIELD(mu_wire_grant, answer, MU_WIRE_I32, MU_GO, MU_END),
    FIELD(mu_wire_grant, grant.step, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_grant, grant.version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_grant, grant.first, MU_WIRE_I64, 0, MUCH),
    BELOW(mu_wire_grant, grant.rows, MU_WIRE_I64, 0, MU_LIMIT_ROWS),
    FIELD(mu_wire_grant, grant.global_rows, MU_WIRE_I64, 0, MUCH),
};

static const mu_wire_field push[] = {
    BELOW(mu_wire_push, id.learner, MU_WIRE_I32, 0, MU_LIMIT_LEARNERS),
    FIELD(mu_wire_push, id.incarnation, MU_WIRE_U32, 1, UINT32_MAX),
    FIELD(mu_wire_push, id.step, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_push, id.version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_push, id.first, MU_WIRE_I64, 0, MUCH),
    BELOW(mu_wire_push, id.rows, MU_WIRE_I64, 1, MU_LIMIT_ROWS),
    BELOW(mu_wire_push, worker, MU_WIRE_I32, 0, MU_LIMIT_WORKERS),
    FIELD(mu_wire_push, bad, MU_WIRE_I32, 0, 1),
    FIELD(mu_wire_push, scale, MU_WIRE_F32, 0, 1),
    FIELD(mu_wire_push, params, MU_WIRE_I32, 0, INT32_MAX),
    FIELD(mu_wire_push, loss, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_push, accuracy, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_push, time_share, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_push, global_rows, MU_WIRE_I64, 1, MUCH),
};

static const mu_wire_field sum[] = {
    BELOW(mu_wire_sum, rank, MU_WIRE_I32, 0, MU_LIMIT_RANKS),
    BELOW(mu_wire_sum, group, MU_WIRE_I32, 0, MU_LIMIT_GROUPS),
    FIELD(mu_wire_sum, parts, MU_WIRE_I32, 0, MU_WIRE_IDS),
    FIELD(mu_wire_sum, number, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_sum, version, MU_WIRE_I64, 0, MUCH),
    BELOW(mu_wire_sum, begin, MU_WIRE_I64, 0, MU_LIMIT_COUNT),
    BELOW(mu_wire_sum, end, MU_WIRE_I64, 1, MU_LIMIT_COUNT),
};

static const mu_wire_field part[] = {
    BELOW(mu_wire_part, id.learner, MU_WIRE_I32, 0, MU_LIMIT_LEARNERS),
    FIELD(mu_wire_part, id.incarnation, MU_WIRE_U32, 1, UINT32_MAX),
    FIELD(mu_wire_part, id.step, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_part, id.version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_part, id.first, MU_WIRE_I64, 0, MUCH),
    BELOW(mu_wire_part, id.rows, MU_WIRE_I64, 1, MU_LIMIT_ROWS),
    FIELD(mu_wire_part, weight, MU_WIRE_F32, 0, 1),
};

static const mu_wire_field use[] = {
    FIELD(mu_message_use, form, MU_WIRE_I32, MU_GRAD_NONE, MU_GRAD_GATHERED),
    FIELD(mu_message_use, n, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_message_use, n_x, MU_WIRE_I64, 0, MUCH),
};

static const mu_wire_field weights[] = {
    FIELD(mu_wire_weights, version, MU_WIRE_I64, 0, MUCH),
    BELOW(mu_wire_weights, block, MU_WIRE_I32, 0, MU_LIMIT_BLOCKS),
    BELOW(mu_wire_weights, begin, MU_WIRE_I64, 0, MU_LIMIT_COUNT),
    BELOW(mu_wire_weights, end, MU_WIRE_I64, 1, MU_LIMIT_COUNT),
};

static const mu_wire_field bridge[] = {
    BELOW(mu_wire_bridge, channel, MU_WIRE_I32, 0, MU_LIMIT_CHANNELS),
    FIELD(mu_wire_bridge, number, MU_WIRE_I64, 0, MUCH),
};

static const mu_wire_field exchange[] = {
    BELOW(mu_wire_exchange, group, MU_WIRE_I32, 0, MU_LIMIT_GROUPS),
    FIELD(mu_wire_exchange, share, MU_WIRE_F32, 0, 1),
    FIELD(mu_wire_exchange, round, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_exchange, version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_exchange, samples, MU_WIRE_I64, 0, MUCH),
    BELOW(mu_wire_exchange, begin, MU_WIRE_I64, 0, MU_LIMIT_COUNT),
    BELOW(mu_wire_exchange, end, MU_WIRE_I64, 1, MU_LIMIT_COUNT),
};

static const mu_wire_field lost[] = {
    BELOW(mu_wire_lost, learner, MU_WIRE_I32, -1, MU_LIMIT_LEARNERS),
    BELOW(mu_wire_lost, rank, MU_WIRE_I32, 0, MU_LIMIT_RANKS),
    FIELD(mu_wire_lost, incarnation, MU_WIRE_U32, 0, UINT32_MAX),
    TEXT(mu_wire_lost, why),
};

static const mu_wire_field stop[] = {
    FIELD(mu_wire_stop, why, MU_WIRE_I32, 0, MU_STOPS - 1),
    FIELD(mu_wire_stop, version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_stop, samples, MU_WIRE_I64, 0, MUCH),
};

static const mu_wire_field error[] = {
    BELOW(mu_wire_error, rank, MU_WIRE_I32, 0, MU_LIMIT_RANKS),
    FIELD(mu_wire_error, status, MU_WIRE_I32, 1, MU_ETERMINATED),
    FIELD(mu_wire_error, line, MU_WIRE_I32, 0, INT32_MAX),
    FIELD(mu_wire_error, col, MU_WIRE_I32, 0, INT32_MAX),
    FIELD(mu_wire_error, span, MU_WIRE_I32, 0, INT32_MAX),
    TEXT(mu_wire_error, path),
    TEXT(mu_wire_error, msg),
    TEXT(mu_wire_error, hint),
    TEXT(mu_wire_error, note),
};

static const mu_wire_field start[] = {
    FIELD(mu_wire_start, step, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, partial, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, samples, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, extra_updates, MU_WIRE_I64, -MUCH, MUCH),
    FIELD(mu_wire_start, version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, applied, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, repeated, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, merges, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, cursor, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, dropped, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_start, rate_scale, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_start, time_share, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_start, center, MU_WIRE_I32, 0, 1),
    FIELD(mu_wire_start, ranges, MU_WIRE_I32, 0, MU_WIRE_RANGES),
};

static const mu_wire_field point[] = {
    BELOW(mu_wire_point, group, MU_WIRE_I32, 0, MU_LIMIT_GROUPS),
    FIELD(mu_wire_point, missed, MU_WIRE_I32, 0, 1),
    FIELD(mu_wire_point, number, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_point, version, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_point, applied, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_point, next, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_point, updates, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_point, ranges, MU_WIRE_I32, 0, MU_WIRE_RANGES),
};

static const mu_wire_field counts[] = {
    BELOW(mu_wire_counts, rank, MU_WIRE_I32, 0, MU_LIMIT_RANKS),
    FIELD(mu_wire_counts, versions, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, produced, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, applied, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, rejected, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, lost, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, learners_lost, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, learners_replaced, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, server_lost, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, lock_repairs, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, torn_updates, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, merges, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, merged_bytes, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, records_read, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, bad_records, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, skipped, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, used, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, stale, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, stale_max, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, weights, MU_WIRE_I64, 0, MUCH),
    FIELD(mu_wire_counts, stale_mean, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_counts, compute_s, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_counts, wait_s, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_counts, apply_s, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_counts, replace_p50_s, MU_WIRE_BITS, 0, 0),
    FIELD(mu_wire_counts, replace_p99_s, MU_WIRE_BITS, 0, 0),
};

// ---- what numbers have to do with each other ----

static const char *wrong_hello(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    return w->hello.rank >= w->hello.ranks ? "its rank is not below its number of ranks" : NULL;
}

static const char *wrong_lease(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    const mu_lease *l = &w->lease.lease;
    const bool none = !l->first && !l->batches && !l->rows && !l->stride && !l->last_rows;
    if (w->lease.ended) return none ? NULL : "a lease behind the end";
    if (!l->batches || !l->last_rows || l->last_rows > l->rows) return "a lease without samples";
    return l->batches > 1 && l->stride < l->rows ? "batches that overlap" : NULL;
}

static const char *wrong_ask(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    const bool joins = w->ask.what == MU_ASK_JOIN;
    return joins == !w->ask.incarnation ? NULL : "only who joins has no incarnation";
}

static const char *wrong_grant(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    const mu_grant *g = &w->grant.grant;
    if (w->grant.answer == MU_GO)
        return g->rows && g->global_rows >= g->rows ? NULL : "a grant without samples";
    if (g->step || g->first || g->rows || g->global_rows) return "samples without a grant";
    return w->grant.answer == MU_END && g->version ? "a version behind the end" : NULL;
}

static const char *wrong_push(const mu_wire_shape *s, const mu_wire *w) {
    const mu_wire_push *p = &w->push;
    if (p->params != s->share[p->worker].message->n) return "not as many parameters as its worker has";
    return p->global_rows < p->id.rows ? "more samples than the step has" : NULL;
}

static const char *wrong_sum(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    if (w->sum.begin >= w->sum.end) return "no floats";
    return w->sum.begin && w->sum.parts ? "its gradients are named with its first floats, and only there"
                                        : NULL;
}

static const char *wrong_weights(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    return w->weights.begin >= w->weights.end ? "no floats" : NULL;
}

static const char *wrong_exchange(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    if (w->exchange.begin >= w->exchange.end) return "no floats";
    return w->exchange.share > 0 ? NULL : "it has no share in the mean";
}

static const char *wrong_lost(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    return (w->lost.learner < 0) == !w->lost.incarnation ? NULL : "only a learner has an incarnation";
}

static const char *wrong_error(const mu_wire_shape *s, const mu_wire *w) {
    (void)s;
    const bool place = w->error.line || w->error.col || w->error.span;
    if (!w->error.msg[0]) return "it says nothing";
    return place && !w->error.path[0] ? "a place without a file" : NULL;
}

#define CLASS(NAME, table, any, check) [MU_WIRE_##NAME] = {#NAME, table, (int)MU_COUNT(table), any, check}

static const mu_wire_class classes[MU_WIRE_TYPES] = {
    CLASS(HELLO, hello, true, wrong_hello),  CLASS(HEARTBEAT, heartbeat, false, NULL),
    CLASS(LEASE, lease, false, wrong_lease), CLASS(ASK, ask, false, wrong_ask),
    CLASS(GRANT, grant, false, wrong_grant), CLASS(PUSH, push, false, wrong_push),
    CLASS(SUM, sum, false, wrong_sum),       CLASS(WEIGHTS, weights, false, wrong_weights),
    CLASS(BRIDGE, bridge, false, NULL),      CLASS(EXCHANGE, exchange, false, wrong_exchange),
    CLASS(LOST, lost, false, wrong_lost),    CLASS(STOP, stop, false, NULL),
    CLASS(ERROR, error, true, wrong_error),  CLASS(START, start, false, NULL),
    CLASS(POINT, point, false, NULL),        CLASS(COUNTS, counts, false, NULL),
};

const mu_wire_class mu_wire_part_class = {"SUM, gradient", part, (int)MU_COUNT(part), false, NULL};
const mu_wire_class mu_wire_use_class = {"PUSH, parameter", use, (int)MU_COUNT(use), false, NULL};

const mu_wire_class *mu_wire_class_of(uint32_t type) {
    return type >= MU_WIRE_HELLO && type < MU_WIRE_TYPES ? &classes[type] : NULL;
}

const char *mu_wire_type_name(mu_wire_type type) {
    const mu_wire_class *c = mu_wire_class_of(type);
    return c ? c->name : "?";
}

size_t mu_wire_width(const mu_wire_field *f) {
    if (f->kind == MU_WIRE_TEXT) return f->size;
    return f->kind == MU_WIRE_I32 || f->kind == MU_WIRE_U32 || f->kind == MU_WIRE_F32 ? 4 : 8;
}

size_t mu_wire_numbers(const mu_wire_class *c) {
    size_t bytes = 0;
    for (int i = 0; i < c->n_fields; i++) bytes += mu_wire_width(&c->field[i]);
    return (bytes + 7) / 8 * 8;
}

int64_t mu_wire_most(const mu_wire_shape *s, const mu_wire_field *f) {
    switch (f->limit) {
    case MU_LIMIT_RANKS:
        return s->ranks - 1;
    case MU_LIMIT_LEARNERS:
        return s->learners - 1;
    case MU_LIMIT_WORKERS:
        return s->workers - 1;
    case MU_LIMIT_GROUPS:
        return s->groups - 1;
    case MU_LIMIT_BLOCKS:
        return s->blocks - 1;
    case MU_LIMIT_CHANNELS:
        return s->channels - 1;
    case MU_LIMIT_COUNT:
        return s->count;
    case MU_LIMIT_ROWS:
        return s->rows;
    default:
        return f->hi;
    }
}
