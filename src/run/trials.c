// SPDX-License-Identifier: Apache-2.0
// trials.c - see trials.h.
//
// The table is small (a training takes seconds), so finding a row is a search through all of them.
#include "run/trials.h"

#include "base/alloc.h"
#include "file/fs.h"
#include "file/json.h"
#include "file/outfile.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG "trials"
enum { MAX_FILE = 16 << 20, COLUMNS = 14 };

static const char header[] =
    "protocol,mu,lambda,mu*lambda,seed,epochs,wall_s,samples_per_s,test_error,test_loss,"
    "staleness_mean,staleness_max,overlap,status";

// The measured columns, 5 to 12, in their order.
static const size_t measured[] = {
    offsetof(mu_trial, epochs),        offsetof(mu_trial, wall_s),    offsetof(mu_trial, samples_per_s),
    offsetof(mu_trial, test_error),    offsetof(mu_trial, test_loss), offsetof(mu_trial, staleness_mean),
    offsetof(mu_trial, staleness_max), offsetof(mu_trial, overlap),
};

static double *value(mu_trial *t, size_t i) { return (double *)(void *)((char *)t + measured[i]); }

// ---- rows ---------------------------------------------------------------------------------------

mu_trial mu_trial_make(const char *protocol, int64_t mu, int64_t lambda, int64_t seed) {
    mu_trial t = {.mu = mu, .lambda = lambda, .seed = seed};
    snprintf(t.protocol, sizeof t.protocol, "%s", protocol);
    for (size_t i = 0; i < MU_COUNT(measured); i++) *value(&t, i) = NAN;
    return t;
}

bool mu_trial_ok(const mu_trial *t) { return !strcmp(t->status, "ok"); }
bool mu_trial_settled(const mu_trial *t) { return mu_trial_ok(t) || !strncmp(t->status, "diverged", 8); }

bool mu_trial_same_cell(const mu_trial *a, const mu_trial *b) {
    return a->mu == b->mu && a->lambda == b->lambda && !strcmp(a->protocol, b->protocol);
}

const mu_trial *mu_trials_find(const mu_trials *t, const mu_trial *asked) {
    for (size_t i = 0; i < t->n; i++)
        if (mu_trial_same_cell(&t->v[i], asked) && t->v[i].seed == asked->seed) return &t->v[i];
    return NULL;
}

mu_status mu_trials_put(mu_trials *t, const mu_trial *row, mu_err *err) {
    const mu_trial *old = mu_trials_find(t, row);
    if (old) {
        t->v[old - t->v] = *row;
        return MU_OK;
    }
    mu_trial *v = mu_grow(t->v, t->n, &t->cap, sizeof *v, 64, TAG);
    if (!v) return MU_FAIL_NOMEM(err, "the table");
    t->v = v;
    t->v[t->n++] = *row;
    return MU_OK;
}

void mu_trials_fini(mu_trials *t) {
    mu_free(t->v);
    *t = (mu_trials){0};
}

// ---- CSV ----------------------------------------------------------------------------------------

static void put_field(mu_text *out, const char *s) {
    if (!strpbrk(s, ",\"\r\n")) {
        mu_text_put(out, s, strlen(s));
        return;
    }
    mu_text_put(out, "\"", 1);
    for (; *s; s++) {
        if (*s == '"') mu_text_put(out, "\"", 1);
        mu_text_put(out, *s == '\n' || *s == '\r' ? " " : s, 1); // a row is one line
    }
    mu_text_put(out, "\"", 1);
}

static void put_row(mu_text *out, const mu_trial *row) {
    mu_trial t = *row;
    put_field(out, t.protocol);
    mu_text_printf(out, ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, t.mu, t.lambda, t.mu * t.lambda,
                   t.seed);
    for (size_t i = 0; i < MU_COUNT(measured); i++) {
        mu_text_put(out, ",", 1);
        if (isfinite(*value(&t, i))) mu_text_printf(out, "%.7g", *value(&t, i));
    }
    mu_text_put(out, ",", 1);
    put_field(out, t.status);
    mu_text_put(out, "\n", 1);
}

mu_status mu_trials_save(const mu_trials *t, const char *folder, mu_err *err) {
    mu_text out = {0};
    mu_text_printf(&out, "%s\n", header);
    for (size_t i = 0; i < t->n; i++) put_row(&out, &t->v[i]);
    mu_status st = out.failed ? MU_FAIL_NOMEM(err, "the table")
                              : mu_outfile_replace(folder, MU_TRIALS_CSV, out.s, out.n, err);
    mu_text_fini(&out);
    return st;
}

// Cuts a line into fields in place; quotes as RFC 4180 has them. Returns how many, -1 for torn quotes.
static int split(char *line, char *field[COLUMNS + 1]) {
    int n = 0;
    for (char *in = line;; in++) {
        char *to = in;
        if (n > COLUMNS) return n;
        field[n++] = to;
        if (*in == '"') {
            for (in++; *in && (*in != '"' || in[1] == '"'); in++) {
                if (*in == '"') in++;
                *to++ = *in;
            }
            if (*in++ != '"') return -1;
        } else {
            in += strcspn(in, ",");
            to = in;
        }
        char end = *in;
        *to = '\0';
        if (!end) return n;
        if (end != ',') return -1;
    }
}

static bool whole(const char *s, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(s, &end, 10);
    return *s && !*end && !errno;
}

static bool parse_row(char *line, mu_trial *out) {
    char *f[COLUMNS + 1], *end;
    int64_t mu, lambda, product, seed;
    if (split(line, f) != COLUMNS || strlen(f[0]) >= sizeof out->protocol) return false;
    if (!whole(f[1], &mu) || !whole(f[2], &lambda) || !whole(f[3], &product) || !whole(f[4], &seed))
        return false;
    if (mu < 1 || lambda < 1 || mu > INT32_MAX || lambda > INT32_MAX || product != mu * lambda) return false;
    *out = mu_trial_make(f[0], mu, lambda, seed);
    for (size_t i = 0; i < MU_COUNT(measured); i++) {
        if (*f[5 + i]) *value(out, i) = strtod(f[5 + i], &end);
        if (*f[5 + i] && (*end || !isfinite(*value(out, i)))) return false;
    }
    snprintf(out->status, sizeof out->status, "%s", f[COLUMNS - 1]);
    return *out->status != '\0';
}

static mu_status bad_line(const char *path, int line, mu_err *err) {
    return mu_err_hinted(MU_FAIL(err, MU_EDATA, "%s:%d: not a row of a trade-off table", path, line), err,
                         "Repair or remove the file, or give another --out.");
}

mu_status mu_trials_load(mu_trials *t, const char *folder, mu_err *err) {
    char path[MU_FS_PATH], *text;
    size_t size;
    MU_TRY(mu_fs_join(path, folder, MU_TRIALS_CSV, err));
    MU_TRY(mu_fs_read(path, MAX_FILE, &text, &size, err));
    mu_status st = strlen(text) == size ? MU_OK : bad_line(path, 1, err);
    int number = 1;
    for (char *line = text, *next; st == MU_OK && *line; line = next, number++) {
        mu_trial row;
        size_t n = strcspn(line, "\n");
        next = line + n + (line[n] == '\n');
        line[n > 0 && line[n - 1] == '\r' ? n - 1 : n] = '\0';
        if (number == 1) st = strcmp(line, header) ? bad_line(path, number, err) : MU_OK;
        else if (*line)
            st = parse_row(line, &row) ? mu_trials_put(t, &row, err) : bad_line(path, number, err);
    }
    mu_free(text);
    return st;
}
