// SPDX-License-Identifier: Apache-2.0
// setup.c - what a run makes of the section `cluster:` on this machine.
//
// Binding looks at the section alone (setup_bind.c). The setup adds the batch, the data and the cores, and is
// the only place where these decisions are made: launcher, learners, server and the text at start all read
// the same numbers.
//
// The job's batch B is the number of samples of one step, and a step stays that whatever the number of
// learners: mu = B / lambda, so rates and schedules found with one learner keep their meaning. Only a job
// that asks for a mu of its own (`batch`) leaves B, and then the rate follows (rudra 3.2, SPEC D3).
#include "ps/setup_inner.h"

#include <math.h>

// Also in the range of `learners`. Slices are claimed with 12 bits of executor number (shared.h).
enum { MAX_LEARNERS = 1024 };
#define MOST_STEPS 0x1p53 // of a warm start: no run has more

// auto never asks for more learners than there are samples to share.
static int count_learners(const mu_cluster_opts *o, int64_t train_batch, int cores, int nodes) {
    int64_t n = (cores > MAX_LEARNERS ? MAX_LEARNERS : cores) / o->workers;
    if (!o->batch && n > train_batch) n = train_batch;
    const int64_t of = o->server_groups > 1 ? o->server_groups : nodes; // it is dealt to these
    n -= n % of;
    if (n < of) n = of;
    if (o->learners != MU_AUTO) n = o->learners;
    return (int)n;
}

static int learners_of_group(const mu_setup *p) { return p->learners / p->server_groups; }

int mu_setup_contributors(const mu_setup *p) {
    return mu_setup_is_relayed(p) ? p->server_groups : learners_of_group(p);
}

// Learners of a group whose gradients are applied elsewhere make them in step.
static void put_in_step(mu_setup *g) {
    g->protocol = mu_warm_protocol;
    g->n_phases = 1;
    g->phase[0] = (mu_setup_phase){
        .protocol = mu_protocol_index(mu_warm_protocol->name), .until = INT64_MAX, .splits = 1};
    g->splits = 1;
    g->bound = g->own = 0;
    g->rate_rule = MU_RATE_PLAIN;
    g->stale = g->phase[0].stale;
    g->expected_staleness = 0;
    g->warm_versions = g->soft_steps = 0;
}

mu_setup mu_setup_of_group(const mu_setup *p) {
    mu_setup g = *p;
    if (!mu_setup_is_joint(p)) g.nodes = g.node = 0;
    g.server_groups = 1;
    g.learners = learners_of_group(p);
    g.global_batch /= p->server_groups;
    g.reference_batch /= p->server_groups;
    if (mu_setup_is_relayed(p)) put_in_step(&g);
    return g;
}

// Learners and batch can be dealt to the server groups. False: reported.
static bool deal_to_groups(mu_binder *b, const mu_node *node, const mu_cluster_opts *o, const mu_setup *p) {
    const int n = p->server_groups;
    if (p->learners % n) {
        mu_diag *g =
            mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "server_groups"),
                         "%d learners cannot be spread evenly over %d server groups", p->learners, n);
        mu_diag_label(b->diags, g, "%s",
                      p->learners < n ? "at most one group for each learner"
                                      : "write a divisor of `learners`");
    } else if (!o->batch && p->reference_batch % n) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "server_groups"),
                                  "a batch of %lld cannot be spread evenly over %d server groups",
                                  (long long)p->reference_batch, n);
        mu_diag_label(b->diags, g, "write a divisor of `train.batch`, or set `batch` in `cluster`");
    } else {
        return true;
    }
    return false;
}

