// SPDX-License-Identifier: Apache-2.0
// wire_inner.h - the tables of wire_types.c, for wire.c and for tests that go through them.
#ifndef MU_PS_WIRE_INNER_H
#define MU_PS_WIRE_INNER_H

#include "ps/wire.h"

typedef enum mu_wire_kind {
    MU_WIRE_I32, MU_WIRE_U32, MU_WIRE_I64,      // lo to hi
    MU_WIRE_F32,                        // the same, finite
    MU_WIRE_BITS,                       // any 8 bytes: a hash, a double that need not be finite
    MU_WIRE_TEXT                        // printable, ended by NUL and zeroes
} mu_wire_kind;

// The largest value of a number: hi, or one less than what the shape has of these; of COUNT and ROWS just
// that.
typedef enum mu_wire_limit {
    MU_LIMIT_HI, MU_LIMIT_RANKS, MU_LIMIT_LEARNERS, MU_LIMIT_WORKERS, MU_LIMIT_GROUPS, MU_LIMIT_BLOCKS,
    MU_LIMIT_CHANNELS, MU_LIMIT_COUNT, MU_LIMIT_ROWS
} mu_wire_limit;

typedef struct mu_wire_field {
    const char   *name;
    mu_wire_kind  kind;
    size_t        at, size;             // in the struct; size of a text
    int64_t       lo, hi;
    mu_wire_limit limit;
} mu_wire_field;

typedef struct mu_wire_class {
    const char *name;
    const mu_wire_field *field;
    int    n_fields;
    bool   any_layout;                  // of nodes that do not agree, too
    // (optional) What numbers have to do with each other; NULL = right.
    const char *(*wrong)(const mu_wire_shape *s, const mu_wire *w);
} mu_wire_class;

const mu_wire_class *mu_wire_class_of(uint32_t type);   // NULL = there is none
extern const mu_wire_class mu_wire_part_class;          // of mu_wire_part, in a SUM
extern const mu_wire_class mu_wire_use_class;           // of mu_message_use, in a PUSH
size_t  mu_wire_width(const mu_wire_field *f);          // bytes in the frame
size_t  mu_wire_numbers(const mu_wire_class *c);        // bytes of all, filled up to a multiple of 8
int64_t mu_wire_most(const mu_wire_shape *s, const mu_wire_field *f);
uint64_t mu_wire_check(const void *frame, size_t size); // what its check has to be

#endif
