// SPDX-License-Identifier: Apache-2.0
// help_page.h - help written once, shown as plain text or as Markdown.
//
// The content functions (help_topics.c) say heading, paragraph, list, field table; the page knows how
// that looks. Text is at most 80 columns wide.
#ifndef MU_CLI_HELP_PAGE_H
#define MU_CLI_HELP_PAGE_H

#include "base/plugin.h"

#include <stdio.h>

typedef enum mu_help_style { MU_HELP_TEXT, MU_HELP_MARKDOWN } mu_help_style;
typedef struct mu_help_page { FILE *out; mu_help_style style; } mu_help_page;

void mu_help_heading(mu_help_page *p, int level, const char *text);          // level from 1
void mu_help_paragraph(mu_help_page *p, const char *text);
void mu_help_code(mu_help_page *p, const char *text);                        // lines as they are
void mu_help_begin_list(mu_help_page *p);
void mu_help_item(mu_help_page *p, const char *word, const char *text);      // a word and what it is
void mu_help_end_list(mu_help_page *p);
void mu_help_fields(mu_help_page *p, const mu_field *fields);      // NULL or empty: says "no options"

#endif
