// SPDX-License-Identifier: Apache-2.0
// test_ps_wire_refusals.c - what a frame may not say, and what is said to it: every number, text, size and
// head; the same is not packed.
#include "unit/wire_check.h"

#include <math.h>

static const mu_wire_field *field_of(mu_wire_type t, const char *name, size_t *at) {
    const mu_wire_class *c = mu_wire_class_of(t);
    *at = MU_WIRE_HEAD;
    for (int i = 0; i < c->n_fields; *at += mu_wire_width(&c->field[i++]))
        if (!strcmp(c->field[i].name, name)) return &c->field[i];
    fail_msg("%s has no `%s`", c->name, name);
    return NULL;
}

// A number into a struct and into a frame.
static void set(const mu_wire_field *f, double real, int64_t value, void *in_struct,
                unsigned char *in_frame) {
    const float f32 = (float)real;
    const void *from = f->kind == MU_WIRE_F32 ? (const void *)&f32 : &value;
    memcpy((char *)in_struct + f->at, from, mu_wire_width(f));
    memcpy(in_frame, from, mu_wire_width(f));
}

typedef struct refusal {
    mu_wire_type type;
    const char *field;
    double value;
    const char *text;
} refusal;

static const refusal refusals[] = {
    {MU_WIRE_HELLO, "rank", 4, "`rank` is 4, not within 0 to 3"},
    {MU_WIRE_HELLO, "rank", -1, "`rank` is -1"},
    {MU_WIRE_HELLO, "ranks", 2, "not below its number of ranks"},
    {MU_WIRE_HELLO, "ranks", 0, "`ranks` is 0"},
    {MU_WIRE_HELLO, "learners", -1, "`learners`"},
    {MU_WIRE_HELLO, "workers", 0, "`workers`"},
    {MU_WIRE_HELLO, "pid", 0, "`pid`"},
    {MU_WIRE_HEARTBEAT, "number", -1, "`number`"},
    {MU_WIRE_HEARTBEAT, "sent_ns", -1, "`sent_ns`"},
    {MU_WIRE_HEARTBEAT, "echo_ns", -1, "`echo_ns`"},
    {MU_WIRE_HEARTBEAT, "version", -1, "`version`"},
    {MU_WIRE_HEARTBEAT, "compute_ns", -1, "`compute_ns`"},
    {MU_WIRE_HEARTBEAT, "wait_ns", -1, "`wait_ns`"},
    {MU_WIRE_LEASE, "learner", 6, "`learner` is 6, not within 0 to 5"},
    {MU_WIRE_LEASE, "incarnation", 0, "`incarnation` is 0"},
    {MU_WIRE_LEASE, "ended", 2, "`ended`"},
    {MU_WIRE_LEASE, "ended", 1, "a lease behind the end"},
    {MU_WIRE_LEASE, "lease.first", -1, "`lease.first`"},
    {MU_WIRE_LEASE, "lease.first", 0x1p62, "`lease.first`"},
    {MU_WIRE_LEASE, "lease.batches", 0, "without samples"},
    {MU_WIRE_LEASE, "lease.rows", 33, "`lease.rows` is 33, not within 0 to 32"},
    {MU_WIRE_LEASE, "lease.rows", 8, "without samples"},
    {MU_WIRE_LEASE, "lease.last_rows", 0, "without samples"},
    {MU_WIRE_LEASE, "lease.stride", 15, "batches that overlap"},
    {MU_WIRE_LEASE, "lease.stride", 0x1p40, "`lease.stride`"},
    {MU_WIRE_ASK, "learner", -1, "`learner`"},
    {MU_WIRE_ASK, "incarnation", 0, "only who joins"},
    {MU_WIRE_ASK, "what", 0, "only who joins"},
    {MU_WIRE_ASK, "what", 4, "`what` is 4"},
    {MU_WIRE_ASK, "version", -2, "`version`"},
    {MU_WIRE_GRANT, "learner", 6, "`learner`"},
    {MU_WIRE_GRANT, "incarnation", 0, "`incarnation`"},
    {MU_WIRE_GRANT, "answer", 3, "`answer`"},
    {MU_WIRE_GRANT, "answer", MU_HOLD, "samples without a grant"},
    {MU_WIRE_GRANT, "answer", MU_END, "samples without a grant"},
    {MU_WIRE_GRANT, "grant.step", -1, "`grant.step`"},
    {MU_WIRE_GRANT, "grant.version", -1, "`grant.version`"},
    {MU_WIRE_GRANT, "grant.first", -1, "`grant.first`"},
    {MU_WIRE_GRANT, "grant.rows", 0, "a grant without samples"},
    {MU_WIRE_GRANT, "grant.rows", 33, "`grant.rows`"},
    {MU_WIRE_GRANT, "grant.global_rows", 15, "a grant without samples"},
    {MU_WIRE_PUSH, "id.learner", 6, "`id.learner`"},
    {MU_WIRE_PUSH, "id.incarnation", 0, "`id.incarnation`"},
    {MU_WIRE_PUSH, "id.step", -1, "`id.step`"},
    {MU_WIRE_PUSH, "id.version", -1, "`id.version`"},
    {MU_WIRE_PUSH, "id.first", -1, "`id.first`"},
    {MU_WIRE_PUSH, "id.rows", 0, "`id.rows` is 0, not within 1 to 32"},
    {MU_WIRE_PUSH, "worker", 2, "`worker` is 2, not within 0 to 1"},
    {MU_WIRE_PUSH, "worker", 1, "not as many parameters"},
    {MU_WIRE_PUSH, "bad", 2, "`bad`"},
    {MU_WIRE_PUSH, "scale", -0.5, "`scale` is -0.5"},
    {MU_WIRE_PUSH, "scale", INFINITY, "`scale` is inf"},
    {MU_WIRE_PUSH, "scale", NAN, "`scale` is"},
    {MU_WIRE_PUSH, "params", 5, "not as many parameters"},
    {MU_WIRE_PUSH, "params", 7, "not as many parameters"},
    {MU_WIRE_PUSH, "global_rows", 15, "more samples than the step"},
    {MU_WIRE_SUM, "rank", 4, "`rank`"},
    {MU_WIRE_SUM, "number", -1, "`number`"},
    {MU_WIRE_SUM, "version", 89, "of later weights"},
    {MU_WIRE_SUM, "begin", 1, "and only there"},
    {MU_WIRE_SUM, "begin", 40, "no floats"},
    {MU_WIRE_SUM, "end", 8193, "`end` is 8193, not within 1 to 8192"},
    {MU_WIRE_SUM, "parts", 4097, "`parts`"},
    {MU_WIRE_WEIGHTS, "version", -1, "`version`"},
    {MU_WIRE_WEIGHTS, "block", 3, "`block` is 3, not within 0 to 2"},
    {MU_WIRE_WEIGHTS, "begin", 130, "no floats"},
    {MU_WIRE_WEIGHTS, "begin", -1, "`begin`"},
    {MU_WIRE_WEIGHTS, "end", 0x1p61, "`end`"},
    {MU_WIRE_BRIDGE, "channel", 3, "`channel`"},
    {MU_WIRE_BRIDGE, "number", -1, "`number`"},
    {MU_WIRE_EXCHANGE, "group", 3, "`group`"},
    {MU_WIRE_EXCHANGE, "round", -1, "`round`"},
    {MU_WIRE_EXCHANGE, "version", -1, "`version`"},
    {MU_WIRE_EXCHANGE, "samples", -1, "`samples`"},
    {MU_WIRE_EXCHANGE, "share", 0, "no share"},
    {MU_WIRE_EXCHANGE, "share", 1.5, "`share` is 1.5"},
    {MU_WIRE_EXCHANGE, "begin", 64, "no floats"},
    {MU_WIRE_EXCHANGE, "end", 0, "`end`"},
    {MU_WIRE_LOST, "learner", -2, "`learner`"},
    {MU_WIRE_LOST, "learner", -1, "only a learner has"},
    {MU_WIRE_LOST, "rank", 4, "`rank`"},
    {MU_WIRE_LOST, "incarnation", 0, "only a learner has"},
    {MU_WIRE_STOP, "why", 4, "`why`"},
    {MU_WIRE_STOP, "version", -1, "`version`"},
    {MU_WIRE_STOP, "samples", -1, "`samples`"},
    {MU_WIRE_ERROR, "rank", -1, "`rank`"},
    {MU_WIRE_ERROR, "status", 0, "`status`"},
    {MU_WIRE_ERROR, "status", 99, "`status`"},
    {MU_WIRE_ERROR, "line", -1, "`line`"},
    {MU_WIRE_ERROR, "col", -1, "`col`"},
    {MU_WIRE_ERROR, "span", -1, "`span`"},
};

