// SPDX-License-Identifier: Apache-2.0
// split_svg.c - see split.h: a net over workers, drawn.
//
//    conv2       +-----------+             +-----------+       A stage for each layer of the whole net:
//    batch       |  conv2@0  |             |  conv2@1  |         slices     of what is at hand
//                +-----+---+-+             +-----+---+-+         lanes      bridges that do not touch
//                      | [slice]                 | [slice]       concats
//                      o---+---- bytes --------->|   |           the parts
//                      |<--+---- bytes ----------o   |
//                [    concat    ]          [    concat    ]
//    fc1         +-----+-----+             +-----+-----+
//    feature     |   fc1@0   |             |   fc1@1   |
//
// What reads the box above it, or a slice or bridge that ends in between, has a line from there; what reads
// another one a line beside the boxes. First everything gets its place, then lines are drawn, and boxes over
// them.
#include "plot/split.h"

#include "net/partition_explain.h"
#include "plot/markup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PITCH = 240, LEFT = 190, TOP = 112, BOX = 184, SLICE = 88, GAP = 16, LANE = 19 };
enum { LOW = 20, SLICED = 32, TALL = 36, DATA = 50, LETTERS = 27 };

static const char *const colour[] = {"#0072b2", "#d55e00", "#009e73", "#a05195",
                                     "#b8860b", "#882255", "#4477aa", "#555555"};

typedef struct spot {     // of a part: its box; of the destination of a bridge: its lane
    double x, y;          // middle, top
    double width, height; // 0 = a lane
    int above;            // the box above it in the middle of the column; -1 = none
} spot;

typedef struct stage { // of a layer of the whole net
    int begin, end;    // in the global order, sources that follow it left out
    double y;          // of its parts
} stage;

typedef struct drawing {
    const mu_partition *p;
    mu_text *out;
    spot *at; // [n_layers]
    stage *stage;
    int n_stages;
    int bows; // lines beside boxes, so far
    double height;
} drawing;

static double column(int worker) { return LEFT + PITCH * (worker + 0.5); }

// ---- places ----

static bool is_in_stage(const mu_part *l) { return l->kind != MU_PART_SOURCE; }

static void find_stages(drawing *d) {
    const mu_layer *whole = NULL;
    int begin = 0;
    for (int i = 0; i < d->p->n_layers; i++) {
        const mu_part *l = d->p->layer[i];
        if (!l->whole) continue;
        if (l->whole != whole) d->stage[d->n_stages++].begin = begin;
        whole = l->whole;
        begin = i + 1;
        d->stage[d->n_stages - 1].end = begin;
    }
}

static spot box_of(const mu_part *l, double y, int above) {
    const double x = column(l->worker);
    if (l->kind == MU_PART_SLICE) return (spot){x + (BOX - SLICE) / 2.0, y, SLICE, SLICED, above};
    if (l->kind == MU_PART_CONCAT) return (spot){x, y, BOX, LOW, above};
    return (spot){x, y, BOX, mu_split_reads_data(l) ? DATA : TALL, above};
}

// Boxes of one kind, each column its own from top to bottom. Returns where they end.
static double place_boxes(drawing *d, const stage *s, mu_part_kind kind, double top, int *last) {
    double end = top, next[MU_MAX_PARTS];
    for (int w = 0; w < d->p->workers; w++) next[w] = top;
    for (int i = s->begin; i < s->end; i++) {
        const mu_part *l = d->p->layer[i];
        if (l->kind != kind) continue;
        d->at[i] = box_of(l, next[l->worker], last[l->worker]);
        if (kind != MU_PART_SLICE) last[l->worker] = i;
        next[l->worker] += d->at[i].height + GAP;
        end = fmax(end, next[l->worker]);
    }
    return end;
}

// Each bridge in the first lane where nothing is in its way.
static double place_lanes(drawing *d, const stage *s, double top, const int *last) {
    int first = s->begin, n = 0;
    for (bool left = true; left; n++) {
        uint32_t taken = 0; // gaps between columns
        left = false;
        for (int i = first; i < s->end; i++) {
            const mu_part *l = d->p->layer[i];
            if (l->kind != MU_PART_DESTINATION || d->at[i].y > 0) continue;
            const int a = d->p->bridge[l->bridge].source->worker, b = l->worker;
            const int low = a < b ? a : b, high = a < b ? b : a;
            const uint32_t gaps = ((uint32_t)1 << high) - ((uint32_t)1 << low);
            left |= (taken & gaps) != 0;
            if (taken & gaps) continue;
            taken |= gaps;
            d->at[i] = (spot){column(b), top + LANE * (n + 0.7), 0, 0, last[b]};
        }
        if (!taken) return top;
    }
    return top + LANE * n + GAP / 2.0;
}

