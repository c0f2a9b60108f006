// SPDX-License-Identifier: Apache-2.0
// suggest.c - nearest words, and the vocabulary of other trainers.
//
// Edit distance alone cannot lead from `dense` to `inner_product`. Users come from Caffe, Keras and
// PyTorch, so their words are listed here with ours; a row counts only where our word is valid.
#include "job/suggest.h"

#include <string.h>
#include <strings.h>

static const struct { const char *theirs, *ours; } synonyms[] = {
    {"average_pooling", "pooling"}, {"avg", "average"},             {"ave", "average"},
    {"batch_size", "batch"},       {"batchsize", "batch"},         {"mini_batch", "batch"},
    {"base_lr", "base"},           {"bottom", "src"},              {"input", "src"},
    {"inputs", "src"},             {"source", "src"},              {"from", "src"},
    {"channels", "filters"},       {"out_channels", "filters"},    {"num_filters", "filters"},
    {"num_output", "filters"},     {"num_output", "outputs"},      {"out_features", "outputs"},
    {"units", "outputs"},          {"size", "outputs"},            {"conv2d", "convolution"},
    {"cross_entropy", "softmax_loss"}, {"dataset", "data"},        {"datasets", "data"},
    {"dense", "inner_product"},    {"linear", "inner_product"},    {"fc", "inner_product"},
    {"fully_connected", "inner_product"}, {"innerproduct", "inner_product"}, {"eval", "test"},
    {"evaluate", "test"},          {"format", "reader"},           {"kind", "type"},
    {"id", "name"},                {"label", "labels"},            {"layers", "net"},
    {"learning_rate", "rate"},     {"lr", "rate"},                 {"logging", "log"},
    {"max_epoch", "epochs"},       {"max_epochs", "epochs"},       {"num_epochs", "epochs"},
    {"max_iter", "steps"},         {"iterations", "steps"},        {"max_steps", "steps"},
    {"maxpool", "pooling"},        {"avgpool", "pooling"},         {"max_pool", "pooling"},
    {"mnist", "idx"},              {"model", "net"},               {"network", "net"},
    {"optimizer", "updater"},      {"optimiser", "updater"},       {"solver", "updater"},
    {"padding", "pad"},            {"pads", "pad"},               {"patch", "kernel"},
    {"random_seed", "seed"},       {"snapshot", "checkpoint"},     {"save", "checkpoint"},
    {"softmax_with_loss", "softmax_loss"}, {"strides", "stride"},  {"top", "name"},
    {"training", "train"},         {"val", "validation"},          {"valid", "validation"},
    {"dev", "validation"},         {"weight_decay", "decay"},      {"l2", "decay"},
    {"weight_filler", "weight"},   {"bias_filler", "bias"},        {"kaiming", "msra"},
    {"he", "msra"},                {"glorot", "xavier"},           {"normal", "gaussian"},
    {"p", "ratio"},                {"rate", "ratio"},              {"dropout_ratio", "ratio"},
    {"bn", "batch_norm"},          {"batchnorm", "batch_norm"},    {"momentum_sgd", "sgd"},
    {"constant", "fixed"},         {"multistep", "multi_step"},    {"milestones", "at"},
    {"interval", "every"},         {"num_workers", "learners"},
    {"world_size", "learners"},    {"processes", "learners"},      {"sync", "hardsync"},
    {"synchronous", "hardsync"},   {"allreduce", "hardsync"},      {"asynchronous", "async"},
    {"downpour", "async"},         {"distributed", "cluster"},     {"parallel", "cluster"},
};

void mu_words_add(mu_diags *d, mu_words *w, const char *word) {
    const char **v = mu_arena_grow(d->arena, w->v, w->n, &w->cap, sizeof *v, 16);
    if (!v) {
        mu_diags_no_memory(d);
        return;
    }
    w->v = v;
    w->v[w->n++] = word;
}

void mu_words_add_choices(mu_diags *d, mu_words *w, const char *choices) {
    for (const char *p = choices; *p;) {
        size_t n = strcspn(p, "|");
        char *word = mu_arena_strndup(d->arena, p, n);
        if (word) mu_words_add(d, w, word);
        else mu_diags_no_memory(d);
        p += n + (p[n] == '|');
    }
}

void mu_words_add_registry(mu_diags *d, mu_words *w, const mu_registry *r) {
    for (size_t i = 0; i < r->n; i++) mu_words_add(d, w, r->list[i]->name);
}

const char *mu_suggest(const char *word, const mu_words *valid) {
    for (size_t s = 0; s < MU_COUNT(synonyms); s++) {
        if (strcasecmp(synonyms[s].theirs, word)) continue;
        for (size_t i = 0; i < valid->n; i++)
            if (!strcmp(synonyms[s].ours, valid->v[i])) return valid->v[i];
    }
    return mu_nearest(word, valid->v, valid->n);
}

#define LISTED 24       // a longer list would not be read

void mu_diag_list(mu_diags *d, mu_diag *g, const mu_words *valid, const char *plural) {
    char list[600];
    size_t used = 0;
    if (!valid->n) return;
    for (size_t i = 0; i < valid->n && i < LISTED; i++) {
        size_t n = strlen(valid->v[i]);
        if (used + n + 8 > sizeof list) break;
        if (i) list[used++] = ',', list[used++] = ' ';
        memcpy(list + used, valid->v[i], n);
        used += n;
    }
    memcpy(list + used, valid->n > LISTED ? ", ..." : "", valid->n > LISTED ? 6 : 1);
    mu_diag_hint(d, g, "Valid %s: %s.", plural, list);
}

const char *mu_diag_suggest(mu_diags *d, mu_diag *g, const char *word, const mu_words *valid,
                            const char *plural) {
    const char *near = mu_suggest(word, valid);
    if (near) mu_diag_label(d, g, "did you mean `%s`?", near);
    else mu_diag_list(d, g, valid, plural);
    return near;
}
