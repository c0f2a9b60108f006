// SPDX-License-Identifier: Apache-2.0
// session.c - opens a job: binds its parts, opens data, shapes nets, gives memory.
//
// Problems of the job are collected, not returned: every step goes on with what the one before could make,
// and open_all counts at the end. Data comes before nets (its fields are their sources), the rows of a
// learner before data (they are its batch). Memory is taken last, when nothing of the job is wrong.
#include "train/session.h"

#include "train/names.h"

#include "comm/cores.h"
#include "layer/rowstate.h"
#include "net/outputs.h"
#include "ops/gemm.h"
#include "ps/merge.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const mu_registry *const registries[] = {&mu_inits,     &mu_schedules, &mu_readers, &mu_updaters,
                                                &mu_protocols, &mu_algos,     &mu_merges,  NULL};
static const mu_phase phases[] = {MU_TRAIN, MU_VALIDATION, MU_TEST, MU_PREDICT};

mu_session_phase *mu_session_phase_of(mu_session *s, mu_phase p) {
    return p == MU_TRAIN        ? &s->train
           : p == MU_VALIDATION ? &s->validation
           : p == MU_TEST       ? &s->test
                                : &s->predict;
}

// Rows of the phase's batches. In training those of one learner: the largest share of a step.
static int64_t batch_of(const mu_session *s, mu_phase p) {
    if (p == MU_TRAIN && s->setup.rows) return s->setup.rows;
    return p == MU_TRAIN || !s->job->test.batch ? s->job->train.batch : s->job->test.batch;
}

// The value in the block that a message talks about: the longest that stands in it, as file names do.
static const mu_node *value_named(const mu_node *n, const char *msg) {
    if (n->kind == MU_SCALAR) return n->text[0] && strstr(msg, n->text) ? n : NULL;
    const mu_node *best = NULL;
    for (size_t i = 0; i < n->n; i++) {
        const mu_node *it = value_named(n->item[i], msg);
        if (it && (!best || strlen(it->text) > strlen(best->text))) best = it;
    }
    return best;
}

// Does the block say itself where its numbers come from?
static bool numbers_said(const mu_node *block) {
    return !mu_node_is_null(mu_node_find(block, "vocab_of")) ||
           !mu_node_is_null(mu_node_find(block, "vocab"));
}

// Is `mean: auto` meant, by the block itself or by that of training, whose transformation it has?
static bool takes_mean(const mu_node *block, const mu_node *train) {
    const mu_node *own = mu_node_find(block, "mean");
    if (mu_node_is_null(own) && mu_node_is_null(mu_node_find(block, "mean_file")))
        own = mu_node_find(train, "mean");
    const char *mean = mu_node_text(own);
    return mean && !strcmp(mean, "auto");
}

