// SPDX-License-Identifier: Apache-2.0
// setup.c - the section `cluster:`, and what a run makes of it on this machine.
//
// Binding looks at the section alone: words, ranges, keys that contradict each other. The setup then adds
// the batch, the data and the cores, and is the only place where these decisions are made: launcher,
// learners, server and the text at start all read the same numbers.
//
// The job's batch B is the number of samples of one step, and a step stays that whatever the number of
// learners: mu = B / lambda, so rates and schedules found with one learner keep their meaning. Only a job
// that asks for a mu of its own (`batch`) leaves B, and then the rate follows (rudra 3.2, SPEC D3).
#include "ps/merge.h"

#include <math.h>

// Also in the range of `learners`. Slices are claimed with 12 bits of executor number (shared.h).
enum { MAX_LEARNERS = 1024 };
#define MOST_STEPS 0x1p53       // of a warm start: no run has more

const mu_field mu_cluster_fields[] = {
    MU_FIELD(mu_cluster_opts, learners, MU_INT_OR_AUTO, "1", "[1,1024]",
             "processes that train together on this machine; auto = one per core"),
    MU_FIELD(mu_cluster_opts, groups, MU_INT, "0", "[0,1024]",
             "another name of `learners`, where these are groups of workers; 0 = as `learners` says"),
    MU_FIELD(mu_cluster_opts, workers, MU_INT, "1", "[1,16]",
             "processes that compute each gradient of a learner together"),
    MU_FIELD_ENUM(mu_cluster_opts, partition, "batch", "none|batch|feature|auto",
                  "how workers share a layer whose block does not say so (`partition`): by rows of the "
                  "batch, by features, not, or as moves the fewest bytes; what cannot be cut so stands whole "
                  "at the first worker"),
    MU_FIELD_ENUM(mu_cluster_opts, gradients, "auto", "auto|dense",
                  "gradients travel in the smallest form, as factors or rows where these are smaller, or all "
                  "as dense ones; to compare"),
    MU_FIELD_CLASS(mu_cluster_opts, protocol, "hardsync", "protocol",
                   "how learners synchronise; or a list of such, each but the last with `until`: until when, "
                   "as `1 epoch` or `300 steps`"),
    MU_FIELD(mu_cluster_opts, batch, MU_INT, "0", "[0,1M]",
             "mu, samples per gradient of one learner; 0 = train.batch / learners"),
    MU_FIELD_ENUM(mu_cluster_opts, server, "auto", "auto|beside|process|both",
                  "who applies gradients: the learners beside their work, a process of its own, both, or "
                  "auto = both when a core is left for the process, else beside"),
    MU_FIELD(mu_cluster_opts, server_threads, MU_INT, "1", "[1,256]", "threads of the server process"),
    MU_FIELD(mu_cluster_opts, servers, MU_INT, "0", "[0,256]",
             "another name of `server_threads`: how many own slices of the weights; 0 = as that says"),
    MU_FIELD(mu_cluster_opts, server_groups, MU_INT, "1", "[1,64]",
             "copies of the weights, each trained by its share of the learners and merged with the others "
             "every `sync_every` updates"),
    MU_FIELD(mu_cluster_opts, sync_every, MU_INT, "50", "[1,1M]",
             "updates of a server group between two merges of the same weights"),
    MU_FIELD(
        mu_cluster_opts, sync_parts, MU_INT, "1", "[1,1024]",
        "parts of the net that are merged one after the other, `sync_every` / `sync_parts` updates apart"),
    MU_FIELD_CLASS(mu_cluster_opts, merge, "average", "merge", "how server groups merge their weights"),
    MU_FIELD_ENUM(mu_cluster_opts, weights, "shared", "shared|copy",
                  "learners compute on the shared weights, or on a copy of their own"),
    MU_FIELD(mu_cluster_opts, locks, MU_BOOL, "false", NULL,
             "weights are copied and changed under a read-write lock, so every copy is of one version"),
    MU_FIELD_ENUM(mu_cluster_opts, rate_rule, "auto", "auto|plain|mean|each",
                  "asynchronous rate: as it is, divided by the expected staleness, or by that of each "
                  "gradient; updaters that divide by the size of gradients divide it by its root, adagrad "
                  "not at all; auto = plain for hardsync, else mean"),
    MU_FIELD_ENUM(mu_cluster_opts, momentum_rule, "auto", "auto|plain|total|ahead",
                  "asynchronous momentum: as it is; lowered by what stale gradients act like; or of the same "
                  "memory in samples, with weights that look ahead; auto = ahead"),
    MU_FIELD(mu_cluster_opts, warm_start, MU_INTERVAL, "auto", NULL,
             "hardsync for this long first, such as `1 epoch` or `200 steps`; auto = 1 epoch, but at most a "
             "fifth of the steps or epochs of the training"),
    MU_FIELD(mu_cluster_opts, hang_timeout, MU_DURATION, "10s", "[0.1,)",
             "a learner without a sign of life for this long is replaced"),
    MU_FIELD(mu_cluster_opts, max_losses, MU_INT, "20", "[1,)",
             "times a learner may be lost in a row, without a finished gradient, before the run gives up"),
    MU_FIELD(mu_cluster_opts, pin, MU_BOOL, "true", NULL, "each learner stays on a core of its own"),
    {0},
};

