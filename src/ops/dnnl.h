// SPDX-License-Identifier: Apache-2.0
// dnnl.h - the one door to oneDNN: its C API of version 2 and of version 3 look the same from here.
//
// Only what Muster uses is wrapped: memory descriptors, convolution in three directions, reorders, and
// running a primitive on plain pointers. Every call turns the library's code into a mu_status with the
// library's word for it. Primitives are made at set-up with a caller-owned scratchpad, so running one
// allocates nothing (but for a few small nodes per call that the library itself keeps).
//
// Threads: the library's OpenMP pool must stay at one thread in every learner. The setting is kept per
// thread by libgomp, so mu_dnnl_enter() asserts it in the calling thread before any library call; it
// costs one thread-local compare when nothing changed. A mu_dnnl_exec belongs to one thread at a time.
#ifndef MU_OPS_DNNL_H
#define MU_OPS_DNNL_H

#ifdef MU_HAVE_DNNL

#include "base/err.h"
#include "ops/op.h"

#include <oneapi/dnnl/dnnl.h>

#define MU_DNNL_MAX_DIMS 5
#define MU_DNNL_MAX_ARGS 6

typedef struct mu_dnnl_md {             // a memory descriptor by value (v2) or owned handle (v3)
    dnnl_memory_desc_t d;
    bool               set;
} mu_dnnl_md;

typedef struct mu_dnnl_exec {           // a primitive and the memory objects of its arguments
    dnnl_primitive_t prim;              // NULL = not made
    dnnl_stream_t    stream;
    int              n_args;
    dnnl_exec_arg_t  arg[MU_DNNL_MAX_ARGS];     // in the order of mu_dnnl_exec_add
    size_t           scratch_bytes;
    char             impl[64];          // the library's name of the chosen implementation
} mu_dnnl_exec;

typedef enum mu_dnnl_dir { MU_DNNL_FORWARD, MU_DNNL_BACKWARD_DATA, MU_DNNL_BACKWARD_WEIGHT } mu_dnnl_dir;

mu_status mu_dnnl_check(dnnl_status_t s, const char *what, mu_err *err);        // MU_OK for success
void      mu_dnnl_enter(void);
void      mu_dnnl_set_threads(int n);   // for the whole process; each thread picks it up at its next enter

mu_status mu_dnnl_md_make(mu_dnnl_md *md, int n_dims, const int64_t *dims, dnnl_format_tag_t tag,
                          mu_err *err);
void      mu_dnnl_md_fini(mu_dnnl_md *md);
size_t    mu_dnnl_md_bytes(const mu_dnnl_md *md);
bool      mu_dnnl_md_equal(const mu_dnnl_md *a, const mu_dnnl_md *b);

// One direction of a convolution on channels-last activations. `weight` receives the layout the library
// wants for the (packed) weights or their gradient. Arguments of run, in this order:
//     forward          src, weight, [bias,] dst
//     backward data    ddst, weight, dsrc
//     backward weight  src, ddst, dweight, [dbias]
// and the scratchpad last (always present; NULL when scratch_bytes is 0). MU_EUNSUPPORTED when the
// library has only its reference loops for it.
mu_status mu_dnnl_conv_make(mu_dnnl_exec *e, const mu_conv_desc *c, mu_dnnl_dir dir, mu_dnnl_md *weight,
                            mu_err *err);
// Would mu_dnnl_conv_make succeed? Cheap: nothing is compiled.
bool      mu_dnnl_conv_possible(const mu_conv_desc *c, mu_dnnl_dir dir);
// Copies between two layouts of the same tensor; arguments: from, to, scratchpad.
mu_status mu_dnnl_reorder_make(mu_dnnl_exec *e, const mu_dnnl_md *from, const mu_dnnl_md *to, mu_err *err);
mu_status mu_dnnl_exec_run(mu_dnnl_exec *e, const void *const *data, mu_err *err);
void      mu_dnnl_exec_fini(mu_dnnl_exec *e);   // takes a zeroed or half-made one

// The plain layout of the weights: (o, c, kh, kw), or (g, o/g, c/g, kh, kw).
mu_status mu_dnnl_conv_plain_weight(const mu_conv_desc *c, mu_dnnl_md *md, mu_err *err);

#endif
#endif