static mu_status open_source(mu_session *s, mu_phase p, const mu_session_opts *so, mu_err *err) {
    const mu_node *block = mu_node_find(s->job->data, mu_phase_name(p));
    if (!block && p == MU_PREDICT && so->phases == MU_PREDICT) block = mu_node_find(s->job->data, "test");
    if (block && so->no_data) {
        mu_source_spec unused;
        mu_status bound = mu_source_bind(&s->binder, block, &unused, err);
        if (bound == MU_EJOB) mu_err_clear(err);        // reported in the diags
        return bound == MU_ENOMEM ? bound : MU_OK;
    }
    if (!block) {
        if (p != MU_TRAIN || !s->job->data || so->no_data) return MU_OK;
        mu_diag *g = mu_diags_add(&s->job->diags, MU_DIAG_ERROR, s->job->data->pos, "`data` has no `train`");
        mu_diag_hint(&s->job->diags, g, "Add `train: {reader: idx, images: ..., labels: ...}`.");
        return MU_OK;
    }
    mu_source_opts o = {.batch = batch_of(s, p), .seed = (uint64_t)s->job->seed, .phase = p,
                        .shuffle = p == MU_TRAIN && s->job->train.shuffle,
                        .node = s->node,
                        .nodes = s->nodes > 1 ? s->nodes : so->check_only ? 0 : 1};
    if (p != MU_TRAIN) {
        o.like = mu_node_find(s->job->data, "train");
        o.inputs = numbers_said(block) && !so->inputs ? NULL : s->inputs;
        if (!s->inputs && takes_mean(block, o.like)) { // of the training data, also when only testing
            if (!s->train.source && o.like) MU_TRY(open_source(s, MU_TRAIN, so, err));
            o.mean_of = s->train.source;
        }
    }
    mu_err own = {0};
    size_t errors_before = s->job->diags.n_errors;
    mu_status st = mu_source_open(&s->binder, block, &o, &mu_session_phase_of(s, p)->source, &own);
    bool reported = s->job->diags.n_errors > errors_before; // by binding; opening reports to err
    if (st == MU_OK || reported) return MU_OK;
    if (st == MU_ENOMEM) return mu_err_pass(st, &own, err);
    if (!own.pos.line || (own.pos.line == block->pos.line && own.pos.col == block->pos.col)) {
        const mu_node *value =
            value_named(block, own.msg); // a missing or broken file is a problem of this job
        own.pos = value ? value->pos : block->pos;
    }
    mu_diags_add_err(&s->job->diags, &own);
    return MU_OK;
}

// In every phase: what an energy layer reports depends on it, too.
static void bind_algorithm(mu_session *s) {
    const mu_node *train = mu_node_find(s->job->root, "train"), *node = mu_node_find(train, "algorithm");
    const mu_node usual = {.kind = MU_SCALAR, .text = "bp", .pos = MU_NOPOS};
    if (mu_node_is_null(node)) node = &usual;
    const mu_class_ref ref =
        mu_bind_class(&s->binder, node, node->pos, "`train.algorithm`", &mu_algos, "type", NULL, 0);
    s->job->train.algorithm = ref;
    s->algo = (const mu_algo_class *)ref.plugin;
    s->algo_state = ref.state;
    if (s->algo && s->algo->contrast) s->algo->contrast(ref.state, &s->contrast);
}

static const mu_contrast *contrast_of(mu_session *s) {
    s->contrast.chains = s->setup.rows ? s->setup.global_batch : s->job->train.batch;
    return s->contrast.k ? &s->contrast : NULL;
}

static void check_algorithm(mu_session *s, const mu_net *net) {
    mu_err own = {0};
    if (!s->algo || !s->algo->check || s->algo->check(net, &own) == MU_OK) return;
    const mu_node *node = mu_node_find(mu_node_find(s->job->root, "train"), "algorithm");
    if (!own.pos.line && node) own.pos = node->pos;
    mu_diags_add_err(s->binder.diags, &own);
}

// Learners that wait for each other share one batch, of which every row needs a stream of its own. A warm
// start that the job does not ask for is left out where they have none.
static void check_streams(mu_session *s, const mu_net *net) {
    mu_setup *setup = &s->setup;
    if (!setup->rows || !setup->protocol || !mu_setup_sync_versions(setup, setup->warm_versions)) return;
    for (int i = 0; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        for (int k = 0; k < l->n_param; k++) {
            const mu_param *p = l->param[k];
            mu_err own = {0};
            if (!p->is_state || mu_rowstate_check(l, l->in_contrast ? "chain" : "state", p->shape.d[0],
                                                  setup->global_batch, &own) == MU_OK)
                continue;
            if (setup->warm_versions && !setup->in_turn && s->cluster->warm_start.unit == MU_EVERY_AUTO)
                setup->warm_versions = 0; // the rate rises instead
            else mu_diags_add_err(s->binder.diags, &own);
            return; // other layers have the same streams
        }
    }
}

mu_traffic_opts mu_session_traffic(const mu_session *s) {
    return (mu_traffic_opts){.learners = s->setup.learners / s->setup.server_groups,
                             .groups = s->setup.server_groups,
                             .apart = s->setup.server == MU_SERVER_PROCESS,
                             .dense = s->setup.dense || s->job->train.accumulate > 1};
}

