// SPDX-License-Identifier: Apache-2.0
// test_net_split.c - random nets (net_drawing.h), split at random over 2 to 4 workers: the gradients of all
// workers add up to those of the net that is not split, and so do the metrics, in the test phase, too.
//
// All workers are stepped by one thread in the global order, with channels that never wait. Batches are full
// and short in turn. MUSTER_TEST_SEED and MUSTER_TEST_NETS choose other nets; a failure prints the seed and
// the split net.
#include "net/partition.h"
#include "net_drawing.h"

enum { MOST = 4 };

static const mu_registry *const registries[] = {&mu_inits, NULL};

typedef struct run {
    mu_job *job;
    mu_binder b;
    mu_net *net;
} run;

static float image[BATCH * 2 * 8 * 8];
static int32_t label[BATCH] = {1, 3, 0};

static void give_up(run *r, uint64_t seed, const mu_err *err) {
    mu_diags_print(&r->job->diags, stderr, false);
    fail_msg("seed %llu: %s", (unsigned long long)seed, err->msg);
}

static void parse(run *r, const char *layers, uint64_t seed) {
    static char text[2 * TEXT];
    mu_err err = {0};
    snprintf(text, sizeof text, "data: {train: {reader: synthetic}}\ntrain: {steps: 1}\nnet:\n%s", layers);
    if (mu_job_parse("random.yaml", text, strlen(text), NULL, 0, &r->job, &err) != MU_OK)
        give_up(r, seed, &err);
    r->b = (mu_binder){&r->job->arena, &r->job->diags, ".", registries, 0};
}

// With the parameters of another net, if any.
static void create(run *r, mu_phase phase, mu_params *share, uint64_t seed) {
    mu_err err = {0};
    const mu_data_field fields[] = {
        {.name = "image", .shape = MU_SHAPE(2, 8, 8), .store = MU_STORE_F32, .is_image = true},
        {.name = "label", .shape = {0}, .store = MU_STORE_I32, .n_classes = 4},
    };
    const mu_net_opts o = {.net = r->job->net,
                           .fields = fields,
                           .n_fields = 2,
                           .phase = phase,
                           .batch = BATCH,
                           .seed = 7,
                           .share = share};
    if (mu_net_create(&r->b, &o, &r->net, &err) != MU_OK) give_up(r, seed, &err);
}

static void destroy(run *r) {
    mu_net_destroy(r->net);
    mu_job_destroy(r->job);
}

// ---- splitting ----

static bool is_shared(const mu_layer *l) {
    for (int k = 0; k < l->n_param; k++)
        if (l->param[k]->n_users > 1) return true;
    return false;
}

static void choose(drawing *d, const mu_layer *l, int workers, char out[64]) {
    const mu_cut_rules r = mu_layer_cut_rules(l);
    const int64_t units = mu_layer_features(l) / r.grain;
    const int most_b = !(r.cuts & MU_CUT_BATCH) ? 1
                       : BATCH < workers        ? BATCH
                                                : workers,
              most_f = !(r.cuts & MU_CUT_FEATURE) || is_shared(l) ? 1
                       : units < workers                          ? (int)units
                                                                  : workers;
    const int b = 1 + (int)draw(d, (uint32_t)most_b), f = 1 + (int)draw(d, (uint32_t)most_f);
    if (b * f > 1 && b * f <= workers) snprintf(out, 64, ", partition: {batch: %d, feature: %d}", b, f);
    else snprintf(out, 64, ", location: %d", (int)draw(d, (uint32_t)workers));
}

// The layers of the drawing with ways to cut them.
static void split_text(drawing *d, const mu_net *net, int workers, char *out, size_t size) {
    size_t n = 0;
    for (const char *line = d->text, *end; (end = strchr(line, '\n')); line = end + 1) {
        char name[16], how[64];
        assert_int_equal(sscanf(line, "- {name: %15[^,]", name), 1);
        choose(d, mu_net_find(net, name), workers, how);
        n += (size_t)snprintf(out + n, size - n, "%.*s%s}\n", (int)(end - line) - 1, line, how);
        assert_true(n < size);
    }
}

typedef struct group {
    run whole;
    mu_partition *p;
    mu_net *net[MOST];
    mu_channel_terms terms;
    mu_bridge_memory bridges;
} group;

