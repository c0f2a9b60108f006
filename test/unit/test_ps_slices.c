// SPDX-License-Identifier: Apache-2.0
// test_ps_slices.c - slices cover every parameter once; applying them is applying the whole; and an executor
// that is killed at random moments, repaired and replaced, leaves the bits of an undisturbed run.
#include "unit/updater_help.h"

#include "ps/slices.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_PARAMS = 7, PARTS = 4, POOL = 4, BATCH = 5, NAMED = 30, BLOCKS = 1 + MU_MAX_SLOTS };

// One parameter for each form: dense, factors, rows, a mixture; a bias; statistics; and factors or gathered
// ones with rows longer than a piece. Rows of three are limited, most of them from the first update on.
enum { ANY = -1, LONG = -2 };
static const int forms[N_PARAMS] = {MU_GRAD_DENSE, MU_GRAD_FACTORS, MU_GRAD_ROWS, ANY,
                                    MU_GRAD_DENSE, MU_GRAD_DENSE,   LONG};
static const float max_norm[N_PARAMS] = {0, 5.8f, 1.8f, 4.6f, 0, 0, 0};
static const mu_shape shapes[N_PARAMS] = {
    {4, {20, 7, 5, 5}}, {2, {90, 410}}, {2, {300, 40}}, {2, {33, 260}}, {1, {77}}, {1, {50}}, {2, {9, 2075}},
};
static int form_of(int param, int k) {
    if (forms[param] == LONG) return k % 2 ? MU_GRAD_FACTORS : MU_GRAD_GATHERED;
    return forms[param] == ANY ? 1 + k % 4 : forms[param];
}

typedef struct world {
    mu_params ps;
    mu_param p[N_PARAMS], *list[N_PARAMS];
    mu_grad grad[POOL][PARTS][N_PARAMS]; // of update number modulo POOL
    float weight[PARTS];
    int n_parts;
    bool young; // every second update belongs to the young part of the training
    mu_slice_list slices;
    float *block[BLOCKS];
} world;

static mu_grad grad_make(const mu_param *p, int form, uint64_t seed) {
    const int64_t rows = p->shape.d[0], cols = (int64_t)p->count / rows;
    mu_grad g = {.form = (mu_grad_form)form};
    float *a = floats(p->count + NAMED * (size_t)cols + BATCH * (size_t)(rows + cols));
    int32_t *id = calloc(NAMED + BATCH * (size_t)rows, sizeof *id), *at = id + NAMED;
    assert_non_null(id);
    for (int64_t k = 0; k < BATCH * rows; k++) // some have none
        at[k] = (int32_t)((k * 7 + (int64_t)seed) % (BATCH + 1));
    fill(a, p->count + NAMED * (size_t)cols, seed, 1);
    for (int k = 0; k < NAMED; k++) id[k] = (int32_t)(fabsf(noise(seed + 1, (size_t)k)) * (float)rows);
    g.dense = a;
    g.n_rows = NAMED, g.row = id, g.row_value = a;
    g.batch = g.n_x = BATCH, g.x = a, g.dy = a + BATCH * cols, g.src_row = at;
    return g;
}

