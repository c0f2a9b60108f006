// SPDX-License-Identifier: Apache-2.0
// guess.h - what a file looks like, for people who asked for the wrong kind.
#ifndef MU_RECIPE_GUESS_H
#define MU_RECIPE_GUESS_H

// The recipe a file or folder is for: images (a folder), text (lines of a label, a tab and words),
// timeseries (columns, the first of them ascending dates), table (columns), char (other text). NULL where it
// is none of these or cannot be read. Only the beginning of a file is looked at.
const char *mu_recipe_guess(const char *path);

#endif
