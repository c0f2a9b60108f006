#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers of a learner on several ranks: the bits of the same workers in one process, and the net that is not split up to
# rounding, for all ways to cut; what moves over bridges is what `check --graph` says.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"

span_mlp
# Statistics, and a piece that several ranks have.
job conv '{batch: 24, steps: 30}' '{type: sgd, momentum: 0.9, decay: 0.001, rate: 0.02}' <<'END'
  - {name: c1, type: convolution, src: data.image, filters: 40, kernel: 5, pad: 2, partition: batch}
  - {name: act, type: relu}
  - {name: norm, type: batch_norm, partition: feature}
  - {name: pool, type: pooling, kernel: 3, stride: 2}
  - {name: c2, type: convolution, filters: 100, kernel: 3, partition: feature}
  - {name: act2, type: relu}
END
words_and_chars
cat >unrolled.yaml <<'END' # a char-RNN: copies of its layers for each time step, cut in turn by batch and by feature
name: unrolled
data:
  train: {reader: chars, file: text, length: 6, streams: 12}
net:
  - {name: gru, type: gru_cell, hidden: 24, unroll: 6, src: [data.chars, {layer: gru, shift: 1}], partition: batch}
  - {name: scores, type: inner_product, outputs: 16, unroll: 6, partition: feature}
  - {name: loss, type: softmax_loss, src: [scores, data.next], unroll: 6, top: []}
train: {batch: 12, steps: 20, algorithm: bptt}
updater: {type: sgd, rate: 0.05}
END

# ---- the same bits as in one process; where a rank adds up dense gradients of its workers, in another order ----
w=(--set cluster.workers=4)
for job in mlp conv words chars unrolled; do
    run $job-alone $job.yaml "${w[@]}" --learners 1
    run_on 2 $job-2 $job.yaml "${w[@]}" --learners 1
    near $job-2 $job-alone 1e-4 || bad "$job on 2 ranks"
    run_on 4 $job-4 $job.yaml "${w[@]}" --learners 1
    same $job-4 $job-alone # a worker on each: nothing to add up
done
same mlp-2 mlp-alone # nor here
for ranks in 2 4; do # learners on two ranks each, or whole on one
    for learners in 2 4; do
        [ -d of-$learners ] || run of-$learners mlp.yaml "${w[@]}" --learners $learners
        run_on $ranks of-$learners-on-$ranks mlp.yaml "${w[@]}" --learners $learners
        same of-$learners-on-$ranks of-$learners
    done
done
for o in server=process weights=copy; do
    run_on 2 mlp-o mlp.yaml "${w[@]}" --learners 1 --set cluster.$o
    same mlp-o mlp-alone
    rm -r mlp-o
done
run dense-alone mlp.yaml "${w[@]}" --learners 1 --set cluster.gradients=dense
for ranks in 2 4; do
    run_on $ranks dense-$ranks mlp.yaml "${w[@]}" --learners 1 --set cluster.gradients=dense
    near dense-$ranks dense-alone 1e-4 || bad "dense gradients on $ranks ranks"
done
same dense-4 dense-alone # a worker on each: nothing to add up
result() { jq -c '[.steps, .samples, .test_loss, .gradients.applied]' "$1.json"; }
[ "$(result mlp-2)" = "$(result mlp-alone)" ] || bad "mlp-2: $(result mlp-2), alone $(result mlp-alone)"
"${mpi[@]}" -n 2 "$MUSTER" train mlp.yaml "${w[@]}" --learners 1 --steps 2 --out said >/dev/null 2>said.err
grep -q '^4 workers of 1 learner on 2 ranks, hardsync' said.err || bad "the setup at the start: $(cat said.err)"
grep -q '^gradients between ranks: .* of them and .* of values leave this rank in a step' said.err ||
    bad "no line of gradients: $(cat said.err)"

# ---- AlexNet at a quarter of its width: as the net that is not split ----
alexnet_quarter
o=(--steps 25 --set updater.rate=0.002 --set checkpoint.every=never)
run begin alexnet.yaml --steps 1 --set updater.rate=1.0e-30 --set updater.decay=0
run whole alexnet.yaml "${o[@]}"
run_on 2 hybrid hybrid.yaml "${o[@]}" "${w[@]}" --learners 1
run_on 2 auto alexnet.yaml "${o[@]}" "${w[@]}" --learners 1 --set cluster.partition=auto
run_on 2 two hybrid.yaml "${o[@]}" --set cluster.workers=2 --learners 2
for out in hybrid auto two; do changes whole $out 2>why || bad "AlexNet, $out: $(cat why)"; done

# ---- bytes ----
bridged() { # bridged OUT JOB STEPS options...: what rank 0 sent and received over bridges, and what they are
    local out=$1 job=$2 steps=$3 each
    shift 3
    each=$("$MUSTER" check $job "${w[@]}" "$@" --graph 2>/dev/null | awk -v n=2 '
        $2 ~ /^bridge\(/ && match($0, /to worker [0-9]+, [0-9]+ bytes/) {
            split(substr($0, RSTART, RLENGTH), f, /[ ,]+/)
            if (int($1 / n) != int(f[3] / n)) sum += f[4] * (/the gradient back/ ? 2 : 1)
        }
        END { print sum + 0 }')
    [ "$each" -gt 0 ] && jq -e ".bridge_bytes_sent + .bridge_bytes_received == $steps * $each and
        .wire_bytes_sent > .bridge_bytes_sent" $out.json >/dev/null ||
        bad "$out: $(jq -c '[.bridge_bytes_sent, .bridge_bytes_received]' $out.json), $steps x $each bytes are due"
}
bridged mlp-2 mlp.yaml "$(jq .steps mlp-2.json)"
bridged conv-2 conv.yaml 30
bridged hybrid hybrid.yaml 25
bridged auto alexnet.yaml 25 --set cluster.partition=auto

# ---- refused ----
train=("$MUSTER" train mlp.yaml --out no)
refused 3 '1 learner of 3 workers cannot be spread evenly over 2 ranks' 2 "${train[@]}" --learners 1 --set cluster.workers=3
refused 3 '3 learners of 2 workers cannot be spread evenly over 2 ranks' 2 "${train[@]}" --learners 3 --set cluster.workers=2
refused 3 'workers of a learner on several ranks need `protocol: hardsync`' 2 "${train[@]}" --learners 1 "${w[@]}" \
    --protocol async
finish
