// SPDX-License-Identifier: Apache-2.0
// args.h - command-line options from one table per verb.
//
// The table parses the words, prints `muster <verb> -h`, the man page and the shell completions, and
// knows the nearest option for a typo. Values land in the verb's own struct by offset.
//
//     --name VALUE   --name=VALUE   --flag   --   words that are no options stay words, in order
//
// An option that was not given may come from the environment as MUSTER_<NAME> (--batch-size is
// MUSTER_BATCH_SIZE). Precedence: command line, environment, job file, default.
#ifndef MU_CLI_ARGS_H
#define MU_CLI_ARGS_H

#include "base/alloc.h"
#include "base/err.h"
#include "base/plugin.h"

#include <stdint.h>
#include <stdio.h>

typedef enum mu_opt_kind {
    MU_OPT_FLAG,                // bool
    MU_OPT_TEXT,                // const char *, NULL = not given
    MU_OPT_TEXTS,               // mu_strings: repeatable, in the order given
    MU_OPT_FILE,                // const char *, completed as a file name
    MU_OPT_FOLDER,              // const char *, completed as a folder
    MU_OPT_CHOICE,              // const char *, one of `detail` ("bash|zsh")
    MU_OPT_INT,                 // int64_t: 42, 10k, 2M; not negative
    MU_OPT_NUMBER,              // double
    MU_OPT_DURATION,            // double seconds: 90, 15m, 2h
    MU_OPT_MAYBE_FOLDER,        // const char *: NULL = not given, "" = given alone. The next word is taken
                                // only when it is an existing folder, so `--resume job.yaml` works
    MU_OPT_JOB,                 // no place: --epochs 3 becomes the --set edit `<detail>=3`
} mu_opt_kind;

typedef struct mu_opt {
    const char *name;           // without the dashes; NULL ends the table
    mu_opt_kind kind;
    size_t      offset;         // into the verb's struct
    const char *arg;            // what stands for the value in help ("N", "FILE"); NULL for flags
    const char *detail;         // CHOICE: the words; JOB: the key path; else NULL
    const char *help;           // one line, lower case, no final period
} mu_opt;

#define MU_OPT(type_, member, name_, kind_, arg_, help_)                                                     \
    { name_, kind_, offsetof(type_, member), arg_, NULL, help_ }
#define MU_OPT_ONE_OF(type_, member, name_, choices, help_) \
    { name_, MU_OPT_CHOICE, offsetof(type_, member), "WORD", choices, help_ }
#define MU_OPT_KEY(name_, arg_, path, help_) { name_, MU_OPT_JOB, 0, arg_, path, help_ }

enum {                          // options every verb may ask for by bit
    MU_COMMON_SET  = 1,         // --set KEY=VALUE, repeatable
    MU_COMMON_JSON = 2,         // --json
};                              // --quiet, --verbose, --log-format and -h/--help are always there

typedef struct mu_args_spec {
    const mu_opt *options;      // (optional, none) the verb's own
    unsigned      common;       // MU_COMMON_*
    int           min_words, max_words; // max < 0: any number
    const char   *words_are;    // what the words are, for "needs ..." ("a job file")
} mu_args_spec;

// Of a verb that takes one word, and the options --set and --json.
#define MU_ARGS_ONE_WORD(is) \
    .common = MU_COMMON_SET | MU_COMMON_JSON, .min_words = 1, .max_words = 1, .words_are = (is)

typedef struct mu_args {
    const char        **word;   // borrowed from argv
    int                 n_words;
    const char        **set;    // edits for mu_job_load, in order
    size_t              n_sets;
    bool                json, quiet, verbose, help;
    const char         *log_format;     // "text" or "json"
    // private
    mu_arena            arena;
    const mu_opt      **given;
    size_t              n_given;
} mu_args;

// The options of MU_COMMON_* and those always there; their offsets are into mu_args.
const mu_opt *mu_args_common(void);
bool mu_args_has_common(const mu_args_spec *spec, const mu_opt *common);

// Parses argv[0..argc) (words after the verb) into *out and `values`, the verb's zeroed struct.
// MU_EUSAGE with a suggestion. --help ends the parse at once with out->help set. mu_args_fini always.
mu_status mu_args_parse(const mu_args_spec *spec, int argc, char *const *argv, mu_args *out, void *values,
                        mu_err *err);
void mu_args_fini(mu_args *a);

bool mu_args_given(const mu_args *a, const char *name); // on the command line or in the environment
// Adds an edit of a verb's own making; the text is copied.
mu_status mu_args_add_set(mu_args *a, mu_err *err, const char *fmt, ...) MU_PRINTF(3, 4);

#endif
