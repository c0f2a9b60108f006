// SPDX-License-Identifier: Apache-2.0
// predict.c - see predict.h: one node, and the sum of everything.
#include "plan/predict_inner.h"

#include "ps/exchange.h"

#include <math.h>
#include <string.h>

#define PROCESS_BYTES 20e6      // of a learner beside what it computes with

const char *mu_plan_term_name(mu_plan_term t) {
    static const char *const name[MU_PLAN_TERMS] = {"compute", "apply", "exchange", "bridges",
                                                    "wire",    "wait",  "data"};
    return name[t];
}

// ---- interference ----

// How much longer one of n processes takes than one alone, as the machine says: arithmetic as that of
// multiply-adds in registers, the rest as reading memory. `flops`: the share of arithmetic.
static double slowdown(const mu_machine *m, int n, double flops) {
    const mu_machine_load one = mu_machine_at(m, 1), all = mu_machine_at(m, n);
    const double a = all.flops_per_s > 0 ? one.flops_per_s / all.flops_per_s : 1;
    const double b = all.bytes_per_s > 0 ? one.bytes_per_s / all.bytes_per_s : 1;
    return fmax(1, flops * a + (1 - flops) * b);
}

static double flops_of(const mu_costs *k) {
    double n = 0;
    for (int i = 0; i < k->n_layers; i++) n += k->layer[i].flops;
    return n;
}

// What was measured with this net on all cores, in the form of the machine's curve between one and all. Where
// nothing was measured, as on one core or for a machine that only is described, the curve alone.
static double crowding(const mu_costs *k, const mu_machine *m, int n, double flops, double measured) {
    if (n < 2) return 1;
    const int on = n < m->cores ? n : m->cores;
    const double here = slowdown(m, on, flops);
    if (k->crowd < 2 || on < 2) return here;
    const double there = slowdown(m, k->crowd < m->cores ? k->crowd : m->cores, flops);
    const double part = there > 1.02 ? (here - 1) / (there - 1) : (double)(on - 1) / (k->crowd - 1);
    return fmax(0.5, 1 + (measured - 1) * fmin(part, 2));
}

// ---- the update ----

// Bytes a second of going over so many, by the rule: from the caches to memory in a straight line of sizes.
static double rate_of(const mu_scene *s, double bytes) {
    const mu_machine_rule *r = mu_machine_rule_of(s->m, s->k->rule);
    const double in = fmax(s->m->cache_bytes, 1), far = 4 * in;
    if (bytes <= in) return r->cached_bytes_per_s;
    if (bytes >= far) return r->bytes_per_s;
    const double part = log(bytes / in) / log(far / in);
    return r->cached_bytes_per_s + part * (r->bytes_per_s - r->cached_bytes_per_s);
}

// An executor that has a share of the weights finds them in its own caches, where one alone does not.
static double share_factor(const mu_scene *s, double executors) {
    const double bytes = 4 * s->k->floats * (1 + s->k->histories);
    const double whole = rate_of(s, bytes), part = rate_of(s, bytes / executors);
    return whole > 0 && part > 0 ? fmin(1, whole / part) : 1;
}

static double others(double n) { return n > 1 ? 1 - 1 / n : 0; }

// Lines that another of n has written, as far as its caches hold them: beyond what one's own would take.
static double foreign(const mu_scene *s, double bytes, double n) {
    const double held = fmin(bytes, s->m->cache_bytes * s->learners + s->m->shared_cache_bytes);
    return held * others(n) * fmax(0, s->line_s - s->memory_s);
}

// Reading weights that n write in turns, and writing such weights, and histories where they are shared. On the
// machine of the costs that was measured with all cores.
static double read_lines(const mu_scene *s, double n) {
    if (s->measured_lines) return s->k->lines_read_s * others(n) / others(s->k->crowd);
    return foreign(s, s->weight_bytes, n);
}

static double write_lines(const mu_scene *s, double n, bool histories) {
    const double blocks = histories ? 1 + s->k->histories : 1;
    if (s->measured_lines)
        return s->k->lines_apply_s * others(n) / others(s->k->crowd) * blocks / (1 + s->k->histories);
    return foreign(s, s->weight_bytes * blocks, n);
}

// ---- a scene ----

static double changed_bytes(const mu_costs *k, double mu) {
    double n = 0;
    for (int i = 0; i < k->n_params; i++) {
        const mu_cost_param *p = &k->param[i];
        n += !strcmp(p->form, "rows") ? fmin(mu_cost_at(k, p->message_bytes, mu), 4 * p->floats) : 4 * p->floats;
    }
    return n;
}

