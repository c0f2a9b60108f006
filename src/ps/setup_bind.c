// SPDX-License-Identifier: Apache-2.0
// setup_bind.c - the section `cluster:` alone: words, ranges, keys that contradict each other. What a run
// makes of it is decided in setup.c.
#include "ps/setup_inner.h"

#include <string.h>

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
    MU_FIELD_ENUM(mu_cluster_opts, wire, "fp32", "fp32|bf16|fp16",
                  "floats of sums of gradients between ranks: as they are, or rounded to two bytes; what "
                  "rounding leaves out goes with the next step's"),
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
    MU_FIELD_ENUM(mu_cluster_opts, architecture, "auto", "auto|base|adv|adv*",
                  "how several ranks train one copy of the weights, by any protocol, with rank 0 as the "
                  "server: gradients of each learner go there (base), or sums of each rank's (adv), or sums "
                  "while learners go on, and weights down a tree of ranks (adv*); auto = hardsync in which all "
                  "ranks make each update, or server groups"),
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

static void refuse(mu_binder *b, const mu_node *node, const char *key, const char *msg, const char *label) {
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, key), "%s", msg);
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

static bool is_queued(const mu_class_ref *ref) {
    return !ref->plugin || ((const mu_protocol_class *)(const void *)ref->plugin)->take;
}

// What may follow what: samples of steps are shared out in advance, and learners that change weights
// themselves count from where the steps in step end.
static void check_turn(mu_binder *b, const mu_cluster_opts *o, int i, const mu_class_ref *ref,
                       const mu_node *item) {
    mu_diag *g = NULL;
    const bool last = i == o->n_before;
    if (i > 0 && cluster_is_in_step(ref)) {
        g = mu_diags_add(b->diags, MU_DIAG_ERROR, item->pos, "%s can only come first", ref->plugin->name);
        mu_diag_label(b->diags, g, "behind it learners no longer make the same steps");
    } else if (!is_queued(ref) && !last) {
        g = mu_diags_add(b->diags, MU_DIAG_ERROR, item->pos, "%s can only come last", ref->plugin->name);
        mu_diag_label(b->diags, g, "its learners have weights or history of their own");
    } else if (!is_queued(ref) && i > 0 && (i > 1 || !cluster_is_in_step(&o->before[0].protocol))) {
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
    const bool in_step_first = o->n_before > 0 && cluster_is_in_step(&o->before[0].protocol);
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
    if (o->groups && cluster_is_given(node, "learners"))
        refuse(b, node, "groups", "`groups` and `learners` in `cluster` are the same number",
               "write one of them; `--set cluster.groups=N` changes this one, `--learners N` the other");
    if (o->groups) o->learners = o->groups;
    if (o->workers > 1) (void)refuse_choice(b, node, o, MU_CHOICE_WORKERS, "workers");
    if (o->servers && cluster_is_given(node, "server_threads"))
        refuse(b, node, "servers", "`servers` and `server_threads` in `cluster` are the same number",
               "write one of them");
    if (o->servers) o->server_threads = o->servers;
}

static bool is_always_in_step(const mu_cluster_opts *o) {
    const mu_protocol_class *p = (const mu_protocol_class *)(const void *)o->protocol.plugin;
    return p && !o->n_before && p->sync_versions && p->sync_versions(0) == INT64_MAX;
}

// Learners or groups that ranks have equally many of, or, in step, workers of a learner.
static void check_spread(mu_binder *b, const mu_node *node, int ranks, bool in_step,
                         const mu_cluster_opts *o) {
    if (o->learners == MU_AUTO || o->learners % ranks == 0) return;
    if (in_step && ranks % o->learners == 0 && o->workers % (ranks / o->learners) == 0) return;
    if (in_step && o->workers > 1) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "workers"),
                                  "%lld learner%s of %lld workers cannot be spread evenly over %d ranks",
                                  (long long)o->learners, o->learners == 1 ? "" : "s", (long long)o->workers,
                                  ranks);
        const int64_t each = ranks / o->learners;
        if (ranks % o->learners)
            mu_diag_label(b->diags, g, "`learners` has to be a multiple of %d, or a divisor", ranks);
        else
            mu_diag_label(b->diags, g, "each learner is on %lld ranks: write a multiple of that",
                          (long long)each);
        return;
    }
    const char *key = o->groups ? "groups" : "learners";
    mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, key),
                              "%lld learners cannot be spread evenly over %d ranks", (long long)o->learners,
                              ranks);
    mu_diag_label(b->diags, g, "write a multiple of %d, or leave it out", ranks);
}

