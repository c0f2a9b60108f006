// SPDX-License-Identifier: Apache-2.0
// record.h - the log of a run by several learners: which gradients went into which update, in which order.
//
// That order is all that chance decides in a run whose gradients are each computed on the weights of one
// version (weights: copy, locks: true, which recording switches on). With it learners/g_replay.c repeats the
// run bit for bit.
//
// The file, all numbers little-endian:
//     8 bytes    "MUSTRLOG"
//     frames     u32 kind, u32 n, n bytes, u64 check
//         1 head     once, first: what the run was (mu_runlog_head)
//         2 update   i64 version, f64 rate, u32 parts, u32 skip; then 64 bytes for each part
//                        u32 learner, incarnation; i64 step, version, first; u32 rows, global_rows;
//                        f32 weight, scale; u32 bad, 0; f64 loss
//         3 end      once, last: where the run stood, and the sum of its weights (mu_runlog_end)
// check is XXH64 of kind, n and the bytes, with the check before it as seed: a frame counts only after all
// frames before it. A log that was torn is good up to its last whole frame.
#ifndef MU_LEARNERS_RECORD_H
#define MU_LEARNERS_RECORD_H

#include "base/alloc.h"
#include "base/err.h"
#include "net/params.h"
#include "ps/journal.h"
#include "ps/message.h"

#define MU_RUNLOG_FORMAT 1
#define MU_RUNLOG_PROTOCOL 32

typedef struct mu_runlog_head {
    char     protocol[MU_RUNLOG_PROTOCOL];      // NUL terminated
    int32_t  learners;
    int64_t  rows, global_batch, seed;
    int64_t  first_version, first_sample;       // where it began
    uint64_t job_hash;                          // mu_job_hash
    uint64_t layout;                            // mu_runlog_layout
    uint64_t start[2];                          // mu_runlog_sum of the initial parameters
    const char *const *sets;                    // edits of the job by the command line, "key=value"
    size_t   n_sets;
} mu_runlog_head;

typedef struct mu_runlog_end {
    int64_t  version, step, samples;            // the training's own counters
    uint64_t weights[2];                        // mu_runlog_sum
} mu_runlog_end;

// XXH3-128 over values and histories.
void mu_runlog_sum(const mu_params *ps, uint64_t sum[2]);
// Of everything that says which gradient lies where: parameters, their forms, their slices.
uint64_t mu_runlog_layout(const mu_params *ps, const mu_message_layout *layout, int n_slices);

// ---- writing: the parent of a run ----

typedef struct mu_recorder mu_recorder;

// A file that exists is not written over: MU_EUSAGE.
MU_MUST_CHECK mu_status mu_recorder_open(const char *path, const mu_runlog_head *head, mu_recorder **out,
                                         mu_err *err);
// Takes what the journal holds and writes it. After a failure the log has ended: nothing is written any more,
// the journal is emptied all the same.
MU_MUST_CHECK mu_status mu_recorder_drain(mu_recorder *r, mu_journal *j, mu_err *err);
// Writes the end (NULL: the run broke off), syncs and closes. NULL is fine.
MU_MUST_CHECK mu_status mu_recorder_close(mu_recorder *r, const mu_runlog_end *end, mu_err *err);

// ---- reading ----

typedef struct mu_runlog_update {
    mu_journal_update u;
    size_t first_part;                          // parts[first_part .. + u.n_parts)
} mu_runlog_update;

typedef struct mu_runlog {
    mu_arena          arena;                    // texts of the head
    mu_runlog_head    head;
    size_t            n_updates, n_parts;
    mu_runlog_update *updates;                  // versions head.first_version + 1, + 2, ...
    mu_journal_part  *parts;
    bool              ended;                    // `end` is there; else the run broke off or the file is torn
    mu_runlog_end     end;
    size_t            lost_bytes;               // behind the last whole frame
} mu_runlog;

// MU_EDATA for what is no log, or says what no run can have done. `path` names it in messages.
MU_MUST_CHECK mu_status mu_runlog_parse(const void *data, size_t size, const char *path, mu_runlog **out,
                                        mu_err *err);
MU_MUST_CHECK mu_status mu_runlog_load(const char *path, mu_runlog **out, mu_err *err);
void mu_runlog_destroy(mu_runlog *log);

// ---- the bytes, for the two sides ----

enum {
    MU_RUNLOG_HEAD = 1, MU_RUNLOG_UPDATE = 2, MU_RUNLOG_END = 3,        // kinds
    MU_RUNLOG_FRAME = 16,               // bytes of a frame around its content
    MU_RUNLOG_UPDATE_BYTES = 24,
    MU_RUNLOG_PART_BYTES = 64,
    MU_RUNLOG_END_BYTES = 40,
    MU_RUNLOG_MAX_LEARNERS = 4096,
    MU_RUNLOG_MAX_SETS = 4096,
    MU_RUNLOG_MAX_HEAD = 1 << 20,       // bytes
};
extern const char mu_runlog_magic[8];
uint64_t mu_runlog_check(const void *kind_n_bytes, size_t n, uint64_t before);

// The edits that make a job the one that was recorded: those of the log come before *sets, and its learners,
// which may have been counted by the cores of another machine. *sets is replaced by an array of the arena.
MU_MUST_CHECK mu_status mu_runlog_edits(const char *path, mu_arena *arena, const char ***sets, size_t *n_sets,
                                        mu_err *err);

#endif
