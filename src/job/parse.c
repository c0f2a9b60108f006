// SPDX-License-Identifier: Apache-2.0
// parse.c - scalars as people write them: 10k, 1e-4, 15m, 1 epoch; and ranges of field tables.
//
// Numbers are decimal only. strtod alone would also take hex, nan, inf and (after setlocale) a comma;
// therefore the characters are looked at first.
#include "job/parse.h"

#include "job/bind.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT 9007199254740992.0        // 2^53: whole numbers beyond are not exact in a double

static double suffix_factor(char c) { return c == 'k' ? 1e3 : c == 'M' ? 1e6 : c == 'G' ? 1e9 : 0; }

// Decimal number at the start of text; *end is after it. Finite values only.
static bool read_decimal(const char *text, double *out, const char **end) {
    const char *p = text + (*text == '-' || *text == '+');
    if (!isdigit((unsigned char)*p) && !(*p == '.' && isdigit((unsigned char)p[1]))) return false;
    if (*p == '0' && (p[1] == 'x' || p[1] == 'X')) return false;
    char *stop;
    *out = strtod(text, &stop);
    *end = stop;
    return isfinite(*out);
}

bool mu_parse_double(const char *text, double *out) {
    const char *end;
    double v;
    if (!read_decimal(text, &v, &end)) return false;
    double factor = suffix_factor(*end);
    if (factor > 0) v *= factor, end++;
    if (*end || !isfinite(v)) return false;
    *out = v;
    return true;
}

bool mu_parse_int(const char *text, int64_t *out) {
    const char *p = text + (*text == '-' || *text == '+');
    if (isdigit((unsigned char)*p)) {           // exact over the whole range of 64 bits
        char *end;
        errno = 0;
        long long v = strtoll(text, &end, 10);
        if (!errno && !*end) {
            *out = v;
            return true;
        }
    }
    double d;
    if (!mu_parse_double(text, &d) || d != floor(d) || fabs(d) > EXACT) return false;
    *out = (int64_t)d;
    return true;
}

// The unit after a number: one of `|`-separated words, its index, -1 if none fits.
static int read_unit(const char *p, const char *units) {
    while (*p == ' ') p++;
    size_t n = strlen(p);
    while (n && p[n - 1] == ' ') n--;
    char word[16];
    if (n >= sizeof word) return -1;
    memcpy(word, p, n);
    word[n] = '\0';
    return mu_choice_find(units, word);
}

static const double unit_seconds[] = {1,    1,    1,    1,     60,    60,    60,  60,
                                      3600, 3600, 3600, 86400, 86400, 86400, 1e-3};
#define DURATION_UNITS "s|sec|second|seconds|m|min|minute|minutes|h|hour|hours|d|day|days|ms"

bool mu_parse_duration(const char *text, double *out_s) {
    const char *end;
    double v;
    if (!read_decimal(text, &v, &end) || v < 0) return false;
    int unit = *end ? read_unit(end, DURATION_UNITS) : 0;
    if (unit < 0) return false;
    *out_s = v * unit_seconds[unit];
    return isfinite(*out_s);
}

bool mu_parse_interval(const char *text, mu_interval *out) {
    if (!strcmp(text, "never")) {
        *out = (mu_interval){MU_EVERY_NEVER, 0};
        return true;
    }
    const char *one = !strcmp(text, "epoch") ? "1 epoch" : !strcmp(text, "step") ? "1 step" : text;
    const char *end;
    double v;
    if (!read_decimal(one, &v, &end) || !(v > 0)) return false;
    double factor = suffix_factor(*end);
    if (factor > 0) v *= factor, end++;
    int unit = *end ? read_unit(end, "step|steps|epoch|epochs") : 0;
    if (unit >= 2) *out = (mu_interval){MU_EVERY_EPOCH, v};
    else if (unit >= 0 && v == floor(v) && v < EXACT) *out = (mu_interval){MU_EVERY_STEP, v};
    else if (unit < 0 && !(factor > 0) && mu_parse_duration(one, &v))
        *out = (mu_interval){MU_EVERY_SECOND, v};
    else return false;
    return true;
}

// One end of a range: "" is open-ended.
static bool read_bound(const char *p, size_t n, bool *has, double *out) {
    char text[40];
    if (n >= sizeof text) return false;
    while (n && *p == ' ') p++, n--;
    while (n && p[n - 1] == ' ') n--;
    memcpy(text, p, n);
    text[n] = '\0';
    *has = n > 0;
    return !n || mu_parse_double(text, out);
}

bool mu_range_parse(const char *text, mu_range *out) {
    *out = (mu_range){0};
    if (!text || !*text) return true;
    size_t n = strlen(text);
    const char *comma = strchr(text, ',');
    if (n < 3 || !comma || !strchr("[(", text[0]) || !strchr("])", text[n - 1])) return false;
    out->low_open = text[0] == '(';
    out->high_open = text[n - 1] == ')';
    return read_bound(text + 1, (size_t)(comma - text) - 1, &out->has_low, &out->low)
        && read_bound(comma + 1, (size_t)(text + n - 1 - comma) - 1, &out->has_high, &out->high);
}

bool mu_range_has(const mu_range *r, double v) {
    if (r->has_low && (r->low_open ? !(v > r->low) : !(v >= r->low))) return false;
    return !(r->has_high && (r->high_open ? !(v < r->high) : !(v <= r->high)));
}

void mu_range_describe(const mu_range *r, char *out, size_t size) {
    char low[48] = "", high[48] = "";
    if (r->has_low) snprintf(low, sizeof low, "%s %.15g", r->low_open ? "above" : "at least", r->low);
    if (r->has_high) snprintf(high, sizeof high, "%s %.15g", r->high_open ? "below" : "at most", r->high);
    snprintf(out, size, "%s%s%s", low, r->has_low && r->has_high ? " and " : "", high);
}
