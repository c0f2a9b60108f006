// SPDX-License-Identifier: Apache-2.0
// chart.c - see chart.h.
//
// Everything is first placed in pixels: an axis maps values, boxes of marks and labels already drawn are
// remembered, and a label takes the candidate place around its mark that overlaps them least.
#include "plot/chart.h"

#include "base/alloc.h"
#include "plot/markup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 860,
    HEIGHT = 540,
    LEAST = 200,
    LEFT = 76,
    RIGHT = 24,
    TOP = 64,
    BOTTOM = 60,
    LEGEND_LEAST = 80, // width of its column
    LEGEND_MOST = 320,
    FONT = 12,
    SMALL = 10,
    MARK = 5, // half the size of a mark
    ROW = 20, // of the legend
};
static const double em = 0.58; // mean width of a letter, by its size

// Okabe and Ito's colours, without the yellow that white paper swallows. Dots have no shapes, so three more
// of Tol's muted ones help them on.
static const char *const colour[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000",
                                     "#e69f00", "#56b4e9", "#882255", "#999933", "#888888"};
enum { COLOURS = 7, SHAPES = 6 }; // prime to each other: 42 looks

const char mu_chart_dark_css[] =
    ".chart{fill:#ddd}.chart .bg{fill:#1c1e21}.chart .grid{stroke:#3a3d42}"
    ".chart .axis{stroke:#aaa}.chart .soft{fill:#aaa}.chart .mark{stroke:#1c1e21}"
    ".chart .halo{stroke:#1c1e21}.chart .f0{fill:#4aa3df}.chart .s0{stroke:#4aa3df}"
    ".chart .f4{fill:#fff}.chart .s4{stroke:#fff}.chart .f7{fill:#cc6677}"
    ".chart .s7{stroke:#cc6677}";

typedef struct axis {
    bool log;
    double lo, hi;
    double from, to;
} axis; // values, pixels
typedef struct chart_area {
    double x, y, w, h;
} chart_area;
typedef struct chart_frame {
    const mu_chart *c;
    mu_text *out;
    axis x, y;
    double width, height, legend;
    chart_area *taken; // marks and labels
    size_t n_taken;
} chart_frame;

// ---- text ---------------------------------------------------------------------------------------

static void put_text(mu_text *t, double x, double y, int size, const char *anchor, const char *more,
                     const char *s) {
    mu_text_printf(t, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\"%s>", x, y, size,
                   anchor, more);
    mu_markup_escape(t, s);
    mu_markup_put(t, "</text>\n");
}

// Not %g, which turns to powers of ten too early for people.
static void format_tick(double v, char *out, size_t size) {
    double a = fabs(v);
    if (a > 0 && (a >= 1e7 || a < 1e-4)) snprintf(out, size, "%.3g", v);
    else snprintf(out, size, "%.7g", v);
}

// ---- axes ---------------------------------------------------------------------------------------

static double warp(bool log, double v) { return log ? log10(v) : v; }

// Within 1e300 margins and steps stay finite.
static bool drawable(const axis *a, double v) { return fabs(v) < 1e300 && (!a->log || v > 1e-300); }

static bool visible(const chart_frame *p, const mu_chart_point *q) {
    return drawable(&p->x, q->x) && drawable(&p->y, q->y);
}

static double at(const axis *a, double v) {
    double lo = warp(a->log, a->lo), hi = warp(a->log, a->hi);
    return a->from + (warp(a->log, v) - lo) / (hi - lo) * (a->to - a->from);
}

