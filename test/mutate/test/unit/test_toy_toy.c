// SPDX-License-Identifier: Apache-2.0
// Catches every change of toy_tested, none of toy_untested, and leaves a child behind that must be ended.
#include "toy/toy.h"

#include <stdlib.h>
#include <unistd.h>

int main(void) {
    if (fork() == 0) {
        setsid(); // no longer in the test's process group
        if (fork() == 0) execlp("sleep", "sleep", getenv("LEFT_BEHIND_S"), (char *)NULL);
        _exit(EXIT_SUCCESS);
    }
    (void)toy_untested(2);
    return toy_tested(2) == 6 && toy_listed(3) == 3 && toy_counts_down(3) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
