// SPDX-License-Identifier: Apache-2.0
// Tests of file/outfile: the old content or the new, never a mixture, whatever fails; two writers at once;
// what is no plain file; digests; what a killed writer leaves.
#include "run_help.h"

#include "file/outfile.h"

#include <dirent.h>
#include <sys/wait.h>

static int calls_left; // until the call that fails; 0 = none fails
static bool fails(void) { return calls_left > 0 && --calls_left == 0 ? errno = ENOSPC, true : false; }
static int fail_open(const char *path, int flags, mode_t mode) {
    return fails() ? -1 : open(path, flags, mode);
}
static ssize_t fail_write(int fd, const void *data, size_t n) { return fails() ? -1 : write(fd, data, n); }
static int fail_fsync(int fd) { return fails() ? -1 : fsync(fd); }
static int fail_close(int fd) { return close(fd), fails() ? -1 : 0; }
static int fail_rename(const char *from, const char *to) { return fails() ? -1 : rename(from, to); }

static int n_files(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void assert_content(const char *path, char c, size_t want) {
    char *text;
    size_t n;
    assert_ok(mu_fs_read(path, 1 << 24, &text, &n, err));
    if (n != want) fail_msg("%s has %zu bytes, want %zu of %c", path, n, want, c);
    for (size_t i = 0; i < n; i++)
        if (text[i] != c) fail_msg("%s: byte %zu is %c, not %c", path, i, text[i], c);
    mu_free(text);
}

// Many small pieces and one that is larger than the buffer.
static mu_status write_many(const char *path, char c, size_t *size, mu_err *err) {
    static char piece[200000];
    mu_outfile *f;
    memset(piece, c, sizeof piece);
    MU_TRY(mu_outfile_create(path, &f, err));
    for (int i = 0; i < 1000; i++) mu_outfile_write(f, piece, 99);
    mu_outfile_write(f, piece, sizeof piece);
    mu_outfile_write(f, piece, 1);
    *size = 1000 * 99 + sizeof piece + 1;
    assert_int_equal(mu_outfile_size(f), *size);
    return mu_outfile_commit(f, err);
}

static void old_or_new(void **state) {
    (void)state;
    char dir[64], path[100];
    size_t old, size;
    const mu_fs_ops ops = {.open = fail_open,
                           .write = fail_write,
                           .fsync = fail_fsync,
                           .close = fail_close,
                           .rename = fail_rename,
                           .unlink = unlink};
    snprintf(path, sizeof path, "%s/a", temp_dir(dir));
    assert_ok(write_many(path, 'a', &old, err));
    mu_fs_set_ops(&ops);
    int failed = 0;
    for (int n = 1;; n++, failed++) {
        mu_err e = {0};
        calls_left = n;
        mu_status st = write_many(path, 'b', &size, &e);
        if (st == MU_OK) break;
        if (st != MU_EIO || !strstr(e.msg, "No space left")) fail_msg("call %d: %s", n, e.msg);
        if (n_files(dir) != 1) fail_msg("call %d: %d files", n, n_files(dir));
        calls_left = 0;
        // Only syncing the folder comes after the renaming: then the new content is there.
        if (!strstr(e.msg, dir) || strstr(e.msg, "/a`")) assert_content(path, 'a', old);
    }
    mu_fs_set_ops(NULL);
    assert_in_range(failed, 6, 20);
    assert_content(path, 'b', size);
    remove_tree(dir);
}

static void two_writers_do_not_mix(void **state) {
    (void)state;
    char dir[64], path[100];
    size_t size = 0;
    snprintf(path, sizeof path, "%s/a", temp_dir(dir));
    pid_t child = fork();
    assert_true(child >= 0);
    for (int i = 0; i < 50; i++) {
        mu_err e = {0};
        if (write_many(path, child ? 'p' : 'c', &size, &e) != MU_OK) fail_msg("%s", e.msg);
    }
    if (!child) _exit(0);
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    char first;
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, &first, 1), 1);
    close(fd);
    assert_content(path, first, size);
    assert_int_equal(n_files(dir), 1);
    remove_tree(dir);
}

static void no_plain_file(void **state) {
    (void)state;
    char dir[64], path[100], link[140];
    size_t size;
    assert_ok(write_many("/dev/null", 'a', &size, err));
    struct stat st;
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    assert_fails(write_many("/dev/full", 'a', &size, err), MU_EIO, "No space left");
    snprintf(path, sizeof path, "%s/none/a", temp_dir(dir));
    assert_fails(write_many(path, 'a', &size, err), MU_EIO, "cannot create");
    // A link in the place of the temporary file is not followed.
    snprintf(path, sizeof path, "%s/a", dir);
    snprintf(link, sizeof link, "%s.tmp-%ld", path, (long)getpid());
    assert_int_equal(symlink("elsewhere", link), 0);
    assert_fails(write_many(path, 'a', &size, err), MU_EIO, "cannot create");
    remove_tree(dir);
}

