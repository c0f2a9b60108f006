// SPDX-License-Identifier: Apache-2.0
// plan_text.c - see plan_text.h.
#include "cli/plan_text.h"

#include "base/log.h"
#include "cli/term.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

// ---- while it measures ----

static void show_progress(void *ctx, const char *text, double share) {
    mu_plan_screen *s = ctx;
    if (s->quiet) return;
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K%s, %.0f %%", text, 100 * share);
        fflush(stderr);
        s->live = true;
        return;
    }
    const int part = 1 + (int)(4 * share); // a log is not to be filled
    if (part > s->told) mu_info("%s", text);
    if (part > s->told) s->told = part;
}

void mu_plan_screen_end(mu_plan_screen *s) {
    if (s->live) fprintf(stderr, "\r\033[K");
    s->live = false;
}

static void show_words(void *ctx, const char *text) {
    mu_plan_screen *s = ctx;
    mu_plan_screen_end(s);
    if (!s->quiet) mu_info("%s", text);
}

mu_planner_watch mu_plan_screen_watch(mu_plan_screen *s) {
    return (mu_planner_watch){s, show_progress, show_words};
}

// ---- numbers ----

static const char *time_text(double s, char out[24]) {
    if (s < 1e-3) snprintf(out, 24, "%.0f us", 1e6 * s);
    else if (s < 1) snprintf(out, 24, "%.*f ms", s < 0.1 ? 2 : 1, 1e3 * s);
    else if (s < 120) snprintf(out, 24, "%.3g s", s);
    else if (s < 7200) snprintf(out, 24, "%.0f min", s / 60);
    else snprintf(out, 24, "%.1f h", s / 3600);
    return out;
}

static const char *bytes_text(double b, char out[24]) {
    snprintf(out, 24, b < 1e9 ? "%.0f MB" : "%.1f GB", b < 1e9 ? 1e-6 * b : 1e-9 * b);
    return out;
}

static double over_one(const mu_planner *p, const mu_plan_choice *c) {
    return p->plan.alone.prediction.epoch_s > 0 ? p->plan.alone.prediction.epoch_s / c->prediction.epoch_s : 0;
}

static double largest_share(const mu_prediction *p) {
    double most = 0;
    for (int t = 0; t < MU_PLAN_TERMS; t++) most = fmax(most, p->term_s[t]);
    return p->step_s > 0 ? most / p->step_s : 0;
}

void mu_plan_text_line(const mu_planner *p, const mu_plan_choice *c, char *out, size_t size) {
    char what[160], epoch[24], step[24], over[48] = "";
    mu_config_text(&c->config, what, sizeof what);
    if (over_one(p, c) > 0 && mu_config_processes(&c->config) > 1)
        snprintf(over, sizeof over, ", %.2fx one learner", over_one(p, c));
    snprintf(out, size, "%s: %s a step, %s an epoch%s; %s is %.0f %% of a step", what,
             time_text(c->prediction.step_s, step), time_text(c->prediction.epoch_s, epoch), over,
             mu_plan_bottleneck(&c->prediction), 100 * largest_share(&c->prediction));
}

void mu_plan_text_about(const mu_planner *p, const mu_plan_choice *c, char *out, size_t size) {
    char line[400], learnt[160];
    mu_plan_text_line(p, c, line, sizeof line);
    mu_learnt_text(&p->learnt, &c->config, learnt, sizeof learnt);
    snprintf(out, size, "%s\npredicted for %.63s, %d node%s of %d cores%s%s", line, p->machine.name,
             p->machine.nodes, p->machine.nodes == 1 ? "" : "s", p->machine.cores, *learnt ? "\n" : "", learnt);
}

// ---- the table ----

