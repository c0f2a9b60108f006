// SPDX-License-Identifier: Apache-2.0
// extract.c - see extract.h.
#include "run/extract.h"

#include "run/evaluate.h"

#include <inttypes.h>
#include <string.h>

typedef struct collector {
    mu_extract    *x;
    const mu_blob **blob;       // [x->n]
    int64_t        done;        // rows collected
} collector;

// ---- names ----

static const mu_blob *find_blob(const mu_net *net, const char *name) {
    for (int i = 0; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (i && l->n_out && !strcmp(l->name, name)) return &l->out[0];
        for (int k = 0; k < l->n_out; k++)
            if (l->out[k].name && !strcmp(l->out[k].name, name)) return &l->out[k];
    }
    return NULL;
}

static mu_status unknown_name(const mu_net *net, const char *name, mu_err *err) {
    const char *known[256];
    size_t n = 0;
    for (int i = 0; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        for (int k = 0; k < l->n_out && n < MU_COUNT(known); k++)
            known[n++] = l->out[k].name ? l->out[k].name : l->name;
    }
    const char *near = mu_nearest(name, known, n);
    MU_FAIL(err, MU_EUSAGE, "no output `%s` in the net of phase %s", name, mu_phase_name(net->phase));
    if (near) mu_err_hint(err, "Did you mean `%s`?", near);
    else mu_err_hint(err, "Name a layer that is no loss, or a field of the data such as `data.label`.");
    return MU_EUSAGE;
}

// ---- collecting ----

static mu_status prepare(collector *c, const mu_net *net, const char *const *name, size_t n, int64_t rows,
                         mu_err *err) {
    mu_extract *x = c->x;
    x->name = mu_arena_array(&x->arena, n + 1, sizeof *x->name);
    x->array = mu_arena_array(&x->arena, n + 1, sizeof *x->array);
    c->blob = mu_arena_array(&x->arena, n + 1, sizeof *c->blob);
    if (!x->name || !x->array || !c->blob) return MU_FAIL_NOMEM(err, "the list of arrays");
    for (size_t i = 0; i < n; i++) {
        c->blob[i] = find_blob(net, name[i]);
        if (!c->blob[i]) return unknown_name(net, name[i], err);
        mu_tensor t = {.shape = c->blob[i]->value.shape, .dtype = c->blob[i]->value.dtype};
        t.shape.d[0] = rows;
        int64_t count;
        if (!mu_shape_count_checked(&t.shape, &count)) return MU_FAIL_NOMEM(err, "an array of this size");
        t.data = mu_alloc_array((size_t)count + 1, sizeof(float), "extract");
        if (!t.data) return MU_FAIL_NOMEM(err, "the outputs of a layer");
        x->array[i] = t;
        x->name[i] = mu_arena_strdup(&x->arena, name[i]);
        x->n = i + 1;
        if (!x->name[i]) return MU_FAIL_NOMEM(err, "a name");
    }
    return MU_OK;
}

static mu_status collect(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    collector *c = ctx;
    (void)net;
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

mu_status mu_extract_run(mu_session_phase *p, const char *const *name, size_t n, mu_extract *out,
                         mu_err *err) {
    memset(out, 0, sizeof *out);
    mu_arena_init(&out->arena, "extract");
    collector c = {.x = out};
    mu_scores scores;
    out->rows = mu_source_n_records(p->source);
    MU_TRY(prepare(&c, p->net, name, n, out->rows, err));
    MU_TRY(mu_evaluate(p, MU_PREDICT, collect, &c, &scores, err));
    if (c.done != out->rows)
        return MU_FAIL(err, MU_EDATA, "%" PRId64 " of %" PRId64 " records were read", c.done, out->rows);
    return MU_OK;
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
