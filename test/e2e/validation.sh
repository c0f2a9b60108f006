#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Validation data split off the training data, and what chooses the best model: never the test data.
set -euo pipefail
: "${MUSTER:=build/muster}"
MUSTER=$(realpath "$MUSTER")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() { echo "validation: $*" >&2; tail -n 20 log >&2; exit 1; }
value() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }

# 300 rows of three classes, of which the third is rare.
awk 'BEGIN { srand(5); print "a,b,kind"
    for (i = 0; i < 300; i++) { k = i % 10 == 0 ? 2 : i % 2
        printf "%.4f,%.4f,%s\n", k + rand(), k * k - rand(), substr("onetwosix", 3 * k + 1, 3) } }' > rows.csv
head -n 1 rows.csv > test.csv
tail -n 60 rows.csv >> test.csv
cat > job.yaml <<'JOB'
name: split
data:
  train: {reader: table, file: rows.csv, label: kind}
  test: {reader: table, file: test.csv, label: kind}
net:
  - {name: ip1, type: inner_product, src: data.features, outputs: 8}
  - {name: r1, type: relu}
  - {name: ip2, type: inner_product, outputs: auto}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 10, epochs: 6}
updater: {type: adam, rate: 0.01}
checkpoint: {every: 1 epoch, keep: 10}
JOB

# Test data alone: it is shown and chooses nothing. All rows train, and the best model is the last one.
"$MUSTER" train job.yaml --out plain --json > plain.json 2> log
grep -q '300 training samples' log || fail "all rows train without validation data"
grep -q '^epoch  train_loss   test_loss  test_acc' log || fail "the table does not name the test set"
[ "$(cat plain/checkpoints/BEST)" = "$(cat plain/checkpoints/LATEST)" ] || fail "BEST is not the last model"
[ "$(value plain.json best)" = None ] || fail "test data chose a best score"

# A part held back: it is evaluated, chooses the best, and the resolved job says which records it has.
"$MUSTER" train job.yaml --out held --json --set 'data.validation={fraction: 0.2, seed: 4}' > held.json 2> log
grep -q '240 training samples' log || fail "not 240 of 300 rows train"
grep -q '^epoch  train_loss  valid_loss valid_acc' log || fail "the table does not name the validation set"
[ "$(value held.json best)" != None ] || fail "validation data chose nothing"
grep -q '"val_accuracy"' held/metrics.jsonl || fail "no validation scores in the metrics"
grep -q 'part: held' held/job.yaml || fail "the saved job does not say which part is validation data"
grep -q 'outputs: 3' held/job.yaml || fail "the saved job does not have the number of outputs"
"$MUSTER" test held --on validation > out 2> log || fail "the held part cannot be tested"
grep -q '60 samples' out log || fail "the held part does not have 60 records"
"$MUSTER" train held --resume --epochs 8 > out 2> log || fail "a run with a held part cannot be resumed"

# An early stop needs validation data: some is held back, and the program says so.
"$MUSTER" train job.yaml --out early --set train.patience=2 --epochs 400 --json > early.json 2> log
grep -q 'an early stop needs validation data: 0.1 of the training data, 30 records' log || fail "nothing was said"
[ "$(value early.json steps)" -lt 10000 ] || fail "patience did not stop the training"

# The part belongs to training: new data is read whole, and the training file is not needed.
rm rows.csv
"$MUSTER" predict held test.csv > out 2> log || fail "prediction needs the training file"
[ "$(grep -cE 'one|two|six' out)" -ge 60 ] || fail "not all rows are predicted"

# Mistakes.
if "$MUSTER" check job.yaml --set 'data.validation={fraction: 2}' > log 2>&1; then fail "a fraction of 2"; fi
grep -q 'must lie between 0 and 1' log || fail "the fraction is not blamed"
if "$MUSTER" check job.yaml --set data.test.fraction=0.1 > log 2>&1; then fail "a fraction beside a reader"; fi
grep -q 'split off the training data' log || fail "no hint how to split"
echo "validation data is split off, and alone chooses"