static void world_init(world *w, void *memory, int n_slots) {
    memset(w, 0, sizeof *w);
    for (int i = 0; i < N_PARAMS; i++) {
        mu_param *p = w->list[i] = &w->p[i];
        *p = (mu_param){.name = "p", .shape = shapes[i], .lr_mult = 1, .decay_mult = 1, .is_stat = i == 5};
        p->count = (size_t)mu_shape_count(&p->shape);
        p->max_norm = max_norm[i];
        p->offset = w->ps.count;
        w->ps.count += (p->count + 15) / 16 * 16;
        for (int u = 0; u < POOL; u++)
            for (int j = 0; j < PARTS; j++)
                w->grad[u][j][i] = grad_make(p, form_of(i, u + j), (uint64_t)(u * 100 + j * 10 + i));
    }
    for (int j = 0; j < PARTS; j++) w->weight[j] = 0.25f + 0.25f * (float)j;
    w->n_parts = PARTS;
    w->ps.n = N_PARAMS;
    w->ps.list = w->list;
    for (int k = 0; k < BLOCKS; k++) w->block[k] = (float *)memory + (size_t)k * w->ps.count;
    w->ps.value = w->block[0];
    w->ps.n_slots = n_slots;
    for (int k = 0; k < n_slots; k++) w->ps.slot[k] = w->block[1 + k];
    for (int k = 0; k < BLOCKS; k++) memset(w->block[k], 0, w->ps.count * sizeof(float));
    for (int i = 0; i < N_PARAMS; i++) fill(w->ps.value + w->p[i].offset, w->p[i].count, (uint64_t)i, 0.5f);
    mu_err err = {0};
    if (mu_slices_make(&w->ps, &w->slices, &err) != MU_OK) fail_msg("%s", err.msg);
}
static void world_fini(world *w) {
    for (int u = 0; u < POOL; u++)
        for (int j = 0; j < PARTS; j++)
            for (int i = 0; i < N_PARAMS; i++) {
                free(w->grad[u][j][i].dense);
                free((void *)(uintptr_t)w->grad[u][j][i].row);
            }
    mu_slices_fini(&w->slices);
}
static size_t world_bytes(void) {
    size_t n = 0;
    for (int i = 0; i < N_PARAMS; i++) n += ((size_t)mu_shape_count(&shapes[i]) + 15) / 16 * 16;
    return n * BLOCKS * sizeof(float);
}

enum { RUN = 5 };       // updates of a run at most
typedef struct made {   // a run of updates, for one slice at a time
    mu_apply a;
    mu_update update[RUN];
    const mu_grad *grad[RUN][PARTS];
} made;

// Some young, and some of stale gradients with weights that look ahead.
static mu_rule_step step_of(const world *w, const mu_updater *u, int64_t step) {
    const bool lowers = mu_updater_momentum(u, false) > 0 && step % 3;
    return (mu_rule_step){.update = step, .young = w->young && step % 2,
                          .stale = {.lowers = lowers, .keep = 0.95f, .ahead = (float)(step % 4)}};
}

// Updates [step, step + n) for the slices of a parameter.
static const mu_apply *apply_make(made *m, world *w, const mu_updater *u, int64_t step, int n, int param) {
    for (int k = 0; k < n; k++, step++) {
        for (int j = 0; j < w->n_parts; j++) m->grad[k][j] = &w->grad[step % POOL][j][param];
        m->update[k] = (mu_update){w->n_parts, m->grad[k], w->weight, 0.01, step_of(w, u, step)};
    }
    m->a = (mu_apply){u, &w->ps, n, m->update};
    return &m->a;
}

// n gradients an update, of one sample where they are factors or gathered.
static void make_small(world *w, int n, bool young) {
    w->n_parts = n;
    w->young = young;
    for (int u = 0; u < POOL; u++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i < N_PARAMS; i++) w->grad[u][j][i].batch = 1;
}

static void assert_same_bits(const world *a, const world *b, const char *what) {
    for (int k = 0; k < BLOCKS; k++)
        for (int i = 0; i < N_PARAMS; i++)
            for (size_t e = 0; e < a->p[i].count; e++) {
                const float x = a->block[k][a->p[i].offset + e], y = b->block[k][b->p[i].offset + e];
                if (memcmp(&x, &y, sizeof x))
                    fail_msg("%s: block %d, parameter %d, element %zu: %.9g and %.9g", what, k, i, e,
                             (double)x, (double)y);
            }
}

// ---- cutting ----

