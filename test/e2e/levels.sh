#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# MUSTER_CPU chooses the kernels and caps the libraries; a level that cannot be had is refused.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
unset MUSTER_CPU OPENBLAS_CORETYPE
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
has() { grep -qF -- "$2" "$1" || bad "$1 has no \`$2\`: $(tail -n 5 "$1")"; }

cat >job.yaml <<'YAML'
name: levels
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 64, scale: 0.004}
net:
  - {name: ip1, type: inner_product, src: data.image, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip1, data.label]}
train: {batch: 16, epochs: 1}
updater: {type: sgd, rate: 0.05}
YAML

"$MUSTER" doctor >doctor
best=$(sed -n 's/.*has x86-64-v\([234]\), kernels for v\1 (the best it has).*/\1/p' doctor)
if [ -z "$best" ]; then
    has doctor "one level of kernels"
    MUSTER_CPU=v2 "$MUSTER" time job.yaml >out 2>err && bad "a build of one level took MUSTER_CPU"
    has err "built for one kind of processor"
    exit $((wrong > 0))
fi

core=(x x Nehalem Haswell)
for level in 2 3 4; do
    MUSTER_CPU=v$level "$MUSTER" time job.yaml --seconds 0.1 --verbose >out 2>err
    status=$?
    if [ "$level" -gt "$best" ]; then
        [ $status = 1 ] || bad "MUSTER_CPU=v$level on v$best ended with $status"
        has err "MUSTER_CPU=v$level, but this processor has only x86-64-v$best"
        MUSTER_CPU=v$level "$MUSTER" doctor >out 2>&1 && bad "doctor is content with MUSTER_CPU=v$level"
        continue
    fi
    [ $status = 0 ] || bad "MUSTER_CPU=v$level ended with $status: $(tail -n 3 err)"
    has err "loss: softmax_vec (v$level)"
    has err "updater: sgd (v$level)"
    MUSTER_CPU=v$level "$MUSTER" doctor >out || bad "doctor at v$level"
    has out "kernels for v$level (MUSTER_CPU)"
    if [ "$level" != 4 ] && ! grep -q 'openblas *not built in' out; then has out "kernels for ${core[level]}"; fi
done

MUSTER_CPU=avx2 "$MUSTER" time job.yaml >out 2>err
[ $? = 2 ] || bad "a wrong word is not refused as such"
has err "MUSTER_CPU=avx2 is no level of instructions"
MUSTER_CPU=v2 "$MUSTER" --version >out || bad "--version"
exit $((wrong > 0))
