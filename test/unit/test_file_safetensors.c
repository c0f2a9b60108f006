// SPDX-License-Identifier: Apache-2.0
// Tests of file/safetensors: exact bytes, what a reader in another language sees, and everything a loader
// must refuse.
#include "run_help.h"

#include "file/json.h"
#include "file/safetensors.h"

#include <sys/wait.h>

static void test_golden_bytes(void **state) {
    (void)state;
    // The byte string of the format's own serialisation test: six floats 0..5 as "attn.0".
    static const char head[] = "{\"attn.0\":{\"dtype\":\"F32\",\"shape\":[1,2,3],\"data_offsets\":[0,24]}}";
    char dir[64], path[128], *text;
    size_t size, padded = (strlen(head) + 7) / 8 * 8;
    float x[6] = {0, 1, 2, 3, 4, 5};
    mu_st_tensor t = mu_st_f32("attn.0", MU_SHAPE(1, 2, 3), x);
    temp_dir(dir);
    assert_ok(mu_st_save(dir, "a.safetensors", &t, 1, NULL, 0, err));
    snprintf(path, sizeof path, "%s/a.safetensors", dir);
    assert_ok(mu_fs_read(path, 1000, &text, &size, err));
    assert_int_equal(size, 8 + padded + 24);
    assert_int_equal((unsigned char)text[0], padded);
    assert_memory_equal(text + 8, head, strlen(head));
    for (size_t i = strlen(head); i < padded; i++) assert_int_equal(text[8 + i], ' ');
    assert_memory_equal(text + 8 + padded, x, sizeof x);
    mu_free(text);
    remove_tree(dir);
}

static void test_round_trip(void **state) {
    (void)state;
    char dir[64], path[128];
    float w[6] = {1, -2, 3.5f, 0, 1e-30f, 7}, scalar = 42;
    int64_t big[2] = {INT64_MIN, 5};
    int32_t small[3] = {-1, 0, 1};
    const mu_st_tensor list[] = {
        mu_st_f32("b\"\\\n\xC3\xA9", MU_SHAPE(2, 3), w),
        mu_st_f32("a.scalar", (mu_shape){0}, &scalar),
        {.name = "z.big", .dtype = MU_ST_I64, .shape = MU_SHAPE(2), .data = big},
        {.name = "m.small", .dtype = MU_ST_I32, .shape = MU_SHAPE(3), .data = small},
        {.name = "empty", .dtype = MU_ST_F32, .shape = MU_SHAPE(0, 4)},
        {.name = "empty2", .dtype = MU_ST_F32, .shape = MU_SHAPE(0)},
    };
    const mu_st_meta meta[] = {{"format", "pt"}, {"quote\"", "line\nbreak"}};
    temp_dir(dir);
    assert_ok(mu_st_save(dir, "m.safetensors", list, MU_COUNT(list), meta, 2, err));
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    mu_st_file *f;
    assert_ok(mu_st_open(path, &f, err));
    assert_int_equal(mu_st_count(f), MU_COUNT(list));
    for (size_t i = 0; i < MU_COUNT(list); i++) {
        const mu_st_tensor *t = mu_st_find(f, list[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, list[i].dtype);
        assert_true(mu_shape_equal(&t->shape, &list[i].shape));
        if (t->size_bytes) assert_memory_equal(t->data, list[i].data, t->size_bytes);
        assert_int_equal((uintptr_t)t->data % mu_st_dtype_bytes(t->dtype), 0);
        if (i) assert_true(strcmp(mu_st_at(f, i - 1)->name, mu_st_at(f, i)->name) < 0);
    }
    // Falling element size: the 8-byte array is first in the data section.
    assert_true(mu_st_find(f, "z.big")->data < mu_st_find(f, "a.scalar")->data);
    char *text;
    size_t size;
    assert_ok(mu_fs_read(path, 10000, &text, &size, err));
    json_t *head = json_loadb(text + 8, (unsigned char)text[0] + 256u * (unsigned char)text[1], 0, NULL);
    const json_t *about = json_object_get(json_object_get(head, "__metadata__"), "quote\"");
    assert_string_equal(json_string_value(about), "line\nbreak");
    json_decref(head);
    mu_free(text);
    assert_null(mu_st_find(f, "none"));
    float out[6];
    const mu_st_tensor *t = mu_st_find(f, list[0].name);
    assert_fails(mu_st_copy_f32(t, &MU_SHAPE(3, 2), out, err), MU_EMODEL,
                 "has shape (2, 3), expected (3, 2)");
    assert_fails(mu_st_copy_f32(mu_st_find(f, "z.big"), &MU_SHAPE(2), out, err), MU_EMODEL, "stored as I64");
    mu_st_close(f);
    remove_tree(dir);
}

static void test_writer_refuses(void **state) {
    (void)state;
    char dir[64], leaf[128];
    float x[4] = {0};
    temp_dir(dir);
#define REFUSED(text, ...)                                                                                   \
    do {                                                                                                     \
        const mu_st_tensor list[] = {__VA_ARGS__};                                                           \
        assert_fails(mu_st_save(dir, "x", list, MU_COUNT(list), NULL, 0, err), MU_EUSAGE, text);             \
    } while (0)
    REFUSED("two tensors are called `a`", mu_st_f32("a", MU_SHAPE(2), x),
            {.name = "a", .dtype = MU_ST_I32, .shape = MU_SHAPE(2), .data = x});
    REFUSED("cannot be the name", mu_st_f32("__metadata__", MU_SHAPE(2), x));
    REFUSED("cannot be the name", mu_st_f32("", MU_SHAPE(2), x));
    REFUSED("not UTF-8", mu_st_f32("\xC0\x80", MU_SHAPE(2), x));
    REFUSED("does not fit", mu_st_f32("a", MU_SHAPE(INT64_MAX, 3), x));
    REFUSED("does not fit", mu_st_f32("a", MU_SHAPE(-1), x));
    REFUSED("its shape needs 8",
            {.name = "a", .dtype = MU_ST_F32, .shape = MU_SHAPE(2), .data = x, .size_bytes = 12});
#undef REFUSED
    snprintf(leaf, sizeof leaf, "%s/x.tmp-%ld", dir, (long)getpid());
    assert_int_equal(access(leaf, F_OK), -1); // nothing is left behind
    remove_tree(dir);
}

typedef struct bad {
    const char *header;
    uint64_t data_bytes;
    const char *text;
} bad;

static mu_status parse_text(const char *header, uint64_t data_bytes, mu_err *err) {
    size_t n = strlen(header), size = 8 + n + data_bytes;
    unsigned char *file = malloc(size); // exactly this many bytes: an over-read is an ASan report
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)((uint64_t)n >> (8 * i));
    memcpy(file + 8, header, n);
    memset(file + 8 + n, 0, data_bytes);
    mu_st_file *f = NULL;
    mu_status status = mu_st_parse(file, size, "x", &f, err);
    mu_st_close(f);
    free(file);
    return status;
}

