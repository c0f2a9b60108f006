// SPDX-License-Identifier: Apache-2.0
// main.c - the program is cli.c; this file exists so that tests can link everything else.
#include "base/level.h"
#include "cli/cli.h"

int main(int argc, char **argv) {
    mu_level_cap_libraries(argv);       // may begin anew, so it comes first
    return mu_cli_main(argc, argv);
}
