// SPDX-License-Identifier: Apache-2.0
// Tests of comm/lock: holders, readers and writers are killed by SIGKILL wherever they happen to be; what the
// lock protects (two words that must be equal) is never seen broken, and nobody waits for the dead.
#include "comm_help.h"

#include "comm/lock.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

// ---- the robust mutex ----

typedef struct safe {
    mu_lock lock;
    _Atomic int held;                   // a child says: I am inside
    volatile int64_t a, b;              // equal outside the lock
    _Atomic int64_t deaths_seen, rounds;
} safe;

static safe *new_safe(void) {
    safe *s = shared(sizeof *s);
    assert_ok(mu_lock_init(&s->lock, err));
    return s;
}

static void child_holds(void *arg) {
    safe *s = arg;
    check(mu_lock_take(&s->lock, 10000 * MS) != MU_LOCK_TIMEOUT);
    s->a++;
    atomic_fetch_add(&s->held, 1);
    nap_ms(60000);
}

static void test_holder_killed(void **state) {
    (void)state;
    safe *s = new_safe();
    for (int round = 1; round <= 3; round++) {
        pid_t child = spawn(child_holds, s);
        await_at_least(&s->held, round, 10);
        double begin = mu_clock_s();
        assert_int_equal(mu_lock_take(&s->lock, 0), MU_LOCK_TIMEOUT);
        assert_int_equal(mu_lock_take(&s->lock, 30 * MS), MU_LOCK_TIMEOUT);
        double took = mu_clock_s() - begin;
        if (took < 0.029 || took > 5) fail_msg("timed out after %g s, expected 0.03", took);
        kill(child, SIGKILL);
        assert_true(WIFSIGNALED(ended(child, 10)));
        assert_int_equal(mu_lock_take(&s->lock, 5000 * MS), MU_LOCKED_AFTER_DEATH);
        assert_int_equal(s->a, s->b + 1);
        s->b = s->a;
        mu_lock_unlock(&s->lock);
        assert_int_equal(mu_lock_take(&s->lock, 0), MU_LOCKED);         // it is told once
        mu_lock_unlock(&s->lock);
    }
    munmap(s, sizeof *s);
}

// The holder dies while somebody sleeps for the lock: that one gets it at once.
static void child_takes_after_death(void *arg) {
    safe *s = arg;
    atomic_fetch_add(&s->held, 1);
    check(mu_lock_take(&s->lock, 20000 * MS) == MU_LOCKED_AFTER_DEATH);
    mu_lock_unlock(&s->lock);
}

static void test_waiter_is_told(void **state) {
    (void)state;
    safe *s = new_safe();
    pid_t holder = spawn(child_holds, s);
    await_at_least(&s->held, 1, 10);
    pid_t waiter = spawn(child_takes_after_death, s);
    await_at_least(&s->held, 2, 10);
    nap_ms(20);
    double begin = mu_clock_s();
    kill(holder, SIGKILL);
    assert_exits_0(waiter, 10);
    double took = mu_clock_s() - begin;
    if (took > 5) fail_msg("the waiter learned of the death after %g s", took);
    ended(holder, 10);
    munmap(s, sizeof *s);
}

static void child_counts(void *arg) {
    safe *s = arg;
    for (;;) {
        mu_lock_result r = mu_lock_take(&s->lock, 10000 * MS);
        check(r != MU_LOCK_TIMEOUT);
        if (r == MU_LOCKED_AFTER_DEATH) {
            atomic_fetch_add(&s->deaths_seen, 1);
            s->b = s->a;                // the repair; whoever dies in it is followed by another repair
        }
        check(s->a == s->b);
        s->a++;
        for (int i = 0; i < 50; i++) atomic_fetch_add_explicit(&s->rounds, 1, memory_order_relaxed);
        s->b++;
        mu_lock_unlock(&s->lock);
    }
}

