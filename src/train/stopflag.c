// SPDX-License-Identifier: Apache-2.0
// stopflag.c - see stopflag.h. The handler touches lock-free atomics and, for the impatient, calls _exit:
// both are async-signal-safe. It runs on a stack of its own: oneDNN's matrix product (2.6, dnnl_sgemm) moves
// the stack pointer into its buffers, and a handler on the interrupted stack overwrites the heap there.
#include "train/stopflag.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static atomic_int requested;    // 0 or the first signal
static atomic_int n_int;        // SIGINTs so far
static struct sigaction before_int, before_term, before_hup;
static bool installed;
static _Alignas(64) char handler_stack[64 * 1024]; // a frame with the wide registers alone is 11 KiB

static void on_signal(int signo) {
    int none = 0;
    atomic_compare_exchange_strong(&requested, &none, signo);
    if (signo == SIGINT && atomic_fetch_add(&n_int, 1) > 0) _exit(130);
}

mu_status mu_stop_install(mu_err *err) {
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    stack_t now, own = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};
    if (installed) return MU_OK;
    sigemptyset(&act.sa_mask);
    if (sigaltstack(NULL, &now) || ((now.ss_flags & SS_DISABLE) && sigaltstack(&own, NULL)))
        return MU_FAIL(err, MU_EIO, "cannot give signals a stack of their own: %s", strerror(errno));
    if (sigaction(SIGINT, &act, &before_int) || sigaction(SIGTERM, &act, &before_term))
        return MU_FAIL(err, MU_EIO, "cannot install signal handlers: %s", strerror(errno));
    if (sigaction(SIGHUP, NULL, &before_hup) ||
        (before_hup.sa_handler != SIG_IGN && sigaction(SIGHUP, &act, NULL)))
        return MU_FAIL(err, MU_EIO, "cannot install signal handlers: %s", strerror(errno));
    installed = true;
    return MU_OK;
}

void mu_stop_uninstall(void) {
    if (!installed) return;
    sigaction(SIGINT, &before_int, NULL);
    sigaction(SIGTERM, &before_term, NULL);
    sigaction(SIGHUP, &before_hup, NULL);
    installed = false;
}

int mu_stop_requested(void) { return atomic_load_explicit(&requested, memory_order_relaxed); }

mu_status mu_stop_status(void) {
    int s = mu_stop_requested();
    return s == SIGINT ? MU_EINTERRUPTED : s == SIGTERM ? MU_ETERMINATED : s == SIGHUP ? MU_EHANGUP : MU_OK;
}

void mu_stop_reset(void) {
    atomic_store(&requested, 0);
    atomic_store(&n_int, 0);
}
