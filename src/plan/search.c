// SPDX-License-Identifier: Apache-2.0
// search.c - see search.h.
#include "plan/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const mu_costs *k;
    const mu_machine *m;
    const mu_plan_space *space;
    const mu_plan_corrections *by;
    mu_plan *out;
    mu_err last;                        // why the last one that was refused was
} search;

double mu_plan_total_s(const mu_plan_space *space, const mu_prediction *p) {
    return p->start_s + space->epochs * p->epoch_s;
}

// ---- the best so far ----

// Equally fast: fewer nodes, fewer processes, and in the order they are made.
static bool is_before(const mu_plan_choice *a, const mu_plan_choice *b) {
    if (a->prediction.epoch_s != b->prediction.epoch_s) return a->prediction.epoch_s < b->prediction.epoch_s;
    if (a->config.nodes != b->config.nodes) return a->config.nodes < b->config.nodes;
    return mu_config_processes(&a->config) < mu_config_processes(&b->config);
}

static void keep(mu_plan *p, const mu_plan_choice *new) {
    int at = p->n;
    while (at > 0 && is_before(new, &p->choice[at - 1])) at--;
    if (at == MU_PLAN_BEST) return;
    if (p->n < MU_PLAN_BEST) p->n++;
    memmove(&p->choice[at + 1], &p->choice[at], (size_t)(p->n - 1 - at) * sizeof *p->choice);
    p->choice[at] = *new;
}

// Among those that keep the deadline the one with the fewest nodes, then processes.
static bool is_cheaper(const mu_config *a, const mu_config *b) {
    if (a->nodes != b->nodes) return a->nodes < b->nodes;
    return mu_config_processes(a) < mu_config_processes(b);
}

typedef struct cheapest { bool known; mu_plan_choice choice; } cheapest;

static void note_in_time(const search *s, cheapest *c, const mu_plan_choice *new) {
    if (s->space->deadline_s <= 0 || mu_plan_total_s(s->space, &new->prediction) > s->space->deadline_s) return;
    if (c->known && !is_cheaper(&new->config, &c->choice.config) &&
        (is_cheaper(&c->choice.config, &new->config) || !is_before(new, &c->choice)))
        return;
    *c = (cheapest){true, *new};
}

static void look_at(search *s, const mu_config *c, cheapest *in_time) {
    mu_plan_choice new = {.config = *c};
    mu_err err = {0};
    const double memory = s->space->memory_bytes > 0 ? s->space->memory_bytes : s->m->memory_bytes;
    s->out->looked_at++;
    if (mu_predict(s->k, s->m, c, s->by, &new.prediction, &err) != MU_OK) {
        s->last = err;
        return;
    }
    if (memory > 0 && new.prediction.memory_bytes > memory) {
        s->out->too_large++;
        return;
    }
    note_in_time(s, in_time, &new);
    keep(s->out, &new);
}

// ---- all ways to train with the same processes and samples ----

static const int threads_of[] = {1, 2, 4};

static int list_servers(const search *s, const mu_config *c, const mu_protocol_class *p, mu_config out[8]) {
    mu_objection no;
    int n = 0;
    out[n] = *c;
    if (mu_protocol_objects(p, MU_CHOICE_SERVER, &no) || mu_config_processes(c) == 1 ||
        c->architecture != MU_ARCHITECTURE_AUTO)
        return 1;
    out[n++].server = MU_SERVER_BESIDE;
    for (size_t i = 0; i < sizeof threads_of / sizeof *threads_of; i++) {
        if (threads_of[i] > s->m->cores - mu_config_node_processes(c)) break; // a server without a core only disturbs
        out[n] = *c;
        out[n].server_threads = threads_of[i];
        out[n++].server = MU_SERVER_PROCESS;
        out[n] = *c;
        out[n].server_threads = threads_of[i];
        out[n++].server = MU_SERVER_BOTH;
    }
    return n;
}

static void look_at_servers(search *s, const mu_config *c, const mu_protocol_class *p, cheapest *in_time) {
    mu_config with[8];
    const int n = list_servers(s, c, p, with);
    for (int i = 0; i < n; i++) look_at(s, &with[i], in_time);
}

