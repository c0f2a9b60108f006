#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The mean staleness of gradients of several ranks is what it has to be (docs/cluster.md): (g - 1) / c of g groups of which c
# make an update, where a group waits for the weights with its own gradient in them; g / c where it goes on without; 0
# in step. Learners sleep in their steps (test/wrong/wrong_learner.c), so the parents answer at once on any machine.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"
set -f # adv* is no file
program=$(dirname "$MUSTER")/muster-wrong
[ -x "$program" ] || { echo "skipped: needs $program"; exit 77; }
: "${SECONDS_EACH:=4}"

cat >job.yaml <<'END_OF_JOB'
name: job
seed: 3
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 800, noise: 0.2, scale: 0.0039}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 20}
  - {name: act, type: sigmoid}
  - {name: fc2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
train: {batch: 16, epochs: 0}
updater: {type: sgd, rate: 0.01}
checkpoint: {every: never}
log: {tensorboard: false}
cluster: {warm_start: never}
END_OF_JOB
export MUSTER_WRONG=slow

# law RANKS LEARNERS WAY PROTOCOL MEAN MOST: the mean is that one, but for a fifth; no gradient is staler than MOST
law() {
    local out=${3/\*/s}-$1-$2 way=$3
    timeout -k 5 60 "${mpi[@]}" -n "$1" "$program" train job.yaml --learners "$2" --protocol "$4" \
        --set cluster.architecture="$way" --set train.deadline="${SECONDS_EACH}s" --out "$out" --quiet --json \
        >"$out.json" 2>"$out.err" || { bad "$out, $4: $(tail -n 4 "$out.err")"; return; }
    balanced "$out"
    echo "$way, $2 learners on $1 ranks, $4: $(jq -c '[.staleness.mean, .staleness.max, .gradients.applied]' "$out.json"), not $5"
    jq -e ".staleness.mean >= 0.8 * $5 and .staleness.mean <= 1.2 * $5 and .staleness.max <= $6" "$out.json" >/dev/null ||
        bad "$out, $4: the mean is to be $5: $(jq -c .staleness "$out.json")"
    jq -e '.gradients.applied > 100 and .gradients.rejected < 0.1 * .gradients.applied' "$out.json" >/dev/null ||
        bad "$out, $4: $(jq -c .gradients "$out.json")"
    rm -rf "$out"
}
law 2 8 base async 7 1000
law 2 8 adv async 1 1000
law 4 4 adv async 3 1000
law 2 8 'adv*' async 2 1000
law 4 4 'adv*' async 4 1000
law 2 8 base softsync 0.875 2
law 2 8 base '{type: softsync, n: 4}' 3.5 8
law 4 4 'adv*' softsync 1 2
law 2 8 adv hardsync 0 0
finish
