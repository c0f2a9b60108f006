// SPDX-License-Identifier: Apache-2.0
// c_check.c - `muster check`: everything short of training, all problems at once.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "cli/term.h"
#include "learners/gradients.h"
#include "net/partition_explain.h"

#include <inttypes.h>
#include <string.h>

struct check {
    bool graph, explain, dense;
    int64_t workers;
    const char *split;
};

static const mu_opt options[] = {
    MU_OPT(struct check, workers, "workers", MU_OPT_INT, "N",
           "also split the net over N workers, as `partition` says"),
    MU_OPT_ONE_OF(struct check, split, "split", "none|batch|feature|auto",
                  "how layers are cut that do not say it; auto with --explain"),
    MU_OPT(struct check, graph, "graph", MU_OPT_FLAG, NULL,
           "print the layers of all workers, and what they send"),
    MU_OPT(struct check, explain, "explain", MU_OPT_FLAG, NULL,
           "print how each layer might be cut, the bytes that moves, and why it is cut as it is"),
    MU_OPT(struct check, dense, "dense", MU_OPT_FLAG, NULL,
           "cut as if all gradients were sent as dense ones"),
    {0},
};

static void print_net(const mu_session *s) {
    const mu_net *net = s->train.net ? s->train.net : s->test.net ? s->test.net : s->predict.net;
    if (!net) return;
    fprintf(stderr, "%-16s %-16s %-24s %12s\n", "layer", "type", "output", "parameters");
    for (int i = 0; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i];
        char shape[96] = "", name[128];
        int64_t n = 0;
        if (mu_net_family(l) != l) continue;
        if (l->n_copies) snprintf(name, sizeof name, "%.100s#%d-%d", l->origin, l->copy, l->n_copies - 1);
        else snprintf(name, sizeof name, "%.120s", l->name);
        for (int k = 0; k < l->n_param; k++) n += l->param[k]->is_stat ? 0 : (int64_t)l->param[k]->count;
        if (l->n_out) mu_shape_text(&l->out[0].value.shape, shape);
        fprintf(stderr, "%-16s %-16s %-24s %12" PRId64 "\n", name, l->class->name, shape, n);
    }
    fprintf(stderr, "%" PRId64 " parameters in all\n", mu_params_n_trained(net->params));
}

static void print_setup(const mu_session *s) {
    char text[400];
    if (mu_setup_processes(&s->setup) < 2) return;
    mu_setup_text(&s->setup, s->updater->base, text, sizeof text);
    fprintf(stderr, "%s\n", text);
}

// ---- the net of a group of workers ----

static mu_status shape_workers(mu_binder *b, const mu_partition *p, mu_err *err) {
    for (int w = 0; w < p->workers; w++) {
        mu_net *net;
        MU_TRY(mu_partition_net(b, p, w, &net, err));
        mu_net_destroy(net);
    }
    return MU_OK;
}

static mu_status show_graph(mu_binder *b, const mu_partition_opts *o, bool print, mu_err *err) {
    mu_partition *p = NULL;
    mu_status st = mu_partition_create(b, o, &p, err);
    if (st == MU_OK) st = shape_workers(b, p, err);
    if (st == MU_OK && print) mu_partition_print(p, stdout);
    mu_partition_destroy(p);
    return st;
}

static json_t *load_json(const mu_cut_load *l) {
    const mu_traffic *t = &l->moved;
    return json_pack("{s:I s:I s:I s:f}", "values", (json_int_t)t->values, "gradients",
                     (json_int_t)t->gradients, "weights", (json_int_t)t->weights, "idle_flops", l->idle);
}

static json_t *layer_json(const mu_xray_layer *l) {
    json_t *list = json_array();
    for (int i = 0; i < l->n; i++) {
        const mu_xray_option *o = &l->option[i];
        char cut[32];
        mu_xray_option_text(o, cut);
        json_array_append_new(list, json_pack("{s:s s:b s:b s:I s:o}", "cut", cut, "chosen", i == l->chosen,
                                              "possible", (int)o->possible, "cost", (json_int_t)o->price,
                                              "moves", load_json(&o->load)));
    }
    return json_pack("{s:s s:s s:s s:o}", "layer", mu_layer_job_name(l->layer), "type", l->layer->class->name,
                     "why", l->why, "options", list);
}

