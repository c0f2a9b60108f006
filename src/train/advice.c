// SPDX-License-Identifier: Apache-2.0
// advice.c - see advice.h.
#include "train/advice.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static bool say(mu_advice_text *out, const char *fmt, ...) MU_PRINTF(2, 3);
static bool say(mu_advice_text *out, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(out->s, sizeof out->s, fmt, args);
    va_end(args);
    return true;
}

// ---- the loss ----

enum { EVALUATIONS_ABOVE = 3 };
#define CLEARLY 1.03            // above the lowest: evaluations differ by a percent or two for no reason
#define BY_A_QUARTER 1.25
#define FELL 0.98               // of the training loss

bool mu_advise_overfitting(mu_overfit *o, const mu_eval_point *p, mu_advice_text *out) {
    if (!isfinite(p->loss) || p->loss <= 0) return false; // energies may be negative
    if (!o->any || p->loss < o->loss) {
        *o = (mu_overfit){.any = true, .epoch = p->epoch, .train_loss = p->train_loss, .loss = p->loss};
        return false;
    }
    o->n_above = p->loss > CLEARLY * o->loss ? o->n_above + 1 : 0;
    if (o->n_above < EVALUATIONS_ABOVE || p->loss < BY_A_QUARTER * o->loss) return false;
    if (!(p->train_loss < FELL * o->train_loss)) return false; // NaN: nothing is known
    return say(out,
               "%s loss rose from %.4g to %.4g since epoch %.3g while training loss fell from %.4g to %.4g: "
               "the net learns its training data by heart; %smore dropout or decay, a smaller net, or more "
               "data",
               p->set, o->loss, p->loss, o->epoch, o->train_loss, p->train_loss,
               p->patience ? "" : "stop earlier (train.patience: 3), ");
}

#define NEAR_GUESSING 0.03      // of ln(classes)
#define MOVED 0.99              // of the loss when it began: it does learn, slowly
#define FLAT_SHARE 0.2
enum { FLAT_LINES = 5 };

bool mu_advise_flat(mu_flat *f, double share, double loss, int64_t n_classes, mu_advice_text *out) {
    const double guess = n_classes > 1 ? log((double)n_classes) : NAN;
    if (!(fabs(loss - guess) <= NEAR_GUESSING * guess)) {
        *f = (mu_flat){0};
        return false;
    }
    if (!f->n || loss < MOVED * f->loss) *f = (mu_flat){.share = share, .loss = loss};
    if (++f->n < FLAT_LINES || !(share - f->share >= FLAT_SHARE)) return false;
    return say(out,
               "loss has not moved from %.3g = ln %lld, that of guessing, for %.0f %% of the training: the "
               "rate is too small or too large, inputs are not scaled, or labels do not belong to the inputs",
               guess, (long long)n_classes, 100 * (share - f->share));
}

// ---- the data ----

bool mu_advise_classes(int64_t n_missing, int64_t first, const char *name, int64_t n_classes,
                       mu_advice_text *out) {
    char what[80];
    if (n_missing <= 0) return false;
    if (name) snprintf(what, sizeof what, "`%.60s`", name);
    else snprintf(what, sizeof what, "number %lld", (long long)first);
    return say(out,
               "%lld of %lld classes %s no sample in data.train (the first is %s): the net cannot learn "
               "them; add samples, or leave the classes out",
               (long long)n_missing, (long long)n_classes, n_missing == 1 ? "has" : "have", what);
}

bool mu_advise_outputs(int64_t n_outputs, int64_t n_classes, mu_advice_text *out) {
    if (n_classes < 2 || n_outputs <= n_classes) return false;
    return say(out,
               "the net has %lld outputs for %lld classes, %lld of them are never right: set `outputs: %lld` "
               "in its last layer, or `outputs: auto`",
               (long long)n_outputs, (long long)n_classes, (long long)(n_outputs - n_classes),
               (long long)n_classes);
}

#define LARGE_MEAN 10.0         // of numbers that were neither centred nor scaled
#define LARGE_DEVIATION 100.0   // centred pixels have 60 to 80, and recipes exist that want them so

bool mu_advise_inputs(const char *field, const mu_field_facts *f, mu_advice_text *out) {
    if (!(fabs(f->mean) > LARGE_MEAN || f->deviation > LARGE_DEVIATION)) return false;
    const bool bytes = f->whole && f->least >= 0 && f->most <= 255 && f->most > 64;
    if (bytes)
        return say(out,
                   "data.%s has values from %g to %g: add `scale: 0.00390625` to data.train (other data "
                   "takes it over)",
                   field, f->least, f->most);
    return say(out,
               "data.%s has values from %.4g to %.4g, mean %.3g: nets learn from numbers around -1 to 1; add "
               "`mean: auto` and `scale: %.2g` to data.train (other data takes them over), or standardise "
               "each column (reader: table)",
               field, f->least, f->most, f->mean, 1 / fmax(f->deviation, 1e-30));
}

// ---- rate and time ----

bool mu_advise_rate(const char *rule, double base, const double usual[2], mu_advice_text *out) {
    if (!(base > 0) || !(usual[1] > 0) || (base >= usual[0] && base <= usual[1])) return false;
    return say(out, "updater.rate %g is far from usual for %s, which is %g to %g: too %s", base, rule,
               usual[0], usual[1],
               base > usual[1] ? "large a rate makes the loss jump or not finite"
                               : "small a rate learns nothing in reasonable time");
}

