#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a run moves between its processes is what `check --explain` says, to the byte: values over bridges, gradients
# and weights, for several nets, cuts, forms of gradients, numbers of learners and server groups; and what these move
# when they merge.
set -uo pipefail
. "$(dirname "$0")/help.sh"
export NO_COLOR=1

cat >compare.py <<'PY'
import json, sys
cut, gradients, at_most = sys.argv[1:4]
explain = json.load(open("explain"))
said = explain["sums"][cut if cut in ("batch", "feature") else "chosen"]
said = said["dense" if gradients == "dense" else "sent"]
run = json.load(open("run"))
moved, steps = run["bytes"], run["steps"]
assert steps == 4 and run["gradients"]["lost"] == 0, run
for what in ("values", "gradients", "weights"):
    each, total = moved["per_step"][what], moved[what]
    assert total == each * (steps - (what == "weights")), (what, total, each)
    if at_most == "most" and what != "values": assert 0 < each <= said[what], (what, each, said[what])
    else: assert each == said[what], f"{what}: a step moved {each}, --explain says {said[what]}"

groups, merge = explain.get("server_groups", 1), explain.get("merge")
assert groups == run["server_groups"] and (groups > 1) == bool(merge), (groups, merge)
turns = steps * merge["sync_parts"] // merge["sync_every"] if merge else 0 # parts that each group has merged
want = sum(merge["part_bytes"][k % merge["sync_parts"]] for k in range(turns))
assert run["merges"] == groups * turns, (run["merges"], turns)
assert run["merged_bytes"] == want, f'merges moved {run["merged_bytes"]}, --explain says {want}'
if merge:
    assert len(merge["part_bytes"]) == merge["sync_parts"] and sum(merge["part_bytes"]) == merge["bytes"], merge
    assert merge["bytes_per_update"] == merge["bytes"] / merge["sync_every"] and turns, (merge, turns)
PY

# JOB WORKERS LEARNERS CUT GRADIENTS [most] [option ...]: `most`: gradients and weights are the most there may be.
compare() {
    local job=$1 workers=$2 learners=$3 cut=$4 gradients=$5 at_most=exact
    shift 5
    if [ "${1:-}" = most ]; then at_most=most; shift; fi
    local o=(--set "cluster.workers=$workers" --set "cluster.learners=$learners" --set cluster.server=beside
             --set "cluster.gradients=$gradients" --set "cluster.partition=$cut" "$@")
    local name="$job, $workers workers, $learners learners, $cut, $gradients $*"
    "$MUSTER" check "$job" "${o[@]}" --explain --json >explain 2>err || { bad "$name: $(cat err)"; return; }
    "$MUSTER" train "$job" "${o[@]}" --set checkpoint.every=never --steps 4 --out run.d --json --quiet >run 2>err ||
        { bad "$name: $(cat err)"; return; }
    python3 compare.py "$cut" "$gradients" "$at_most" 2>why || bad "$name: $(tail -1 why)"
    rm -rf run.d
}

# AlexNet, an eighth as wide, on small images.
sed -e 's/224, 224/67, 67/; s/classes: 1000, records: 1024/classes: 100, records: 256, scale: 0.00390625/
        s/filters: 64/filters: 8/; s/filters: 192/filters: 24/; s/filters: 384/filters: 48/
        s/filters: 256/filters: 32/; s/outputs: 4096/outputs: 512/; s/outputs: 1000/outputs: 100/' \
    "$root/examples/alexnet-owt.yaml" >alexnet.yaml
for learners in 1 2; do
    for cut in batch feature auto; do
        for gradients in auto dense; do
            compare alexnet.yaml 4 $learners $cut $gradients --set train.batch=64
        done
    done
done
compare alexnet.yaml 3 1 batch auto --set train.batch=24
compare alexnet.yaml 2 2 auto auto --set train.batch=24 --set cluster.weights=copy
# A process of its own applies: every message moves to it, and all weights come from it.
compare alexnet.yaml 4 1 auto auto --set train.batch=64 --set cluster.server=process
compare alexnet.yaml 2 2 feature dense --set train.batch=64 --set cluster.server=process