static int64_t count_ways(const search *s, const mu_config *c) {
    const int roots = c->nodes > 1 && s->space->roots ? 3 : 0;
    return (int64_t)s->space->n_protocols * (1 + roots + (c->nodes > 1 && s->space->merges));
}

static void look_at_protocol(search *s, const mu_config *with, const mu_plan_protocol *p, cheapest *in_time) {
    mu_config c = *with;
    const mu_protocol_class *class = (const mu_protocol_class *)(const void *)p->how.plugin;
    const bool in_step = class->sync_versions && class->sync_versions(0) == INT64_MAX;
    memcpy(c.protocol, p->text, sizeof c.protocol);
    c.how = p->how;
    if (c.nodes == 1 || (in_step && c.workers == 1)) look_at_servers(s, &c, class, in_time);
    if (c.nodes > 1 && s->space->merges && c.nodes <= 64) {
        mu_config groups = c;
        groups.server_groups = c.nodes;
        groups.sync_every = s->space->sync_every > 0 ? s->space->sync_every : 50;
        snprintf(groups.merge, sizeof groups.merge, "average");
        look_at_servers(s, &groups, class, in_time);
    }
    for (int a = MU_ARCHITECTURE_BASE; a <= MU_ARCHITECTURE_ADV_STAR; a++) {
        if (c.nodes < 2 || !s->space->roots || !class->take || c.workers > 1) break;
        if (a == MU_ARCHITECTURE_BASE && c.learners > 64) continue;     // MU_MERGE_GROUPS
        c.architecture = (mu_architecture)a;
        look_at(s, &c, in_time);
    }
}

// In an epoch these processes compute at least so long.
static double least_epoch_s(const search *s, const mu_config *c) {
    const double step = (double)(c->own_mu ? c->mu * c->learners : s->k->batch);
    return (double)s->k->records / step * mu_predict_least_s(s->k, s->m, c, NULL);
}

// Corrections of a run may make a protocol faster than it computes: what they can make of it at most.
static double most_gain(const search *s, const mu_config *with) {
    double least = 1;
    for (int i = 0; s->by && s->by->of && i < s->space->n_protocols; i++) {
        mu_config c = *with;
        memcpy(c.protocol, s->space->protocol[i].text, sizeof c.protocol);
        c.how = s->space->protocol[i].how;
        const mu_plan_factors *f = s->by->of(s->by->ctx, &c);
        if (f) least = fmin(least, f->of[MU_TERM_COMPUTE]);
    }
    return least;
}

static void look_at_processes(search *s, mu_config *c, cheapest *in_time) {
    if (!c->own_mu && c->learners > s->k->batch) return;
    s->out->possible += count_ways(s, c);
    c->how = s->space->protocol[0].how;
    const double least = least_epoch_s(s, c) * most_gain(s, c);
    const bool full = s->out->n == MU_PLAN_BEST;
    const bool slow = full && least >= s->out->choice[MU_PLAN_BEST - 1].prediction.epoch_s;
    if (slow && s->space->deadline_s <= 0 && !s->space->everything) return;
    const int n = c->learners == 1 ? 1 : s->space->n_protocols; // one learner has nobody to synchronise with
    for (int i = 0; i < n; i++) look_at_protocol(s, c, &s->space->protocol[i], in_time);
}

// ---- all processes ----

static void look_at_samples(search *s, mu_config *c, cheapest *in_time) {
    if (s->space->share) {
        c->mu = (s->k->batch + c->learners - 1) / c->learners;
        c->own_mu = false;
        look_at_processes(s, c, in_time);
    }
    for (int i = 0; i < s->space->n_mu; i++) {
        c->mu = s->space->mu[i];
        c->own_mu = true;
        look_at_processes(s, c, in_time);
    }
}

static void look_at_workers(search *s, int nodes, int learners, int workers, cheapest *in_time) {
    mu_config c = {.nodes = nodes, .learners = nodes * learners, .workers = workers, .server_groups = 1};
    if (workers == 1) {
        look_at_samples(s, &c, in_time);
        return;
    }
    for (int cut = 1; cut >= 0; cut--) {
        c.auto_cut = cut;
        if (mu_costs_split(s->k, workers, c.auto_cut)) look_at_samples(s, &c, in_time);
    }
}

