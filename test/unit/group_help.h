// SPDX-License-Identifier: Apache-2.0
// group_help.h - nets split over several workers of this process: as threads, or stepped in the global order.
#ifndef MU_TEST_GROUP_HELP_H
#define MU_TEST_GROUP_HELP_H

#include "algo/algo.h"
#include "net/partition.h"
#include "updater/updater.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { ROWS = 11, T = 6, WORDS = 9, STEPS = 20, MOST = 4, LAYERS = 32, FIELDS = 7, SIDE = 63 };

static const mu_registry *const registries[] = {&mu_inits, &mu_schedules, &mu_updaters, NULL};

typedef struct subject {
    const char *name, *algo;
    mu_contrast contrast;      // k 0: none
    const char *layer[LAYERS]; // blocks without their last brace
} subject;

// ---- nets ----

typedef struct model {
    mu_job *job;
    mu_binder b;
    mu_net_opts o;
    mu_net *net; // whole
    mu_updater *updater;
    float *start; // initial values
} model;

static mu_data_field fields[FIELDS];
static float image[ROWS * 128];
static float photo[ROWS * 3 * SIDE * SIDE];
static int32_t label[ROWS], thing[ROWS], words[ROWS * T], next[ROWS * T], begin[ROWS];

static inline void describe_data(void) {
    fields[0] =
        (mu_data_field){.name = "image", .shape = MU_SHAPE(2, 8, 8), .store = MU_STORE_F32, .is_image = true};
    fields[1] = (mu_data_field){.name = "label", .store = MU_STORE_I32, .n_classes = 5};
    fields[2] =
        (mu_data_field){.name = "words", .shape = MU_SHAPE(T), .store = MU_STORE_I32, .n_classes = WORDS};
    fields[3] =
        (mu_data_field){.name = "next", .shape = MU_SHAPE(T), .store = MU_STORE_I32, .n_classes = WORDS};
    fields[4] = (mu_data_field){.name = "begin", .store = MU_STORE_I32, .n_classes = 2};
    for (int i = 2; i < 5; i++) fields[i].streams = ROWS;
    fields[5] = (mu_data_field){
        .name = "photo", .shape = MU_SHAPE(3, SIDE, SIDE), .store = MU_STORE_F32, .is_image = true};
    fields[6] = (mu_data_field){.name = "thing", .store = MU_STORE_I32, .n_classes = 250};
}

static inline uint32_t draw(uint64_t seed, uint64_t i, uint32_t below) {
    uint32_t w[4];
    mu_rng_block((mu_rng_key){{(uint32_t)seed, 5}}, i, seed >> 32, w);
    return w[0] % below;
}

static int first_batch; // of the data that a test draws

static inline void make_batch(int step) {
    const uint64_t s = 1000 + (uint64_t)(first_batch + step);
    for (size_t i = 0; i < MU_COUNT(image); i++) image[i] = (float)draw(s, i, 1000) * 0.001f;
    for (size_t i = 0; i < ROWS; i++) label[i] = (int32_t)draw(s, 5000 + i, 5);
    for (size_t i = 0; i < ROWS * T; i++) words[i] = (int32_t)draw(s, 6000 + i, WORDS);
    for (size_t i = 0; i < ROWS * T; i++) next[i] = (words[i] * 2 + 1) % WORDS;
    for (size_t i = 0; i < ROWS; i++) begin[i] = draw(s, 8000 + i, 3) == 0;
    uint32_t w[4] = {0};
    for (size_t i = 0; i < MU_COUNT(photo); i++) {
        if (i % 4 == 0) mu_rng_block((mu_rng_key){{(uint32_t)s, 8}}, i, 0, w);
        photo[i] = (float)(w[i % 4] % 1000) * 0.002f - 1;
    }
    for (size_t i = 0; i < ROWS; i++) thing[i] = (int32_t)draw(s, 9000 + i, 250);
}

static inline void open_model(model *m, const char *text) {
    mu_err err = {0};
    memset(m, 0, sizeof *m);
    if (mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &m->job, &err) != MU_OK) fail_msg("%s", err.msg);
    m->b = (mu_binder){&m->job->arena, &m->job->diags, ".", registries, 0};
}

static inline mu_status shape_model(model *m, const subject *s, mu_err *err) {
    m->o = (mu_net_opts){.net = m->job->net,
                         .fields = fields,
                         .n_fields = FIELDS,
                         .phase = MU_TRAIN,
                         .batch = ROWS,
                         .seed = 7,
                         .keep_factors = true,
                         .contrast = s->contrast.k ? &s->contrast : NULL};
    return mu_net_shape(&m->b, &m->o, &m->net, err);
}

static inline void check(model *m, mu_status st, const mu_err *err) {
    if (st == MU_OK) return;
    mu_diags_print(&m->job->diags, stderr, false);
    fail_msg("%s", err->msg);
}

static inline void ready_model(model *m) {
    mu_err err = {0};
    check(m, mu_net_ready(m->net, mu_device_cpu(), &err), &err);
    m->updater = mu_updater_bind(&m->b, m->job->updater);
    assert_non_null(m->updater);
    check(m, mu_params_alloc_slots(m->net->params, m->updater->class->n_slots, &err), &err);
    m->start = mu_alloc(m->net->params->count * sizeof(float), "test");
    memcpy(m->start, m->net->params->value, m->net->params->count * sizeof(float));
}

