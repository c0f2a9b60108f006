// SPDX-License-Identifier: Apache-2.0
// slices.h - the parameter block cut into slices, and one update applied to one slice.
//
// A slice is some rows of one parameter, about SLICE floats, so that several executors (server threads, or
// the learners beside whom the server runs) share an update and each layer's weights are ready early.
// Cutting depends on nothing but the parameters, and no element's result depends on the cutting.
//
// An executor that is killed inside a slice leaves it half done. So it works in pieces and keeps, in
// shared memory, what a piece was before (mu_undo): the parent puts the piece back, and the slice
// goes on from the last finished piece as if nothing had happened. Exactly once, element by element.
#ifndef MU_PS_SLICES_H
#define MU_PS_SLICES_H

#include "net/params.h"
#include "updater/updater.h"

#include <stdatomic.h>

typedef struct mu_slice_range {
    int32_t param;              // index in the parameter set
    size_t  begin, end;         // floats within the parameter: whole rows, or a part of one row
} mu_slice_range;

typedef struct mu_slice_list { int n; mu_slice_range *range; } mu_slice_list;

MU_MUST_CHECK mu_status mu_slices_make(const mu_params *ps, mu_slice_list *out, mu_err *err);
void mu_slices_fini(mu_slice_list *l);

enum { MU_UNDO_FLOATS = 4096 };         // floats of a piece

typedef struct mu_undo {                // one for each executor, in shared memory
    _Atomic uint32_t valid;             // the piece below is being written
    int32_t  param;
    size_t   begin, n;                  // floats within the parameter
    int      n_blocks;                  // weights and histories
    size_t   at;                        // the slice's done when the piece began; another: finished
    ptrdiff_t done_from_here;           // bytes from this struct to that counter; both lie in one region
    size_t   kept;                      // of n, those whose old values are below; the others are untouched
    int32_t  start[1 + MU_MAX_SLOTS];   // in each was[k]: where the piece's old values begin
    _Alignas(64) float was[1 + MU_MAX_SLOTS][MU_UNDO_FLOATS];
} mu_undo;

enum { MU_APPLY_MAX = 4096 };           // gradients of an update

typedef struct mu_apply {               // a run of updates, for the slices of one parameter
    const mu_updater *updater;
    const mu_params  *params;           // value and slot[] are the blocks to change
    int               n;                // updates, one after the other
    const mu_update  *update;
} mu_apply;

// Applies the run to a slice, the same bits as one update after the other on all slices. *done counts the
// floats that are finished, from 0 (untouched) to end - begin for each update (twice that with max_norm,
// whose rows are pieces of their own), and is advanced after each piece (release); a call with *done in
// between goes on from there, with the gradients of the first call. With undo, in the
// same region as done, a kill at any instruction leaves what mu_undo_restore repairs. undo may be NULL:
// faster, but a kill inside leaves a torn slice, some updates of which are made again. Statistics become the
// mean of the gradients' values, memories of layers the newest of them.
void mu_apply_slice(const mu_apply *a, const mu_slice_range *range, _Atomic size_t *done, mu_undo *undo);
// Up to MU_SERIES updates one after the other, without undo: a kill inside leaves a torn slice.
void mu_apply_series(const mu_updater *u, const mu_params *ps, const mu_slice_range *range, int n,
                     const mu_update *update);
// Puts a piece back that was being written. True if there was one. To be called when the executor is dead,
// before its slice is given to another; may itself be killed and called again.
bool mu_undo_restore(mu_undo *undo, const mu_params *ps);

#endif
