// SPDX-License-Identifier: Apache-2.0
// root.c - see root.h.
#include "learners/root.h"

#include "base/clock.h"

#include <string.h>

#define TAG "root"

// ---- beginning and end ----

static mu_core_config config_of(const mu_training *t) {
    const mu_setup *p = &t->s->setup;
    const mu_position *at = &t->at;
    mu_core_config c = {
        .learners = p->server_groups,
        .scale_free = p->stale.scale_free,
        .n_phases = p->n_phases,
        .lease_batches = 1,
        .longest_run = 1,
        .global_batch = p->global_batch,
        .rows = p->global_batch / p->server_groups,
        .first_version = at->step + at->extra_updates,
        .first_sample = at->samples,
        .end_sample = INT64_MAX, // groups leave when theirs are used
        .warm_versions = p->warm_versions > at->step ? p->warm_versions - at->step : 0,
    };
    for (int i = 0; i < p->n_phases; i++) {
        const mu_setup_phase *f = &p->phase[i];
        c.phase[i] = (mu_core_phase){f->until,
                                     f->protocol,
                                     f->splits,
                                     f->bound,
                                     f->own,
                                     (int32_t)f->rate_rule,
                                     mu_stale_gradient_scale(&f->stale)};
    }
    c.protocol = c.phase[0].protocol;
    return c;
}

int64_t mu_root_steps_in_step(const mu_training *t) {
    const mu_core_config c = config_of(t);
    return mu_setup_sync_versions(&t->s->setup, c.warm_versions);
}

static mu_status make_core(mu_root *r, mu_err *err) {
    const mu_core_config c = config_of(r->o.training);
    r->core = mu_alloc(mu_core_size(c.learners), TAG);
    if (!r->core) return MU_FAIL_NOMEM(err, "the core of the protocol");
    mu_core_init(r->core, &c);
    return MU_OK;
}

// The session's parameters live in shared memory by now; these are copies.
static mu_status copy_weights(mu_root *r, mu_err *err) {
    const mu_params *ps = r->o.training->s->params;
    const size_t bytes = ps->count * sizeof(float);
    r->params = *ps;
    r->value = mu_alloc_block(bytes, TAG);
    bool good = r->value != NULL;
    for (int k = 0; k < ps->n_slots && good; k++) good = (r->slot[k] = mu_alloc_block(bytes, TAG)) != NULL;
    if (!good) return MU_FAIL_NOMEM(err, "the weights of all ranks");
    memcpy(r->value, ps->value, bytes);
    for (int k = 0; k < ps->n_slots; k++) memcpy(r->slot[k], ps->slot[k], bytes);
    r->params.value = r->value;
    memcpy(r->params.slot, r->slot, sizeof r->params.slot);
    return mu_slices_make(ps, &r->slices, err);
}

static bool make_place(const mu_root *r, mu_root_place *p) {
    const size_t own = (size_t)r->own;
    const size_t floats = (size_t)mu_wire_forms_floats(r->o.forms);
    *p = (mu_root_place){.step = -1};
    p->has = mu_alloc_array(own, sizeof *p->has, TAG);
    p->scale = mu_alloc_array(own, sizeof *p->scale, TAG);
    p->message = mu_alloc_block(own * r->o.forms->message.bytes, TAG);
    p->sum = floats ? mu_alloc_block(floats * sizeof(float), TAG) : NULL;
    return p->has && p->scale && p->message && (p->sum || !floats);
}

