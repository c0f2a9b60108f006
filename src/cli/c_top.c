// SPDX-License-Identifier: Apache-2.0
// c_top.c - `muster top`: the page of `muster status`, again and again.
//
// On a terminal the page is redrawn in place and `q` ends it; the keyboard is put back however the loop ends
// (a stop signal only sets a flag). Elsewhere pages follow one another, divided by an empty line.
#include "cli/cli.h"
#include "cli/jobs.h"
#include "cli/live_text.h"
#include "cli/term.h"

#include "base/clock.h"
#include "train/stopflag.h"

#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

struct top {
    double interval;
    int64_t count;
};

static const mu_opt options[] = {
    MU_OPT(struct top, interval, "interval", MU_OPT_DURATION, "T",
           "time between two pages; 1s when not given"),
    MU_OPT(struct top, count, "count", MU_OPT_INT, "N", "end after N pages"),
    {0},
};

typedef struct keyboard {
    bool changed;
    struct termios before;
} keyboard;

// Single keys without echo. Ctrl-C and Ctrl-Z keep their meaning.
static void keyboard_open(keyboard *k) {
    struct termios t;
    k->changed = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &k->before);
    if (!k->changed) return;
    t = k->before;
    t.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    k->changed = !tcsetattr(STDIN_FILENO, TCSANOW, &t);
}

static void keyboard_close(const keyboard *k) {
    if (k->changed) tcsetattr(STDIN_FILENO, TCSANOW, &k->before);
}

// Sleeps until the clock says `until`; false when the person wants to leave.
static bool pause_until(const keyboard *k, double until) {
    for (double left; (left = until - mu_clock_s()) > 0;) {
        struct pollfd p = {.fd = k->changed ? STDIN_FILENO : -1, .events = POLLIN};
        int ms = left > 0.1 ? 100 : (int)(1e3 * left) + 1; // short, so that a signal before poll is seen
        char key = 0;
        if (poll(&p, 1, ms) > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q'))
            return false;
        if (mu_stop_requested()) return false;
    }
    return !mu_stop_requested();
}

// The page as far as it fits: whole lines of the window's height, each cut to its width. Escapes take no
// room.
static void draw(const mu_text *t) {
    struct winsize w = {0};
    int rows = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_row > 1 ? w.ws_row - 1 : 24;
    int columns = mu_term_columns(stdout), at = 0;
    fputs("\033[H", stdout);
    for (const char *p = t->s; p && *p && rows > 0; p++) {
        if (*p == '\033') {
            size_t n = strcspn(p, "m");
            fwrite(p, 1, n + (p[n] == 'm'), stdout);
            p += n - (p[n] != 'm');
        } else if (*p == '\n') {
            fputs("\033[K\n", stdout);
            at = 0, rows--;
        } else if (at < columns || ((unsigned char)*p & 0xc0) == 0x80) {
            at += ((unsigned char)*p & 0xc0) != 0x80;
            fputc(*p, stdout);
        }
    }
    fputs("\033[J", stdout);
}

static void print_page(const mu_args *a, const mu_live_view *v, bool live, bool first, mu_text *t) {
    if (a->json) {
        mu_cli_print_json(mu_live_json(v));
    } else {
        mu_live_text(t, v, mu_term_colour(stdout));
        if (live) draw(t);
        else if (t->s) printf("%s%s", first ? "" : "\n", t->s);
    }
    fflush(stdout);
}

// Pages until the run ends, the count is reached or the person leaves. *over: the run has ended.
static void pages(const mu_args *a, const struct top *o, mu_live *live, const mu_shared *g,
                  mu_live_view view[2], bool *over) {
    bool screen = !a->json && mu_term_live(stdout);
    double interval = mu_args_given(a, "interval") ? o->interval : 1, due = mu_clock_s();
    keyboard k = {0};
    if (screen) keyboard_open(&k), fputs("\033[2J", stdout);
    mu_live_look(&view[0], g);
    bool stay = pause_until(&k, due + (interval < 0.2 ? interval : 0.2)); // the first page has speeds as well
    for (int64_t i = 0; stay; i++) {
        mu_text t = {0};
        mu_live_view *now = &view[(i + 1) & 1];
        mu_live_look(now, g);
        mu_live_rates(now, &view[i & 1]);
        print_page(a, now, screen, i == 0, &t);
        mu_text_fini(&t);
        *over = now->state == MU_RUN_ENDED || mu_live_find(live->dir, live, NULL) != MU_OK ||
                live->state != MU_LIVE_GROUP;
        due += interval;
        stay = !*over && (!o->count || i + 1 < o->count) && !ferror(stdout) && pause_until(&k, due);
    }
    keyboard_close(&k);
}

static mu_status watch(const mu_args *a, const struct top *o, mu_live *live, const mu_shared *g,
                       mu_err *err) {
    mu_live_view view[2] = {{0}, {0}};
    bool over = false;
    mu_status s = mu_live_view_init(&view[0], g, err);
    if (s == MU_OK) s = mu_live_view_init(&view[1], g, err);
    if (s == MU_OK) pages(a, o, live, g, view, &over);
    mu_live_view_fini(&view[0]);
    mu_live_view_fini(&view[1]);
    if (over && !a->quiet) fprintf(stderr, "%s: the run has ended\n", live->dir);
    return s;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct top *o = values;
    mu_live live;
    mu_shared g = {0};
    bool attached;
    if (mu_args_given(a, "interval") && !(o->interval >= 0.05))
        return MU_FAIL(err, MU_EUSAGE, "option `--interval` takes at least 50ms");
    mu_json_init();
    MU_TRY(mu_stop_install(err));
    MU_TRY(mu_live_open(a->n_words ? a->word[0] : NULL, &live, &g, &attached, err));
    if (attached) {
        mu_status s = watch(a, o, &live, &g, err);
        mu_shared_close(&g);
        return s;
    }
    mu_text t = {0};
    mu_live_text_other(&t, &live);
    t.n -= t.n > 0;
    MU_FAIL(err, MU_ENOTFOUND, "no learners to watch: %.*s", (int)t.n, t.s ? t.s : "");
    mu_text_fini(&t);
    mu_err_hint(err, "`muster status` shows the last metrics of a run.");
    return MU_ENOTFOUND;
}

const mu_verb_class mu_verb_top = {
    .name = "top",
    .help = "watch a run: the page of `muster status` every second",
    .state_size = sizeof(struct top),
    .usage = "[RUN] [options]",
    .example = "muster top\nmuster top runs/lenet-0abc12 --interval 5s --count 12",
    .about =
        "On a terminal the page is redrawn and `q` or Ctrl-C ends it; otherwise, and with --json, one page "
        "follows another. Ends with the run.",
    .args = {.options = options, .common = MU_COMMON_JSON, .max_words = 1, .words_are = "a run folder"},
    .run = run,
};
