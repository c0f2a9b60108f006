// SPDX-License-Identifier: Apache-2.0
// failpoint.c - see failpoint.h.
//
// Whether a pass fires depends on its number only: it is a multiple of WHEN, or the random word of
// (seed, name, number) is small enough. The numbers are handed out by one shared counter per point.
#include "base/failpoint.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_POINTS = 32, ENTRY = 96 };

typedef enum action { KILL, ABORT, EXIT, STOP, HANG } action;
static const char *const action_name[] = {"kill", "abort", "exit", "stop", "hang"};

static const char *const known[] = {
#define X(name, where) name,
    MU_FAILPOINT_MAP(X)
#undef X
};

typedef struct point {
    const char *name;           // one of known[]
    action      action;
    int64_t     every;          // 0 = by probability
    double      probability;
    int64_t     times;
    mu_rng_key  key;
} point;

typedef struct counter { _Atomic int64_t passes, fired; } counter;

static struct {
    int         n;
    point       point[MAX_POINTS];
    counter    *counter;        // (n) in a page that all processes share
    uint64_t    seed;
    const char *role;
} active;

bool mu_failpoints_armed;

// ---- reading ----

static int find(const char *const *names, size_t n, const char *name, size_t length) {
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], name, length)) return (int)i;
    return -1;
}

static mu_status refuse(mu_err *err, const char *entry, const char *why) {
    return mu_err_hinted(
        MU_FAIL(err, MU_EUSAGE, "MUSTER_FAILPOINTS: `%s`: %s", entry, why), err,
        "Write NAME=kill|abort|exit|stop|hang[@WHEN][*TIMES]; the names are in docs/operations.md.");
}

// "@WHEN*TIMES", both optional.
static bool read_when(point *p, const char *text) {
    char *end;
    p->every = p->times = 1;
    if (*text == '@') {
        double when = strtod(text + 1, &end);
        if (end == text + 1 || !(when > 0) || when > 1e15 || (when >= 1 && floor(when) < when)) return false;
        p->every = when >= 1 ? (int64_t)when : 0;
        p->probability = when;
        if (!p->every) p->times = INT64_MAX;
        text = end;
    }
    if (*text == '*') {
        p->times = strtoll(text + 1, &end, 10);
        if (end == text + 1 || p->times < 1) return false;
        text = end;
    }
    return !*text;
}

static mu_status read_entry(const char *entry, mu_err *err) {
    const char *value = strchr(entry, '=');
    if (!value) return refuse(err, entry, "no `=`");
    if (!strncmp(entry, "seed=", 5)) {
        char *end;
        active.seed = strtoull(entry + 5, &end, 10);
        return *end || end == entry + 5 ? refuse(err, entry, "not a number") : MU_OK;
    }
    int name = find(known, MU_COUNT(known), entry, (size_t)(value - entry));
    if (name < 0) return refuse(err, entry, "no such point");
    value++;
    size_t length = strcspn(value, "@*");
    int act = find(action_name, MU_COUNT(action_name), value, length);
    if (act < 0) return refuse(err, entry, "no such action");
    if (active.n == MAX_POINTS) return refuse(err, entry, "too many points");
    point p = {.name = known[name], .action = (action)act};
    if (!read_when(&p, value + length)) return refuse(err, entry, "bad WHEN or TIMES");
    active.point[active.n++] = p;
    return MU_OK;
}

static mu_status read_all(const char *text, mu_err *err) {
    char entry[ENTRY];
    while (*text) {
        size_t n = strcspn(text, ";");
        snprintf(entry, sizeof entry, "%.*s", (int)(n < ENTRY ? n : ENTRY), text);
        if (n >= ENTRY) return refuse(err, entry, "too long");
        if (n) MU_TRY(read_entry(entry, err));
        text += n + (text[n] == ';');
    }
    return MU_OK;
}

mu_status mu_failpoints_open(mu_err *err) {
    const char *text = getenv("MUSTER_FAILPOINTS");
    if (!text || !*text || active.counter) return MU_OK;
    active.n = 0;
    active.seed = (uint64_t)mu_clock_ns();
    MU_TRY(read_all(text, err));
    if (!active.n) return MU_OK;
    for (int i = 0; i < active.n; i++)
        active.point[i].key = mu_rng_key_make(active.seed, active.point[i].name);
    void *page = mmap(NULL, MAX_POINTS * sizeof(counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                      -1, 0);
    if (page == MAP_FAILED) return MU_FAIL_NOMEM(err, "failpoints");
    active.counter = page;
    mu_warn("failpoints are on: %s (seed=%" PRIu64 ")", text, active.seed);
    return MU_OK;
}

void mu_failpoints_close(void) {
    if (active.counter) munmap(active.counter, MAX_POINTS * sizeof(counter));
    active.counter = NULL;
    active.n = 0;
    mu_failpoints_armed = false;
}

void mu_failpoints_arm(const char *role) {
    active.role = role;
    mu_failpoints_armed = active.counter != NULL;
}

// ---- firing ----

static bool is_due(const point *p, int64_t pass) {
    if (p->every) return pass % p->every == 0;
    uint32_t word[4];
    mu_rng_block(p->key, 0, (uint64_t)pass, word);
    return (double)word[0] * 0x1p-32 < p->probability;
}

static void act(const point *p, int64_t pass) {
    mu_warn("failpoint %s, pass %" PRId64 ": %s of the %s (pid %d)", p->name, pass, action_name[p->action],
            active.role, (int)getpid());
    switch (p->action) {
    case KILL: kill(getpid(), SIGKILL); break;
    case ABORT: abort();
    case EXIT: _exit(9);
    case STOP: kill(getpid(), SIGSTOP); break;
    case HANG:
        for (volatile bool on = true; on;) {}
        break;
    }
}

void mu_failpoint_pass(const char *name) {
    for (int i = 0; i < active.n; i++) {
        const point *p = &active.point[i];
        if (strcmp(p->name, name)) continue;
        int64_t pass = atomic_fetch_add(&active.counter[i].passes, 1) + 1;
        if (is_due(p, pass) && atomic_fetch_add(&active.counter[i].fired, 1) < p->times) act(p, pass);
    }
}
