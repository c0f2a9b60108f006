// SPDX-License-Identifier: Apache-2.0
// position.c - see position.h.
#include "train/position.h"

#include <math.h>

int64_t mu_samples_per_step(const mu_session *s) { return s->setup.global_batch * s->job->train.accumulate; }

double mu_epoch_at(const mu_session *s, int64_t samples) {
    return (double)samples / (double)mu_source_n_records(s->train.source);
}

mu_length mu_length_of(const mu_session *s) {
    const mu_train_opts *t = &s->job->train;
    const double per_epoch = (double)mu_source_n_records(s->train.source) / (double)mu_samples_per_step(s);
    if (t->steps > 0) return (mu_length){(double)t->steps, (double)t->steps / per_epoch};
    return (mu_length){ceil(t->epochs * per_epoch - 1e-9), t->epochs};
}

mu_position mu_position_at(const mu_session *s, const mu_position *from, int64_t samples) {
    const int64_t per_step = mu_samples_per_step(s), done = from->partial + samples - from->samples;
    mu_position p = *from;
    const int64_t steps = done >= 0 ? done / per_step : -((per_step - 1 - done) / per_step);
    p.step += steps;
    p.partial = done - steps * per_step;
    p.samples = samples;
    return p;
}

int64_t mu_end_sample(const mu_session *s, const mu_position *at) {
    const mu_train_opts *t = &s->job->train;
    const int64_t per_step = mu_samples_per_step(s), began = at->samples - at->partial; // the step under way
    double steps = INFINITY;
    if (t->steps > 0) steps = (double)(t->steps - at->step);
    if (t->epochs > 0) {
        const double end = t->epochs * (double)mu_source_n_records(s->train.source);
        steps = fmin(steps, ceil((end - (double)began) / (double)per_step - 1e-9));
    }
    if (steps <= 0) return at->samples;
    if (steps >= (double)(INT64_MAX - began) / (double)per_step) return INT64_MAX;
    return began + (int64_t)steps * per_step;
}

mu_step_rate mu_step_rate_at(const mu_session *s, const mu_position *at, const mu_length *end) {
    const double epoch = mu_epoch_at(s, at->samples);
    return (mu_step_rate){.rate = at->rate_scale * s->setup.rate_factor *
                                  mu_updater_rate(s->updater, at->step, epoch, end->steps, end->epochs,
                                                  at->time_share),
                          .young = mu_updater_is_young(s->updater, at->step, epoch)};
}

// How many updates in step a run has before it, and whether it begins behind all of them, but with their
// history.
static int64_t steps_in_step(const mu_session *s, const mu_position *begin, bool *just_behind) {
    const int64_t warm = s->setup.warm_versions;
    *just_behind = warm > 0 && begin->step == warm && !begin->partial && !begin->extra_updates;
    return mu_setup_sync_versions(&s->setup, warm > begin->step ? warm - begin->step : 0);
}

// How many updates to one of fresh gradients the history behind this update has; 0 = as this protocol.
static double history_of(const mu_setup *p, int phase, const mu_update_place *place, int64_t made,
                         int64_t in_step, bool just_behind) {
    const int64_t first = p->protocol->counts_gradients ? p->learners / p->splits : 1; // the first update
    if (made < in_step + first && (in_step > 0 || just_behind)) return 1;
    return place->first && phase > 0 ? mu_stale_updates(&p->phase[phase - 1].stale) : 0;
}

mu_step_rate mu_update_rate_at(const mu_session *s, const mu_update_place *place, const mu_position *at,
                               const mu_length *end) {
    mu_step_rate r = mu_step_rate_at(s, at, end);
    const mu_setup *p = &s->setup;
    const mu_position *begin = place->begin;
    bool just_behind;
    const int64_t made = place->version - begin->step - begin->extra_updates;
    const int64_t in_step = steps_in_step(s, begin, &just_behind);
    if (made < in_step) return r;
    const int phase = mu_setup_phase_of(p, at->samples);
    const double before = history_of(p, phase, place, made, in_step, just_behind);
    mu_stale_change(&p->phase[phase].stale, s->updater, before, &r);
    r.rate *= mu_setup_softness(p, at->step);
    return r;
}

double mu_effective_rate_at(const mu_session *s, const mu_position *at, const mu_length *end) {
    mu_step_rate r = mu_step_rate_at(s, at, end);
    if (!mu_session_forks(s)) return r.rate; // a gradient of one learner is never stale
    const mu_setup *p = &s->setup;
    const bool in_step = at->step < mu_setup_sync_versions(p, p->warm_versions);
    const int phase = mu_setup_phase_of(p, at->samples);
    if (!in_step) mu_stale_change(&p->phase[phase].stale, s->updater, 0, &r);
    if (!in_step) r.rate *= mu_setup_softness(p, at->step);
    return r.rate * mu_setup_rate_share(p, phase, in_step, llround(p->phase[phase].expected_staleness));
}

double mu_time_share(double begin, double spent, double deadline) {
    if (!(deadline > 0)) return begin;
    const double used = spent < 0 ? 0 : spent < deadline ? spent / deadline : 1;
    return begin + (1 - begin) * used;
}
