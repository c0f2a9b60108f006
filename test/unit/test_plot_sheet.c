// SPDX-License-Identifier: Apache-2.0
// test_plot_sheet.c - sheets of queries and answers: captions from files of any kind, and no memory.
#include "unit/markup_help.h"

#include "plot/sheet.h"

enum { N = 6, SIDE = 4, D = 3 };

static void captions_lose_their_ends(void **state) {
    (void)state;
    char dir[64], path[100];
    const char **line = NULL;
    mu_arena a;
    mu_arena_init(&a, "test");
    snprintf(path, sizeof path, "%s/captions.txt", temp_dir(dir));
    write_file(path, "one\r\n\r\nthree\nfour\r", 18);
    assert_ok(mu_sheet_captions(&a, path, 4, &line, err));
    static const char *const want[] = {"one", "", "three", "four"};
    for (int i = 0; i < 4; i++) assert_string_equal(line[i], want[i]);
    assert_fails(mu_sheet_captions(&a, path, 5, &line, err), MU_EDATA, "4 lines for 5 records");
    mu_arena_fini(&a);
    remove_tree(dir);
}

// The calls that allocate while a page is made; with fail > 0 that one fails.
static mu_status make_page(const mu_sheet *s, int64_t fail, uint64_t *calls) {
    mu_page p;
    mu_text t = {0};
    mu_err err = {0};
    const uint64_t live = mu_alloc_get_stats().n_live, before = mu_alloc_get_stats().n_calls;
    mu_page_init(&p, "x");
    mu_alloc_fail_at(fail);
    mu_status st = mu_sheet_add(&p, s, &err);
    if (st == MU_OK) st = mu_page_html(&p, &t, &err);
    mu_alloc_fail_at(0);
    *calls = mu_alloc_get_stats().n_calls - before;
    if (st == MU_OK) assert_non_null(strstr(t.s, "</html>"));
    mu_text_fini(&t);
    mu_page_fini(&p);
    assert_int_equal(mu_alloc_get_stats().n_live, live);
    return st;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const char *const caption[N] = {"a", "b", "c", "d", "e", "a text & more"};
    float pixel[N * SIDE * SIDE], code[2][N * D];
    uint64_t seed = seed_from_env(), all, calls;
    for (int i = 0; i < N * SIDE * SIDE; i++) pixel[i] = (float)(next_random(&seed) % 256);
    for (int i = 0; i < 2 * N * D; i++) code[i / (N * D)][i % (N * D)] = (float)(next_random(&seed) % 9) - 4;
    mu_tensor picture = {.dtype = MU_F32, .shape = MU_SHAPE(N, 1, SIDE, SIDE), .f = pixel};
    mu_sheet s = {.picture = &picture, .caption = caption, .queries = N};
    assert_ok(mu_retrieval_create(code[0], code[1], N, D, MU_COSINE, NULL, &s.texts, err));
    assert_ok(mu_retrieval_create(code[1], code[0], N, D, MU_COSINE, NULL, &s.pictures, err));
    assert_int_equal(make_page(&s, 0, &all), MU_OK);
    print_message("%d allocations\n", (int)all);
    for (int64_t n = 1; n <= (int64_t)all; n++) {
        mu_status st = make_page(&s, n, &calls);
        if (st != MU_ENOMEM) fail_msg("allocation %d of %d fails: status %d", (int)n, (int)all, (int)st);
    }
    mu_retrieval_destroy(s.texts);
    mu_retrieval_destroy(s.pictures);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captions_lose_their_ends),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
