// SPDX-License-Identifier: Apache-2.0
// training.h - what a training under way knows, and what is reported of it, wherever its gradients come from
// (gradients.h).
#ifndef MU_TRAIN_TRAINING_H
#define MU_TRAIN_TRAINING_H

#include "store/events.h"
#include "store/metrics.h"
#include "train/snapshot.h"
#include "train/train.h"

#define MU_PROGRESS_EVERY_S 0.2

typedef struct mu_due { mu_interval every; double next; } mu_due;      // `next` in the interval's own unit

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
    double             rate;                    // of the last update
    mu_progress_state  ps;
    const mu_run_opts *o;
    mu_run_result     *out;
    mu_rundir          dir;
    char               ckpt_dir[MU_FS_PATH];
    mu_metrics        *metrics;
    mu_events         *train_events, *eval_events;
    mu_due             log, test, save;
    double             start_s, before_s;       // clock at start of this process; seconds trained earlier
    double             loss_sum, accuracy_sum;  // since the last log line
    int64_t            loss_n;
    double             window_s;                // clock at the last log line
    int64_t            window_samples, start_samples;
    double             last_loss, last_speed, eval_s, next_progress;
    int64_t            saved_version, evaluated_version;        // when last done, -1 = never
    int                learners;                // alive
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
// Takes the scores of an evaluation: reports, best, patience, target. True: best. Only validation data chooses.
bool mu_training_evaluated(mu_training *r, mu_phase phase, const mu_scores *sc, const mu_position *at);
// Does the task in this process, on the session's parameters, at r->at. A stop request breaks an evaluation
// off: MU_EINTERRUPTED.
void mu_training_snapshot(mu_training *r, const mu_snapshot_task *task, mu_snapshot_answer *out);
bool mu_training_stop_asked(const mu_training *r);
bool mu_training_finished(mu_training *r);                      // sets r->why
bool mu_training_interrupted(const mu_training *r);             // by a signal or a stop request

#endif
