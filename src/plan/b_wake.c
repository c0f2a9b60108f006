// SPDX-License-Identifier: Apache-2.0
// b_wake.c - from the ring of a bell (comm/wait.h) until the process that slept on it runs: a learner that
// waited for its turn longer than it spins, a server that waited for work.
//
//   sleeper   sleeps                     wakes: how long ago was it rung?
//   ringer         waits until it sleeps, then a little, writes the time, rings
#include "plan/crew.h"
#include "plan/profile.h"

#include "base/clock.h"
#include "comm/futex.h"
#include "comm/wait.h"

enum { SAMPLES = 256, NAP_NS = 20000, DEEPER_NS = 60000 };

typedef struct table { // shared
    mu_bell bell;
    _Alignas(64) _Atomic int64_t rung_ns; // 0 = the sleeper has seen it
} table;

static void nap(int64_t ns) { nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL); }

static double sleep_and_wake(table *t, int64_t end_ns) {
    double took[SAMPLES];
    int n = 0;
    for (int64_t now; n < SAMPLES && (now = mu_clock_ns()) < end_ns;) {
        const uint32_t seen = mu_bell_read(&t->bell);
        if (!mu_bell_wait(&t->bell, seen, 0, end_ns - now)) continue;
        const int64_t rung = atomic_exchange(&t->rung_ns, 0);
        now = mu_clock_ns();
        if (rung && now > rung) took[n++] = 1e-9 * (double)(now - rung);
    }
    return mu_median(took, n);
}

// With one core for both it naps, so that the other gets to sleep at all.
static double ring(table *t, int64_t end_ns) {
    while (mu_clock_ns() < end_ns) {
        if (!atomic_load(&t->bell.sleepers) || atomic_load(&t->rung_ns)) {
            nap(NAP_NS);
            continue;
        }
        nap(DEEPER_NS);
        atomic_store(&t->rung_ns, mu_clock_ns());
        mu_bell_ring(&t->bell);
    }
    return 0;
}

static double work(void *ctx, const mu_crew_turn *t) {
    table *shared = t->shared;
    (void)ctx;
    return t->who ? ring(shared, t->end_ns) : sleep_and_wake(shared, t->end_ns);
}

static mu_status run(mu_profile *p, mu_err *err) {
    mu_crew_result r;
    const mu_crew c = {.name = "muster:probe",
                       .n = 2,
                       .windows = mu_profile_windows(p),
                       .window_s = 0.04,
                       .work = work,
                       .shared_bytes = sizeof(table)};
    MU_TRY(mu_crew_run(&c, &r, err));
    p->m->wake_s = mu_crew_least(&r, 0); // it sleeps: nothing is noted of lost time
    mu_crew_fini(&r);
    return MU_OK;
}

const mu_probe_class mu_probe_wake = {
    .name = "wake",
    .help = "from a ring to the process that slept",
    .share = 2,
    .run = run,
};
