#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Advice on small jobs that need it, and none on one that does not; schedules that end with the deadline, also after a
# resume; one rate wherever it is shown; few checkpoints of a fast job, whose best re-evaluates to its score.
set -uo pipefail
: "${MUSTER:=build/muster}"
MUSTER=$(realpath "$MUSTER")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
wrong=0
bad() { echo "advice: $*" >&2; tail -n 5 err >&2; wrong=$((wrong + 1)); }
value() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }
near() { python3 -c 'import sys; a, b, t = map(float, sys.argv[1:]); sys.exit(not abs(a - b) <= t)' "$@"; }

cat > job.yaml <<'JOB'
name: advice
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 640, scale: 0.004}
  validation: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 64, scale: 0.004}
net:
  - {name: ip1, type: inner_product, src: data.image, outputs: 16}
  - {name: relu1, type: relu}
  - {name: ip2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 32, epochs: 3}
updater: {type: sgd, momentum: 0.9, rate: 0.02}
log: {every: 10 steps}
JOB
n=0
train() { # OPTIONS...
    n=$((n + 1))
    "$MUSTER" train job.yaml --json --out "run$n" "$@" > out.json 2> err || bad "train $* ended with $?"
}
says() { # TEXT OPTIONS...: once, on stderr and in log.txt, and stdout has its one line
    local text=$1
    shift
    train "$@"
    [ "$(grep -cF -- "$text" err)" = 1 ] || bad "$*: \`$text\` $(grep -cF -- "$text" err) times"
    grep -qF -- "$text" "run$n/log.txt" || bad "$*: \`$text\` is not in log.txt"
    [ "$(wc -l < out.json)" = 1 ] || bad "$*: stdout has $(wc -l < out.json) lines"
}

for l in 1 2; do
    train --learners $l
    grep 'warn:' err && bad "$l learners: a good job has no warnings"
    says 'add `scale: 0.00390625` to data.train' --learners $l --set data.train.scale=1 --set updater.rate=1e-4
    says '7 outputs for 4 classes' --learners $l --set net.ip2.outputs=7
    says '2 of 4 classes have no sample in data.train' --learners $l --set data.train.limit=3 --set train.batch=3
done
says 'updater.rate 0.5 is far from usual for adam' --set 'updater={type: adam, rate: 0.5}'
says 'loss has not moved from 1.39 = ln 4' --epochs 20 --set updater.rate=1e-6 --set data.train.scale=1e-5
says 'before the last change of the rate at 900000000' --epochs 0 --deadline 1s \
    --set 'updater.rate={type: multi_step, base: 0.01, at: [900000000]}'

# Labels that belong to nothing are learnt by heart: two files of the same size, seeded.
awk 'BEGIN { srand(3); for (f = 0; f < 2; f++) for (i = 0; i < 60; i++) { line = int(rand() * 2)
    for (k = 0; k < 10; k++) line = line sprintf(",%.3f", rand() * 2 - 1)
    print line > (f ? "valid.csv" : "train.csv") } }'
says 'validation loss rose from' --epochs 60 --set 'updater={type: adam, rate: 0.01}' --set net.ip2.outputs=2 \
    --set 'data.train={reader: csv, file: train.csv, header: no, label: 0}' \
    --set 'data.validation={reader: csv, file: valid.csv, header: no, label: 0}' --set net.ip1.src=data.features

# The rate: start line, metrics, result.
for p in hardsync softsync async ssp hogwild mirror '{type: mirror, every: 2}' '{type: softsync, n: 2}'; do
    train --learners 2 --protocol "$p" --set cluster.warm_start=never --set cluster.momentum_rule=plain
    start=$(sed -n 's/.* sgd rate \([0-9.e-]*\).*/\1/p' err)
    last=$(grep '"lr"' "run$n/metrics.jsonl" | tail -n 1 | sed 's/.*"lr":\([^,}]*\).*/\1/')
    end=$(value out.json lr_effective)
    near "$start" "$end" 1e-5 && near "$last" "$end" 1e-9 || bad "$p: rate $start at the start, $last, $end at the end"
