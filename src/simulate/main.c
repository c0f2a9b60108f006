// SPDX-License-Identifier: Apache-2.0
// main.c - muster-simulate: a training of a job on a cluster that need not exist.
//
//   muster time JOB --json > costs.json
//   muster-simulate JOB --costs costs.json --platform examples/platforms/rack-1g.xml --ranks 72
//
// The transport, the wire, relay, root, joint and the protocol's core are those of a real training; learners
// take the time that their layers were measured to take, and SimGrid's SMPI says how long messages do.
#include "base/log.h"
#include "base/startup.h"
#include "cli/cli.h"
#include "cli/jobs.h"
#include "simulate/machine.h"
#include "simulate/memory.h"
#include "simulate/network.h"
#include "simulate/rank.h"
#include "simulate/report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Of a message: by TCP over Ethernet, 1448 of 1538 bytes are its own. Ways of the platform are taken as they
// are, and the waits of SMPI for looking at requests are none.
static const char *const options[] = {"--cfg=smpi/simulate-computation:no",
                                      "--cfg=network/model:CM02",
                                      "--cfg=network/bandwidth-factor:0.941",
                                      "--cfg=network/latency-factor:1",
                                      "--cfg=network/weight-S:0",
                                      "--cfg=network/TCP-gamma:0",
                                      "--cfg=network/crosstraffic:no",
                                      "--cfg=smpi/async-small-thresh:65536",
                                      "--cfg=smpi/send-is-detached-thresh:65536",
                                      "--cfg=smpi/test:0",
                                      "--cfg=smpi/grow-injected-times:no",
                                      "--cfg=contexts/stack-size:256",
                                      "--log=root.thres:warning",
                                      NULL};

// The same where messages to one rank are many: the last ones of thousands at a link wait for the first, as
// to share it among all of them anew whenever one ends takes the square of their number.
static const char *const many_options[] = {"--cfg=maxmin/concurrency-limit:100", NULL};

enum {
    MEETING = 32, // ranks: more do not greet each other
    MANY = 128,   // ranks: more are simulated with many_options
};

struct simulate {
    const char *costs, *platform;
    int64_t ranks;
    double ns_per_byte;
};

static const mu_opt table[] = {
    MU_OPT(struct simulate, costs, "costs", MU_OPT_FILE, "FILE", "what `muster time JOB --json` has printed"),
    MU_OPT(struct simulate, platform, "platform", MU_OPT_FILE, "FILE", "the cluster, in SimGrid's XML"),
    MU_OPT(struct simulate, ranks, "ranks", MU_OPT_INT, "N", "hosts of it that train, one rank each"),
    MU_OPT(struct simulate, ns_per_byte, "byte-ns", MU_OPT_NUMBER, "NS",
           "nanoseconds of a rank for each byte that it sends or receives; 0.5 when not given"),
    MU_OPT_KEY("steps", "S", "train.steps", "updates"),
    MU_OPT_KEY("learners", "N", "cluster.learners", "of all ranks"),
    MU_OPT_KEY("protocol", "P", "cluster.protocol", "how they synchronise"),
    MU_OPT_KEY("batch-size", "MU", "cluster.batch", "samples per gradient of one learner"),
    {0},
};

static mu_report report;

// Ends the process: what other simulated ranks still hold goes with it.
static void end(void) {
    mu_err err = {0};
    const mu_status st = mu_report_print(&report, &err);
    if (st != MU_OK) mu_err_print(&err, stderr, false);
    fflush(NULL);
    _exit(mu_status_exit_code(st));
}

static mu_status check(const mu_session *s, mu_err *err) {
    const mu_setup *p = &s->setup;
    if (p->workers > 1) return MU_FAIL(err, MU_EUNSUPPORTED, "workers of a learner are not simulated");
    if (!mu_setup_is_joint(p) && !mu_setup_is_relayed(p))
        return mu_err_hinted(MU_FAIL(err, MU_EUNSUPPORTED, "server groups that merge are not simulated"), err,
                             "Set `cluster.architecture` to base, adv or adv*, or `protocol: hardsync`.");
    return MU_OK;
}

static mu_status simulate(const mu_args *a, const struct simulate *v, mu_session *s, mu_err *err) {
    const int ranks = (int)v->ranks;
    mu_sim_costs costs;
    MU_TRY(check(s, err));
    MU_TRY(mu_sim_costs_load(v->costs, s->train.net, s->setup.rows, &costs, err));
    const bool joint = mu_setup_is_joint(&s->setup);
    mu_sim_costs_set_update(&costs, s->params->count, joint ? mu_setup_own_learners(&s->setup) : 1);
    const mu_simulated_opts o = {s, &costs, ranks, ranks <= MEETING};
    report = (mu_report){.session = s,
                         .costs = &costs,
                         .ranks = ranks,
                         .platform = v->platform,
                         .json = a->json,
                         .meets = o.meets};
    mu_report_begin(&report);
    MU_TRY(mu_machine_open(v->platform, options, ranks > MANY ? many_options : NULL, ranks, err));
    MU_TRY(mu_network_open(ranks, mu_args_given(a, "byte-ns") ? v->ns_per_byte : 0.5, err));
    MU_TRY(mu_memory_open(err));
    MU_TRY(mu_memory_share_params(s->params, err));
    mu_memory_share_size((int64_t)s->params->count);
    MU_TRY(mu_simulated_begin(&o, err));
    mu_simulated_set_end(end);
    MU_TRY(mu_machine_run(ranks, mu_simulated_main, err));
    return MU_FAIL(err, MU_EBACKEND, "the simulation ended before the training");
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct simulate *v = values;
    mu_job *job = NULL;
    mu_session *s = NULL;
    if (!v->costs || !v->platform || v->ranks < 2)
        return MU_FAIL(err, MU_EUSAGE, "needs --costs FILE, --platform FILE and --ranks N, at least 2");
    const mu_session_opts o = {.phases = MU_TRAIN, .trains = true, .nodes = (int)v->ranks};
    mu_status st = mu_cli_open(a, a->word[0], &o, &job, &s, err);
    if (st == MU_OK) st = simulate(a, v, s, err);
    mu_cli_close(job, s, err);
    return st;
}

static const mu_verb_class verb = {
    .name = "simulate",
    .help = "trains a job on a cluster that is simulated",
    .state_size = sizeof(struct simulate),
    .usage = "JOB --costs FILE --platform FILE --ranks N [options]",
    .example = "muster-simulate lenet.yaml --costs lenet.json --platform rack-1g.xml --ranks 72",
    .args = {.options = table, MU_ARGS_ONE_WORD("a job file")},
    .run = run,
};

int main(int argc, char **argv) {
    mu_err err = {0};
    mu_args a;
    struct simulate v = {0};
    mu_startup_begin_anew(argv);
    mu_status st = mu_args_parse(&verb.args, argc - 1, argv + 1, &a, &v, &err);
    if (st == MU_OK && a.help) mu_cli_print_verb(&verb, stdout);
    else if (st == MU_OK) {
        mu_log_set_level(a.verbose ? MU_LOG_DEBUG : MU_LOG_WARN);
        st = run(&a, &v, &err);
    }
    if (st != MU_OK && err.msg[0]) mu_err_print(&err, stderr, false);
    mu_args_fini(&a);
    return mu_status_exit_code(st);
}
