// SPDX-License-Identifier: Apache-2.0
// Pages and curves: what stands in a file, under which names, and what is refused.
#include "unit/markup_help.h"

#include "file/image.h"
#include "plot/plot.h"

#include <math.h>

static mu_plot_run run_of(const char *name, const char *text) {
    mu_plot_run r = {.name = name, .path = name};
    assert_ok(mu_curves_parse(&r.curves, text, strlen(text), name, err));
    return r;
}

static const char metrics[] =
    "{\"step\":10,\"epoch\":0.5,\"wall_s\":60,\"train_loss\":2,\"lr\":0.1,\"samples_per_s\":100,\"train_"
    "accuracy\":0.5}\n"
    "{\"step\":20,\"epoch\":1,\"wall_s\":120,\"train_loss\":1,\"lr\":0.01,\"samples_per_s\":120,\"train_"
    "accuracy\":0.75}\n"
    "{\"step\":20,\"epoch\":1,\"wall_s\":121,\"test_loss\":1.5,\"test_accuracy\":0.625}\n"
    "{\"step\":30,\"epoch\":1.5,\"wall_s\":400,\"train_loss\":null,\"lr\":0.01,\"samples_per_s\":110}\n"
    "{\"step\":40,\"epoch\":2,\"wall_s\":500,\"train_loss\":0.5,\"lr\":0.01,\"samples_per_s\":110,\"odd&"
    "key\":7}\n"
    "{\"step\":40,\"epoch\":2,\"wall_s\":500,\"test_loss\":1.25,\"test_accuracy\":0.7}\n";

static mu_page curves_of(const mu_plot_run *run, size_t n, const mu_plot_opts *o) {
    mu_page p;
    mu_page_init(&p, "title <&>");
    assert_ok(mu_plot_curves(&p, run, n, o, err));
    for (size_t i = 0; i < p.n; i++) assert_well_formed(&p.v[i].svg);
    return p;
}

static const mu_figure *figure(const mu_page *p, const char *title) {
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(p->v[i].title, title)) return &p->v[i];
    fail_msg("no figure `%s`", title);
    return NULL;
}

static void assert_has(const mu_text *t, const char *what) {
    if (!strstr(t->s, what)) fail_msg("no `%s` in `%.2000s`", what, t->s);
}

// Letters before the mark of the coordinates in the line of colour s<look>.
static int count_in_line(const mu_text *t, int look, char what) {
    char class[32];
    snprintf(class, sizeof class, "<path class=\"s%d\" fill", look);
    const char *line = strstr(t->s, class);
    if (!line) fail_msg("no line of look %d", look);
    line = strstr(line, " d=\"") + 4;
    int n = 0;
    for (; *line != '"'; line++) n += *line == what;
    return n;
}

static void test_one_run(void **state) {
    (void)state;
    mu_plot_run r = run_of("lenet", metrics);
    mu_page p = curves_of(&r, 1, &(mu_plot_opts){0});
    static const char *const order[] = {"lenet: loss", "lenet: accuracy", "lenet: odd&key",
                                        "lenet: learning rate", "lenet: speed"};
    assert_int_equal(p.n, MU_COUNT(order));
    for (size_t i = 0; i < p.n; i++) assert_string_equal(p.v[i].title, order[i]);
    const mu_text *loss = &figure(&p, "lenet: loss")->svg;
    assert_has(loss, ">training: 0.5</text>");
    assert_has(loss, ">test: 1.25</text>");
    assert_has(loss, ">epoch</text>");
    assert_int_equal(count_in_line(loss, 0, 'M'), 2); // broken where it was not finite
    assert_int_equal(count_in_line(loss, 0, 'L'), 1);
    assert_int_equal(count_in_line(loss, 1, 'L'), 1);
    assert_has(&figure(&p, "lenet: accuracy")->svg, ">test: 70.00 %</text>");
    assert_has(&figure(&p, "lenet: odd&key")->svg, ">odd&amp;key</text>");
    assert_has(&figure(&p, "lenet: speed")->svg, ">speed, samples/s</text>");
    mu_page_fini(&p);
    p = curves_of(
        &r, 1,
        &(mu_plot_opts){.curves = "error,loss", .x = MU_PLOT_TIME, .title = "T", .log = true, .smooth = 0.5});
    assert_int_equal(p.n, 2);
    assert_has(&p.v[0].svg, ">T: error</text>");
    assert_has(&p.v[0].svg, ">test: 30.00 %</text>");
    assert_has(&p.v[0].svg, ">time, min</text>");
    assert_has(&p.v[1].svg, "pale: before smoothing");
    mu_page_fini(&p);
    p = curves_of(&r, 1, &(mu_plot_opts){.curves = "rate", .smooth = 0.5});
    assert_null(strstr(p.v[0].svg.s, "pale")); // rates are shown as they were
    mu_page_fini(&p);
    mu_page_init(&p, "x");
    assert_fails(mu_plot_curves(&p, &r, 1, &(mu_plot_opts){.curves = "loss,nonsense"}, err), MU_EUSAGE,
                 "no run has a curve `nonsense`");
    assert_fails(mu_plot_curves(&p, &r, 1, &(mu_plot_opts){.curves = " , "}, err), MU_EUSAGE, "no curve");
    mu_page_fini(&p);
    mu_curves_fini(&r.curves);
}