static void place(drawing *d) {
    int last[MU_MAX_PARTS];
    double y = TOP;
    for (int w = 0; w < MU_MAX_PARTS; w++) last[w] = -1;
    for (int k = 0; k < d->n_stages; k++) {
        stage *s = &d->stage[k];
        y = place_boxes(d, s, MU_PART_SLICE, y, last);
        y = place_lanes(d, s, y, last);
        y = place_boxes(d, s, MU_PART_CONCAT, y, last);
        s->y = y;
        y = place_boxes(d, s, MU_PART_LAYER, y, last);
    }
    d->height = y + GAP;
}

// ---- lines ----

static double bottom(const spot *s) { return s->y + s->height; }
static double middle(const spot *s) { return s->y + s->height / 2; }

static void line_down(drawing *d, double x, double from, double to) {
    mu_text_printf(d->out, "<path d=\"M%.1f %.1fV%.1f\"/>\n", x, from, to);
}

// Beside the boxes, from the left of one place to that of another.
static void line_beside(drawing *d, int worker, const spot *from, double to_x, double to_y) {
    const double away = column(worker) - BOX / 2.0 - 7 - 6 * (d->bows++ % 3);
    mu_text_printf(d->out, "<path d=\"M%.1f %.1fH%.1fV%.1fH%.1f\"/>\n", from->x - from->width / 2,
                   middle(from), away, to_y, to_x);
}

static void draw_reading(drawing *d, const mu_part *l, const mu_part *from) {
    const spot *to = &d->at[l->at], *s = &d->at[from->at];
    const double clear = to->above < 0 ? 0 : bottom(&d->at[to->above]);
    const bool is_between = s->y >= clear && bottom(s) <= to->y && l->kind != MU_PART_SLICE;
    if (from->at == to->above) line_down(d, to->x, bottom(s), to->y);
    else if (is_between) line_down(d, s->x, bottom(s), to->y);
    else line_beside(d, l->worker, s, to->x - to->width / 2, middle(to));
}

// From what the bridge sends down to its lane.
static void draw_sending(drawing *d, const mu_bridge *b) {
    const mu_part *from = b->source->src[0].l;
    const spot *s = &d->at[from->at];
    const double lane = d->at[b->destination->at].y;
    bool between = false;
    for (int i = from->at + 1; i < d->p->n_layers; i++) {
        const spot *o = &d->at[i];
        between |= d->p->layer[i]->worker == from->worker && o->width >= BOX && o->y > s->y && o->y < lane;
    }
    if (between) line_beside(d, from->worker, s, s->x, lane);
    else line_down(d, s->x, bottom(s), lane);
}

static void draw_lines(drawing *d) {
    mu_text_printf(d->out, "<g fill=\"none\" stroke=\"#888\" class=\"axis\">\n");
    for (int i = 0; i < d->p->n_layers; i++) {
        const mu_part *l = d->p->layer[i];
        for (int k = 0; is_in_stage(l) && k < l->n_src; k++)
            if (l->src[k].l) draw_reading(d, l, l->src[k].l);
    }
    for (int i = 0; i < d->p->n_bridges; i++) draw_sending(d, &d->p->bridge[i]);
    mu_text_printf(d->out, "</g>\n");
}

// ---- text ----