static void share_batch(mu_binder *b, const mu_node *node, const mu_cluster_opts *o, mu_setup *p) {
    const int n = o->batch ? 1 : p->server_groups; // a batch of the job is dealt to the groups first
    const int64_t batch = p->reference_batch;
    if (!deal_to_groups(b, node, o, p)) return;
    p->learners /= n, p->reference_batch /= n;
    (p->protocol->share_batch ? p->protocol->share_batch : mu_share_rounded)(p, o->batch);
    p->learners *= n, p->global_batch *= n;
    p->reference_batch = batch;
    if (p->learners * (int64_t)p->workers > MAX_LEARNERS) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "workers"),
                                  "%d learners of %d workers are %d processes", p->learners, p->workers,
                                  mu_setup_processes(p));
        mu_diag_label(b->diags, g, "at most %d in all", MAX_LEARNERS);
    }
    if (p->global_batch >= p->learners) return;
    mu_diag *g =
        mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "learners"),
                     "%d learners cannot share a batch of %lld", p->learners, (long long)p->global_batch);
    mu_diag_label(b->diags, g, "at most %lld, or set `batch` in `cluster`", (long long)p->global_batch);
}

// The phase of a protocol with these keys. A gradient of one learner alone is never stale.
static mu_setup_phase phase_of(const mu_cluster_opts *o, const mu_setup *p, const mu_class_ref *ref,
                               const mu_updater *u) {
    const mu_protocol_class *c = (const mu_protocol_class *)(const void *)ref->plugin;
    const int learners = mu_setup_contributors(p);
    mu_core_config config = {.learners = learners, .splits = 1, .rate_rule = MU_RATE_MEAN};
    if (c->configure) c->configure(ref->state, &config);
    mu_setup_phase f = {.protocol = mu_protocol_index(c->name),
                        .until = INT64_MAX,
                        .splits = config.splits,
                        .bound = config.bound,
                        .own = config.own};
    f.rate_rule = (mu_rate_rule)(o->rate_rule ? o->rate_rule - 1 : config.rate_rule);
    f.expected_staleness = c->expected_staleness(ref->state, learners);
    mu_momentum_rule rule = o->momentum_rule ? (mu_momentum_rule)(o->momentum_rule - 1) : mu_stale_usual(u);
    const double n = learners > 1 ? f.expected_staleness : 0;
    if (n <= 0) rule = MU_MOMENTUM_PLAIN;
    const int gathers = c->gathers ? c->gathers(ref->state) : 1;
    const double updates = c->own_histories ? (double)learners / gathers : n; // of a step
    const double batches = (double)p->global_batch / (double)p->reference_batch;
    const mu_stale_task task = {.n = n,
                                .share = n > 0 ? batches / fmax(updates, 1) : 1,
                                .own_histories = c->own_histories ? learners : 1,
                                .gathers = gathers,
                                .rate_rule = f.rate_rule,
                                .momentum_rule = rule};
    f.stale = mu_stale_make(&task, u);
    return f;
}

static void check_needs(mu_binder *b, const mu_node *node, const mu_node *block, const mu_class_ref *ref,
                        int learners) {
    const mu_protocol_class *c = (const mu_protocol_class *)(const void *)ref->plugin;
    int64_t n = 1;
    const char *key = c->needs ? c->needs(ref->state, &n) : NULL;
    if (n <= learners) return;
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR,
                              cluster_is_given(block, key) ? cluster_place_of(block, key)
                                                           : cluster_place_of(node, "protocol"),
                              "%s with %s %lld needs at least %lld learners, found %d", c->name, key,
                              (long long)n, (long long)n, learners);
    mu_diag_label(b->diags, g, "at most %d", learners);
}

static double epoch_of(const mu_setup_task *task, const mu_setup *p) { // in steps
    return (double)task->n_records / (double)p->global_batch;
}

static double steps_of(const mu_interval *w, double epoch) {
    return w->unit == MU_EVERY_STEP ? w->n : w->unit == MU_EVERY_EPOCH ? w->n * epoch : 0;
}

// Where a turn ends, in whole steps.
static int64_t turn_end(const mu_interval *until, double epoch) {
    return (int64_t)fmin(ceil(steps_of(until, epoch)), MOST_STEPS);
}

static int64_t samples_of(int64_t steps, const mu_setup *p) {
    return steps < INT64_MAX / p->global_batch ? steps * p->global_batch : INT64_MAX;
}

