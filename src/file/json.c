// SPDX-License-Identifier: Apache-2.0
// json.c - see json.h.
#include "file/json.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <math.h>
#include <pthread.h>

#define TAG "json"

// jansson reports some failed allocations as syntax errors; only its allocator knows better.
static _Thread_local bool heap_failed;

static void *heap_alloc(size_t size) {
    void *p = mu_alloc(size, TAG);
    if (!p) heap_failed = true;
    return p;
}
static void route_heap(void) { json_set_alloc_funcs(heap_alloc, mu_free); }

void mu_json_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, route_heap);
}

// Walks the text once without building anything. Every value of a JSON text is preceded by one of
// `{ [ , :` or is the first, so counting those bounds the number of nodes the parser can make.
// Malformed text may be miscounted; the parser refuses it afterwards.
static mu_status check_limits(const char *text, size_t size, const mu_json_limits *limits, const char *what,
                              mu_err *err) {
    size_t depth = 0, values = 1;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') i++;
            else if (c == '"') in_string = false;
            continue;
        }
        if (c == '"') in_string = true;
        else if (c == ',' || c == ':') values++;
        else if (c == '[' || c == '{') values++, depth++;
        else if ((c == ']' || c == '}') && depth) depth--;
        if (depth > limits->max_depth)
            return MU_FAIL(err, MU_EMODEL, "%s: nested deeper than %zu levels at byte %zu", what,
                           limits->max_depth, i);
        if (values > limits->max_values)
            return MU_FAIL(err, MU_EMODEL, "%s: more than %zu values", what, limits->max_values);
    }
    return MU_OK;
}

mu_status mu_json_parse(const char *text, size_t size, const mu_json_limits *limits, const char *what,
                        json_t **out, mu_err *err) {
    mu_json_init();
    MU_TRY(check_limits(text, size, limits, what, err));
    json_error_t at;
    heap_failed = false;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &at);
    if (!heap_failed && json_is_object(root)) {
        *out = root;
        return MU_OK;
    }
    bool parsed = root != NULL;
    json_decref(root);
    if (heap_failed) return MU_FAIL_NOMEM(err, what);
    if (parsed) return MU_FAIL(err, MU_EMODEL, "%s: expected a JSON object", what);
    return MU_FAIL(err, MU_EMODEL, "%s: not valid JSON at byte %d: %s", what, at.position, at.text);
}

bool mu_json_utf8_valid(const char *s, size_t n) { return mu_utf8_valid(s, n); }

json_t *mu_json_number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

int mu_json_put_reals(json_t *object, const mu_json_real *rows, size_t n) {
    int wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong |= json_object_set_new(object, rows[i].key, mu_json_number(rows[i].value));
    return wrong;
}

int mu_json_put_ints(json_t *object, const mu_json_int *rows, size_t n) {
    int wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong |= json_object_set_new(object, rows[i].key, json_integer(rows[i].value));
    return wrong;
}