// The axes see only points that both can draw.
static void find_range(chart_frame *p) {
    axis *axes[2] = {&p->x, &p->y};
    for (int k = 0; k < 2; k++) {
        axis *a = axes[k];
        double lo = INFINITY, hi = -INFINITY;
        for (size_t i = 0; i < p->c->n; i++)
            for (size_t j = 0; j < p->c->series[i].n; j++) {
                const mu_chart_point *q = &p->c->series[i].point[j];
                if (!visible(p, q)) continue;
                lo = fmin(lo, warp(a->log, k ? q->y : q->x));
                hi = fmax(hi, warp(a->log, k ? q->y : q->x));
            }
        if (lo > hi) lo = 0, hi = 1;
        double margin = hi - lo > 1e-9 * fmax(fabs(lo), fabs(hi)) ? 0.06 * (hi - lo)
                        : a->log                                  ? 0.15
                                                                  : 0.5 * fabs(hi);
        if (margin <= 0) margin = 0.5;
        bool from_zero = !a->log && lo >= 0 && lo - margin < 0;
        lo = from_zero ? 0 : lo - margin;
        hi += margin;
        a->lo = a->log ? pow(10, lo) : lo;
        a->hi = a->log ? pow(10, hi) : hi;
    }
}

static int linear_ticks(double lo, double hi, int wanted, double *out) {
    double raw = (hi - lo) / wanted, unit = pow(10, floor(log10(raw))), r = raw / unit;
    double step = unit * (r < 1.5 ? 1 : r < 3.5 ? 2 : r < 7.5 ? 5 : 10);
    int n = 0;
    for (int tries = 0; n < 2 && tries < 8; tries++, step /= 2) { // a coarse step may fit only once
        n = 0;
        double first = ceil(lo / step - 1e-9);
        for (; n < MU_CHART_TICKS && (first + n) * step <= hi + 1e-9 * step; n++) out[n] = (first + n) * step;
    }
    return n;
}

// Decades, every second or third of them where they are many; with 2 and 5 between where they are few.
static int log_ticks(double lo, double hi, int wanted, double *out) {
    static const double parts[] = {1, 2, 5};
    int from = (int)floor(log10(lo)), to = (int)ceil(log10(hi)), n = 0;
    double decades = log10(hi / lo);
    int every = decades > wanted ? (int)ceil(decades / wanted) : 1,
        n_parts = 3 * decades <= wanted + 3 ? 3 : 1;
    for (int e = from; e <= to; e += every)
        for (int k = 0; k < n_parts && n < MU_CHART_TICKS; k++) {
            double v = parts[k] * pow(10, e);
            if (v >= lo * (1 - 1e-9) && v <= hi * (1 + 1e-9)) out[n++] = v;
        }
    return n;
}

int mu_chart_ticks(double lo, double hi, bool log, int wanted, double out[MU_CHART_TICKS]) {
    if (wanted < 2) wanted = 2;
    if (wanted > MU_CHART_TICKS / 2) wanted = MU_CHART_TICKS / 2;
    int n = log ? log_ticks(lo, hi, wanted, out) : 0;
    return n >= 2
               ? n
               : linear_ticks(lo, hi, wanted, out); // a short stretch of a logarithmic axis is nearly linear
}

static void draw_grid_line(chart_frame *p, double x1, double y1, double x2, double y2) {
    mu_text_printf(p->out, "<path class=\"grid\" d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"#ddd\"/>\n", x1, y1, x2,
                   y2);
}

static void draw_axes(chart_frame *p) {
    double tick[MU_CHART_TICKS];
    char text[32];
    int n = mu_chart_ticks(p->x.lo, p->x.hi, p->x.log, 7, tick);
    for (int i = 0; i < n; i++) {
        double x = at(&p->x, tick[i]);
        draw_grid_line(p, x, p->y.from, x, p->y.to);
        format_tick(tick[i], text, sizeof text);
        put_text(p->out, x, p->y.from + 18, FONT, "middle", "", text);
    }
    n = mu_chart_ticks(p->y.lo, p->y.hi, p->y.log, 6, tick);
    for (int i = 0; i < n; i++) {
        double y = at(&p->y, tick[i]);
        draw_grid_line(p, p->x.from, y, p->x.to, y);
        format_tick(tick[i], text, sizeof text);
        put_text(p->out, p->x.from - 8, y + 4, FONT, "end", "", text);
    }
    mu_text_printf(p->out,
                   "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#333\"/>\n",
                   p->x.from, p->y.to, p->y.from, p->x.to);
    double mid_y = (p->y.from + p->y.to) / 2;
    put_text(p->out, (p->x.from + p->x.to) / 2, p->height - 16, FONT + 1, "middle", "", p->c->x_name);
    mu_text_printf(p->out, "<g transform=\"rotate(-90 20 %.1f)\">", mid_y);
    put_text(p->out, 20, mid_y, FONT + 1, "middle", "", p->c->y_name);
    mu_markup_put(p->out, "</g>\n");
}

