// SPDX-License-Identifier: Apache-2.0
// transform.h - one record field from the reader's form to a row of a batch.
//
//     out = (in - mean) * scale      at the crop window, columns reversed when mirrored
//
// A window moved over the edge (shift) repeats the pixels of the edge there.
// Runs once per sample on the prefetch thread and must keep up with thousands of steps a second:
// the loops are plain and vectorise, and a per-channel mean is held as one image row that every row
// shares (mean_stride 0).
#ifndef MU_DATA_TRANSFORM_H
#define MU_DATA_TRANSFORM_H

#include "base/rng.h"
#include "read/reader.h"

typedef struct mu_transform {
    mu_store     store;                 // of the input; MU_STORE_I32 is copied
    int64_t      h, w, c;               // of the input; no image: 1, n, 1
    int64_t      out_h, out_w;          // crop window; h and w when not cropped
    bool         random_crop;           // else centred
    int64_t      shift_h, shift_w;      // a random window may lie so far outside
    bool         mirror;                // with probability 1/2, by sample number
    float        scale;
    const float *mean;                  // NULL = none
    size_t       mean_stride;           // floats from one row of the mean to the next; 0 = one row for all
    mu_rng_key   key;                   // of the augmentation
} mu_transform;

// src as the reader delivers it, dst (out_h, out_w, c) floats or, for MU_STORE_I32, int32.
void mu_transform_apply(const mu_transform *t, const void *src, int64_t sample, void *dst);

#endif
