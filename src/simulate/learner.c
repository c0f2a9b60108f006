// SPDX-License-Identifier: Apache-2.0
// learner.c - see learner.h. What learners/learner.c does in a loop, as steps that never wait.
//
// A gradient is what its layers would leave at most: its form and sizes are marked in the slot, its floats
// are zeros that nobody writes. All learners compute as long, so nothing here is chance.
#include "simulate/learner.h"

#include "simulate/machine.h"
#include "train/worker.h"

mu_status mu_simulated_open(mu_simulated *l, mu_server_group *group, int index, const mu_net *net,
                            const mu_sim_costs *costs, mu_err *err) {
    mu_shared *g = &group->shared;
    mu_training *t = group->t;
    *l = (mu_simulated){.group = group, .net = net, .costs = costs};
    l->role = (mu_role){.session = t->s,
                        .shared = g,
                        .begin = &group->begin,
                        .end = &t->end,
                        .stripe = group->stripe,
                        .index = index};
    l->watched = &group->dog.learner[index - g->head->own_first];
    atomic_store(&g->learner[index].pid, 1);
    return mu_shared_client_open(
        &l->client,
        &(mu_shared_client_opts){
            .shared = g, .learner = index, .rate_at = mu_role_step_rate, .rate_ctx = &l->role},
        err);
}

// ---- waiting and computing ----

static void wait(mu_simulated *l, int64_t now) {
    if (!l->since_ns) l->since_ns = now;
}

static void waited(mu_simulated *l, int64_t now) {
    if (l->since_ns) l->wait_ns += now - l->since_ns;
    l->since_ns = 0;
}

static void compute(mu_simulated *l, double seconds, int64_t now) {
    const int64_t ns = (int64_t)(seconds * 1e9);
    waited(l, now);
    l->busy = true;
    l->due_ns = now + ns;
    l->compute_ns += ns;
}

// While it waits it may apply what is there.
static bool serve(mu_simulated *l) { return mu_shared_client_serve(&l->client); }

// ---- permission ----

static void take_leases(mu_simulated *l) {
    mu_lease lease;
    bool ended = false;
    while (l->client.side->lease(&l->client, &lease, &ended) && !ended) {}
}

static void end(mu_simulated *l) {
    l->state = MU_SIMULATED_ENDED;
    l->watched->ended = true;
    atomic_store(&l->client.shared->learner[l->client.process].ended, 1);
}

// True: it goes on.
static bool ask(mu_simulated *l, int64_t now) {
    mu_shared_client *c = &l->client;
    const mu_exchange *x = c->exchange;
    take_leases(l);
    const mu_answer a = c->side->ask(c, &x);
    if (a == MU_HOLD) {
        wait(l, now);
        return serve(l);
    }
    if (a == MU_END) {
        end(l);
        return false;
    }
    c->version = c->base.grant.version;
    l->state = MU_SIMULATED_FORWARD;
    l->layer = 1;
    return true;
}

// ---- layers ----

static bool has_weights(const mu_simulated *l, const mu_layer *layer) {
    const mu_shared *g = l->client.shared;
    const int64_t wanted = l->client.base.grant.version;
    if (!mu_shared_is_in_step(g, wanted)) return true;
    for (int k = 0; k < layer->n_param; k++) {
        const int p = layer->param[k]->index;
        for (int i = g->first_slice[p]; i < g->first_slice[p + 1]; i++)
            if (atomic_load_explicit(&g->slice[i].version, memory_order_acquire) < wanted) return false;
    }
    return true;
}

static void mark(mu_simulated *l, int param) {
    const mu_shared_client *c = &l->client;
    const mu_share *s = &c->shared->share[0];
    const mu_message_part *p = &s->message.part[param];
    char *message = mu_shared_slot(c->shared, c->base.learner, c->slot) + s->at;
    mu_message_use use = {.form = p->form};
    if (p->form == MU_GRAD_ROWS) use.n = p->max_rows;
    if (p->form == MU_GRAD_FACTORS || p->form == MU_GRAD_GATHERED) use.n = c->base.grant.rows;
    if (p->form == MU_GRAD_GATHERED) use.n_x = p->max_x;
    mu_message_mark(&s->message, message, param, &use);
    mu_message_set_step(&s->message, message, param, c->base.grant.step);
}

// What has a gradient when the layer's backward ends, or with the others: when all do.
static void mark_layer(mu_simulated *l, const mu_layer *layer) {
    for (int k = 0; k < layer->n_param; k++)
        if (mu_grad_done_in_layer(layer->param[k])) mark(l, layer->param[k]->index);
    if (layer->n_param && l->client.shared->parent) mu_bell_ring(l->client.shared->parent);
}

static void mark_rest(mu_simulated *l) {
    const mu_params *ps = l->net->params;
    for (int i = 0; i < ps->n; i++)
        if (!mu_grad_done_in_layer(ps->list[i])) mark(l, i);
}

static mu_status hand_over(mu_simulated *l, mu_err *err) {
    mu_client *c = &l->client.base;
    const mu_gradient_note n = {.compute_ns = l->compute_ns, .wait_ns = l->wait_ns, .rows = c->grant.rows};
    mu_push_result how;
    mark_rest(l);
    c->class->note(c, &n);
    l->compute_ns = l->wait_ns = 0;
    MU_TRY(l->client.side->hand_over(&l->client, false, 1, &how, err));
    if (how != MU_ACCEPTED && how != MU_TOO_STALE)
        return MU_FAIL(err, MU_EBACKEND, "simulated learner %d was refused", c->learner);
    l->state = MU_SIMULATED_ASKS;
    return MU_OK;
}

static bool forward(mu_simulated *l, int64_t now) {
    if (l->layer == l->net->n_layers) {
        l->state = MU_SIMULATED_BACKWARD;
        l->layer--;
        compute(l, l->costs->backward_s[l->layer - 1], now);
        return true;
    }
    if (!has_weights(l, l->net->layer[l->layer])) {
        wait(l, now);
        return serve(l);
    }
    compute(l, l->costs->forward_s[l->layer - 1], now);
    l->layer++;
    return true;
}

static mu_status backward(mu_simulated *l, int64_t now, mu_err *err) {
    mark_layer(l, l->net->layer[l->layer]);
    if (--l->layer == 0) return hand_over(l, err);
    compute(l, l->costs->backward_s[l->layer - 1], now);
    return MU_OK;
}

mu_status mu_simulated_go(mu_simulated *l, mu_err *err) {
    for (bool moved = true; moved && l->state != MU_SIMULATED_ENDED;) {
        const int64_t now = mu_machine_now_ns();
        if (l->busy && now < l->due_ns) return MU_OK;
        l->busy = false;
        if (l->state == MU_SIMULATED_ASKS) moved = ask(l, now);
        else if (l->state == MU_SIMULATED_FORWARD) moved = forward(l, now);
        else MU_TRY(backward(l, now, err));
    }
    return MU_OK;
}