// Records are not known at first: epochs are compared with epochs, then.
static void check_order(mu_binder *b, const mu_cluster_opts *o, double epoch) {
    for (int i = 1; i < o->n_before; i++) {
        const mu_interval *was = &o->before[i - 1].until, *now = &o->before[i].until;
        const bool known = epoch > 0 || was->unit == now->unit;
        const double e = epoch > 0 ? epoch : 1;
        if (!known || turn_end(was, e) < turn_end(now, e) || b->diags->n_errors) continue;
        const mu_node *node = mu_node_find(o->before[i].node, "until");
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, node->pos, "this turn ends before it begins");
        mu_diag_label(b->diags, g, "`until` counts from the start of the training");
    }
}

static void configure_protocol(mu_binder *b, const mu_node *node, const mu_cluster_opts *o,
                               const mu_setup_task *task, mu_setup *p) {
    const double epoch = epoch_of(task, p);
    const int first = o->n_before > 0 && cluster_is_in_step(&o->before[0].protocol); // the warm start
    p->in_turn = o->n_before > 0;
    check_order(b, o, epoch);
    for (int i = first; i <= o->n_before; i++) {
        const bool last = i == o->n_before;
        const mu_class_ref *ref = last ? &o->protocol : &o->before[i].protocol;
        const mu_node *turns = mu_node_find(node, "protocol");
        const mu_node *block = turns && turns->kind == MU_LIST ? turns->item[i] : turns;
        mu_setup_phase *f = &p->phase[p->n_phases++];
        *f = phase_of(o, p, ref, task->updater);
        if (!last) f->until = samples_of(turn_end(&o->before[i].until, epoch), p);
        check_needs(b, node, block, ref, mu_setup_contributors(p));
        if (b->diags->n_errors) break; // one report is enough
    }
    const mu_setup_phase *f = &p->phase[p->n_phases - 1];
    p->splits = f->splits;
    p->bound = f->bound;
    p->own = f->own;
    p->rate_rule = f->rate_rule;
    p->expected_staleness = f->expected_staleness;
    p->stale = f->stale;
    p->momentum = task->updater ? mu_updater_momentum(task->updater, false) : 0;
    p->momentum_now = mu_stale_step_of(&p->stale, task->updater, p->momentum, &p->momentum_rate);
}

int mu_setup_phase_of(const mu_setup *p, int64_t samples) {
    int i = 0;
    while (i + 1 < p->n_phases && samples >= p->phase[i].until) i++;
    return i;
}

bool mu_setup_has_no_server(const mu_setup *p) {
    mu_objection why;
    return mu_protocol_objects(p->protocol, MU_CHOICE_SERVER, &why);
}

// A server process pays when it has a core to itself; learners that would wait help it, or do it all. One
// learner alone needs neither.
static void place_server(const mu_node *node, const mu_cluster_opts *o, int cores, mu_setup *p) {
    const int processes = p->learners * p->workers;
    const int servers = mu_setup_is_joint(p) ? p->nodes : p->server_groups;
    bool spare = (processes > 1 && cores >= processes + servers) || o->servers ||
                 cluster_is_given(node, "server_threads");
    p->server = o->server != MU_SERVER_AUTO ? (mu_server_place)o->server
                : spare                     ? MU_SERVER_BOTH
                                            : MU_SERVER_BESIDE;
    if (mu_setup_has_no_server(p)) p->server = MU_SERVER_BESIDE;
    if (mu_setup_is_relayed(p)) p->server = MU_SERVER_RANK_0;
    const bool threads = p->server == MU_SERVER_PROCESS || p->server == MU_SERVER_BOTH;
    p->server_threads = threads ? (int)o->server_threads : 0;
    p->weights = o->locks ? MU_WEIGHTS_COPY : (mu_weights_mode)o->weights;
}

// The end of the training in steps, whichever comes first.
static double end_of(const mu_setup_task *task, double epoch) {
    double end = INFINITY;
    if (task->steps > 0) end = (double)task->steps;
    if (task->epochs > 0) end = fmin(end, task->epochs * epoch);
    return end;
}

static int64_t warm_versions(const mu_cluster_opts *o, const mu_setup *p, const mu_setup_task *task) {
    const mu_interval *w = &o->warm_start;
    const double epoch = epoch_of(task, p);
    if (mu_setup_contributors(p) == 1) return 0;
    if (o->n_before)
        return cluster_is_in_step(&o->before[0].protocol) ? turn_end(&o->before[0].until, epoch) : 0;
    const double asked = w->unit == MU_EVERY_AUTO ? NAN : steps_of(w, epoch);
    double (*const steps)(double, double, double) =
        p->protocol->warm_steps ? p->protocol->warm_steps : mu_warm_steps;
    return (int64_t)fmin(ceil(steps(asked, epoch, end_of(task, epoch))), MOST_STEPS);
}

