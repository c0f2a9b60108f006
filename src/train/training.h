// SPDX-License-Identifier: Apache-2.0
// training.h - what a training under way knows, and what is reported of it, wherever its gradients come from
// (gradients.h).
#ifndef MU_TRAIN_TRAINING_H
#define MU_TRAIN_TRAINING_H

#include "store/events.h"
#include "store/metrics.h"
#include "train/advisor.h"
#include "train/kept.h"
#include "train/snapshot.h"
#include "train/train.h"

#define MU_PROGRESS_EVERY_S 0.2

typedef struct mu_due { mu_interval every; double next; } mu_due;      // `next` in the interval's own unit

// Seconds from one checkpoint to the next where the job leaves that open: a minute, or so long that saving
// takes no more than 3 % of the time. took_s: how long the last one took.
double mu_save_interval(double took_s);

// What a source of gradients adds to each line of metrics: fills at most MU_TRAINING_TABLES, returns how
// many.
enum { MU_TRAINING_TABLES = 3 };
typedef struct mu_training_tables {
    size_t (*fill)(void *ctx, mu_metric_table *out);
    void  *ctx;
} mu_training_tables;

typedef struct mu_limits {              // what ends a training; 0 = does not
    int64_t steps, patience;
    double  epochs, deadline, target_accuracy;
} mu_limits;

typedef struct mu_training {
    mu_session        *s;
    mu_position        at;
    mu_finished        finished;                // when the source of gradients began, and after its end
    mu_length          end;
    int64_t            end_sample;              // where steps or epochs end: a whole step
    mu_limits          limits;                  // of the job, unless the source of gradients has its own end
    double             rate;                    // effective one of the last update; before it of the first
    double             begin_share;             // at.time_share when this process began
    mu_progress_state  ps;
    const mu_run_opts *o;
    mu_run_result     *out;
    mu_rundir          dir;
    char               ckpt_dir[MU_FS_PATH];
    mu_metrics        *metrics;
    mu_training_tables tables;                  // by the source of gradients, while it runs; fill NULL = none
    mu_events         *train_events, *eval_events;
    mu_due             log, test, save;
    mu_advisor         advisor;
    mu_kept            kept;                    // the best weights while they are not saved
    int64_t            n_saved;                 // checkpoints by this process, and how long they took
    double             saved_s;
    double             start_s, before_s;       // clock at start of this process; seconds trained earlier
    double             loss_sum, accuracy_sum;  // since the last log line
    int64_t            loss_n;
    double             window_s;                // clock at the last log line
    int64_t            window_samples, start_samples;
    double             last_loss, last_speed, eval_s, next_progress;
    int64_t            saved_version, evaluated_version;        // when last done, -1 = never
    int                learners;                // alive
    bool               follows;                 // another rank evaluates, saves, and says when it ends
    const char        *why;                     // it ends; NULL = it goes on
} mu_training;

// Where it stands, of a source that has used numbers in order since it began.
mu_finished mu_training_finished_samples(const mu_training *r);
void mu_training_set_due(mu_training *r);                       // the next marks after where it stands
bool mu_training_due(const mu_training *r, mu_due *d);          // a mark was reached; moves on to the next
bool mu_training_crossed(const mu_training *r, mu_interval every);      // by the last step
void mu_training_say(const mu_training *r, const char *fmt, ...) MU_PRINTF(2, 3);
mu_run_moment mu_training_moment(const mu_training *r);
void mu_training_log(mu_training *r);                           // one line of metrics
void mu_training_write_scores(mu_training *r, mu_phase phase, const mu_scores *sc, const mu_position *at);
double mu_training_seconds(const mu_training *r);               // of training, over all resumes
void mu_training_keep_scores(mu_run_result *out, mu_phase phase, const mu_scores *sc, int64_t step);
// Takes the scores of an evaluation: reports, best, patience, target. True: best. Only validation data
// chooses.
bool mu_training_evaluated(mu_training *r, mu_phase phase, const mu_scores *sc, const mu_position *at);
// An evaluation was the best so far: may its weights wait for the next checkpoint (kept.h)?
bool mu_training_may_hold(const mu_training *r);
void mu_training_saved(mu_training *r, double took_s);          // a checkpoint: counts it, sets the next mark
// Does the task in this process, on the session's parameters, at r->at (or those that are held). A stop
// request breaks an evaluation off: MU_EINTERRUPTED.
void mu_training_snapshot(mu_training *r, const mu_snapshot_task *task, mu_snapshot_answer *out);
double mu_training_time_share(const mu_training *r);            // what at.time_share is to become now
bool mu_training_stop_asked(const mu_training *r);
bool mu_training_finished(mu_training *r);                      // sets r->why
bool mu_training_interrupted(const mu_training *r);             // by a signal or a stop request

#endif
