// SPDX-License-Identifier: Apache-2.0
// help_topics.h - what `muster help` knows: the job's outline and every registry, from their tables.
#ifndef MU_CLI_HELP_TOPICS_H
#define MU_CLI_HELP_TOPICS_H

#include "base/err.h"
#include "cli/help_page.h"

typedef struct mu_topic {
    const char        *word;            // what follows `muster help`
    const char        *help;
    const char        *title;           // heading of its chapter in the reference
    const char        *where;           // where such a block stands in the job file
    const mu_registry *registry;        // NULL: the outline
    const mu_field    *common;          // (optional) keys every plug-in of the kind takes too
    const char        *common_are;      // what those keys are called
} mu_topic;

const mu_topic *mu_topics(size_t *n);
const mu_topic *mu_topic_find(const char *word);

void mu_topic_print(mu_help_page *p, const mu_topic *t);                                     // the list
void mu_topic_print_plugin(mu_help_page *p, int level, const mu_topic *t, const mu_plugin *plugin);
void mu_topic_print_reference(mu_help_page *p);                                          // docs/jobfile.md

#endif
