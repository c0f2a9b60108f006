// SPDX-License-Identifier: Apache-2.0
// yaml_error.c - syntax errors explained to a reader who does not know the YAML grammar.
//
// libyaml gives a problem text with a place, and often a context ("while parsing a block mapping")
// with the place where that construct began. For something left open the beginning is the useful
// place; for everything else the problem is. A table maps the problems people really meet; what is
// not in it is passed on in libyaml's words.
#include "job/yaml_error.h"

#include <string.h>

typedef enum where {
    AT_PROBLEM,
    AT_CONTEXT,                 // where the construct began
    AT_OPEN,                    // the same, if that was on an earlier line
} where;

static const struct explanation {
    const char *problem;        // beginning of libyaml's problem
    const char *context;        // part of its context, NULL = any
    where       at;
    const char *msg, *hint;
} rows[] = {
    {"found unexpected end of stream", "quoted scalar", AT_CONTEXT, "this quote is never closed",
     "Close the text with the same quote, or leave both quotes out."},
    {"found unexpected document indicator", "quoted scalar", AT_CONTEXT, "this quote is never closed",
     "Close the text with the same quote, or leave both quotes out."},
    {"found unknown escape character", NULL, AT_PROBLEM, "unknown escape in a text in double quotes",
     "Write `\\\\` for a backslash, or use single quotes."},
    {"did not find expected hexdecimal number", NULL, AT_PROBLEM, "broken escape in a text in double quotes",
     NULL},
    {"found a tab character", NULL, AT_PROBLEM, "a tab is used for indentation", "Indent with spaces only."},
    {"could not find expected ':'", "simple key", AT_CONTEXT, "expected `key: value` here",
     "Put a `:` and a space after the key, and check for a text that is not closed."},
    {"mapping values are not allowed", NULL, AT_PROBLEM, "a `:` is not expected here",
     "Check the indentation and whether the line above is complete; put a text that contains `: ` in "
     "quotes."},
    {"block sequence entries are not allowed", NULL, AT_PROBLEM, "a list item (`- `) cannot begin here",
     "Begin the list on a line of its own below the key."},
    {"did not find expected key", NULL, AT_PROBLEM, "the indentation does not fit the block above",
     "Keys of one block must begin in the same column."},
    {"did not find expected '-' indicator", NULL, AT_PROBLEM, "expected a list item (`- `) here",
     "Items of one list must begin in the same column."},
    {"did not find expected ',' or '}'", NULL, AT_OPEN, "expected `,` or `}` here",
     "Separate the keys by commas."},
    {"did not find expected ',' or ']'", NULL, AT_OPEN, "expected `,` or `]` here",
     "Separate the items by commas."},
    {"did not find expected node content", NULL, AT_PROBLEM, "expected a value here", NULL},
    {"did not find expected <document start>", NULL, AT_PROBLEM,
     "the indentation does not fit the lines above", "Top-level keys begin in the first column."},
    {"could not determine a simple key", NULL, AT_PROBLEM, "expected `key: value` here", NULL},
    {"did not find expected comment or line break", NULL, AT_PROBLEM, "unexpected text after `|` or `>`",
     NULL},
    {"found undefined tag handle", NULL, AT_PROBLEM, "tags (`!...`) are not used in job files", NULL},
    {"did not find expected alphabetic or numeric", NULL, AT_PROBLEM, "a name is missing after `&` or `*`",
     "Put a text that begins with `*` or `&` in quotes."},
    {"found incompatible YAML document", NULL, AT_PROBLEM, "unknown YAML version",
     "Leave the `%YAML` line out."},
    {"found unknown directive name", NULL, AT_PROBLEM, "a line may not begin with `%`",
     "Put the text in quotes."},
};

static const struct explanation *find_row(const yaml_parser_t *p) {
    const char *context = p->context ? p->context : "";
    for (size_t i = 0; i < MU_COUNT(rows); i++)
        if (!strncmp(p->problem, rows[i].problem, strlen(rows[i].problem))
            && (!rows[i].context || strstr(context, rows[i].context)))
            return &rows[i];
    return NULL;
}