static void look_at_nodes(search *s, int nodes, cheapest *in_time) {
    const int64_t most = s->space->most_learners > 0 ? s->space->most_learners : INT32_MAX;
    for (int workers = s->m->cores < 16 ? s->m->cores : 16; workers >= 1; workers--) {
        if (workers > s->space->most_workers || (workers > 1 && !mu_costs_split(s->k, workers, true) &&
                                                 !mu_costs_split(s->k, workers, false)))
            continue;
        // Many first: they are fast, and what is slower is then passed over.
        for (int l = s->m->cores / workers; l >= 1; l--)
            if ((int64_t)l * nodes <= most && (int64_t)l * nodes * workers <= 1024)
                look_at_workers(s, nodes, l, workers, in_time);
    }
}

// To compare with; the search may have passed over it.
static void look_at_one(search *s) {
    mu_plan_choice *one = &s->out->alone;
    one->config = (mu_config){.nodes = 1, .learners = 1, .workers = 1, .server_groups = 1, .mu = s->k->batch,
                              .how = s->space->protocol[0].how};
    memcpy(one->config.protocol, s->space->protocol[0].text, sizeof one->config.protocol);
    if (mu_predict(s->k, s->m, &one->config, s->by, &one->prediction, NULL) != MU_OK) *one = (mu_plan_choice){0};
}

static int effort(const mu_config *c) { return mu_config_processes(c) + c->nodes * c->server_threads; }

static bool is_simpler(const mu_plan_choice *a, const mu_plan_choice *b) {
    if (a->config.nodes != b->config.nodes) return a->config.nodes < b->config.nodes;
    if (effort(&a->config) != effort(&b->config)) return effort(&a->config) < effort(&b->config);
    return a->prediction.staleness < b->prediction.staleness;
}

// A difference that no prediction is good enough to see is none: of those the simplest.
static int simplest_of_best(const mu_plan *p) {
    static const double alike = 1.01;
    int best = 0;
    for (int i = 1; i < p->n; i++)
        if (p->choice[i].prediction.epoch_s <= alike * p->choice[0].prediction.epoch_s &&
            is_simpler(&p->choice[i], &p->choice[best]))
            best = i;
    return best;
}

// With a deadline the cheapest in time, which takes the last place where it is not among the best.
static void choose(const search *s, const cheapest *in_time) {
    mu_plan *p = s->out;
    p->late = s->space->deadline_s > 0 && !in_time->known;
    p->wanted = s->space->deadline_s > 0 ? 0 : simplest_of_best(p);
    if (s->space->deadline_s <= 0 || p->late) return;
    for (int i = 0; i < p->n; i++)
        if (mu_config_same(&p->choice[i].config, &in_time->choice.config)) {
            p->wanted = i;
            return;
        }
    p->wanted = p->n < MU_PLAN_BEST ? p->n++ : MU_PLAN_BEST - 1;
    p->choice[p->wanted] = in_time->choice;
}

mu_status mu_plan_search(const mu_costs *k, const mu_machine *m, const mu_plan_space *space,
                         const mu_plan_corrections *corrections, mu_plan *out, mu_err *err) {
    *out = (mu_plan){0};
    search s = {.k = k, .m = m, .space = space, .by = corrections, .out = out};
    cheapest in_time = {0};
    if (space->n_protocols < 1) return MU_FAIL(err, MU_EUSAGE, "a plan needs a protocol at least");
    const int most = space->most_nodes < m->nodes ? space->most_nodes : m->nodes;
    if (space->least_nodes > most)
        return mu_err_hinted(MU_FAIL(err, MU_EUSAGE, "at least %d nodes are wanted, and the machine has %d",
                                     space->least_nodes, m->nodes),
                             err, "Describe a larger one: `muster profile --describe FILE`, then --machine FILE.");
    for (int nodes = most; nodes >= space->least_nodes && nodes >= 1; nodes--) look_at_nodes(&s, nodes, &in_time);
    if (out->n) {
        choose(&s, &in_time);
        look_at_one(&s);
        return MU_OK;
    }
    if (out->too_large)
        return mu_err_hinted(MU_FAIL(err, MU_EUNSUPPORTED,
                                     "this job fits no such machine: a node has %.1f GB of memory",
                                     1e-9 * (space->memory_bytes > 0 ? space->memory_bytes : m->memory_bytes)),
                             err, "Take a smaller batch, more workers, or a machine with more memory.");
    return MU_FAIL(err, MU_EUNSUPPORTED, "no way to train this job so: %s",
                   s.last.msg[0] ? s.last.msg : "nothing is allowed");
}

