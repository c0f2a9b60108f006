// SPDX-License-Identifier: Apache-2.0
// survey_text.c - see survey_text.h.
//
// Columns stand before fields, because a person knows the columns of the file and not yet what a net is
// given of them. Words are cut after the SHOWN most frequent ones, classes after SHOWN_CLASSES.
#include "cli/survey_text.h"

#include "base/attr.h"
#include "base/utf8.h"
#include "read/table.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

enum { SHOWN = 5, SHOWN_CLASSES = 12, NAME_WIDTH = 24 };
// Values of an image or of features beyond this are bytes or the like, which a net does not learn from well.
static const double large = 16;

static const char *const store_names[] = {
    [MU_STORE_U8] = "uint8", [MU_STORE_F32] = "float32", [MU_STORE_I32] = "int32"};

// Texts of files may hold anything; a terminal must not get its control characters.
static void put_name(mu_text *t, const char *name) {
    char copy[128];
    snprintf(copy, sizeof copy, "%s", name);
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
    if (mu_utf8_valid(copy, strlen(copy))) mu_utf8_mask_control(copy);
    mu_text_printf(t, "%s", copy);
}

// ---- the block ----

static bool plain(const mu_node *n) {
    static const char *const special[] = {"yes", "no", "true", "false", "null", "on", "off", "y", "n"};
    if (!n->quoted && n->text[0] && !strpbrk(n->text, "{}[],:#&*!|>'\"%@`\t\n ")) return true;
    if (!isalpha((unsigned char)n->text[0]) && !strchr("./", n->text[0])) return false;
    for (size_t i = 0; i < MU_COUNT(special); i++)
        if (!strcmp(special[i], n->text)) return false;
    for (const char *c = n->text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._/-", *c)) return false;
    return n->text[0] != '\0';
}

void mu_survey_block(mu_text *t, const mu_node *block) {
    const bool map = block->kind == MU_MAP;
    if (block->kind == MU_SCALAR && plain(block)) mu_text_printf(t, "%s", block->text);
    else if (block->kind == MU_SCALAR) mu_text_json_string(t, block->text);
    if (block->kind == MU_SCALAR) return;
    mu_text_printf(t, "%s", map ? "{" : "[");
    for (size_t i = 0; i < block->n; i++) {
        mu_text_printf(t, i ? ", " : "");
        if (map) mu_text_printf(t, "%s: ", block->item[i]->key);
        mu_survey_block(t, block->item[i]);
    }
    mu_text_printf(t, "%s", map ? "}" : "]");
}

// Bytes that nobody scales: the factor that makes them 0 to 1; 0 = they are fine.
static double scale_wanted(const mu_reader *r, const mu_survey *s, const mu_source_spec *spec) {
    if (spec->scale > 0 && fabsf(spec->scale - 1) > 1e-6f) return 0;
    for (int i = 0; i < r->n_fields; i++) {
        const mu_survey_field *f = &s->field[i];
        if (!r->field[i].is_image || f->count || !f->n) continue;
        if (f->most > large || f->least < -large) return 1.0 / 256;
    }
    return 0;
}

static void put_block(mu_text *t, const mu_reader *r, const mu_survey *s, const mu_source_spec *spec) {
    const double scale = scale_wanted(r, s, spec);
    const size_t before = t->n;
    if (spec->block) mu_survey_block(t, spec->block);
    else mu_text_printf(t, "{reader: %s}", r->class->name);
    if (scale <= 0 || t->failed || t->n <= before) return;
    t->s[--t->n] = '\0'; // the closing brace
    mu_text_printf(t, ", scale: %.9g}", scale);
}

// ---- text ----

// The k most frequent of the words, with their numbers.
static void put_counts(mu_text *t, const char *const *word, const int64_t *count, size_t n, size_t k) {
    size_t place[SHOWN_CLASSES];
    const size_t have = mu_survey_largest(count, n, k, place);
    for (size_t i = 0; i < have; i++) {
        mu_text_printf(t, i ? ", " : "");
        if (word) put_name(t, word[place[i]]);
        else mu_text_printf(t, "%zu", place[i]);
        mu_text_printf(t, " %lld", (long long)count[place[i]]);
    }
    if (n > have) mu_text_printf(t, ", ...");
}

static void put_column(mu_text *t, const mu_table *table, const mu_table_column *c) {
    const bool label = c->kind == MU_TABLE_LABEL;
    const bool number = c->kind == MU_TABLE_NUMBER ||
                        (label && table->target == MU_TABLE_TARGET_NUMBER);
    const size_t start = t->n;
    mu_text_printf(t, "column   ");
    put_name(t, c->name);
    while (!t->failed && t->n < start + NAME_WIDTH) mu_text_printf(t, " ");
    mu_text_printf(t, "  %-9s ", mu_table_kind_names[c->kind]);
    if (number) {
        mu_text_printf(t, "%g to %g, mean %.6g", c->least, c->most, c->sum_mean);
    } else if (c->kind == MU_TABLE_TEXT && c->words.n <= MU_TABLE_WORDS) {
        mu_text_printf(t, "%zu different, left out", c->words.n);
    } else if (c->n_values && c->words.n <= MU_TABLE_WORDS) {
        mu_text_printf(t, "%zu %s: ", c->words.n, label ? "classes" : "words");
        put_counts(t, c->words.text, c->count, c->words.n, label ? SHOWN_CLASSES : SHOWN);
    } else if (c->n_values) {
        mu_text_printf(t, "more than %d words%s", MU_TABLE_WORDS,
                       c->kind == MU_TABLE_TEXT ? ", left out" : "");
    }
    if (c->n_gaps) mu_text_printf(t, "%s%lld gaps", c->n_values ? ", " : "", (long long)c->n_gaps);
    mu_text_printf(t, "\n");
}

static void put_field(mu_text *t, const mu_data_field *f, const mu_survey_field *v) {
    char shape[96];
    mu_text_printf(t, "field    data.");
    put_name(t, f->name);
    mu_text_printf(t, "  %s %s", store_names[f->store], mu_shape_text(&f->shape, shape));
    if (f->n_classes)
        mu_text_printf(t, ", %lld %s", (long long)f->n_classes, f->shape.n ? "words" : "classes");
    mu_text_printf(t, "%s", f->is_image ? ", image" : "");
    if (v->n && !v->count) mu_text_printf(t, ", %g to %g, mean %.4g", v->least, v->most, v->mean);
    mu_text_printf(t, "\n");
    if (!v->count) return;
    mu_text_printf(t, "classes  ");
    put_counts(t, f->names, v->count, (size_t)f->n_classes, SHOWN_CLASSES);
    mu_text_printf(t, "\n");
}

void mu_survey_text(mu_text *t, const mu_reader *r, const mu_survey *s, const mu_source_spec *spec) {
    size_t bytes = 0;
    for (int i = 0; i < r->n_fields; i++) bytes += mu_data_field_bytes(&r->field[i]);
    mu_text_printf(t, "reader   %s\nrecords  %lld of %zu bytes", r->class->name, (long long)r->n_records,
                   bytes);
    if (s->n_read + s->n_bad < r->n_records)
        mu_text_printf(t, "; %lld of them were looked at", (long long)s->n_read + (long long)s->n_bad);
    if (s->n_bad) mu_text_printf(t, "; %lld are bad, `muster data verify` names them", (long long)s->n_bad);
    mu_text_printf(t, "\n");
    const mu_table *table = mu_table_of(r);
    for (size_t i = 0; table && i < table->n_known; i++) put_column(t, table, &table->column[i]);
    for (int i = 0; i < r->n_fields; i++) put_field(t, &r->field[i], &s->field[i]);
    if (scale_wanted(r, s, spec) > 0)
        mu_text_printf(t, "advice   values are large for a net: `scale: 0.00390625` makes bytes 0 to 1\n");
    mu_text_printf(t, "\ndata:\n  train: ");
    put_block(t, r, s, spec);
    mu_text_printf(t, "\n");
}

// ---- JSON ----

static void json_number(mu_text *t, const char *key, double v) {
    if (isfinite(v)) mu_text_printf(t, ",\"%s\":%.9g", key, v);
    else mu_text_printf(t, ",\"%s\":null", key);
}

static void json_counts(mu_text *t, const char *key, const char *const *word, const int64_t *count,
                        size_t n) {
    mu_text_printf(t, ",\"%s\":[", key);
    for (size_t i = 0; i < n; i++) {
        mu_text_printf(t, "%s{\"name\":", i ? "," : "");
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        mu_text_json_string(t, word ? word[i] : number);
        mu_text_printf(t, ",\"count\":%lld}", (long long)count[i]);
    }
    mu_text_printf(t, "]");
}

static void json_column(mu_text *t, const mu_table_column *c) {
    mu_text_printf(t, "{\"name\":");
    mu_text_json_string(t, c->name);
    mu_text_printf(t, ",\"kind\":\"%s\",\"values\":%lld,\"gaps\":%lld", mu_table_kind_names[c->kind],
                   (long long)c->n_values, (long long)c->n_gaps);
    if (c->n_numbers && c->n_numbers == c->n_values) {
        json_number(t, "min", c->least);
        json_number(t, "max", c->most);
        json_number(t, "mean", c->sum_mean);
    }
    if (c->word) json_counts(t, "words", c->words.text, c->count, c->words.n);
    mu_text_printf(t, "}");
}

static void json_field(mu_text *t, const mu_data_field *f, const mu_survey_field *v) {
    mu_text_printf(t, "{\"name\":");
    mu_text_json_string(t, f->name);
    mu_text_printf(t, ",\"store\":\"%s\",\"image\":%s,\"classes\":%lld,\"shape\":[", store_names[f->store],
                   f->is_image ? "true" : "false", (long long)f->n_classes);
    for (int k = 0; k < f->shape.n; k++) mu_text_printf(t, "%s%lld", k ? "," : "", (long long)f->shape.d[k]);
    mu_text_printf(t, "]");
    if (v->n && !v->count) {
        json_number(t, "min", v->least);
        json_number(t, "max", v->most);
        json_number(t, "mean", v->mean);
    }
    if (v->count) json_counts(t, "counts", f->names, v->count, (size_t)f->n_classes);
    mu_text_printf(t, "}");
}

void mu_survey_json(mu_text *t, const mu_reader *r, const mu_survey *s, const mu_source_spec *spec) {
    mu_text_printf(t, "{\"reader\":\"%s\",\"records\":%lld,\"read\":%lld,\"bad\":%lld,\"fields\":[",
                   r->class->name, (long long)r->n_records, (long long)s->n_read, (long long)s->n_bad);
    for (int i = 0; i < r->n_fields; i++) {
        mu_text_printf(t, i ? "," : "");
        json_field(t, &r->field[i], &s->field[i]);
    }
    const mu_table *table = mu_table_of(r);
    if (table) mu_text_printf(t, "],\"columns\":[");
    for (size_t i = 0; table && i < table->n_known; i++) {
        mu_text_printf(t, i ? "," : "");
        json_column(t, &table->column[i]);
    }
    mu_text block = {0};
    put_block(&block, r, s, spec);
    t->failed |= block.failed;
    mu_text_printf(t, "],\"block\":");
    mu_text_json_string(t, block.s ? block.s : "");
    mu_text_printf(t, "}\n");
    mu_text_fini(&block);
}
