// SPDX-License-Identifier: Apache-2.0
// region.h - one piece of memory shared by the processes of a run.
//
// It is an anonymous file (memfd) named "muster-<run id>": it has no name in any file system, so it
// vanishes with its last user however that one ends, and /dev/shm can hold no leftovers. Mode 0600: other
// processes of the same user reach it through /proc/<pid>/fd/<fd>, other users do not. All pages are
// reserved at creation, so a full memory is an error then and never a SIGBUS later.
//
// Children inherit the mapping at the same address (fork). Processes that attach see it elsewhere, so
// whatever lies in a region refers to other parts of it by offset.
#ifndef MU_COMM_REGION_H
#define MU_COMM_REGION_H

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

typedef struct mu_region {
    int    fd;
    size_t size;
    char  *base;                // page aligned; zeroed at creation
} mu_region;

MU_MUST_CHECK mu_status mu_region_create(const char *run_id, size_t size, mu_region *out, mu_err *err);
// MU_ENOTFOUND when the process or the descriptor is gone, MU_EUSAGE when it is no region of ours.
MU_MUST_CHECK mu_status mu_region_attach(pid_t pid, int fd, bool writable, mu_region *out, mu_err *err);
void mu_region_close(mu_region *r);             // unmaps and closes; a zeroed one is fine

#endif