static void test_storm(void **state) {
    (void)state;
    enum { CHILDREN = 3, KILLS = 150 };
    safe *s = new_safe();
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    pid_t child[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) child[i] = spawn(child_counts, s);
    for (int k = 0; k < KILLS; k++) {
        struct timespec t = {.tv_nsec = (long)(rand_r(&seed) % 2000000)};
        nanosleep(&t, NULL);
        int i = (int)((unsigned)rand_r(&seed) % CHILDREN);
        kill(child[i], SIGKILL);
        int how = ended(child[i], 10);
        if (!WIFSIGNALED(how)) fail_msg("kill %d: the child had ended by itself, wait status 0x%x", k, how);
        child[i] = spawn(child_counts, s);
    }
    for (int i = 0; i < CHILDREN; i++) {
        kill(child[i], SIGKILL);
        ended(child[i], 10);
    }
    if (mu_lock_take(&s->lock, 1000 * MS) == MU_LOCKED) assert_int_equal(s->a, s->b);
    mu_lock_unlock(&s->lock);
    int64_t deaths = atomic_load(&s->deaths_seen);
    print_message("%lld rounds, %d kills, %lld inside the lock\n", (long long)s->a, KILLS, (long long)deaths);
    assert_true(s->a > 0);
    if (deaths < 1) fail_msg("no kill of %d hit the holder: the test shows nothing", KILLS);
    munmap(s, sizeof *s);
}

// ---- the read-write lock ----

enum { READERS = 3, HALL_BYTES = 256 };

typedef struct hall {
    volatile int64_t x, y;              // written under the write lock, equal outside
    _Atomic int64_t reads[READERS], writes;
    _Atomic int inside, stop;
    int64_t apart;                      // a reader stays out for up to so many turns of an empty loop
    mu_rwlock *lock;                    // behind this struct
} hall;

static_assert(sizeof(hall) <= HALL_BYTES, "the lock would lie inside");

static hall *new_hall(void) {
    hall *h = shared(HALL_BYTES + mu_rwlock_size(READERS));
    h->lock = (mu_rwlock *)(void *)((char *)h + HALL_BYTES);
    mu_rwlock_init(h->lock, READERS);
    h->apart = 1;
    return h;
}

static void free_hall(hall *h) { munmap(h, HALL_BYTES + mu_rwlock_size(READERS)); }

static void test_sizes(void **state) {
    (void)state;
    assert_int_equal(mu_rwlock_size(0), 64);
    assert_int_equal(mu_rwlock_size(5), 6 * 64);
    hall *h = new_hall();
    assert_true(mu_rwlock_read(h->lock, 0, 0));
    assert_true(mu_rwlock_read(h->lock, 2, 0));        // readers do not exclude each other
    assert_false(mu_rwlock_write(h->lock, 10 * MS));
    assert_true(mu_rwlock_read(h->lock, 1, 0));        // a writer that gave up keeps nobody out
    mu_rwlock_read_end(h->lock, 1);
    mu_rwlock_read_end(h->lock, 0);
    assert_false(mu_rwlock_write(h->lock, 0));
    mu_rwlock_read_end(h->lock, 2);
    assert_true(mu_rwlock_write(h->lock, 0));
    assert_false(mu_rwlock_read(h->lock, 1, 10 * MS));
    assert_false(mu_rwlock_read(h->lock, 1, 0));
    mu_rwlock_write_end(h->lock);
    assert_true(mu_rwlock_read(h->lock, 1, INT64_MAX));
    mu_rwlock_read_end(h->lock, 1);
    free_hall(h);
}

static void child_reads_forever(void *arg) {
    hall *h = arg;
    check(mu_rwlock_read(h->lock, 1, 10000 * MS));
    atomic_fetch_add(&h->inside, 1);
    nap_ms(60000);
}

static void child_writes_forever(void *arg) {
    hall *h = arg;
    check(mu_rwlock_write(h->lock, 10000 * MS));
    h->x++;
    atomic_fetch_add(&h->inside, 1);
    nap_ms(60000);
}

