// SPDX-License-Identifier: Apache-2.0
// plot_confusion.c - see plot.h: the confusion matrix as squares, and the most frequent mistakes as a table.
//
// A square's depth is its share of the row's samples. Empty squares are not drawn, so thousands of classes
// make a picture of the size of the test data.
//
// Up to FEW classes have squares large enough for names of the usual size. More have smaller ones with
// smaller names, columns upright; beyond SMALL_MOST squares shrink and only every n-th class is named, so
// that names never overlap. Titles tell the rest to who points at a name, a row or a square.
#include "plot/plot.h"

#include "look/head.h"
#include "plot/markup.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 640, CELL_MOST = 48, MISTAKES = 10, NAME_MOST = 24, SQUARES_MOST = 40000, BANDS_MOST = 2000 };
enum { FEW = 60, FEW_CELL = 14, FEW_FONT = 12, SMALL_MOST = 120, SMALL_CELL = 10, SMALL_FONT = 9 };

typedef struct matrix {
    const mu_confusion *c;
    const mu_inspect *in;
    double cell, x, y; // of the upper left square
    int font;          // of names, in pixels
    int64_t every;     // class 0 and every so many further ones are named
    int turned;        // names of columns, in degrees: 0, -45 or -90
    mu_figure *f;
} matrix;

static const char *full_name(const matrix *m, int64_t k, char room[64]) {
    if (m->c->names && k < m->c->n_names) return mu_class_name(m->c->names, m->c->n_names, k, room);
    return mu_plot_class_name(m->in, k, room);
}

static void short_name(const matrix *m, int64_t k, char *out, size_t size) {
    char room[64];
    const char *name = full_name(m, k, room);
    size_t n = 0, letters = 0;
    for (; name[n] && n + 5 < size; n++) {
        letters += ((unsigned char)name[n] & 0xc0) != 0x80;
        if (letters > NAME_MOST) break;
    }
    snprintf(out, size, "%.*s%s", (int)n, name, name[n] ? "\xe2\x80\xa6" : "");
}

static double widest_name(const matrix *m) {
    size_t most = 0;
    char name[128];
    for (int64_t k = 0; k < m->c->classes; k += m->every) {
        short_name(m, k, name, sizeof name);
        size_t n = mu_markup_letters(name);
        most = n > most ? n : most;
    }
    return 7.0 * m->font / FEW_FONT * (double)most;
}

static int64_t answers_of(const mu_confusion *c, int64_t answer) {
    int64_t n = 0;
    for (int64_t t = 0; t < c->classes; t++) n += c->count[t * c->classes + answer];
    return n;
}

static void draw_square(const matrix *m, int64_t t, int64_t a, int64_t truths) {
    int32_t count = m->c->count[t * m->c->classes + a];
    double share = (double)count / (double)truths, x = m->x + (double)a * m->cell,
           y = m->y + (double)t * m->cell;
    char truth[128], answer[128];
    short_name(m, t, truth, sizeof truth);
    short_name(m, a, answer, sizeof answer);
    mu_text *out = &m->f->svg;
    // a lone mistake in a large class must still be seen
    mu_text_printf(
        out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" fill-opacity=\"%.3f\">",
        x, y, fmax(m->cell, 1), fmax(m->cell, 1), t == a ? "#0072b2" : "#d55e00", 0.06 + 0.94 * share);
    mu_markup_put(out, "<title>");
    mu_markup_escape(out, truth);
    mu_markup_put(out, " taken for ");
    mu_markup_escape(out, answer);
    mu_text_printf(out, ": %" PRId32 ", %.1f %%</title></rect>\n", count, 100 * share);
    if (m->cell < 20) return;
    char text[16];
    int size = count >= 10000 || m->cell < 32 ? 9 : 11;
    snprintf(text, sizeof text, "%" PRId32, count);
    if ((double)strlen(text) * 0.6 * size > m->cell) return;
    mu_text_printf(out,
                   "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"middle\" "
                   "pointer-events=\"none\"%s>%s</text>\n",
                   x + m->cell / 2, y + m->cell / 2 + 4, size, share > 0.5 ? " fill=\"#fff\"" : "", text);
}