static mu_srcpos place(mu_srcpos origin, yaml_mark_t m) {
    return (mu_srcpos){.path = origin.path, .line = origin.line + (int)m.line,
                       .col = (int)m.column + (m.line ? 1 : origin.col)};
}

// Place of a byte offset; only for the reader's errors, which have no mark.
static mu_srcpos place_of_offset(mu_srcpos origin, const char *text, size_t size, size_t offset) {
    yaml_mark_t m = {0};
    for (size_t i = 0; i < offset && i < size; i++) {
        bool cr_of_crlf = text[i] == '\r' && i + 1 < size && text[i + 1] == '\n';
        if ((text[i] == '\n' || text[i] == '\r') && !cr_of_crlf) m.line++, m.column = 0;
        else if (((unsigned char)text[i] & 0xc0) != 0x80) m.column++;
    }
    return place(origin, m);
}

static mu_status report(mu_diags *d, mu_srcpos pos, const char *msg, const char *hint, mu_err *err) {
    mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, pos, "%s", msg);
    if (hint) mu_diag_hint(d, g, "%s", hint);
    return MU_FAIL_AT(err, MU_EJOB, pos, "%s", msg);
}

static mu_status explain_reader(const yaml_parser_t *p, mu_diags *d, mu_srcpos origin, const char *text,
                                size_t size, mu_err *err) {
    mu_srcpos pos = place_of_offset(origin, text, size, p->problem_offset);
    bool utf16 = size >= 2 && (!memcmp(text, "\xff\xfe", 2) || !memcmp(text, "\xfe\xff", 2));
    bool control = p->problem && strstr(p->problem, "control characters");
    const char *msg = control ? "a control character is not allowed in a job file"
                              : "this is not valid UTF-8 text";
    return report(d, pos, msg, utf16 || !control ? "Save the file as UTF-8." : NULL, err);
}

// "cannot start any token": a tab where indentation is expected, or a reserved character.
static mu_status explain_start(mu_diags *d, mu_srcpos origin, const char *text, size_t size, yaml_mark_t at,
                               mu_err *err) {
    mu_srcpos pos = place(origin, at);
    size_t byte = 0;            // a mark's index counts characters
    for (size_t n = 0; byte < size; byte++)
        if (((unsigned char)text[byte] & 0xc0) != 0x80 && n++ == at.index) break;
    char c = byte < size ? text[byte] : '\0';
    if (c == '\t') return report(d, pos, "a tab is used for indentation", "Indent with spaces only.", err);
    char msg[80];
    snprintf(msg, sizeof msg, "a value cannot begin with `%c`", c >= ' ' && c < 0x7f ? c : '?');
    return report(d, pos, msg, "Put the text in quotes.", err);
}

mu_status mu_yaml_explain(const yaml_parser_t *p, mu_diags *diags, mu_srcpos origin, const char *text,
                          size_t size, mu_err *err) {
    if (p->error == YAML_MEMORY_ERROR || !p->problem) return MU_FAIL_NOMEM(err, "the YAML parser");
    if (p->error == YAML_READER_ERROR) return explain_reader(p, diags, origin, text, size, err);
    if (!strncmp(p->problem, "found character that cannot start", 33))
        return explain_start(diags, origin, text, size, p->problem_mark, err);
    const struct explanation *r = find_row(p);
    if (!r) {
        char msg[200];
        snprintf(msg, sizeof msg, "YAML: %s%s%s", p->problem, p->context ? " " : "",
                 p->context ? p->context : "");
        return report(diags, place(origin, p->problem_mark), msg, NULL, err);
    }
    if (r->at == AT_CONTEXT) return report(diags, place(origin, p->context_mark), r->msg, r->hint, err);
    if (r->at == AT_OPEN && p->context_mark.line < p->problem_mark.line) {
        bool list = strstr(r->problem, "]") != NULL;
        return report(diags, place(origin, p->context_mark),
                      list ? "this `[` is never closed" : "this `{` is never closed",
                      list ? "Close the list with `]`." : "Close the block with `}`.", err);
    }
    return report(diags, place(origin, p->problem_mark), r->msg, r->hint, err);
}
