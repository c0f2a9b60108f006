#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A real training with two learners, looked at, shot at and stopped by the verbs; then one with a single learner,
# and one whose parent is killed.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
expect() { # expect STATUS command... ; output in out and err
    local want=$1 got
    shift
    "$@" >out 2>err
    got=$?
    [ $got = "$want" ] || bad "\`$*\` ended with $got, not $want: $(head -n 5 err)"
}
has() { grep -qE -- "$2" "$1" || bad "$1 has no \`$2\`: $(head -n 12 "$1")"; }
begin() { # begin FOLDER options... : trains in the background until the first steps are done
    local dir=$1
    shift
    "$MUSTER" train job.yaml --out "$work/$dir/" "$@" >train.out 2>train.err &
    pid=$!
    for _ in $(seq 300); do
        [ -s "$dir/metrics.jsonl" ] && return
        sleep 0.1
    done
    bad "no metrics in 30 s: $(tail -n 5 train.err)"
}
gone() { # the training has ended, and nothing of it is left
    wait "$pid" 2>/dev/null
    pid=
    for _ in $(seq 20); do # children die right after their parent, not in the same moment
        pgrep -f -- "--out $work/$1/( |\$)" >/dev/null || return 0
        sleep 0.1
    done
    bad "processes of $1 are left"
}

cat >job.yaml <<'JOB'
name: live
data:
  train: {reader: synthetic, shape: [32], records: 2000}
net:
  - {name: fc, type: inner_product, src: data.features, outputs: 10}
  - {name: loss, type: softmax_loss, src: [fc, data.label]}
train: {batch: 8, epochs: 1M}
updater: {type: sgd, rate: 0.01}
JOB

begin two --learners 2 --protocol async
expect 0 "$MUSTER" status two
has out 'live  training for'
has out 'async'
has out '^ +1 +[0-9]+ +1 '
expect 0 "$MUSTER" chaos two --do 'kill learner random every 100ms times 5' --do 'stop learner 0 for 200ms' --seed 1 --json
has out '"kills":5,'
has out '"pending":0,'
has err '5 learners replaced'
expect 0 "$MUSTER" status two --json
has out '"learners_lost":5,'
has out '"run_id":"two"' # though --out ended with a slash
expect 0 "$MUSTER" top two --count 2 --interval 100ms
has out 'trouble    5 learners lost'
expect 0 "$MUSTER" stop two
gone two
[ -e two/live.json ] && bad "live.json was left behind"
has train.err '5 learners lost and 5 replaced'
expect 0 "$MUSTER" status two
has out 'two  ended'
has out '^step [0-9]'

begin one --learners 1
expect 0 "$MUSTER" status one
has out 'training for'
has out 'processes  one, '
has out 'gradients  [0-9]* = [0-9]* applied . 0 rejected . 0 lost . 0 in flight'
expect 0 "$MUSTER" status one --json
has out '"learners":1,'
has out '"run_id":"one"'
expect 0 "$MUSTER" top one --count 2 --interval 100ms
has out 'overlap'
expect 6 "$MUSTER" chaos one --do 'kill learner 0'
has err 'one process trains alone'
expect 0 "$MUSTER" stop one
gone one
[ -e one/live.json ] && bad "live.json of one learner was left behind"
expect 0 "$MUSTER" status one
has out 'one  ended'
ls one/checkpoints/step-* >/dev/null 2>&1 || bad "the stopped run left no checkpoint"

begin lone --learners 1
kill -9 "$pid"
gone lone
expect 0 "$MUSTER" status lone
has out 'ended without goodbye'

begin killed --learners 2 --protocol async
kill -9 "$pid"
gone killed
expect 0 "$MUSTER" status killed
has out 'ended without goodbye'
expect 0 "$MUSTER" stop killed

[ $wrong = 0 ] && echo ok
exit $wrong
