// SPDX-License-Identifier: Apache-2.0
// b_lines.c - memory that one core has written and another one reads next: the way of a flag there and back,
// and the rate of reading a block. What learners and their server exchange moves this way.
//
// The block is as large as a piece of a message that stays in the writer's second cache. Writer and reader
// take turns; only the reading is timed.
#include "plan/crew.h"
#include "plan/profile.h"

#include "base/clock.h"
#include "comm/cores.h"
#include "comm/futex.h"

#include <string.h>

enum { BLOCK = 1 << 17, CHUNK = 4096, SAMPLES = 512, PAIRS = 8, TRIES = 5 };

typedef struct table {                  // shared
    _Alignas(64) _Atomic uint32_t turn; // even: the writer's
    _Alignas(64) char block[BLOCK];
} table;

static bool await(_Atomic uint32_t *word, uint32_t odd, int64_t end_ns) {
    for (unsigned looks = 1; (atomic_load_explicit(word, memory_order_acquire) & 1) != odd; looks++) {
        mu_pause();
        if (looks % 64 == 0 && mu_clock_ns() > end_ns) return false;
    }
    return true;
}

static double write_blocks(table *t, int64_t end_ns) {
    for (int k = 0; await(&t->turn, 0, end_ns); k++) {
        memset(t->block, k, BLOCK);
        atomic_fetch_add_explicit(&t->turn, 1, memory_order_release);
    }
    return 0;
}

// Bytes per second, 0: it never came to a turn.
static double read_blocks(table *t, int64_t end_ns) {
    static double took[SAMPLES];
    char own[CHUNK];
    int n = 0;
    while (await(&t->turn, 1, end_ns)) {
        const int64_t begin = mu_clock_ns();
        for (int at = 0; at < BLOCK; at += CHUNK) {
            memcpy(own, t->block + at, CHUNK);
            __asm__ __volatile__("" : : "r"(own) : "memory"); // as if somebody used it
        }
        took[n++ % SAMPLES] = 1e-9 * (double)(mu_clock_ns() - begin);
        atomic_fetch_add_explicit(&t->turn, 1, memory_order_release);
    }
    const double s = mu_median(took, n < SAMPLES ? n : SAMPLES);
    return s > 0 ? BLOCK / s : 0;
}

// A window may end in the middle of a turn: the next one goes on from there.
static double work(void *ctx, const mu_crew_turn *t) {
    table *shared = t->shared;
    (void)ctx;
    return t->who ? read_blocks(shared, t->end_ns) : write_blocks(shared, t->end_ns);
}

// Of the first core and others, the ones that are far in the list among them.
static double round_trip(const mu_machine *m) {
    const int pairs = m->cores - 1 < PAIRS ? m->cores - 1 : PAIRS;
    double s[PAIRS];
    int n = 0;
    for (int i = 0; i < pairs; i++) {
        const int other = 1 + (int)((int64_t)i * (m->cores - 1) / pairs);
        double ns = -1;
        for (int k = 0; k < TRIES && ns <= 0; k++) ns = mu_cores_round_trip_ns(0, other);
        if (ns > 0) s[n++] = 1e-9 * ns;
    }
    return mu_median(s, n);
}

static mu_status run(mu_profile *p, mu_err *err) {
    mu_machine *m = p->m;
    mu_crew_result r;
    if (m->cores < 2) return MU_OK; // derived
    m->lines.round_trip_s = round_trip(m);
    const mu_crew c = {.name = "muster:probe",
                       .n = 2,
                       .windows = mu_profile_windows(p),
                       .window_s = 0.02,
                       .work = work,
                       .shared_bytes = sizeof(table)};
    MU_TRY(mu_crew_run(&c, &r, err));
    m->lines.bytes_per_s = mu_crew_median(&r, 1);
    mu_profile_note(p, &r);
    mu_crew_fini(&r);
    return MU_OK;
}

const mu_probe_class mu_probe_lines = {
    .name = "lines",
    .help = "memory that another core has just written: round trip and rate",
    .share = 2,
    .run = run,
};
