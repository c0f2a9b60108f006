#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packed records: a packed text, table or folder trains and is asked as the original was, and outputs of a
# layer train another job. The originals are gone by then.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

# ---- sentences: the same weights, the same answers ----
for i in $(seq 30); do
    printf 'light,turn on the lamp %s please\nmusic,"play, loud, song %s"\nheat,make it %s warmer in here\n' $((i % 7)) $((i % 5)) $((i % 3))
done >train.csv
sed -n '5,20p' train.csv >test.csv
cat >text.yaml <<'JOB'
data:
  train: {reader: sentences, file: train.csv, separator: ",", label_column: 1, pad: 2, punctuation: some}
net:
  - {name: e, type: embedding, src: data.words, dim: 6}
  - {name: ip, type: inner_product, outputs: 3}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 10, steps: 60}
updater: {type: adam, rate: 0.02}
JOB
sed 's/train: {reader.*/train: {reader: record, file: train.rec}/' text.yaml >packed.yaml
"$MUSTER" data pack text.yaml train.rec 2>/dev/null || bad "pack ended with $?"
"$MUSTER" train text.yaml --out original -q || bad "training on the text ended with $?"
"$MUSTER" train packed.yaml --out packed -q || bad "training on records ended with $?"
mkdir gone && mv train.csv train.rec gone
"$MUSTER" predict original --raw "turn on the lamp" "play, loud" "warmer" >a.csv || bad "asking the original: $?"
"$MUSTER" predict packed --raw "turn on the lamp" "play, loud" "warmer" >b.csv 2>err || bad "asking the packed: $? $(cat err)"
cmp a.csv b.csv || bad "the packed text gives other answers: $(paste a.csv b.csv)"
"$MUSTER" predict packed "Turn on the LAMP" --format csv >named.csv || bad "names: $?"
grep -q ',light$' named.csv || bad "no class name: $(cat named.csv)"
"$MUSTER" predict original test.csv >a.csv && "$MUSTER" predict packed test.csv >b.csv || bad "a file: $?"
cmp a.csv b.csv || bad "a file gives other answers"
[ "$(head -n 1 b.csv)" = sample,class,probability,predicted,label ] || bad "$(head -n 1 b.csv)"
"$MUSTER" predict packed/model.safetensors "play song" >/dev/null || bad "the model alone: $?"

# ---- test data: packed by the words of training it is read, by its own it is refused ----
mv gone/* . && rmdir gone
"$MUSTER" data pack reader=sentences file=test.csv vocab_of=train.csv 'separator=","' label_column=1 pad=2 punctuation=some good.rec 2>err ||
    bad "pack by vocab_of: $(cat err)"
"$MUSTER" data pack reader=sentences file=test.csv 'separator=","' label_column=1 pad=2 punctuation=some own.rec 2>err || bad "$(cat err)"
sed 's/^  train: .*/&\n  test: {reader: record, file: good.rec}/' packed.yaml >both.yaml
"$MUSTER" train both.yaml --out both -q 2>err || bad "records to train and test: $(cat err)"
"$MUSTER" train both.yaml --out own --set data.test.file=own.rec -q 2>err && bad "other words went unnoticed"
grep -q 'packed by other words' err || bad "$(cat err)"
"$MUSTER" test packed --set 'data.test={reader: sentences, file: test.csv, separator: ",", label_column: 1, pad: 2, punctuation: some}' \
    >/dev/null 2>err || bad "a model of records tests the original format: $(cat err)"

# ---- a table: answers in its own unit ----
awk 'BEGIN { srand(3); print "size,colour,price"; for (i = 0; i < 80; i++) { s = rand() * 10
    print s "," (i % 2 ? "red" : "blue") "," 100 + 20 * s } }' >houses.csv
cat >table.yaml <<'JOB'
data:
  train: {reader: table, file: houses.csv}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 1}
  - {name: loss, type: euclidean_loss, src: [ip, data.target]}