// As long as a warm start would be: late gradients of early weights are too much for a net.
static int64_t soft_steps(const mu_cluster_opts *o, const mu_setup *p, const mu_setup_task *task) {
    const double epoch = epoch_of(task, p);
    const bool as_it_is = o->momentum_rule == 1 + MU_MOMENTUM_PLAIN || o->rate_rule == 1 + MU_RATE_PLAIN;
    if (mu_setup_contributors(p) == 1 || as_it_is || mu_setup_sync_versions(p, 0)) return 0;
    return (int64_t)fmin(ceil(mu_warm_steps(NAN, epoch, end_of(task, epoch))), MOST_STEPS);
}

double mu_setup_softness(const mu_setup *p, int64_t step) {
    static const double least = 0.05;
    if (p->warm_versions || step >= p->soft_steps) return 1;
    return least + (1 - least) * (double)step / (double)p->soft_steps;
}

mu_status mu_setup_make(mu_binder *b, const mu_node *node, const mu_cluster_opts *o,
                        const mu_setup_task *task, mu_setup *out, mu_err *err) {
    const size_t n_errors = b->diags->n_errors;
    mu_setup p = {
        .learners = count_learners(o, task->batch, task->cores, task->nodes > 1 ? task->nodes : 1),
        .workers = (int)o->workers,
        .server_groups = (int)o->server_groups,
        .nodes = task->nodes,
        .node = task->node,
        .sync_every = o->sync_every,
        .sync_parts = o->sync_parts,
        .merge = o->merge,
        .architecture = (mu_architecture)o->architecture,
        .protocol = cluster_protocol(o),
        .reference_batch = task->batch,
        .locks = o->locks,
        .dense = o->gradients == MU_GRADIENTS_DENSE,
        .wire = (mu_half)o->wire,
        .pin = o->pin,
        .hang_timeout = o->hang_timeout,
        .max_losses = o->max_losses,
    };
    if (mu_setup_is_relayed(&p) && p.architecture == MU_ARCHITECTURE_BASE) p.server_groups = p.learners;
    if (mu_setup_is_relayed(&p) && p.server_groups > MU_RELAY_GROUPS)
        mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "learners"),
                     "at most %d groups send their gradients to rank 0, found %d", MU_RELAY_GROUPS,
                     p.server_groups);
    share_batch(b, node, o, &p);
    if (b->diags->n_errors > n_errors) return MU_FAIL(err, MU_EJOB, "`cluster` does not fit the job");
    configure_protocol(b, node, o, task, &p);
    place_server(node, o, task->cores, &p);
    p.warm_versions = warm_versions(o, &p, task);
    p.soft_steps = soft_steps(o, &p, task);
    if (b->diags->n_errors > n_errors) return MU_FAIL(err, MU_EJOB, "`cluster` does not fit the job");
    *out = p;
    return MU_OK;
}

double mu_setup_rate_share(const mu_setup *p, int phase, bool warming, int64_t staleness) {
    const mu_setup_phase *f = &p->phase[phase];
    const mu_core c = {.config = {.learners = mu_setup_contributors(p),
                                  .protocol = f->protocol,
                                  .splits = f->splits,
                                  .own = f->own,
                                  .rate_rule = (int32_t)f->rate_rule,
                                  .scale_free = f->stale.scale_free,
                                  .gradient_scale = mu_stale_gradient_scale(&f->stale)},
                       .sync_end = warming ? INT64_MAX : 0};
    return (double)mu_core_rate_share(&c, staleness);
}

bool mu_setup_is(const mu_setup *p, const char *protocol, int learners, int64_t rows, int64_t global_batch) {
    return mu_registry_find(&mu_protocols, protocol) == &p->protocol->plugin && p->learners == learners &&
           p->rows == rows && p->global_batch == global_batch;
}
