#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# plan.sh - a job is planned, trained by its plan, and by `cluster: auto`; a resumed run keeps what was chosen; what
# is wrong is said. No time is compared with a clock: predictions are numbers, and are of what is trained.
set -uo pipefail
. "$(dirname "$0")/help.sh"
needs jq

export XDG_CACHE_HOME=$dir/cache
cat >job.yaml <<'YAML'
name: planned
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 256}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 64}
  - {name: relu1, type: relu}
  - {name: fc2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
train: {batch: 16, epochs: 2}
updater: {type: sgd, momentum: 0.9, rate: 0.01}
checkpoint: {every: 1 epoch}
YAML
sed '/^train:/i cluster: auto' job.yaml >auto.yaml
echo '{name: small, cores: 4, core_flops_per_s: 50G, node_bytes_per_s: 40G}' >small.yaml
echo '{name: rack, nodes: 4, cores: 2, core_flops_per_s: 50G, node_bytes_per_s: 40G, network: {bytes_per_s: 1G}}' >rack.yaml

plan() { # plan OUT options...
    local out=$1
    shift
    "$MUSTER" plan job.yaml --json "$@" >"$out.json" 2>"$out.err" || bad "$out: $(tail -n 3 "$out.err")"
}
says() { grep -qF -- "$2" "$1" || bad "$1 does not say \`$2\`: $(tail -n 4 "$1")"; }
holds() { jq -e "$2" "$1.json" >/dev/null || bad "$1: not $2: $(head -c 600 "$1.json")"; }

# ---- planning ----

plan first --machine small.yaml --out first.yaml
holds first '.measured and .cores == 4 and (.plans | length) > 1'
holds first '[.plans[] | .step_s > 0 and .epoch_s > 0 and .memory_bytes > 0] | all'
holds first '[.plans[].epoch_s] | . == sort'
# Terms add up to the step.
holds first '[.plans[] | ((.terms | add) - .step_s) | fabs < 1e-6] | all'
# What the job means stays: in step, and its batch.
holds first '[.plans[] | .protocol == "hardsync" and .learners * .mu >= 16 and .learners * .mu < 16 + .learners] | all'
says first.err 'measuring the costs of this job'
says first.yaml 'set:'

plan second --machine small.yaml # costs are known now
holds second '.measured | not'
[ -s second.err ] && bad "it measured again: $(cat second.err)"

plan wide --machine small.yaml --protocols all --max-learners 2
holds wide '[.plans[].learners] | max <= 2'
holds wide '[.plans[].protocol] | unique | length > 2'
plan words --machine small.yaml --protocols softsync:1,async --batches 4,8
holds words '[.plans[].mu] | unique - [4, 8] | length == 0'

plan rack --machine rack.yaml --nodes 2..4 --out rack.plan
holds rack '[.plans[].nodes] | min >= 2 and max <= 4'
plan late --machine small.yaml --deadline 1s
plan as-it-is --machine small.yaml --as-is --set cluster.learners=3 --set cluster.protocol=async
holds as-it-is '(.plans | length) == 1 and .plans[0].learners == 3 and .plans[0].protocol == "async"'
"$MUSTER" plan job.yaml --machine small.yaml >text 2>err || bad "as text: $(cat err)"
says text 'configuration'
says text 'bottleneck:'

# Whatever is proposed, a job can have.
plan many --machine small.yaml --protocols all
for out in first many words; do
    for ((i = 0; i < $(jq '.plans | length' "$out.json"); i++)); do
        set=()
        while IFS= read -r edit; do set+=(--set "$edit"); done < <(jq -r ".plans[$i].set[]" "$out.json")
        "$MUSTER" check job.yaml "${set[@]}" >check.out 2>&1 ||
            bad "$(jq -r ".plans[$i].configuration" "$out.json"): $(grep -m 1 error check.out)"
    done
done

# ---- training by it ----

cat >two.plan <<'YAML'
set: {cluster.learners: 2, cluster.protocol: async, cluster.warm_start: never}
YAML
run two job.yaml --plan two.plan
holds two '.learners == 2 and .protocol == "async"'
run first-run job.yaml --plan first.yaml
cat >served.plan <<'YAML'
set: {cluster.learners: 2, cluster.workers: 2, cluster.partition: auto, cluster.server: both, cluster.server_threads: 2,
      cluster.protocol: {type: softsync, n: 2}}
YAML
run served job.yaml --plan served.plan
[ "$(jq .learners first-run.json)" = "$(jq '.plans[.wanted].learners' first.json)" ] || bad "not as planned"
jq -e '.predicted.step_s > 0 and .measured.samples_per_s > 0' two/plan.json >/dev/null ||
    bad "plan.json: $(cat two/plan.json 2>&1)"

# ---- cluster: auto ----

run auto auto.yaml
grep -q '^  learners: [0-9]' auto/job.yaml || bad "the resolved job does not say what was chosen"
"$MUSTER" train job.yaml --cluster auto --out asked >asked.out 2>asked.err || bad "--cluster auto: $(tail -n 3 asked.err)"
says asked.err 'planned: '
chosen=$(sed -n 's/^  learners: //p' auto/job.yaml)
"$MUSTER" train auto.yaml --resume auto --epochs 3 --json --quiet >resumed.json 2>resumed.err ||
    bad "resumed: $(tail -n 3 resumed.err)"
[ "$(jq .learners resumed.json)" = "$chosen" ] || bad "resumed with $(jq .learners resumed.json), not $chosen"
says auto/job.yaml 'cluster:'
"$MUSTER" check auto.yaml >check.out 2>&1 || bad "check: $(cat check.out)"
run mine auto.yaml --learners 2 # the user's word wins
holds mine '.learners == 2'

# ---- what is wrong ----

refuses() { # refuses WORDS COMMAND...
    local want=$1
    shift
    "$MUSTER" "$@" >out 2>err && bad "$* is taken"
    says err "$want"
}
refuses 'no plan `none.yaml`' train job.yaml --plan none.yaml
refuses 'job.yaml:1:1: error: unknown key `name` in a plan' train job.yaml --plan job.yaml
sed 's/nodes: .*/nodes: 2/' first.yaml >nodes.plan
refuses 'is for 2 nodes' train job.yaml --plan nodes.plan
refuses 'exclude each other' train job.yaml --plan two.plan --cluster auto
refuses '`--nodes` has `x`' plan job.yaml --nodes x
refuses 'is no protocol' plan job.yaml --protocols sofsync
refuses 'the machine has 1' plan job.yaml --machine small.yaml --nodes 2..4
refuses 'job' plan none.yaml
echo '{cores: 0}' >bad.yaml
refuses 'cores' plan job.yaml --machine bad.yaml
echo '{cores: 2, memory_bytes: 1M, core_flops_per_s: 50G, node_bytes_per_s: 40G}' >tiny.yaml
refuses 'fits no such machine' plan job.yaml --machine tiny.yaml
sed 's/relu1, type: relu/relu1, type: rely/' job.yaml >wrong.yaml
refuses 'rely' plan wrong.yaml --machine small.yaml
# Costs that somebody has spoilt are measured again.
for f in cache/muster/costs-*.json; do echo '{}' >"$f"; done
plan again --machine small.yaml
holds again '.measured'
finish
