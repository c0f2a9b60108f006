// SPDX-License-Identifier: Apache-2.0
// c_status.c - `muster status`: one look at a run.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/live_text.h"
#include "cli/term.h"
#include "store/metrics.h"

#include <string.h>
#include <unistd.h>

#define BETWEEN_LOOKS_US 200000

static mu_status print_text(mu_text *t, mu_err *err) {
    if (t->failed) return MU_FAIL_NOMEM(err, "the page");
    fputs(t->s ? t->s : "", stdout);
    return MU_OK;
}

static mu_status show_group(const mu_args *a, const mu_shared *g, mu_err *err) {
    mu_live_view before = {0}, now = {0};
    mu_text t = {0};
    mu_status s = mu_live_view_init(&before, g, err);
    if (s == MU_OK) s = mu_live_view_init(&now, g, err);
    if (s == MU_OK) {
        mu_live_look(&before, g);
        usleep(BETWEEN_LOOKS_US);
        mu_live_look(&now, g);
        mu_live_rates(&now, &before);
        if (a->json) {
            mu_cli_print_json(mu_live_json(&now));
        } else {
            mu_live_text(&t, &now, mu_term_colour(stdout));
            s = print_text(&t, err);
        }
    }
    mu_text_fini(&t);
    mu_live_view_fini(&now);
    mu_live_view_fini(&before);
    return s;
}

static void print_other_json(const mu_live *l, const char *line) {
    static const char *const state[] = {"training", "training", "ended", "vanished", "hidden"};
    json_t *o = json_object(), *metrics = *line ? json_loads(line, JSON_REJECT_DUPLICATES, NULL) : NULL;
    bool utf8 = mu_json_utf8_valid(l->dir, strlen(l->dir));
    json_object_set_new(o, "state", json_string(state[l->state]));
    json_object_set_new(o, "run", json_string(utf8 ? l->dir : "?"));
    json_object_set_new(o, "pid", mu_live_works(l) ? json_integer(l->pid) : json_null());
    json_object_set_new(o, "learners", mu_live_works(l) ? json_integer(1) : json_integer(0));
    json_object_set_new(o, "metrics", metrics ? metrics : json_null());
    mu_cli_print_json(o);
}

static mu_status show_other(const mu_args *a, const mu_live *l, mu_err *err) {
    char line[MU_METRICS_LINE];
    mu_text t = {0};
    mu_live_last_metrics(l->dir, line, sizeof line);
    if (a->json) {
        print_other_json(l, line);
        return MU_OK;
    }
    mu_live_text_other(&t, l);
    if (*line) mu_live_text_metrics(&t, line);
    mu_status s = print_text(&t, err);
    mu_text_fini(&t);
    return s;
}

static mu_status run(mu_args *a, MU_UNUSED void *values, mu_err *err) {
    mu_live live;
    mu_shared g = {0};
    bool attached;
    mu_json_init();
    MU_TRY(mu_live_open(a->n_words ? a->word[0] : NULL, &live, &g, &attached, err));
    if (!attached) return show_other(a, &live, err);
    mu_status s = show_group(a, &g, err);
    mu_shared_close(&g);
    return s;
}

const mu_verb_class mu_verb_status = {
    .name = "status",
    .help = "show how a run is doing: learners, speed, staleness",
    .usage = "[RUN] [options]",
    .example = "muster status\nmuster status runs/lenet-0abc12 --json",
    .about =
        "Looks at the run under runs/ that was started last, or at the one named. Looking never slows or "
        "stops a run. `compute` and `wait` are shares of a learner's time, `life` counts its processes, "
        "overlap is compute / (compute + wait). Of a run that has ended the last metrics are shown.",
    .args = {.common = MU_COMMON_JSON, .max_words = 1, .words_are = "a run folder"},
    .run = run,
};
