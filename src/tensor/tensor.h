// SPDX-License-Identifier: Apache-2.0
// tensor.h - shapes and views. A view is a small value; memory belongs to blocks (net/memplan.h).
//
// One layout rule, so that no kernel has to ask: a 4-D activation with logical shape (N, C, H, W) is
// stored channels-last, i.e. as N, H, W, C with C contiguous. Everything else - 1-D and 2-D
// activations, all parameters (convolution weights are O, I, KH, KW as in PyTorch) - is row-major in
// its logical order. Channels-last makes pooling, LRN, normalisation and bias plain loops over
// contiguous channels, and oneDNN's convolutions run as fast on it as on its blocked layouts (faster
// where the channel count is no multiple of 16). A layer that flattens (inner product of a 4-D
// source) transposes to logical order first, so weights mean the same as in PyTorch.
#ifndef MU_TENSOR_TENSOR_H
#define MU_TENSOR_TENSOR_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MU_MAX_DIMS 6

typedef struct mu_shape {
    int     n;                  // dimensions, 0 = scalar
    int64_t d[MU_MAX_DIMS];     // logical order
} mu_shape;

typedef enum mu_dtype { MU_F32, MU_I32 } mu_dtype;      // both are 4 bytes

typedef struct mu_tensor {
    union { void *data; float *f; int32_t *i; };
    mu_shape shape;
    mu_dtype dtype;
} mu_tensor;

#define MU_SHAPE(...) \
    ((mu_shape){ .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .d = {__VA_ARGS__} })

int64_t  mu_shape_count(const mu_shape *s);                     // product; 1 for a scalar
bool     mu_shape_count_checked(const mu_shape *s, int64_t *out); // false on overflow or a negative size
int64_t  mu_shape_inner(const mu_shape *s, int from);           // product of d[from..]
bool     mu_shape_equal(const mu_shape *a, const mu_shape *b);
mu_shape mu_shape_prepend(int64_t first, const mu_shape *rest);
const char *mu_shape_text(const mu_shape *s, char out[96]);     // "(64, 20, 12, 12)", returns out

static inline size_t mu_tensor_count(const mu_tensor *t) { return (size_t)mu_shape_count(&t->shape); }

// N,H,W,C <-> logical N,C,H,W order, for flattening. dst and src do not overlap.
void mu_nhwc_to_nchw(float *dst, const float *src, int64_t n, int64_t c, int64_t hw);
void mu_nchw_to_nhwc(float *dst, const float *src, int64_t n, int64_t c, int64_t hw);

#endif
