// SPDX-License-Identifier: Apache-2.0
// planner.c - see planner.h.
#include "plan/planner.h"

#include "base/clock.h"
#include "plan/costs_measure.h"
#include "plan/profile.h"
#include "train/model.h"
#include "train/stopflag.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void say(const mu_planner_opts *o, const char *fmt, ...) MU_PRINTF(2, 3);
static void say(const mu_planner_opts *o, const char *fmt, ...) {
    char text[600];
    va_list args;
    if (!o->watch.say) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    o->watch.say(o->watch.ctx, text);
}

// ---- the machine ----

// Numbers of a machine of which the cores alone are known.
static mu_status derive(mu_planner *p) {
    const mu_machine_load unknown = {0};
    mu_machine_describe_here(&p->machine);
    mu_machine_derive(&p->machine, &unknown, 0);
    p->derived = true;
    return MU_OK;
}

static void tell_probe(void *ctx, const char *what, double done) {
    const mu_planner_opts *o = ctx;
    if (what && o->watch.progress) o->watch.progress(o->watch.ctx, "measuring this machine", done);
}

// Kept, so that the next plan need not; a better one takes its place.
static mu_status profile_quickly(const mu_planner_opts *o, mu_planner *p, mu_err *err) {
    mu_profile_result r;
    mu_err own = {0};
    const mu_profile_opts quick = {.quick = true, .tell = tell_probe, .ctx = (void *)(uintptr_t)o};
    const mu_status st = mu_profile_make(&quick, &r, &own);
    if (mu_stop_was_asked(st)) return mu_err_pass(st, &own, err);
    if (st != MU_OK) {
        say(o, "this machine cannot be measured (%s): its speeds are derived from its cores", own.msg);
        return derive(p);
    }
    p->machine = r.machine;
    mu_err_clear(&own);
    if (mu_machine_keep(&p->machine, &own) != MU_OK) say(o, "its profile is not kept: %s", own.msg);
    say(o, "this machine was measured in some seconds; `muster profile` does it better");
    return MU_OK;
}

static mu_status find_machine(const mu_planner_opts *o, mu_planner *p, mu_err *err) {
    mu_err own = {0};
    if (o->machine) return mu_machine_load_file(o->machine, &p->machine, err);
    const mu_status st = mu_machine_find(&p->machine, &own);
    if (st == MU_OK) return MU_OK;
    if (st != MU_ENOTFOUND) say(o, "%s", own.msg);
    return o->known_only ? derive(p) : profile_quickly(o, p, err);
}

// ---- protocols ----

static mu_status add_protocol(mu_planner *p, const char *text, mu_err *err) {
    mu_plan_space *s = &p->space;
    for (int i = 0; i < s->n_protocols; i++)
        if (!strcmp(s->protocol[i].text, text)) return MU_OK;
    if (s->n_protocols == MU_PLAN_PROTOCOLS)
        return MU_FAIL(err, MU_EUSAGE, "a plan looks at %d protocols at most", MU_PLAN_PROTOCOLS);
    mu_plan_protocol *to = &s->protocol[s->n_protocols];
    if (strlen(text) >= sizeof to->text) return MU_FAIL(err, MU_EUSAGE, "`%.60s` is no protocol", text);
    snprintf(to->text, sizeof to->text, "%s", text);
    MU_TRY(mu_config_bind_protocol(&p->arena, text, &to->how, err));
    s->n_protocols++;
    return MU_OK;
}

// The first whole number that a protocol takes: what stands behind the colon of a word.
static const char *number_of(const mu_plugin *p) {
    for (const mu_field *f = p->fields; f && f->key; f++)
        if (f->type == MU_INT) return f->key;
    return NULL;
}

static bool takes(const mu_plugin *p, const char *key) {
    for (const mu_field *f = p->fields; f && f->key; f++)
        if (!strcmp(f->key, key)) return true;
    return false;
}

