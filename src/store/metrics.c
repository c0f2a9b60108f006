// SPDX-License-Identifier: Apache-2.0
// metrics.c - see metrics.h.
#include "store/metrics.h"

#include "base/alloc.h"
#include "file/fs.h"
#include "file/json.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TAG "metrics"
#define LINE_BYTES 8192u
#define MAX_FILE ((size_t)1 << 30)      // a resume reads the file once

struct mu_metrics {
    int  fd;
    char path[MU_FS_PATH];
};

// A line that is no object, or has no step, is not later: it is kept, as it is not of our making.
static mu_status is_later(const char *line, size_t n, int64_t resume_step, bool *out, mu_err *err) {
    static const mu_json_limits limits = { .max_depth = 4, .max_values = 1024 };
    json_t *root = NULL;
    if (mu_json_parse(line, n, &limits, "line", &root, NULL) == MU_ENOMEM)
        return MU_FAIL_NOMEM(err, "reading metrics");
    const json_t *step = json_object_get(root, "step");
    *out = json_is_number(step) && json_number_value(step) > (double)resume_step;
    json_decref(root);
    return MU_OK;
}

// Length of the part to keep: complete lines up to the first one of a later step.
static mu_status kept_bytes(const char *text, size_t size, int64_t resume_step, size_t *out, mu_err *err) {
    size_t at = 0;
    while (at < size) {
        const char *end = memchr(text + at, '\n', size - at);
        if (!end) break;
        bool later = false;
        size_t stop = (size_t)(end - text);
        if (resume_step >= 0) MU_TRY(is_later(text + at, stop - at, resume_step, &later, err));
        if (later) break;
        at = stop + 1;
    }
    *out = at;
    return MU_OK;
}

static mu_status cut_tail(mu_metrics *m, int64_t resume_step, mu_err *err) {
    char *text = NULL;
    size_t size = 0, keep = 0;
    MU_TRY(mu_fs_read(m->path, MAX_FILE, &text, &size, err));
    mu_status status = kept_bytes(text, size, resume_step, &keep, err);
    mu_free(text);
    MU_TRY(status);
    if (keep < size && mu_fs()->ftruncate(m->fd, (off_t)keep)) return mu_fs_fail(err, "shorten", m->path);
    return MU_OK;
}

mu_status mu_metrics_open(const char *path, int64_t resume_step, mu_metrics **out, mu_err *err) {
    size_t n = strlen(path);
    if (n >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "path too long: `%.80s...`", path);
    mu_metrics *m = mu_alloc(sizeof *m, TAG);
    if (!m) return MU_FAIL_NOMEM(err, "metrics");
    memcpy(m->path, path, n + 1);
    m->fd = mu_fs()->open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    mu_status status = m->fd < 0 ? mu_fs_fail(err, "open", path) : cut_tail(m, resume_step, err);
    if (status == MU_OK) *out = m;
    else mu_metrics_close(m);
    return status;
}

// Appends to line at n; returns the new length, or LINE_BYTES when it does not fit.
static size_t put_key(char *line, size_t n, const char *key) {
    if (n + 4 >= LINE_BYTES) return LINE_BYTES;
    line[n++] = '"';
    for (; *key; key++) {
        if (n + 10 >= LINE_BYTES) return LINE_BYTES;
        unsigned char c = (unsigned char)*key;
        if (c < 0x20) n += (size_t)snprintf(line + n, LINE_BYTES - n, "\\u%04x", c);
        else {
            if (c == '"' || c == '\\') line[n++] = '\\';
            line[n++] = *key;
        }
    }
    line[n++] = '"';
    line[n++] = ':';
    return n;
}

static size_t put_value(char *line, size_t n, double v) {
    if (n + 40 >= LINE_BYTES) return LINE_BYTES;
    char *at = line + n;
    size_t room = LINE_BYTES - n;
    bool whole = v == floor(v) && fabs(v) < 0x1p53;
    if (!isfinite(v)) return n + (size_t)snprintf(at, room, "null");
    return n + (size_t)(whole ? snprintf(at, room, "%lld", (long long)v) : snprintf(at, room, "%.9g", v));
}

mu_status mu_metrics_write(mu_metrics *m, const mu_metric_value *values, size_t n, mu_err *err) {
    char line[LINE_BYTES + 1];
    size_t len = 0;
    line[len++] = '{';
    for (size_t i = 0; i < n && len < LINE_BYTES; i++) {
        if (i) line[len++] = ',';
        len = put_key(line, len, values[i].key);
        if (len < LINE_BYTES) len = put_value(line, len, values[i].value);
    }
    if (len + 2 > LINE_BYTES)
        return MU_FAIL(err, MU_EUSAGE, "a line of metrics is longer than %u bytes", LINE_BYTES);
    line[len++] = '}';
    line[len++] = '\n';
    return mu_fs_write_all(m->fd, line, len, m->path, err);
}

void mu_metrics_close(mu_metrics *m) {
    if (!m) return;
    if (m->fd >= 0) mu_fs()->close(m->fd);
    mu_free(m);
}
