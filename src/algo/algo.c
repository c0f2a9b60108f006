// SPDX-License-Identifier: Apache-2.0
// algo.c - the registry of training algorithms, filled from the a_*.c file names.
#include "algo/algo.h"

#define X(name) extern const mu_algo_class mu_algo_##name;
#include "algo_list.inc"
#undef X

static const mu_plugin *const list[] = {
#define X(name) &mu_algo_##name.plugin,
#include "algo_list.inc"
#undef X
};

const mu_registry mu_algos = {"algorithm", MU_COUNT(list), list};
