// SPDX-License-Identifier: Apache-2.0
// c_help.c - `muster help`: everything the program knows about itself, from its tables.
#include "cli/cli.h"

#include "cli/help_shell.h"
#include "cli/help_topics.h"

#include <string.h>

struct help { bool markdown, man; const char *completion; };

static mu_status unknown_topic(const char *word, mu_err *err) {
    size_t n, k = 0;
    const mu_topic *t = mu_topics(&n);
    const char *words[64];
    for (size_t i = 0; i < n && k < MU_COUNT(words); i++) words[k++] = t[i].word;
    for (size_t i = 0; i < mu_verbs.n && k < MU_COUNT(words); i++) words[k++] = mu_verbs.list[i]->name;
    MU_FAIL(err, MU_EUSAGE, "no help on `%s`", word);
    mu_err_suggest(MU_EUSAGE, err, "muster help ", mu_nearest(word, words, k));
    return mu_err_hinted(MU_EUSAGE, err, "`muster help` lists the topics.");
}

// `muster help convolution`: a plug-in without its kind is found if the word is unique enough.
static const mu_plugin *find_anywhere(const char *word, const mu_topic **topic) {
    size_t n;
    const mu_topic *t = mu_topics(&n);
    for (size_t i = 0; i < n; i++) {
        const mu_plugin *p = t[i].registry ? mu_registry_find(t[i].registry, word) : NULL;
        if (p) return *topic = &t[i], p;
    }
    return NULL;
}

static mu_status help_plugin(mu_help_page *page, const mu_topic *t, const char *word, mu_err *err) {
    const mu_plugin *p = t->registry ? mu_registry_find(t->registry, word) : NULL;
    if (!p) {
        const char *near = t->registry ? mu_registry_nearest(t->registry, word) : NULL;
        MU_FAIL(err, MU_EUSAGE, "no %s `%s`", t->word, word);
        if (near) mu_err_hint(err, "Did you mean `muster help %s %s`?", t->word, near);
        else mu_err_hint(err, "`muster help %s` lists them.", t->word);
        return MU_EUSAGE;
    }
    mu_topic_print_plugin(page, 2, t, p);
    return MU_OK;
}

static mu_status run(mu_args *a, void *values, mu_err *err) {
    const struct help *h = values;
    mu_help_page page = {stdout, h->markdown ? MU_HELP_MARKDOWN : MU_HELP_TEXT};
    if (h->completion) return mu_print_completion(h->completion, stdout), MU_OK;
    if (h->man) return mu_print_man(stdout), MU_OK;
    if (a->n_words == 0 && h->markdown) return mu_topic_print_reference(&page), MU_OK;
    if (a->n_words == 0) return mu_cli_print_verbs(stdout), MU_OK;
    const mu_topic *t = mu_topic_find(a->word[0]);
    const mu_plugin *verb = mu_registry_find(&mu_verbs, a->word[0]), *plugin;
    if (t && a->n_words > 1) return help_plugin(&page, t, a->word[1], err);
    if (a->n_words > 1) return unknown_topic(a->word[0], err);
    if (t && verb) // `init` is both: the verb's options are at `muster init -h`
        mu_help_paragraph(&page, "(The verb of this name: `muster init -h`.)");
    if (t) mu_topic_print(&page, t);
    else if (verb) mu_cli_print_verb((const mu_verb_class *)verb, stdout);
    else if ((plugin = find_anywhere(a->word[0], &t))) mu_topic_print_plugin(&page, 2, t, plugin);
    else return unknown_topic(a->word[0], err);
    return MU_OK;
}

static const mu_opt options[] = {
    MU_OPT(struct help, markdown, "markdown", MU_OPT_FLAG, NULL,
           "as Markdown; alone: the whole job-file reference"),
    MU_OPT(struct help, man, "man", MU_OPT_FLAG, NULL, "print the manual page"),
    MU_OPT_ONE_OF(struct help, completion, "completion", "bash|zsh", "print the shell's completion"),
    {0},
};

const mu_verb_class mu_verb_help = {
    .name = "help", .help = "explain verbs, layers, updaters, readers and the job file",
    .state_size = sizeof(struct help),
    .usage = "[TOPIC [WORD]] [options]",
    .example = "muster help layer\nmuster help layer convolution\nmuster help job",
    .about = "Topics: job, reader, layer, init, updater, schedule, algorithm, op, and every verb.",
    .args = {.options = options, .min_words = 0, .max_words = 2},
    .run = run,
};
