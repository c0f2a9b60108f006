// SPDX-License-Identifier: Apache-2.0
// conform_op.c - every op implementation against the reference of its primitive, found in the registry.
//
// For each case and implementation that accepts it: forward and backward with the same random inputs,
// parameter gradients written and added, dsrc wanted or not, in place where the contract allows it, rows
// handed over or factors left (inner product), states and their gradients from and to elsewhere (recurrent
// cells). Outputs and scratch start as NaN, so that reading or
// forgetting an element shows; guards behind every buffer catch writing too far; forward and backward
// must not allocate; create must survive every failing allocation.
#include "base/alloc.h"
#include "conform/op_cases.h"
#include "ops/rnn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED 20240611u
#define GUARD 16
#define GUARD_VALUE 12345.0f
#define MAX_ROWS 64             // of a recurrent case
#define PROBE 0x1p-14           // see `tolerance` below

typedef struct sizes { int64_t src, dst, weight, bias; } sizes;

typedef struct variant {
    bool accumulate, no_dsrc, in_place, hand_rows, factors, states;
    const char *name;
} variant;

typedef struct buffers {        // all of one run; grads by name as in mu_op_args
    float *src, *dst, *ddst, *dsrc, *weight, *bias, *dweight, *dbias, *run_mean, *run_var;
    float *weight_h, *bias_h, *dweight_h, *dbias_h;     // rnn, as all below
    float *states[4], *row[4][MAX_ROWS];                // begin, end, dend, dbegin; every third row has none
    int32_t *words;
    void *keep, *scratch;
    mu_op *op;
    sizes n;
    int64_t rows_seen;
    float *other_dst;           // a probe: what backward gets for dst; else NULL
    uint64_t probe;
} buffers;

// ---- sizes ----

static sizes sizes_of(const mu_op_desc *d) {
    switch (d->prim) {
    case MU_PRIM_CONV: {
        const mu_conv_desc *c = &d->conv;
        return (sizes){c->n * c->h * c->w * c->c, c->n * c->oh * c->ow * c->o,
                       c->o * c->c / c->groups * c->kh * c->kw, c->bias ? c->o : 0};
    }
    case MU_PRIM_POOL: {
        const mu_pool_desc *p = &d->pool;
        return (sizes){p->n * p->h * p->w * p->c, p->n * p->oh * p->ow * p->c, 0, 0};
    }
    case MU_PRIM_LRN: {
        int64_t n = d->lrn.n * d->lrn.h * d->lrn.w * d->lrn.c;
        return (sizes){n, n, 0, 0};
    }
    case MU_PRIM_NORM: {
        int64_t n = d->norm.rows * d->norm.c, p = d->norm.affine ? d->norm.c : 0;
        return (sizes){n, n, p, p};
    }
    case MU_PRIM_INNER:
        return (sizes){d->inner.n * d->inner.i, d->inner.n * d->inner.o, d->inner.o * d->inner.i,
                       d->inner.bias ? d->inner.o : 0};
    case MU_PRIM_ACTIVATION: return (sizes){d->act.count, d->act.count, 0, 0};
    case MU_PRIM_SOFTMAX: return (sizes){d->softmax.n * d->softmax.c, d->softmax.n * d->softmax.c, 0, 0};
    case MU_PRIM_DROPOUT:
        return (sizes){d->dropout.n * d->dropout.per_sample, d->dropout.n * d->dropout.per_sample, 0, 0};
    case MU_PRIM_RNN: {
        const mu_rnn_desc *r = &d->rnn;
        const int64_t gates = mu_rnn_gates(r->cell);
        return (sizes){r->n * r->t * (r->one_hot ? 1 : r->i), r->n * r->t * r->h, gates * r->h * r->i,
                       r->bias ? gates * r->h : 0};
    }
    case MU_PRIM_TEXT: {
        const mu_text_desc *t = &d->text;
        return (sizes){t->n * t->t * t->d, t->n * t->n_widths * t->o, t->sum_widths * t->o * t->d,
                       t->bias ? t->n_widths * t->o : 0};
    }
    }
    return (sizes){0};
}

// ---- buffers ----

static float *guarded(int64_t n) {
    float *p = mu_alloc_array((size_t)n + GUARD, sizeof *p, "test");
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) p[i] = NAN;
    for (int64_t i = n; i < n + GUARD; i++) p[i] = GUARD_VALUE;
    return p;
}