// Behind the squares of a row, where there is none: whose row it is.
static void draw_band(const matrix *m, int64_t t, int64_t truths) {
    char room[64];
    mu_text *out = &m->f->svg;
    mu_text_printf(out,
                   "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.2f\" fill=\"#000\" "
                   "fill-opacity=\"0\"><title>",
                   m->x, m->y + (double)t * m->cell, m->cell * (double)m->c->classes, m->cell);
    mu_markup_escape(out, full_name(m, t, room));
    mu_text_printf(out, ": %" PRId32 " of %" PRId64 " right</title></rect>\n",
                   m->c->count[t * (m->c->classes + 1)], truths);
}

// At (x, y), turned by so many degrees; the title has the whole name.
static void draw_name(const matrix *m, int64_t k, double x, double y, int turned, const char *anchor,
                      const char *says) {
    char name[128], room[64], attributes[80];
    mu_text *out = &m->f->svg;
    short_name(m, k, name, sizeof name);
    mu_text_printf(out, "<g transform=\"translate(%.1f %.1f)", x, y);
    if (turned) mu_text_printf(out, " rotate(%d)", turned);
    mu_markup_put(out, "\"><title>");
    mu_markup_escape(out, full_name(m, k, room));
    mu_markup_put(out, says);
    mu_markup_put(out, "</title>");
    snprintf(attributes, sizeof attributes, " font-size=\"%d\" text-anchor=\"%s\"", m->font, anchor);
    mu_figure_text(m->f, 0, 0, attributes, name);
    mu_markup_put(out, "</g>\n");
}

static void draw_class(const matrix *m, int64_t k) {
    char says[96], recall[32], attributes[64];
    const double at = ((double)k + 0.5) * m->cell, middle = 0.34 * m->font;
    const int64_t n = mu_confusion_truths(m->c, k);
    const int32_t right = m->c->count[k * (m->c->classes + 1)];
    snprintf(says, sizeof says, ": %" PRId32 " of %" PRId64 " right", right, n);
    draw_name(m, k, m->x - 8, m->y + at + middle, 0, "end", says);
    snprintf(says, sizeof says, ": answered %" PRId64 " times, %" PRId32 " right", answers_of(m->c, k),
             right);
    draw_name(m, k, m->x + at + (m->turned == -90 ? middle : 0), m->y - 8, m->turned,
              m->turned ? "start" : "middle", says);
    snprintf(recall, sizeof recall, n ? "%.1f %%" : "none", 100.0 * right / (double)(n ? n : 1));
    snprintf(attributes, sizeof attributes, " font-size=\"%d\" class=\"soft\" fill=\"#555\"", m->font);
    mu_figure_text(m->f, m->x + m->cell * (double)m->c->classes + 8, m->y + at + middle, attributes, recall);
}

static void draw_names(const matrix *m) {
    char below[128];
    const double side = m->cell * (double)m->c->classes;
    for (int64_t k = 0; k < m->c->classes; k += m->every) draw_class(m, k);
    mu_text_printf(&m->f->svg,
                   "<rect class=\"axis\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
                   "stroke=\"#333\"/>\n",
                   m->x, m->y, side, side);
    int at = snprintf(below, sizeof below, "columns: predicted class; right: share of the row that is right");
    if (m->every > 1)
        snprintf(below + at, sizeof below - (size_t)at, "; one class of %" PRId64 " is named", m->every);
    mu_figure_text(m->f, m->x + side / 2, m->y + side + 22, " font-size=\"13\" text-anchor=\"middle\"",
                   below);
    mu_text_printf(&m->f->svg, "<g transform=\"rotate(-90 18 %.1f)\">", m->y + side / 2);
    mu_figure_text(m->f, 18, m->y + side / 2, " font-size=\"13\" text-anchor=\"middle\"", "true class");
    mu_markup_put(&m->f->svg, "</g>\n");
}

static void put_mistakes(const matrix *m) {
    mu_mistake worst[MISTAKES];
    int n = mu_confusion_mistakes(m->c, worst, MISTAKES);
    mu_text *out = &m->f->html;
    char room[64];
    if (!n) return;
    mu_markup_put(out, "<table>\n<tr><th>true class</th><th>taken for</th><th class=\"n\">samples</th>"
                       "<th class=\"n\">of its class</th></tr>\n");
    for (int i = 0; i < n; i++) {
        mu_markup_put(out, "<tr><td>");
        mu_markup_escape(out, full_name(m, worst[i].truth, room));
        mu_markup_put(out, "</td><td>");
        mu_markup_escape(out, full_name(m, worst[i].answer, room));
        mu_text_printf(out, "</td><td class=\"n\">%" PRId64 "</td><td class=\"n\">%.1f %%</td></tr>\n",
                       worst[i].count,
                       100.0 * (double)worst[i].count / (double)mu_confusion_truths(m->c, worst[i].truth));
    }
    mu_markup_put(out, "</table>\n");
}