// The nets of the workers of a learner. Problems are in the diags.
static mu_status split_net(mu_session *s, mu_err *err) {
    const int n = s->setup.workers;
    if (n < 2 || s->binder.diags->n_errors) return MU_OK;
    mu_partition_opts o = {.whole = s->train.net, .workers = n, .split = s->cluster->partition};
    o.traffic = mu_session_traffic(s);
    MU_TRY(mu_partition_create(&s->binder, &o, &s->partition, err));
    s->worker_net = mu_alloc_array((size_t)n, sizeof *s->worker_net, "session");
    if (!s->worker_net) return MU_FAIL_NOMEM(err, "the nets of workers");
    for (int w = 0; w < n; w++) MU_TRY(mu_partition_net(&s->binder, s->partition, w, &s->worker_net[w], err));
    return MU_OK;
}

// The wanted phase for which net shapes can be inferred; others are checked by name only.
static mu_status shape_net(mu_session *s, mu_phase p, const mu_session_opts *so, mu_err *err) {
    mu_session_phase *ph = mu_session_phase_of(s, p);
    if (!ph->source || !s->job->net || s->job->net->kind != MU_LIST) return MU_OK;
    mu_data_field fields[MU_MAX_FIELDS];
    int n = mu_source_n_fields(ph->source);
    for (int i = 0; i < n; i++) fields[i] = *mu_source_field(ph->source, i);
    mu_net_opts o = {
        .net = s->job->net,
        .fields = fields,
        .n_fields = n,
        .phase = p,
        .batch = batch_of(s, p),
        .seed = (uint64_t)s->job->seed,
        .share = s->params,
        .keep_all = so->keep_all,
        .contrast = contrast_of(s),
        .restored = so->restored,
        .keep_factors =
            s->job->train.nonfinite == MU_NONFINITE_SKIP || (s->updater && s->updater->clip_norm > 0),
    };
    mu_err own = {0};
    mu_status st = mu_net_shape(&s->binder, &o, &ph->net, &own);
    if (st == MU_EJOB) { // most problems are in the diags already
        if (!s->binder.diags->n_errors) mu_diags_add_err(s->binder.diags, &own);
        return MU_OK;
    }
    if (st != MU_OK) return mu_err_pass(st, &own, err);
    if (!s->params) s->params = ph->net->params;
    if (p != MU_TRAIN) return MU_OK;
    check_algorithm(s, ph->net);
    check_streams(s, ph->net);
    st = split_net(s, &own);
    if (st == MU_EJOB && !s->binder.diags->n_errors) mu_diags_add_err(s->binder.diags, &own);
    return st == MU_OK || st == MU_EJOB ? MU_OK : mu_err_pass(st, &own, err);
}

// Data files that cannot be opened leave no fields to infer from; the layer blocks are still checked.
static mu_status check_blocks_only(mu_session *s, mu_err *err) {
    if (!s->job->net || s->job->net->kind != MU_LIST) return MU_OK;
    mu_net *net = NULL;
    mu_net_opts o = {.net = s->job->net, .phase = MU_TRAIN, .batch = s->job->train.batch,
                     .contrast = contrast_of(s)};
    mu_err own = {0};
    mu_diags seen = s->job->diags, *d = &s->job->diags;
    mu_status st = mu_net_shape(&s->binder, &o, &net, &own);
    mu_net_destroy(net);
    if (st == MU_ENOMEM) return mu_err_pass(st, &own, err);
    // without data every source `data.x` is unknown: drop those reports, keep the rest
    size_t keep = seen.n;
    for (size_t i = seen.n; i < d->n; i++) {
        if (strstr(d->list[i].msg, "unknown source `data.")) d->n_errors--;
        else d->list[keep++] = d->list[i];
    }
    d->n = keep;
    return MU_OK;
}

