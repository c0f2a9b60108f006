// SPDX-License-Identifier: Apache-2.0
// Which runs count as alive: real processes with real descriptors, killed in the middle.
#include "run_help.h"

#include "store/live.h"
#include "store/metrics.h"
#include "store/rundir.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static int region(const char *run_id) {
    char name[96];
    snprintf(name, sizeof name, "muster-%s", run_id);
    int fd = memfd_create(name, MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void put(const char *dir, const char *file, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    write_file(path, text, strlen(text));
}

static void assert_state(const char *dir, mu_live_state want) {
    mu_live l;
    assert_ok(mu_live_find(dir, &l, err));
    assert_int_equal(l.state, want);
}

static void test_write_find_remove(void **state) {
    (void)state;
    char dir[64], path[128];
    temp_dir(dir);
    int fd = region("lenet-0abc12");
    assert_fails(mu_live_find(dir, &(mu_live){0}, err), MU_ENOTFOUND, "does not hold a run");
    assert_ok(mu_live_write(dir, getpid(), fd, "lenet-0abc12", err));
    snprintf(path, sizeof path, "%s/", dir); // a slash of the shell's completion does not matter
    mu_live l;
    assert_ok(mu_live_find(path, &l, err));
    assert_int_equal(l.state, MU_LIVE_GROUP);
    assert_int_equal(l.pid, getpid());
    assert_int_equal(l.fd, fd);
    assert_string_equal(l.run_id, "lenet-0abc12");
    assert_string_equal(l.dir, dir);
    assert_true(l.started > 1.6e9);
    put(dir, MU_RUN_METRICS, "");
    mu_live_remove(dir);
    mu_live_remove(dir);
    assert_state(dir, MU_LIVE_ENDED);
    close(fd);
    remove_tree(dir);
}

// The descriptor must be the region of this very run, whatever else the process has open.
static void test_other_descriptors_are_no_proof(void **state) {
    (void)state;
    char dir[64];
    temp_dir(dir);
    int mine = region("a-1"), longer = region("a-12");
    assert_ok(mu_live_write(dir, getpid(), longer, "a-1", err));
    assert_state(dir, MU_LIVE_VANISHED);
    assert_ok(mu_live_write(dir, getpid(), STDERR_FILENO, "a-1", err));
    assert_state(dir, MU_LIVE_VANISHED);
    assert_ok(mu_live_write(dir, 1, mine, "a-1", err)); // init has no region
    assert_state(dir, MU_LIVE_VANISHED);
    assert_ok(mu_live_write(dir, getpid(), mine, "a-1", err));
    assert_state(dir, MU_LIVE_GROUP);
    close(mine);
    assert_state(dir, MU_LIVE_VANISHED);
    close(longer);
    remove_tree(dir);
}

static void test_foreign_texts(void **state) {
    (void)state;
    static const char too_long[] = "{\"pid\":7,\"fd\":1,\"run_id\":"
                                   "\"0123456789012345678901234567890123456789012345678901234567890123\"}";
    static const char *const texts[] = {
        "", "{", "[]", "{\"pid\":\"7\",\"fd\":1,\"run_id\":\"x\"}", "{\"pid\":-1,\"fd\":1,\"run_id\":\"x\"}",
        "{\"pid\":99999999999,\"fd\":1,\"run_id\":\"x\"}", "{\"pid\":7,\"fd\":-1,\"run_id\":\"x\"}",
        "{\"pid\":7,\"fd\":1}", too_long};
    char dir[64];
    temp_dir(dir);
    for (size_t i = 0; i < MU_COUNT(texts); i++) {
        put(dir, MU_RUN_LIVE, texts[i]);
        assert_state(dir, MU_LIVE_ENDED);
    }
    remove_tree(dir);
}

static bool hide_run;           // the next run lets only root look at its descriptors

// A child that takes the run's lock, and its region when asked, then sleeps until it is killed.
static pid_t start_run(const char *dir, bool group) {
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // a failing test leaves nobody behind
        if (hide_run) prctl(PR_SET_DUMPABLE, 0);
        mu_rundir d;
        mu_err err = {0};
        bool ok = mu_rundir_create_at(dir, &d, &err) == MU_OK;
        int fd = group ? memfd_create("muster-run-1", MFD_CLOEXEC) : -1;
        if (ok && group) ok = mu_live_write(dir, getpid(), fd, "run-1", &err) == MU_OK;
        if (write(ready[1], ok ? "y" : "n", 1) != 1) _exit(1);
        signal(SIGTERM, SIG_DFL);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(c, 'y');
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void kill_and_reap(pid_t pid) {
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_killed_group_has_vanished(void **state) {
    (void)state;
    char dir[64];
    temp_dir(dir);
    pid_t pid = start_run(dir, true);
    assert_state(dir, MU_LIVE_GROUP);
    kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_state(dir, MU_LIVE_VANISHED); // a zombie is gone already
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_state(dir, MU_LIVE_VANISHED);
    remove_tree(dir);
}

static void test_single_is_found_by_its_lock(void **state) {
    (void)state;
    char dir[64], lock[128], text[32];
    temp_dir(dir);
    pid_t pid = start_run(dir, false);
    mu_live l;
    assert_ok(mu_live_find(dir, &l, err));
    assert_int_equal(l.state, MU_LIVE_SINGLE);
    assert_int_equal(l.pid, pid);
    kill_and_reap(pid);
    assert_state(dir, MU_LIVE_ENDED);
    assert_fails(mu_live_terminate(&l, err), MU_ENOTFOUND, "gone");
    // The pid in the file belongs to somebody else now: this process, which does not have the lock open.
    snprintf(lock, sizeof lock, "%s/lock", dir);
    snprintf(text, sizeof text, "%ld\n", (long)getpid());
    write_file(lock, text, strlen(text));
    assert_state(dir, MU_LIVE_ENDED);
    remove_tree(dir);
}

// What another user sees of a run: state and pid in a process of that user. As root by becoming one; else the
// run has made itself as invisible as another user's.
static void look_as_another(const char *dir, mu_live_state want, pid_t pid) {
    int status;
    pid_t looker = fork();
    assert_true(looker >= 0);
    if (looker == 0) {
        mu_live l;
        if (getuid() == 0 && (setgid(65534) || setuid(65534))) _exit(2);
        if (mu_live_find(dir, &l, NULL) != MU_OK) _exit(3);
        _exit(l.state != want ? 10 + (int)l.state : pid != l.pid ? 4 : 0);
    }
    assert_int_equal(waitpid(looker, &status, 0), looker);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_another_users_run_is_hidden_not_gone(void **state) {
    (void)state;
    char dir[64], path[128];
    for (int group = 0; group < 2; group++) {
        temp_dir(dir);
        assert_int_equal(chmod(dir, 0755), 0);
        hide_run = true;
        pid_t pid = start_run(dir, group);
        hide_run = false;
        look_as_another(dir, MU_LIVE_HIDDEN, pid);
        snprintf(path, sizeof path, "%s/lock", dir);
        assert_int_equal(chmod(path, 0), 0);
        look_as_another(dir, MU_LIVE_HIDDEN, 0); // who holds it is not known
        assert_int_equal(chmod(path, 0644), 0);
        kill_and_reap(pid);
        look_as_another(dir, group ? MU_LIVE_VANISHED : MU_LIVE_ENDED, group ? pid : 0);
        // The pid now belongs to another user's process that has nothing to do with the run.
        write_file(path, "1\n", 2);
        if (group) look_as_another(dir, MU_LIVE_VANISHED, pid);
        else look_as_another(dir, MU_LIVE_ENDED, 0);
        remove_tree(dir);
    }
}

static void test_terminate(void **state) {
    (void)state;
    char dir[64];
    int status;
    temp_dir(dir);
    pid_t pid = start_run(dir, false);
    mu_live l;
    assert_ok(mu_live_find(dir, &l, err));
    assert_ok(mu_live_terminate(&l, err));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
    remove_tree(dir);
}

static void test_newest_alive_wins(void **state) {
    (void)state;
    char dir[64], here[4096];
    temp_dir(dir);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0);
    assert_fails(mu_live_find(NULL, &(mu_live){0}, err), MU_ENOTFOUND, "no run");
    static const char *const runs[] = {"runs/a-1", "runs/b-1", "runs/c-1"};
    mu_live l;
    int fd[3];
    assert_ok(mu_fs_mkdirs("runs/not-a-run", err));
    for (int i = 0; i < 3; i++) {
        assert_ok(mu_fs_mkdirs(runs[i], err));
        fd[i] = region(runs[i] + 5);
        assert_ok(mu_live_write(runs[i], getpid(), fd[i], runs[i] + 5, err));
        usleep(2000);
    }
    for (int i = 2; i >= 0; i--) {
        assert_ok(mu_live_find(NULL, &l, err));
        assert_string_equal(l.dir, runs[i]);
        assert_int_equal(l.state, MU_LIVE_GROUP);
        close(fd[i]);
    }
    assert_ok(mu_live_find(NULL, &l, err)); // all dead: the newest, to say so
    assert_string_equal(l.dir, "runs/c-1");
    assert_int_equal(l.state, MU_LIVE_VANISHED);
    assert_int_equal(chdir(here), 0);
    remove_tree(dir);
}

static void test_last_metrics(void **state) {
    (void)state;
    char dir[64], line[256], *big;
    temp_dir(dir);
    mu_live_last_metrics(dir, line, sizeof line);
    assert_string_equal(line, "");
    put(dir, MU_RUN_METRICS, "{\"step\":1}\n{\"step\":2}\n{\"ste");
    mu_live_last_metrics(dir, line, sizeof line);
    assert_string_equal(line, "{\"step\":2}");
    mu_live_last_metrics(dir, line, 5);
    assert_string_equal(line, "");
    assert_non_null(big = malloc(70000));
    for (int i = 0; i < 69990; i++) big[i] = i % 20 == 19 ? '\n' : 'x';
    strcpy(big + 69990, "\n{\"a\":7}\n");
    put(dir, MU_RUN_METRICS, big);
    mu_live_last_metrics(dir, line, sizeof line);
    assert_string_equal(line, "{\"a\":7}");
    memset(big, 'x', 69990);
    put(dir, MU_RUN_METRICS, big);
    mu_live_last_metrics(dir, line, sizeof line);
    assert_string_equal(line, "{\"a\":7}");
    enum { MOST = MU_METRICS_LINE }; // the longest line there can be, with its end
    char *found = malloc(MOST);
    assert_non_null(found);
    big[70000 - 1 - MOST] = '\n';
    big[70000 - 2] = '\n';
    big[70000 - 1] = '\0';
    memset(big + 70000 - MOST, 'y', MOST - 2);
    put(dir, MU_RUN_METRICS, big);
    mu_live_last_metrics(dir, found, MOST);
    assert_int_equal(strlen(found), MOST - 2);
    free(found);
    free(big);
    remove_tree(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_write_find_remove),      cmocka_unit_test(test_other_descriptors_are_no_proof),
        cmocka_unit_test(test_foreign_texts),          cmocka_unit_test(test_killed_group_has_vanished),
        cmocka_unit_test(test_single_is_found_by_its_lock), cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_another_users_run_is_hidden_not_gone),
        cmocka_unit_test(test_newest_alive_wins),      cmocka_unit_test(test_last_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
