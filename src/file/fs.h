// SPDX-License-Identifier: Apache-2.0
// fs.h - the door to the disk: every call that changes it goes through one table of functions.
//
// So tests can stop the world at the n-th call, or hand back ENOSPC and EIO, without a special file
// system; scripts/check-writes.sh refuses other ways. Files that appear as a whole are file/outfile.h's;
// those that grow line by line (metrics, events, logs) are opened and closed by mu_fs() itself.
// Interrupted and short writes are continued; every failure is MU_EIO with path and errno text.
// The log (base/log.c) is the one exception: it must be able to speak when the disk does not answer.
#ifndef MU_FILE_FS_H
#define MU_FILE_FS_H

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define MU_FS_PATH 4096         // bytes of a path with its terminator
#define MU_FS_UNFINISHED ".tmp-" // with a process id behind it: the end of the name of a file in the making

typedef struct mu_fs_ops {      // same contracts as the system calls of these names
    int     (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*write)(int fd, const void *data, size_t size);
    int     (*fsync)(int fd);
    int     (*ftruncate)(int fd, off_t size);
    int     (*close)(int fd);
    int     (*rename)(const char *from, const char *to);
    int     (*mkdir)(const char *path, mode_t mode);
    int     (*unlink)(const char *path);
    int     (*rmdir)(const char *path);
} mu_fs_ops;

extern const mu_fs_ops mu_fs_system;            // the real ones
void mu_fs_set_ops(const mu_fs_ops *ops);       // tests only, before other threads write; NULL = mu_fs_system
const mu_fs_ops *mu_fs(void);                   // those in use: mu_fs()->open(path, flags, 0666)
// MU_EIO "cannot <act> `path`: <errno>", with a hint where the disk is full or may not be written.
mu_status mu_fs_fail(mu_err *err, const char *act, const char *path);

// out = dir/name. MU_EUSAGE when it does not fit.
MU_MUST_CHECK mu_status mu_fs_join(char out[MU_FS_PATH], const char *dir, const char *name, mu_err *err);

MU_MUST_CHECK mu_status mu_fs_write_all(int fd, const void *data, size_t size, const char *path, mu_err *err);
bool mu_fs_is_folder(const char *path);
MU_MUST_CHECK mu_status mu_fs_mkdirs(const char *path, mu_err *err);    // with parents; existing is fine
MU_MUST_CHECK mu_status mu_fs_sync_dir(const char *path, mu_err *err);
MU_MUST_CHECK mu_status mu_fs_sync_parent(const char *path, mu_err *err); // the folder that holds it
MU_MUST_CHECK mu_status mu_fs_rename(const char *from, const char *to, mu_err *err);

// Whole file into *out (owned by the caller, mu_free; a NUL follows the last byte). MU_ENOTFOUND when it
// is not there, MU_EMODEL when it is longer than max_bytes.
MU_MUST_CHECK mu_status mu_fs_read(const char *path, size_t max_bytes, char **out, size_t *size, mu_err *err);

// Removing is best effort: what cannot be removed is logged and left.
void mu_fs_remove_file(const char *path);
void mu_fs_remove_tree(const char *path);       // with everything below; links are removed, not followed
void mu_fs_remove_unfinished(const char *dir);  // what killed writers left there; none may be at work

#endif
