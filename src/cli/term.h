// SPDX-License-Identifier: Apache-2.0
// term.h - what the other end of a stream is: a person's terminal, or a file.
//
// NO_COLOR (any value but empty), TERM=dumb and COLUMNS are obeyed. Nothing here writes.
#ifndef MU_CLI_TERM_H
#define MU_CLI_TERM_H

#include <stdbool.h>
#include <stdio.h>

#define MU_TEXT_COLUMNS 80      // help never gets wider, whatever the terminal is

bool mu_term_live(FILE *f);     // a terminal that can redraw a line
bool mu_term_colour(FILE *f);   // live, and colours are wanted
int  mu_term_columns(FILE *f);  // COLUMNS, else the window's width, else 80

// Prints words of `text` filled to `columns`, each line indented by `indent` blanks. `at` is the
// column the cursor is in already: a label that leaves two blanks before the indent shares the first line,
// a longer one gets a line of its own. Line ends in text are kept.
void mu_text_fill(FILE *f, const char *text, int at, int indent, int columns);

#endif
