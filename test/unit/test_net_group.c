// SPDX-License-Identifier: Apache-2.0
// test_net_group.c - a net that several workers split trains as the whole one does.
//
// Nets of several kinds are split at random, as their layers allow, over 2 to 4 workers of this process, and
// AlexNet over each of these numbers.
// After 20 steps the change of every parameter is that of the net that is not split, within 1e-3 of its norm.
// Workers are threads, or all are stepped by one thread in the global order with channels that never wait,
// which shows that the order is one. Mutants of the group must be noticed by the same comparison.
// MUSTER_PARTITIONS is the number of random splits of each net.
#include "group_help.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const subject subjects[] = {
    {"mlp",
     "bp",
     {0},
     {"{name: fc1, type: inner_product, src: data.image, outputs: 17", "{name: act1, type: relu",
      "{name: drop1, type: dropout, ratio: 0.3", "{name: fc2, type: inner_product, outputs: 13",
      "{name: act2, type: tanh", "{name: noise2, type: noise, kind: gaussian, level: 0.1",
      "{name: fc3, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc3, data.label]",
      "{name: acc, type: accuracy, src: [fc3, data.label]"}},
    {"conv",
     "bp",
     {0},
     {"{name: c1, type: convolution, src: data.image, filters: 6, kernel: 3, pad: 1", "{name: r1, type: relu",
      "{name: p1, type: pooling, kernel: 2",
      "{name: a, type: convolution, src: p1, filters: 8, kernel: 3, pad: 1, bias_term: false",
      "{name: b, type: convolution, src: p1, filters: 8, kernel: 1, bias_term: false",
      "{name: sum, type: add, src: [a, b]", "{name: norm, type: batch_norm", "{name: r2, type: sigmoid",
      "{name: near, type: lrn, size: 3, alpha: 0.5", "{name: within, type: lrn, region: within, size: 3",
      "{name: g, type: convolution, filters: 12, groups: 4, "
      "kernel: 3",
      "{name: drop, type: dropout, ratio: 0.2", "{name: flat, type: flatten",
      "{name: fc, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc, data.label]"}},
    {"rnn",
     "bptt",
     {0},
     {"{name: word, type: embedding, src: data.words, dim: 7, unroll: 6",
      "{name: gru, type: gru_cell, hidden: 8, unroll: 6, src: [word, {layer: gru, shift: 1}, "
      "{layer: data.begin, connect: one_to_all}]",
      "{name: drop, type: dropout, ratio: 0.2, src: gru, unroll: 6",
      "{name: mix, type: add, coefficients: [0.5, 1], src: [{layer: mix, shift: 1}, drop], unroll: 6",
      "{name: out, type: inner_product, outputs: 9, unroll: 6",
      "{name: loss, type: softmax_loss, src: [out, data.next], unroll: 6"}},
    {"sequence",
     "bp",
     {0},
     {"{name: word, type: embedding, src: data.words, dim: 7",
      "{name: each, type: inner_product, outputs: 6, axis: 2", "{name: act, type: tanh",
      "{name: drop, type: dropout, ratio: 0.3", "{name: most, type: max_over_time, src: [drop, data.words]",
      "{name: lstm, type: lstm, src: [drop, data.begin], hidden: 5, outputs: last",
      "{name: both, type: concat, src: [most, lstm]", "{name: fc, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc, data.label]"}},
    {"auto-encoder",
     "bp",
     {0},
     {"{name: flat, type: flatten, src: data.image", "{name: enc, type: inner_product, outputs: 12",
      "{name: code, type: sigmoid", "{name: few, type: sparsity, weight: 0.5",
      "{name: dec, type: inner_product, outputs: 128, transpose: true, "
      "weight: {name: enc.weight}",
      "{name: loss, type: sigmoid_loss, src: [dec, flat]"}},
    {"kim",
     "bp",
     {0},
     {"{name: word, type: embedding, src: data.words, dim: 7, pad: true",
      "{name: conv, type: sentence_convolution, widths: [2, 3], filters: 4", "{name: drop, type: dropout",
      "{name: fc, type: inner_product, outputs: 5",
      "{name: loss, type: softmax_loss, src: [fc, data.label]"}},
    {"mdnn", // two paths, a loss of each, and the distance of their codes
     "bp",
     {0},
     {"{name: c1, type: convolution, src: data.image, filters: 5, kernel: 3",
      "{name: r1, type: relu, slope: 0.1", "{name: halves, type: slice, axis: 2, outputs: 2",
      "{name: joined, type: concat, axis: 3, src: [halves.0, halves.1]",
      "{name: left, type: inner_product, outputs: 6", "{name: left_unit, type: l2_normalise",
      "{name: left_fc, type: inner_product, src: left, outputs: 5",
      "{name: left_loss, type: softmax_loss, src: [left_fc, data.label]",
      "{name: one, type: one_hot, src: data.words", "{name: bag, type: max_over_time, method: mean",
      "{name: bits, type: reshape, shape: [0, 3, -1]", "{name: right, type: inner_product, outputs: 6",
      "{name: right_unit, type: l2_normalise", "{name: right_fc, type: inner_product, src: right, outputs: 5",
      "{name: right_loss, type: softmax_loss, src: [right_fc, data.label], loss_weight: 0.5",
      "{name: apart, type: euclidean_loss, src: [left_unit, right_unit]"}},
    {"rbm",
     "cd",
     {.k = 2, .persistent = true, .chains = ROWS},
     {"{name: low, type: rbm, src: data.image, hidden: 14", "{name: high, type: rbm, hidden: 9"}},
};