static mu_status make_groups(mu_root *r, mu_err *err) {
    const mu_training *t = r->o.training;
    bool good = (r->group = mu_alloc_array((size_t)r->n, sizeof *r->group, TAG)) != NULL;
    for (int g = 0; g < r->n && good; g++) {
        mu_root_group *one = &r->group[g];
        *one = (mu_root_group){.has = r->core->version,
                               .sent = r->core->version,
                               .stripe = {t->at.samples, t->s->setup.global_batch / r->n, g, r->n}};
        for (int k = 0; k < MU_CORE_SLOTS && good; k++) good = make_place(r, &one->place[k]);
        one->incarnation = mu_core_join(r->core, g);
    }
    const size_t parts = (size_t)mu_core_most_parts(r->n), most = parts * (size_t)(r->own + 1);
    r->grads = mu_alloc_array(most, sizeof *r->grads, TAG);
    r->grad_at = mu_alloc_array(most, sizeof *r->grad_at, TAG);
    r->weights = mu_alloc_array(most, sizeof *r->weights, TAG);
    r->share = mu_alloc_array(parts, sizeof *r->share, TAG);
    r->order = mu_alloc_array(parts, sizeof *r->order, TAG);
    good &= r->grads && r->grad_at && r->weights && r->share && r->order;
    return good ? MU_OK : MU_FAIL_NOMEM(err, "the gradients of all ranks");
}

mu_status mu_root_open(mu_root *r, const mu_root_opts *o, mu_err *err) {
    const mu_setup *p = &o->training->s->setup;
    *r = (mu_root){
        .o = *o, .n = p->server_groups, .own = p->learners / p->server_groups, .begin = o->training->at};
    MU_TRY(make_core(r, err));
    MU_TRY(copy_weights(r, err));
    return make_groups(r, err);
}

void mu_root_close(mu_root *r) {
    for (int g = 0; g < r->n && r->group; g++)
        for (int k = 0; k < MU_CORE_SLOTS; k++) {
            mu_root_place *p = &r->group[g].place[k];
            mu_free(p->has);
            mu_free(p->scale);
            mu_free(p->message);
            mu_free(p->sum);
        }
    mu_free(r->core);
    mu_free(r->group);
    mu_free(r->value);
    for (int k = 0; k < MU_MAX_SLOTS; k++) mu_free(r->slot[k]);
    if (r->slices.range) mu_slices_fini(&r->slices);
    mu_free(r->grads);
    mu_free(r->grad_at);
    mu_free(r->weights);
    mu_free(r->share);
    mu_free(r->order);
    *r = (mu_root){0};
}

// ---- what comes ----

static mu_root_place *place_of(mu_root *r, int group, int64_t step) {
    return &r->group[group].place[step % MU_CORE_SLOTS];
}

static mu_status unexpected(int group, int64_t step, mu_err *err) {
    return MU_FAIL(err, MU_EDATA, "group %d sent a gradient of step %lld, which is not due", group,
                   (long long)step);
}

// The place of a gradient of which something came.
static mu_status open_place(mu_root *r, int group, int64_t step, mu_root_place **out, mu_err *err) {
    const mu_root_group *g = &r->group[group];
    mu_root_place *p = *out = place_of(r, group, step);
    if (step < g->next || step >= g->granted || p->complete || (p->step >= 0 && p->step != step))
        return unexpected(group, step, err);
    if (p->step == step) return MU_OK;
    p->step = step;
    p->version = p->first = INT64_MAX;
    p->rows = p->floats = 0;
    p->bad = false;
    memset(p->has, 0, (size_t)r->own * sizeof *p->has);
    return MU_OK;
}

static void copy_message(const mu_root *r, const char *from, char *to) {
    const mu_message_layout *m = &r->o.forms->message;
    for (int i = 0; i < m->n; i++) {
        const mu_message_use use = mu_message_used(m, from, i);
        mu_message_span span[MU_MESSAGE_SPANS];
        const bool apart = r->o.forms->summed[i];
        const int n = apart ? 0 : mu_message_spans(m, i, r->o.forms->share.params->list[i], &use, span);
        for (int k = 0; k < n; k++) memcpy(to + span[k].offset, from + span[k].offset, span[k].bytes);
        mu_message_mark(m, to, i, &use);
    }
}