static void test_cleared_after_death(void **state) {
    (void)state;
    hall *h = new_hall();
    pid_t child = spawn(child_reads_forever, h);
    await_at_least(&h->inside, 1, 10);
    kill(child, SIGKILL);
    ended(child, 10);
    assert_false(mu_rwlock_write(h->lock, 20 * MS));
    mu_rwlock_clear(h->lock, 1);
    assert_true(mu_rwlock_write(h->lock, 1000 * MS));
    mu_rwlock_write_end(h->lock);

    child = spawn(child_writes_forever, h);
    await_at_least(&h->inside, 2, 10);
    kill(child, SIGKILL);
    ended(child, 10);
    assert_false(mu_rwlock_read(h->lock, 0, 20 * MS));
    assert_true(mu_rwlock_write(h->lock, 1000 * MS));  // the next writer takes over what the dead one held
    assert_false(mu_rwlock_read(h->lock, 0, 0));
    mu_rwlock_write_end(h->lock);
    assert_true(mu_rwlock_read(h->lock, 0, 0));
    mu_rwlock_read_end(h->lock, 0);

    child = spawn(child_writes_forever, h);
    await_at_least(&h->inside, 3, 10);
    kill(child, SIGKILL);
    ended(child, 10);
    mu_rwlock_clear_writer(h->lock);
    assert_true(mu_rwlock_read(h->lock, 0, 0));
    mu_rwlock_read_end(h->lock, 0);
    free_hall(h);
}

// A reader sleeping for a dead writer goes on when the writer's flag is cleared, and the other way round.
static void child_waits_to_read(void *arg) {
    hall *h = arg;
    atomic_fetch_add(&h->inside, 1);
    check(mu_rwlock_read(h->lock, 2, 20000 * MS));
    mu_rwlock_read_end(h->lock, 2);
}

static void child_waits_to_write(void *arg) {
    hall *h = arg;
    atomic_fetch_add(&h->inside, 1);
    check(mu_rwlock_write(h->lock, 20000 * MS));
    mu_rwlock_write_end(h->lock);
}

static void test_clearing_wakes(void **state) {
    (void)state;
    hall *h = new_hall();
    assert_true(mu_rwlock_write(h->lock, 0));
    pid_t child = spawn(child_waits_to_read, h);
    await_at_least(&h->inside, 1, 10);
    nap_ms(30);
    double begin = mu_clock_s();
    mu_rwlock_clear_writer(h->lock);
    assert_exits_0(child, 10);
    assert_true(mu_rwlock_read(h->lock, 0, 0));
    child = spawn(child_waits_to_write, h);
    await_at_least(&h->inside, 2, 10);
    nap_ms(30);
    mu_rwlock_clear(h->lock, 0);
    assert_exits_0(child, 10);
    assert_true(mu_rwlock_read(h->lock, 0, 0));
    child = spawn(child_waits_to_write, h);
    await_at_least(&h->inside, 3, 10);
    nap_ms(30);
    atomic_store(&h->lock->reader[0].reading, 0);       // a reader that died between lowering and waking
    mu_rwlock_clear(h->lock, 0);
    assert_exits_0(child, 10);
    double took = mu_clock_s() - begin;
    if (took > 8) fail_msg("woken after %g s", took);
    free_hall(h);
}

// Reads until told to stop; false: the two words differed.
static bool read_on(hall *h, int me) {
    while (!atomic_load_explicit(&h->stop, memory_order_relaxed)) {
        if (!mu_rwlock_read(h->lock, me, 10000 * MS)) return false;
        int64_t x = h->x;
        for (volatile int i = 0; i < 40; i++) {}
        int64_t y = h->y;
        mu_rwlock_read_end(h->lock, me);
        if (x != y) return false;
        int64_t n = atomic_fetch_add_explicit(&h->reads[me], 1, memory_order_relaxed);
        for (volatile int64_t i = n * 7 % h->apart; i > 0; i--) {}
    }
    return true;
}