// A quarter as wide, on small images. It diverges at the rate of the others, and then a rounding error that
// turns a unit on or off is seen at once.
#define SLOW ", weight: {lr: 0.1}, bias: {lr: 0.1}"
static const subject alexnet = {
    "AlexNet",
    "bp",
    {0},
    {"{name: conv1, type: convolution, src: data.photo, filters: 16, kernel: 11, stride: 4, pad: 2, "
     "init: msra" SLOW,
     "{name: relu1, type: relu", "{name: pool1, type: pooling, method: max, kernel: 3, stride: 2",
     "{name: conv2, type: convolution, filters: 48, kernel: 5, pad: 2, init: msra" SLOW,
     "{name: relu2, type: relu", "{name: pool2, type: pooling, method: max, kernel: 3, stride: 2",
     "{name: conv3, type: convolution, filters: 96, kernel: 3, pad: 1, init: msra" SLOW,
     "{name: relu3, type: relu",
     "{name: conv4, type: convolution, filters: 64, kernel: 3, pad: 1, init: msra" SLOW,
     "{name: relu4, type: relu",
     "{name: conv5, type: convolution, filters: 64, kernel: 3, pad: 1, init: msra" SLOW,
     "{name: relu5, type: relu", "{name: pool5, type: pooling, method: max, kernel: 3, stride: 2",
     "{name: fc6, type: inner_product, outputs: 1024, init: msra" SLOW, "{name: relu6, type: relu",
     "{name: fc7, type: inner_product, outputs: 1024, init: msra" SLOW, "{name: relu7, type: relu",
     "{name: fc8, type: inner_product, outputs: 250, init: {type: gaussian, std: 0.01}" SLOW,
     "{name: loss, type: softmax_loss, src: [fc8, data.thing]"}};

// ---- trainings ----

static double train_whole(model *m, const subject *s) {
    char text[8192];
    mu_err err = {0};
    write_job(text, sizeof text, s, NULL);
    open_model(m, text);
    check(m, shape_model(m, s, &err), &err);
    ready_model(m);
    for (int step = 0; step < STEPS; step++) {
        const mu_step moment = step_at(step);
        make_batch(step);
        set_batch(m->net);
        check(m, run_algo(s->algo, m->net, &moment, &err), &err);
        for (int i = 0; i < m->net->params->n; i++) {
            const mu_param *p = m->net->params->list[i];
            const mu_grad *grad = &p->grad;
            const float one = 1;
            if (p->is_stat || grad->form == MU_GRAD_NONE) continue;
            const mu_target t = mu_target_of(m->updater, m->net->params, p);
            mu_updater_apply(&t,
                             &(mu_update){.n = 1, .grad = &grad, .weight = &one, .rate = m->updater->base});
        }
    }
    return loss_of(m->net);
}