static void put_text(drawing *d, double x, double y, const char *attributes, const char *text, size_t most) {
    size_t n = 0, letters = 0;
    const bool fits = mu_markup_letters(text) <= most;
    mu_text_printf(d->out, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    while (text[n] && (fits || letters + 1 < most || ((unsigned char)text[n] & 0xc0) == 0x80))
        letters += ((unsigned char)text[n++] & 0xc0) != 0x80;
    mu_markup_escape_n(d->out, text, n);
    mu_markup_put(d->out, fits ? "</text>\n" : "\xe2\x80\xa6</text>\n");
}

// ---- bridges ----

// Full: values; hollow: the gradient that comes back.
static void draw_head(drawing *d, double x, double y, double way, const char *fill) {
    mu_text_printf(d->out, "<path d=\"M%.1f %.1fl%.1f -3.5v7z\" fill=\"%s\" stroke=\"inherit\"/>\n", x, y,
                   -7 * way, fill);
}

static void draw_bridge(drawing *d, const mu_bridge *b) {
    const int from = b->source->worker, to = b->destination->worker;
    const double y = d->at[b->destination->at].y, way = to > from ? 1 : -1;
    const double x0 = column(from), x1 = column(to);
    const char *c = colour[(size_t)from % MU_COUNT(colour)];
    char bytes[48], text[400];
    mu_split_bytes(b, bytes);
    mu_text_printf(d->out, "<g class=\"bridge\" fill=\"%s\" stroke=\"%s\" font-size=\"10.5\">\n<title>", c,
                   c);
    mu_markup_escape(d->out, b->name);
    mu_text_printf(d->out, "</title>\n<path d=\"M%.1f %.1fH%.1f\" stroke-width=\"1.3\"/>\n", x0, y,
                   x1 - 6 * way);
    draw_head(d, x1 - way, y, way, c);
    if (b->gradient) draw_head(d, x0 + 3 * way, y, -way, "#fff");
    mu_text_printf(d->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", x0, y);
    snprintf(text, sizeof text, "%.200s: %s", b->source->src[0].l->name, bytes);
    mu_text_printf(d->out, "<g class=\"halo\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">\n");
    put_text(d, x0 + 12 * way, y - 3, way > 0 ? "" : " text-anchor=\"end\"", text, 38);
    mu_text_printf(d->out, "</g>\n");
    mu_text_printf(d->out, "</g>\n");
}

// ---- boxes ----

static const char *data_read(const mu_partition *p, const mu_part *l, char out[96]) {
    size_t n = 0;
    out[0] = '\0';
    for (int k = 0; k < l->n_src && n < 96; k++)
        if (!l->src[k].l)
            n += (size_t)snprintf(out + n, 96 - n, "%s%s", n ? ", " : "",
                                  p->whole->layer[0]->out[l->src[k].out].name);
    return out;
}

static void draw_box(drawing *d, const mu_part *l) {
    const spot *s = &d->at[l->at];
    const bool layer = l->kind == MU_PART_LAYER, learns = layer && l->whole->n_param > 0;
    char what[160], data[96], text[120];
    mu_split_what(l, what);
    mu_text_printf(d->out, "<g class=\"%s\">\n<title>", layer ? "part" : "seam");
    mu_markup_escape(d->out, l->name);
    mu_text_printf(d->out,
                   "</title>\n<rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" rx=\"%d\" "
                   "fill=\"%s\" stroke=\"%s\"/>\n",
                   s->x - s->width / 2, s->y, s->width, s->height, layer ? 4 : 10,
                   learns  ? "#d6e6f4"
                   : layer ? "#eef2f5"
                           : "#fff",
                   learns ? "#4477aa" : "#999");
    const char *small = " text-anchor=\"middle\" fill=\"#444\" font-size=\"10.5\"";
    if (layer) {
        put_text(d, s->x, s->y + 15, " text-anchor=\"middle\" fill=\"#222\"", l->name, LETTERS);
        put_text(d, s->x, s->y + 29, small, what, 33);
        snprintf(text, sizeof text, "reads %s", data_read(d->p, l, data));
        if (mu_split_reads_data(l)) put_text(d, s->x, s->y + 43, small, text, 33);
    } else if (l->kind == MU_PART_SLICE) {
        put_text(d, s->x, s->y + 13, small, mu_split_reads_data(l) ? "slice of data" : "slice", 15);
        put_text(d, s->x, s->y + 26, small, strchr(what, '('), 17);
    } else {
        put_text(d, s->x, s->y + 14, small, what, 33);
    }
    mu_text_printf(d->out, "</g>\n");
}

// ---- the columns, and the names of layers beside them ----

static void draw_columns(drawing *d) {
    for (int w = 0; w < d->p->workers; w++) {
        size_t sent = 0, got = 0;
        char text[96];
        for (int i = 0; i < d->p->n_bridges; i++) {
            const mu_bridge *b = &d->p->bridge[i];
            const size_t back = b->gradient ? b->bytes : 0;
            if (b->source->worker == w) sent += b->bytes, got += back;
            if (b->destination->worker == w) got += b->bytes, sent += back;
        }
        mu_text_printf(d->out,
                       "<rect x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%.0f\" rx=\"8\" "
                       "fill=\"#888\" fill-opacity=\"0.07\"/>\n",
                       column(w) - PITCH / 2.0 + 4, TOP - 48, PITCH - 8, d->height - TOP + 48);
        snprintf(text, sizeof text, "worker %d", w);
        mu_text_printf(d->out, "<g fill=\"%s\">\n", colour[(size_t)w % MU_COUNT(colour)]);
        put_text(d, column(w), TOP - 30, " text-anchor=\"middle\" font-size=\"14\" font-weight=\"bold\"",
                 text, 20);
        mu_text_printf(d->out, "</g>\n");
        snprintf(text, sizeof text, "sends %zu, gets %zu bytes", sent, got);
        put_text(d, column(w), TOP - 14,
                 " class=\"soft\" fill=\"#555\" text-anchor=\"middle\" font-size=\"10.5\"", text, 60);
    }
}

// Dense gradients of its parameters that are added up over workers, where they stand first.
static size_t shared_gradients(const mu_partition *p, const mu_layer *l) {
    size_t n = 0;
    for (int i = 0; i < p->n_pieces; i++) {
        const mu_param *w = p->piece[i].whole;
        bool own = false, before = false;
        for (int k = 0; k < l->n_param; k++) own |= l->param[k] == w;
        for (int k = 1; own && k < l->at; k++)
            for (int j = 0; j < p->whole->layer[k]->n_param; j++) before |= p->whole->layer[k]->param[j] == w;
        if (own && !before) n += mu_piece_gradient_bytes(&p->piece[i]);
    }
    return n;
}

static void draw_name(drawing *d, const stage *s) {
    const mu_part *l = d->p->layer[s->end - 1];
    const mu_layer *whole = l->whole;
    const size_t shared = shared_gradients(d->p, whole);
    const mu_xray_option cut = {.grid = d->p->grid[whole->at]};
    char text[64], how[32];
    put_text(d, MU_FIGURE_LEFT, s->y + 12, " font-weight=\"bold\"", whole->name, 22);
    mu_xray_option_text(&cut, how);
    if (cut.grid.batch * cut.grid.feature > 1) snprintf(text, sizeof text, "%s", how);
    else snprintf(text, sizeof text, "whole, at worker %d", l->worker);
    put_text(d, MU_FIGURE_LEFT, s->y + 25, " class=\"soft\" fill=\"#555\" font-size=\"10.5\"", text, 28);
    if (!shared) return;
    snprintf(text, sizeof text, "gradients: %zu bytes", shared);
    put_text(d, MU_FIGURE_LEFT, s->y + 37, " class=\"soft\" fill=\"#555\" font-size=\"10.5\"", text, 28);
}

// ---- the figure ----

static mu_status make_room(drawing *d, mu_arena *a, mu_err *err) {
    d->at = mu_arena_array(a, (size_t)d->p->n_layers + 1, sizeof *d->at);
    d->stage = mu_arena_array(a, (size_t)d->p->n_layers + 1, sizeof *d->stage);
    return d->at && d->stage ? MU_OK : MU_FAIL_NOMEM(err, "the picture");
}

mu_status mu_split_figure(mu_page *page, const mu_partition *p, const char *title, mu_err *err) {
    drawing d = {.p = p};
    mu_figure *f;
    char note[200];
    MU_TRY(make_room(&d, &page->arena, err));
    MU_TRY(mu_page_add(page, title, &f, err));
    d.out = &f->svg;
    find_stages(&d);
    place(&d);
    snprintf(note, sizeof note,
             "%d bridges, %zu bytes between workers in a step (2 x: the gradient comes back); %zu bytes of "
             "dense gradients to add up",
             p->n_bridges, mu_partition_bytes(p), mu_partition_gradient_bytes(p));
    mu_figure_begin(f, fmax(LEFT + PITCH * p->workers + MU_FIGURE_LEFT, 800), d.height + GAP, note);
    draw_columns(&d);
    draw_lines(&d);
    for (int i = 0; i < p->n_bridges; i++) draw_bridge(&d, &p->bridge[i]);
    for (int i = 0; i < p->n_layers; i++)
        if (d.at[i].height > 0) draw_box(&d, p->layer[i]);
    for (int i = 0; i < d.n_stages; i++) draw_name(&d, &d.stage[i]);
    mu_markup_put(d.out, "</svg>\n");
    return mu_figure_check(f, err);
}
