#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `muster export`: the best or the newest model as one file; the run and its data are gone by then.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

for i in $(seq 20); do printf 'yes\tgood fine %d\nno\tbad poor %d\n' $((i % 4)) $((i % 3)); done >train.tsv
head -n 10 train.tsv >test.tsv
cat >job.yaml <<'JOB'
data:
  train: {reader: sentences, file: train.tsv}
  validation: {reader: sentences, file: test.tsv}
net:
  - {name: e, type: embedding, src: data.words, dim: 4}
  - {name: ip, type: inner_product, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
  - {name: accuracy, type: accuracy, src: [ip, data.label]}
train: {batch: 4, steps: 40}
test: {every: 5 steps}
checkpoint: {every: 5 steps, keep: 20}
updater: {type: adam, rate: 0.02}
JOB
"$MUSTER" train job.yaml --out run -q >/dev/null || bad "training ended with $?"
best=$(cat run/checkpoints/BEST)
last=$(cat run/checkpoints/LATEST)
[ "$best" != "$last" ] || bad "the best is the last: the test shows nothing"
"$MUSTER" predict run --best --raw "good fine" "bad" >best.csv && "$MUSTER" predict run --raw "good fine" "bad" >last.csv || bad "predict: $?"
cmp -s best.csv last.csv && bad "both models answer alike: the test shows nothing"
"$MUSTER" export run best.safetensors 2>said || bad "export ended with $?"
grep -q "^wrote best.safetensors: .*$best (step .*best_accuracy" said || bad "it says $(cat said)"
"$MUSTER" export run last.safetensors --last --json >said.json 2>/dev/null || bad "export --last ended with $?"
grep -q "{\"file\":\"last.safetensors\",\"from\":\".*$last\",\"scores\":{\"step\":40" said.json || bad "$(cat said.json)"
before=$(cksum <last.safetensors)
"$MUSTER" export run last.safetensors 2>err && bad "a file was replaced"
grep -q 'exists already' err || bad "$(cat err)"
[ "$before" = "$(cksum <last.safetensors)" ] || bad "the file was changed"
"$MUSTER" export run model.bin 2>err && bad "a name that predict does not know for a model"
grep -q 'safetensors' err || bad "$(cat err)"
"$MUSTER" export nowhere x.safetensors 2>err; [ $? = 6 ] || bad "no run: $(cat err)"
"$MUSTER" export run 2>err; [ $? = 2 ] || bad "no file: $(cat err)"

sed '/validation/d' job.yaml >alone.yaml
"$MUSTER" train alone.yaml --out unjudged -q >/dev/null 2>err || bad "$(cat err)"
"$MUSTER" export unjudged only.safetensors 2>said || bad "a run without a best model: $(cat said)"

rm -rf run unjudged train.tsv test.tsv job.yaml
for m in best last; do
    "$MUSTER" predict $m.safetensors --raw "good fine" "bad" >$m.alone.csv || bad "predict $m: $?"
    cmp $m.csv $m.alone.csv || bad "$m answers otherwise alone"
done
"$MUSTER" predict best.safetensors "good fine" | grep -q ',yes$' || bad "no class names"
"$MUSTER" export best.safetensors again.safetensors 2>/dev/null || bad "a model from a model: $?"
cmp best.safetensors again.safetensors || bad "the copy differs"

[ $wrong = 0 ] && echo "cli_export: ok"
exit $((wrong > 0))