static void check_guard(const float *p, int64_t n, const char *what, const char *who) {
    for (int64_t i = n; p && i < n + GUARD; i++)
        if (p[i] != GUARD_VALUE) fail_msg("%s: wrote %g behind the end of %s", who, (double)p[i], what);
}

// Values in [-2, 2), coarse for pooling so that equal maxima are frequent.
static float *random_values(int64_t n, const char *purpose, bool coarse) {
    float *p = guarded(n);
    mu_rng_fill_uniform(mu_rng_key_make(SEED, purpose), 0, 0, p, (size_t)n);
    for (int64_t i = 0; i < n; i++) p[i] = coarse ? floorf(p[i] * 6) - 3 : 4 * p[i] - 2;
    return p;
}

// Weights of a size that keeps the gates where their slopes are.
static float *scaled_values(int64_t n, const char *purpose, int64_t fan_in) {
    float *p = random_values(n, purpose, false);
    for (int64_t i = 0; i < n; i++) p[i] /= sqrtf((float)fan_in);
    return p;
}

static void set_up_rnn(buffers *b, const mu_rnn_desc *d, bool states) {
    const int64_t rows = mu_rnn_gates(d->cell) * d->h, state = mu_rnn_state(d->cell, d->h);
    static const char *const purpose[] = {"begin", "end", "dend", "dbegin"};
    for (int64_t i = 0; i < b->n.weight; i++) b->weight[i] /= sqrtf((float)(d->one_hot ? 1 : d->i));
    b->weight_h = scaled_values(rows * d->h, "weight_h", d->h);
    b->dweight_h = random_values(rows * d->h, "old_h", false);
    if (d->bias) {
        b->bias_h = random_values(rows, "bias_h", false);
        b->dbias_h = random_values(rows, "old_h", false);
    }
    for (int k = 0; states && k < 4; k++) {
        b->states[k] = k % 2 ? guarded(d->n * state) : random_values(d->n * state, purpose[k], false);
        for (int64_t r = 0; r < d->n; r++)
            b->row[k][r] = (r + k) % 3 == 2 ? NULL : b->states[k] + r * state;
    }
    if (!d->one_hot) return;
    b->words = mu_alloc_array((size_t)(d->n * d->t), sizeof *b->words, "test");
    assert_non_null(b->words);
    for (int64_t i = 0; i < d->n * d->t; i++) b->words[i] = (int32_t)((i * 7919 + i / 3) % d->i);
}

static void tear_down_rnn(buffers *b, const mu_rnn_desc *d, const char *who) {
    const int64_t rows = mu_rnn_gates(d->cell) * d->h, state = d->n * mu_rnn_state(d->cell, d->h);
    check_guard(b->dweight_h, rows * d->h, "dweight_h", who);
    check_guard(b->dbias_h, rows, "dbias_h", who);
    check_guard(b->states[1], state, "end", who);
    check_guard(b->states[3], state, "dbegin", who);
    float *all[] = {b->weight_h,  b->bias_h,    b->dweight_h, b->dbias_h,
                    b->states[0], b->states[1], b->states[2], b->states[3]};
    for (size_t i = 0; i < MU_COUNT(all); i++) mu_free(all[i]);
    mu_free(b->words);
}

// Sentences of any length: words behind the end are zeros, and some of the gradients are 0.
static void end_sentences(buffers *b, const mu_text_desc *d) {
    const int64_t size = d->t * d->d;
    for (int64_t n = 0; n < d->n; n++)
        for (int64_t i = (n * 7 + 5) % (d->t + 1) * d->d; i < size; i++) b->src[n * size + i] = 0;
    for (int64_t i = 0; i < b->n.dst; i += 3) b->ddst[i] = 0;
}