static double train_group(group *g, const subject *s, bool threads) {
    for (int step = 0; step < STEPS; step++) {
        make_batch(step);
        for (int w = 0; w < g->p->workers; w++) set_batch(g->net[w]);
        if (threads || s->contrast.k) step_by_threads(g, s, step);
        else step_in_order(g, step);
        apply_group(g);
    }
    return group_loss(g);
}

// The largest distance of two changes of a parameter, as a share of the change of the whole net's.
static double distance(const model *whole, const group *g, const char **worst) {
    const mu_params *a = whole->net->params, *b = g->m.net->params;
    double most = 0;
    for (int i = 0; i < a->n; i++) {
        const mu_param *p = a->list[i];
        double change = 0, apart = 0, size = 0;
        for (size_t k = p->offset; k < p->offset + p->count; k++) {
            const double x = (double)a->value[k] - (double)whole->start[k],
                         y = (double)b->value[k] - (double)g->m.start[k];
            change += x * x;
            apart += (x - y) * (x - y);
            size += (double)whole->start[k] * (double)whole->start[k];
        }
        if (!p->is_stat && !(sqrt(change) >= 1e-3 * sqrt(size)))
            fail_msg("`%s` moves by %g of %g only", p->name, sqrt(change), sqrt(size));
        const double share = change > 0 ? sqrt(apart / change) : apart > 0 ? INFINITY : 0;
        if (!(share <= most)) most = share, *worst = p->name;
    }
    return most;
}

// ---- random assignments ----

// Does another layer share a parameter of this one? Then the two may be cut by batch only.
static bool is_shared(const subject *s, const char *name) {
    char text[48];
    snprintf(text, sizeof text, "{name: %s.", name);
    for (int i = 0; s->layer[i]; i++)
        if (strstr(s->layer[i], text)) return true;
    return false;
}

// Of layer i as its rules allow: a grid of at most `workers` parts, or a place.
static void choose(const model *plain, const subject *s, int i, int workers, uint64_t seed, char out[64]) {
    char name[32];
    assert_int_equal(sscanf(s->layer[i], "{name: %31[^,]", name), 1);
    const mu_layer *l = mu_net_find(plain->net, name);
    const mu_cut_rules r = mu_layer_cut_rules(l);
    const int64_t rows = mu_layer_src_shape(l, 0)->d[0], units = mu_layer_features(l) / r.grain;
    const int most_b = !(r.cuts & MU_CUT_BATCH) ? 1
                       : rows < workers         ? (int)rows
                                                : workers,
              most_f = !(r.cuts & MU_CUT_FEATURE) || is_shared(s, name) ? 1
                       : units < workers                                ? (int)units
                                                                        : workers;
    const uint64_t at = 10 * (uint64_t)i;
    const int b = 1 + (int)draw(seed, at, (uint32_t)most_b),
              f = 1 + (int)draw(seed, at + 1, (uint32_t)most_f);
    if (b * f > 1 && b * f <= workers) snprintf(out, 64, ", partition: {batch: %d, feature: %d}", b, f);
    else if (b == workers) snprintf(out, 64, ", partition: batch");
    else if (f == workers) snprintf(out, 64, ", partition: feature");
    else snprintf(out, 64, ", location: %d", (int)draw(seed, at + 2, (uint32_t)workers));
}

