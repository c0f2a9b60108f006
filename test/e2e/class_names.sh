#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Names of classes of an idx job: test and predict show them, also when the file of names is gone.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

# Six rows of two features, two classes.
printf '\0\0\010\002\0\0\0\006\0\0\0\002\0\377\377\0\0\376\376\0\0\375\375\0' >features.idx
printf '\0\0\010\001\0\0\0\006\0\001\0\001\0\001' >labels.idx
printf 'left shoe\nright shoe\n' >names.txt
cat >job.yaml <<'JOB'
data:
  train: {reader: idx, images: features.idx, labels: labels.idx, class_names: names.txt}
  test: {reader: idx, images: features.idx, labels: labels.idx, class_names: names.txt}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 6, steps: 20}
updater: {type: sgd, rate: 0.0001}
JOB
"$MUSTER" train job.yaml --out run -q || bad "training ended with $?"
rm names.txt
"$MUSTER" test run 2>/dev/null >scores.txt || bad "test ended with $?"
grep -q 'right shoe' scores.txt || bad "test shows no names: $(cat scores.txt)"
"$MUSTER" predict run 2>/dev/null >answers.csv || bad "predict ended with $?"
[ "$(grep -c 'left shoe' answers.csv)" = 3 ] || bad "predict shows no names: $(cat answers.csv)"
if "$MUSTER" check job.yaml >check.txt 2>&1; then bad "a missing file of names was not noticed"; fi
grep -q 'names.txt' check.txt || bad "the message does not name the file: $(cat check.txt)"
[ $wrong = 0 ]