mu_status mu_root_put(mu_root *r, const mu_wire_push *w, mu_err *err) {
    const int group = w->id.learner / r->own, i = w->id.learner % r->own;
    mu_root_place *p;
    MU_TRY(open_place(r, group, w->id.step, &p, err));
    if (p->has[i]) return unexpected(group, w->id.step, err);
    char *message = p->message + (size_t)i * r->o.forms->message.bytes;
    if (w->slot) copy_message(r, w->slot, message);
    else mu_wire_put_message(r->o.shape, w, message);
    p->has[i] = true;
    p->scale[i] = w->scale;
    p->bad |= w->bad != 0;
    p->rows += w->id.rows;
    if (w->id.first < p->first) p->first = w->id.first;
    if (w->id.version < p->version) p->version = w->id.version;
    r->loss_sum += w->loss;
    r->accuracy_sum += w->accuracy;
    r->loss_n++;
    return MU_OK;
}

mu_status mu_root_put_sum(mu_root *r, int group, int64_t step, int64_t begin, int64_t end, const void *floats,
                          mu_err *err) {
    mu_root_place *p;
    MU_TRY(open_place(r, group, step, &p, err));
    const int64_t all = mu_wire_forms_floats(r->o.forms);
    if (end > all || p->floats + end - begin > all) return unexpected(group, step, err);
    memcpy(p->sum + begin, floats, (size_t)(end - begin) * sizeof *p->sum);
    p->floats += end - begin;
    return MU_OK;
}

mu_status mu_root_complete(mu_root *r, int group, int64_t step, mu_err *err) {
    mu_root_place *p;
    MU_TRY(open_place(r, group, step, &p, err));
    mu_root_group *g = &r->group[group];
    const bool whole = p->rows > 0 && p->rows <= g->stripe.width && p->first == g->stripe.base + g->came;
    if (!whole || p->floats != mu_wire_forms_floats(r->o.forms)) return unexpected(group, step, err);
    g->came += p->rows;
    p->complete = true;
    return MU_OK;
}

// The core hears of it behind the group's last gradient, which may have come just before (mu_root_go_on).
void mu_root_leave(mu_root *r, int group) { r->group[group].left = true; }

bool mu_root_is_left(const mu_root *r) {
    bool all = true;
    for (int g = 0; g < r->n; g++) all &= r->group[g].gone;
    return all && mu_core_idle(r->core);
}

// ---- into the core ----

static int learners_in(const mu_root *r, const mu_root_place *p) {
    int n = 0;
    for (int i = 0; i < r->own; i++) n += p->has[i];
    return n;
}

// The core's grant says which samples; the group's own numbers of them are in its place.
static mu_status push(mu_root *r, int group, mu_err *err) {
    mu_root_group *g = &r->group[group];
    mu_root_place *p = place_of(r, group, g->next);
    mu_grant grant;
    if (mu_core_ask(r->core, group, g->incarnation, &grant) != MU_GO || grant.step != g->next)
        return unexpected(group, g->next, err);
    const mu_gradient_id id = {group, g->incarnation, grant.step, p->version, grant.first, grant.rows};
    const mu_push_result how = mu_core_push(r->core, &id);
    if (how != MU_ACCEPTED && how != MU_TOO_STALE)
        return MU_FAIL(err, MU_EDATA, "group %d sent a gradient of version %lld at version %lld", group,
                       (long long)p->version, (long long)r->core->version);
    g->next++;
    if (p->version > g->has) g->has = p->version;
    p->complete = false;
    if (how == MU_ACCEPTED) return MU_OK;
    r->rejected += learners_in(r, p);
    g->used += p->rows;
    p->step = -1;
    return MU_OK;
}

// ---- updates ----

static int group_of(const mu_root *r, int part) { return mu_core_part_at(r->core, part)->id.learner; }

static const mu_root_place *part_place(mu_root *r, int part) {
    return place_of(r, group_of(r, part), mu_core_part_at(r->core, part)->id.step);
}

static void sort_parts(mu_root *r) {
    for (int j = 0; j < r->core->n_parts; j++) {
        int at = j;
        for (; at > 0 && group_of(r, r->order[at - 1]) > group_of(r, j); at--)
            r->order[at] = r->order[at - 1];
        r->order[at] = j;
    }
}

