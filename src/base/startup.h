// SPDX-License-Identifier: Apache-2.0
// startup.h - what has to hold before a program's work begins: how OpenBLAS was loaded, and a large enough
// stack.
//
// OpenBLAS reads its settings once, when it is loaded, and starts a thread for each core then. Nothing of
// ours runs in them, they would be there before every fork, and under a small limit of memory each loops for
// ever on the buffer it cannot have, so that fork and exit wait for ever, too. So the program sets what it
// wants and executes itself once more.
#ifndef MU_BASE_STARTUP_H
#define MU_BASE_STARTUP_H

#include "base/err.h"

// At the beginning of main(): OpenBLAS with one thread and, where MUSTER_CPU asks for a level, its kernels of
// that level; the limit of the stack raised as far as this process may. Executes the program again if
// anything of that has changed; returns when it is as it should be, or cannot be.
void mu_startup_begin_anew(char *const *argv);

// MU_EUNSUPPORTED when the stack is limited to less than any verb may need.
MU_MUST_CHECK mu_status mu_startup_check_stack(mu_err *err);

#endif