static void set_up(buffers *b, const mu_op_class *c, const mu_op_desc *d, bool states) {
    memset(b, 0, sizeof *b);
    mu_err err;
    mu_err_clear(&err);
    if (mu_op_create_class(c, d, &b->op, &err) != MU_OK) fail_msg("%s: %s", c->name, err.msg);
    b->n = sizes_of(d);
    b->src = random_values(b->n.src, "src", d->prim == MU_PRIM_POOL);
    b->ddst = random_values(b->n.dst, "ddst", false);
    if (d->prim == MU_PRIM_TEXT) end_sentences(b, &d->text);
    b->dst = guarded(b->n.dst);
    b->dsrc = guarded(b->n.src);
    if (b->n.weight) {
        b->weight = random_values(b->n.weight, "weight", false);
        b->dweight = random_values(b->n.weight, "old", false);
    }
    if (b->n.bias) {
        b->bias = random_values(b->n.bias, "bias", false);
        b->dbias = random_values(b->n.bias, "old", false);
    }
    if (d->prim == MU_PRIM_NORM) {
        b->run_mean = random_values(d->norm.c, "mean", false);
        b->run_var = random_values(d->norm.c, "var", false);
        for (int64_t i = 0; i < d->norm.c; i++) b->run_var[i] = fabsf(b->run_var[i]) + 0.1f;
    }
    if (d->prim == MU_PRIM_RNN) set_up_rnn(b, &d->rnn, states);
    b->keep = guarded((int64_t)(b->op->keep_bytes + 3) / 4);
    b->scratch = guarded((int64_t)(b->op->scratch_bytes + 3) / 4);
}

static void tear_down(buffers *b, const char *who) {
    check_guard(b->dst, b->n.dst, "dst", who);
    check_guard(b->dsrc, b->n.src, "dsrc", who);
    check_guard(b->dweight, b->n.weight, "dweight", who);
    check_guard(b->dbias, b->n.bias, "dbias", who);
    check_guard(b->keep, (int64_t)(b->op->keep_bytes + 3) / 4, "keep", who);
    check_guard(b->scratch, (int64_t)(b->op->scratch_bytes + 3) / 4, "scratch", who);
    float *all[] = {b->src,   b->dst,      b->ddst,    b->dsrc, b->weight, b->bias, b->dweight,
                    b->dbias, b->run_mean, b->run_var, b->keep, b->scratch};
    for (size_t i = 0; i < MU_COUNT(all); i++) mu_free(all[i]);
    if (b->op->desc.prim == MU_PRIM_RNN) tear_down_rnn(b, &b->op->desc.rnn, who);
    mu_op_destroy(b->op);
}

// Of a weight that is handed over in rows.
static int64_t row_length(const mu_op_desc *d) {
    if (d->prim == MU_PRIM_TEXT) return d->text.d;
    return d->inner.transposed ? d->inner.o : d->inner.i;
}

// A receiver of gradient rows that, like a fused update, spoils the weights it was given the rows of.
static void take_rows(void *ctx, int64_t row0, int64_t n_rows, const float *grad) {
    buffers *b = ctx;
    int64_t width = row_length(&b->op->desc);
    assert_int_equal(row0, b->rows_seen);
    b->rows_seen += n_rows;
    memcpy(b->dweight + row0 * width, grad, (size_t)(n_rows * width) * sizeof(float));
    for (int64_t i = row0 * width; i < b->rows_seen * width; i++) b->weight[i] = NAN;
}

static void disturb(float *p, int64_t n, const char *purpose, uint64_t probe) {
    float u[64];
    const mu_rng_key key = mu_rng_key_make(SEED, purpose);
    for (int64_t i = 0; p && i < n; i++) {
        if (i % 64 == 0) mu_rng_fill_uniform(key, probe, (uint64_t)i, u, 64);
        p[i] = (float)((double)p[i] * (1 + PROBE * (2 * (double)u[i % 64] - 1) * sqrt(3)));
    }
}

