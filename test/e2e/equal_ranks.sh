#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that train in step make of the weights what one learner with the same global batch makes of them: the change of
# each parameter over 200 steps, which is at least a thousandth of the parameter, is the same to a thousandth of the
# change. In step, base, adv and adv*, over 2 and 4 ranks, gradients as they are chosen and dense; and the same program
# with one step wrong on purpose (test/wrong/) does not pass. Ranks are on hosts of their own where there may be any.
#
# EQUAL=all takes all combinations (minutes; `make test-equal`), otherwise some of each kind.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"
: "${EQUAL:=some}"
fashion=/usr/share/datasets/fashion-mnist
[ -e $fashion/train-images-idx3-ubyte.gz ] || { echo "skipped: needs dataset-fashion-mnist"; exit 77; }
set -f # adv* is no file

# ---- hosts ----
# shellcheck source=test/hosts/hosts.sh
source "$root/test/hosts/hosts.sh"
trap 'hosts_down; rm -rf "$dir"' EXIT
if (hosts_up 2 1gbit && hosts_down) >hosts.out 2>&1; then
    hosts_up 4 1gbit
    mpi=("${hosts_mpi[@]}")
    echo "ranks are on hosts of their own"
else
    echo "ranks are on one host: $(tail -n 1 hosts.out)"
fi

# ---- jobs ----
images() { # NAME TRAIN UPDATER: the net is on standard input
    cat <<END_OF_JOB
name: $1
seed: 5
data:
  train:
    reader: idx
    images: $fashion/train-images-idx3-ubyte.gz
    labels: $fashion/train-labels-idx1-ubyte.gz
    scale: 0.00390625
train: $2
updater: $3
checkpoint: {every: never}
log: {tensorboard: false}
net:
$(cat)
  - {name: loss, type: softmax_loss, src: [last, data.label]}
END_OF_JOB
}
# As it was in 1998: rounding, which depends on how a batch is cut, turns units of a relu or a max pooling, and what comes
# of one such turn is as large as what is to be found.
width=$([ "$EQUAL" = all ] && echo 500 || echo 120) # of ip1: the short form has less to send
images lenet '{batch: 16, steps: 200}' '{type: sgd, momentum: 0.9, decay: 0.0005, rate: 0.001}' >lenet.yaml <<END_OF_NET
  - {name: conv1, type: convolution, src: data.image, filters: 20, kernel: 5, init: xavier}
  - {name: pool1, type: pooling, method: average, kernel: 2, stride: 2}
  - {name: conv2, type: convolution, filters: 50, kernel: 5, init: xavier}
  - {name: pool2, type: pooling, method: average, kernel: 2, stride: 2}
  - {name: ip1, type: inner_product, outputs: $width, init: xavier}
  - {name: tanh1, type: tanh}
  - {name: last, type: inner_product, outputs: 10, init: xavier}
END_OF_NET
images mlp '{batch: 16, steps: 200}' '{type: sgd, momentum: 0.9, rate: 0.005}' >mlp.yaml <<'END_OF_NET'
  - {name: fc1, type: inner_product, src: data.image, outputs: 256, init: msra}
  - {name: tanh1, type: tanh}
  - {name: drop1, type: dropout, ratio: 0.2}
  - {name: fc2, type: inner_product, outputs: 128, init: msra}
  - {name: tanh2, type: tanh}
  - {name: last, type: inner_product, outputs: 10, init: xavier}
END_OF_NET
python3 - <<'PYTHON'
with open("questions.tsv", "w") as f:
    for i in range(600):
        words = [f"w{(i * 7 + k * k * 3) % 500}" for k in range(3 + i % 6)]
        f.write(f"{i % 6}\t" + " ".join(["is", f"about{i % 6}"] + words) + "\n")
PYTHON
cat >kim.yaml <<'END_OF_JOB'
name: kim
seed: 5
data:
  train: {reader: sentences, file: questions.tsv}
net:
  - {name: words, type: embedding, src: data.words, dim: 50, pad: true}
  - {name: windows, type: sentence_convolution, widths: [3, 4, 5], filters: 40}
  - {name: drop, type: dropout, ratio: 0.5}
  - {name: last, type: inner_product, outputs: auto, weight: {max_norm: 3}}
  - {name: loss, type: softmax_loss, src: [last, data.label]}
train: {batch: 8, steps: 200}
updater: {type: adagrad, rate: 0.01}
checkpoint: {every: never}
log: {tensorboard: false}
END_OF_JOB

