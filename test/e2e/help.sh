#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# help.sh - what several end-to-end tests do alike; they source it, it is no test itself.
#
#   . "$(dirname "$0")/help.sh"
#
# Then $root is the folder of the sources, MUSTER the whole path of the program, and the current folder is $dir, which is
# empty and goes away at the end.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${MUSTER:=$root/build/muster}"
case $MUSTER in /*) ;; *) MUSTER=$PWD/$MUSTER ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
wrong=0

bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
finish() { # the last word of a test
    [ $wrong = 0 ] && echo ok
    exit $((wrong > 0))
}
needs() { # PROGRAM...
    local p
    for p; do command -v "$p" >/dev/null || { echo "skipped: needs $p"; exit 77; }; done
}

where_it_is() { # PID: where it and its children are
    local p
    for p in "$1" $(pgrep -P "$1"); do
        echo "== $p $(cat "/proc/$p/comm") $(sed -n 's/^State:[[:space:]]*//p' "/proc/$p/status") $(cat "/proc/$p/wchan")"
        if command -v gdb >/dev/null; then
            timeout 20 gdb -p "$p" -batch -ex 'thread apply all bt 12' 2>/dev/null | grep '^#\|^Thread'
        fi
    done
}

ends() { # ends SECONDS OUT COMMAND...: it ends well within that time; what it says is in OUT.json and OUT.err
    local seconds=$1 out=$2 pid
    shift 2
    "$@" >"$out.json" 2>"$out.err" &
    pid=$!
    if ! timeout "$seconds" tail --pid=$pid -s 0.02 -f /dev/null; then
        bad "$out does not end: $(where_it_is $pid)"
        kill -TERM $pid
    fi
    wait $pid && return
    bad "$out: $(tail -n 6 "$out.err")"
    return 1
}

balanced() { # OUT
    jq -e '.gradients | .produced == .applied + .rejected + .lost and .applied > 0' "$1.json" >/dev/null ||
        bad "$1: the ledger: $(jq -c .gradients "$1.json")"
}

run() { # run OUT JOB options...: trains; the ledger balances
    local out=$1
    shift
    ends 90 "$out" "$MUSTER" train "$@" --out "$out" --quiet --json && balanced "$out"
}

near() { # near A B LIMIT: are the weights of two runs as near, |a - b| / |a| of each array?
    python3 - "$1/model.safetensors" "$2/model.safetensors" "$3" <<'PYTHON'
import array, json, math, struct, sys
def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8:8 + n])
    return {k: array.array("f", raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}
one, two = load(sys.argv[1]), load(sys.argv[2])
for name, a in one.items():
    off = math.sqrt(sum((x - y) ** 2 for x, y in zip(a, two[name])))
    size = math.sqrt(sum(x * x for x in a))
    if not off <= float(sys.argv[3]) * size + 1e-6:
        sys.exit(f"{name}: {off:g} of {size:g}")
PYTHON
}

same() { # same A B: the bits of all parameters
    python3 - "$1/model.safetensors" "$2/model.safetensors" <<'PYTHON' || bad "$1 has other bits than $2"
import json, struct, sys
def load(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    return {k: raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
            for k, v in json.loads(raw[8:8 + n]).items() if k != "__metadata__"}
one, two = load(sys.argv[1]), load(sys.argv[2])
sys.exit(f"other parameters: {[k for k in one if one[k] != two.get(k)]}" if one != two else 0)
PYTHON
}

chars_job() { # chars_job STEPS [LAYERS]: streams of text, whose memory is a parameter; two workers. Writes its `text`
    local i
    for i in $(seq 300); do printf 'line %d says that a state goes from batch to batch\n' "$i"; done >text
    cat <<END
name: chars
data:
  train: {reader: chars, file: text, length: 10, streams: 8}
net:
  - {name: gru, type: gru, src: [data.chars, data.begin], hidden: 16}
  - {name: scores, type: inner_product, axis: 2, outputs: 40}
  - {name: loss, type: softmax_loss, src: [scores, data.next], top: []}
${2:-}
train: {batch: 8, steps: $1}
updater: {type: adam, rate: 0.01}
checkpoint: {every: never}
cluster: {workers: 2, server: beside}
END
}
