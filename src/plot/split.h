// SPDX-License-Identifier: Apache-2.0
// split.h - a net that is split over workers as a picture: who has what, and what goes from whom to whom.
//
//   split_svg.c   drawn here: a column for each worker, time runs down, an arrow across for each bridge
//   split_dot.c   for graphviz: a cluster for each worker
//
// Every bridge has the bytes of its messages: those of values, and again as many where a gradient comes back.
// Their sum is what mu_partition_print says.
#ifndef MU_PLOT_SPLIT_H
#define MU_PLOT_SPLIT_H

#include "net/partition.h"
#include "plot/plot.h"

// A figure for the page. The title is copied.
MU_MUST_CHECK mu_status mu_split_figure(mu_page *page, const mu_partition *p, const char *title, mu_err *err);
MU_MUST_CHECK mu_status mu_split_dot(const mu_partition *p, const char *title, mu_text *out, mu_err *err);

// ---- shared by both ----

// "2 x 589824 bytes", or "4096 bytes" of a bridge without a gradient.
void mu_split_bytes(const mu_bridge *b, char out[48]);
// "inner_product (64, 1024)".
void mu_split_what(const mu_part *l, char out[160]);
bool mu_split_reads_data(const mu_part *l);

#endif