// Files of initial values are read when training begins; that they are missing is known before.
static void check_initial(mu_session *s) {
    const mu_node *node = mu_node_find(mu_node_find(s->job->root, "train"), "init_from");
    const mu_strings *files = &s->job->train.init_from;
    for (size_t i = 0; i < files->n; i++) {
        if (!access(files->v[i], F_OK)) continue;
        const bool listed = node && node->kind == MU_LIST && i < node->n;
        const mu_srcpos pos = listed ? node->item[i]->pos : node ? node->pos : MU_NOPOS;
        mu_diag *g = mu_diags_add(&s->job->diags, MU_DIAG_ERROR, pos, "`init_from`: `%s` does not exist",
                                  files->v[i]);
        mu_diag_hint(&s->job->diags, g, "It takes a run folder, a checkpoint or a .safetensors file.");
    }
}

// ---- several learners ----

// What several learners cannot do, or do differently.
static void check_learners(mu_session *s) {
    const mu_train_opts *t = &s->job->train;
    mu_diags *d = &s->job->diags;
    const bool alone = mu_setup_processes(&s->setup) < 2;
    if (t->accumulate > 1 && (!alone || s->setup.server_threads)) {
        const mu_node *n = mu_node_find(mu_node_find(s->job->root, "train"), "accumulate");
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, n ? n->pos : MU_NOPOS,
                                  "`accumulate` is for one learner without a server process or workers");
        mu_diag_label(d, g, "write `batch: %lld` instead", (long long)t->batch * t->accumulate);
        mu_diag_hint(d, g, "Learners share a batch: each holds the activations of its part only.");
    }
    if (alone) return;
    if (s->nodes > 1 && t->nonfinite == MU_NONFINITE_ROLLBACK) {
        const mu_node *n = mu_node_find(mu_node_find(s->job->root, "train"), "nonfinite");
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, n ? n->pos : MU_NOPOS,
                                  "`nonfinite: rollback` does not work over several ranks");
        mu_diag_label(d, g, "use stop or skip");
    }
    const mu_node *clip = mu_node_find(s->job->updater, "clip_norm");
    mu_objection no;
    const bool clips = s->updater && s->updater->clip_norm > 0 && clip;
    if (clips && s->setup.workers > 1) {
        mu_diag *g =
            mu_diags_add(d, MU_DIAG_ERROR, clip->pos,
                         "`clip_norm` needs the norm of a whole gradient, and each worker has a part of it");
        mu_diag_label(d, g, "leave out `cluster.workers`, or use `clip_value`");
    } else if (clips && mu_protocol_objects(s->setup.protocol, MU_CHOICE_CLIP_NORM, &no))
        mu_diags_add(d, MU_DIAG_WARNING, clip->pos, "%s", no.why);
}

// Needed twice: rows before data is opened, the number of records for `warm_start` after.
static mu_status make_setup(mu_session *s, mu_err *err) {
    if (!s->cluster) return MU_OK;      // problems are in the diags
    mu_err own = {0};
    const mu_train_opts *t = &s->job->train;
    const mu_setup_task task = {
        .batch = t->batch,
        .n_records = s->train.source ? mu_source_n_records(s->train.source) : 0,
        .steps = t->steps,
        .epochs = t->epochs,
        .cores = mu_cores_count() * (s->nodes > 1 ? s->nodes : 1),
        .nodes = s->nodes,
        .node = s->node,
        .updater = s->updater,
    };
    mu_status st = mu_setup_make(&s->binder, s->job->cluster, s->cluster, &task, &s->setup, &own);
    if (st == MU_OK || st == MU_EJOB) return MU_OK;
    return mu_err_pass(st, &own, err);
}