static const bad refused[] = {
    {"", 0, "does not start with `{`"},
    {"[]", 0, "does not start with `{`"},
    {" {}", 0, "does not start with `{`"},
    {"{", 0, "does not start"},
    {"{\"a\":1", 0, "not valid JSON"},
    {"{} x", 0, "not valid JSON"},
    {"{}", 1, "cover 0 of 1 bytes"},
    {"{\"a\":1}", 0, "not an object"},
    {"{\"a\":{}}", 0, "no `dtype`"},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "unknown `dtype`"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "`shape` is not a list"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "something else than sizes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4,
     "something else than sizes"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
     "too many dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "not a pair"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "go backwards"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "go backwards"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 4, "ends at byte 8 of 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
     "has 4 bytes, but its shape needs 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "cover 4 of 5"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
     "starts at 4, the one before ends at 0"},
    // wraps to 4 elements where products are not checked
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4194305,4194305,211106198978564],\"data_offsets\":[0,16]}}",
     16, "larger than any file"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     4, "starts at 0, the one before ends at 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
     8, "duplicate"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate"},
    {"{\"__metadata__\":[]}", 0, "is not an object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "is not a text"},
    {"{\"__metadata__\":{\"a\":{\"b\":{\"c\":\"d\"}}}}", 0, "nested deeper than 3"},
    {"{\"\xFF\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not valid JSON"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not valid JSON"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4,
     "not valid JSON"},
};

static void test_loader_refuses(void **state) {
    (void)state;
    for (size_t i = 0; i < MU_COUNT(refused); i++) {
        mu_err e = {0};
        mu_status s = parse_text(refused[i].header, refused[i].data_bytes, &e);
        if (s != MU_EMODEL || !strstr(e.msg, refused[i].text))
            fail_msg("header %s: got %s `%s`, expected `%s`", refused[i].header, mu_status_name(s), e.msg,
                     refused[i].text);
    }
    // What may look odd and is allowed: spaces after the object, unknown keys, empty arrays at one offset.
    assert_ok(parse_text("{}      ", 0, err));
    assert_ok(parse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, err));
    assert_ok(parse_text("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
                         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                         "\"c\":{\"dtype\":\"I64\",\"shape\":[7,0],\"data_offsets\":[2,2]}}",
                         2, err));
}

