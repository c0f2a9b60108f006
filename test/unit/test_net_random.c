// SPDX-License-Identifier: Apache-2.0
// test_net_random.c - random nets: reuse of memory must not change a single bit, and gradients must
// reach exactly the parameters that lead to a loss.
//
// Nets are drawn layer by layer: each takes blobs that fit from all made so far, so that branches,
// joins, chains that work in place, slices with unused parts, blobs taken twice by one layer, shared
// parameters, dangling ends and several losses all occur. Each net is built with and without reuse of
// activation memory; three steps each, the later ones on dirty memory, and a test-phase net on the
// parameters of the training net. The oracle for "leads to a loss" is the drawing itself.
//
// MUSTER_TEST_SEED and MUSTER_TEST_NETS choose other nets; a failure prints the seed and the net.
#include "net/net.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 3, MAX_BLOBS = 96, MAX_LAYERS = 64, TEXT = 16384 };

typedef struct blob { char name[24]; int c, hw, layer; } blob; // hw 0: a matrix (batch, c)

typedef struct drawing {
    uint64_t seed, drawn;
    int n_blobs, n_layers;
    blob blobs[MAX_BLOBS];
    struct { int src[4], n_src; bool loss, reaches; char name[16]; } layer[MAX_LAYERS];
    char text[TEXT];
    size_t used;
} drawing;

static uint32_t draw(drawing *d, uint32_t below) {
    uint32_t w[4];
    mu_rng_block((mu_rng_key){{(uint32_t)d->seed, (uint32_t)(d->seed >> 32)}}, 0, d->drawn++, w);
    return w[0] % below;
}

// ---- drawing ----

static void write_layer(drawing *d, const char *fmt, ...) MU_PRINTF(2, 3);
static void write_layer(drawing *d, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    d->used += (size_t)vsnprintf(d->text + d->used, TEXT - d->used, fmt, ap);
    va_end(ap);
    assert_true(d->used < TEXT);
}

// Begins a layer of `type` with these sources; returns its number. The caller adds more keys and "}\n".
static int begin(drawing *d, const char *type, const int *src, int n_src) {
    int at = d->n_layers++;
    snprintf(d->layer[at].name, sizeof d->layer[at].name, "n%d", at);
    d->layer[at].n_src = n_src;
    write_layer(d, "- {name: n%d, type: %s, src: [", at, type);
    for (int i = 0; i < n_src; i++) {
        d->layer[at].src[i] = d->blobs[src[i]].layer;
        write_layer(d, "%s%s", i ? ", " : "", d->blobs[src[i]].name);
    }
    write_layer(d, "]");
    return at;
}

static void output(drawing *d, int layer, int part, int c, int hw) {
    blob *b = &d->blobs[d->n_blobs++];
    assert_true(d->n_blobs < MAX_BLOBS);
    *b = (blob){.c = c, .hw = hw, .layer = layer};
    if (part < 0) snprintf(b->name, sizeof b->name, "n%d", layer);
    else snprintf(b->name, sizeof b->name, "n%d.%d", layer, part);
}

// Another blob of the same shape (`same_c`), or of the same height and width; may be `like` itself.
static int partner(drawing *d, int like, bool same_c) {
    for (int tries = 0; tries < 8; tries++) {
        int k = (int)draw(d, (uint32_t)d->n_blobs);
        const blob *a = &d->blobs[k], *b = &d->blobs[like];
        if (a->hw == b->hw && (!same_c || a->c == b->c)) return k;
    }
    return like;
}

static void draw_trained(drawing *d, int src) {
    static const int kernels[] = {1, 3};
    blob b = d->blobs[src];
    if (b.hw && draw(d, 2)) {
        int filters = 1 + (int)draw(d, 6), k = kernels[draw(d, 2)];
        int l = begin(d, "convolution", &src, 1);
        write_layer(d, ", filters: %d, kernel: %d, pad: %d", filters, k, k / 2);
        if (draw(d, 3) == 0) write_layer(d, ", weight: {name: conv-%d-%d-%d}", filters, b.c, k);
        write_layer(d, "}\n");
        output(d, l, -1, filters, b.hw);
    } else {
        int outputs = 4 + (int)draw(d, 3);
        int l = begin(d, "inner_product", &src, 1);
        write_layer(d, ", outputs: %d, bias_term: %s", outputs, draw(d, 4) ? "true" : "false");
        int values = b.c * (b.hw ? b.hw * b.hw : 1);
        if (draw(d, 3) == 0) write_layer(d, ", weight: {name: ip-%d-%d}", outputs, values);
        write_layer(d, "}\n");
        output(d, l, -1, outputs, 0);
    }
}

