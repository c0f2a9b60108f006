// SPDX-License-Identifier: Apache-2.0
// plot_images.c - see plot.h: the first samples as images, and below them what layers make of them.
//
// Pixels are shown as they were before `mean` and `scale` of the data block, with the same step undone for
// every layer: a reconstruction is compared with the input as the loss sees it. Data that was no bytes is
// shown between its smallest and largest value.
#include "plot/plot.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "plot"
enum { SAMPLES = 12, SAMPLES_MOST = 200, ROWS = 8, CELL = 64, GAP = 4 };

typedef struct image_row {
    const mu_blob *blob;
    const char *label;
    int64_t chw[3], size;
    float *v; // (samples, size), logical order
} image_row;

typedef struct rows {
    image_row v[ROWS];
    int n;
    int64_t samples, have;
} rows;

static mu_status collect(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, MU_UNUSED mu_err *err) {
    rows *r = ctx;
    for (int64_t i = 0; i < batch->n && r->have < r->samples; i++, r->have++)
        for (int k = 0; k < r->n; k++)
            mu_inspect_row(&r->v[k].blob->value, i, r->v[k].v + r->have * r->v[k].size);
    return MU_OK;
}

// ---- choosing ----

static mu_status add_row(const mu_inspect *in, rows *r, const mu_blob *b, const char *label, bool guess,
                         mu_err *err) {
    char text[96];
    if (r->n == ROWS) return MU_FAIL(err, MU_EUSAGE, "more than %d rows of images", ROWS - 1);
    image_row *w = &r->v[r->n];
    *w = (image_row){.blob = b, .label = label, .size = mu_shape_inner(&b->value.shape, 1)};
    if (!mu_plot_image_shape(in, &b->value.shape, w->size, guess, w->chw))
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "the output of `%s`, %s, cannot be shown as images",
                                     label, mu_shape_text(&b->value.shape, text)),
                             err, "It must have as many values as an input image, or a square number.");
    r->n++;
    return MU_OK;
}

static mu_status add_words(mu_arena *a, const mu_inspect *in, rows *r, const char *words, mu_err *err) {
    while (*(words += strspn(words, ", "))) {
        size_t len = strcspn(words, ", ");
        const char *word = mu_arena_strndup(a, words, len);
        const mu_blob *b;
        words += len;
        if (!word) return MU_FAIL_NOMEM(err, "a name");
        MU_TRY(mu_inspect_find(in, word, &b, err));
        if (r->n && b == r->v[0].blob) continue;
        MU_TRY(add_row(in, r, b, word, true, err));
    }
    return MU_OK;
}

// What a loss holds against an input image: reconstructions.
static mu_status add_reconstructions(const mu_inspect *in, rows *r, mu_err *err) {
    const mu_net *net = in->at->net;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (!(l->class->flags & MU_LAYER_LOSS) || l->n_src < 2 || r->n == ROWS) continue;
        const mu_blob *b = l->src[0];
        if (b->value.dtype != MU_F32 || mu_shape_inner(&b->value.shape, 1) != r->v[0].size) continue;
        MU_TRY(add_row(in, r, b, b->producer->node ? b->producer->name : l->name, false, err));
    }
    return MU_OK;
}

// ---- from values to tones ----

typedef struct tones {
    double scale, lo, hi;
    const float *mean; // HWC or one a channel; NULL
    size_t n_mean;
} tones;

static void find_range(tones *t, const image_row *input, int64_t n) {
    t->lo = INFINITY, t->hi = -INFINITY;
    for (int64_t i = 0; i < n * input->size; i++) {
        double v = (double)input->v[i];
        if (!isfinite(v)) continue;
        t->lo = fmin(t->lo, v);
        t->hi = fmax(t->hi, v);
    }
}

static tones tones_of(const mu_inspect *in, int field, const image_row *input, int64_t n) {
    tones t = {.scale = 1, .hi = 255};
    const mu_node *block = mu_node_find(in->job->data, in->on);
    const char *scale = mu_node_text(mu_node_find(block, "scale"));
    const mu_reader *reader = mu_source_reader(in->at->source);
    t.mean = mu_source_mean(in->at->source, field, &t.n_mean);
    if (t.mean && t.n_mean != (size_t)input->size && t.n_mean != (size_t)input->chw[0])
        t.mean = NULL; // cropped
    if (scale) t.scale = strtod(scale, NULL);
    bool bytes = field < reader->n_fields && reader->field[field].store == MU_STORE_U8;
    if (bytes && t.scale != 0) return t;
    t = (tones){.scale = 1};
    find_range(&t, input, n);
    return t;
}

