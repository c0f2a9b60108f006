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

const mu_data_field *mu_api_input(const muster_run *run) {
    return &mu_source_reader(mu_session_array_source(run->session))->field[0];
}

mu_status mu_api_ready_predict(muster_run *run, mu_err *err) {
    MU_TRY(mu_session_add_arrays(run->session, err));
    if (run->rows) return MU_OK;
    const mu_tensor *in = &run->session->predict.net->layer[0]->out[0].value;
    run->record =
        mu_alloc_array((size_t)mu_shape_count(&mu_api_input(run)->shape), sizeof(float), "api/predict");
    run->rows = mu_alloc_array(mu_tensor_count(in), 4, "api/predict"); // of floats or int32
    if (run->record && run->rows) return MU_OK;
    mu_api_free_buffers(run);
    return MU_FAIL_NOMEM(err, "one batch of samples");
}

// ---- outputs ----

// Has it a row for each sample? An inserted split has no block in the job and no name to ask for.
static bool gives_rows(const mu_net *net, const mu_layer *l, const mu_blob *b) {
    const mu_shape *s = &b->value.shape;
    return l->node && s->n > 0 && s->d[0] == net->batch;
}

// Is it what NULL may stand for: numbers that are no report?
static bool is_plain(const mu_layer *l, const mu_blob *b) {
    return b->value.dtype == MU_F32 && !(l->class->flags & MU_LAYER_OUTPUT);
}

mu_status mu_api_find_output(const muster_run *run, const char *name, const mu_blob **out, mu_err *err) {
    const mu_net *net = run->session->predict.net;
    const char *names[256];
    size_t n = 0;
    const mu_blob *found = NULL;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        for (int k = 0; k < l->n_out; k++) {
            const mu_blob *b = &l->out[k];
            if (!gives_rows(net, l, b)) continue;
            if (n < MU_COUNT(names)) names[n++] = k ? b->name : l->name;
            if (name ? !strcmp(name, b->name) || (!k && !strcmp(name, l->name)) : !k && is_plain(l, b))
                found = b;
        }
    }
    if (found) {
        *out = found;
        return MU_OK;
    }
    if (!name) return MU_FAIL(err, MU_EUSAGE, "the net has no output in phase predict");
    MU_FAIL(err, MU_EUSAGE, "no layer `%s` with an output per sample in phase predict", name);
    return mu_err_suggest(MU_EUSAGE, err, "", mu_nearest(name, names, n));
}

// ---- samples in, rows out ----

static size_t row_size(const mu_tensor *t) { return (size_t)mu_shape_inner(&t->shape, 1); }

static void put_samples(muster_run *run, const float *input, size_t n) {
    const mu_data_field *f = mu_api_input(run);
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
    const size_t count = n * row_size(t);
    if (t->dtype == MU_I32)
        for (size_t i = 0; i < count; i++) output[i] = (float)t->i[i];
    else if (t->shape.n == 4)
        mu_nhwc_to_nchw(output, t->f, (int64_t)n, t->shape.d[1], t->shape.d[2] * t->shape.d[3]);
    else memcpy(output, t->f, count * sizeof(float));
}

mu_status mu_api_predict(muster_run *run, const float *input, size_t n_samples, const mu_blob *const *blob,
                         size_t n, float *const *to, mu_err *err) {
    mu_net *net = run->session->predict.net;
    const size_t in_size = (size_t)mu_shape_count(&mu_api_input(run)->shape);
    mu_tensor rows = {.data = run->rows};
    mu_net_set_input(net, &rows, 1);
    for (size_t at = 0, now; at < n_samples; at += now) {
        now = n_samples - at < (size_t)net->batch ? n_samples - at : (size_t)net->batch;
        put_samples(run, input + at * in_size, now);
        mu_step s = {.phase = MU_PREDICT,
                     .first_sample = (int64_t)at,
                     .rows = (int64_t)now,
                     .global_rows = (int64_t)now};
        MU_TRY(mu_net_forward(net, &s, err));
        for (size_t i = 0; i < n; i++) get_rows(&blob[i]->value, now, to[i] + at * mu_api_row_size(blob[i]));
    }
    return MU_OK;
}

static mu_status predict(muster_run *run, const float *input, size_t n_samples, const char *const *layers,
                         size_t n, float *const *to, mu_err *err) {
    MU_TRY(mu_api_ready_predict(run, err));
    const mu_blob **blob = mu_alloc_array(n + 1, sizeof(const mu_blob *), "api/predict");
    if (!blob) return MU_FAIL_NOMEM(err, "the list of layers");
    mu_status st = MU_OK;
    for (size_t i = 0; st == MU_OK && i < n; i++) st = mu_api_find_output(run, layers[i], &blob[i], err);
    if (st == MU_OK) st = mu_api_predict(run, input, n_samples, blob, n, to, err);
    mu_free(blob);
    return st;
}

muster_status muster_run_predict(muster_run *run, const float *input, size_t n_samples, const char *layer,
                                 float *output, muster_error *err) {
    if (!run || (n_samples && (!input || !output)))
        return mu_api_misuse(err, "muster_run_predict needs a run and two arrays");
    mu_err e = {0};
    mu_status st = predict(run, input, n_samples, &layer, 1, &output, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

muster_status muster_run_predict_layers(muster_run *run, const float *input, size_t n_samples,
                                        const char *const *layers, size_t n_layers, float *const *outputs,
                                        muster_error *err) {
    bool given = run && (!n_samples || input) && (!n_layers || (layers && outputs));
    for (size_t i = 0; given && i < n_layers; i++) given = !n_samples || outputs[i];
    if (!given)
        return mu_api_misuse(err,
                             "muster_run_predict_layers needs a run, an input and an array for each layer");
    mu_err e = {0};
    mu_status st = predict(run, input, n_samples, layers, n_layers, outputs, &e);
    return st == MU_OK ? MUSTER_OK : mu_api_fail(st, &e, err);
}

// ---- about the net ----

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
    mu_status st = mu_api_ready_predict(run, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    *out = (size_t)mu_shape_count(&mu_api_input(run)->shape);
    return MUSTER_OK;
}

muster_status muster_run_output_size(muster_run *run, const char *layer, size_t *out, muster_error *err) {
    if (!run || !out)
        return mu_api_misuse(err, "muster_run_output_size needs a run and a place for the size");
    const mu_blob *b = NULL;
    mu_err e = {0};
    mu_status st = mu_api_ready_predict(run, &e);
    if (st == MU_OK) st = mu_api_find_output(run, layer, &b, &e);
    if (st != MU_OK) return mu_api_fail(st, &e, err);
    *out = mu_api_row_size(b);
    return MUSTER_OK;
}
