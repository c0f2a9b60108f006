// SPDX-License-Identifier: Apache-2.0
// term.c - see term.h.
#include "cli/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool mu_term_live(FILE *f) {
    const char *term = getenv("TERM");
    return isatty(fileno(f)) && !(term && !strcmp(term, "dumb"));
}

bool mu_term_colour(FILE *f) {
    const char *no = getenv("NO_COLOR");
    return !(no && *no) && mu_term_live(f);
}

int mu_term_columns(FILE *f) {
    const char *env = getenv("COLUMNS");
    int n = env ? atoi(env) : 0;
    if (n > 0) return n;
    struct winsize w = {0};
    if (!ioctl(fileno(f), TIOCGWINSZ, &w) && w.ws_col > 0) return w.ws_col;
    return MU_TEXT_COLUMNS;
}

void mu_text_fill(FILE *f, const char *text, int at, int indent, int columns) {
    bool fresh = true; // nothing stands on this line yet
    if (at && at + 2 > indent) fputc('\n', f), at = 0;
    for (const char *p = text; *p;) {
        size_t blanks = strspn(p, " ");
        p += blanks;
        if (*p == '\n') {
            fputc('\n', f), p++, at = 0, fresh = true;
            continue;
        }
        int n = (int)strcspn(p, " \n");
        if (n == 0) break;
        if (!fresh && at + 1 + n > columns) fputc('\n', f), at = 0, fresh = true;
        if (fresh) fprintf(f, "%*s", indent - at, ""), at = indent;
        else fputc(' ', f), at++;
        fprintf(f, "%.*s", n, p);
        at += n, p += n, fresh = false;
    }
    fputc('\n', f);
}
