// SPDX-License-Identifier: Apache-2.0
// A run opened to look inside: every layer's output is what the formula says, nothing is written, and the
// pictures of a tiny net show its numbers.
#include "unit/markup_help.h"

#include "muster/muster.h"
#include "look/confusion.h"
#include "plot/plot.h"

#include <math.h>

// An auto-encoder with a classifier beside it; the CSV must not be written by looking.
static const char job_text[] =
    "name: tiny\nseed: 3\n"
    "data:\n"
    "  train: {reader: synthetic, shape: [1, 6, 6], classes: 3, records: 60, scale: 0.01}\n"
    "  test: {reader: synthetic, shape: [1, 6, 6], classes: 3, records: 25, scale: 0.01}\n"
    "net:\n"
    "- {name: conv, type: convolution, src: data.image, filters: 4, kernel: 3}\n"
    "- {name: conv2, type: convolution, filters: 2, kernel: 2}\n"
    "- {name: flat, type: flatten, src: data.image}\n"
    "- {name: code, type: inner_product, src: flat, outputs: 2}\n"
    "- {name: squash, type: tanh}\n"
    "- {name: back, type: inner_product, outputs: 36}\n"
    "- {name: off, type: euclidean_loss, src: [back, flat]}\n"
    "- {name: scores, type: inner_product, src: conv2, outputs: 3}\n"
    "- {name: loss, type: softmax_loss, src: [scores, data.label]}\n"
    "- {name: csv, type: csv_output, src: scores, path: seen.csv, exclude: train}\n"
    "train: {batch: 10, steps: 20}\n"
    "test: {batch: 10, every: 10 steps}\n"
    "updater: {type: sgd, rate: 0.001}\n";

static char folder[64], run_dir[128], csv_path[128];

static int train_once(void **state) {
    (void)state;
    muster_error e;
    muster_job *job = NULL;
    muster_run *run = NULL;
    muster_result result;
    char path[128];
    snprintf(path, sizeof path, "%s/tiny.yaml", temp_dir(folder));
    snprintf(run_dir, sizeof run_dir, "%s/run", folder);
    snprintf(csv_path, sizeof csv_path, "%s/seen.csv", folder);
    write_file(path, job_text, strlen(job_text));
    if (muster_job_load(path, NULL, 0, &job, &e) || muster_run_create(job, run_dir, &run, &e) ||
        muster_run_train(run, NULL, NULL, &result, &e))
        fail_msg("%s", e.message);
    muster_run_destroy(run);
    muster_job_destroy(job);
    remove(csv_path); // the training's own evaluations wrote it
    return 0;
}

static int clean(void **state) {
    (void)state;
    remove_tree(folder);
    return 0;
}

static mu_inspect opened(const mu_inspect_opts *o) {
    mu_inspect in = {0};
    assert_ok(mu_inspect_open(&in, run_dir, o, err));
    return in;
}

// ---- looking ----

typedef struct check {
    const mu_blob *flat, *code, *image;
    const mu_param *weight, *bias;
    int64_t seen, batches;
} check;

static mu_status check_code(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    check *c = ctx;
    float image[36], flat[36], code[2];
    (void)net, (void)err;
    for (int64_t i = 0; i < batch->n; i++) {
        mu_inspect_row(&c->image->value, i, image);
        mu_inspect_row(&c->flat->value, i, flat);
        mu_inspect_row(&c->code->value, i, code); // `squash` follows: in place would have overwritten it
        assert_memory_equal(image, flat, sizeof flat);
        for (int o = 0; o < 2; o++) {
            double want = (double)c->bias->value[o];
            for (int k = 0; k < 36; k++) want += (double)c->weight->value[o * 36 + k] * (double)flat[k];
            assert_near((double)code[o], want, 1e-4);
        }
    }
    c->seen += batch->n;
    c->batches++;
    return MU_OK;
}

static void test_reads_inside(void **state) {
    (void)state;
    mu_inspect in = opened(&(mu_inspect_opts){0});
    mu_scores sc;
    check c = {.weight = mu_params_find(in.session->params, "code.weight"),
               .bias = mu_params_find(in.session->params, "code.bias")};
    assert_string_equal(in.on, "test");
    assert_ok(mu_inspect_find(&in, "flat", &c.flat, err));
    assert_ok(mu_inspect_find(&in, "code", &c.code, err));
    assert_ok(mu_inspect_find(&in, "data.image", &c.image, err));
    assert_ok(mu_inspect_visit(&in, 0, check_code, &c, &sc, err));
    assert_int_equal(c.seen, 25);
    assert_int_equal(sc.samples, 25);
    assert_true(sc.accuracy >= 0 && sc.accuracy <= 1);
    c.seen = c.batches = 0;
    assert_ok(
        mu_inspect_visit(&in, 11, check_code, &c, NULL, err)); // ends with the batch that holds the 11th
    assert_int_equal(c.batches, 2);
    const mu_blob *b;
    assert_fails(mu_inspect_find(&in, "cod", &b, err), MU_EUSAGE, "no layer `cod`");
    mu_inspect_close(&in);
    assert_int_equal(access(csv_path, F_OK), -1);
    assert_int_equal(errno, ENOENT);
}

