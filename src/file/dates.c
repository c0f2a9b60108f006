// SPDX-License-Identifier: Apache-2.0
// dates.c - see dates.h. A date is split into numbers, month names and marks; a few orders of them are dates.
#include "file/dates.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct part {
    char kind;
    int value, digits;
} part; // 'n' number, 'm' month, 'Q' quarter

static int find_month(const char *s, size_t n) {
    static const char *const names[] = {"january",   "february", "march",    "april",
                                        "may",       "june",     "july",     "august",
                                        "september", "october",  "november", "december"};
    for (int i = 0; n >= 3 && i < 12; i++)
        if (n <= strlen(names[i]) && !strncasecmp(s, names[i], n)) return i + 1;
    return 0;
}

// hh:mm[:ss[.fff]] [Z|+hh[:mm]] to the end of the text, as a share of a day.
static bool parse_time(const char *s, double *day) {
    int value[3] = {0}, n = 0;
    double share = 0;
    while (*s == ' ' || *s == 'T') s++;
    for (;; s++) {
        if (!isdigit((unsigned char)s[0]) || !isdigit((unsigned char)s[1])) return false;
        value[n++] = (s[0] - '0') * 10 + s[1] - '0';
        s += 2;
        if (n == 3 || *s != ':') break;
    }
    if (n < 2 || value[0] > 24 || value[1] > 59 || value[2] > 60) return false;
    if (n == 3 && *s == '.') {
        char *end;
        share = strtod(s, &end);
        s = end;
    }
    while (*s == ' ') s++;
    if (*s == 'Z' || *s == 'z') s++;
    else if (*s == '+' || *s == '-') s += 1 + strspn(s + 1, "0123456789:");
    *day = (value[0] * 3600 + value[1] * 60 + value[2] + share) / 86400;
    return !*s;
}

// Up to three parts with single marks between them; returns how many, 0 = something else. *rest: what
// follows.
static int split(const char *s, part p[3], const char **rest) {
    int n = 0;
    while (n < 3) {
        if (isdigit((unsigned char)*s)) {
            const size_t digits = strspn(s, "0123456789");
            if (digits > 4) return 0;
            p[n++] = (part){'n', atoi(s), (int)digits};
            s += digits;
        } else if ((*s == 'Q' || *s == 'q') && s[1] >= '1' && s[1] <= '4' && !isalnum((unsigned char)s[2])) {
            p[n++] = (part){'Q', s[1] - '0', 1};
            s += 2;
        } else {
            size_t letters = 0;
            while (isalpha((unsigned char)s[letters])) letters++;
            const int month = find_month(s, letters);
            if (!month) return 0;
            p[n++] = (part){'m', month, (int)letters};
            s += letters;
        }
        *rest = s;
        if (!*s || *s == 'T') return n;
        if (n == 3) return n;
        if (strchr("-/. ,", *s)) s += 1 + (s[1] == ' ');
        else if (*s != 'Q' && *s != 'q') return 0;
    }
    return n;
}

static bool put_day(int year, int month, int day, double *days) {
    if (month < 1 || month > 12 || day < 1 || day > 31) return false;
    *days = year * 372.0 + (month - 1) * 31.0 + day - 1;
    return true;
}

bool mu_date_parse(const char *text, double *days) {
    part p[3];
    const char *rest = text;
    double share = 0;
    while (*text == ' ') text++;
    const int n = split(text, p, &rest);
    if (n < 2) return false;
    if (*rest && (n != 3 || !parse_time(rest, &share))) return false;
    bool ok = false;
    char form[4] = {p[0].kind, p[1].kind, n == 3 ? p[2].kind : '\0', '\0'};
    const bool year_first = p[0].kind == 'n' && p[0].digits == 4;
    const int last = n == 3 ? p[2].value : p[1].value;
    if (!strcmp(form, "nn")) ok = year_first && p[1].digits <= 2 && put_day(p[0].value, p[1].value, 1, days);
    else if (!strcmp(form, "nQ")) ok = year_first && put_day(p[0].value, p[1].value * 3, 1, days);
    else if (!strcmp(form, "Qn")) ok = p[1].digits == 4 && put_day(last, p[0].value * 3, 1, days);
    else if (!strcmp(form, "nm")) ok = year_first && put_day(p[0].value, p[1].value, 1, days);
    else if (!strcmp(form, "mn")) ok = put_day(last, p[0].value, 1, days);
    else if (!strcmp(form, "nmn"))
        ok = year_first ? put_day(p[0].value, p[1].value, last, days)
                        : put_day(last, p[1].value, p[0].value, days);
    else if (!strcmp(form, "mnn")) ok = put_day(last, p[0].value, p[1].value, days);
    else if (!strcmp(form, "nnn") && year_first) ok = put_day(p[0].value, p[1].value, last, days);
    else if (!strcmp(form, "nnn") && p[0].digits <= 2 && p[1].digits <= 2)
        ok = put_day(last, p[1].value, p[0].value, days) || put_day(last, p[0].value, p[1].value, days);
    *days += ok ? share : 0;
    return ok;
}