static void print_head(const mu_planner *p, FILE *out) {
    const mu_machine *m = &p->machine;
    const char *mode = mu_machine_mode(m);
    fprintf(out, "%s: %d node%s of %d core%s", *m->name ? m->name : "machine", m->nodes, m->nodes == 1 ? "" : "s",
            m->cores, m->cores == 1 ? "" : "s");
    if (p->derived) fprintf(out, ", speeds derived");
    else if (*mode) fprintf(out, ", %s", mode);
    fprintf(out, "; costs of the job measured on %s (%s)\n", p->costs.machine, p->costs.level);
}

static void print_row(int number, const mu_plan_choice *c, FILE *out) {
    static const mu_plan_term shown[] = {MU_TERM_COMPUTE,  MU_TERM_APPLY, MU_TERM_EXCHANGE,
                                         MU_TERM_WIRE, MU_TERM_WAIT};
    const mu_prediction *p = &c->prediction;
    char what[160], step[24], epoch[24], memory[24];
    mu_config_text(&c->config, what, sizeof what);
    fprintf(out, "%2d  %-52s %9s %11.0f %9s", number, what, time_text(p->step_s, step), p->samples_per_s,
            time_text(p->epoch_s, epoch));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        double s = p->term_s[shown[i]];
        if (shown[i] == MU_TERM_COMPUTE) s += p->term_s[MU_TERM_DATA];
        if (shown[i] == MU_TERM_EXCHANGE) s += p->term_s[MU_TERM_BRIDGES];
        fprintf(out, " %6.0f%%", p->step_s > 0 ? 100 * s / p->step_s : 0);
    }
    fprintf(out, " %6.1f %9s\n", p->staleness, bytes_text(p->memory_bytes, memory));
}

static void print_changes(const mu_plan_choice *c, const mu_plan_change *change, int n, FILE *out) {
    fprintf(out, "bottleneck: %s, %.0f %% of a step", mu_plan_bottleneck(&c->prediction),
            100 * largest_share(&c->prediction));
    int nothing = 0;
    for (int i = 0; i < n; i++) {
        if (change[i].gain >= 1.02) fprintf(out, "%s %s would give %.2fx", i ? "," : ";", change[i].what, change[i].gain);
        else nothing++;
    }
    for (int i = n - nothing; i < n; i++) fprintf(out, "%s %s", i == n - nothing ? ";" : ",", change[i].what);
    fprintf(out, "%s\n", nothing ? " nothing" : "");
}

static void print_chosen(const mu_planner *p, FILE *out) {
    char total[24], limit[24];
    if (p->space.deadline_s <= 0 && p->plan.wanted > 0)
        fprintf(out, "chosen: number %d, as fast as the first within 1 %%, and simpler\n", p->plan.wanted + 1);
    if (p->space.deadline_s <= 0) return;
    const mu_plan_choice *c = mu_planner_wanted(p);
    time_text(mu_plan_total_s(&p->space, &c->prediction), total);
    time_text(p->space.deadline_s, limit);
    if (p->plan.late) fprintf(out, "nothing ends within %s; the fastest takes %s\n", limit, total);
    else fprintf(out, "number %d ends in %s, within %s, with the fewest processes\n", p->plan.wanted + 1, total, limit);
}

void mu_plan_text_print(const mu_planner *p, const mu_plan_change *change, int n, const char *job,
                        const char *saved, FILE *out) {
    const mu_plan_choice *wanted = mu_planner_wanted(p);
    char learnt[160];
    print_head(p, out);
    fprintf(out, "\n    %-52s %9s %11s %9s %7s %7s %7s %7s %7s %6s %9s\n", "configuration", "step", "samples/s",
            "epoch", "compute", "apply", "exch.", "wire", "wait", "stale", "memory");
    for (int i = 0; i < p->plan.n; i++) print_row(i + 1, &p->plan.choice[i], out);
    fprintf(out, "\n");
    print_chosen(p, out);
    print_changes(wanted, change, n, out);
    mu_learnt_text(&p->learnt, &wanted->config, learnt, sizeof learnt);
    if (*learnt) fprintf(out, "%s\n", learnt);
    if (p->plan.too_large)
        fprintf(out, "%lld more need more memory than a node has\n", (long long)p->plan.too_large);
    if (saved && wanted->config.nodes > 1)
        fprintf(out, "train so: mpirun -n %d muster train %s --plan %s\n", wanted->config.nodes, job, saved);
    else if (saved) fprintf(out, "train so: muster train %s --plan %s\n", job, saved);
}