static int contributors_of(const mu_config *c) {
    if (c->architecture == MU_ARCHITECTURE_BASE) return c->learners;
    if (c->architecture != MU_ARCHITECTURE_AUTO) return c->nodes;
    return c->learners / c->server_groups;
}

static void set_scene(mu_scene *s, const mu_costs *k, const mu_machine *m, const mu_config *c) {
    const int per_node = (c->learners + c->nodes - 1) / c->nodes;
    *s = (mu_scene){.k = k, .m = m, .c = c, .p = mu_config_class(c), .learners = per_node,
                    .processes = per_node * c->workers, .mu = (double)c->mu};
    s->contributors = contributors_of(c);
    s->core = (mu_core_config){.learners = s->contributors, .splits = 1};
    if (s->p->configure) s->p->configure(c->how.state, &s->core);
    s->in_step = s->p->sync_versions && s->p->sync_versions(0) == INT64_MAX;
    const double speed = k->flops_per_s > 0 && m->load[0].flops_per_s > 0 ? k->flops_per_s / m->load[0].flops_per_s
                                                                          : 1;
    const bool same = !strcmp(k->machine, m->cpu); // the same processor: as measured
    const double scale = same ? 1 : speed;
    const double plain_s = mu_cost_at(k, k->gradient_s, s->mu);
    const double flops = fmin(1, plain_s > 0 ? flops_of(k) * s->mu / k->flops_per_s / plain_s : 0);
    const double crowd = crowding(k, m, s->processes, flops, k->crowd_gradient);
    const double applying = crowding(k, m, s->processes, 0, k->crowd_apply);
    s->compute_s = plain_s * scale * crowd;
    s->alone_s = mu_cost_at(k, k->alone_s, s->mu) * scale * crowd;
    s->sweep_s = mu_cost_at(k, k->sweep_s, s->mu) * scale * applying;
    s->gradient_s = fmax(0, mu_cost_at(k, k->apply_s, s->mu) * scale * applying - s->sweep_s);
    s->data_s = k->record_s * s->mu * scale;
    s->line_s = m->lines.bytes_per_s > 0 ? 1 / m->lines.bytes_per_s : 0;
    s->memory_s = m->load[0].bytes_per_s > 0 ? 1 / m->load[0].bytes_per_s : 0;
    s->measured_lines = k->crowd > 1 && same;
    s->weight_bytes = changed_bytes(k, s->mu);
    s->message_bytes = mu_cost_at(k, k->message_bytes, s->mu);
    const bool threads = c->server == MU_SERVER_PROCESS || c->server == MU_SERVER_BOTH;
    s->executors = c->server == MU_SERVER_PROCESS ? c->server_threads
                                                  : s->processes + (threads ? c->server_threads : 0);
}

// ---- workers ----

// A learner's net over its workers: layers follow each other, and each takes as long as its largest part. What
// travels is spread over the workers; each value that one waits for is a round trip of a line at least. Gradients
// and weights of pieces that several have move as between learners.
static void share_net(mu_scene *s, mu_prediction *out) {
    const int w = s->c->workers;
    const mu_cost_split *split = mu_costs_split(s->k, w, s->c->auto_cut);
    if (w < 2 || !split) return;
    const double values = mu_cost_at(s->k, split->values_bytes, s->mu) / w;
    const double rest = (mu_cost_at(s->k, split->gradient_bytes, s->mu) +
                         mu_cost_at(s->k, split->weight_bytes, s->mu)) / w;
    s->compute_s *= fmin(1, fmax(1.0 / w, mu_cost_at(s->k, split->share, s->mu)));
    out->term_s[MU_TERM_BRIDGES] = values * s->line_s + split->bridges * s->m->lines.round_trip_s;
    out->term_s[MU_TERM_EXCHANGE] += rest * fmax(0, s->line_s - s->memory_s);
}

// ---- protocols ----

// One learner applies its gradient while it makes it. Records are read by a thread that has a core of its own,
// if there is one.
static void predict_alone(const mu_scene *s, mu_prediction *out) {
    const double t = s->alone_s, compute = fmin(t, s->compute_s);
    out->term_s[MU_TERM_COMPUTE] = compute;
    out->term_s[MU_TERM_APPLY] = t - compute;
    out->term_s[MU_TERM_DATA] = s->m->cores > 1 ? fmax(0, s->data_s - t) : s->data_s;
}

// The lock of the core: every gradient begins and ends under it, every update is formed and finished.
static double events(const mu_scene *s, double updates) {
    return s->m->event_s * (2 * s->learners + 2 * updates);
}

