#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [SEED...] - a DNN pre-trained as a DBN against the same DNN begun at random, with 100, 1000 and 10000
# labels of MNIST: test errors in percent, a line for each number of labels and seed (default: 1).
# The runs are in runs/dbn/. MUSTER names the program.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
muster=${MUSTER:-$root/build/muster}
stack=$root/runs/autoencoder
out=$root/runs/dbn

[ -f "$root/data/mnist/train-images-idx3-ubyte.gz" ] || "$root/examples/get-mnist.sh"
for stage in rbm1 rbm2 rbm3; do
    [ -f "$stack/$stage/model.safetensors" ] && continue
    rm -rf "${stack:?}/$stage"
    "$muster" train "$here/../autoencoder/$stage.yaml" --out "$stack/$stage" --quiet
done

error() { # JOB LABELS SEED
    run=$out/$1-$2-$3
    rm -rf "$run"
    "$muster" train "$here/$1.yaml" --set data.train.limit="$2" --seed "$3" --out "$run" --quiet --json |
        sed -n 's/.*"test_accuracy":\([0-9.]*\).*/\1/p' | awk '{ printf "%.2f", 100 - 100 * $1 }'
}

[ $# -gt 0 ] || set -- 1
printf 'labels  seed  DNN    DBN-DNN\n'
for labels in 100 1000 10000; do
    for seed in "$@"; do
        printf '%-7s %-5s %-6s %s\n' "$labels" "$seed" "$(error dnn "$labels" "$seed")" \
            "$(error dbn-dnn "$labels" "$seed")"
    done
done
"$muster" plot "DNN=$out/dnn-1000-$1" "DBN-DNN=$out/dbn-dnn-1000-$1" --curves error --out "$out/errors.svg"
