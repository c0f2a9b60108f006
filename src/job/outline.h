// SPDX-License-Identifier: Apache-2.0
// outline.h - the sections of a job file.
#ifndef MU_JOB_OUTLINE_H
#define MU_JOB_OUTLINE_H

#include "job/job.h"

// Checks which sections there are and of which kind, binds the options of training, and fills
// job->data, net, updater and cluster. Problems go to the job's diags.
void mu_outline_bind(mu_job *job);

#endif
