// SPDX-License-Identifier: Apache-2.0
// axis.h - one logical axis of a stored value as a run of memory.
//
// A value is `outer` blocks of `len` slices of `inner` elements each, where len is the size of the
// axis. Channels-last storage of 4-D values is taken into account: their channel axis is the innermost.
#ifndef MU_LAYER_AXIS_H
#define MU_LAYER_AXIS_H

#include "layer/layer.h"

typedef struct mu_axis_view {
    int64_t outer, len, inner;
} mu_axis_view;

mu_axis_view mu_axis_of(const mu_shape *shape, int axis);

// `axis` of layer l's source is an axis other than the batch. Reports MU_EJOB otherwise.
mu_status mu_axis_check(const mu_layer *l, int64_t axis, mu_err *err);

// Copies between a whole value and the part of it that starts at slice `at` of the axis (`part` has the
// same outer and inner). Elements are 4 bytes, of either type.
void mu_axis_put(void *whole, mu_axis_view w, int64_t at, const void *part, mu_axis_view p);
void mu_axis_take(void *part, mu_axis_view p, const void *whole, mu_axis_view w, int64_t at);

#endif
