#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [TRAIN OPTION...] - the deep auto-encoders of Hinton and Salakhutdinov (Science 2006) on MNIST: a stack
# of four RBMs, each trained on the units of the one below, then the stack unrolled to an auto-encoder and
# fine-tuned, with a code of 30 numbers and with one of 2. The runs are in runs/autoencoder/, the pictures
# beside them. MUSTER names the program; options such as `--epochs 1` go to every training.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
muster=${MUSTER:-$root/build/muster}
out=$root/runs/autoencoder

[ -f "$root/data/mnist/train-images-idx3-ubyte.gz" ] || "$root/examples/get-mnist.sh"
for stage in rbm1 rbm2 rbm3 rbm4 finetune sparse denoising rbm4-2 finetune-2; do
    echo "== $stage"
    rm -rf "${out:?}/$stage"
    "$muster" train "$here/$stage.yaml" --out "$out/$stage" --quiet "$@"
done

echo "== pictures"
"$muster" plot "$out/rbm1" --filters rbm1 --count 100 --order norm --out "$out/rbm1-filters.png"
"$muster" plot "$out/finetune" --images image --out "$out/finetune-images.png"
"$muster" plot "$out/finetune-2" --scatter enc4 --out "$out/finetune-2-codes.svg"
"$muster" plot "$out/sparse" --filters enc --count 100 --order norm --out "$out/sparse-filters.png"
"$muster" plot "$out/denoising" --set net.noisy.always=true --images noisy,image --out "$out/denoising-images.png"
for run in finetune finetune-2 sparse denoising; do
    echo "== $run: test of the model"
    "$muster" test "$out/$run" --quiet
done
if python3 -c 'import numpy' 2>/dev/null; then
    echo "== principal components"
    python3 "$here/pca.py" "$root/data/mnist"
fi
