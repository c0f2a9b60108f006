// SPDX-License-Identifier: Apache-2.0
// c_chaos.c - `muster chaos`: kills, stops and slows processes of a running job by a schedule.
//
// What is due when, and whom it hits, is watch/chaos.h; here is the clock that asks it, the run that is
// followed when it restarts itself, and the report.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/live_text.h"

#include "base/clock.h"
#include "watch/chaos.h"
#include "train/stopflag.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define RECHECK_NS 500000000 // whether the run still lives, and where

struct chaos {
    int64_t seed;
    double duration;
};

static const mu_opt options[] = {
    MU_OPT_KEY("do", "RULE", "do", "what to do, see above; repeatable"),
    MU_OPT(struct chaos, seed, "seed", MU_OPT_INT, "N",
           "seed of random learners and gaps; the clock's when not given"),
    MU_OPT(struct chaos, duration, "duration", MU_OPT_DURATION, "T", "end after this time"),
    {0},
};

// Each --do has become the edit `do=RULE` (args.h): the one kind of option that may be repeated.
static mu_status read_plan(const mu_args *a, mu_chaos_script *script, mu_err *err) {
    for (size_t i = 0; i < a->n_sets; i++) MU_TRY(mu_chaos_parse(a->set[i] + strlen("do="), script, err));
    if (script->n) return MU_OK;
    return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "nothing to do"), err,
                         "Say for example --do \"kill learner random every ~1s times 20\".");
}

// ---- telling ------------------------------------------------------------------------------------

static void on_shot(MU_UNUSED void *ctx, const mu_chaos_shot *s) {
    static const char *const done[] = {"killed", "stopped", "slowed"};
    char who[48] = "";
    if (s->learner >= 0) snprintf(who, sizeof who, " %d (life %u)", s->learner, s->incarnation);
    fprintf(stderr, "%9.3f s  %4" PRId64 "  %s %s%s, process %ld\n", s->at_s, s->number, done[s->act],
            s->what, who, (long)s->pid);
}

static void on_recovered(MU_UNUSED void *ctx, const char *what, int learner, double seconds) {
    char who[16] = "";
    if (learner >= 0) snprintf(who, sizeof who, " %d", learner);
    fprintf(stderr, "%*s%s%s is back after %.3f s\n", 19, "", what, who, seconds);
}

static void print_times(const char *what, const mu_chaos_times *t) {
    if (t->n)
        fprintf(stderr, "%s back %" PRId64 " times, after p50 %.3f s, p99 %.3f s, at most %.3f s\n", what,
                t->n, t->p50_s, t->p99_s, t->max_s);
}

static json_t *times_json(const mu_chaos_times *t) {
    return json_pack("{s:I s:f s:f s:f}", "n", (json_int_t)t->n, "p50_s", t->p50_s, "p99_s", t->p99_s,
                     "max_s", t->max_s);
}

static void print_report(const mu_args *a, const mu_live *l, uint64_t seed, const mu_chaos_report *r) {
    if (!a->quiet) {
        fprintf(stderr, "%" PRId64 " shots, %" PRId64 " processes hit, %" PRId64 " learners replaced",
                r->shots, r->hits, r->replacements);
        if (r->pending) fprintf(stderr, ", %" PRId64 " not back", r->pending);
        fprintf(stderr, " (seed %" PRIu64 ")\n", seed);
        print_times("learners", &r->learner);
        print_times("server", &r->server);
    }
    if (!a->json) return;
    const mu_json_int counts[] = {
        {"seed", (int64_t)seed},
        {"shots", r->shots},
        {"hits", r->hits},
        {"kills", r->kills},
        {"stops", r->stops},
        {"slows", r->slows},
        {"replacements", r->replacements},
        {"pending", r->pending},
    };
    json_t *o = json_object();
    mu_json_put_ints(o, counts, MU_COUNT(counts));
    json_object_set_new(o, "run", json_string(l->dir));
    json_object_set_new(o, "run_alive", json_boolean(mu_live_works(l)));
    json_object_set_new(o, "recovery", times_json(&r->learner));
    json_object_set_new(o, "server_recovery", times_json(&r->server));
    mu_cli_print_json(o);
}

// ---- the loop -----------------------------------------------------------------------------------

static void sleep_until(int64_t ns) {
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL); // a signal ends it early: fine
}

