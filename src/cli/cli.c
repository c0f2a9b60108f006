// SPDX-License-Identifier: Apache-2.0
// cli.c - from argv to a verb and from its status to the exit code.
#include "cli/cli.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/startup.h"
#include "cli/term.h"
#include "job/diag.h"

#include <errno.h>
#include <string.h>

#include "verb_class_list.inc" // the tables of all files, as `list`
const mu_registry mu_verbs = {"verb", MU_COUNT(list), list};

// ---- help ---------------------------------------------------------------------------------------

void mu_cli_print_verbs(FILE *out) {
    fputs("Examples:\n"
          "  muster init lenet job.yaml      write a commented example job\n"
          "  muster train job.yaml           train it; Ctrl-C saves and stops\n"
          "\n"
          "Usage: muster VERB [words] [options]\n"
          "\n"
          "Muster trains deep networks from a job file.\n"
          "\n"
          "Verbs:\n", out);
    for (size_t i = 0; i < mu_verbs.n; i++) {
        int n = fprintf(out, "  %s", mu_verbs.list[i]->name);
        mu_text_fill(out, mu_verbs.list[i]->help, n, 13, MU_TEXT_COLUMNS);
    }
    fputs("\n"
          "muster VERB -h       options of a verb\n"
          "muster help layer    layers; also init, reader, updater, schedule, algorithm, op\n"
          "muster help job      outline of the job file\n"
          "muster --version\n", out);
}

static void print_option(const mu_opt *o, FILE *out) {
    int n = fprintf(out, "  --%s", o->name);
    if (o->kind == MU_OPT_CHOICE) n += fprintf(out, " %s", o->detail);
    else if (o->kind == MU_OPT_MAYBE_FOLDER) n += fprintf(out, " [%s]", o->arg);
    else if (o->arg) n += fprintf(out, " %s", o->arg);
    mu_text_fill(out, o->help, n, 26, MU_TEXT_COLUMNS);
}

void mu_cli_print_verb(const mu_verb_class *v, FILE *out) {
    fputs(strchr(v->example, '\n') ? "Examples:\n" : "Example:\n", out);
    for (const char *p = v->example; *p;) {
        int n = (int)strcspn(p, "\n");
        fprintf(out, "  %.*s\n", n, p);
        p += n + (p[n] == '\n');
    }
    fprintf(out, "\nUsage: muster %s %s\n\n", v->name, v->usage);
    mu_text_fill(out, v->about ? v->about : v->help, 0, 0, MU_TEXT_COLUMNS);
    fputs("\nOptions:\n", out);
    for (const mu_opt *o = v->args.options; o && o->name; o++) print_option(o, out);
    for (const mu_opt *o = mu_args_common(); o->name; o++)
        if (mu_args_has_common(&v->args, o)) print_option(o, out);
}

// ---- running ------------------------------------------------------------------------------------

static void print_error(const mu_err *err) {
    if (err->msg[0]) mu_err_print(err, stderr, mu_term_colour(stderr));
}

// Results that never reached their file are a failure, however well the verb went.
static mu_status flush_stdout(mu_err *err) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return MU_OK;
    return MU_FAIL(err, MU_EIO, "cannot write to standard output: %s", strerror(errno));
}

static mu_status run_parsed(const mu_verb_class *v, mu_args *a, void *values, mu_err *err) {
    if (a->help) {
        mu_cli_print_verb(v, stdout);
        return flush_stdout(err);
    }
    mu_log_set_json(!strcmp(a->log_format, "json"));
    mu_log_set_level(a->verbose ? MU_LOG_DEBUG : a->quiet ? MU_LOG_WARN : MU_LOG_INFO);
    mu_status s = v->run(a, values, err);
    return s ? s : flush_stdout(err);
}

static mu_status run_verb(const mu_verb_class *v, int argc, char *const *argv, mu_err *err) {
    MU_TRY(mu_startup_check_stack(err));
    void *values = mu_alloc(v->state_size ? v->state_size : 1, "options");
    if (!values) return MU_FAIL_NOMEM(err, "options");
    mu_args a;
    mu_status s = mu_args_parse(&v->args, argc, argv, &a, values, err);
    if (s == MU_EUSAGE) mu_err_hint(err, "Try `muster %s -h`.", v->name);
    if (!s) s = run_parsed(v, &a, values, err);
    mu_args_fini(&a);
    mu_free(values);
    return s;
}

static mu_status unknown_verb(const char *word, mu_err *err) {
    MU_FAIL(err, MU_EUSAGE, word[0] == '-' ? "unknown option `%s`" : "unknown verb `%s`", word);
    mu_err_suggest(MU_EUSAGE, err, "muster ", mu_registry_nearest(&mu_verbs, word));
    return mu_err_hinted(MU_EUSAGE, err, "`muster -h` lists the verbs.");
}

int mu_cli_main(int argc, char *const *argv) {
    mu_err err = {0};
    mu_status s;
    const char *word = argc > 1 ? argv[1] : "-h";
    const mu_plugin *p = mu_registry_find(&mu_verbs, word);
    if (p) {
        s = run_verb((const mu_verb_class *)p, argc - 2, argv + 2, &err);
    } else if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
        mu_cli_print_verbs(stdout);
        s = flush_stdout(&err);
    } else if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
        puts("muster " MU_VERSION);
        s = flush_stdout(&err);
    } else {
        s = unknown_verb(word, &err);
    }
    if (s) print_error(&err);
    return mu_status_exit_code(s);
}
