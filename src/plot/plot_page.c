// SPDX-License-Identifier: Apache-2.0
// plot_page.c - see plot.h: figures, and the page as a file.
//
// A figure is kept in up to three forms, SVG, HTML and pixels; which are used is the choice of the ending of
// the file name. A page names no file and no address outside itself.
#include "plot/plot.h"

#include "base/alloc.h"
#include "file/outfile.h"
#include "plot/chart.h"
#include "plot/markup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TAG "plot"
#define MAX_TEXT ((size_t)256 << 10)
#define MAX_TEXT_FILE ((size_t)64 << 20)

void mu_page_init(mu_page *p, const char *title) {
    *p = (mu_page){.title = title};
    mu_arena_init(&p->arena, TAG);
}

void mu_page_fini(mu_page *p) {
    for (size_t i = 0; i < p->n; i++) {
        mu_text_fini(&p->v[i].svg);
        mu_text_fini(&p->v[i].html);
        mu_raster_fini(&p->v[i].raster);
    }
    mu_free(p->v);
    mu_text_fini(&p->head);
    mu_arena_fini(&p->arena);
    *p = (mu_page){0};
}

mu_status mu_page_add(mu_page *p, const char *title, mu_figure **out, mu_err *err) {
    mu_figure *v = mu_grow(p->v, p->n, &p->cap, sizeof *v, 8, TAG);
    if (!v) return MU_FAIL_NOMEM(err, "the page");
    p->v = v;
    const char *copy = p->heading ? mu_arena_printf(&p->arena, "%s: %s", p->heading, title)
                                  : mu_arena_strdup(&p->arena, title);
    if (!copy) return MU_FAIL_NOMEM(err, "the page");
    p->v[p->n] = (mu_figure){.title = copy};
    *out = &p->v[p->n++];
    return MU_OK;
}

// ---- figures that are no charts ----

