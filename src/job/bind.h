// SPDX-License-Identifier: Apache-2.0
// bind.h - from tree nodes to C structs by field tables.
//
// Binding never stops at the first problem: it reports each one to the diags with its place and goes
// on with the default, so that one check shows everything. Callers look at diags->n_errors.
// All strings and lists a bound struct points to live in the binder's arena.
#ifndef MU_JOB_BIND_H
#define MU_JOB_BIND_H

#include "base/plugin.h"
#include "job/diag.h"
#include "job/node.h"

typedef struct mu_binder {
    mu_arena                 *arena;
    mu_diags                 *diags;
    const char               *folder;           // MU_PATH values are resolved against it
    const mu_registry *const *registries;       // for MU_CLASS fields; NULL-terminated
    int                       rank;             // stands in a MU_PATH value where that has `{rank}`
} mu_binder;

typedef struct mu_bind_part { const mu_field *fields; void *out; } mu_bind_part;

// Binds the keys of `map` into the parts. First every field gets its default; then the map's values
// are parsed and range-checked. A key that is in no part and not in other_keys is an error with a
// suggestion. `what` names the block in messages ("layer `conv1`", "`train`"). map NULL or null:
// only defaults; fields without a default are then reported at `where`.
void mu_bind(mu_binder *b, const mu_node *map, mu_srcpos where, const char *what,
             const mu_bind_part *parts, size_t n_parts, const char *const *other_keys, size_t n_other);

// A plug-in block: `word` or {type: word, key: value...}. `type_key` is "type" (or "reader" for data).
// other_keys are allowed besides the class's own and type_key. Returns {NULL, NULL} after reporting
// when the word is missing or unknown.
mu_class_ref mu_bind_class(mu_binder *b, const mu_node *node, mu_srcpos where, const char *what,
                           const mu_registry *reg, const char *type_key,
                           const char *const *other_keys, size_t n_other);

// Defaults only, e.g. for tests and for classes used without a job. False when a field has no default.
bool mu_bind_defaults(mu_arena *arena, const mu_field *fields, void *out,
                      const mu_registry *const *registries);

// Checks one value the way mu_bind does; for other places that read field-like text (command line).
bool mu_parse_int(const char *text, int64_t *out);              // 42, 10k, 2M, 1e4
bool mu_parse_double(const char *text, double *out);            // also inf is refused
bool mu_parse_duration(const char *text, double *out_s);        // 90, 90s, 15m, 2h, 1d
bool mu_parse_interval(const char *text, mu_interval *out); // "1 epoch", "500 steps", "500", "10m", "never"

#endif
