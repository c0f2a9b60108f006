// SPDX-License-Identifier: Apache-2.0
// help_topics.c - see help_topics.h.
//
// The only list of kinds of plug-ins outside the folders themselves: `muster help`, docs/jobfile.md and the
// completions loop over it.
#include "cli/help_topics.h"

#include "algo/algo.h"
#include "base/attr.h"
#include "data/source.h"
#include "net/net.h"
#include "learners/gradients.h"
#include "ps/merge.h"
#include "updater/updater.h"

#include <string.h>

static const mu_topic topics[] = {
    {.word = "job", .help = "outline of the job file", .title = "Outline"},
    {.word = "reader", .help = "formats of data", .title = "Readers",
     .where = "data: {train: {reader: WORD, ...}, test: {reader: WORD, ...}}", .registry = &mu_readers,
     .common = mu_source_fields, .common_are = "Keys of every data block"},
    {.word = "layer", .help = "layers of a net", .title = "Layers",
     .where = "net: [{name: NAME, type: WORD, ...}, ...]", .registry = &mu_layers,
     .common = mu_layer_common_fields, .common_are = "Keys of every layer"},
    {.word = "init", .help = "initial values of parameters", .title = "Initial values",
     .where = "{..., init: WORD} or {..., weight: {init: {type: WORD, ...}}}", .registry = &mu_inits},
    {.word = "updater", .help = "rules that turn gradients into new weights", .title = "Updaters",
     .where = "updater: {type: WORD, rate: ..., ...}", .registry = &mu_updaters,
     .common = mu_updater_fields, .common_are = "Keys of every updater"},
    {.word = "schedule", .help = "learning rate over time", .title = "Schedules of the learning rate",
     .where = "updater: {..., rate: {type: WORD, base: NUMBER, ...}}", .registry = &mu_schedules,
     .common = mu_rate_fields, .common_are = "Keys of every schedule"},
    {.word = "protocol", .help = "how learners synchronise", .title = "Learners and protocols",
     .where = "cluster: {learners: 4, protocol: WORD} or {..., protocol: {type: WORD, ...}}",
     .registry = &mu_protocols, .common = mu_cluster_fields, .common_are = "Keys of `cluster`"},
    {.word = "merge", .help = "how server groups merge their weights", .title = "Merging server groups",
     .where = "cluster: {learners: 4, server_groups: 2, sync_every: 50, merge: WORD or {type: WORD, ...}}",
     .registry = &mu_merges},
    {.word = "algorithm", .help = "how one batch is trained", .title = "Algorithms",
     .where = "train: {algorithm: WORD} or {algorithm: {type: WORD, ...}}", .registry = &mu_algos},
    {.word = "gradients", .help = "where gradients come from", .title = "Sources of gradients",
     .where = "train: {gradients: WORD}; auto chooses", .registry = &mu_gradient_sources},
    {.word = "op", .help = "implementations of the mathematics, chosen at set-up", .title = "Ops",
     .where = "(not in a job: muster chooses, --verbose tells; MUSTER_OPS=ref restricts)",
     .registry = &mu_ops},
};

const mu_topic *mu_topics(size_t *n) {
    *n = MU_COUNT(topics);
    return topics;
}

const mu_topic *mu_topic_find(const char *word) {
    for (size_t i = 0; i < MU_COUNT(topics); i++)
        if (!strcmp(topics[i].word, word)) return &topics[i];
    return NULL;
}

static void list_registry(mu_help_page *p, const mu_registry *r) {
    mu_help_begin_list(p);
    for (size_t i = 0; i < r->n; i++) mu_help_item(p, r->list[i]->name, r->list[i]->help);
    mu_help_end_list(p);
}

// ---- one plug-in --------------------------------------------------------------------------------

// A short block that would bind: the word and every key without a default.
static void example(const mu_topic *t, const mu_plugin *plugin, char *out, size_t size) {
    const char *key = t->registry == &mu_readers ? "reader" : "type";
    bool layer = t->registry == &mu_layers;
    int n = snprintf(out, size, "{%s%s: %s", layer ? "name: x, " : "", key, plugin->name);
    for (const mu_field *f = plugin->fields; f && f->key && n > 0 && (size_t)n < size; f++)
        if (!f->def) n += snprintf(out + n, size - (size_t)n, ", %s: ...", f->key);
    if (n > 0 && (size_t)n < size) snprintf(out + n, size - (size_t)n, "}");
}