// One server group on all ranks: every rank makes every update.
static void check_joint(mu_binder *b, const mu_node *node, int ranks, const mu_cluster_opts *o) {
    if (!is_always_in_step(o)) {
        refuse(b, node, cluster_is_given(node, "protocol") ? "protocol" : "server_groups",
               "one server group on several ranks needs `protocol: hardsync`",
               "other protocols work inside server groups: leave `server_groups` out, or write a multiple of "
               "the "
               "ranks");
    } else {
        check_spread(b, node, ranks, true, o);
    }
}

// Rank 0 is the server of all: nobody else has weights of their own, or applies.
static void check_relayed(mu_binder *b, const mu_node *node, int ranks, mu_cluster_opts *o) {
    static const char *const keys[] = {"server_groups", "sync_every", "sync_parts", "merge"};
    bool queued = is_queued(&o->protocol);
    for (int i = 0; i < o->n_before; i++) queued &= is_queued(&o->before[i].protocol);
    for (size_t i = 0; i < MU_COUNT(keys); i++)
        if (cluster_is_given(node, keys[i]))
            refuse(b, node, keys[i],
                   "with `architecture` there is one copy of the weights, and nothing to merge",
                   "leave one of the two out");
    if (!queued)
        refuse(b, node, "protocol", "learners of this protocol change the weights themselves: rank 0 cannot",
               "use hardsync, softsync, ssp or async, or leave `architecture` out");
    if (o->workers > 1)
        refuse(b, node, "workers", "`workers` of learners need a server group on each rank",
               "leave `architecture` or `workers` out");
    if (o->server != MU_SERVER_AUTO)
        refuse(b, node, "server", "with `architecture` rank 0 applies gradients", "leave `server` out");
    if (o->locks || o->weights == MU_WEIGHTS_COPY)
        refuse(b, node, o->locks ? "locks" : "weights",
               "with `architecture` weights change only while no learner of the rank reads them",
               "leave it out");
    if (!cluster_is_given(node, "learners") && !o->groups) o->learners = ranks;
    o->server_groups = ranks;
    check_spread(b, node, ranks, false, o);
}

// What is not given follows from the ranks. Learners in step are one server group; else each rank has one of
// its own. A learner each.
static void spread_over_ranks(mu_binder *b, const mu_node *node, int ranks, mu_cluster_opts *o) {
    if (ranks < 2) return;
    if (o->architecture != MU_ARCHITECTURE_AUTO) {
        check_relayed(b, node, ranks, o);
        return;
    }
    const bool merges = cluster_is_given(node, "sync_every") || cluster_is_given(node, "sync_parts") ||
                        cluster_is_given(node, "merge");
    if (!cluster_is_given(node, "server_groups"))
        o->server_groups = is_always_in_step(o) && !merges ? 1 : ranks;
    if (!cluster_is_given(node, "learners") && !o->groups)
        o->learners = o->server_groups > 1 ? o->server_groups : ranks;
    const bool spread = o->workers > 1 && o->learners != MU_AUTO && o->learners < ranks;
    if (o->server_groups == 1) {
        check_joint(b, node, ranks, o);
    } else if (spread && !is_always_in_step(o)) {
        refuse(b, node, cluster_is_given(node, "protocol") ? "protocol" : "workers",
               "workers of a learner on several ranks need `protocol: hardsync`",
               "use that, or at least as many learners as ranks");
    } else if (o->server_groups % ranks) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "server_groups"),
                                  "%lld server groups cannot be spread evenly over %d ranks",
                                  (long long)o->server_groups, ranks);
        mu_diag_label(b->diags, g, "write a multiple of %d, or leave it out", ranks);
    }
}

