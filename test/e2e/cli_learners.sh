#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Options of learners: the flags mean what they say, the plan is printed, wrong ones are refused before anything
# starts, and every protocol ends with a balanced ledger.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
has() { grep -qF -- "$2" "$1" || bad "$1 has no \`$2\`: $(tail -n 5 "$1")"; }
number() { grep -o "\"$1\":-\?[0-9.]*" out | head -n 1 | cut -d: -f2; }
is() { [ "$(number "$1")" = "$2" ] || bad "$run: \"$1\" is $(number "$1"), not $2"; }

cat >job.yaml <<'YAML'
name: flags
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 512, scale: 0.004}
  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 64, scale: 0.004}
net:
  - {name: ip1, type: inner_product, src: data.image, outputs: 16}
  - {name: relu1, type: relu}
  - {name: ip2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 32, epochs: 2}
updater: {type: sgd, momentum: 0.9, rate: 0.05}
YAML
n=0
train() { # train WORDS...: must end well; out and err hold what it said
    run="train $*"
    n=$((n + 1))
    "$MUSTER" train job.yaml --json --out "run$n" "$@" >out 2>err || bad "$run ended with $?: $(tail -n 3 err)"
}
refused() { # refused TEXT WORDS...
    local text=$1
    shift
    "$MUSTER" train job.yaml --out never "$@" >out 2>err
    [ $? = 3 ] || bad "train $* should be refused with 3"
    has err "$text"
    [ ! -e never ] || bad "train $* left a run folder"
}

train
is learners 1
is mu 32
is steps 32
grep -q 'expected staleness' err && bad "one learner needs no plan"

train --learners 2
is lambda 2
is mu 16
is steps 32
is lock_repairs 0
has out '"protocol":"hardsync"'
has err '2 learners, hardsync, mu 16 x lambda 2 = 32, as the job'"'"'s batch'

train --batch-size 8                    # one learner, a quarter of the batch: rate by the square root
is mu 8
is steps 128
has err 'rate 0.05 x sqrt(8/32) = 0.025'
is lr_effective 0.025

for p in hardsync softsync async ssp hogwild mirror; do
    train --learners 3 --protocol $p --batch-size 4
    is learners 3
    is mu 4
    is rejected 0
    is lost 0
    is applied "$(number produced)"
    has out "\"protocol\":\"$p\""
    has err "3 learners, $p, mu 4 x lambda 3 = 12, the job's batch is 32"
done
train --learners 2 --protocol async --set cluster.warm_start='1 epoch'
has err 'hardsync for the first 16 steps'
train --learners 2 --protocol async     # 2 epochs, a fifth of them
has err 'hardsync for the first 7 steps'
train --learners 2 --protocol async --set train.steps=20
has err 'hardsync for the first 4 steps'
hints() { # TEXT ARGUMENTS...: diverges with this hint
    local text=$1
    shift
    "$MUSTER" train job.yaml --out diverged --learners 2 --protocol async --set updater.rate=1e30 "$@" >out 2>err
    [ $? = 4 ] || bad "$*: did not diverge"
    has err "$text"
    rm -rf diverged
}
hints 'Lower `updater.rate`, clip gradients'                    # in the warm start nothing is stale
hints 'about 2 updates old: set a longer' --set cluster.warm_start=never
train --learners 1 --set cluster.server=process
is steps 32
MUSTER_LEARNERS=2 train                 # from the environment
is learners 2

refused 'did you mean `hogwild`?' --protocol hogwlid
refused 'out of range: 0' --learners 0
refused '33 learners cannot share a batch of 32' --learners 33
refused '`accumulate` is for one learner' --learners 2 --set train.accumulate=2
refused 'without a server process or workers' --workers 2 --set train.accumulate=2

# Learners make their nets ready themselves. What one finds wrong arrives as if this process had found it.
for l in 1 2; do
    MUSTER_OPS=none "$MUSTER" train job.yaml --out never --learners $l >out 2>err
    [ $? = 1 ] || bad "$l learners without an op ended with $?"
    grep -n 'job.yaml\|hint\|note\|\^' err | cut -d: -f2- >"err$l"
    has err 'job.yaml:6:12: error: no implementation of inner'
    has err 'hint: MUSTER_OPS=none leaves out those that could'
    rm -rf never
done
cmp err1 err2 || bad "the error of a learner differs from that of one process"

# A worker that fails takes the others with it. What is said is what failed, not what followed from it.
for i in $(seq 64); do printf '\\x0%d\\0\\0\\0' $((i == 40 ? 9 : i % 4)); done | { read -r all; printf "$all"; } >numbers
cat >number.yaml <<'YAML'
name: number
data:
  train: {reader: raw, file: numbers, store: i32, field: label}
net:
  - {name: words, type: embedding, src: data.label, vocab: 10, dim: 8}
  - {name: ip, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip, data.label], location: 1}
train: {batch: 16, steps: 100}
cluster: {workers: 2, partition: none}
updater: {type: sgd, rate: 0.01}
YAML
for i in 1 2 3 4 5 6; do # the parent finds one of them first, or the other
    timeout 60 "$MUSTER" train number.yaml --out never --quiet >out 2>err
    [ $? = 3 ] || bad "a label that is too large did not end as bad data"
    has err 'layer `loss`: label 9 of sample'
    rm -rf never
done

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
