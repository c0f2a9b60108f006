// SPDX-License-Identifier: Apache-2.0
// scores_text.c - see scores_text.h.
#include "cli/scores_text.h"

#include "plot/markup.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ROWS_ALL = 25, ROWS_SOME = 10, MISTAKES = 10, NAME_LEAST = 14, NAME_MOST = 32, NUMBER = 10 };

static const char *name_of(const mu_scorer *j, int64_t k, char room[64]) {
    return mu_class_name(j->classes.names, j->classes.n_names, k, room);
}

// ---- columns ----

static void put_name(FILE *out, const char *name, int width) {
    const int letters = (int)mu_markup_letters(name);
    int n = 0, shown = 0;
    while (name[n]) { // whole letters of UTF-8, a cut name ends in an ellipsis
        const bool begins = ((unsigned char)name[n] & 0xc0) != 0x80;
        if (begins && letters > width && shown == width - 1) break;
        shown += begins;
        n++;
    }
    fprintf(out, "%.*s", n, name);
    if (letters > width) fputs("\xe2\x80\xa6", out), shown++;
    fprintf(out, "%*s", width - shown, "");
}

static void put_number(FILE *out, double value) {
    if (isnan(value)) fprintf(out, "%*s", NUMBER, "-");
    else fprintf(out, "%*.4f", NUMBER, value);
}

static void put_rates(FILE *out, const mu_rates *r, int64_t support) {
    put_number(out, r->precision);
    put_number(out, r->recall);
    put_number(out, r->f1);
    fprintf(out, "%*" PRId64 "\n", NUMBER, support);
}

static void put_value(FILE *out, const char *name, double value) {
    if (!isnan(value)) fprintf(out, "%s %.6g\n", name, value);
}

// ---- classes ----

static int name_width(const mu_scorer *j) {
    int width = NAME_LEAST; // of the words "worst 10 by f1"
    char room[64];
    for (int64_t k = 0; j->classes.names && k < j->classes.width; k++) {
        const int n = (int)mu_markup_letters(name_of(j, k, room));
        width = n > width ? n : width;
    }
    return width < NAME_MOST ? width : NAME_MOST;
}

static void put_head(FILE *out, const char *what, int width) {
    put_name(out, what, width);
    fprintf(out, "%*s%*s%*s%*s\n", NUMBER, "precision", NUMBER, "recall", NUMBER, "f1", NUMBER, "support");
}

static void put_class(FILE *out, const mu_scorer *j, int64_t k, int width) {
    char room[64];
    const mu_rates r = mu_class_scores_of(&j->class_scores, k);
    put_name(out, name_of(j, k, room), width);
    put_rates(out, &r, j->class_scores.support[k]);
}

static void put_some(FILE *out, const mu_scorer *j, mu_class_order by, int width) {
    int64_t k[ROWS_SOME];
    char what[64];
    const int n = mu_class_scores_order(&j->class_scores, by, k, ROWS_SOME);
    snprintf(what, sizeof what, by == MU_BY_WORST_F1 ? "worst %d by f1" : "largest %d", n);
    put_head(out, what, width);
    for (int i = 0; i < n; i++) put_class(out, j, k[i], width);
    fputc('\n', out);
}

static void put_mistakes(FILE *out, const mu_scorer *j) {
    mu_mistake m[MISTAKES];
    char truth[64], answer[64];
    const mu_class_scores *s = &j->class_scores;
    const int n = s->confusion.count ? mu_confusion_mistakes(&s->confusion, m, MISTAKES) : 0;
    if (n) fprintf(out, "\nmost frequent mistakes\n");
    for (int i = 0; i < n; i++)
        fprintf(out, "`%s` taken for `%s` %" PRId64 " time%s, %.1f %% of its class\n",
                name_of(j, m[i].truth, truth), name_of(j, m[i].answer, answer), m[i].count,
                m[i].count == 1 ? "" : "s", 100.0 * (double)m[i].count / (double)s->support[m[i].truth]);
}

