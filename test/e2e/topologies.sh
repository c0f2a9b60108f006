#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The four topologies of examples/topologies: job files that differ in `cluster` alone, each trains Fashion-MNIST while
# its processes are killed, and balances its ledger. KILLS, LIMIT (images) and EPOCHS make it longer.
# Skipped (77) where Debian's dataset-fashion-mnist is not installed.
set -uo pipefail
: "${MUSTER:?path of the program}"
case $MUSTER in /*) ;; *) MUSTER=$PWD/$MUSTER ;; esac
[ -r /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ] || { echo "no Fashion-MNIST here"; exit 77; }
command -v jq >/dev/null || { echo "skipped: needs jq"; exit 77; }
jobs=$(cd "$(dirname "$0")/../../examples/topologies" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
body() { sed '/^#/d; /^cluster:/d' "$1"; }

for t in sandblaster allreduce downpour hogwild; do
    [ "$(body "$jobs/$t.yaml")" = "$(body "$jobs/allreduce.yaml")" ] || bad "$t differs in more than its cluster"
    more=()
    [ -n "${LIMIT-12800}" ] && more+=(--set data.train.limit="${LIMIT-12800}" --set updater.rate=0.01)
    timeout 900 "$MUSTER" train "$jobs/$t.yaml" --epochs "${EPOCHS:-2}" "${more[@]}" --out $t --quiet --json \
        >$t.json 2>$t.err &
    pid=$!
    for _ in $(seq 200); do [ -e $t/live.json ] && break; sleep 0.05; done
    timeout 900 "$MUSTER" chaos $t --do "kill learner random every ~${GAP:-0.25}s times ${KILLS:-5}" >$t.chaos 2>&1
    wait $pid || bad "$t: $(tail -n 4 $t.err)"
    jq -e '.gradients | .produced == .applied + .rejected + .lost and .applied > 0' $t.json >/dev/null ||
        bad "$t: the ledger: $(jq -c .gradients $t.json)"
    jq -e '.test_accuracy > 0.65' $t.json >/dev/null || bad "$t: $(jq .test_accuracy $t.json)"
    [ "$(jq .learners_lost $t.json)" -gt 0 ] || bad "$t: nothing was killed: $(tail -n 2 $t.chaos)"
    echo "$t: accuracy $(jq .test_accuracy $t.json), $(jq .learners_lost $t.json) lost, $(jq -c .gradients $t.json)"
done
[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
