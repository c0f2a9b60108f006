// SPDX-License-Identifier: Apache-2.0
// live.c - see live.h. Everything known about other processes is read from /proc, where a zombie has no
// descriptors: one that was killed and not yet reaped counts as gone.
#include "store/live.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "file/json.h"
#include "file/outfile.h"
#include "store/metrics.h"
#include "store/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_LIVE_BYTES 4096
#define TAIL_BYTES (2 * MU_METRICS_LINE)

// ---- the file -----------------------------------------------------------------------------------

mu_status mu_live_write(const char *dir, pid_t pid, int fd, const char *run_id, mu_err *err) {
    mu_text t = {0};
    mu_text_printf(&t, "{\"pid\":%ld,\"fd\":%d,\"run_id\":", (long)pid, fd);
    mu_text_json_string(&t, run_id);
    mu_text_printf(&t, ",\"started\":%.3f}\n", mu_clock_wall_s());
    mu_status s = t.failed ? MU_FAIL_NOMEM(err, MU_RUN_LIVE)
                           : mu_outfile_replace(dir, MU_RUN_LIVE, t.s, t.n, err);
    mu_text_fini(&t);
    return s;
}

void mu_live_remove(const char *dir) {
    char path[MU_FS_PATH];
    if (mu_fs_join(path, dir, MU_RUN_LIVE, NULL) == MU_OK && access(path, F_OK) == 0) mu_fs_remove_file(path);
}

// False: no file, or none that this program wrote.
static bool read_live(const char *dir, mu_live *l) {
    static const mu_json_limits limits = {.max_depth = 2, .max_values = 64};
    char path[MU_FS_PATH], *text = NULL;
    size_t size;
    json_t *root = NULL;
    if (mu_fs_join(path, dir, MU_RUN_LIVE, NULL) != MU_OK) return false;
    if (mu_fs_read(path, MAX_LIVE_BYTES, &text, &size, NULL) != MU_OK) return false;
    mu_status s = mu_json_parse(text, size, &limits, MU_RUN_LIVE, &root, NULL);
    mu_free(text);
    if (s != MU_OK) return false;
    const json_t *pid = json_object_get(root, "pid"), *fd = json_object_get(root, "fd");
    const char *id = json_string_value(json_object_get(root, "run_id"));
    json_int_t p = json_integer_value(pid), f = json_integer_value(fd);
    bool ok = json_is_integer(pid) && json_is_integer(fd) && p > 0 && p <= INT_MAX && f >= 0 && f <= INT_MAX;
    ok = ok && id && strlen(id) < sizeof l->run_id;
    if (ok) {
        l->pid = (pid_t)p;
        l->fd = (int)f;
        snprintf(l->run_id, sizeof l->run_id, "%s", id);
        l->started = json_number_value(json_object_get(root, "started"));
    }
    json_decref(root);
    return ok;
}

// ---- who is alive -------------------------------------------------------------------------------

typedef enum proof { GONE, ALIVE, HIDDEN } proof;       // HIDDEN: this user may not see it

static proof not_seen(void) { return errno == EACCES || errno == EPERM ? HIDDEN : GONE; }

// The region of comm/region.h: an anonymous file named "muster-<run id>".
static bool holds_region(pid_t pid, int fd, const char *run_id) {
    char path[64], link[256], want[128];
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0) return false;
    link[n] = '\0';
    int m = snprintf(want, sizeof want, "/memfd:muster-%s", run_id);
    return !strncmp(link, want, (size_t)m) && (!link[m] || link[m] == ' ');
}

// Does the kernel's list of locks, which every user may read, know this one? The device in it is not that of
// stat on every file system, so pid and inode decide. Where there is no list the answer stays HIDDEN.
//     1: FLOCK  ADVISORY  WRITE 4711 fe:00:1095294 0 EOF
static proof in_list_of_locks(pid_t pid, const struct stat *file) {
    char line[256];
    FILE *f = fopen("/proc/locks", "re");
    if (!f) return HIDDEN;
    proof found = GONE;
    while (found == GONE && fgets(line, sizeof line, f)) {
        long holder;
        unsigned long inode;
        if (sscanf(line, "%*s FLOCK %*s %*s %ld %*x:%*x:%lu", &holder, &inode) == 2 && holder == pid &&
            inode == file->st_ino)
            found = HIDDEN;
    }
    fclose(f);
    return found;
}

