#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A run folder that is taken away while its training runs is made again, complete: the training is not lost. One that
# another run has taken by then is not touched.
set -uo pipefail
: "${MUSTER:=build/muster}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/job.yaml" <<'JOB'
name: lost
data:
  train: {reader: synthetic, shape: [3, 16, 16], classes: 5, records: 500, scale: 0.004}
  test: {reader: synthetic, shape: [3, 16, 16], classes: 5, records: 100, scale: 0.004}
net:
  - {name: c1, type: convolution, src: data.image, filters: 16, kernel: 5, pad: 2}
  - {name: r1, type: relu}
  - {name: ip2, type: inner_product, outputs: 5}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 32, epochs: 1000000}
updater: {type: sgd, rate: 0.01}
checkpoint: {every: 20 steps}
JOB
fail() { echo "$*" >&2; cat "$dir/log" >&2; exit 1; }
wait_for() {
    for _ in $(seq 2000); do [ -e "$1" ] && return; sleep 0.01; done
    fail "$1 did not appear"
}

for n in 1 2; do
    out=$dir/run$n
    "$MUSTER" train "$dir/job.yaml" --out "$out" --learners $n 2> "$dir/log" & pid=$!
    wait_for "$out/checkpoints/LATEST"
    mv "$out" "$out.gone"
    wait_for "$out/checkpoints/LATEST"          # it goes on, and saves again
    kill -TERM $pid; wait $pid; rc=$?
    [ $rc -eq 143 ] || fail "$n learners: exit $rc"
    grep -q 'was removed; it is made again' "$dir/log" || fail "$n learners: no warning"
    for f in job.yaml lock log.txt metrics.jsonl model.safetensors train validation; do
        [ -e "$out/$f" ] || fail "$n learners: no $f in the folder"
    done
    "$MUSTER" train --resume "$out" --set train.epochs=1 --quiet 2> "$dir/log" || fail "$n learners: no resume"
done

# Another run in its place.
"$MUSTER" train "$dir/job.yaml" --out "$dir/a" 2> "$dir/log" & pid=$!
wait_for "$dir/a/checkpoints/LATEST"
kill -STOP $pid                                 # so that the other one comes first
mv "$dir/a" "$dir/a.gone"
mkdir "$dir/a"
exec 9> "$dir/a/lock"
flock -n 9 || fail "the lock of a new folder is held"
echo $$ > "$dir/a/lock"
kill -TERM $pid; kill -CONT $pid; wait $pid; rc=$?
[ $rc -eq 2 ] || fail "a folder that is another run's: exit $rc"
grep -q "in use by process $$" "$dir/log" || fail "the other run is not named"
[ ! -e "$dir/a/model.safetensors" ] || fail "wrote into another run's folder"
echo "a lost run folder costs no training"
