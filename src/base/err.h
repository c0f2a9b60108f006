// SPDX-License-Identifier: Apache-2.0
// err.h - one status type, one error context.
//
// Every fallible function returns a mu_status and, when it is not MU_OK, has filled the caller's
// mu_err. The first report wins: the function that decides the error describes it, callers only pass
// it on and may add one note. A mu_err lives on the caller's stack; it owns nothing. Only the top
// (cli, worker main) prints. Outputs are written only on success.
//
// Message style: one line, lower case, no final period, names in `backticks`, both values of a
// mismatch. The hint is a whole sentence. System failures add the errno text.
#ifndef MU_BASE_ERR_H
#define MU_BASE_ERR_H

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>

//        name         exit  text
#define MU_STATUS_MAP(X)                                         \
    X(OK,              0,    "ok")                               \
    X(ENOMEM,          1,    "out of memory")                    \
    X(EIO,             1,    "input/output failure")             \
    X(EUNSUPPORTED,    1,    "not supported here")               \
    X(EBACKEND,        1,    "library or device failure")        \
    X(EUSAGE,          2,    "bad usage")                        \
    X(EJOB,            3,    "bad job file")                     \
    X(EDATA,           3,    "bad data")                         \
    X(EMODEL,          3,    "bad model file or checkpoint")     \
    X(EDIVERGED,       4,    "training diverged")                \
    X(ERANK,           5,    "a rank was lost")                  \
    X(ENOTFOUND,       6,    "not found")                        \
    X(EHANGUP,         129,  "hung up")                          \
    X(EINTERRUPTED,    130,  "interrupted")                      \
    X(ETERMINATED,     143,  "terminated")

typedef enum mu_status {
#define X(name, code, text) MU_##name,
    MU_STATUS_MAP(X)
#undef X
} mu_status;

typedef struct mu_srcpos {      // a place in a job file (or any text file)
    const char *path;           // borrowed; NULL = no place
    int         line, col;      // from 1; line 0 = the whole file
    int         span;           // columns to underline, 0 = unknown (draw one caret)
} mu_srcpos;

typedef struct mu_err {
    mu_status   status;
    const char *file;           // C source of the first report, for --debug
    int         line;
    mu_srcpos   pos;            // place in the job file, if the error has one
    char        msg[400];
    char        hint[300];      // "" = none
    char        note[160];      // added by one caller that passes the error on, "" = none
} mu_err;

const char *mu_status_name(mu_status s);        // "EJOB"
const char *mu_status_text(mu_status s);        // "bad job file"
int         mu_status_exit_code(mu_status s);

void mu_err_clear(mu_err *err);

// Fills err unless it already holds a report; returns status. err may be NULL.
mu_status mu_err_report(mu_err *err, mu_status status, const char *file, int line, mu_srcpos pos,
                        const char *fmt, ...) MU_PRINTF(6, 7);
void mu_err_hint(mu_err *err, const char *fmt, ...) MU_PRINTF(2, 3); // a sentence; the first stays
// A hint for the report just made; returns its status: return mu_err_hinted(MU_FAIL(err, ...), err, "Do it.")
mu_status mu_err_hinted(mu_status reported, mu_err *err, const char *fmt, ...) MU_PRINTF(3, 4);
void mu_err_note(mu_err *err, const char *fmt, ...) MU_PRINTF(2, 3); // context; the first stays
// A hint at the word that may be meant, with `before` in front of it; no hint when near is NULL.
mu_status mu_err_suggest(mu_status reported, mu_err *err, const char *before, const char *near);
// Hands on what was reported into a context of one's own; returns its status.
mu_status mu_err_pass(mu_status reported, const mu_err *own, mu_err *err);

#define MU_NOPOS ((mu_srcpos){0})
#define MU_FAIL(err, status, ...) mu_err_report((err), (status), __FILE__, __LINE__, MU_NOPOS, __VA_ARGS__)
#define MU_FAIL_AT(err, status, pos, ...)                                                                    \
    mu_err_report((err), (status), __FILE__, __LINE__, (pos), __VA_ARGS__)
#define MU_FAIL_NOMEM(err, what) MU_FAIL((err), MU_ENOMEM, "out of memory for %s", (what))

// The only two macros that hide a jump.
#define MU_TRY(call)                                                                               \
    do {                                                                                           \
        mu_status mu_try_status_ = (call);                                                         \
        if (MU_UNLIKELY(mu_try_status_ != MU_OK)) return mu_try_status_;                           \
    } while (0)
#define MU_TRY_GOTO(status_var, call, label)                                                       \
    do {                                                                                           \
        (status_var) = (call);                                                                     \
        if (MU_UNLIKELY((status_var) != MU_OK)) goto label;                                        \
    } while (0)

#endif