// ---- series -------------------------------------------------------------------------------------

static unsigned shade(const mu_chart_series *s) {
    return (unsigned)s->look % (s->dots ? (unsigned)MU_COUNT(colour) : (unsigned)COLOURS);
}


static void draw_mark(mu_text *t, double x, double y, int look, const char *tip) {
    const double r = MARK;
    unsigned k = (unsigned)look % COLOURS;
    mu_text_printf(t, "<g class=\"mark f%u\" fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.8\">", k,
                   colour[k]);
    switch ((unsigned)look % SHAPES) {
    case 0:
        mu_text_printf(t, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", x, y, r);
        break;
    case 1:
        mu_text_printf(t, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", x - r, y - r, 2 * r,
                       2 * r);
        break;
    case 2:
        mu_text_printf(t, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>", x, y - r, r, 2 * r, -2 * r);
        break;
    case 3:
        mu_text_printf(t, "<path d=\"M%.1f %.1fl%.1f %.1fl%.1f %.1fl%.1f %.1fz\"/>", x, y - 1.3 * r, 1.3 * r,
                       1.3 * r, -1.3 * r, 1.3 * r, -1.3 * r, -1.3 * r);
        break;
    case 4:
        mu_text_printf(t, "<path d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>", x, y + r, r, -2 * r, -2 * r);
        break;
    default: // a plus
        mu_text_printf(t, "<path d=\"M%.1f %.1fh4v-4h4v4h4v4h-4v4h-4v-4h-4z\"/>", x - 6, y - 2);
    }
    if (tip) {
        mu_markup_put(t, "<title>");
        mu_markup_escape(t, tip);
        mu_markup_put(t, "</title>");
    }
    mu_markup_put(t, "</g>\n");
}

typedef struct column { // points of a line that lie in one column of pixels
    const mu_chart_point *first, *low, *high, *last;
} column;

static void put_vertex(chart_frame *p, const mu_chart_point *q, bool *on) {
    mu_text_printf(p->out, "%c%.1f %.1f", *on ? 'L' : 'M', at(&p->x, q->x), at(&p->y, q->y));
    *on = true;
}

// In the order of the points, each once.
static void put_column(chart_frame *p, column *c, bool *on) {
    if (!c->first) return;
    const mu_chart_point *v[4] = {c->first, c->low < c->high ? c->low : c->high,
                                  c->low < c->high ? c->high : c->low, c->last};
    for (int i = 0; i < 4; i++)
        if (!i || v[i] != v[i - 1]) put_vertex(p, v[i], on);
    *c = (column){0};
}

static void put_line(chart_frame *p, const mu_chart_series *s) {
    bool on = false, thin = (double)s->n > 2 * p->width;
    column c = {0};
    for (size_t i = 0; i < s->n; i++) {
        const mu_chart_point *q = &s->point[i];
        bool seen = visible(p, q);
        if (!seen || !thin || (c.first && floor(at(&p->x, q->x)) != floor(at(&p->x, c.first->x))))
            put_column(p, &c, &on);
        if (!seen) {
            on = false;
            continue;
        }
        if (!c.first) c = (column){q, q, q, q};
        c.last = q;
        if (q->y < c.low->y) c.low = q;
        if (q->y > c.high->y) c.high = q;
    }
    put_column(p, &c, &on);
}

static const char *opacity(const mu_chart_series *s) {
    return s->pale ? " opacity=\"0.35\"" : s->line == MU_LINE_DASHED ? " opacity=\"0.6\"" : "";
}

static void draw_line(chart_frame *p, const mu_chart_series *s) {
    bool dashed = s->line == MU_LINE_DASHED;
    mu_text_printf(p->out, "<path class=\"s%u\" fill=\"none\" stroke=\"%s\"%s%s stroke-width=\"%s\" d=\"",
                   shade(s), colour[shade(s)], opacity(s), dashed ? " stroke-dasharray=\"4 4\"" : "",
                   dashed ? "1" : "1.8");
    put_line(p, s);
    mu_markup_put(p->out, "\"/>\n");
}

// Lines without length that have round ends.
static void draw_dots(chart_frame *p, const mu_chart_series *s) {
    mu_text_printf(
        p->out,
        "<path class=\"s%u\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-linecap=\"round\" "
        "opacity=\"%s\" d=\"",
        shade(s), colour[shade(s)], s->n > 2000 ? "3" : "4.5", s->pale ? "0.3" : "0.75");
    for (size_t i = 0; i < s->n; i++)
        if (visible(p, &s->point[i]))
            mu_text_printf(p->out, "M%.1f %.1fh0", at(&p->x, s->point[i].x), at(&p->y, s->point[i].y));
    mu_markup_put(p->out, "\"/>\n");
}

static void draw_marks(chart_frame *p, const mu_chart_series *s) {
    for (size_t i = 0; i < s->n; i++) {
        const mu_chart_point *q = &s->point[i];
        if (!visible(p, q)) continue;
        double x = at(&p->x, q->x), y = at(&p->y, q->y);
        draw_mark(p->out, x, y, s->look, q->tip);
        p->taken[p->n_taken++] = (chart_area){x - MARK - 1, y - MARK - 1, 2 * MARK + 2, 2 * MARK + 2};
    }
}

// ---- labels -------------------------------------------------------------------------------------

static double overlap(double a, double a_size, double b, double b_size) {
    return fmax(0, fmin(a + a_size, b + b_size) - fmax(a, b));
}

// What a label at `b` would hide, in square pixels; outside of the plot counts whole.
static double hidden(const chart_frame *p, const chart_area *b) {
    double area = b->w * b->h - overlap(b->x, b->w, p->x.from, p->x.to - p->x.from) *
                                    overlap(b->y, b->h, p->y.to, p->y.from - p->y.to);
    for (size_t i = 0; i < p->n_taken; i++)
        area += overlap(b->x, b->w, p->taken[i].x, p->taken[i].w) *
                overlap(b->y, b->h, p->taken[i].y, p->taken[i].h);
    return area;
}

static void draw_label(chart_frame *p, double x, double y, int look, const char *text) {
    static const struct {
        double x, y;
    } places[] = {// of the label's middle, in its half sizes and gaps
                  {1, -1}, {1, 1}, {-1, -1}, {-1, 1}, {1, 0}, {-1, 0}, {0, -1}, {0, 1}};
    chart_area best = {0}, b = {.w = em * SMALL * (double)mu_markup_letters(text), .h = SMALL};
    double least = INFINITY;
    for (int ring = 1; ring <= 3 && least > 0; ring++)
        for (size_t i = 0; i < MU_COUNT(places) && least > 0; i++) {
            double gap = MARK + 1 + 9.0 * (ring - 1);
            b.x = x + places[i].x * (b.w / 2 + (places[i].y != 0 ? gap / 2 : gap)) - b.w / 2;
            b.y = y + places[i].y * (b.h / 2 + (places[i].x != 0 ? gap / 2 : gap)) - b.h / 2;
            double h = hidden(p, &b);
            if (h < least) least = h, best = b;
        }
    p->taken[p->n_taken++] = best;
    char fill[48];
    snprintf(fill, sizeof fill, " class=\"f%u\" fill=\"%s\"", (unsigned)look % COLOURS,
             colour[(unsigned)look % COLOURS]);
    put_text(p->out, best.x, best.y + SMALL - 1.5, SMALL, "start", fill, text);
}

static void draw_name(chart_frame *p, double x, double y, const char *text) {
    put_text(p->out, x, y + 5, FONT + 3, "middle",
             " class=\"halo\" font-weight=\"bold\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"",
             text);
}

static void draw_labels(chart_frame *p, const mu_chart_series *s) {
    bool alone = !s->marks && !s->dots && s->line == MU_LINE_NONE;
    for (size_t i = 0; i < s->n; i++) {
        if (!s->point[i].label || !visible(p, &s->point[i])) continue;
        double x = at(&p->x, s->point[i].x), y = at(&p->y, s->point[i].y);
        if (alone) draw_name(p, x, y, s->point[i].label);
        else draw_label(p, x, y, s->look, s->point[i].label);
    }
}

// ---- the whole ----------------------------------------------------------------------------------

// Width of the legend's column, 0 = no legend.
static double legend_width(const mu_chart *c) {
    size_t longest = 0, rows = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!c->series[i].name) continue;
        size_t letters = mu_markup_letters(c->series[i].name);
        if (letters > longest) longest = letters;
        rows++;
    }
    double wanted = fmax(46 + em * FONT * (double)longest, c->legend);
    return !rows ? 0 : fmin(fmax(LEGEND_LEAST, wanted), LEGEND_MOST);
}