#define SPENT_AT_LEAST 0.1      // of the deadline, to judge the speed

bool mu_advise_schedule(const char *schedule, double ends, const char *unit, double now, double here,
                        double spent, double deadline, mu_advice_text *out) {
    if (!(ends > 0) || !(deadline > 0) || spent < SPENT_AT_LEAST * deadline || !(here > 0)) return false;
    const double reached = now + here / spent * (deadline - spent);
    const int digits = reached < 10 ? 1 : 0;
    if (reached >= ends) return false;
    return say(out,
               "the deadline comes at about %s %.*f, before the last change of the rate at %.*f: set the %ss "
               "of `updater.rate` (%s) for the time there is, or use cosine, linear or poly, which end with "
               "it",
               unit, digits, reached, digits, ends, unit, schedule);
}

bool mu_advise_ended(const char *schedule, double time_share, double rate, mu_advice_text *out) {
    if (!(time_share >= 0.99)) return false; // the last steps may take a part of it
    return say(out,
               "the schedule (%s) ended with the deadline of the training before: this one goes on at its "
               "last rate, %.3g; to train on, begin a new run with `train.init_from`",
               schedule, rate);
}

#define SAVING_SHARE 0.03
enum { SAVES = 3 };
#define SAVING_SINCE_S 10.0     // shorter trainings need no advice about their time

// The shortest of usual words that is long enough.
static const char *time_word(double seconds, char *text, size_t size) {
    static const int nice[] = {5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600};
    for (size_t i = 0; i < MU_COUNT(nice); i++) {
        if (seconds > nice[i]) continue;
        if (nice[i] < 60) snprintf(text, size, "%ds", nice[i]);
        else snprintf(text, size, "%dm", nice[i] / 60);
        return text;
    }
    snprintf(text, size, "%.0fh", ceil(seconds / 3600));
    return text;
}

bool mu_advise_saving(int64_t n, double took_s, double trained_s, mu_advice_text *out) {
    char word[32];
    if (n < SAVES || trained_s < SAVING_SINCE_S || took_s <= SAVING_SHARE * trained_s) return false;
    const double each = took_s / (double)n;
    return say(out,
               "checkpoints take %.0f %% of the time, %.2g s each: set `checkpoint.every: %s`, or leave it "
               "out",
               100 * took_s / trained_s, each, time_word(each / SAVING_SHARE, word, sizeof word));
}

#define SLOWER 0.9              // than one learner
#define HAND_OVER_S 20e-6       // a batch from the prefetch thread
#define SHORT_STEP_S 1e-3       // shorter ones are mostly handing over: only a large difference counts
#define MUCH_SLOWER 0.4
#define HARDLY_QUEUES 0.95      // a learner has a core for so much of the time that it wants one

// Of the time in which a learner wants a core, the share in which it has one.
static double core_share(const mu_learners_load *l) { return l->cpu_s / (l->cpu_s + l->queue_s); }

double mu_other_programs(const mu_learners_load *l) {
    const double share = core_share(l), wanted = (l->cpu_s + l->queue_s + l->data_s / share) / l->seconds;
    if (share > HARDLY_QUEUES) return 0;
    return fmax(0, l->cores / share - wanted); // share = cores / (wanted + others), where that is below 1
}

double mu_one_learner_speed(const mu_learners_load *l) {
    const double share = core_share(l), batch = (double)l->global_batch;
    const double sample_s = (share * l->compute_s + l->data_s) / (double)l->samples;
    const double update_s = l->updates > 0 ? share * l->apply_s / (double)l->updates : 0;
    const double core = fmin(1, l->cores / (1 + mu_other_programs(l)));
    return core * batch / (batch * sample_s + update_s + HAND_OVER_S);
}

bool mu_advise_learners(const mu_learners_load *l, mu_advice_text *out) {
    const bool split = l->workers > 1;
    const int processes = split ? l->learners * l->workers : l->learners;
    if (processes < 2 || l->samples <= 0 || !(l->seconds > 0) || !(l->cpu_s > 0) || !(l->compute_s > 0) ||
        !(l->queue_s >= 0) || !(l->data_s >= 0))
        return false;
    const double all = (double)l->samples / l->seconds, one = mu_one_learner_speed(l);
    const double others = mu_other_programs(l), step_s = (double)l->global_batch / one;
    char why[120], who[60];
    if (!isfinite(one) || all >= (step_s < SHORT_STEP_S ? MUCH_SLOWER : SLOWER) * one) return false;
    if (l->cores < processes)
        snprintf(why, sizeof why, "there %s %d core%s for them", l->cores == 1 ? "is" : "are", l->cores,
                 l->cores == 1 ? "" : "s");
    else if (others >= 1)
        snprintf(why, sizeof why, "the machine is busy, as by %.0f other programs", others);
    else snprintf(why, sizeof why, "they wait for each other more than they compute");
    const bool batch_helps = l->cores >= processes && others < 1;
    snprintf(who, sizeof who, "%d %s", processes, split ? "workers of learners" : "learners");
    return say(out,
               "%s make %.0f samples/s, one alone would make about %.0f: %s; try --learners 1%s%s", who, all,
               one, why, split ? " --workers 1" : "", batch_helps ? ", or a larger train.batch" : "");
}