// By the training data where it is open, else by what a model knows of it, else by what is open.
static mu_status fill_outputs(mu_session *s, mu_err *err) {
    mu_data_field fields[MU_MAX_FIELDS];
    const mu_source *source = s->train.source ? s->train.source : mu_session_array_source(s);
    int n = 0;
    if (s->inputs && !s->train.source)
        for (; n < s->inputs->n_fields; n++) fields[n] = s->inputs->field[n];
    else
        for (; source && n < mu_source_n_fields(source); n++) fields[n] = *mu_source_field(source, n);
    if (!n) return MU_OK;               // without data nothing is said of the layers below it, either
    return mu_outputs_fill(&s->job->arena, &s->job->diags, s->job->net, fields, n, err);
}

// Each phase is shaped with a list of problems of its own: the builder goes by what *it* found. Joined,
// a problem that several phases have is listed once.
static mu_status shape_net_apart(mu_session *s, mu_phase p, const mu_session_opts *o, mu_err *err) {
    mu_diags *all = &s->job->diags, own;
    mu_diags_init(&own, all->arena);
    s->binder.diags = &own;
    mu_status st = shape_net(s, p, o, err);
    s->binder.diags = all;
    for (size_t i = 0; i < own.n; i++) {
        mu_diag *g = mu_diags_add(all, own.list[i].severity, own.list[i].pos, "%s", own.list[i].msg);
        g->label = own.list[i].label;
        g->hint = own.list[i].hint;
    }
    if (own.no_memory) mu_diags_no_memory(all);
    return st;
}

// Parameters, gradients and history must fit: said by `check`, not by a failing allocation.
static void check_memory(mu_session *s) {
    const mu_net *net = s->train.net ? s->train.net : s->test.net ? s->test.net : s->predict.net;
    if (!net) return;
    mu_device_props props;
    mu_device_cpu()->class->props(mu_device_cpu(), &props);
    double copies = s->updater ? 2 + s->updater->class->n_slots : 1;
    double need = 4.0 * copies * (double)net->params->count, have = (double)props.memory_bytes;
    if (have <= 0 || need <= have) return;
    const mu_param *largest = net->params->list[0];
    for (int i = 1; i < net->params->n; i++)
        if (net->params->list[i]->count > largest->count) largest = net->params->list[i];
    mu_diag *g =
        mu_diags_add(&s->job->diags, MU_DIAG_ERROR, largest->pos,
                     "the net needs %.1f GB for parameters, gradients and history, this machine has %.1f GB",
                     need * 1e-9, have * 1e-9);
    mu_diag_hint(&s->job->diags, g, "The largest parameter is `%s` with %zu values.", largest->name,
                 largest->count);
}

// What the updater takes; sums over batches are dense.
static void allow_forms(const mu_session *s, mu_params *ps) {
    for (int i = 0; i < ps->n; i++) {
        mu_param *p = ps->list[i];
        p->allow_factors = s->job->train.accumulate == 1 && p->n_users == 1 && !s->setup.dense;
    }
}

// Initial values and history, and the nets unless other processes are going to run them.
static mu_status make_ready(mu_session *s, const mu_session_opts *o, mu_err *err) {
    mu_device *d = mu_device_cpu();
    if (!s->params) return MU_OK;
    MU_TRY(mu_params_alloc(s->params, d, s->train.net != NULL, (uint64_t)s->job->seed, err));
    allow_forms(s, s->params);
    for (int w = 0; s->partition && w < s->setup.workers; w++) allow_forms(s, s->worker_net[w]->params);
    for (size_t i = 0; i < MU_COUNT(phases) && !(o->trains && mu_session_forks(s)); i++) {
        mu_net *net = mu_session_phase_of(s, phases[i])->net;
        if (net) MU_TRY(mu_net_ready(net, d, err));
    }
    if (s->updater) MU_TRY(mu_params_alloc_slots(s->params, s->updater->class->n_slots, err));
    const mu_merge_class *merge = mu_setup_merges(&s->setup) ? mu_merge_class_of(&s->setup) : NULL;
    if (!merge || !merge->n_slots) return MU_OK;
    return mu_merge_blocks_create(s->params->count, merge->n_slots(s->setup.merge.state), &s->merge, err);
}