static mu_status count_rows(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    (void)net, (void)err;
    *(int64_t *)ctx += batch->n;
    return MU_OK;
}

static void test_other_data(void **state) {
    (void)state;
    int64_t n = 0;
    mu_inspect in = opened(&(mu_inspect_opts){.on = "train"});
    assert_string_equal(in.on, "train");
    assert_ok(mu_inspect_visit(&in, 0, count_rows, &n, NULL, err));
    assert_int_equal(n, 60); // once, in order
    mu_inspect_close(&in);
    assert_fails(mu_inspect_open(&in, run_dir, &(mu_inspect_opts){.on = "validation"}, err), MU_EJOB,
                 "no `data.validation`");
    mu_inspect_close(&in);
    assert_fails(mu_inspect_open(&in, "no/run", &(mu_inspect_opts){0}, err), MU_ENOTFOUND, "no run folder");
    mu_inspect_close(&in);
    const char *edit = "net.code.outputs=3"; // another net than the one trained
    assert_fails(mu_inspect_open(&in, run_dir, &(mu_inspect_opts){.sets = &edit, .n_sets = 1}, err),
                 MU_EMODEL, "weight");
    mu_inspect_close(&in);
    edit = "net.code.outputs=x";
    assert_fails(mu_inspect_open(&in, run_dir, &(mu_inspect_opts){.sets = &edit, .n_sets = 1}, err), MU_EJOB,
                 "x");
    mu_inspect_close(&in);
}

// ---- pictures of it ----

static const uint8_t *pixel(const mu_raster *r, int64_t x, int64_t y) { return r->rgba + 4 * (y * r->w + x); }

// 3 x 3 kernels are enlarged 21 times, with gaps of 4: each pixel is the tone of its weight.
static void test_filters(void **state) {
    (void)state;
    mu_inspect in = opened(&(mu_inspect_opts){0});
    mu_page p;
    bool found;
    mu_page_init(&p, "t");
    assert_ok(mu_plot_filters(&p, &in, "conv", &(mu_plot_opts){0}, &found, err));
    assert_true(found);
    assert_well_formed(&p.v[0].svg);
    const mu_raster *r = &p.v[0].raster;
    const mu_param *w = mu_params_find(in.session->params, "conv.weight");
    assert_int_equal(r->w, 3 * 67 - 4); // 3 in a row
    assert_int_equal(r->h, 2 * 67 - 4);
    for (int f = 0; f < 4; f++) {
        double most = 0;
        for (int i = 0; i < 9; i++) most = fmax(most, fabs((double)w->value[f * 9 + i]));
        for (int i = 0; i < 9; i++) { // no weight of 9 is an outlier
            const uint8_t *px = pixel(r, f % 3 * 67 + i % 3 * 21 + 10, f / 3 * 67 + i / 3 * 21 + 10);
            double want = 127.5 + 127.5 * (double)w->value[f * 9 + i] / most;
            assert_near(px[0], want, 0.6);
            assert_int_equal(px[1], px[0]);
            assert_int_equal(px[3], 255);
        }
    }
    assert_int_equal(pixel(r, 65, 10)[3], 0); // the gap
    assert_ok(
        mu_plot_filters(&p, &in, "back.weight", &(mu_plot_opts){.by_norm = true, .count = 1}, &found, err));
    assert_ok(
        mu_plot_filters(&p, &in, "code", &(mu_plot_opts){0}, &found, err)); // rows of 36: the input's shape
    assert_int_equal(p.v[2].raster.h, 60);
    assert_fails(mu_plot_filters(&p, &in, "conf", &(mu_plot_opts){0}, &found, err), MU_EUSAGE, "`conf`");
    assert_fails(mu_plot_filters(&p, &in, "scores.bias", &(mu_plot_opts){0}, &found, err), MU_EUSAGE,
                 "cannot be shown as images");
    assert_ok(mu_plot_filters(&p, &in, NULL, &(mu_plot_opts){0}, &found, err));
    assert_true(found);
    assert_string_equal(p.v[3].title, "filters of conv.weight");
    mu_page_fini(&p);
    mu_inspect_close(&in);
}