// Sums of gradients are what is rounded: with one rank, or groups that merge, there are none.
static void check_wire(mu_binder *b, const mu_node *node, int ranks, const mu_cluster_opts *o) {
    const bool merges = o->server_groups > 1 && o->architecture == MU_ARCHITECTURE_AUTO;
    if (!o->wire) return;
    if (ranks < 2) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_WARNING, cluster_place_of(node, "wire"),
                                  "`wire` in `cluster` changes nothing: with one rank nothing travels");
        mu_diag_label(b->diags, g, "it is for several ranks, such as those of `mpirun -n 2`");
    } else if (merges) {
        refuse(b, node, "wire", "`wire` in `cluster` is for gradients: server groups send their weights",
               "leave it out, or write `server_groups: 1` or an `architecture`");
    }
}

static void check_server_groups(mu_binder *b, const mu_node *node, int ranks, const mu_cluster_opts *o) {
    static const char *const keys[] = {"sync_every", "sync_parts", "merge"};
    for (size_t i = 0; i < MU_COUNT(keys); i++)
        if (o->server_groups == 1 && cluster_is_given(node, keys[i])) {
            mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, keys[i]),
                                      "`%s` in `cluster` has no meaning with one server group", keys[i]);
            mu_diag_label(b->diags, g, "leave it out, or set `server_groups`");
        }
    const bool relayed = ranks > 1 && o->architecture != MU_ARCHITECTURE_AUTO;
    if (o->server_groups > 1 && !relayed)
        (void)refuse_choice(b, node, o, MU_CHOICE_SERVER_GROUPS, "server_groups");
    const mu_merge_class *merge = (const mu_merge_class *)(const void *)o->merge.plugin;
    const char *problem = merge && merge->check ? merge->check(o->merge.state) : NULL;
    if (problem)
        (void)mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, "merge"),
                           "`merge` in `cluster`: %s", problem);
    if (o->sync_parts > o->sync_every)
        refuse(b, node, cluster_is_given(node, "sync_parts") ? "sync_parts" : "sync_every",
               "`sync_parts` in `cluster` is more than `sync_every`", "at most one part an update");
}

static void check_together(mu_binder *b, const mu_node *node, int ranks, mu_cluster_opts *o) {
    if (o->warm_start.unit == MU_EVERY_SECOND)
        refuse(b, node, "warm_start", "`warm_start` in `cluster` cannot be a time",
               "write epochs or steps, such as `1 epoch`");
    check_workers(b, node, o);
    spread_over_ranks(b, node, ranks, o);
    check_wire(b, node, ranks, o);
    check_server_groups(b, node, ranks, o);
    if (o->n_before && cluster_is_given(node, "warm_start"))
        refuse(b, node, "warm_start", "`warm_start` is what a list of protocols says itself",
               "leave it out, or begin the list with hardsync");
    const bool refused = o->server != MU_SERVER_AUTO && refuse_choice(b, node, o, MU_CHOICE_SERVER, "server");
    const char *threads = cluster_is_given(node, "servers") ? "servers" : "server_threads";
    if (!refused && o->server == MU_SERVER_BESIDE && cluster_is_given(node, threads)) {
        mu_diag *g = mu_diags_add(b->diags, MU_DIAG_ERROR, cluster_place_of(node, threads),
                                  "`%s` has no meaning with `server: beside`", threads);
        mu_diag_label(b->diags, g, "leave it out, or write `server: process`");
    }
    if (o->rate_rule == 1 + MU_RATE_EACH) (void)refuse_choice(b, node, o, MU_CHOICE_RATE_EACH, "rate_rule");
    if (!o->locks || refuse_choice(b, node, o, MU_CHOICE_LOCKS, "locks")) return;
    if (cluster_is_given(node, "weights") && o->weights == MU_WEIGHTS_SHARED)
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
    // Planned before a training (plan/auto.h), which edits the job; who does not train has one learner.
    const char *word = mu_node_text(node);
    if (word && !strcmp(word, "auto")) node = NULL;
    const mu_node *turns = mu_node_find(node, "protocol");
    const bool in_turn = node && turns && turns->kind == MU_LIST;
    mu_bind(b, in_turn ? without(b, node, turns) : node, node ? node->key_pos : MU_NOPOS, "`cluster`",
            &(mu_bind_part){mu_cluster_fields, o}, 1, NULL, 0);
    if (in_turn) bind_turns(b, turns, o);
    if (node && node->kind != MU_MAP) node = NULL; // reported
    check_together(b, node, ranks, o);
    return b->diags->n_errors == n_errors && o->protocol.plugin ? o : NULL;
}
