// SPDX-License-Identifier: Apache-2.0
// diag.h - the list of problems found in one check of a job.
//
// A checker adds problems and goes on; up to MU_DIAGS_MAX are kept. Printing shows the source line
// with a caret:
//
//     lenet.yaml:12:5: error: unknown key `kernal` in layer `conv1`
//       12 |     kernal: 5
//          |     ^^^^^^ did you mean `kernel`?
#ifndef MU_JOB_DIAG_H
#define MU_JOB_DIAG_H

#include "base/alloc.h"
#include "base/err.h"

#include <stdio.h>

#define MU_DIAGS_MAX 20

typedef enum mu_severity { MU_DIAG_ERROR, MU_DIAG_WARNING } mu_severity;

typedef struct mu_diag {
    mu_severity severity;
    mu_srcpos   pos;
    const char *msg;
    const char *label;          // text beside the caret, usually "did you mean `x`?"; NULL = none
    const char *hint;           // printed on a line of its own; NULL = none
} mu_diag;

typedef struct mu_diags {
    mu_arena *arena;            // borrowed: strings and source texts live there
    size_t    n;                // kept
    size_t    n_errors, n_warnings;     // all, also those beyond MU_DIAGS_MAX
    mu_diag   list[MU_DIAGS_MAX];
    struct { const char *path, *text; } source[4];      // texts that positions point into
    size_t    n_sources;
    bool no_memory; // something could not be kept; counted as one error, the caller gives MU_ENOMEM
    mu_diag   spare;            // handed out when the list is full
} mu_diags;

void mu_diags_init(mu_diags *d, mu_arena *arena);
void mu_diags_add_source(mu_diags *d, const char *path, const char *text);      // borrowed strings
// Adds one problem and returns it so that label and hint can be set; never NULL (a full or
// memory-starved list hands out a spare, also for a problem that is already there word for word).
mu_diag *mu_diags_add(mu_diags *d, mu_severity s, mu_srcpos pos, const char *fmt, ...) MU_PRINTF(4, 5);
void mu_diag_label(mu_diags *d, mu_diag *g, const char *fmt, ...) MU_PRINTF(3, 4);
void mu_diag_hint(mu_diags *d, mu_diag *g, const char *fmt, ...) MU_PRINTF(3, 4);
void mu_diags_add_err(mu_diags *d, const mu_err *err);          // an error context becomes a problem
void mu_diags_no_memory(mu_diags *d);                           // memory ran out while checking
// The error with the first place, NULL if there is none.
const mu_diag *mu_diags_first_error(const mu_diags *d);
// The same as an error context, with label and hint as its hint and the number of the others; MU_EJOB.
// MU_OK when there is none. err->pos borrows the path of the place.
mu_status mu_diags_report(const mu_diags *d, mu_err *err);

void mu_diags_print(const mu_diags *d, FILE *out, bool colour); // sorted by place, then a count line
void mu_diags_print_json(const mu_diags *d, FILE *out);         // one JSON array
// The same picture for a single error at the top of the program (reads the file again for the line).
void mu_err_print(const mu_err *err, FILE *out, bool colour);

#endif
