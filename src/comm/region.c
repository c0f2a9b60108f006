// SPDX-License-Identifier: Apache-2.0
// region.c - see region.h.
//
// A memfd is limited by nothing but the machine: reserving more than there is would not fail, it would call
// the kernel's out-of-memory killer. So the size is compared with the memory available first.
//
// Huge pages. Distributions switch them off for shared memory, which costs a third of the bandwidth of an
// update and, in every child, a page fault per 4 KiB. A process may still ask for them by name
// (MADV_COLLAPSE, Linux 6.1): one small page is put into each 2 MiB, and collapsing makes a huge one of it
// without a copy, faster than reserving small pages. Where that fails small pages are what there is.
//
// The seals fix the size for all processes, so none can make another one's access fault.
#include "comm/region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PREFIX "muster-"
static const char link_start[] = "/memfd:" PREFIX;
static const size_t huge_bytes = (size_t)2 << 20;

enum { MIB = 1 << 20, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static uint64_t mib(uint64_t bytes) { return (bytes + MIB - 1) / MIB; }

// ---- how much there is ----

static uint64_t file_number(const char *path, uint64_t otherwise) {
    FILE *f = fopen(path, "re");
    uint64_t n = otherwise;
    if (!f) return n;
    if (fscanf(f, "%" SCNu64, &n) != 1) n = otherwise;         // "max"
    fclose(f);
    return n;
}

// The number after `key` at the beginning of a line.
static uint64_t file_entry(const char *path, const char *key, uint64_t otherwise) {
    char line[256];
    uint64_t n = otherwise;
    FILE *f = fopen(path, "re");
    if (!f) return n;
    while (fgets(line, sizeof line, f)) {
        size_t len = strlen(key);
        if (!strncmp(line, key, len) && sscanf(line + len, "%" SCNu64, &n) == 1) break;
    }
    fclose(f);
    return n;
}

// What a container's limit leaves; pages of files count as free, the kernel drops them. Control groups of
// version 2 only; the group's path as a container sees it ends at its own root.
static uint64_t group_left(void) {
    char path[512] = "", name[640];
    uint64_t left = UINT64_MAX;
    FILE *f = fopen("/proc/self/cgroup", "re");
    char line[512];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, "0::/", 4)) snprintf(path, sizeof path, "%s", line + 3);
    }
    if (f) fclose(f);
    for (char *slash = path + strlen(path); slash; slash = strrchr(path, '/')) {
        *slash = '\0';                  // the group itself, then each one around it
        snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.max", path);
        uint64_t most = file_number(name, UINT64_MAX);
        if (most == UINT64_MAX) continue;
        snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.current", path);
        uint64_t used = file_number(name, 0);
        snprintf(name, sizeof name, "/sys/fs/cgroup%s/memory.stat", path);
        uint64_t files = file_entry(name, "inactive_file ", 0) + file_entry(name, "active_file ", 0);
        used = used > files ? used - files : 0;
        uint64_t here = most > used ? most - used : 0;
        if (here < left) left = here;
    }
    return left;
}

static uint64_t available_bytes(void) {
    uint64_t kib = file_entry("/proc/meminfo", "MemAvailable:", UINT64_MAX);
    uint64_t machine = kib == UINT64_MAX ? UINT64_MAX
                                         : (kib + file_entry("/proc/meminfo", "SwapFree:", 0)) * 1024;
    uint64_t group = group_left();
    return group < machine ? group : machine;
}

// ---- creating ----

// An address at which huge pages can be mapped. The reservation's ends are given back.
static char *map_aligned(int fd, size_t size) {
    size_t room = size + huge_bytes;
    char *r = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r == MAP_FAILED) return MAP_FAILED;
    size_t skip = (huge_bytes - (uintptr_t)r % huge_bytes) % huge_bytes;
    if (skip) munmap(r, skip);
    char *base = mmap(r + skip, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    munmap(r + skip + size, room - skip - size);
    if (base == MAP_FAILED) munmap(r + skip, size);
    return base;
}

static void ask_huge(int fd, char *base, size_t size) {
    static const char zero;
    size_t whole = size / huge_bytes * huge_bytes;
    for (size_t at = 0; at < whole; at += huge_bytes) {
        if (pwrite(fd, &zero, 1, (off_t)at) != 1) return;       // no memory: the reservation will say it
    }
    if (whole) (void)madvise(base, whole, MADV_COLLAPSE);
}