// The workers of the net in g->whole.
static void open_group(group *g, int workers, uint64_t seed) {
    mu_err err = {0};
    run *r = &g->whole;
    const mu_partition_opts o = {.whole = r->net, .workers = workers};
    mu_status st = mu_partition_create(&r->b, &o, &g->p, &err);
    if (st != MU_OK) give_up(r, seed, &err);
    g->bridges = (mu_bridge_memory){mu_alloc(mu_bridge_memory_bytes(g->p) + 1, "test"), &g->terms};
    for (int w = 0; w < workers && st == MU_OK; w++) {
        st = mu_partition_net(&r->b, g->p, w, &g->net[w], &err);
        if (st == MU_OK) st = mu_net_ready(g->net[w], mu_device_cpu(), &err);
        if (st == MU_OK) st = mu_partition_connect(g->net[w], g->p, mu_open_bridge_memory, &g->bridges, &err);
    }
    if (st != MU_OK) give_up(r, seed, &err);
}

static void close_group(group *g) {
    for (int w = 0; w < g->p->workers; w++) mu_net_destroy(g->net[w]);
    mu_free(g->bridges.base);
    mu_partition_destroy(g->p);
    mu_net_destroy(g->whole.net);
}

// ---- a step ----

static mu_step step_at(int round) {
    const int64_t rows = round % 2 ? BATCH - 1 : BATCH;
    return (mu_step){
        .phase = MU_TRAIN, .step = round, .first_sample = round * BATCH, .rows = rows, .global_rows = rows};
}

// Runs the layers of all workers in the global order; what the nets have inserted goes with its neighbours.
static mu_status pass(group *g, mu_pass pass, const mu_step *s, mu_err *err) {
    const bool forward = pass == MU_PASS_FORWARD;
    int at[MOST];
    for (int w = 0; w < g->p->workers; w++) at[w] = forward ? 1 : g->net[w]->n_layers - 1;
    for (int i = 0; i < g->p->n_layers; i++) {
        const mu_part *p = g->p->layer[forward ? i : g->p->n_layers - 1 - i];
        mu_net *net = g->net[p->worker];
        int *k = &at[p->worker];
        for (bool done = false; !done; *k += forward ? 1 : -1) {
            done = net->layer[*k]->name == p->name;
            MU_TRY(mu_net_pass(net->layer[*k], pass, s, err));
        }
    }
    return MU_OK;
}

static void set_batch(mu_net *net) {
    const mu_tensor in[2] = {{.f = image}, {.i = label}};
    mu_net_set_input(net, in, 2);
}

static mu_status step_group(group *g, const mu_step *s, mu_err *err) {
    for (int w = 0; w < g->p->workers; w++) {
        set_batch(g->net[w]);
        mu_net_begin_grads(g->net[w], s);
    }
    MU_TRY(pass(g, MU_PASS_FORWARD, s, err));
    return pass(g, MU_PASS_BACK, s, err);
}

// ---- comparing ----

