// SPDX-License-Identifier: Apache-2.0
// api_predict.c - the installed C interface: prediction on the caller's arrays.
//
// A sample takes the way of a record: turned from (C, H, W) to the readers' (H, W, C), transformed into
// a row of a batch, through the net of phase predict, and out in logical order again.
#include "run/api.h"

#include <stdio.h>
#include <string.h>

void mu_api_free_buffers(muster_run *run) {
    mu_free(run->record);
    mu_free(run->rows);
    run->record = NULL;
    run->rows = NULL;
}

static const mu_data_field *raw_field(const muster_run *run) {
    return &mu_source_reader(mu_session_array_source(run->session))->field[0];
}

static mu_status make_ready(muster_run *run, mu_err *err) {
    MU_TRY(mu_session_add_arrays(run->session, err));
    if (run->rows) return MU_OK;
    const mu_tensor *in = &run->session->predict.net->layer[0]->out[0].value;
    run->record =
        mu_alloc_array((size_t)mu_shape_count(&raw_field(run)->shape), sizeof(float), "api/predict");
    run->rows = mu_alloc_array(mu_tensor_count(in), 4, "api/predict"); // of floats or int32
    if (run->record && run->rows) return MU_OK;
    mu_api_free_buffers(run);
    return MU_FAIL_NOMEM(err, "one batch of samples");
}

// Layers whose rows belong to samples. An inserted split has no block in the job and no name to ask for.
static bool gives_rows(const mu_net *net, const mu_layer *l) {
    if (!l->node || !l->n_out || (l->class->flags & MU_LAYER_OUTPUT)) return false;
    const mu_tensor *t = &l->out[0].value;
    return t->dtype == MU_F32 && t->shape.n > 0 && t->shape.d[0] == net->batch;
}

static mu_status find_layer(const mu_net *net, const char *name, const mu_layer **out, mu_err *err) {
    const char *names[256];
    size_t n = 0;
    const mu_layer *found = NULL;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        if (!gives_rows(net, l)) continue;
        if (n < MU_COUNT(names)) names[n++] = l->name;
        if (!name || !strcmp(name, l->name)) found = l;
    }
    if (found) {
        *out = found;
        return MU_OK;
    }
    if (!name) return MU_FAIL(err, MU_EUSAGE, "the net has no output in phase predict");
    MU_FAIL(err, MU_EUSAGE, "no layer `%s` with an output per sample in phase predict", name);
    return mu_err_suggest(MU_EUSAGE, err, "", mu_nearest(name, names, n));
}

static size_t row_size(const mu_tensor *t) { return (size_t)mu_shape_inner(&t->shape, 1); }

static void put_samples(muster_run *run, const float *input, size_t n) {
    const mu_data_field *f = raw_field(run);
    size_t size = (size_t)mu_shape_count(&f->shape),
           row = row_size(&run->session->predict.net->layer[0]->out[0].value);
    for (size_t i = 0; i < n; i++) {
        const float *sample = input + i * size;
        if (f->is_image) {
            mu_nchw_to_nhwc(run->record, sample, 1, f->shape.d[0], f->shape.d[1] * f->shape.d[2]);
            sample = run->record;
        }
        mu_source_transform(mu_session_array_source(run->session), 0, sample, (float *)run->rows + i * row);
    }
}

static void get_rows(const mu_tensor *t, size_t n, float *output) {
    if (t->shape.n == 4)
        mu_nhwc_to_nchw(output, t->f, (int64_t)n, t->shape.d[1], t->shape.d[2] * t->shape.d[3]);
    else memcpy(output, t->f, n * row_size(t) * sizeof(float));
}

static mu_status predict(muster_run *run, const float *input, size_t n_samples, const char *layer,
                         float *output, mu_err *err) {
    const mu_layer *l;
    MU_TRY(make_ready(run, err));
    mu_net *net = run->session->predict.net;
    MU_TRY(find_layer(net, layer, &l, err));
    size_t in_size = (size_t)mu_shape_count(&raw_field(run)->shape), out_size = row_size(&l->out[0].value);
    mu_tensor rows = {.data = run->rows};
    mu_net_set_input(net, &rows, 1);
    for (size_t at = 0, n; at < n_samples; at += n) {
        n = n_samples - at < (size_t)net->batch ? n_samples - at : (size_t)net->batch;
        put_samples(run, input + at * in_size, n);
        mu_step s = {
            .phase = MU_PREDICT, .first_sample = (int64_t)at, .rows = (int64_t)n, .global_rows = (int64_t)n};
        MU_TRY(mu_net_forward(net, &s, err));
        get_rows(&l->out[0].value, n, output + at * out_size);
    }
    return MU_OK;
}

muster_status muster_run_predict(muster_run *run, const float *input, size_t n_samples, const char *layer,
                                 float *output, muster_error *err) {
    if (!run || (n_samples && (!input || !output)))
        return mu_api_misuse(err, "muster_run_predict needs a run and two arrays");
    mu_err e = {0};
    mu_status st = predict(run, input, n_samples, layer, output, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

muster_status muster_run_class_names(muster_run *run, const char *const **names, size_t *n,
                                     muster_error *err) {
    if (!run || !names || !n)
        return mu_api_misuse(err, "muster_run_class_names needs a run and places for names and their number");
    const mu_inputs *in = run->session->inputs;
    *names = in ? in->labels : NULL;
    *n = in && in->labels ? (size_t)in->n_labels : 0;
    return MUSTER_OK;
}

muster_status muster_run_input_size(muster_run *run, size_t *out, muster_error *err) {
    if (!run || !out) return mu_api_misuse(err, "muster_run_input_size needs a run and a place for the size");
    mu_err e = {0};
    mu_status st = make_ready(run, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    *out = (size_t)mu_shape_count(&raw_field(run)->shape);
    return MUSTER_OK;
}

muster_status muster_run_output_size(muster_run *run, const char *layer, size_t *out, muster_error *err) {
    if (!run || !out)
        return mu_api_misuse(err, "muster_run_output_size needs a run and a place for the size");
    const mu_layer *l = NULL;
    mu_err e = {0};
    mu_status st = make_ready(run, &e);
    if (st == MU_OK) st = find_layer(run->session->predict.net, layer, &l, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    *out = row_size(&l->out[0].value);
    return MUSTER_OK;
}
