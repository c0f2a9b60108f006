#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two learners on real data: an epoch of the MLP on Fashion-MNIST by a synchronous and an asynchronous protocol
# learns as one learner does, uses every sample once, and leaves a model that scores the same again.
# Skipped (77) where Debian's dataset-fashion-mnist is not installed.
set -uo pipefail
: "${MUSTER:?path of the program}"
[ -r /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || { echo "no Fashion-MNIST here"; exit 77; }
job=$PWD/examples/mlp-fashion.yaml
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
number() { sed -n "s/.*\"$2\":\([-+.0-9e]*\).*/\1/p" "$1" | head -n 1; }

for protocol in hardsync mirror; do
    "$MUSTER" train "$job" --learners 2 --protocol $protocol --epochs 1 --set train.batch=64 --json --out $protocol \
        >$protocol.json 2>err || bad "$protocol ended with $?: $(tail -n 3 err)"
    grep -q 'learners=2/2' err || bad "$protocol: progress does not show two learners: $(cat err)"
    accuracy=$(number $protocol.json test_accuracy)
    echo "$protocol: accuracy $accuracy, $(number $protocol.json samples_per_s) samples/s"
    awk -v a="$accuracy" 'BEGIN { exit !(a > 0.80) }' || bad "$protocol: accuracy $accuracy after one epoch"
    [ "$(number $protocol.json produced)" = "$(number $protocol.json applied)" ] || bad "$protocol: $(cat $protocol.json)"
    [ "$(number $protocol.json learners_lost)" = 0 ] || bad "$protocol lost learners"
    again=$("$MUSTER" test $protocol --json 2>/dev/null | sed -n 's/.*"test_accuracy":\([0-9.]*\).*/\1/p')
    [ "$again" = "$accuracy" ] || bad "$protocol: muster test says $again"
done

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