static mu_status reserve(int fd, size_t size, mu_err *err) {
    int e;
    do e = posix_fallocate(fd, 0, (off_t)size);
    while (e == EINTR);
    if (!e) return MU_OK;
    MU_FAIL(err, MU_ENOMEM, "cannot reserve %" PRIu64 " MB of shared memory: %s", mib(size), strerror(e));
    mu_err_hint(err, "Use fewer learners, a smaller batch or a smaller net, or end other programs.");
    return MU_ENOMEM;
}

static mu_status check_size(size_t size, mu_err *err) {
    if (!size) return MU_FAIL(err, MU_EUSAGE, "a shared region of 0 bytes");
    uint64_t there = available_bytes();
    if (size <= INT64_MAX - huge_bytes && size <= there) return MU_OK;
    MU_FAIL(err, MU_ENOMEM, "needs %" PRIu64 " MB of shared memory, %" PRIu64 " MB are available", mib(size),
            mib(there));
    mu_err_hint(err, "Use fewer learners, a smaller batch or a smaller net, or end other programs.");
    return MU_ENOMEM;
}

static mu_status fill(int fd, size_t size, char **base, mu_err *err) {
    if (fchmod(fd, 0600) || ftruncate(fd, (off_t)size) || fcntl(fd, F_ADD_SEALS, SEALS))
        return MU_FAIL(err, MU_EIO, "cannot prepare shared memory: %s", strerror(errno));
    char *p = map_aligned(fd, size);
    if (p == MAP_FAILED)
        return MU_FAIL(err, MU_ENOMEM, "cannot map %" PRIu64 " MB: %s", mib(size), strerror(errno));
    ask_huge(fd, p, size);
    mu_status s = reserve(fd, size, err);
    if (s == MU_OK) *base = p;
    else munmap(p, size);
    return s;
}

mu_status mu_region_create(const char *run_id, size_t size, mu_region *out, mu_err *err) {
    char name[128], *base = NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    MU_TRY(check_size(size, err));
    size = (size + page - 1) / page * page;
    snprintf(name, sizeof name, PREFIX "%s", run_id);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return MU_FAIL(err, MU_EIO, "cannot create shared memory: %s", strerror(errno));
    mu_status s = fill(fd, size, &base, err);
    if (s == MU_OK) *out = (mu_region){ .fd = fd, .size = size, .base = base };
    else close(fd);
    return s;
}

// ---- attaching ----

// What stands behind another process's descriptor, without opening it: it may be a pipe or a device.
static mu_status check_link(const char *path, pid_t pid, mu_err *err) {
    char target[sizeof link_start] = "";
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n < 0 && (errno == ENOENT || errno == ESRCH))
        return MU_FAIL(err, MU_ENOTFOUND, "process %d has ended or its shared memory is closed", (int)pid);
    if (n < 0)
        return MU_FAIL(err, MU_EIO, "cannot look at process %d: %s", (int)pid, strerror(errno));
    if (strcmp(target, link_start) != 0)
        return MU_FAIL(err, MU_EUSAGE, "process %d is not a run of muster", (int)pid);
    return MU_OK;
}

static mu_status map_existing(int fd, bool writable, mu_region *out, mu_err *err) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) || st.st_size <= 0)
        return MU_FAIL(err, MU_EUSAGE, "the shared memory is not of a run of muster: its size is not sealed");
    int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void *p = mmap(NULL, (size_t)st.st_size, access, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) return MU_FAIL(err, MU_ENOMEM, "cannot map shared memory: %s", strerror(errno));
    *out = (mu_region){ .fd = fd, .size = (size_t)st.st_size, .base = p };
    return MU_OK;
}

mu_status mu_region_attach(pid_t pid, int fd, bool writable, mu_region *out, mu_err *err) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    MU_TRY(check_link(path, pid, err));
    int own = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (own < 0 && (errno == ENOENT || errno == ESRCH))
        return MU_FAIL(err, MU_ENOTFOUND, "process %d has ended", (int)pid);
    if (own < 0)
        return MU_FAIL(err, MU_EIO, "cannot open %s: %s", path, strerror(errno));
    mu_status s = map_existing(own, writable, out, err);
    if (s != MU_OK) close(own);
    return s;
}

void mu_region_close(mu_region *r) {
    if (!r || !r->base) return;
    munmap(r->base, r->size);
    close(r->fd);
    *r = (mu_region){0};
}
