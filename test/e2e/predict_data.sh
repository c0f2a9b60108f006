#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a model is asked is read as its training data was: labels in all records or in none, a mean whose file
# is gone, values where nothing is a class; and models that cannot be asked say so.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

# ---- a file with labels in half of its lines ----
for i in $(seq 150); do printf 'yes\tgood fine %d\nno\tbad poor %d\n' $((i % 4)) $((i % 3)); done >train.tsv
cat >text.yaml <<'JOB'
data:
  train: {reader: sentences, file: train.tsv}
net:
  - {name: e, type: embedding, src: data.words, dim: 4}
  - {name: ip, type: inner_product, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 4, steps: 60}
updater: {type: adam, rate: 0.02}
JOB
"$MUSTER" train text.yaml --out text -q >/dev/null || bad "training ended with $?"
cut -f2 train.tsv >none.tsv
head -n 150 train.tsv >half.tsv # beyond the first hundred, too
tail -n 150 none.tsv >>half.tsv
"$MUSTER" predict text train.tsv >all.csv || bad "labels in all lines: $?"
[ "$(head -n 1 all.csv)" = sample,class,probability,predicted,label ] || bad "$(head -n 1 all.csv)"
"$MUSTER" predict text none.tsv >none.csv || bad "labels in no line: $?"
[ "$(head -n 1 none.csv)" = sample,class,probability,predicted ] || bad "$(head -n 1 none.csv)"
cut -d, -f1-4 all.csv | cmp - none.csv || bad "the label changes the answer"
"$MUSTER" predict text half.tsv >half.csv 2>err; [ $? = 3 ] || bad "half of the labels: $(head -n 2 half.csv)"
grep -q '150 of the 300 records have a label and 150 do not' err || bad "$(cat err)"
grep -q 'line 151' err || bad "the first line without a label is not named: $(cat err)"
[ ! -s half.csv ] || bad "and answers: $(head -n 2 half.csv)"
"$MUSTER" predict text - <half.tsv >/dev/null 2>err && bad "half of the labels, piped in"
"$MUSTER" predict text none.tsv --set data.train.labels=false >said.csv 2>err || bad "as the hint says: $(cat err)"
cmp none.csv said.csv || bad "other answers by the hint"

# ---- a mean from a file that is gone ----
awk 'BEGIN { srand(1); for (i = 0; i < 40; i++) { for (k = 0; k < 4; k++) printf "%d,", (k % 2 == i % 2 ? 100 : 20) + rand() * 9
    print i % 2 ? "odd" : "even" } }' >train.csv
printf '\x00\x00\x70\x42\x00\x00\x70\x42\x00\x00\x70\x42\x00\x00\x70\x42' >mean.bin # four times 60
cat >csv.yaml <<'JOB'
data:
  train: {reader: csv, file: train.csv, mean_file: mean.bin, scale: 0.02}
  test: {reader: csv, file: ask.csv}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
  - {name: scores, type: flatten, src: ip, exclude: train}
train: {batch: 10, steps: 40}
updater: {type: sgd, rate: 0.1}
JOB
head -n 6 train.csv >ask.csv
"$MUSTER" train csv.yaml --out csv -q >/dev/null || bad "training with mean_file ended with $?"
"$MUSTER" predict csv --raw >block.csv && "$MUSTER" predict csv ask.csv --raw >file.csv || bad "predict: $?"
cmp block.csv file.csv || bad "a file is read otherwise than the block"
rm mean.bin train.csv
"$MUSTER" predict csv --raw >again.csv 2>err || bad "the mean's file is missed: $(cat err)"
cmp block.csv again.csv || bad "other answers without the mean's file"
"$MUSTER" predict csv ask.csv --raw >again.csv 2>err || bad "asked a file, the mean's is missed: $(cat err)"
cmp block.csv again.csv || bad "other answers to a file without the mean's"
"$MUSTER" predict csv/model.safetensors ask.csv --raw >again.csv 2>err || bad "the model alone: $(cat err)"
cmp block.csv again.csv || bad "the model alone answers otherwise"

# ---- two parts side by side cannot be asked ----
head -c 400 /dev/zero | tr '\0' '\1' >a.bin
cat >zip.yaml <<'JOB'
data:
  train: {reader: zip, parts: [{reader: raw, file: a.bin, shape: [4]}, {reader: synthetic, shape: [1, 2, 2], classes: 2, records: 100}], names: [left, image, label]}
net:
  - {name: both, type: concat, src: [data.left, flat]}
  - {name: ip, type: inner_product, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 10, steps: 4}
updater: {type: sgd, rate: 0.001}
JOB
sed -i 's/^net:/&\n  - {name: flat, type: flatten, src: data.image}/' zip.yaml
"$MUSTER" train zip.yaml --out zip -q >/dev/null 2>err || bad "zip: $(cat err)"
for word in "a text" a.bin photo.png -; do
    "$MUSTER" predict zip "$word" </dev/null >/dev/null 2>err; [ $? = 2 ] || bad "zip asked $word: $(cat err)"
    grep -q 'its data is read by `zip`' err && grep -q 'data.predict' err || bad "$word: $(cat err)"
done

# ---- what outputs mean is said by what compares them ----
cat >kinds.yaml <<'JOB'
data:
  train: {reader: synthetic, shape: [1, 2, 2], classes: 2, records: 40, scale: 0.01}
  predict: {reader: synthetic, shape: [1, 2, 2], classes: 2, records: 3, scale: 0.01}
net:
  - {name: ip, type: inner_product, src: data.image, outputs: 1}
  - {name: loss, type: sigmoid_loss, src: [ip, data.label]}
train: {batch: 10, steps: 4}
updater: {type: sgd, rate: 0.01}
JOB
"$MUSTER" train kinds.yaml --out yes_no -q >/dev/null 2>err || bad "$(cat err)"
"$MUSTER" predict yes_no --raw >raw.csv && "$MUSTER" predict yes_no --top 2 >top.csv || bad "yes and no: $?"
[ "$(wc -l <top.csv)" = 7 ] || bad "not two classes each: $(cat top.csv)"
paste -d, raw.csv <(awk -F, '$2 == 1' top.csv) | awk -F, '{ p = 1 / (1 + exp(-$2)); c = p > 0.5; if (!c) p = 1 - p
    if ($5 != c || ($6 - p)^2 > 1e-10) exit 1 }' || bad "not by the sigmoid: $(cat raw.csv top.csv)"
sed 's/outputs: 1/outputs: 4/; s/sigmoid_loss, src: \[ip, data.label\]/euclidean_loss, src: [ip, flat]/; s/^net:/&\n  - {name: flat, type: flatten, src: data.image, exclude: predict}/' \
    kinds.yaml >code.yaml
"$MUSTER" train code.yaml --out code -q >/dev/null 2>err || bad "$(cat err)"
"$MUSTER" predict code >values.csv || bad "values: $?"
awk -F, 'NF != 5 { exit 1 }' values.csv || bad "an auto-encoder gives no classes: $(cat values.csv)"

[ $wrong = 0 ] && echo "predict_data: ok"
exit $((wrong > 0))
