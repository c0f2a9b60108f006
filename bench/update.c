// SPDX-License-Identifier: Apache-2.0
// update.c - the server's update path against plain memory bandwidth, one thread.
//
// For the parameters of an MLP (5.65 MB, in the third cache) and of AlexNet (about 240 MB, in memory), in a
// shared region as in a run: GB/s of w += a * g and of mu_apply_slice over all slices with a dense gradient
// from a queue slot, in turns. Bytes counted: 12 a weight (two read, one written), 20 with momentum; copies
// for undo are not counted. Medians; the ratio is the median of the ratios to axpy of the same turn.
// A rule with momentum keeps half as many bytes more in the caches as w += a * g does. Where that alone makes
// memory slower, its goal is the bandwidth of axpy over all that it touches: weights, gradient and history.
// Then GFLOP/s of multiplying factors out into an update, against the library's product alone.
//
// Build and run: ninja -C build bench_update && taskset -c 1 build/bench_update [mlp | alexnet | factors]
#include "base/alloc.h"
#include "comm/region.h"
#include "job/yaml.h"
#include "ops/gemm.h"
#include "ps/message.h"
#include "ps/slices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_PARAMS = 16, MAX_TURNS = 41 };

typedef struct world {
    mu_params ps;
    mu_param p[MAX_PARAMS], *list[MAX_PARAMS];
    mu_message_layout plan;
    mu_slice_list slices;
    mu_region region;
    mu_undo *undo;
    _Atomic size_t *done;
    char *slot;
    mu_grad grad[2];
    float weight[2];
} world;

static const mu_shape mlp[] = {{2, {1000, 784}}, {1, {1000}}, {2, {500, 1000}}, {1, {500}},
                               {2, {250, 500}},  {1, {250}},  {2, {10, 250}},   {1, {10}}};
static const mu_shape alexnet[] = {{4, {96, 3, 11, 11}},  {4, {256, 48, 5, 5}},  {4, {384, 256, 3, 3}},
                                   {4, {384, 192, 3, 3}}, {4, {256, 192, 3, 3}}, {2, {4096, 9216}},
                                   {2, {4096, 4096}},     {2, {1000, 4096}},     {1, {1000}}};

// Of this thread alone: what others on the machine take does not count.
static double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what, const mu_err *err) {
    fprintf(stderr, "%s: %s\n", what, err ? err->msg : "failed");
    exit(1);
}

static void world_init(world *w, const mu_shape *shape, int n) {
    mu_err err = {0};
    memset(w, 0, sizeof *w);
    for (int i = 0; i < n; i++) {
        mu_param *p = w->list[i] = &w->p[i];
        *p = (mu_param){.name = "p", .shape = shape[i], .lr_mult = 1, .decay_mult = 1, .n_users = 1};
        p->count = (size_t)mu_shape_count(&shape[i]);
        p->offset = w->ps.count;
        w->ps.count += (p->count + 15) / 16 * 16;
    }
    w->ps.n = n;
    w->ps.list = w->list;
    if (mu_message_layout_make(&w->ps, &w->plan, &err) != MU_OK) die("plan", &err);
    if (mu_slices_make(&w->ps, &w->slices, &err) != MU_OK) die("slices", &err);
    const size_t block = (w->ps.count * sizeof(float) + 4095) / 4096 * 4096;
    const size_t small = sizeof(mu_undo) + (size_t)w->slices.n * sizeof(size_t) + 4096;
    if (mu_region_create("bench", small + 2 * block + 8192 + w->plan.bytes, &w->region, &err) != MU_OK)
        die("region", &err);
    char *at = w->region.base;
    w->undo = (mu_undo *)(void *)at;
    w->done = (_Atomic size_t *)(void *)(at + sizeof(mu_undo));
    at += (small + 4095) / 4096 * 4096;
    w->ps.value = (float *)(void *)at;
    w->ps.slot[0] = (float *)(void *)(at + block + 11 * 64); // apart within a page, as in net/params.c
    w->slot = at + 2 * block + 4096 + 5 * 64;
    for (int i = 0; i < n; i++) {
        w->p[i].value = w->ps.value + w->p[i].offset;
        w->p[i].grad = (mu_grad){.form = MU_GRAD_DENSE, .dense = w->p[i].value};
        for (size_t k = 0; k < w->p[i].count; k++) w->p[i].value[k] = (float)(k % 1000) * 1e-5f;
        mu_message_put(&w->plan, w->slot, i, &w->p[i]);
    }
    w->ps.n_slots = 1;
    memset(w->ps.slot[0], 0, block - 4096);
}

