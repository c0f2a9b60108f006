// SPDX-License-Identifier: Apache-2.0
// test_ps_message.c - what is put into a slot comes out again in every form; a head that lies gives nothing
// or a view inside its part; the layout takes the cheapest form.
#include "unit/updater_help.h"

#include "device/device.h"
#include "ps/message.h"

enum { N_PARAMS = 6 };

typedef struct world {
    mu_params ps;
    mu_param p[N_PARAMS], *list[N_PARAMS];
    float *value[N_PARAMS], *grad[N_PARAMS];
    mu_message_layout layout;
    char *slot;
} world;

// factors 40 x 300 of batch 8; dense convolution; rows 50 x 6, at most 20; a bias; statistics; gathered from
// three rows of x a sample for 90 x 80
static void world_init(world *w) {
    static const mu_shape shape[N_PARAMS] = {
        {2, {40, 300}}, {4, {5, 3, 3, 3}}, {2, {50, 6}}, {1, {41}}, {1, {7}}, {2, {90, 80}},
    };
    memset(w, 0, sizeof *w);
    for (int i = 0; i < N_PARAMS; i++) {
        mu_param *p = w->list[i] = &w->p[i];
        p->name = "p";
        p->shape = shape[i];
        p->count = (size_t)mu_shape_count(&shape[i]);
        p->n_users = 1;
        p->allow_factors = true;
        p->value = w->value[i] = floats(p->count);
        p->grad.dense = w->grad[i] = floats(p->count);
        fill(p->value, p->count, 10 + (uint64_t)i, 1);
        fill(p->grad.dense, p->count, 20 + (uint64_t)i, 1);
        p->grad.form = MU_GRAD_DENSE;
    }
    w->p[0].max_batch = 8;
    w->p[2].max_rows = 20;
    w->p[4].is_stat = true;
    w->p[5].max_batch = 8, w->p[5].max_x = 3;
    w->ps.n = N_PARAMS;
    w->ps.list = w->list;
}
static void world_plan(world *w) {
    mu_err err = {0};
    if (mu_message_layout_make(&w->ps, &w->layout, &err) != MU_OK) fail_msg("%s", err.msg);
    w->slot = aligned_alloc(64, w->layout.bytes);
    assert_non_null(w->slot);
    memset(w->slot, 0xa5, w->layout.bytes);
}
static void world_fini(world *w) {
    for (int i = 0; i < N_PARAMS; i++) free(w->value[i]), free(w->grad[i]);
    mu_message_layout_fini(&w->layout);
    free(w->slot);
}

static void assert_same(const void *got, const void *want, size_t bytes, const char *what) {
    const unsigned char *a = got, *b = want;
    for (size_t i = 0; i < bytes; i++)
        if (a[i] != b[i]) fail_msg("%s: byte %zu of %zu is %02x, want %02x", what, i, bytes, a[i], b[i]);
}

static void test_plan(void **unused) {
    (void)unused;
    static const mu_grad_form want[N_PARAMS] = {MU_GRAD_FACTORS, MU_GRAD_DENSE, MU_GRAD_ROWS,
                                                MU_GRAD_DENSE,   MU_GRAD_DENSE, MU_GRAD_GATHERED};
    world w;
    world_init(&w);
    world_plan(&w);
    assert_int_equal(w.layout.n, N_PARAMS);
    size_t end = 0;
    for (int i = 0; i < N_PARAMS; i++) {
        assert_int_equal(w.layout.part[i].offset, end);
        assert_int_equal(w.layout.part[i].offset % 64, 0);
        assert_int_equal(w.layout.part[i].bytes % 64, 0);
        end += w.layout.part[i].bytes;
        assert_int_equal(w.layout.part[i].form, want[i]);
    }
    assert_int_equal(w.layout.bytes, end);
    assert_true(w.layout.part[0].bytes < 40 * 300 * 4 / 2 + 256);
    assert_true(w.layout.part[5].bytes < 90 * 80 * 4 / 2 + 256);
    world_fini(&w);

    world_init(&w); // layers may not
    for (int i = 0; i < N_PARAMS; i++) w.p[i].allow_factors = false;
    world_plan(&w);
    for (int i = 0; i < N_PARAMS; i++) assert_int_equal(w.layout.part[i].form, MU_GRAD_DENSE);
    world_fini(&w);

    world_init(&w); // layers share the matrices: dense
    w.p[0].n_users = w.p[2].n_users = w.p[5].n_users = 2;
    world_plan(&w);
    for (int i = 0; i < N_PARAMS; i++) assert_int_equal(w.layout.part[i].form, MU_GRAD_DENSE);
    world_fini(&w);

    world_init(&w); // batches so large that dense is smaller
    w.p[0].max_batch = 18, w.p[2].max_rows = 51, w.p[5].max_batch = 9;
    world_plan(&w);
    for (int i = 0; i < N_PARAMS; i++) assert_int_equal(w.layout.part[i].form, MU_GRAD_DENSE);
    world_fini(&w);
}