// Channels as words. Enough filters for their gradient to be left gathered.
static void draw_sentence(drawing *d, int src) {
    blob b = d->blobs[src];
    if (b.hw < 6 || b.c > 8) return;
    int l = begin(d, "reshape", &src, 1), words = d->n_blobs, filters = 10 * b.c + (int)draw(d, 20);
    write_layer(d, ", shape: [0, %d, %d]}\n", b.c, b.hw * b.hw);
    output(d, l, -1, 0, 0);
    l = begin(d, "sentence_convolution", &words, 1);
    d->n_blobs--; // nobody else takes the words
    write_layer(d, ", widths: [1], filters: %d}\n", filters);
    output(d, l, -1, filters, 0);
}

static void draw_pointwise(drawing *d, int src) {
    static const char *const types[] = {"relu", "relu", "tanh", "sigmoid", "dropout", "batch_norm"};
    blob b = d->blobs[src];
    int l = begin(d, types[draw(d, MU_COUNT(types))], &src, 1);
    write_layer(d, "}\n");
    output(d, l, -1, b.c, b.hw);
}

static void draw_window(drawing *d, int src) {
    blob b = d->blobs[src];
    if (!b.hw) {
        int l = begin(d, "softmax", &src, 1);
        write_layer(d, "}\n");
        output(d, l, -1, b.c, 0);
    } else if (b.hw >= 2 && draw(d, 3)) {
        int l = begin(d, "pooling", &src, 1);
        write_layer(d, ", kernel: 2, method: %s}\n", draw(d, 2) ? "max" : "average");
        output(d, l, -1, b.c, (b.hw + 1) / 2);
    } else {
        int l = begin(d, draw(d, 2) ? "lrn" : "flatten", &src, 1);
        write_layer(d, "}\n");
        bool flat = strstr(d->text + d->used - 40, "flatten") != NULL;
        output(d, l, -1, flat ? b.c * b.hw * b.hw : b.c, flat ? 0 : b.hw);
    }
}

static void draw_parts(drawing *d, int src) {
    blob b = d->blobs[src];
    bool cut = b.c % 2 == 0 && draw(d, 3);
    int n = cut ? 2 : 1 + (int)draw(d, 3);
    int l = begin(d, cut ? "slice" : "split", &src, 1);
    write_layer(d, ", outputs: %d}\n", n);
    for (int i = 0; i < n; i++) output(d, l, i, cut ? b.c / 2 : b.c, b.hw);
}

static void draw_join(drawing *d, int src) {
    bool add = draw(d, 2);
    int from[3] = {src, partner(d, src, add), partner(d, src, add)}, n = 2 + (int)draw(d, 2), c = 0;
    for (int i = 0; i < n; i++) c += d->blobs[from[i]].c;
    if (!add && c > 64) return;
    int l = begin(d, add ? "add" : "concat", from, n);
    if (add && draw(d, 2)) write_layer(d, ", coefficients: [%s]", n == 2 ? "1, -2" : "0.5, 1, -1");
    write_layer(d, "}\n");
    output(d, l, -1, add ? d->blobs[src].c : c, d->blobs[src].hw);
}

static void draw_end(drawing *d, int src) {
    bool scores = !d->blobs[src].hw && d->blobs[src].c >= 5;
    uint32_t which = draw(d, 3);
    if (scores && which < 2) { // a loss, or a judge that takes no gradient
        int l = begin(d, which ? "softmax_loss" : "accuracy", &src, 1);
        d->used--; // the label joins the list of sources
        write_layer(d, ", data.label]}\n");
        d->layer[l].loss = which;
        return;
    }
    int from[2] = {src, partner(d, src, true)};
    int l = begin(d, draw(d, 2) ? "euclidean_loss" : "sigmoid_loss", from, 2);
    write_layer(d, ", loss_weight: 0.3}\n");
    d->layer[l].loss = true;
}

