// SPDX-License-Identifier: Apache-2.0
// init.c - the registry of initialisers.
#include "base/attr.h"
#include "layer/param.h"

#define X(word) extern const mu_init_class mu_init_##word;
#include "init_list.inc"
#undef X

static const mu_plugin *const list[] = {
#define X(word) &mu_init_##word.plugin,
#include "init_list.inc"
#undef X
};

const mu_registry mu_inits = {"init", MU_COUNT(list), list};