// All compute; the last one decides. Then the executors share the update, each the slices that it had last, and
// every learner reads weights of which the others have written their shares.
//   T = compute (1 + spread E[max of L normal]) + undo (sweep + L gradients) / executors + lines + events
static void predict_in_step(const mu_scene *s, double gradients, mu_prediction *out) {
    const int all = s->contributors * s->c->workers; // of all nodes, where they make one step
    const double latest = s->k->spread * mu_expected_max(all) * s->compute_s;
    const double e = fmax(1, s->executors);
    const double update = s->k->undo * (s->sweep_s + gradients * s->gradient_s) / e * share_factor(s, e);
    out->term_s[MU_TERM_COMPUTE] = s->compute_s;
    out->term_s[MU_TERM_APPLY] += update;
    out->term_s[MU_TERM_WAIT] += latest + s->m->wake_s;
    out->term_s[MU_TERM_EXCHANGE] += read_lines(s, e) + events(s, 1);
    out->term_s[MU_TERM_DATA] = s->data_s;
}

// Two updates of at most four samples each go over memory once where the rule can (docs/protocols.md).
static double passes(const mu_scene *s, double samples) {
    return samples <= 4 && !strcmp(s->k->rule, "sgd") ? 0.5 : 1;
}

// By a queue a gradient is served for sweep / (gradients of an update) + what it adds itself. Learners that
// would wait apply, each alone while the others compute: then serving takes a learner's own time, and nobody
// waits (a station with as many servers as customers). A server process has one: a closed queue with two slots.
// With both, the process takes over what it can:
//   T = max(compute, (compute + served) / (1 + threads / learners))
static void predict_queued(const mu_scene *s, mu_prediction *out) {
    const double l = s->learners, of_update = fmax(1, floor((double)s->core.learners / s->core.splits));
    const double lines = write_lines(s, l, true), read = read_lines(s, l);
    const double served = s->sweep_s * passes(s, of_update * s->mu) / of_update + s->gradient_s;
    const double own = s->compute_s + s->data_s + read + events(s, l / of_update) / l;
    const double t = s->c->server_threads > 0 ? s->c->server_threads : 1;
    double round;
    if (s->c->server == MU_SERVER_PROCESS)
        round = mu_queue_with_slots(s->learners, own, (served + lines / of_update) / t);
    else if (s->c->server == MU_SERVER_BOTH)
        round = fmax(own, (own + served + lines / of_update) / (1 + t / l));
    else round = own + served + lines / of_update;
    const double beyond = round - own, applied = fmin(beyond, served);
    out->term_s[MU_TERM_COMPUTE] = s->compute_s;
    out->term_s[MU_TERM_DATA] = s->data_s;
    out->term_s[MU_TERM_EXCHANGE] += own - s->compute_s - s->data_s;
    if (s->c->server == MU_SERVER_PROCESS) {
        out->term_s[MU_TERM_WAIT] += beyond;
    } else {
        out->term_s[MU_TERM_APPLY] += applied;
        out->term_s[MU_TERM_EXCHANGE] += beyond - applied;
    }
    // A bound: the fastest waits for the slowest every `bound` gradients, whose sum varies less than one.
    const bool paced = s->p->may_begin != NULL;
    const int bound = paced ? s->core.own + 1 : s->core.bound > 0 ? s->core.bound + 1 : 0; // 0 = there is none
    if (bound)
        out->term_s[MU_TERM_WAIT] += s->k->spread * mu_expected_max(s->learners) * s->compute_s / sqrt(bound);
}

// Learners write the shared weights themselves. `gathers` gradients are summed before; a single one goes into
// the weights as it is made. Every line was written by another one since, and is taken from it to be read and
// once more to be written.
static void predict_writing(const mu_scene *s, mu_prediction *out) {
    const double every = s->p->gathers ? s->p->gathers(s->c->how.state) : 1;
    const double lines = (read_lines(s, s->learners) + write_lines(s, s->learners, false)) / every;
    const double apply = every > 1 ? (s->sweep_s + every * s->gradient_s) / every
                                   : fmax(0, s->alone_s - s->compute_s);
    const double compute = every > 1 ? s->compute_s : fmin(s->alone_s, s->compute_s);
    out->term_s[MU_TERM_COMPUTE] = compute;
    out->term_s[MU_TERM_APPLY] = apply;
    out->term_s[MU_TERM_EXCHANGE] += lines + events(s, 0) / s->learners;
    out->term_s[MU_TERM_DATA] = s->data_s;
}