static bool write_on(hall *h) {
    while (!atomic_load_explicit(&h->stop, memory_order_relaxed)) {
        if (!mu_rwlock_write(h->lock, 10000 * MS)) return false;
        h->x++;
        for (volatile int i = 0; i < 40; i++) {}
        if (h->x % 8 == 0) nap_ms(1);   // long enough to be killed in
        h->y++;
        mu_rwlock_write_end(h->lock);
        atomic_fetch_add_explicit(&h->writes, 1, memory_order_relaxed);
    }
    return true;
}

static void child_reader0(void *arg) { check(read_on(arg, 0)); }
static void child_reader1(void *arg) { check(read_on(arg, 1)); }
static void child_reader2(void *arg) { check(read_on(arg, 2)); }
static void child_writer(void *arg) { check(write_on(arg)); }

static void (*const role[READERS + 1])(void *) = {child_reader0, child_reader1, child_reader2, child_writer};

static void clear_after(hall *h, int i) {
    if (i < READERS) {
        mu_rwlock_clear(h->lock, i);
        return;
    }
    // Before anybody may read again, as the watchdog does it: the write is finished, then the flag lowered.
    if (h->x != h->y) atomic_fetch_add(&h->inside, 1);
    h->y = h->x;
    mu_rwlock_clear_writer(h->lock);
}

static void test_rw_storm(void **state) {
    (void)state;
    enum { KILLS = 200 };
    hall *h = new_hall();
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    pid_t child[READERS + 1];
    for (int i = 0; i <= READERS; i++) child[i] = spawn(role[i], h);
    for (int k = 0; k < KILLS; k++) {
        struct timespec t = {.tv_nsec = (long)(rand_r(&seed) % 2000000)};
        nanosleep(&t, NULL);
        int i = rand_r(&seed) % 2 ? READERS : (int)((unsigned)rand_r(&seed) % READERS);
        kill(child[i], SIGKILL);
        int how = ended(child[i], 10);
        if (!WIFSIGNALED(how)) fail_msg("kill %d: child %d had ended by itself, wait status 0x%x", k, i, how);
        clear_after(h, i);
        child[i] = spawn(role[i], h);
    }
    for (int i = 0; i < READERS; i++) await_at_least(&h->reads[i], 1, 20);
    atomic_store(&h->stop, 1);
    for (int i = 0; i <= READERS; i++) assert_exits_0(child[i], 15);
    assert_int_equal(h->x, h->y);
    int half = atomic_load(&h->inside);
    print_message("%lld writes, %lld reads, %d writers died half way\n", (long long)atomic_load(&h->writes),
                  (long long)atomic_load(&h->reads[0]), half);
    if (half < 1) fail_msg("no kill of %d hit a writer inside: the test shows nothing", KILLS);
    free_hall(h);
}

// ---- threads: for ThreadSanitizer, and for turns ----

typedef struct worker { hall *h; int me; bool good; } worker;

static void *thread_reads(void *arg) {
    worker *w = arg;
    w->good = read_on(w->h, w->me);
    return NULL;
}

// Writes without a pause until every reader got in `enough` times and min_s passed.
static bool write_against(hall *h, int n_readers, int64_t enough, double min_s) {
    double begin = mu_clock_s();
    for (bool all = false; !all || mu_clock_s() < begin + min_s;) {
        if (mu_clock_s() > begin + 20 || !mu_rwlock_write(h->lock, 10000 * MS)) return false;
        h->x++;
        h->y++;
        mu_rwlock_write_end(h->lock);
        atomic_fetch_add(&h->writes, 1);
        all = true;
        for (int i = 0; i < n_readers; i++) all &= atomic_load(&h->reads[i]) >= enough;
    }
    return true;
}

