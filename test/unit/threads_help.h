// SPDX-License-Identifier: Apache-2.0
// threads_help.h - for test_ps_threads: its variants, a small parameter set with every form of a gradient,
// gradients as a function of learner and step, blocks of weights and history, and what an update took.
#ifndef TEST_UNIT_THREADS_HELP_H
#define TEST_UNIT_THREADS_HELP_H

#include "unit/updater_help.h"

#include "base/clock.h"
#include "ps/client_shared.h"
#include "ps/mirror.h"

#include <time.h>

enum { N_PARAMS = 6, BATCH = 2, NAMED = 3, WORDS = 4 };

// Two slices of dense weights, factors, rows, a bias, statistics, gathered rows.
static const mu_param protos[N_PARAMS] = {
    {.name = "dense", .shape = {2, {96, 400}}},
    {.name = "factors", .shape = {2, {40, 150}}, .max_batch = BATCH}, // long enough for pairs of updates
    {.name = "rows", .shape = {2, {60, 20}}, .max_rows = NAMED},
    {.name = "bias", .shape = {1, {70}}},
    {.name = "mean", .shape = {1, {30}}, .is_stat = true},
    {.name = "gathered", .shape = {2, {60, 40}}, .max_batch = BATCH, .max_x = WORDS},
};
static const mu_grad_form forms[N_PARAMS] = {MU_GRAD_DENSE, MU_GRAD_FACTORS, MU_GRAD_ROWS, MU_GRAD_DENSE,
                                             MU_GRAD_DENSE, MU_GRAD_GATHERED};

typedef struct variant {
    const char *name, *protocol;
    int learners, splits, bound, threads; // threads: of the server; 0 = beside
    mu_weights_mode weights;
    bool locks;
    int deaths; // of each learner
    int steps;  // of an average learner
    int warm;   // updates by hardsync first
    int every;  // gradients on the weights of one version
    double slow; // seconds the last learner needs for one gradient; others are patient for a third of that
    bool helped; // learners that wait help the server
    int workers; // of each learner
} variant;

MU_UNUSED static variant variants[] = {
    {"hardsync beside", "hardsync", 3, 1, 0, 0, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 0, false, 1},
    {"hardsync server", "hardsync", 3, 1, 0, 2, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 0, false, 1},
    {"hardsync server, deaths", "hardsync", 3, 1, 0, 2, MU_WEIGHTS_SHARED, false, 3, 60, 0, 1, 0, false, 1},
    {"softsync beside", "softsync", 4, 2, 0, 0, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 0, false, 1},
    {"softsync server, copies, deaths", "softsync", 4, 1, 0, 2, MU_WEIGHTS_COPY, true, 3, 60, 0, 1, 0,
     false, 1},
    {"softsync beside, bound", "softsync", 4, 1, 2, 0, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 0, false, 1},
    {"softsync server, bound, deaths", "softsync", 4, 1, 1, 2, MU_WEIGHTS_COPY, true, 3, 60, 0, 1, 0,
     false, 1},
    {"softsync beside, copies, bound, deaths", "softsync", 4, 2, 2, 0, MU_WEIGHTS_COPY, true, 3, 60, 5, 1, 0,
     false, 1},
    {"async beside", "async", 3, 3, 0, 0, MU_WEIGHTS_SHARED, false, 2, 60, 0, 1, 0, false, 1},
    {"async server", "async", 3, 3, 0, 2, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 0, false, 1},
    {"async server, helped, deaths", "async", 4, 4, 0, 2, MU_WEIGHTS_COPY, true, 2, 60, 5, 1, 0, true, 1},
    {"hardsync server, helped, deaths", "hardsync", 3, 1, 0, 1, MU_WEIGHTS_SHARED, false, 2, 60, 0, 1, 0,
     true, 1},
    {"hardsync beside, workers", "hardsync", 2, 1, 0, 0, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 0, false, 3},
    {"async server, helped, workers", "async", 3, 3, 0, 1, MU_WEIGHTS_COPY, true, 0, 60, 5, 1, 0, true, 2},
    {"async copies, bound", "async", 3, 3, 4, 0, MU_WEIGHTS_COPY, true, 2, 60, 0, 1, 0, false, 1},
    {"ssp beside", "ssp", 3, 3, 2, 0, MU_WEIGHTS_SHARED, false, 2, 60, 0, 1, 0, false, 1},
    {"ssp server", "ssp", 3, 3, 2, 2, MU_WEIGHTS_COPY, true, 0, 60, 0, 1, 0, false, 1},
    {"hogwild", "hogwild", 3, 3, 0, 0, MU_WEIGHTS_SHARED, false, 2, 60, 0, 1, 0, false, 1},
    {"hogwild, sums of three, deaths", "hogwild", 3, 3, 0, 0, MU_WEIGHTS_SHARED, false, 3, 60, 0, 3, 0, false,
     1},
    {"mirror", "mirror", 3, 3, 0, 0, MU_WEIGHTS_SHARED, false, 0, 100, 0, 1, 0, false, 1},
    {"mirror, several in one update", "mirror", 4, 2, 0, 0, MU_WEIGHTS_SHARED, false, 0, 100, 0, 1, 0,
     false, 1},
    {"mirror, deaths", "mirror", 4, 4, 0, 0, MU_WEIGHTS_SHARED, false, 4, 100, 0, 1, 0, false, 1},
    {"mirror after a warm start", "mirror", 3, 3, 0, 0, MU_WEIGHTS_SHARED, false, 0, 60, 10, 1, 0, false, 1},
    {"mirror, several, deaths", "mirror", 4, 1, 0, 0, MU_WEIGHTS_SHARED, false, 4, 100, 0, 1, 0, false, 1},
    {"mirror, every third, alone", "mirror", 1, 1, 0, 0, MU_WEIGHTS_SHARED, false, 0, 100, 0, 3, 0, false, 1},
    {"mirror, every second", "mirror", 2, 1, 0, 0, MU_WEIGHTS_SHARED, false, 0, 200, 0, 2, 0, false, 1},
    {"mirror, every fourth, deaths", "mirror", 4, 1, 0, 0, MU_WEIGHTS_SHARED, false, 4, 100, 10, 4, 0,
     false, 1},
    // These sleep for some seconds: what is wrong is seen before.
    {"softsync beside, bound, slow", "softsync", 3, 1, 2, 0, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 3,
     false, 1},
    {"softsync server, bound, slow", "softsync", 3, 1, 2, 2, MU_WEIGHTS_SHARED, false, 0, 60, 0, 1, 3,
     false, 1},
    {"mirror, every fourth, slow", "mirror", 2, 1, 0, 0, MU_WEIGHTS_SHARED, false, 0, 60, 0, 4, 3, false, 1},
};

