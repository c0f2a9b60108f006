// SPDX-License-Identifier: Apache-2.0
// log.c - see log.h. The line is composed on the stack, so logging never allocates.
#include "base/log.h"

#include "base/clock.h"
#include "base/utf8.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int show = MU_LOG_NONE;
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER; // held while writing too: see mu_log_drop_file
static int file_fd = -1;
static atomic_bool as_json;
static void (*_Atomic before)(void);
static const char *const names[] = {"error", "warn", "info", "debug"};

void mu_log_set_level(mu_log_level level) { atomic_store(&show, (int)level); }
void mu_log_set_json(bool on) { atomic_store(&as_json, on); }
void mu_log_set_before(void (*erase)(void)) { atomic_store(&before, erase); }

void mu_log_set_file(int fd) {
    pthread_mutex_lock(&file_lock);
    file_fd = fd;
    pthread_mutex_unlock(&file_lock);
}

// The caller closes fd next, and its number may be given to any other file at once: a thread that still
// wrote a line to it would damage that file.
void mu_log_drop_file(int fd) {
    pthread_mutex_lock(&file_lock);
    if (file_fd == fd) file_fd = -1;
    pthread_mutex_unlock(&file_lock);
}

static void put(int fd, const char *line, size_t n) {
    ssize_t done = write(fd, line, n);
    (void)done; // a full disk must not stop training; the checkpoint code reports it
}

// Copies text as a JSON string body; control characters become spaces.
static size_t escape(char *out, size_t size, const char *text) {
    size_t n = 0;
    for (; *text && n + 3 < size; text++) {
        if (*text == '"' || *text == '\\') out[n++] = '\\';
        out[n++] = (unsigned char)*text < 0x20 ? ' ' : *text;
    }
    out[n] = '\0';
    return n;
}

static void put_on_stderr(mu_log_level level, const char *stamp, const char *text) {
    char line[2300];
    int n;
    if (atomic_load(&as_json)) {
        char body[2100];
        escape(body, sizeof body, text);
        n = snprintf(line, sizeof line, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":\"%s\"}\n", stamp,
                     names[level], body);
    } else {
        n = snprintf(line, sizeof line, "%s%s%s\n", level == MU_LOG_INFO ? "" : names[level],
                     level == MU_LOG_INFO ? "" : ": ", text);
    }
    void (*erase)(void) = atomic_load(&before);
    if (erase) erase();
    put(STDERR_FILENO, line, (size_t)n);
}

void mu_log(mu_log_level level, const char *fmt, ...) {
    char text[1024], line[1100], stamp[32];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    mu_utf8_mask_control(text); // names in it may come from any file
    mu_clock_rfc3339(stamp, sizeof stamp);
    if ((int)level <= atomic_load(&show)) put_on_stderr(level, stamp, text);
    int n = snprintf(line, sizeof line, "%s %s %s\n", stamp, names[level], text);
    pthread_mutex_lock(&file_lock);
    if (file_fd >= 0) put(file_fd, line, (size_t)n);
    pthread_mutex_unlock(&file_lock);
}
