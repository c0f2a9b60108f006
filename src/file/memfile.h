// SPDX-License-Identifier: Apache-2.0
// memfile.h - text that was typed or piped in, as a file without a name: readers take files.
#ifndef MU_FILE_MEMFILE_H
#define MU_FILE_MEMFILE_H

#include "base/err.h"

#include <stdio.h>

#define MU_MEMFILE_PATH 64

// An empty file in memory; `path` leads to it while *fd is open.
MU_MUST_CHECK mu_status mu_memfile_open(int *fd, char path[MU_MEMFILE_PATH], mu_err *err);
MU_MUST_CHECK mu_status mu_memfile_add(int fd, const char *text, size_t n, mu_err *err);
// All that `in` gives, which names it in messages. MU_EDATA where that is nothing, or more than 1 GiB.
MU_MUST_CHECK mu_status mu_memfile_add_stream(int fd, FILE *in, const char *name, mu_err *err);

#endif