static void run(buffers *b, const variant *v, const char *who) {
    mu_op_args a = {
        .src = b->src, .dst = v->in_place ? b->src : b->dst, .ddst = b->ddst,
        .dsrc = v->no_dsrc ? NULL : v->in_place ? b->ddst : b->dsrc,
        .weight = b->weight, .bias = b->bias, .dweight = b->dweight, .dbias = b->dbias,
        .accumulate = v->accumulate, .run_mean = b->run_mean, .run_var = b->run_var,
        .keep = b->keep, .scratch = b->scratch,
        .key = mu_rng_key_make(SEED, "dropout"), .step = 3, .first_sample = 1000, .skip_dweight = v->factors,
    };
    if (v->hand_rows) a.rows_ready = take_rows, a.rows_ctx = b;
    if (b->op->desc.prim == MU_PRIM_RNN) {
        a.words = b->words;
        a.weight_h = b->weight_h, a.bias_h = b->bias_h, a.dweight_h = b->dweight_h, a.dbias_h = b->dbias_h;
        if (v->states) {
            a.begin = (const float *const *)b->row[0], a.end = b->row[1];
            a.dend = (const float *const *)b->row[2], a.dbegin = b->row[3];
        }
    }
    mu_err err;
    mu_err_clear(&err);
    uint64_t calls = mu_alloc_get_stats().n_calls;
    if (mu_op_forward(b->op, &a, &err) != MU_OK) fail_msg("%s: forward: %s", who, err.msg);
    memset(b->scratch, 0xff, b->op->scratch_bytes); // other layers use it between the two
    if (b->other_dst) {
        memcpy(b->other_dst, a.dst, (size_t)b->n.dst * sizeof(float));
        disturb(b->other_dst, b->n.dst, "dst", b->probe);
        a.dst = b->other_dst;
        if (b->op->desc.prim == MU_PRIM_RNN) // the reference keeps floats
            disturb(b->keep, (int64_t)b->op->keep_bytes / 4, "keep", b->probe);
    }
    if (mu_op_backward(b->op, &a, &err) != MU_OK) fail_msg("%s: backward: %s", who, err.msg);
    assert_int_equal(mu_alloc_get_stats().n_calls, calls);
}

// ---- tolerance ----
//
// How far an implementation may be off follows from the arithmetic. It adds the n terms of a result in an
// order of its own and rounds after each: less than n * UNIT times the size of the terms, UNIT = 2^-24. The
// size is asked of the reference: with every input (also what backward reads of forward) changed by a random
// share, PROBE in the mean square, a result moves by PROBE times the root of the sum of the squares of its
// terms, whatever the formula, also through time. Functions such as exp may be off by FUNCTION units of the
// largest result besides.

#define UNIT 0x1p-24
#define PROBES 8
#define FUNCTION 8
#define MAX_OUTPUTS 12

typedef struct output { const char *name; const float *value; int64_t n; double terms; } output;

typedef struct sums { int64_t dst, dsrc, params; } sums;        // terms of an element, at most

static int64_t largest(int64_t a, int64_t b) { return a > b ? a : b; }

static sums sums_of(const mu_op_desc *d) {
    switch (d->prim) {
    case MU_PRIM_CONV: {
        const mu_conv_desc *c = &d->conv;
        const int64_t window = c->kh * c->kw;
        return (sums){c->c / c->groups * window + 1, c->o / c->groups * window, c->n * c->oh * c->ow + 1};
    }
    case MU_PRIM_POOL: return (sums){d->pool.kh * d->pool.kw, d->pool.kh * d->pool.kw, 1};
    case MU_PRIM_LRN: {
        const int64_t window = (d->lrn.within ? d->lrn.size : 1) * d->lrn.size + 1;
        return (sums){window, window, 1};
    }
    case MU_PRIM_NORM: return (sums){d->norm.rows, d->norm.rows, d->norm.rows + 1};
    case MU_PRIM_INNER: return (sums){d->inner.i + 1, d->inner.o, d->inner.n + 1};
    case MU_PRIM_SOFTMAX: return (sums){d->softmax.c, d->softmax.c, 1};
    case MU_PRIM_RNN: {
        const mu_rnn_desc *r = &d->rnn; // gradients are made of sums made forward, and the other way round
        const int64_t forward = r->i + r->h + r->t + 2, all = largest(forward, mu_rnn_gates(r->cell) * r->h);
        return (sums){forward, all, largest(all, r->n * r->t + 1)};
    }
    case MU_PRIM_TEXT: {
        const mu_text_desc *t = &d->text;
        int64_t widest = 1;
        for (int i = 0; i < t->n_widths; i++) widest = largest(widest, t->width[i]);
        return (sums){widest * t->d + 1, t->sum_widths * t->o, t->n + 1};
    }
    case MU_PRIM_ACTIVATION:
    case MU_PRIM_DROPOUT: break;
    }
    return (sums){1, 1, 1};
}