static double norm_of(const float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

// Sum over the workers, in the layout of the wholes; false: a worker has a gradient where there is none.
static void add_up(const group *g, float *sum) {
    for (int w = 0; w < g->p->workers; w++)
        for (int i = 0; i < g->net[w]->params->n; i++) {
            const mu_param *p = g->net[w]->params->list[i];
            for (size_t k = 0; p->grad.form == MU_GRAD_DENSE && k < p->count; k++)
                sum[p->offset + k] += p->grad.dense[k];
        }
}

static const char *wrong_gradient(const mu_net *whole, const group *g) {
    const mu_params *ps = whole->params;
    float *sum = mu_alloc((ps->count + 1) * sizeof *sum, "test");
    const char *wrong = NULL;
    double largest = 0;
    add_up(g, sum);
    for (int i = 0; i < ps->n; i++)
        if (ps->list[i]->grad.form == MU_GRAD_DENSE)
            largest = fmax(largest, norm_of(ps->list[i]->grad.dense, ps->list[i]->count));
    for (int i = 0; i < ps->n; i++) {
        const mu_param *p = ps->list[i];
        float *got = sum + p->offset;
        const bool any = p->grad.form == MU_GRAD_DENSE;
        const double size = any ? norm_of(p->grad.dense, p->count) : 0;
        for (size_t k = 0; any && k < p->count; k++) got[k] -= p->grad.dense[k];
        if (!(norm_of(got, p->count) <= 1e-3 * size + 1e-5 * largest)) wrong = p->name;
    }
    mu_free(sum);
    return wrong;
}

static double metric_sum(const mu_net *net, const char *name, int k) {
    double sum = 0;
    for (int i = 1; i < net->n_layers; i++)
        if (!strcmp(mu_layer_job_name(net->layer[i]), name) && k < net->layer[i]->n_metric)
            sum += net->layer[i]->metric[k].sum;
    return sum;
}

static const char *wrong_metric(const mu_net *whole, const group *g) {
    for (int i = 1; i < whole->n_layers; i++)
        for (int k = 0; k < whole->layer[i]->n_metric; k++) {
            const double want = whole->layer[i]->metric[k].sum;
            double got = 0;
            for (int w = 0; w < g->p->workers; w++) got += metric_sum(g->net[w], whole->layer[i]->name, k);
            if (!(fabs(got - want) <= 1e-3 * fabs(want) + 1e-5)) return whole->layer[i]->name;
        }
    return NULL;
}

static void wrong(const drawing *d, const group *g, const char *text, const char *what, const char *name) {
    mu_partition_print(g->p, stderr);
    fputs(text, stderr);
    fail_msg("seed %llu: %s `%s` is another one", (unsigned long long)d->seed, what, name);
}

// A net of the test phase may be split, too; it has the values of the training net.
static void check_evaluation(const drawing *d, const group *trained, const char *text) {
    group g = {.whole = trained->whole};
    mu_step s = step_at(1);
    mu_err err = {0};
    s.phase = MU_TEST;
    create(&g.whole, MU_TEST, trained->whole.net->params, d->seed);
    open_group(&g, trained->p->workers, d->seed);
    set_batch(g.whole.net);
    for (int w = 0; w < g.p->workers; w++) set_batch(g.net[w]);
    if (mu_net_forward(g.whole.net, &s, &err) != MU_OK || pass(&g, MU_PASS_FORWARD, &s, &err) != MU_OK)
        give_up(&g.whole, d->seed, &err);
    const char *metric = wrong_metric(g.whole.net, &g);
    if (metric) wrong(d, &g, text, "in the test phase the metric of", metric);
    close_group(&g);
}

static void check_net(uint64_t seed, int *bridges) {
    static drawing d;
    static char text[2 * TEXT];
    static group g;
    const int workers = 2 + (int)(seed % 3);
    run whole = {0};
    mu_err err = {0};
    memset(&g, 0, sizeof g);
    draw_net(&d, seed);
    parse(&whole, d.text, seed);
    create(&whole, MU_TRAIN, NULL, seed);
    split_text(&d, whole.net, workers, text, sizeof text);
    parse(&g.whole, text, seed);
    create(&g.whole, MU_TRAIN, NULL, seed);
    open_group(&g, workers, seed);
    for (int round = 0; round < 3; round++) {
        const mu_step s = step_at(round);
        for (size_t i = 0; i < MU_COUNT(image); i++) image[i] = sinf((float)i * 0.7f + (float)round);
        set_batch(whole.net);
        if (mu_net_forward(whole.net, &s, &err) != MU_OK || mu_net_backward(whole.net, &s, &err) != MU_OK ||
            step_group(&g, &s, &err) != MU_OK)
            give_up(&g.whole, seed, &err);
        const char *metric = wrong_metric(whole.net, &g), *gradient = wrong_gradient(whole.net, &g);
        if (metric) wrong(&d, &g, text, "the metric of", metric);
        if (gradient) wrong(&d, &g, text, "the gradient of", gradient);
    }
    check_evaluation(&d, &g, text);
    *bridges += g.p->n_bridges;
    mu_job *job = g.whole.job;
    close_group(&g);
    mu_job_destroy(job);
    destroy(&whole);
}

static uint64_t from_environment(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_nets_may_be_split(void **state) {
    (void)state;
    const uint64_t first = from_environment("MUSTER_TEST_SEED", 1),
                   n = from_environment("MUSTER_TEST_NETS", 150);
    int bridges = 0;
    for (uint64_t seed = first; seed < first + n; seed++) check_net(seed, &bridges);
    print_message("%llu nets from seed %llu, %d bridges\n", (unsigned long long)n, (unsigned long long)first,
                  bridges);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_nets_may_be_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
