// SPDX-License-Identifier: Apache-2.0
// ranks_plan.c - what a training over ranks is: drawn from the seed, narrowed by the options.
#include "sim/ranks.h"

#include <string.h>

static void draw_size(ranks_plan *p, uint64_t *rng) {
    p->architecture = (mu_architecture)sim_pick(rng, MU_ARCHITECTURE_BASE, MU_ARCHITECTURE_ADV_STAR);
    p->ranks = (int)(sim_chance(rng, 900) ? sim_pick(rng, 2, 5) : sim_pick(rng, 6, RANKS_MOST));
    const bool base = p->architecture == MU_ARCHITECTURE_BASE;
    p->own_groups = base ? (int)sim_pick(rng, 1, RANKS_GROUPS / RANKS_MOST) : 1;
    p->own = base ? 1 : (int)(sim_chance(rng, 970) ? sim_pick(rng, 1, 5) : sim_pick(rng, 6, RANKS_OWN));
    p->groups = p->ranks * p->own_groups;
}

// Of those that take gradients out of queues: the others need weights in shared memory.
static void draw_protocol(mu_core_config *c, const sim_opts *o, uint64_t *rng) {
    do sim_protocol_draw(c, o, rng);
    while (!mu_protocol_at(c->protocol)->take);
}

static mu_setup_phase phase_of(const mu_core_config *c, const mu_updater *u, uint64_t *rng) {
    const mu_rate_rule rule = (mu_rate_rule)sim_below(rng, 3);
    const mu_stale_task t = {.n = c->splits,
                             .share = 1.0 / c->splits,
                             .own_histories = 1,
                             .gathers = 1,
                             .rate_rule = rule,
                             .momentum_rule = MU_MOMENTUM_PLAIN};
    return (mu_setup_phase){.protocol = c->protocol,
                            .until = INT64_MAX,
                            .splits = c->splits,
                            .bound = c->bound,
                            .own = c->own,
                            .rate_rule = rule,
                            .expected_staleness = c->splits,
                            .stale = mu_stale_make(&t, u)};
}

static void draw_phases(ranks_plan *p, const sim_opts *o, const mu_updater *u, uint64_t *rng) {
    mu_setup *s = &p->setup;
    mu_core_config c = {.learners = p->groups};
    draw_protocol(&c, o, rng);
    s->protocol = mu_protocol_at(c.protocol);
    s->splits = c.splits, s->bound = c.bound, s->own = c.own;
    const bool several = !s->protocol->sync_versions && sim_chance(rng, 250);
    s->n_phases = several ? (int)sim_pick(rng, 2, MU_CORE_PHASES) : 1;
    s->phase[s->n_phases - 1] = phase_of(&c, u, rng);
    int64_t until = p->at.samples + s->warm_versions * s->global_batch;
    for (int i = 0; i + 1 < s->n_phases; i++) {
        do draw_protocol(&c, &(sim_opts){.protocol = -1, .bound = -1}, rng);
        while (mu_protocol_at(c.protocol)->sync_versions);
        until += sim_below(rng, 1 + 8 * s->global_batch);
        s->phase[i] = phase_of(&c, u, rng);
        s->phase[i].until = until;
    }
    s->rate_rule = s->phase[s->n_phases - 1].rate_rule;
    s->stale = s->phase[s->n_phases - 1].stale;
}

static void draw_setup(ranks_plan *p, const sim_opts *o, const mu_updater *u, uint64_t *rng) {
    mu_setup *s = &p->setup;
    const int64_t rows = sim_pick(rng, 1, 4), width = sim_pick(rng, p->own, p->own * rows);
    *s = (mu_setup){.learners = p->groups * p->own,
                    .workers = 1,
                    .server_groups = p->groups,
                    .nodes = p->ranks,
                    .architecture = p->architecture,
                    .rows = (width + p->own - 1) / p->own,
                    .global_batch = width * p->groups,
                    .reference_batch = width * p->groups,
                    .rate_factor = 1};
    p->at = MU_POSITION_START;
    if (sim_chance(rng, 300)) {
        p->at.step = sim_pick(rng, 1, 9);
        p->at.extra_updates = sim_pick(rng, -p->at.step, 100);
        p->at.samples = sim_pick(rng, 1, 100000);
    }
    s->warm_versions = sim_chance(rng, 350) ? sim_pick(rng, 1, 20) : 0;
    draw_phases(p, o, u, rng);
}

// A whole number of steps from the one that is under way, of which a part may be done already.
static void draw_end(ranks_plan *p, int64_t events, uint64_t *rng) {
    const mu_setup *s = &p->setup;
    const int64_t learners = s->learners;
    const int64_t steps = sim_pick(rng, 1, (events / (8 * learners) >> sim_below(rng, 4)) + 2);
    const bool open = sim_chance(rng, 250);
    const int64_t begun = p->at.samples < s->global_batch ? p->at.samples : s->global_batch - 1;
    if (sim_chance(rng, 300)) p->at.partial = sim_pick(rng, 0, begun);
    p->steps = open ? 0 : steps;
    p->end = open ? INT64_MAX : p->at.samples + steps * s->global_batch;
}

void ranks_plan_draw(ranks_plan *p, const sim_opts *o, const mu_updater *u, uint64_t *rng) {
    memset(p, 0, sizeof *p);
    draw_size(p, rng);
    draw_setup(p, o, u, rng);
    draw_end(p, o->events, rng);
    p->spread = (sim_spread)sim_below(rng, 4);
    p->compute = 64000;
    p->look = sim_pick(rng, 0, sim_chance(rng, 800) ? 500 : p->compute / 2);
    p->delay = sim_pick(rng, 0, p->compute >> sim_below(rng, 8));
    p->detect = sim_pick(rng, 1, 3 * p->compute);
    p->restart = sim_pick(rng, 1, 5 * p->compute);
    p->fault_gap = sim_pick(rng, p->compute / 20, p->compute / 10 << sim_below(rng, 8));
    p->locked = sim_chance(rng, 600) ? 0 : sim_chance(rng, 700) ? 50 : 950;
    p->holds = sim_chance(rng, 200);
    p->kills = sim_chance(rng, 600);
    p->hangs = sim_chance(rng, 400);
    p->stalls = sim_chance(rng, 300);
    p->stops = sim_chance(rng, 400);
}
