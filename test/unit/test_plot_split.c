// SPDX-License-Identifier: Apache-2.0
// test_plot_split.c - pictures of nets over workers: well-formed, every part and every bridge is in them with
// its bytes, which add up to what the text says, and nothing lies on something else. MUSTER_SEED draws other
// nets.
#include "unit/markup_help.h"

#include "unit/auto_help.h"

#include "plot/split.h"

typedef struct box {
    double x, y, w, h;
} box;

// "2 x 4096 bytes", "640 bytes".
static size_t bytes_at(const char *p) {
    size_t times = 1, bytes = 0;
    if (!strncmp(p, "2 x ", 4)) times = 2, p += 4;
    if (sscanf(p, "%zu bytes", &bytes) != 1) fail_msg("no bytes: `%.60s`", p);
    return times * bytes;
}

// The text of a bridge ends in its bytes, behind a colon.
static size_t bytes_in_svg(const mu_text *t, size_t *n) {
    size_t sum = 0;
    const char *p = t->s;
    for (*n = 0; (p = strstr(p, "<g class=\"bridge\"")); ++*n) {
        const char *end = strstr(p, "</text>"), *colon = end;
        assert_non_null(end);
        while (*colon != ':') colon--;
        sum += bytes_at(colon + 2);
        p = end;
    }
    return sum;
}

// That of an edge is all of its label, before its colour.
static size_t bytes_in_dot(const mu_text *t, size_t *n) {
    size_t sum = 0;
    const char *p = t->s;
    for (*n = 0; (p = strstr(p, " bytes\", color=")); ++*n) {
        const char *quote = p++;
        while (*quote != '"') quote--;
        sum += bytes_at(quote + 1);
    }
    return sum;
}

static bool overlap(const box *a, const box *b) {
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

// Boxes of parts and seams lie beside each other, and inside the picture.
static void assert_apart(const mu_text *t, size_t want, double width, double height) {
    static box b[4096];
    size_t n = 0;
    for (const char *p = t->s; (p = strstr(p, "<g class=\"")); p++) {
        if (strncmp(p + 10, "part", 4) && strncmp(p + 10, "seam", 4)) continue;
        const char *r = strstr(p, "<rect ");
        assert_true(r && n < MU_COUNT(b));
        if (sscanf(r, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &b[n].x, &b[n].y, &b[n].w,
                   &b[n].h) != 4)
            fail_msg("no box: `%.80s`", r);
        assert_true(b[n].x >= 0 && b[n].x + b[n].w <= width && b[n].y >= 0 && b[n].y + b[n].h <= height);
        for (size_t i = 0; i < n; i++)
            if (overlap(&b[i], &b[n])) fail_msg("a box lies on another one: `%.120s`", p);
        n++;
    }
    assert_int_equal(n, want);
}

static void check_svg(const mu_partition *p, const char *title) {
    mu_page page;
    size_t n, boxes = 0;
    mu_page_init(&page, title);
    assert_ok(mu_split_figure(&page, p, title, err));
    const mu_figure *f = &page.v[0];
    assert_well_formed(&f->svg);
    assert_int_equal(bytes_in_svg(&f->svg, &n), mu_partition_bytes(p));
    assert_int_equal(n, p->n_bridges);
    for (int i = 0; i < p->n_layers; i++)
        boxes += p->layer[i]->kind != MU_PART_SOURCE && p->layer[i]->kind != MU_PART_DESTINATION;
    assert_apart(&f->svg, boxes, f->width, f->height);
    size_t gradients = 0;
    for (const char *q = f->svg.s; (q = strstr(q, ">gradients: ")); q++) {
        size_t one = 0;
        assert_int_equal(sscanf(q, ">gradients: %zu bytes", &one), 1);
        gradients += one;
    }
    assert_int_equal(gradients, mu_partition_gradient_bytes(p));
    mu_page_fini(&page);
}

static void check_dot(const mu_partition *p, const char *title) {
    mu_text t = {0};
    size_t n, edges = 0, nodes = 0;
    int depth = 0;
    bool quoted = false;
    assert_ok(mu_split_dot(p, title, &t, err));
    for (const char *q = t.s; *q; q++) {
        if (*q == '\\') q++;
        else if (*q == '"') quoted = !quoted;
        else if (!quoted) depth += (*q == '{' || *q == '[') - (*q == '}' || *q == ']');
        assert_true(depth >= 0);
    }
    assert_true(!depth && !quoted);
    assert_int_equal(count(t.s, "subgraph cluster_"), p->workers);
    for (int i = 0; i < p->n_layers; i++) {
        const mu_part *l = p->layer[i];
        if (l->kind == MU_PART_SOURCE) continue;
        char node[32];
        snprintf(node, sizeof node, "    n%d [", i);
        assert_int_equal(count(t.s, node), 1);
        nodes++;
        edges += (size_t)l->n_src;
    }
    assert_int_equal(count(t.s, "    n"), nodes);
    assert_int_equal(count(t.s, " -> "), edges + (size_t)p->n_bridges);
    assert_int_equal(bytes_in_dot(&t, &n), mu_partition_bytes(p));
    assert_int_equal(n, p->n_bridges);
    mu_text_fini(&t);
}

static int n_drawn_pictures;

// Some nets cannot be split so, as they share parameters.
static void draw_pictures(const subject *s, int workers, int split) {
    char text[8192];
    model m;
    mu_err own = {0};
    mu_partition *p = NULL;
    write_job(text, sizeof text, s, NULL);
    open_model(&m, text);
    check(&m, shape_model(&m, s, &own), &own);
    const mu_partition_opts o = {.whole = m.net, .workers = workers, .split = split};
    if (mu_partition_create(&m.b, &o, &p, &own) == MU_OK) {
        check_svg(p, "a <net> & \"more\"\\");
        check_dot(p, "a <net> & \"more\"\\");
        n_drawn_pictures++;
    }
    mu_partition_destroy(p);
    close_model(&m);
}

static void random_nets(void **state) {
    (void)state;
    for (int i = 0; i < n_nets; i++) {
        random_net r;
        draw_net(&r, 4 + roll(9));
        draw_pictures(&r.s, 2 + roll(4), i % 4);
    }
    for (size_t k = 0; k < MU_COUNT(kinds); k++)
        for (int split = 0; split < 4; split++) draw_pictures(&kinds[k], 3, split);
    assert_true(n_drawn_pictures > n_nets * 3 / 4);
}

int main(void) {
    read_settings();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_nets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
