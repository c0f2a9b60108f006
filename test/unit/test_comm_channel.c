// SPDX-License-Identifier: Apache-2.0
// test_comm_channel.c - messages between threads and between processes: each arrives once, whole and in
// order; nobody writes what is being read; every wait ends.
#include "comm_help.h"

#include "comm/channel.h"

#include <pthread.h>

enum { WORDS = 1000, MESSAGES = 3000 };

typedef struct pair {
    mu_channel_terms terms;
    MU_ALIGNED(64) char there[8192], back[8192];
} pair;

static mu_channel *open_in(pair *p, void *memory) {
    mu_channel *c = NULL;
    mu_err err = {0};
    if (mu_channel_open_memory("x>y", WORDS * sizeof(int32_t), &p->terms, memory, &c, &err) != MU_OK) abort();
    return c;
}

// Message k is WORDS times k; the answer is the number that all its words have, or -1.
static bool ask(pair *p) {
    mu_channel *there = open_in(p, p->there), *back = open_in(p, p->back);
    mu_err err = {0};
    bool good = true;
    for (int32_t k = 0; k < MESSAGES && good; k++) {
        void *to;
        const void *from;
        good = there->class->place(there, &to, &err) == MU_OK;
        for (int i = 0; good && i < WORDS; i++) ((int32_t *)to)[i] = k;
        if (good) there->class->send(there);
        if (k % 3 == 0) continue; // answers come to every third message and the one behind it
        good = good && back->class->receive(back, &from, &err) == MU_OK &&
               *(const int32_t *)from == k - (k % 3 == 2);
        if (good) back->class->release(back);
    }
    good = good && there->sent == MESSAGES;
    mu_channel_close(there);
    mu_channel_close(back);
    return good;
}

static bool answer(pair *p) {
    mu_channel *there = open_in(p, p->there), *back = open_in(p, p->back);
    mu_err err = {0};
    bool good = true;
    for (int32_t k = 0; k < MESSAGES && good; k++) {
        const void *from;
        void *to;
        good = there->class->receive(there, &from, &err) == MU_OK;
        for (int i = 0; good && i < WORDS; i++) good = ((const int32_t *)from)[i] == k;
        if (!good) break;
        there->class->release(there);
        if (k % 3 == 2) continue;
        good = back->class->place(back, &to, &err) == MU_OK;
        *(int32_t *)to = k + (k % 3 == 0);
        if (good) back->class->send(back);
    }
    mu_channel_close(there);
    mu_channel_close(back);
    return good;
}

static void *answer_thread(void *p) { return answer(p) ? p : NULL; }

static pair *shared_pair(void) {
    pair *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    p->terms.limit_ns = 20000 * MS;
    assert_true(mu_channel_memory_size(WORDS * sizeof(int32_t)) <= sizeof p->there);
    return p;
}

static void between_threads(void **state) {
    (void)state;
    pair *p = shared_pair();
    pthread_t id;
    void *end;
    assert_int_equal(pthread_create(&id, NULL, answer_thread, p), 0);
    assert_true(ask(p));
    assert_int_equal(pthread_join(id, &end), 0);
    assert_ptr_equal(end, p);
    munmap(p, sizeof *p);
}

static void between_processes(void **state) {
    (void)state;
    pair *p = shared_pair();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        check(answer(p));
        _exit(0);
    }
    assert_true(ask(p));
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    munmap(p, sizeof *p);
}

// The writer is killed between two messages: the reader is told by who noticed, or its time ends.
static void waits_end(void **state) {
    (void)state;
    pair *p = shared_pair();
    mu_channel *c = open_in(p, p->there);
    const void *from;
    void *to;
    p->terms.limit_ns = 5 * MS;
    const int64_t began = mu_clock_ns();
    assert_fails(c->class->receive(c, &from, err), MU_EBACKEND, "`x>y` waited 0.0 s for its writer");
    assert_true(mu_clock_ns() - began >= 5 * MS);
    p->terms.limit_ns = 20000 * MS;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        mu_channel *own = open_in(p, p->there);
        mu_err err = {0};
        check(own->class->place(own, &to, &err) == MU_OK);
        own->class->send(own);
        check(own->class->place(own, &to, &err) != MU_OK); // nobody lets go of the first
        _exit(0);
    }
    assert_ok(c->class->receive(c, &from, err));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    c->class->release(c);
    atomic_store(&p->terms.given_up, true);
    assert_fails(c->class->receive(c, &from, err), MU_EBACKEND, "another worker of the group failed");
    atomic_store(&p->terms.given_up, false);
    mu_channel_memory_reset(p->there);
    assert_ok(c->class->place(c, &to, err));
    c->class->send(c);
    assert_ok(c->class->receive(c, &from, err));
    assert_ptr_equal(from, to);
    mu_channel_close(c);
    munmap(p, sizeof *p);
}

// A process that was stopped for longer than the limit has not waited: Ctrl-Z stops a whole run.
static void time_stopped_is_no_wait(void **state) {
    (void)state;
    pair *p = shared_pair();
    mu_channel *c = open_in(p, p->there);
    void *to;
    p->terms.limit_ns = 2000 * MS;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        mu_channel *own = open_in(p, p->there);
        const void *from;
        mu_err err = {0};
        own->pulse = (_Atomic uint64_t *)(void *)p->back;
        check(own->class->receive(own, &from, &err) == MU_OK);
        _exit(0);
    }
    _Atomic uint64_t *const pulse = (_Atomic uint64_t *)(void *)p->back;
    while (!atomic_load(pulse)) usleep(1000); // it waits
    kill(child, SIGSTOP);
    usleep(2500000);
    const uint64_t before = atomic_load(pulse);
    kill(child, SIGCONT);
    for (int i = 0; i < 1000 && atomic_load(pulse) < before + 3; i++) usleep(1000); // it looked again
    assert_ok(c->class->place(c, &to, err));
    c->class->send(c);
    int how = -1;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    mu_channel_close(c);
    munmap(p, sizeof *p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(between_threads),
        cmocka_unit_test(between_processes),
        cmocka_unit_test(waits_end),
        cmocka_unit_test(time_stopped_is_no_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