static void with_threads(int n_readers, int64_t apart, int64_t enough, double min_s) {
    hall *h = new_hall();
    h->apart = apart;
    pthread_t t[READERS];
    worker w[READERS];
    for (int i = 0; i < n_readers; i++) {
        w[i] = (worker){.h = h, .me = i};
        assert_int_equal(pthread_create(&t[i], NULL, thread_reads, &w[i]), 0);
    }
    bool done = write_against(h, n_readers, enough, min_s);
    atomic_store(&h->stop, 1);
    for (int i = 0; i < n_readers; i++) pthread_join(t[i], NULL);
    long long writes = (long long)atomic_load(&h->writes), reads = (long long)atomic_load(&h->reads[0]);
    print_message("%lld writes, %lld reads\n", writes, reads);
    for (int i = 0; i < n_readers; i++) assert_true(w[i].good);
    if (!done) fail_msg("readers were kept out: %lld reads during %lld writes", reads, writes);
    assert_int_equal(h->x, h->y);
    free_hall(h);
}

// One against one, a few 100,000 times: the two flags cross at every distance.
static void test_crossing(void **state) {
    (void)state;
    with_threads(1, 200, 1, 0.4);
}

static void test_threads(void **state) {
    (void)state;
    with_threads(READERS, 1, 50, 0.1);
}

// A reader that waited for one write is let in before the next: the writer gives it a short while, and no
// more if it does not come. Here it cannot, so the while is seen whole, however busy the machine is.
static void test_turns(void **state) {
    (void)state;
    enum { TRIES = 1000, GAVE_WAY = 3 };        // WANTED in lock.c
    hall *h = new_hall();
    assert_true(mu_rwlock_write(h->lock, 0));
    pid_t child = spawn(child_waits_to_read, h);
    for (int i = 0; i < 10000 && atomic_load(&h->lock->reader[2].reading) != GAVE_WAY; i++) nap_ms(1);
    int how;
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &how, WUNTRACED), child);
    assert_true(WIFSTOPPED(how));
    int64_t begin = mu_clock_ns();
    mu_rwlock_write_end(h->lock);
    assert_true(mu_rwlock_write(h->lock, 10000 * MS));
    int64_t waited = mu_clock_ns() - begin, shortest = INT64_MAX;
    mu_rwlock_write_end(h->lock);
    kill(child, SIGCONT);
    assert_exits_0(child, 10);
    for (int i = 0; i < TRIES; i++) {
        begin = mu_clock_ns();
        assert_true(mu_rwlock_write(h->lock, 10000 * MS));
        mu_rwlock_write_end(h->lock);
        if (mu_clock_ns() - begin < shortest) shortest = mu_clock_ns() - begin;
    }
    print_message("%lld ns for a reader whose turn it is, %lld without\n", (long long)waited,
                  (long long)shortest);
    assert_true(waited >= 100000 && shortest < 100000);
    free_hall(h);
}

static void *thread_counts(void *arg) {
    safe *s = arg;
    for (int i = 0; i < 2000; i++) {
        if (mu_lock_take(&s->lock, 10000 * MS) != MU_LOCKED) return arg;
        s->a++;
        s->b++;
        mu_lock_unlock(&s->lock);
    }
    return NULL;
}

static void test_mutex_threads(void **state) {
    (void)state;
    safe *s = new_safe();
    pthread_t t[2];
    void *bad[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, thread_counts, s), 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], &bad[i]);
    assert_null(bad[0]);
    assert_null(bad[1]);
    assert_int_equal(s->a, 4000);
    assert_int_equal(s->b, 4000);
    munmap(s, sizeof *s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holder_killed),       cmocka_unit_test(test_waiter_is_told),
        cmocka_unit_test(test_storm),               cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_cleared_after_death), cmocka_unit_test(test_clearing_wakes),
        cmocka_unit_test(test_rw_storm),            cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_threads),             cmocka_unit_test(test_turns),
        cmocka_unit_test(test_mutex_threads),
    };
    return cmocka_run_group_tests_name("comm/lock", tests, NULL, NULL);
}