// ---- the section alone ----

static bool is_given(const mu_node *node, const char *key) {
    return !mu_node_is_null(mu_node_find(node, key));
}

// Of a key's value; of the section, when the key is not in it.
static mu_srcpos place_of(const mu_node *node, const char *key) {
    const mu_node *value = mu_node_find(node, key);
    return value ? value->pos : node ? node->key_pos : MU_NOPOS;
}

static const mu_protocol_class *protocol_of(const mu_cluster_opts *o) {
    return (const mu_protocol_class *)o->protocol.plugin;
}

static void refuse(mu_binder *b, const mu_node *node, const char *key, const char *msg, const char *label) {
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, key), "%s", msg);
    mu_diag_label(b->diags, g, "%s", label);
}

// True: the protocol objects to a choice that the section makes at this key.
static bool refuse_choice(mu_binder *b, const mu_node *node, const mu_cluster_opts *o, mu_choice choice,
                          const char *key) {
    mu_objection no;
    for (int i = 0; i <= o->n_before; i++) {
        const mu_class_ref *ref = i < o->n_before ? &o->before[i].protocol : &o->protocol;
        const mu_protocol_class *p = (const mu_protocol_class *)(const void *)ref->plugin;
        if (!p || !mu_protocol_objects(p, choice, &no)) continue;
        refuse(b, node, key, no.why, no.instead);
        return true;
    }
    return false;
}

// ---- protocols in turn ----

static const char *const turn_keys[] = {"until"};

static mu_interval bind_until(mu_binder *b, const mu_node *item, bool last) {
    mu_interval until = {.unit = MU_EVERY_NEVER};
    const mu_node *node = mu_node_find(item, "until");
    const char *text = mu_node_text(node);
    if (mu_node_is_null(node)) {
        mu_diag *g = last ? NULL
                          : mu_diags_add(b->diags, MU_DIAG_ERROR, item->pos,
                                         "a protocol that another follows needs `until`");
        if (g) mu_diag_label(b->diags, g, "such as `until: 1 epoch`");
    } else if (last) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, node->pos, "the last protocol has no `until`");
        mu_diag_label(b->diags, g, "it goes on to the end");
    } else if (!text || !mu_parse_interval(text, &until) ||
               (until.unit != MU_EVERY_STEP && until.unit != MU_EVERY_EPOCH)) {
        mu_diag *g =
            mu_diags_add(b->diags, MU_DIAG_ERROR, node->pos, "`until` is a number of steps or epochs");
        mu_diag_label(b->diags, g,
                      "such as `1 epoch` or `200 steps`, counted from the start of the training");
    }
    return until;
}

static bool is_in_step(const mu_class_ref *ref) {
    return ref->plugin && ((const mu_protocol_class *)(const void *)ref->plugin)->sync_versions;
}
static bool is_queued(const mu_class_ref *ref) {
    return !ref->plugin || ((const mu_protocol_class *)(const void *)ref->plugin)->take;
}

