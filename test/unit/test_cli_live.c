// SPDX-License-Identifier: Apache-2.0
// status, top, stop and chaos as a person types them, against a stand-in for a run.
#include "fake_run.h"

#include "cli/cli.h"
#include "cli/live_text.h"
#include "file/json.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>

static fake_run fake;

static int set_up(void **state) {
    (void)state;
    fake_begin(&fake, 3);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fake_end(&fake);
    return 0;
}

// ---- running a command line in a process of its own ---------------------------------------------

typedef struct said { int code; char out[16384], err[16384]; } said;

static void slurp(FILE *f, char *text, size_t size) {
    ssize_t n = pread(fileno(f), text, size - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    fclose(f);
}

static bool as_another_user;    // the next commands, where this one is root

#define RUN(s, ...) run_words(s, (char *[]){"muster", __VA_ARGS__, NULL})

static void run_words(said *s, char **argv) {
    int argc = 0, status;
    FILE *out = tmpfile(), *err = tmpfile();
    assert_true(out && err);
    while (argv[argc]) argc++;
    fflush(stdout);
    fflush(stderr);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(err), STDERR_FILENO);
        if (as_another_user && (setgid(65534) || setuid(65534))) _exit(99);
        int code = mu_cli_main(argc, argv);
        fflush(stdout);
        _exit(code);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    s->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    slurp(out, s->out, sizeof s->out);
    slurp(err, s->err, sizeof s->err);
}

#define assert_said(s, want_code, where, text)                                                               \
    do {                                                                                                     \
        if ((s)->code != (want_code) || !strstr((s)->where, (text)))                                         \
            fail_msg("code %d, expected %d with `%s`:\n%s%s", (s)->code, (want_code), (text), (s)->out,      \
                     (s)->err);                                                                              \
    } while (0)

static json_t *object(const said *s) {
    json_t *o = json_loads(s->out, 0, NULL);
    if (!json_is_object(o)) fail_msg("no JSON object: code %d `%s` `%s`", s->code, s->out, s->err);
    return o;
}

// ---- tests --------------------------------------------------------------------------------------

static void test_status(void **state) {
    (void)state;
    said s;
    RUN(&s, "status", fake.dir);
    assert_said(&s, 0, out, "fake  training for 0:0");
    assert_said(&s, 0, out, "softsync, 3 learners, mu 4, mu*lambda 12");
    assert_said(&s, 0, out, "overlap 90.0%");
    assert_said(&s, 0, out, "gradients  0 = 0 applied + 0 rejected + 0 lost + 0 in flight");
    assert_said(&s, 0, out, "learner      pid  life  doing");
    assert_null(strchr(s.out, '\033'));
    for (const char *p = s.out; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (strcspn(p, "\n") > 80) fail_msg("wider than 80 columns: %.*s", (int)strcspn(p, "\n"), p);
    RUN(&s, "status", fake.dir, "--json");
    json_t *o = object(&s);
    assert_int_equal(json_integer_value(json_object_get(o, "pid")), fake.parent);
    assert_true(json_number_value(json_object_get(o, "samples_per_s")) > 0);
    assert_true(json_is_false(json_object_get(o, "warming")));
    json_t *row = json_array_get(json_object_get(o, "table"), 2);
    assert_int_equal(json_integer_value(json_object_get(row, "pid")), atomic_load(&fake.g.learner[2].pid));
    assert_true(json_number_value(json_object_get(row, "samples_per_s")) > 0);
    json_decref(o);
    RUN(&s, "status", "no-such-run");
    assert_said(&s, 6, err, "no run folder `no-such-run`");
}

static void test_status_after_a_kill(void **state) {
    (void)state;
    said s;
    char path[128];
    const char *line = "{\"step\":400,\"epoch\":1.5,\"train_loss\":0.25}\n";
    snprintf(path, sizeof path, "%s/metrics.jsonl", fake.dir);
    write_file(path, line, strlen(line));
    kill(fake.parent, SIGKILL);
    waitpid(fake.parent, NULL, 0);
    // The children go by themselves, the lock with them.
    for (int i = 0; i < 5000; i++) {
        mu_live l;
        assert_ok(mu_live_find(fake.dir, &l, err));
        if (l.state == MU_LIVE_VANISHED) break;
        usleep(1000);
    }
    RUN(&s, "status", fake.dir);
    assert_said(&s, 0, out, "ended without goodbye");
    assert_said(&s, 0, out, "step 400  epoch 1.5  train_loss 0.25");
    RUN(&s, "status", fake.dir, "--json");
    json_t *o = object(&s);
    assert_string_equal(json_string_value(json_object_get(o, "state")), "vanished");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(o, "metrics"), "step")), 400);
    json_decref(o);
    RUN(&s, "top", fake.dir);
    assert_said(&s, 6, err, "ended without goodbye");
    RUN(&s, "stop", fake.dir);
    assert_said(&s, 0, err, "ended without goodbye before");
    RUN(&s, "chaos", fake.dir, "--do", "kill learner 0");
    assert_said(&s, 6, err, "it has ended");
}

