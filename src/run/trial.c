// SPDX-License-Identifier: Apache-2.0
// trial.c - see trial.h.
//
// The child's streams are files in memory, not pipes: it can never block on us, and we never on it.
#include "run/trial.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/process.h"
#include "file/fs.h"
#include "file/json.h"
#include "train/stopflag.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    FIXED_WORDS = 32, // of the command line, without the edits
    MAX_OUTPUT = 1 << 20,
    POLL_NS = 20000000,
};
static const double grace_s = 15; // to end by itself after SIGTERM: it saves first
static const mu_json_limits limits = {.max_depth = 8, .max_values = 4096};

typedef struct child {
    const char **argv;
    int out, err;
} child;

// ---- the process --------------------------------------------------------------------------------

static int become_muster(void *ctx) {
    const child *c = ctx;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    setpgid(0, 0); // Ctrl-C is the parent's to hear; it tells the child in its own way
    unsetenv("MUSTER_RESUME");
    if (null < 0 || dup2(null, 0) < 0 || dup2(c->out, 1) < 0 || dup2(c->err, 2) < 0) return 1;
    execv("/proc/self/exe", (char *const *)(uintptr_t)c->argv);
    dprintf(2, "error: cannot start /proc/self/exe: %s\n", strerror(errno));
    return 1;
}

static const char *number(mu_arena *a, int64_t n) { return mu_arena_printf(a, "%" PRId64, n); }

// NULL when out of memory.
static const char **command(mu_arena *a, const mu_trial_opts *o, const mu_trial *row) {
    const char **argv = mu_arena_array(a, FIXED_WORDS + 2 * o->n_sets, sizeof *argv);
    const char *words[] = {
        "muster",
        "train",
        o->job,
        "--json",
        "--quiet",
        "--log-format",
        "text",
        "--out",
        o->out,
        "--protocol",
        o->protocol,
        "--learners",
        number(a, row->lambda),
        "--batch-size",
        number(a, row->mu),
        "--seed",
        number(a, row->seed),
    };
    _Static_assert(sizeof words / sizeof *words < FIXED_WORDS, "room for the last NULL");
    if (!argv) return NULL;
    size_t n = 0;
    for (size_t i = 0; i < MU_COUNT(words); i++)
        if (!(argv[n++] = words[i])) return NULL;
    for (size_t i = 0; i < o->n_sets; i++) {
        argv[n++] = "--set";
        argv[n++] = o->set[i];
    }
    return argv;
}

typedef enum ending { ENDED, TOO_SLOW, STOPPED } ending;

static ending await(pid_t pid, double limit_s, mu_process_end *end) {
    const struct timespec nap = {.tv_nsec = POLL_NS};
    double until = mu_clock_s() + limit_s;
    for (;;) {
        bool stop = mu_stop_requested(), late = mu_clock_s() > until;
        if (mu_process_reap(pid, end)) return stop ? STOPPED : ENDED;
        if (stop || late) {
            mu_process_end_all(&pid, 1, grace_s);
            return stop ? STOPPED : TOO_SLOW;
        }
        nanosleep(&nap, NULL);
    }
}

// ---- its folder ---------------------------------------------------------------------------------

// Curves and log stay; parameters of many trainings would fill a disk.
static void remove_weights(const char *folder) {
    char path[MU_FS_PATH];
    if (mu_fs_join(path, folder, "checkpoints", NULL) == MU_OK) mu_fs_remove_tree(path);
    if (mu_fs_join(path, folder, "model.safetensors", NULL) == MU_OK) mu_fs_remove_file(path);
}

// ---- what came out ------------------------------------------------------------------------------

// Owned text of a stream; "" when it is empty or cannot be read, NULL when out of memory.
static char *read_stream(int fd) {
    char *text = mu_alloc(MAX_OUTPUT + 1, "trial");
    ssize_t n = text ? pread(fd, text, MAX_OUTPUT, 0) : 0;
    if (text && n > 0) text[n] = '\0';
    return text;
}