static void test_cutting(void **unused) {
    (void)unused;
    static const mu_shape all[] = {
        {2, {1000, 784}}, {2, {500, 1000}},  {1, {10}},        {4, {96, 3, 11, 11}},
        {0, {0}},         {2, {4096, 9216}}, {2, {3, 100000}}, {1, {200000}},
        {2, {16, 25088}}, {2, {50000, 128}}, {2, {1, 1}},
    };
    enum { N = sizeof all / sizeof all[0] };
    mu_param p[N], *list[N];
    for (int i = 0; i < N; i++) {
        p[i] = (mu_param){.shape = all[i], .count = (size_t)mu_shape_count(&all[i])};
        list[i] = &p[i];
    }
    mu_params ps = {.n = N, .list = list};
    mu_slice_list l;
    mu_err err = {0};
    assert_int_equal(mu_slices_make(&ps, &l, &err), MU_OK);
    size_t at = 0;
    int param = 0;
    for (int i = 0; i < l.n; i++) {
        const mu_slice_range *r = &l.range[i];
        const size_t count = p[r->param].count;
        const size_t cols = count / (size_t)(p[r->param].shape.n ? p[r->param].shape.d[0] : 1);
        if (at == p[param].count) param++, at = 0;
        assert_int_equal(r->param, param);
        assert_int_equal(r->begin, at);
        assert_true(r->end > r->begin && r->end <= count);
        bool rows = r->begin % cols == 0 && r->end % cols == 0;
        bool part = r->begin / cols == (r->end - 1) / cols;
        if (!rows && !part) fail_msg("slice %d, [%zu, %zu) of rows of %zu", i, r->begin, r->end, cols);
        assert_true(r->end - r->begin <= (size_t)32768 * 8);
        at = r->end;
    }
    assert_int_equal(param, N - 1);
    assert_int_equal(at, p[N - 1].count);
    mu_slices_fini(&l);
    mu_alloc_fail_at(1);
    assert_int_equal(mu_slices_make(&ps, &l, &err), MU_ENOMEM);
    mu_alloc_fail_at(0);
}

// ---- applying ----

static void whole_update(world *w, const mu_updater *u, int64_t step) {
    for (int i = 0; i < N_PARAMS; i++) {
        const mu_param *p = &w->p[i];
        const mu_grad *list[PARTS];
        const mu_target t = mu_target_of(u, &w->ps, p);
        for (int j = 0; j < PARTS; j++) list[j] = &w->grad[step % POOL][j][i];
        mu_updater_apply(&t, &(mu_update){PARTS, list, w->weight, 0.01, step_of(w, u, step)});
        for (size_t e = 0; e < p->count && p->is_stat; e++) {
            float sum = 0;
            for (int j = 0; j < PARTS; j++) sum += list[j]->dense[e];
            t.value[e] = sum / PARTS;
        }
    }
}

static void test_slices_are_the_whole(void **unused) {
    (void)unused;
    void *a = malloc(world_bytes()), *b = malloc(world_bytes());
    mu_undo *undo = aligned_alloc(64, sizeof *undo);
    assert_non_null(a), assert_non_null(b), assert_non_null(undo);
    memset(undo, 0, sizeof *undo);
    for (int with_undo = 0; with_undo < 2; with_undo++) {
        bound bd;
        mu_updater *u = bound_get(&bd, "{type: adam, rate: 1, decay: 0.01}");
        world whole, cut;
        world_init(&whole, a, MU_MAX_SLOTS), world_init(&cut, b, MU_MAX_SLOTS);
        for (int64_t step = 0; step < 4; step++) {
            whole_update(&whole, u, step);
            made m;
            for (int i = 0; i < cut.slices.n; i++) {
                const mu_slice_range *r = &cut.slices.range[i];
                const mu_apply *ap = apply_make(&m, &cut, u, step, 1, r->param);
                _Atomic size_t done = 0;
                mu_apply_slice(ap, r, &done, with_undo ? undo : NULL);
                assert_int_equal(atomic_load(&done), (r->end - r->begin) * (max_norm[r->param] > 0 ? 2 : 1));
                mu_apply_slice(ap, r, &done, with_undo ? undo : NULL); // finished: changes nothing
                assert_false(mu_undo_restore(undo, &cut.ps));
            }
        }
        assert_same_bits(&whole, &cut, with_undo ? "with undo" : "without undo");
        world_fini(&whole), world_fini(&cut);
        bound_fini(&bd);
    }
    free(a), free(b), free(undo);
}