// ---- JSON ----

static json_t *choice_json(const mu_planner *p, const mu_plan_choice *c) {
    char text[160];
    const mu_prediction *r = &c->prediction;
    json_t *terms = json_object(), *edits = json_array(), *o;
    mu_config_edits e;
    mu_config_text(&c->config, text, sizeof text);
    mu_config_as_edits(&c->config, &e);
    for (int t = 0; t < MU_PLAN_TERMS; t++)
        json_object_set_new(terms, mu_plan_term_name((mu_plan_term)t), mu_json_number(r->term_s[t]));
    for (int i = 0; i < e.n; i++) json_array_append_new(edits, json_string(e.text[i]));
    o = json_pack("{s:s s:s s:i s:i s:i s:I s:i}", "configuration", text, "protocol", c->config.protocol, "nodes",
                  c->config.nodes, "learners", c->config.learners, "workers", c->config.workers, "mu",
                  (json_int_t)c->config.mu, "server_groups", c->config.server_groups);
    const mu_json_real numbers[] = {
        {"step_s", r->step_s}, {"samples_per_s", r->samples_per_s}, {"epoch_s", r->epoch_s},
        {"total_s", mu_plan_total_s(&p->space, r)}, {"start_s", r->start_s}, {"evaluate_s", r->evaluate_s},
        {"save_s", r->save_s}, {"staleness", r->staleness}, {"overlap", r->overlap},
        {"memory_bytes", r->memory_bytes}, {"wire_bytes", r->wire_bytes}, {"over_one_learner", over_one(p, c)},
    };
    mu_json_put_reals(o, numbers, MU_COUNT(numbers));
    json_object_set_new(o, "terms", terms);
    json_object_set_new(o, "set", edits);
    json_object_set_new(o, "corrected", json_boolean(r->corrected));
    return o;
}

json_t *mu_plan_json(const mu_planner *p, const mu_plan_change *change, int n) {
    const mu_plan_choice *wanted = mu_planner_wanted(p);
    char learnt[160];
    mu_learnt_text(&p->learnt, &wanted->config, learnt, sizeof learnt);
    json_t *o = json_object(), *all = json_array(), *changes = json_array();
    for (int i = 0; i < p->plan.n; i++) json_array_append_new(all, choice_json(p, &p->plan.choice[i]));
    for (int i = 0; i < n; i++)
        json_array_append_new(changes, json_pack("{s:s s:f}", "what", change[i].what, "gain", change[i].gain));
    json_object_set_new(o, "machine", json_string(p->machine.name));
    json_object_set_new(o, "nodes", json_integer(p->machine.nodes));
    json_object_set_new(o, "cores", json_integer(p->machine.cores));
    json_object_set_new(o, "derived", json_boolean(p->derived));
    json_object_set_new(o, "measured", json_boolean(p->measured));
    json_object_set_new(o, "search_s", mu_json_number(p->search_s));
    json_object_set_new(o, "looked_at", json_integer(p->plan.looked_at));
    json_object_set_new(o, "wanted", json_integer(p->plan.wanted));
    json_object_set_new(o, "late", json_boolean(p->plan.late));
    json_object_set_new(o, "bottleneck", json_string(mu_plan_bottleneck(&wanted->prediction)));
    json_object_set_new(o, "learnt", json_string(learnt));
    json_object_set_new(o, "changes", changes);
    json_object_set_new(o, "plans", all);
    return o;
}
