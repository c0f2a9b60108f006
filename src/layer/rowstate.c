// SPDX-License-Identifier: Apache-2.0
// rowstate.c - the states of streams, written and found by their tags.
//
// Tags are floats, as everything in a parameter, and grow with the number they stand for: 1, 2, ... 2^24, and
// from there on the next float each time, whatever its value. So each number has one tag, tags compare as
// their numbers do, and no state is found in the place of another.
#include "layer/rowstate.h"

#include <inttypes.h>
#include <string.h>

enum { WHOLE = 1 << 24 };       // a float counts to here by ones; its bits are 0x4b800000

// Of the state after number q. 0 = there is none left, after 889 million: then every sample begins anew.
static float tag_for(int64_t q) {
    if (q < WHOLE) return (float)(q + 1);
    const int64_t bits = 0x4b800000 + (q + 1 - WHOLE);
    if (bits > 0x7f7fffff) return 0; // the last finite one
    const uint32_t as_bits = (uint32_t)bits;
    float tag;
    memcpy(&tag, &as_bits, sizeof tag);
    return tag;
}

static int64_t row_floats(const mu_rowstate *s) { return 2 * (1 + s->width); }

mu_status mu_rowstate_check(const mu_layer *l, const char *what, int64_t streams, int64_t rows, mu_err *err) {
    if (rows <= streams) return MU_OK;
    mu_status st;
    if (!strcmp(what, "chain")) {
        st = mu_layer_fail(l, err, "a batch of %" PRId64 " samples needs as many chains, `chains` is "
                                   "%" PRId64, rows, streams);
        mu_err_hint(err, "Make `chains` at least the batch of all learners, its value when it is left out.");
    } else {
        st = mu_layer_fail(l, err, "a batch of %" PRId64 " samples has more rows than the %" PRId64
                                   " streams whose state layer `%s` keeps", rows, streams, l->name);
        mu_err_hint(err, "Make the number of streams at least `train.batch` and `test.batch`; learners that "
                         "wait for each other share one batch.");
    }
    return st;
}

mu_status mu_rowstate_infer(mu_rowstate *s, mu_layer *l, const char *what, int64_t streams, int64_t width,
                            mu_err *err) {
    MU_TRY(mu_rowstate_check(l, what, streams, mu_layer_src_shape(l, 0)->d[0], err));
    if (width > MU_ROWSTATE_MAX)
        return mu_layer_fail(l, err, "layer `%s` keeps %" PRId64 " values of each stream, at most %d are "
                                     "possible", l->name, width, MU_ROWSTATE_MAX);
    *s = (mu_rowstate){.streams = streams, .width = width};
    if (mu_layer_trains(l)) {
        MU_TRY(mu_layer_add_state(l, what, MU_SHAPE(streams, row_floats(s)), err));
        s->param = l->param[l->n_param - 1];
        return MU_OK;
    }
    s->own = mu_arena_array(l->arena, (size_t)(streams * row_floats(s)), sizeof *s->own);
    return s->own ? MU_OK : MU_FAIL_NOMEM(err, "the states of a layer");
}

// The number of sample g in its stream. Outside of training it counts from the longest warm-up on, so that it
// is never negative.
static int64_t number_of(const mu_rowstate *s, int64_t g) {
    return s->param ? g / s->streams : (g + MU_WARMUP_MAX * s->streams) / s->streams;
}

// The state of the stream of sample g after its number q.
static float *state_of(const mu_rowstate *s, int64_t g, int64_t q) {
    float *base = s->param ? s->param->value : s->own;
    const int64_t stream = (g % s->streams + s->streams) % s->streams;
    return base + stream * row_floats(s) + (q & 1) * (1 + s->width);
}

// Learners may share the memory (hogwild): a tag that is seen says that its state is complete.
static float tag_of(const float *at) {
    float tag;
    __atomic_load(at, &tag, __ATOMIC_ACQUIRE);
    return tag;
}

const float *mu_rowstate_before(const mu_rowstate *s, int64_t g) {
    const int64_t q = number_of(s, g) - 1;
    if (q < 0) return NULL;
    const float *at = state_of(s, g, q), tag = tag_for(q);
    return tag > 0 && tag_of(at) == tag ? at + 1 : NULL;
}

const float *mu_rowstate_read(const mu_rowstate *s, int64_t g, float *to) {
    const float *at = mu_rowstate_before(s, g);
    if (!at) return NULL;
    memcpy(to, at, (size_t)s->width * sizeof *to);
    __atomic_thread_fence(__ATOMIC_ACQUIRE); // the tag is read after the values
    return mu_rowstate_before(s, g) ? to : NULL;
}

const float *mu_rowstate_latest(const mu_rowstate *s, int64_t g) {
    const int64_t q = number_of(s, g);
    const float now = tag_for(q), *best = NULL;
    float best_tag = 0;
    for (int64_t k = 0; k < 2; k++) {
        const float *at = state_of(s, g, k), tag = tag_of(at);
        if (tag <= 0 || tag == now) continue;
        const bool older = tag < now, best_older = best && best_tag < now;
        if (!best || (older == best_older ? tag > best_tag : older)) best = at, best_tag = tag;
    }
    return best ? best + 1 : NULL;
}

float *mu_rowstate_slot(mu_rowstate *s, int64_t g) {
    float *at = state_of(s, g, number_of(s, g));
    float none = 0;
    __atomic_store(at, &none, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); // the tag goes before the first value is written
    return at + 1;
}

void mu_rowstate_commit(mu_rowstate *s, int64_t g) {
    const int64_t q = number_of(s, g);
    float tag = tag_for(q);
    __atomic_store(state_of(s, g, q), &tag, __ATOMIC_RELEASE);
}

void mu_rowstate_merge(const mu_param *p, float *value, int64_t row0, int64_t row1, int n,
                       const float *const *copy) {
    const size_t half = (size_t)p->shape.d[1] / 2;
    for (size_t at = 2 * half * (size_t)row0; at < 2 * half * (size_t)row1; at += half) {
        const float *newest = NULL;
        for (int j = 0; j < n; j++)
            if (copy[j][at] >= value[at] && (!newest || copy[j][at] > newest[0])) newest = copy[j] + at;
        if (newest) memcpy(value + at, newest, half * sizeof *value);
    }
}
