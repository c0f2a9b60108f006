#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Values that are not finite in one learner of a group: a record that overflows, and a rate that is absurd, under
# each policy, with the server beside and as a process.
source "$(dirname "$0")/../storm/help.sh"

# 2400 rows of four classes in order; row 2300 makes the first layer overflow.
awk 'BEGIN {
    srand(3)
    for (i = 1; i <= 2400; i++) {
        printf "%d", i % 4
        for (k = 0; k < 8; k++) printf ",%g", i == 2300 ? 3.4e38 : (k % 4 == i % 4) + 0.5 * rand()
        printf "\n"
    }
}' > "$dir/train.csv"
cat > "$dir/job.yaml" <<'JOB'
name: nonfinite
seed: 2
data:
  train: {reader: csv, file: train.csv, label: 0}
net:
  - {name: fc1, type: inner_product, src: data.features, outputs: 30, init: msra}
  - {name: relu1, type: relu}
  - {name: fc2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
train: {batch: 12, epochs: 2, shuffle: false}
updater: {type: sgd, rate: 0.05}
checkpoint: {every: 5 steps}
log: {tensorboard: false}
cluster: {learners: 3, hang_timeout: 2s}
JOB

run() { # NAME CODE ARGS...
    local name=$1 code=$2
    shift 2
    rm -rf "$dir/run"
    start "$dir/run" "$dir/job.yaml" "$@"
    finish $code 30 "$name"
}

for pair in beside:hardsync beside:async process:hardsync process:async beside:hogwild; do
    IFS=: read -r server protocol <<< "$pair"
    where=(--set cluster.protocol=$protocol)
    [ $protocol = hogwild ] || where+=(--set cluster.server=$server)
    name="$protocol, $server"
    run "$name, stop" 4 "${where[@]}"
    says 'not finite' "$name, stop"
    says '`fc1`\|`loss`\|`fc2`' "$name, stop"
    says "hint: $([ $protocol = hardsync ] && echo Lower || echo "Gradients of $protocol are about")" "$name, stop"
    run "$name, skip" 0 "${where[@]}" --set train.nonfinite=skip
    balanced "$name, skip"
    says 'skipped' "$name, skip"
    [ "$(number steps)" = 400 ] || fail "$name, skip: $(number steps) steps, not 400"
    run "$name, first half" 0 "${where[@]}" --set train.steps=100 # so that there is a checkpoint
    resume "$dir/run" --set train.steps=400 --set train.nonfinite=rollback
    finish 4 30 "$name, rollback" # the record comes again each time
    [ "$(grep -c 'with half the rate' "$dir/err")" = 3 ] || fail "$name, rollback: not three times back"
    run "$name, absurd rate" 4 "${where[@]}" --set updater.rate=1e30 --set train.nonfinite=skip \
        --set train.max_bad_steps=3
    echo "$name: stop, skip, rollback"
done
