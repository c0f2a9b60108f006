// SPDX-License-Identifier: Apache-2.0
// rowfile.h - a text file with one line for each sample, written by output layers.
//
// The file is opened by the first batch, so building a net leaves it alone. A batch that starts
// with sample 0 starts the file anew: it always holds one pass over the data, the latest.
#ifndef MU_LAYER_ROWFILE_H
#define MU_LAYER_ROWFILE_H

#include "layer/layer.h"

#include <stdio.h>

typedef struct mu_rowfile {
    FILE *file; // the rows of this batch, in memory; NULL = not opened yet
    char *rows;
    size_t size;
    int fd;
    const char *path;
} mu_rowfile;

// Ready for the rows of this batch. *fresh: the file is empty, a header may be written.
mu_status mu_rowfile_begin(mu_rowfile *f, const mu_layer *l, const char *path, const mu_step *step,
                           bool *fresh, mu_err *err);
mu_status mu_rowfile_end(mu_rowfile *f, const mu_layer *l, mu_err *err); // everything has reached the system
void mu_rowfile_close(mu_rowfile *f);                                    // never opened is fine

#endif
