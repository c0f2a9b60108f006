// SPDX-License-Identifier: Apache-2.0
// timing.c - measures whole steps and single layers of a training net, and the floor to compare with.
//
// Steps are timed first, as training runs them; then layers, one clock reading before and after each pass, so
// their sum is a little more than a step of a small net. The floor is measured on the same core: its peak
// rate, and the time to stream as many weights as a step has to touch.
#include "train/timing.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define WINDOWS 7

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static mu_status time_steps(mu_worker *w, double seconds, mu_timing *out, mu_err *err) {
    double start = mu_clock_s();
    for (int i = 0; i < 3 || mu_clock_s() - start < 0.1 * seconds; i++)
        MU_TRY(mu_worker_step(w, err)); // warm up
    double window[WINDOWS], each = 0.6 * seconds / WINDOWS;
    for (int k = 0; k < WINDOWS; k++) {
        double t0 = mu_clock_s(), t;
        int64_t n = 0;
        do {
            MU_TRY(mu_worker_step(w, err));
            n++;
        } while ((t = mu_clock_s() - t0) < each);
        window[k] = t / (double)n;
        out->steps += n;
    }
    qsort(window, WINDOWS, sizeof *window, by_value);
    out->step_min_s = window[0];
    out->step_s = window[WINDOWS / 2];
    out->step_max_s = window[WINDOWS - 1];
    return MU_OK;
}

static mu_status time_pass(mu_layer *l, mu_pass pass, const mu_step *s, double *sum_s, mu_err *err) {
    double t0 = mu_clock_s();
    MU_TRY(mu_net_pass(l, pass, s, err));
    *sum_s += mu_clock_s() - t0;
    return MU_OK;
}

static mu_status time_layers(mu_worker *w, double seconds, mu_timing *out, mu_err *err) {
    mu_net *net = w->net;
    mu_step s = {.phase = MU_TRAIN, .step = w->at.step, .rows = w->fixed->n, .global_rows = w->fixed->n,
                 .sink = w->fused ? &w->sink : NULL};
    int64_t rounds = 0;
    double start = mu_clock_s();
    mu_net_set_input(net, w->fixed->field, mu_source_n_fields(w->session->train.source));
    do {
        w->loss_known = w->bad = false;
        for (int i = 1; i < net->n_layers; i++)
            MU_TRY(time_pass(net->layer[i], MU_PASS_FORWARD, &s, &out->layer[i - 1].forward_s, err));
        mu_net_begin_grads(net, &s);
        for (int i = net->n_layers - 1; i > 0; i--)
            MU_TRY(time_pass(net->layer[i], MU_PASS_BACK, &s, &out->layer[i - 1].backward_s, err));
        rounds++;
    } while (rounds < 3 || mu_clock_s() - start < 0.3 * seconds);
    out->update_s = out->step_s;
    for (int i = 0; i < out->n; i++) {
        out->layer[i].forward_s /= (double)rounds;
        out->layer[i].backward_s /= (double)rounds;
        out->update_s -= out->layer[i].forward_s + out->layer[i].backward_s;
    }
    if (out->update_s < 0) out->update_s = 0;
    return MU_OK;
}

enum { LANES = 32 };

static float read_once(const float *w, size_t n) {
    float sum[LANES] = {0}, all = 0;
    for (size_t i = 0; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) sum[k] += w[i + k];
    for (size_t k = 0; k < LANES; k++) all += sum[k];
    return all;
}

static void update_once(float *restrict w, float *restrict v, size_t n, float g) {
    for (size_t i = 0; i < n; i++) {
        v[i] = 0.9f * v[i] - g;
        w[i] += v[i];
    }
}

// Seconds to read `n` weights once, then to read and write weights and one history block, on this core.
static double time_bytes(size_t n) {
    float *w = mu_alloc_block(n * sizeof *w + 64, "timing"),
          *v = mu_alloc_block(n * sizeof *v + 1024, "timing");
    double best = 0;
    for (int round = 0; w && v && round < 9; round++) {
        double t0 = mu_clock_s();
        float sum = read_once(w, n);
        update_once(w, v + 5 * 16, n, sum * 1e-30f + 1e-9f); // as apart as the parameter blocks are
        double t = mu_clock_s() - t0;
        if (round && (best <= 0 || t < best)) best = t;
    }
    mu_free(w);
    mu_free(v);
    return best;
}