static double get(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static void fill(const json_t *o, mu_trial *row) {
    const json_t *staleness = json_object_get(o, "staleness");
    double accuracy = get(o, "test_accuracy");
    row->epochs = get(o, "epochs");
    row->wall_s = get(o, "wall_s");
    row->samples_per_s = get(o, "samples_per_s");
    row->test_error = 1 - (isnan(accuracy) ? get(o, "val_accuracy") : accuracy);
    row->test_loss = get(o, "test_loss");
    if (isnan(row->test_loss)) row->test_loss = get(o, "val_loss");
    row->staleness_mean = get(staleness, "mean");
    row->staleness_max = get(staleness, "max");
    row->overlap = get(o, "overlap");
}

// The first error it printed, without the place in the job file.
static void find_reason(const char *text, const mu_process_end *end, char *out, size_t size) {
    const char *at = strstr(text, "error: ");
    if (at) {
        at += strlen("error: ");
        snprintf(out, size, "%.*s", (int)strcspn(at, "\n"), at);
    } else if (end->signal) {
        snprintf(out, size, "killed by signal %d (%s)", end->signal, strsignal(end->signal));
    } else {
        snprintf(out, size, "ended with %d", end->exit_code);
    }
}

static void fill_or_fail(const mu_process_end *end, const char *out, const char *text, mu_trial *row) {
    json_t *o = NULL;
    char reason[160];
    bool diverged = end->exit_code == mu_status_exit_code(MU_EDIVERGED);
    if (end->exit_code == 0 && mu_json_parse(out, strlen(out), &limits, "its result", &o, NULL) == MU_OK) {
        fill(o, row);
        snprintf(row->status, sizeof row->status, "ok");
    } else {
        find_reason(text, end, reason, sizeof reason);
        snprintf(row->status, sizeof row->status, "%s: %s", diverged ? "diverged" : "failed", reason);
    }
    json_decref(o);
}

static mu_status settle(const mu_trial_opts *o, ending how, const mu_process_end *end, const child *c,
                        mu_trial *row, mu_err *err) {
    if (how == STOPPED) return MU_FAIL(err, mu_stop_status(), "stopped by a signal");
    if (how == TOO_SLOW) {
        snprintf(row->status, sizeof row->status, "failed: still training after %.0f s", o->limit_s);
        return MU_OK;
    }
    char *out = read_stream(c->out), *text = read_stream(c->err);
    if (out && text) fill_or_fail(end, out, text, row);
    mu_free(out);
    mu_free(text);
    return out && text ? MU_OK : MU_FAIL_NOMEM(err, "the result of a training");
}

mu_status mu_trial_run(const mu_trial_opts *o, mu_trial *row, mu_err *err) {
    mu_arena arena;
    mu_process_end end = {0};
    pid_t pid;
    mu_arena_init(&arena, "trial");
    child c = {.argv = command(&arena, o, row),
               .out = memfd_create("trial-out", MFD_CLOEXEC),
               .err = memfd_create("trial-err", MFD_CLOEXEC)};
    mu_status st = !c.argv ? MU_FAIL_NOMEM(err, "a command line")
                   : c.out < 0 || c.err < 0
                       ? MU_FAIL(err, MU_EIO, "cannot make a file in memory: %s", strerror(errno))
                       : MU_OK;
    if (st == MU_OK) {
        mu_fs_remove_tree(o->out);
        st = mu_process_start("muster-trial", become_muster, &c, &pid, err);
    }
    if (st == MU_OK) {
        ending how = await(pid, o->limit_s, &end);
        if (!o->keep) remove_weights(o->out);
        st = settle(o, how, &end, &c, row, err);
    }
    if (c.out >= 0) close(c.out);
    if (c.err >= 0) close(c.err);
    mu_arena_fini(&arena);
    return st;
}