static void test_stop(void **state) {
    (void)state;
    said s;
    int status;
    RUN(&s, "stop", fake.dir, "--wait", "0");
    assert_said(&s, 0, err, "asked to stop");
    assert_int_equal(waitpid(fake.parent, &status, 0), fake.parent);
    assert_true(WIFEXITED(status));
    RUN(&s, "stop", fake.dir);
    assert_said(&s, 0, err, "had ended before");
}

static void test_run_of_another_user(void **state) {
    (void)state;
    said s;
    char pid[64];
    if (getuid() != 0) {
        print_message("skipped: only root can become another user\n");
        skip();
    }
    assert_int_equal(chmod(fake.dir, 0755), 0);
    snprintf(pid, sizeof pid, "process %d of another user works on it", (int)fake.parent);
    as_another_user = true;
    RUN(&s, "status", fake.dir);
    assert_said(&s, 0, out, pid);
    RUN(&s, "status", fake.dir, "--json");
    assert_said(&s, 0, out, "\"hidden\"");
    RUN(&s, "stop", fake.dir);
    assert_said(&s, 1, err, "not stopped");
    assert_said(&s, 1, err, pid);
    RUN(&s, "top", fake.dir);
    assert_said(&s, 6, err, pid);
    RUN(&s, "chaos", fake.dir, "--do", "kill learner 0");
    assert_said(&s, 6, err, "it is another user's");
    as_another_user = false;
    RUN(&s, "status", fake.dir);
    assert_said(&s, 0, out, "fake  training for");
}

static void test_stop_waits(void **state) {
    (void)state;
    said s;
    kill(fake.parent, SIGSTOP);
    RUN(&s, "stop", fake.dir, "--wait", "200ms");
    assert_said(&s, 1, err, "has not ended within 0.2 s");
    atomic_store(&fake.g.head->stop_asked, 0);
    kill(fake.parent, SIGCONT);
    RUN(&s, "stop", fake.dir, "--json");
    json_t *o = object(&s);
    assert_int_equal(s.code, 0);
    assert_string_equal(json_string_value(json_object_get(o, "result")), "ended");
    json_decref(o);
    assert_int_equal(waitpid(fake.parent, NULL, WNOHANG), fake.parent);
}

static void test_chaos(void **state) {
    (void)state;
    said s;
    RUN(&s, "chaos", fake.dir, "--do", "kill learner random every 10ms times 8", "--do",
        "stop learner 1 for 20ms at 5ms; kill server", "--seed", "3", "--json");
    assert_said(&s, 0, err, "kill learner random every 0.01s times 8");
    assert_said(&s, 0, err, "seed 3");
    assert_said(&s, 0, err, "killed server, process");
    assert_said(&s, 0, err, "stopped learner 1");
    assert_said(&s, 0, err, "10 shots, 10 processes hit");
    json_t *o = object(&s), *r = json_object_get(o, "recovery");
    assert_int_equal(json_integer_value(json_object_get(o, "kills")), 9);
    assert_int_equal(json_integer_value(json_object_get(o, "seed")), 3);
    assert_true(json_integer_value(json_object_get(r, "n")) > 0);
    double p50 = json_number_value(json_object_get(r, "p50_s"));
    assert_true(p50 > 0 && json_number_value(json_object_get(r, "p99_s")) >= p50);
    assert_true(json_is_true(json_object_get(o, "run_alive")));
    json_decref(o);
}

static void test_chaos_mistakes(void **state) {
    (void)state;
    said s;
    RUN(&s, "chaos", fake.dir);
    assert_said(&s, 2, err, "nothing to do");
    RUN(&s, "chaos", fake.dir, "--do", "kill lerner 1");
    assert_said(&s, 2, err, "column 6");
    assert_said(&s, 2, err, "Did you mean `learner`?");
    RUN(&s, "chaos", fake.dir, "--do", "kill learner 3");
    assert_said(&s, 2, err, "learners 0 to 2, not 3");
    RUN(&s, "chaos", fake.dir, "--do", "kill learner random every 1s", "--duration", "50ms");
    assert_said(&s, 0, err, "0 shots");
}

static void test_top_in_a_pipe(void **state) {
    (void)state;
    said s;
    RUN(&s, "top", fake.dir, "--count", "3", "--interval", "50ms");
    int pages = 0;
    for (const char *p = s.out; (p = strstr(p, "fake  training")); p++) pages++;
    assert_int_equal(s.code, 0);
    assert_int_equal(pages, 3);
    assert_null(strchr(s.out, '\033'));
    RUN(&s, "top", fake.dir, "--interval", "1ms");
    assert_said(&s, 2, err, "at least 50ms");
}

// ---- top on a terminal --------------------------------------------------------------------------