// One assignment trained as the whole net was, on the same data. Returns how far they are apart.
static double try_assignment(const model *whole, double want, const subject *s, uint64_t seed, int workers) {
    char text[8192], how[LAYERS][64];
    for (int i = 0; s->layer[i]; i++) choose(whole, s, i, workers, seed, how[i]);
    write_job(text, sizeof text, s, how);
    group g;
    open_group(&g, s, text, workers, NONE);
    const double loss = train_group(&g, s, seed % 2);
    const char *worst = "";
    const double apart = distance(whole, &g, &worst), off = fabs(loss - want) / fabs(want);
    if (!(apart <= 1e-3) || !(off <= 1e-3)) {
        if (first_batch) mu_partition_print(g.p, stderr);
        print_message("%s, seed %llu, %d workers, data %d: `%s` is %g of its change apart, loss %g, not %g\n%s",
                      s->name, (unsigned long long)seed, workers, first_batch, worst, apart, loss, want, text);
    }
    close_group(&g);
    return apart > off || isnan(apart) ? apart : off;
}

// Where two inputs of a window, or an input and zero, agree up to rounding, another order of sums turns a unit,
// and 20 steps make much of it: rare, and nothing is wrong. On other data the same split has to agree, then.
static double try_other_data(const subject *s, uint64_t seed, int workers) {
    model whole;
    first_batch = 500;
    const double want = train_whole(&whole, s);
    const double apart = try_assignment(&whole, want, s, seed, workers);
    close_model(&whole);
    first_batch = 0;
    return apart;
}

// on: so many workers; 0 = 2, 3, 4 in turn.
static void assignments_of(const subject *s, uint64_t first, uint64_t n, int on) {
    model whole;
    const double want = train_whole(&whole, s);
    double most = 0;
    uint64_t turned = 0;
    for (uint64_t seed = first; seed < first + n; seed++) {
        const int workers = on ? on : 2 + (int)(seed % 3);
        double apart = try_assignment(&whole, want, s, seed, workers);
        const bool again = !(apart <= 1e-3);
        if (again) apart = try_other_data(s, seed, workers);
        if (!(apart <= 1e-3)) fail_msg("%s, seed %llu: apart on other data, too", s->name, (unsigned long long)seed);
        turned += again;
        if (apart > most) most = apart;
    }
    assert_true(turned <= 1 + n / 20);
    print_message("%s: %d assignments, seeds from %d, changes at most %.1e apart, %d with a unit turned\n",
                  s->name, (int)n, (int)first, most, (int)turned);
    close_model(&whole);
}

static void random_assignments(void **state) {
    (void)state;
    const char *more = getenv("MUSTER_PARTITIONS");
    for (size_t i = 0; i < MU_COUNT(subjects); i++)
        assignments_of(&subjects[i], 1, more ? strtoull(more, NULL, 10) : 20, 0);
}

static void random_assignments_of_alexnet(void **state) {
    (void)state;
    const char *more = getenv("MUSTER_PARTITIONS");
    for (int workers = 2; workers <= MOST; workers++)
        assignments_of(&alexnet, 1, more ? strtoull(more, NULL, 10) : 20, workers);
}

// ---- mutants ----

#define BY_BATCH ", partition: batch"
#define BY_FEATURE ", partition: feature"

static double apart_with(const model *whole, const subject *s, const char *by, mutant how) {
    char text[8192], cuts[LAYERS][64] = {{0}};
    for (int i = 0; s->layer[i]; i++) // losses stay whole when the others are cut by feature
        if (!strstr(s->layer[i], "data.label") || !strcmp(by, BY_BATCH)) snprintf(cuts[i], 64, "%s", by);
    write_job(text, sizeof text, s, cuts);
    group g;
    open_group(&g, s, text, 3, how);
    train_group(&g, s, true);
    const char *worst = "";
    const double apart = distance(whole, &g, &worst);
    close_group(&g);
    return apart;
}

static void mutants_are_noticed(void **state) {
    (void)state;
    const struct {
        const char *by;
        mutant how;
    } cases[] = {{BY_BATCH, DROPPED_SHARE},
                 {BY_BATCH, MEAN_FOR_SUM},
                 {BY_BATCH, LOCAL_ROWS},
                 {BY_FEATURE, LOCAL_FEATURES}};
    model whole;
    train_whole(&whole, &subjects[0]);
    assert_true(apart_with(&whole, &subjects[0], BY_BATCH, NONE) < 1e-4);
    assert_true(apart_with(&whole, &subjects[0], BY_FEATURE, NONE) < 1e-4);
    for (size_t i = 0; i < MU_COUNT(cases); i++) {
        const double apart = apart_with(&whole, &subjects[0], cases[i].by, cases[i].how);
        print_message("mutant %d%s: %.2g apart\n", (int)cases[i].how, cases[i].by, apart);
        assert_true(apart > 1e-2);
    }
    close_model(&whole);
}

