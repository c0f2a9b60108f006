// SPDX-License-Identifier: Apache-2.0
// Run through at_level. Says at once that it failed, and would then take long to end.
#include "toy/toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void) {
    if (toy_at_level(2) == 3) return EXIT_SUCCESS;
    fprintf(stderr, "[  FAILED  ] toy_at_level\n");
    sleep(1000);
    return EXIT_FAILURE;
}