static void print_classes(const mu_scorer *j, bool all, FILE *out) {
    const mu_class_scores *s = &j->class_scores;
    const int width = name_width(j);
    fputc('\n', out);
    if (all || s->classes <= ROWS_ALL) {
        put_head(out, "class", width);
        for (int64_t k = 0; k < s->classes; k++) put_class(out, j, k, width);
        fputc('\n', out);
    } else {
        fprintf(out, "%" PRId64 " classes; --all or --json shows every one\n\n", s->classes);
        put_some(out, j, MU_BY_WORST_F1, width);
        put_some(out, j, MU_BY_SUPPORT, width);
    }
    const mu_rates macro = mu_class_scores_mean(s, false), weighted = mu_class_scores_mean(s, true);
    put_name(out, "macro mean", width);
    put_rates(out, &macro, s->samples);
    put_name(out, "weighted mean", width);
    put_rates(out, &weighted, s->samples);
    put_mistakes(out, j);
}

// ---- numbers ----

static void put_output(FILE *out, const mu_scorer *j, int64_t k) {
    char name[32];
    const mu_errors e = mu_number_scores_of(&j->number_scores, k);
    snprintf(name, sizeof name, "%" PRId64, k);
    put_name(out, name, NAME_LEAST);
    const double value[] = {e.rmse, e.mae};
    for (size_t i = 0; i < MU_COUNT(value); i++) {
        if (isnan(value[i])) fprintf(out, "%*s", NUMBER + 2, "-");
        else fprintf(out, "%*.5g", NUMBER + 2, value[i]);
    }
    put_number(out, e.r2);
    fputc('\n', out);
}

static void print_outputs(const mu_scorer *j, bool all, FILE *out) {
    const mu_number_scores *s = &j->number_scores;
    int64_t k[ROWS_SOME];
    char what[64] = "output";
    const bool some = !all && s->outputs > ROWS_ALL;
    const int n = some ? mu_number_scores_worst(s, k, ROWS_SOME) : 0;
    fputc('\n', out);
    if (some) {
        fprintf(out, "%" PRId64 " outputs; --all or --json shows every one\n\n", s->outputs);
        snprintf(what, sizeof what, "worst %d by r2", n);
    }
    put_name(out, what, NAME_LEAST);
    fprintf(out, "%*s%*s%*s\n", NUMBER + 2, "rmse", NUMBER + 2, "mae", NUMBER, "r2");
    for (int64_t i = 0; !some && i < s->outputs; i++) put_output(out, j, i);
    for (int i = 0; i < n; i++) put_output(out, j, k[i]);
}

static void put_other(FILE *out, const mu_head *h) {
    if (h->other)
        fprintf(out, "\nthese are the answers that `%s` compares; for those of `%s` add --head %s\n",
                mu_head_name(h->layer), h->other, h->other);
}

void mu_scores_print(const mu_scorer *j, double said, bool all, FILE *out) {
    const mu_class_scores *s = &j->class_scores;
    if (j->classes.layer) {
        const double accuracy = mu_class_scores_accuracy(s);
        if (isnan(said)) put_value(out, "accuracy", accuracy);
        else if (fabs(accuracy - said) > 1e-9) put_value(out, "head_accuracy", accuracy);
        put_value(out, "top5_accuracy", mu_class_scores_top5(s));
        put_value(out, "calibration_error", mu_class_scores_calibration(s));
        put_value(out, "mean_confidence", mu_class_scores_confidence(s));
        if (s->broken) fprintf(out, "broken_answers %" PRId64 "\n", s->broken);
    }
    if (j->numbers.layer) {
        const mu_errors e = mu_number_scores_all(&j->number_scores);
        put_value(out, "rmse", e.rmse);
        put_value(out, "mae", e.mae);
        put_value(out, "r2", e.r2);
        if (j->numbers.width > 1) print_outputs(j, all, out);
        put_other(out, &j->numbers);
    }
    if (!j->classes.layer) return;
    print_classes(j, all, out);
    put_other(out, &j->classes);
}