static inline void close_model(model *m) {
    mu_free(m->start);
    mu_net_destroy(m->net);
    mu_job_destroy(m->job);
}

static inline void write_job(char *text, size_t size, const subject *s, char how[LAYERS][64]) {
    size_t n = (size_t)snprintf(text, size,
                                "name: t\ndata: {train: {reader: synthetic}}\ntrain: {epochs: 1}\n"
                                "updater: {type: sgd, momentum: 0.5, decay: 0.001, rate: 0.1}\nnet:\n");
    for (int i = 0; s->layer[i]; i++)
        n += (size_t)snprintf(text + n, size - n, "- %s%s}\n", s->layer[i], how ? how[i] : "");
    assert_true(n < size);
}

// ---- groups ----

typedef enum mutant { NONE, DROPPED_SHARE, MEAN_FOR_SUM, LOCAL_ROWS, LOCAL_FEATURES } mutant;

typedef struct group {
    model m;
    mu_partition *p;
    mu_net *net[MOST];
    mu_bridge_memory bridges;
    mu_channel_terms *terms;
    mutant mutant;
    struct { void *at; size_t bytes; } map[32];
    size_t n_maps;
} group;

static inline void tamper(group *g) {
    for (int w = 0; w < g->p->workers; w++)
        for (int i = 1; i < g->net[w]->n_layers; i++) {
            mu_layer *l = g->net[w]->layer[i];
            mu_extent *e = g->mutant == LOCAL_ROWS ? &l->cut.batch : &l->cut.feature;
            if (strcmp(l->class->name, "dropout") || !mu_is_cut(e) || g->mutant < LOCAL_ROWS) continue;
            e->end -= e->begin;
            e->begin = 0;
        }
}

// Memory that processes share after a fork, too.
static inline void *shared_memory(group *g, size_t bytes) {
    char *p = mmap(NULL, bytes + 64, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED && g->n_maps < MU_COUNT(g->map));
    g->map[g->n_maps].at = p;
    g->map[g->n_maps++].bytes = bytes + 64;
    return p;
}

// All that is done before workers are on their own: their nets are shaped.
static inline void shape_group(group *g, const subject *s, const char *text, int workers, mutant how) {
    mu_err err = {0};
    memset(g, 0, sizeof *g);
    g->mutant = how;
    g->terms = shared_memory(g, sizeof *g->terms);
    g->terms->limit_ns = 20000000000;
    open_model(&g->m, text);
    check(&g->m, shape_model(&g->m, s, &err), &err);
    const mu_partition_opts o = {.whole = g->m.net, .workers = workers};
    check(&g->m, mu_partition_create(&g->m.b, &o, &g->p, &err), &err);
    ready_model(&g->m);
    g->bridges = (mu_bridge_memory){shared_memory(g, mu_bridge_memory_bytes(g->p)), g->terms};
    for (int w = 0; w < workers; w++)
        check(&g->m, mu_partition_net(&g->m.b, g->p, w, &g->net[w], &err), &err);
    tamper(g);
}

static inline void open_group(group *g, const subject *s, const char *text, int workers, mutant how) {
    mu_err err = {0};
    shape_group(g, s, text, workers, how);
    for (int w = 0; w < workers; w++) {
        check(&g->m, mu_net_ready(g->net[w], mu_device_cpu(), &err), &err);
        for (int i = 0; i < g->net[w]->params->n; i++) {
            mu_param *p = g->net[w]->params->list[i];
            p->allow_factors = p->n_users == 1;
        }
        check(&g->m, mu_partition_connect(g->net[w], g->p, mu_open_bridge_memory, &g->bridges, &err), &err);
    }
}

static inline void close_group(group *g) {
    for (int w = 0; w < g->p->workers; w++) mu_net_destroy(g->net[w]);
    mu_partition_destroy(g->p);
    close_model(&g->m);
    for (size_t i = 0; i < g->n_maps; i++) munmap(g->map[i].at, g->map[i].bytes);
}

// ---- steps ----

static inline mu_step step_at(int step) {
    // The last batch is short.
    const int rows = step == STEPS - 1 ? ROWS - 4 : ROWS;
    return (mu_step){.phase = MU_TRAIN,
                     .step = step,
                     .first_sample = (int64_t)step * ROWS,
                     .rows = rows,
                     .global_rows = rows};
}

static inline void set_batch(mu_net *net) {
    const mu_tensor in[FIELDS] = {{.f = image}, {.i = label}, {.i = words}, {.i = next},
                                  {.i = begin}, {.f = photo}, {.i = thing}};
    mu_net_set_input(net, in, FIELDS);
}

static inline mu_status run_algo(const char *name, mu_net *net, const mu_step *s, mu_err *err) {
    const mu_algo_class *a = (const mu_algo_class *)mu_registry_find(&mu_algos, name);
    return a->step(NULL, net, s, err);
}

