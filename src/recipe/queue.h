// SPDX-License-Identifier: Apache-2.0
// queue.h - a script that trains a job on several nodes of a cluster: `muster init QUEUE JOB`.
//
// A queue is one file, q_<name>.c: the system that gives out nodes. Its script is handed to that system as it
// is, and is a person's to edit: short, commented, and nothing in it has to be filled in. It goes on by
// itself, from the last checkpoint, where nodes or time were taken away, and never begins a second training
// in a folder that has one.
// Paths of a person go into it by mu_queue_word only: a folder may be called anything.
#ifndef MU_RECIPE_QUEUE_H
#define MU_RECIPE_QUEUE_H

#include "base/err.h"
#include "base/plugin.h"

#include <stdint.h>
#include <stdio.h>

typedef struct mu_queue_ask {
    const char *folder;  // of the job, absolute
    const char *file;    // the job's name in it
    const char *name;    // of the training: letters, digits, `-`, `_`, `.` (recipe/place.h)
    const char *program; // this program, absolute
    int64_t nodes, cpus; // cpus: of each node
} mu_queue_ask;

typedef struct mu_queue_class {
    MU_PLUGIN_HEAD;      // name: the word after `init`; no fields
    const char *ending;  // of the script's file
    const char *command; // that hands it in
    void (*write)(const mu_queue_ask *ask, FILE *out);
} mu_queue_class;

extern const mu_registry mu_queues;

enum { MU_QUEUE_WORD = 4 * 4096 + 3 }; // bytes: room for any path, were each of its letters a quote

// A word as a shell takes it.
void mu_queue_word(const char *word, char out[MU_QUEUE_WORD]);

#endif