static mu_status problems(const mu_job *job, mu_err *err) {
    return MU_FAIL(err, MU_EJOB, "%zu problem%s in %s", job->diags.n_errors,
                   job->diags.n_errors == 1 ? "" : "s", job->path);
}

// Other phases read as the training data that is open does, by way of what a model of it will know.
static mu_status make_inputs(mu_session *s, mu_err *err) {
    char *text;
    MU_TRY(mu_inputs_write(s->train.source, &text, err));
    mu_status st =
        text ? mu_inputs_read(text, strlen(text), "the training data", &s->own_inputs, err) : MU_OK;
    mu_free(text);
    s->inputs = s->own_inputs;
    return st;
}

// Validation data that is a part of the training data. An early stop needs some.
static mu_status split_data(mu_session *s, mu_session_opts *o, mu_err *err) {
    const mu_train_opts *t = &s->job->train;
    const bool stops = (o->phases & MU_TRAIN) && (t->patience > 0 || t->target_accuracy > 0);
    if (!s->job->data) return MU_OK;
    if (stops) o->phases |= MU_VALIDATION;
    if (stops && mu_node_is_null(mu_node_find(s->job->data, "validation"))) {
        MU_TRY(mu_split_add(s->job, err));
        s->split_off = true;
    }
    return mu_split_write_out(s->job, err);
}

static mu_status open_all(mu_session *s, const mu_session_opts *asked, mu_err *err) {
    mu_job *job = s->job;
    mu_session_opts wanted = *asked, *o = &wanted;
    MU_TRY(split_data(s, o, err));
    bind_algorithm(s);
    if (o->phases & MU_TRAIN) {
        if (job->updater) s->updater = mu_updater_bind(&s->binder, job->updater);
        else {
            mu_diag *g = mu_diags_add(&job->diags, MU_DIAG_ERROR, (mu_srcpos){.path = job->path},
                                      "missing section `updater`");
            mu_diag_hint(&job->diags, g,
                         "Add for example `updater: {type: sgd, momentum: 0.9, rate: 0.01}`.");
        }
        if (!o->restored) check_initial(s);
        s->cluster = mu_cluster_bind(&s->binder, job->cluster, s->nodes);
        MU_TRY(make_setup(s, err));
        check_learners(s);
    }
    bool any = false;
    s->inputs = o->inputs;
    for (size_t i = 0; i < MU_COUNT(phases); i++)
        if (o->phases & (unsigned)phases[i]) {
            MU_TRY(open_source(s, phases[i], o, err));
            if (phases[i] == MU_TRAIN && s->train.source && !s->inputs) MU_TRY(make_inputs(s, err));
            any |= mu_session_phase_of(s, phases[i])->source != NULL;
        }
    unsigned buildable = o->phases; // other numbers give other shapes, which need not be said
    for (size_t i = 0; i < MU_COUNT(phases); i++) {
        const size_t before = job->diags.n_errors;
        if (phases[i] != MU_TRAIN) MU_TRY(mu_session_check_names(s, phases[i], o->inputs != NULL, err));
        if (job->diags.n_errors > before) buildable &= ~(unsigned)phases[i];
    }
    if (s->setup.rows && s->train.source) MU_TRY(make_setup(s, err));
    if (s->train.source) mu_source_set_step(s->train.source, s->setup.global_batch);
    if (!any || ((o->phases & MU_TRAIN) && !s->train.source)) MU_TRY(check_blocks_only(s, err));
    const size_t before_outputs = job->diags.n_errors;
    MU_TRY(fill_outputs(s, err));
    if (job->diags.n_errors > before_outputs) buildable = 0;
    for (size_t i = 0; i < MU_COUNT(phases); i++) {
        if (!(buildable & (unsigned)phases[i])) continue;
        MU_TRY(shape_net_apart(s, phases[i], o, err));
    }
    check_memory(s);
    if (job->diags.n_errors) return problems(job, err);
    if (o->check_only) return MU_OK;
    mu_err own = {0};
    mu_status st = make_ready(s, o, &own);
    if (st == MU_EJOB) { // such as a file of initial values that is damaged
        mu_diags_add_err(&job->diags, &own);
        return problems(job, err);
    }
    if (st != MU_OK && err && err->status == MU_OK) *err = own;
    return st;
}

