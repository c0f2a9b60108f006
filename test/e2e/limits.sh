#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Small limits of memory, stack and file size: an answer or an error with a reason, and never a hang.
set -uo pipefail
: "${MUSTER:=build/muster}"
if [ "$(nm "$MUSTER" 2> /dev/null | grep -cE '__(asan|tsan)_init')" -gt 0 ]; then
    echo "sanitizers need more memory and stack than these limits"; exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset OPENBLAS_NUM_THREADS OPENBLAS_CORETYPE
ulimit -c 0
cat > "$dir/job.yaml" <<'JOB'
name: limits
data:
  train: {reader: synthetic, shape: [3, 16, 16], classes: 5, records: 200, scale: 0.004}
net:
  - {name: ip1, type: inner_product, src: data.image, outputs: 100}
  - {name: r1, type: relu}
  - {name: ip2, type: inner_product, outputs: 5}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 20, epochs: 2}
updater: {type: sgd, rate: 0.01}
JOB
fail() { echo "$*" >&2; cat "$dir/log" >&2; exit 1; }
# limited OPTIONS-OF-ULIMIT WORDS...: its exit code; 137 when it hangs
limited() {
    local limit=$1; shift
    (ulimit $limit; exec timeout -s KILL 60 "$MUSTER" "$@") > "$dir/out" 2> "$dir/log"
}
ended() { [ "$1" -eq 0 ] || { [ "$1" -eq 1 ] && grep -q '^error: ' "$dir/log"; }; }

# Memory: 127 = too small for the loader itself, which tells so. Training ends in any case; a library that
# cannot have its memory may end it (oneDNN does).
for kb in 100000 150000 200000 300000; do
    limited "-v $kb" --version; rc=$?
    # OpenBLAS gives up, too, where its threads, one for each core, do not fit when it is loaded.
    [ $rc -eq 130 ] && grep -q '^OpenBLAS blas_thread_init: pthread_create failed' "$dir/log" && rc=127
    [ $rc -eq 0 ] || [ $rc -eq 127 ] || fail "--version in $kb KB of memory: exit $rc"
    [ $rc -eq 127 ] && continue
    limited "-v $kb" check "$dir/job.yaml"; ended $? || fail "check in $kb KB of memory"
    for level in "" v2; do for n in 1 2; do # by way of oneDNN, and of OpenBLAS
        export MUSTER_CPU=$level; [ "$level" ] || unset MUSTER_CPU
        rm -rf "$dir/v$kb-$n"
        limited "-v $kb" train "$dir/job.yaml" --out "$dir/v$kb-$n" --learners $n
        [ $? -ne 137 ] || fail "training by $n in $kb KB of memory hangs${level:+ at $level}"
    done; done
done
unset MUSTER_CPU

# OpenBLAS has no threads, also where the caller asks for some.
OPENBLAS_NUM_THREADS=4 "$MUSTER" train "$dir/job.yaml" --out "$dir/threads" --set train.epochs=1000000 --set checkpoint.every="1 epoch" --quiet & pid=$!
for _ in $(seq 1000); do [ -e "$dir/threads/checkpoints/LATEST" ] && break; sleep 0.01; done
n=$(ls /proc/$pid/task | wc -l)
kill -INT $pid; wait $pid
[ "$n" -le 2 ] || fail "$n threads, not one that computes and one that reads data"

# Stack.
limited "-s 64" --version || fail "--version with a stack of 64 KB"
limited "-s 64" check "$dir/job.yaml"; [ $? -eq 1 ] || fail "check with a stack of 64 KB"
grep -q 'the stack is limited to 64 KiB' "$dir/log" || fail "the stack is not blamed"
limited "-S -s 64" train "$dir/job.yaml" --out "$dir/soft" || fail "a soft limit of the stack is raised"
limited "-s 512" train "$dir/job.yaml" --out "$dir/least" --learners 2 || fail "the least stack"

# Size of files.
limited "-f 64" train "$dir/job.yaml" --out "$dir/small"; rc=$?
[ $rc -eq 1 ] || fail "files limited to 64 KB: exit $rc"
grep -q 'File too large' "$dir/log" || fail "the size of files is not blamed"
echo "small limits are answered"
