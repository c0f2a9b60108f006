// SPDX-License-Identifier: Apache-2.0
// args.c - see args.h.
//
// The command line is read first, then the environment for options that it did not give; both set values by
// the same functions, so a bad value is refused in the same words. An option of kind JOB sets nothing here:
// it becomes an edit of the job.
#include "cli/args.h"

#include "base/plugin.h"
#include "file/fs.h"
#include "job/bind.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// Bits of MU_COMMON_* stand beside the rows they switch; 0 = always there.
static const mu_opt common[] = {
    {"set", MU_OPT_JOB, 0, "KEY=VALUE", "", "change a key of the job, e.g. train.batch=32; repeatable"},
    MU_OPT(mu_args, json, "json", MU_OPT_FLAG, NULL, "print one JSON object on stdout at the end"),
    MU_OPT(mu_args, quiet, "quiet", MU_OPT_FLAG, NULL, "only warnings, errors and results"),
    MU_OPT(mu_args, verbose, "verbose", MU_OPT_FLAG, NULL, "also say what was chosen at set-up and why"),
    MU_OPT_ONE_OF(mu_args, log_format, "log-format", "text|json", "form of messages on stderr"),
    MU_OPT(mu_args, help, "help", MU_OPT_FLAG, NULL, "print this help (also -h)"),
    {0},
};
static const unsigned common_bit[] = {MU_COMMON_SET, MU_COMMON_JSON, 0, 0, 0, 0};

const mu_opt *mu_args_common(void) { return common; }

bool mu_args_has_common(const mu_args_spec *spec, const mu_opt *o) {
    unsigned bit = common_bit[o - common];
    return !bit || (spec->common & bit);
}

static bool is_common(const mu_opt *o) { return o >= common && o < common + MU_COUNT(common); }

static const mu_opt *find(const mu_args_spec *spec, const char *name, size_t n) {
    for (const mu_opt *o = spec->options; o && o->name; o++)
        if (strlen(o->name) == n && !strncmp(o->name, name, n)) return o;
    for (const mu_opt *o = common; o->name; o++)
        if (mu_args_has_common(spec, o) && strlen(o->name) == n && !strncmp(o->name, name, n)) return o;
    return NULL;
}

static mu_status unknown(const mu_args_spec *spec, const char *word, mu_err *err) {
    const char *names[64];
    size_t n = 0;
    for (const mu_opt *o = spec->options; o && o->name && n < 56; o++) names[n++] = o->name;
    for (const mu_opt *o = common; o->name && n < MU_COUNT(names); o++)
        if (mu_args_has_common(spec, o)) names[n++] = o->name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    MU_FAIL(err, MU_EUSAGE, "unknown option `%s`", name);
    mu_err_suggest(MU_EUSAGE, err, "--", mu_nearest(name + strspn(name, "-"), names, n));
    return mu_err_hinted(MU_EUSAGE, err, "`--help` lists the options.");
}

// ---- edits of the job ---------------------------------------------------------------------------

static mu_status push_set(mu_args *a, const char *text, mu_err *err) {
    if (a->n_sets % 16 == 0) {
        const char **more = mu_arena_array(&a->arena, a->n_sets + 16, sizeof *more);
        if (!more) return MU_FAIL_NOMEM(err, "options");
        if (a->n_sets) memcpy(more, a->set, a->n_sets * sizeof *more);
        a->set = more;
    }
    a->set[a->n_sets++] = text;
    return MU_OK;
}

mu_status mu_args_add_set(mu_args *a, mu_err *err, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text)
        return MU_FAIL(err, MU_EUSAGE, "edit `%.40s...` is too long", text);
    char *copy = mu_arena_strdup(&a->arena, text);
    if (!copy) return MU_FAIL_NOMEM(err, "options");
    return push_set(a, copy, err);
}

static mu_status add_job_edit(mu_args *a, const mu_opt *o, const char *value, mu_err *err) {
    if (*o->detail) return mu_args_add_set(a, err, "%s=%s", o->detail, value);
    const char *eq = strchr(value, '=');
    if (!eq || eq == value)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "`--set %s` is no KEY=VALUE", value), err,
                             "Write for example `--set train.batch=32`.");
    return push_set(a, value, err);
}

// ---- values -------------------------------------------------------------------------------------

static mu_status bad_value(const mu_opt *o, const char *value, const char *want, mu_err *err) {
    return MU_FAIL(err, MU_EUSAGE, "option `--%s` takes %s, not `%s`", o->name, want, value);
}

static mu_status choose(const mu_opt *o, const char *value, const char **out, mu_err *err) {
    if (mu_choice_find(o->detail, value) < 0) return bad_value(o, value, o->detail, err);
    *out = value;
    return MU_OK;
}

static mu_status push_text(mu_args *a, mu_strings *list, const char *value, mu_err *err) {
    const char **more = mu_arena_array(&a->arena, list->n + 1, sizeof *more);
    if (!more) return MU_FAIL_NOMEM(err, "options");
    if (list->n) memcpy(more, list->v, list->n * sizeof *more);
    more[list->n] = value;
    *list = (mu_strings){list->n + 1, more};
    return MU_OK;
}