static void world_fini(world *w) {
    mu_message_layout_fini(&w->plan);
    mu_slices_fini(&w->slices);
    mu_region_close(&w->region);
}

static void update(world *w, const mu_updater *u, float weight, bool undo) {
    w->weight[0] = weight;
    const mu_grad *grad = &w->grad[0];
    const mu_update one = {.n = 1, .grad = &grad, .weight = w->weight, .rate = 1e-6};
    const mu_apply a = {.updater = u, .params = &w->ps, .n = 1, .update = &one};
    for (int i = 0; i < w->slices.n; i++) {
        const mu_slice_range *r = &w->slices.range[i];
        w->grad[0] = mu_message_get(&w->plan, w->slot, r->param, &w->p[r->param]);
        atomic_store_explicit(&w->done[i], 0, memory_order_relaxed);
        mu_apply_slice(&a, r, &w->done[i], undo ? w->undo : NULL);
    }
}

static void axpy(world *w, const mu_updater *u, float a, bool undo) {
    (void)u, (void)undo;
    for (int i = 0; i < w->ps.n; i++) {
        const mu_param *p = &w->p[i];
        const float *restrict g = mu_message_get(&w->plan, w->slot, i, p).dense;
        float *restrict v = p->value;
        const size_t n = p->count;
        for (size_t k = 0; k < n; k++) v[k] += a * g[k];
    }
}

// Over the same bytes as a rule with momentum: half of the history is added to the other half.
static void axpy_all(world *w, const mu_updater *u, float a, bool undo) {
    axpy(w, u, a, undo);
    const size_t half = w->ps.count / 2;
    float *restrict v = w->ps.slot[0];
    const float *restrict g = v + half;
    for (size_t k = 0; k < half; k++) v[k] += a * g[k];
}

