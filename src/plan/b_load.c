// SPDX-License-Identifier: Apache-2.0
// b_load.c - what a process gets of arithmetic and of memory while 1, 2, 4, ... and all cores work: the
// interference of processes. Two crews for each number, as a core that computes and one that moves memory
// disturb each other in other ways.
#include "plan/crew.h"
#include "plan/profile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "device/burst.h"

#include <math.h>

#define MIB ((size_t)1 << 20)

typedef struct block { // of one process
    size_t bytes;
    float *p;  // NULL = arithmetic alone
    size_t at; // where the next piece begins
    float sink;
} block;

enum { PIECE = 1 << 18 }; // floats between two looks at the clock

static bool prepare(void *ctx, int who) {
    block *b = ctx;
    (void)who;
    b->p = mu_alloc_block(b->bytes, "probe");
    if (b->p) mu_burst_stream(b->p, b->bytes / sizeof(float)); // so that its pages are there
    return b->p != NULL;
}

// The bursts are all of one size, which the one tells that was disturbed least between its two looks at the
// clock and ours.
static double arithmetic(void *ctx, const mu_crew_turn *t) {
    block *b = ctx;
    double size = INFINITY;
    int n = 0;
    do {
        const double begin = mu_clock_s(), rate = mu_burst_multiply_add(&b->sink);
        size = fmin(size, 1e9 * rate * (mu_clock_s() - begin));
        n++;
    } while (mu_clock_ns() < t->end_ns);
    return b->sink == -1.0f ? 0 : n * size; // never so, but it must be computed
}

static double stream(void *ctx, const mu_crew_turn *t) {
    block *b = ctx;
    const size_t n = b->bytes / sizeof(float);
    double done = 0;
    do {
        mu_burst_stream(b->p + b->at, PIECE);
        b->at = b->at + PIECE < n ? b->at + PIECE : 0;
        done += 2.0 * PIECE * sizeof(float);
    } while (mu_clock_ns() < t->end_ns);
    return done;
}

static mu_status measure(mu_profile *p, int n, double (*work)(void *, const mu_crew_turn *), block *b,
                         double *out, mu_err *err) {
    mu_crew_result r;
    const mu_crew c = {.name = "muster:probe",
                       .n = n,
                       .windows = mu_profile_windows(p),
                       .window_s = 0.02,
                       .ctx = b,
                       .prepare = work == stream ? prepare : NULL,
                       .work = work};
    MU_TRY(mu_crew_run(&c, &r, err));
    *out = mu_crew_best_rate(&r);
    mu_profile_note(p, &r);
    mu_crew_fini(&r);
    return *out > 0 ? MU_OK : MU_FAIL(err, MU_EBACKEND, "a probe of %d processes got nothing done", n);
}

// All blocks together are twice as large as the caches, and at most an eighth of the memory.
static size_t block_bytes(const mu_machine *m, int n) {
    double bytes = 2 * (m->shared_cache_bytes / n + m->cache_bytes);
    if (bytes < 32.0 * (double)MIB) bytes = 32.0 * (double)MIB;
    if (m->memory_bytes > 0 && bytes > m->memory_bytes / 8 / n) bytes = m->memory_bytes / 8 / n;
    if (bytes < 2.0 * (double)MIB) bytes = 2.0 * (double)MIB;
    return (size_t)bytes / (PIECE * sizeof(float)) * (PIECE * sizeof(float));
}

// One of few gets no less than one of many. Where it seems to, other programs were in the way.
static void smooth(mu_machine *m) {
    for (int i = m->n_loads - 1; i > 0; i--) {
        mu_machine_load *few = &m->load[i - 1], *many = &m->load[i];
        if (few->flops_per_s < many->flops_per_s) few->flops_per_s = many->flops_per_s;
        if (few->bytes_per_s < many->bytes_per_s) few->bytes_per_s = many->bytes_per_s;
    }
}

static mu_status run(mu_profile *p, mu_err *err) {
    mu_machine *m = p->m;
    for (int n = 1; m->n_loads < MU_MACHINE_LOADS; n *= 2) {
        if (n > m->cores) n = m->cores;
        mu_machine_load l = {.processes = n};
        block b = {.bytes = block_bytes(m, n)};
        MU_TRY(measure(p, n, arithmetic, &b, &l.flops_per_s, err));
        MU_TRY(measure(p, n, stream, &b, &l.bytes_per_s, err));
        m->load[m->n_loads++] = l;
        if (n == m->cores) break;
    }
    smooth(m);
    return MU_OK;
}

const mu_probe_class mu_probe_load = {
    .name = "load",
    .help = "arithmetic and memory of 1, 2, 4, ... and all cores at once",
    .share = 12,
    .run = run,
};