// What a run wrote, in an order that is the same for every implementation.
static size_t outputs_of(const buffers *b, const mu_op_desc *d, const variant *v, output out[MAX_OUTPUTS]) {
    const double dst = (double)sums_of(d).dst, dsrc = (double)sums_of(d).dsrc,
                 params = (double)sums_of(d).params;
    const int64_t channels = d->prim == MU_PRIM_NORM ? d->norm.c : 0;
    size_t n = 0;
    out[n++] = (output){"dst", v->in_place ? b->src : b->dst, b->n.dst, dst};
    if (!v->no_dsrc) out[n++] = (output){"dsrc", v->in_place ? b->ddst : b->dsrc, b->n.src, dsrc};
    out[n++] = (output){"dweight", b->dweight, b->n.weight, params};
    out[n++] = (output){"dbias", b->dbias, b->n.bias, params};
    out[n++] = (output){"run_mean", b->run_mean, channels, params};
    out[n++] = (output){"run_var", b->run_var, channels, params};
    if (d->prim != MU_PRIM_RNN) return n;
    const int64_t rows = mu_rnn_gates(d->rnn.cell) * d->rnn.h, state = mu_rnn_state(d->rnn.cell, d->rnn.h);
    out[n++] = (output){"dweight_h", b->dweight_h, rows * d->rnn.h, params};
    out[n++] = (output){"dbias_h", b->dbias_h, d->rnn.bias ? rows : 0, params};
    out[n++] = (output){"end", b->states[1], b->states[1] ? d->rnn.n * state : 0, dst};
    out[n++] = (output){"dbegin", b->states[3], b->states[3] ? d->rnn.n * state : 0, dsrc};
    return n;
}

static void disturb_inputs(buffers *b, const mu_op_desc *d, uint64_t probe) {
    const int64_t channels = d->prim == MU_PRIM_NORM ? d->norm.c : 0;
    disturb(b->src, b->n.src, "src", probe);
    disturb(b->ddst, b->n.dst, "ddst", probe);
    disturb(b->weight, b->n.weight, "weight", probe);
    disturb(b->bias, b->n.bias, "bias", probe);
    disturb(b->dweight, b->n.weight, "dweight", probe);
    disturb(b->dbias, b->n.bias, "dbias", probe);
    disturb(b->run_mean, channels, "run_mean", probe);
    disturb(b->run_var, channels, "run_var", probe);
    if (d->prim != MU_PRIM_RNN) return;
    const int64_t rows = mu_rnn_gates(d->rnn.cell) * d->rnn.h;
    const int64_t state = d->rnn.n * mu_rnn_state(d->rnn.cell, d->rnn.h);
    disturb(b->weight_h, rows * d->rnn.h, "weight_h", probe);
    disturb(b->bias_h, rows, "bias_h", probe);
    disturb(b->dweight_h, rows * d->rnn.h, "dweight_h", probe);
    disturb(b->dbias_h, rows, "dbias_h", probe);
    disturb(b->states[0], state, "begin", probe);
    disturb(b->states[2], state, "dend", probe);
}

// The tolerances of c for all outputs of the reference's run y, one after the other. It has to repeat itself.
static double *tolerances(const mu_op_class *c, const mu_op_desc *d, const variant *v, const buffers *y) {
    output want[MAX_OUTPUTS], moved[MAX_OUTPUTS];
    const size_t n = outputs_of(y, d, v, want);
    size_t count = 0, at;
    for (size_t k = 0; k < n; k++) count += (size_t)want[k].n;
    double *t = mu_alloc_array(count, sizeof *t, "test");
    assert_non_null(t);
    for (uint64_t probe = 0; y->op->class != c && probe < PROBES; probe++) {
        buffers z;
        set_up(&z, y->op->class, d, v->states);
        z.other_dst = guarded(z.n.dst);
        z.probe = probe;
        disturb_inputs(&z, d, probe);
        run(&z, v, "probe");
        (void)outputs_of(&z, d, v, moved);
        at = 0;
        for (size_t k = 0; k < n; k++)
            for (int64_t i = 0; i < want[k].n; i++)
                t[at++] += pow((double)moved[k].value[i] - (double)want[k].value[i], 2) / PROBES;
        mu_free(z.other_dst);
        tear_down(&z, "probe");
    }
    at = 0;
    for (size_t k = 0; y->op->class != c && k < n; k++) {
        double scale = 0;
        for (int64_t i = 0; i < want[k].n; i++) scale = fmax(scale, fabs((double)want[k].value[i]));
        for (int64_t i = 0; i < want[k].n; i++, at++)
            t[at] = UNIT * (2 * (want[k].terms + FUNCTION) * sqrt(t[at]) / PROBE + FUNCTION * scale);
    }
    return t;
}

