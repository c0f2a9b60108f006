// SPDX-License-Identifier: Apache-2.0
// cut.h - a layer as a part of a whole one: which rows of the batch and which features it has.
//
// The workers of a group split one net (net/partition.h). A layer is cut by batch, by feature, or by both:
// then its parts are a grid. The layer that is a part runs the same code as a whole one; it has fewer rows,
// fewer features, and a piece of the parameters (layer/param.h), and never asks which.
//
//   feature axis   the channel of images (n, c, h, w), the last axis of everything else. In memory features
//                  are contiguous in both cases, so a part is a strided copy with whole runs of features.
//                  Integers and (n) have none: they are never cut by feature.
//   by batch       rows [begin, end) of the batch. The parameters are the whole ones; the gradients of the
//                  parts add up, since losses divide by the rows of the whole batch.
//   by feature     features [begin, end) of the outputs, and the same share of the rows of each parameter. Of
//                  its sources a part reads the same share (one to one), or all (one to all).
//
// What a class says about itself (mu_layer_class.cuts) is tested for each of them: conform_cuts puts parts
// together and compares them with the whole.
#ifndef MU_LAYER_CUT_H
#define MU_LAYER_CUT_H

#include "base/rng.h"
#include "tensor/tensor.h"

typedef struct mu_extent {       // [begin, end) of 0..whole
    int64_t begin, end, whole;  // whole 0: not cut, all of it however long it is
} mu_extent;

typedef struct mu_cut {
    mu_extent batch, feature;
} mu_cut;

enum {                          // mu_layer_class.cuts
    MU_CUT_BATCH     = 1,
    MU_CUT_FEATURE   = 2,
    MU_CUT_READS_ALL = 4,       // a part by feature reads its sources whole; else the same share of them
    MU_CUT_NEVER     = 8,       // neither. 0 = as the flags say: MU_LAYER_IN_PLACE works element by element,
                                // so batch and feature; what says nothing at all is never cut
};

typedef struct mu_cut_rules {   // how a layer may be cut, with the settings and shapes it has
    unsigned cuts;              // MU_CUT_BATCH, MU_CUT_FEATURE, MU_CUT_READS_ALL
    int64_t  grain;             // a cut by feature lies at a multiple of this
} mu_cut_rules;

static inline bool mu_is_cut(const mu_extent *r) { return r->whole != 0; }

// The axis of features; -1 = there is none.
static inline int mu_feature_axis(const mu_shape *s) { return s->n < 2 ? -1 : s->n == 4 ? 1 : s->n - 1; }
static inline int64_t mu_features(const mu_shape *s) { return s->n < 2 ? 1 : s->d[mu_feature_axis(s)]; }

// Part k of n of `whole` things, of which `grain` stay together; sizes differ by one grain at most.
mu_extent mu_extent_part(int64_t whole, int64_t grain, int k, int n);
// The same share of something that has `whole` elements: exact, or whole does not suit the range.
mu_extent mu_extent_scaled(const mu_extent *r, int64_t whole);
mu_shape mu_cut_shape(const mu_shape *whole, const mu_cut *c);

// Rectangles of blobs in memory. `part` has the shape of the cut, `whole` the other one; 4 bytes an element.
void mu_cut_take(void *part, const void *whole, const mu_shape *shape, const mu_cut *c);
void mu_cut_put(void *whole, const void *part, const mu_shape *shape, const mu_cut *c);

// Of all features; 1 where they are not cut. For metrics of which each part by feature has a share.
static inline double mu_cut_share(const mu_cut *c) {
    const mu_extent *f = &c->feature;
    return mu_is_cut(f) ? (double)(f->end - f->begin) / (double)f->whole : 1;
}

// Which draws of a whole sample the elements of this part have.
mu_rng_part mu_cut_draws(const mu_cut *c);

#endif
