#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lint.sh - both compilers with warnings as errors over library, program, tests, micro-benchmarks and fuzz
# targets; the house rules; clang-tidy and cppcheck where they are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
status=0
step() { echo "lint: $*" >&2; }

for cc in gcc clang; do
    step "$cc -Werror -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wmissing-prototypes"
    command -v $cc >/dev/null || { echo "lint: $cc is missing" >&2; status=1; continue; }
    fuzz=OFF
    if [ $cc = clang ]; then fuzz=ON; fi
    flags=(-DCMAKE_C_COMPILER=$cc -DMUSTER_WERROR=ON -DMUSTER_FUZZ=$fuzz)
    for target in all benches; do
        scripts/build.sh --target $target build-lint-$cc "$jobs" "${flags[@]}" || status=1
    done
done
for check in includes sizes headers writes; do
    step "check-$check"
    scripts/check-$check.sh >/dev/null || status=1
done
step "lines over 110 columns"
if grep -rnE '^.{111,}' src include test bench --include='*.[ch]' | cut -c1-120; then status=1; fi

# Left out: checks that mistake our idioms (!strcmp, sizeof of a pointer in arrays of pointers) and the
# path-sensitive core checks, which do not know that a reported error is never MU_OK.
tidy='-*,bugprone-*,clang-analyzer-unix.*,clang-analyzer-deadcode.*,misc-redundant-expression'
for off in easily-swappable-parameters narrowing-conversions implicit-widening-of-multiplication-result \
    macro-parentheses reserved-identifier branch-clone sizeof-expression suspicious-string-compare \
    not-null-terminated-result assignment-in-if-condition; do
    tidy+=",-bugprone-$off"
done
if command -v clang-tidy >/dev/null; then
    step clang-tidy
    # Files that are built here: a module whose library is missing is not.
    find src -name '*.c' | while read -r f; do
        if grep -q "/$f\"" build-lint-clang/compile_commands.json; then echo "$f"; fi
    done | xargs -P "$jobs" -n 4 clang-tidy --quiet -p build-lint-clang \
        --header-filter='/src/' --warnings-as-errors='*' --checks="$tidy" 2>/dev/null || status=1
else
    echo "lint: clang-tidy is not installed (clang-tidy): skipped" >&2
fi
# Suppressed: buffers that a kernel fills through the pointers of its argument struct look unwritten; sums over
# all states whose logarithm is taken look empty.
if command -v cppcheck >/dev/null; then
    step cppcheck
    cppcheck --quiet --std=c11 --enable=warning,portability --inline-suppr --error-exitcode=1 -j "$jobs" \
        --suppress=ctuuninitvar --suppress=invalidFunctionArg --suppress=legacyUninitvar:src/ops/o_conv_direct.c --suppress=uninitvar:src/ops/o_inner_gemm.c \
        -Isrc -Iinclude -Itest -Ibuild-lint-gcc/gen -D_GNU_SOURCE -DMU_VERSION='"0"' \
        -DMU_HAVE_DNNL=1 -DMU_HAVE_BLAS=1 -DMU_HAVE_PNG=1 -DMU_HAVE_TURBOJPEG=1 -DMU_HAVE_LZMA=1 -DMU_HAVE_ZSTD=1 -DMU_HAVE_HWLOC=1 src test bench || status=1
else
    echo "lint: cppcheck is not installed (cppcheck): skipped" >&2
fi
[ $status = 0 ] && echo "lint: clean" >&2
exit $status
