// SPDX-License-Identifier: Apache-2.0
// inputs.c - see inputs.h. Reading trusts nothing: a model may come from anybody.
#include "data/inputs.h"

#include "base/log.h"
#include "data/source.h"
#include "read/learnt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const mu_json_limits limits = {.max_depth = 8, .max_values = MU_INPUTS_MAX_BYTES};
static const char *const stores[] = {[MU_STORE_U8] = "u8", [MU_STORE_F32] = "f32", [MU_STORE_I32] = "i32"};

static size_t max_bytes = MU_INPUTS_MAX_BYTES;

void mu_inputs_set_max(size_t bytes) { max_bytes = bytes; }

// ---- writing ----

static json_t *put_field(const mu_data_field *f) {
    json_t *shape = json_array();
    for (int i = 0; i < f->shape.n; i++) (void)json_array_append_new(shape, json_integer(f->shape.d[i]));
    json_t *o = json_pack("{s:s, s:o, s:s, s:I}", "name", f->name, "shape", shape, "store", stores[f->store],
                          "classes", (json_int_t)f->n_classes);
    if (o && f->is_image) (void)json_object_set_new(o, "image", json_true());
    return o;
}

static int put_mean(json_t *root, const mu_source *train, int field) {
    size_t n;
    const float *v = mu_source_mean(train, field, &n);
    if (!v) return 0;
    json_t *list = json_array();
    int wrong = !list;
    for (size_t i = 0; !wrong && i < n; i++) wrong = json_array_append_new(list, json_real((double)v[i]));
    json_t *mean = json_pack("{s:i, s:o}", "field", field, "values", list);
    return wrong | !mean | json_object_set_new(root, "mean", mean);
}

static int put_all(json_t *root, const mu_source *train, mu_err *err) {
    const mu_reader *r = mu_source_reader(train);
    const mu_origin *o = &r->origin;
    json_t *fields = json_array(),
           *learnt = o->learnt ? json_copy((json_t *)(uintptr_t)o->learnt) : json_object();
    int wrong = !fields || !learnt;
    wrong |= json_object_set_new(root, "fields", fields) | json_object_set(root, "learnt", learnt);
    wrong |= json_object_set_new(root, "format", json_integer(1)) |
             json_object_set_new(root, "reader", json_string(o->reader ? o->reader : r->class->name));
    if (o->reader && o->keys) wrong |= json_object_set(root, "keys", (json_t *)(uintptr_t)o->keys);
    for (int i = 0; !wrong && i < r->n_fields; i++) {
        wrong |= json_array_append_new(fields, put_field(&r->field[i]));
        wrong |= put_mean(root, train, i);
    }
    if (!wrong && r->label_names) { // names that are no UTF-8 cannot be kept
        json_t *labels = mu_learnt_put_texts(r->label_names, (size_t)r->n_labels);
        if (labels) wrong |= json_object_set_new(root, "labels", labels);
    }
    if (!wrong && r->class->tell) wrong |= r->class->tell(r, learnt, err) != MU_OK;
    json_decref(learnt);
    return wrong;
}

mu_status mu_inputs_write(const mu_source *train, char **out, mu_err *err) {
    mu_json_init();
    *out = NULL;
    json_t *root = json_object();
    const int wrong = !root || put_all(root, train, err);
    char *text = wrong ? NULL : json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(root);
    if (!text)
        return err && err->status != MU_OK ? err->status : MU_FAIL_NOMEM(err, "the description of the data");
    if (strlen(text) > max_bytes) {
        mu_warn("the vocabulary is too large to be kept in models: they need the training data to be used");
        mu_free(text);
        return MU_OK;
    }
    *out = text;
    return MU_OK;
}

// ---- reading ----

static mu_status damaged(const char *what, mu_err *err) { return mu_learnt_damaged(what, err); }

