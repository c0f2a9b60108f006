#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sums of gradients that travel in half width: half the bytes, nearly the same weights, the same ones on all ranks; what
# is not finite ends the training as ever; where nothing is summed the key is refused, or changes nothing.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"

job conv '{batch: 24, steps: 200}' '{type: sgd, momentum: 0.9, rate: 0.01}' <<'END'
  - {name: c1, type: convolution, src: data.image, filters: 60, kernel: 5, pad: 2}
  - {name: act, type: relu}
  - {name: norm, type: batch_norm}
  - {name: pool, type: pooling, kernel: 3, stride: 2}
  - {name: c2, type: convolution, filters: 100, kernel: 3}
  - {name: act2, type: tanh}
END
changes() { # A B LIMIT: how far they are from each other, of what 200 steps have changed of each summed weight
    python3 - begin "$1" "$2" "$3" <<'PYTHON'
import array, json, math, struct, sys
def load(out):
    raw = open(out + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: array.array("f", raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
begin, one, two = (load(out) for out in sys.argv[1:4])
wrong = []
for name, a in one.items():
    if len(a) < 2048: continue
    off = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, two[name])))
    change = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, begin[name])))
    print(f"{sys.argv[2]} {sys.argv[3]} {name}: {off / change:.3g} of its change", file=sys.stderr)
    if not off <= float(sys.argv[4]) * change: wrong.append(name)
sys.exit(f"{sys.argv[3]}: {wrong}" if wrong else 0)
PYTHON
}
run begin conv.yaml --learners 2 --steps 1 --set updater.rate=1e-12
half() { # KEY OUT WHOLE: bytes of OUT are about half of those of WHOLE: what is small, and heads of frames, are as they were
    awk -v w="$(jq "$1" "$3.json")" -v h="$(jq "$1" "$2.json")" 'BEGIN { exit !(w > 1.85 * h && w < 2 * h) }' ||
        bad "$2: $(jq "$1" "$3.json") bytes by fp32, $(jq "$1" "$2.json") in half width"
}

# ---- one server group on all ranks: what they add up and give back; the ranks check that they have the same weights ----
for n in 2 4; do run_on $n joint-$n-fp32 conv.yaml --learners 4; done
for form in bf16 fp16; do
    for n in 2 4; do
        run_on $n $form-$n conv.yaml --learners 4 --set cluster.wire=$form
        half .wire_bytes_sent $form-$n joint-$n-fp32
        changes joint-$n-fp32 $form-$n 1e-3 || bad "$form on $n ranks"
    done
done
run_on 2 again conv.yaml --learners 4 --set cluster.wire=fp16
run_on 2 again2 conv.yaml --learners 4 --set cluster.wire=fp16
same again again2
cmp -s bf16-2/model.safetensors joint-2-fp32/model.safetensors && bad "nothing was rounded"
timeout 60 "${mpi[@]}" -n 2 "$MUSTER" train conv.yaml --out told --set cluster.wire=bf16 --steps 2 >told.out 2>&1
grep -q 'summed up in bf16; at most' told.out || bad "the line at the start: $(grep 'between ranks' told.out)"

# ---- rank 0 has the weights: sums to it are half, weights from it are not ----
for way in base adv; do
    run_on 2 $way-fp32 conv.yaml --learners 4 --set cluster.architecture=$way
    run_on 2 $way conv.yaml --learners 4 --set cluster.architecture=$way --set cluster.wire=bf16
    changes $way-fp32 $way 1e-3 || bad "bf16 by $way"
    half .wire_bytes_received $way $way-fp32
done

# ---- what is not finite ----
for way in auto adv; do
    timeout 60 "${mpi[@]}" -n 2 "$MUSTER" train conv.yaml --set cluster.wire=fp16 --set updater.rate=1e30 --out wild --quiet \
        --set cluster.architecture=$way >wild.json 2>wild.err
    code=$?
    [ $code = 4 ] || bad "diverged by $way: exit $code: $(tail -n 4 wild.err)"
    rm -rf wild
done

# ---- a resume goes on, with what was left out forgotten ----
run_on 2 first conv.yaml --learners 4 --set cluster.wire=bf16 --steps 100
timeout 60 "${mpi[@]}" -n 2 "$MUSTER" train --resume first --quiet --json --steps 200 >again.json 2>again.err ||
    bad "resume: $(tail -n 4 again.err)"
changes joint-2-fp32 first 1e-3 || bad "resumed"

# ---- refused, or said to be nothing ----
train=("$MUSTER" train conv.yaml --out no)
refused 3 'another job' 1 "${train[@]}" : -n 1 "${train[@]}" --set cluster.wire=bf16
refused 3 '`wire` in `cluster` is for gradients' 2 "${train[@]}" --set cluster.wire=bf16 --set cluster.sync_every=5
"$MUSTER" check conv.yaml --set cluster.wire=bf16 >check.out 2>&1 || bad "check: $(cat check.out)"
grep -q 'with one rank nothing travels' check.out || bad "check does not say that nothing travels: $(cat check.out)"
finish
