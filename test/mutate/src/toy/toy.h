// SPDX-License-Identifier: Apache-2.0
// toy.h - functions with changes that a test catches, misses, or need not catch.
#ifndef TOY_TOY_H
#define TOY_TOY_H

int toy_tested(int x);
int toy_untested(int x);
int toy_listed(int x);
int toy_counts_down(int x);
int toy_at_level(int x);

#endif