// Are the values of w pixels as the input has them? A layer may have given them other channels, whose mean
// is not known.
static bool is_like_input(const tones *t, const image_row *input, const image_row *w) {
    if (w->size != input->size) return false;
    if (!t->mean) return true;
    return w->chw[0] == input->chw[0] &&
           (t->n_mean == (size_t)input->chw[0] || !memcmp(w->chw, input->chw, sizeof w->chw));
}

// In place, for a row like the input.
static void undo(const tones *t, const image_row *w, float *v) {
    int64_t c = w->chw[0], hw = w->chw[1] * w->chw[2];
    for (int64_t i = 0; i < w->size; i++) {
        int64_t channel = i / hw, at = t->n_mean == (size_t)c ? channel : i % hw * c + channel;
        v[i] = (float)((double)v[i] / t->scale + (t->mean ? (double)t->mean[at] : 0));
    }
}

static mu_status draw(mu_page *page, const mu_inspect *in, int field, rows *r, mu_err *err) {
    tones t = tones_of(in, field, &r->v[0], r->have);
    int64_t h = 1, w = 1;
    const char *label[ROWS];
    for (int k = 0; k < r->n; k++) {
        w = r->v[k].chw[2] > w ? r->v[k].chw[2] : w;
        h = r->v[k].chw[1] > h ? r->v[k].chw[1] : h;
        label[k] = r->v[k].label;
    }
    int64_t side = w > h ? w : h, scale = side >= CELL ? 1 : CELL / side;
    int64_t cell_w = w * scale + GAP, cell_h = h * scale + GAP;
    mu_raster img = {0};
    MU_TRY(mu_raster_create(r->have * cell_w - GAP, r->n * cell_h - GAP, &img, err));
    for (int k = 0; k < r->n; k++)
        for (int64_t i = 0; i < r->have; i++) {
            image_row *it = &r->v[k];
            float *v = it->v + i * it->size;
            mu_planes p = {v, it->chw[0], it->chw[1], it->chw[2]};
            tones own = t;
            if (is_like_input(&t, &r->v[0], it)) undo(&t, it, v);
            else find_range(&own, &(image_row){.v = v, .size = it->size}, 1); // a code: its own tones
            mu_raster_draw(&img, i * cell_w, k * cell_h, scale, &p, own.lo, own.hi);
        }
    char note[120];
    snprintf(note, sizeof note, "the first %" PRId64 " samples of data.%s", r->have, in->on);
    mu_status st = mu_page_add_picture(page, "images", note, &img, label, (size_t)r->n, (double)cell_h, err);
    mu_raster_fini(&img);
    return st;
}

static mu_status show(mu_page *page, mu_inspect *in, int field, rows *r, mu_err *err) {
    mu_status st = MU_OK;
    for (int k = 0; k < r->n && st == MU_OK; k++) {
        r->v[k].v = mu_alloc_array((size_t)(r->samples * r->v[k].size), sizeof(float), TAG);
        if (!r->v[k].v) st = MU_FAIL_NOMEM(err, "the images");
    }
    if (st == MU_OK) st = mu_inspect_visit(in, r->samples, collect, r, NULL, err);
    if (st == MU_OK) st = draw(page, in, field, r, err);
    for (int k = 0; k < r->n; k++) mu_free(r->v[k].v);
    return st;
}

mu_status mu_plot_images(mu_page *p, mu_inspect *in, const char *what, const mu_plot_opts *o, bool *found,
                         mu_err *err) {
    rows r = {.samples = o->count ? o->count : SAMPLES};
    int field = mu_plot_image_field(in);
    *found = false;
    if (field < 0 && !what) return MU_OK;
    if (field < 0) {
        MU_FAIL(err, MU_EUSAGE, "data.%s has no field of images with 1 or 3 channels", in->on);
        return MU_EUSAGE;
    }
    if (r.samples > SAMPLES_MOST) r.samples = SAMPLES_MOST;
    MU_TRY(add_row(in, &r, &in->at->net->layer[0]->out[field], "input", false, err));
    if (what) MU_TRY(add_words(&p->arena, in, &r, what, err));
    else MU_TRY(add_reconstructions(in, &r, err));
    if (!what && r.n < 2) return MU_OK;
    *found = true;
    return show(p, in, field, &r, err);
}
