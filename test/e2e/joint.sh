#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One server group on several ranks, by hardsync: the same bits as the same learners in one process, with factors, rows,
# sums and statistics; few bytes; deaths of learners, stops and resumes change nothing; a rank that is lost ends the
# others, and rank 0 saves what was done.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"

# 810 records in batches of 48: an epoch ends within a batch. Two ranks add up the filters of c2 in pieces.
job mlp '{batch: 48, epochs: 2}' '{type: adam, rate: 0.001}' <<'END'
  - {name: fc1, type: inner_product, src: data.image, outputs: 200}
  - {name: act, type: relu}
  - {name: drop, type: dropout}
END
job conv '{batch: 24, steps: 30}' '{type: sgd, momentum: 0.9, decay: 0.001, rate: 0.02}' <<'END'
  - {name: c1, type: convolution, src: data.image, filters: 40, kernel: 5, pad: 2}
  - {name: act, type: relu}
  - {name: norm, type: batch_norm}
  - {name: pool, type: pooling, kernel: 3, stride: 2}
  - {name: c2, type: convolution, filters: 100, kernel: 3}
  - {name: act2, type: relu}
END

# ---- the same bits as in one process ----
for job in mlp conv; do
    for n in 2 4; do
        run $job-$n-alone $job.yaml --learners $n
        run_on $n $job-$n $job.yaml
        same $job-$n $job-$n-alone
    done
    run_on 2 $job-2x2 $job.yaml --learners 4
    near $job-2x2 $job-4-alone 1e-5 || bad "4 learners on 2 ranks"
done
same=$(jq -c '[.steps, .samples, .test_loss, .gradients.applied]' mlp-2-alone.json)
[ "$same" = "$(jq -c '[.steps, .samples, .test_loss, .gradients.applied]' mlp-2.json)" ] || bad "mlp-2: results differ"
words_and_chars
for job in words chars; do
    run $job-alone $job.yaml --learners 2
    run_on 2 $job-2 $job.yaml
    same $job-2 $job-alone
done

# ---- bytes ----
dense() { # P floats of conv: what is summed and what is not; heads of frames on top
    python3 - conv-4/model.safetensors <<'PYTHON'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
head = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]])
print(sum((v["data_offsets"][1] - v["data_offsets"][0]) for k, v in head.items() if k != "__metadata__"))
PYTHON
}
bytes=$(dense)
# Each rank sends 2 (n - 1) / n of the bytes a step, and little else: 30 steps, beginning and end.
awk -v sent="$(jq .wire_bytes_sent conv-4.json)" -v p="$bytes" 'BEGIN { exit !(sent < 30 * 1.05 * 2 * p * 3 / 4 + 8 * p + 1e6) }' ||
    bad "conv-4: $(jq .wire_bytes_sent conv-4.json) bytes sent, $bytes of parameters"
for form in auto dense; do run_on 2 b1-$form mlp.yaml --set train.epochs=0 --steps 200 --batch-size 1 --set cluster.gradients=$form \
    --set checkpoint.every=1000\ steps; done
awk -v f="$(jq .wire_bytes_sent b1-auto.json)" -v d="$(jq .wire_bytes_sent b1-dense.json)" 'BEGIN { exit !(d > 10 * f) }' ||
    bad "factors: $(jq .wire_bytes_sent b1-auto.json) bytes, dense: $(jq .wire_bytes_sent b1-dense.json)"

# ---- deaths, stops, resumes ----
run calm conv.yaml --learners 4 --steps 600
long killed conv.yaml --learners 4 --steps 600
kill -KILL "$(learners_of "$(rank_1_of $pid)" | head -n 1)" 2>/dev/null || bad "no learner of rank 1"
wait $pid || bad "a learner was killed: $(tail -n 4 killed.err)"
jq -e '.learners_lost == 1 and .learners_replaced == 1' killed.json >/dev/null || bad "killed: $(cat killed.json)"
near killed calm 1e-4 || bad "a death changes the result"

long seen conv.yaml --learners 4 --steps 100000
"$MUSTER" status seen >seen.txt 2>&1
[ "$(grep -c ' on rank 1 ' seen.txt)" = 2 ] || bad "status does not say who is on rank 1: $(cat seen.txt)"
"$MUSTER" chaos seen --do 'kill learner 3' >chaos.txt 2>&1 && bad "a learner of rank 1 is hurt from rank 0"
grep -q 'learner 3 is on rank 1' chaos.txt || bad "chaos says $(cat chaos.txt)"
timeout 20 "$MUSTER" chaos seen --do 'kill all-learners' >chaos.txt 2>&1 || bad "all learners of rank 0: $(cat chaos.txt)"
"$MUSTER" stop seen >/dev/null 2>&1
wait $pid
jq -e '.stopped_by == "stop" and .learners_lost == 2' seen.json >/dev/null || bad "seen: $(cat seen.json)"