# ---- what is compared ----
cat >changes.py <<'PYTHON'
import array, json, math, struct, sys
def load(folder):
    raw = open(folder + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: array.array("f", raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
def norm(v): return math.sqrt(math.fsum(x * x for x in v))
begin, alone = load(sys.argv[1]), load(sys.argv[2])
other = load(sys.argv[3]) if len(sys.argv) > 3 else alone
worst, wrong = 0, []
for name, a in alone.items():
    change, size = norm(x - y for x, y in zip(a, begin[name])), norm(a)
    off = norm(x - y for x, y in zip(a, other[name]))
    worst = max(worst, off / change if change else math.inf)
    if not change >= 1e-3 * size: wrong.append(f"{name} changes by {change:g} of {size:g} only")
    if not off <= 1e-3 * change: wrong.append(f"{name} is off by {off / change if change else math.inf:.1e} of its change")
print(f"{worst:.1e}")
if wrong: sys.exit("; ".join(wrong))
PYTHON

for job in lenet mlp kim; do
    run $job-begin $job.yaml --learners 1 --steps 1 --set updater.rate=0
    run $job $job.yaml --learners 1
    python3 changes.py $job-begin $job >/dev/null 2>why || bad "$job: $(cat why)"
done

program=$MUSTER
on() { # on RANKS LEARNERS JOB WAY GRADIENTS: trains; the folder is in $out
    local ranks=$1 learners=$2 job=$3 way=$4 gradients=$5 words=()
    out=$job-${way/\*/s}-$ranks-$learners-$gradients${MUSTER_WRONG:+-$MUSTER_WRONG}
    [ "$way" = step ] || words=(--set cluster.architecture="$way")
    timeout -k 5 100 "${mpi[@]}" -n "$ranks" ${MUSTER_WRONG:+-x MUSTER_WRONG} "$program" train "$job.yaml" --learners "$learners" \
        --set cluster.gradients="$gradients" "${words[@]}" --out "$out" --quiet --json >"$out.json" 2>"$out.err"
}
equal() { # the same words
    on "$@" || { bad "$out: $(tail -n 4 "$out.err")"; return; }
    balanced "$out"
    jq -e ".ranks == $1 and .learners == $2 and .staleness.max == 0 and .versions == 200" "$out.json" >/dev/null ||
        bad "$out: $(jq -c '[.ranks, .learners, .staleness, .versions]' "$out.json")"
    local worst
    worst=$(python3 changes.py "$3-begin" "$3" "$out" 2>why) || bad "$out: $(cat why)"
    echo "$out: within $worst"
    rm -rf "$out"
}
caught() { # caught WHAT, the same words: it does not pass
    MUSTER_WRONG=$1
    export MUSTER_WRONG
    shift
    if on "$@"; then
        python3 changes.py "$3-begin" "$3" "$out" >worst 2>why && bad "$out passes: within $(cat worst)"
        head -c 110 why && echo
    else # ranks that do not have the same weights say so themselves
        tail -n 40 "$out.err" | grep -q 'ends with other weights' || bad "$out: $(tail -n 4 "$out.err")"
    fi
    rm -rf "$out"
    unset MUSTER_WRONG
}

# ---- equal ----
if [ "$EQUAL" = all ]; then
    for job in lenet mlp kim; do
        for way in step base adv 'adv*'; do
            for gradients in auto dense; do
                equal 2 2 $job "$way" $gradients
                equal 2 4 $job "$way" $gradients
                equal 4 4 $job "$way" $gradients
            done
        done
    done
else
    for way in step base adv 'adv*'; do
        equal 2 2 mlp "$way" auto
        equal 2 4 kim "$way" auto
    done
    equal 2 4 lenet step auto
    equal 2 4 lenet 'adv*' auto
    equal 4 4 mlp step dense
    equal 4 4 kim adv auto
    equal 4 4 lenet base dense
    equal 4 4 mlp 'adv*' dense
fi

# ---- wrong ----
program=$(dirname "$MUSTER")/muster-wrong
if [ -x "$program" ]; then
    equal 2 2 mlp adv dense # nothing is wrong yet
    caught dropped 2 2 mlp step dense
    caught dropped 2 4 mlp base auto
    caught dropped 2 4 mlp adv dense
    caught factor 2 2 mlp 'adv*' dense
    caught stale 2 2 mlp base auto
    caught stale 2 2 mlp 'adv*' dense
else
    echo "without $program: that wrong programs fail is not tried"
fi
finish
