// SPDX-License-Identifier: Apache-2.0
// init.c - the registry of initialisers.
#include "base/attr.h"
#include "layer/param.h"

#include "init_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_inits = {"init", MU_COUNT(list), list};
