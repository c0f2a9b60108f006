// SPDX-License-Identifier: Apache-2.0
// lock.c - see lock.h; lock.pml is the model of the read-write lock.
//
// The mutex is the C library's robust one: the kernel knows which locks a thread holds and marks them when
// it dies. It also checks errors, so that taking it twice is reported at once instead of after the time-out.
//
// The read-write lock is two stores that cross. A reader raises its flag, then looks at the writer's; a
// writer raises its own, then looks at the readers'. Store and look are seq_cst on both sides, so in their
// one total order the side that looked first stored before that too: at least one of two contenders sees the
// other. The reader gives way, the writer waits. Data is ordered by the flags going down: the release of one
// side's exchange is acquired by the other's look that finds it down.
//
// Sleeping. A process that waits for a flag marks it (HELD -> AWAITED) before sleeping on it, and lowering a
// marked flag wakes; an unmarked one costs no system call. A flag is raised only from DOWN by its owner and
// marked only while up, so a mark is never overwritten.
//
// Turns. A reader that found a writer stays WANTED until it gets in, and the next writer first lets
// those in: without that a server that writes all the time would keep readers out by luck alone. It waits for
// them a short while only (TURN_NS), because one may be dead or far from running.
#include "comm/lock.h"

#include "comm/futex.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

enum flag { DOWN, HELD, AWAITED, WANTED };

enum {
    SPIN_NS = 2000,             // before sleeping on a flag: about what a sleep costs
    TURN_NS = 100000,           // a writer's patience for readers whose turn it is
    SECOND_NS = 1000000000,
};

// ---- the robust mutex ----

mu_status mu_lock_init(mu_lock *l, mu_err *err) {
    pthread_mutexattr_t a;
    int e = pthread_mutexattr_init(&a);
    if (!e) {
        e = pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
        if (!e) e = pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
        if (!e) e = pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
        if (!e) e = pthread_mutex_init(&l->mutex, &a);
        pthread_mutexattr_destroy(&a);
    }
    if (e) return MU_FAIL(err, MU_EUNSUPPORTED, "cannot make a lock between processes: %s", strerror(e));
    return MU_OK;
}

// ThreadSanitizer takes note of a dead owner only in trylock, so there the wait is a loop of those.
#if defined(__SANITIZE_THREAD__)
#define POLLED_LOCK 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define POLLED_LOCK 1
#endif
#endif

#ifdef POLLED_LOCK
static int lock_within(pthread_mutex_t *m, int64_t timeout_ns) {
    int64_t until = mu_deadline_ns(timeout_ns);
    int e;
    while ((e = pthread_mutex_trylock(m)) == EBUSY && mu_clock_ns() < until) sched_yield();
    return e;
}
#else
static struct timespec after(clockid_t clock, int64_t ns) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += (time_t)(ns / SECOND_NS);
    t.tv_nsec += (long)(ns % SECOND_NS);
    if (t.tv_nsec >= SECOND_NS) {
        t.tv_nsec -= SECOND_NS;
        t.tv_sec++;
    }
    return t;
}

static int lock_within(pthread_mutex_t *m, int64_t timeout_ns) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 30)
    struct timespec t = after(CLOCK_MONOTONIC, timeout_ns);
    return pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t);
#else
    struct timespec t = after(CLOCK_REALTIME, timeout_ns);     // a clock that is set shortens or lengthens it
    return pthread_mutex_timedlock(m, &t);
#endif
}
#endif

mu_lock_result mu_lock_take(mu_lock *l, int64_t timeout_ns) {
    int e = pthread_mutex_trylock(&l->mutex);
    if (e == EBUSY && timeout_ns > 0) e = lock_within(&l->mutex, timeout_ns);
    if (e == 0) return MU_LOCKED;
    if (e == EOWNERDEAD) {
        pthread_mutex_consistent(&l->mutex);
        return MU_LOCKED_AFTER_DEATH;
    }
    assert(e == EBUSY || e == ETIMEDOUT);       // EDEADLK: this thread holds it already
    return MU_LOCK_TIMEOUT;
}