// A name that is too long loses its middle: runs differ at their ends.
static void put_name(chart_frame *p, double x, double y, const char *name) {
    char text[256];
    size_t letters = mu_markup_letters(name), room = (size_t)((p->legend - 46) / (em * FONT));
    if (letters <= room || letters < 8) {
        put_text(p->out, x, y, FONT, "start", "", name);
        return;
    }
    size_t head = room / 2, tail = room - head - 1, n = 0, seen = 0;
    for (const char *s = name; *s && n + 8 < sizeof text; s++) {
        bool begins = ((unsigned char)*s & 0xc0) != 0x80;
        seen += begins;
        if (begins && seen == head + 1) n += (size_t)snprintf(text + n, sizeof text - n, "\xe2\x80\xa6");
        if (seen <= head || seen > letters - tail) text[n++] = *s;
    }
    text[n] = '\0';
    put_text(p->out, x, y, FONT, "start", "", text);
}

static void draw_sample(chart_frame *p, const mu_chart_series *s, double x, double y) {
    unsigned k = shade(s);
    if (s->line != MU_LINE_NONE)
        mu_text_printf(p->out,
                       "<path class=\"s%u\" d=\"M%.1f %.1fh24\" stroke=\"%s\" stroke-width=\"1.8\"%s%s/>\n",
                       k, x - 12, y, colour[k], s->line == MU_LINE_DASHED ? " stroke-dasharray=\"4 4\"" : "",
                       s->pale ? " opacity=\"0.35\"" : "");
    if (s->dots)
        mu_text_printf(p->out,
                       "<path class=\"s%u\" d=\"M%.1f %.1fh0\" stroke=\"%s\" stroke-width=\"9\" "
                       "stroke-linecap=\"round\"/>\n",
                       k, x, y, colour[k]);
    if (s->marks) draw_mark(p->out, x, y, s->look, NULL);
}