// A run is the same bits as its updates one by one, for every rule and form, kept or not.
static void test_runs_are_their_updates(void **state) {
    (void)state;
    void *a = malloc(world_bytes()), *b = malloc(world_bytes());
    mu_undo *undo = aligned_alloc(64, sizeof *undo);
    assert_non_null(a), assert_non_null(b), assert_non_null(undo);
    memset(undo, 0, sizeof *undo);
    for (size_t k = 0; k < 4 * mu_updaters.n; k++) {
        char text[160];
        bound bd;
        const char *name = mu_updaters.list[k / 4]->name;
        const bool kept = k & 1, small = k & 2;
        snprintf(text, sizeof text, "{type: %s, rate: 1, decay: 0.01}", name);
        mu_updater *u = bound_get(&bd, text);
        world whole, run;
        world_init(&whole, a, u->class->n_slots), world_init(&run, b, u->class->n_slots);
        if (small) make_small(&whole, 2, false), make_small(&run, 2, false);
        for (int64_t step = 0; step < 2 * RUN; step++)
            for (int i = 0; i < whole.slices.n; i++) {
                made m;
                _Atomic size_t done = 0;
                const mu_slice_range *r = &whole.slices.range[i];
                mu_apply_slice(apply_make(&m, &whole, u, step, 1, r->param), r, &done, NULL);
            }
        for (int64_t step = 0; step < 2 * RUN; step += RUN)
            for (int i = 0; i < run.slices.n; i++) {
                made m;
                _Atomic size_t done = 0;
                const mu_slice_range *r = &run.slices.range[i];
                mu_apply_slice(apply_make(&m, &run, u, step, RUN, r->param), r, &done, kept ? undo : NULL);
                assert_int_equal(atomic_load(&done),
                                 RUN * (r->end - r->begin) * (max_norm[r->param] > 0 ? 2 : 1));
            }
        assert_same_bits(&whole, &run, text);
        world_fini(&whole), world_fini(&run);
        bound_fini(&bd);
    }
    free(a), free(b), free(undo);
}

// ---- killing ----

enum { KILLS = 300, LONG_RUN = 400 };

typedef struct scene {      // shared memory
    _Atomic int64_t at;     // run * slices + slice in progress
    _Atomic size_t done[2]; // of slice `at`, and of the next one
    _Atomic int32_t started;
    mu_undo undo;
    float blocks[];
} scene;

// Applies slices from where the scene stands, in runs of `run` updates; to the end of run `end`, or for ever.
static void work_on(scene *s, world *w, const mu_updater *u, int run, int64_t end) {
    made m;
    for (int64_t at; (at = atomic_load(&s->at)) / w->slices.n < end;) {
        const mu_slice_range *r = &w->slices.range[at % w->slices.n];
        const mu_apply *a = apply_make(&m, w, u, at / w->slices.n * run, run, r->param);
        mu_apply_slice(a, r, &s->done[at % 2], &s->undo);
        atomic_store(&s->done[(at + 1) % 2], 0);
        atomic_store(&s->at, at + 1);
    }
}

static void wait_ns(int64_t ns) {
    struct timespec t0, t;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    do clock_gettime(CLOCK_MONOTONIC, &t);
    while ((t.tv_sec - t0.tv_sec) * 1000000000 + t.tv_nsec - t0.tv_nsec < ns);
}

// Kills one executor at a random moment; true if it was inside a piece.
static bool kill_one(scene *s, world *w, const mu_updater *u, int run, int64_t after_ns) {
    atomic_store(&s->started, 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        atomic_store(&s->started, 1);
        work_on(s, w, u, run, INT64_MAX);
        _exit(0);
    }
    for (int i = 0; i < 100000 && !atomic_load(&s->started); i++) usleep(20);
    wait_ns(after_ns);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    bool torn = mu_undo_restore(&s->undo, &w->ps);
    assert_false(mu_undo_restore(&s->undo, &w->ps)); // once
    return torn;
}

