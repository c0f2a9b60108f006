// SPDX-License-Identifier: Apache-2.0
// attr.h - compiler attributes under names of our own; no other file uses __attribute__.
#ifndef MU_BASE_ATTR_H
#define MU_BASE_ATTR_H

#define MU_MUST_CHECK __attribute__((warn_unused_result))
#define MU_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MU_ALIGNED(n) __attribute__((aligned(n)))
#define MU_VECTOR(bytes) __attribute__((vector_size(bytes)))
#define MU_INLINE static inline __attribute__((always_inline))
#define MU_EXPORT __attribute__((visibility("default")))
#define MU_UNUSED __attribute__((unused))
#define MU_LIKELY(x) __builtin_expect(!!(x), 1)
#define MU_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MU_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
