// SPDX-License-Identifier: Apache-2.0
// test_ps_wire_forms.c - in which form gradients travel between ranks: by bytes, and every float of the
// summed ones is of one parameter and in the stretch of one rank.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ps/wire_forms.h"

#include <string.h>

enum { WIDE, FACTORED, BIAS, MEAN, FROZEN, FROZEN_BIAS, DEEP, N };

typedef struct rig {
    mu_param p[N], *list[N];
    mu_params ps;
    mu_wire_forms f;
} rig;

// One of each kind. FACTORED: x and dy of a sample are 300 floats, its gradient is 20000.
static void make_half(rig *r, int ranks, int learners, bool scaled, mu_half half) {
    static const mu_shape shape[N] = {{2, {300, 70}}, {2, {200, 100}}, {1, {300}}, {1, {5000}},
                                      {2, {90, 80}},  {1, {90}},       {4, {40, 9, 5, 5}}};
    mu_err err = {0};
    *r = (rig){.ps = {.n = N, .list = r->list}};
    for (int i = 0; i < N; i++) {
        r->p[i] = (mu_param){.name = "p", .shape = shape[i], .n_users = 1, .allow_factors = true};
        r->p[i].lr_mult = 1;
        r->p[i].count = (size_t)mu_shape_count(&shape[i]);
        r->list[i] = &r->p[i];
    }
    r->p[FACTORED].max_batch = 8;
    r->p[MEAN].is_stat = true;
    r->p[FROZEN].lr_mult = r->p[FROZEN_BIAS].lr_mult = 0;
    if (mu_wire_forms_make(&r->ps, ranks, learners, scaled, half, &r->f, &err) != MU_OK)
        fail_msg("%s", err.msg);
}

static void make(rig *r, int ranks, int learners, bool scaled) {
    make_half(r, ranks, learners, scaled, MU_HALF_NONE);
}

// A letter of each parameter: summed, apart, or each.
static void assert_summed(const rig *r, const char *want) {
    char got[N + 1] = "";
    for (int i = 0; i < N; i++) got[i] = r->f.summed[i] ? 's' : r->f.apart[i] ? 'a' : 'e';
    assert_string_equal(got, want);
    assert_ptr_equal(r->f.share.apart, r->f.apart);
}

static void test_choice(void **unused) {
    (void)unused;
    rig r;
    char text[200];
    make(&r, 4, 1, false);
    assert_summed(&r, "seeeaas"); // statistics are no gradients, small ones cost more, frozen ones stay
    assert_true(r.p[FACTORED].allow_factors);
    const int64_t each = 3 * 4 * (8 * 300 + 300 + 5000), sum = (21000 + 9000) * 4 * 2 * 3 / 4;
    assert_int_equal(r.f.step_bytes, each + sum);
    mu_wire_forms_text(&r.f, text, sizeof text);
    assert_string_equal(text, "1 as factors, 2 dense, 2 summed up; at most 272.4 KB leave a rank in a step");
    mu_wire_forms_fini(&r.f);
    make(&r, 4, 16, false); // 16 times the factors are more than their sum
    assert_false(r.p[FACTORED].allow_factors);
    assert_summed(&r, "sseeaas");
    mu_wire_forms_fini(&r.f);
    make(&r, 4, 16, true);
    assert_true(r.p[FACTORED].allow_factors);
    assert_summed(&r, "eeeeaae");
    assert_int_equal(mu_wire_forms_floats(&r.f), 0);
    mu_wire_forms_fini(&r.f);
}

// Sums cost half as much, and so factors that were cheaper than sums are not any more.
static void test_half(void **unused) {
    (void)unused;
    rig r;
    char text[200];
    make_half(&r, 4, 1, false, MU_HALF_BF16);
    assert_summed(&r, "seeeaas");
    assert_int_equal(r.f.step_bytes, 3 * 4 * (8 * 300 + 300 + 5000) + (21000 + 9000) * 2 * 2 * 3 / 4);
    mu_wire_forms_text(&r.f, text, sizeof text);
    assert_string_equal(
        text, "1 as factors, 2 dense, 2 summed up in bf16; at most 182.4 KB leave a rank in a step");
    mu_wire_forms_fini(&r.f);
    make(&r, 4, 3, false);
    assert_true(r.p[FACTORED].allow_factors);
    mu_wire_forms_fini(&r.f);
    make_half(&r, 4, 3, false, MU_HALF_FP16);
    assert_false(r.p[FACTORED].allow_factors);
    mu_wire_forms_text(&r.f, text, sizeof text);
    assert_non_null(strstr(text, "3 summed up in fp16"));
    mu_wire_forms_fini(&r.f);
}

// However it is cut, the parts follow each other, and a part ends where its parameter or the stretch does.
static void test_floats(void **unused) {
    (void)unused;
    for (int ranks = 2; ranks <= 9; ranks++) {
        rig r;
        make(&r, ranks, 16, false);
        const int64_t all = mu_wire_forms_floats(&r.f);
        assert_int_equal(all, 21000 + 20000 + 9000);
        assert_int_equal(r.f.stretch[0], 0);
        size_t floats[N] = {0};
        for (int rank = 0; rank < ranks; rank++) {
            const int64_t end = r.f.stretch[rank + 1];
            assert_true(r.f.stretch[rank] < end && end - r.f.stretch[rank] <= all / ranks + 17);
            for (int64_t at = r.f.stretch[rank]; at < end;) {
                const mu_summed s = mu_wire_forms_summed(&r.f, at, end);
                assert_true(s.n > 0 && r.f.summed[s.param]);
                assert_int_equal(s.from, floats[s.param]);
                floats[s.param] += s.n;
                at += (int64_t)s.n;
                assert_true(at == end || floats[s.param] == r.p[s.param].count);
            }
        }
        for (int i = 0; i < N; i++) assert_int_equal(floats[i], r.f.summed[i] ? r.p[i].count : 0);
        mu_wire_forms_fini(&r.f);
    }
}

static void test_no_memory(void **unused) {
    (void)unused;
    mu_status st = MU_ENOMEM;
    for (int n = 1; st == MU_ENOMEM; n++) {
        rig r;
        make(&r, 2, 1, false);
        mu_wire_forms_fini(&r.f);
        mu_alloc_fail_at(n);
        mu_err err = {0};
        st = mu_wire_forms_make(&r.ps, 2, 1, false, MU_HALF_NONE, &r.f, &err);
        mu_alloc_fail_at(0);
        assert_true(n > 6 || st == MU_ENOMEM);
    }
    assert_int_equal(st, MU_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_half),
                                       cmocka_unit_test(test_floats), cmocka_unit_test(test_no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
