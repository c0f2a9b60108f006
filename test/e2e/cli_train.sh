#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What training says at its end and refuses at its start: the verb to try next, data without one good record,
# folders of images whose classes differ; and the floor that `muster time` measures against.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
next_is() { # VERB ARGUMENTS...: training that ends with `next: muster VERB`
    local verb=$1
    shift
    "$MUSTER" train "$@" --out next >out 2>&1 || bad "\`train $*\` ended with $?: $(tail -n 3 out)"
    grep -qE "next: muster $verb next\$" out || bad "\`train $*\` does not lead to \`$verb\`: $(tail -n 1 out)"
    rm -rf next
}

cat > job.yaml <<'JOB'
data:
  train: {reader: synthetic, shape: [8], classes: 4, records: 20, scale: 0.004}
  test: {reader: synthetic, shape: [8], classes: 4, records: 8}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 4, steps: 3}
updater: {type: sgd, rate: 0.0001}
JOB
# --quiet silences the way to the results, not the results.
"$MUSTER" train job.yaml --out quiet --quiet >out 2>err || bad "--quiet ended with $?"
[ -s err ] && bad "--quiet says on stderr: $(cat err)"
grep -q '^test  loss' out && grep -q '^saved  quiet/model.safetensors' out || bad "--quiet has no results: $(cat out)"
"$MUSTER" train job.yaml --out quiet2 --quiet --json >out 2>err || bad "--quiet --json ended with $?"
[ "$(wc -l <out)" = 1 ] && [ ! -s err ] || bad "--quiet --json is more than its line: $(cat out err)"
sed 's/^  test:/  predict:/' job.yaml >predict.yaml
grep -v '^  test:' job.yaml >plain.yaml
printf 'abcdabcdabcdabcdabcdabcd' >text.txt
cat > chars.yaml <<'JOB'
data:
  train: {reader: chars, file: text.txt, length: 2, streams: 2}
net:
  - {name: table, type: embedding, src: data.chars, vocab: 4, dim: 4}
  - {name: loss, type: softmax_loss, src: [table, data.next]}
train: {batch: 2, steps: 3}
updater: {type: sgd, rate: 0.1}
JOB
next_is test job.yaml
next_is predict predict.yaml
next_is plot plain.yaml
next_is sample chars.yaml

# Not one good record: training and testing end with the reason, neither with a score of nothing.
printf 'kind,x\n0,1\n1,2\n' >good.csv
printf 'kind,x\n0,one\n1,two\n' >wrong.csv
cat > table.yaml <<'JOB'
data:
  train: {reader: csv, file: good.csv, label: kind}
  test: {reader: csv, file: wrong.csv, label: kind, max_bad: 5}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 2, steps: 2}
updater: {type: sgd, rate: 0.1}
JOB
"$MUSTER" train table.yaml --out table >out 2>&1; got=$?
[ $got = 3 ] || bad "a test without a good record ended with $got: $(tail -n 3 out)"
grep -q 'no record of the data of phase test could be read' out || bad "no good record: $(tail -n 3 out)"

# Image folders number their classes by name: a folder more shifts all that follow.
png=iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==
for f in train/cat train/dog train/owl test/cat test/owl; do
    mkdir -p "$f"
    base64 -d <<<"$png" >"$f/one.png"
done
cat > images.yaml <<'JOB'
data:
  train: {reader: image_folder, root: train}
  test: {reader: image_folder, root: test}
net:
  - {name: ip, type: inner_product, src: data.image, outputs: 3}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 3, steps: 2}
updater: {type: sgd, rate: 0.1}
JOB
"$MUSTER" check images.yaml >/dev/null 2>err; got=$?
[ $got = 0 ] || bad "a class without images in the test was refused: $(cat err)"
"$MUSTER" train images.yaml --out images -q 2>err || bad "training without images of a class: $(cat err)"
mv test/owl test/oul
"$MUSTER" check images.yaml >/dev/null 2>err; got=$?
[ $got = 3 ] || bad "a folder that is no class: check ended with $got"
grep -q "is none of the model's 3 classes" err || bad "classes of folders: $(cat err)"

# The floor of a step is the larger of what arithmetic and bytes need; its share is that over the measured step.
"$MUSTER" time job.yaml --set net.ip.outputs=512 --set train.batch=64 --json >time.json 2>err || bad "time ended with $?"
value() { grep -oE "\"$1\": ?[0-9.e+-]+" time.json | head -n 1 | sed 's/.*: *//'; }
awk -v a="$(value floor_flops_ms)" -v b="$(value floor_bytes_ms)" -v s="$(value step_ms)" -v share="$(value share_of_floor)" '
    BEGIN { floor = a > b ? a : b; exit !(a > 0 && b > 0 && share > 0 && share < 1.5 && (floor / s - share) ^ 2 < 1e-6) }' ||
    bad "floor and share do not agree: $(head -c 600 time.json)"

[ $wrong = 0 ] && echo "cli_train: ok"
exit $((wrong > 0))
