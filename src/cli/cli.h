// SPDX-License-Identifier: Apache-2.0
// cli.h - station 0: verbs (c_<verb>.c), found by file name like every plug-in.
//
// To add a verb `frob`, write src/cli/c_frob.c and nothing else:
//
//     struct frob { int64_t times; const char *out; };
//     static const mu_opt options[] = {
//         MU_OPT(struct frob, times, "times", MU_OPT_INT, "N", "how often; 1 when not given"),
//         MU_OPT_KEY("epochs", "E", "train.epochs", "passes over the data"),     // a --set with a name
//         {0},
//     };
//     static mu_status run(mu_args *a, void *values, mu_err *err) {
//         struct frob *f = values;            // filled; mu_args_given(a, "times") tells 0 from absent
//         const char *job = a->word[0];       // a->set, a->n_sets go to mu_job_load
//         ...
//     }
//     const mu_verb_class mu_verb_frob = {
//         .name = "frob", .help = "frobs a job", .state_size = sizeof(struct frob),
//         .usage = "JOB [options]", .example = "muster frob job.yaml --times 3",
//         .args = {.options = options, MU_ARGS_ONE_WORD("a job file")},
//         .run = run,
//     };
//
// A file c_my_verb.c (symbol mu_verb_my_verb) is the verb `my-verb`: its .name says so.
// `muster frob -h`, the man page and the completions follow from the table.
//
// Rules: data goes to stdout, everything said to people to stderr (mu_info, mu_warn, mu_progress).
// A verb returns a status; main prints the mu_err and turns the status into the exit code. A verb that
// has shown its problems already (mu_diags_print) returns the status with err->msg empty.
#ifndef MU_CLI_CLI_H
#define MU_CLI_CLI_H

#include "base/err.h"
#include "base/plugin.h"
#include "cli/args.h"

typedef struct mu_verb_class {
    MU_PLUGIN_HEAD;             // state_size = the struct the options are written into; fields unused
    const char   *usage;        // what follows `muster <verb>`
    const char   *example;      // one command a line; help starts with it
    const char   *about;        // (optional) paragraphs after the usage
    mu_args_spec  args;
    mu_status   (*run)(mu_args *a, void *values, mu_err *err);
} mu_verb_class;

extern const mu_registry mu_verbs;

// The whole program: finds the verb, parses, runs, prints the error. Returns the exit code.
int mu_cli_main(int argc, char *const *argv);

// Help in the form of `muster -h` and `muster <verb> -h`: at most 80 columns.
void mu_cli_print_verbs(FILE *out);
void mu_cli_print_verb(const mu_verb_class *v, FILE *out);

#endif
