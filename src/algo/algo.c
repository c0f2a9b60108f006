// SPDX-License-Identifier: Apache-2.0
// algo.c - the registry of training algorithms, filled from the a_*.c file names.
#include "algo/algo.h"

#include "algo_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_algos = {"algorithm", MU_COUNT(list), list};
