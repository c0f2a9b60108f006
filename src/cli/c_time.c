// SPDX-License-Identifier: Apache-2.0
// c_time.c - `muster time`: milliseconds, GFLOP/s and share of peak per layer.
#include "cli/cli.h"
#include "cli/jobs.h"

#include "train/timing.h"

struct timing { double seconds; };

static const mu_opt options[] = {
    MU_OPT(struct timing, seconds, "seconds", MU_OPT_DURATION, "T",
           "how long to measure; 3 s when not given"),
    MU_OPT_KEY("batch-size", "N", "train.batch", "samples per step"),
    {0},
};

static double rate(double flops, double seconds) { return seconds > 0 ? flops / seconds * 1e-9 : 0; }

static void print_table(const mu_timing *t) {
    printf("%-16s %-14s %-16s %10s %10s %9s %9s %6s\n", "layer", "type", "implementation", "forward ms",
           "backward ms", "GFLOP/s", "of peak", "share");
    for (int i = 0; i < t->n; i++) {
        const mu_layer_time *l = &t->layer[i];
        double s = l->forward_s + l->backward_s, g = rate(l->forward_flops + l->backward_flops, s);
        printf("%-16s %-14s %-16s %10.4f %10.4f", l->name, l->type, l->op, 1e3 * l->forward_s,
               1e3 * l->backward_s);
        if (g > 0) printf(" %9.1f %8.0f%%", g, 100 * g / t->peak_gflops);
        else printf(" %9s %9s", "-", "-");
        printf(" %5.1f%%\n", 100 * s / t->step_s);
    }
    printf("%-16s %-14s %-16s %10s %10.4f %9s %9s %5.1f%%\n", "update", "", "", "", 1e3 * t->update_s, "-",
           "-", 100 * t->update_s / t->step_s);
    printf("step %.4f ms (%.4f to %.4f), %.0f samples/s, %.1f GFLOP/s of %.1f peak\n", 1e3 * t->step_s,
           1e3 * t->step_min_s, 1e3 * t->step_max_s, t->samples_per_s, rate(t->flops, t->step_s),
           t->peak_gflops);
    printf("floor %.4f ms by arithmetic, %.4f ms by bytes of weights: %.0f%% of the floor reached\n",
           1e3 * t->floor_flops_s, 1e3 * t->floor_bytes_s, 100 * t->share_of_floor);
    printf("%zu parameters, activations %.2f MB (%.2f MB without reuse)\n", t->param_count,
           (double)t->activation_bytes * 1e-6, (double)t->unplanned_bytes * 1e-6);
}

static void print_json(const mu_timing *t, int64_t batch) {
    json_t *layers = json_array();
    for (int i = 0; i < t->n; i++) {
        const mu_layer_time *l = &t->layer[i];
        json_array_append_new(
            layers, json_pack("{s:s s:s s:s s:f s:f s:f s:f s:f}", "name", l->name, "type", l->type, "op",
                              l->op, "forward_ms", 1e3 * l->forward_s, "backward_ms", 1e3 * l->backward_s,
                              "forward_flops", l->forward_flops, "backward_flops", l->backward_flops,
                              "bytes", l->bytes));
    }
    mu_cli_print_json(json_pack(
        "{s:I s:f s:f s:f s:f s:f s:f s:f s:f s:f s:f s:o}", "batch", (json_int_t)batch, "step_ms",
        1e3 * t->step_s, "update_ms", 1e3 * t->update_s, "step_min_ms", 1e3 * t->step_min_s, "step_max_ms",
        1e3 * t->step_max_s, "samples_per_s", t->samples_per_s, "gflops", rate(t->flops, t->step_s),
        "peak_gflops", t->peak_gflops, "floor_flops_ms", 1e3 * t->floor_flops_s, "floor_bytes_ms",
        1e3 * t->floor_bytes_s, "share_of_floor", t->share_of_floor, "layers", layers));
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    struct timing *v = values;
    mu_job *job = NULL;
    mu_session *s = NULL;
    mu_timing t;
    mu_session_opts o = {.phases = MU_TRAIN};
    mu_status st = mu_cli_open(a, a->word[0], &o, &job, &s, err);
    if (st == MU_OK) st = mu_timing_run(s, mu_args_given(a, "seconds") ? v->seconds : 3, &t, err);
    if (st == MU_OK && a->json) print_json(&t, s->setup.rows);
    else if (st == MU_OK) print_table(&t);
    mu_cli_close(job, s, err);
    return st;
}

const mu_verb_class mu_verb_time = {
    .name = "time",
    .help = "time each layer forward and backward",
    .state_size = sizeof(struct timing),
    .usage = "JOB [options]",
    .example = "muster time lenet.yaml\nmuster time lenet.yaml --batch-size 1",
    .about = "Whole training steps on one resident batch, then layer by layer. The floor of a step is the "
             "larger of its arithmetic at the measured peak of a core and of the bytes of weights it has to "
             "move.",
    .args = {.options = options, MU_ARGS_ONE_WORD("a job file")},
    .run = run,
};