// What may follow what: samples of steps are shared out in advance, and learners that change weights
// themselves count from where the steps in step end.
static void check_turn(mu_binder *b, const mu_cluster_opts *o, int i, const mu_class_ref *ref,
                       const mu_node *item) {
    mu_diag *g = NULL;
    const bool last = i == o->n_before;
    if (i > 0 && is_in_step(ref)) {
        g = mu_diags_add(b->diags, MU_DIAG_ERROR, item->pos, "%s can only come first", ref->plugin->name);
        mu_diag_label(b->diags, g, "behind it learners no longer make the same steps");
    } else if (!is_queued(ref) && !last) {
        g = mu_diags_add(b->diags, MU_DIAG_ERROR, item->pos, "%s can only come last", ref->plugin->name);
        mu_diag_label(b->diags, g, "its learners have weights or history of their own");
    } else if (!is_queued(ref) && i > 0 && (i > 1 || !is_in_step(&o->before[0].protocol))) {
        g = mu_diags_add(b->diags, MU_DIAG_ERROR, item->pos, "%s can follow hardsync alone",
                         ref->plugin->name);
        mu_diag_label(b->diags, g, "or begin the training");
    }
}

static mu_class_ref bind_turn(mu_binder *b, const mu_node *item) {
    const char *type = mu_node_find(item, "name") && !mu_node_find(item, "type") ? "name" : "type";
    return mu_bind_class(b, item, item->pos, "`cluster.protocol`", &mu_protocols, type, turn_keys,
                         MU_COUNT(turn_keys));
}

static void bind_turns(mu_binder *b, const mu_node *list, mu_cluster_opts *o) {
    const size_t n_errors = b->diags->n_errors;
    if (list->n < 1 || list->n > MU_COUNT(o->before) + 1) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, list->pos, "%zu protocols in turn", list->n);
        mu_diag_label(b->diags, g, "1 to %zu", MU_COUNT(o->before) + 1);
        return;
    }
    o->n_before = (int)list->n - 1;
    for (size_t i = 0; i < list->n; i++) {
        const bool last = i + 1 == list->n;
        const mu_node *item = list->item[i];
        const mu_class_ref ref = bind_turn(b, item);
        const mu_interval until = bind_until(b, item, last);
        if (last) o->protocol = ref;
        else o->before[i] = (mu_protocol_turn){ref, until, item};
        if (b->diags->n_errors == n_errors) check_turn(b, o, (int)i, &ref, item);
    }
    const bool in_step_first = o->n_before > 0 && is_in_step(&o->before[0].protocol);
    if (o->n_before - in_step_first >= MU_CORE_PHASES && b->diags->n_errors == n_errors)
        mu_diags_add(b->diags, MU_DIAG_ERROR, list->pos, "at most %d protocols behind hardsync",
                     MU_CORE_PHASES);
}

// The section without the key, whose value is a list and bound by hand.
static const mu_node *without(mu_binder *b, const mu_node *map, const mu_node *value) {
    mu_node *copy = mu_arena_alloc(b->arena, sizeof *copy);
    mu_node **item = mu_arena_alloc(b->arena, map->n * sizeof *item);
    if (!copy || !item) {
        mu_diags_no_memory(b->diags);
        return map;
    }
    *copy = *map;
    copy->item = item;
    copy->n = 0;
    for (size_t i = 0; i < map->n; i++)
        if (map->item[i] != value) item[copy->n++] = map->item[i];
    return copy;
}

static void check_workers(mu_binder *b, const mu_node *node, mu_cluster_opts *o) {
    if (o->groups && is_given(node, "learners"))
        refuse(b, node, "groups", "`groups` and `learners` in `cluster` are the same number",
               "write one of them; `--set cluster.groups=N` changes this one, `--learners N` the other");
    if (o->groups) o->learners = o->groups;
    if (o->workers > 1) (void)refuse_choice(b, node, o, MU_CHOICE_WORKERS, "workers");
    if (o->servers && is_given(node, "server_threads"))
        refuse(b, node, "servers", "`servers` and `server_threads` in `cluster` are the same number",
               "write one of them");
    if (o->servers) o->server_threads = o->servers;
}

// What is not given follows from the ranks: a server group each, and a learner in each of these.
static void spread_over_ranks(mu_binder *b, const mu_node *node, int ranks, mu_cluster_opts *o) {
    const mu_merge_class *merge = (const mu_merge_class *)(const void *)o->merge.plugin;
    if (ranks < 2) return;
    if (!is_given(node, "server_groups")) o->server_groups = ranks;
    if (!is_given(node, "learners") && !o->groups) o->learners = o->server_groups;
    if (o->server_groups % ranks) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, "server_groups"),
                                  "%lld server groups cannot be spread evenly over %d ranks",
                                  (long long)o->server_groups, ranks);
        mu_diag_label(b->diags, g, "write a multiple of %d, or leave it out", ranks);
    }
    if (merge && merge->most_ahead) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, "merge"),
                                  "`merge: %s` does not work over several ranks", merge->plugin.name);
        mu_diag_label(b->diags, g, "use average or outer");
    }
}

