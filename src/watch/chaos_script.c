// SPDX-License-Identifier: Apache-2.0
// chaos_script.c - see chaos_script.h. Words are cut at blanks; every complaint points at its word.
#include "watch/chaos_script.h"

#include "base/plugin.h"
#include "job/bind.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_BYTES 40
#define LONGEST_S 31536000.0    // a year; keeps sums of times in 64-bit nanoseconds
#define LONGEST_SLOW_S 2000.0   // slow_us has 32 bits

#define ACTS "kill|stop|slow"
#define TARGETS "learner|all-learners|server|evaluator"
#define CLAUSES "at|every|times|until|for|by"

enum clause { AT, EVERY, TIMES, UNTIL, FOR, BY };

typedef struct parser {
    const char *text, *at;      // what is parsed and where the next word begins
    const char *place;          // of the last word
    char        word[WORD_BYTES + 1];   // "" = the rule has ended
    mu_err     *err;
} parser;

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// Words end at blanks and at the `;` between rules. A word that is too long is kept cut: it is no known one.
static void next(parser *p) {
    while (is_blank(*p->at)) p->at++;
    p->place = p->at;
    size_t n = 0;
    for (; *p->at && *p->at != ';' && !is_blank(*p->at); p->at++)
        if (n < WORD_BYTES) p->word[n++] = *p->at;
    p->word[n] = '\0';
}

static const char *shown(const parser *p) { return p->word[0] ? p->word : "the end"; }

static mu_status MU_PRINTF(2, 3) complain(parser *p, const char *fmt, ...) {
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return MU_FAIL(p->err, MU_EUSAGE, "schedule `%.60s`%s, column %d: %s", p->text,
                   strlen(p->text) > 60 ? "..." : "", (int)(p->place - p->text) + 1, what);
}

// One of the `|`-separated words at the parser's place.
static mu_status choose(parser *p, const char *what, const char *choices, int *out) {
    *out = p->word[0] ? mu_choice_find(choices, p->word) : -1;
    if (*out >= 0) return MU_OK;
    char names[8][16];
    const char *list[8];
    size_t n = 0;
    while (n < 8 && mu_choice_name(choices, (int)n, names[n], sizeof names[n])) list[n] = names[n], n++;
    mu_status s = complain(p, "expected %s, found %s%s%s", what, p->word[0] ? "`" : "", shown(p),
                           p->word[0] ? "`" : "");
    mu_err_suggest(s, p->err, "", p->word[0] ? mu_nearest(p->word, list, n) : NULL);
    return mu_err_hinted(s, p->err, "It is one of %s.", choices);
}

static mu_status seconds(parser *p, const char *after, const char *word, double most, double *out) {
    bool zero_is_fine = !strcmp(after, "at");
    if (*word && mu_parse_duration(word, out) && *out <= most && (*out > 0 || zero_is_fine)) return MU_OK;
    return mu_err_hinted(complain(p, "`%s` needs a time up to %.0fs, found %s", after, most, shown(p)),
                         p->err, "Write for example `%s 500ms`, `%s 2s` or `%s 1m`.", after, after, after);
}

static mu_status number(parser *p, const char *after, int64_t least, int64_t most, int64_t *out) {
    if (p->word[0] && mu_parse_int(p->word, out) && *out >= least && *out <= most) return MU_OK;
    return complain(p, "`%s` needs a whole number of at least %d, found %s", after, (int)least, shown(p));
}

// ---- rules --------------------------------------------------------------------------------------

static mu_status target(parser *p, mu_chaos_rule *r) {
    int which;
    next(p);
    if (!strcmp(p->word, "judge")) strcpy(p->word, "evaluator"); // as earlier versions called it
    MU_TRY(choose(p, "a target", TARGETS, &which));
    if (which > 0) {
        r->target = which == 1 ? MU_CHAOS_ALL_LEARNERS : which == 2 ? MU_CHAOS_SERVER : MU_CHAOS_EVALUATOR;
        bool learners = r->target == MU_CHAOS_ALL_LEARNERS;
        return r->act == MU_CHAOS_SLOW && !learners ? complain(p, "only learners can be slowed down") : MU_OK;
    }
    next(p);
    r->target = MU_CHAOS_RANDOM;
    if (!strcmp(p->word, "random")) return MU_OK;
    int64_t index;
    if (!p->word[0] || !mu_parse_int(p->word, &index) || index < 0 || index > INT_MAX)
        return mu_err_hinted(complain(p, "`learner` needs a number or `random`, found %s", shown(p)), p->err,
                             "`muster status` lists the learners; all at once are `all-learners`.");
    r->target = MU_CHAOS_LEARNER;
    r->learner = (int)index;
    return MU_OK;
}

