#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpi.sh - what end-to-end tests of several ranks on this machine do alike; they source it behind help.sh, it is no test.
command -v mpirun >/dev/null || { echo "skipped: needs mpirun (openmpi-bin)"; exit 77; }
needs jq python3
[ -e "$(dirname "$MUSTER")/libmuster-mpi.so" ] || { echo "skipped: built without MPI (libopenmpi-dev)"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MUSTER_RANK_TIMEOUT=20

mpi=(mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include lo
    --mca mpi_yield_when_idle 1)
run_on() { # run_on RANKS OUT JOB options...: trains on so many; the ledger balances
    local n=$1 out=$2 job=$3
    shift 3
    ends 190 "$out" "${mpi[@]}" -n "$n" timeout -k 5 180 "$MUSTER" train "$job" "$@" --out "$out" --quiet --json || return
    balanced "$out"
    jq -e ".ranks == $n" "$out.json" >/dev/null || bad "$out: $(jq -c .ranks "$out.json") ranks"
}
long() { # long OUT JOB options...: two ranks in the background, until there is a checkpoint; its mpirun's pid in $pid
    local out=$1 job=$2
    shift 2
    "${mpi[@]}" -n 2 "$MUSTER" train "$job" --out "$out" --json "$@" >"$out.json" 2>"$out.err" &
    pid=$!
    for _ in $(seq 800); do [ -e "$out/checkpoints/LATEST" ] && break; sleep 0.05; done
}
ranks_of() { pgrep -P "$1" -x muster; } # of mpirun
rank_1_of() {
    for p in $(ranks_of "$1"); do grep -qz '^OMPI_COMM_WORLD_RANK=1$' "/proc/$p/environ" && echo "$p"; done
}
learners_of() { pgrep -P "$1" | while read -r p; do grep -q '^muster:l' "/proc/$p/comm" && echo "$p"; done; }
step_of() { # OUT: of the newest checkpoint
    jq .step "$1/checkpoints/$(cat "$1/checkpoints/LATEST")/manifest.json"
}

refused() { # refused CODE WORDS words of mpirun...: every rank ends, and says why
    local want=$1 words=$2
    shift 2
    timeout -k 5 180 "${mpi[@]}" -n "$@" >no.out 2>&1
    local code=$?
    [ $code = "$want" ] || bad "$words: exit $code, $(head -n 5 no.out)"
    grep -qF -- "$words" no.out || bad "$words: $(head -n 8 no.out)"
    rm -rf no
}

job() { # job NAME TRAIN UPDATER: the net is on standard input
    cat >"$1.yaml" <<END_OF_JOB
name: $1
seed: 3
data:
  train: {reader: synthetic, shape: [2, 12, 12], classes: 4, records: 810, noise: 0.2, scale: 0.0039}
  test: {reader: synthetic, shape: [2, 12, 12], classes: 4, records: 100, noise: 0.2, scale: 0.0039}
train: $2
updater: $3
checkpoint: {every: 10 steps, keep: 9}
log: {every: 1 steps}
net:
$(cat)
  - {name: out, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
END_OF_JOB
}
words_and_chars() { # rows of an embedding; states of recurrent cells, which go on from batch to batch
python3 - <<'PYTHON'
with open("sentences.tsv", "w") as f:
    for i in range(256): f.write(f"{i % 3}\t" + " ".join(f"w{(i * 7 + k * k) % 400}" for k in range(3 + i % 5)) + "\n")
PYTHON
seq 3000 >text
cat >words.yaml <<'END_OF_JOB'
name: words
data:
  train: {reader: sentences, file: sentences.tsv, length: 8}
net:
  - {name: embed, type: embedding, src: data.words, dim: 20}
  - {name: conv, type: sentence_convolution, filters: 30, widths: [3]}
  - {name: out, type: inner_product, outputs: 3}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
train: {batch: 8, steps: 40}
updater: {type: adagrad, rate: 0.05}
END_OF_JOB
cat >chars.yaml <<'END_OF_JOB'
name: chars
data:
  train: {reader: chars, file: text, length: 10, streams: 12}
net:
  - {name: gru, type: gru, src: [data.chars, data.begin], hidden: 32}
  - {name: scores, type: inner_product, axis: 2, outputs: auto}
  - {name: loss, type: softmax_loss, src: [scores, data.next], top: []}
train: {batch: 12, steps: 40}
updater: {type: adam, rate: 0.01}
END_OF_JOB
}
span_mlp() { # cut by feature, by batch, in a grid, and a layer whole at the last worker; Adam has histories
job mlp '{batch: 48, epochs: 2}' '{type: adam, rate: 0.001}' <<'END'
  - {name: fc1, type: inner_product, src: data.image, outputs: 200, partition: feature}
  - {name: act, type: relu, partition: feature}
  - {name: drop, type: dropout, partition: feature}
  - {name: fc2, type: inner_product, outputs: 100, partition: batch}
  - {name: act2, type: tanh, partition: {batch: 2, feature: 2}}
  - {name: fc3, type: inner_product, outputs: 50, partition: none, location: 3}
END
}
alexnet_quarter() { # AlexNet at a quarter of its width, on small images; in hybrid.yaml fc6 to fc8 by feature, the rest by batch
    sed -e 's/224, 224/67, 67/; s/classes: 1000, records: 1024/classes: 100, records: 256, scale: 0.00390625/
            s/filters: 64/filters: 16/; s/filters: 192/filters: 48/; s/filters: 384/filters: 96/
            s/filters: 256/filters: 64/; s/outputs: 4096/outputs: 1024/; s/outputs: 1000/outputs: 100/' \
        "$root/examples/alexnet-owt.yaml" >alexnet.yaml
    sed -E '/name: (fc|relu)[678],/s/\}$/, partition: feature}/' alexnet.yaml >hybrid.yaml
    [ "$(grep -c 'partition: feature' hybrid.yaml)" = 5 ] || bad "the hybrid net: $(cat hybrid.yaml)"
}
changes() { # changes A B: each parameter's from `begin` on, as near as 1e-3, and large enough to be seen
    python3 - begin "$1" "$2" <<'PYTHON'
import array, json, math, struct, sys
def load(path):
    raw = open(path + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: array.array("f", raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
norm = lambda a, b: math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)))
begin, one, two = (load(p) for p in sys.argv[1:])
for name, a in one.items():
    moved, off, size = norm(a, begin[name]), norm(a, two[name]), math.sqrt(sum(x * x for x in a))
    if moved < 1e-3 * size: sys.exit(f"{name} has moved by {moved:g} of {size:g} only")
    if not off <= 1e-3 * moved: sys.exit(f"{name}: {off / moved:g} of its change")
PYTHON
}