static proof has_open(pid_t pid, const struct stat *file) {
    char folder[48], path[320];
    proof found = GONE;
    snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)pid);
    DIR *dir = opendir(folder);
    if (!dir) return not_seen() == HIDDEN ? in_list_of_locks(pid, file) : GONE;
    for (struct dirent *e; found == GONE && (e = readdir(dir));) {
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.' || stat(path, &st)) continue;
        if (st.st_dev == file->st_dev && st.st_ino == file->st_ino) found = ALIVE;
    }
    closedir(dir);
    return found;
}

// Is there a process that trains in this folder, by its lock file? *holder is 0 where that is not known.
static proof lock_holder(const char *dir, pid_t *holder) {
    char path[MU_FS_PATH], text[32] = "";
    struct stat st;
    *holder = 0;
    if (mu_fs_join(path, dir, MU_RUN_LOCK, NULL) != MU_OK) return GONE;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return not_seen();
    ssize_t n = read(fd, text, sizeof text - 1);
    bool known = n > 0 && !fstat(fd, &st);
    close(fd); // before asking, or this process would find itself
    long pid = known ? strtol(text, NULL, 10) : 0;
    if (pid <= 0 || pid > INT_MAX) return GONE;
    *holder = (pid_t)pid;
    return has_open((pid_t)pid, &st);
}

static bool is_run(const char *dir) {
    static const char *const marks[] = {MU_RUN_LIVE, MU_RUN_LOCK, MU_RUN_JOB, MU_RUN_METRICS};
    char path[MU_FS_PATH];
    for (size_t i = 0; i < MU_COUNT(marks); i++)
        if (mu_fs_join(path, dir, marks[i], NULL) == MU_OK && access(path, F_OK) == 0) return true;
    return false;
}

// l->dir is set.
static void look_at(mu_live *l) {
    l->fd = -1;
    if (read_live(l->dir, l)) {
        l->state = MU_LIVE_VANISHED;
        if (holds_region(l->pid, l->fd, l->run_id)) {
            l->state = MU_LIVE_GROUP;
            return;
        }
    } else {
        l->state = MU_LIVE_ENDED;
    }
    pid_t holder;
    proof lock = lock_holder(l->dir, &holder);
    if (lock == GONE) return;
    l->state = lock == ALIVE ? MU_LIVE_SINGLE : MU_LIVE_HIDDEN;
    l->pid = holder;
    l->fd = -1;
    l->run_id[0] = '\0';
}

// ---- finding ------------------------------------------------------------------------------------

static mu_status find_named(const char *path, mu_live *out, mu_err *err) {
    mu_live l = {0};
    int n = snprintf(l.dir, sizeof l.dir, "%s", path);
    if (n <= 0 || n >= MU_FS_PATH) return MU_FAIL(err, MU_EUSAGE, "bad folder name of %d bytes", n);
    while (n > 1 && l.dir[n - 1] == '/') l.dir[--n] = '\0';
    if (!mu_fs_is_folder(path))
        return mu_err_hinted(MU_FAIL(err, MU_ENOTFOUND, "no run folder `%s`", path), err,
                             "Without a name the newest run under `" MU_RUNS "/` is taken.");
    if (!is_run(path)) return MU_FAIL(err, MU_ENOTFOUND, "`%s` does not hold a run", path);
    look_at(&l);
    *out = l;
    return MU_OK;
}

// When a run began as far as its folder shows: by live.json, else by the last change of its lock file.
static double begun(const mu_live *l) {
    char path[MU_FS_PATH];
    struct stat st;
    if (l->started > 0) return l->started;
    if (mu_fs_join(path, l->dir, MU_RUN_LOCK, NULL) != MU_OK || stat(path, &st)) return 0;
    return (double)st.st_mtim.tv_sec + 1e-9 * (double)st.st_mtim.tv_nsec;
}

