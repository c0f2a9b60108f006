// SPDX-License-Identifier: Apache-2.0
// job.h - station 1: a job file becomes a typed tree.
//
// The job folder knows the file's outline and the options of training itself; the blocks of plug-ins
// (readers, layers, updater, ...) stay nodes and are bound by the folders that own those plug-ins,
// so that this folder depends on none of them. train/session.c walks the whole job and is what
// `muster check` calls.
#ifndef MU_JOB_JOB_H
#define MU_JOB_JOB_H

#include "job/bind.h"

typedef enum mu_phase { MU_TRAIN = 1, MU_VALIDATION = 2, MU_TEST = 4, MU_PREDICT = 8 } mu_phase;
#define MU_PHASE_CHOICES "train|validation|test|predict"
const char *mu_phase_name(mu_phase p);

typedef enum mu_nonfinite { MU_NONFINITE_STOP, MU_NONFINITE_SKIP, MU_NONFINITE_ROLLBACK } mu_nonfinite;

typedef struct mu_train_opts {          // `train:`
    mu_class_ref algorithm;             // bound by train/session.c, whose folders know the plug-ins
    const char *gradients;              // where they come from: auto, or a source (learners/gradients.h)
    int64_t     batch;                  // global batch, mu * lambda
    int64_t     accumulate;             // gradients of this many batches are summed before an update
    double      epochs;                 // 0 = not limited by epochs
    int64_t     steps;                  // updates; 0 = not limited by steps
    double      deadline;               // seconds of training, 0 = none
    int         nonfinite;              // mu_nonfinite
    int64_t     max_bad_steps;          // consecutive non-finite steps before `skip` gives up
    int64_t     patience;               // early stop after this many validations without improvement, 0 = off
    double      min_improvement;        // what counts as improvement
    double      target_accuracy;        // stop when validation (or test) reaches it, 0 = off
    bool        shuffle;
    mu_strings init_from; // checkpoints or safetensors files to take initial values from, by name
} mu_train_opts;

typedef struct mu_test_opts {           // `test:`
    mu_interval every;                  // how often validation or test data is evaluated while training
    int64_t     batch;                  // 0 = the training batch
    bool        at_start;
} mu_test_opts;

typedef struct mu_checkpoint_opts {     // `checkpoint:`
    mu_interval every;
    int64_t     keep;                   // newest complete ones kept on disk
    bool        best;                   // also keep the best by validation
} mu_checkpoint_opts;

typedef struct mu_log_opts {            // `log:`
    mu_interval every;                  // one line of metrics.jsonl
    bool        tensorboard;
} mu_log_opts;

typedef struct mu_job {
    mu_arena            arena;          // owns everything below
    const char         *path;           // as given
    const char *folder; // relative paths begin here: `base`, else the folder of the path ("." for none)
    const char         *base;           // key `folder`; NULL = not given. Run folders' copies of jobs have it
    mu_node            *root;
    mu_diags            diags;
    const char         *name;           // run folders are named after it
    int64_t             seed;
    mu_train_opts       train;
    mu_test_opts        test;
    mu_checkpoint_opts  checkpoint;
    mu_log_opts         log;
    mu_node            *data, *net, *updater, *cluster; // bound later by their owners; NULL if absent
} mu_job;

// Loads, applies the --set edits ("train.batch=32", "net.conv1.filters=64", "data.train.scale=1"),
// checks the outline. MU_EJOB when the file cannot be read or parsed at all, or has errors;
// *out is set also then (so that the caller can add to and print diags), unless memory ran out;
// err repeats the first problem. A misspelt section goes on under the name it was taken for.
mu_status mu_job_load(const char *path, const char *const *sets, size_t n_sets, mu_job **out, mu_err *err);
// The same from text in memory (tests, fuzzing, the service). `path` names it in messages.
mu_status mu_job_parse(const char *path, const char *text, size_t size, const char *const *sets,
                       size_t n_sets, mu_job **out, mu_err *err);
void mu_job_destroy(mu_job *job);

mu_status mu_job_write(const mu_job *job, FILE *out, mu_err *err); // the resolved tree as YAML, reloads equal
// A text in quotes as YAML reads it back, whatever UTF-8 it holds: for jobs that are written as text.
void mu_job_put_text(const char *text, FILE *out);
uint64_t mu_node_hash(const mu_node *n); // of what one block says, as the next; 0 for NULL
uint64_t mu_job_hash(const mu_job *job); // of the tree (keys, texts, order), not of white space or comments

// The outline as field tables, for help and the reference: one row per top-level section; the first
// row (key "") holds the keys at the top of the file. fields NULL: the section belongs to plug-ins.
typedef struct mu_job_section { const char *key, *help; const mu_field *fields; } mu_job_section;
const mu_job_section *mu_job_sections(size_t *n);

#endif