// small: gradients of one sample each; 0 = several of more samples.
static void kill_storm(const char *block, uint64_t seed, int small, int run) {
    bound b;
    mu_updater *u = bound_get(&b, block);
    const size_t bytes = sizeof(scene) + world_bytes();
    scene *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    float *calm_blocks = malloc(world_bytes());
    assert_true(s != MAP_FAILED);
    assert_non_null(calm_blocks);
    const int n_slots = u->class->n_slots;
    world stormy, calm;
    world_init(&stormy, s->blocks, n_slots), world_init(&calm, calm_blocks, n_slots);
    const bool young = strstr(block, "early");
    if (small) make_small(&stormy, small, young), make_small(&calm, small, young);
    int torn = 0, kills = 0;
    for (; kills < KILLS || (!torn && kills < 10 * KILLS); kills++) { // on a busy machine most come too early
        torn += kill_one(s, &stormy, u, run, (int64_t)(fabsf(noise(seed, (size_t)kills)) * 200e3f));
        // With one core an executor makes many updates before its end, and all are to be repeated.
        if (torn >= KILLS / 30 && atomic_load(&s->at) / stormy.slices.n > LONG_RUN) break;
    }
    const int64_t end = atomic_load(&s->at) / stormy.slices.n + 1;
    work_on(s, &stormy, u, run, end);
    for (int64_t step = 0; step < end * run; step++) { // one update at a time
        made m;
        for (int i = 0; i < calm.slices.n; i++) {
            const mu_slice_range *r = &calm.slices.range[i];
            _Atomic size_t done = 0;
            mu_apply_slice(apply_make(&m, &calm, u, step, 1, r->param), r, &done, NULL);
        }
    }
    print_message("%s: %d kills, %d inside a piece, %lld updates\n", block, kills, torn, (long long)end);
    assert_same_bits(&stormy, &calm, block);
    assert_true(torn > 0);
    world_fini(&stormy), world_fini(&calm);
    munmap(s, bytes);
    free(calm_blocks);
    bound_fini(&b);
}

static void test_killed_executors(void **unused) {
    (void)unused;
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t r = 0; r < mu_updaters.n; r++) {
        char text[160];
        snprintf(text, sizeof text, "{type: %s, rate: 0.01%s}", mu_updaters.list[r]->name,
                 r % 2 ? ", decay: 0.001" : "");
        kill_storm(text, seed + r, 0, 1);
        kill_storm(text, seed + 50 + r, 0, 2 + (int)(r % (RUN - 1)));
    }
    static const char *const sgd[] = {
        "{type: sgd, momentum: 0.9, rate: 0.01}", "{type: sgd, momentum: 0.9, decay: 0.001, rate: 0.01}",
        "{type: sgd, momentum: 0.9, decay: 0.001, early: 5 steps, early_momentum: 0, rate: 0.01}"};
    for (size_t i = 0; i < 5 * MU_COUNT(sgd); i++) {
        const int run = 1 + (int)(i % 3);
        kill_storm(sgd[i / 5], seed + 100 + i, (int)(i % 5), run);
    }
}

// A piece that was counted is finished, also when the executor died before it cleared valid.
static void test_counted_pieces_stay(void **unused) {
    (void)unused;
    const size_t bytes = sizeof(scene) + world_bytes();
    scene *s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(s != MAP_FAILED);
    world w;
    world_init(&w, s->blocks, 1);
    mu_undo *u = &s->undo;
    float *value = w.ps.value + w.p[0].offset;
    u->param = 0, u->begin = 3, u->n = 3, u->kept = 2, u->n_blocks = 1, u->at = 10;
    u->done_from_here = (char *)&s->done[0] - (char *)u;
    u->was[0][0] = 41, u->was[0][1] = 42;
    value[3] = 1, value[4] = 2, value[5] = 3;
    atomic_store(&u->valid, 1), atomic_store(&s->done[0], 12);
    assert_false(mu_undo_restore(u, &w.ps));
    assert_near(value[3], 1, 0);
    atomic_store(&u->valid, 1), atomic_store(&s->done[0], 10);
    assert_true(mu_undo_restore(u, &w.ps));
    assert_near(value[3], 41, 0);
    assert_near(value[4], 42, 0);
    assert_near(value[5], 3, 0);
    assert_false(mu_undo_restore(u, &w.ps));
    world_fini(&w);
    munmap(s, bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cutting),
        cmocka_unit_test(test_slices_are_the_whole),
        cmocka_unit_test(test_runs_are_their_updates),
        cmocka_unit_test(test_counted_pieces_stay),
        cmocka_unit_test(test_killed_executors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
