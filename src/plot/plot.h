// SPDX-License-Identifier: Apache-2.0
// plot.h - runs turned into pictures: figures on a page, the page into a file.
//
//   plot_page.c       figures, and the page as .html, .svg or .png
//   plot_curves.c     metrics of one or several runs as line charts
//   plot_filters.c    weights as a sheet of small images
//   plot_images.c     inputs and what layers make of them, as rows of images
//   plot_scatter.c    samples as points by the two values of a layer, or by its two principal axes
//   plot_confusion.c  true against predicted classes
//   plot_report.c     everything that applies to a run
//
// Each mu_plot_* adds figures to a page and decides nothing about the file. Those that look inside a net take
// it open (look/inspect.h) and read its data as evaluation does. A page holds no scripts, fonts or links: it
// can be mailed and opened without a network, and follows the reader's light or dark style.
#ifndef MU_PLOT_PLOT_H
#define MU_PLOT_PLOT_H

#include "look/confusion.h"
#include "look/curves.h"
#include "look/inspect.h"
#include "plot/raster.h"

// ---- a page -------------------------------------------------------------------------------------

typedef struct mu_figure {
    const char *title;    // in the page's arena
    mu_text svg;          // one complete document; empty = none
    double width, height; // of it
    mu_raster raster;     // what a .png holds; w 0 = the figure is no picture of pixels
    mu_text html;         // markup below the picture, .html only
} mu_figure;

typedef struct mu_page { // mu_page_init, mu_page_fini
    mu_arena arena;
    const char *title;
    const char *heading; // before the titles of figures that are added, "run: title"; NULL = none. Borrowed
    mu_text head; // markup before the figures, .html only
    size_t n, cap;
    mu_figure *v;
} mu_page;

void mu_page_init(mu_page *p, const char *title); // the title is borrowed
void mu_page_fini(mu_page *p);
// A new figure, the title copied; valid until the next. MU_ENOMEM.
MU_MUST_CHECK mu_status mu_page_add(mu_page *p, const char *title, mu_figure **out, mu_err *err);
// A figure whose SVG shows the raster (taken over) below title and note. label[i] (may be NULL) stands left
// of row i of row_height pixels.
MU_MUST_CHECK mu_status mu_page_add_picture(mu_page *p, const char *title, const char *note, mu_raster *r,
                                            const char *const *label, size_t n_labels, double row_height,
                                            mu_err *err);
// A file as a block of text, at most its first 256 KiB. MU_ENOTFOUND.
MU_MUST_CHECK mu_status mu_page_add_text(mu_page *p, const char *path, mu_err *err);

// Writes what the end of the name says: .html everything; .svg all pictures in one column; .png the one
// picture of pixels. MU_EUSAGE for other names and for what a form cannot hold. The file is replaced at once.
MU_MUST_CHECK mu_status mu_page_save(const mu_page *p, const char *path, mu_err *err);
// Any other text as a file, which appears at once.
MU_MUST_CHECK mu_status mu_page_write(const char *path, const mu_text *t, mu_err *err);
bool mu_page_is_html(const char *path);
MU_MUST_CHECK mu_status mu_page_check_name(const char *path,
                                           mu_err *err); // before the work: the form is known
MU_MUST_CHECK mu_status mu_page_html(const mu_page *p, mu_text *out, mu_err *err);
MU_MUST_CHECK mu_status mu_page_svg(const mu_page *p, mu_text *out, mu_err *err);

// The frame of figures that are no charts: opens the document with background, title and note (may be NULL);
// the caller closes with </svg>. Content begins at y = MU_FIGURE_TOP.
enum { MU_FIGURE_TOP = 64, MU_FIGURE_LEFT = 24 };
void mu_figure_begin(mu_figure *f, double width, double height, const char *note);
// MU_ENOMEM when a text of the figure could not grow: the last call of the function that puts into them.
MU_MUST_CHECK mu_status mu_figure_check(const mu_figure *f, mu_err *err);
void mu_figure_text(mu_figure *f, double x, double y, const char *attributes, const char *text);

