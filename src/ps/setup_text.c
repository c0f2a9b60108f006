// SPDX-License-Identifier: Apache-2.0
// setup_text.c - a setup in words, for the start of a training.
#include "ps/protocol.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct setup_text { char *out; size_t size, n; } setup_text;

static void add(setup_text *t, const char *fmt, ...) MU_PRINTF(2, 3);
static void add(setup_text *t, const char *fmt, ...) {
    if (t->n >= t->size) return;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(t->out + t->n, t->size - t->n, fmt, args);
    va_end(args);
    t->n += n > 0 ? (size_t)n : 0;
}

static void add_protocols(setup_text *t, const mu_setup *p) {
    if (p->in_turn && p->warm_versions)
        add(t, "%s until step %lld, ", mu_warm_protocol->name, (long long)p->warm_versions);
    for (int i = 0; i + 1 < p->n_phases; i++)
        add(t, "%s until step %lld, ", mu_protocol_at(p->phase[i].protocol)->name,
            (long long)(p->phase[i].until / p->global_batch));
    add(t, "%s%s, ", p->in_turn ? "then " : "", p->protocol->name);
}

static void add_batch(setup_text *t, const mu_setup *p) {
    const int64_t n = p->learners, least = p->global_batch / n;
    add(t, "mu %lld", (long long)least);
    if (p->rows > least) add(t, " to %lld", (long long)p->rows);
    add(t, " x lambda %lld = %lld, ", (long long)n, (long long)p->global_batch);
    if (p->global_batch != p->reference_batch)
        add(t, "the job's batch is %lld", (long long)p->reference_batch);
    else if (n > 1) add(t, "as the job's batch: constant when learners are added");
    else add(t, "the job's batch");
}

static void add_division(setup_text *t, const mu_setup *p, double rate) {
    const double n = p->stale.n, root = p->stale.divisor;
    if (p->rate_rule == MU_RATE_PLAIN) {
        if (n > 1) add(t, ", not divided by the staleness");
    } else if (p->stale.scale_free) {
        if (root > 1) add(t, " / sqrt(%g) = %.4g by the expected staleness", root * root, rate / root);
        else if (n > 1) add(t, ", not divided: the updater goes by the size of gradients");
    } else if (p->rate_rule == MU_RATE_EACH) {
        add(t, " / the staleness of each gradient, about %.4g", rate / n);
    } else {
        add(t, " / %g = %.4g by the expected staleness", root, rate / root);
    }
}

static void add_rate(setup_text *t, const mu_setup *p, double base) {
    const mu_stale_step *m = &p->momentum_now;
    double rate = base * p->rate_factor;
    add(t, "expected staleness %g, rate %g", p->expected_staleness, base);
    if (p->rate_factor != 1)
        add(t, " x sqrt(%lld/%lld) = %.4g", (long long)p->global_batch, (long long)p->reference_batch, rate);
    if (m->lowers && p->momentum_rate != 1) add(t, " x %.4g", p->momentum_rate);
    if (m->lowers) rate *= p->momentum_rate;
    add_division(t, p, rate);
    if (!m->lowers) return;
    add(t, ", momentum %g -> %.4g", p->momentum, (double)m->keep);
    if (m->ahead > 0) add(t, " with weights %g updates ahead", (double)m->ahead);
}

void mu_setup_text(const mu_setup *p, double base_rate, char *out, size_t size) {
    setup_text t = {out, size, 0};
    if (size) out[0] = '\0';
    const bool spread = mu_setup_ranks_of_learner(p) > 1; // workers of one learner
    if (spread && p->learners == 1) add(&t, "%d workers of 1 learner", p->workers);
    else if (spread) add(&t, "%d workers of %d learners each", p->workers, p->learners);
    else add(&t, "%d learner%s", p->learners, p->learners == 1 ? "" : "s");
    if (p->workers > 1 && !spread) add(&t, " of %d workers", p->workers);
    static const char *const architecture[] = {"", ", base", ", adv", ", adv*"};
    if (mu_setup_merges(p))
        add(&t, " in %d server groups, merged by %s every %lld updates%s", p->server_groups,
            p->merge.plugin->name, (long long)p->sync_every, p->sync_parts > 1 ? " in parts" : "");
    if (mu_setup_nodes(p) > 1)
        add(&t, "%s on %d ranks%s", spread ? "" : ",", mu_setup_nodes(p), architecture[p->architecture]);
    add(&t, ", ");
    add_protocols(&t, p);
    add_batch(&t, p);
    add(&t, "\n");
    add_rate(&t, p, base_rate);
    if (mu_setup_processes(p) > 1 || p->server_threads) {
        if (mu_setup_has_no_server(p)) add(&t, ", no server");
        else if (p->server == MU_SERVER_RANK_0) add(&t, ", updates by rank 0");
        else if (p->server_threads)
            add(&t, ", server process with %d thread%s%s", p->server_threads,
                p->server_threads == 1 ? "" : "s",
                p->server == MU_SERVER_BOTH ? ", helped by learners that wait" : "");
        else add(&t, ", server beside the learners");
    }
    if (p->warm_versions && !p->in_turn)
        add(&t, ", %s for the first %lld steps", mu_warm_protocol->name, (long long)p->warm_versions);
    else if (!p->warm_versions && p->soft_steps)
        add(&t, ", rate rises over the first %lld steps", (long long)p->soft_steps);
}