static void test_refusals(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    for (size_t i = 0; i < MU_COUNT(refusals); i++) {
        const refusal *x = &refusals[i];
        size_t at;
        const mu_wire_field *f = field_of(x->type, x->field, &at);
        mu_wire w = wire_example(r, x->type);
        const size_t n = pack(r, &w);
        set(f, x->value, f->kind == MU_WIRE_F32 ? 0 : (int64_t)x->value, &w.hello, bytes + at);
        wire_sign(bytes, n);
        assert_refused(r, n, x->text);
        mu_err err = {0}; // and nobody sends it
        if (mu_wire_pack(&r->shape, &w, &r->frame, &err) != MU_EUSAGE || !strstr(err.msg, x->text))
            fail_msg("%s `%s`: packing says `%s`, not `%s`", mu_wire_type_name(x->type), x->field, err.msg,
                     x->text);
    }
    wire_rig_free(r);
}

// A number of a type just beyond its range; false: there is none of its width.
static bool beyond(const wire_rig *r, const mu_wire_field *f, bool above, int64_t *out) {
    const int64_t most = mu_wire_most(&r->shape, f);
    switch (f->kind) {
    case MU_WIRE_I32:
        *out = above ? most + 1 : f->lo - 1;
        return *out >= INT32_MIN && *out <= INT32_MAX;
    case MU_WIRE_U32:
        *out = above ? most + 1 : f->lo - 1;
        return *out >= 0 && *out <= (int64_t)UINT32_MAX;
    case MU_WIRE_I64:
        if (above ? most == INT64_MAX : f->lo == INT64_MIN) return false;
        *out = above ? most + 1 : f->lo - 1;
        return true;
    default:
        return false;
    }
}

