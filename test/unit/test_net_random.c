// SPDX-License-Identifier: Apache-2.0
// test_net_random.c - random nets: reuse of memory must not change a single bit, and gradients must
// reach exactly the parameters that lead to a loss.
//
// Each net (net_drawing.h) is built with and without reuse of activation memory; three steps each, the
// later ones on dirty memory, and a test-phase net on the parameters of the training net. The oracle for
// "leads to a loss" is the drawing itself.
//
// MUSTER_TEST_SEED and MUSTER_TEST_NETS choose other nets; a failure prints the seed and the net.
#include "net_drawing.h"

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
    r->b = (mu_binder){&r->job->arena, &r->job->diags, ".", registries, 0};
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
