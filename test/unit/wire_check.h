// SPDX-License-Identifier: Apache-2.0
// wire_check.h - shared by the tests of ps/wire.h: packs into `bytes`, unpacks them, or sees them refused.
#ifndef TEST_UNIT_WIRE_CHECK_H
#define TEST_UNIT_WIRE_CHECK_H

// cmocka wants these before itself.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/wire_help.h"

static unsigned char bytes[WIRE_BYTES];

static inline size_t pack(wire_rig *r, const mu_wire *w) {
    mu_err err = {0};
    if (mu_wire_pack(&r->shape, w, &r->frame, &err) != MU_OK) fail_msg("%s", err.msg);
    assert_int_equal(r->frame.part[0].iov_base == r->frame.head, 1);
    assert_true(r->frame.part[0].iov_len <= r->frame.head_room && r->frame.n <= r->frame.cap);
    const size_t n = wire_bytes(r, bytes);
    assert_int_equal(n, r->frame.bytes);
    return n;
}

static inline mu_wire unpack(wire_rig *r, size_t size) {
    mu_wire w;
    mu_err err = {0};
    if (mu_wire_unpack(&r->shape, bytes, size, &w, &err) != MU_OK) fail_msg("%s", err.msg);
    return w;
}

static inline void assert_refused(wire_rig *r, size_t size, const char *text) {
    mu_wire w;
    mu_err err = {0};
    memset(&w, 0x5a, sizeof w);
    if (mu_wire_unpack(&r->shape, bytes, size, &w, &err) != MU_EDATA)
        fail_msg("accepted, expected: %s", text);
    if (!strstr(err.msg, text)) fail_msg("`%s` does not say `%s`", err.msg, text);
    assert_int_equal(*(unsigned char *)&w, 0x5a); // written on success only
}

#endif
