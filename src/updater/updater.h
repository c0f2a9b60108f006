// SPDX-License-Identifier: Apache-2.0
// updater.h - station 6: from gradients to new weights.
//
// An updater class (u_<rule>.c) is a pure loop over a slice: the same code runs in a learner, in a
// server, on a whole parameter or on a part of one. Everything rules have in common is done once here,
// in pieces that stay in the first cache: scaling, clipping by value, L1/L2 decay, multiplying out
// factors, collecting rows. So each rule sees a plain dense piece and still streams memory only once.
// A rule that is fast enough to notice the detour does these things itself (fused).
//
//   g = clip(scale * grad);  g += l2 * decay_mult * w + l1 * decay_mult * sign(w);  rule(w, g, lr * lr_mult)
//   then, with max_norm, every row that was changed is scaled to at most this length
#ifndef MU_UPDATER_UPDATER_H
#define MU_UPDATER_UPDATER_H

#include "job/bind.h"
#include "net/params.h"

typedef struct mu_undo_log {            // old values, for the parent to restore if this process is killed
    float  *value, *slot[MU_MAX_SLOTS]; // (n) each; NULL for histories that never change (n_changed)
    // Elements that are in the log. In program order the rule copies some, raises this, then changes them:
    // the parent sees a prefix of the dead process's stores (ps/slices.c).
    volatile size_t *n;
} mu_undo_log;

// What is different where gradients are stale (ps/stale.h).
typedef struct mu_stale_step {
    float share;                        // of weight decay: what the gradients are of those of a step; 0 = all
    bool  lowers;                       // the momentum is not the rule's own, but:
    float keep;                         // share of the last step that is kept
    // (rules whose momentum adds up) The weights kept lead those of the rule by this many of its last steps,
    // as by Nesterov: about where they will be when gradients that are computed on them arrive.
    float ahead;
    float descent;                      // of the rate of parameters that descend by it alone; 0 = all
} mu_stale_step;

// Which update it is. `young` follows the samples used (mu_step_rate), so it cannot be told from the number.
typedef struct mu_rule_step {
    int64_t update;                     // its number, from 0
    bool    young;                      // is_young of the rule said so; elsewhere false
    mu_stale_step stale;
} mu_rule_step;

enum { MU_TERMS = 4 };                  // more are added up in a buffer first: that is as fast from here on

typedef struct mu_term { float d; const float *x; } mu_term;    // d * x, what one sample gives to a row

typedef struct mu_next {                // the update behind one of a slice
    float          scale, lr;
    mu_rule_step   step;
    const float   *grad;                // as the one before has it: NULL with terms
    const mu_term *term;                // as many as the one before has
} mu_next;

typedef struct mu_slice {
    size_t       n;
    float       *value;                 // (n) in and out
    const float *grad;                  // (n) scaled, clipped, with decay; for a fused rule raw, or NULL
    float       *slot[MU_MAX_SLOTS];    // (n) each: the rule's history
    // What is left to a `fused` rule; scale is 1, the others 0 and NULL elsewhere. `back` excludes `undo` and
    // terms.
    float          scale, decay;        // the gradient is scale * grad + decay * value
    int            n_terms;             // 0, or 2 to MU_TERMS whose sum takes the place of `grad`, then NULL
    const mu_term *term;
    float         *back;                // (n) gets scale * value, as it was, added; NULL = not wanted
    const mu_undo_log *undo;            // NULL = no log
    const mu_next *next;                // (rules with `pairs`) NULL = none; excludes `undo` and `back`
} mu_slice;

typedef enum mu_step_size {             // how the step of a rule follows the size of its gradients
    MU_STEP_FOLLOWS,                    // half the gradient, half the step
    MU_STEP_OWN,                        // not at all: it divides by their size, as the last of them show it
    MU_STEP_SHRINKS,                    // nor this, but it is the shorter the more of them there were
} mu_step_size;

typedef struct mu_updater_class {
    MU_PLUGIN_HEAD;
    int         n_slots;
    const char *slot_name[MU_MAX_SLOTS];        // names in checkpoints
    void      (*apply)(const void *state, const mu_slice *s, float lr, mu_rule_step step);
    bool        fused;                  // apply does all that mu_slice has for it, in one pass
    bool        pairs;                  // and `next`, with the bits of two calls
    int       (*n_changed)(const void *state);  // (optional, n_slots) histories that apply changes
    // (optional, all states are good) What is wrong with the bound fields together; NULL = nothing.
    const char *(*check)(const void *state);
    // (optional, not known) Between what and what rates are that train nets.
    void      (*usual_rates)(const void *state, double range[2]);
    // (optional, never) Is training still young after so many steps or epochs of samples?
    bool      (*is_young)(const void *state, int64_t step, double epoch);

    // ---- what it makes of many stale gradients, each of a part of a step (ps/stale.h) ----
    mu_step_size size;
    // (optional, 0) The share of the last step that is kept. A rule that has this obeys mu_rule_step.stale.
    double    (*momentum)(const void *state, bool young);
    // A lasting gradient ends up at rate / (1 - momentum); else at the rate: a mean of gradients is kept.
    bool        adds_up;
} mu_updater_class;

typedef struct mu_schedule_class {      // lr_<name>.c
    MU_PLUGIN_HEAD;
    // Rate at time t (steps, or epochs when the job says `per: epoch`); end = planned length, 0 = unknown.
    double (*rate)(const void *state, double base, double t, double end);
    // (optional, it never does) The time at which the rate has come to its last value; 0 = not known.
    double (*ends)(const void *state, double end);
    bool    follows_time;               // (needs `ends`) a deadline makes it end when the time does
    // (optional, all states are good) What is wrong with the bound fields together; NULL = nothing.
    const char *(*check)(const void *state);
} mu_schedule_class;