void mu_figure_text(mu_figure *f, double x, double y, const char *attributes, const char *text) {
    mu_text_printf(&f->svg, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    mu_markup_escape(&f->svg, text);
    mu_markup_put(&f->svg, "</text>\n");
}

void mu_figure_begin(mu_figure *f, double width, double height, const char *note) {
    f->width = width, f->height = height;
    mu_text_printf(&f->svg,
                   "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                   "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
                   "<rect class=\"bg\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                   width, height, width, height);
    mu_figure_text(f, MU_FIGURE_LEFT, 26, " font-size=\"16\" font-weight=\"bold\"", f->title);
    if (note) mu_figure_text(f, MU_FIGURE_LEFT, 46, " class=\"soft\" fill=\"#555\"", note);
}

mu_status mu_figure_check(const mu_figure *f, mu_err *err) {
    return f->svg.failed || f->html.failed ? MU_FAIL_NOMEM(err, "the page") : MU_OK;
}

static double text_width(const char *s, double size) { return 0.58 * size * (double)mu_markup_letters(s); }

mu_status mu_page_add_picture(mu_page *p, const char *title, const char *note, mu_raster *r,
                              const char *const *label, size_t n_labels, double row_height, mu_err *err) {
    mu_figure *f;
    MU_TRY(mu_page_add(p, title, &f, err));
    f->raster = *r;
    *r = (mu_raster){0};
    double left = MU_FIGURE_LEFT;
    for (size_t i = 0; i < n_labels; i++) left = fmax(left, MU_FIGURE_LEFT + 12 + text_width(label[i], 12));
    double words = fmax(text_width(f->title, 16), note ? text_width(note, 12) : 0);
    double w = (double)f->raster.w, h = (double)f->raster.h;
    mu_figure_begin(f, fmax(left + w, MU_FIGURE_LEFT + words) + MU_FIGURE_LEFT,
                    MU_FIGURE_TOP + h + MU_FIGURE_LEFT, note);
    for (size_t i = 0; i < n_labels; i++)
        mu_figure_text(f, left - 12, MU_FIGURE_TOP + ((double)i + 0.5) * row_height + 4,
                       " text-anchor=\"end\"", label[i]);
    mu_text png = {0};
    mu_status st = mu_raster_png(&f->raster, &png, err);
    if (st == MU_OK) {
        mu_text_printf(&f->svg,
                       "<image x=\"%.1f\" y=\"%d\" width=\"%.0f\" height=\"%.0f\" "
                       "style=\"image-rendering:pixelated\" href=\"data:image/png;base64,",
                       left, MU_FIGURE_TOP, w, h);
        mu_markup_base64(&f->svg, png.s, png.n);
        mu_markup_put(&f->svg, "\"/>\n</svg>\n");
        st = mu_figure_check(f, err);
    }
    mu_text_fini(&png);
    return st;
}

mu_status mu_page_add_text(mu_page *p, const char *path, mu_err *err) {
    char *text = NULL;
    size_t size = 0;
    mu_figure *f = NULL;
    const char *slash = strrchr(path, '/');
    MU_TRY(mu_fs_read(path, MAX_TEXT_FILE, &text, &size, err));
    mu_status st = mu_page_add(p, slash ? slash + 1 : path, &f, err);
    if (st == MU_OK) {
        mu_markup_put(&f->html, "<pre>");
        mu_markup_escape_n(&f->html, text, size < MAX_TEXT ? size : MAX_TEXT);
        mu_markup_put(&f->html, size > MAX_TEXT ? "\n\xe2\x80\xa6</pre>\n" : "</pre>\n");
        st = mu_figure_check(f, err);
    }
    mu_free(text);
    return st;
}

// ---- .html ----

static const char css[] =
    ":root{color-scheme:light dark}"
    "body{margin:2em auto;max-width:60em;padding:0 1em;font:16px/1.5 sans-serif;color:#222;background:#fff}"
    "h1{font-size:1.5em}h2{font-size:1.1em;margin:1.5em 0 .5em}figure{margin:1.5em 0}"
    "svg{max-width:100%;height:auto}table{border-collapse:collapse}"
    "td,th{padding:.2em 1.5em .2em 0;text-align:left;vertical-align:top}td.n,th.n{text-align:right}"
    "pre{padding:1em;overflow:auto;max-height:40em;font-size:13px;line-height:1.35;background:#f4f4f4}"
    ".soft{color:#555}footer{margin-top:3em;font-size:.85em;color:#777}";
static const char dark_css[] = "body{color:#ddd;background:#1c1e21}pre{background:#26292d}.soft{color:#aaa}";

static bool has_text(const mu_text *t) { return t->n > 0; }

mu_status mu_page_html(const mu_page *p, mu_text *out, mu_err *err) {
    mu_markup_put(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
    mu_markup_escape(out, p->title);
    mu_text_printf(
        out, "</title>\n<style>%s\n@media (prefers-color-scheme:dark){%s%s}</style>\n</head>\n<body>\n<h1>",
        css, dark_css, mu_chart_dark_css);
    mu_markup_escape(out, p->title);
    mu_markup_put(out, "</h1>\n");
    if (has_text(&p->head)) mu_text_put(out, p->head.s, p->head.n);
    for (size_t i = 0; i < p->n; i++) {
        const mu_figure *f = &p->v[i];
        mu_markup_put(out, "<figure>\n");
        if (!has_text(&f->svg)) { // pictures carry their title themselves
            mu_markup_put(out, "<h2>");
            mu_markup_escape(out, f->title);
            mu_markup_put(out, "</h2>\n");
        } else {
            mu_text_put(out, f->svg.s, f->svg.n);
        }
        if (has_text(&f->html)) mu_text_put(out, f->html.s, f->html.n);
        mu_markup_put(out, "</figure>\n");
    }
    mu_markup_put(out, "<footer>muster " MU_VERSION "</footer>\n</body>\n</html>\n");
    return out->failed || p->head.failed ? MU_FAIL_NOMEM(err, "the page") : MU_OK;
}

// ---- .svg and .png ----

mu_status mu_page_svg(const mu_page *p, mu_text *out, mu_err *err) {
    double width = 0, height = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (!has_text(&p->v[i].svg))
            return mu_err_hinted(
                MU_FAIL(err, MU_EUSAGE, "`%s` is text, which an .svg cannot hold", p->v[i].title), err,
                "Write an .html file instead.");
        width = fmax(width, p->v[i].width);
        height += p->v[i].height;
        n++;
    }
    if (n == 1) {
        mu_text_put(out, p->v[0].svg.s, p->v[0].svg.n);
        return out->failed ? MU_FAIL_NOMEM(err, "the page") : MU_OK;
    }
    mu_text_printf(out,
                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 "
                   "%.0f %.0f\">\n"
                   "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                   width, height, width, height);
    height = 0;
    for (size_t i = 0; i < p->n; i++) {
        mu_text_printf(out, "<g transform=\"translate(0 %.0f)\">\n", height);
        mu_text_put(out, p->v[i].svg.s, p->v[i].svg.n);
        mu_markup_put(out, "</g>\n");
        height += p->v[i].height;
    }
    mu_markup_put(out, "</svg>\n");
    return out->failed ? MU_FAIL_NOMEM(err, "the page") : MU_OK;
}

static mu_status page_png(const mu_page *p, mu_text *out, mu_err *err) {
    if (p->n == 1 && p->v[0].raster.w) return mu_raster_png(&p->v[0].raster, out, err);
    MU_FAIL(err, MU_EUSAGE, "a .png holds one picture of filters or images, this page has %zu figure%s", p->n,
            p->n == 1 ? " that is a drawing" : "s");
    mu_err_hint(err, "Write .svg or .html; `rsvg-convert FILE.svg` makes a PNG of it.");
    return MU_EUSAGE;
}

// ---- files ----

static bool ends(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n > m && !strcasecmp(s + n - m, end);
}

bool mu_page_is_html(const char *path) { return ends(path, ".html") || ends(path, ".htm"); }

mu_status mu_page_check_name(const char *path, mu_err *err) {
    if (mu_page_is_html(path) || ends(path, ".svg") || ends(path, ".png")) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%s` names no form of picture", path), err,
                         "End the name with .html, .svg or .png.");
}

mu_status mu_page_write(const char *path, const mu_text *t, mu_err *err) {
    mu_outfile *f;
    MU_TRY(mu_outfile_create(path, &f, err));
    mu_outfile_write(f, t->s, t->n);
    return mu_outfile_commit(f, err);
}

mu_status mu_page_save(const mu_page *p, const char *path, mu_err *err) {
    mu_text t = {0};
    MU_TRY(mu_page_check_name(path, err));
    mu_status st = ends(path, ".svg")   ? mu_page_svg(p, &t, err)
                   : ends(path, ".png") ? page_png(p, &t, err)
                                        : mu_page_html(p, &t, err);
    if (st == MU_OK) st = mu_page_write(path, &t, err);
    mu_text_fini(&t);
    return st;
}
