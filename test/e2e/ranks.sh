#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several ranks, started by mpirun, train one model: merged at every update they are one learner; seldom merged they
# repeat their bits; protocols and updaters train inside; a checkpoint resumes on any number of ranks; a learner that is
# killed is replaced where it was; a rank that is stopped ends the others; what cannot be is refused on every rank.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"

cat >job.yaml <<'END_OF_JOB'
name: ranks
seed: 3
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 800, noise: 0.2, scale: 0.0039}
  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 200, noise: 0.2, scale: 0.0039}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 40}
  - {name: act, type: sigmoid}
  - {name: fc2, type: inner_product, outputs: 30}
  - {name: act2, type: tanh}
  - {name: out, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
train: {batch: 16, steps: 40}
updater: {type: sgd, momentum: 0.9, decay: 0.001, rate: 0.05}
checkpoint: {every: 20 steps, keep: 5}
log: {every: 1 steps}
END_OF_JOB

each='--set cluster.sync_every=1'

# ---- merged at every update: one learner ----
timeout 180 "$MUSTER" train job.yaml --out one --quiet >one.out 2>&1 || bad "one: $(tail -n 3 one.out)"
for shape in "2 2" "2 4" "4 4"; do
    read -r ranks learners <<<"$shape"
    # shellcheck disable=SC2086
    run_on "$ranks" "each-$ranks-$learners" job.yaml $each --learners "$learners" || continue
    near "each-$ranks-$learners" one 1e-4 || bad "$learners learners on $ranks ranks are not one learner"
    jq -e ".learners == $learners and .server_groups == $ranks and .merges == 40 * $ranks and .steps == 40 and
        .samples == 640 and .applied_samples == 640 and .gradients.applied == 40 * $learners and
        .wire_bytes_sent > 0 and .wire_bytes_received > 0" "each-$ranks-$learners.json" >/dev/null ||
        bad "odd counts: $(cat "each-$ranks-$learners.json")"
done
# shellcheck disable=SC2086
run_on 2 groups job.yaml $each --learners 4 --set cluster.server_groups=4 && { near groups one 1e-4 || bad "4 groups on 2 ranks"; }

# ---- the same bits again ----
for again in a b; do
    run_on 2 "bits-$again" job.yaml --learners 4 --set cluster.sync_every=5 --set cluster.merge=outer
done
cmp bits-a/model.safetensors bits-b/model.safetensors || bad "outer does not repeat its bits"
run_on 2 parts job.yaml --set cluster.sync_every=6 --set cluster.sync_parts=3 && near parts one 1e-4 >parts.out 2>&1 &&
    bad "seldom merging changes nothing"

# ---- elastic: its groups come in the order of their numbers, wherever they are; every rank has the center ----
elastic='--learners 4 --set cluster.server_groups=4 --set cluster.sync_every=5 --set cluster.merge=elastic --set checkpoint.every=never'
# shellcheck disable=SC2086
for n in 2 4; do
    run_on $n elastic-$n job.yaml $elastic
    jq -e '.merges == 4 * 8 and .steps == 40' elastic-$n.json >/dev/null || bad "elastic-$n: $(cat elastic-$n.json)"
done
near elastic-2 elastic-4 1e-6 || bad "elastic: other weights on 2 ranks than on 4" # the model is a mean, of ranks and of groups
python3 - <<'PYTHON' || bad "elastic: other centers"
import json, struct, sys
def center(out):
    raw = open(f"{out}/checkpoints/step-160/updater.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]] for k, v in head.items() if k.endswith("/center")}
one, two = center("elastic-2"), center("elastic-4")
sys.exit(0 if one and one == two else 1)
PYTHON

# ---- protocols and updaters inside ----
for protocol in hardsync async hogwild; do
    run_on 2 "in-$protocol" job.yaml --learners 4 --protocol $protocol --set cluster.sync_every=5 --set 'updater={type: adam, rate: 0.01}'
done

# ---- checkpoints ----
# shellcheck disable=SC2086
run_on 2 first job.yaml $each --steps 20
resume() { # resume NAME RANKS options...
    local name=$1 n=$2
    shift 2
    cp -r first "$name"
    "${mpi[@]}" -n "$n" timeout -k 5 60 "$MUSTER" train job.yaml --resume "$name" --quiet "$@" >"$name.out" 2>&1 ||
        { bad "$name: $(tail -n 4 "$name.out")"; return; }
    near "$name" one 1e-4 || bad "$name goes on otherwise"
}
# shellcheck disable=SC2086
{ resume on-2 2 $each; resume on-4 4 $each; }
cp -r first on-1
timeout 180 "$MUSTER" train job.yaml --resume on-1 --quiet >on-1.out 2>&1 || bad "on-1: $(tail -n 4 on-1.out)"
near on-1 one 1e-4 || bad "on one process it goes on otherwise"

# ---- faults ----
deadline=(--steps 0 --set train.deadline=30s --set cluster.sync_every=5 --set checkpoint.every=1s)

# A learner of the rank that follows is replaced there. SIGTERM to mpirun, which passes it on to learners, too, saves
# and ends all ranks, if it is told to wait longer than a second before SIGKILL.
export OMPI_MCA_odls_base_sigkill_timeout=12
long killed job.yaml "${deadline[@]}"
follows=$(rank_1_of $pid)
kill -KILL "$(learners_of "$follows" | head -n 1)" 2>/dev/null || bad "no learner of rank 1: ranks $(ranks_of $pid)"
sleep 1
before=$(ls -d killed/checkpoints/step-* | wc -l)
kill -TERM $pid
wait $pid
[ $? != 0 ] || bad "SIGTERM: mpirun says all is well"
jq -e '.learners_lost >= 1 and .learners_replaced >= 1 and .stopped_by == "signal" and
    (.gradients | .produced == .applied + .rejected + .lost)' killed.json >/dev/null ||
    bad "after a kill and SIGTERM: $(cat killed.json) $(tail -n 5 killed.err)"
[ "$before" -gt 0 ] && grep -q 'checkpoint is' killed.err || bad "SIGTERM: $(tail -n 5 killed.err)"

# A rank that is stopped is lost: the other one says so and ends with 5.
unset OMPI_MCA_odls_base_sigkill_timeout
export MUSTER_RANK_TIMEOUT=2
long silent job.yaml "${deadline[@]}"
follows=$(rank_1_of $pid)
began=$SECONDS
kill -STOP "$follows"
wait $pid
code=$?
[ $code = 5 ] || bad "a rank was stopped: exit $code"
[ $((SECONDS - began)) -le 12 ] || bad "a rank was stopped: noticed after $((SECONDS - began)) s"
grep -q "rank 1 on .* was lost: silent for" silent.err || bad "a rank was stopped: $(tail -n 5 silent.err)"
export MUSTER_RANK_TIMEOUT=20

# What was saved before goes on: a copy of groups that went on training says exactly which samples are in it.
step=$(step_of silent)
for n in 2 1; do
    cp -r silent again
    launch=("${mpi[@]}" -n 2)
    [ $n = 2 ] || launch=()
    timeout 180 "${launch[@]}" "$MUSTER" train job.yaml --resume again --quiet --json --steps $((step + 200)) \
        --set cluster.learners=$n >again.json 2>again.err || bad "resume on $n: $(tail -n 4 again.err)"
    jq -e ".steps == $step + 200 and .samples == 16 * .steps and
        .applied_samples == .samples + .repeated_samples" again.json >/dev/null ||
        bad "resumed on $n from step $step: $(jq -c '{steps, samples, applied_samples, repeated_samples}' again.json)"
    rm -rf again
done

# ---- refused, on every rank ----
train=("$MUSTER" train job.yaml --out no)
refused 3 'rank 1 on' 1 "${train[@]}" : -n 1 "${train[@]}" --seed 4
refused 3 'another job' 1 "${train[@]}" : -n 1 "${train[@]}" --set updater.rate=0.1
refused 3 '3 server groups cannot be spread evenly over 2 ranks' 2 "${train[@]}" --learners 6 --set cluster.server_groups=3
refused 3 'weights of their own already' 2 "${train[@]}" --learners 4 --protocol mirror
refused 3 '`nonfinite: rollback` does not work over several ranks' 2 "${train[@]}" --set train.nonfinite=rollback
refused 2 'cannot be recorded' 2 "${train[@]}" --record log
refused 3 'rank 1 on' 1 "${train[@]}" : -n 1 "$MUSTER" train no.yaml --out no
finish
