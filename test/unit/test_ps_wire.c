// SPDX-License-Identifier: Apache-2.0
// test_ps_wire.c - frames between nodes: each type there and back, every refusal, any byte that changes; of a
// gradient only what is used travels, and arrives in its place.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/wire_help.h"

#include <math.h>

static unsigned char bytes[WIRE_BYTES];

static size_t pack(wire_rig *r, const mu_wire *w) {
    mu_err err = {0};
    if (mu_wire_pack(&r->shape, w, &r->frame, &err) != MU_OK) fail_msg("%s", err.msg);
    assert_int_equal(r->frame.part[0].iov_base == r->frame.head, 1);
    assert_true(r->frame.part[0].iov_len <= r->frame.head_room && r->frame.n <= r->frame.cap);
    const size_t n = wire_bytes(r, bytes);
    assert_int_equal(n, r->frame.bytes);
    return n;
}

static mu_wire unpack(wire_rig *r, size_t size) {
    mu_wire w;
    mu_err err = {0};
    if (mu_wire_unpack(&r->shape, bytes, size, &w, &err) != MU_OK) fail_msg("%s", err.msg);
    return w;
}

static void assert_refused(wire_rig *r, size_t size, const char *text) {
    mu_wire w;
    mu_err err = {0};
    memset(&w, 0x5a, sizeof w);
    if (mu_wire_unpack(&r->shape, bytes, size, &w, &err) != MU_EDATA) fail_msg("accepted, expected: %s", text);
    if (!strstr(err.msg, text)) fail_msg("`%s` does not say `%s`", err.msg, text);
    assert_int_equal(*(unsigned char *)&w, 0x5a); // written on success only
}

// ---- there and back ----

static void assert_same_numbers(const mu_wire *a, const mu_wire *b) {
    const mu_wire_class *c = mu_wire_class_of(a->type);
    assert_int_equal(a->type, b->type);
    for (int i = 0; i < c->n_fields; i++) {
        const mu_wire_field *f = &c->field[i];
        if (memcmp((const char *)&a->hello + f->at, (const char *)&b->hello + f->at, f->size) != 0)
            fail_msg("%s: `%s` has changed", c->name, f->name);
    }
}

static void test_round_trip(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    for (int t = MU_WIRE_HELLO; t < MU_WIRE_TYPES; t++) {
        const mu_wire w = wire_example(r, (mu_wire_type)t);
        const size_t n = pack(r, &w);
        mu_wire got = unpack(r, n);
        assert_same_numbers(&w, &got);
        assert_int_equal(got.layout, r->shape.layout);
        assert_true(wire_is_legal(r, &got, bytes, n));
        assert_string_not_equal(mu_wire_type_name((mu_wire_type)t), "?");
    }
    assert_string_equal(mu_wire_type_name(MU_WIRE_TYPES), "?");
    wire_rig_free(r);
}

// What the picture in wire.h says, byte for byte.
static void test_bytes(void **unused) {
    (void)unused;
    static const unsigned char want[] = {
        'M', 'U', 'W', 'F', 1, 0, 12, 0, 24, 0, 0, 0, 0, 0, 0, 0,            // version 1, STOP, 24 bytes
        1, 2, 3, 4, 5, 6, 7, 8,                                               // layout
        0, 0, 0, 0, 0, 0, 0, 0,                                               // check
        1, 0, 0, 0, 94, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0,         // why, version, samples
        0, 0, 0, 0,                                                           // a multiple of 8
    };
    wire_rig *r = wire_rig_make();
    r->shape.layout = 0x0807060504030201u;
    const mu_wire w = wire_example(r, MU_WIRE_STOP);
    assert_int_equal(pack(r, &w), sizeof want);
    memset(bytes + 24, 0, 8);
    assert_memory_equal(bytes, want, sizeof want);
    wire_rig_free(r);
}

static void test_arrays(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    mu_wire w = wire_example(r, MU_WIRE_WEIGHTS), got = unpack(r, pack(r, &w));
    assert_memory_equal(got.weights.floats, r->floats + 100, 30 * sizeof(float));
    w = wire_example(r, MU_WIRE_EXCHANGE), got = unpack(r, pack(r, &w));
    assert_memory_equal(got.exchange.floats, r->floats, 64 * sizeof(float));
    w = wire_example(r, MU_WIRE_BRIDGE), got = unpack(r, pack(r, &w));
    assert_memory_equal(got.bridge.message, r->floats, 7);
    w.bridge.channel = 1, w.bridge.message = NULL, got = unpack(r, pack(r, &w)); // of no bytes
    w = wire_example(r, MU_WIRE_SUM), got = unpack(r, pack(r, &w));
    assert_memory_equal(got.sum.floats, r->floats, 40 * sizeof(float));
    for (int i = 0; i < 3; i++) {
        const mu_wire_part p = mu_wire_sum_part(&got.sum, i);
        assert_memory_equal(&p, &r->part[i], sizeof p);
    }
    wire_rig_free(r);
}

