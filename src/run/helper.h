// SPDX-License-Identifier: Apache-2.0
// helper.h - a training by several learners for a program that uses the library: the helper process.
//
// Learners are forked, and a child forked from a process with threads has every lock that another thread held
// at that moment locked for ever: oneDNN's caches, OpenBLAS's buffers, the C library's time zone. A program
// that uses the library may have threads at any time. So there the library starts the program `muster`, which
// trains as `muster train` does and has no thread when it forks. The program around the library never forks,
// and gets one child, which is waited for by its pid.
//
//     program                          helper (muster --train-for PID)
//     run_train: fills the box ─────►  opens the job, takes parameters and position from the box
//     calls the callback  ◄── ASKS ──  progress, evaluations; waits for the answer
//     muster_run_stop ─── stop ─────►  read between steps
//     takes them back     ◄── DONE ──  parameters, position, result or error
//
// The box lies in a region: descriptor MU_HELPER_FD of the helper. It dies with the thread that waits for it.
#ifndef MU_RUN_HELPER_H
#define MU_RUN_HELPER_H

#include "comm/region.h"
#include "comm/wait.h"
#include "run/api.h"

#define MU_HELPER_OPTION "--train-for"          // of the program, followed by the pid of its parent
#define MU_HELPER_PROGRAM "MUSTER_PROGRAM"      // environment: the program to start

enum {
    MU_HELPER_FD = 3,
    MU_HELPER_REFUSED = 64              // exit code: the box is of another version
};

typedef enum mu_helper_state { MU_HELPER_WORKS, MU_HELPER_ASKS, MU_HELPER_DONE } mu_helper_state;

typedef struct mu_helper_box {
    char     version[16];               // MU_VERSION
    uint64_t box_bytes;                 // sizeof of this struct
    // what to do
    uint64_t n_edits, text_bytes;
    uint64_t at_words;                  // job's path, text, edits, folder if any: each ends with a NUL
    bool     has_folder;
    uint64_t count;                     // floats of a block; values first, then each history
    uint64_t n_blocks, at_blocks;       // both ways
    bool     continues;                 // both ways, as in muster_run
    mu_run_position at;                 // both ways
    // under way
    _Atomic int      stop;              // by the program
    _Atomic int32_t  state;             // mu_helper_state: ASKS and DONE by the helper, WORKS by the program
    mu_bell          to_program, to_helper;
    muster_progress  progress;          // while it asks
    // the end
    muster_status    status;
    muster_error     error;
    muster_result    result;
} mu_helper_box;

static inline float *mu_helper_block(mu_helper_box *b, uint64_t i) {
    return (float *)(void *)((char *)b + b->at_blocks) + i * b->count;
}

// The helper's main; the exit code.
int mu_helper_main(const char *parent);
// Trains in a helper. The run's parameters and position change only where a training began.
muster_status mu_helper_train(muster_run *run, muster_progress_fn progress, void *ctx, muster_result *out,
                              muster_error *err);

#endif