static mu_status add_word(mu_planner *p, const char *word, mu_err *err) {
    char name[48], text[48];
    const size_t n = strcspn(word, ":");
    snprintf(name, sizeof name, "%.*s", (int)n, word);
    const mu_plugin *class = mu_registry_find(&mu_protocols, name);
    if (!word[n] || !class) return add_protocol(p, word, err);
    const char *key = number_of(class);
    int64_t v;
    if (!key || !mu_parse_int(word + n + 1, &v) || v < 0 || v > 1000000)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`%.60s` is no protocol", word), err,
                             "Write `softsync:2` for `{type: softsync, n: 2}`.");
    snprintf(text, sizeof text, "{type: %.20s, %.8s: %d}", name, key, (int)v);
    return add_protocol(p, text, err);
}

// As they are by default, and those that gather gradients with two and four of them.
static mu_status add_all(mu_planner *p, mu_err *err) {
    for (size_t i = 0; i < mu_protocols.n; i++) {
        char text[48];
        MU_TRY(add_protocol(p, mu_protocols.list[i]->name, err));
        for (int every = 2; every <= 4 && takes(mu_protocols.list[i], "every"); every += 2) {
            snprintf(text, sizeof text, "{type: %.20s, every: %d}", mu_protocols.list[i]->name, every);
            MU_TRY(add_protocol(p, text, err));
        }
    }
    p->space.merges = p->space.roots = true;
    return MU_OK;
}

static mu_status add_words(mu_planner *p, const char *list, mu_err *err) {
    while (*(list += strspn(list, ", "))) {
        char word[64];
        const size_t n = strcspn(list, ", ");
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        MU_TRY(add_word(p, word, err));
        list += n;
    }
    return p->space.n_protocols ? MU_OK : MU_FAIL(err, MU_EUSAGE, "`--protocols` is empty");
}

// What the job means stays: its own protocol, and the one whose weights are those of one learner.
static mu_status add_own(mu_planner *p, const mu_job *job, mu_err *err) {
    char text[48];
    MU_TRY(add_protocol(p, mu_warm_protocol->name, err));
    const mu_node *own = mu_node_find(job->cluster, "protocol");
    if (mu_node_is_null(own) || !mu_config_write_value(own, text, sizeof text)) return MU_OK;
    return add_protocol(p, text, err);
}

static mu_status read_batches(mu_planner *p, const char *list, mu_err *err) {
    p->space.share = !list;
    while (list && *(list += strspn(list, ", "))) {
        char word[32];
        int64_t v;
        const size_t n = strcspn(list, ", ");
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        if (!mu_parse_int(word, &v) || v < 1 || v > 1000000 || p->space.n_mu == MU_PLAN_MUS)
            return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`--batches` has `%.30s`", word), err,
                                 "Give up to %d whole numbers with commas between.", MU_PLAN_MUS);
        p->space.mu[p->space.n_mu++] = v;
        list += n;
    }
    return p->space.share || p->space.n_mu ? MU_OK : MU_FAIL(err, MU_EUSAGE, "`--batches` is empty");
}

// ---- the job ----

static mu_status fill_space(const mu_planner_opts *o, const mu_job *job, mu_planner *p, mu_err *err) {
    mu_plan_space *s = &p->space;
    const double steps = (double)p->costs.records / (double)p->costs.batch; // of an epoch
    int64_t every = 0;
    s->least_nodes = o->least_nodes > 0 ? o->least_nodes : 1;
    s->most_nodes = o->most_nodes > 0 ? o->most_nodes : p->machine.nodes;
    s->most_learners = o->most_learners;
    s->most_workers = 16;
    s->deadline_s = o->deadline_s;
    s->epochs = job->train.epochs > 0 ? job->train.epochs : 1;
    if (job->train.steps > 0 && steps > 0) s->epochs = fmin(s->epochs, (double)job->train.steps / steps);
    const char *text = mu_node_text(mu_node_find(job->cluster, "sync_every"));
    if (text && mu_parse_int(text, &every)) s->sync_every = every;
    s->merges = !mu_node_is_null(mu_node_find(job->cluster, "server_groups"));
    s->roots = !mu_node_is_null(mu_node_find(job->cluster, "architecture"));
    // Sums over batches, and norms of whole gradients, are of one process.
    if (job->train.accumulate > 1) s->most_learners = s->most_workers = 1;
    if (!mu_node_is_null(mu_node_find(job->updater, "clip_norm"))) s->most_workers = 1;
    MU_TRY(read_batches(p, o->batches, err));
    if (o->protocols && !strcmp(o->protocols, "all")) return add_all(p, err);
    return o->protocols ? add_words(p, o->protocols, err) : add_own(p, job, err);
}

