// SPDX-License-Identifier: Apache-2.0
// fs.h - the door to the disk for everything a run writes.
//
// A file that other code will trust later is written in one of two ways: mu_fs_replace for small
// texts (temporary file, fsync, rename, fsync of the folder), or a mu_fs_file that digests what passes
// through it while the caller assembles a folder that is renamed as a whole (store/checkpoint.h).
// Interrupted and short writes are continued; every failure is MU_EIO with path and errno text.
//
// The calls behind both go through one table of functions, so that tests can stop the world
// at the n-th call, or hand back ENOSPC and EIO, without a special file system.
#ifndef MU_FILE_FS_H
#define MU_FILE_FS_H

#include "base/err.h"
#include "file/digest.h"

#include <stdint.h>
#include <sys/types.h>

#define MU_FS_PATH 4096         // bytes of a path with its terminator

typedef struct mu_fs_ops {      // same contracts as the system calls of these names
    int     (*open)(const char *path, int flags, mode_t mode);
    ssize_t (*write)(int fd, const void *data, size_t size);
    int     (*fsync)(int fd);
    int     (*close)(int fd);
    int     (*rename)(const char *from, const char *to);
    int     (*mkdir)(const char *path, mode_t mode);
    int     (*unlink)(const char *path);
    int     (*rmdir)(const char *path);
} mu_fs_ops;

extern const mu_fs_ops mu_fs_system;            // the real ones
void mu_fs_set_ops(const mu_fs_ops *ops);       // tests only, before other threads write; NULL = mu_fs_system

// out = dir/name. MU_EUSAGE when it does not fit.
MU_MUST_CHECK mu_status mu_fs_join(char out[MU_FS_PATH], const char *dir, const char *name, mu_err *err);

MU_MUST_CHECK mu_status mu_fs_write_all(int fd, const void *data, size_t size, const char *path, mu_err *err);
bool mu_fs_is_folder(const char *path);
MU_MUST_CHECK mu_status mu_fs_mkdirs(const char *path, mu_err *err);    // with parents; existing is fine
MU_MUST_CHECK mu_status mu_fs_sync_dir(const char *path, mu_err *err);
MU_MUST_CHECK mu_status mu_fs_rename(const char *from, const char *to, mu_err *err);

// Replaces dir/name by `size` bytes: afterwards, also after a power cut, the old or the new content is there.
MU_MUST_CHECK mu_status mu_fs_replace(const char *dir, const char *name, const void *data, size_t size,
                                      mu_err *err);

// Whole file into *out (owned by the caller, mu_free; a NUL follows the last byte). MU_ENOTFOUND when it
// is not there, MU_EMODEL when it is longer than max_bytes.
MU_MUST_CHECK mu_status mu_fs_read(const char *path, size_t max_bytes, char **out, size_t *size, mu_err *err);

// Removing is best effort: what cannot be removed is logged and left. The folder holds plain files only.
void mu_fs_remove_file(const char *path);
void mu_fs_remove_dir(const char *path);

// ---- a new file that is digested while it is written ----

typedef struct mu_fs_file mu_fs_file;

MU_MUST_CHECK mu_status mu_fs_file_create(const char *path, mu_fs_file **out, mu_err *err); // must not exist
MU_MUST_CHECK mu_status mu_fs_file_write(mu_fs_file *f, const void *data, size_t size, mu_err *err);
// fsync and close; fills *digest (fini it). The file object is gone afterwards, whatever is returned.
MU_MUST_CHECK mu_status mu_fs_file_finish(mu_fs_file *f, mu_digest *digest, mu_err *err);
void mu_fs_file_abandon(mu_fs_file *f);         // closes without syncing; the caller removes the file

#endif