static void draw_net(drawing *d, uint64_t seed) {
    static void (*const kinds[])(drawing *, int) = {draw_trained,   draw_trained, draw_pointwise,
                                                    draw_pointwise, draw_window,  draw_parts,
                                                    draw_join,      draw_join,    draw_sentence};
    memset(d, 0, sizeof *d);
    d->seed = seed;
    d->blobs[d->n_blobs++] = (blob){.name = "data.image", .c = 2, .hw = 8, .layer = -1};
    int n = 4 + (int)draw(d, 20);
    for (int i = 0; i < n; i++) { // recent blobs more often: long chains
        int back = (int)draw(d, draw(d, 2) ? 3 : (uint32_t)d->n_blobs);
        int src = d->n_blobs - 1 - (back < d->n_blobs ? back : 0);
        if (draw(d, 12) == 0) draw_end(d, src);
        else kinds[draw(d, MU_COUNT(kinds))](d, src);
    }
    draw_trained(d, d->n_blobs - 1);
    int l = begin(d, "euclidean_loss", (int[]){d->n_blobs - 1, partner(d, d->n_blobs - 1, true)}, 2);
    write_layer(d, "}\n");
    d->layer[l].loss = true;
    for (int i = d->n_layers - 1; i >= 0; i--) {
        d->layer[i].reaches |= d->layer[i].loss;
        for (int k = 0; d->layer[i].reaches && k < d->layer[i].n_src; k++)
            if (d->layer[i].src[k] >= 0) d->layer[d->layer[i].src[k]].reaches = true;
    }
}

// ---- running ----

static void give_up(const drawing *d, const char *name, const char *what) {
    fputs(d->text, stderr); // longer than cmocka's messages
    fail_msg("seed %llu: `%s` %s", (unsigned long long)d->seed, name, what);
}

typedef struct run { mu_job *job; mu_binder b; mu_net *net; } run;

static void build(run *r, const drawing *d, mu_net_opts o) {
    static const mu_registry *const registries[] = {&mu_inits, NULL};
    static char text[TEXT + 256];
    mu_err err = {0};
    snprintf(text, sizeof text, "data: {train: {reader: synthetic}}\ntrain: {steps: 1}\nnet:\n%s", d->text);
    if (mu_job_parse("random.yaml", text, strlen(text), NULL, 0, &r->job, &err) != MU_OK)
        give_up(d, "random.yaml", err.msg);
    r->b = (mu_binder){&r->job->arena, &r->job->diags, ".", registries};
    const mu_data_field fields[] = {
        {.name = "image", .shape = MU_SHAPE(2, 8, 8), .store = MU_STORE_F32, .is_image = true},
        {.name = "label", .shape = {0}, .store = MU_STORE_I32, .n_classes = 4},
    };
    o.net = r->job->net;
    o.fields = fields;
    o.n_fields = 2;
    o.batch = BATCH;
    o.seed = 7;
    if (mu_net_create(&r->b, &o, &r->net, &err) == MU_OK) return;
    mu_diags_print(&r->job->diags, stderr, false);
    give_up(d, "random.yaml", err.msg);
}

static void destroy(run *r) {
    mu_net_destroy(r->net);
    mu_job_destroy(r->job);
}

