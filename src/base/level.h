// SPDX-License-Identifier: Apache-2.0
// level.h - one program for every x86-64: kernels compiled for several levels of its instructions.
//
// CMake compiles the files of kernels (the list `kernels` there) once for each level, x86-64-v2, v3 and v4,
// and all other files for v2. The external names of such a file carry the level. Its header says
//
//     #define mu_transpose MU_LEVELLED(mu_transpose)
//     MU_AT_LEVELS(void, mu_transpose, (float *to, const float *from));
//
// and all files write mu_transpose as if there were one: inside the kernels it is the function of the
// same level, elsewhere the one of the level that this process has chosen. The tables of ops and rules need
// no header: CMake renames them, and their registries list all levels.
//
// A build for one kind of processor (MUSTER_ARCH), and every other architecture, has one level and plain
// names.
#ifndef MU_BASE_LEVEL_H
#define MU_BASE_LEVEL_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>

// Levels are their numbers, 2 to 4; 0 is the only level of a build that has one.
enum { MU_LEVEL_ONLY = 0, MU_LEVEL_FIRST = 2, MU_LEVEL_LAST = 4 };

#ifdef MU_LEVELS
#define MU_LEVEL_COUNT 3
#define MU_AT_LEVELS(type, name, args) type name##_v2 args; type name##_v3 args; type name##_v4 args
#define MU_LEVEL_ADDRESSES(name) &name##_v2, &name##_v3, &name##_v4
#define MU_LEVEL_LOWEST(name) name##_v2
#ifdef MU_LEVEL                         // a file of kernels, compiled for this level
#define MU_LEVEL_PASTE(name, level) name##_##level
#define MU_LEVEL_NAME(name, level) MU_LEVEL_PASTE(name, level)
#define MU_LEVELLED(name) MU_LEVEL_NAME(name, MU_LEVEL)
#else                                   // any other file
#define MU_LEVELLED(name) (mu_level() == 4 ? name##_v4 : mu_level() == 3 ? name##_v3 : name##_v2)
#endif
#else
#define MU_LEVEL_COUNT 1
#define MU_AT_LEVELS(type, name, args) type name args
#define MU_LEVEL_ADDRESSES(name) &name
#define MU_LEVEL_LOWEST(name) name
#define MU_LEVELLED(name) name
#endif

extern atomic_int mu_level_chosen;      // -1 = not yet
int mu_level_choose(void);

// The level of this process: what MUSTER_CPU asks for, or the best that the processor has. Where MUSTER_CPU
// cannot be had (mu_level_check) it is the best.
static inline int mu_level(void) {
    const int level =
        atomic_load_explicit(&mu_level_chosen, memory_order_relaxed); // a pure function's result
    return level >= 0 ? level : mu_level_choose();
}
// Its place among the levels of a table.
static inline int mu_level_index(void) { return mu_level() ? mu_level() - MU_LEVEL_FIRST : 0; }

int         mu_level_of_cpu(void);      // the best of this processor; below MU_LEVEL_FIRST: none
bool        mu_level_is_asked(void);    // MUSTER_CPU is set
const char *mu_level_name(int level);   // "v3"; "" for MU_LEVEL_ONLY
const char *mu_level_suffix(void);      // " (v3)", behind a name in the log; "" where there is one level

// Is MUSTER_CPU a level that this program and this processor have?
MU_MUST_CHECK mu_status mu_level_check(mu_err *err);
// The same for any word (NULL or "" = none) and processor; sets *level.
MU_MUST_CHECK mu_status mu_level_parse(const char *word, int cpu, int *level, mu_err *err);

// Sets OPENBLAS_CORETYPE for a level, unless it is set; false = nothing was changed. OpenBLAS reads it once,
// when it is loaded (base/startup.h).
bool mu_level_set_core_type(int level);

#endif