// Every whole number of every type is refused just beyond its range.
static void test_ranges(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    for (int t = MU_WIRE_HELLO; t < MU_WIRE_TYPES; t++) {
        const mu_wire_class *c = mu_wire_class_of((uint32_t)t);
        for (int i = 0; i < 2 * c->n_fields; i++) {
            size_t at;
            int64_t value;
            const mu_wire_field *f = field_of((mu_wire_type)t, c->field[i / 2].name, &at);
            if (!beyond(r, f, i % 2, &value)) continue;
            mu_wire w = wire_example(r, (mu_wire_type)t);
            const size_t n = pack(r, &w);
            set(f, 0, value, &w.hello, bytes + at);
            wire_sign(bytes, n);
            assert_refused(r, n, f->name);
        }
    }
    wire_rig_free(r);
}

static void test_texts(void **unused) {
    (void)unused;
    static const struct {
        mu_wire_type type;
        const char *field;
    } texts[] = {{MU_WIRE_HELLO, "host"}, {MU_WIRE_LOST, "why"},   {MU_WIRE_ERROR, "path"},
                 {MU_WIRE_ERROR, "msg"},  {MU_WIRE_ERROR, "hint"}, {MU_WIRE_ERROR, "note"}};
    wire_rig *r = wire_rig_make();
    for (size_t i = 0; i < MU_COUNT(texts); i++) {
        size_t at;
        const mu_wire_field *f = field_of(texts[i].type, texts[i].field, &at);
        const mu_wire w = wire_example(r, texts[i].type);
        const size_t n = pack(r, &w);
        bytes[at] = '\n';
        wire_sign(bytes, n);
        assert_refused(r, n, "is no text");
        memset(bytes + at, 'x', f->size); // without an end
        wire_sign(bytes, n);
        assert_refused(r, n, "is no text");
        bytes[at + 3] = '\0'; // something behind it
        wire_sign(bytes, n);
        assert_refused(r, n, "is no text");
    }
    mu_wire w = wire_example(r, MU_WIRE_ERROR);
    memset(w.error.msg, 0, sizeof w.error.msg);
    mu_err err = {0};
    assert_int_equal(mu_wire_pack(&r->shape, &w, &r->frame, &err), MU_EUSAGE);
    assert_non_null(strstr(err.msg, "says nothing"));
    w = wire_example(r, MU_WIRE_ERROR);
    memset(w.error.path, 0, sizeof w.error.path);
    assert_int_equal(mu_wire_pack(&r->shape, &w, &r->frame, NULL), MU_EUSAGE);
    wire_rig_free(r);
}

