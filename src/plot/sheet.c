// SPDX-License-Identifier: Apache-2.0
// sheet.c - see sheet.h.
//
// Values of pictures are those the net sees; the smallest of all is shown black and the largest white, which
// undoes a common mean and scale when the data has both black and white.
#include "plot/sheet.h"

#include "file/fs.h"
#include "plot/markup.h"

#include <inttypes.h>
#include <string.h>

enum { ANSWERS = 5, SIDE = 80, LINE = 16, GAP = 12, LETTERS = 88, WIDTH = 860 };
#define RIGHT_COLOUR "#009e73"
static const int64_t max_captions = 64 << 20;   // bytes

typedef struct range { double lo, hi; } range;

static range range_of(const mu_tensor *t) {
    range r = {0, 0};
    size_t n = mu_tensor_count(t);
    for (size_t i = 0; i < n; i++) {
        double v = (double)t->f[i];
        if (!i || v < r.lo) r.lo = v;
        if (!i || v > r.hi) r.hi = v;
    }
    return r;
}

static bool is_right(const mu_sheet *s, int64_t query, int64_t answer) {
    return s->group ? s->group[query] == s->group[answer] : query == answer;
}

// One picture with its upper left corner at (x, y), framed when it is a right answer.
static mu_status put_picture(mu_figure *f, const mu_sheet *s, int64_t row, double x, double y, range r,
                             bool framed, mu_err *err) {
    const mu_shape *d = &s->picture->shape;
    int64_t c = d->d[1], h = d->d[2], w = d->d[3];
    mu_planes planes = {s->picture->f + row * c * h * w, c, h, w};
    mu_raster raster = {0};
    mu_text png = {0};
    MU_TRY(mu_raster_create(w, h, &raster, err));
    mu_raster_draw(&raster, 0, 0, 1, &planes, r.lo, r.hi);
    mu_status st = mu_raster_png(&raster, &png, err);
    if (st == MU_OK) {
        mu_text_printf(&f->svg, "<image x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" ", x, y, SIDE, SIDE);
        mu_markup_put(&f->svg, "href=\"data:image/png;base64,");
        mu_markup_base64(&f->svg, png.s, png.n);
        mu_markup_put(&f->svg, "\"/>\n");
        mu_text_printf(&f->svg, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" "
                       "stroke=\"%s\" stroke-width=\"%d\"/>\n", x, y, SIDE, SIDE,
                       framed ? RIGHT_COLOUR : "#cccccc", framed ? 4 : 1);
    }
    mu_text_fini(&png);
    mu_raster_fini(&raster);
    return st;
}

static void put_caption(mu_figure *f, const mu_sheet *s, int64_t row, double x, double y, size_t letters,
                        bool right) {
    char text[4 * LETTERS + 8];
    const char *c = s->caption[row];
    size_t n = 0, shown = 0;
    for (; n < sizeof text - 8 && c[n]; n++) {
        if (((unsigned char)c[n] & 0xc0) != 0x80 && shown++ == letters) break;
    }
    snprintf(text, sizeof text, "%.*s%s", (int)n, c, c[n] ? "\xe2\x80\xa6" : "");
    mu_figure_text(f, x, y, right ? " font-weight=\"bold\" fill=\"" RIGHT_COLOUR "\"" : "", text);
}

static int64_t query_at(const mu_sheet *s, int64_t i) {
    int64_t n = s->picture->shape.d[0];
    return (2 * i + 1) * n / (2 * s->queries);
}

static mu_status add_texts(mu_page *p, const mu_sheet *s, range r, mu_err *err) {
    mu_figure *f;
    MU_TRY(mu_page_add(p, "Pictures ask, texts answer", &f, err));
    mu_figure_begin(f, WIDTH, MU_FIGURE_TOP + (double)s->queries * (SIDE + GAP) + GAP,
                    "the nearest texts, nearest first; bold = right");
    for (int64_t i = 0; i < s->queries; i++) {
        int64_t q = query_at(s, i), found[ANSWERS], n = mu_retrieval_nearest(s->texts, q, ANSWERS, found);
        double y = MU_FIGURE_TOP + (double)i * (SIDE + GAP);
        MU_TRY(put_picture(f, s, q, MU_FIGURE_LEFT, y, r, false, err));
        for (int64_t k = 0; k < n; k++)
            put_caption(f, s, found[k], MU_FIGURE_LEFT + SIDE + GAP, y + 12 + (double)k * LINE, LETTERS,
                        is_right(s, q, found[k]));
    }
    mu_markup_put(&f->svg, "</svg>\n");
    return mu_figure_check(f, err);
}

static mu_status add_pictures(mu_page *p, const mu_sheet *s, range r, mu_err *err) {
    mu_figure *f;
    MU_TRY(mu_page_add(p, "Texts ask, pictures answer", &f, err));
    const double row = SIDE + GAP + LINE;
    mu_figure_begin(f, WIDTH, MU_FIGURE_TOP + (double)s->queries * row + GAP,
                    "the nearest pictures of different things, nearest first; framed = right");
    for (int64_t i = 0; i < s->queries; i++) {
        int64_t q = query_at(s, i), found[ANSWERS], n = mu_retrieval_nearest(s->pictures, q, ANSWERS, found);
        double y = MU_FIGURE_TOP + (double)i * row;
        put_caption(f, s, q, MU_FIGURE_LEFT, y + 10, LETTERS + 12, false);
        for (int64_t k = 0; k < n; k++)
            MU_TRY(put_picture(f, s, found[k], MU_FIGURE_LEFT + (double)k * (SIDE + GAP), y + LINE, r,
                               is_right(s, q, found[k]), err));
    }
    mu_markup_put(&f->svg, "</svg>\n");
    return mu_figure_check(f, err);
}

mu_status mu_sheet_add(mu_page *p, const mu_sheet *s, mu_err *err) {
    char text[96];
    const mu_shape *d = &s->picture->shape;
    if (d->n != 4 || (d->d[1] != 1 && d->d[1] != 3) || s->picture->dtype != MU_F32)
        return MU_FAIL(err, MU_EUSAGE, "pictures have one or three channels, these are %s",
                       mu_shape_text(d, text));
    range r = range_of(s->picture);
    MU_TRY(add_texts(p, s, r, err));
    return add_pictures(p, s, r, err);
}

// ---- captions ----

mu_status mu_sheet_captions(mu_arena *a, const char *path, int64_t n, const char ***out, mu_err *err) {
    char *text = NULL;
    size_t size = 0;
    MU_TRY(mu_fs_read(path, (size_t)max_captions, &text, &size, err));
    const char **line = mu_arena_array(a, (size_t)n + 1, sizeof *line);
    mu_status st = line ? MU_OK : MU_FAIL_NOMEM(err, "captions");
    int64_t count = 0;
    for (char *at = text, *end = text + size; st == MU_OK && at < end; count++) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t len = (size_t)(stop - at);
        if (len && at[len - 1] == '\r') len--;
        if (count < n && !(line[count] = mu_arena_strndup(a, at, len)))
            st = MU_FAIL_NOMEM(err, "captions");
        at = stop + 1;
    }
    mu_free(text);
    if (st == MU_OK && count != n)
        st = MU_FAIL(err, MU_EDATA, "`%s` has %" PRId64 " lines for %" PRId64 " records", path, count, n);
    if (st == MU_OK) *out = line;
    return st;
}
