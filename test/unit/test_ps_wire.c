// SPDX-License-Identifier: Apache-2.0
// test_ps_wire.c - frames between nodes: each type there and back, any byte that changes; of a gradient only
// what is used travels, and arrives in its place. What is refused is in test_ps_wire_refusals.c.
#include "unit/wire_check.h"

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
        'M', 'U', 'W', 'F', 2,  0, 12, 0, 24, 0, 0, 0, 0, 0,  0, 0,             // version 2, STOP, 24 bytes
        1,   2,   3,   4,   5,  6, 7,  8,                                       // layout
        0,   0,   0,   0,   0,  0, 0,  0,                                       // check
        1,   0,   0,   0,   94, 0, 0,  0, 0,  0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, // why, version, samples
        0,   0,   0,   0,                                                       // a multiple of 8
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
            assert_true(span[s].offset + span[s].bytes <=
                        r->layout[k].part[i].offset + r->layout[k].part[i].bytes);
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

// Of a parameter whose gradient travels by itself a PUSH says only whether there is one.
static void test_what_goes_apart(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make();
    const mu_wire w = wire_example(r, MU_WIRE_PUSH);
    const size_t whole = pack(r, &w), floats = r->p[1].count * sizeof(float);
    const bool apart[WIRE_PARAMS] = {[1] = true};
    r->share[0].apart = apart;
    for (int64_t samples = 0; samples <= 2; samples += 2) {
        char *other = aligned_alloc(64, r->layout[0].bytes);
        memset(other, 0x77, r->layout[0].bytes);
        wire_fill(r, samples);
        const size_t n = pack(r, &w);
        if (samples) assert_int_equal(n, whole - floats);
        const mu_wire got = unpack(r, n);
        mu_wire_put_message(&r->shape, &got.push, other);
        const mu_grad_form want = samples ? MU_GRAD_DENSE : MU_GRAD_NONE;
        assert_int_equal(mu_message_used(&r->layout[0], other, 1).form, want);
        const char *at = other + r->layout[0].part[1].offset + MU_CACHE_LINE;
        for (size_t i = 0; i < floats; i++) assert_int_equal(at[i], 0x77);
        for (int i = 0; i < r->layout[0].n; i++)
            if (i != 1) assert_same_gradient(r, 0, i, r->slot[0], other);
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
                    fail_msg("%s: byte %zu of %zu changed, and nobody noticed",
                             mu_wire_type_name((mu_wire_type)t), i, n);
                bytes[i] ^= flips[k];
            }
        for (size_t i = 0; i < n; i++)
            assert_int_equal(mu_wire_unpack(&r->shape, bytes, i, &got, NULL), MU_EDATA);
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
                if (taken && !wire_is_legal(r, &got, bytes, n))
                    fail_msg("type %d, byte %zu is %d", t, i, values[k]);
                if (!taken && !err.msg[0])
                    fail_msg("type %d, byte %zu is %d: refused without a word", t, i, values[k]);
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
    parts[0].bytes = MU_WIRE_MOST;
    r->share[1].message = &(mu_message_layout){1, parts, MU_WIRE_MOST};
    assert_int_equal(mu_wire_frame_init(&r->shape, &f, NULL), MU_EUNSUPPORTED);
    r->share[1].apart = (bool[]){true}; // it does not travel in one frame
    assert_int_equal(mu_wire_frame_init(&r->shape, &f, NULL), MU_OK);
    mu_wire_frame_fini(&f);
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
    r->shape.half = MU_HALF_FP16;
    const uint64_t half = mu_wire_layout_hash(&r->shape);
    assert_int_not_equal(half, own);
    r->shape.half = MU_HALF_BF16;
    assert_int_not_equal(mu_wire_layout_hash(&r->shape), own);
    assert_int_not_equal(mu_wire_layout_hash(&r->shape), half);
    r->shape.half = MU_HALF_NONE;
    assert_int_equal(mu_wire_layout_hash(&r->shape), own);
    wire_rig_free(r);
}

// A SUM has half the bytes, and who has agreed on another width does not take it.
static void test_half(void **unused) {
    (void)unused;
    wire_rig *r = wire_rig_make(), *half = wire_rig_make_half(MU_HALF_BF16);
    const mu_wire w = wire_example(half, MU_WIRE_SUM);
    const size_t whole = pack(r, &w), n = pack(half, &w);
    const int64_t floats = w.sum.end - w.sum.begin;
    assert_int_equal(whole - n, 2 * floats);
    mu_wire got = unpack(half, n);
    assert_memory_equal(got.sum.floats, half->floats, 2 * (size_t)floats);
    assert_true(wire_is_legal(half, &got, bytes, n));
    mu_err err = {0};
    assert_int_equal(mu_wire_unpack(&r->shape, bytes, n, &got, &err), MU_EDATA);
    mu_err_clear(&err);
    memcpy(bytes + 16, &r->shape.layout, sizeof r->shape.layout); // one that lies
    wire_sign(bytes, n);
    assert_int_equal(mu_wire_unpack(&r->shape, bytes, n, &got, &err), MU_EDATA);
    assert_non_null(strstr(err.msg, "too early"));
    wire_rig_free(r);
    wire_rig_free(half);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_push),
        cmocka_unit_test(test_what_goes_apart),
        cmocka_unit_test(test_lying_slot),
        cmocka_unit_test(test_any_change_is_noticed),
        cmocka_unit_test(test_what_is_accepted_is_legal),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_layout_hash),
        cmocka_unit_test(test_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
