// SPDX-License-Identifier: Apache-2.0
// auto.c - see auto.h.
#include "plan/auto.h"

#include "train/model.h"

#include <stdio.h>
#include <string.h>

enum { MOST_KEYS = 48 };

typedef struct edits { mu_arena *a; const char **v; size_t n, cap; } edits;

static mu_status add(edits *e, const char *text, mu_err *err) {
    const char **v = mu_arena_grow(e->a, (void *)e->v, e->n, &e->cap, sizeof *v, 32);
    const char *own = mu_arena_strdup(e->a, text);
    if (!v || !own) return MU_FAIL_NOMEM(err, "the edits of a plan");
    e->v = v;
    e->v[e->n++] = own;
    return MU_OK;
}

static bool is_auto(const mu_node *cluster) {
    const char *text = mu_node_text(cluster);
    return text && !strcmp(text, "auto");
}

// What the job file itself says, before any edit.
static void look(const mu_auto_opts *o, bool *automatic, bool *is_word, char *name, size_t size) {
    mu_model none = {0};
    mu_job *job = NULL;
    mu_err ignored = {0};
    (void)mu_model_load_job(&none, o->planner.job, NULL, 0, &job, &ignored); // its problems are shown later
    *is_word = job && is_auto(job->cluster);
    *automatic = *is_word || o->asked;
    snprintf(name, size, "%s", job && job->name ? job->name : "");
    mu_job_destroy(job);
}

// ---- a run that goes on ----

// The section of the run's own job, key by key.
static mu_status take_section(edits *e, const mu_node *cluster, mu_err *err) {
    for (size_t i = 0; cluster && cluster->kind == MU_MAP && i < cluster->n && i < MOST_KEYS; i++) {
        char value[200];
        if (!mu_config_write_value(cluster->item[i], value, sizeof value)) continue;
        char *text = mu_arena_printf(e->a, "cluster.%s=%s", cluster->item[i]->key, value);
        if (!text) return MU_FAIL_NOMEM(err, "the edits of a plan");
        MU_TRY(add(e, text, err));
    }
    return MU_OK;
}

static bool find_run(const mu_auto_opts *o, const char *name, char out[MU_FS_PATH]) {
    const char *resume = o->resume && *o->resume ? o->resume : o->out;
    if (!resume) return mu_rundir_find_newest("runs", name, out, NULL) == MU_OK;
    snprintf(out, MU_FS_PATH, "%s", resume);
    return mu_fs_is_folder(out);
}

// False: that run says nothing of it; then it is planned as a new one.
static mu_status take_run(const mu_auto_opts *o, const char *name, edits *e, bool *found, mu_err *err) {
    char path[MU_FS_PATH];
    mu_model none = {0};
    mu_job *job = NULL;
    mu_err ignored = {0};
    *found = false;
    if (!o->resume || !find_run(o, name, path)) return MU_OK;
    mu_status st = mu_model_load_job(&none, path, NULL, 0, &job, &ignored);
    if (st == MU_OK && job->cluster && job->cluster->kind == MU_MAP) {
        *found = true;
        st = take_section(e, job->cluster, err);
    } else {
        st = MU_OK;
    }
    mu_job_destroy(job);
    return st;
}

// ---- a plan ----

static mu_status take_config(edits *e, const mu_config_edits *c, mu_err *err) {
    for (int i = 0; i < c->n; i++) MU_TRY(add(e, c->text[i], err));
    return MU_OK;
}

static mu_status take_overlay(const mu_auto_opts *o, edits *e, mu_err *err) {
    mu_config_edits c;
    const int ranks = o->ranks > 1 ? o->ranks : 1;
    MU_TRY(mu_config_load(o->overlay, &c, err));
    if (c.nodes != ranks)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "the plan `%s` is for %d node%s, and %d rank%s %s", o->overlay,
                                     c.nodes, c.nodes == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s",
                                     ranks == 1 ? "was started" : "were started"),
                             err, "Start it by `mpirun -n %d muster train ...`, or plan for %d node%s.", c.nodes, ranks,
                             ranks == 1 ? "" : "s");
    return take_config(e, &c, err);
}

static mu_status plan_now(const mu_auto_opts *o, const edits *e, mu_auto *out, mu_err *err) {
    mu_planner_opts with = o->planner;
    if (o->ranks > 1)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`cluster: auto` plans for one machine, and %d ranks were started",
                                     o->ranks),
                             err, "Plan before: `muster plan JOB --nodes %d --out FILE`, then `train JOB --plan FILE`.",
                             o->ranks);
    with.set = e->v;
    with.n_sets = e->n;
    with.most_nodes = with.least_nodes = 1;
    MU_TRY(mu_planner_open(&with, &out->planner, err));
    const mu_status st = mu_planner_search(&out->planner, err);
    if (st != MU_OK) mu_planner_close(&out->planner);
    out->planned = st == MU_OK;
    return st;
}

static mu_status resolve(const mu_auto_opts *o, bool automatic, const char *name, edits *e, mu_auto *out,
                         mu_err *err) {
    bool found = false;
    mu_config_edits c;
    if (o->overlay) return take_overlay(o, e, err);
    if (automatic) MU_TRY(take_run(o, name, e, &found, err));
    if (!automatic || found) return MU_OK;
    edits users = {.a = e->a};
    for (size_t i = 0; i < e->n; i++) MU_TRY(add(&users, e->v[i], err));
    for (size_t i = 0; i < o->planner.n_sets; i++) MU_TRY(add(&users, o->planner.set[i], err));
    MU_TRY(plan_now(o, &users, out, err));
    mu_config_as_edits(&mu_planner_wanted(&out->planner)->config, &c);
    return take_config(e, &c, err);
}

mu_status mu_auto_resolve(mu_arena *a, const mu_auto_opts *o, mu_auto *out, mu_err *err) {
    edits e = {.a = a};
    bool automatic, is_word;
    char name[128];
    *out = (mu_auto){0};
    look(o, &automatic, &is_word, name, sizeof name);
    if (!automatic && !o->overlay) return MU_OK;
    if (is_word) MU_TRY(add(&e, "cluster={}", err)); // the word makes room for keys
    MU_TRY(resolve(o, automatic, name, &e, out, err));
    for (size_t i = 0; i < o->planner.n_sets; i++) MU_TRY(add(&e, o->planner.set[i], err));
    out->any = true;
    out->set = e.v;
    out->n_sets = e.n;
    return MU_OK;
}

void mu_auto_close(mu_auto *p) {
    if (p->planned) mu_planner_close(&p->planner);
    *p = (mu_auto){0};
}
