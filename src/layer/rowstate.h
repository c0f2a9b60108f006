// SPDX-License-Identifier: Apache-2.0
// rowstate.h - what a layer remembers from one batch to the next, for each of several streams of samples.
//
// Sample g is number g / streams of stream g % streams. After a sample the layer leaves a state for the next
// one of its stream: the hidden state of a recurrent layer, a persistent Gibbs chain. In training the states
// lie in a parameter (`is_state`), so they are in every checkpoint, shared by the learners, and a run that
// resumes goes on with the same bits; other phases have a memory of their own that begins anew with sample 0,
// or with the warm-up before it, whose samples have negative numbers (data/source.h).
//
//   a row of the parameter = a stream:  [tag | state after an even number][tag | state after an odd one]
//
// The tag tells the number the state belongs to. A state is never overwritten by its direct successor, so a
// gradient that has to be made again (its learner died) begins with what it began with the first time, and
// merging the rows of several learners is taking the larger tag. Tag 0: there is no state, or it is being
// written; learners that share the memory (hogwild) never see one that is not complete.
//
// What a sample may begin with is its layer's choice. A text goes on only from what the direct predecessor
// left (`before`): a learner that finds none, since another is still busy with it, begins a new sequence. A
// Gibbs chain may go on from any state of its stream (`latest`): a learner that is behind never restarts it.
#ifndef MU_LAYER_ROWSTATE_H
#define MU_LAYER_ROWSTATE_H

#include "read/reader.h"
#include "layer/layer.h"

#define MU_ROWSTATE_MAX 8000    // floats of one state

typedef struct mu_rowstate {
    int64_t   streams, width;           // width: floats of one state
    mu_param *param;                    // training
    float    *own;                      // other phases
} mu_rowstate;

// In infer. `what` is one of class->params: "state", or "chain" of layers with a field `chains`. A batch may
// not have more rows than streams.
mu_status mu_rowstate_infer(mu_rowstate *s, mu_layer *l, const char *what, int64_t streams, int64_t width,
                            mu_err *err);
// Two rows of one batch would be of one stream, and the second could not find what the first leaves. Infer
// looks at the rows of one learner; the batch of several that wait for each other is the session's to check.
mu_status mu_rowstate_check(const mu_layer *l, const char *what, int64_t streams, int64_t rows, mu_err *err);
// The state that the direct predecessor of sample g left; NULL = none, a sequence begins.
const float *mu_rowstate_before(const mu_rowstate *s, int64_t g);
// The same in a copy of its own, `to` (width floats): learners that share the memory may overwrite the state
// while it is used. NULL also when that happened during the copy.
const float *mu_rowstate_read(const mu_rowstate *s, int64_t g, float *to);
// The newest state of the stream of g that is older than g; when there is none, the newest that is not of g
// itself; NULL = none at all.
const float *mu_rowstate_latest(const mu_rowstate *s, int64_t g);
// Where to write the state after sample g, which no sample finds before it is committed.
float *mu_rowstate_slot(mu_rowstate *s, int64_t g);
void   mu_rowstate_commit(mu_rowstate *s, int64_t g);

// Merges rows [row0, row1) of several copies of the parameter: of each state the newest, at least as new as
// what is there. Doing it twice is doing it once.
void mu_rowstate_merge(const mu_param *p, float *value, int64_t row0, int64_t row1, int n,
                       const float *const *copy);

#endif