static void assert_same_gradient(const wire_rig *r, int k, int i, const char *a, const char *b) {
    const mu_param *p = r->ps[k].list[i];
    const mu_grad x = mu_message_get(&r->layout[k], a, i, p), y = mu_message_get(&r->layout[k], b, i, p);
    const size_t rows = (size_t)mu_param_rows(p), cols = p->count / rows, batch = (size_t)x.batch;
    assert_int_equal(x.form, y.form);
    assert_int_equal(x.batch, y.batch);
    assert_int_equal(x.n_rows, y.n_rows);
    assert_int_equal(x.n_x, y.n_x);
    if (x.form == MU_GRAD_DENSE) assert_memory_equal(x.dense, y.dense, p->count * 4);
    if (x.form == MU_GRAD_ROWS) assert_memory_equal(x.row, y.row, (size_t)x.n_rows * 4);
    if (x.form == MU_GRAD_ROWS) assert_memory_equal(x.row_value, y.row_value, (size_t)x.n_rows * cols * 4);
    if (x.form != MU_GRAD_FACTORS && x.form != MU_GRAD_GATHERED) return;
    assert_memory_equal(x.dy, y.dy, batch * rows * 4);
    assert_memory_equal(x.x, y.x, (x.form == MU_GRAD_FACTORS ? batch : (size_t)x.n_x) * cols * 4);
    if (x.form == MU_GRAD_GATHERED) assert_memory_equal(x.src_row, y.src_row, batch * rows * 4);
}

// Bytes of the slot outside of heads and of what is used.
static size_t n_untouched(const wire_rig *r, int k, const char *slot) {
    char *touched = calloc(1, r->layout[k].bytes);
    size_t n = 0;
    for (int i = 0; i < r->layout[k].n; i++) {
        mu_message_span span[MU_MESSAGE_SPANS];
        const mu_message_use use = mu_message_used(&r->layout[k], slot, i);
        const int spans = mu_message_spans(&r->layout[k], i, r->ps[k].list[i], &use, span);
        memset(touched + r->layout[k].part[i].offset, 1, 24);
        for (int s = 0; s < spans; s++) {
            assert_true(span[s].offset >= r->layout[k].part[i].offset + 64);
            assert_true(span[s].offset + span[s].bytes <= r->layout[k].part[i].offset + r->layout[k].part[i].bytes);
            memset(touched + span[s].offset, 1, span[s].bytes);
        }
    }
    for (size_t b = 0; b < r->layout[k].bytes; b++) {
        n += !touched[b];
        if (!touched[b] && slot[b] != 0x77) fail_msg("byte %zu of worker %d's message was written", b, k);
    }
    free(touched);
    return n;
}

static void test_push(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    for (int64_t samples = 0; samples <= 3; samples++)
        for (int k = 0; k < 2; k++) {
            char *other = aligned_alloc(64, r->layout[k].bytes);
            memset(other, 0x77, r->layout[k].bytes);
            wire_fill(r, samples);
            mu_wire w = wire_example(r, MU_WIRE_PUSH);
            w.push.worker = k, w.push.params = r->layout[k].n, w.push.slot = r->slot[k];
            const size_t n = pack(r, &w);
            const mu_wire got = unpack(r, n);
            mu_wire_put_message(&r->shape, &got.push, other);
            for (int i = 0; i < r->layout[k].n; i++) assert_same_gradient(r, k, i, r->slot[k], other);
            assert_true(n < r->layout[k].bytes + 300);
            const size_t unused_bytes = n_untouched(r, k, other);
            assert_true(n <= r->layout[k].bytes - unused_bytes + 300); // heads became a line of the table
            free(other);
        }
    wire_rig_free(r);
}

static void test_lying_slot(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    memset(r->slot[0] + r->layout[0].part[2].offset, 0x7f, 24); // a head that no learner wrote
    const mu_wire w = wire_example(r, MU_WIRE_PUSH);
    const mu_wire got = unpack(r, pack(r, &w));
    mu_wire_put_message(&r->shape, &got.push, r->slot[0]);
    assert_int_equal(mu_message_get(&r->layout[0], r->slot[0], 2, &r->p[2]).form, MU_GRAD_NONE);
    assert_int_equal(mu_message_get(&r->layout[0], r->slot[0], 5, &r->p[5]).form, MU_GRAD_GATHERED);
    wire_rig_free(r);
}

