// SPDX-License-Identifier: Apache-2.0
// main.c - the program is cli.c; this file exists so that tests can link everything else.
//
// Started by the library it is the helper of a program that trains with several learners.
#include "base/startup.h"
#include "cli/cli.h"
#include "run/helper.h"

#include <signal.h>
#include <string.h>

int main(int argc, char **argv) {
    mu_startup_begin_anew(argv);        // so it comes first
    signal(SIGCHLD, SIG_DFL);   // some launchers leave it ignored: ends of children would not be told
    signal(SIGXFSZ, SIG_IGN);   // a file that may not grow (`ulimit -f`) is an error of its write
    if (argc == 3 && !strcmp(argv[1], MU_HELPER_OPTION)) return mu_helper_main(argv[2]);
    return mu_cli_main(argc, argv);
}
