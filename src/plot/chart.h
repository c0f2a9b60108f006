// SPDX-License-Identifier: Apache-2.0
// chart.h - a chart of lines and marks as one SVG text, for results that a person looks at.
//
// The caller says what is shown (series of points, names, labels), the chart decides how: ranges with a
// margin, round ticks, a legend to the right, colours that colour-blind people can tell apart with one
// shape each, and labels beside their marks where they hide least. No fonts, scripts or files are needed to
// show it, and the same chart is the same text every time.
//
// Points that cannot be drawn (not finite; not positive on a logarithmic axis) are left out, and a line is
// broken there. Any text may be given (plot/markup.h). A line of more points than pixels is drawn by first,
// lowest, highest and last point of each pixel's column: the picture is the same, the text stays short.
//
// Elements have classes (chart, bg, grid, axis, soft, mark, f<k>, s<k>), so that a page with a dark style can
// give them other colours (mu_chart_dark_css).
#ifndef MU_PLOT_CHART_H
#define MU_PLOT_CHART_H

#include "base/err.h"
#include "file/json.h"

typedef struct mu_chart_point {
    double x, y;
    const char *label; // beside the mark, or on the spot in a series that draws nothing else; NULL = none
    const char *tip;   // shown when the mouse is on the mark; NULL = none
} mu_chart_point;

typedef enum mu_chart_line { MU_LINE_NONE, MU_LINE_SOLID, MU_LINE_DASHED } mu_chart_line;

typedef struct mu_chart_series {
    const char *name;   // in the legend; NULL = not there
    int look;           // colour and shape, from 0; series of one look belong together
    mu_chart_line line; // through the points in their order
    bool marks;
    bool dots;          // instead of marks: small and cheap, for thousands of points; no tips
    bool pale;          // line or dots in the background
    const mu_chart_point *point;
    size_t n;
} mu_chart_series;

typedef struct mu_chart {
    const char *title, *note; // note: smaller, below the title; NULL = none
    const char *x_name, *y_name;
    bool x_log, y_log;
    int width, height;             // 0 = 860 x 540
    int legend;                    // its least width, so that charts below each other end at one line
    const mu_chart_series *series; // drawn in this order
    size_t n;
} mu_chart;

// Appends the SVG document. MU_ENOMEM; MU_EUSAGE for a size that leaves no room for the plot.
MU_MUST_CHECK mu_status mu_chart_write(const mu_chart *c, mu_text *out, mu_err *err);

extern const char mu_chart_dark_css[];  // rules for inside `@media (prefers-color-scheme: dark) {}`

enum { MU_CHART_TICKS = 16 };
// Round numbers in [lo, hi], lo < hi, ascending, 2 at least and about `wanted`; logarithmic: 0 < lo.
// Returns how many.
int mu_chart_ticks(double lo, double hi, bool log, int wanted, double out[MU_CHART_TICKS]);

#endif
