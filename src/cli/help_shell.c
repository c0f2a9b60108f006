// SPDX-License-Identifier: Apache-2.0
// help_shell.c - see help_shell.h.
//
// All three texts come from the tables of verbs and options that the parser itself uses, so they cannot lag
// behind it. Each form has its own escapes; none of them knows a verb by name.
#include "cli/help_shell.h"

#include "cli/cli.h"
#include "cli/help_topics.h"

#include <string.h>

typedef void (*opt_fn)(FILE *out, const mu_opt *o);

static const mu_verb_class *verb(size_t i) { return (const mu_verb_class *)mu_verbs.list[i]; }

static void each_option(FILE *out, const mu_verb_class *v, opt_fn fn) {
    for (const mu_opt *o = v->args.options; o && o->name; o++) fn(out, o);
    for (const mu_opt *o = mu_args_common(); o->name; o++)
        if (mu_args_has_common(&v->args, o)) fn(out, o);
}

static void put_choices(FILE *out, const char *choices) {
    for (; *choices; choices++) fputc(*choices == '|' ? ' ' : *choices, out);
}

static void put_topics(FILE *out) {
    size_t n;
    const mu_topic *t = mu_topics(&n);
    for (size_t i = 0; i < n; i++) fprintf(out, "%s%s", i ? " " : "", t[i].word);
}

// ---- bash ---------------------------------------------------------------------------------------

static void bash_name(FILE *out, const mu_opt *o) { fprintf(out, " --%s", o->name); }

static void bash_value(FILE *out, const mu_opt *o) {
    if (o->kind == MU_OPT_FLAG) return;
    fprintf(out, "            --%s) ", o->name);
    if (o->kind == MU_OPT_CHOICE) {
        fputs("COMPREPLY=($(compgen -W '", out);
        put_choices(out, o->detail);
        fputs("' -- \"$cur\"))", out);
    } else if (o->kind == MU_OPT_FOLDER || o->kind == MU_OPT_MAYBE_FOLDER) {
        fputs("COMPREPLY=($(compgen -d -- \"$cur\"))", out);
    } else if (o->kind == MU_OPT_FILE) {
        fputs("COMPREPLY=($(compgen -f -- \"$cur\"))", out);
    } else {
        fputs("COMPREPLY=()", out);
    }
    fputs("; return ;;\n", out);
}

static void bash_verb(FILE *out, const mu_verb_class *v) {
    fprintf(out, "    %s)\n        case \"$prev\" in\n", v->name);
    each_option(out, v, bash_value);
    fputs("        esac\n        words='", out);
    each_option(out, v, bash_name);
    fputs("'\n        ;;\n", out);
}

static void print_bash(FILE *out) {
    fputs("# bash completion of muster; made by `muster help --completion bash`\n"
          "_muster() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '", out);
    for (size_t i = 0; i < mu_verbs.n; i++) fprintf(out, "%s ", mu_verbs.list[i]->name);
    fputs("--help --version' -- \"$cur\"))\n        return\n    fi\n    case \"${COMP_WORDS[1]}\" in\n", out);
    for (size_t i = 0; i < mu_verbs.n; i++) bash_verb(out, verb(i));
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); return; fi\n"
          "    if [ \"${COMP_WORDS[1]}\" = help ]; then COMPREPLY=($(compgen -W '", out);
    put_topics(out);
    fputs("' -- \"$cur\")); return; fi\n"
          "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "}\n"
          "complete -o filenames -F _muster muster\n", out);
}

// ---- zsh ----------------------------------------------------------------------------------------

// Text inside '...[...]': quotes and brackets would end it, colons divide fields.
static void zsh_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'') fputs("'\\''", out);
        else if (strchr("[]:\\", *text)) fprintf(out, "\\%c", *text);
        else fputc(*text, out);
    }
}

static void zsh_option(FILE *out, const mu_opt *o) {
    bool repeat = !strcmp(o->name, "set");
    fprintf(out, "                '%s--%s%s[", repeat ? "*" : "", o->name, o->kind == MU_OPT_FLAG ? "" : "=");
    zsh_text(out, o->help);
    fputs("]", out);
    if (o->kind == MU_OPT_CHOICE) {
        fprintf(out, ":%s:(", o->arg);
        put_choices(out, o->detail);
        fputs(")", out);
    } else if (o->kind == MU_OPT_FILE) {
        fputs(":file:_files", out);
    } else if (o->kind == MU_OPT_FOLDER || o->kind == MU_OPT_MAYBE_FOLDER) {
        fputs(":folder:_files -/", out);
    } else if (o->kind != MU_OPT_FLAG) {
        fprintf(out, ":%s:", o->arg);
    }
    fputs("' \\\n", out);
}