static void print_layer_facts(mu_help_page *p, const mu_layer_class *c) {
    char text[400];
    const int least = mu_layer_min_src(c), most = mu_layer_max_src(c);
    int n = least == most ? snprintf(text, sizeof text, "Sources: %d.", least)
                          : snprintf(text, sizeof text, "Sources: %d to %d.", least, most);
    for (size_t i = 0; c->params && c->params[i] && (size_t)n < sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s `%s`", i ? "," : " Parameters:", c->params[i]);
    if (c->params && c->params[0] && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, "; each may have a block {init, lr, decay, name}.");
    mu_help_paragraph(p, text);
}

void mu_topic_print_plugin(mu_help_page *p, int level, const mu_topic *t, const mu_plugin *plugin) {
    char text[300];
    if (p->style == MU_HELP_MARKDOWN) mu_help_heading(p, level, plugin->name);
    snprintf(text, sizeof text, p->style == MU_HELP_MARKDOWN ? "%s%s." : "%s: %s",
             p->style == MU_HELP_MARKDOWN ? "" : plugin->name, plugin->help);
    mu_help_paragraph(p, text);
    if (t->registry == &mu_layers) print_layer_facts(p, (const mu_layer_class *)plugin);
    if (t->registry == &mu_ops) return;
    example(t, plugin, text, sizeof text);
    mu_help_code(p, text);
    mu_help_fields(p, plugin->fields);
}

// ---- chapters -----------------------------------------------------------------------------------

static void print_common(mu_help_page *p, int level, const mu_topic *t) {
    if (t->common) {
        mu_help_heading(p, level, t->common_are);
        mu_help_fields(p, t->common);
    }
    if (t->registry == &mu_layers) {
        mu_help_heading(p, level, "Keys of a parameter block (weight, bias)");
        mu_help_fields(p, mu_param_fields);
        mu_help_heading(p, level, "Keys of a source that is a block, in unrolled nets");
        mu_help_fields(p, mu_src_fields);
        mu_help_heading(p, level, "Keys of `partition` that is a block, for nets that several workers split");
        mu_help_fields(p, mu_grid_fields);
    }
}

static const char job_example[] =
    "name: fashion-lenet\n"
    "seed: 1\n"
    "data:\n"
    "  train: {reader: idx, images: train.gz, labels: train-l.gz, scale: 0.004}\n"
    "  test:  {reader: idx, images: test.gz, labels: test-l.gz, scale: 0.004}\n"
    "net:\n"
    "  - {name: ip1, type: inner_product, src: data.image, outputs: 500}\n"
    "  - {name: relu1, type: relu}\n"
    "  - {name: ip2, type: inner_product, outputs: 10, init: xavier}\n"
    "  - {name: loss, type: softmax_loss, src: [ip2, data.label]}\n"
    "train:   {batch: 64, epochs: 10}\n"
    "updater: {type: sgd, momentum: 0.9, rate: {type: step, base: 0.01, every: 5k}}\n";

static void print_job(mu_help_page *p, int level) {
    size_t n;
    const mu_job_section *s = mu_job_sections(&n);
    char title[160];
    mu_help_heading(p, level, "Outline");
    mu_help_paragraph(p,
                      "A job file is YAML. `muster check` reads it completely and reports every problem with "
                      "its place; `--set key.path=value` changes any key from the command line "
                      "(net.conv1.filters=64 names a layer). Relative paths start at the job file's folder.");
    mu_help_code(p, job_example);
    for (size_t i = 0; i < n; i++) {
        if (s[i].key && *s[i].key) snprintf(title, sizeof title, "%s: %s", s[i].key, s[i].help);
        else snprintf(title, sizeof title, "%s", s[i].help);
        mu_help_heading(p, level + 1, title);
        if (s[i].fields) mu_help_fields(p, s[i].fields);
    }
}

void mu_topic_print(mu_help_page *p, const mu_topic *t) {
    if (!t->registry) {
        print_job(p, 2);
        return;
    }
    mu_help_heading(p, 2, t->title);
    mu_help_code(p, t->where);
    list_registry(p, t->registry);
    print_common(p, 3, t);
    if (t->registry == &mu_ops) return;
    char text[120];
    snprintf(text, sizeof text, "Options of one: muster help %s %s", t->word, t->registry->list[0]->name);
    if (p->style == MU_HELP_TEXT) mu_help_paragraph(p, text);
}

void mu_topic_print_reference(mu_help_page *p) {
    mu_help_heading(p, 1, "The job file");
    mu_help_paragraph(
        p, "Every key of a job file. This page is printed by `muster help --markdown` from the tables "
           "that also read the file (`make docs` writes it again).");
    for (size_t i = 0; i < MU_COUNT(topics); i++) {
        const mu_topic *t = &topics[i];
        mu_topic_print(p, t);
        for (size_t k = 0; t->registry && t->registry != &mu_ops && k < t->registry->n; k++)
            mu_topic_print_plugin(p, 3, t, t->registry->list[k]);
    }
}
