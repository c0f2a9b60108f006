// SPDX-License-Identifier: Apache-2.0
// Tests of comm/region: seen across fork and attach, sealed, private, no trace in file systems, honest about
// memory.
#include "comm_help.h"

#include "comm/region.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static int count_entries(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    if (!d) return 0;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void child_writes(void *arg) {
    mu_region *r = arg;
    check(!strcmp(r->base, "from the parent"));
    memcpy(r->base + r->size - 16, "from the child", 15);
}

static void test_across_fork(void **state) {
    (void)state;
    mu_region r;
    size_t asked = 5u * 1000 * 1000;    // two huge pages and a rest
    int in_shm = count_entries("/dev/shm");
    assert_ok(mu_region_create("fork-1", asked, &r, err));
    assert_in_range(r.size, asked, asked + 4095);
    assert_int_equal((uintptr_t)r.base % 4096, 0);
    struct stat st;
    assert_int_equal(fstat(r.fd, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_in_range(st.st_blocks * 512, r.size, 2 * r.size);    // every page is there before it is touched
    for (size_t i = 0; i < r.size; i++) {
        if (r.base[i]) fail_msg("byte %zu is %d at creation", i, r.base[i]);
    }
    assert_int_equal(fcntl(r.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    strcpy(r.base, "from the parent");
    assert_exits_0(spawn(child_writes, &r), 10);
    assert_string_equal(r.base + r.size - 16, "from the child");
    assert_int_equal(count_entries("/dev/shm"), in_shm);
    mu_region_close(&r);
    assert_null(r.base);
    mu_region_close(&r);                // twice is once
}

typedef struct link { pid_t pid; int fd; bool writable; } link_to;

static void child_attaches(void *arg) {
    link_to *l = arg;
    mu_region r = {0};
    mu_err err = {0};
    if (mu_region_attach(l->pid, l->fd, l->writable, &r, &err) != MU_OK) {
        dprintf(2, "%s\n", err.msg);
        _exit(1);
    }
    check(!strcmp(r.base + 8192, "hello"));
    if (l->writable) strcpy(r.base + 8192, "world");
    else r.base[0] = 1;                 // must fault
    mu_region_close(&r);
}

static void test_attach(void **state) {
    (void)state;
    mu_region r;
    assert_ok(mu_region_create("attach", 3 << 20, &r, err));
    strcpy(r.base + 8192, "hello");
    link_to l = {.pid = getpid(), .fd = r.fd, .writable = false};
    int how = ended(spawn(child_attaches, &l), 10);
    // A sanitizer turns the fault into an exit of its own.
    if (!(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV) && !(WIFEXITED(how) && WEXITSTATUS(how) > 1))
        fail_msg("writing to a read-only view: wait status 0x%x, expected SIGSEGV", how);
    assert_int_equal(r.base[0], 0);
    l.writable = true;
    assert_exits_0(spawn(child_attaches, &l), 10);
    assert_string_equal(r.base + 8192, "world");
    mu_region_close(&r);
}

static void test_attach_refused(void **state) {
    (void)state;
    mu_region r, other = {.base = NULL, .size = 7};
    assert_ok(mu_region_create("refused", 4096, &r, err));
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    assert_fails(mu_region_attach(getpid(), pipes[0], false, &other, err), MU_EUSAGE, "not a run of muster");
    int plain = memfd_create("muster-fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(plain >= 0);
    assert_int_equal(ftruncate(plain, 4096), 0);
    int fds = count_entries("/proc/self/fd");
    assert_fails(mu_region_attach(getpid(), plain, false, &other, err), MU_EUSAGE, "not sealed");
    assert_int_equal(count_entries("/proc/self/fd"), fds);
    int gone = r.fd;
    mu_region_close(&r);
    assert_fails(mu_region_attach(getpid(), gone, false, &other, err), MU_ENOTFOUND, "closed");
    pid_t ended_child = spawn((void (*)(void *))(void (*)(void))_exit, NULL);
    ended(ended_child, 10);
    assert_fails(mu_region_attach(ended_child, 3, true, &other, err), MU_ENOTFOUND, "ended");
    assert_int_equal(other.size, 7);    // outputs are written only on success
    close(pipes[0]), close(pipes[1]), close(plain);
}

static void test_sealed(void **state) {
    (void)state;
    mu_region r;
    assert_ok(mu_region_create("sealed", 4096, &r, err));
    assert_int_equal(ftruncate(r.fd, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(r.fd, 8192), -1);
    assert_int_equal(fcntl(r.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    mu_region_close(&r);
}

static void test_absurd_sizes(void **state) {
    (void)state;
    mu_region r = {0};
    int fds = count_entries("/proc/self/fd");
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4095, (size_t)INT64_MAX, (size_t)1 << 62, (size_t)1 << 50,
                            (size_t)1 << 46};
    for (size_t i = 0; i < MU_COUNT(sizes); i++) {
        assert_fails(mu_region_create("absurd", sizes[i], &r, err), MU_ENOMEM, "MB are available");
        assert_null(r.base);
    }
    mu_err e = {0};
    assert_int_equal(mu_region_create("absurd", (size_t)1 << 50, &r, &e), MU_ENOMEM);
    assert_non_null(strstr(e.msg, "1073741824 MB"));
    assert_true(e.hint[0] != '\0');
    // Parts of a megabyte count as a whole one: "needs 1 MB, 1 MB are available" would be no answer.
    assert_fails(mu_region_create("absurd", ((size_t)1 << 50) + 1, &r, err), MU_ENOMEM, "1073741825 MB");
    assert_fails(mu_region_create("none", 0, &r, err), MU_EUSAGE, "0 bytes");
    assert_int_equal(count_entries("/proc/self/fd"), fds);
}

// ---- a container's limit ----
//
// In a child with a file system of its own, in which the control group's files say what they are told.

static bool write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const bool written = fputs(text, f) >= 0;
    return !fclose(f) && written;
}

static void write_group_file(const char *name, const char *text) {
    char path[64];
    snprintf(path, sizeof path, "/sys/fs/cgroup/memory.%s", name);
    check(write_text(path, text));
}

// An empty /sys/fs/cgroup that nobody else sees. False where the system does not let us.
static bool have_own_groups(void) {
    char user[32], group[32];
    snprintf(user, sizeof user, "0 %u 1", (unsigned)getuid());
    snprintf(group, sizeof group, "0 %u 1", (unsigned)getgid());
    return !unshare(CLONE_NEWUSER | CLONE_NEWNS) && write_text("/proc/self/uid_map", user) &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", group) &&
           !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mount("none", "/sys/fs/cgroup", "tmpfs", 0, NULL);
}

static void child_in_a_container(void *arg) {
    (void)arg;
    mu_region r = {0};
    mu_err err = {0};
    if (!have_own_groups()) _exit(77);
    // 100 MiB, of which 40 are used, 24 by pages of files: 84 are left.
    write_group_file("max", "104857600\n");
    write_group_file("current", "41943040\n");
    write_group_file("stat", "anon 16777216\ninactive_file 16777216\nactive_file 8388608\n");
    check(mu_region_create("full", ((size_t)84 << 20) + 1, &r, &err) == MU_ENOMEM);
    check(strstr(err.msg, "needs 85 MB of shared memory, 84 MB are available"));
    check(mu_region_create("fits", (size_t)84 << 20, &r, &err) == MU_OK);
    mu_region_close(&r);
    // More pages of files than memory in use: nothing is used, and not less than that.
    write_group_file("stat", "inactive_file 83886080\nactive_file 8388608\n");
    check(mu_region_create("all", (size_t)100 << 20, &r, &err) == MU_OK);
    mu_region_close(&r);
    write_group_file("max", "max\n");
    check(mu_region_create("free", (size_t)101 << 20, &r, &err) == MU_OK);
    mu_region_close(&r);
}

static void test_container_limit(void **state) {
    (void)state;
    int how = ended(spawn(child_in_a_container, NULL), 20);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 77) {
        print_message("no namespaces here: limits of a container are not tested\n");
        skip();
    }
    if (how) fail_msg("child: wait status 0x%x, expected 0", how);
}

static void test_long_name(void **state) {
    (void)state;
    char id[1000];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    mu_region r;
    assert_ok(mu_region_create(id, 1, &r, err));
    assert_int_equal(r.size, 4096);
    mu_region_close(&r);
}

// The region lives as long as its last user: here a child whose parent closed it, then nobody.
static void child_reads_late(void *arg) {
    mu_region *r = arg;
    nap_ms(50);
    check(!strcmp(r->base, "still here"));
}

static void test_outlives_creator(void **state) {
    (void)state;
    mu_region r;
    assert_ok(mu_region_create("late", 1 << 16, &r, err));
    strcpy(r.base, "still here");
    pid_t child = spawn(child_reads_late, &r);
    mu_region_close(&r);
    assert_exits_0(child, 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_across_fork),   cmocka_unit_test(test_attach),
        cmocka_unit_test(test_attach_refused), cmocka_unit_test(test_sealed),
        cmocka_unit_test(test_absurd_sizes),  cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_outlives_creator), cmocka_unit_test(test_container_limit),
    };
    return cmocka_run_group_tests_name("comm/region", tests, NULL, NULL);
}
