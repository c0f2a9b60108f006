// SPDX-License-Identifier: Apache-2.0
// recipe.h - a job written for a person's own file: `muster init KIND FILE`.
//
// A recipe is one file, k_<kind>.c. It looks at the data (how many records, classes, columns, how long) and
// writes a whole, commented job that trains well at once: data with a part for validation, net, updater,
// length of the training. It decides by what it finds, never by asking.
// Texts of a person (paths, names of columns) go into the job by mu_job_put_text (job/job.h) only: a file may
// be called anything.
#ifndef MU_RECIPE_RECIPE_H
#define MU_RECIPE_RECIPE_H

#include "base/err.h"
#include "base/plugin.h"

#include <stdio.h>

typedef struct mu_recipe_ask {
    const char *path;           // of the data, to be opened from here
    const char *file;           // the same as the job must call it, from the job's own folder
    const char *test_file;      // likewise, of test data; NULL = there is none
    const char *label;          // column to be predicted; NULL = the recipe finds out
    const char *name;           // of the job
} mu_recipe_ask;

typedef struct mu_recipe_class {
    MU_PLUGIN_HEAD;             // name: the word after `init`; no fields
    // Writes the job to `out`, and to `found` one line about the data ("9960 sentences, 64 labels").
    // MU_EDATA with the file named where it is no data of this kind, with a hint what it may be.
    // MU_EUSAGE where it is asked for what this kind has not (a label of a text).
    mu_status (*write)(const mu_recipe_ask *ask, FILE *out, char *found, size_t found_size, mu_err *err);
} mu_recipe_class;

extern const mu_registry mu_recipes;

#endif