extern const mu_registry mu_updaters, mu_schedules;

typedef struct mu_updater {
    const mu_updater_class  *class;
    void                    *state;
    const mu_schedule_class *schedule;
    void                    *schedule_state;
    double  base;                       // rate.base
    int     per;                        // rate.per: 0 step, 1 epoch
    double  warmup;                     // same unit as per; rate rises linearly from warmup_from * rate
    double  warmup_from;
    float   l2, l1;                     // `decay`, `l1`
    float   clip_value, clip_norm;      // 0 = off; norm is over all parameters
} mu_updater;

// Binds `updater:` ({type: sgd, momentum: .9, decay: ..., rate: 0.01 | {type: step, base: ...}}).
// Problems go to the diags; NULL when there were any.
mu_updater *mu_updater_bind(mu_binder *b, const mu_node *node);

// What an update is made with. Both follow the samples used so far, in steps and epochs, so that they mean
// the same with any number of learners; the number of updates would not, since protocols differ in how many
// of them a step has.
typedef struct mu_step_rate {
    double rate;
    bool   young;                       // as the rule sees it (the key `early` of momentum)
    mu_stale_step stale;            // none where gradients are fresh
} mu_step_rate;

// time_share: of the time that the training has, 0 = that does not count. A schedule that follows the time is
// as far as its steps (or epochs) or the time, whichever is further.
double mu_updater_rate(const mu_updater *u, int64_t step, double epoch, double end_steps, double end_epochs,
                       double time_share);
// The step (or epoch, by u->per) at which the rate changes for the last time; 0 = not known, or never.
double mu_updater_rate_ends(const mu_updater *u, double end_steps, double end_epochs);
bool   mu_updater_is_young(const mu_updater *u, int64_t step, double epoch);
// The share of the last step that it keeps by itself; 0 = a rule without momentum.
double mu_updater_momentum(const mu_updater *u, bool young);

typedef struct mu_target {              // what an update changes
    const mu_updater *updater;
    const mu_param   *param;
    float            *value;            // (count) the parameter's first element, in any block
    float            *slot[MU_MAX_SLOTS];       // (count) each: its histories; [0, n_slots) of the rule
} mu_target;

// Parameter p in the blocks of ps.
mu_target mu_target_of(const mu_updater *u, const mu_params *ps, const mu_param *p);

typedef struct mu_update {              // g = sum of weight[j] * grad[j]; forms may differ
    int                   n;
    const mu_grad *const *grad;
    const float          *weight;       // norm clipping, accumulation, the protocol's
    double                rate;
    mu_rule_step          step;
} mu_update;

// Form NONE, statistics and lr_mult 0 change nothing. Row form is lazy: rows that are not named get no decay,
// no momentum and no history in this update, whatever the rule; ids outside the matrix are ignored.
void mu_updater_apply(const mu_target *t, const mu_update *a);
// A dense gradient of rows [row0, row0 + n_rows) of a matrix alone. Of the update, rate and step count.
void mu_updater_apply_rows(const mu_target *t, const mu_update *a, int64_t row0, int64_t n_rows,
                           const float *grad);
// The same when row row0 + r of the gradient is dy[r] * x, of the parameters and rules that take it so. With
// dx, what backward needs of these rows is done in the same pass: dx += sum of dy[r] * row r as it was.
bool mu_updater_takes_outer(const mu_updater *u, const mu_param *p);
void mu_updater_apply_outer(const mu_target *t, const mu_update *a, int64_t row0, int64_t n_rows,
                            const float *dy, const float *x, float *dx);

// Called around every write of at most `piece` consecutive floats (of the values and of each history). The
// pieces and their order depend only on the gradients and the range, so an update that was interrupted can be
// repeated with the pieces already written left out (before: false = leave out). With max_norm every changed
// row is, after all of them, a piece once more, of its whole length.
typedef struct mu_update_guard {
    size_t piece;                       // floats
    // Floats within the parameter. undo: the rule keeps old values as it goes, where this says (n NULL:
    // nowhere); NULL: it does not.
    bool (*before)(void *ctx, size_t offset, size_t n, mu_undo_log *undo);
    void (*after)(void *ctx, size_t offset, size_t n);
    void  *ctx;
} mu_update_guard;

// On the floats [begin, end) of the parameter alone: whole rows, or a part of one row. Same result for every
// way of cutting. guard: NULL = none.
void mu_updater_apply_range(const mu_target *t, const mu_update *a, size_t begin, size_t end,
                            const mu_update_guard *guard);

enum { MU_SERIES = 16 };
// Up to MU_SERIES updates of a range one after the other, the same bits as by one call for each. Two of
// equally few samples are made in one pass over memory, where the rule can.
void mu_updater_apply_series(const mu_target *t, int n, const mu_update *update, size_t begin, size_t end);

int mu_updater_n_changed(const mu_updater *u);  // histories that this rule, as it is set, changes

// Sum of squares of a gradient in any form (for norm clipping and reports); not finite if any element is.
double mu_grad_sum_squares(const mu_param *p, const mu_grad *g);

// Is every element finite? Factors: small enough that every product and sum of a batch is. One pass over
// what the form holds.
bool mu_grad_is_finite(const mu_param *p, const mu_grad *g);

extern const mu_field mu_updater_fields[], mu_rate_fields[];    // the common keys, for help and the reference

#endif
