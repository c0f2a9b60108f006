#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C, SIGTERM and SIGHUP: a valid checkpoint, exit 130 / 143 / 129 within 5 s; twice Ctrl-C: at once, checkpoints valid.
# Also the exit codes of a diverging run (4), a bad job (3), bad usage (2), a run that is taken (2).
set -uo pipefail
: "${MUSTER:=build/muster}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat > "$dir/job.yaml" <<'JOB'
name: signals
data:
  train: {reader: synthetic, shape: [3, 16, 16], classes: 5, records: 500, scale: 0.004}
  test: {reader: synthetic, shape: [3, 16, 16], classes: 5, records: 100, scale: 0.004}
net:
  - {name: c1, type: convolution, src: data.image, filters: 16, kernel: 5, pad: 2}
  - {name: r1, type: relu}
  - {name: ip2, type: inner_product, outputs: 5}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 32, deadline: 60s}
updater: {type: sgd, rate: 0.01}
checkpoint: {every: 20 steps}
JOB
fail() { echo "$*" >&2; exit 1; }
expect() { [ "$1" = "$2" ] || fail "$3: exit $1, expected $2"; }

wait_for_checkpoint() {
    for _ in $(seq 1000); do [ -e "$1/checkpoints/LATEST" ] && return; sleep 0.01; done
    fail "no checkpoint appeared in $1"
}

for pair in INT:130 TERM:143 HUP:129; do
    "$MUSTER" train "$dir/job.yaml" --out "$dir/${pair%:*}" --json > "$dir/out.json" 2> "$dir/log" & pid=$!
    wait_for_checkpoint "$dir/${pair%:*}"
    start=$(date +%s)
    kill -s "${pair%:*}" $pid
    wait $pid; expect $? "${pair#*:}" "SIG${pair%:*}"
    [ $(($(date +%s) - start)) -le 5 ] || fail "SIG${pair%:*}: took longer than 5 s"
    grep -q '"checkpoint":"[^"]*step-' "$dir/out.json" || fail "no checkpoint in the result"
    grep -q -- '--resume' "$dir/log" || fail "the text does not say how to resume"
    "$MUSTER" train "$dir/job.yaml" --resume "$dir/${pair%:*}" --deadline 0.2s --quiet; expect $? 0 "resume after SIG${pair%:*}"
done

# The hang-up of a terminal reaches all processes of a run: the parent alone decides. Under nohup none does.
"$MUSTER" train "$dir/job.yaml" --out "$dir/group" --learners 2 --quiet 2> "$dir/log" & pid=$!
wait_for_checkpoint "$dir/group"
kill -HUP $(pgrep -P $pid) $pid
wait $pid; expect $? 129 "SIGHUP to all processes"
grep -q 'was killed by signal 1' "$dir/log" && fail "learners died of SIGHUP"
(trap '' HUP; exec "$MUSTER" train "$dir/job.yaml" --out "$dir/nohup" --set train.steps=400 --quiet) & pid=$!
wait_for_checkpoint "$dir/nohup"
kill -HUP $pid
wait $pid; expect $? 0 "SIGHUP that nohup had ignored"

# A training that is stopped is not evaluated again: the scores are those of an earlier step, and say so.
"$MUSTER" train "$dir/job.yaml" --out "$dir/scored" --set test.at_start=true --set test.every=never --json \
    > "$dir/out.json" 2> "$dir/log" & pid=$!
wait_for_checkpoint "$dir/scored"
kill -TERM $pid; wait $pid; expect $? 143 "SIGTERM before an evaluation"
grep -q '"scored_step":0,' "$dir/out.json" || fail "the result does not say of which step its scores are"
grep -qE '^test .*\(100 samples, at step 0 of [1-9]' "$dir/log" || fail "the text does not say so"
"$MUSTER" train "$dir/job.yaml" --out "$dir/whole" --set train.steps=30 --json > "$dir/out.json" 2> "$dir/log"
grep -q '"scored_step":30,' "$dir/out.json" || fail "the scores of a whole training are not of its last step"
grep -q '(100 samples)' "$dir/log" || fail "a whole training names a step of its scores"

# A reader that leaves ends no training.
"$MUSTER" train "$dir/job.yaml" --out "$dir/pipe" --set train.steps=100 --set test.every="10 steps" 2>&1 | head -n 1 > "$dir/out"
expect "${PIPESTATUS[0]}" 0 "a reader of the messages that leaves"
[ -e "$dir/pipe/model.safetensors" ] || fail "no model after the reader left"

"$MUSTER" train "$dir/job.yaml" --out "$dir/taken" --quiet & pid=$!
wait_for_checkpoint "$dir/taken"
"$MUSTER" train "$dir/job.yaml" --resume "$dir/taken" --quiet 2> "$dir/log"; expect $? 2 "a run that another process has"
grep -q "$pid" "$dir/log" || fail "the holder's pid is not named"
kill -INT $pid; kill -INT $pid; wait $pid; expect $? 130 "two Ctrl-C"

"$MUSTER" train "$dir/job.yaml" --out "$dir/diverge" --set updater.rate=1e30 --quiet 2> "$dir/log"; expect $? 4 "divergence"
grep -q 'not finite at step' "$dir/log" || fail "divergence is not explained"
"$MUSTER" train "$dir/job.yaml" --set train.batch=none --quiet 2> /dev/null; expect $? 3 "a bad job"
"$MUSTER" trian "$dir/job.yaml" 2> "$dir/log"; expect $? 2 "a bad verb"
grep -q 'train' "$dir/log" || fail "no suggestion for trian"
"$MUSTER" train "$dir/absent.yaml" 2> /dev/null; [ $? -ne 0 ] || fail "a missing job file"
echo "signals and exit codes are right"