static void test_header_limits(void **state) {
    (void)state;
    mu_st_file *f = NULL;
    unsigned char file[64] = {0};
    assert_fails(mu_st_parse(file, 7, "x", &f, err), MU_EMODEL, "too few");
    assert_fails(mu_st_parse(file, 8, "x", &f, err), MU_EMODEL, "does not start");
    static const uint64_t lengths[] = {57, MU_ST_MAX_HEADER + 1, 100000001, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t k = 0; k < MU_COUNT(lengths); k++) {
        for (int i = 0; i < 8; i++) file[i] = (unsigned char)(lengths[k] >> (8 * i));
        assert_fails(mu_st_parse(file, sizeof file, "x", &f, err), MU_EMODEL, "header of");
    }
    // 100000 entries, and one shape of a million sizes: refused before anything is built.
    size_t cap = 8u << 20, n = 0;
    char *text = malloc(cap);
    n += (size_t)sprintf(text + n, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1");
    for (int i = 0; i < 1000000; i++) n += (size_t)sprintf(text + n, ",1");
    n += (size_t)sprintf(text + n, "],\"data_offsets\":[0,4]}}");
    uint64_t calls = mu_alloc_get_stats().n_calls;
    assert_fails(parse_text(text, 4, err), MU_EMODEL, "more than 262144 values");
    assert_in_range(mu_alloc_get_stats().n_calls - calls, 0, 10);
    n = (size_t)sprintf(text, "{\"x\":0");
    for (int i = 0; i < 100000; i++) n += (size_t)sprintf(text + n, ",\"%d\":0", i);
    sprintf(text + n, "}");
    assert_fails(parse_text(text, 0, err), MU_EMODEL, "100001 tensors, the limit is 16384");
    free(text);
}

// A reader of the standard library of another language agrees on every byte; torch too, where it is.
static const char reader[] =
    "import json,struct,sys\n"
    "b=open(sys.argv[1],'rb').read(); n=struct.unpack('<Q',b[:8])[0]; h=json.loads(b[8:8+n]); d=b[8+n:]\n"
    "assert n%8==0 and h.pop('__metadata__')=={'format':'pt'}; at=0\n"
    "for k,t in h.items():\n"
    "  s,e=t['data_offsets']; assert s==at; at=e; c=1\n"
    "  for x in t['shape']: c*=x\n"
    "  v=struct.unpack('<%d%s'%(c,{'F32':'f','I64':'q'}[t['dtype']]),d[s:e])\n"
    "  assert v==tuple(range(c)),(k,v)\n"
    "assert at==len(d) and list(h)==['steps','conv.weight','fc.bias'],list(h)\n";

static void test_python_agrees(void **state) {
    (void)state;
    if (access("/usr/bin/python3", X_OK)) {
        print_message("skipped: no /usr/bin/python3\n");
        skip();
    }
    char dir[64], path[128], script[128], command[400];
    float x[24];
    int64_t steps[3] = {0, 1, 2};
    for (int i = 0; i < 24; i++) x[i] = (float)i;
    const mu_st_tensor list[] = {mu_st_f32("fc.bias", MU_SHAPE(5), x),
                                 mu_st_f32("conv.weight", MU_SHAPE(2, 3, 2, 2), x),
                                 {.name = "steps", .dtype = MU_ST_I64, .shape = MU_SHAPE(3), .data = steps}};
    temp_dir(dir);
    assert_ok(mu_st_save(dir, "m.safetensors", list, 3, &(mu_st_meta){"format", "pt"}, 1, err));
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    snprintf(script, sizeof script, "%s/read.py", dir);
    write_file(script, reader, strlen(reader));
    snprintf(command, sizeof command, "/usr/bin/python3 %s %s", script, path);
    int rc = system(command);
    assert_true(WIFEXITED(rc));
    assert_int_equal(WEXITSTATUS(rc), 0);
    remove_tree(dir);
}

static void test_allocation_failures(void **state) {
    (void)state;
    char dir[64], path[128];
    float x[6] = {0};
    const mu_st_tensor list[] = {mu_st_f32("a", MU_SHAPE(2, 3), x), mu_st_f32("b", MU_SHAPE(6), x)};
    const mu_st_meta meta = {"format", "pt"};
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    int n_failed = 0;
    for (int64_t n = 1;; n++, n_failed++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_err e = {0};
        mu_alloc_fail_at(n);
        mu_status s = mu_st_save(dir, "m.safetensors", list, 2, &meta, 1, &e);
        mu_alloc_fail_at(0);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (s == MU_OK) break;
        assert_int_equal(s, MU_ENOMEM);
    }
    assert_in_range(n_failed, 3, 100);
    for (int64_t n = 1;; n++, n_failed++) {
        uint64_t live = mu_alloc_get_stats().n_live;
        mu_err e = {0};
        mu_st_file *f = NULL;
        mu_alloc_fail_at(n);
        mu_status s = mu_st_open(path, &f, &e);
        mu_alloc_fail_at(0);
        mu_st_close(f);
        assert_int_equal(mu_alloc_get_stats().n_live, live);
        if (s == MU_OK) break;
        if (s != MU_ENOMEM) fail_msg("allocation %lld: %s: %s", (long long)n, mu_status_name(s), e.msg);
    }
    assert_in_range(n_failed, 20, 1000);
    remove_tree(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_bytes),        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_writer_refuses),      cmocka_unit_test(test_loader_refuses),
        cmocka_unit_test(test_header_limits),       cmocka_unit_test(test_python_agrees),
        cmocka_unit_test(test_allocation_failures),
    };
    return cmocka_run_group_tests_name("file/safetensors", tests, NULL, NULL);
}