mu_status mu_session_open(mu_job *job, const mu_session_opts *o, mu_session **out, mu_err *err) {
    MU_TRY(mu_device_check_build(err)); // a program built for another processor says so instead of SIGILL
    mu_session *s = mu_alloc(sizeof *s, "session");
    if (!s) return MU_FAIL_NOMEM(err, "the session");
    s->job = job;
    s->nodes = o->nodes, s->node = o->node;
    s->binder = (mu_binder){&job->arena, &job->diags, job->folder, registries, s->node};
    mu_gemm_set_threads(1);
    mu_status st = open_all(s, o, err);
    if (st != MU_OK) {
        mu_session_close(s);
        return st;
    }
    *out = s;
    return MU_OK;
}

void mu_session_close(mu_session *s) {
    if (!s) return;
    for (int w = 0; s->worker_net && w < s->setup.workers; w++) mu_net_destroy(s->worker_net[w]);
    mu_free(s->worker_net);
    mu_partition_destroy(s->partition);
    for (size_t i = MU_COUNT(phases); i-- > 0;) { // the owner of the parameters was built first
        mu_net_destroy(mu_session_phase_of(s, phases[i])->net);
        mu_source_close(mu_session_phase_of(s, phases[i])->source);
    }
    mu_inputs_destroy(s->own_inputs);
    mu_merge_blocks_destroy(s->merge);
    mu_free(s);
}

mu_session_phase *mu_session_eval_phase(mu_session *s, mu_phase *phase) {
    if (s->validation.net) { *phase = MU_VALIDATION; return &s->validation; }
    if (s->test.net) { *phase = MU_TEST; return &s->test; }
    return NULL;
}

// ---- prediction on arrays ----

const mu_source *mu_session_array_source(const mu_session *s) {
    return s->predict.source ? s->predict.source : s->test.source ? s->test.source
         : s->validation.source ? s->validation.source : s->train.source;
}

static mu_status add_array_net(mu_session *s, mu_err *err) {
    bool alone = !mu_session_array_source(s);
    mu_session_opts so = {.phases = alone ? MU_PREDICT : 0};
    if (!s->predict.source) MU_TRY(open_source(s, MU_PREDICT, &so, err));
    const mu_source *source = mu_session_array_source(s);
    if (s->job->diags.n_errors) return MU_EJOB;
    if (!source)
        return mu_err_hinted(MU_FAIL_AT(err, MU_EJOB, s->job->data ? s->job->data->pos : MU_NOPOS,
                                        "`data` has neither `predict` nor `test`"),
                             err, "Add `predict: {reader: array, shape: [...]}`: it needs no files.");
    mu_net_opts o = {
        .net = s->job->net,
        .fields = mu_source_field(source, 0),
        .n_fields = 1,
        .phase = MU_PREDICT,
        .batch = batch_of(s, MU_PREDICT),
        .seed = (uint64_t)s->job->seed,
        .share = s->params,
        .keep_all = true,
        .contrast = contrast_of(s),
    };
    MU_TRY(mu_net_create(&s->binder, &o, &s->predict.net, err));
    if (!s->params) s->params = s->predict.net->params;
    return MU_OK;
}

mu_status mu_session_add_arrays(mu_session *s, mu_err *err) {
    if (s->predict.net) return MU_OK;
    mu_diags *d = &s->job->diags;
    mu_err own = {0};
    mu_status st = add_array_net(s, &own);
    if (st == MU_OK) return MU_OK;
    if (d->n_errors) {
        mu_err_clear(&own);
        mu_diags_report(d, &own);
    }
    if (err && err->status == MU_OK) *err = own;
    // A problem that is still listed would not count when it is found again.
    d->n = d->n_errors = d->n_warnings = 0;
    return st;
}