// ---- comparison ----

static void compare(const char *who, const output *got, const output *want, const double *tolerance) {
    const bool gaps = !strcmp(want->name, "end") || !strcmp(want->name, "dbegin"); // rows that nobody wants
    for (int64_t i = 0; i < want->n; i++) {
        const double x = (double)got->value[i], y = (double)want->value[i], diff = fabs(x - y);
        if (gaps && isnan(y) && isnan(x)) continue;
        if (isnan(y)) fail_msg("%s: %s[%ld] of the reference is NaN", who, want->name, (long)i);
        if (!(diff <= tolerance[i]))
            fail_msg("%s: %s[%ld of %ld] is %.9g, reference %.9g, difference %.2g, tolerance %.2g (seed %u)",
                     who, want->name, (long)i, (long)want->n, x, y, diff, tolerance[i], SEED);
    }
}

static const mu_op_class *reference_of(mu_prim prim) {
    for (size_t i = 0; i < mu_ops.n; i++) {
        const mu_op_class *c = mu_op_at(i);
        if (c->prim == prim && c->rank == 0) return c;
    }
    fail_msg("no reference for primitive %d", (int)prim);
    return NULL;
}

static void check_case(int index, const mu_op_class *c, const mu_op_class *ref, const mu_op_desc *d,
                       const variant *v) {
    char who[160];
    snprintf(who, sizeof who, "case %d (primitive %d), %s, %s", index, (int)d->prim, c->name, v->name);
    buffers x, y;
    set_up(&x, c, d, v->states);
    set_up(&y, ref, d, v->states);
    run(&x, v, who);
    variant plain = *v; // the reference runs out of place and takes its rows itself
    plain.in_place = plain.hand_rows = false;
    run(&y, &plain, who);
    double *tolerance = tolerances(c, d, &plain, &y), *t = tolerance;
    output got[MAX_OUTPUTS], want[MAX_OUTPUTS];
    const size_t n = outputs_of(&y, d, &plain, want);
    assert_int_equal(outputs_of(&x, d, v, got), n);
    for (size_t k = 0; k < n; t += want[k++].n) compare(who, &got[k], &want[k], t);
    mu_free(tolerance);
    if (v->hand_rows) assert_int_equal(x.rows_seen, x.n.weight / row_length(d));
    tear_down(&x, who);
    tear_down(&y, who);
}

static bool wants_dsrc(const mu_op_desc *d) {
    if (d->prim == MU_PRIM_CONV) return d->conv.need_dsrc;
    if (d->prim == MU_PRIM_TEXT) return d->text.need_dsrc;
    if (d->prim == MU_PRIM_RNN) return d->rnn.need_dsrc;
    return d->prim != MU_PRIM_INNER || d->inner.need_dsrc;
}

static bool applies(const mu_op_desc *d, const variant *v) {
    bool has_params = d->prim == MU_PRIM_CONV || d->prim == MU_PRIM_INNER || d->prim == MU_PRIM_NORM ||
                      d->prim == MU_PRIM_RNN || d->prim == MU_PRIM_TEXT;
    if (v->states && d->prim != MU_PRIM_RNN) return false;
    if (v->in_place) return d->prim == MU_PRIM_ACTIVATION || d->prim == MU_PRIM_DROPOUT;
    if (v->hand_rows && d->prim == MU_PRIM_TEXT) return v->no_dsrc == !wants_dsrc(d);
    if (v->hand_rows || v->factors) return d->prim == MU_PRIM_INNER && v->no_dsrc == !wants_dsrc(d);
    if (v->accumulate && !has_params) return false;
    return v->no_dsrc || wants_dsrc(d);
}

static const variant variants[] = {
    { .name = "plain" },
    { .name = "accumulate", .accumulate = true },
    { .name = "no dsrc", .no_dsrc = true },
    { .name = "accumulate, no dsrc", .accumulate = true, .no_dsrc = true },
    { .name = "in place", .in_place = true },
    { .name = "rows handed over", .hand_rows = true },
    { .name = "rows handed over, no dsrc", .hand_rows = true, .no_dsrc = true },
    { .name = "factors", .factors = true },
    { .name = "states", .states = true },
    { .name = "states, accumulate, no dsrc", .states = true, .accumulate = true, .no_dsrc = true },
};

// ---- tests ----