static void print_zsh(FILE *out) {
    fputs("#compdef muster\n"
          "# zsh completion of muster; made by `muster help --completion zsh`\n"
          "_muster() {\n"
          "    local -a verbs\n"
          "    verbs=(\n", out);
    for (size_t i = 0; i < mu_verbs.n; i++) {
        fprintf(out, "        '%s:", mu_verbs.list[i]->name);
        zsh_text(out, mu_verbs.list[i]->help);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then _describe verb verbs; return; fi\n"
          "    case $words[2] in\n", out);
    for (size_t i = 0; i < mu_verbs.n; i++) {
        fprintf(out, "        %s)\n            _arguments -s : \\\n", verb(i)->name);
        each_option(out, verb(i), zsh_option);
        if (!strcmp(verb(i)->name, "help"))
            fputs("                '2:topic:(", out), put_topics(out), fputs(")'", out);
        else fputs("                '*:file:_files'", out);
        fputs(" ;;\n", out);
    }
    fputs("    esac\n}\n_muster \"$@\"\n", out);
}

void mu_print_completion(const char *shell, FILE *out) {
    if (!strcmp(shell, "zsh")) print_zsh(out);
    else print_bash(out);
}

// ---- man ----------------------------------------------------------------------------------------

static void man_text(FILE *out, const char *text) {
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '-') fputs("\\-", out);
        else if (*text == '\\') fputs("\\e", out);
        else if (*text == '\n') fputs("\n.br\n", out);
        else fputc(*text, out);
    }
}

static void man_option(FILE *out, const mu_opt *o) {
    fputs(".TP\n\\fB\\-\\-", out);
    man_text(out, o->name);
    fputs("\\fR", out);
    if (o->arg) {
        fputs(" \\fI", out);
        man_text(out, o->kind == MU_OPT_CHOICE ? o->detail : o->arg);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    man_text(out, o->help);
    fputc('\n', out);
}

static void man_verb(FILE *out, const mu_verb_class *v) {
    fputs(".SS \"muster ", out);
    man_text(out, v->name);
    fputc(' ', out);
    man_text(out, v->usage);
    fputs("\"\n", out);
    man_text(out, v->about ? v->about : v->help);
    fputs("\n.PP\nExample:\n.PP\n.nf\n.RS\n", out);
    for (const char *p = v->example; *p; p++) {
        if (*p == '-') fputs("\\-", out);
        else fputc(*p, out);
    }
    fputs("\n.RE\n.fi\n", out);
    for (const mu_opt *o = v->args.options; o && o->name; o++) man_option(out, o);
}

static void man_exit_status(FILE *out) {
    static const struct { int code; const char *text;
    } rows[] = {
        {0, "ok"},
        {1, "failure"},
        {2, "bad usage"},
        {3, "bad job file, data or model"},
        {4, "training diverged"},
        {6, "not found"},
        {129, "hung up (SIGHUP: the terminal was closed), after a clean checkpoint"},
        {130, "interrupted (SIGINT), after a clean checkpoint"},
        {143, "terminated (SIGTERM), after a clean checkpoint"},
    };
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < MU_COUNT(rows); i++) fprintf(out, ".TP\n%d\n%s\n", rows[i].code, rows[i].text);
}

void mu_print_man(FILE *out) {
    fputs(".TH MUSTER 1 \"\" \"muster " MU_VERSION "\" \"User Commands\"\n"
          ".SH NAME\nmuster \\- train deep networks from a job file\n"
          ".SH SYNOPSIS\n.B muster\n.I verb\n.RI [ words ]\n.RI [ options ]\n"
          ".SH DESCRIPTION\nMuster trains, tests and times deep networks that a YAML job file describes.\n"
          "Results go to standard output, messages to standard error.\n"
          ".SH VERBS\n", out);
    for (size_t i = 0; i < mu_verbs.n; i++) man_verb(out, verb(i));
    fputs(".SH COMMON OPTIONS\n\\fB\\-\\-set\\fR and \\fB\\-\\-json\\fR where they make sense, the others "
          "everywhere.\n",
          out);
    for (const mu_opt *o = mu_args_common(); o->name; o++) man_option(out, o);
    man_exit_status(out);
    fputs(".SH ENVIRONMENT\n"
          ".TP\n.I MUSTER_<OPTION>\nvalue of an option that is not given, e.g. MUSTER_SEED for \\-\\-seed\n"
          ".TP\n.B MUSTER_OPS\nrestricts the implementations of ops, e.g. ref\n"
          ".TP\n.B MUSTER_CPU\nlevel of instructions at most: v2, v3 or v4 of x86-64\n"
          ".TP\n.B NO_COLOR, TERM=dumb, COLUMNS\nobeyed\n"
          ".SH FILES\n.TP\n.I runs/<name>\\-<id>/\nresolved job, metrics, log and checkpoints of a run\n"
          ".SH SEE ALSO\n.B muster help job\nfor the job file\n", out);
}
