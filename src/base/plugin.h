// SPDX-License-Identifier: Apache-2.0
// plugin.h - what every plug-in class begins with, and the registries.
//
// A plug-in is one const table in one file whose name carries the folder's letter (l_relu.c,
// u_sgd.c, r_idx.c, ...). The build turns the file names into <kind>_list.inc with one X(name) a file,
// and <kind>_class_list.inc, an array of the tables for the folder's main .c.
// So adding or deleting the file is the whole act, and a wrong symbol name is a link error.
//
// A field table is the schema of the plug-in's block in the job file. The one table drives parsing,
// defaults, range errors with position, `muster help`, and docs/jobfile.md.
#ifndef MU_BASE_PLUGIN_H
#define MU_BASE_PLUGIN_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mu_field_type {
    MU_BOOL,            // bool
    MU_INT,             // int64_t; the job may write 10k, 1M
    MU_INT_OR_AUTO,     // int64_t; MU_AUTO, outside of every range: the owner of the key decides
    MU_FLOAT,           // float
    MU_DOUBLE,          // double
    MU_STRING,          // const char *, NULL when the default is ""
    MU_PATH,            // const char *, resolved against the job file's folder
    MU_ENUM,            // int: index into choices
    MU_PAIR,            // int64_t[2]: one number for both, or [height, width]
    MU_INTS,            // mu_ints
    MU_FLOATS,          // mu_floats
    MU_STRINGS,         // mu_strings; one word stands for a list of one
    MU_PATHS,           // mu_strings, each resolved like MU_PATH
    MU_DURATION,        // double seconds: 90, 90s, 15m, 2h
    MU_INTERVAL,        // mu_interval: "1 epoch", "500 steps", "10m"
    MU_CLASS,           // mu_class_ref: a plug-in block, a word or {type: word, ...}; choices = registry kind
    MU_CLASSES,         // mu_class_refs: a list of such blocks; one block stands for a list of one
    MU_NODE,            // const struct mu_node *: a word or a block, which the owner of the key reads; NULL =
                        // none. choices are the words, range the keys of the block, both for help
} mu_field_type;

enum { MU_AUTO = -1 };

typedef struct mu_ints    { size_t n; const int64_t *v; } mu_ints;
typedef struct mu_floats  { size_t n; const float *v; } mu_floats;
typedef struct mu_strings { size_t n; const char *const *v; } mu_strings;

typedef enum mu_interval_unit {
    MU_EVERY_NEVER,
    MU_EVERY_STEP,
    MU_EVERY_EPOCH,
    MU_EVERY_SECOND,
    MU_EVERY_AUTO       // the owner of the key decides; only of keys that have it as their default
} mu_interval_unit;
typedef struct mu_interval { mu_interval_unit unit; double n; } mu_interval;

typedef struct mu_class_ref {           // a chosen plug-in with its bound fields
    const struct mu_plugin *plugin;     // NULL = not given and no default
    void                   *state;      // state_size bytes, fields filled
} mu_class_ref;

typedef struct mu_class_refs { size_t n; const mu_class_ref *v; const mu_srcpos *pos; } mu_class_refs;

typedef struct mu_field {
    const char   *key;          // NULL ends the table
    mu_field_type type;
    size_t        offset;       // into the plug-in's state
    const char   *def;          // default as the job would write it; NULL = must be given
    const char *range; // numbers: "[0,1)", "(0,)", "[1,1k]"; NULL or "" = any. Lists: of each element
    const char   *choices;      // MU_ENUM: "max|average"; MU_CLASS(ES): registry kind ("schedule")
    const char   *help;         // one line, lower case, no final period
} mu_field;

#define MU_FIELD(type_, member, ftype, def, range, help) \
    { #member, ftype, offsetof(type_, member), def, range, NULL, help }
#define MU_FIELD_ENUM(type_, member, def, choices, help) \
    { #member, MU_ENUM, offsetof(type_, member), def, NULL, choices, help }
#define MU_FIELD_CLASS(type_, member, def, kind, help) \
    { #member, MU_CLASS, offsetof(type_, member), def, NULL, kind, help }

#define MU_FIELD_CLASSES(type_, member, def, kind, help) \
    { #member, MU_CLASSES, offsetof(type_, member), def, NULL, kind, help }

typedef struct mu_plugin {
    const char     *name;       // the job file's word
    const char     *help;       // one line for `muster help`
    const mu_field *fields;     // may be NULL: no options
    size_t          state_size; // zeroed private bytes the fields are written into, 0 = none
} mu_plugin;

// First member of every class struct: the four words by name, and as one mu_plugin.
#define MU_PLUGIN_HEAD                                                                             \
    union {                                                                                        \
        mu_plugin plugin;                                                                          \
        struct { const char *name, *help; const mu_field *fields; size_t state_size; };            \
    }

typedef struct mu_registry {
    const char             *kind;       // "layer", "updater", ...
    size_t                  n;
    const mu_plugin *const *list;       // sorted by file name
} mu_registry;

const mu_plugin *mu_registry_find(const mu_registry *r, const char *name);      // NULL if unknown

// The word of the list nearest to `word` by edit distance, NULL if none is near. For "did you mean".
const char *mu_nearest(const char *word, const char *const *list, size_t n);
const char *mu_registry_nearest(const mu_registry *r, const char *word);

// Index of `word` in "a|b|c", -1 if absent. mu_choice_name copies the i-th name out.
int  mu_choice_find(const char *choices, const char *word);
bool mu_choice_name(const char *choices, int i, char *out, size_t size);

#endif
