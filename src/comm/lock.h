// SPDX-License-Identifier: Apache-2.0
// lock.h - locks between processes that survive the death of their holder.
//
// mu_lock: a robust mutex. The next locker after a death is told; it repairs what the lock protects.
// mu_rwlock: many readers and one writer, for copies of the weights that must be of one moment. Each
// reader has a flag of its own, so readers do not fight for a cache line and the watchdog can clear the
// flag of a dead one. The caller serialises writers: only the executors that share one update write.
#ifndef MU_COMM_LOCK_H
#define MU_COMM_LOCK_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct mu_lock { pthread_mutex_t mutex; } mu_lock;

typedef enum mu_lock_result {
    MU_LOCKED,
    MU_LOCKED_AFTER_DEATH,      // held now; the previous holder died inside
    MU_LOCK_TIMEOUT             // not held
} mu_lock_result;

MU_MUST_CHECK mu_status mu_lock_init(mu_lock *l, mu_err *err);  // process-shared and robust
MU_MUST_CHECK mu_lock_result mu_lock_take(mu_lock *l, int64_t timeout_ns);
void mu_lock_unlock(mu_lock *l);

typedef struct mu_rwlock_reader {
    _Alignas(64) _Atomic uint32_t reading;
} mu_rwlock_reader;

typedef struct mu_rwlock {
    _Alignas(64) _Atomic uint32_t writing;
    uint32_t n_readers;
    mu_rwlock_reader reader[];
} mu_rwlock;

size_t mu_rwlock_size(int n_readers);
void   mu_rwlock_init(mu_rwlock *l, int n_readers);
bool   mu_rwlock_read(mu_rwlock *l, int reader, int64_t timeout_ns);    // false: timeout, not held
void   mu_rwlock_read_end(mu_rwlock *l, int reader);
bool   mu_rwlock_write(mu_rwlock *l, int64_t timeout_ns);               // false: timeout, not held
void   mu_rwlock_write_end(mu_rwlock *l);
void   mu_rwlock_clear(mu_rwlock *l, int reader);       // the reader is dead
void   mu_rwlock_clear_writer(mu_rwlock *l);            // the writer is dead

#endif