static mu_status keep_first(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    (void)net, (void)err;
    if (batch->first == 0) mu_inspect_row(&batch->field[0], 0, ctx);
    return MU_OK;
}

// Bytes are shown as they were in the file: scale is undone.
static void test_images(void **state) {
    (void)state;
    mu_inspect in = opened(&(mu_inspect_opts){0});
    mu_page p;
    bool found;
    float image[36];
    mu_page_init(&p, "t");
    assert_ok(mu_inspect_visit(&in, 1, keep_first, image, NULL, err));
    assert_fails(mu_plot_images(&p, &in, "back,squash", &(mu_plot_opts){0}, &found, err), MU_EUSAGE,
                 "`squash`, (10, 2), cannot be shown");
    assert_ok(mu_plot_images(&p, &in, NULL, &(mu_plot_opts){.count = 5}, &found, err)); // finds `back`
    assert_true(found);
    const mu_figure *f = &p.v[p.n - 1];
    assert_well_formed(&f->svg);
    assert_non_null(strstr(f->svg.s, ">input</text>"));
    assert_non_null(strstr(f->svg.s, ">back</text>"));
    assert_int_equal(f->raster.w, 5 * 64 - 4);
    assert_int_equal(f->raster.h, 2 * 64 - 4);
    for (int i = 0; i < 36; i++)
        assert_near(pixel(&f->raster, i % 6 * 10 + 5, i / 6 * 10 + 5)[0], (double)image[i] / 0.01, 0.6);
    mu_page_fini(&p);
    mu_inspect_close(&in);
}

// Layers may give the pixels other channels than the mean has: it is then left alone.
static void test_images_of_other_channels(void **state) {
    (void)state;
    static const char text[] =
        "name: t\n"
        "data:\n"
        "  train: &data {reader: synthetic, shape: [3, 8, 6], classes: 3, records: 20, scale: 0.01, "
        "mean: [10, 20, 30]}\n"
        "  test: *data\n"
        "net:\n"
        "- {name: grey, type: reshape, src: data.image, shape: [0, 1, 12, 12]}\n"
        "- {name: wide, type: reshape, src: data.image, shape: [0, 3, 4, 12]}\n"
        "- {name: fc, type: inner_product, src: grey, outputs: 3}\n"
        "- {name: loss, type: softmax_loss, src: [fc, data.label]}\n"
        "train: {batch: 10, steps: 1}\ntest: {batch: 10, every: never}\nupdater: {type: sgd, rate: 0.1}\n";
    mu_job *job = NULL;
    mu_session *s = NULL;
    assert_ok(mu_job_parse("t.yaml", text, strlen(text), NULL, 0, &job, err));
    assert_ok(mu_session_open(job, &(mu_session_opts){.phases = MU_TEST, .keep_all = true}, &s, err));
    mu_inspect in = {job, s, &s->test, MU_TEST, "test", {0}};
    mu_page p;
    bool found;
    mu_page_init(&p, "t");
    float image[144], lo = INFINITY, hi = -INFINITY;
    assert_ok(mu_inspect_visit(&in, 1, keep_first, image, NULL, err));
    for (int i = 0; i < 144; i++) lo = fminf(lo, image[i]), hi = fmaxf(hi, image[i]);
    assert_ok(mu_plot_images(&p, &in, "grey,wide", &(mu_plot_opts){.count = 2}, &found, err));
    assert_well_formed(&p.v[0].svg);
    for (int i = 0; i < 144; i++) { // enlarged 5 times, rows of 64 pixels: input, grey, wide
        int c = i / 48, at = i % 48;
        double byte = (double)image[i] / 0.01 + 10 * (c + 1), tone = (double)((image[i] - lo) / (hi - lo));
        assert_near(pixel(&p.v[0].raster, at % 6 * 5 + 2, at / 6 * 5 + 2)[c], byte, 0.6);
        assert_near(pixel(&p.v[0].raster, i % 12 * 5 + 2, 64 + i / 12 * 5 + 2)[0], 255 * tone, 0.6);
        assert_near(pixel(&p.v[0].raster, at % 12 * 5 + 2, 128 + at / 12 * 5 + 2)[c], byte, 0.6);
    }
    mu_page_fini(&p);
    mu_session_close(s);
    mu_job_destroy(job);
}

