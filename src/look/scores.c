// SPDX-License-Identifier: Apache-2.0
// scores.c - see scores.h.
#include "look/scores.h"

#include "base/alloc.h"
#include "layer/score.h"

#include <math.h>

#define TAG "scores"
enum { TOP = 5 };

// ---- one answer ----

int64_t mu_scores_answer(const float *score, int64_t classes) {
    int64_t answer = 0;
    bool broken = isnan(score[0]);
    for (int64_t k = 1; k < classes; k++) {
        broken |= isnan(score[k]);
        if (score[k] > score[answer]) answer = k;
    }
    return broken ? -1 : answer;
}

double mu_scores_confidence(const float *score, int64_t classes, int64_t answer, mu_confidence what) {
    const double top = (double)score[answer];
    if (what == MU_SCORES_PROBABILITIES) return top;
    double sum = 0;
    for (int64_t k = 0; k < classes; k++)
        sum += isinf(top) ? score[k] == score[answer] : exp((double)score[k] - top);
    return 1 / sum;
}

// ---- classes ----

mu_status mu_class_scores_init(mu_class_scores *s, int64_t classes, mu_err *err) {
    *s = (mu_class_scores){.classes = classes};
    s->support = mu_alloc_array((size_t)classes, sizeof *s->support, TAG);
    s->answers = mu_alloc_array((size_t)classes, sizeof *s->answers, TAG);
    s->hits = mu_alloc_array((size_t)classes, sizeof *s->hits, TAG);
    if (!s->support || !s->answers || !s->hits) return MU_FAIL_NOMEM(err, "the scores of the classes");
    return classes > MU_CONFUSION_MOST ? MU_OK : mu_confusion_init(&s->confusion, classes, err);
}

void mu_class_scores_fini(mu_class_scores *s) {
    mu_free(s->support);
    mu_free(s->answers);
    mu_free(s->hits);
    mu_confusion_fini(&s->confusion);
    *s = (mu_class_scores){0};
}

static void add_confidence(mu_class_scores *s, double confidence, bool right) {
    int b = (int)ceil(confidence * MU_CALIBRATION_BINS) - 1;
    b = b < 0 ? 0 : b < MU_CALIBRATION_BINS ? b : MU_CALIBRATION_BINS - 1;
    s->bin[b].n++;
    s->bin[b].right += right;
    s->bin[b].confidence += confidence;
}

void mu_class_scores_add(mu_class_scores *s, const float *score, int64_t truth, mu_confidence what) {
    const int64_t answer = mu_scores_answer(score, s->classes);
    s->samples++;
    s->support[truth]++;
    if (s->classes > TOP) s->in_top5 += mu_score_rank(score, s->classes, truth) < TOP;
    if (s->confusion.count) mu_confusion_add(&s->confusion, truth, answer);
    if (answer < 0) {
        s->broken++;
        return;
    }
    s->answers[answer]++;
    s->hits[truth] += answer == truth;
    s->right += answer == truth;
    if (what != MU_SCORES_ONLY)
        add_confidence(s, mu_scores_confidence(score, s->classes, answer, what), answer == truth);
}

static double ratio(int64_t part, int64_t of) { return of ? (double)part / (double)of : NAN; }

mu_rates mu_class_scores_of(const mu_class_scores *s, int64_t k) {
    return (mu_rates){.precision = ratio(s->hits[k], s->answers[k]),
                      .recall = ratio(s->hits[k], s->support[k]),
                      .f1 = ratio(2 * s->hits[k], s->answers[k] + s->support[k])};
}

typedef struct mean {
    double sum, weight;
} mean;

static void add_defined(mean *m, double value, double weight) {
    if (isnan(value)) return;
    m->sum += weight * value;
    m->weight += weight;
}

static double mean_of(const mean *m) { return m->weight > 0 ? m->sum / m->weight : NAN; }

mu_rates mu_class_scores_mean(const mu_class_scores *s, bool weighted) {
    mean precision = {0}, recall = {0}, f1 = {0};
    for (int64_t k = 0; k < s->classes; k++) {
        const mu_rates r = mu_class_scores_of(s, k);
        const double weight = weighted ? (double)s->support[k] : 1;
        add_defined(&precision, r.precision, weight);
        add_defined(&recall, r.recall, weight);
        add_defined(&f1, r.f1, weight);
    }
    return (mu_rates){mean_of(&precision), mean_of(&recall), mean_of(&f1)};
}

