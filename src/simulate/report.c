// SPDX-License-Identifier: Apache-2.0
// report.c - see report.h.
//
//   step_s         simulated time of the training by its steps: of one batch of all learners
//   overlap        the share of their time that learners compute, as in a real training's result
//   wire           bytes of frames. sent, received: by rank 0; all: what all ranks sent in all
//   busiest_bytes  sent or received by one rank in a step: by the rate of its link the least time of a step
#include "simulate/report.h"

#include "cli/jobs.h"
#include "simulate/network.h"
#include "simulate/rank.h"

#include <stdio.h>
#include <time.h>

typedef struct figures {
    double run_s, wall_s, step_s, samples_per_s, steps, overlap;
    int64_t used, sent_by_all, busiest, messages, produced, applied, rejected, lost;
} figures;

static double wall_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void mu_report_begin(mu_report *r) { r->began_s = wall_s(); }

static const char *architecture(const mu_setup *p) {
    static const char *const names[] = {"in step", "base", "adv", "adv*"};
    return mu_setup_is_joint(p) ? names[0] : names[p->architecture];
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static figures figures_of(const mu_report *r) {
    figures f = {.wall_s = wall_s() - r->began_s};
    int64_t begin = INT64_MAX, end = 0;
    double compute = 0, wait = 0;
    for (int i = 0; i < r->ranks; i++) {
        const mu_simulated_rank *k = mu_simulated_at(i);
        if (k->begin_ns < begin) begin = k->begin_ns;
        end = larger(end, k->end_ns);
        f.used += k->used;
        f.sent_by_all += k->sent;
        f.busiest = larger(f.busiest, larger(k->sent, k->received));
        f.messages += mu_network_get_counts(i).messages;
        if (r->meets && i > 0) continue; // rank 0 was told
        f.produced += k->result.produced;
        f.applied += k->result.applied;
        f.rejected += k->result.rejected;
        f.lost += k->result.lost;
        compute += k->result.compute_s;
        wait += k->result.wait_s;
    }
    if (mu_setup_is_joint(&r->session->setup)) f.used = mu_simulated_at(0)->used; // each counts all
    f.run_s = 1e-9 * (double)(end - begin);
    f.steps = (double)f.used / (double)r->session->setup.global_batch;
    f.step_s = f.steps > 0 ? f.run_s / f.steps : 0;
    f.samples_per_s = f.run_s > 0 ? (double)f.used / f.run_s : 0;
    f.overlap = compute + wait > 0 ? compute / (compute + wait) : 0;
    return f;
}

static json_t *staleness(const mu_learners_result *g) {
    json_t *hist = json_array();
    for (int i = 0; i < g->most_staleness; i++)
        json_array_append_new(hist, json_integer(g->staleness_hist[i]));
    return json_pack("{s:o s:I s:o}", "mean", mu_json_number(g->staleness_mean), "max",
                     (json_int_t)g->staleness_max, "hist", hist);
}

static void print_json(const mu_report *r, const figures *f) {
    const mu_setup *p = &r->session->setup;
    const mu_simulated_rank *first = mu_simulated_at(0);
    const mu_json_int ints[] = {{"ranks", r->ranks},
                                {"learners", p->learners},
                                {"rows", p->rows},
                                {"global_batch", p->global_batch},
                                {"samples", f->used},
                                {"versions", first->result.versions},
                                {"gradients", f->produced},
                                {"applied", f->applied},
                                {"rejected", f->rejected},
                                {"lost", f->lost},
                                {"wire_bytes_sent", first->all_sent},
                                {"wire_bytes_received", first->all_received},
                                {"training_bytes_sent", first->sent},
                                {"training_bytes_received", first->received},
                                {"wire_bytes_all", f->sent_by_all},
                                {"messages", f->messages}};
    const mu_json_real reals[] = {{"steps", f->steps},
                                  {"step_s", f->step_s},
                                  {"simulated_s", f->run_s},
                                  {"samples_per_s", f->samples_per_s},
                                  {"overlap", f->overlap},
                                  {"gradient_s", mu_sim_costs_gradient_s(r->costs)},
                                  {"update_s", r->costs->update_s},
                                  {"busiest_bytes_per_step", (double)f->busiest / f->steps},
                                  {"wall_s", f->wall_s}};
    json_t *o = json_pack("{s:s s:s s:s s:s}", "job", r->session->job->name, "architecture", architecture(p),
                          "protocol", p->protocol->name, "platform", r->platform);
    mu_json_put_ints(o, ints, MU_COUNT(ints));
    mu_json_put_reals(o, reals, MU_COUNT(reals));
    json_object_set_new(o, "meets", json_boolean(r->meets));
    json_object_set_new(o, "staleness", staleness(&first->result));
    mu_cli_print_json(o);
}

static void print_text(const mu_report *r, const figures *f) {
    const mu_setup *p = &r->session->setup;
    const mu_learners_result *g = &mu_simulated_at(0)->result;
    printf("%s, %s, %s: %d ranks, %d learners, mu %lld\n", r->session->job->name, architecture(p),
           p->protocol->name, r->ranks, p->learners, (long long)p->rows);
    printf("step %.4f s (gradient %.4f s), %.0f samples/s, overlap %.1f %%\n", f->step_s,
           mu_sim_costs_gradient_s(r->costs), f->samples_per_s, 100 * f->overlap);
    printf("staleness %.2f, at most %lld\n", g->staleness_mean, (long long)g->staleness_max);
    printf("wire: %.3f MB a step by all ranks, %.3f MB by the busiest; %.0f steps, simulated in %.1f s\n",
           1e-6 * (double)f->sent_by_all / f->steps, 1e-6 * (double)f->busiest / f->steps, f->steps,
           f->wall_s);
}

mu_status mu_report_print(const mu_report *r, mu_err *err) {
    for (int i = 0; i < r->ranks; i++) {
        const mu_simulated_rank *k = mu_simulated_at(i);
        if (k->error.status != MU_OK) return mu_err_pass(k->error.status, &k->error, err);
    }
    const figures f = figures_of(r);
    if (f.produced != f.applied + f.rejected + f.lost)
        return MU_FAIL(err, MU_EBACKEND, "the ledger does not balance");
    if (r->json) print_json(r, &f);
    else print_text(r, &f);
    return MU_OK;
}
