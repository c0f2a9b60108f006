// SPDX-License-Identifier: Apache-2.0
// help_page.c - see help_page.h.
#include "cli/help_page.h"

#include "cli/term.h"

#include <string.h>

static bool markdown(const mu_help_page *p) { return p->style == MU_HELP_MARKDOWN; }

void mu_help_heading(mu_help_page *p, int level, const char *text) {
    if (!markdown(p)) {
        mu_text_fill(p->out, text, 0, 0, MU_TEXT_COLUMNS);
        fputc('\n', p->out);
        return;
    }
    for (int i = 0; i < level; i++) fputc('#', p->out);
    fprintf(p->out, " %s\n\n", text);
}

void mu_help_paragraph(mu_help_page *p, const char *text) {
    if (markdown(p)) fprintf(p->out, "%s\n", text);
    else mu_text_fill(p->out, text, 0, 0, MU_TEXT_COLUMNS);
    fputc('\n', p->out);
}

void mu_help_code(mu_help_page *p, const char *text) {
    for (const char *s = text; *s;) {
        int n = (int)strcspn(s, "\n");
        fprintf(p->out, "%s%.*s\n", markdown(p) ? "    " : "  ", n, s);
        s += n + (s[n] == '\n');
    }
    fputc('\n', p->out);
}

void mu_help_begin_list(mu_help_page *p) {
    if (markdown(p)) fputs("| word | what |\n|---|---|\n", p->out);
}

void mu_help_item(mu_help_page *p, const char *word, const char *text) {
    if (markdown(p)) {
        fprintf(p->out, "| `%s` | %s |\n", word, text);
        return;
    }
    int n = fprintf(p->out, "  %s", word);
    mu_text_fill(p->out, text, n, 22, MU_TEXT_COLUMNS);
}

void mu_help_end_list(mu_help_page *p) { fputc('\n', p->out); }

// ---- field tables -------------------------------------------------------------------------------

// How the job writes a value of this type: "whole number", "max|average", "[a, b, ...]", ...
static void describe(const mu_field *f, char *out, size_t size) {
    static const char *const words[] = {
        [MU_BOOL] = "true|false",
        [MU_INT] = "whole number",
        [MU_INT_OR_AUTO] = "auto or whole number",
        [MU_FLOAT] = "number",
        [MU_DOUBLE] = "number",
        [MU_STRING] = "word",
        [MU_PATH] = "path",
        [MU_PAIR] = "number or [h, w]",
        [MU_INTS] = "[whole numbers]",
        [MU_FLOATS] = "[numbers]",
        [MU_STRINGS] = "word or [words]",
        [MU_PATHS] = "path or [paths]",
        [MU_DURATION] = "time (90s, 15m, 2h)",
        [MU_INTERVAL] = "interval (1 epoch, 500 steps, 10m, never)",
    };
    if (f->type == MU_ENUM) snprintf(out, size, "%s", f->choices);
    else if (f->type == MU_CLASS) snprintf(out, size, "%s, or {type: %s, ...}", f->choices, f->choices);
    else if (f->type == MU_NODE) snprintf(out, size, "%s, or {%s}", f->choices, f->range);
    else if (f->type == MU_CLASSES) snprintf(out, size, "[{%s: ...}, ...]", f->choices);
    else if (f->range && *f->range) snprintf(out, size, "%s in %s", words[f->type], f->range);
    else snprintf(out, size, "%s", words[f->type]);
}

static bool is_empty(const char *def) { return !*def || !strcmp(def, "[]"); }

// Markdown cells may not hold a bare bar.
static void cell(FILE *f, const char *text) {
    for (; *text; text++) {
        if (*text == '|') fputc('\\', f);
        fputc(*text, f);
    }
}

static void field_row(mu_help_page *p, const mu_field *f, const char *type) {
    fprintf(p->out, "| `%s` | ", f->key);
    cell(p->out, type);
    if (!f->def) fputs(" | required | ", p->out);
    else if (is_empty(f->def)) fputs(" | | ", p->out);
    else fprintf(p->out, " | `%s` | ", f->def);
    cell(p->out, f->help);
    fputs(" |\n", p->out);
}

static void field_text(mu_help_page *p, const mu_field *f, const char *type) {
    char text[600], note[100] = "";
    if (!f->def) snprintf(note, sizeof note, "; required");
    else if (!is_empty(f->def)) snprintf(note, sizeof note, "; default %s", f->def);
    snprintf(text, sizeof text, "%s\n(%s%s)", f->help, type, note);
    int n = fprintf(p->out, "  %s", f->key);
    mu_text_fill(p->out, text, n, 18, MU_TEXT_COLUMNS);
}

void mu_help_fields(mu_help_page *p, const mu_field *fields) {
    char type[160];
    if (!fields || !fields->key) {
        mu_help_paragraph(p, "No options.");
        return;
    }
    if (markdown(p)) fputs("| key | value | default | meaning |\n|---|---|---|---|\n", p->out);
    for (const mu_field *f = fields; f->key; f++) {
        describe(f, type, sizeof type);
        if (markdown(p)) field_row(p, f, type);
        else field_text(p, f, type);
    }
    fputc('\n', p->out);
}
