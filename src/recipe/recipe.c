// SPDX-License-Identifier: Apache-2.0
#include "recipe/recipe.h"

#include "base/attr.h"

#include "recipe_class_list.inc" // the tables of all files, as `list`

const mu_registry mu_recipes = {"recipe", MU_COUNT(list), list};
