// SPDX-License-Identifier: Apache-2.0
// main.c - the program is cli.c; this file exists so that tests can link everything else.
#include "cli/cli.h"

int main(int argc, char **argv) { return mu_cli_main(argc, argv); }