static json_t *xray_json(const mu_xray *x) {
    static const char *const name[] = {"batch", "feature", "chosen"};
    json_t *layers = json_array(), *sums = json_object();
    for (int i = 0; i < x->n_layers; i++) json_array_append_new(layers, layer_json(&x->layer[i]));
    for (int i = 0; i < MU_XRAY_SUMS; i++)
        json_object_set_new(sums, name[i],
                            json_pack("{s:b s:o s:o}", "possible", (int)x->sum[i].possible, "dense",
                                      load_json(&x->sum[i].dense), "sent", load_json(&x->sum[i].sent)));
    return json_pack("{s:i s:b s:o s:o}", "workers", x->workers, "exact", (int)x->exact, "layers", layers,
                     "sums", sums);
}

static mu_status show_choice(mu_binder *b, const mu_partition_opts *o, bool json, mu_err *err) {
    mu_xray *x = NULL;
    MU_TRY(mu_partition_explain(b, o, &x, err));
    if (json) mu_cli_print_json(xray_json(x));
    else mu_xray_print(x, stdout);
    mu_xray_destroy(x);
    return MU_OK;
}

static mu_partition_opts partition_opts(const mu_session *s, const struct check *c) {
    static const char *const words[] = {"none", "batch", "feature", "auto"};
    const bool grouped = s->setup.workers > 1;
    mu_partition_opts o = {.whole = s->train.net, .traffic = mu_session_traffic(s)};
    o.workers = c->workers ? (int)c->workers : grouped ? s->setup.workers : 1;
    o.traffic.dense |= c->dense;
    o.split = c->explain ? MU_SPLIT_AUTO : grouped ? (unsigned)s->cluster->partition : MU_SPLIT_NONE;
    for (unsigned i = 0; c->split && i < MU_COUNT(words); i++)
        if (!strcmp(c->split, words[i])) o.split = MU_SPLIT_NONE + i;
    return o;
}

// Problems that are new are shown; those of the job have been.
static mu_status split_net(mu_session *s, mu_job *job, const struct check *c, bool json, mu_err *err) {
    if (!s->train.net) return MU_FAIL(err, MU_EUSAGE, "a job without training has no net that workers split");
    mu_diags own = job->diags;
    own.n = own.n_errors = own.n_warnings = 0;
    mu_binder b = s->binder;
    b.diags = &own;
    const mu_partition_opts o = partition_opts(s, c);
    mu_status st = show_graph(&b, &o, c->graph, err);
    if (st == MU_OK && c->explain) st = show_choice(&b, &o, json, err);
    if (own.n_errors) {
        mu_diags_print(&own, stderr, mu_term_colour(stderr));
        mu_err_clear(err);
    }
    return st;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct check *c = values;
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_session_opts o = {.phases = MU_TRAIN | MU_VALIDATION | MU_TEST | MU_PREDICT, .check_only = true};
    mu_status st = mu_cli_open(a, a->word[0], &o, &job, &s, err);
    const mu_gradient_source *source;
    if (st == MU_OK && s->updater) st = mu_gradients_choose(s, &(mu_run_opts){0}, &source, err);
    if (st == MU_OK && (c->workers || c->graph || c->explain)) st = split_net(s, job, c, a->json, err);
    if (st == MU_OK) {
        if (!a->quiet) print_net(s);
        if (!a->quiet) print_setup(s);
        fprintf(stderr, "%s: no problems\n", a->word[0]);
        if (a->json && !c->explain && !job->diags.n_warnings) puts("[]");
    }
    mu_cli_close(job, s, err);
    return st;
}

const mu_verb_class mu_verb_check = {
    .name = "check",
    .help = "check a job file completely, without training",
    .state_size = sizeof(struct check),
    .usage = "JOB [options]",
    .example = "muster check lenet.yaml",
    .about = "Parses the file, opens the data, builds the net for every phase and reports every problem "
             "with its line, column and the nearest valid word. Exit code 3 when there are any.",
    .args = {.options = options, MU_ARGS_ONE_WORD("a job file")},
    .run = run,
};