// Weights of the parts. Means over the samples of a group: in step one over all samples is wanted, whatever
// groups have.
static bool weigh(mu_root *r) {
    const mu_core *c = r->core;
    const bool in_step = mu_core_is_in_step(c);
    int64_t rows = 0;
    double alone = 0;
    bool bad = false;
    for (int j = 0; j < c->n_parts; j++) rows += part_place(r, j)->rows;
    for (int j = 0; j < c->n_parts; j++) {
        const mu_root_place *p = part_place(r, j);
        const int64_t sigma = mu_core_staleness(c, j);
        r->share[j] = mu_core_weight(c, sigma, c->n_parts);
        if (in_step) r->share[j] *= (float)p->rows / (float)rows;
        alone += (double)mu_core_rate_share(c, sigma);
        bad |= p->bad;
    }
    r->rate = alone / c->n_parts;
    return !bad;
}

// Has any learner of the group a gradient of it?
static bool is_given(const mu_root *r, const mu_root_place *p, int param) {
    const mu_message_layout *m = &r->o.forms->message;
    bool any = false;
    for (int i = 0; i < r->own && !any; i++)
        any = p->has[i] && mu_message_used(m, p->message + (size_t)i * m->bytes, param).form == MU_GRAD_DENSE;
    return any;
}

// Gradients of all parts for one parameter; how many.
static int gather(mu_root *r, int param) {
    const mu_wire_forms *f = r->o.forms;
    const mu_param *mp = r->params.list[param];
    int n = 0;
    for (int k = 0; k < r->core->n_parts; k++) {
        const int j = r->order[k];
        const mu_root_place *p = part_place(r, j);
        if (f->summed[param] && is_given(r, p, param)) {
            r->grads[n] = (mu_grad){.form = MU_GRAD_DENSE, .dense = p->sum + f->at[param]};
            r->weights[n++] = r->share[j];
        }
        for (int i = 0; i < r->own && !f->summed[param]; i++) {
            if (!p->has[i]) continue;
            r->grads[n] = mu_message_get(&f->message, p->message + (size_t)i * f->message.bytes, param, mp);
            r->weights[n++] = r->share[j] * p->scale[i];
        }
    }
    for (int k = 0; k < n; k++) r->grad_at[k] = &r->grads[k];
    return n;
}

static mu_step_rate rate_now(const mu_root *r) {
    const mu_training *t = r->o.training;
    const mu_core *c = r->core;
    mu_position at = mu_position_at(t->s, &r->begin, mu_core_samples(c));
    at.time_share = mu_training_time_share(t);
    const mu_update_place place = {&r->begin, c->version, c->version == c->phase_version};
    return mu_update_rate_at(t->s, &place, &at, &t->end);
}

static void apply(mu_root *r, const mu_step_rate *rate) {
    int param = -1, n = 0;
    for (int i = 0; i < r->slices.n; i++) {
        const mu_slice_range *range = &r->slices.range[i];
        if (range->param != param) n = gather(r, param = range->param);
        const mu_update u = {
            n, r->grad_at, r->weights, rate->rate, {r->core->version, rate->young, rate->stale}};
        _Atomic size_t done = 0;
        mu_apply_slice(&(mu_apply){r->o.training->s->updater, &r->params, 1, &u}, range, &done, NULL);
    }
}

static void count_parts(mu_root *r) {
    for (int j = 0; j < r->core->n_parts; j++) {
        const mu_gradient_id *id = &mu_core_part_at(r->core, j)->id;
        mu_root_place *p = place_of(r, id->learner, id->step);
        const int64_t sigma = mu_core_staleness(r->core, j);
        r->n_stale += learners_in(r, p);
        r->stale_sum += sigma * learners_in(r, p);
        r->stale_hist[sigma < MU_WIRE_BINS ? sigma : MU_WIRE_BINS - 1] += learners_in(r, p);
        if (sigma > r->stale_max) r->stale_max = sigma;
        r->group[id->learner].used += p->rows;
        p->step = -1;
    }
}

