// SPDX-License-Identifier: Apache-2.0
// advisor.c - see advisor.h.
#include "train/advisor.h"

#include "base/clock.h"
#include "base/log.h"
#include "train/training.h"

#include <math.h>

typedef enum kind {
    OVERFITTING, FLAT, CLASSES, OUTPUTS, INPUTS, RATE, SCHEDULE, SAVING, LEARNERS
} kind;

#define LOOK_EVERY_S 0.2
enum { SLOW_MEASUREMENTS = 2 }; // in a row: another program may have begun something

static bool is_new(const mu_training *t, kind k) { return !(t->advisor.given >> k & 1); }

static void give(mu_training *t, kind k, const mu_advice_text *text) {
    t->advisor.given |= 1u << k;
    mu_training_say(t, "%s", text->s);
}

void mu_advisor_begin(mu_training *t) {
    const mu_updater *u = t->s->updater;
    mu_advice_text text;
    double usual[2] = {0};
    if (u->class->usual_rates) u->class->usual_rates(u->state, usual);
    if (mu_advise_rate(u->class->name, u->base, usual, &text)) give(t, RATE, &text);
    if (u->schedule->follows_time && mu_advise_ended(u->schedule->name, t->at.time_share, t->rate, &text))
        give(t, SCHEDULE, &text);
}

// ---- the data ----

static void look_at_inputs(mu_training *t, const mu_facts *f) {
    mu_advice_text text;
    if (atomic_load_explicit(&f->looked, memory_order_acquire) != 2) return;
    for (int i = 0; i < MU_MAX_FIELDS && is_new(t, INPUTS); i++)
        if ((f->numbers >> i & 1) &&
            mu_advise_inputs(mu_source_field(t->s->train.source, i)->name, &f->field[i], &text))
            give(t, INPUTS, &text);
}

// All records were used once. Of a shard nothing is known of the others.
static void look_at_classes(mu_training *t, mu_facts *f) {
    const mu_reader *r = mu_source_reader(t->s->train.source);
    if (!atomic_load(&f->counting) || r->shard.of) return;
    if (t->at.samples - t->start_samples < mu_source_n_records(t->s->train.source)) return;
    mu_advice_text text;
    int64_t first = 0;
    const int64_t n = mu_facts_missing(f, &first);
    const char *name = r->label_names && first < r->n_labels ? r->label_names[first] : NULL;
    atomic_store(&f->counting, 0);
    if (mu_advise_classes(n, first, name, f->n_classes, &text)) give(t, CLASSES, &text);
}

static void look_at_facts(mu_training *t) {
    mu_facts *f = t->advisor.facts;
    mu_advice_text text;
    if (!f) return;
    t->advisor.n_classes = f->n_classes;
    if (is_new(t, OUTPUTS) && mu_advise_outputs(f->n_outputs, f->n_classes, &text)) give(t, OUTPUTS, &text);
    if (is_new(t, INPUTS)) look_at_inputs(t, f);
    if (is_new(t, CLASSES)) look_at_classes(t, f);
}

// ---- time ----

static void look_at_schedule(mu_training *t, double spent) {
    const mu_updater *u = t->s->updater;
    const double deadline = t->limits.deadline;
    if (!(deadline > 0) || u->schedule->follows_time) return;
    const double samples = (double)(t->at.samples - t->start_samples);
    const double step_samples = (double)mu_samples_per_step(t->s);
    mu_advice_text text;
    const double now = u->per ? mu_epoch_at(t->s, t->at.samples) : (double)t->at.step;
    const double here = u->per ? samples / (double)mu_source_n_records(t->s->train.source)
                               : samples / step_samples;
    if (mu_advise_schedule(u->schedule->name, mu_updater_rate_ends(u, t->end.steps, t->end.epochs),
                           u->per ? "epoch" : "step", now, here, spent, deadline, &text))
        give(t, SCHEDULE, &text);
}

static void look(mu_training *t) {
    const double spent = mu_clock_s() - t->start_s;
    mu_advice_text text;
    look_at_facts(t);
    if (is_new(t, SCHEDULE)) look_at_schedule(t, spent);
    if (is_new(t, SAVING) && t->save.every.unit != MU_EVERY_AUTO &&
        mu_advise_saving(t->n_saved, t->saved_s, spent, &text))
        give(t, SAVING, &text);
}

void mu_advisor_look(mu_training *t) {
    const double now = mu_clock_s();
    if (now < t->advisor.next_s) return;
    t->advisor.next_s = now + LOOK_EVERY_S;
    look(t);
}

void mu_advisor_end(mu_training *t) {
    look(t);
    t->advisor.facts = NULL;
}

// ---- what is told ----

void mu_advisor_logged(mu_training *t, double loss) {
    const double steps = t->end.steps > 0 ? (double)t->at.step / t->end.steps : 0;
    mu_advice_text text;
    if (is_new(t, FLAT) && mu_advise_flat(&t->advisor.flat, fmax(steps, t->at.time_share), loss,
                                          t->advisor.n_classes, &text))
        give(t, FLAT, &text);
}

void mu_advisor_evaluated(mu_training *t, const char *set, double epoch, double train_loss, double loss) {
    const mu_eval_point p = {epoch, train_loss, loss, set, t->limits.patience};
    mu_advice_text text;
    if (is_new(t, OVERFITTING) && mu_advise_overfitting(&t->advisor.overfit, &p, &text))
        give(t, OVERFITTING, &text);
}

void mu_advisor_measured(mu_training *t, const mu_learners_load *load) {
    mu_advice_text text;
    mu_debug("learners: %.0f samples/s, one alone about %.0f; in %.1f s %.1f computing, %.1f applying by the "
             "clock, %.1f on cores, %.1f waiting for one, %.1f reading data",
             (double)load->samples / load->seconds, mu_one_learner_speed(load), load->seconds,
             load->compute_s, load->apply_s, load->cpu_s, load->queue_s, load->data_s);
    t->advisor.n_slow = mu_advise_learners(load, &text) ? t->advisor.n_slow + 1 : 0;
    if (is_new(t, LEARNERS) && t->advisor.n_slow >= SLOW_MEASUREMENTS) give(t, LEARNERS, &text);
}