double mu_class_scores_accuracy(const mu_class_scores *s) { return ratio(s->right, s->samples); }

double mu_class_scores_top5(const mu_class_scores *s) {
    return s->classes > TOP ? ratio(s->in_top5, s->samples) : NAN;
}

double mu_class_scores_calibration(const mu_class_scores *s) {
    double gap = 0;
    int64_t n = 0;
    for (int b = 0; b < MU_CALIBRATION_BINS; b++) {
        gap += fabs((double)s->bin[b].right - s->bin[b].confidence); // n_b times the gap of the bin
        n += s->bin[b].n;
    }
    return n ? gap / (double)n : NAN;
}

double mu_class_scores_confidence(const mu_class_scores *s) {
    double sum = 0;
    int64_t n = 0;
    for (int b = 0; b < MU_CALIBRATION_BINS; b++) sum += s->bin[b].confidence, n += s->bin[b].n;
    return n ? sum / (double)n : NAN;
}

// Does class a stand before b, whose number is lower?
static bool stands_before(const mu_class_scores *s, mu_class_order by, int64_t a, int64_t b) {
    if (by == MU_BY_SUPPORT) return s->support[a] > s->support[b];
    const double fa = mu_class_scores_of(s, a).f1, fb = mu_class_scores_of(s, b).f1;
    return fa < fb || (fa == fb && s->support[a] > s->support[b]);
}

int mu_class_scores_order(const mu_class_scores *s, mu_class_order by, int64_t *out, int most) {
    int n = 0;
    for (int64_t k = 0; k < s->classes; k++) {
        if (by == MU_BY_WORST_F1 && isnan(mu_class_scores_of(s, k).f1)) continue;
        int at = n;
        while (at > 0 && stands_before(s, by, k, out[at - 1])) at--;
        if (at == most) continue;
        if (n < most) n++;
        for (int i = n - 1; i > at; i--) out[i] = out[i - 1];
        out[at] = k;
    }
    return n;
}

// ---- numbers ----

mu_status mu_number_scores_init(mu_number_scores *s, int64_t outputs, mu_err *err) {
    *s = (mu_number_scores){.outputs = outputs};
    s->of = mu_alloc_array((size_t)outputs, sizeof *s->of, TAG);
    return s->of ? MU_OK : MU_FAIL_NOMEM(err, "the scores of the outputs");
}

void mu_number_scores_fini(mu_number_scores *s) {
    mu_free(s->of);
    *s = (mu_number_scores){0};
}

void mu_number_scores_add(mu_number_scores *s, int64_t output, double answer, double target) {
    mu_number_sums *m = &s->of[output];
    const double error = answer - target, off = target - m->mean;
    m->n++;
    m->square += error * error;
    m->absolute += fabs(error);
    m->mean += off / (double)m->n; // Welford's: a constant target has no spread at all
    m->spread += off * (target - m->mean);
}

mu_errors mu_number_scores_of(const mu_number_scores *s, int64_t output) {
    const mu_number_sums *m = &s->of[output];
    const double n = (double)m->n;
    if (!m->n) return (mu_errors){NAN, NAN, NAN};
    return (mu_errors){sqrt(m->square / n), m->absolute / n, m->spread > 0 ? 1 - m->square / m->spread : NAN};
}

mu_errors mu_number_scores_all(const mu_number_scores *s) {
    double square = 0, absolute = 0, n = 0;
    mean r2 = {0};
    for (int64_t k = 0; k < s->outputs; k++) {
        square += s->of[k].square;
        absolute += s->of[k].absolute;
        n += (double)s->of[k].n;
        add_defined(&r2, mu_number_scores_of(s, k).r2, 1);
    }
    if (!(n > 0)) return (mu_errors){NAN, NAN, NAN};
    return (mu_errors){sqrt(square / n), absolute / n, isfinite(square) ? mean_of(&r2) : NAN};
}

int mu_number_scores_worst(const mu_number_scores *s, int64_t *out, int most) {
    int n = 0;
    for (int64_t k = 0; k < s->outputs; k++) {
        const double r2 = mu_number_scores_of(s, k).r2;
        if (isnan(r2)) continue;
        int at = n;
        while (at > 0 && r2 < mu_number_scores_of(s, out[at - 1]).r2) at--;
        if (at == most) continue;
        if (n < most) n++;
        for (int i = n - 1; i > at; i--) out[i] = out[i - 1];
        out[at] = k;
    }
    return n;
}