// Weights of one's own: every learner applies the gradients of all. With `every` above 1 two small updates take
// one pass.
static void predict_mirrored(const mu_scene *s, mu_prediction *out) {
    const double l = s->learners, of_update = fmax(1, floor((double)s->core.learners / s->core.splits));
    const double pass = s->core.own > 1 ? passes(s, of_update * s->mu) : 1;
    out->term_s[MU_TERM_COMPUTE] = s->compute_s;
    out->term_s[MU_TERM_APPLY] = l / of_update * s->sweep_s * pass + l * s->gradient_s;
    out->term_s[MU_TERM_EXCHANGE] += events(s, 0) / l;
    out->term_s[MU_TERM_WAIT] += s->k->spread * mu_expected_max(s->learners) * s->compute_s / 8;
    out->term_s[MU_TERM_DATA] = s->data_s;
}

static bool has_own_weights(const mu_scene *s) {
    const mu_exchange *x = s->p->exchange;
    return x && x->own_blocks && x->own_blocks(s->k->histories) > s->k->histories;
}

static void predict_group(mu_scene *s, mu_prediction *out) {
    if (mu_config_processes(s->c) == 1 && s->c->server_threads == 0) predict_alone(s, out);
    else if (s->in_step) predict_in_step(s, s->learners, out);
    else if (s->p->take) predict_queued(s, out);
    else if (has_own_weights(s)) predict_mirrored(s, out);
    else predict_writing(s, out);
}

static void predict_nodes(mu_scene *s, mu_prediction *out) {
    if (s->c->architecture != MU_ARCHITECTURE_AUTO) {
        mu_wire_root(s, out);
    } else if (s->c->server_groups > 1) {
        predict_group(s, out);
        mu_wire_merges(s, out);
    } else {
        double summed = 0;
        mu_wire_joint(s, &summed, out);
        const double part = s->k->floats > 0 ? summed / s->k->floats : 0;
        predict_in_step(s, part + (1 - part) * s->c->learners, out);
    }
}

// ---- what is impossible ----

static mu_status refuse(mu_err *err, const char *why) { return MU_FAIL(err, MU_EUNSUPPORTED, "%s", why); }

static mu_status check(const mu_costs *k, const mu_machine *m, const mu_config *c, mu_err *err) {
    const mu_protocol_class *p = mu_config_class(c);
    mu_objection no;
    if (!p) return refuse(err, "the protocol is not known");
    const bool in_step = p->sync_versions && p->sync_versions(0) == INT64_MAX;
    if (c->nodes < 1 || c->learners < 1 || c->workers < 1 || c->mu < 1 || c->server_groups < 1)
        return refuse(err, "numbers of a configuration are at least 1");
    if (c->nodes > m->nodes) return refuse(err, "the machine has fewer nodes");
    if (c->learners % c->nodes || c->learners % c->server_groups)
        return refuse(err, "learners cannot be spread evenly");
    if (!c->own_mu && c->learners > k->batch) return refuse(err, "learners share a batch: there are more of them");
    if (mu_config_processes(c) > 1024) return refuse(err, "there are at most 1024 processes");
    if (c->workers > 1 && !mu_costs_split(k, c->workers, c->auto_cut))
        return refuse(err, "it is not known how so many workers share the net");
    if (c->workers > 1 && mu_protocol_objects(p, MU_CHOICE_WORKERS, &no)) return refuse(err, no.why);
    if (c->server != MU_SERVER_AUTO && mu_protocol_objects(p, MU_CHOICE_SERVER, &no)) return refuse(err, no.why);
    if (c->server_groups > 1 && c->architecture == MU_ARCHITECTURE_AUTO &&
        mu_protocol_objects(p, MU_CHOICE_SERVER_GROUPS, &no))
        return refuse(err, no.why);
    if (c->nodes == 1) return c->architecture == MU_ARCHITECTURE_AUTO ? MU_OK
                                                                      : refuse(err, "`architecture` is of several nodes");
    if (m->network.bytes_per_s <= 0) return refuse(err, "nothing is known of the network between the nodes");
    if (c->architecture != MU_ARCHITECTURE_AUTO)
        return p->take && c->workers == 1 ? MU_OK : refuse(err, "rank 0 applies by queues, and without workers");
    if (c->server_groups == 1)
        return in_step && c->workers == 1 ? MU_OK : refuse(err, "one copy on several nodes is trained in step");
    return c->server_groups % c->nodes ? refuse(err, "groups cannot be spread evenly") : MU_OK;
}

// ---- the sum ----