// Parameters that a step must read and write: of an embedding the rows that its batch may name.
static size_t touched(const mu_params *ps) {
    size_t n = 0;
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        const size_t rows = (size_t)mu_param_rows(p), most = (size_t)p->max_rows;
        n += p->max_rows > 0 && most < rows ? p->count / rows * most : p->count;
    }
    return n;
}

static void describe(const mu_net *net, mu_timing *out) {
    for (int i = 1; i < net->n_layers; i++) {
        mu_layer *l = net->layer[i];
        const mu_cost c = mu_layer_cost(l);
        out->layer[i - 1] = (mu_layer_time){.name = l->name,
                                            .type = l->class->name,
                                            .op = l->op ? l->op->class->name : "",
                                            .forward_flops = c.flops_forward,
                                            .bytes = c.bytes,
                                            .backward_flops =
                                                mu_layer_runs_in_backward(l) ? c.flops_backward : 0};
        out->flops += out->layer[i - 1].forward_flops + out->layer[i - 1].backward_flops;
    }
}

// One row for all copies of an unrolled layer.
static void fold_copies(const mu_net *net, mu_timing *out) {
    int n = 0;
    for (int i = 1; i < net->n_layers; i++) {
        const mu_layer *l = net->layer[i], *family = mu_net_family(l);
        mu_layer_time *from = &out->layer[i - 1], *to = &out->layer[family->at - 1];
        if (l == family) {
            if (l->n_copies) from->name = l->origin;
            continue;
        }
        to->forward_s += from->forward_s;
        to->backward_s += from->backward_s;
        to->forward_flops += from->forward_flops;
        to->backward_flops += from->backward_flops;
        to->bytes += from->bytes;
    }
    for (int i = 1; i < net->n_layers; i++)
        if (mu_net_family(net->layer[i]) == net->layer[i]) out->layer[n++] = out->layer[i - 1];
    out->n = n;
}

static mu_status begin(mu_session *s, mu_worker *w, mu_timing *out, mu_err *err) {
    mu_worker_init(w, s);
    memset(out, 0, sizeof *out);
    out->n = w->net->n_layers - 1;
    out->layer = mu_arena_array(&s->job->arena, (size_t)out->n, sizeof *out->layer);
    if (!out->layer) return MU_FAIL_NOMEM(err, "the timing table");
    describe(w->net, out);
    out->flops *= (double)s->job->train.accumulate;
    out->activation_bytes = w->net->activation_bytes;
    out->unplanned_bytes = w->net->unplanned_bytes;
    return mu_source_next(s->train.source, &w->fixed, err);
}

mu_status mu_timing_layers(mu_session *s, double seconds, mu_timing *out, mu_err *err) {
    mu_worker w;
    MU_TRY(begin(s, &w, out, err));
    w.fused = false;
    MU_TRY(time_layers(&w, seconds / 0.3, out, err));
    fold_copies(w.net, out);
    return MU_OK;
}

mu_status mu_timing_run(mu_session *s, double seconds, mu_timing *out, mu_err *err) {
    mu_worker w;
    MU_TRY(begin(s, &w, out, err));
    MU_TRY(time_steps(&w, seconds, out, err));
    MU_TRY(time_layers(&w, seconds, out, err));
    fold_copies(w.net, out);
    out->peak_gflops = mu_device_cpu_peak_gflops();
    out->floor_flops_s = out->flops / (out->peak_gflops * 1e9);
    out->param_count = (size_t)mu_params_n_trained(s->params);
    out->floor_bytes_s = time_bytes(touched(s->params));
    double floor = out->floor_flops_s > out->floor_bytes_s ? out->floor_flops_s : out->floor_bytes_s;
    out->samples_per_s = (double)(s->setup.rows * s->job->train.accumulate) / out->step_s;
    out->share_of_floor = floor / out->step_s;
    return MU_OK;
}
