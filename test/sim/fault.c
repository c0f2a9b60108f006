// SPDX-License-Identifier: Apache-2.0
// fault.c - what goes wrong, one thing at a time.
#include "sim/sim.h"

#include <inttypes.h>
#include <string.h>

static int any(sim_world *w) { return (int)sim_below(&w->rng, w->plan.config.learners); }

static bool can_die(const sim_world *w, int i) {
    const int s = w->process[i].state;
    return s != SIM_GONE && s != SIM_STARTING && s != SIM_ENDED;
}

static void kill_one(sim_world *w, bool zombie) {
    const int i = any(w);
    if (can_die(w, i)) sim_die(w, i, zombie);
}

static void kill_all(sim_world *w) {
    for (int i = 0; i < w->plan.config.learners; i++)
        if (can_die(w, i)) sim_die(w, i, sim_chance(&w->rng, 200));
}

// A subset stops one by one, and goes on in another order (each after its own time).
static void swizzle(sim_world *w) {
    int64_t at = 0;
    for (int i = 0; i < w->plan.config.learners; i++) {
        if (!can_die(w, i) || sim_chance(&w->rng, 500)) continue;
        at += sim_time(w, w->plan.compute / 4);
        sim_post(w, at, SIM_PAUSE, i, w->process[i].mark);
    }
}

static void server_dies(sim_world *w) {
    if (w->server_dead) return;
    SIM_TRACE(w, "server   dies%s", w->book.applying ? " in an update" : "");
    w->server_dead = true;
    w->server_mark++;
    sim_post(w, sim_time(w, w->plan.restart), SIM_SERVER, 0, 0);
}

// Pushes that nobody can have sent: they must be refused, and change no byte.
static void forge(sim_world *w) {
    const int i = any(w);
    const mu_core_learner *l = mu_core_learner_at(w->core, i);
    mu_gradient_id id = w->book.learner[i].now;
    switch (sim_below(&w->rng, 8)) {
    case 0:
        id.incarnation = l->incarnation + 1;
        break;
    case 1:
        id.incarnation = l->incarnation - 1;
        break;
    case 2:
        id.step += sim_chance(&w->rng, 500) ? 1 : -1;
        break;
    case 3:
        id.version = w->core->version + 2;
        break;
    case 4:
        id.version--;
        break;
    case 5:
        id.first++;
        break;
    case 6:
        id.rows++;
        break;
    default:
        id.learner = sim_chance(&w->rng, 500) ? -1 : w->plan.config.learners;
        break;
    }
    memcpy(w->spare, w->core, w->core_bytes);
    const mu_push_result v = mu_core_push(w->core, &id);
    SIM_TRACE(w, "forged   learner %d incarnation %u step %" PRId64 ": %d", id.learner, id.incarnation,
              id.step, (int)v);
    if (v == MU_ACCEPTED || v == MU_TOO_STALE)
        book_wrong(&w->book, "a forged gradient of learner %d was answered %d", id.learner, (int)v);
    if (memcmp(w->spare, w->core, w->core_bytes) != 0)
        book_wrong(&w->book, "a refused gradient of learner %d changed the core", id.learner);
}

// Asks that change nothing: of an old incarnation, and once more while it computes.
static void ask_again(sim_world *w) {
    const int i = any(w);
    const sim_process *p = &w->process[i];
    mu_grant g = {0};
    memcpy(w->spare, w->core, w->core_bytes);
    const mu_core_learner *l = mu_core_learner_at(w->core, i);
    if (mu_core_ask(w->core, i, l->incarnation - 1, &g) != MU_END)
        book_wrong(&w->book, "learner %d: an old incarnation was not sent home", i);
    if (p->state == SIM_COMPUTING &&
        (mu_core_ask(w->core, i, p->incarnation, &g) != MU_GO || memcmp(&g, &p->grant, sizeof g) != 0))
        book_wrong(&w->book, "learner %d: asked again, granted something else", i);
    if (memcmp(w->spare, w->core, w->core_bytes) != 0)
        book_wrong(&w->book, "learner %d: an idle question changed the core", i);
}

// A process dies inside a change of the core, which it made in the spare copy: the good one goes on. Or
// inside the copying before that: it may leave anything in the rows that were to be copied.
static void tear_core(sim_world *w) {
    mu_lease lease;
    bool ended;
    (void)mu_core_catch_up(w->spare, w->core);
    (void)mu_core_form(w->spare);
    mu_core_applied(w->spare);
    mu_core_lost(w->spare, any(w));
    (void)mu_core_join(w->spare, any(w));
    (void)mu_core_lease(w->spare, any(w), &lease, &ended);
    SIM_TRACE(w, "torn     change of the core");
    const int32_t n = w->spare->n_touched, *row = mu_core_touched(w->spare);
    if (n > w->plan.config.learners || sim_chance(&w->rng, 500)) return;
    for (int i = 0; i < n; i++)
        memset((void *)mu_core_learner_at(w->spare, row[i]), 0x25, sizeof(mu_core_learner));
}

void sim_fault(sim_world *w) {
    int kind = 1 << sim_below(&w->rng, 10);
    if (!(kind & w->plan.faults)) kind = 1 << sim_below(&w->rng, 10);
    if (kind & w->plan.faults) {
        switch (kind) {
        case SIM_F_KILL:
            kill_one(w, false);
            break;
        case SIM_F_HANG:
            kill_one(w, true);
            break;
        case SIM_F_PAUSE:
            sim_pause(w, any(w), sim_below(&w->rng, 20 * w->plan.compute));
            break;
        case SIM_F_SWIZZLE:
            swizzle(w);
            break;
        case SIM_F_ALL:
            if (sim_chance(&w->rng, 200)) kill_all(w);
            break;
        case SIM_F_SERVER:
            server_dies(w);
            break;
        case SIM_F_FORGE:
            forge(w);
            ask_again(w);
            break;
        case SIM_F_TEAR:
            tear_core(w);
            break;
        case SIM_F_STOP:
            if (sim_chance(&w->rng, 20)) sim_post(w, 0, SIM_STOP, 0, 0);
            break;
        default:
            break; // duplicates happen with the gradients
        }
    }
    sim_post(w, 1 + sim_time(w, w->plan.fault_gap), SIM_FAULT, 0, 0);
}
