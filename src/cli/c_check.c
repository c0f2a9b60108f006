// SPDX-License-Identifier: Apache-2.0
// c_check.c - `muster check`: everything short of training, all problems at once.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "cli/term.h"
#include "learners/gradients.h"
#include "net/partition_explain.h"
#include "plot/split.h"
#include "ps/merge.h"

#include <inttypes.h>
#include <string.h>

struct check {
    bool graph, explain, dense;
    const char *svg, *dot;
};

static const mu_opt options[] = {
    MU_OPT_KEY("workers", "N", "cluster.workers", "workers of a learner, which split the net"),
    MU_OPT_KEY("partition", "HOW", "cluster.partition", "how they share layers that do not say so"),
    MU_OPT(struct check, graph, "graph", MU_OPT_FLAG, NULL,
           "print the layers of all workers, and what they send"),
    MU_OPT(struct check, svg, "svg", MU_OPT_FILE, "FILE",
           "draw that into this file: a column for each worker, an arrow with its bytes for what they send"),
    MU_OPT(struct check, dot, "dot", MU_OPT_FILE, "FILE", "write it for graphviz"),
    MU_OPT(struct check, explain, "explain", MU_OPT_FLAG, NULL,
           "print how each layer might be cut, the bytes that moves, and why it is cut as it is; and what "
           "server groups move when they merge"),
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

// ---- what server groups move when they merge ----

typedef struct merges {
    const mu_setup *p;
    int64_t        *part;       // (p->sync_parts) bytes of all groups when it is merged once; owned
    int64_t         all;
} merges;

static mu_status merges_open(merges *m, const mu_session *s, mu_err *err) {
    const mu_setup *p = &s->setup;
    const size_t parts = (size_t)p->sync_parts;
    int *first = mu_alloc_array(parts + 1, sizeof *first, "merge");
    *m = (merges){.p = p, .part = mu_alloc_array(parts, sizeof *m->part, "merge")};
    const bool good = first && m->part;
    if (good) mu_merge_cut(s->params, p->sync_parts, first);
    for (size_t i = 0; good && i < parts; i++) {
        m->part[i] = p->server_groups * mu_merge_bytes(s->params, first[i], first[i + 1]);
        m->all += m->part[i];
    }
    mu_free(first);
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the parts of a merge");
}

static json_t *merges_json(const merges *m) {
    json_t *list = json_array();
    for (int64_t i = 0; i < m->p->sync_parts; i++) json_array_append_new(list, json_integer(m->part[i]));
    return json_pack("{s:s s:I s:I s:I s:o s:f}", "rule", m->p->merge.plugin->name, "sync_every",
                     (json_int_t)m->p->sync_every, "sync_parts", (json_int_t)m->p->sync_parts, "bytes",
                     (json_int_t)m->all, "part_bytes", list, "bytes_per_update",
                     (double)m->all / (double)m->p->sync_every);
}

static void print_merges(const merges *m) {
    const mu_setup *p = m->p;
    const int n = p->server_groups, learners = p->learners / n;
    printf("%d server groups of %d learner%s: figures are of all of them together\n", n, learners,
           learners == 1 ? "" : "s");
    printf("they are merged by %s every %" PRId64 " updates", p->merge.plugin->name, p->sync_every);
    if (p->sync_parts > 1) printf(" in %" PRId64 " parts", p->sync_parts);
    printf(": %" PRId64 " bytes given and taken, %.0f an update\n", m->all,
           (double)m->all / (double)p->sync_every);
}

static mu_status show_merges(const mu_session *s, json_t *o, mu_err *err) {
    merges m;
    if (s->setup.server_groups < 2) return MU_OK;
    const mu_status st = merges_open(&m, s, err);
    if (st == MU_OK && o) {
        json_object_set_new(o, "server_groups", json_integer(s->setup.server_groups));
        json_object_set_new(o, "merge", merges_json(&m));
    } else if (st == MU_OK) {
        print_merges(&m);
    }
    mu_free(m.part);
    return st;
}

static mu_status show_choice(mu_session *s, const mu_partition_opts *o, bool json, mu_err *err) {
    mu_xray *x = NULL;
    MU_TRY(mu_partition_explain(&s->binder, o, &x, err));
    json_t *told = json ? xray_json(x) : NULL;
    if (!json) mu_xray_print(x, stdout);
    mu_xray_destroy(x);
    const mu_status st = show_merges(s, told, err);
    if (st == MU_OK && json) mu_cli_print_json(told);
    else json_decref(told);
    return st;
}

static mu_status draw_split(const mu_session *s, const struct check *c, mu_err *err) {
    mu_status st = MU_OK;
    if (c->svg) {
        mu_page page;
        mu_page_init(&page, s->job->name);
        st = mu_split_figure(&page, s->partition, s->job->name, err);
        if (st == MU_OK) st = mu_page_save(&page, c->svg, err);
        mu_page_fini(&page);
    }
    if (st == MU_OK && c->dot) {
        mu_text t = {0};
        st = mu_split_dot(s->partition, s->job->name, &t, err);
        if (st == MU_OK) st = mu_page_write(c->dot, &t, err);
        mu_text_fini(&t);
    }
    return st;
}

static mu_status show_split(mu_session *s, const struct check *c, bool json, mu_err *err) {
    const bool merged = s->setup.server_groups > 1 && c->explain && !(c->graph || c->svg || c->dot);
    if (!s->partition && !merged)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "the net of this job is not split"), err,
                             "Set `cluster.workers`, here also by `--workers N`.");
    if (c->graph) mu_partition_print(s->partition, stdout);
    MU_TRY(draw_split(s, c, err));
    mu_partition_opts o = {.whole = s->train.net, .workers = s->setup.workers, .split = MU_SPLIT_AUTO,
                           .traffic = mu_session_traffic(s)};
    o.traffic.dense |= c->dense;
    return c->explain ? show_choice(s, &o, json, err) : MU_OK;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct check *c = values;
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_session_opts o = {.phases = MU_TRAIN | MU_VALIDATION | MU_TEST | MU_PREDICT, .check_only = true};
    mu_status st = mu_cli_open(a, a->word[0], &o, &job, &s, err);
    const mu_gradient_source *source;
    if (st == MU_OK && s->updater) st = mu_gradients_choose(s, &(mu_run_opts){0}, &source, err);
    if (st == MU_OK && (c->graph || c->explain || c->svg || c->dot)) st = show_split(s, c, a->json, err);
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