// ---- refusals ----

static const mu_wire_field *field_of(mu_wire_type t, const char *name, size_t *at) {
    const mu_wire_class *c = mu_wire_class_of(t);
    *at = MU_WIRE_HEAD;
    for (int i = 0; i < c->n_fields; *at += mu_wire_width(&c->field[i++]))
        if (!strcmp(c->field[i].name, name)) return &c->field[i];
    fail_msg("%s has no `%s`", c->name, name);
    return NULL;
}

// A number into a struct and into a frame.
static void set(const mu_wire_field *f, double real, int64_t value, void *in_struct, unsigned char *in_frame) {
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
    {MU_WIRE_SUM, "parts", 0, "and only there"},
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
    {MU_WIRE_STOP, "why", 3, "`why`"},
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
            fail_msg("%s `%s`: packing says `%s`, not `%s`", mu_wire_type_name(x->type), x->field, err.msg, x->text);
    }
    wire_rig_free(r);
}

// Every number that has a range is in the table above or is refused beyond its range here.
static void test_ranges(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    for (int t = MU_WIRE_HELLO; t < MU_WIRE_TYPES; t++) {
        const mu_wire_class *c = mu_wire_class_of((uint32_t)t);
        for (int i = 0; i < c->n_fields; i++) {
            size_t at;
            const mu_wire_field *f = field_of((mu_wire_type)t, c->field[i].name, &at);
            const int64_t most = mu_wire_most(&r->shape, f), beyond[] = {f->lo - 1, most + 1};
            if (f->kind != MU_WIRE_I32 && f->kind != MU_WIRE_I64 && f->kind != MU_WIRE_U32) continue;
            for (int k = 0; k < 2; k++) {
                const bool narrow = f->kind != MU_WIRE_I64;
                if (narrow && (beyond[k] > (f->kind == MU_WIRE_I32 ? INT32_MAX : (int64_t)UINT32_MAX))) continue;
                if ((k ? most == INT64_MAX : f->lo == INT64_MIN) || (f->kind == MU_WIRE_U32 && beyond[k] < 0)) continue;
                mu_wire w = wire_example(r, (mu_wire_type)t);
                const size_t n = pack(r, &w);
                set(f, 0, beyond[k], &w.hello, bytes + at);
                wire_sign(bytes, n);
                assert_refused(r, n, f->name);
            }
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
static void damage(wire_rig *r, mu_wire_type t, size_t at, const void *with, size_t n_with, const char *text) {
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
    damage(r, MU_WIRE_STOP, 4, "\2", 1, "a frame of version 2, this program speaks version 1");
    damage(r, MU_WIRE_STOP, 6, "\0", 1, "of type 0");
    damage(r, MU_WIRE_STOP, 6, "\16", 1, "of type 14");
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
    damage(r, MU_WIRE_PUSH, table + 4, "\3", 1, "too early"); // three samples, and the floats of two
    damage(r, MU_WIRE_PUSH, table + 4, "\1", 1, "too many");
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
    damage(r, MU_WIRE_SUM, MU_WIRE_HEAD + 4, "\2", 1, "too many");
    damage(r, MU_WIRE_SUM, MU_WIRE_HEAD + 4, "\5", 1, "SUM");
    mu_wire w = wire_example(r, MU_WIRE_SUM);
    mu_err err = {0};
    r->part[1].id.rows = 0;
    assert_int_equal(mu_wire_pack(&r->shape, &w, &r->frame, &err), MU_EUSAGE);
    assert_non_null(strstr(err.msg, "`id.rows`"));
    wire_rig_free(r);
}

// ---- properties ----

static void test_any_change_is_noticed(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    static const unsigned char flips[] = {0x01, 0x80, 0xff};
    mu_wire got;
    for (int t = MU_WIRE_HELLO; t < MU_WIRE_TYPES; t++) {
        const mu_wire w = wire_example(r, (mu_wire_type)t);
        const size_t n = pack(r, &w);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < MU_COUNT(flips); k++) {
                bytes[i] ^= flips[k];
                if (mu_wire_unpack(&r->shape, bytes, n, &got, NULL) == MU_OK)
                    fail_msg("%s: byte %zu of %zu changed, and nobody noticed", mu_wire_type_name((mu_wire_type)t), i, n);
                bytes[i] ^= flips[k];
            }
        for (size_t i = 0; i < n; i++) assert_int_equal(mu_wire_unpack(&r->shape, bytes, i, &got, NULL), MU_EDATA);
        assert_int_equal(mu_wire_unpack(&r->shape, bytes, n + 1, &got, NULL), MU_EDATA);
    }
    wire_rig_free(r);
}

static void test_what_is_accepted_is_legal(void **unused) {
    (void)unused;
    static const unsigned char values[] = {0, 1, 2, 7, 0x7f, 0x80, 0xfe, 0xff};
    wire_rig *r = wire_rig_make();
    size_t accepted = 0, refused = 0;
    for (int t = MU_WIRE_HELLO; t < MU_WIRE_TYPES; t++) {
        static unsigned char good[WIRE_BYTES];
        wire_fill(r, 2);
        const mu_wire w = wire_example(r, (mu_wire_type)t);
        const size_t n = pack(r, &w), looked = n < 2000 ? n : 2000;
        memcpy(good, bytes, n);
        for (size_t i = 0; i < looked; i++)
            for (size_t k = 0; k < MU_COUNT(values); k++) {
                mu_wire got;
                mu_err err = {0};
                memcpy(bytes, good, n);
                bytes[i] = values[k];
                if (i < 24 || i >= 32) wire_sign(bytes, n);
                const bool taken = mu_wire_unpack(&r->shape, bytes, n, &got, &err) == MU_OK;
                if (taken && !wire_is_legal(r, &got, bytes, n)) fail_msg("type %d, byte %zu is %d", t, i, values[k]);
                if (!taken && !err.msg[0]) fail_msg("type %d, byte %zu is %d: refused without a word", t, i, values[k]);
                accepted += taken;
                refused += !taken;
            }
    }
    assert_true(accepted > 1000 && refused > 1000);
    wire_rig_free(r);
}

// ---- room, memory, layouts ----

static void test_room(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    mu_wire_frame f = {0};
    mu_err err = {0};
    for (int n = 1; n <= 2; n++) {
        mu_alloc_fail_at(n);
        assert_int_equal(mu_wire_frame_init(&r->shape, &f, NULL), MU_ENOMEM);
    }
    mu_alloc_fail_at(0);
    assert_null(f.head);
    static mu_message_part parts[5000];
    for (int i = 0; i < 5000; i++) parts[i].form = MU_GRAD_DENSE;
    r->share[1].message = &(mu_message_layout){5000, parts, 64};
    assert_int_equal(mu_wire_frame_init(&r->shape, &f, &err), MU_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "5000 parameters"));
    r->share[1].message = &(mu_message_layout){1, parts, MU_WIRE_MOST};
    assert_int_equal(mu_wire_frame_init(&r->shape, &f, NULL), MU_EUNSUPPORTED);
    r->shape.count = (int64_t)1 << 40;
    mu_wire w = wire_example(r, MU_WIRE_WEIGHTS);
    w.weights.end = (int64_t)1 << 39;
    assert_int_equal(mu_wire_pack(&r->shape, &w, &r->frame, NULL), MU_EUSAGE);
    w.type = MU_WIRE_TYPES;
    assert_int_equal(mu_wire_pack(&r->shape, &w, &r->frame, NULL), MU_EUSAGE);
    wire_rig_free(r);
}

static void test_layout_hash(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    const uint64_t own = r->shape.layout;
    assert_int_equal(mu_wire_layout_hash(&r->shape), own);
    r->p[1].name = "conv.weights";
    assert_int_not_equal(mu_wire_layout_hash(&r->shape), own);
    r->p[1].name = "conv.weight";
    r->layout[0].part[0].form = MU_GRAD_DENSE;
    assert_int_not_equal(mu_wire_layout_hash(&r->shape), own);
    r->layout[0].part[0].form = MU_GRAD_FACTORS;
    r->layout[1].part[0].max_x++;
    assert_int_not_equal(mu_wire_layout_hash(&r->shape), own);
    r->layout[1].part[0].max_x--;
    r->channel_bytes[2]++;
    assert_int_not_equal(mu_wire_layout_hash(&r->shape), own);
    r->channel_bytes[2]--;
    r->shape.count++;
    assert_int_not_equal(mu_wire_layout_hash(&r->shape), own);
    r->shape.count--;
    assert_int_equal(mu_wire_layout_hash(&r->shape), own);
    wire_rig_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_arrays),          cmocka_unit_test(test_push),
        cmocka_unit_test(test_lying_slot),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_ranges),          cmocka_unit_test(test_texts),
        cmocka_unit_test(test_heads),           cmocka_unit_test(test_push_refusals),
        cmocka_unit_test(test_sum_refusals),    cmocka_unit_test(test_any_change_is_noticed),
        cmocka_unit_test(test_what_is_accepted_is_legal), cmocka_unit_test(test_room),
        cmocka_unit_test(test_layout_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