void mu_lock_unlock(mu_lock *l) {
    int e = pthread_mutex_unlock(&l->mutex);
    assert(!e);
    (void)e;
}

// ---- the read-write lock ----

size_t mu_rwlock_size(int n_readers) {
    return sizeof(mu_rwlock) + (size_t)n_readers * sizeof(mu_rwlock_reader);
}

void mu_rwlock_init(mu_rwlock *l, int n_readers) {
    atomic_init(&l->writing, DOWN);
    l->n_readers = (uint32_t)n_readers;
    for (int i = 0; i < n_readers; i++) atomic_init(&l->reader[i].reading, DOWN);
}

static bool is_up(uint32_t flag) { return flag == HELD || flag == AWAITED; }

static void lower(_Atomic uint32_t *flag, uint32_t to) {
    if (atomic_exchange(flag, to) == AWAITED) mu_futex_wake(flag);
}

// Waits until the flag is not up. False: still up at until_ns.
static bool wait_lowered(_Atomic uint32_t *flag, int64_t until_ns) {
    int64_t now = mu_clock_ns(), spin_until = now + SPIN_NS;
    while (is_up(atomic_load(flag))) {
        if (now >= until_ns) return false;
        if (now < spin_until) {
            mu_pause();
        } else {
            uint32_t held = HELD;
            if (atomic_compare_exchange_strong(flag, &held, AWAITED) || held == AWAITED)
                mu_futex_wait(flag, AWAITED, until_ns - now);
        }
        now = mu_clock_ns();
    }
    return true;
}

bool mu_rwlock_read(mu_rwlock *l, int reader, int64_t timeout_ns) {
    _Atomic uint32_t *mine = &l->reader[reader].reading;
    atomic_store(mine, HELD);
    if (!atomic_load(&l->writing)) return true;         // no clock is read on this way
    int64_t until = mu_deadline_ns(timeout_ns);
    for (;;) {
        lower(mine, WANTED);
        if (!wait_lowered(&l->writing, until)) {
            lower(mine, DOWN);
            return false;
        }
        atomic_store(mine, HELD);
        if (!atomic_load(&l->writing)) return true;
    }
}

void mu_rwlock_read_end(mu_rwlock *l, int reader) { lower(&l->reader[reader].reading, DOWN); }

// Readers that found the last writer come in before the next one.
static void let_readers_in(mu_rwlock *l) {
    int64_t until = 0;
    for (uint32_t i = 0; i < l->n_readers; i++) {
        while (atomic_load_explicit(&l->reader[i].reading, memory_order_relaxed) == WANTED) {
            int64_t now = mu_clock_ns();
            if (!until) until = now + TURN_NS;
            if (now >= until) return;
            sched_yield();
        }
    }
}

bool mu_rwlock_write(mu_rwlock *l, int64_t timeout_ns) {
    int64_t until = mu_deadline_ns(timeout_ns);
    uint32_t down = DOWN;
    let_readers_in(l);
    // Up already: a writer died in here. Its flag, perhaps marked, becomes ours.
    atomic_compare_exchange_strong(&l->writing, &down, HELD);
    for (uint32_t i = 0; i < l->n_readers; i++) {
        if (!wait_lowered(&l->reader[i].reading, until)) {
            mu_rwlock_write_end(l);
            return false;
        }
    }
    return true;
}

void mu_rwlock_write_end(mu_rwlock *l) { lower(&l->writing, DOWN); }

// The dead one may have lowered its marked flag and died before it woke the one that waits.
static void clear(_Atomic uint32_t *flag) {
    atomic_store(flag, DOWN);
    mu_futex_wake(flag);
}

void mu_rwlock_clear(mu_rwlock *l, int reader) { clear(&l->reader[reader].reading); }
void mu_rwlock_clear_writer(mu_rwlock *l) { clear(&l->writing); }
