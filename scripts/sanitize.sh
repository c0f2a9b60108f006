#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# sanitize.sh asan|ubsan|tsan - builds with that sanitizer in build-<name> and runs the tests there. asan looks
# for undefined behaviour as well, so one pass of the suite serves both; ubsan alone is quicker.
#
# JOBS = compile jobs, TEST_JOBS = tests at a time (2), T = regular expression of tests. OpenMP and BLAS get one
# thread: their pools are not instrumented, so ThreadSanitizer would report their hand-overs, and nothing of ours
# runs in them.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
case $name in
    asan)  flags=address,undefined ;;
    ubsan) flags=undefined ;;
    tsan)  flags=thread ;;
    *) echo "usage: sanitize.sh asan|ubsan|tsan" >&2; exit 2 ;;
esac
root=$PWD
scripts/build.sh "build-$name" "${JOBS:-2}" -DMUSTER_SANITIZE=$flags

export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# detect_stack_use_after_return is off: gcc (12, 13) puts 64-byte vectors on a fake stack aligned to 32 (its PR 110027).
export ASAN_OPTIONS=detect_stack_use_after_return=0:detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1
export LSAN_OPTIONS=suppressions=$root/cmake/lsan.supp:print_suppressions=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 PATIENCE=10
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=$root/cmake/tsan.supp:halt_on_error=1:second_deadlock_stack=1

# ThreadSanitizer cannot place its shadow under the wide address randomisation of newer kernels.
fixed=()
if [ "$name" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then fixed=(setarch "$(uname -m)" -R); fi
# The simulator has one thread: nothing for ThreadSanitizer to see, and minutes of it.
without=()
[ "$name" = tsan ] && without=(-E '^sim$')
cd "build-$name"
exec "${fixed[@]}" ctest --output-on-failure -j"${TEST_JOBS:-2}" --timeout 900 -LE slow "${without[@]}" ${T:+-R "$T"}
