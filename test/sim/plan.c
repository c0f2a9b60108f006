// SPDX-License-Identifier: Apache-2.0
// plan.c - what an episode is: drawn from the seed, narrowed by the options.
#include "sim/sim.h"

#include <string.h>

// Mostly few learners, where every interleaving counts; now and then a crowd.
static int draw_learners(uint64_t *rng) {
    int64_t d = sim_below(rng, 100);
    if (d < 60) return (int)sim_pick(rng, 1, 6);
    if (d < 99) return (int)sim_pick(rng, 7, 40);
    return sim_chance(rng, 100) ? 1000 : (int)sim_pick(rng, 41, 100);
}

void sim_protocol_draw(mu_core_config *c, const sim_opts *o, uint64_t *rng) {
    c->protocol = o->protocol >= 0 ? o->protocol : (int32_t)sim_below(rng, (int64_t)mu_protocols.n);
    const mu_protocol_class *p = mu_protocol_at(c->protocol);
    const bool is_ssp = strcmp(p->name, "ssp") == 0, is_soft = strcmp(p->name, "softsync") == 0;
    c->splits = is_soft ? (int32_t)sim_pick(rng, 1, c->learners) : c->learners;
    if (is_ssp) c->own = (int32_t)sim_below(rng, 5);
    else if (!p->take) c->bound = 0; // nothing ever waits
    else if (is_soft && sim_chance(rng, 500)) c->bound = 2 * c->splits; // as jobs have it by default
    else c->bound = sim_chance(rng, 600) ? 0 : (int32_t)sim_pick(rng, 1, 2L * c->learners);
    if (o->bound >= 0) *(is_ssp ? &c->own : &c->bound) = o->bound;
    if (is_ssp && c->own == 0) c->splits = (c->learners + 1) / 2;
    if (o->splits > 0) c->splits = o->splits;
}

// The run ends by samples, or not at all (then it is stopped).
static void draw_ends(mu_core_config *c, int64_t events, uint64_t *rng) {
    const int64_t gradients = sim_pick(rng, 1, (events / 2 >> sim_below(rng, 9)) + 1); // many short runs
    c->first_version = sim_chance(rng, 300) ? sim_pick(rng, 1, 1000) : 0;
    c->first_sample = sim_chance(rng, 300) ? sim_pick(rng, 1, 100000) : 0;
    c->end_sample = INT64_MAX;
    if (sim_chance(rng, 800)) {
        int64_t n = gradients * c->rows - sim_below(rng, c->rows);
        c->end_sample = c->first_sample + (n < SIM_MAX_SAMPLES ? n : SIM_MAX_SAMPLES);
    }
}

// Others before the protocol of the plan.
static void draw_phases(mu_core_config *c, uint64_t *rng) {
    static const char *const queued[] = {"softsync", "async", "ssp"};
    const mu_core_config last = *c;
    const mu_protocol_class *fits = mu_protocol_at(c->protocol);
    if (!fits->take || fits->sync_versions || !sim_chance(rng, 400)) return;
    int64_t until = c->first_sample + c->warm_versions * c->global_batch;
    c->n_phases = (int32_t)sim_pick(rng, 2, MU_CORE_PHASES);
    for (int i = 0; i < c->n_phases; i++) {
        mu_core_config g = last;
        const sim_opts drawn = {.protocol = mu_protocol_index(queued[sim_below(rng, 3)]), .bound = -1};
        if (i + 1 < c->n_phases) g.bound = g.own = 0, sim_protocol_draw(&g, &drawn, rng);
        until += sim_below(rng, 1 + 40 * c->rows * c->learners);
        c->phase[i] = (mu_core_phase){.until = i + 1 < c->n_phases ? until : INT64_MAX,
                                      .protocol = g.protocol,
                                      .splits = g.splits,
                                      .bound = g.bound,
                                      .own = g.own,
                                      .rate_rule = (int32_t)sim_below(rng, 3),
                                      .gradient_scale = sim_chance(rng, 500) ? 0 : (float)g.splits};
    }
}

void sim_plan_draw(sim_plan *p, const sim_opts *o, uint64_t *rng) {
    mu_core_config *c = &p->config;
    memset(p, 0, sizeof *p);
    c->learners = o->learners > 0 ? o->learners : draw_learners(rng);
    sim_protocol_draw(c, o, rng);
    c->rate_rule = (int32_t)sim_below(rng, 3);
    c->lease_batches = (int32_t)sim_pick(rng, 1, sim_chance(rng, 500) ? 2 : SIM_MAX_BATCHES);
    if (!sim_chance(rng, 300))
        c->longest_run = (int32_t)sim_pick(rng, 1, sim_chance(rng, 500) ? 4 : MU_CORE_RUN);
    c->rows = sim_pick(rng, 1, sim_chance(rng, 900) ? 4 : 32);
    c->global_batch = sim_pick(rng, c->learners, c->learners * c->rows);
    draw_ends(c, o->events, rng);
    if (sim_chance(rng, 250)) c->warm_versions = sim_pick(rng, 1, 20);
    if (!o->stats) draw_phases(c, rng);
    p->spread = (sim_spread)sim_below(rng, 4);
    p->compute = 64000;
    p->message = sim_chance(rng, 300) ? 0 : sim_pick(rng, 1, p->compute / 3);
    const int64_t part = p->compute / c->splits + 1; // time between two updates when nobody waits
    p->apply = sim_chance(rng, 200) ? 0 : sim_pick(rng, 1, sim_chance(rng, 700) ? part : 3 * part);
    p->detect = sim_pick(rng, 1, 3 * p->compute);
    p->restart = sim_pick(rng, 1, 5 * p->compute);
    p->prefetch = (int)sim_pick(rng, 1, MU_CORE_LEASES);
    p->copies = sim_chance(rng, 300);
    p->faults = sim_chance(rng, 200) ? 0 : (int)(sim_next(rng) & SIM_F_EVERY);
    p->fault_gap = sim_pick(rng, p->compute / 50, p->compute / 25 << sim_below(rng, 9));
    c->pairs = !o->stats && sim_chance(rng, 300);
    p->halts = sim_chance(rng, 250) ? (int)sim_pick(rng, 1, 40) : 0;
    if (o->stats) { // the figures of an undisturbed run
        p->faults = 0;
        p->spread = SIM_EQUAL;
        p->copies = false;
        p->halts = 0;
        p->message = p->compute / 100;
        p->apply = part / 4;
        p->prefetch = 2;
        c->warm_versions = 0;
        c->lease_batches = 1;
        c->rows = 1;
        c->global_batch = c->learners;
        c->first_version = c->first_sample = 0;
        c->end_sample = INT64_MAX;
    }
}