// ---- what is shown ------------------------------------------------------------------------------

typedef enum mu_plot_x { MU_PLOT_EPOCH, MU_PLOT_STEP, MU_PLOT_TIME } mu_plot_x;

typedef struct mu_plot_opts {
    const char *title; // of curves; NULL = the runs' names
    mu_plot_x x;
    const char *curves; // "loss,error": loss, accuracy, error, rate, speed or a key; NULL = all
    bool log;           // logarithmic loss and rate
    double smooth;      // share kept of what was before, 0 = none, below 1
    int64_t count;      // filters, images or points at most; 0 = as many as look well
    bool by_norm;       // filters with the largest weights first
} mu_plot_opts;

typedef struct mu_plot_run {
    const char *name, *path; // borrowed
    mu_curves curves;        // mu_curves_fini by the owner
} mu_plot_run;

// Names for a legend: the last part of each path, without what all have in common. In the arena.
MU_MUST_CHECK mu_status mu_plot_names(mu_arena *a, const char *const *path, size_t n, const char **out,
                                      mu_err *err);

// MU_EUSAGE when a wanted curve is in no run.
MU_MUST_CHECK mu_status mu_plot_curves(mu_page *p, const mu_plot_run *run, size_t n, const mu_plot_opts *o,
                                       mu_err *err);

// Weights of `what`, a layer or a parameter. MU_EUSAGE when they are no images. NULL: of the first layer that
// reads an image; *found tells whether there is one.
MU_MUST_CHECK mu_status mu_plot_filters(mu_page *p, const mu_inspect *in, const char *what,
                                        const mu_plot_opts *o, bool *found, mu_err *err);
// Output of a layer, or rows of a parameter ("embed.weight"). NULL: of the first layer of two values.
MU_MUST_CHECK mu_status mu_plot_scatter(mu_page *p, mu_inspect *in, const char *what, const mu_plot_opts *o,
                                        bool *found, mu_err *err);
// `what`: layers with commas between. NULL: what a loss compares with an input image.
MU_MUST_CHECK mu_status mu_plot_images(mu_page *p, mu_inspect *in, const char *what, const mu_plot_opts *o,
                                       bool *found, mu_err *err);
// *found: the net has scores and labels; if not, MU_OK with `if_any`, else MU_EUSAGE.
MU_MUST_CHECK mu_status mu_plot_confusion(mu_page *p, mu_inspect *in, bool if_any, bool *found, mu_err *err);

// The picture of counts; `in` gives the names of classes and of the data.
MU_MUST_CHECK mu_status mu_plot_matrix(mu_page *p, const mu_inspect *in, const mu_confusion *c, mu_err *err);

// Everything that applies. What cannot be shown (data gone, no checkpoint) is said on the page instead.
MU_MUST_CHECK mu_status mu_plot_report(mu_page *p, const mu_plot_run *run, const mu_inspect_opts *io,
                                       const mu_plot_opts *o, mu_err *err);

// ---- shared by those that look inside a net -----------------------------------------------------

// c, h, w of `count` values as an image: of the blob itself when it is one, else of the data field of that
// size, else (only with `guess`) a square of one or three channels. False: no image.
bool mu_plot_image_shape(const mu_inspect *in, const mu_shape *blob, int64_t count, bool guess,
                         int64_t chw[3]);
int mu_plot_by_value(const void *a, const void *b); // qsort of doubles, ascending
// The field that is an image; -1.
int mu_plot_image_field(const mu_inspect *in);
// The first int32 field of one value a sample: labels; -1.
int mu_plot_label_field(const mu_inspect *in);
// The name of a class: of the reader, of `classes` in the data block, or its number.
const char *mu_plot_class_name(const mu_inspect *in, int64_t k, char out[32]);

#endif