static void put_note(const mu_confusion *c, const char *on, char out[240]) {
    int64_t squares = 0;
    const double percent = c->samples ? 100.0 * (double)c->right / (double)c->samples : 0.0;
    int at = snprintf(out, 240, "%" PRId64 " of %" PRId64 " %s of data.%.40s right: %.2f %%", c->right,
                      c->samples, c->of_steps ? "time steps" : "samples", on, percent);
    if (c->broken)
        at +=
            snprintf(out + at, 240 - (size_t)at, "; %" PRId64 " have scores that are no numbers", c->broken);
    for (int64_t i = 0; i < c->classes * c->classes; i++) squares += c->count[i] != 0;
    if (squares > SQUARES_MOST)
        snprintf(out + at, 240 - (size_t)at, "; only the first %d of %" PRId64 " squares are drawn",
                 SQUARES_MOST, squares);
}

static void choose_sizes(matrix *m) {
    const int64_t n = m->c->classes;
    m->font = n <= FEW ? FEW_FONT : SMALL_FONT;
    m->every = 1;
    if (n <= FEW) m->cell = fmax(fmin(CELL_MOST, SIDE / (double)n), FEW_CELL);
    else if (n <= SMALL_MOST) m->cell = SMALL_CELL;
    else {
        m->cell = (double)(SMALL_MOST * SMALL_CELL) / (double)n;
        m->every = (int64_t)ceil(SMALL_CELL / m->cell);
    }
}

mu_status mu_plot_matrix(mu_page *p, const mu_inspect *in, const mu_confusion *c, mu_err *err) {
    matrix m = {.c = c, .in = in};
    char note[240];
    put_note(c, in->on, note);
    MU_TRY(mu_page_add(p, "confusion matrix", &m.f, err));
    const double n = (double)c->classes;
    choose_sizes(&m);
    const double names = widest_name(&m);
    m.turned = names <= m.cell ? 0 : m.cell * 0.71 >= m.font ? -45 : -90; // lines of text need that distance
    m.x = 40 + names;
    m.y = MU_FIGURE_TOP + 12 + (m.turned == 0 ? 6 : m.turned == -45 ? names * 0.71 : names);
    const double right = fmax(84, m.turned == -45 ? names * 0.71 - m.cell / 2 + 16 : 0);
    mu_figure_begin(m.f, fmax(m.x + m.cell * n + right, 480), m.y + m.cell * n + 44, note);
    int64_t drawn = 0;
    for (int64_t t = 0; t < c->classes; t++) {
        int64_t truths = mu_confusion_truths(c, t);
        if (c->classes <= BANDS_MOST) draw_band(&m, t, truths);
        for (int64_t a = 0; truths && a < c->classes && drawn < SQUARES_MOST; a++)
            if (c->count[t * c->classes + a]) draw_square(&m, t, a, truths), drawn++;
    }
    draw_names(&m);
    mu_markup_put(&m.f->svg, "</svg>\n");
    put_mistakes(&m);
    return mu_figure_check(m.f, err);
}

mu_status mu_plot_confusion(mu_page *p, mu_inspect *in, bool if_any, bool *found, mu_err *err) {
    mu_confusion c = {0};
    mu_status st = mu_confusion_measure(&c, in, found, err);
    if (st == MU_OK && *found) st = mu_plot_matrix(p, in, &c, err);
    mu_confusion_fini(&c);
    if (st != MU_OK || *found || if_any) return st;
    MU_FAIL(err, MU_EUSAGE, "the net of `%s` has no layer that compares a sample's scores with its label",
            in->job->name);
    mu_err_hint(
        err,
        "A confusion matrix needs a `softmax_loss`, an `accuracy` layer or a `sigmoid_loss` of one label.");
    return MU_EUSAGE;
}
