// SPDX-License-Identifier: Apache-2.0
// main.c - muster-sim: many seeds, one seed again, the staleness figures, the self-test; of one level or two.
#include "sim/ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: muster-sim [--seeds N] [--first S] [--events E] [--jobs J] [--protocol P] [--learners L]\n"
    "                  [--splits n] [--bound b] [--hash]\n"
    "       muster-sim --seed S [--trace] ...       one seed again\n"
    "       muster-sim --stats --protocol P --learners L [--splits n] [--events E]\n"
    "       muster-sim --self-test                  wrong drivers must be caught\n"
    "       muster-sim --ranks ...                  of groups of learners on ranks, and their root\n"
    "Runs the protocol core under a random but repeatable schedule with faults; checks it at every event.\n";

// A world of one level, or of two.
typedef struct world {
    bool two;
    sim_world one;
    ranks_world *ranks; // owned
    const char *why;    // of the last seed
    int64_t seed, events;
    uint64_t hash;
} world;

static bool create(world *w, const sim_opts *o) {
    w->two = o->ranks;
    w->ranks = NULL;
    if (!w->two) return sim_world_create(&w->one, o);
    w->ranks = calloc(1, sizeof *w->ranks);
    if (w->ranks && ranks_create(w->ranks, o)) return true;
    free(w->ranks);
    return false;
}

static void destroy(world *w) {
    if (w->two) ranks_destroy(w->ranks);
    else sim_world_destroy(&w->one);
    free(w->ranks);
}

static bool run(world *w, int64_t seed) {
    const bool good = w->two ? ranks_run(w->ranks, seed) : sim_world_run(&w->one, seed);
    w->seed = seed;
    w->why = w->two ? w->ranks->book.why : w->one.book.why;
    w->events = w->two ? w->ranks->events : w->one.events;
    w->hash = w->two ? w->ranks->hash : w->one.hash;
    return good;
}

static int report(const world *w, const sim_opts *o) {
    printf("seed %" PRId64 " event %" PRId64 ": %s\n", w->seed, w->events, w->why);
    printf("again: muster-sim%s --seed %" PRId64 " --events %" PRId64 " --trace\n", w->two ? " --ranks" : "",
           w->seed, o->events);
    return 1;
}

// Seeds first + k, first + k + step, ...; an exit status.
static int run_seeds(const sim_opts *o, int k, int step) {
    static world w;
    if (!create(&w, o)) {
        fprintf(stderr, "muster-sim: out of memory\n");
        return 2;
    }
    int status = 0;
    for (int64_t i = k; i < o->seeds && status == 0; i += step) {
        if (!run(&w, o->first + i)) status = report(&w, o);
        else if (o->hash) printf("seed %" PRId64 " hash %016" PRIx64 "\n", w.seed, w.hash);
    }
    fflush(stdout);
    destroy(&w);
    return status;
}

static int run_jobs(const sim_opts *o) {
    if (o->jobs <= 1) return run_seeds(o, 0, 1);
    int status = 0, started = 0;
    fflush(stdout);
    for (; started < o->jobs; started++) {
        pid_t pid = fork();
        if (pid < 0) {
            perror("muster-sim: fork");
            status = 2;
            break;
        }
        if (pid == 0) _exit(run_seeds(o, started, o->jobs));
    }
    for (int code; started > 0 && wait(&code) > 0; started--) {
        const int s = WIFEXITED(code) ? WEXITSTATUS(code) : 2;
        if (s > status) status = s;
    }
    return status;
}

static int run_stats(const sim_opts *o) {
    static world w;
    if (!create(&w, o)) return 2;
    const bool good = run(&w, o->first);
    const book *b = &w.one.book;
    if (good) {
        printf("%s, %d learners, n %d: %" PRId64 " gradients, staleness mean %.3f max %" PRId64 "\n",
               b->target->name, b->config.learners, b->config.splits, b->n_stale,
               b->n_stale ? (double)b->stale_sum / (double)b->n_stale : 0.0, b->stale_max);
        for (int i = 0; i < SIM_BINS; i++)
            if (b->stale_bin[i])
                printf("%d%s %" PRId64 "\n", i, i == SIM_BINS - 1 ? "+" : "", b->stale_bin[i]);
    } else {
        report(&w, o);
    }
    destroy(&w);
    return !good;
}

// Every mutant must be caught within `most` seeds; the right driver in none of them.
static int self_test(sim_opts o) {
    const int64_t most = 300;
    int status = 0;
    o.events = o.events < 3000 ? o.events : 3000;
    for (int m = SIM_M_NONE; m <= (o.ranks ? (int)RANKS_M_LAST : (int)SIM_M_LAST); m++) {
        static world w;
        o.mutant = m;
        if (!create(&w, &o)) return 2;
        int64_t seed = 1;
        while (seed <= most && run(&w, seed)) {
            w.one.scribbled = false;
            seed++;
        }
        const bool caught = seed <= most;
        const bool right = caught == (m != SIM_M_NONE);
        printf("%-6s %s: %s\n", right ? "" : "WRONG:", o.ranks ? ranks_mutant_name(m) : sim_mutant_name(m),
               caught ? w.why : "nothing found");
        if (!right) status = 1;
        destroy(&w);
    }
    return status;
}

static bool parse_number(const char *text, int64_t *out) {
    char *end;
    *out = strtoll(text, &end, 10);
    return end != text && *end == 0 && *out >= 0;
}

// 0 = fine; else argv[that] is wrong.
static int parse(int argc, char **argv, sim_opts *o) {
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        int64_t n = 0;
        if (!strcmp(a, "--trace")) o->trace = true;
        else if (!strcmp(a, "--stats")) o->stats = true;
        else if (!strcmp(a, "--hash")) o->hash = true;
        else if (!strcmp(a, "--self-test")) o->self_test = true;
        else if (!strcmp(a, "--ranks")) o->ranks = true;
        else if (i + 1 >= argc) return i;
        else if (!strcmp(a, "--protocol")) {
            o->protocol = mu_protocol_index(argv[++i]);
            if (o->protocol < 0) return i;
        } else if (!parse_number(argv[++i], &n)) return i;
        else if (!strcmp(a, "--seeds")) o->seeds = n;
        else if (!strcmp(a, "--first")) o->first = n;
        else if (!strcmp(a, "--seed")) o->first = n, o->seeds = 1;
        else if (!strcmp(a, "--events")) o->events = n;
        else if (!strcmp(a, "--jobs")) o->jobs = (int)n;
        else if (!strcmp(a, "--learners") && n <= SIM_MAX_LEARNERS) o->learners = (int)n;
        else if (!strcmp(a, "--splits")) o->splits = (int)n;
        else if (!strcmp(a, "--bound")) o->bound = (int)n;
        else if (!strcmp(a, "--mutant") && n <= SIM_M_LAST) o->mutant = (int)n;
        else return i - 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    sim_opts o = {.seeds = 100, .first = 1, .events = 10000, .jobs = 1, .protocol = -1, .bound = -1};
    const int bad = parse(argc, argv, &o);
    if (bad) {
        fprintf(stderr, "muster-sim: cannot read `%s`\n%s", argv[bad], usage);
        return 2;
    }
    if (o.self_test) return self_test(o);
    if (o.stats) return run_stats(&o);
    const int status = run_jobs(&o);
    if (status == 0 && !o.hash)
        printf("%" PRId64 " seeds x %" PRId64 " events: every check held\n", o.seeds, o.events);
    return status;
}
