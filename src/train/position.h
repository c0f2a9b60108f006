// SPDX-License-Identifier: Apache-2.0
// position.h - where a training stands, how long it is to be, and the rate that follows from both.
//
// Everything is counted in samples, so that schedules mean the same with any number of learners. A step is
// the samples of one global batch (times `train.accumulate`), whatever number of updates they become.
#ifndef MU_TRAIN_POSITION_H
#define MU_TRAIN_POSITION_H

#include "train/session.h"

typedef struct mu_position {
    int64_t step;               // global batches done
    int64_t partial;            // samples done of the step under way
    int64_t samples;            // used since the job began: numbers, as in data/finished.h
    int64_t extra_updates;      // updates beyond one per step; < 0: some took more than a step
    int64_t version;            // changes of the weights: it grows with each, and names checkpoints
    int64_t applied, repeated;  // samples in the weights; of these such as were in them before a resume
    double  rate_scale;         // 1, halved by each rollback
    double  time_share;         // of `train.deadline`, over all resumes; 0 = no deadline. Never falls
} mu_position;
#define MU_POSITION_START ((mu_position){.rate_scale = 1})

typedef struct mu_length { double steps, epochs; } mu_length;   // planned, for schedules; 0 = unknown

mu_length mu_length_of(const mu_session *s);
int64_t   mu_samples_per_step(const mu_session *s);
// Where its steps or its epochs end, whichever comes first, counted on from a position: the end of a step. At
// least at->samples; INT64_MAX = nowhere.
int64_t   mu_end_sample(const mu_session *s, const mu_position *at);
double    mu_epoch_at(const mu_session *s, int64_t samples);            // fractional passes over the data
// `samples` used, counted on (or back) from another position.
mu_position mu_position_at(const mu_session *s, const mu_position *from, int64_t samples);
// Rate of the update that begins at this position: schedule, protocol's factor, rollbacks; young or not.
mu_step_rate mu_step_rate_at(const mu_session *s, const mu_position *at, const mu_length *end);
typedef struct mu_update_place {
    const mu_position *begin;   // of the run
    int64_t version;            // that the update is made of
    bool    first;              // of those under the protocol in force
} mu_update_place;
// The same of an update that one of several learners has a part in: changed as the setup says where gradients
// are stale.
mu_step_rate mu_update_rate_at(const mu_session *s, const mu_update_place *place, const mu_position *at,
                               const mu_length *end);
// The effective rate, the one that people are shown everywhere: what the mean gradient of an update is
// multiplied with, so that rate times the weight that the protocol's rule gives to a gradient by its
// staleness. Here of the update that would begin at this position, with the staleness that is to be expected;
// sources of gradients tell that of the last update made.
double    mu_effective_rate_at(const mu_session *s, const mu_position *at, const mu_length *end);
// mu_position.time_share after `spent` of `deadline` seconds since a start or resume at share `begin`.
double    mu_time_share(double begin, double spent, double deadline);

#endif
