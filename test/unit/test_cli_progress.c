// SPDX-License-Identifier: Apache-2.0
// The progress line as a person on a terminal (a pseudo-terminal here) and as a log file sees it.
#include "base/attr.h"
#include "base/log.h"
#include "cli/progress.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_numbers(void **state) {
    (void)state;
    char s[32];
    assert_string_equal(mu_format_count(s, sizeof s, 41200), "41.2k");
    assert_string_equal(mu_format_count(s, sizeof s, 999.7), "1.00k");
    assert_string_equal(mu_format_count(s, sizeof s, 1.25e6), "1.25M");
    assert_string_equal(mu_format_count(s, sizeof s, 980), "980");
    assert_string_equal(mu_format_count(s, sizeof s, 3.14159), "3.14");
    assert_string_equal(mu_format_time(s, sizeof s, 42), "0:42");
    assert_string_equal(mu_format_time(s, sizeof s, 3723), "1:02:03");
    assert_string_equal(mu_format_time(s, sizeof s, 3 * 86400 + 7200), "3d 2h");
    assert_string_equal(mu_format_time(s, sizeof s, NAN), "?");
}

// A run of 1000 steps in 10 epochs shown to `out`.
static void show_run(FILE *out, bool quiet, bool json) {
    mu_progress p;
    mu_progress_init(&p, out, quiet, json);
    for (int i = 0; i <= 1000; i++) {
        mu_progress_now now = {.epoch = i / 100.0, .epochs = 10, .step = i, .steps = 1000,
                               .loss = 1.0 / (i + 1), .accuracy = i < 100 ? NAN : 0.9,
                               .samples_per_s = 41200, .eta_s = 42};
        mu_progress_update(&p, &now);
        if (i && i % 100 == 0) {
            mu_progress_row row = {"valid", i / 100.0, 0.5, NAN, 0.9, 61};
            mu_progress_add_row(&p, &row);
        }
    }
    mu_progress_done(&p);
    mu_progress_done(&p);
}

static size_t read_back(FILE *f, char *text, size_t size) {
    fflush(f);
    ssize_t n = pread(fileno(f), text, size - 1, 0);
    assert_true(n >= 0);
    text[n] = '\0';
    return (size_t)n;
}

static int count(const char *text, const char *word) {
    int n = 0;
    for (; (text = strstr(text, word)); text++) n++;
    return n;
}

static void test_file_gets_few_plain_lines(void **state) {
    (void)state;
    char text[8192];
    FILE *f = tmpfile();
    show_run(f, false, false);
    size_t n = read_back(f, text, sizeof text);
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    assert_int_equal(count(text, " step="), 20);        // one per 5 %
    assert_non_null(
        strstr(text, "Z epoch=2/10 step=100/1000 loss=0.00990099 acc=0.9 samples_s=41200 eta_s=42\n"));
    assert_non_null(strstr(text, "epoch  train_loss  valid_loss valid_acc      time\n"));
    assert_non_null(strstr(text, "    1    0.500000           -  0.900000      1:01\n"));
    assert_int_equal(count(text, "train_loss"), 1);
    assert_true(n < 4096);
    fclose(f);
}

static void test_json_lines_and_quiet(void **state) {
    (void)state;
    char text[8192];
    FILE *f = tmpfile();
    show_run(f, false, true);
    read_back(f, text, sizeof text);
    assert_int_equal(count(text, "{\"ts\":\""), 20);
    assert_non_null(
        strstr(text, ",\"step\":50,\"steps\":1000,\"loss\":0.0196078,\"samples_s\":41200,\"eta_s\":42}\n"));
    fclose(f);
    f = tmpfile();
    show_run(f, true, false);
    assert_int_equal(read_back(f, text, sizeof text), 0);
    fclose(f);
}

// Opens a pseudo-terminal: what is written to *out can be read from the returned descriptor.
static int open_terminal(FILE **out) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) return -1;
    *out = fopen(ptsname(master), "we");
    return *out ? master : -1;
}

static size_t read_terminal(int master, char *text, size_t size) {
    size_t n = 0;
    struct pollfd p = {.fd = master, .events = POLLIN};
    while (n + 1 < size && poll(&p, 1, 50) > 0) {
        ssize_t got = read(master, text + n, size - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    text[n] = '\0';
    return n;
}

static void test_terminal_line_is_redrawn_and_erased(void **state) {
    (void)state;
    FILE *tty;
    char text[4096];
    int master = open_terminal(&tty);
    if (master < 0) skip();
    setenv("TERM", "xterm", 1);
    setenv("COLUMNS", "60", 1);
    mu_progress p;
    mu_progress_init(&p, tty, false, false);
    mu_progress_now now = {.epoch = 2.1, .epochs = 10, .step = 2420, .steps = 9380, .loss = 0.0421,
                           .accuracy = 0.987, .samples_per_s = 41200, .eta_s = 42};
    mu_progress_update(&p, &now);
    mu_progress_update(&p, &now); // too soon: not drawn
    read_terminal(master, text, sizeof text);
    assert_string_equal(text, "\repoch 3/10  25%  loss 0.0421  acc 98.7%  41.2k/s  eta 0:42\033[K");
    mu_progress_row row = {"test", 2, 0.5, 0.6, 0.9, 61};
    mu_progress_add_row(&p, &row);
    read_terminal(master, text, sizeof text);
    assert_memory_equal(text, "\r\033[Kepoch", 9);
    mu_progress_done(&p);
    assert_int_equal(read_terminal(master, text, sizeof text), 0); // nothing was left to erase
    unsetenv("COLUMNS");
    fclose(tty);
    close(master);
}

static void test_dumb_terminal_gets_no_escapes(void **state) {
    (void)state;
    FILE *tty;
    char text[8192];
    int master = open_terminal(&tty);
    if (master < 0) skip();
    setenv("TERM", "dumb", 1);
    mu_progress p;
    mu_progress_init(&p, tty, false, false);
    for (int i = 0; i <= 100; i += 50)
        mu_progress_update(&p, &(mu_progress_now){.step = i, .steps = 100, .loss = NAN, .accuracy = NAN,
                                                  .eta_s = -1});
    mu_progress_done(&p);
    read_terminal(master, text, sizeof text);
    assert_null(strchr(text, '\033'));
    assert_int_equal(count(text, "step="), 2);
    fclose(tty);
    close(master);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_file_gets_few_plain_lines),
        cmocka_unit_test(test_json_lines_and_quiet),
        cmocka_unit_test(test_terminal_line_is_redrawn_and_erased),
        cmocka_unit_test(test_dumb_terminal_gets_no_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
