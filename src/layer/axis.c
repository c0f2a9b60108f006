// SPDX-License-Identifier: Apache-2.0
// axis.c - see axis.h.
#include "layer/axis.h"

#include "layer/infer.h"

#include <inttypes.h>
#include <string.h>

#define ELEMENT 4 // bytes of both element types

mu_axis_view mu_axis_of(const mu_shape *shape, int axis) {
    static const int stored_4d[4] = {0, 2, 3, 1}; // logical axis at each place in memory
    mu_axis_view v = {1, shape->d[axis], 1};
    bool passed = false;
    for (int i = 0; i < shape->n; i++) {
        int logical = shape->n == 4 ? stored_4d[i] : i;
        if (logical == axis) passed = true;
        else if (passed) v.inner *= shape->d[logical];
        else v.outer *= shape->d[logical];
    }
    return v;
}

mu_status mu_axis_check(const mu_layer *l, int64_t axis, mu_err *err) {
    char text[96];
    const mu_shape *in = mu_layer_src_shape(l, 0);
    if (axis >= 1 && axis < in->n) return MU_OK;
    return mu_err_hinted(mu_layer_fail(l, err, "there is no axis %" PRId64 " in `%s` %s", axis,
                                       mu_infer_src_name(l, 0), mu_shape_text(in, text)),
                         err, "Axes count from 0, the batch; axis 1 is the channels or values.");
}

void mu_axis_put(void *whole, mu_axis_view w, int64_t at, const void *part, mu_axis_view p) {
    size_t step = (size_t)(w.len * w.inner) * ELEMENT, run = (size_t)(p.len * p.inner) * ELEMENT;
    char *to = (char *)whole + (size_t)(at * w.inner) * ELEMENT;
    for (int64_t o = 0; o < w.outer; o++)
        memcpy(to + (size_t)o * step, (const char *)part + (size_t)o * run, run);
}

void mu_axis_take(void *part, mu_axis_view p, const void *whole, mu_axis_view w, int64_t at) {
    size_t step = (size_t)(w.len * w.inner) * ELEMENT, run = (size_t)(p.len * p.inner) * ELEMENT;
    const char *from = (const char *)whole + (size_t)(at * w.inner) * ELEMENT;
    for (int64_t o = 0; o < w.outer; o++)
        memcpy((char *)part + (size_t)o * run, from + (size_t)o * step, run);
}
