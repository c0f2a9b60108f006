#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh SECONDS - runs every target of test/fuzz for that long, JOBS of them side by side.
#
# The seeds in test/fuzz/corpus/<target> are read only; what the fuzzer learns stays in
# build-fuzz/corpus/<target>, so the next run goes on from there. A finding leaves its input in
# build-fuzz/findings and ends with status 1. T = regular expression of targets.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
jobs=${JOBS:-2}
scripts/build.sh --target fuzzers build-fuzz "$jobs" -DCMAKE_C_COMPILER=clang -DMUSTER_FUZZ=ON \
    -DMUSTER_SANITIZE=address,undefined

targets=()
for f in test/fuzz/fuzz_*.c; do
    [ -e "$f" ] || continue
    n=$(basename "$f" .c)
    if [[ $n =~ ${T:-.} ]]; then targets+=("$n"); fi
done
[ ${#targets[@]} -gt 0 ] || { echo "fuzz.sh: no targets in test/fuzz" >&2; exit 1; }

one() {
    local n=$1 seeds=test/fuzz/corpus/${1#fuzz_}
    mkdir -p "build-fuzz/corpus/$n" build-fuzz/findings
    local dict=()
    if [ -f "test/fuzz/${n#fuzz_}.dict" ]; then dict=("-dict=test/fuzz/${n#fuzz_}.dict"); fi
    if [ ! -d "$seeds" ]; then seeds=; fi
    if "build-fuzz/$n" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="build-fuzz/findings/$n-" "${dict[@]}" "build-fuzz/corpus/$n" $seeds \
        >"build-fuzz/$n.log" 2>&1; then
        printf '%-24s ok       %s runs\n' "$n" "$(sed -n 's/^stat::number_of_executed_units: *//p' "build-fuzz/$n.log")"
    else
        printf '%-24s FINDING  see build-fuzz/%s.log and build-fuzz/findings\n' "$n" "$n"
        return 1
    fi
}
export -f one
export seconds OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
export UBSAN_OPTIONS=halt_on_error=1 LSAN_OPTIONS=suppressions=$PWD/cmake/lsan.supp:print_suppressions=0
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I{} bash -c 'one {}'