// Writes a value to its place. `a` for edits and for the common options.
static mu_status store(mu_args *a, const mu_opt *o, const char *value, void *values, mu_err *err) {
    void *at = is_common(o) ? (char *)a + o->offset : (char *)values + o->offset;
    switch (o->kind) {
    case MU_OPT_FLAG: *(bool *)at = true; break;
    case MU_OPT_TEXT:
    case MU_OPT_FILE:
    case MU_OPT_FOLDER:
    case MU_OPT_MAYBE_FOLDER: *(const char **)at = value; break;
    case MU_OPT_TEXTS: return push_text(a, at, value, err);
    case MU_OPT_CHOICE: return choose(o, value, at, err);
    case MU_OPT_INT:
        if (!mu_parse_int(value, at) || *(int64_t *)at < 0) return bad_value(o, value, "a whole number", err);
        break;
    case MU_OPT_NUMBER:
        if (!mu_parse_double(value, at)) return bad_value(o, value, "a number", err);
        break;
    case MU_OPT_DURATION:
        if (!mu_parse_duration(value, at)) return bad_value(o, value, "a time such as 90s, 15m or 2h", err);
        break;
    case MU_OPT_JOB: return add_job_edit(a, o, value, err);
    }
    return MU_OK;
}

// One option at argv[*i]; moves *i on when the value is the next word.
static mu_status option(const mu_args_spec *spec, int argc, char *const *argv, int *i, mu_args *a,
                        void *values, mu_err *err) {
    const char *word = argv[*i], *name = word + 2, *eq = strchr(name, '='), *value = eq ? eq + 1 : NULL;
    if (!strcmp(word, "-h")) name = "help";
    else if (!strcmp(word, "-q")) name = "quiet";
    else if (word[1] != '-') return unknown(spec, word, err);
    const mu_opt *o = find(spec, name, eq ? (size_t)(eq - name) : strlen(name));
    if (!o) return unknown(spec, word, err);
    if (o->kind == MU_OPT_FLAG) {
        if (value) return MU_FAIL(err, MU_EUSAGE, "option `--%s` takes no value", o->name);
    } else if (o->kind == MU_OPT_MAYBE_FOLDER) {
        if (!value) value = *i + 1 < argc && mu_fs_is_folder(argv[*i + 1]) ? argv[++*i] : "";
    } else if (!value) {
        if (*i + 1 >= argc)
            return MU_FAIL(err, MU_EUSAGE, "option `--%s` needs a value (%s)", o->name, o->arg);
        value = argv[++*i];
    }
    a->given[a->n_given++] = o;
    return store(a, o, value, values, err);
}

// ---- the environment ----------------------------------------------------------------------------

static mu_status from_environment(mu_args *a, const mu_opt *o, void *values, mu_err *err) {
    char name[80];
    int n = snprintf(name, sizeof name, "MUSTER_%s", o->name);
    for (int i = 0; i < n && i < (int)sizeof name; i++)
        name[i] = (char)(name[i] == '-' ? '_' : toupper((unsigned char)name[i]));
    const char *value = getenv(name);
    if (!value || !*value) return MU_OK;
    if (o->kind == MU_OPT_FLAG && !strcmp(value, "0")) return MU_OK;
    a->given[a->n_given++] = o;
    mu_status s = store(a, o, value, values, err);
    if (s) mu_err_note(err, "from the environment, %s", name);
    return s;
}

static mu_status environment(const mu_args_spec *spec, mu_args *a, void *values, mu_err *err) {
    for (const mu_opt *o = spec->options; o && o->name; o++)
        if (!mu_args_given(a, o->name)) MU_TRY(from_environment(a, o, values, err));
    for (const mu_opt *o = common; o->name; o++)
        if (o->kind != MU_OPT_JOB && mu_args_has_common(spec, o) && strcmp(o->name, "help")
            && !mu_args_given(a, o->name))
            MU_TRY(from_environment(a, o, values, err));
    return MU_OK;
}

// ---- whole lines --------------------------------------------------------------------------------

static mu_status check_words(const mu_args_spec *spec, const mu_args *a, mu_err *err) {
    if (a->n_words < spec->min_words) {
        MU_FAIL(err, MU_EUSAGE, "%s is missing", spec->words_are ? spec->words_are : "an argument");
        return MU_EUSAGE;
    }
    if (spec->max_words >= 0 && a->n_words > spec->max_words)
        return MU_FAIL(err, MU_EUSAGE, "unexpected word `%s`", a->word[spec->max_words]);
    return MU_OK;
}

mu_status mu_args_parse(const mu_args_spec *spec, int argc, char *const *argv, mu_args *a, void *values,
                        mu_err *err) {
    memset(a, 0, sizeof *a);
    mu_arena_init(&a->arena, "options");
    size_t n_options = MU_COUNT(common);
    for (const mu_opt *o = spec->options; o && o->name; o++) n_options++;
    a->word = mu_arena_array(&a->arena, (size_t)argc + 1, sizeof *a->word);
    a->given = mu_arena_array(&a->arena, (size_t)argc + n_options, sizeof *a->given);
    if (!a->word || !a->given) return MU_FAIL_NOMEM(err, "options");
    bool only_words = false;
    for (int i = 0; i < argc; i++) {
        const char *w = argv[i];
        if (only_words || w[0] != '-' || !w[1]) a->word[a->n_words++] = w;
        else if (!strcmp(w, "--")) only_words = true;
        else MU_TRY(option(spec, argc, argv, &i, a, values, err));
        if (a->help) return MU_OK;
    }
    MU_TRY(check_words(spec, a, err));
    MU_TRY(environment(spec, a, values, err));
    if (!a->log_format) a->log_format = "text";
    return MU_OK;
}

void mu_args_fini(mu_args *a) { mu_arena_fini(&a->arena); }

bool mu_args_given(const mu_args *a, const char *name) {
    for (size_t i = 0; i < a->n_given; i++)
        if (!strcmp(a->given[i]->name, name)) return true;
    return false;
}