static void read_until(int fd, char *text, size_t size, const char *want, int times) {
    size_t n = 0;
    for (int i = 0; i < 500; i++) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int seen = 0;
        if (poll(&p, 1, 20) > 0) {
            ssize_t got = read(fd, text + n, size - 1 - n);
            if (got > 0) n += (size_t)got;
        }
        text[n] = '\0';
        for (const char *q = text; (q = strstr(q, want)); q++) seen++;
        if (seen >= times || n + 1 >= size) return;
    }
    fail_msg("`%s` did not come %d times: `%s`", want, times, text);
}

static void test_top_on_a_terminal(void **state) {
    (void)state;
    int master = posix_openpt(O_RDWR | O_NOCTTY), status;
    if (master < 0 && errno != EMFILE) {
        print_message("skipped: this machine gives no terminals (%s)\n", strerror(errno));
        skip();
    }
    assert_true(!grantpt(master) && !unlockpt(master));
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    struct winsize w = {.ws_row = 8, .ws_col = 40};
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &w), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(slave, STDIN_FILENO);
        dup2(slave, STDOUT_FILENO);
        setenv("TERM", "xterm", 1);
        setenv("NO_COLOR", "1", 1);
        unsetenv("COLUMNS");
        _exit(mu_cli_main(5, (char *[]){"muster", "top", fake.dir, "--interval", "60ms", NULL}));
    }
    static char text[65536];
    read_until(master, text, sizeof text, "\033[H", 3);
    assert_null(strstr(text, "\033[1m")); // NO_COLOR
    assert_null(strstr(text, "losses"));  // beyond the window's width
    struct termios t;
    assert_int_equal(tcgetattr(slave, &t), 0);
    assert_false(t.c_lflag & ICANON);
    assert_int_equal(write(master, "xq", 2), 2);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(tcgetattr(slave, &t), 0);
    assert_true(t.c_lflag & ICANON);
    close(slave);
    close(master);
}

// ---- texts --------------------------------------------------------------------------------------

static void test_page_of_trouble(void **state) {
    (void)state;
    mu_live_learner l[3] = {{.pid = 7, .doing = MU_DOING_COMPUTE, .quiet_s = 5.2, .incarnation = 3},
                            {.pid = 0, .quiet_s = -1, .losses = 2},
                            {.pid = 0, .quiet_s = -1, .rank = 1}};
    mu_live_view v = {.job_name = "j",
                      .protocol = "async",
                      .run_id = "r",
                      .state = MU_RUN_TRAINING,
                      .loss = NAN,
                      .overlap = NAN,
                      .stale_mean = NAN,
                      .stop_asked = true,
                      .warming = true,
                      .losses = 2,
                      .lock_repairs = 1,
                      .n_learners = 3,
                      .n_processes = 3,
                      .learner = l};
    mu_text t = {0};
    mu_live_text(&t, &v, true);
    assert_non_null(strstr(t.s, "training (asked to stop)"));
    assert_non_null(strstr(t.s, "async (warm start by hardsync), 3 learners"));
    assert_non_null(strstr(t.s, "server beside the learners"));
    assert_non_null(strstr(t.s, "no quiet moment"));
    assert_non_null(strstr(t.s, "2 learners lost, 0 servers lost, 0 updates skipped, 1 locks repaired"));
    assert_non_null(strstr(t.s, "\033[31m      0        7     3  compute 5s"));
    assert_non_null(strstr(t.s, "\033[31m      1        0     0  gone"));
    assert_non_null(strstr(t.s, "\n      2        0     0  on rank 1"));
    assert_null(strstr(t.s, "nan"));
    mu_text_fini(&t);
    mu_live_text_metrics(&t, "not json");
    assert_string_equal(t.s, "not json\n");
    mu_text_fini(&t);
}

static void test_text_of_metrics(void **state) {
    (void)state;
    mu_text t = {0};
    mu_json_init();
    mu_live_text_metrics(&t, "{\"step\":7,\"server_groups\":{\"version\":[3,4],\"loss\":[0.25,null]},"
                             "\"lr\":1e-5}");
    assert_string_equal(t.s, "step 7  lr 1e-05\nserver_groups.version  3 4\nserver_groups.loss  0.25 -\n");
    mu_text_fini(&t);
    char line[400] = "{\"step\":1,\"workers\":{\"wait_s\":[0";
    for (int i = 0; i < 60; i++) strcat(line, ",1.5");
    mu_live_text_metrics(&t, strcat(line, "]}}"));
    assert_non_null(strstr(t.s, "\nworkers.wait_s  0 1.5 "));
    assert_non_null(strstr(t.s, " 1.5 ...\n"));
    assert_true(strlen(strchr(t.s, '\n') + 1) <= 81);
    mu_text_fini(&t);
}

#define WITH_RUN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_RUN(test_status),     WITH_RUN(test_status_after_a_kill), WITH_RUN(test_stop),
        WITH_RUN(test_run_of_another_user),
        WITH_RUN(test_stop_waits), WITH_RUN(test_chaos),               WITH_RUN(test_chaos_mistakes),
        WITH_RUN(test_top_in_a_pipe), WITH_RUN(test_top_on_a_terminal),
        cmocka_unit_test(test_page_of_trouble),
        cmocka_unit_test(test_text_of_metrics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
