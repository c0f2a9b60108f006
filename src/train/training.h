// SPDX-License-Identifier: Apache-2.0
// training.h - what a training under way knows, and what is reported of it: the same for one learner
// (driver.c) and for a group of processes (cluster.c).
#ifndef MU_TRAIN_TRAINING_H
#define MU_TRAIN_TRAINING_H

#include "train/train.h"
#include "store/events.h"
#include "store/metrics.h"

#define MU_PROGRESS_EVERY_S 0.2

typedef struct mu_due { mu_interval every; double next; } mu_due;      // `next` in the interval's own unit

typedef struct mu_training {
    mu_session        *s;
    mu_worker          w;                       // of a group: only the position
    mu_progress_state  ps;
    const mu_run_opts *o;
    mu_run_result     *out;
    mu_rundir          dir;
    char               ckpt_dir[MU_FS_PATH];
    mu_metrics        *metrics;
    mu_events         *train_events, *judge_events;
    mu_due             log, test, save;
    double             start_s, before_s;       // clock at start of this process; seconds trained earlier
    double             loss_sum, accuracy_sum;  // since the last log line
    int64_t            loss_n;
    double             window_s;                // clock at the last log line
    int64_t            window_samples, start_samples;
    double             last_loss, last_speed, eval_s, next_progress;
    int64_t            bad_in_row;
    int64_t            saved_step;              // when last done, -1 = never
    const char        *why;
} mu_training;

void mu_training_set_due(mu_training *r);                       // the next marks after where it stands
bool mu_training_due(const mu_training *r, mu_due *d);          // a mark was reached; moves on to the next
bool mu_training_crossed(const mu_training *r, mu_interval every);      // by the last step
void mu_training_say(const mu_training *r, const char *fmt, ...) MU_PRINTF(2, 3);
mu_run_moment mu_training_moment(const mu_training *r);
void mu_training_log(mu_training *r);                           // one line of metrics
void mu_training_write_scores(mu_training *r, mu_phase phase, const mu_scores *sc, int64_t step,
                              double epoch);
void mu_training_keep_scores(mu_run_result *out, mu_phase phase, const mu_scores *sc);
// Takes the scores of an evaluation of the weights at `step`: reports, best, patience, target. True: best.
bool mu_training_judged(mu_training *r, mu_phase phase, const mu_scores *sc, int64_t step, double epoch);
bool mu_training_stop_asked(const mu_training *r);
bool mu_training_finished(mu_training *r);                      // sets r->why
bool mu_training_interrupted(const mu_training *r);             // by a signal or a stop request

#endif
