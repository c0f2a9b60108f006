// SPDX-License-Identifier: Apache-2.0
// mutant.c - drivers that are wrong on purpose, so that a check which never fires is found out.
//
// Nothing of this is in the core: the world (or here, a scribble over one field of the core's memory) does
// the wrong thing with the right core. `--self-test` demands that every one of them is caught.
#include "sim/sim.h"

static const char *const names[SIM_M_LAST + 1] = {
    [SIM_M_NONE] = "the right driver",
    [SIM_M_COMMIT_TWICE] = "an update is committed twice",
    [SIM_M_NO_JOIN] = "a restarted process does not join",
    [SIM_M_NO_FENCE] = "a late push carries the new incarnation",
    [SIM_M_LEASE_TWICE] = "a lease is taken and forgotten",
    [SIM_M_TORN_COMMIT] = "a push is answered but not kept",
    [SIM_M_FALSE_CLOCK] = "a gradient claims newer weights",
    [SIM_M_NO_WAKE] = "nobody rings when the clock ticks",
    [SIM_M_NO_WATCHDOG] = "the dead are not replaced",
    [SIM_M_WRONG_SAMPLES] = "a gradient of the wrong samples",
    [SIM_M_DOUBLE_APPLY] = "gradients are not taken out of the queue",
    [SIM_M_NOT_NOTED] = "a change in vain is not noted",
    [SIM_M_NOT_COPIED] = "a change is not copied to the spare core",
    [SIM_M_NO_MOVE] = "a halt is never moved",
    [SIM_M_SCRIBBLE] = "core: version back",
    [SIM_M_SCRIBBLE + 1] = "core: one waiting gradient gone",
    [SIM_M_SCRIBBLE + 2] = "core: samples skipped",
    [SIM_M_SCRIBBLE + 3] = "core: samples leased again",
    [SIM_M_SCRIBBLE + 4] = "core: applied counted twice",
    [SIM_M_SCRIBBLE + 5] = "core: a loss forgotten",
    [SIM_M_SCRIBBLE + 6] = "core: permission forgotten",
    [SIM_M_SCRIBBLE + 7] = "core: incarnation back",
    [SIM_M_SCRIBBLE + 8] = "core: a batch counted as used",
    [SIM_M_SCRIBBLE + 9] = "core: a slot mixed up",
    [SIM_M_SCRIBBLE + 10] = "core: an update of a run dropped",
};

const char *sim_mutant_name(int mutant) { return names[mutant]; }

// Only some way into a run, so that the state is rich; then always, as a wrong driver would.
bool sim_mutant_is(const sim_world *w, sim_mutant m) { return (int)m == w->opts.mutant && w->events > 100; }

// Writes one wrong number, once, where the state allows that it matters.
void sim_mutant_scribble(sim_world *w) {
    if (w->scribbled || w->events < 100) return;
    mu_core *c = w->core;
    mu_core_learner *l = (mu_core_learner *)mu_core_learner_at(c, (int)(w->events % c->config.learners));
    switch (w->opts.mutant - SIM_M_SCRIBBLE) {
    case 0:
        c->version--;
        break;
    case 1:
        if (c->fifo_n == 0) return;
        c->fifo_n--;
        break;
    case 2:
        c->next_sample += c->config.rows;
        break;
    case 3:
        c->next_sample -= c->config.rows;
        break;
    case 4:
        l->applied++;
        break;
    case 5:
        if (l->lost == 0) return;
        l->lost--;
        break;
    case 6:
        if (!l->computing) return;
        l->computing = 0;
        break;
    case 7:
        if (l->incarnation == 0) return;
        l->incarnation--;
        break;
    case 8:
        if (l->n_leases == 0) return;
        l->used++;
        break;
    case 10:
        if (c->applying < 2) return;
        c->applying--;
        break;
    default:
        if (c->n_parts == 0) return;
        ((mu_core_part *)mu_core_part_at(c, 0))->slot ^= 1;
        break;
    }
    w->scribbled = true; // written; the checks must find it now
    w->until_check = 0;
}
