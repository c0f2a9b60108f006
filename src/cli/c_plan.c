// SPDX-License-Identifier: Apache-2.0
// c_plan.c - `muster plan`: predicts how long a training takes by every way to do it, and shows the best.
//
// plan/planner.h does all of it; here words come in, and a table, a sentence about what limits the winner, JSON
// or an overlay file go out.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/plan_text.h"

#include "plan/planner.h"
#include "train/stopflag.h"

#include <string.h>

struct plan {
    const char *machine, *nodes, *protocols, *batches, *out;
    int64_t learners;
    double deadline;
    bool again, as_is;
};

static const mu_opt options[] = {
    MU_OPT(struct plan, machine, "machine", MU_OPT_FILE, "FILE",
           "a profile or a description of the machine or cluster; this machine when not given"),
    MU_OPT(struct plan, nodes, "nodes", MU_OPT_TEXT, "A..B", "nodes of the cluster; all of it when not given"),
    MU_OPT(struct plan, learners, "max-learners", MU_OPT_INT, "N", "learners at most, of all nodes"),
    MU_OPT(struct plan, protocols, "protocols", MU_OPT_TEXT, "P,...",
           "protocols to look at, such as softsync:2; all; hardsync and the job's own when not given"),
    MU_OPT(struct plan, batches, "batches", MU_OPT_TEXT, "MU,...",
           "samples per gradient to look at; the job's batch shared by all when not given"),
    MU_OPT(struct plan, deadline, "deadline", MU_OPT_DURATION, "T",
           "choose what needs the fewest processes and ends the training in this time"),
    MU_OPT(struct plan, out, "out", MU_OPT_FILE, "FILE", "write the winner here, for `muster train JOB --plan FILE`"),
    MU_OPT(struct plan, as_is, "as-is", MU_OPT_FLAG, NULL, "predict the way that the job itself says, and search none"),
    MU_OPT(struct plan, again, "again", MU_OPT_FLAG, NULL, "measure the costs of the job once more"),
    {0},
};

// "4", "1..16"
static mu_status read_nodes(const char *text, mu_planner_opts *o, mu_err *err) {
    int64_t low, high;
    char first[24];
    if (!text) return MU_OK;
    const char *dots = strstr(text, "..");
    snprintf(first, sizeof first, "%.*s", dots ? (int)(dots - text) : (int)strlen(text), text);
    const bool good = mu_parse_int(first, &low) && mu_parse_int(dots ? dots + 2 : first, &high) && low >= 1 &&
                      high >= low && high <= MU_MACHINE_NODES;
    if (!good)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`--nodes` has `%.40s`", text), err,
                             "Write a number, or the least and the most: --nodes 1..16.");
    o->least_nodes = (int)low;
    o->most_nodes = (int)high;
    return MU_OK;
}

static mu_status save(const struct plan *v, const mu_planner *p, mu_err *err) {
    char about[800];
    const mu_plan_choice *c = mu_planner_wanted(p);
    mu_plan_text_about(p, c, about, sizeof about);
    return mu_config_save(&c->config, about, v->out, err);
}

static mu_status show(const mu_args *a, const struct plan *v, mu_planner *p, mu_err *err) {
    mu_plan_change change[MU_PLAN_CHANGES];
    const int n = mu_plan_changes(&p->costs, &p->machine, &p->space, &p->corrections, mu_planner_wanted(p), change);
    if (a->json) mu_cli_print_json(mu_plan_json(p, change, n));
    else mu_plan_text_print(p, change, n, a->word[0], v->out, stdout);
    return v->out ? save(v, p, err) : MU_OK;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct plan *v = values;
    mu_planner p;
    mu_plan_screen screen = {.quiet = a->quiet};
    mu_planner_opts o = {.job = a->word[0], .set = a->set, .n_sets = a->n_sets, .machine = v->machine,
                         .protocols = v->protocols, .batches = v->batches, .deadline_s = v->deadline,
                         .again = v->again, .watch = mu_plan_screen_watch(&screen)};
    o.most_learners = v->learners < 1024 ? (int)v->learners : 1024;
    MU_TRY(read_nodes(v->nodes, &o, err));
    MU_TRY(mu_cli_check_word(a->word[0], err));
    MU_TRY(mu_stop_install(err));
    mu_status st = mu_planner_open(&o, &p, err);
    mu_plan_screen_end(&screen);
    if (st != MU_OK) return st;
    st = v->as_is ? mu_planner_as_it_is(&o, &p, err) : mu_planner_search(&p, err);
    if (st == MU_OK) st = show(a, v, &p, err);
    mu_planner_close(&p);
    return st;
}

const mu_verb_class mu_verb_plan = {
    .name = "plan",
    .help = "predict the time of a training, and choose how to do it",
    .state_size = sizeof(struct plan),
    .usage = "JOB [options]",
    .example = "muster plan lenet.yaml\n"
               "muster plan lenet.yaml --protocols all --out fast.yaml\n"
               "muster train lenet.yaml --plan fast.yaml\n"
               "muster plan lenet.yaml --machine rack.yaml --nodes 1..16\n"
               "muster plan lenet.yaml --deadline 10m",
    .about = "The costs of a job (its layers, updates, messages) are measured once, in less than a minute, and "
             "kept; then every number of learners, workers and servers, and every allowed protocol, is predicted. "
             "A step stays train.batch samples, so what is learnt stays the same; other protocols and batches "
             "are looked at when they are named.",
    .args = {.options = options, MU_ARGS_ONE_WORD("a job file or run folder")},
    .run = run,
};
