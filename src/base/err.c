// SPDX-License-Identifier: Apache-2.0
// err.c - filling of the error context; see err.h for the rules.
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct { const char *name, *text; int exit_code; } table[] = {
#define X(name, code, text) {#name, text, code},
    MU_STATUS_MAP(X)
#undef X
};

const char *mu_status_name(mu_status s) { return table[s].name; }
const char *mu_status_text(mu_status s) { return table[s].text; }
int mu_status_exit_code(mu_status s) { return table[s].exit_code; }

void mu_err_clear(mu_err *err) {
    if (err) memset(err, 0, sizeof *err);
}

mu_status mu_err_report(mu_err *err, mu_status status, const char *file, int line, mu_srcpos pos,
                        const char *fmt, ...) {
    if (!err || err->status != MU_OK) return status;
    err->status = status;
    err->file = file;
    err->line = line;
    err->pos = pos;
    err->hint[0] = err->note[0] = '\0';
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return status;
}

static void write_once(char *to, size_t size, const char *fmt, va_list ap) {
    if (!to[0]) vsnprintf(to, size, fmt, ap);
}

void mu_err_hint(mu_err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (err) write_once(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
}

mu_status mu_err_hinted(mu_status reported, mu_err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (err) write_once(err->hint, sizeof err->hint, fmt, ap);
    va_end(ap);
    return reported;
}

mu_status mu_err_suggest(mu_status reported, mu_err *err, const char *before, const char *near) {
    return near ? mu_err_hinted(reported, err, "Did you mean `%s%s`?", before, near) : reported;
}

mu_status mu_err_pass(mu_status reported, const mu_err *own, mu_err *err) {
    if (err && err->status == MU_OK) *err = *own;
    return reported;
}

void mu_err_note(mu_err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (err) write_once(err->note, sizeof err->note, fmt, ap);
    va_end(ap);
}