static void update(mu_root *r) {
    const int64_t began = mu_clock_ns();
    const mu_step_rate rate = rate_now(r);
    const bool good = weigh(r);
    sort_parts(r);
    r->rate *= rate.rate;
    if (good) apply(r, &rate);
    else r->skipped++;
    count_parts(r);
    mu_core_applied(r->core);
    r->apply_ns += mu_clock_ns() - began;
}

// ---- grants ----

// In step, or where the group waits for weights, it gets those of the clock; else it goes on with what it
// has.
static mu_status grant_next(mu_root *r, int group, mu_err *err) {
    mu_root_group *g = &r->group[group];
    const bool goes_on = r->o.training->s->setup.architecture == MU_ARCHITECTURE_ADV_STAR;
    mu_grant grant;
    mu_lease lease;
    bool ended;
    if (g->left || g->granted > g->next) return MU_OK;
    if (!mu_core_learner_at(r->core, group)->handed) (void)mu_core_lease(r->core, group, &lease, &ended);
    if (mu_core_ask_with(r->core, group, g->incarnation, goes_on ? g->has : INT64_MAX, &grant) != MU_GO)
        return MU_OK;
    g->granted = grant.step + 1;
    if (grant.version > g->has) g->has = grant.version;
    return r->o.grant(r->o.ctx, group, &grant, err);
}

static bool leave(mu_root *r, int group) {
    mu_root_group *g = &r->group[group];
    if (!g->left || g->gone) return false;
    g->gone = true;
    mu_core_leave(r->core, group);
    return true;
}

mu_status mu_root_go_on(mu_root *r, mu_err *err) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int g = 0; g < r->n; g++) {
            const bool complete = place_of(r, g, r->group[g].next)->complete;
            if (complete) MU_TRY(push(r, g, err));
            moved |= complete || leave(r, g);
        }
        if (!r->o.hold && mu_core_form(r->core)) {
            update(r);
            moved = true;
        }
        for (int g = 0; g < r->n; g++) MU_TRY(grant_next(r, g, err));
    }
    return MU_OK;
}

// ---- what it has ----

void mu_root_copy_out(mu_root *r, float *value, float *const *slot) {
    const size_t bytes = r->params.count * sizeof(float);
    memcpy(value, r->value, bytes);
    for (int k = 0; k < r->params.n_slots; k++) memcpy(slot[k], r->slot[k], bytes);
    r->o.hold = false;
}

// Changes of the weights are told with the first group, as there is one copy of them.
void mu_root_parts(const mu_root *r, mu_standing_part *part) {
    const int64_t first = r->core->config.first_version;
    for (int g = 0; g < r->n; g++) {
        const mu_root_group *one = &r->group[g];
        part[g] = (mu_standing_part){.stripe = one->stripe,
                                     .point = {.version = g ? first : r->core->version,
                                               .applied = one->used,
                                               .next = one->stripe.base + one->used},
                                     .updates = r->core->version};
    }
}

void mu_root_add(mu_root *r, mu_advance *sum) {
    sum->loss_sum += r->loss_sum - r->told.loss_sum;
    sum->accuracy_sum += r->accuracy_sum - r->told.accuracy_sum;
    sum->n += r->loss_n - r->told.n;
    r->told = (mu_advance){.loss_sum = r->loss_sum, .accuracy_sum = r->accuracy_sum, .n = r->loss_n};
}

void mu_root_sum_up(const mu_root *r, mu_learners_result *out) {
    out->versions = r->core->version - r->core->config.first_version;
    out->applied -= r->rejected;
    out->rejected += r->rejected;
    out->n_stale = (double)r->n_stale;
    out->staleness_mean = r->n_stale ? (double)r->stale_sum / (double)r->n_stale : 0;
    out->staleness_max = r->stale_max;
    memcpy(out->staleness_hist, r->stale_hist, sizeof r->stale_hist);
    for (int b = 0; b < MU_WIRE_BINS; b++)
        if (r->stale_hist[b]) out->most_staleness = b + 1;
    out->rate_effective = r->rate;
    out->apply_s += 1e-9 * (double)r->apply_ns;
}