static void streams(void **state) {
    (void)state;
    char dir[64], path[100];
    mu_outfile *f;
    snprintf(path, sizeof path, "%s/a", temp_dir(dir));
    assert_ok(mu_outfile_create(path, &f, err));
    FILE *s = mu_outfile_stream(f);
    assert_non_null(s);
    for (int i = 0; i < 100000; i++) fprintf(s, "%s", "xxx");
    assert_int_equal(fclose(s), 0);
    assert_int_equal(access(path, F_OK), -1); // not yet
    assert_ok(mu_outfile_commit(f, err));
    assert_content(path, 'x', 300000);
    assert_ok(mu_outfile_create("/dev/full", &f, err));
    s = mu_outfile_stream(f);
    for (int i = 0; i < 100000; i++) fprintf(s, "%s", "xxx");
    fclose(s);
    assert_fails(mu_outfile_commit(f, err), MU_EIO, "cannot write `/dev/full`");
    remove_tree(dir);
}

static void parts_are_digested(void **state) {
    (void)state;
    char dir[64], path[100];
    static char bytes[100001];
    mu_outfile *f;
    mu_digest d = {0};
    uint64_t sum[2];
    memset(bytes, 'y', sizeof bytes);
    snprintf(path, sizeof path, "%s/a", temp_dir(dir));
    assert_ok(mu_outfile_create_part(path, &d, &f, err));
    for (size_t at = 0; at < sizeof bytes; at += 77)
        mu_outfile_write(f, bytes + at, sizeof bytes - at < 77 ? sizeof bytes - at : 77);
    assert_ok(mu_outfile_commit(f, err));
    mu_digest_bytes(bytes, sizeof bytes, sum);
    assert_int_equal(d.size_bytes, sizeof bytes);
    assert_memory_equal(d.xxh3, sum, sizeof sum);
    mu_digest_fini(&d);
    assert_fails(mu_outfile_create_part(path, &d, &f, err), MU_EIO, "File exists");
    assert_content(path, 'y', sizeof bytes); // and was not touched
    snprintf(path, sizeof path, "%s/b", dir);
    assert_ok(mu_outfile_create_part(path, &d, &f, err));
    mu_outfile_abandon(f);
    assert_int_equal(n_files(dir), 1);
    remove_tree(dir);
}

static void unfinished_ones_go(void **state) {
    (void)state;
    char dir[64], path[100];
    static const char *const stay[] = {"a", "a.tmp", "a.tmp-", "a.tmp-12x", "b.tmp-x"};
    static const char *const go[] = {"a.tmp-12", "model.safetensors.tmp-4000000"};
    temp_dir(dir);
    for (size_t i = 0; i < MU_COUNT(stay) + MU_COUNT(go); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, i < MU_COUNT(stay) ? stay[i] : go[i - MU_COUNT(stay)]);
        write_file(path, "x", 1);
    }
    mu_fs_remove_unfinished(dir);
    assert_int_equal(n_files(dir), MU_COUNT(stay));
    for (size_t i = 0; i < MU_COUNT(stay); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, stay[i]);
        if (access(path, F_OK)) fail_msg("%s is gone", path);
    }
    snprintf(path, sizeof path, "%s/deep/er", dir);
    assert_ok(mu_fs_mkdirs(path, err));
    snprintf(path, sizeof path, "%s/deep/er/link", dir);
    assert_int_equal(symlink("../..", path), 0); // not followed
    snprintf(path, sizeof path, "%s/deep", dir);
    mu_fs_remove_tree(path);
    assert_int_equal(n_files(dir), MU_COUNT(stay));
    mu_fs_remove_tree(dir);
    assert_int_equal(access(dir, F_OK), -1);
}

int main(void) {
    mu_log_set_level((mu_log_level)-1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_or_new),         cmocka_unit_test(two_writers_do_not_mix),
        cmocka_unit_test(no_plain_file),      cmocka_unit_test(streams),
        cmocka_unit_test(parts_are_digested), cmocka_unit_test(unfinished_ones_go),
    };
    return cmocka_run_group_tests_name("file/outfile", tests, NULL, NULL);
}
