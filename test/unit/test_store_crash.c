// SPDX-License-Identifier: Apache-2.0
// Crashes while saving: after any of them the newest loadable checkpoint is exactly the one before or the
// one being saved, and the next save works.
//
// Two kinds. Simulated: the table of system calls in file/fs.h is replaced; after the n-th call nothing
// reaches the disk any more, and what had not been synced by then may be lost: files shrink to a random
// length, new directory entries vanish, renames are undone, each by the toss of a coin. Removals count as
// done at once, which is the order that hurts most. Real: a child saving in a loop is killed by SIGKILL at
// random moments.
#include "run_help.h"

#include "learners/record.h"
#include "store/events.h"
#include "store/metrics.h"
#include "store/rundir.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

// ---- the simulated disk ----

enum { MAX_PENDING = 256, MAX_FDS = 256, OLD_MAX = 4096 };
enum kind { UNSYNCED_DATA, UNSYNCED_ENTRY, UNSYNCED_RENAME };

typedef struct pending { // something a power cut may take back
    enum kind kind;
    char path[300]; // data: the file; entry: file or folder; rename: where it went
    char from[300]; // rename: where it came from
    char old[OLD_MAX];  // rename over a small file: what was there
    int old_size;   // -1 = nothing was there
} pending;

static struct disk {
    int countdown; // calls until the crash; 0 = never
    bool dead;
    int fail_errno; // != 0: the call fails once instead of crashing
    bool power_cut; // un-synced things may be lost
    int n_calls;
    char seen[4096];     // names of the calls, each followed by a space
    const char *refused; // name of the call that failed or crashed
    uint64_t seed;
    char fd_path[MAX_FDS][300];
    pending list[MAX_PENDING];
    int n;
} disk;

static void copy_path(char out[300], const char *path) {
    size_t n = strlen(path);
    if (n >= 300) fail_msg("path of %zu bytes", n);
    memmove(out, path, n + 1);
}

static void add_pending(enum kind kind, const char *path, const char *from) {
    if (disk.n == MAX_PENDING) fail_msg("more than %d pending operations", MAX_PENDING);
    pending *p = &disk.list[disk.n++];
    *p = (pending){.kind = kind, .old_size = -1};
    copy_path(p->path, path);
    copy_path(p->from, from);
}

static bool parent_is(const char *path, const char *dir) {
    size_t n = strlen(dir);
    return !strncmp(path, dir, n) && path[n] == '/' && !strchr(path + n + 1, '/');
}

static void drop_pending(int i) {
    memmove(&disk.list[i], &disk.list[i + 1], (size_t)(disk.n - i - 1) * sizeof disk.list[0]);
    disk.n--;
}

// True when this call must not happen: the crash is here or was before. A failing call is not a crash.
static bool refuse(const char *call) {
    disk.n_calls++;
    if (disk.countdown != 1) strncat(disk.seen, call, sizeof disk.seen - strlen(disk.seen) - 2);
    if (disk.countdown != 1) strcat(disk.seen, " ");
    else disk.refused = call;
    if (disk.dead) return errno = EIO, true;
    if (disk.countdown == 0 || --disk.countdown > 0) return false;
    if (disk.fail_errno) errno = disk.fail_errno;
    else disk.dead = true, errno = EIO;
    return true;
}

static int sim_open(const char *path, int flags, mode_t mode) {
    if (refuse("open")) return -1;
    bool is_new = flags & O_CREAT && access(path, F_OK) != 0;
    int fd = open(path, flags, mode);
    if (fd < 0 || fd >= MAX_FDS) return fd;
    snprintf(disk.fd_path[fd], sizeof disk.fd_path[fd], "%s", path);
    if (is_new) add_pending(UNSYNCED_ENTRY, path, "");
    return fd;
}

static ssize_t sim_write(int fd, const void *data, size_t size) {
    bool was_dead = disk.dead;
    if (refuse("write")) {
        if (!was_dead && size > 1) { // the call that crashes gets half of its bytes out
            ssize_t half = write(fd, data, size / 2);
            (void)half;
            add_pending(UNSYNCED_DATA, disk.fd_path[fd], "");
        }
        return -1;
    }
    add_pending(UNSYNCED_DATA, disk.fd_path[fd], "");
    return write(fd, data, size);
}