static mu_updater *updater_make(mu_arena *arena, const char *text) {
    static const mu_registry *const registries[] = {&mu_schedules, NULL};
    mu_diags diags;
    mu_err err = {0};
    mu_node *node = NULL;
    mu_diags_init(&diags, arena);
    if (mu_yaml_parse(arena, &diags, (mu_srcpos){"bench", 1, 1, 0}, text, strlen(text), &node, &err) != MU_OK)
        die(text, &err);
    mu_binder binder = {arena, &diags, ".", registries};
    mu_updater *u = mu_updater_bind(&binder, node);
    if (!u) die(text, NULL);
    return u;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static const double GOAL = 0.85;

static const struct variant {
    const char *name, *updater;
    float weight;
    double bytes;
    int peer; // whose bandwidth is the goal
    bool undo;
    void (*run)(world *, const mu_updater *, float, bool);
} variants[] = {
    {"axpy", "{type: sgd, rate: 1}", 1e-9f, 12, 0, false, axpy},
    {"axpy, also over the history", "{type: sgd, rate: 1}", 1e-9f, 18, 1, false, axpy_all},
    {"sgd", "{type: sgd, rate: 1}", 1, 12, 0, false, update},
    {"sgd, undo", "{type: sgd, rate: 1}", 1, 12, 0, true, update},
    {"momentum", "{type: sgd, momentum: 0.9, rate: 1}", 1, 20, 1, false, update},
    {"momentum, undo", "{type: sgd, momentum: 0.9, rate: 1}", 1, 20, 1, true, update},
    {"sgd, weight and decay", "{type: sgd, rate: 1, decay: 0.001}", 0.5f, 12, 0, false, update},
    {"momentum, weight and decay", "{type: sgd, momentum: 0.9, rate: 1, decay: 0.001}", 0.5f, 20, 1, false,
     update},
    {"momentum, weight, decay, undo", "{type: sgd, momentum: 0.9, rate: 1, decay: 0.001}", 0.5f, 20, 1, true,
     update},
};

static void bandwidth(const char *name, const mu_shape *shape, int n, int turns, int reps) {
    enum { V = sizeof variants / sizeof variants[0] };
    static double speed[V][MAX_TURNS], ratio[V][MAX_TURNS], reached[V][MAX_TURNS];
    mu_updater *u[V];
    mu_arena arena;
    world w;
    mu_arena_init(&arena, "bench");
    world_init(&w, shape, n);
    for (int v = 0; v < V; v++) u[v] = updater_make(&arena, variants[v].updater);
    printf("\n%s: %.2f MB of parameters, %d slices\n", name, (double)w.ps.count * 4e-6, w.slices.n);
    for (int t = -1; t < turns; t++)
        for (int v = 0; v < V; v++) {
            double best = 1e30;
            for (int r = 0; r < reps; r++) {
                double began = cpu_s();
                variants[v].run(&w, u[v], variants[v].weight, variants[v].undo);
                double took = cpu_s() - began;
                if (took < best) best = took;
            }
            if (t < 0) continue;
            speed[v][t] = (double)w.ps.count * variants[v].bytes / best * 1e-9;
            ratio[v][t] = speed[v][t] / speed[0][t];
            reached[v][t] = speed[v][t] / speed[variants[v].peer][t];
        }
    for (int v = 0; v < V; v++) {
        const double gbs = median(speed[v], turns), share = median(ratio[v], turns);
        printf("  %-30s %6.1f GB/s   %3.0f %% of axpy", variants[v].name, gbs, 100 * share);
        if (variants[v].peer) printf(", %3.0f %% of axpy over as much", 100 * median(reached[v], turns));
        printf("%s\n", median(reached[v], turns) < GOAL ? "   BELOW THE GOAL" : "");
    }
    world_fini(&w);
    mu_arena_fini(&arena);
}

// An update by the factors of `sources` gradients of `batch` samples each, in slices, and mu_gemm alone.
static void factors(int64_t rows, int64_t cols, int sources, int64_t batch) {
    const mu_shape shape = MU_SHAPE(rows, cols);
    mu_arena arena;
    world w;
    mu_arena_init(&arena, "bench");
    world_init(&w, &shape, 1);
    mu_updater *u = updater_make(&arena, "{type: sgd, momentum: 0.9, rate: 1}");
    float *x = mu_alloc_block((size_t)(2 * batch * cols) * sizeof(float), "bench");
    float *dy = mu_alloc_block((size_t)(2 * batch * rows) * sizeof(float), "bench");
    float *product = mu_alloc_block(w.ps.count * sizeof(float), "bench");
    if (!x || !dy || !product) die("memory", NULL);
    for (int64_t i = 0; i < 2 * batch * cols; i++) x[i] = (float)(i % 100) * 1e-2f;
    for (int64_t i = 0; i < 2 * batch * rows; i++) dy[i] = (float)(i % 77) * 1e-2f;
    for (int j = 0; j < sources; j++) {
        w.grad[j] = (mu_grad){
            .form = MU_GRAD_FACTORS, .batch = batch, .x = x + j * batch * cols, .dy = dy + j * batch * rows};
        w.weight[j] = 0.5f;
    }
    const mu_grad *grad[MU_COUNT(w.grad)];
    for (int j = 0; j < sources; j++) grad[j] = &w.grad[j];
    const mu_update one = {.n = sources, .grad = grad, .weight = w.weight, .rate = 1e-9};
    const mu_apply a = {.updater = u, .params = &w.ps, .n = 1, .update = &one};
    double best = 1e30, best_gemm = 1e30;
    for (int t = 0; t < 15; t++) {
        double began = cpu_s();
        for (int i = 0; i < w.slices.n; i++) {
            atomic_store(&w.done[i], 0);
            mu_apply_slice(&a, &w.slices.range[i], &w.done[i], w.undo);
        }
        double took = cpu_s() - began;
        if (took < best) best = took;
        began = cpu_s();
        for (int j = 0; j < sources; j++)
            mu_gemm(true, false, rows, cols, batch, w.grad[j].dy, rows, w.grad[j].x, cols, j > 0, product,
                    cols);
        took = cpu_s() - began;
        if (took < best_gemm) best_gemm = took;
    }
    const double work = 2e-9 * (double)rows * (double)cols * (double)(batch * sources);
    printf("  %5d x %-5d %d x %-4d %7.1f GFLOP/s with the update   %7.1f the library's product alone\n",
           (int)rows, (int)cols, sources, (int)batch, work / best, work / best_gemm);
    mu_free(x), mu_free(dy), mu_free(product);
    world_fini(&w);
    mu_arena_fini(&arena);
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : NULL;
    mu_gemm_set_threads(1);
    if (!only || !strcmp(only, "mlp")) bandwidth("MLP", mlp, (int)MU_COUNT(mlp), MAX_TURNS, 5);
    if (!only || !strcmp(only, "alexnet")) bandwidth("AlexNet", alexnet, (int)MU_COUNT(alexnet), 9, 2);
    if (only && strcmp(only, "factors")) return 0;
    printf("\nfactors, rows x cols, gradients x samples\n");
    static const int64_t batches[] = {2, 16, 32, 64, 128};
    for (size_t i = 0; i < MU_COUNT(batches); i++) factors(1000, 784, 2, batches[i]);
    for (size_t i = 1; i < MU_COUNT(batches); i += 2) factors(4096, 9216, 2, batches[i]);
    return 0;
}