static void test_several_runs(void **state) {
    (void)state;
    mu_plot_run r[] = {run_of("a<b", metrics), run_of("one", "{\"step\":1,\"epoch\":1,\"train_loss\":3}\n"),
                       run_of("none", "{\"step\":1,\"epoch\":1,\"lr\":3}\n")};
    mu_page p = curves_of(r, 3, &(mu_plot_opts){.curves = "loss"});
    assert_int_equal(p.n, 1);
    assert_has(&p.v[0].svg, ">a&lt;b: 1.25</text>"); // the evaluation, not training
    assert_has(&p.v[0].svg, ">one: 3</text>");
    assert_has(&p.v[0].svg, "pale: training");
    assert_int_equal(count(p.v[0].svg.s, "<rect class"), 1);
    assert_null(strstr(p.v[0].svg.s, ">none"));
    assert_int_equal(count(p.v[0].svg.s, "class=\"mark f1\""), 2); // one point and the legend's
    mu_page_fini(&p);
    for (int i = 0; i < 3; i++) mu_curves_fini(&r[i].curves);
}

// Smoothing is the mean of all before with falling weights, also at the beginning.
static void test_smooth(void **state) {
    (void)state;
    char text[4000], *at = text;
    for (int i = 1; i <= 50; i++)
        at += sprintf(at, "{\"step\":%d,\"epoch\":%d,\"train_loss\":%d}\n", i, i, i % 2 ? 8 : 4);
    mu_plot_run r = run_of("r", text);
    mu_page p = curves_of(&r, 1, &(mu_plot_opts){.smooth = 0.9});
    // the raw line jumps between two heights, the smooth one ends near 6 = the middle of the raw one
    const char *raw = strstr(p.v[0].svg.s, "opacity=\"0.35\""),
               *smooth = strstr(raw, "<path class=\"s0\" fill");
    assert_non_null(raw);
    assert_non_null(smooth);
    double x, top, low, last;
    raw = strstr(raw, "d=\"M") + 4;
    assert_int_equal(sscanf(raw, "%lf %lfL%lf %lf", &x, &top, &x, &low), 4);
    smooth = strstr(smooth, "d=\"M") + 4;
    assert_int_equal(sscanf(smooth, "%lf %lf", &x, &last), 2);
    assert_near(last, top, 0.11);
    const char *end = strchr(smooth, '"');
    while (*end != 'L') end--;
    assert_int_equal(sscanf(end, "L%lf %lf", &x, &last), 2);
    assert_near(last, (top + low) / 2, (low - top) * 0.06);
    mu_page_fini(&p);
    mu_curves_fini(&r.curves);
}

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *in[3], *out[3];
    } cases[] = {
        {{"runs/lenet-0abc12"}, {"lenet-0abc12"}},
        {{"runs/lenet-0abc12///"}, {"lenet-0abc12"}},
        {{"/"}, {"/"}},
        {{"runs/fashion-plain-1", "runs/fashion-momentum-1"}, {"plain", "momentum"}},
        {{"a/run", "b/run"}, {"a", "b"}},
        {{"x/lenet", "x/lenet-2"}, {"lenet", "lenet-2"}},
        {{"same", "same"}, {"same", "same"}},
        {{"r/mlp-b1-x", "r/mlp-b16-x", "r/mlp-b64-x"}, {"b1", "b16", "b64"}},
    };
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        mu_arena a;
        const char *out[3];
        size_t n = 0;
        while (n < 3 && cases[i].in[n]) n++;
        mu_arena_init(&a, "test");
        assert_ok(mu_plot_names(&a, cases[i].in, n, out, err));
        for (size_t k = 0; k < n; k++) assert_string_equal(out[k], cases[i].out[k]);
        mu_arena_fini(&a);
    }
}

