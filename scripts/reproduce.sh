#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# reproduce.sh BUILD - the figures of README that take long: fetches exact CIFAR-10, trains cifar10_full
# with Caffe's recipe compressed to 40 epochs (about 20 minutes on one core), draws docs/img.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
[ -e data/cifar-10-batches-bin/test_batch.bin ] || examples/get-cifar10.sh
run=runs/cifar10_full-40
rm -rf "$run"
"$build/muster" train examples/cifar10_full-40.yaml --out "$run"
mkdir -p docs/img
"$build/muster" plot "$run" --curves error --title "cifar10_full on CIFAR-10, Caffe's recipe in 40 epochs" \
    --out docs/img/cifar10_full-40.svg