static void test_scatter(void **state) {
    (void)state;
    mu_inspect in = opened(&(mu_inspect_opts){0});
    mu_page p;
    bool found;
    mu_page_init(&p, "t");
    assert_ok(mu_plot_scatter(&p, &in, NULL, &(mu_plot_opts){0}, &found, err));
    assert_true(found);
    assert_string_equal(p.v[0].title, "the two values of code");
    assert_ok(mu_plot_scatter(&p, &in, "conv", &(mu_plot_opts){.count = 20}, &found, err));
    assert_ok(mu_plot_scatter(&p, &in, "back.weight", &(mu_plot_opts){0}, &found, err));
    for (size_t i = 0; i < p.n; i++) assert_well_formed(&p.v[i].svg);
    assert_int_equal(count(p.v[0].svg.s, "h0"), 25 + 3); // samples and the legend's three classes
    assert_int_equal(count(p.v[1].svg.s, "h0"), 20 + 3);
    assert_int_equal(count(p.v[2].svg.s, "h0"), 36); // rows of a parameter have no class
    assert_non_null(strstr(p.v[1].svg.s, "of the variance"));
    assert_fails(mu_plot_scatter(&p, &in, "nothing", &(mu_plot_opts){0}, &found, err), MU_EUSAGE,
                 "`nothing`");
    mu_page_fini(&p);
    mu_inspect_close(&in);
}

static void test_confusion(void **state) {
    (void)state;
    mu_inspect in = opened(&(mu_inspect_opts){0});
    mu_page p;
    mu_scores sc;
    mu_confusion c = {0};
    bool found;
    int64_t n = 0;
    assert_ok(mu_inspect_visit(&in, 0, count_rows, &n, &sc, err));
    assert_ok(mu_confusion_measure(&c, &in, &found, err));
    assert_true(found);
    assert_int_equal(c.classes, 3);
    assert_int_equal(c.samples, 25);
    assert_near((double)c.right / 25, sc.accuracy, 1e-9); // what the loss layer counts
    mu_confusion_fini(&c);
    mu_page_init(&p, "t");
    assert_ok(mu_plot_confusion(&p, &in, false, &found, err));
    assert_well_formed(&p.v[0].svg);
    mu_page_fini(&p);
    mu_inspect_close(&in);
}

// A picture has an end; what it leaves out is said.
static void test_many_squares(void **state) {
    (void)state;
    enum { C = 210 };
    mu_inspect in = opened(&(mu_inspect_opts){0});
    mu_page p;
    mu_confusion c;
    assert_ok(mu_confusion_init(&c, C, err));
    for (int i = 0; i < C * C; i++) c.count[i] = 1;
    c.samples = C * C, c.right = C;
    mu_page_init(&p, "t");
    assert_ok(mu_plot_matrix(&p, &in, &c, err));
    assert_well_formed(&p.v[0].svg);
    if (!strstr(p.v[0].svg.s, "; only the first 40000 of 44100 squares are drawn"))
        fail_msg("`%.800s`", p.v[0].svg.s);
    for (int i = 0; i < 5000; i++) c.count[i] = 0;
    assert_ok(mu_plot_matrix(&p, &in, &c, err));
    assert_null(strstr(p.v[1].svg.s, "squares are drawn"));
    mu_page_fini(&p);
    mu_confusion_fini(&c);
    mu_inspect_close(&in);
}

// Where a name ends and what it stands beside, of <g transform="translate(x y) rotate(d)"> with a name in it.
typedef struct placed {
    double x, y;
    int turned;
} placed;

static size_t find_names(const char *svg, const char *anchor, placed *out, size_t most) {
    size_t n = 0;
    for (const char *p = svg; (p = strstr(p, "<g transform=\"translate(")) && n < most; p++) {
        placed at = {0};
        const char *end = strstr(p, "</g>"), *mine = strstr(p, anchor);
        assert_true(sscanf(p, "<g transform=\"translate(%lf %lf) rotate(%d)", &at.x, &at.y, &at.turned) >= 2);
        if (mine && end && mine < end) out[n++] = at;
    }
    return n;
}