static mu_status get_field(const json_t *o, mu_data_field *f, mu_err *err) {
    const char *store = json_string_value(json_object_get(o, "store"));
    const json_t *shape = json_object_get(o, "shape"), *classes = json_object_get(o, "classes");
    f->name = json_string_value(json_object_get(o, "name"));
    f->is_image = json_is_true(json_object_get(o, "image"));
    f->n_classes = json_integer_value(classes);
    if (!f->name || !store || !json_is_array(shape) || !json_is_integer(classes) || f->n_classes < 0)
        return damaged("a field lacks name, shape, store or classes", err);
    size_t k = 0;
    while (k < MU_COUNT(stores) && strcmp(stores[k], store)) k++;
    if (k == MU_COUNT(stores)) return damaged("a field is stored in an unknown way", err);
    f->store = (mu_store)k;
    f->shape.n = (int)json_array_size(shape);
    if (json_array_size(shape) > MU_MAX_DIMS - 1) return damaged("a field has too many dimensions", err);
    for (int i = 0; i < f->shape.n; i++) {
        f->shape.d[i] = json_integer_value(json_array_get(shape, (size_t)i));
        if (f->shape.d[i] < 1) return damaged("a field has no size", err);
    }
    int64_t count;
    if (!mu_shape_count_checked(&f->shape, &count)) return damaged("a field is too large", err);
    return f->is_image && f->shape.n != 3 ? damaged("an image has not three dimensions", err) : MU_OK;
}

static mu_status get_mean(mu_inputs *in, const json_t *mean, mu_err *err) {
    const json_t *list = json_object_get(mean, "values"), *field = json_object_get(mean, "field");
    in->n_mean = json_array_size(list);
    if (!json_is_integer(field) || !in->n_mean || json_integer_value(field) < 0 ||
        json_integer_value(field) >= in->n_fields)
        return damaged("a mean lacks its field or values", err);
    in->mean_field = (int)json_integer_value(field);
    float *v = mu_arena_array(&in->arena, in->n_mean, sizeof *v);
    if (!v) return MU_FAIL_NOMEM(err, "the mean of a model");
    for (size_t i = 0; i < in->n_mean; i++) {
        v[i] = (float)json_number_value(json_array_get(list, i));
        if (!isfinite(v[i])) return damaged("a mean is not finite", err);
    }
    in->mean = v;
    return MU_OK;
}

static mu_status get_all(mu_inputs *in, const char *what, mu_err *err) {
    const json_t *format = json_object_get(in->root, "format"), *fields = json_object_get(in->root, "fields");
    if (!json_is_integer(format)) return damaged("it has no format", err);
    if (json_integer_value(format) != 1)
        return mu_err_hinted(MU_FAIL(err, MU_EMODEL, "%s describes its inputs in format %d, known is 1", what,
                                     (int)json_integer_value(format)),
                             err, "It was saved by a newer version of Muster.");
    in->reader = json_string_value(json_object_get(in->root, "reader"));
    if (!in->reader) return damaged("it names no reader", err);
    if (!json_is_array(fields) || json_array_size(fields) > MU_MAX_FIELDS) return damaged("its fields", err);
    for (; in->n_fields < (int)json_array_size(fields); in->n_fields++)
        MU_TRY(get_field(json_array_get(fields, (size_t)in->n_fields), &in->field[in->n_fields], err));
    const json_t *labels = json_object_get(in->root, "labels"), *mean = json_object_get(in->root, "mean");
    in->learnt = json_object_get(in->root, "learnt");
    in->keys = json_object_get(in->root, "keys");
    if (in->keys && !json_is_object(in->keys)) return damaged("its keys", err);
    size_t n = 0;
    if (labels) MU_TRY(mu_learnt_get_texts(labels, &in->arena, &in->labels, &n, err));
    in->n_labels = (int64_t)n;
    in->mean_field = -1;
    return mean ? get_mean(in, mean, err) : MU_OK;
}

mu_status mu_inputs_read(const char *text, size_t size, const char *what, mu_inputs **out, mu_err *err) {
    mu_inputs *in = mu_alloc(sizeof *in, "data/inputs");
    if (!in) return MU_FAIL_NOMEM(err, what);
    mu_arena_init(&in->arena, "data/inputs");
    mu_status st = mu_json_parse(text, size, &limits, what, &in->root, err);
    if (st == MU_OK) st = get_all(in, what, err);
    if (st != MU_OK) {
        if (err && err->status == MU_EMODEL) mu_err_note(err, "in `%s`", what);
        mu_inputs_destroy(in);
        return st;
    }
    *out = in;
    return MU_OK;
}

void mu_inputs_destroy(mu_inputs *in) {
    if (!in) return;
    json_decref(in->root);
    mu_arena_fini(&in->arena);
    mu_free(in);
}
