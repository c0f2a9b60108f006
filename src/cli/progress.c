// SPDX-License-Identifier: Apache-2.0
// progress.c - see progress.h.
//
// A line is composed in memory and written with one call, so lines of other threads never cut it. The
// flag `drawn` is the only state that other threads touch (through the hook of mu_log): the thread that
// swaps it to false erases.
#include "cli/progress.h"

#include "base/clock.h"
#include "base/log.h"
#include "cli/term.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define REDRAW_S 0.1
#define PLAIN_S 30.0
#define PLAIN_MARKS 20          // a line at each 5 %

static atomic_bool drawn;       // a redrawn line stands on the terminal
static atomic_int  drawn_fd = -1;

static void put(int fd, const char *text, size_t n) {
    ssize_t done = write(fd, text, n);
    (void)done; // a lost progress line is no loss
}

static void erase(void) {
    if (atomic_exchange(&drawn, false)) put(atomic_load(&drawn_fd), "\r\033[K", 4);
}

// ---- numbers for people -------------------------------------------------------------------------

const char *mu_format_count(char *out, size_t size, double v) {
    static const char unit[] = {0, 'k', 'M', 'G', 'T'};
    size_t i = 0;
    while (v >= 999.5 && i + 1 < sizeof unit) v /= 1000, i++;
    if (i == 0) snprintf(out, size, v < 9.995 ? "%.3g" : "%.0f", v);
    else snprintf(out, size, "%.*f%c", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, unit[i]);
    return out;
}

const char *mu_format_time(char *out, size_t size, double s) {
    if (!(s >= 0) || s > 1e9) return snprintf(out, size, "?"), out;
    long t = lround(s);
    if (t >= 2 * 86400) snprintf(out, size, "%ldd %ldh", t / 86400, t / 3600 % 24);
    else if (t >= 3600) snprintf(out, size, "%ld:%02ld:%02ld", t / 3600, t / 60 % 60, t % 60);
    else snprintf(out, size, "%ld:%02ld", t / 60, t % 60);
    return out;
}

// ---- composing ----------------------------------------------------------------------------------

typedef struct progress_line { char s[512]; size_t n; } progress_line;

static void MU_PRINTF(2, 3) add(progress_line *l, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(l->s + l->n, sizeof l->s - l->n, fmt, ap);
    va_end(ap);
    if (n > 0) l->n += (size_t)n < sizeof l->s - l->n ? (size_t)n : sizeof l->s - l->n - 1;
}

static double share_of(const mu_progress_now *now) {
    if (now->steps > 0) return (double)now->step / (double)now->steps;
    if (now->epochs > 0) return now->epoch / now->epochs;
    return -1;
}

static double eta(const mu_progress *p, const mu_progress_now *now, double share) {
    if (now->eta_s >= 0) return now->eta_s;
    double done = share - p->start_share;
    if (share < 0 || done <= 0) return -1;
    return (mu_clock_s() - p->start_s) * (1 - share) / done;
}

// Parts that may go when the terminal is narrow, the least wanted first.
enum { SHOW_BAR = 1, SHOW_LEARNERS = 2, SHOW_STEP = 4, SHOW_SPEED = 8, SHOW_ALL = 15 };

static void bar(progress_line *l, double share) {
    enum { WIDTH = 10 };
    int full = (int)(share * WIDTH);
    add(l, " [");
    for (int i = 0; i < WIDTH; i++) add(l, "%c", i < full ? '#' : i == full ? '>' : ' ');
    add(l, "]");
}

// The epoch that is being worked on, counted from 1 as people do.
static double running_epoch(const mu_progress_now *now) {
    double e = floor(now->epoch) + 1;
    return now->epochs > 0 && e > ceil(now->epochs) ? ceil(now->epochs) : e;
}

static void compose_live(progress_line *l, const mu_progress_now *now, double share, double eta_s,
                         unsigned show) {
    char text[32];
    l->n = 0;
    add(l, "epoch %.0f", running_epoch(now));
    if (now->epochs > 0) add(l, "/%.4g", now->epochs);
    if (show & SHOW_STEP) add(l, "  step %lld", (long long)now->step);
    if ((show & SHOW_STEP) && now->steps > 0) add(l, "/%lld", (long long)now->steps);
    if (share >= 0) add(l, "  %.0f%%", floor(100 * share));
    if (share >= 0 && (show & SHOW_BAR)) bar(l, share);
    if (!isnan(now->loss)) add(l, "  loss %.4g", now->loss);
    if (!isnan(now->accuracy)) add(l, "  acc %.1f%%", 100 * now->accuracy);
    if (show & SHOW_SPEED) add(l, "  %s/s", mu_format_count(text, sizeof text, now->samples_per_s));
    if (now->of_learners > 1 && (show & SHOW_LEARNERS))
        add(l, "  %d/%d learners", now->learners, now->of_learners);
    if (eta_s >= 0) add(l, "  eta %s", mu_format_time(text, sizeof text, eta_s));
}