# Server groups: each has learners and weights of its own. Merged at every update, seldom, in parts.
groups() { # GROUPS SYNC_EVERY SYNC_PARTS MERGE
    echo "--set cluster.server_groups=$1 --set cluster.sync_every=$2 --set cluster.sync_parts=$3 --set cluster.merge=$4"
}
# shellcheck disable=SC2046
{
    compare alexnet.yaml 2 4 auto auto --set train.batch=32 $(groups 2 1 1 average)
    compare alexnet.yaml 2 4 batch dense --set train.batch=32 $(groups 4 3 3 outer)
    compare alexnet.yaml 2 2 feature auto --set train.batch=32 $(groups 2 3 2 elastic)
    compare alexnet.yaml 1 4 none auto --set train.batch=32 $(groups 2 2 1 average)
    compare alexnet.yaml 1 4 none dense --set train.batch=32 $(groups 4 1 1 average)
    compare alexnet.yaml 2 4 feature dense --set train.batch=32 $(groups 2 4 4 average) --set cluster.server=process
}

# Two branches, running statistics, a frozen layer, grids, whole layers here and there.
cat >branches.yaml <<'END'
name: branches
data:
  train: {reader: synthetic, shape: [3, 12, 12], classes: 6, records: 64, scale: 0.00390625}
net:
  - {name: c1, type: convolution, src: data.image, filters: 8, kernel: 3, partition: batch}
  - {name: bn, type: batch_norm, partition: feature}
  - {name: r1, type: relu, partition: {batch: 2, feature: 2}}
  - {name: p1, type: pooling, method: max, kernel: 2, stride: 2, partition: batch}
  - {name: wide, type: inner_product, outputs: 200, weight: {lr: 0}, src: p1, partition: {batch: 2, feature: 2}}
  - {name: w2, type: tanh, partition: feature}
  - {name: deep, type: inner_product, outputs: 40, src: p1, partition: none, location: 2}
  - {name: d2, type: inner_product, outputs: 200, partition: feature}
  - {name: sum, type: add, src: [w2, d2], partition: batch}
  - {name: out, type: inner_product, outputs: 6, partition: none, location: 1}
  - {name: loss, type: softmax_loss, src: [out, data.label], partition: none, location: 1}
train: {batch: 16, steps: 4}
updater: {type: sgd, momentum: 0.9, rate: 0.01}
END
for learners in 1 2; do
    for gradients in auto dense; do compare branches.yaml 4 $learners none $gradients; done
done
compare branches.yaml 4 2 none auto --set cluster.weights=copy

# A recurrent net, whose memory is a parameter that all its workers have.
chars_job 4 >chars.yaml
compare chars.yaml 2 1 batch auto
compare chars.yaml 4 1 batch dense
compare chars.yaml 2 2 batch auto
# shellcheck disable=SC2046
compare chars.yaml 2 2 batch auto $(groups 2 2 1 average) # its memory is not merged

# Rows of an embedding: there may be fewer than the batch has words.
python3 - <<'PY'
with open("sentences.tsv", "w") as f:
    for i in range(64): f.write(f"{i % 3}\t" + " ".join(f"w{(i * 7 + k * k) % 400}" for k in range(3 + i % 5)) + "\n")
PY
cat >words.yaml <<'END'
name: words
data:
  train: {reader: sentences, file: sentences.tsv, length: 8}
net:
  - {name: embed, type: embedding, src: data.words, dim: 20}
  - {name: conv, type: sentence_convolution, filters: 30, widths: [3]}
  - {name: out, type: inner_product, outputs: 3}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
train: {batch: 8, steps: 4}
updater: {type: sgd, rate: 0.01}
END
compare words.yaml 2 1 batch auto most
compare words.yaml 2 1 batch dense
compare words.yaml 2 2 batch dense

# One process moves nothing; learners that write the weights themselves do not count.
"$MUSTER" train branches.yaml --steps 2 --out one --json --quiet >run 2>err || bad "one process: $(cat err)"
python3 -c '
import json
b = json.load(open("run"))["bytes"]
assert b == {"values": 0, "gradients": 0, "weights": 0, "per_step": {"values": 0, "gradients": 0, "weights": 0}}, b' ||
    bad "one process moves bytes"
"$MUSTER" train branches.yaml --steps 2 --out hog --learners 2 --protocol hogwild --json --quiet >run 2>err ||
    bad "hogwild: $(cat err)"
python3 -c 'import json; assert json.load(open("run"))["bytes"] is None' || bad "hogwild counts bytes"

# What a person sees at the end.
"$MUSTER" train branches.yaml --steps 2 --out seen --set cluster.workers=4 >out 2>err || bad "not seen: $(cat err)"
grep -q '^a step moved [0-9.]* MB of values, [0-9.]* MB of gradients, [0-9.]* MB of weights between' err ||
    bad "no line of bytes: $(cat err)"

finish
