// SPDX-License-Identifier: Apache-2.0
// helper.c - see helper.h; the helper's side. helper_start.c is the program's.
#include "run/helper.h"

#include "train/stopflag.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ANSWER_NS 200000000     // between two looks for the callback's answer

// The callback may take its time. Should the program die meanwhile, this process dies with it.
static int ask_program(void *ctx, const muster_progress *progress) {
    mu_helper_box *b = ctx;
    b->progress = *progress;
    atomic_store(&b->state, MU_HELPER_ASKS);
    mu_bell_ring(&b->to_program);
    for (;;) {
        uint32_t seen = mu_bell_read(&b->to_helper);
        if (atomic_load(&b->state) != MU_HELPER_ASKS) return 0; // what the callback returned is in b->stop
        (void)mu_bell_wait(&b->to_helper, seen, 0, ANSWER_NS);
    }
}

static mu_status open_job(mu_helper_box *b, muster_job *job, mu_err *err) {
    const char *word = (char *)b + b->at_words;
    job->edits = mu_alloc_array(b->n_edits + 1, sizeof *job->edits, "helper");
    if (!job->edits) return MU_FAIL_NOMEM(err, "the job");
    job->path = word;
    job->text = word += strlen(word) + 1;
    job->size = b->text_bytes;
    word += b->text_bytes + 1;
    for (job->n_edits = 0; job->n_edits < b->n_edits; word += strlen(word) + 1)
        job->edits[job->n_edits++] = word;
    return MU_OK;
}

static const char *folder_of(mu_helper_box *b, const muster_job *job) {
    if (!b->has_folder) return NULL;
    const char *last = job->n_edits ? job->edits[job->n_edits - 1] : job->text;
    return last + (job->n_edits ? strlen(last) : job->size) + 1;
}

static void copy_blocks(mu_helper_box *b, mu_params *ps, bool in) {
    for (uint64_t i = 0; i < b->n_blocks; i++) {
        float *here = mu_api_block(ps, (int)i), *there = mu_helper_block(b, i);
        memcpy(in ? here : there, in ? there : here, b->count * sizeof(float));
    }
}

static mu_status open_run(mu_helper_box *b, muster_job *job, muster_run *run, mu_err *err) {
    MU_TRY(open_job(b, job, err));
    MU_TRY(mu_api_open(run, job, folder_of(b, job), MU_TRAIN | MU_VALIDATION | MU_TEST, err));
    mu_params *ps = run->session->params;
    if (ps->count != b->count || (uint64_t)ps->n_slots + 1 != b->n_blocks)
        return MU_FAIL(err, MU_EDATA, "the job or its data have changed since the run was created");
    copy_blocks(b, ps, true);
    run->at = b->at;
    run->continues = b->continues;
    return MU_OK;
}

static void train(mu_helper_box *b) {
    muster_job job = {0};
    muster_run run = {0};
    mu_err err = {0};
    mu_status st = open_run(b, &job, &run, &err);
    if (st == MU_OK) {
        b->status = mu_api_train(&run, &b->stop, ask_program, b, &b->result, &b->error);
        b->at = run.at;
        b->continues = run.continues;
        copy_blocks(b, run.session->params, false);
    } else {
        b->status = mu_api_fail(st, &err, &b->error);
    }
    mu_api_close(&run);
    mu_free(job.edits);
}

// What the program left behind in signals and descriptors. The terminal's SIGINT and SIGHUP are the program's
// to answer; SIGTERM sent to this process alone saves and stops.
static mu_status make_own(mu_err *err) {
#ifdef SYS_close_range
    (void)syscall(SYS_close_range, MU_HELPER_FD + 1, ~0U, 0); // an old kernel leaves them open: no harm
#endif
    MU_TRY(mu_stop_install(err));
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    return MU_OK;
}

int mu_helper_main(const char *parent) {
    mu_region r;
    mu_err err = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != (pid_t)atol(parent)) { // it died, or a person typed this
        fputs("muster: `" MU_HELPER_OPTION "` is for programs that use the library\n", stderr);
        return mu_status_exit_code(MU_EUSAGE);
    }
    prctl(PR_SET_NAME, "muster:helper");
    if (make_own(&err) != MU_OK || mu_region_attach(getpid(), MU_HELPER_FD, true, &r, &err) != MU_OK)
        return MU_HELPER_REFUSED;
    mu_helper_box *b = (mu_helper_box *)(void *)r.base;
    if (r.size < sizeof *b || strcmp(b->version, MU_VERSION) || b->box_bytes != sizeof *b)
        return MU_HELPER_REFUSED;
    train(b);
    atomic_store(&b->state, MU_HELPER_DONE);
    mu_bell_ring(&b->to_program);
    return 0;
}
