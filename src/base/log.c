// SPDX-License-Identifier: Apache-2.0
// log.c - see log.h. The line is composed on the stack, so logging never allocates.
#include "base/log.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int show = MU_LOG_INFO, file_fd = -1;
static atomic_bool as_json;
static void (*_Atomic before)(void);
static const char *const names[] = {"error", "warn", "info", "debug"};

void mu_log_set_level(mu_log_level level) { atomic_store(&show, (int)level); }
void mu_log_set_json(bool on) { atomic_store(&as_json, on); }
void mu_log_set_file(int fd) { atomic_store(&file_fd, fd); }
void mu_log_set_before(void (*erase)(void)) { atomic_store(&before, erase); }

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

void mu_log(mu_log_level level, const char *fmt, ...) {
    char text[1024], line[2300], stamp[32];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int fd = atomic_load(&file_fd), shown = (int)level <= atomic_load(&show);
    if (!shown && fd < 0) return;
    mu_clock_rfc3339(stamp, sizeof stamp);
    if (shown) {
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
    if (fd >= 0) {
        int n = snprintf(line, sizeof line, "%s %s %s\n", stamp, names[level], text);
        put(fd, line, (size_t)n);
    }
}
