// SPDX-License-Identifier: Apache-2.0
// helper_start.c - see helper.h; the side of the program that uses the library.
//
// posix_spawn runs no code of this process in the child, so locks that other threads hold do not matter. All
// signals are as by default there, none is blocked.
#include "run/helper.h"

#include "comm/process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_NS 20000000        // between two looks at the helper when it does not ring: stop, its death
#define END_S 10.0              // for the helper to end after its last word

extern char **environ;

// ---- the box ----

static size_t words_size(const muster_run *run) {
    const muster_job *j = run->source;
    size_t n = strlen(j->path) + j->size + 2 + (run->folder ? strlen(run->folder) + 1 : 0);
    for (size_t i = 0; i < j->n_edits; i++) n += strlen(j->edits[i]) + 1;
    return n;
}

static char *put(char *to, const char *text, size_t n) { return (char *)memcpy(to, text, n) + n + 1; }

static void put_words(const muster_run *run, char *to) {
    const muster_job *j = run->source;
    to = put(to, j->path, strlen(j->path));
    to = put(to, j->text, j->size);
    for (size_t i = 0; i < j->n_edits; i++) to = put(to, j->edits[i], strlen(j->edits[i]));
    if (run->folder) put(to, run->folder, strlen(run->folder));
}

static mu_status make_box(muster_run *run, mu_region *out, mu_err *err) {
    mu_params *ps = run->session->params;
    const uint64_t blocks = (sizeof(mu_helper_box) + 4095) / 4096 * 4096;
    const uint64_t words = blocks + (uint64_t)(ps->n_slots + 1) * ps->count * sizeof(float);
    MU_TRY(mu_region_create("helper", words + words_size(run), out, err));
    mu_helper_box *b = (mu_helper_box *)(void *)out->base;
    *b = (mu_helper_box){.version = MU_VERSION,
                         .box_bytes = sizeof *b,
                         .n_edits = run->source->n_edits,
                         .text_bytes = run->source->size,
                         .at_words = words,
                         .has_folder = run->folder,
                         .count = ps->count,
                         .n_blocks = (uint64_t)ps->n_slots + 1,
                         .at_blocks = blocks,
                         .continues = run->continues,
                         .at = run->at,
                         .stop = atomic_load(&run->stop)};
    put_words(run, out->base + words);
    for (int i = 0; i <= ps->n_slots; i++)
        memcpy(mu_helper_block(b, (uint64_t)i), mu_api_block(ps, i), ps->count * sizeof(float));
    return MU_OK;
}

static void take_back(muster_run *run, mu_helper_box *b) {
    mu_params *ps = run->session->params;
    for (int i = 0; i <= ps->n_slots; i++)
        memcpy(mu_api_block(ps, i), mu_helper_block(b, (uint64_t)i), ps->count * sizeof(float));
    run->at = b->at;
    run->continues = b->continues;
}

// ---- the process ----

static int spawn_with(const char *program, int fd, posix_spawnattr_t *attr, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    char parent[24], *argv[] = {"muster", MU_HELPER_OPTION, parent, NULL};
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    int e = posix_spawn_file_actions_init(&actions);
    if (e) return e;
    e = posix_spawn_file_actions_adddup2(&actions, fd, MU_HELPER_FD);
    if (!e) e = posix_spawnp(pid, program, &actions, attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return e;
}

static int spawn(const char *program, int fd, pid_t *pid) {
    posix_spawnattr_t attr;
    sigset_t all, none;
    int e = posix_spawnattr_init(&attr);
    if (e) return e;
    sigfillset(&all);
    sigemptyset(&none);
    e = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!e) e = posix_spawnattr_setsigmask(&attr, &none);
    if (!e) e = posix_spawnattr_setsigdefault(&attr, &all);
    if (!e) e = spawn_with(program, fd, &attr, pid);
    posix_spawnattr_destroy(&attr);
    return e;
}

// The environment's choice, else where it was installed, else by PATH.
static mu_status start(int fd, pid_t *pid, mu_err *err) {
    const char *chosen = secure_getenv(MU_HELPER_PROGRAM), *program = chosen ? chosen : MU_INSTALLED_PROGRAM;
    int e = spawn(program, fd, pid);
    if (e == ENOENT && !chosen) e = spawn("muster", fd, pid);
    if (!e) return MU_OK;
    MU_FAIL(err, MU_EBACKEND, "cannot start `%s`, the program that trains with several learners: %s", program,
            strerror(e));
    mu_err_hint(err, "Install it, or set %s to its path.", MU_HELPER_PROGRAM);
    return MU_EBACKEND;
}

static mu_status tell_death(const muster_run *run, const mu_process_end *end, mu_err *err) {
    if (end->exit_code == MU_HELPER_REFUSED || end->exit_code == mu_status_exit_code(MU_EUSAGE)) {
        MU_FAIL(err, MU_EBACKEND, "the program `muster` is not of this library's version, %s", MU_VERSION);
        mu_err_hint(err, "Install both together, or set %s to the right program.", MU_HELPER_PROGRAM);
    } else {
        MU_FAIL(err, MU_EBACKEND, "the training process %d ended with %s %d", (int)end->pid,
                end->signal ? "signal" : "status", end->signal ? end->signal : end->exit_code);
        if (run->folder) mu_err_hint(err, "muster_run_resume goes on from its last checkpoint.");
    }
    return MU_EBACKEND;
}

// Until its last word or its death. The callback is called here, on the thread that trains.
static mu_status serve(muster_run *run, mu_helper_box *b, pid_t pid, muster_progress_fn progress, void *ctx,
                       mu_err *err) {
    mu_process_end end;
    for (bool gone = false;;) {
        uint32_t seen = mu_bell_read(&b->to_program);
        int32_t state = atomic_load(&b->state);
        if (state == MU_HELPER_DONE) return MU_OK;
        if (gone) return tell_death(run, &end, err);
        if (atomic_load(&run->stop)) atomic_store(&b->stop, 1);
        if (state == MU_HELPER_ASKS) {
            if (progress && progress(ctx, &b->progress)) atomic_store(&b->stop, 1);
            atomic_store(&b->state, MU_HELPER_WORKS);
            mu_bell_ring(&b->to_helper);
        }
        gone = mu_process_reap(pid, &end);
        if (!gone) (void)mu_bell_wait(&b->to_program, seen, 0, LOOK_NS);
    }
}

muster_status mu_helper_train(muster_run *run, muster_progress_fn progress, void *ctx, muster_result *out,
                              muster_error *err) {
    mu_region r = {0};
    pid_t pid = 0;
    mu_err e = {0};
    mu_status st = make_box(run, &r, &e);
    if (st == MU_OK) st = start(r.fd, &pid, &e);
    mu_helper_box *b = (mu_helper_box *)(void *)r.base;
    if (st == MU_OK) st = serve(run, b, pid, progress, ctx, &e);
    mu_process_end_all(&pid, 1, END_S);
    muster_status result = st == MU_OK ? b->status : mu_api_fail(st, &e, err);
    if (st == MU_OK) {
        take_back(run, b);
        if (out && (result == MUSTER_OK || result == MUSTER_STOPPED)) *out = b->result;
        if (err && result != MUSTER_OK) *err = b->error;
    }
    mu_region_close(&r);
    return result;
}