// ---- pages ----

static mu_page mixed_page(void) {
    mu_page p;
    mu_raster r;
    const float v[] = {0, 1, 1, 0};
    mu_plot_run run = run_of("r", metrics);
    mu_page_init(&p, "</title><script>");
    assert_ok(mu_plot_curves(&p, &run, 1, &(mu_plot_opts){.curves = "loss"}, err));
    assert_ok(mu_raster_create(20, 20, &r, err));
    mu_raster_draw(&r, 0, 0, 10, &(mu_planes){v, 1, 2, 2}, 0, 1);
    assert_ok(
        mu_page_add_picture(&p, "pict<ure", "a & b", &r, (const char *const[]){"in", "<out>"}, 2, 10, err));
    mu_curves_fini(&run.curves);
    return p;
}

static void test_html(void **state) {
    (void)state;
    char dir[64], path[100];
    mu_page p = mixed_page();
    mu_text t = {0};
    snprintf(path, sizeof path, "%s/a<b.txt", temp_dir(dir));
    write_file(path, "</pre><script>\xff\n", 16);
    assert_ok(mu_page_add_text(&p, path, err));
    assert_ok(mu_page_html(&p, &t, err));
    assert_int_equal(strncmp(t.s, "<!DOCTYPE html>", 15), 0);
    assert_has(&t, "<title>&lt;/title&gt;&lt;script&gt;</title>");
    assert_has(&t, "<pre>&lt;/pre&gt;&lt;script&gt;\xef\xbf\xbd\n</pre>");
    assert_has(&t, "<h2>a&lt;b.txt</h2>");
    assert_has(&t, "prefers-color-scheme:dark");
    assert_has(&t, "href=\"data:image/png;base64,iVBORw0KGgo");
    assert_null(strstr(t.s, "<script"));
    // nothing is loaded from elsewhere: the only address is the name of SVG's language
    assert_int_equal(count(t.s, "http"), count(t.s, "xmlns=\"http://www.w3.org/2000/svg\""));
    assert_fails(mu_page_svg(&p, &t, err), MU_EUSAGE, "cannot hold");
    mu_text_fini(&t);
    mu_page_fini(&p);
    remove_tree(dir);
}

static void test_svg_and_png(void **state) {
    (void)state;
    char dir[64], path[100], *bytes;
    size_t n;
    mu_page p = mixed_page();
    mu_text t = {0};
    assert_ok(mu_page_svg(&p, &t, err));
    assert_well_formed(&t);
    assert_int_equal(count(t.s, "<svg "), 3);
    assert_has(&t, "translate(0 400)");
    assert_has(&t, ">&lt;out&gt;</text>");
    mu_text_fini(&t);
    snprintf(path, sizeof path, "%s/x.png", temp_dir(dir));
    assert_fails(mu_page_save(&p, path, err), MU_EUSAGE, "one picture");
    assert_fails(mu_page_save(&p, "x.pdf", err), MU_EUSAGE, "names no form");
    assert_fails(mu_page_save(&p, "no/such/folder/x.svg", err), MU_EIO, "no/such/folder");
    mu_figure chart = p.v[0];
    p.v[0] = p.v[1], p.n = 1; // the picture alone
    assert_ok(mu_page_save(&p, path, err));
    assert_ok(mu_fs_read(path, 1 << 20, &bytes, &n, err));
    mu_image_decoder d = {0};
    mu_err err = {0};
    if (mu_image_decode(&d, bytes, n, 1, path, &err) == MU_OK) {
        assert_int_equal(d.w, 20);
        assert_int_equal(d.pixels[0], 0);
        assert_int_equal(d.pixels[10], 255);
        assert_int_equal(d.pixels[20 * 10], 255);
    } else {
        print_message("not read back: %s\n", err.msg);
    }
    mu_image_decoder_fini(&d);
    mu_free(bytes);
    p.v[1] = p.v[0], p.v[0] = chart, p.n = 2;
    mu_page_fini(&p);
    remove_tree(dir);
}