static void draw_legend(chart_frame *p) {
    double x = p->x.to + 24, y = TOP + 6;
    size_t left = 0;
    for (size_t i = 0; i < p->c->n; i++) {
        const mu_chart_series *s = &p->c->series[i];
        if (!s->name) continue;
        left += y > p->y.from - ROW; // the last row says how many do not fit
        if (left) continue;
        draw_sample(p, s, x, y);
        put_name(p, x + 18, y + 4, s->name);
        y += ROW;
    }
    char more[40];
    snprintf(more, sizeof more, "and %zu more", left);
    if (left) put_text(p->out, x + 18, y + 4, FONT, "start", " class=\"soft\" fill=\"#555\"", more);
}

// Ticks that are wide numbers push the plot to the right, so that the axis' name stays free.
static double tick_room(const chart_frame *p) {
    double tick[MU_CHART_TICKS], most = 0;
    char text[32];
    int n = mu_chart_ticks(p->y.lo, p->y.hi, p->y.log, 6, tick);
    for (int i = 0; i < n; i++) {
        format_tick(tick[i], text, sizeof text);
        most = fmax(most, em * FONT * (double)strlen(text));
    }
    return fmax(0, most - (LEFT - 36));
}

static bool is_empty(const chart_frame *p) {
    for (size_t i = 0; i < p->c->n; i++)
        for (size_t j = 0; j < p->c->series[i].n; j++)
            if (visible(p, &p->c->series[i].point[j])) return false;
    return true;
}

