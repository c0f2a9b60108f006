#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Protocols in turn: every sample once, whatever is in force; a record that repeats itself over both changes; a resume
# in each turn; status names the protocol in force; learners that die while it changes.
set -uo pipefail
: "${MUSTER:=build/muster}"
MUSTER=$(realpath "$MUSTER")
dir=$(mktemp -d)
run=
trap '[ -z "$run" ] || kill "$run" 2> /dev/null; rm -rf "$dir"' EXIT
cd "$dir"
wrong=0
bad() { echo "turns: $*" >&2; tail -n 5 err >&2; wrong=$((wrong + 1)); }
value() { python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
for k in sys.argv[2].split("."): d = d[k]
print(d)' "$1" "$2"; }

cat > job.yaml <<'JOB'
name: turns
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 640, scale: 0.004}
  validation: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 64, scale: 0.004}
net:
  - {name: ip1, type: inner_product, src: data.image, outputs: 16}
  - {name: relu1, type: relu}
  - {name: ip2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 32, epochs: 6}
updater: {type: sgd, momentum: 0.9, rate: 0.02}
cluster:
  learners: 4
  protocol: [{type: hardsync, until: 1 epoch}, {type: softsync, n: 2, until: 3 epochs}, {type: ssp, bound: 1}]
JOB
everything() { # NAME: all samples of six epochs are in the weights once
    [ "$(value out.json applied_samples)" = 3840 ] || bad "$1: $(value out.json applied_samples) samples, not 3840"
    [ "$(value out.json repeated_samples)" = 0 ] || bad "$1: $(value out.json repeated_samples) samples twice"
    [ "$(value out.json gradients.rejected)" = 0 ] || bad "$1: $(value out.json gradients.rejected) rejected"
}

"$MUSTER" train job.yaml --out plain --json > out.json 2> err || bad "train ended with $?"
grep -q 'hardsync until step 20, softsync until step 60, then ssp' err || bad "the turns are not told"
everything plain
python3 -c 'import sys; sys.exit(not float(sys.argv[1]) > 0.9)' "$(value out.json val_accuracy)" ||
    bad "accuracy $(value out.json val_accuracy)"

# Two changes are in the log; another order of gradients, or another momentum, would end the replay.
"$MUSTER" train job.yaml --record log --out recorded --json > out.json 2> err || bad "record ended with $?"
everything recorded
"$MUSTER" train job.yaml --replay log --out replayed --json > out.json 2> err || bad "replay ended with $?"
cmp -s recorded/model.safetensors replayed/model.safetensors || bad "the replay has other weights"

# A resume in each turn, and exactly where one ends; also with another number of learners.
for steps in 10 20 33 60 90; do
    rm -rf cut
    "$MUSTER" train job.yaml --out cut --set train.steps=$steps --json > out.json 2> err || bad "$steps steps: $?"
    "$MUSTER" train job.yaml --resume cut --json > out.json 2> err || bad "resume at $steps ended with $?"
    everything "resumed at $steps"
done
"$MUSTER" train job.yaml --resume cut --set train.epochs=7 --learners 3 --json > out.json 2> err || bad "3 learners: $?"

# Status names the one in force. Learners die meanwhile, also at the changes.
"$MUSTER" train job.yaml --out long --set train.epochs=100000 --set \
    'cluster.protocol=[{type: hardsync, until: 3000 steps}, {type: softsync, until: 9000 steps}, async]' > out 2> err &
run=$!
seen=
for _ in $(seq 1000); do
    [ -d long ] && "$MUSTER" status long --json > status.json 2> /dev/null || { sleep 0.05; continue; }
    now=$(value status.json protocol)
    case " $seen " in *" $now "*) ;; *) seen="$seen $now" ;; esac
    pid=$(python3 -c 'import json; print(json.load(open("status.json"))["table"][1]["pid"] or "")')
    [ "$now" = async ] && break
    [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null
    sleep 0.05
done
case $seen in *async) ;; *) bad "saw the protocols$seen" ;; esac     # a busy machine may miss the others
"$MUSTER" stop long > out 2>> err || bad "stop ended with $?"
wait "$run"
code=$?
[ $code = 130 ] || bad "the stopped run ended with $code"
run=
grep -q 'gradients = [0-9]* applied + 0 rejected' err || bad "the ledger of the long run"

[ $wrong = 0 ] && echo "turns: saw$seen"
exit $((wrong > 0))
