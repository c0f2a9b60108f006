// SPDX-License-Identifier: Apache-2.0
// Tests of store/rundir: names, the lock between processes, finding runs again, folders that cannot be
// written.
#include "run_help.h"

#include "store/metrics.h"
#include "store/rundir.h"

#include <signal.h>
#include <sys/wait.h>

static void mark(const mu_rundir *d) { // what the driver does first: the folder now holds a run
    char path[MU_FS_PATH];
    assert_ok(mu_rundir_path(d, MU_RUN_JOB, path, err));
    write_file(path, "name: x\n", 8);
}

static void test_create_and_find(void **state) {
    (void)state;
    char dir[64], base[100], newest[MU_FS_PATH];
    mu_rundir a, b, other;
    snprintf(base, sizeof base, "%s/deep/runs", temp_dir(dir));
    assert_fails(mu_rundir_find_newest(base, "mnist", newest, err), MU_ENOTFOUND, "no run of `mnist`");
    assert_ok(mu_rundir_create(base, "mnist", &a, err));
    assert_ok(mu_rundir_create(base, "mnist", &b, err)); // within the same second
    assert_string_not_equal(a.path, b.path);
    assert_ok(mu_rundir_create(base, "mnist-large", &other, err)); // not a run of mnist
    assert_ok(mu_rundir_find_newest(base, "mnist", newest, err));
    assert_string_equal(newest, b.path);
    assert_int_equal(write(a.log_fd, "x", 1), 1);
    assert_int_equal(strlen(a.path), strlen(base) + strlen("/mnist-") + 6);
    mu_rundir_close(&a);
    mu_rundir_close(&b);
    mu_rundir_close(&other);
    assert_ok(mu_rundir_create(base, ".. /x\n\xC3\xA9", &a, err));
    assert_non_null(strstr(a.path, "/-.--x-\xC3\xA9-"));
    mu_rundir_close(&a);
    assert_ok(mu_rundir_create(base, "", &a, err));
    assert_non_null(strstr(a.path, "/run-"));
    mu_rundir_close(&a);
    remove_tree(dir);
}

static void test_open_at(void **state) {
    (void)state;
    char dir[64], path[100];
    mu_rundir d;
    snprintf(path, sizeof path, "%s/mine", temp_dir(dir));
    assert_fails(mu_rundir_open(path, &d, err), MU_ENOTFOUND, "no run folder");
    assert_ok(mu_rundir_create_at(path, &d, err));
    mu_rundir_close(&d);
    assert_fails(mu_rundir_open(path, &d, err), MU_ENOTFOUND, "does not hold a run");
    assert_ok(mu_rundir_create_at(path, &d, err)); // still empty: fine
    mark(&d);
    mu_rundir_close(&d);
    assert_fails(mu_rundir_create_at(path, &d, err), MU_EUSAGE, "already holds a run");
    assert_ok(mu_rundir_open(path, &d, err));
    mu_rundir_close(&d);
    remove_tree(dir);
}

static void assert_id(const char *path, const char *want) {
    char id[MU_RUN_ID];
    mu_rundir_id(path, id);
    if (strcmp(id, want)) fail_msg("the id of `%s` is `%s`, want `%s`", path, id, want);
}

// However the user writes the folder, the run has its name.
static void test_id(void **state) {
    (void)state;
    char dir[64], path[400], name[128], want[MU_RUN_ID];
    mu_rundir d;
    snprintf(path, sizeof path, "%s/mine//", temp_dir(dir));
    assert_ok(mu_rundir_create_at(path, &d, err));
    assert_id(d.path, "mine");
    mu_rundir_close(&d);
    static const char *const ends[] = {"", "/", "/.", "/../mine//"};
    for (size_t i = 0; i < MU_COUNT(ends); i++) {
        snprintf(path, sizeof path, "%s/mine%s", dir, ends[i]);
        assert_id(path, "mine");
    }
    assert_id(dir, dir);
    assert_id("/", "run");
    assert_id("gone/run-7", "run-7");
    memset(name, 'x', 62);
    memcpy(name + 62, "\xC3\xA9y", 4); // the 63rd and 64th byte are one character
    snprintf(want, sizeof want, "%.62s", name);
    assert_id(name, want);
    name[62] = 'x', name[63] = '\0';
    assert_id(name, name);
    remove_tree(dir);
}