static bool better(const mu_live *a, double a_begun, const mu_live *b, double b_begun) {
    if (!b->dir[0]) return true;
    if (mu_live_works(a) != mu_live_works(b)) return mu_live_works(a);
    return a_begun > b_begun || (a_begun >= b_begun && strcmp(a->dir, b->dir) > 0);
}

mu_status mu_live_find(const char *path, mu_live *out, mu_err *err) {
    if (path) return find_named(path, out, err);
    mu_live best = {0};
    double best_begun = 0;
    DIR *dir = opendir(MU_RUNS);
    if (!dir && errno != ENOENT)
        return MU_FAIL(err, MU_EIO, "cannot read `" MU_RUNS "`: %s", strerror(errno));
    for (struct dirent *e; dir && (e = readdir(dir));) {
        mu_live l = {0};
        if (e->d_name[0] == '.' || mu_fs_join(l.dir, MU_RUNS, e->d_name, NULL) != MU_OK) continue;
        if (!is_run(l.dir)) continue;
        look_at(&l);
        double t = begun(&l);
        if (better(&l, t, &best, best_begun)) best = l, best_begun = t;
    }
    if (dir) closedir(dir);
    if (!best.dir[0])
        return mu_err_hinted(
            MU_FAIL(err, MU_ENOTFOUND, "no run in `" MU_RUNS "/` here"), err,
            "Name the run folder, or change to the folder where `muster train` was started.");
    *out = best;
    return MU_OK;
}

// ---- the end of metrics.jsonl -------------------------------------------------------------------

void mu_live_last_metrics(const char *dir, char *out, size_t size) {
    char path[MU_FS_PATH], tail[TAIL_BYTES];
    out[0] = '\0';
    if (mu_fs_join(path, dir, MU_RUN_METRICS, NULL) != MU_OK) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    off_t end = lseek(fd, 0, SEEK_END), from = end > TAIL_BYTES ? end - TAIL_BYTES : 0;
    ssize_t got = end > 0 ? pread(fd, tail, sizeof tail, from) : 0;
    close(fd);
    size_t n = got > 0 ? (size_t)got : 0;
    while (n && tail[n - 1] != '\n') n--; // a line torn by a kill
    if (!n) return;
    size_t stop = n - 1, begin = stop;
    while (begin && tail[begin - 1] != '\n') begin--;
    if ((begin == 0 && from > 0) || stop - begin >= size) return;
    memcpy(out, tail + begin, stop - begin);
    out[stop - begin] = '\0';
}

// ---- signals ------------------------------------------------------------------------------------

static mu_status gone(pid_t pid, mu_err *err) {
    return MU_FAIL(err, MU_ENOTFOUND, "process %ld is gone", (long)pid);
}

mu_status mu_live_signal(pid_t pid, int signo, mu_live_test is_it, void *ctx, mu_err *err) {
    if (pid <= 1) return gone(pid, err);
    int handle = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (handle < 0 && errno == ESRCH) return gone(pid, err);
    bool have = handle >= 0; // kernels before 5.3 have none: the question is then asked just before the shot
    if (!is_it(ctx, pid)) {
        if (have) close(handle);
        return gone(pid, err);
    }
    int rc = have ? (int)syscall(SYS_pidfd_send_signal, handle, signo, NULL, 0u) : kill(pid, signo);
    int why = errno;
    if (have) close(handle);
    if (rc == 0) return MU_OK;
    if (why == ESRCH) return gone(pid, err);
    return MU_FAIL(err, MU_EIO, "cannot signal process %ld: %s", (long)pid, strerror(why));
}

static bool still_holds(void *ctx, pid_t pid) {
    pid_t holder;
    return lock_holder(ctx, &holder) == ALIVE && holder == pid;
}

mu_status mu_live_terminate(const mu_live *l, mu_err *err) {
    char dir[MU_FS_PATH];
    memcpy(dir, l->dir, sizeof dir);
    return mu_live_signal(l->pid, SIGTERM, still_holds, dir, err);
}
