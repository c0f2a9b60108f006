// SPDX-License-Identifier: Apache-2.0
// at_level LEVEL COMMAND ARGUMENTS, for a processor that has no v3.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3 || strcmp(argv[1], "v3") == 0) return 77;
    execvp(argv[2], argv + 2);
    return EXIT_FAILURE;
}