// Changes bytes of an example, makes the check right, and looks what is said.
static void damage(wire_rig *r, mu_wire_type t, size_t at, const void *with, size_t n_with,
                   const char *text) {
    const mu_wire w = wire_example(r, t);
    const size_t n = pack(r, &w);
    memcpy(bytes + at, with, n_with);
    wire_sign(bytes, n);
    assert_refused(r, n, text);
}

static void test_heads(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    damage(r, MU_WIRE_STOP, 0, "MUWG", 4, "no frame of Muster");
    damage(r, MU_WIRE_STOP, 4, "\1", 1, "a frame of version 1, this program speaks version 2");
    damage(r, MU_WIRE_STOP, 6, "\0", 1, "of type 0");
    damage(r, MU_WIRE_STOP, 6, "\21", 1, "of type 17");
    damage(r, MU_WIRE_STOP, 6, "\377\377", 2, "of type 65535");
    damage(r, MU_WIRE_STOP, 6, "\10", 1, "WEIGHTS"); // too short for that
    damage(r, MU_WIRE_STOP, 8, "\27", 1, "says that 23 bytes follow its head, and 24 do");
    damage(r, MU_WIRE_STOP, 8, "\30\0\0\0\0\0\0\1", 8, "follow its head");
    damage(r, MU_WIRE_STOP, 16, "\1\2\3", 3, "other parameters");
    damage(r, MU_WIRE_STOP, 52, "\1", 1, "not used are not zero");
    for (size_t n = 0; n < MU_WIRE_HEAD; n++) assert_refused(r, n, "are no frame");
    const mu_wire w = wire_example(r, MU_WIRE_STOP);
    pack(r, &w);
    const uint64_t more = 32; // a frame that is longer than its type
    memcpy(bytes + 8, &more, 8);
    memset(bytes + 56, 0, 8);
    wire_sign(bytes, 64);
    assert_refused(r, 64, "STOP: 8 bytes too many");
    for (int t = MU_WIRE_HELLO; t < MU_WIRE_TYPES; t += MU_WIRE_ERROR - MU_WIRE_HELLO) {
        mu_wire any = wire_example(r, (mu_wire_type)t);
        const size_t n = pack(r, &any);
        r->shape.layout++;
        assert_int_equal(unpack(r, n).layout, r->shape.layout - 1); // who does not agree may say who it is
    }
    wire_rig_free(r);
}

