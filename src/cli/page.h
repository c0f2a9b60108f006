// SPDX-License-Identifier: Apache-2.0
// page.h - help written once, shown as plain text or as Markdown.
//
// The content functions (help_topics.c) say heading, paragraph, list, field table; the page knows how
// that looks. Text is at most 80 columns wide.
#ifndef MU_CLI_PAGE_H
#define MU_CLI_PAGE_H

#include "base/plugin.h"

#include <stdio.h>

typedef enum mu_page_style { MU_PAGE_TEXT, MU_PAGE_MARKDOWN } mu_page_style;
typedef struct mu_page { FILE *out; mu_page_style style; } mu_page;

void mu_page_heading(mu_page *p, int level, const char *text);          // level from 1
void mu_page_paragraph(mu_page *p, const char *text);
void mu_page_code(mu_page *p, const char *text);                        // lines as they are
void mu_page_begin_list(mu_page *p);
void mu_page_item(mu_page *p, const char *word, const char *text);      // a word and what it is
void mu_page_end_list(mu_page *p);
void mu_page_fields(mu_page *p, const mu_field *fields);                // NULL or empty: says "no options"

// How the job writes a value of this type: "whole number", "max|average", "[a, b, ...]", ...
void mu_field_describe(const mu_field *f, char *out, size_t size);

#endif
