// SPDX-License-Identifier: Apache-2.0
// conform_reader.c - what every reader must do, looped over the registry.
//
// A reader this file has no sample of is still held to the parts that need none: a complete class,
// and a clean refusal of missing, empty, foreign and random files.
#include "unit/data_help.h"

#include "base/rng.h"

static const mu_reader_class *class_at(size_t i) {
    return (const mu_reader_class *)(const void *)mu_readers.list[i];
}

static void test_classes_are_complete(void **ctx) {
    (void)ctx;
    assert_true(mu_readers.n > 0);
    for (size_t i = 0; i < mu_readers.n; i++) {
        const mu_reader_class *c = class_at(i);
        if (!c->name || !c->help || !c->open || !c->read || !c->close)
            fail_msg("reader %zu is incomplete", i);
        assert_ptr_equal(mu_registry_find(&mu_readers, c->name), mu_readers.list[i]);
        for (const mu_field *f = c->fields; f && f->key; f++) {
            if (!f->help || !f->help[0]) fail_msg("%s.%s has no help", c->name, f->key);
            if (f->offset >= c->state_size) fail_msg("%s.%s lies outside its state", c->name, f->key);
            for (const mu_field *own = mu_source_fields; own->key; own++)
                if (!strcmp(own->key, f->key)) fail_msg("%s.%s is a key of every source", c->name, f->key);
        }
    }
}

// Sum over everything a reader delivers, so that memory checkers see each byte used.
static uint64_t digest(mu_reader *r, int64_t i) {
    mu_err err = {0};
    mu_record rec = {{0}};
    assert_ok(mu_reader_read(r, i, &rec, &err), &err);
    uint64_t h = 1469598103934665603ull;
    for (int f = 0; f < r->n_fields; f++) {
        const uint8_t *p = rec.field[f];
        assert_non_null(p);
        for (size_t k = 0; k < mu_data_field_bytes(&r->field[f]); k++) h = (h ^ p[k]) * 1099511628211ull;
        if (r->field[f].n_classes && r->field[f].store == MU_STORE_I32)
            assert_in_range(*(const int32_t *)rec.field[f], 0, r->field[f].n_classes - 1);
    }
    return h;
}

static void test_random_access(void **ctx) {
    (void)ctx;
    for (size_t c = 0; c < mu_readers.n; c++) {
        const char *yaml = sample_of(class_at(c)->name);
        if (!yaml) {
            print_message("no sample of reader %s: random access not tested\n", class_at(c)->name);
            continue;
        }
        block b;
        mu_reader *r;
        mu_err err = {0};
        assert_ok(reader_open(&b, yaml, &r, &err), &err);
        assert_int_equal(r->n_records, SAMPLES);
        assert_in_range(r->n_fields, 1, MU_MAX_FIELDS);
        uint64_t want[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) want[i] = digest(r, i);
        for (int i = SAMPLES; i-- > 0;)
            if (digest(r, i) != want[i])
                fail_msg("%s: record %d changes with the order", class_at(c)->name, i);
        for (int i = 0; i < SAMPLES; i++)
            for (int k = 0; k < i; k++)
                if (want[i] == want[k])
                    fail_msg("%s: records %d and %d are the same", class_at(c)->name, i, k);
        char name[200];
        mu_reader_describe(r, 1, name, sizeof name);
        assert_true(name[0] != '\0');
        mu_record rec;
        assert_status(mu_reader_read(r, SAMPLES, &rec, &err), MU_EDATA, &err);
        mu_err_clear(&err);
        assert_status(mu_reader_read(r, -1, &rec, &err), MU_EDATA, &err);
        mu_reader_close(r);
        block_fini(&b);
    }
}

// Opens the class with every path field set to `path` and the other fields at their defaults.
static void open_on(const mu_reader_class *c, const char *path) {
    const char *list[] = {path};
    mu_err err = {0};
    mu_reader *r = NULL;
    mu_arena arena;
    mu_arena_init(&arena, "test");
    void *state = mu_arena_alloc(&arena, c->state_size + 1);
    mu_bind_defaults(&arena, c->fields, state, NULL);
    bool has_path = false;
    for (const mu_field *f = c->fields; f && f->key; f++) {
        void *at = (char *)state + f->offset;
        if (f->type == MU_PATH) memcpy(at, &path, sizeof path), has_path = true;
        if (f->type == MU_PATHS) memcpy(at, &(mu_strings){1, list}, sizeof(mu_strings)), has_path = true;
    }
    mu_status st = has_path ? mu_reader_open(c, state, MU_NOPOS, NULL, &r, &err) : MU_EDATA;
    if (st == MU_OK) mu_reader_close(r);        // a text format may take random bytes for a row
    else if (has_path && !strstr(err.msg, path))
        fail_msg("%s: `%s` does not name %s", c->name, err.msg, path);
    mu_arena_fini(&arena);
}

static void test_refuses_foreign_files(void **ctx) {
    (void)ctx;
    uint8_t junk[4096];
    mu_rng_fill_u32(mu_rng_key_make(7, "junk"), 0, 0, (uint32_t *)(void *)junk, sizeof junk / 4);
    write_file("empty", "", 0);
    write_file("one", "x", 1);
    write_file("junk", junk, sizeof junk);
    write_file("zeros", (uint8_t[64]){0}, 64);
    write_file("badgz", "\x1f\x8b\x08\0\0\0\0\0\0\3junk", 14);
    mkdir(test_path("folder"), 0777);
    uint64_t live = mu_alloc_get_stats().n_live;
    for (size_t c = 0; c < mu_readers.n; c++) {
        const char *names[] = {"missing", "empty", "one", "junk", "zeros", "badgz", "folder"};
        for (size_t i = 0; i < MU_COUNT(names); i++) open_on(class_at(c), test_path(names[i]));
        uint64_t now = mu_alloc_get_stats().n_live;
        if (now != live) fail_msg("%s leaks %d blocks", class_at(c)->name, (int)(now - live));
    }
}

// Every allocation of binding, opening and the first read fails once.
static void test_allocation_failures(void **ctx) {
    (void)ctx;
    for (size_t c = 0; c < mu_readers.n; c++) {
        const char *yaml = sample_of(class_at(c)->name);
        uint64_t live = mu_alloc_get_stats().n_live;
        for (int64_t n = 1; yaml; n++) {
            if (n > 10000) fail_msg("%s: never succeeds", class_at(c)->name);
            block b;
            mu_err err = {0};
            mu_reader *r = NULL;
            mu_record rec;
            mu_alloc_fail_at(n);
            mu_status st = reader_open(&b, yaml, &r, &err);
            if (st == MU_OK) {
                st = mu_reader_read(r, 0, &rec, &err);
                mu_reader_close(r);
            }
            mu_alloc_fail_at(0);
            block_fini(&b);
            uint64_t now = mu_alloc_get_stats().n_live;
            if (now != live) fail_msg("%s leaks when allocation %d fails", class_at(c)->name, (int)n);
            if (st == MU_OK) break;
            if (st != MU_ENOMEM && st != MU_EJOB)
                fail_msg("%s: %s for allocation %d", class_at(c)->name, err.msg, (int)n);
        }
    }
}

int main(void) {
    make_test_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_are_complete),
        cmocka_unit_test(test_random_access),
        cmocka_unit_test(test_refuses_foreign_files),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