static void test_push_refusals(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    const size_t table = MU_WIRE_HEAD + mu_wire_numbers(mu_wire_class_of(MU_WIRE_PUSH)), line = 24;
    const int64_t many[] = {6, 21, 2};
    damage(r, MU_WIRE_PUSH, table, "\5", 1, "`form` is 5");
    damage(r, MU_WIRE_PUSH, table, "\1", 1, "`fc.weight` has no room for form 1"); // it has factors
    damage(r, MU_WIRE_PUSH, table + 4, &many[0], 8, "`fc.weight` has no room for form 3 with 6 and 0 rows");
    damage(r, MU_WIRE_PUSH, table + 12, "\1", 1, "`fc.weight` has no room");
    damage(r, MU_WIRE_PUSH, table + line + 4, "\1", 1, "`conv.weight` has no room"); // dense has no rows
    damage(r, MU_WIRE_PUSH, table + 2 * line + 4, &many[1], 8, "`words` has no room");
    damage(r, MU_WIRE_PUSH, table + 5 * line + 12, "\7", 1, "`filters` has no room");
    damage(r, MU_WIRE_PUSH, table + 4, "\377\377\377\377\377\377\377\377", 8, "`n` is -1");
    damage(r, MU_WIRE_PUSH, table + 20, "\1", 1, "not used are not zero");
    damage(r, MU_WIRE_PUSH, table + 5 * line + 4, "\3", 1,
           "too early"); // three samples, and the floats of two
    damage(r, MU_WIRE_PUSH, table + 5 * line + 4, "\1", 1, "too many");
    damage(r, MU_WIRE_PUSH, table, "\0", 1, "no room for form 0 with 2"); // none, but with samples
    // rows of `words`: behind the table, x and dy of fc.weight, conv.weight
    const size_t ids = table + 6 * line + 2 * (50 + 20) * 4 + 135 * 4;
    damage(r, MU_WIRE_PUSH, ids, "\62\0\0\0", 4, "row 50 of `words`, which has 50");
    damage(r, MU_WIRE_PUSH, ids + 12, "\377\377\377\377", 4, "row -1 of `words`");
    wire_rig_free(r);
}

static void test_sum_refusals(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    const size_t ids = MU_WIRE_HEAD + mu_wire_numbers(mu_wire_class_of(MU_WIRE_SUM)), line = 48;
    damage(r, MU_WIRE_SUM, ids + line, "\6", 1, "`id.learner` is 6");
    damage(r, MU_WIRE_SUM, ids + line + 4, "\0", 1, "`id.incarnation` is 0");
    damage(r, MU_WIRE_SUM, ids + line + 16, "\134", 1, "of later weights"); // 92 of 91
    damage(r, MU_WIRE_SUM, ids + 2 * line + 32, "\0", 1, "`id.rows` is 0");
    damage(r, MU_WIRE_SUM, ids + line + 40, "\0\0\300\177", 4, "`weight` is"); // not a number
    damage(r, MU_WIRE_SUM, ids + line + 44, "\1", 1, "not used are not zero");
    damage(r, MU_WIRE_SUM, MU_WIRE_HEAD + 4, "\3", 1, "`group` is 3");
    damage(r, MU_WIRE_SUM, MU_WIRE_HEAD + 8, "\2", 1, "too many");
    damage(r, MU_WIRE_SUM, MU_WIRE_HEAD + 8, "\5", 1, "SUM");
    mu_wire w = wire_example(r, MU_WIRE_SUM);
    mu_err err = {0};
    r->part[1].id.rows = 0;
    assert_int_equal(mu_wire_pack(&r->shape, &w, &r->frame, &err), MU_EUSAGE);
    assert_non_null(strstr(err.msg, "`id.rows`"));
    wire_rig_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_texts),         cmocka_unit_test(test_heads),
        cmocka_unit_test(test_push_refusals), cmocka_unit_test(test_sum_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
