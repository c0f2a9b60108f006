// SPDX-License-Identifier: Apache-2.0
// spread.h - a training whose server groups are spread over several ranks: what their parents do together.
//
//   rank 0     decides when the training ends, evaluates and saves; it alone has a run folder
//   others     train, and do what it says
//
//   merge      each rank shows the others its weights (rounds.h)
//   copy       rank 0 asks for one; each rank sends the mean of its groups and where they stand, and goes on
//   end        each tells rank 0 when its learners have ended; when all have, and rank 0 has nothing more to
//              ask, it closes the training: all tell where they stand, make the last merge, and send rank 0
//              the mean of their groups and what has become of their gradients
#ifndef MU_LEARNERS_SPREAD_H
#define MU_LEARNERS_SPREAD_H

#include "learners/gathering.h"
#include "learners/rounds.h"
#include "learners/standing.h"

typedef struct mu_spread {              // zeroed: of a training on one rank
    mu_nodes *nodes;                    // NULL = one rank
    mu_rounds rounds;
    int       own, first, all;          // groups of this rank, its first one, those of all ranks
    int       blocks;                   // of a copy: weights and histories
    mu_standing_part *part;             // (all) of the copy under way; owned, with the lists of others
    int64_t   number;                   // of that copy
    int       points;                   // that came of it
    bool      missed;                   // a rank cannot make it
    float   **copy;                     // rank 0: (ranks x blocks) of others; owned
    int64_t   copied;                   // floats that came of it
    int64_t   wanted;                   // others: a copy that rank 0 asks for; 0 = none
    bool     *has_ended;                // (ranks) learners of others; owned
    bool      said_ended, closed, said_stop;
    bool      asked;                    // rank 0: another rank was asked to stop. Others: rank 0 ends it,
    bool      due;                      // but not because a person wants it
    mu_gathering gathering;             // at the end
} mu_spread;

// nodes NULL: leaves it zeroed. From now on it takes what comes.
MU_MUST_CHECK mu_status mu_spread_open(mu_spread *s, mu_nodes *n, const mu_training *t, mu_err *err);
void mu_spread_close(mu_spread *s);
static inline bool mu_spread_leads(const mu_spread *s) { return !s->nodes || s->nodes->rank == 0; }
static inline int mu_spread_ranks(const mu_spread *s) { return s->nodes ? s->nodes->n : 1; }

// ---- copies ----

// Where the own groups stand, in s->part.
void mu_spread_note_points(mu_spread *s, const mu_server_group *group);
// Rank 0. The next copy is wanted.
MU_MUST_CHECK mu_status mu_spread_ask(mu_spread *s, mu_err *err);
bool mu_spread_has_copies(const mu_spread *s);
// Into the weights and histories of this rank, the mean of all ranks.
void mu_spread_join(const mu_spread *s, const mu_params *ps, float *value, float *const *slot);
// Others. The copy that is wanted: its points are noted. Blocks stay as they are until nothing is owed of
// COPY.
MU_MUST_CHECK mu_status mu_spread_give(mu_spread *s, bool missed, const float *value, float *const *slot,
                                       mu_err *err);

// ---- ends ----

MU_MUST_CHECK mu_status mu_spread_say_ended(mu_spread *s, mu_err *err);         // once
bool mu_spread_all_ended(const mu_spread *s);                                   // rank 0: others have
// Rank 0: all are to end. Others: this rank was asked to stop. Once.
MU_MUST_CHECK mu_status mu_spread_say_stop(mu_spread *s, bool due, mu_err *err);
// Rank 0 closes the training; others know. Then where all groups have ended, in s->part: own points are
// noted.
MU_MUST_CHECK mu_status mu_spread_end(mu_spread *s, mu_err *err);
// At the very end: others give counts and blocks, and wait until rank 0 has them; rank 0 waits for all.
MU_MUST_CHECK mu_status mu_spread_gather(mu_spread *s, const mu_wire_counts *own, const float *value,
                                         float *const *slot, mu_err *err);

#endif
