#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 100 steps = 50 steps + kill -9 + resume to 100, bit for bit, on three nets and three updaters.
# The killed process dies at an unplanned moment after its checkpoint at step 50.
set -euo pipefail
: "${MUSTER:=build/muster}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

job() { # $1 = net (mlp or cnn), $2 = updater block
    local net
    if [ "$1" = mlp ]; then
        net='  - {name: ip1, type: inner_product, src: data.image, outputs: 300}
  - {name: s1, type: sigmoid}
  - {name: drop, type: dropout, ratio: 0.5}'
    else
        net='  - {name: c1, type: convolution, src: data.image, filters: 16, kernel: 5, pad: 2}
  - {name: bn, type: batch_norm}
  - {name: r1, type: relu}
  - {name: p1, type: pooling, method: max, kernel: 3, stride: 2}
  - {name: n1, type: lrn, size: 3, region: within}
  - {name: c2, type: convolution, filters: 32, kernel: 5, pad: 2}
  - {name: r2, type: relu}
  - {name: p2, type: pooling, method: average, kernel: 3, stride: 2}
  - {name: drop, type: dropout, ratio: 0.4}'
    fi
    cat <<JOB
name: resume
seed: 3
data:
  train: {reader: synthetic, shape: [3, 20, 20], classes: 5, records: 500, crop: 16, mirror: true, scale: 0.004}
  test: {reader: synthetic, shape: [3, 20, 20], classes: 5, records: 100, crop: 16, scale: 0.004}
net:
$net
  - {name: ip2, type: inner_product, outputs: 5}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 32, steps: 100}
updater: {$2}
checkpoint: {every: 10 steps, keep: 10}
JOB
}

n=0
for net in mlp cnn; do
    for updater in 'type: sgd, momentum: 0.9, decay: 0.001, rate: {type: step, base: 0.01, gamma: 0.5, every: 30}' \
                   'type: adam, rate: {type: cosine, base: 0.001}' 'type: adadelta, rate: 1, clip_norm: 1'; do
        n=$((n + 1))
        job $net "$updater" > "$dir/$n.yaml"
        "$MUSTER" train "$dir/$n.yaml" --out "$dir/whole$n" --quiet
        # The same, killed as soon as the checkpoint of step 50 is there.
        "$MUSTER" train "$dir/$n.yaml" --out "$dir/killed$n" --quiet & pid=$!
        for _ in $(seq 2000); do
            if ls "$dir/killed$n/checkpoints" 2>/dev/null | grep -qE '^step-([5-9]0|[0-9]{3,})$'; then break; fi
            sleep 0.005
        done
        kill -9 $pid 2>/dev/null || true
        wait $pid 2>/dev/null || true
        # The kill came some steps later: what was saved after step 50 is taken away.
        for c in "$dir/killed$n"/checkpoints/step-*; do
            [ "$c" = "$dir/killed$n/checkpoints/step-50" ] || rm -rf "$c"
        done
        "$MUSTER" train "$dir/$n.yaml" --resume "$dir/killed$n" --quiet
        cmp "$dir/whole$n/model.safetensors" "$dir/killed$n/model.safetensors"
        echo "case $n ($net, $updater): equal"
    done
done
