// SPDX-License-Identifier: Apache-2.0
// judge.c - behind a run: was it as predicted? (planner.h)
#include "plan/planner.h"

#include "file/json.h"
#include "file/outfile.h"
#include "train/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char file_name[] = "plan.json";

void mu_config_of_setup(const mu_setup *s, const mu_node *cluster, mu_config *out) {
    const mu_node *protocol = mu_node_find(cluster, "protocol");
    *out = (mu_config){.nodes = mu_setup_nodes(s), .learners = s->learners, .workers = s->workers,
                       .server_groups = mu_setup_is_relayed(s) ? 1 : s->server_groups,
                       .sync_every = mu_setup_merges(s) ? s->sync_every : 0, .architecture = s->architecture,
                       .mu = s->rows, .server = s->server, .server_threads = s->server_threads};
    out->own_mu = s->global_batch != s->reference_batch;
    const char *cut = mu_node_text(mu_node_find(cluster, "partition"));
    out->auto_cut = s->workers > 1 && cut && !strcmp(cut, "auto");
    if (mu_setup_has_no_server(s) || mu_setup_processes(s) == 1 || s->server == MU_SERVER_RANK_0)
        out->server = MU_SERVER_AUTO;
    if (mu_node_is_null(protocol) || !mu_config_write_value(protocol, out->protocol, sizeof out->protocol))
        snprintf(out->protocol, sizeof out->protocol, "%s", s->protocol->plugin.name);
}

// What the job makes of its section on the machine of the plan.
static mu_status config_of_job(const mu_planner_opts *o, mu_planner *p, mu_config *out, mu_err *err) {
    mu_model none = {0};
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_err own = {0};
    const int nodes = o->most_nodes > 1 ? o->most_nodes : 0;
    const mu_session_opts check = {.phases = MU_TRAIN, .check_only = true, .nodes = nodes};
    mu_status st = mu_model_load_job(&none, o->job, o->set, o->n_sets, &job, &own);
    if (st == MU_OK) st = mu_session_open(job, &check, &s, &own);
    if (st == MU_OK) mu_config_of_setup(&s->setup, job->cluster, out);
    if (st == MU_EJOB && job && job->diags.n_errors) {
        mu_err_clear(&own);
        st = mu_diags_report(&job->diags, &own);
    }
    own.pos = MU_NOPOS; // it borrows from the job
    mu_session_close(s);
    mu_job_destroy(job);
    if (st != MU_OK) return mu_err_pass(st, &own, err);
    return mu_config_bind_protocol(&p->arena, out->protocol, &out->how, err);
}

mu_status mu_planner_as_it_is(const mu_planner_opts *o, mu_planner *p, mu_err *err) {
    mu_plan_choice *c = &p->plan.choice[0];
    p->plan = (mu_plan){.n = 1};
    MU_TRY(config_of_job(o, p, &c->config, err));
    return mu_predict(&p->costs, &p->machine, &c->config, &p->corrections, &c->prediction, err);
}

static json_t *terms_json(const mu_prediction *p) {
    json_t *o = json_object();
    for (int t = 0; t < MU_PLAN_TERMS; t++)
        json_object_set_new(o, mu_plan_term_name((mu_plan_term)t), mu_json_number(p->term_s[t]));
    return o;
}

static json_t *parts_json(const double v[MU_LEARNT_PARTS]) {
    return json_pack("{s:f s:f s:f}", "compute_s", v[MU_LEARNT_COMPUTE], "apply_s", v[MU_LEARNT_APPLY], "wait_s",
                     v[MU_LEARNT_WAIT]);
}

static json_t *predicted_json(const mu_prediction *p) {
    double parts[MU_LEARNT_PARTS];
    mu_learnt_parts(p, parts);
    return json_pack("{s:f s:f s:f s:f s:o s:o s:b}", "step_s", p->step_s, "samples_per_s", p->samples_per_s,
                     "staleness", p->staleness, "memory_bytes", p->memory_bytes, "terms", terms_json(p), "parts",
                     parts_json(parts), "corrected", p->corrected);
}

// counts: it teaches something.
static json_t *measured_json(const mu_run_result *r, bool counts, const mu_learnt_run *run) {
    json_t *o = json_object();
    json_object_set_new(o, "samples_per_s", mu_json_number(r->samples_per_s));
    json_object_set_new(o, "staleness", mu_json_number(r->learners.staleness_mean));
    json_object_set_new(o, "counts", json_boolean(counts));
    if (!counts) return o;
    json_object_set_new(o, "step_s", mu_json_number(run->step_s));
    json_object_set_new(o, "parts", parts_json(run->part_s));
    return o;
}

static mu_status write_file(const mu_config *c, const mu_prediction *p, const mu_run_result *r, bool counts,
                            const mu_learnt_run *run, mu_err *err) {
    char text[160];
    mu_config_text(c, text, sizeof text);
    mu_json_init();
    json_t *o = json_pack("{s:s s:s s:i s:i s:I s:o s:o}", "configuration", text, "protocol", c->protocol, "learners",
                          c->learners, "workers", c->workers, "mu", (json_int_t)c->mu, "predicted",
                          predicted_json(p), "measured", measured_json(r, counts, run));
    if (o && counts) json_object_set_new(o, "measured_over_predicted", mu_json_number(run->step_s / p->step_s));
    char *out = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(o);
    if (!out) return MU_FAIL_NOMEM(err, "plan.json");
    const mu_status st = mu_outfile_replace(r->run_dir, file_name, out, strlen(out), err);
    mu_free(out);
    return st;
}

// More wants to run than the run itself has: what it took says little of the machine.
static bool is_busy(const mu_session *s, const mu_machine *m) {
    double load;
    const int own = mu_setup_processes(&s->setup) + s->setup.server_threads;
    return getloadavg(&load, 1) == 1 && load > (own > m->cores ? own : m->cores) + 1;
}

static mu_status compare(mu_planner *p, const mu_session *s, const mu_run_result *r, mu_err *err) {
    mu_config c;
    mu_prediction plain, corrected;
    mu_learnt_run run;
    mu_config_of_setup(&s->setup, s->job->cluster, &c);
    MU_TRY(mu_config_bind_protocol(&p->arena, c.protocol, &c.how, err));
    MU_TRY(mu_predict(&p->costs, &p->machine, &c, NULL, &plain, err));
    MU_TRY(mu_predict(&p->costs, &p->machine, &c, &p->corrections, &corrected, err));
    const bool counts = mu_learnt_measure(&s->setup, r, &run) && !is_busy(s, &p->machine);
    if (*r->run_dir) MU_TRY(write_file(&c, &corrected, r, counts, &run, err));
    if (!counts) return MU_OK;
    mu_learnt_add(&p->learnt, &c, &plain, &run);
    return mu_learnt_keep(&p->costs, &p->learnt, err);
}

void mu_planner_judge(const mu_planner_opts *o, const mu_session *s, const mu_run_result *r) {
    mu_planner_opts known = *o;
    mu_planner p;
    mu_err err = {0};
    known.known_only = true;
    if (mu_planner_open(&known, &p, NULL) != MU_OK) return; // nothing was predicted
    const mu_status st = compare(&p, s, r, &err);
    // A way to train that no plan knows is no failure of the run.
    if (st != MU_OK && st != MU_EUNSUPPORTED && st != MU_EUSAGE && o->watch.say) o->watch.say(o->watch.ctx, err.msg);
    mu_planner_close(&p);
}