// A run that restarts itself has a new region, which is attached instead of the old one. False: it has ended.
static bool follow(mu_live *l, mu_shared *g) {
    mu_live now;
    if (mu_live_find(l->dir, &now, NULL) != MU_OK) return false;
    bool moved = now.pid != l->pid || now.fd != l->fd;
    int n = mu_shared_all_processes(g);
    *l = now;
    if (now.state != MU_LIVE_GROUP || !moved) return now.state == MU_LIVE_GROUP;
    mu_shared other;
    if (mu_shared_attach(now.pid, now.fd, &other, NULL) != MU_OK) return false;
    if (mu_shared_all_processes(&other) != n) {
        mu_shared_close(&other);
        return false;
    }
    mu_shared_close(g);
    *g = other;
    return true;
}

static void storm(mu_chaos *c, mu_live *l, mu_shared *g, double duration_s) {
    int64_t now = mu_clock_ns(), check = now + RECHECK_NS;
    int64_t until = duration_s > 0 ? now + (int64_t)(1e9 * duration_s) : INT64_MAX;
    while (!mu_stop_requested() && now < until && !mu_chaos_done(c, now)) {
        int64_t next = mu_chaos_tick(c, now);
        if (now >= check) {
            if (!follow(l, g)) break;
            check = now + RECHECK_NS;
        }
        sleep_until(next < until ? next : until);
        now = mu_clock_ns();
    }
}

static mu_status shoot(const mu_args *a, const struct chaos *o, const mu_chaos_script *script, mu_live *l,
                       mu_shared *g, mu_err *err) {
    uint64_t seed = mu_args_given(a, "seed") ? (uint64_t)o->seed : (uint64_t)mu_clock_ns() % 1000000007u;
    mu_chaos_watch w = {.shot = a->quiet ? NULL : on_shot, .recovered = a->quiet ? NULL : on_recovered};
    mu_chaos *c = NULL;
    mu_chaos_report r;
    MU_TRY(mu_chaos_create(script, seed, g, mu_clock_ns(), &w, &c, err));
    for (int i = 0; i < script->n && !a->quiet; i++) {
        char text[200];
        mu_chaos_rule_text(&script->rule[i], text, sizeof text);
        fprintf(stderr, "%s: %s\n", l->dir, text);
    }
    if (!a->quiet) fprintf(stderr, "%s: seed %" PRIu64 "\n", l->dir, seed);
    storm(c, l, g, o->duration);
    mu_chaos_get_report(c, &r);
    mu_chaos_destroy(c);
    print_report(a, l, seed, &r);
    return MU_OK;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    mu_chaos_script script = {0};
    mu_live live;
    mu_shared g = {0};
    bool attached;
    mu_json_init();
    MU_TRY(read_plan(a, &script, err));
    MU_TRY(mu_stop_install(err));
    MU_TRY(mu_live_open(a->n_words ? a->word[0] : NULL, &live, &g, &attached, err));
    if (!attached)
        return mu_err_hinted(
            MU_FAIL(err, MU_ENOTFOUND, "`%s` has no learners to shoot at: %s", live.dir,
                    live.state == MU_LIVE_SINGLE   ? "one process trains alone"
                    : live.state == MU_LIVE_HIDDEN ? "it is another user's"
                                                   : "it has ended"),
            err, "Start it with `muster train JOB --learners 2` or more.");
    if (g.head->alone) {
        mu_shared_close(&g);
        return mu_err_hinted(
            MU_FAIL(err, MU_ENOTFOUND, "`%s` has no learners to shoot at: one process trains alone",
                    live.dir),
            err, "Start it with `muster train JOB --learners 2` or more.");
    }
    mu_status s = shoot(a, values, &script, &live, &g, err);
    mu_shared_close(&g);
    return s;
}

const mu_verb_class mu_verb_chaos = {
    .name = "chaos",
    .help = "kill, stop or slow processes of a run on a schedule",
    .state_size = sizeof(struct chaos),
    .usage = "[RUN] --do RULE [options]",
    .example = "muster chaos --do \"kill learner random every ~1s times 20\"\n"
               "muster chaos --do \"stop learner 2 for 15s at 5s\" --do \"kill server every 10s\"",
    .about =
        "A RULE is: kill|stop TARGET, or slow TARGET by TIME; then in any order at TIME, every TIME, "
        "times N, until TIME, for TIME. TARGET is learner N, learner random, all-learners, server or "
        "evaluator (the statistics process). every ~TIME draws the gaps from an exponential distribution. "
        "Rules may also be joined by `;`.\n\n"
        "Only processes of that run are ever hit. Every shot and every recovery is printed, and a summary at "
        "the end. Processes still stopped or slowed then go on.",
    .args = {.options = options, .common = MU_COMMON_JSON, .max_words = 1, .words_are = "a run folder"},
    .run = run,
};