static void draw(const mu_progress *p, const mu_progress_now *now, double share) {
    static const unsigned drop[] = {0, SHOW_BAR, SHOW_LEARNERS, SHOW_STEP, SHOW_SPEED};
    size_t room = (size_t)mu_term_columns(p->out) - 1; // the last column would wrap on some terminals
    unsigned show = SHOW_ALL;
    double eta_s = eta(p, now, share);
    progress_line l;
    for (size_t i = 0; i < MU_COUNT(drop); i++) {
        show &= ~drop[i];
        compose_live(&l, now, share, eta_s, show);
        if (l.n <= room) break;
    }
    if (l.n > room) l.n = room;
    char out[sizeof l.s + 8];
    int n = snprintf(out, sizeof out, "\r%.*s\033[K", (int)l.n, l.s);
    atomic_store(&drawn_fd, fileno(p->out));
    atomic_store(&drawn, true);
    put(fileno(p->out), out, (size_t)n);
}

static void plain(const mu_progress *p, const mu_progress_now *now, double share) {
    char stamp[32];
    double eta_s = eta(p, now, share);
    progress_line l = {.n = 0};
    mu_clock_rfc3339(stamp, sizeof stamp);
    const char *eq = p->json ? "\":" : "=", *gap = p->json ? ",\"" : " ";
    if (p->json) add(&l, "{\"ts\":\"%s\",\"level\":\"info\",\"msg\":\"progress\"", stamp);
    else add(&l, "%s", stamp);
    if (p->json) add(&l, "%sepoch%s%.4f%sepochs%s%g", gap, eq, now->epoch, gap, eq, now->epochs);
    else if (now->epochs > 0) add(&l, " epoch=%.0f/%.4g", running_epoch(now), now->epochs);
    else add(&l, " epoch=%.0f", running_epoch(now));
    add(&l, "%sstep%s%lld", gap, eq, (long long)now->step);
    if (now->steps > 0 && p->json) add(&l, "%ssteps%s%lld", gap, eq, (long long)now->steps);
    else if (now->steps > 0) add(&l, "/%lld", (long long)now->steps);
    if (isfinite(now->loss)) add(&l, "%sloss%s%.6g", gap, eq, now->loss);
    if (isfinite(now->accuracy)) add(&l, "%sacc%s%.4g", gap, eq, now->accuracy);
    add(&l, "%ssamples_s%s%.0f", gap, eq, now->samples_per_s);
    if (now->rate > 0) add(&l, "%slr%s%.6g", gap, eq, now->rate);
    if (now->of_learners > 1 && p->json)
        add(&l, "%slearners%s%d%sof_learners%s%d", gap, eq, now->learners, gap, eq, now->of_learners);
    else if (now->of_learners > 1) add(&l, " learners=%d/%d", now->learners, now->of_learners);
    if (eta_s >= 0) add(&l, "%seta_s%s%.0f", gap, eq, eta_s);
    add(&l, p->json ? "}\n" : "\n");
    put(fileno(p->out), l.s, l.n);
}

// ---- the object ---------------------------------------------------------------------------------

void mu_progress_init(mu_progress *p, FILE *stream, bool quiet, bool json) {
    memset(p, 0, sizeof *p);
    p->out = stream;
    p->quiet = quiet;
    p->json = json;
    p->live = !quiet && !json && mu_term_live(stream);
    fflush(stream);
    if (p->live) mu_log_set_before(erase);
}

static int mark(double share) { return (int)(share * PLAIN_MARKS + 1e-9); }

void mu_progress_update(mu_progress *p, const mu_progress_now *now) {
    if (p->quiet) return;
    double t = mu_clock_s(), share = share_of(now);
    if (!p->started) {
        p->started = true;
        p->start_s = p->last_s = t;
        p->start_share = share > 0 ? share : 0;
        p->last_mark = mark(share);
        if (p->live) p->last_s = t - REDRAW_S;
    }
    if (p->live) {
        if (t - p->last_s < REDRAW_S) return;
        draw(p, now, share);
    } else {
        if (t - p->last_s < PLAIN_S && mark(share) == p->last_mark) return;
        plain(p, now, share);
    }
    p->last_s = t;
    p->last_mark = mark(share);
}

void mu_progress_done(mu_progress *p) {
    if (!p->live) return;
    erase();
    mu_log_set_before(NULL);
    p->live = false;
}

static void cell(progress_line *l, int width, const char *fmt, double v) {
    char text[32] = "-";
    if (!isnan(v)) {
        if (!strcmp(fmt, "time")) mu_format_time(text, sizeof text, v);
        else if (!strcmp(fmt, "fixed")) snprintf(text, sizeof text, "%.6f", v);
        else
            snprintf(text, sizeof text, fabs(v - round(v)) < 0.01 ? "%.0f" : "%.2f",
                     v); // batches cross epoch ends
    }
    add(l, "%*s", width, text);
}

void mu_progress_add_row(mu_progress *p, const mu_progress_row *r) {
    if (p->quiet || p->json) return;
    progress_line l = {.n = 0};
    char loss[16], accuracy[16];
    snprintf(loss, sizeof loss, "%s_loss", r->set);
    snprintf(accuracy, sizeof accuracy, "%s_acc", r->set);
    if (!p->table) add(&l, "%5s%12s%12s%10s%10s\n", "epoch", "train_loss", loss, accuracy, "time");
    p->table = true;
    cell(&l, 5, "epoch", r->epoch);
    cell(&l, 12, "fixed", r->train_loss);
    cell(&l, 12, "fixed", r->loss);
    cell(&l, 10, "fixed", r->accuracy);
    cell(&l, 10, "time", r->time_s);
    add(&l, "\n");
    erase();
    put(fileno(p->out), l.s, l.n);
}