// Names are there at any number of classes, do not overlap, and what is cut short or left out is in titles.
static void test_names_of_many_classes(void **state) {
    (void)state;
    static const int sizes[] = {2, 10, 40, 64, 120, 210, 1000};
    static char text[1000][48];
    static const char *names[1000];
    static placed at[1000];
    mu_inspect in = opened(&(mu_inspect_opts){0});
    for (int k = 0; k < 1000; k++) {
        names[k] = text[k];
        snprintf(text[k], sizeof text[k], k % 5 ? "class <%d> & more" : "a name of more than 24 letters %d",
                 k);
    }
    for (size_t i = 0; i < MU_COUNT(sizes); i++) {
        const int n = sizes[i];
        mu_page p;
        mu_confusion c;
        assert_ok(mu_confusion_init(&c, n, err));
        c.names = names, c.n_names = n;
        for (int k = 0; k < n; k++) {
            c.count[k * n + k] = 20 + k % 7, c.count[k * n + k * 13 % n] += k % 11;
            c.samples += 20 + k % 7 + k % 11, c.right += 20 + k % 7;
        }
        mu_page_init(&p, "t");
        assert_ok(mu_plot_matrix(&p, &in, &c, err));
        const char *svg = p.v[0].svg.s;
        assert_well_formed(&p.v[0].svg);
        const size_t rows = find_names(svg, "text-anchor=\"end\"", at, MU_COUNT(at));
        assert_int_equal(rows, n <= 120 ? n : n == 210 ? 105 : 112);
        for (size_t k = 1; k < rows; k++) assert_true(at[k].y - at[k - 1].y >= 9.5);
        const size_t columns = find_names(svg, "text-anchor=\"start\"", at, MU_COUNT(at));
        assert_int_equal(columns, rows);
        for (size_t k = 0; k < columns; k++) {
            assert_int_equal(at[k].turned, n <= 36 ? -45 : -90);
            if (n <= 36) assert_true(at[k].x + 170 * 0.7 < p.v[0].width); // 24 letters are not cut off
            if (k) assert_true(at[k].x - at[k - 1].x >= 9.5);
        }
        assert_non_null(strstr(svg, ">a name of more than 24 l\xe2\x80\xa6</text>"));
        assert_non_null(strstr(svg, "<title>a name of more than 24 letters 0: "));
        for (int k = n - 3 < 0 ? 0 : n - 3; k < n; k++) { // in the title of its row, named or not
            char band[128];
            snprintf(band, sizeof band,
                     k % 5 ? "<title>class &lt;%d&gt; &amp; more: %d of %d right</title></rect>"
                           : "<title>a name of more than 24 letters %d: %d of %d right</title></rect>",
                     k, c.count[k * n + k], (int)mu_confusion_truths(&c, k));
            if (!strstr(svg, band)) fail_msg("%d classes: no `%s`", n, band);
        }
        assert_int_equal(count(svg, "fill-opacity=\"0\""), n);
        mu_page_fini(&p);
        mu_confusion_fini(&c);
    }
    mu_inspect_close(&in);
}

// A report comes out of what is left: with everything, without data, without a net.
static void test_report(void **state) {
    (void)state;
    mu_plot_run run = {.name = "tiny", .path = run_dir};
    mu_page p;
    mu_text t = {0};
    assert_ok(mu_curves_load(&run.curves, run_dir, err));
    mu_page_init(&p, "tiny");
    assert_ok(mu_plot_report(&p, &run, &(mu_inspect_opts){0}, &(mu_plot_opts){0}, err));
    assert_ok(mu_page_html(&p, &t, err));
    static const char *const parts[] = {"<th>parameters</th>", "<th>speed</th>", "tiny: loss",
                                        "filters of conv",     ">images</text>", "the two values",
                                        "confusion matrix"};
    for (size_t i = 0; i < MU_COUNT(parts); i++)
        if (!strstr(t.s, parts[i])) fail_msg("no `%s` in the report", parts[i]);
    mu_text_fini(&t);
    mu_page_fini(&p);
    const char *edit = "data.test={reader: idx, images: gone.idx}";
    mu_page_init(&p, "tiny");
    assert_ok(
        mu_plot_report(&p, &run, &(mu_inspect_opts){.sets = &edit, .n_sets = 1}, &(mu_plot_opts){0}, err));
    assert_ok(mu_page_html(&p, &t, err));
    assert_non_null(strstr(t.s, "The net is not shown: "));
    assert_non_null(strstr(t.s, "gone.idx"));
    assert_non_null(strstr(t.s, "tiny: loss"));
    mu_text_fini(&t);
    mu_page_fini(&p);
    mu_curves_fini(&run.curves);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_inside),
        cmocka_unit_test(test_other_data),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_scatter),
        cmocka_unit_test(test_confusion),
        cmocka_unit_test(test_images_of_other_channels),
        cmocka_unit_test(test_many_squares),
        cmocka_unit_test(test_names_of_many_classes),
        cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, train_once, clean);
}