static void test_unfinished_files_go(void **state) {
    (void)state;
    char dir[64], path[100];
    mu_rundir d;
    temp_dir(dir);
    snprintf(path, sizeof path, "%s/live.json.tmp-12", dir);
    write_file(path, "{", 1);
    assert_ok(mu_rundir_create_at(dir, &d, err)); // a folder of the user's: nothing is removed
    assert_int_equal(access(path, F_OK), 0);
    mark(&d);
    mu_rundir_close(&d);
    assert_ok(mu_rundir_open(dir, &d, err));
    mu_rundir_close(&d);
    assert_int_equal(access(path, F_OK), -1);
    remove_tree(dir);
}

static void test_lock(void **state) {
    (void)state;
    char dir[64], path[100], expected[120];
    mu_rundir mine, theirs;
    snprintf(path, sizeof path, "%s/mine", temp_dir(dir));
    assert_ok(mu_rundir_create_at(path, &mine, err));
    mark(&mine);
    snprintf(expected, sizeof expected, "in use by process %ld", (long)getpid());
    assert_fails(mu_rundir_open(path, &theirs, err), MU_EUSAGE, expected);
    mu_rundir_close(&mine);
    // A process that holds the lock and is killed leaves nothing to clean up.
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        char ok = mu_rundir_open(path, &mine, NULL) == MU_OK;
        if (write(ready[1], &ok, 1) == 1) pause();
        _exit(1);
    }
    char ok = 0;
    assert_int_equal(read(ready[0], &ok, 1), 1);
    assert_int_equal(ok, 1);
    snprintf(expected, sizeof expected, "in use by process %ld", (long)child);
    assert_fails(mu_rundir_open(path, &theirs, err), MU_EUSAGE, expected);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_ok(mu_rundir_open(path, &theirs, err));
    mu_rundir_close(&theirs);
    close(ready[0]);
    close(ready[1]);
    remove_tree(dir);
}

// Files that a run opens by name in a folder prepared by another: links are not followed, fifos not waited
// for.
static void test_prepared_folder(void **state) {
    (void)state;
    static const char *const names[] = {MU_RUN_LOCK, MU_RUN_LOG, MU_RUN_METRICS};
    for (size_t i = 0; i < MU_COUNT(names); i++) {
        char dir[64], victim[80], link[100], *text;
        size_t n;
        mu_rundir d;
        mu_metrics *m;
        temp_dir(dir);
        snprintf(victim, sizeof victim, "%s/victim", dir);
        snprintf(link, sizeof link, "%s/%s", dir, names[i]);
        write_file(victim, "precious", 8);
        assert_int_equal(symlink("victim", link), 0);
        if (i == 2) assert_fails(mu_metrics_open(link, -1, &m, err), MU_EIO, "symbolic link");
        else assert_fails(mu_rundir_create_at(dir, &d, err), MU_EIO, "symbolic link");
        assert_ok(mu_fs_read(victim, 100, &text, &n, err));
        assert_string_equal(text, "precious");
        mu_free(text);
        assert_int_equal(unlink(link), 0);
        assert_int_equal(mkfifo(link, 0666), 0);
        mu_status s = i == 2 ? mu_metrics_open(link, -1, &m, NULL) : mu_rundir_create_at(dir, &d, NULL);
        assert_int_equal(s, MU_EIO);
        remove_tree(dir);
    }
}

static ssize_t full(int fd, const void *data, size_t size) {
    (void)fd, (void)data, (void)size;
    errno = ENOSPC;
    return -1;
}

static int n_open_fds(void) {
    int n = 0;
    for (int fd = 0; fd < 200; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_not_writable(void **state) {
    (void)state;
    char dir[64], file[100];
    mu_rundir d;
    snprintf(file, sizeof file, "%s/file", temp_dir(dir));
    write_file(file, "x", 1);
    assert_fails(mu_rundir_create(file, "a", &d, err), MU_EIO, "Not a directory");
    mu_fs_ops ops = mu_fs_system;
    ops.write = full;
    mu_fs_set_ops(&ops);
    int fds = n_open_fds();
    assert_fails(mu_rundir_create(dir, "a", &d, err), MU_EIO, "No space left");
    assert_int_equal(n_open_fds(), fds);
    mu_fs_set_ops(NULL);
    remove_tree(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_and_find),
        cmocka_unit_test(test_open_at),
        cmocka_unit_test(test_id),
        cmocka_unit_test(test_unfinished_files_go),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_prepared_folder),
        cmocka_unit_test(test_not_writable),
    };
    return cmocka_run_group_tests_name("store/rundir", tests, NULL, NULL);
}