static void test_there_and_back(void **unused) {
    (void)unused;
    world w;
    world_init(&w);
    world_plan(&w);
    float x[8 * 300], dy[8 * 40], v[20 * 6], words[8 * 3 * 80], best[8 * 90];
    int32_t id[20], at[8 * 90];
    fill(words, 8 * 3 * 80, 4, 1), fill(best, 8 * 90, 5, 1);
    for (int k = 0; k < 8 * 90; k++) at[k] = k % 25 - 1;
    fill(x, 8 * 300, 1, 1), fill(dy, 8 * 40, 2, 1), fill(v, 20 * 6, 3, 1);
    for (int k = 0; k < 20; k++) id[k] = (k * 7) % 50;
    for (int64_t n = 1; n <= 8; n += 7) {
        w.p[0].grad.form = MU_GRAD_FACTORS;
        w.p[0].grad.batch = n, w.p[0].grad.x = x, w.p[0].grad.dy = dy;
        w.p[2].grad.form = MU_GRAD_ROWS;
        w.p[2].grad.n_rows = n * 2, w.p[2].grad.row = id, w.p[2].grad.row_value = v;
        w.p[5].grad.form = MU_GRAD_GATHERED;
        w.p[5].grad.batch = n, w.p[5].grad.n_x = n * 3, w.p[5].grad.x = words, w.p[5].grad.dy = best;
        w.p[5].grad.src_row = at;
        for (int i = 0; i < N_PARAMS; i++) mu_message_put(&w.layout, w.slot, i, &w.p[i]);
        mu_grad g = mu_message_get(&w.layout, w.slot, 0, &w.p[0]);
        assert_int_equal(g.form, MU_GRAD_FACTORS);
        assert_int_equal(g.batch, n);
        assert_same(g.x, x, (size_t)n * 300 * 4, "x");
        assert_same(g.dy, dy, (size_t)n * 40 * 4, "dy");
        g = mu_message_get(&w.layout, w.slot, 2, &w.p[2]);
        assert_int_equal(g.form, MU_GRAD_ROWS);
        assert_int_equal(g.n_rows, n * 2);
        assert_same(g.row, id, (size_t)n * 2 * 4, "ids");
        assert_same(g.row_value, v, (size_t)n * 2 * 6 * 4, "rows");
        g = mu_message_get(&w.layout, w.slot, 5, &w.p[5]);
        assert_int_equal(g.form, MU_GRAD_GATHERED);
        assert_int_equal(g.batch, n);
        assert_int_equal(g.n_x, n * 3);
        assert_same(g.x, words, (size_t)n * 3 * 80 * 4, "x to gather from");
        assert_same(g.dy, best, (size_t)n * 90 * 4, "dy of gathered rows");
        assert_same(g.src_row, at, (size_t)n * 90 * 4, "source rows");
    }
    for (int i = 1; i < 5; i += i == 1 ? 2 : 1) {
        mu_grad g = mu_message_get(&w.layout, w.slot, i, &w.p[i]);
        assert_int_equal(g.form, MU_GRAD_DENSE);
        assert_same(g.dense, w.p[i].is_stat ? w.value[i] : w.grad[i], w.p[i].count * 4, "dense");
    }
    for (int i = 0; i < N_PARAMS; i++) { // nothing of an earlier step shines through
        if (w.p[i].is_stat) continue;
        w.p[i].grad.form = MU_GRAD_NONE;
        mu_message_put(&w.layout, w.slot, i, &w.p[i]);
        assert_int_equal(mu_message_get(&w.layout, w.slot, i, &w.p[i]).form, MU_GRAD_NONE);
    }
    world_fini(&w);
}

