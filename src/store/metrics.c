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
#define MAX_FILE ((size_t)1 << 30)      // a resume reads the file once

struct mu_metrics {
    int    fd;
    char   path[MU_FS_PATH];
    size_t n;                           // bytes of the line in the making; beyond MU_METRICS_LINE: too long
    char   line[MU_METRICS_LINE + 1];
};

// A line that is no object, or has no step, is not later: it is kept, as it is not of our making.
static mu_status is_later(const char *line, size_t n, int64_t resume_step, bool *out, mu_err *err) {
    static const mu_json_limits limits = {.max_depth = MU_METRICS_DEPTH, .max_values = MU_METRICS_VALUES};
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

// ---- a line in the making: what has no room in it makes it longer than it may be, and is left out ----

static void put(mu_metrics *m, const char *text, size_t n) {
    if (m->n + n <= MU_METRICS_LINE) memcpy(m->line + m->n, text, n);
    m->n = m->n + n <= MU_METRICS_LINE ? m->n + n : MU_METRICS_LINE + 1;
}

static void put_word(mu_metrics *m, const char *word) { put(m, word, strlen(word)); }

static void put_key(mu_metrics *m, const char *key) {
    char escaped[8];
    put_word(m, "\"");
    for (; *key; key++) {
        const unsigned char c = (unsigned char)*key;
        if (c == '"' || c == '\\') put_word(m, "\\");
        if (c >= 0x20) put(m, key, 1);
        else put(m, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
    }
    put_word(m, "\":");
}

static void put_value(mu_metrics *m, double v) {
    char text[40];
    const bool whole = v == floor(v) && fabs(v) < 0x1p53;
    if (!isfinite(v)) put_word(m, "null");
    else if (whole) put(m, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v));
    else put(m, text, (size_t)snprintf(text, sizeof text, "%.9g", v));
}

static void put_table(mu_metrics *m, const mu_metric_table *t) {
    put_key(m, t->key);
    for (int c = 0; c < t->columns; c++) {
        put_word(m, c ? "]," : "{");
        put_key(m, t->column[c]);
        put_word(m, "[");
        for (int r = 0; r < t->rows; r++) {
            if (r) put_word(m, ",");
            put_value(m, t->value[c * t->rows + r]);
        }
    }
    put_word(m, "]}");
}

mu_status mu_metrics_write_tables(mu_metrics *m, const mu_metric_value *values, size_t n,
                                  const mu_metric_table *tables, size_t n_tables, mu_err *err) {
    m->n = 0;
    put_word(m, "{");
    for (size_t i = 0; i < n; i++) {
        if (i) put_word(m, ",");
        put_key(m, values[i].key);
        put_value(m, values[i].value);
    }
    for (size_t i = 0; i < n_tables; i++) {
        if (n + i) put_word(m, ",");
        put_table(m, &tables[i]);
    }
    put_word(m, "}\n");
    if (m->n > MU_METRICS_LINE)
        return MU_FAIL(err, MU_EUSAGE, "a line of metrics is longer than %d bytes", MU_METRICS_LINE);
    return mu_fs_write_all(m->fd, m->line, m->n, m->path, err);
}

mu_status mu_metrics_write(mu_metrics *m, const mu_metric_value *values, size_t n, mu_err *err) {
    return mu_metrics_write_tables(m, values, n, NULL, 0, err);
}

void mu_metrics_close(mu_metrics *m) {
    if (!m) return;
    if (m->fd >= 0) mu_fs()->close(m->fd);
    mu_free(m);
}
