// SPDX-License-Identifier: Apache-2.0
// help_shell.h - shell completions and the manual page, from the verbs' option tables.
#ifndef MU_CLI_HELP_SHELL_H
#define MU_CLI_HELP_SHELL_H

#include <stdio.h>

void mu_print_completion(const char *shell, FILE *out); // "bash" or "zsh"
void mu_print_man(FILE *out);                           // muster(1) in man(7) macros

#endif