static void check_server_groups(mu_binder *b, const mu_node *node, const mu_cluster_opts *o) {
    static const char *const keys[] = {"sync_every", "sync_parts", "merge"};
    for (size_t i = 0; i < MU_COUNT(keys); i++)
        if (o->server_groups == 1 && is_given(node, keys[i])) {
            mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, keys[i]),
                                      "`%s` in `cluster` has no meaning with one server group", keys[i]);
            mu_diag_label(b->diags, g, "leave it out, or set `server_groups`");
        }
    if (o->server_groups > 1) (void)refuse_choice(b, node, o, MU_CHOICE_SERVER_GROUPS, "server_groups");
    const mu_merge_class *merge = (const mu_merge_class *)(const void *)o->merge.plugin;
    const char *problem = merge && merge->check ? merge->check(o->merge.state) : NULL;
    if (problem)
        (void)mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, "merge"), "`merge` in `cluster`: %s",
                           problem);
    if (o->sync_parts > o->sync_every)
        refuse(b, node, is_given(node, "sync_parts") ? "sync_parts" : "sync_every",
               "`sync_parts` in `cluster` is more than `sync_every`", "at most one part an update");
}

static void check_together(mu_binder *b, const mu_node *node, int ranks, mu_cluster_opts *o) {
    if (o->warm_start.unit == MU_EVERY_SECOND)
        refuse(b, node, "warm_start", "`warm_start` in `cluster` cannot be a time",
               "write epochs or steps, such as `1 epoch`");
    check_workers(b, node, o);
    spread_over_ranks(b, node, ranks, o);
    check_server_groups(b, node, o);
    if (o->n_before && is_given(node, "warm_start"))
        refuse(b, node, "warm_start", "`warm_start` is what a list of protocols says itself",
               "leave it out, or begin the list with hardsync");
    const bool refused =
        o->server != MU_SERVER_AUTO && refuse_choice(b, node, o, MU_CHOICE_SERVER, "server");
    const char *threads = is_given(node, "servers") ? "servers" : "server_threads";
    if (!refused && o->server == MU_SERVER_BESIDE && is_given(node, threads)) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, threads),
                                  "`%s` has no meaning with `server: beside`", threads);
        mu_diag_label(b->diags, g, "leave it out, or write `server: process`");
    }
    if (o->rate_rule == 1 + MU_RATE_EACH) (void)refuse_choice(b, node, o, MU_CHOICE_RATE_EACH, "rate_rule");
    if (!o->locks || refuse_choice(b, node, o, MU_CHOICE_LOCKS, "locks")) return;
    if (is_given(node, "weights") && o->weights == MU_WEIGHTS_SHARED)
        refuse(b, node, "weights", "`locks` protect copying, `weights: shared` is not copied",
               "write `copy`, or leave `locks` out");
}

mu_cluster_opts *mu_cluster_bind(mu_binder *b, const mu_node *node, int ranks) {
    const size_t n_errors = b->diags->n_errors;
    mu_cluster_opts *o = mu_arena_alloc(b->arena, sizeof *o);
    if (!o) {
        mu_diags_no_memory(b->diags);
        return NULL;
    }
    const mu_node *turns = mu_node_find(node, "protocol");
    const bool in_turn = node && turns && turns->kind == MU_LIST;
    mu_bind(b, in_turn ? without(b, node, turns) : node, node ? node->key_pos : MU_NOPOS, "`cluster`",
            &(mu_bind_part){mu_cluster_fields, o}, 1, NULL, 0);
    if (in_turn) bind_turns(b, turns, o);
    if (node && node->kind != MU_MAP) node = NULL; // reported
    check_together(b, node, ranks, o);
    return b->diags->n_errors == n_errors && o->protocol.plugin ? o : NULL;
}

// ---- the setup ----

// auto never asks for more learners than there are samples to share.
static int count_learners(const mu_cluster_opts *o, int64_t train_batch, int cores) {
    int64_t n = (cores > MAX_LEARNERS ? MAX_LEARNERS : cores) / o->workers;
    if (!o->batch && n > train_batch) n = train_batch;
    n -= n % o->server_groups;
    if (n < o->server_groups) n = o->server_groups;
    if (o->learners != MU_AUTO) n = o->learners;
    return (int)n;
}