export OMPI_MCA_odls_base_sigkill_timeout=12
long stopped conv.yaml --steps 100000
kill -TERM $pid
wait $pid
jq -e '.stopped_by == "signal"' stopped.json >/dev/null || bad "SIGTERM: $(cat stopped.json) $(tail -n 5 stopped.err)"
step=$(jq .steps stopped.json)
timeout 180 "${mpi[@]}" -n 2 "$MUSTER" train --resume stopped --quiet --json --steps $((step + 20)) >again.json 2>again.err ||
    bad "resume: $(tail -n 4 again.err)"
run straight conv.yaml --learners 2 --steps $((step + 20))
same stopped straight
unset OMPI_MCA_odls_base_sigkill_timeout

export MUSTER_RANK_TIMEOUT=2
long silent conv.yaml --steps 100000 --set 'checkpoint.every=20 steps'
kill -STOP "$(rank_1_of $pid)"
wait $pid
code=$?
[ $code = 5 ] || bad "a rank was stopped: exit $code"
grep -q "rank 1 on .* was lost: silent for" silent.err || bad "a rank was stopped: $(tail -n 5 silent.err)"
export MUSTER_RANK_TIMEOUT=20
step=$(step_of silent)
timeout 180 "$MUSTER" train --resume silent --learners 2 --quiet --steps $((step + 10)) >again.json 2>&1 ||
    bad "resume in one process: $(tail -n 4 again.json)"
run straight2 conv.yaml --learners 2 --steps $((step + 10))
same silent straight2

# The last step of a training that others began may have samples for some learners only: one sample is the last
# learner's, of rank 1.
ends 90 begun "$MUSTER" train mlp.yaml --out begun --quiet --learners 5 --protocol async --set cluster.warm_start=never \
    --set train.epochs=0 --steps 400 --set 'checkpoint.every=2 steps' --set checkpoint.keep=99
for at in begun/checkpoints/step-*; do
    partial=$(jq .numbers.partial_step $at/manifest.json)
    [ "$partial" -gt 1 ] && break
done
[ "$partial" -gt 1 ] || bad "no checkpoint within a step"
from() { # from RANKS OUT LEARNERS BATCH STEPS: a training that goes on from there
    rm -rf $2
    cp -r begun $2
    find $2/checkpoints -mindepth 1 -maxdepth 1 ! -name "${at##*/}" -exec rm -r {} +
    local launch=()
    [ $1 = 1 ] || launch=("${mpi[@]}" -n $1)
    ends 180 $2 "${launch[@]}" "$MUSTER" train --resume $2 --quiet --json --protocol hardsync --learners $3 --set train.batch=$4 \
        --steps $(($(jq .step $at/manifest.json) + $5)) --set cluster.gradients=dense
}
for rows in 1 2; do
    for steps in 1 4; do # of 1 step the first one is the last one, too
        from 1 part-alone 4 $((partial + rows)) $steps
        from 2 part 4 $((partial + rows)) $steps
        near part part-alone 1e-5 || bad "a last step of $rows samples, behind $((steps - 1))"
    done
done

# A training that diverges has sums on their way, which nobody waits for any more.
job wide '{batch: 24, steps: 30}' '{type: sgd, rate: 1.0e+18}' <<'END'
  - {name: fc1, type: inner_product, src: data.image, outputs: 1500}
  - {name: act, type: relu}
  - {name: fc2, type: inner_product, outputs: 1500}
END
refused 4 'the loss is not finite' 2 "$MUSTER" train wide.yaml --out no --set cluster.gradients=dense --set checkpoint.every=never

# ---- refused, on every rank ----
train=("$MUSTER" train mlp.yaml --out no)
refused 3 '3 learners cannot be spread evenly over 2 ranks' 2 "${train[@]}" --learners 3
refused 3 'one server group on several ranks needs `protocol: hardsync`' 2 "${train[@]}" --protocol async \
    --set cluster.server_groups=1
if ! "$MUSTER" doctor --json 2>/dev/null | jq -e '.checks[] | select(.check == "cpu") | .text | test("kernels for v2")' >/dev/null; then
    refused 3 'has kernels of another level' 1 "${train[@]}" : -n 1 env MUSTER_CPU=v2 "${train[@]}"
fi
finish