static void step(const run *r, int round) {
    static float image[BATCH * 2 * 8 * 8];
    static int32_t label[BATCH] = {1, 3, 0};
    for (size_t i = 0; i < MU_COUNT(image); i++) image[i] = sinf((float)i * 0.7f + (float)round);
    mu_tensor in[2] = {{.f = image}, {.i = label}};
    mu_net_set_input(r->net, in, 2);
    mu_step s = {.phase = r->net->phase, .step = round, .first_sample = round * BATCH,
                 .rows = BATCH, .global_rows = BATCH};
    mu_err err = {0};
    if (mu_net_forward(r->net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
    if (r->net->backward && mu_net_backward(r->net, &s, &err) != MU_OK) fail_msg("%s", err.msg);
}

static bool same(const void *a, const void *b, size_t n) { return !memcmp(a, b, n * sizeof(float)); }

// First thing that differs between two nets of one drawing; NULL = nothing.
static const char *difference(const mu_net *a, const mu_net *b) {
    for (int i = 0; i < a->params->n; i++) {
        const mu_param *p = a->params->list[i], *q = b->params->list[i];
        size_t rows = (size_t)p->shape.d[0], n = (size_t)p->grad.batch;
        if (!same(p->value, q->value, p->count) || p->grad.form != q->grad.form) return p->name;
        if (p->grad.form == MU_GRAD_DENSE && !same(p->grad.dense, q->grad.dense, p->count)) return p->name;
        if (p->grad.form == MU_GRAD_GATHERED &&
            (!same(p->grad.x, q->grad.x, (size_t)p->grad.n_x * (p->count / rows)) ||
             !same(p->grad.dy, q->grad.dy, n * rows) || !same(p->grad.src_row, q->grad.src_row, n * rows)))
            return p->name;
        if (p->grad.form == MU_GRAD_FACTORS && (!same(p->grad.x, q->grad.x, n * (p->count / rows)) ||
                                                !same(p->grad.dy, q->grad.dy, n * rows)))
            return p->name;
    }
    for (int i = 1; i < a->n_layers; i++) {
        const mu_layer *l = a->layer[i], *m = b->layer[i];
        for (int k = 0; k < l->n_metric; k++)
            if (memcmp(&l->metric[k].sum, &m->metric[k].sum, sizeof(double))) return l->name;
        for (int k = 0; k < l->n_out; k++) { // ends of the net stay readable after the step
            const mu_blob *o = &l->out[k];
            size_t n = mu_tensor_count(&o->value);
            if (mu_net_is_end(a, o) && !same(o->value.f, m->out[k].value.f, n)) return l->name;
        }
    }
    return NULL;
}

// A parameter has a gradient exactly when one of its layers leads to a loss.
static const char *wrong_reach(const drawing *d, const mu_net *net) {
    for (int i = 0; i < net->params->n; i++) {
        const mu_param *p = net->params->list[i];
        bool reaches = false;
        for (int k = 0; k < d->n_layers; k++) {
            const mu_layer *l = mu_net_find(net, d->layer[k].name);
            for (int j = 0; j < l->n_param; j++) reaches |= l->param[j] == p && d->layer[k].reaches;
        }
        if (!p->is_stat && reaches != (p->grad.form != MU_GRAD_NONE)) return p->name;
    }
    return NULL;
}

static size_t n_gathered(const mu_net *net) {
    size_t n = 0;
    for (int i = 0; i < net->params->n; i++) n += net->params->list[i]->grad.form == MU_GRAD_GATHERED;
    return n;
}

static void check_net(uint64_t seed, size_t *planned_bytes, size_t *apart_bytes, size_t *gathered) {
    static drawing d;
    draw_net(&d, seed);
    bool factors = seed % 3 == 0; // gradients in factor form must live to the end of the step
    run planned = {0}, apart = {0}, test[2] = {{0}};
    build(&planned, &d, (mu_net_opts){.phase = MU_TRAIN, .keep_factors = factors});
    build(&apart, &d, (mu_net_opts){.phase = MU_TRAIN, .keep_factors = factors, .keep_all = true});
    build(&test[0], &d, (mu_net_opts){.phase = MU_TEST, .share = planned.net->params});
    build(&test[1], &d, (mu_net_opts){.phase = MU_TEST, .share = apart.net->params, .keep_all = true});
    for (int i = 0; i < planned.net->params->n && factors; i++)
        planned.net->params->list[i]->allow_factors = apart.net->params->list[i]->allow_factors = true;
    for (int round = 0; round < 3; round++) {
        step(&planned, round);
        step(&apart, round);
        const char *bad = difference(planned.net, apart.net), *reach = wrong_reach(&d, planned.net);
        if (bad) give_up(&d, bad, "depends on reuse");
        if (reach) give_up(&d, reach, "has a gradient without leading to a loss, or the other way round");
        step(&test[0], round);
        step(&test[1], round);
        bad = difference(test[0].net, test[1].net);
        if (bad) give_up(&d, bad, "depends on reuse in the test phase");
    }
    *gathered += n_gathered(planned.net);
    *planned_bytes += planned.net->activation_bytes;
    *apart_bytes += apart.net->activation_bytes;
    for (int i = 0; i < 2; i++) destroy(&test[i]);
    destroy(&planned);
    destroy(&apart);
}

static uint64_t from_env(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void reuse_changes_no_bit_of_random_nets(void **state) {
    (void)state;
    uint64_t seed = from_env("MUSTER_TEST_SEED", 1), n = from_env("MUSTER_TEST_NETS", 300);
    size_t planned = 0, apart = 0, gathered = 0;
    for (uint64_t i = 0; i < n; i++) check_net(seed + i, &planned, &apart, &gathered);
    print_message("seeds %llu to %llu: %zu bytes planned, %zu without reuse\n", (unsigned long long)seed,
                  (unsigned long long)(seed + n - 1), planned, apart);
    assert_true(planned < apart);
    assert_true(gathered > 0 || n < 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(reuse_changes_no_bit_of_random_nets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