// Syncing is bookkeeping here: the real disk is not waited for.
static int sim_fsync(int fd) {
    if (refuse("fsync")) return -1;
    for (int i = disk.n - 1; i >= 0; i--) {
        const pending *p = &disk.list[i];
        bool done = p->kind == UNSYNCED_DATA ? !strcmp(p->path, disk.fd_path[fd])
                                             : parent_is(p->path, disk.fd_path[fd]);
        if (done) drop_pending(i);
    }
    return 0;
}

static int sim_close(int fd) { // always closes, so that the test does not leak
    bool no = refuse("close");
    close(fd);
    return no ? -1 : 0;
}

// What was pending below `from` is now pending below `to`.
static void move_pending(const char *from, const char *to) {
    size_t n = strlen(from);
    for (int i = 0; i < disk.n; i++) {
        pending *p = &disk.list[i];
        char rest[300];
        if (strncmp(p->path, from, n) || (p->path[n] && p->path[n] != '/')) continue;
        snprintf(rest, sizeof rest, "%s", p->path + n);
        snprintf(p->path, sizeof p->path, "%.140s%.150s", to, rest);
    }
}

static int sim_rename(const char *from, const char *to) {
    if (refuse("rename")) return -1;
    char old[OLD_MAX];
    int old_size = -1, fd = open(to, O_RDONLY);
    if (fd >= 0) {
        old_size = (int)read(fd, old, sizeof old);
        close(fd);
    }
    int rc = rename(from, to);
    if (rc) return rc;
    move_pending(from, to);
    // The name exists whatever becomes of the rename: with the new file or the old one.
    for (int i = disk.n - 1; i >= 0 && old_size >= 0; i--)
        if (disk.list[i].kind == UNSYNCED_ENTRY && !strcmp(disk.list[i].path, to)) drop_pending(i);
    add_pending(UNSYNCED_RENAME, to, from);
    if (old_size >= 0) {
        disk.list[disk.n - 1].old_size = old_size;
        memcpy(disk.list[disk.n - 1].old, old, (size_t)old_size);
    }
    return 0;
}

static int sim_mkdir(const char *path, mode_t mode) {
    if (refuse("mkdir")) return -1;
    int rc = mkdir(path, mode);
    if (rc == 0) add_pending(UNSYNCED_ENTRY, path, "");
    return rc;
}

static int sim_ftruncate(int fd, off_t size) {
    if (refuse("ftruncate")) return -1;
    add_pending(UNSYNCED_DATA, disk.fd_path[fd], "");
    return ftruncate(fd, size);
}

static int sim_unlink(const char *path) { return refuse("unlink") ? -1 : unlink(path); }
static int sim_rmdir(const char *path) { return refuse("rmdir") ? -1 : rmdir(path); }

static const mu_fs_ops sim = {.open = sim_open,
                              .write = sim_write,
                              .fsync = sim_fsync,
                              .ftruncate = sim_ftruncate,
                              .close = sim_close,
                              .rename = sim_rename,
                              .mkdir = sim_mkdir,
                              .unlink = sim_unlink,
                              .rmdir = sim_rmdir};

static void arm(int countdown, int fail_errno, bool power_cut, uint64_t seed) {
    disk.countdown = countdown;
    disk.dead = false;
    disk.fail_errno = fail_errno;
    disk.power_cut = power_cut;
    disk.n_calls = disk.n = 0;
    disk.seen[0] = '\0';
    disk.refused = NULL;
    disk.seed = seed;
}

// The power comes back: newest first, each un-synced thing may have been lost.
static void come_back(void) {
    for (int i = disk.n - 1; disk.dead && disk.power_cut && i >= 0; i--) {
        const pending *p = &disk.list[i];
        if (next_random(&disk.seed) & 1) continue;
        if (p->kind == UNSYNCED_DATA) {
            struct stat st;
            if (stat(p->path, &st) == 0 && st.st_size)
                assert_int_equal(truncate(p->path, (off_t)(next_random(&disk.seed) % (uint64_t)st.st_size)),
                                 0);
        } else if (p->kind == UNSYNCED_ENTRY) {
            remove_tree(p->path);
        } else {
            if (access(p->path, F_OK)) continue; // its subject is gone already
            if (!access(p->from, F_OK)) continue;
            assert_int_equal(rename(p->path, p->from), 0);
            if (p->old_size >= 0) write_file(p->path, p->old, (size_t)p->old_size);
        }
    }
    arm(0, 0, false, 1);
}