static void draw(chart_frame *p) {
    const mu_chart *c = p->c;
    mu_text_printf(
        p->out,
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
        "viewBox=\"0 0 %.0f %.0f\""
        " font-family=\"sans-serif\" fill=\"#222\">\n<rect class=\"bg\" width=\"100%%\" height=\"100%%\" "
        "fill=\"#fff\"/>\n",
        p->width, p->height, p->width, p->height);
    put_text(p->out, LEFT, 26, FONT + 4, "start", " font-weight=\"bold\"", c->title);
    if (c->note) put_text(p->out, LEFT, 46, FONT, "start", " class=\"soft\" fill=\"#555\"", c->note);
    draw_axes(p);
    for (size_t i = 0; i < c->n; i++) {
        if (c->series[i].line != MU_LINE_NONE) draw_line(p, &c->series[i]);
        if (c->series[i].dots) draw_dots(p, &c->series[i]);
    }
    for (size_t i = 0; i < c->n; i++)
        if (c->series[i].marks) draw_marks(p, &c->series[i]);
    for (size_t i = 0; i < c->n; i++) draw_labels(p, &c->series[i]);
    if (is_empty(p))
        put_text(p->out, (p->x.from + p->x.to) / 2, (p->y.from + p->y.to) / 2, FONT + 2, "middle", "",
                 "no data");
    draw_legend(p);
    mu_markup_put(p->out, "</svg>\n");
}

mu_status mu_chart_write(const mu_chart *c, mu_text *out, mu_err *err) {
    chart_frame p = {.c = c, .out = out, .x.log = c->x_log, .y.log = c->y_log};
    size_t n_points = 0;
    p.width = c->width ? c->width : WIDTH;
    p.height = c->height ? c->height : HEIGHT;
    p.x.from = LEFT, p.legend = legend_width(c), p.x.to = p.width - RIGHT - p.legend;
    p.y.from = p.height - BOTTOM, p.y.to = TOP;
    if (p.x.to - p.x.from < LEAST || p.y.from - p.y.to < LEAST)
        return MU_FAIL(err, MU_EUSAGE, "a chart of %.0f x %.0f leaves no room for its plot", p.width,
                       p.height);
    for (size_t i = 0; i < c->n; i++) n_points += c->series[i].n;
    p.taken = mu_alloc_array(2 * n_points + 1, sizeof *p.taken, "chart");
    if (!p.taken) return MU_FAIL_NOMEM(err, "the chart");
    find_range(&p);
    p.x.from += tick_room(&p);
    draw(&p);
    mu_free(p.taken);
    return out->failed ? MU_FAIL_NOMEM(err, "the chart") : MU_OK;
}