// ---- what would help ----

static void scale(double *v, double by) {
    for (int i = 0; i < MU_COST_SIZES; i++) v[i] *= by;
}

// Arithmetic at twice the speed: everything but going over weights.
static double with_faster_cores(mu_costs k, const mu_machine *m, const mu_plan_corrections *by,
                                const mu_plan_choice *of) {
    mu_prediction p;
    scale(k.gradient_s, 0.5);
    for (int i = 0; i < MU_COST_SIZES; i++)
        k.alone_s[i] = fmax(0.5 * k.alone_s[i], k.alone_s[i] - k.gradient_s[i]);
    k.record_s *= 0.5;
    return mu_predict(&k, m, &of->config, by, &p, NULL) == MU_OK ? of->prediction.epoch_s / p.epoch_s : 1;
}

static double with_faster_memory(mu_costs k, mu_machine m, const mu_plan_corrections *by,
                                 const mu_plan_choice *of) {
    mu_prediction p;
    for (int i = 0; i < MU_COST_SIZES; i++)
        k.alone_s[i] -= 0.5 * fmin(k.apply_s[i], fmax(0, k.alone_s[i] - k.gradient_s[i]));
    scale(k.apply_s, 0.5);
    scale(k.sweep_s, 0.5);
    m.lines.bytes_per_s *= 2;
    m.lines.round_trip_s /= 2;
    for (int i = 0; i < m.n_loads; i++) m.load[i].bytes_per_s *= 2;
    return mu_predict(&k, &m, &of->config, by, &p, NULL) == MU_OK ? of->prediction.epoch_s / p.epoch_s : 1;
}

static double with_faster_network(const mu_costs *k, mu_machine m, const mu_plan_corrections *by,
                                  const mu_plan_choice *of) {
    mu_prediction p;
    m.network.bytes_per_s *= 2;
    m.network.latency_s /= 2;
    return mu_predict(k, &m, &of->config, by, &p, NULL) == MU_OK ? of->prediction.epoch_s / p.epoch_s : 1;
}

static double with_more(const mu_costs *k, mu_machine m, const mu_plan_space *space,
                        const mu_plan_corrections *by, const mu_plan_choice *of, bool nodes) {
    mu_plan p;
    mu_plan_space more = *space;
    if (nodes) more.most_nodes = m.nodes = m.nodes < MU_MACHINE_NODES / 2 ? 2 * m.nodes : m.nodes;
    else m.cores *= 2;
    more.most_learners = 0;
    more.deadline_s = 0;
    return mu_plan_search(k, &m, &more, by, &p, NULL) == MU_OK
               ? fmax(1, of->prediction.epoch_s / p.choice[0].prediction.epoch_s) : 1;
}

static int by_gain(const void *a, const void *b) {
    const double x = ((const mu_plan_change *)a)->gain, y = ((const mu_plan_change *)b)->gain;
    return (x < y) - (x > y);
}

int mu_plan_changes(const mu_costs *k, const mu_machine *m, const mu_plan_space *space,
                    const mu_plan_corrections *by, const mu_plan_choice *of, mu_plan_change out[MU_PLAN_CHANGES]) {
    int n = 0;
    out[n++] = (mu_plan_change){"twice as many cores", with_more(k, *m, space, by, of, false)};
    out[n++] = (mu_plan_change){"cores twice as fast", with_faster_cores(*k, m, by, of)};
    out[n++] = (mu_plan_change){"memory and lines between cores twice as fast", with_faster_memory(*k, *m, by, of)};
    if (m->network.bytes_per_s > 0) {
        if (of->config.nodes > 1)
            out[n++] = (mu_plan_change){"a network twice as fast", with_faster_network(k, *m, by, of)};
        out[n++] = (mu_plan_change){"twice as many nodes", with_more(k, *m, space, by, of, true)};
    }
    qsort(out, (size_t)n, sizeof *out, by_gain);
    return n;
}