// ---- processes ----

typedef struct crew {
    group *g;
    const char *algo;
    pid_t child[MOST];
    void *memory[2 * MOST]; // of go and done
    mu_channel *go[MOST], *done[MOST];
    float *grad[MOST]; // shared blocks, one of each worker
    int dies_at;       // worker 1 is killed in the middle of this step; -1 = never
} crew;

enum { FORMS = 128 }; // a worker says of each parameter what form its gradient has

static mu_status one_step(crew *c, int w, int step, mu_err *err) {
    mu_net *net = c->g->net[w];
    const void *message;
    void *to;
    MU_TRY(c->go[w]->class->receive(c->go[w], &message, err));
    c->go[w]->class->release(c->go[w]);
    const mu_step s = step_at(step);
    make_batch(step);
    set_batch(net);
    if (w == 1 && step == c->dies_at) {
        MU_TRY(mu_net_forward(net, &s, err));
        raise(SIGKILL);
    }
    MU_TRY(run_algo(c->algo, net, &s, err));
    MU_TRY(c->done[w]->class->place(c->done[w], &to, err));
    for (int i = 0; i < net->params->n; i++) ((int32_t *)to)[i] = (int32_t)net->params->list[i]->grad.form;
    c->done[w]->class->send(c->done[w]);
    return MU_OK;
}

// A worker: its net is made ready here, with the values and a gradient block that the parent sees.
static mu_status be_worker(crew *c, int w, int first, mu_err *err) {
    mu_net *net = c->g->net[w];
    MU_TRY(mu_net_ready(net, mu_device_cpu(), err));
    MU_TRY(mu_partition_connect(net, c->g->p, mu_open_bridge_memory, &c->g->bridges, err));
    for (int i = 0; i < net->params->n; i++)
        net->params->list[i]->grad.dense = c->grad[w] + net->params->list[i]->offset;
    for (int step = first; step < STEPS; step++) MU_TRY(one_step(c, w, step, err));
    return MU_OK;
}