done
near "$(value out.json lr_effective)" 0.01 1e-9 || bad "2-softsync: rate $(value out.json lr_effective), not 0.02 / 2"
train --learners 2 --protocol async --set cluster.warm_start='10 steps' --set cluster.momentum_rule=plain
grep -q 'sgd rate 0.02$' err || bad "the warm start has the whole rate"
near "$(value out.json lr_effective)" 0.01 1e-9 || bad "async: rate $(value out.json lr_effective) after the warm start"
# A momentum of twice the memory, for twice the updates, needs half the rate, which rises where nothing is warm.
train --learners 2 --protocol async --set cluster.warm_start=never
grep -q 'momentum 0.9 -> 0.95 with weights 3 updates ahead' err || bad "the momentum of async is not told"
grep -q 'sgd rate 0.00025' err || bad "without a warm start the rate does not rise"
near "$(value out.json lr_effective)" 0.005 1e-9 || bad "async: rate $(value out.json lr_effective), not 0.02 / 2 / 2"

# A cosine ends with the time, and a resumed one goes on where it was.
cosine=(--epochs 0 --set 'updater.rate={type: cosine, base: 0.02}' --set test.every=never)
for l in 1 2; do
    train --learners $l --deadline 1500ms "${cosine[@]}"
    grep -q '"stopped_by":"deadline"' out.json || bad "$l learners: $(cat out.json)"
    near "$(value out.json lr_effective)" 0 0.004 || bad "$l learners: rate $(value out.json lr_effective) at the deadline"
    "$MUSTER" train --resume "run$n" --deadline 1500ms --json > out.json 2> err || bad "resume ended with $?"
    near "$(value out.json lr_effective)" 0 0.004 || bad "$l learners: rate $(value out.json lr_effective) once more"
    grep -q 'the schedule (cosine) ended with the deadline' err || bad "nothing is said of a schedule that had ended"
    grep -q 'sgd rate [0-9.e-]* of base 0.02' err || bad "the resumed run begins with the rate of the first"
done
train --epochs 3 --deadline 1h --set 'updater.rate={type: linear, base: 0.02}'      # steps come first
near "$(value out.json lr_effective)" 0.00033 0.00001 || bad "rate $(value out.json lr_effective) of the last of 60 steps"

# Twenty epochs, of which many are better than all before: the best and the last are saved, no more.
for l in 1 2; do
    train --learners $l --epochs 20 --set updater.rate=0.0003 --set checkpoint.keep=100
    saved=$(find "run$n/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' | wc -l)
    [ "$saved" -le 2 ] || bad "$l learners: $saved checkpoints of a job of a second"
    "$MUSTER" test "run$n" --best --on validation --json > test.json 2> err || bad "test ended with $?"
    near "$(value test.json accuracy)" "$(value out.json best)" 1e-6 ||
        bad "$l learners: BEST has $(value test.json accuracy), recorded is $(value out.json best)"
done
# A training that fails leaves its best weights, which were only held until then. Learners go on while they are
# evaluated: it fails late enough for an evaluation to have ended.
for l in 1 2; do
    n=$((n + 1)) late=$((l == 1 ? 45 : 8000))
    "$MUSTER" train job.yaml --out "run$n" --learners $l --set test.every='10 steps' --epochs 0 --steps 1000000 \
        --set "updater.rate={type: multi_step, base: 0.001, at: [$late], rates: [1e30]}" > out.json 2> err
    [ $? = 4 ] || bad "$l learners: did not diverge"
    "$MUSTER" test "run$n" --best --on validation --json > test.json 2> err || bad "$l learners: no best weights are left"
done
train --epochs 4 --set checkpoint.every='1 epoch' --set checkpoint.keep=100
[ "$(find "run$n/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' | wc -l)" = 4 ] || bad "every: 1 epoch is not obeyed"

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