typedef struct thread {
    pthread_t id;
    group *g;
    int worker, step;
    const char *algo;
    mu_status st;
    mu_err err;
} thread;

static inline void *run_worker(void *arg) {
    thread *t = arg;
    const mu_step s = step_at(t->step);
    t->st = run_algo(t->algo, t->g->net[t->worker], &s, &t->err);
    if (t->st != MU_OK) atomic_store(&t->g->terms->given_up, true);
    return NULL;
}

static inline void step_by_threads(group *g, const subject *s, int step) {
    static thread t[MOST];
    for (int w = 0; w < g->p->workers; w++) {
        t[w] = (thread){.g = g, .worker = w, .step = step, .algo = s->algo};
        assert_int_equal(pthread_create(&t[w].id, NULL, run_worker, &t[w]), 0);
    }
    for (int w = 0; w < g->p->workers; w++) pthread_join(t[w].id, NULL);
    for (int w = 0; w < g->p->workers; w++)
        if (t[w].st != MU_OK) fail_msg("%s: worker %d: %s", s->name, w, t[w].err.msg);
}

// All workers in this thread: nothing that a layer waits for may be later in the order.
static inline void step_in_order(group *g, int step) {
    const mu_step s = step_at(step);
    int at[MOST];
    mu_err err = {0};
    mu_status st = MU_OK;
    g->terms->limit_ns = 0;
    for (int w = 0; w < g->p->workers; w++) at[w] = 1, mu_net_begin_grads(g->net[w], &s);
    for (int i = 0; i < g->p->n_layers && st == MU_OK; i++) {
        const mu_part *p = g->p->layer[i];
        mu_net *net = g->net[p->worker];
        int *k = &at[p->worker];
        bool done = false;
        for (; !done && st == MU_OK; ++*k) {
            done = net->layer[*k]->name == p->name;
            st = mu_net_pass(net->layer[*k], MU_PASS_FORWARD, &s, &err);
        }
    }
    for (int w = 0; w < g->p->workers; w++) at[w] = g->net[w]->n_layers - 1;
    for (int i = g->p->n_layers - 1; i >= 0 && st == MU_OK; i--) {
        const mu_part *p = g->p->layer[i];
        mu_net *net = g->net[p->worker];
        int *k = &at[p->worker];
        bool done = false;
        for (; !done && st == MU_OK; --*k) {
            done = net->layer[*k]->name == p->name;
            st = mu_net_pass(net->layer[*k], MU_PASS_BACK, &s, &err);
        }
    }
    if (st != MU_OK) fail_msg("%s", err.msg);
}

// What worker w left for a piece; NULL = nothing.
static inline const mu_param *found_piece(const group *g, int w, const mu_piece *piece) {
    for (int i = 0; i < g->net[w]->params->n; i++) {
        const mu_param *q = g->net[w]->params->list[i];
        if (q->whole == piece->whole && q->row0 == piece->row0 && mu_param_rows(q) == piece->rows) return q;
    }
    return NULL;
}

// The gradients of all workers that have this piece, as one update of its rows.
static inline void apply_piece(group *g, const mu_piece *piece) {
    const mu_grad *grad[MOST];
    const mu_param *p = NULL;
    float weight[MOST];
    int n = 0;
    for (int w = 0; w < g->p->workers; w++) {
        const mu_param *q = found_piece(g, w, piece);
        const bool has = piece->workers >> w & 1;
        if ((q != NULL) != has) fail_msg("worker %d and a piece of %s", w, piece->whole->name);
        if (!q) continue;
        p = q;
        if (q->grad.form != MU_GRAD_NONE) grad[n] = &q->grad, weight[n++] = 1;
    }
    if (g->mutant == DROPPED_SHARE && n > 1) n--;
    for (int i = 0; i < n && g->mutant == MEAN_FOR_SUM; i++) weight[i] = 1 / (float)n;
    if (!n || p->is_stat) return;
    const mu_target t = mu_target_of(g->m.updater, g->m.net->params, p);
    mu_updater_apply(&t, &(mu_update){.n = n, .grad = grad, .weight = weight, .rate = g->m.updater->base});
}

static inline void apply_group(group *g) {
    for (int i = 0; i < g->p->n_pieces; i++) apply_piece(g, &g->p->piece[i]);
}

static inline double group_loss(const group *g) {
    double sum = 0, weight = 0;
    for (int w = 0; w < g->p->workers; w++)
        for (int i = 1; i < g->net[w]->n_layers; i++)
            for (int k = 0; k < g->net[w]->layer[i]->n_metric; k++) {
                const mu_metric *m = &g->net[w]->layer[i]->metric[k];
                if (m->is_loss) sum += m->sum, weight += m->weight;
            }
    return sum / weight;
}

static inline double loss_of(const mu_net *net) {
    double sum = 0, weight = 0;
    for (int i = 1; i < net->n_layers; i++)
        for (int k = 0; k < net->layer[i]->n_metric; k++)
            if (net->layer[i]->metric[k].is_loss)
                sum += net->layer[i]->metric[k].sum, weight += net->layer[i]->metric[k].weight;
    return sum / weight;
}

#endif
