#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Server groups: merged at every update they are one learner with the batch of all; seldom merged they repeat their
# bits, also when their processes are killed; every rule, updater and protocol trains, balances its ledger and counts
# its merges; a checkpoint has the center, and resumes as any other number of groups; what cannot be is refused.
set -uo pipefail
. "$(dirname "$0")/help.sh"
needs jq python3

cat >job.yaml <<'END'
name: groups
seed: 3
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 800, noise: 0.2, scale: 0.0039}
  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 200, noise: 0.2, scale: 0.0039}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 40}
  - {name: act, type: sigmoid}
  - {name: bn, type: batch_norm}
  - {name: fc2, type: inner_product, outputs: 30}
  - {name: act2, type: tanh}
  - {name: out, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
train: {batch: 16, steps: 60}
updater: {type: sgd, momentum: 0.9, decay: 0.001, rate: 0.05}
checkpoint: {every: 30 steps, keep: 5}
log: {every: 1 steps}
END
sed '/batch_norm/d' job.yaml >plain.yaml # means over the rows of one learner: another function of the batch

groups() { echo "--set cluster.server_groups=$1 --set cluster.sync_every=$2"; }
same() { cmp "$1/model.safetensors" "$2/model.safetensors" || bad "$1 and $2 differ"; }

# ---- merged at every update: one learner, history and all ----
run one plain.yaml
for shape in "2 2" "4 2" "4 4" "8 2"; do
    read -r learners n <<<"$shape"
    # shellcheck disable=SC2046
    run "each-$learners-$n" plain.yaml --learners "$learners" $(groups "$n" 1) || continue
    near "each-$learners-$n" one 1e-4 || bad "$learners learners in $n groups are not one learner"
    jq -e ".server_groups == $n and .merges == 60 * $n and .versions == 60 * $n and .steps == 60" \
        "each-$learners-$n.json" >/dev/null || bad "odd counts: $(jq -c '{merges, versions, steps}' "each-$learners-$n.json")"
done
# shellcheck disable=SC2046
run workers plain.yaml --learners 2 --workers 2 $(groups 2 1) && { near workers one 1e-4 || bad "workers differ"; }
# shellcheck disable=SC2046
run seldom plain.yaml --learners 2 $(groups 2 15) && near seldom one 1e-4 && bad "seldom merging changes nothing"

# ---- what a line of metrics tells ----
tells() { # RUN FILTER: of its lines of training
    jq -s -e "map(select(.train_loss)) | $2" "$1/metrics.jsonl" >/dev/null || bad "$1: not so: $2: $(tail -n 2 "$1/metrics.jsonl")"
}
tells one 'length > 0 and all(has("server_groups") or has("workers") | not)' # of one group and one worker nothing new
# shellcheck disable=SC2046
run told plain.yaml --learners 4 --workers 2 $(groups 2 8) --set 'log.every=1000 steps' --set net.fc1.partition=feature
tells told 'length == 1 and (.[0].train_loss - (.[0].server_groups.loss | add / 2) | fabs < 1e-6)'
tells told '.[0].server_groups | .version == [60, 60] and .samples == [480, 480] and .staleness == [0, 0] and
    .merges == [7, 7] and .merged_version == [56, 56] and (.merged_s_ago + .waited_s | length == 4 and all(. >= 0))'
tells told '.[0].workers | [.wait_s, .bridge_wait_s] | transpose | length == 8 and all(.[0] >= .[1]) and any(.[1] > 0)'
sums=$(jq -c '[.bytes.values, .bytes.gradients, .bytes.weights, .records_read]' told.json)
tells told "[.[0].workers | .value_bytes, .gradient_bytes, .weight_bytes, .records_read | add] == $sums"
# shellcheck disable=SC2046
run parts plain.yaml --learners 2 $(groups 2 8) --set cluster.sync_parts=4 --set 'log.every=10 steps' --steps 64
tells parts 'length >= 5 and (.[-1].server_groups | .merges == [32, 32] and .merged_version == [64, 64])'
tells parts '[range(length - 1) as $i | .[$i + 1].server_groups.version[0] >= .[$i].server_groups.version[0]] | all'
tells parts 'all(has("workers") | not)'

# ---- the same bits again ----
for how in average outer 'average --set cluster.sync_parts=3' '{type: average, neighbours: 1}'; do
    name=bits-$(tr -dc a-z0-9 <<<"$how")
    read -r -a more <<<"$(sed -n 's/.*\(--set.*\)/\1/p' <<<"$how")"
    rule=${how%% --set*}
    for again in a b; do
        # shellcheck disable=SC2046
        run "$name-$again" job.yaml --learners 4 $(groups 4 7) --set "cluster.merge=$rule" "${more[@]}"
    done
    same "$name-a" "$name-b"
done
# Deaths change no bit, either.
kills='kill learner random every ~0.03s times 12'
# shellcheck disable=SC2046
run calm job.yaml --learners 4 $(groups 2 9) --set cluster.merge=outer --steps 20000
# shellcheck disable=SC2046
timeout 90 "$MUSTER" train job.yaml --learners 4 $(groups 2 9) --set cluster.merge=outer --steps 20000 --out storm --quiet \
    --json >storm.json 2>storm.err &
pid=$!
for _ in $(seq 100); do [ -e storm/live.json ] && break; sleep 0.05; done
timeout 60 "$MUSTER" chaos storm --do "$kills" >chaos.out 2>&1
wait $pid || bad "storm: $(tail -n 4 storm.err)"
same calm storm
[ "$(jq .learners_lost storm.json)" -ge 3 ] || bad "few were killed: $(jq .learners_lost storm.json), $(tail -n 2 chaos.out)"
jq -e '.gradients | .produced == .applied + .rejected + .lost' storm.json >/dev/null || bad "storm: ledger"

# ---- every rule, protocol and updater ----
for rule in average outer elastic '{type: outer, rate: 1, rule: adam}' '{type: elastic, alpha: 0.3}'; do
    for protocol in hardsync softsync async ssp hogwild '{type: hogwild, every: 2}'; do
        name=all-$(tr -dc a-z0-9 <<<"$rule-$protocol")
        # shellcheck disable=SC2046
        run "$name" job.yaml --learners 4 --protocol "$protocol" $(groups 2 12) --set "cluster.merge=$rule" || continue
        jq -e '.merges >= 4 and .merged_bytes > 0 and .test_accuracy > 0.5' "$name.json" >/dev/null ||
            [[ $rule == *adam* ]] || bad "$name: $(jq -c '{merges, merged_bytes, test_accuracy}' "$name.json")"
    done
done
for updater in 'type: nesterov, momentum: 0.9' 'type: adagrad' 'type: adam' 'type: rmsprop' 'type: adadelta' 'type: adamax'; do
    # shellcheck disable=SC2046
    run u job.yaml --learners 4 --protocol async $(groups 2 10) --set "updater={$updater, rate: 0.01}"
    rm -rf u
done
# shellcheck disable=SC2046
run server job.yaml --learners 4 --protocol async $(groups 2 10) --set cluster.servers=2

# ---- checkpoints ----
# shellcheck disable=SC2046
run first plain.yaml --learners 4 $(groups 2 8) --set cluster.merge=outer --steps 30
python3 - first/checkpoints <<'PYTHON' || bad "no center in the checkpoint"
import glob, json, struct, sys
path = sorted(glob.glob(sys.argv[1] + "/step-*/updater.safetensors"))[-1]
raw = open(path, "rb").read()
keys = json.loads(raw[8:8 + struct.unpack("<Q", raw[:8])[0]]).keys()
assert {"fc1.weight/center", "fc1.weight/outer_momentum", "fc1.weight/momentum"} <= set(keys), sorted(keys)
PYTHON
for next in "--learners 1" "--learners 4 $(groups 4 8)" "--learners 2 $(groups 2 8)" "--learners 4 $(groups 2 8) --set cluster.merge=outer" \
    "--learners 4 $(groups 2 5) --set cluster.merge=elastic" "--workers 3" "--learners 2 --workers 2 $(groups 2 5)"; do
    rm -rf again
    cp -r first again
    # shellcheck disable=SC2086
    timeout 60 "$MUSTER" train plain.yaml --resume again --quiet $next --set cluster.protocol=hardsync >again.err 2>&1 ||
        bad "resume with $next: $(tail -n 4 again.err)"
    [ -e again/checkpoints/step-60 ] || ls again/checkpoints | grep -q 'step-' || bad "resume with $next: $(ls again/checkpoints)"
done
# What is resumed is what was saved: a resume without a step left gives the same model.
cp -r first same-again
# shellcheck disable=SC2046
timeout 60 "$MUSTER" train plain.yaml --resume same-again --quiet --learners 2 $(groups 2 8) --steps 30 >same.err 2>&1 ||
    bad "resume at the end: $(tail -n 3 same.err)"
near first same-again 0 || bad "a resume without a step changes the weights"

# Weights that were held as the best ones are saved without the center of a later moment.
sed '/^  test:/{p; s/test/validation/}; s/^train:.*/train: {batch: 16, steps: 400}\ntest: {every: 5 steps}/
    s/^checkpoint:.*/checkpoint: {keep: 5}/' plain.yaml >held.yaml
# shellcheck disable=SC2046
run held held.yaml --learners 2 $(groups 2 7) --set cluster.merge=outer --set updater.rate=0.003
python3 - held/checkpoints <<'PYTHON' || bad "a checkpoint has the center of another moment"
import array, glob, json, struct, sys
def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    at = {k: v["data_offsets"] for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
    return {k: array.array("f", raw[8 + n + a:8 + n + b]) for k, (a, b) in at.items()}
with_center = 0
for folder in glob.glob(sys.argv[1] + "/step-*"):
    center = load(folder + "/updater.safetensors").get("fc1.weight/center")
    if not center: continue
    off = max(abs(a - b) for a, b in zip(center, load(folder + "/model.safetensors")["fc1.weight"]))
    with_center += 1
    assert off < 0.02, f"{folder}: {off}"
assert with_center, "no checkpoint has a center"
PYTHON

# ---- values that are not finite ----
awk 'BEGIN { srand(3)
    for (i = 1; i <= 240; i++) {
        printf "%d", i % 4
        for (k = 0; k < 8; k++) printf ",%g", i == 236 ? 3.4e38 : (k % 4 == i % 4) + 0.5 * rand()
        printf "\n"
    } }' >train.csv
cat >csv.yaml <<'END'
name: nonfinite
data: {train: {reader: csv, file: train.csv, label: 0}}
net:
  - {name: fc1, type: inner_product, src: data.features, outputs: 30, init: msra}
  - {name: relu1, type: relu}
  - {name: fc2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
train: {batch: 12, epochs: 3, shuffle: false, nonfinite: skip}
updater: {type: sgd, rate: 0.05}
checkpoint: {every: 5 steps}
END
# Sample 235 is the eighth of its step: the second group's, whose learners are 2 and 3.
# shellcheck disable=SC2046
run skip csv.yaml --learners 4 $(groups 2 3)
[ "$(grep -c 'learner [23]: gradient skipped' skip.err)" = 3 ] || bad "skipped gradients: $(cat skip.err)"
# shellcheck disable=SC2046
run back csv.yaml --learners 4 $(groups 2 3) --set cluster.merge=outer --steps 15
# shellcheck disable=SC2046
timeout 60 "$MUSTER" train csv.yaml --resume back --learners 4 $(groups 2 3) --set cluster.merge=outer \
    --set train.nonfinite=rollback --quiet >back.err 2>&1
[ $? = 4 ] && [ "$(grep -c 'with half the rate' back.err)" = 3 ] || bad "rollback: $(cat back.err)"

# ---- servers of all groups are killed ----
# shellcheck disable=SC2046
timeout 60 "$MUSTER" train plain.yaml --learners 4 --protocol async $(groups 2 3) --set cluster.server=process --steps 20000 \
    --out served --quiet --json >served.json 2>served.err &
pid=$!
for _ in $(seq 100); do [ -e served/live.json ] && break; sleep 0.05; done
servers() { pgrep -P "$(jq .pid served/live.json)" muster:server | sort | tr '\n' ' '; }
before=$(servers)
timeout 30 "$MUSTER" chaos served --seed 5 --do 'kill server every 0.05s times 10' >chaos.out 2>&1
after=$(servers)
wait $pid || bad "served: $(tail -n 4 served.err)"
for server in $before; do case " $after" in *" $server "*) bad "server $server of $before was not killed" ;; esac; done
jq -e '.server_lost >= 3 and (.gradients | .produced == .applied + .rejected + .lost)' served.json >/dev/null ||
    bad "served: $(jq -c '{server_lost, gradients}' served.json)"
# A learner of four workers with layers cut both ways, and then other numbers of workers, or groups: the weights stay,
# and go on as those of the workers do.
run hybrid plain.yaml --workers 4 --set 'net.fc1.partition={batch: 2, feature: 2}' --set net.fc2.partition=feature --steps 30
for next in "" "--workers 2" "--workers 3" "--learners 2 $(groups 2 1)" "--learners 2 --workers 2"; do
    for steps in 30 60; do
        rm -rf again
        cp -r hybrid again
        # shellcheck disable=SC2086
        timeout 60 "$MUSTER" train plain.yaml --resume again --quiet $next --steps $steps >again.err 2>&1 ||
            bad "hybrid workers, resume with '$next': $(tail -n 4 again.err)"
        [ $steps = 60 ] || near hybrid again 0 || bad "hybrid workers: a resume with '$next' changes the weights"
        [ $steps = 30 ] || near one again 1e-4 || bad "hybrid workers: a resume with '$next' goes on otherwise"
    done
done

# ---- looked at ----
# shellcheck disable=SC2046
"$MUSTER" train job.yaml --learners 4 --protocol async $(groups 2 5) --steps 0 --set train.deadline=30s --out live --quiet >live.err 2>&1 &
pid=$!
for _ in $(seq 100); do [ -e live/live.json ] && break; sleep 0.05; done
sleep 0.5
"$MUSTER" status live --json >status.json 2>&1
jq -e '.server_groups == 2 and .learners == 4 and (.table | length) == 4 and .merges > 0 and
    (.table | map(.server_group)) == [0, 0, 1, 1] and .gradients.produced > 0' status.json >/dev/null || bad "status: $(cat status.json)"
"$MUSTER" status live 2>&1 | grep -q '4 learners in 2 server groups' || bad "status does not tell of the groups"
timeout 30 "$MUSTER" chaos live --do 'slow learner 2 by 20ms for 1s; slow learner 3 by 20ms for 1s' >chaos.out 2>&1 ||
    bad "cannot be slowed: $(cat chaos.out)"
"$MUSTER" stop live >/dev/null 2>&1 || bad "cannot be stopped"
wait $pid
[ $? = 0 ] || grep -q stopped live.err || bad "stop: $(tail -n 3 live.err)"
# Group 0 waited for the slow one.
tells live 'map(.server_groups.waited_s) | transpose | map(add) | .[0] - .[1] > 0.4'
tells live 'map(.server_groups.staleness | add | numbers) | max > 0'

# ---- elastic: a group goes on without the others, but never more than 8 merges ahead ----
# shellcheck disable=SC2046
"$MUSTER" train plain.yaml --learners 2 $(groups 2 3) --set cluster.merge=elastic --steps 0 --set train.deadline=30s --out ahead \
    --quiet >ahead.err 2>&1 &
pid=$!
for _ in $(seq 100); do [ -e ahead/live.json ] && break; sleep 0.05; done
timeout 30 "$MUSTER" chaos ahead --do 'slow learner 1 by 50ms for 1.5s' >chaos.out 2>&1 || bad "cannot be slowed: $(cat chaos.out)"
"$MUSTER" stop ahead >/dev/null 2>&1 || bad "cannot be stopped"
wait $pid
[ $? = 0 ] || grep -q stopped ahead.err || bad "ahead: $(tail -n 3 ahead.err)"
tells ahead 'map(.server_groups.merges | .[0] - .[1] | fabs) | max == 8'
tells ahead 'map(.server_groups.waited_s) | transpose | map(add) | .[0] - .[1] > 0.4'

# ---- refused ----
refused() { # WORDS options...
    local words=$1
    shift
    timeout 20 "$MUSTER" train job.yaml --out no --quiet "$@" >no.out 2>&1
    local code=$?
    [ $code != 0 ] && [ $code -lt 10 ] && grep -qF -- "$words" no.out || bad "$*: exit $code, $(cat no.out)"
    rm -rf no
}
refused 'cannot be spread evenly over 2 server groups' --learners 3 --set cluster.server_groups=2
refused 'a batch of 16 cannot be spread evenly over 3' --learners 3 --set cluster.server_groups=3
refused 'has no meaning with one server group' --learners 2 --set cluster.sync_every=4
refused 'weights of their own already' --learners 4 --protocol mirror --set cluster.server_groups=2
refused '`sync_parts` in `cluster` is more than' --learners 2 --set cluster.server_groups=2 --set cluster.sync_every=2 --set cluster.sync_parts=3
refused 'several server groups cannot be recorded' --learners 2 --set cluster.server_groups=2 --record log
refused '`servers` and `server_threads`' --learners 2 --set cluster.servers=2 --set cluster.server_threads=2
refused 'unknown merge type `avarage`' --learners 2 --set cluster.server_groups=2 --set cluster.merge=avarage
finish
