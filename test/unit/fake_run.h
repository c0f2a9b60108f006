// SPDX-License-Identifier: Apache-2.0
// fake_run.h - a stand-in for a run with several learners: the real region and run folder, real processes
// that are replaced when they die and that end when asked, but no training. A storm of kills takes a second.
#ifndef MU_TEST_FAKE_RUN_H
#define MU_TEST_FAKE_RUN_H

#include "run_help.h"

#include "base/clock.h"
#include "ps/shared.h"
#include "store/live.h"
#include "store/rundir.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define FAKE_ID "fake-000001"

typedef struct fake_run {
    mu_shared g;                 // as the run's own processes have it
    pid_t    parent;
    char     dir[64];
} fake_run;

static inline void fake_learner(mu_shared_learner *l) {
    atomic_fetch_add(&l->incarnation, 1);
    atomic_store(&l->first_pulse_ns, mu_clock_ns());
    for (;;) {
        atomic_fetch_add(&l->pulse, 1);
        atomic_store(&l->pulse_ns, mu_clock_ns());
        atomic_store(&l->doing, MU_DOING_COMPUTE);
        atomic_fetch_add(&l->samples, 4);
        atomic_fetch_add(&l->gradients, 1);
        atomic_fetch_add(&l->compute_ns, 900000);
        atomic_fetch_add(&l->wait_ns, 100000);
        usleep(1000);
    }
}

static inline void fake_server(mu_shared_head *h) {
    for (;;) {
        atomic_fetch_add(&h->version, 1);
        atomic_fetch_add(&h->samples, 8);
        usleep(1000);
    }
}

static inline void fake_start(fake_run *f, int who) { // -1: the server
    mu_shared_head *h = f->g.head;
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) _exit(1);
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pid == 0 && getppid() != parent) _exit(0); // it died before it could be followed
    if (pid == 0 && who >= 0) fake_learner(&f->g.learner[who]);
    if (pid == 0) fake_server(h);
    atomic_store(who < 0 ? &h->server_pid : &f->g.learner[who].pid, pid);
}

static inline void fake_replace(fake_run *f, pid_t pid) {
    mu_shared_head *h = f->g.head;
    for (int i = 0; i < h->n_learners; i++) {
        if (atomic_load(&f->g.learner[i].pid) != pid) continue;
        atomic_fetch_add(&f->g.learner[i].losses, 1);
        atomic_store(&f->g.learner[i].first_pulse_ns, 0);
        fake_start(f, i);
    }
    if (atomic_load(&h->server_pid) == pid) fake_start(f, -1);
}

// The stand-in's parent process: never returns.
static inline void fake_parent(fake_run *f) {
    mu_shared_head *h = f->g.head;
    mu_rundir d;
    mu_err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mu_rundir_create_at(f->dir, &d, &err) != MU_OK) _exit(1);
    if (mu_live_write(f->dir, getpid(), f->g.region.fd, FAKE_ID, &err) != MU_OK) _exit(1);
    atomic_store(&h->parent_pid, getpid());
    for (int i = 0; i < h->n_learners; i++) fake_start(f, i);
    fake_start(f, -1);
    atomic_store(&h->state, MU_RUN_TRAINING);
    while (!atomic_load(&h->stop_asked)) {
        for (pid_t pid; (pid = waitpid(-1, NULL, WNOHANG)) > 0;) fake_replace(f, pid);
        usleep(500);
    }
    atomic_store(&h->state, MU_RUN_ENDED);
    mu_live_remove(f->dir);
    _exit(0); // the children follow
}

static inline void fake_lay_out(fake_run *f, int learners) {
    uint64_t core = (mu_core_size(learners) + 63) / 64 * 64, at = (sizeof(mu_shared_head) + 63) / 64 * 64;
    uint64_t table = at + 2 * core, end = table + (uint64_t)learners * sizeof(mu_shared_learner);
    end = (end + 4095) / 4096 * 4096;
    assert_ok(mu_region_create(FAKE_ID, end, &f->g.region, err));
    f->g.head = (mu_shared_head *)(void *)f->g.region.base;
    f->g.learner = (mu_shared_learner *)(void *)(f->g.region.base + table);
    *f->g.head =
        (mu_shared_head){.magic = "MUSTER1",
                         .head_bytes = sizeof(mu_shared_head),
                         .total_bytes = end,
                         .n_learners = learners,
                         .n_workers = 1,
                         .n_processes = learners,
                         .at_core = at,
                         .core_bytes = core,
                         .at_learners = table,
                         .run_id = FAKE_ID,
                         .job_name = "fake",
                         .protocol = "softsync",
                         .rows = 4,
                         .global_batch = 4 * learners,
                         .n_records = 1000,
                         .end_steps = 5000,
                         .start_ns = mu_clock_ns(),
                         .setup = {.server = MU_SERVER_PROCESS, .server_threads = 1, .hang_timeout = 5}};
    snprintf(f->g.head->run_dir, sizeof f->g.head->run_dir, "%s", f->dir);
    mu_core_config c = {.learners = learners, .splits = 1, .lease_batches = 1, .global_batch = 4 * learners,
                        .rows = 4, .end_sample = INT64_MAX};
    mu_core_init((mu_core *)(void *)(f->g.region.base + at), &c);
}

static inline void fake_begin(fake_run *f, int learners) {
    *f = (fake_run){0};
    temp_dir(f->dir);
    fake_lay_out(f, learners);
    f->parent = fork();
    assert_true(f->parent >= 0);
    if (f->parent == 0) fake_parent(f);
    for (int i = 0; i < 10000 && atomic_load(&f->g.head->state) != MU_RUN_TRAINING; i++) usleep(1000);
    assert_int_equal(atomic_load(&f->g.head->state), MU_RUN_TRAINING);
    for (int i = 0; i < learners; i++)
        for (int k = 0; k < 10000 && !atomic_load(&f->g.learner[i].first_pulse_ns); k++) usleep(1000);
}

static inline void fake_end(fake_run *f) {
    kill(f->parent, SIGKILL);
    waitpid(f->parent, NULL, 0);
    mu_region_close(&f->g.region);
    remove_tree(f->dir);
}

#endif