// ---- JSON ----

static json_t *rates_json(const mu_rates *r) {
    return json_pack("{s:o, s:o, s:o}", "precision", mu_json_number(r->precision), "recall",
                     mu_json_number(r->recall), "f1", mu_json_number(r->f1));
}

static json_t *classes_json(const mu_scorer *j) {
    json_t *list = json_array();
    for (int64_t k = 0; k < j->class_scores.classes; k++) {
        char room[64];
        const mu_rates r = mu_class_scores_of(&j->class_scores, k);
        json_t *one = rates_json(&r);
        json_object_set_new(one, "name", json_string(name_of(j, k, room)));
        json_object_set_new(one, "support", json_integer(j->class_scores.support[k]));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *mistakes_json(const mu_scorer *j) {
    json_t *list = json_array();
    mu_mistake m[MISTAKES];
    const mu_confusion *c = &j->class_scores.confusion;
    const int n = c->count ? mu_confusion_mistakes(c, m, MISTAKES) : 0;
    for (int i = 0; i < n; i++) {
        char truth[64], answer[64];
        json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "class", name_of(j, m[i].truth, truth),
                                              "taken_for", name_of(j, m[i].answer, answer), "count",
                                              (json_int_t)m[i].count));
    }
    return list;
}

static void put_errors(json_t *object, const mu_errors *e) {
    json_object_set_new(object, "rmse", mu_json_number(e->rmse));
    json_object_set_new(object, "mae", mu_json_number(e->mae));
    json_object_set_new(object, "r2", mu_json_number(e->r2));
}

static json_t *regression_json(const mu_scorer *j) {
    json_t *o = json_object(), *outputs = json_array();
    const mu_errors all = mu_number_scores_all(&j->number_scores);
    for (int64_t k = 0; k < j->number_scores.outputs; k++) {
        char name[32];
        json_t *one = json_object();
        const mu_errors e = mu_number_scores_of(&j->number_scores, k);
        snprintf(name, sizeof name, "%" PRId64, k);
        json_object_set_new(one, "name", json_string(name));
        put_errors(one, &e);
        json_array_append_new(outputs, one);
    }
    json_object_set_new(o, "head", json_string(mu_head_name(j->numbers.layer)));
    put_errors(o, &all);
    json_object_set_new(o, "outputs", outputs);
    return o;
}

void mu_scores_json(const mu_scorer *j, json_t *object) {
    const mu_class_scores *s = &j->class_scores;
    if (j->numbers.layer) json_object_set_new(object, "regression", regression_json(j));
    if (!j->classes.layer) return;
    const mu_rates macro = mu_class_scores_mean(s, false), weighted = mu_class_scores_mean(s, true);
    if (!json_object_get(object, "accuracy"))
        json_object_set_new(object, "accuracy", mu_json_number(mu_class_scores_accuracy(s)));
    if (s->classes > 5) json_object_set_new(object, "top5_accuracy", mu_json_number(mu_class_scores_top5(s)));
    json_object_set_new(object, "calibration_error", mu_json_number(mu_class_scores_calibration(s)));
    json_object_set_new(object, "mean_confidence", mu_json_number(mu_class_scores_confidence(s)));
    json_object_set_new(object, "head", json_string(mu_head_name(j->classes.layer)));
    json_object_set_new(object, "head_accuracy", mu_json_number(mu_class_scores_accuracy(s)));
    json_object_set_new(object, "answers", json_integer(s->samples));
    json_object_set_new(object, "broken_answers", json_integer(s->broken));
    json_object_set_new(object, "macro", rates_json(&macro));
    json_object_set_new(object, "weighted", rates_json(&weighted));
    json_object_set_new(object, "classes", classes_json(j));
    json_object_set_new(object, "mistakes", mistakes_json(j));
}