// By async beside updates wait for their pair, also across deaths.
MU_UNUSED static void ask_for_pairs(mu_shared *g, const variant *v) {
    if (v->threads || strcmp(v->protocol, "async")) return;
    mu_core *c = mu_shared_begin(g);
    assert_non_null(c);
    c->config.pairs = 1;
    mu_shared_commit(g);
}

typedef struct taken { // one gradient in an update
    int learner, bad;
    int64_t step, version, made; // version of its weights; version made
    float weight;
    double rate;
} taken;

typedef struct block_set {
    float *value, *slot[MU_MAX_SLOTS];
} block_set;

typedef struct params { // a parameter set and the memory of one gradient
    mu_params ps;
    mu_param p[N_PARAMS], *list[N_PARAMS];
    float *room[N_PARAMS];
    int32_t id[NAMED], at[BATCH * 60];
} params;

static inline void params_init(params *s, int n_slots) {
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N_PARAMS; i++) {
        mu_param *p = s->list[i] = &s->p[i];
        *p = protos[i];
        p->lr_mult = p->decay_mult = 1;
        p->n_users = 1;
        p->allow_factors = true;
        p->count = (size_t)mu_shape_count(&p->shape);
        p->offset = s->ps.count;
        s->ps.count += (p->count + 15) / 16 * 16;
        s->room[i] = floats(p->count + 1000);
    }
    s->ps.n = N_PARAMS;
    s->ps.list = s->list;
    s->ps.n_slots = n_slots;
}

static inline void params_fini(params *s) {
    for (int i = 0; i < N_PARAMS; i++) free(s->room[i]);
}

static inline block_set blocks_make(const params *s) {
    block_set b = {.value = floats(s->ps.count)};
    for (int k = 0; k < s->ps.n_slots; k++) b.slot[k] = floats(s->ps.count);
    return b;
}

static inline void blocks_copy(const params *s, const block_set *from, const block_set *to) {
    memcpy(to->value, from->value, s->ps.count * sizeof(float));
    for (int k = 0; k < s->ps.n_slots; k++) memcpy(to->slot[k], from->slot[k], s->ps.count * sizeof(float));
}

static inline void blocks_free(block_set *b) {
    free(b->value);
    for (int k = 0; k < MU_MAX_SLOTS; k++) free(b->slot[k]);
}

static inline void make_gradient(params *s, int learner, int64_t step) {
    for (int i = 0; i < N_PARAMS; i++) {
        mu_param *p = &s->p[i];
        const int64_t rows = p->shape.d[0], cols = (int64_t)p->count / rows;
        float *v = p->value = s->room[i];
        fill(v, p->count, (uint64_t)(learner * 1000 + step * 10 + i), 1);
        for (int k = 0; k < NAMED; k++) s->id[k] = (int32_t)((step * 7 + k * 11 + learner) % rows);
        p->grad = (mu_grad){.form = forms[i], .dense = v};
        if (forms[i] == MU_GRAD_FACTORS) p->grad.batch = BATCH, p->grad.x = v, p->grad.dy = v + BATCH * cols;
        if (forms[i] == MU_GRAD_GATHERED) {
            const int64_t n_x = BATCH * WORDS;
            for (int64_t k = 0; k < BATCH * rows; k++) s->at[k] = (int32_t)((step + k * 5) % (n_x + 1)) - 1;
            p->grad.batch = BATCH, p->grad.x = v, p->grad.dy = v + n_x * cols, p->grad.n_x = n_x;
            p->grad.src_row = s->at;
        }
        if (forms[i] == MU_GRAD_ROWS) p->grad.n_rows = NAMED, p->grad.row = s->id, p->grad.row_value = v;
    }
}

static inline bool is_bad(int learner, int64_t step) { return learner == 1 && step % 9 == 4; }

static inline double rate_of(int64_t version) { return 0.01 * (double)(1 + version % 5); }

static inline uint64_t hash_of(const params *s, const float *block) {
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < N_PARAMS; i++) {
        if (s->p[i].is_stat) continue;
        for (size_t k = 0; k < s->p[i].count; k++) {
            uint32_t bits;
            memcpy(&bits, block + s->p[i].offset + k, sizeof bits);
            h = (h ^ bits) * 1099511628211u;
        }
    }
    return h;
}

// Computes on and on, and shows that it does.
static inline void pulse_for(mu_client *c, double seconds) {
    const int64_t began = mu_clock_ns();
    while (1e-9 * (double)(mu_clock_ns() - began) < seconds) {
        c->class->pulse(c);
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

// Not all at the same time: mirrors need one learner with whole weights.
static inline int64_t first_death(const variant *v, int learner) {
    const int64_t lives = v->steps / (v->deaths + 1);
    return lives + learner * lives / v->learners;
}

#endif