static float newest_value(const char *dir, int n, uint64_t seed) {
    mu_ckpt_loaded *c;
    mu_err e = {0};
    mu_status s = mu_ckpt_load(dir, MU_CKPT_NEWEST, &c, &e);
    if (s != MU_OK)
        fail_msg("stopped at call %d, seed %llu: %s: %s", n, (unsigned long long)seed, mu_status_name(s),
                 e.msg);
    float value = toy_value(c);
    mu_ckpt_unload(c);
    return value;
}

// After an undisturbed save nothing half-made or half-removed is left.
static void assert_clean(const char *dir, const char *what, int call) {
    mu_ckpt_entry *list;
    size_t n;
    assert_ok(mu_ckpt_list(dir, &list, &n, err));
    for (size_t i = 0; i < n; i++)
        if (list[i].serial < 0 || strstr(list[i].name, ".old"))
            fail_msg("%s, call %d: %s is left", what, call, list[i].name);
    mu_free(list);
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, "step-") && strstr(e->d_name, ".tmp"))
            fail_msg("%s, call %d: %s is left", what, call, e->d_name);
    closedir(d);
}

// ---- scenarios: a prepared folder, and the save that is disturbed ----

typedef struct scenario {
    const char *name;
    int64_t steps_before, step, keep;
    bool best;
    bool same, damaged;         // saves the weights of that step again; its folder cannot be loaded
} scenario;
static const scenario scenarios[] = {
    {"first save", 0, 1, 3, false, false, false},
    {"second save, keep one", 1, 2, 1, false, false, false},
    {"save and prune", 3, 4, 2, true, false, false},
    {"same step again", 2, 2, 2, false, false, false},
    {"only step again, keep one", 1, 1, 1, true, false, false},
    {"same weights again", 2, 2, 2, true, true, false},
    {"same weights in place of damaged ones", 3, 3, 2, true, true, true},
};

static void damage(const char *dir, int64_t step) {
    char path[200];
    snprintf(path, sizeof path, "%s/step-%lld/" MU_CKPT_UPDATER, dir, (long long)step);
    int fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "x", 1, 200), 1);
    close(fd);
}

static void prepare(const char *dir, const scenario *sc) {
    remove_tree(dir);
    arm(0, 0, false, 1);
    for (int64_t k = 1; k <= sc->steps_before; k++) assert_ok(toy_save(dir, k, (float)k, 3, k == 1, err));
    if (sc->damaged) damage(dir, sc->step);
}

// Disturbs the save at its n-th call. Returns false when there was no n-th call.
static bool disturb(const char *dir, const scenario *sc, int n, int fail_errno, bool power_cut,
                    uint64_t seed) {
    mu_err e = {0};
    prepare(dir, sc);
    arm(n, fail_errno, power_cut, seed);
    const float saved = sc->same ? (float)sc->step : 100, before = (float)(sc->steps_before - sc->damaged);
    mu_status s = toy_save(dir, sc->step, saved, sc->keep, sc->best, &e);
    bool reached = disk.countdown == 0;
    bool crashed = disk.dead;
    if (s != MU_OK) assert_int_equal(s, MU_EIO);
    if (!reached && s != MU_OK) fail_msg("%s: undisturbed save: %s", sc->name, e.msg);
    come_back();
    if (sc->steps_before > 0 || (s == MU_OK && !crashed)) {
        float value = newest_value(dir, n, seed);
        if (value != saved && value != before)
            fail_msg("%s, call %d: loaded %g", sc->name, n, (double)value);
        if (s == MU_OK && value != saved)
            fail_msg("%s, call %d: saved, but %g loaded", sc->name, n, (double)value);
    }
    assert_ok(toy_save(dir, 9, 200, sc->keep, false, err)); // and life goes on
    assert_true(newest_value(dir, n, seed) == 200);
    assert_clean(dir, sc->name, n);
    return reached;
}

static int for_all_calls(int fail_errno, bool power_cut, uint64_t seed) {
    char dir[64], sub[80];
    int points = 0;
    snprintf(sub, sizeof sub, "%s/c", temp_dir(dir));
    mu_fs_set_ops(&sim);
    for (size_t i = 0; i < MU_COUNT(scenarios); i++)
        for (int n = 1; disturb(sub, &scenarios[i], n, fail_errno, power_cut, seed + (uint64_t)n); n++)
            points++;
    mu_fs_set_ops(NULL);
    remove_tree(dir);
    return points;
}

static void test_stop_at_every_call(void **state) {
    (void)state;
    int points = for_all_calls(0, false, 1);
    print_message("%d points\n", points);
    assert_in_range(points, 150, 10000);
}

