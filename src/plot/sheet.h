// SPDX-License-Identifier: Apache-2.0
// sheet.h - a sheet of queries and answers: pictures with the texts found for them, texts with the pictures.
#ifndef MU_PLOT_SHEET_H
#define MU_PLOT_SHEET_H

#include "plot/plot.h"
#include "look/retrieval.h"

typedef struct mu_sheet {
    const mu_tensor   *picture; // (n, c, h, w), c 1 or 3
    const char *const *caption; // [n]
    const int32_t     *group;   // [n] equal = right answers for each other; NULL = each its own
    mu_retrieval      *texts;   // pictures ask, texts answer
    mu_retrieval      *pictures;        // and back
    int64_t            queries; // shown of each kind, spread evenly over the records
} mu_sheet;

// Adds two figures. MU_EUSAGE when the pictures are none.
MU_MUST_CHECK mu_status mu_sheet_add(mu_page *p, const mu_sheet *s, mu_err *err);

// The lines of a file as captions, without LF or CR LF, in the arena. MU_EDATA unless there are n.
MU_MUST_CHECK mu_status mu_sheet_captions(mu_arena *a, const char *path, int64_t n, const char ***out,
                                          mu_err *err);

#endif