static void start_workers(crew *c, int first) {
    for (int w = 0; w < c->g->p->workers; w++) {
        mu_err err = {0};
        c->child[w] = fork();
        assert_true(c->child[w] >= 0);
        if (c->child[w]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const mu_status st = be_worker(c, w, first, &err);
        if (st != MU_OK && !atomic_load(&c->g->terms->given_up)) dprintf(2, "worker %d: %s\n", w, err.msg);
        _exit(st != MU_OK);
    }
}

// One worker is dead: the others end, channels are emptied, and all begin the step again.
static void begin_again(crew *c, int step) {
    group *g = c->g;
    int how;
    assert_int_equal(waitpid(c->child[1], &how, 0), c->child[1]);
    assert_true(WIFSIGNALED(how));
    atomic_store(&g->terms->given_up, true);
    for (int w = 0; w < g->p->workers; w++)
        if (w != 1) assert_int_equal(waitpid(c->child[w], &how, 0), c->child[w]);
    mu_bridge_memory_reset(g->p, g->bridges.base);
    for (int k = 0; k < 2 * g->p->workers; k++) mu_channel_memory_reset(c->memory[k]);
    atomic_store(&g->terms->given_up, false);
    c->dies_at = -1;
    start_workers(c, step);
}

static mu_status lead_step(crew *c, int step, mu_err *err) {
    group *g = c->g;
    for (int again = c->dies_at == step; again >= 0; again--) {
        for (int w = 0; w < g->p->workers; w++) {
            void *to;
            MU_TRY(c->go[w]->class->place(c->go[w], &to, err));
            c->go[w]->class->send(c->go[w]);
        }
        if (again) begin_again(c, step);
    }
    for (int w = 0; w < g->p->workers; w++) {
        const void *message;
        MU_TRY(c->done[w]->class->receive(c->done[w], &message, err));
        for (int i = 0; i < g->net[w]->params->n; i++) {
            mu_grad *grad = &g->net[w]->params->list[i]->grad;
            grad->form = (mu_grad_form)((const int32_t *)message)[i];
            grad->dense = c->grad[w] + g->net[w]->params->list[i]->offset;
        }
        c->done[w]->class->release(c->done[w]);
    }
    apply_group(g);
    return MU_OK;
}

static mu_channel *new_channel(group *g, const char *name, size_t bytes, void **memory) {
    mu_channel *c;
    mu_err err = {0};
    *memory = shared_memory(g, mu_channel_memory_size(bytes));
    check(&g->m, mu_channel_open_memory(name, bytes, g->terms, *memory, &c, &err), &err);
    return c;
}

static void train_processes(group *g, const subject *s, int dies_at) {
    crew c = {.g = g, .algo = s->algo, .dies_at = dies_at};
    mu_err err = {0};
    mu_status st = MU_OK;
    mu_params *ps = g->m.net->params;
    float *shared = shared_memory(g, ps->count * sizeof *shared);
    memcpy(shared, ps->value, ps->count * sizeof *shared);
    mu_params_rebase(ps, shared, ps->slot);
    for (int w = 0; w < g->p->workers; w++) {
        c.go[w] = new_channel(g, "go", 4, &c.memory[2 * w]);
        c.done[w] = new_channel(g, "done", FORMS * sizeof(int32_t), &c.memory[2 * w + 1]);
        c.grad[w] = shared_memory(g, ps->count * sizeof(float));
        assert_true(g->net[w]->params->n <= FORMS);
    }
    start_workers(&c, 0);
    for (int step = 0; step < STEPS && st == MU_OK; step++) st = lead_step(&c, step, &err);
    if (st != MU_OK) atomic_store(&g->terms->given_up, true);
    for (int w = 0, how; w < g->p->workers; w++) {
        assert_int_equal(waitpid(c.child[w], &how, 0), c.child[w]);
        if (st == MU_OK && how) fail_msg("worker %d ended with %d", w, how);
        mu_channel_close(c.go[w]);
        mu_channel_close(c.done[w]);
    }
    if (st != MU_OK) fail_msg("%s", err.msg);
}

static void processes_of(const subject *s, int workers, int dies_at) {
    char text[8192], how[LAYERS][64];
    model whole;
    group g;
    const char *worst = "";
    train_whole(&whole, s);
    for (int k = 0; s->layer[k]; k++) choose(&whole, s, k, workers, 99, how[k]);
    write_job(text, sizeof text, s, how);
    shape_group(&g, s, text, workers, NONE);
    train_processes(&g, s, dies_at);
    const double apart = distance(&whole, &g, &worst);
    print_message("%s: %d processes%s, changes at most %.1e apart\n", s->name, workers,
                  dies_at < 0 ? "" : ", one killed", apart);
    if (!(apart <= 1e-3)) fail_msg("`%s` is %g of its change apart", worst, apart);
    close_group(&g);
    close_model(&whole);
}

static void workers_may_be_processes(void **state) {
    (void)state;
    for (size_t i = 0; i < MU_COUNT(subjects); i++) processes_of(&subjects[i], 2 + (int)(i % 3), -1);
}

// In the middle of a step: what it sent and the states it remembered are made again. Running statistics would
// move twice, so of these subjects only those without are taken.
static void a_worker_may_be_killed(void **state) {
    (void)state;
    for (size_t i = 0; i < MU_COUNT(subjects); i++)
        if (strcmp(subjects[i].name, "conv")) processes_of(&subjects[i], 3, 3 + (int)i);
}

int main(void) {
    describe_data();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_assignments),
        cmocka_unit_test(random_assignments_of_alexnet),
        cmocka_unit_test(mutants_are_noticed),
        cmocka_unit_test(workers_may_be_processes),
        cmocka_unit_test(a_worker_may_be_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