static void test_power_cut_at_every_call(void **state) {
    (void)state;
    uint64_t seed = seed_from_env();
    int points = 0;
    for (int round = 0; round < (getenv("MU_SLOW") ? 40 : 4); round++)
        points += for_all_calls(0, true, next_random(&seed));
    print_message("%d points\n", points);
    assert_in_range(points, 600, 1000000);
}

static void test_every_call_fails_once(void **state) {
    (void)state;
    static const int codes[] = {ENOSPC, EIO, EROFS};
    for (size_t i = 0; i < MU_COUNT(codes); i++)
        assert_in_range(for_all_calls(codes[i], false, 1), 150, 10000);
    char dir[64];
    mu_err e = {0};
    temp_dir(dir);
    mu_fs_set_ops(&sim);
    assert_ok(toy_save(dir, 1, 1, 1, false, err));
    for (int n = 1;; n++) { // the first call that writes
        arm(n, ENOSPC, false, 1);
        if (toy_save(dir, 2, 2, 1, false, &e) == MU_EIO && strstr(e.msg, "cannot write")) break;
        assert_in_range(n, 1, 50);
        mu_err_clear(&e);
    }
    assert_non_null(strstr(e.msg, "No space left on device"));
    assert_non_null(strstr(e.hint, "Free some space"));
    assert_non_null(strstr(e.note, "intact"));
    arm(0, 0, false, 1);
    mu_fs_set_ops(NULL);
    remove_tree(dir);
}

// ---- files that grow, and the folder of the run: the same table ----

static mu_status make_run(const char *dir, mu_err *err) {
    mu_rundir d;
    MU_TRY(mu_rundir_create(dir, "x", &d, err));
    mu_rundir_close(&d);
    return MU_OK;
}

static mu_status go_on_with_metrics(const char *dir, mu_err *err) {
    char path[100];
    mu_metrics *m;
    snprintf(path, sizeof path, "%s/metrics", dir);
    MU_TRY(mu_metrics_open(path, 3, &m, err)); // the line of step 4 goes
    mu_status st = mu_metrics_write(m, &(mu_metric_value){.key = "step", .value = 4}, 1, err);
    mu_metrics_close(m);
    return st;
}

static mu_status make_events(const char *dir, mu_err *err) {
    mu_events *e;
    MU_TRY(mu_events_open(dir, &e, err));
    mu_status st = mu_events_write(e, 1, &(mu_scalar){.tag = "loss", .value = 1}, 1, err);
    mu_events_close(e);
    return st;
}

static mu_status make_record(const char *dir, mu_err *err) {
    char path[100];
    mu_recorder *r;
    const mu_runlog_head head = {.protocol = "async", .learners = 2, .rows = 1, .global_batch = 2};
    snprintf(path, sizeof path, "%s/log", dir);
    MU_TRY(mu_recorder_open(path, &head, &r, err));
    return mu_recorder_close(r, &(mu_runlog_end){.version = 1}, err);
}

static mu_status make_picture(const char *dir, mu_err *err) {
    return mu_outfile_replace(dir, "a.svg", "<svg/>", 6, err);
}

static const struct growing {
    const char *name, *calls; // what must be seen, in this order, perhaps with others between
    mu_status (*make)(const char *dir, mu_err *err);
} growing[] = {
    {"run folder", "mkdir fsync open ftruncate write open write fsync rename unlink", make_run},
    {"metrics", "open ftruncate write close", go_on_with_metrics},
    {"events", "open write write close", make_events},
    {"record", "open write write fsync close", make_record},
    {"picture", "open write fsync close rename fsync", make_picture},
};

static void assert_seen(const struct growing *g) {
    const char *seen = disk.seen;
    for (const char *want = g->calls; *want; want += strspn(want, " ")) {
        char word[16];
        int n = (int)strcspn(want, " ");
        snprintf(word, sizeof word, "%.*s ", n, want);
        want += n;
        seen = strstr(seen, word);
        if (!seen) fail_msg("%s: no %safter that in: %s", g->name, word, disk.seen);
        seen += strlen(word);
    }
}