train: {batch: 10, steps: 300}
updater: {type: sgd, rate: 0.05}
JOB
sed 's/train: {reader.*/train: {reader: record, file: houses.rec}/' table.yaml >table_packed.yaml
"$MUSTER" data pack table.yaml houses.rec 2>/dev/null || bad "pack of a table: $?"
"$MUSTER" train table.yaml --out house -q 2>/dev/null && "$MUSTER" train table_packed.yaml --out house_packed -q || bad "tables: $?"
rm houses.csv houses.rec
printf 'size,colour\n5,red\n' >ask.csv
"$MUSTER" predict house ask.csv >a.csv && "$MUSTER" predict house_packed ask.csv >b.csv || bad "asking a table: $?"
cmp a.csv b.csv || bad "the packed table answers $(cat b.csv), not $(cat a.csv)"
awk -F, '{ exit !($2 > 190 && $2 < 210) }' b.csv || bad "no price: $(cat b.csv)"

# ---- outputs of a layer train another job ----
awk 'BEGIN { srand(1); for (i = 0; i < 60; i++) { for (k = 0; k < 16; k++) printf "%d,", (k % 3 == i % 3 ? 200 : 20) + rand() * 30
    print i % 3 == 0 ? "cat" : i % 3 == 1 ? "dog" : "hen" } }' >images.csv
cat >images.yaml <<'JOB'
data:
  train: {reader: csv, file: images.csv, shape: [1, 4, 4], scale: 0.01}
net:
  - {name: conv, type: convolution, src: data.image, filters: 5, kernel: 3}
  - {name: relu, type: relu}
  - {name: code, type: inner_product, outputs: 7}
  - {name: ip, type: inner_product, outputs: 3}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 10, steps: 60}
updater: {type: sgd, momentum: 0.9, rate: 0.02}
JOB
"$MUSTER" train images.yaml --out images -q || bad "images: $?"
"$MUSTER" extract images --data train --layer code --layer conv --format record --out features.rec 2>err || bad "extract: $(cat err)"
grep -qx 'wrote features.rec: 60 records of code (7), conv (5, 2, 2), data.label' err || bad "it says $(cat err)"
grep -qx 'in a job: {reader: record, file: features.rec}' err || bad "it says $(cat err)"
"$MUSTER" extract images --data train --layer code --out named.rec 2>/dev/null || bad "by the name's end: $?"
"$MUSTER" data verify features.rec | grep -q '60 records, all good' || bad "verify"
"$MUSTER" data info features.rec >info || bad "info: $?"
grep -q 'data.code *float32 (7)' info && grep -q 'data.conv *float32 (5, 2, 2), image' info &&
    grep -q 'data.label *int32 (), 3 classes' info || bad "$(cat info)"
cat >second.yaml <<'JOB'
data:
  train: {reader: record, file: features.rec}
net:
  - {name: pool, type: pooling, src: data.conv, kernel: 2}
  - {name: all, type: concat, src: [pool_flat, data.code]}
  - {name: ip, type: inner_product, outputs: 3}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
  - {name: accuracy, type: accuracy, src: [ip, data.label], exclude: train}
train: {batch: 10, steps: 150}
updater: {type: sgd, momentum: 0.9, rate: 0.05}
JOB
sed -i 's/  - {name: all/  - {name: pool_flat, type: flatten}\n&/' second.yaml
rm -rf images images.csv
"$MUSTER" train second.yaml --out second -q 2>err || bad "a job of features: $(cat err)"
"$MUSTER" test second --set 'data.test={reader: record, file: features.rec}' --json >scores.json 2>err || bad "test: $(cat err)"
grep -q '"accuracy":1' scores.json || bad "the features are not learnt: $(head -c 400 scores.json)"
"$MUSTER" predict second --set 'data.predict={reader: record, file: features.rec}' >answers.csv 2>err || bad "$(cat err)"
[ "$(sed -n 2,4p answers.csv | cut -d, -f4,5 | tr '\n' ' ')" = 'cat,cat dog,dog hen,hen ' ] || bad "$(head -n 4 answers.csv)"
"$MUSTER" predict second "a text" >/dev/null 2>err && bad "a model of features was asked a text"
grep -q 'read by `record`' err || bad "$(cat err)"

[ $wrong = 0 ] && echo "records: ok"
exit $((wrong > 0))
