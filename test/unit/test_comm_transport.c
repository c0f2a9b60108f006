// SPDX-License-Identifier: Apache-2.0
// test_comm_transport.c - which transport the environment asks for; modules that are missing say what to
// install; the program does not link MPI, and does not load it unasked. What transports do is in
// conform_transport.c.
#include "comm_help.h"

#include "comm/buffers.h"
#include "comm/transport.h"

#include <sys/stat.h>

static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"};

static void test_wanted(void **unused) {
    (void)unused;
    static const struct {
        const char *value[3]; // in the order of the names; NULL = not set
        const char *want;
    } rows[] = {
        {{NULL, NULL, NULL}, NULL}, {{"1", NULL, NULL}, NULL},  {{"4", NULL, NULL}, "mpi"},
        {{"1", "4", "0"}, NULL},    {{NULL, "4", NULL}, "mpi"}, {{NULL, "1", "0"}, NULL},
        {{NULL, NULL, "0"}, "mpi"}, {{"x", NULL, NULL}, NULL},  {{"", NULL, "3"}, "mpi"},
        {{NULL, "-2", NULL}, NULL},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        for (size_t k = 0; k < MU_COUNT(names); k++)
            if (rows[i].value[k]) setenv(names[k], rows[i].value[k], 1);
            else unsetenv(names[k]);
        const char *got = mu_transport_wanted();
        if ((got && rows[i].want) ? strcmp(got, rows[i].want) != 0 : got != rows[i].want)
            fail_msg("row %zu: wants %s", i, got ? got : "nothing");
    }
    for (size_t k = 0; k < MU_COUNT(names); k++) unsetenv(names[k]);
}

static void test_find(void **unused) {
    (void)unused;
    const mu_transport_class *c = NULL;
    assert_ok(mu_transport_find("inproc", &c, err));
    assert_string_equal(c->name, "inproc");
    assert_fails(mu_transport_find("pigeons", &c, err), MU_ENOTFOUND, "no transport `pigeons`");
    mu_transport *t;
    const mu_transport_opts huge = {.max_bytes = MU_TRANSPORT_MOST + 1}, nowhere = {.rank = 0};
    assert_fails(mu_transport_open("inproc", &huge, &t, err), MU_EUSAGE, "at most");
    assert_fails(mu_transport_open("inproc", &nowhere, &t, err), MU_EUSAGE, "no net");
}

// This program again, from another folder. 0: no module is there, and it says so; 3: there is one
// (e2e/install.sh).
static int find_alone(void) {
    const mu_transport_class *c = NULL;
    mu_err err = {0};
    const mu_status st = mu_transport_find("mpi", &c, &err);
    if (st == MU_OK) return 3;
    if (st != MU_EUNSUPPORTED || c) return 1;
    if (!strstr(err.msg, "libmuster-mpi.so") || !strstr(err.hint, "libopenmpi-dev")) return 2;
    return 0;
}

static void self_path(char out[4096]) {
    const ssize_t n = readlink("/proc/self/exe", out, 4095);
    out[n > 0 ? n : 0] = '\0';
}

static void test_missing(void **unused) {
    (void)unused;
    char self[4096], dir[4200], file[4300];
    self_path(self);
    snprintf(dir, sizeof dir, "%s-alone-XXXXXX", self);
    if (!mkdtemp(dir)) fail_msg("mkdtemp: %s", strerror(errno));
    snprintf(file, sizeof file, "%s/program", dir);
    if (link(self, file)) fail_msg("link: %s", strerror(errno));
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        execl(file, file, "find", (char *)NULL);
        _exit(9);
    }
    const int how = ended(pid, 30);
    unlink(file);
    rmdir(dir);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

// Is the text anywhere in the file?
static bool says(const char *path, const char *text) {
    static char block[1 << 16];
    const size_t n = strlen(text);
    FILE *f = fopen(path, "r");
    if (!f) {
        fail_msg("%s: %s", path, strerror(errno));
        return false;
    }
    bool found = false;
    for (size_t kept = 0, got; !found && (got = fread(block + kept, 1, sizeof block - kept, f)) > 0;) {
        found = memmem(block, kept + got, text, n) != NULL;
        const size_t all = kept + got;
        kept = all < n ? all : n;
        memmove(block, block + all - kept, kept);
    }
    fclose(f);
    return found;
}

static void test_links_no_mpi(void **unused) {
    (void)unused;
    assert_false(says("/proc/self/maps", "libmpi"));
    const char *program = getenv("MUSTER_PROGRAM");
    if (program && !access(program, R_OK)) assert_false(says(program, "libmpi.so"));
#ifdef MU_HAVE_MPI_MODULE
    const mu_transport_class *c = NULL; // asked for, it is there
    assert_ok(mu_transport_find("mpi", &c, err));
    assert_string_equal(c->name, "mpi");
    assert_true(says("/proc/self/maps", "libmpi.so"));
#endif
}

static void test_buffers(void **unused) {
    (void)unused;
    mu_buffers b = {.n = 0};
    const uint64_t live = mu_alloc_get_stats().n_live;
    mu_buffer *x = mu_buffer_take(&b, 3, 100000), *y = mu_buffer_take(&b, 4, 0),
              *z = mu_buffer_take(&b, 5, 7);
    assert_true(x && y && z);
    assert_int_equal((uintptr_t)mu_buffer_data(x) % 64, 0);
    assert_ptr_equal(mu_buffer_of(mu_buffer_data(y)), y);
    assert_int_equal(x->peer, 3);
    memset(mu_buffer_data(x), 1, 100000);
    mu_buffer_give(&b, y);
    mu_buffer_give(&b, x);
    const uint64_t calls = mu_alloc_get_stats().n_calls;
    assert_ptr_equal(mu_buffer_take(&b, 1, 90000), x); // kept, and large enough
    mu_buffer *small = mu_buffer_take(&b, 1, 12);
    assert_int_equal(mu_alloc_get_stats().n_calls, calls);
    mu_buffer_give(&b, x);
    mu_buffer *other = mu_buffer_take(&b, 1, 50); // far too large for that
    assert_ptr_not_equal(other, x);
    mu_buffer *many[3 * MU_BUFFERS_KEPT];
    for (size_t i = 0; i < MU_COUNT(many); i++) many[i] = mu_buffer_take(&b, 0, 5000 * (i + 1));
    for (size_t i = 0; i < MU_COUNT(many); i++) mu_buffer_give(&b, many[i]);
    assert_int_equal(b.n, MU_BUFFERS_KEPT);
    mu_alloc_fail_at(1);
    assert_null(mu_buffer_take(&b, 0, 1 << 24));
    mu_alloc_fail_at(0);
    mu_buffer_give(&b, z);
    mu_buffers_fini(&b); // with `small` and `other` in use
    (void)small;
    assert_int_equal(mu_alloc_get_stats().n_live, live);
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "find")) return find_alone();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wanted),       cmocka_unit_test(test_find),    cmocka_unit_test(test_missing),
        cmocka_unit_test(test_links_no_mpi), cmocka_unit_test(test_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
