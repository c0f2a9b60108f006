// SPDX-License-Identifier: Apache-2.0
// diag.c - the collected problems of a check; printing is in diag_print.c.
//
// The list never fails: when memory or room runs out, counting goes on and the program still says
// that something is wrong.
#include "job/diag.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mu_diags_init(mu_diags *d, mu_arena *arena) {
    memset(d, 0, sizeof *d);
    d->arena = arena;
}

void mu_diags_add_source(mu_diags *d, const char *path, const char *text) {
    if (d->n_sources == MU_COUNT(d->source)) return;    // printed without its line then
    d->source[d->n_sources].path = path;
    d->source[d->n_sources++].text = text;
}

void mu_diags_no_memory(mu_diags *d) {
    if (!d->no_memory) d->n_errors++;
    d->no_memory = true;
}

static const char *keep_text(mu_diags *d, const char *fmt, va_list ap) {
    char text[1000];
    vsnprintf(text, sizeof text, fmt, ap);
    const char *kept = mu_arena_strdup(d->arena, text);
    if (!kept) mu_diags_no_memory(d);
    return kept;
}

static bool same_place(const mu_srcpos *a, const mu_srcpos *b) {
    bool same_path = a->path && b->path ? !strcmp(a->path, b->path) : a->path == b->path;
    return same_path && a->line == b->line && a->col == b->col;
}

// An alias lets one place be checked several times; its problem is shown once.
static bool is_known(const mu_diags *d, mu_srcpos pos, const char *msg) {
    for (size_t i = 0; i < d->n; i++)
        if (same_place(&d->list[i].pos, &pos) && !strcmp(d->list[i].msg, msg)) return true;
    return false;
}

mu_diag *mu_diags_add(mu_diags *d, mu_severity s, mu_srcpos pos, const char *fmt, ...) {
    d->spare = (mu_diag){.severity = s, .pos = pos, .msg = ""};
    char msg[1000] = "";
    va_list ap;
    va_start(ap, fmt);
    if (d->n < MU_DIAGS_MAX) vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    if (is_known(d, pos, msg)) return &d->spare;
    if (s == MU_DIAG_ERROR) d->n_errors++;
    else d->n_warnings++;
    if (d->n == MU_DIAGS_MAX) return &d->spare;
    const char *kept = mu_arena_strdup(d->arena, msg);
    if (!kept) mu_diags_no_memory(d);
    mu_diag *g = &d->list[d->n++];
    *g = (mu_diag){.severity = s, .pos = pos, .msg = kept ? kept : "out of memory for the message"};
    return g;
}

void mu_diag_label(mu_diags *d, mu_diag *g, const char *fmt, ...) {
    if (g == &d->spare) return;
    va_list ap;
    va_start(ap, fmt);
    g->label = keep_text(d, fmt, ap);
    va_end(ap);
}

void mu_diag_hint(mu_diags *d, mu_diag *g, const char *fmt, ...) {
    if (g == &d->spare) return;
    va_list ap;
    va_start(ap, fmt);
    g->hint = keep_text(d, fmt, ap);
    va_end(ap);
}

void mu_diags_add_err(mu_diags *d, const mu_err *err) {
    if (err->status == MU_ENOMEM) mu_diags_no_memory(d);
    mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, err->pos, "%s%s%s", err->msg, err->note[0] ? " " : "",
                              err->note);
    if (err->hint[0]) mu_diag_hint(d, g, "%s", err->hint);
}

const mu_diag *mu_diags_first_error(const mu_diags *d) {
    const mu_diag *first = NULL;
    for (size_t i = 0; i < d->n; i++) {
        const mu_diag *g = &d->list[i];
        if (g->severity != MU_DIAG_ERROR) continue;
        if (!first || g->pos.line < first->pos.line
            || (g->pos.line == first->pos.line && g->pos.col < first->pos.col))
            first = g;
    }
    return first;
}

// The label stands beside a caret in small letters; a hint is a sentence.
mu_status mu_diags_report(const mu_diags *d, mu_err *err) {
    const mu_diag *g = mu_diags_first_error(d);
    if (!g) return MU_OK;
    char more[48] = "";
    if (d->n_errors > 1)
        snprintf(more, sizeof more, " (and %zu more problem%s)", d->n_errors - 1,
                 d->n_errors == 2 ? "" : "s");
    MU_FAIL_AT(err, MU_EJOB, g->pos, "%s%s", g->msg, more);
    const char *label = g->label ? g->label : "", *hint = g->hint ? g->hint : "";
    size_t n = strlen(label);
    const char *stop = !n || label[n - 1] == '?' || label[n - 1] == '.' ? "" : ".";
    if (n)
        mu_err_hint(err, "%c%s%s%s%s", toupper((unsigned char)label[0]), label + 1, stop, *hint ? " " : "",
                    hint);
    else mu_err_hint(err, "%s", hint);
    return MU_EJOB;
}
