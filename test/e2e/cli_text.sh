#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Text: sentences are trained on and predicted with the names of their labels; characters are sampled, the same
# text for the same seed; what is no character model says so.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

for i in 1 2 3 4 5 6 7 8; do
    printf 'praise\ta good, lovely film %s\nblame, loud\ta bad, dull film %s\n' $i $i
done >train.tsv
printf 'praise\ta good, lovely play\nblame, loud\ta bad, dull play\nshrug\ta film\n' >test.tsv
printf 'a good, lovely day\na bad, dull day\n' >new.txt
cat >job.yaml <<'JOB'
data:
  train: {reader: sentences, file: train.tsv}
  test: {reader: sentences, file: test.tsv, vocab_of: train.tsv}
  predict: {reader: sentences, file: new.txt, vocab_of: train.tsv, labels: false}
net:
  - {name: words, type: embedding, src: data.words, vocab: 17, dim: 6}
  - {name: ip, type: inner_product, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 4, steps: 60}
updater: {type: adam, rate: 0.05}
JOB
"$MUSTER" train job.yaml --out run -q --json >result.json 2>err || { bad "training ended with $?"; cat err; }
grep -q 'label `shrug` does not occur' err || bad "an unknown label went without a word: $(cat err)"
grep -q '"test_accuracy":1.0' result.json || bad "test accuracy: $(cat result.json)"
"$MUSTER" predict run >answers.csv || bad "predict ended with $?"
[ "$(head -n 1 answers.csv)" = sample,class,probability,predicted ] || bad "header: $(head -n 1 answers.csv)"
[ "$(cut -d, -f1,2,4- answers.csv | tail -n 2 | tr '\n' ' ')" = '0,1,praise 1,0,"blame, loud" ' ] ||
    bad "answers: $(cat answers.csv)"

for i in 1 2 3 4 5 6 7 8 9; do echo "abcd abcd"; done >text.txt
cat >chars.yaml <<'JOB'
data:
  train: {reader: chars, file: text.txt, length: 1, streams: 4}
net:
  - {name: table, type: embedding, src: data.chars, vocab: 6, dim: 6}
  - {name: scores, type: flatten}
  - {name: loss, type: softmax_loss, src: [scores, data.next]}
train: {batch: 4, steps: 300}
updater: {type: adam, rate: 0.1}
JOB
"$MUSTER" train chars.yaml --out letters -q || bad "training on characters ended with $?"
"$MUSTER" sample letters --prime ab --length 6 --temperature 0 -q >text || bad "sample ended with $?"
case $(cat text) in abcd*) ;; *) bad "greedy text: $(cat text)" ;; esac
"$MUSTER" sample letters --length 200 --seed 5 -q >one && "$MUSTER" sample letters --length 200 --seed 5 -q >two
cmp one two || bad "one seed, two texts"
"$MUSTER" sample letters --length 200 --seed 6 -q >two && cmp -s one two && bad "two seeds, one text"
"$MUSTER" sample letters --length 9 --warmup 0 --temperature 0 -q >one || bad "--warmup 0"
case $(cat one) in "abcd "*) ;; *) bad "text after a new line: $(cat one)" ;; esac
"$MUSTER" sample letters --warmup 99999999 -q 2>err && bad "a warm-up of 99999999 went through"
grep -q 'warm-up of 99999999 characters' err || bad "message: $(cat err)"
"$MUSTER" sample letters --length 5 --json -q | grep -q '"length":5' || bad "--json"
"$MUSTER" sample letters --prime xyz -q 2>err && bad "an unknown character went through"
grep -q 'does not know byte 0x78' err || bad "message: $(cat err)"
"$MUSTER" sample run -q 2>err && bad "sentences were sampled from"
grep -q 'is no character model' err || bad "message: $(cat err)"
"$MUSTER" sample letters >/dev/full 2>err && bad "a full disk went unnoticed"

[ $wrong = 0 ] && echo "cli_text: ok"
exit $((wrong > 0))