static void implementations_agree_with_the_reference(void **state) {
    (void)state;
    int n_checked = 0;
    for (size_t i = 0; i < mu_ops.n; i++) {
        const mu_op_class *c = mu_op_at(i);
        const mu_op_class *ref = reference_of(c->prim);
        int n_cases = 0;
        for (size_t k = 0; k < MU_COUNT(cases); k++) {
            mu_op_desc d = cases[k];
            finish_desc(&d);
            if (d.prim != c->prim || (c->accepts && !c->accepts(&d))) continue;
            mu_op *op;
            mu_err err;
            mu_err_clear(&err);
            mu_status s = mu_op_create_class(c, &d, &op, &err);
            if (s == MU_EUNSUPPORTED) continue; // a library may refuse only here
            if (s != MU_OK) fail_msg("%s: %s", c->name, err.msg);
            mu_op_destroy(op);
            for (size_t v = 0; v < MU_COUNT(variants); v++)
                if (applies(&d, &variants[v])) check_case((int)k, c, ref, &d, &variants[v]);
            n_cases++;
        }
        print_message("  %-16s rank %-3d %d cases\n", c->name, c->rank, n_cases);
        if (!n_cases) fail_msg("%s accepts none of the cases", c->name);
        n_checked += n_cases;
    }
    assert_true(n_checked > 0);
}

static void create_survives_failing_allocations(void **state) {
    (void)state;
    for (size_t k = 0; k < MU_COUNT(cases); k++)
        for (size_t i = 0; i < mu_ops.n; i++) {
            const mu_op_class *c = mu_op_at(i);
            mu_op_desc d = cases[k];
            finish_desc(&d);
            if (d.prim != c->prim || (c->accepts && !c->accepts(&d))) continue;
            uint64_t live = mu_alloc_get_stats().n_live;
            mu_status s = MU_ENOMEM;
            for (int64_t n = 1; s == MU_ENOMEM; n++) {
                mu_op *op = NULL;
                mu_err err;
                mu_err_clear(&err);
                mu_alloc_fail_at(n);
                s = mu_op_create_class(c, &d, &op, &err);
                mu_alloc_fail_at(0);
                if (s == MU_OK) mu_op_destroy(op);
                else assert_true(op == NULL && err.status == s);
                assert_int_equal(mu_alloc_get_stats().n_live, live);
                assert_true(n < 1000);
            }
            if (s != MU_OK && s != MU_EUNSUPPORTED) fail_msg("%s: status %s", c->name, mu_status_name(s));
        }
}

static void every_class_is_complete(void **state) {
    (void)state;
    for (size_t i = 0; i < mu_ops.n; i++) {
        const mu_op_class *c = mu_op_at(i);
        assert_true(c->name && *c->name && c->help && *c->help && strchr(c->name, '_'));
        assert_true(c->forward && c->backward);
        assert_null(c->fields);
        if (strstr(c->name, "_ref")) assert_true(c->rank == 0 && !c->accepts);
        else assert_true(c->rank > 0);
    }
}

static void environment_restricts_the_choice(void **state) {
    (void)state;
    mu_op_desc d = { .prim = MU_PRIM_ACTIVATION, .act = { .count = 8, .kind = MU_ACT_RELU } };
    mu_op *op = NULL;
    mu_err err;
    const char *const rows[][2] = {
        {"ref", "activation_ref"}, {"onednn,vec,ref", "activation_vec"}, {"", "activation_vec"},
    };
    for (size_t i = 0; i < MU_COUNT(rows); i++) {
        mu_err_clear(&err);
        setenv("MUSTER_OPS", rows[i][0], 1);
        assert_int_equal(mu_op_create(&d, "relu1", &op, &err), MU_OK);
        assert_string_equal(op->class->name, rows[i][1]);
        mu_op_destroy(op);
    }
    mu_err_clear(&err);
    setenv("MUSTER_OPS", "nothing", 1);
    assert_int_equal(mu_op_create(&d, "relu1", &op, &err), MU_EUNSUPPORTED);
    assert_non_null(strstr(err.msg, "relu1"));
    assert_non_null(strstr(err.hint, "MUSTER_OPS"));
    unsetenv("MUSTER_OPS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_is_complete),
        cmocka_unit_test(environment_restricts_the_choice),
        cmocka_unit_test(implementations_agree_with_the_reference),
        cmocka_unit_test(create_survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