static mu_status clause(parser *p, enum clause which, mu_chaos_rule *r) {
    const char *name = (const char *[]){"at", "every", "times", "until", "for", "by"}[which];
    next(p);
    switch (which) {
    case AT: return seconds(p, name, p->word, LONGEST_S, &r->at_s);
    case EVERY:
        r->random_gap = p->word[0] == '~';
        return seconds(p, name, p->word + r->random_gap, LONGEST_S, &r->every_s);
    case TIMES: return number(p, name, 1, INT64_MAX, &r->times);
    case UNTIL: return seconds(p, name, p->word, LONGEST_S, &r->until_s);
    case FOR:
        if (r->act == MU_CHAOS_KILL) return complain(p, "`for` goes with `stop` and `slow`, a kill is final");
        return seconds(p, name, p->word, LONGEST_S, &r->for_s);
    case BY:
        if (r->act != MU_CHAOS_SLOW) return complain(p, "`by` goes with `slow` only");
        return seconds(p, name, p->word, LONGEST_SLOW_S, &r->by_s);
    }
    return MU_OK;
}

// The first word of the rule has been read.
static mu_status rule(parser *p, mu_chaos_rule *r) {
    int act, which;
    unsigned seen = 0;
    *r = (mu_chaos_rule){.for_s = -1, .at_s = -1, .until_s = -1};
    MU_TRY(choose(p, "an action", ACTS, &act));
    r->act = (mu_chaos_act)act;
    MU_TRY(target(p, r));
    for (next(p); p->word[0]; next(p)) {
        MU_TRY(choose(p, "`at`, `every`, `times`, `until`, `for` or `by`", CLAUSES, &which));
        if (seen & 1u << which) return complain(p, "`%s` was already said", p->word);
        seen |= 1u << which;
        MU_TRY(clause(p, (enum clause)which, r));
    }
    if (r->act == MU_CHAOS_SLOW && !(seen & 1u << BY))
        return mu_err_hinted(complain(p, "`slow` needs `by` and a time"), p->err,
                             "Write for example `slow learner 1 by 20ms for 10s`.");
    if (!(seen & 1u << EVERY) && r->times > 1) return complain(p, "`times` needs `every`");
    if (!(seen & 1u << EVERY)) r->times = 1;
    return MU_OK;
}

mu_status mu_chaos_parse(const char *text, mu_chaos_script *script, mu_err *err) {
    parser p = {.text = text, .at = text, .err = err};
    int n = script->n;
    for (bool more = true; more;) {
        next(&p);
        if (p.word[0] || n == script->n) { // a `;` at the end, or two, are no harm
            mu_chaos_rule r;
            if (n == MU_CHAOS_RULES) return complain(&p, "more than %d rules", (int)MU_CHAOS_RULES);
            MU_TRY(rule(&p, &r));
            script->rule[n++] = r;
        }
        more = *p.at == ';';
        p.at += more;
    }
    script->n = n;
    return MU_OK;
}

// ---- back to text -------------------------------------------------------------------------------

const char *mu_chaos_act_name(mu_chaos_act act) {
    return act == MU_CHAOS_KILL ? "kill" : act == MU_CHAOS_STOP ? "stop" : "slow";
}

static void MU_PRINTF(3, 4) add(char *out, size_t size, const char *fmt, ...) {
    size_t n = strlen(out);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out + n, size - n, fmt, ap);
    va_end(ap);
}

// With as few digits as give the same number again.
static void add_time(char *out, size_t size, const char *word, double s) {
    char text[40];
    int digits = 8;
    do snprintf(text, sizeof text, "%.*g", digits, s);
    while (strtod(text, NULL) != s && digits++ < 17);
    add(out, size, " %s%ss", word, text);
}

void mu_chaos_rule_text(const mu_chaos_rule *r, char *out, size_t size) {
    static const char *const targets[] = {"learner", "learner random", "all-learners", "server", "evaluator"};
    if (!size) return;
    out[0] = '\0';
    add(out, size, "%s %s", mu_chaos_act_name(r->act), targets[r->target]);
    if (r->target == MU_CHAOS_LEARNER) add(out, size, " %d", r->learner);
    if (r->act == MU_CHAOS_SLOW) add_time(out, size, "by ", r->by_s);
    if (r->for_s >= 0) add_time(out, size, "for ", r->for_s);
    if (r->at_s >= 0) add_time(out, size, "at ", r->at_s);
    if (r->every_s > 0) add_time(out, size, r->random_gap ? "every ~" : "every ", r->every_s);
    if (r->every_s > 0 && r->times) add(out, size, " times %lld", (long long)r->times);
    if (r->until_s >= 0) add_time(out, size, "until ", r->until_s);
}