// Lets the n-th call fail. False: there was no n-th call.
static bool fail_nth(const struct growing *g, int n) {
    static const char lines[] = "{\"step\":3}\n{\"step\":4}\n";
    char dir[64], path[100];
    mu_err e = {0};
    snprintf(path, sizeof path, "%s/metrics", temp_dir(dir));
    write_file(path, lines, sizeof lines - 1);
    arm(n, ENOSPC, false, 1);
    mu_status st = g->make(dir, &e);
    const char *call = disk.refused;
    if (!call) assert_seen(g);
    arm(0, 0, false, 1);
    remove_tree(dir);
    // Removing is best effort, and closing what grows has nothing to tell.
    bool may_fail = call && (!strcmp(call, "unlink") || !strcmp(call, "close"));
    bool is_told = st == MU_EIO && strstr(e.msg, "No space left") && strstr(e.hint, "Free some space");
    if (call ? !is_told && !(may_fail && st == MU_OK) : st != MU_OK)
        fail_msg("%s, call %d (%s): %s: %s", g->name, n, call ? call : "none", mu_status_name(st), e.msg);
    return call != NULL;
}

static void test_every_kind_of_file(void **state) {
    (void)state;
    mu_fs_set_ops(&sim);
    for (size_t i = 0; i < MU_COUNT(growing); i++)
        for (int n = 1; fail_nth(&growing[i], n); n++) {}
    mu_fs_set_ops(NULL);
}

static int n_stutter;
static ssize_t stutter_write(int fd, const void *data, size_t size) {
    if (n_stutter++ % 2) return errno = EINTR, -1;
    return write(fd, data, size > 7 ? 7 : size);
}

static void test_short_and_interrupted_writes(void **state) {
    (void)state;
    char dir[64];
    mu_fs_ops ops = mu_fs_system;
    ops.write = stutter_write;
    temp_dir(dir);
    mu_fs_set_ops(&ops);
    assert_ok(toy_save(dir, 1, 5, 1, false, err));
    mu_fs_set_ops(NULL);
    assert_true(newest_value(dir, 0, 0) == 5);
    assert_in_range(n_stutter, 100, 100000);
    remove_tree(dir);
}

// ---- the real thing ----

static int no_sync(int fd) { return (void)fd, 0; } // a kill loses no writes: more saves, more places to hit

static void save_for_ever(const char *dir, int64_t step) {
    mu_fs_ops ops = mu_fs_system;
    ops.fsync = no_sync;
    mu_fs_set_ops(&ops);
    mu_log_set_level(MU_LOG_ERROR);
    for (;; step++) {
        mu_err e = {0};
        // Every third save is a step that exists already; every fifth is marked the best.
        if (toy_save(dir, step, (float)step, 2, step % 5 == 0, &e) != MU_OK) _exit(1);
        if (step % 3 == 0 && toy_save(dir, step, (float)step, 2, false, &e) != MU_OK) _exit(1);
    }
}

static void test_kill_9(void **state) {
    (void)state;
    uint64_t seed = seed_from_env();
    int kills = getenv("MU_SLOW") ? 200 : 40;
    char dir[64];
    temp_dir(dir);
    assert_ok(toy_save(dir, 1, 1, 2, false, err));
    int64_t last = 1, first = 1;
    for (int i = 0; i < kills; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(dir, last + 1);
        usleep((useconds_t)(next_random(&seed) % 60000));
        kill(child, SIGKILL);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFSIGNALED(how)) fail_msg("kill %d: the child could not save", i);
        mu_ckpt_loaded *c;
        mu_err e = {0};
        mu_status s = mu_ckpt_load(dir, MU_CKPT_NEWEST, &c, &e);
        if (s != MU_OK) fail_msg("kill %d: %s: %s", i, mu_status_name(s), e.msg);
        float value = toy_value(c);
        int64_t step = c->manifest->meta.step;
        mu_ckpt_unload(c);
        if (value != (float)step || step < last)
            fail_msg("kill %d: step %lld holds %g, before was %lld", i, (long long)step, (double)value,
                     (long long)last);
        last = step;
    }
    print_message("%d kills over %lld saves\n", kills, (long long)(last - first));
    assert_true(last > first); // the children did get to save
    remove_tree(dir);
}

int main(void) {
    mu_log_set_level((mu_log_level)-1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_at_every_call),
        cmocka_unit_test(test_power_cut_at_every_call),
        cmocka_unit_test(test_every_call_fails_once),
        cmocka_unit_test(test_every_kind_of_file),
        cmocka_unit_test(test_short_and_interrupted_writes),
        cmocka_unit_test(test_kill_9),
    };
    return cmocka_run_group_tests_name("store/crash", tests, NULL, NULL);
}