static mu_status find_costs(const mu_planner_opts *o, const mu_job *job, mu_planner *p, mu_err *err) {
    mu_machine here;
    mu_err own = {0};
    mu_machine_describe_here(&here);
    const mu_status st = o->again ? MU_ENOTFOUND : mu_costs_find(mu_costs_hash(job), here.cpu, here.level, &p->costs, &own);
    if (st == MU_OK) {
        mu_costs_of_job(job, &p->costs);
        return MU_OK;
    }
    if (o->known_only) return st == MU_ENOTFOUND ? st : mu_err_pass(st, &own, err);
    if (st != MU_ENOTFOUND) say(o, "%s", own.msg);
    const mu_cost_task t = {o->job, o->set, o->n_sets, o->seconds > 0 ? o->seconds : 25, here.cores,
                            o->watch.progress, o->watch.ctx};
    MU_TRY(mu_costs_measure(&t, &p->costs, err));
    p->measured = true;
    if (p->costs.busy > 0.1)
        say(o, "others took %.0f %% of the cores meanwhile: `muster plan --again` in peace would be more exact",
            100 * p->costs.busy);
    mu_err_clear(&own);
    if (mu_costs_keep(&p->costs, &own) != MU_OK) say(o, "the costs are not kept: %s", own.msg);
    return MU_OK;
}

static mu_status open_with_job(const mu_planner_opts *o, const mu_job *job, mu_planner *p, mu_err *err) {
    mu_err own = {0};
    MU_TRY(find_machine(o, p, err));
    MU_TRY(find_costs(o, job, p, err));
    const mu_status st = mu_learnt_find(&p->costs, &p->learnt, &own);
    if (st != MU_OK && st != MU_ENOTFOUND) say(o, "%s", own.msg);
    p->corrections = mu_learnt_corrections(&p->learnt);
    return fill_space(o, job, p, err);
}

mu_status mu_planner_open(const mu_planner_opts *o, mu_planner *p, mu_err *err) {
    mu_model none = {0};
    mu_job *job = NULL;
    *p = (mu_planner){0};
    mu_arena_init(&p->arena, "plan");
    mu_err own = {0};
    mu_status st = mu_model_load_job(&none, o->job, o->set, o->n_sets, &job, &own);
    if (st == MU_OK) st = open_with_job(o, job, p, &own);
    if (st != MU_OK) {
        const char *path = own.pos.path;
        if (job && path && path != o->machine) own.pos = MU_NOPOS; // it borrows from the job
        (void)mu_err_pass(st, &own, err);
        mu_planner_close(p);
    }
    mu_job_destroy(job);
    return st;
}

mu_status mu_planner_search(mu_planner *p, mu_err *err) {
    const double began = mu_clock_s();
    const mu_status st = mu_plan_search(&p->costs, &p->machine, &p->space, &p->corrections, &p->plan, err);
    p->search_s = mu_clock_s() - began;
    return st;
}

void mu_planner_close(mu_planner *p) {
    mu_costs_fini(&p->costs);
    mu_arena_fini(&p->arena);
    *p = (mu_planner){0};
}

const char *mu_plan_bottleneck(const mu_prediction *p) {
    static const char *const words[MU_PLAN_TERMS] = {
        "computing", "applying gradients", "lines and locks between cores", "values between workers",
        "the network", "waiting for others", "reading data"};
    int most = 0;
    for (int t = 1; t < MU_PLAN_TERMS; t++)
        if (p->term_s[t] > p->term_s[most]) most = t;
    return words[most];
}