// A page of every kind of figure; with fail > 0 that allocation fails. *calls: allocations it took.
static mu_status make_page(const mu_plot_run *run, const char *text, int64_t fail, uint64_t *calls) {
    const float v[] = {0, 1, 1, 0};
    static const char *const label[] = {"one row", "another"};
    mu_page p;
    mu_raster r = {0};
    mu_text t = {0};
    mu_err err = {0};
    uint64_t live = mu_alloc_get_stats().n_live, before = mu_alloc_get_stats().n_calls;
    mu_page_init(&p, "x");
    mu_alloc_fail_at(fail);
    mu_status st = mu_plot_curves(&p, run, 1, &(mu_plot_opts){.smooth = 0.5}, &err);
    if (st == MU_OK) st = mu_raster_create(40, 40, &r, &err);
    if (st == MU_OK) {
        mu_raster_draw(&r, 0, 0, 2, &(mu_planes){v, 1, 2, 2}, 0, 1);
        st = mu_page_add_picture(&p, "t", "n", &r, label, 2, 20, &err);
    }
    if (st == MU_OK) st = mu_page_add_text(&p, text, &err);
    if (st == MU_OK) st = mu_page_html(&p, &t, &err);
    mu_alloc_fail_at(0);
    *calls = mu_alloc_get_stats().n_calls - before;
    mu_raster_fini(&r);
    mu_text_fini(&t);
    mu_page_fini(&p);
    assert_int_equal(mu_alloc_get_stats().n_live, live);
    return st;
}

// Whichever allocation fails, a page that lacks something is never called good.
static void test_no_memory(void **state) {
    (void)state;
    char dir[64], path[100], text[3000];
    uint64_t all, calls;
    mu_plot_run run = run_of("r", metrics);
    snprintf(path, sizeof path, "%s/t.txt", temp_dir(dir));
    memset(text, 'x', sizeof text);
    write_file(path, text, sizeof text);
    assert_int_equal(make_page(&run, path, 0, &all), MU_OK);
    print_message("%d allocations\n", (int)all);
    for (int64_t n = 1; n <= (int64_t)all; n++) {
        mu_status st = make_page(&run, path, n, &calls);
        if (st != MU_ENOMEM) fail_msg("allocation %d of %d fails: status %d", (int)n, (int)all, (int)st);
    }
    mu_curves_fini(&run.curves);
    remove_tree(dir);
}

// Numbers of a damaged metrics.jsonl are no reason to write beyond a text.
static void test_absurd_numbers(void **state) {
    (void)state;
    mu_plot_run run = run_of("no/such/run",
                             "{\"step\":1e300,\"epoch\":1e40,\"wall_s\":1e300,\"train_loss\":1e300,"
                             "\"samples_per_s\":1e300,\"test_accuracy\":1e300,\"test_loss\":2}\n"
                             "{\"step\":1e301,\"epoch\":1e200,\"wall_s\":1e301,\"train_loss\":1,"
                             "\"samples_per_s\":-1e300,\"test_accuracy\":1e200,\"test_loss\":3}\n");
    mu_page p;
    mu_text t = {0};
    mu_page_init(&p, "x");
    assert_ok(mu_plot_report(&p, &run, &(mu_inspect_opts){0}, &(mu_plot_opts){0}, err));
    assert_ok(mu_page_html(&p, &t, err));
    assert_has(&t, "1e+200 epochs, 9,223,372,036,854,775,807 steps in ");
    assert_has(&t, "3, best 2 in epoch 1e+40");
    assert_has(&t, "<th>test accuracy</th><td>1e+200, best 1e+300 in epoch 1e+40</td>");
    mu_text_fini(&t);
    mu_page_fini(&p);
    mu_curves_fini(&run.curves);
}

// Of many texts the first by name are shown, and the rest is not passed over in silence.
static void test_texts_of_a_folder(void **state) {
    (void)state;
    char dir[64], path[100];
    temp_dir(dir);
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "%s/sample-%02d.txt", dir, i * 27 % 40);
        write_file(path, "text\r\n", 6);
    }
    mu_plot_run run = run_of("r", metrics);
    run.path = dir;
    mu_page p;
    mu_text t = {0};
    mu_page_init(&p, "x");
    assert_ok(mu_plot_report(&p, &run, &(mu_inspect_opts){0}, &(mu_plot_opts){0}, err));
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "sample-%02d.txt", i);
        assert_string_equal(p.v[p.n - 5 + (size_t)i].title, path);
    }
    assert_ok(mu_page_html(&p, &t, err));
    assert_has(&t, "The first 5 of 40 texts");
    assert_has(&t, "<pre>text\n</pre>");
    mu_text_fini(&t);
    mu_page_fini(&p);
    mu_curves_fini(&run.curves);
    remove_tree(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_run),   cmocka_unit_test(test_several_runs),
        cmocka_unit_test(test_smooth),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_html),      cmocka_unit_test(test_svg_and_png),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_absurd_numbers),
        cmocka_unit_test(test_texts_of_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
