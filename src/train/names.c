// SPDX-License-Identifier: Apache-2.0
// names.c - see names.h.
#include "train/names.h"

#include <stdio.h>
#include <string.h>

static const mu_data_field *field_named(const mu_reader *r, const char *name) {
    for (int i = 0; i < r->n_fields; i++)
        if (!strcmp(r->field[i].name, name)) return &r->field[i];
    return NULL;
}

static bool has_key(const mu_field *f, const char *key) {
    while (f && f->key && strcmp(f->key, key)) f++;
    return f && f->key;
}

// A name for a message. Those of the reader `chars` are single bytes of any kind.
static const char *shown(const mu_data_field *f, int64_t k, char out[48]) {
    if (k >= f->n_classes) return "nothing";
    const unsigned char first = (unsigned char)f->names[k][0];
    if (first && !f->names[k][1] && (first <= ' ' || first > '~')) snprintf(out, 48, "byte 0x%02x", first);
    else snprintf(out, 48, "`%.40s`", f->names[k]);
    return out;
}

// Readers that number the classes they find: one that is missing in a file would move all after it.
static void compare_labels(mu_session *s, const mu_node *block, const mu_reader *r, const mu_reader *train) {
    mu_diags *d = &s->job->diags;
    if (!r->label_names || !train->label_names) return;
    int64_t k = 0, both = r->n_labels < train->n_labels ? r->n_labels : train->n_labels;
    while (k < both && !strcmp(r->label_names[k], train->label_names[k])) k++;
    if (k == r->n_labels) return;
    const char *there = k < train->n_labels ? train->label_names[k] : "(none)";
    mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, block->pos,
                              "class %lld is `%s` in `data.%s` and `%s` in `data.train`", (long long)k,
                              r->label_names[k], block->key, there);
    if (has_key(r->class->fields, "classes"))
        mu_diag_hint(d, g, "Give both blocks the same `classes: [...]`: numbers then follow the list.");
    else mu_diag_hint(d, g, "All phases must have the same classes in the same order.");
}

// A net knows words, characters and labels by the numbers of the training data. Files that are numbered by
// themselves give figures without meaning.
static void compare_names(mu_session *s, mu_phase p, const mu_node *block, const mu_reader *train) {
    const mu_reader *r = mu_source_reader(mu_session_phase_of(s, p)->source);
    mu_diags *d = &s->job->diags;
    char here[48], there[48];
    for (int i = 0; i < r->n_fields; i++) {
        const mu_data_field *f = &r->field[i], *t = field_named(train, f->name);
        if (!t || !f->names || !t->names) continue;
        int64_t k = 0;
        while (k < f->n_classes && k < t->n_classes && !strcmp(f->names[k], t->names[k])) k++;
        if (k == f->n_classes) continue;
        const mu_node *file = mu_node_find(block, "file");
        mu_diag *g = mu_diags_add(d, MU_DIAG_ERROR, file ? file->pos : block->pos,
                                  "number %lld of `%s` is %s in `data.%s` and %s in `data.train`",
                                  (long long)k, f->name, shown(f, k, here), block->key, shown(t, k, there));
        const char *of = mu_node_text(mu_node_find(mu_node_find(s->job->data, "train"), "file"));
        if (of && has_key(r->class->fields, "vocab_of"))
            mu_diag_hint(d, g, "Add `vocab_of: %s`: its numbers then count here, too.", of);
        else mu_diag_hint(d, g, "All phases must have the same names in the same order.");
        return; // its other fields count alike
    }
    compare_labels(s, block, r, train);
}

// Must the training data be opened just to compare? Only a text that is numbered by itself needs it.
static bool numbers_itself(const mu_session *s, const mu_reader *r, const mu_node *block) {
    const mu_node *train = mu_node_find(s->job->data, "train");
    const char *file = mu_node_text(mu_node_find(block, "file"));
    const char *of = mu_node_text(mu_node_find(train, "file"));
    return has_key(r->class->fields, "vocab_of") && mu_node_is_null(mu_node_find(block, "vocab_of")) &&
           train && file && of && strcmp(file, of);
}

// Data that a model cannot read as it read its training data.
static void compare_fields(mu_session *s, const mu_node *block, const mu_reader *r) {
    char here[96], there[96];
    for (int i = 0; i < r->n_fields; i++) {
        const mu_data_field *f = &r->field[i], *t = NULL;
        for (int k = 0; k < s->inputs->n_fields && !t; k++)
            if (!strcmp(s->inputs->field[k].name, f->name)) t = &s->inputs->field[k];
        if (!t) continue;
        if (!mu_shape_equal(&f->shape, &t->shape) && !f->is_image)
            mu_diags_add(&s->job->diags, MU_DIAG_ERROR, block->pos,
                         "`%s` of `data.%s` has shape %s, the model was trained on %s", f->name, block->key,
                         mu_shape_text(&f->shape, here), mu_shape_text(&t->shape, there));
        else if (t->n_classes && f->n_classes > t->n_classes)
            mu_diags_add(&s->job->diags, MU_DIAG_ERROR, block->pos,
                         "`%s` of `data.%s` has %lld classes, the model was trained on %lld", f->name,
                         block->key, (long long)f->n_classes, (long long)t->n_classes);
    }
}

mu_status mu_session_check_names(mu_session *s, mu_phase p, bool by_model, mu_err *err) {
    const mu_source *source = mu_session_phase_of(s, p)->source;
    const mu_node *block = mu_node_find(s->job->data, mu_phase_name(p));
    if (!block && p == MU_PREDICT) block = mu_node_find(s->job->data, "test");
    if (!source || !block) return MU_OK;
    if (by_model) {
        compare_fields(s, block, mu_source_reader(source));
        return MU_OK;
    }
    if (s->train.source) {
        compare_names(s, p, block, mu_source_reader(s->train.source));
        return MU_OK;
    }
    if (!numbers_itself(s, mu_source_reader(source), block)) return MU_OK;
    mu_source_spec spec;
    mu_reader *train = NULL;
    mu_err own = {0};
    mu_status st = mu_source_bind(&s->binder, mu_node_find(s->job->data, "train"), &spec, &own);
    if (st == MU_OK) st = mu_reader_open(spec.reader, spec.reader_state, spec.pos, NULL, &train, &own);
    if (st == MU_OK) compare_names(s, p, block, train);
    mu_reader_close(train);
    if (st == MU_OK || s->job->diags.n_errors) return MU_OK;
    if (st == MU_ENOMEM) return mu_err_pass(st, &own, err);
    mu_diag *g = mu_diags_add(&s->job->diags, MU_DIAG_WARNING, block->pos,
                              "the numbers of `data.%s` cannot be compared with those of training: %s",
                              block->key, own.msg);
    mu_diag_hint(&s->job->diags, g, "With `vocab_of` they are the same.");
    return MU_OK;
}
