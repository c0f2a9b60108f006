// SPDX-License-Identifier: Apache-2.0
// c_stop.c - `muster stop`: asks a run to save and end, and waits until it has.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/live_text.h"

#include "base/clock.h"
#include "train/stopflag.h"

#include <unistd.h>

#define WAIT_S 60.0
#define POLL_US 20000

struct stop {
    double wait;
};

static const mu_opt options[] = {
    MU_OPT(struct stop, wait, "wait", MU_OPT_DURATION, "T",
           "how long to wait for its end; 60s when not given, 0 = only ask"),
    {0},
};

// Several learners are asked through their region, a single one by the signal that Ctrl-C would be.
static mu_status ask(const mu_live *l, mu_shared *g, bool attached, mu_err *err) {
    if (!attached) return mu_live_terminate(l, err);
    atomic_store(&g->head->stop_asked, 1);
    mu_bell_ring(&g->head->parent);
    return MU_OK;
}

static mu_status wait_for_end(mu_live *l, double wait_s, mu_err *err) {
    double until = mu_clock_s() + wait_s;
    pid_t pid = l->pid;
    while (mu_live_works(l) && l->pid == pid) { // another pid: the run was resumed already
        if (mu_stop_requested())
            return MU_FAIL(err, mu_stop_status(), "not waiting any more; it was asked to stop");
        if (mu_clock_s() >= until)
            return mu_err_hinted(
                MU_FAIL(err, MU_EBACKEND, "`%s` was asked to stop and has not ended within %g s", l->dir,
                        wait_s),
                err, "It may still be saving: `muster status %s` tells, `--wait` waits longer.", l->dir);
        usleep(POLL_US);
        mu_live again;
        MU_TRY(mu_live_find(l->dir, &again, err));
        *l = again;
    }
    return MU_OK;
}

static void print_result(const mu_args *a, const mu_live *l, const char *what, double seconds) {
    if (!a->json && !a->quiet) fprintf(stderr, "%s: %s\n", l->dir, what);
    if (!a->json) return;
    json_t *o = json_object();
    json_object_set_new(o, "run", json_string(l->dir));
    json_object_set_new(o, "result", json_string(what));
    json_object_set_new(o, "wait_s", mu_json_number(seconds));
    mu_cli_print_json(o);
}

static mu_status refuse(const mu_live *l, mu_err *err) {
    mu_text t = {0};
    mu_live_text_other(&t, l);
    t.n -= t.n > 0;
    MU_FAIL(err, MU_EUNSUPPORTED, "not stopped: %.*s", (int)t.n, t.s ? t.s : "");
    mu_text_fini(&t);
    return mu_err_hinted(MU_EUNSUPPORTED, err, "Only that user, or root, can stop it.");
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct stop *o = values;
    double wait_s = mu_args_given(a, "wait") ? o->wait : WAIT_S, began = mu_clock_s();
    mu_live live;
    mu_shared g = {0};
    bool attached;
    mu_json_init();
    MU_TRY(mu_stop_install(err));
    MU_TRY(mu_live_open(a->n_words ? a->word[0] : NULL, &live, &g, &attached, err));
    if (live.state == MU_LIVE_HIDDEN) return refuse(&live, err);
    if (!mu_live_works(&live)) {
        if (!a->n_words) return MU_FAIL(err, MU_ENOTFOUND, "no run is alive in `" MU_RUNS "/`");
        print_result(a, &live,
                     live.state == MU_LIVE_VANISHED ? "ended without goodbye before" : "had ended before", 0);
        return MU_OK;
    }
    mu_status s = ask(&live, &g, attached, err);
    if (attached) mu_shared_close(&g);
    if (s == MU_ENOTFOUND) { // it ended while we were looking
        mu_err_clear(err);
        s = MU_OK;
    } else if (s == MU_OK && wait_s > 0) {
        s = wait_for_end(&live, wait_s, err);
    }
    if (s == MU_OK) print_result(a, &live, wait_s > 0 ? "ended" : "asked to stop", mu_clock_s() - began);
    return s;
}

const mu_verb_class mu_verb_stop = {
    .name = "stop",
    .help = "ask a run to save and end",
    .state_size = sizeof(struct stop),
    .usage = "[RUN] [options]",
    .example = "muster stop\nmuster stop runs/lenet-0abc12 --wait 5m",
    .about =
        "The run finishes what is under way, saves a checkpoint and ends, as after Ctrl-C; "
        "`muster train --resume RUN` goes on from there. Without RUN the one under runs/ that was started "
        "last. Exit code 0 once it has ended, 1 when it has not in time or is another user's.",
    .args = {.options = options, .common = MU_COMMON_JSON, .max_words = 1, .words_are = "a run folder"},
    .run = run,
};