// Every byte a view may lead to lies in the part.
static void assert_inside(const world *w, int i, const mu_grad *g) {
    const mu_message_part *part = &w->layout.part[i];
    const char *lo = w->slot + part->offset + 1, *hi = w->slot + part->offset + part->bytes;
    const size_t rows = (size_t)w->p[i].shape.d[0], cols = w->p[i].count / rows;
    assert_true(g->batch >= 0 && g->batch <= part->max_batch && g->n_x >= 0 && g->n_x <= part->max_x);
    const struct {
        const void *at;
        size_t n;
    } a[] = {
        {g->dense, g->form == MU_GRAD_DENSE ? w->p[i].count : 0},
        {g->x, g->form == MU_GRAD_FACTORS ? (size_t)g->batch * cols : 0},
        {g->dy, g->form == MU_GRAD_FACTORS || g->form == MU_GRAD_GATHERED ? (size_t)g->batch * rows : 0},
        {g->x, g->form == MU_GRAD_GATHERED ? (size_t)g->n_x * cols : 0},
        {g->src_row, g->form == MU_GRAD_GATHERED ? (size_t)g->batch * rows : 0},
        {g->row, g->form == MU_GRAD_ROWS ? (size_t)g->n_rows : 0},
        {g->row_value, g->form == MU_GRAD_ROWS ? (size_t)g->n_rows * cols : 0},
    };
    for (size_t k = 0; k < MU_COUNT(a); k++)
        if (a[k].n && ((const char *)a[k].at < lo || (const char *)a[k].at + 4 * a[k].n > hi))
            fail_msg("parameter %d, form %d: array %zu of %zu values leaves its part", i, (int)g->form, k,
                     a[k].n);
}

static void test_lying_heads(void **unused) {
    (void)unused;
    static const int64_t sizes[] = {0, 1, 8, 9, 20, 21, 24, 25, -1, INT64_MIN, INT64_MAX, (int64_t)1 << 60};
    static const uint32_t forms[] = {0, 1, 2, 3, 4, 5, 255, 0x80000000u, 0xffffffffu};
    world w;
    world_init(&w);
    world_plan(&w);
    for (int i = 0; i < N_PARAMS; i++)
        for (size_t f = 0; f < MU_COUNT(forms); f++)
            for (size_t k = 0; k < MU_COUNT(sizes) * MU_COUNT(sizes); k++) {
                char *head = w.slot + w.layout.part[i].offset;
                memcpy(head, &forms[f], 4);
                memcpy(head + 8, &sizes[k % MU_COUNT(sizes)], 8);
                memcpy(head + 16, &sizes[k / MU_COUNT(sizes)], 8);
                mu_grad g = mu_message_get(&w.layout, w.slot, i, &w.p[i]);
                if (g.form != MU_GRAD_NONE) assert_int_equal((uint32_t)g.form, forms[f]);
                assert_inside(&w, i, &g);
            }
    world_fini(&w);
}

static void test_out_of_memory(void **unused) {
    (void)unused;
    world w;
    world_init(&w);
    mu_err err = {0};
    mu_alloc_fail_at(1);
    assert_int_equal(mu_message_layout_make(&w.ps, &w.layout, &err), MU_ENOMEM);
    mu_alloc_fail_at(0);
    assert_null(w.layout.part);
    world_fini(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_lying_heads),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
