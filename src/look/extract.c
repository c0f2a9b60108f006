// SPDX-License-Identifier: Apache-2.0
// extract.c - see extract.h.
#include "look/extract.h"

#include <inttypes.h>
#include <string.h>

typedef struct collector {
    mu_extract    *x;
    const mu_blob **blob;       // [x->n]
    int64_t        done;        // rows collected
} collector;

// Labels have the names that the data's reader knows, also where their field does not carry them.
static mu_extract_classes classes_of(const mu_inspect *in, const mu_blob *b) {
    const mu_reader *r = mu_source_reader(in->at->source);
    mu_extract_classes c = {b->n_classes, b->names};
    if (!c.names && r->label_names && !strcmp(b->name, "data.label") && b->n_classes <= r->n_labels)
        c = (mu_extract_classes){r->n_labels, r->label_names};
    return b->value.dtype == MU_I32 ? c : (mu_extract_classes){0};
}

static mu_status prepare(collector *c, const mu_inspect *in, const char *const *name, size_t n, mu_err *err) {
    mu_extract *x = c->x;
    x->name = mu_arena_array(&x->arena, n + 1, sizeof *x->name);
    x->array = mu_arena_array(&x->arena, n + 1, sizeof *x->array);
    x->classes = mu_arena_array(&x->arena, n + 1, sizeof *x->classes);
    c->blob = mu_arena_array(&x->arena, n + 1, sizeof *c->blob);
    if (!x->name || !x->array || !x->classes || !c->blob) return MU_FAIL_NOMEM(err, "the list of arrays");
    for (size_t i = 0; i < n; i++) {
        MU_TRY(mu_inspect_find(in, name[i], &c->blob[i], err));
        mu_tensor t = {.shape = c->blob[i]->value.shape, .dtype = c->blob[i]->value.dtype};
        t.shape.d[0] = x->rows;
        int64_t count;
        if (!mu_shape_count_checked(&t.shape, &count)) return MU_FAIL_NOMEM(err, "an array of this size");
        t.data = mu_alloc_array((size_t)count + 1, sizeof(float), "extract");
        if (!t.data) return MU_FAIL_NOMEM(err, "the outputs of a layer");
        x->array[i] = t;
        x->classes[i] = classes_of(in, c->blob[i]);
        x->name[i] = mu_arena_strdup(&x->arena, name[i]);
        x->n = i + 1;
        if (!x->name[i]) return MU_FAIL_NOMEM(err, "a name");
    }
    return MU_OK;
}

static mu_status collect(void *ctx, MU_UNUSED mu_net *net, const mu_batch *batch, mu_err *err) {
    collector *c = ctx;
    if (batch->n > c->x->rows - c->done)
        return MU_FAIL(err, MU_EDATA, "the data has more than its %" PRId64 " records", c->x->rows);
    for (size_t i = 0; i < c->x->n; i++) {
        const mu_tensor *from = &c->blob[i]->value;
        const mu_shape *s = &from->shape;
        int64_t width = mu_shape_inner(s, 1);
        float *to = c->x->array[i].f + c->done * width;
        if (s->n == 4) mu_nhwc_to_nchw(to, from->f, batch->n, s->d[1], s->d[2] * s->d[3]);
        else memcpy(to, from->data, (size_t)(batch->n * width) * sizeof *to);
    }
    c->done += batch->n;
    return MU_OK;
}

mu_status mu_extract_run(mu_inspect *in, const char *const *name, size_t n, mu_extract *out, mu_err *err) {
    memset(out, 0, sizeof *out);
    mu_arena_init(&out->arena, "extract");
    collector c = {.x = out};
    out->rows = mu_source_n_records(in->at->source);
    MU_TRY(prepare(&c, in, name, n, err));
    MU_TRY(mu_inspect_visit(in, 0, collect, &c, NULL, err));
    if (c.done == out->rows) return MU_OK;
    MU_FAIL(err, MU_EDATA, "only %" PRId64 " of %" PRId64 " records are good", c.done, out->rows);
    mu_err_hint(err, "The warnings above name the others; mend them or take them out.");
    return MU_EDATA;
}

void mu_extract_fini(mu_extract *x) {
    for (size_t i = 0; i < x->n; i++) mu_free(x->array[i].data);
    mu_arena_fini(&x->arena);
    memset(x, 0, sizeof *x);
}

const mu_tensor *mu_extract_find(const mu_extract *x, const char *name) {
    for (size_t i = 0; i < x->n; i++)
        if (!strcmp(x->name[i], name)) return &x->array[i];
    return NULL;
}
