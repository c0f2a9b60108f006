// SPDX-License-Identifier: Apache-2.0
// inspect.c - see inspect.h.
//
// The session knows phases, not blocks: training data is read by letting its block stand in for `data.test`,
// which gives the order and the transformation of evaluation. The job is our own copy, so it may be edited.
#include "look/inspect.h"

#include <string.h>

static const char *const blocks[] = {"test", "validation", "train", "predict"}; // in order of preference

// ---- the job, edited for looking at it ----

static bool writes_files(const mu_node *layer) {
    const char *type = mu_node_text(mu_node_find(layer, "type"));
    const mu_layer_class *c = type ? (const mu_layer_class *)mu_registry_find(&mu_layers, type) : NULL;
    if (!c || !(c->flags & MU_LAYER_OUTPUT)) return false;
    for (const mu_field *f = c->fields; f && f->key; f++)
        if (f->type == MU_PATH) return true;
    return false;
}

static void drop_writers(mu_job *job) {
    if (!job->net || job->net->kind != MU_LIST) return;
    size_t keep = 0;
    for (size_t i = 0; i < job->net->n; i++)
        if (!writes_files(job->net->item[i])) job->net->item[keep++] = job->net->item[i];
    job->net->n = keep;
}

// `data.train` becomes `data.test`.
static mu_status train_as_test(mu_job *job, mu_err *err) {
    mu_node *copy = mu_arena_alloc(&job->arena, sizeof *copy);
    if (!copy) return MU_FAIL_NOMEM(err, "the job");
    *copy = *mu_node_find(job->data, "train");
    copy->key = "test";
    for (size_t i = 0; i < job->data->n; i++)
        if (!strcmp(job->data->item[i]->key, "test")) {
            job->data->item[i] = copy;
            return MU_OK;
        }
    return mu_node_append(&job->arena, job->data, copy, err);
}

static mu_status choose_block(mu_inspect *in, const char *on, mu_err *err) {
    in->on = NULL;
    for (size_t i = 0; i < MU_COUNT(blocks) && !in->on; i++)
        if ((!on || !strcmp(on, blocks[i])) && mu_node_find(in->job->data, blocks[i])) in->on = blocks[i];
    if (!in->on)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, in->job->data ? in->job->data->pos : MU_NOPOS,
                                        "the job has no `data.%s`", on ? on : "test"),
                             err, "Blocks that can be looked at are test, validation, train and predict.");
    in->phase = !strcmp(in->on, "validation") ? MU_VALIDATION
                : !strcmp(in->on, "predict")  ? MU_PREDICT
                                              : MU_TEST;
    return !strcmp(in->on, "train") ? train_as_test(in->job, err) : MU_OK;
}

// ---- opening ----

// The first problem of the job rather than "2 problems in job.yaml".
static mu_status problem(const mu_inspect *in, mu_status st, mu_err *err) {
    if (st != MU_EJOB || !in->job || !in->job->diags.n_errors) return st;
    mu_err_clear(err);
    return mu_diags_report(&in->job->diags, err);
}

static mu_status open_session(mu_inspect *in, mu_err *err) {
    mu_session_opts o = {.phases = (unsigned)in->phase, .keep_all = true, .inputs = in->model.inputs};
    mu_status st = mu_session_open(in->job, &o, &in->session, err);
    if (st != MU_OK) return problem(in, st, err);
    in->at = in->phase == MU_TEST         ? &in->session->test
             : in->phase == MU_VALIDATION ? &in->session->validation
                                          : &in->session->predict;
    if (in->at->net) return MU_OK;
    return MU_FAIL(err, MU_EJOB, "`%s` has no net that could be looked at", in->job->path);
}

mu_status mu_inspect_open(mu_inspect *in, const char *run, const mu_inspect_opts *o, mu_err *err) {
    int n;
    *in = (mu_inspect){0};
    if (!o->model && !mu_fs_is_folder(run) && !mu_model_is_file(run))
        return mu_err_hinted(MU_FAIL(err, MU_ENOTFOUND, "no run folder `%s`", run), err,
                             "Runs are in `runs/`; a job file needs `--model FILE.safetensors` beside it.");
    mu_err of_model = {0};      // told after what is wrong with the job
    const mu_status opened = mu_model_open(&in->model, o->model ? o->model : run, o->which, &of_model);
    if (opened != MU_OK && mu_model_is_file(run)) return mu_err_pass(opened, &of_model, err);
    mu_status st = mu_model_load_job(&in->model, run, o->sets, o->n_sets, &in->job, err);
    if (st != MU_OK) return problem(in, st, err);
    MU_TRY(choose_block(in, o->on, err));
    drop_writers(in->job);
    MU_TRY(open_session(in, err));
    if (opened != MU_OK) return mu_err_pass(opened, &of_model, err);
    return mu_model_take_params(&in->model, in->session->params, true, &n, err);
}

void mu_inspect_close(mu_inspect *in) {
    mu_session_close(in->session);
    mu_job_destroy(in->job);
    mu_model_close(&in->model);
    *in = (mu_inspect){0};
}

// ---- looking ----

mu_status mu_inspect_find(const mu_inspect *in, const char *name, const mu_blob **out, mu_err *err) {
    const mu_net *net = in->at->net;
    const char *names[256];
    size_t n = 0;
    for (int i = 0; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        for (int k = 0; k < l->n_out; k++) {
            const mu_blob *b = &l->out[k];
            if (!strcmp(b->name, name) || (i > 0 && k == 0 && !strcmp(l->name, name))) {
                *out = b;
                return MU_OK;
            }
            if (l->node && n < MU_COUNT(names)) names[n++] = k ? b->name : l->name;
        }
    }
    MU_FAIL(err, MU_EUSAGE, "no layer `%s` with an output in phase %s", name, mu_phase_name(in->phase));
    mu_err_suggest(MU_EUSAGE, err, "", mu_nearest(name, names, n));
    return mu_err_hinted(MU_EUSAGE, err, "`muster check` prints the net of a job.");
}

typedef struct limited {
    mu_batch_visitor visit;
    void *ctx;
    int64_t left;
    bool enough;
} limited;

static mu_status visit_some(void *ctx, mu_net *net, const mu_batch *batch, mu_err *err) {
    limited *l = ctx;
    MU_TRY(l->visit(l->ctx, net, batch, err));
    l->left -= batch->n;
    l->enough = l->left <= 0;
    return l->enough ? MU_EINTERRUPTED : MU_OK; // ends the pass; taken back below
}

mu_status mu_inspect_visit(mu_inspect *in, int64_t limit, mu_batch_visitor visit, void *ctx,
                           mu_scores *scores, mu_err *err) {
    mu_scores own;
    limited l = {visit, ctx, limit, false};
    if (limit <= 0) return mu_evaluate(in->at, in->phase, visit, ctx, scores ? scores : &own, err);
    mu_status st = mu_evaluate(in->at, in->phase, visit_some, &l, &own, err);
    return l.enough ? MU_OK : st;
}

void mu_inspect_row(const mu_tensor *t, int64_t row, float *out) {
    int64_t n = mu_shape_inner(&t->shape, 1);
    if (t->dtype == MU_I32) {
        for (int64_t i = 0; i < n; i++) out[i] = (float)t->i[row * n + i];
        return;
    }
    if (t->shape.n == 4)
        mu_nhwc_to_nchw(out, t->f + row * n, 1, t->shape.d[1], t->shape.d[2] * t->shape.d[3]);
    else memcpy(out, t->f + row * n, (size_t)n * sizeof *out);
}
