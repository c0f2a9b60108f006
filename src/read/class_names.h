// SPDX-License-Identifier: Apache-2.0
// class_names.h - names of classes for formats whose labels are numbers: a text file, one name a line.
//
// UTF-8, plain or compressed; line i names class i. Empty lines at the end do not count. A reader of a model
// takes the model's names instead, so the file may be gone by then.
#ifndef MU_DATA_CLASS_NAMES_H
#define MU_DATA_CLASS_NAMES_H

#include "read/reader.h"

#define MU_CLASS_NAMES_HELP                                                                                  \
    "text file with the name of a class a line, in their order; the model keeps them"

// Fills r->label_names and r->n_labels from the model or from the file `path` ("" or NULL = no names).
// classes: as declared in the job, 0 = not; *classes becomes the number of names. MU_EDATA names the line.
MU_MUST_CHECK mu_status mu_class_names_open(mu_reader *r, const char *path, int64_t *classes, mu_err *err);

// What to say of record `index` of the file `path`, whose label is no class; returns MU_EDATA.
mu_status mu_class_names_beyond(const mu_reader *r, const char *path, int64_t index, int32_t label,
                                int64_t n_classes, mu_err *err);

#endif
