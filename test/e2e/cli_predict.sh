#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Predictions: a line for each sample, also where an accuracy layer reads the scores; raw values in
# logical order, the same as csv_output writes.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

cat > job.yaml <<'JOB'
data:
  train: {reader: synthetic, shape: [2, 3, 3], classes: 4, records: 20}
  test: {reader: synthetic, shape: [2, 3, 3], classes: 4, records: 7}
net:
  - {name: ip, type: inner_product, src: data.image, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
  - {name: accuracy, type: accuracy, src: [ip, data.label]}
  - {name: image, type: pooling, src: data.image, kernel: 1, exclude: train}
  - {name: csv, type: csv_output, src: image, path: image.csv, header: false, include: test}
train: {batch: 4, steps: 5}
updater: {type: sgd, rate: 0.0001}
JOB
"$MUSTER" train job.yaml --out run -q || bad "training ended with $?"
"$MUSTER" test run -q >/dev/null 2>&1 || bad "test ended with $?"
"$MUSTER" predict run --layer ip >answers.csv || bad "predict ended with $?"
[ "$(head -n 1 answers.csv)" = sample,class,probability,label ] || bad "header: $(head -n 1 answers.csv)"
[ "$(wc -l <answers.csv)" = 8 ] || bad "$(wc -l <answers.csv) lines for 7 samples"
"$MUSTER" predict run --layer image --raw >raw.csv || bad "predict --raw ended with $?"
cmp raw.csv image.csv || bad "raw values are not those of csv_output"

# Scores over time: a line for each time step, with as many classes as a step has.
cat > sequence.yaml <<'JOB'
data:
  train: {reader: synthetic, vocab: 9, shape: [5], streams: 4, records: 40}
  test: {reader: synthetic, vocab: 9, shape: [5], streams: 4, records: 8}
net:
  - {name: words, type: embedding, src: data.words, dim: 6}
  - {name: ip, type: inner_product, outputs: 9, axis: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 4, steps: 5}
test: {batch: 4}
updater: {type: sgd, rate: 0.1}
JOB
"$MUSTER" train sequence.yaml --out sequence -q || bad "training of sequences ended with $?"
"$MUSTER" predict sequence >steps.csv || bad "predict of sequences ended with $?"
[ "$(head -n 1 steps.csv)" = sample,step,class,probability,label ] || bad "header: $(head -n 1 steps.csv)"
[ "$(wc -l <steps.csv)" = 41 ] || bad "$(wc -l <steps.csv) lines for 8 samples of 5 steps"
"$MUSTER" predict sequence --raw >values.csv || bad "predict --raw of sequences ended with $?"
awk -F, 'NR == FNR { for (t = 0; t < 5; t++) { b = 0; for (k = 1; k < 9; k++) if ($(2 + 9 * t + k) > $(2 + 9 * t + b)) b = k
                     top[$1 "," t] = b } next }
         FNR > 1 && (top[$1 "," $2] != $3 || $4 < 1 / 9) { wrong++ } END { exit wrong > 0 }' values.csv steps.csv ||
    bad "classes of time steps are not the largest of their scores"

# Nothing to predict from: said, not crashed. A file that lacks a class is numbered as the training file.
grep -v '^  test:' sequence.yaml >bare.yaml
"$MUSTER" train bare.yaml --out bare -q || bad "training without tests ended with $?"
"$MUSTER" predict bare 2>err; [ $? = 3 ] || bad "predict without data"
grep -q 'neither `data.predict` nor `data.test`' err || bad "no word of the missing data: $(cat err)"
printf 'kind,x\nred,1\nblue,2\ngreen,3\n' >train.csv
printf 'kind,x\nred,1\ngreen,3\n' >test.csv
cat > table.yaml <<'JOB'
data:
  train: {reader: csv, file: train.csv, label: kind}
  test: {reader: csv, file: test.csv, label: kind}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 3}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 3, steps: 2}
updater: {type: sgd, rate: 0.1}
JOB
"$MUSTER" train table.yaml --out lacks -q || bad "training ended with $? where the test lacks a class"
"$MUSTER" predict lacks >lacks.csv || bad "predict ended with $? where the test lacks a class"
[ "$(cut -d, -f5 lacks.csv | tr '\n' ' ')" = 'label red green ' ] || bad "labels: $(cat lacks.csv)"
list='[red, green, blue]'
"$MUSTER" train table.yaml --out table -q --set "data.train.classes=$list" --set "data.test.classes=$list" ||
    bad "training with named classes ended with $?"
"$MUSTER" predict table | head -n 1 | grep -qx sample,class,probability,predicted,label || bad "no names of classes"
# A class whose name a spreadsheet would run as a formula is text in the answers.
sed 's/red/=1+1/' train.csv >formula.csv
"$MUSTER" train table.yaml --out formula -q --set data.train.file=formula.csv --set data.test.file=formula.csv ||
    bad "training with a formula as class ended with $?"
"$MUSTER" predict formula >answers.csv || bad "predict with a formula ended with $?"
grep -q ',=' answers.csv && bad "a formula in the answers: $(cat answers.csv)"
"$MUSTER" check table.yaml --set train.init_from=gone >/dev/null 2>err && bad "a missing init_from went unnoticed"
grep -q 'does not exist' err || bad "init_from: $(cat err)"

"$MUSTER" predict run --layer ip >/dev/full 2>err && bad "a full disk went unnoticed"

[ $wrong = 0 ] && echo "cli_predict: ok"
exit $((wrong > 0))
