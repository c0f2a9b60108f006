// SPDX-License-Identifier: Apache-2.0
// at_level.c - at_level v2|v3|v4 COMMAND ARGUMENTS: runs the command with kernels and libraries of that
// level.
//
// Ends with 77 (skipped) and a word where the processor has no such level.
#include "base/level.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int level;
    mu_err err;
    mu_err_clear(&err);
    if (argc < 3) {
        fprintf(stderr, "usage: at_level v2|v3|v4 COMMAND ARGUMENTS\n");
        return 2;
    }
    const mu_status s = mu_level_parse(argv[1], mu_level_of_cpu(), &level, &err);
    if (s) {
        printf("%s%s\n", s == MU_EUNSUPPORTED ? "skipped: " : "", err.msg);
        return s == MU_EUNSUPPORTED ? 77 : 2;
    }
    setenv("MUSTER_CPU", argv[1], 1);
    unsetenv("OPENBLAS_CORETYPE");
    (void)mu_level_set_core_type(level);
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