// One block of weights and histories that all share, one of the snapshot, gradients and activations of each
// process, slots of each learner; own blocks where the protocol has some.
static double memory_of(const mu_scene *s) {
    const double block = 4 * s->k->floats, all = 1 + s->k->histories;
    const double process = block + mu_cost_at(s->k, s->k->activation_bytes, s->mu / s->c->workers) + PROCESS_BYTES;
    if (mu_config_processes(s->c) == 1) return block * all + process;
    const mu_exchange *x = s->p->exchange;
    const mu_setup as = {.own = s->core.own};
    const double slots = x && x->slots ? x->slots(&as) : MU_CORE_SLOTS;
    const double own = x && x->own_blocks ? x->own_blocks(s->k->histories) * block * s->learners : 0;
    return 2 * block * all + s->processes * process + s->learners * slots * s->message_bytes + own;
}

// Processes that share cores: nobody is faster than all of them together let him.
static void share_cores(const mu_scene *s, mu_prediction *out) {
    const mu_server_place at = s->c->server;
    const double servers = at == MU_SERVER_PROCESS || at == MU_SERVER_BOTH ? s->c->server_threads : 0;
    const double busy = s->processes + (s->processes >= s->m->cores ? servers : 0), cores = s->m->cores;
    if (busy <= cores) return;
    double own = 0;
    for (int t = 0; t < MU_PLAN_TERMS; t++) own += t == MU_TERM_WAIT || t == MU_TERM_WIRE ? 0 : out->term_s[t];
    const double learners = s->processes > cores ? s->processes / cores : 1;
    out->term_s[MU_TERM_WAIT] += own * (learners - 1);
    // A server that has no core of its own takes turns with learners.
    if (servers > 0) out->term_s[MU_TERM_WAIT] += s->learners * (s->sweep_s + s->gradient_s) / cores;
}

static void correct(const mu_plan_corrections *by, const mu_config *c, mu_prediction *out) {
    const mu_plan_factors *f = by && by->of ? by->of(by->ctx, c) : NULL;
    for (int t = 0; f && t < MU_PLAN_TERMS; t++) out->term_s[t] *= f->of[t];
    out->corrected = f != NULL;
}

static void sum_up(const mu_scene *s, mu_prediction *out) {
    const mu_costs *k = s->k;
    const mu_config *c = s->c;
    for (int t = 0; t < MU_PLAN_TERMS; t++) out->step_s += out->term_s[t];
    const double step = (double)(c->own_mu ? c->mu * c->learners : k->batch);
    out->samples_per_s = out->step_s > 0 ? step / out->step_s : 0;
    out->overlap = out->step_s > 0 ? out->term_s[MU_TERM_COMPUTE] / out->step_s : 0;
    // Several learners go on while a process of its own evaluates and saves, if it has a core.
    const bool beside = mu_config_processes(c) > 1 && s->processes < s->m->cores;
    out->evaluate_s = beside ? 0 : k->evaluate_s * (double)k->test_records;
    out->save_s = beside ? 0 : k->save_s;
    out->start_s = k->start_s + 0.01 * s->processes;
    out->epoch_s = (double)k->records / step * out->step_s + k->evals_per_epoch * out->evaluate_s +
                   k->saves_per_epoch * out->save_s;
    out->staleness = s->in_step || s->contributors < 2
                         ? 0 : s->p->expected_staleness(c->how.state, s->contributors);
    if (c->architecture == MU_ARCHITECTURE_ADV_STAR) out->staleness += s->in_step ? 0 : 1;
    out->memory_bytes = memory_of(s);
}

mu_status mu_predict(const mu_costs *k, const mu_machine *m, const mu_config *c,
                     const mu_plan_corrections *corrections, mu_prediction *out, mu_err *err) {
    mu_scene s;
    *out = (mu_prediction){0};
    MU_TRY(check(k, m, c, err));
    set_scene(&s, k, m, c);
    share_net(&s, out);
    if (c->nodes > 1) predict_nodes(&s, out);
    else predict_group(&s, out);
    share_cores(&s, out);
    correct(corrections, c, out);
    sum_up(&s, out);
    return MU_OK;
}

double mu_predict_least_s(const mu_costs *k, const mu_machine *m, const mu_config *c,
                          const mu_plan_corrections *corrections) {
    mu_scene s;
    mu_prediction none = {0};
    set_scene(&s, k, m, c);
    share_net(&s, &none);
    const mu_plan_factors *f = corrections && corrections->of ? corrections->of(corrections->ctx, c) : NULL;
    return fmin(s.compute_s, s.alone_s) * (f ? f->of[MU_TERM_COMPUTE] : 1);
}
