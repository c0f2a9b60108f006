// SPDX-License-Identifier: Apache-2.0
// place.h - what a job must call a file, seen from the job's own folder.
#ifndef MU_RECIPE_PLACE_H
#define MU_RECIPE_PLACE_H

#include "base/err.h"
#include "file/fs.h"

// job: path of the job file, which need not exist; without a folder in it (or `-`) the name stays as it is.
// Both relative: the way from one folder to the other, links resolved. One absolute: the absolute path.
// MU_EUSAGE for a name that no job can hold (not UTF-8), MU_EIO where a folder is not there.
MU_MUST_CHECK mu_status mu_recipe_place(const char *file, const char *job, char out[MU_FS_PATH], mu_err *err);

enum { MU_RECIPE_NAME = 64 };   // bytes of a job's name with its terminator

// What a job in the file `job` is called: the file's name without folder and ending, and with a `-` for what
// cannot stand in the name of a run folder.
void mu_recipe_name(const char *job, char out[MU_RECIPE_NAME]);
bool mu_recipe_name_fits(const char *name);     // letters, digits, `-`, `_`, `.`, a letter or digit first

#endif
