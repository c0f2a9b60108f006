// SPDX-License-Identifier: Apache-2.0
// job.c - load a job: text > tree > --set edits > outline > options of training.
//
// Each stage reports into the same diags and the next one still runs on what is there, so that one
// check shows mistakes of every kind. Only a text that is no YAML ends the road early.
#include "job/job.h"

#include "job/outline.h"
#include "job/set.h"
#include "job/yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

const char *mu_phase_name(mu_phase p) {
    switch (p) {
    case MU_TRAIN: return "train";
    case MU_VALIDATION: return "validation";
    case MU_TEST: return "test";
    case MU_PREDICT: return "predict";
    }
    return "?";
}

void mu_job_destroy(mu_job *job) {
    if (!job) return;
    mu_arena_fini(&job->arena);
    mu_free(job);
}

static mu_status create(const char *path, mu_job **out, mu_err *err) {
    mu_job *job = mu_alloc(sizeof *job, "job");
    if (!job) return MU_FAIL_NOMEM(err, "the job");
    mu_arena_init(&job->arena, "job");
    mu_diags_init(&job->diags, &job->arena);
    const char *slash = strrchr(path, '/');
    job->path = mu_arena_strdup(&job->arena, path);
    job->folder = !slash         ? "."
                : slash == path  ? "/"
                                 : mu_arena_strndup(&job->arena, path, (size_t)(slash - path));
    if (!job->path || !job->folder) {
        mu_job_destroy(job);
        return MU_FAIL_NOMEM(err, "the job");
    }
    *out = job;
    return MU_OK;
}

// The outcome of a load: the job goes to the caller unless memory ran out. `path` is the caller's
// string, so that err does not point into a job that may be gone.
static mu_status finish(mu_job *job, mu_status s, const char *path, mu_job **out, mu_err *err) {
    if (s == MU_ENOMEM || job->diags.no_memory) {
        mu_job_destroy(job);
        mu_err_clear(err);
        return MU_FAIL_NOMEM(err, "the job");
    }
    *out = job;
    const mu_diag *first = mu_diags_first_error(&job->diags);
    if (!first) return s;
    mu_err_clear(err);
    mu_srcpos pos = first->pos;
    if (pos.path == job->path) pos.path = path;
    s = MU_FAIL_AT(err, MU_EJOB, pos, "%s", first->msg);
    if (first->hint) mu_err_hint(err, "%s", first->hint);
    return s;
}

static mu_status build(mu_job *job, const char *text, size_t size, const char *const *sets, size_t n_sets,
                       mu_err *err) {
    if (size >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) text += 3, size -= 3;     // a BOM is no column
    char *kept = mu_arena_strndup(&job->arena, text, size <= MU_YAML_MAX_SIZE ? size : 0);
    if (!kept) return MU_FAIL_NOMEM(err, "the job's text");
    mu_diags_add_source(&job->diags, job->path, kept);
    mu_srcpos origin = {.path = job->path, .line = 1, .col = 1};
    MU_TRY(mu_yaml_parse(&job->arena, &job->diags, origin, text, size, &job->root, err));
    if (job->root && job->root->kind == MU_MAP)
        MU_TRY(mu_set_apply(&job->arena, &job->diags, job->root, sets, n_sets, err));
    mu_outline_bind(job);
    return MU_OK;
}

mu_status mu_job_parse(const char *path, const char *text, size_t size, const char *const *sets,
                       size_t n_sets, mu_job **out, mu_err *err) {
    mu_job *job;
    *out = NULL;
    MU_TRY(create(path, &job, err));
    return finish(job, build(job, text, size, sets, n_sets, err), path, out, err);
}

// Reads up to `most` bytes; errno-style result, 0 = done.
static int read_file(const char *path, char *text, size_t most, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int error = 0;
    *size = 0;
    while (*size < most) {
        ssize_t n = read(fd, text + *size, most - *size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) error = errno;
        if (n <= 0) break;
        *size += (size_t)n;
    }
    close(fd);
    return error;
}

mu_status mu_job_load(const char *path, const char *const *sets, size_t n_sets, mu_job **out, mu_err *err) {
    mu_job *job;
    *out = NULL;
    MU_TRY(create(path, &job, err));
    size_t size = 0, most = MU_YAML_MAX_SIZE + 1;       // one more than allowed shows that it is too long
    char *text = mu_alloc(most, "job-text");
    if (!text) return finish(job, MU_FAIL_NOMEM(err, "the job's text"), path, out, err);
    mu_status s = MU_EJOB;
    int error = read_file(path, text, most, &size);
    if (error) {
        mu_srcpos whole = {.path = job->path};
        mu_diag *g = mu_diags_add(&job->diags, MU_DIAG_ERROR, whole, "cannot read the job file: %s",
                                  strerror(error));
        if (error == ENOENT) mu_diag_hint(&job->diags, g, "`muster init` writes an example job.");
    } else {
        s = build(job, text, size, sets, n_sets, err);
    }
    mu_free(text);
    return finish(job, s, path, out, err);
}
