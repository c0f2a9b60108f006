#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# autoencoder.sh - two small RBMs, one on top of the other, become an auto-encoder: their parameters are ported
# by name, transposed for the decoder, and fine-tuned. Then weights tied by name: every protocol trains
# them, and a resumed training ends with the same bits.
set -euo pipefail
: "${MUSTER:=build/muster}"
MUSTER=$(realpath "$MUSTER")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

fail() { echo "FAIL: $*"; exit 1; }
# The value of a key in the first or last line of a run's metrics that has it.
first() { grep -o "\"$2\":[^,}]*" "$1/metrics.jsonl" | head -n 1 | cut -d: -f2; }
last() { grep -o "\"$2\":[^,}]*" "$1/metrics.jsonl" | tail -n 1 | cut -d: -f2; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

data='data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 400, scale: 0.00392156863}
  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 100, scale: 0.00392156863}'

# ---- two stages of pre-training ----
cat >rbm1.yaml <<JOB
name: rbm1
$data
net:
  - {name: rbm1, type: rbm, src: data.image, hidden: 24, init: {type: gaussian, std: 0.1}}
train: {algorithm: cd, batch: 20, epochs: 20}
updater: {type: sgd, momentum: 0.5, rate: 0.05}
JOB
cat >rbm2.yaml <<JOB
name: rbm2
$data
net:
  - {name: rbm1, type: rbm, src: data.image, hidden: 24, weight: {lr: 0}, hidden_bias: {lr: 0}, visible_bias: {lr: 0}}
  - {name: rbm2, type: rbm, hidden: 8, hidden_units: gaussian, init: {type: gaussian, std: 0.1}}
train: {algorithm: cd, batch: 20, epochs: 20, init_from: rbm1}
updater: {type: sgd, momentum: 0.5, rate: 0.005}
JOB
"$MUSTER" train rbm1.yaml --out rbm1 --quiet
"$MUSTER" train rbm2.yaml --out rbm2 --quiet

# ---- ported and fine-tuned ----
from() { echo "{type: file, path: rbm2, tensor: $1}"; }
cat >deep.yaml <<JOB
name: deep
$data
net:
  - {name: enc1, type: inner_product, src: data.image, outputs: 24, init: $(from rbm1.weight), bias: {init: $(from rbm1.hidden_bias)}}
  - {name: up1, type: sigmoid}
  - {name: enc2, type: inner_product, outputs: 8, init: $(from rbm2.weight), bias: {init: $(from rbm2.hidden_bias)}}
  - {name: dec2, type: inner_product, outputs: 24, init: $(from 'rbm2.weight, transpose: true'), bias: {init: $(from rbm2.visible_bias)}}
  - {name: down2, type: sigmoid}
  - {name: dec1, type: inner_product, outputs: 64, init: $(from 'rbm1.weight, transpose: true'), bias: {init: $(from rbm1.visible_bias)}}
  - {name: loss, type: sigmoid_loss, src: [dec1, data.image], squared_error: true}
train: {batch: 20, epochs: 10}
updater: {type: adam, rate: 0.003}
test: {every: 10 epochs, at_start: true}
JOB
sed -E 's/init: \{type: file[^}]*\}/init: glorot/g; s/bias: \{init: glorot\}/bias: {decay: 1}/g' deep.yaml >plain.yaml
"$MUSTER" train deep.yaml --out deep --quiet
"$MUSTER" train plain.yaml --out plain --quiet
begin=$(first deep test_squared_error) end=$(last deep test_squared_error)
random=$(first plain test_squared_error) plain=$(last plain test_squared_error)
echo "squared error: $begin as ported, $end fine-tuned; $random at random, $plain trained"
less "$begin" "$random" || fail "ported RBMs rebuild no better than random weights"
less "$end" "$begin" || fail "fine-tuning does not help"
less "$end" "$plain" || fail "pre-training does not help"

# A model needs nothing of its training: prediction works when the RBMs are gone, another training does not.
"$MUSTER" train deep.yaml --out half --set train.epochs=4 --quiet
mv rbm2 away
"$MUSTER" predict deep.yaml --model deep --layer dec1 --raw --out out.csv --quiet || fail "predict needs the RBMs"
[ "$(wc -l <out.csv)" = 100 ] || fail "predict wrote $(wc -l <out.csv) lines, want 100"
"$MUSTER" train deep.yaml --out again --quiet 2>message && fail "trained without its initial values"
grep -q 'deep.yaml:6:.*rbm2.*does not exist' message || { cat message; fail "no place for the missing file"; }
# A training that goes on has its values in the checkpoint; one that was never saved begins anew, with the files.
cp -r half unsaved && rm -r unsaved/checkpoints
"$MUSTER" train deep.yaml --out half --resume --quiet || fail "a resumed training needs its initial values"
cmp deep/model.safetensors half/model.safetensors || fail "a training resumed without its initial values differs"
"$MUSTER" train deep.yaml --out unsaved --resume --quiet 2>message && fail "began anew without its initial values"
grep -q 'rbm2.*does not exist' message || { cat message; fail "the missing file is not named"; }

# ---- tied weights, noise and sparsity ----
cat >tied.yaml <<JOB
name: tied
$data
net:
  - {name: noisy, type: noise, src: data.image, kind: salt_pepper, level: 0.2}
  - {name: enc, type: inner_product, outputs: 16}
  - {name: unit, type: sigmoid}
  - {name: code, type: sparsity, target: 0.2, weight: 0.1}
  - {name: dec, type: inner_product, outputs: 64, transpose: true, weight: {name: enc.weight}}
  - {name: loss, type: sigmoid_loss, src: [dec, data.image], squared_error: true}
train: {batch: 20, steps: 60}
updater: {type: adam, rate: 0.01}
test: {every: 60 steps, at_start: true}
checkpoint: {every: 30 steps, keep: 5}
JOB
"$MUSTER" train tied.yaml --out whole --quiet
"$MUSTER" train tied.yaml --out part --steps 30 --quiet
"$MUSTER" train tied.yaml --out part --resume --quiet
cmp whole/model.safetensors part/model.safetensors || fail "a resumed training differs"
for protocol in hardsync softsync async hogwild ssp mirror; do
    "$MUSTER" train tied.yaml --out "$protocol" --learners 2 --protocol "$protocol" --quiet
    less "$(last "$protocol" test_squared_error)" "$(first whole test_squared_error)" ||
        fail "$protocol: squared error $(last "$protocol" test_squared_error), $(first whole test_squared_error) at start"
done

# Without the penalty, whose mean is over a learner's own rows, two learners do what one does: noise goes by the
# number of the sample.
sed '/type: sparsity/d' tied.yaml >noise.yaml
"$MUSTER" train noise.yaml --out one --quiet
"$MUSTER" train noise.yaml --out two --learners 2 --protocol hardsync --quiet
one=$(last one test_loss) two=$(last two test_loss)
awk -v a="$one" -v b="$two" 'BEGIN { d = a - b; exit !(d < 1e-4 * a && -d < 1e-4 * a) }' ||
    fail "test loss $one with one learner, $two with two"
echo "ok"