static int learners_of_group(const mu_setup *p) { return p->learners / p->server_groups; }

mu_setup mu_setup_of_group(const mu_setup *p) {
    mu_setup g = *p;
    g.server_groups = 1;
    g.learners = learners_of_group(p);
    g.global_batch /= p->server_groups;
    g.reference_batch /= p->server_groups;
    return g;
}

// Learners and batch can be dealt to the server groups. False: reported.
static bool deal_to_groups(mu_binder *b, const mu_node *node, const mu_cluster_opts *o, const mu_setup *p) {
    const int n = p->server_groups;
    if (p->learners % n) {
        mu_diag *g =
            mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, "server_groups"),
                         "%d learners cannot be spread evenly over %d server groups", p->learners, n);
        mu_diag_label(b->diags, g, "%s", p->learners < n ? "at most one group for each learner"
                                                         : "write a divisor of `learners`");
    } else if (!o->batch && p->reference_batch % n) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, "server_groups"),
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
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, "workers"),
                                  "%d learners of %d workers are %d processes", p->learners, p->workers,
                                  mu_setup_processes(p));
        mu_diag_label(b->diags, g, "at most %d in all", MAX_LEARNERS);
    }
    if (p->global_batch >= p->learners) return;
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, place_of(node, "learners"),
                              "%d learners cannot share a batch of %lld", p->learners,
                              (long long)p->global_batch);
    mu_diag_label(b->diags, g, "at most %lld, or set `batch` in `cluster`", (long long)p->global_batch);
}

// The phase of a protocol with these keys. A gradient of one learner alone is never stale.
static mu_setup_phase phase_of(const mu_cluster_opts *o, const mu_setup *p,
                               const mu_class_ref *ref, const mu_updater *u) {
    const mu_protocol_class *c = (const mu_protocol_class *)(const void *)ref->plugin;
    const int learners = learners_of_group(p);
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
                              is_given(block, key) ? place_of(block, key) : place_of(node, "protocol"),
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
    const int first = o->n_before > 0 && is_in_step(&o->before[0].protocol); // the warm start
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
        check_needs(b, node, block, ref, learners_of_group(p));
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
    bool spare = (processes > 1 && cores >= processes + p->server_groups) || o->servers ||
                 is_given(node, "server_threads");
    p->server = o->server != MU_SERVER_AUTO ? (mu_server_place)o->server
                : spare                     ? MU_SERVER_BOTH
                                            : MU_SERVER_BESIDE;
    if (mu_setup_has_no_server(p)) p->server = MU_SERVER_BESIDE;
    p->server_threads = p->server == MU_SERVER_BESIDE ? 0 : (int)o->server_threads;
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
    if (learners_of_group(p) == 1) return 0;
    if (o->n_before) return is_in_step(&o->before[0].protocol) ? turn_end(&o->before[0].until, epoch) : 0;
    const double asked = w->unit == MU_EVERY_AUTO ? NAN : steps_of(w, epoch);
    double (*const steps)(double, double, double) =
        p->protocol->warm_steps ? p->protocol->warm_steps : mu_warm_steps;
    return (int64_t)fmin(ceil(steps(asked, epoch, end_of(task, epoch))), MOST_STEPS);
}

// As long as a warm start would be: late gradients of early weights are too much for a net.
static int64_t soft_steps(const mu_cluster_opts *o, const mu_setup *p, const mu_setup_task *task) {
    const double epoch = epoch_of(task, p);
    const bool as_it_is = o->momentum_rule == 1 + MU_MOMENTUM_PLAIN || o->rate_rule == 1 + MU_RATE_PLAIN;
    if (learners_of_group(p) == 1 || as_it_is || mu_setup_sync_versions(p, 0)) return 0;
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
        .learners = count_learners(o, task->batch, task->cores),
        .workers = (int)o->workers,
        .server_groups = (int)o->server_groups,
        .nodes = task->nodes,
        .node = task->node,
        .sync_every = o->sync_every,
        .sync_parts = o->sync_parts,
        .merge = o->merge,
        .protocol = protocol_of(o),
        .reference_batch = task->batch,
        .locks = o->locks,
        .dense = o->gradients == MU_GRADIENTS_DENSE,
        .pin = o->pin,
        .hang_timeout = o->hang_timeout,
        .max_losses = o->max_losses,
    };
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
    const mu_core c = {.config = {.learners = learners_of_group(p),
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
