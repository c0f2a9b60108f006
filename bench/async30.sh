#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# async30.sh [error] [staleness] [simulator] - what 30 learners on one machine do to the result: the tables of
# docs/protocols.md, "Measured", as markdown on stdout; progress goes to stderr. All parts when none is named.
#
#   error      test error of a fully connected net on Fashion-MNIST, by protocol, mu * lambda, rate rule and warm
#              start, all with the same number of epochs; mean of the seeds
#   staleness  that of LeNet (mu = 32, no warm start), by protocol and by who applies the gradients
#   simulator  that of 1000 learners of the same protocol core
#
# MUSTER, SIM  programs, build/muster and build/muster-sim unless said otherwise
# SEEDS        of the error table, "1 2" unless said otherwise
# LIMIT        seconds after which a run is given up, 600
set -euo pipefail
cd "$(dirname "$0")/.."
muster=${MUSTER:-build/muster}
sim=${SIM:-build/muster-sim}
seeds=${SEEDS:-1 2}
limit=${LIMIT:-600}
learners=30
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# train ARGUMENTS... - one line: accuracy, mean and largest staleness, samples/s, overlap, gradients;
# or `diverged` (exit code 4), or `failed`
train() {
    local code=0
    echo "train $*" >&2
    rm -rf "$out/run"
    timeout "$limit" "$muster" train "$@" --json --quiet --out "$out/run" >"$out/json" 2>"$out/errors" || code=$?
    case $code in
    0) python3 -c '
import json, sys
d = json.load(sys.stdin)
s = d["staleness"]
print(d["test_accuracy"], s["mean"], s["max"], d["samples_per_s"], d["overlap"], d["gradients"]["applied"])
' <"$out/json" ;;
    4) echo diverged ;;
    *) tail -n 3 "$out/errors" >&2; echo failed ;;
    esac
}

# error_row "NAME" "MU x LAMBDA" "RULE" ARGUMENTS... - the mean of all seeds, and the error of each
error_row() {
    local name=$1 batch=$2 rule=$3 seed
    shift 3
    for seed in $seeds; do
        train bench/jobs/fashion_mlp.yaml --seed "$seed" "$@"
    done | awk -v row="| $name | $batch | $rule |" '
        NF < 6 { how = $1; next }
        { e = 100 * (1 - $1); each = each sprintf("%s%.2f", n ? ", " : "", e); sum += e
          stale += $2; if ($3 > max) max = $3; speed += $4; overlap += $5; n++ }
        END { if (how) print row " " how " | | | | |"
              else printf "%s %.2f | %s | %.1f, %d | %.0f | %.0f %% |\n",
                          row, sum / n, each, stale / n, max, speed / n, 100 * overlap / n }'
}

error() {
    local small=(--learners "$learners" --set train.batch=120)
    local large=(--learners "$learners" --set cluster.batch=128)
    local cold="async, no warm start" at_once=(--protocol async --set cluster.warm_start=never)
    echo "| run | mu x lambda | rate rule | test error % | of seeds ${seeds// /, } |" \
         "staleness: mean, largest | samples/s | computing |"
    echo "|---|---|---|---|---|---|---|---|"
    error_row "one learner" "128 x 1" -
    error_row hardsync "4 x 30" - "${small[@]}" --protocol hardsync
    error_row 1-softsync "4 x 30" mean "${small[@]}" --protocol '{type: softsync, n: 1}'
    error_row 4-softsync "4 x 30" mean "${small[@]}" --protocol '{type: softsync, n: 4}'
    error_row async "4 x 30" mean "${small[@]}" --protocol async
    error_row async "4 x 30" each "${small[@]}" --protocol async --set cluster.rate_rule=each
    error_row async "4 x 30" plain "${small[@]}" --protocol async --set cluster.rate_rule=plain
    error_row "$cold" "4 x 30" mean "${small[@]}" "${at_once[@]}"
    error_row "$cold" "4 x 30" each "${small[@]}" "${at_once[@]}" --set cluster.rate_rule=each
    error_row "$cold" "4 x 30" plain "${small[@]}" "${at_once[@]}" --set cluster.rate_rule=plain
    error_row mirror "4 x 30" mean "${small[@]}" --protocol mirror
    error_row hogwild "4 x 30" mean "${small[@]}" --protocol hogwild
    error_row async "128 x 30" mean "${large[@]}" --protocol async
    error_row async "128 x 30" plain "${large[@]}" --protocol async --set cluster.rate_rule=plain
}

# staleness_row "NAME" PROTOCOL LOW HIGH LARGEST - of both places of the server; a figure outside is
# marked; LARGEST may be `open`
staleness_row() {
    local server
    printf '| %s | %s to %s |' "$1" "$3" "$4"
    for server in beside process; do
        train bench/jobs/lenet.yaml --learners $learners --protocol "$2" --set cluster.batch=32 \
            --set cluster.server=$server --set cluster.warm_start=never --set data.train.records=9600 \
            --epochs 99 --steps 120 |
            awk -v low="$3" -v high="$4" -v most="$5" '
                NF < 6 { printf " %s | |", $1; next }
                { far = ($2 < low || $2 > high) ? " (!)" : ""; wild = (most != "open" && $3 > most) ? " (!)" : ""
                  printf " %.2f%s | %d%s |", $2, far, $3, wild }'
    done
    echo
}

staleness() {
    echo "| protocol | expected mean | beside: mean | largest | process: mean | largest |"
    echo "|---|---|---|---|---|---|"
    staleness_row hardsync hardsync 0 0 0
    staleness_row 1-softsync '{type: softsync, n: 1}' 0.7 1.3 2
    staleness_row 2-softsync '{type: softsync, n: 2}' 1.6 2.4 4
    staleness_row 4-softsync '{type: softsync, n: 4}' 3.2 4.8 8
    staleness_row 15-softsync '{type: softsync, n: 15}' 12 18 30
    staleness_row async async 24 36 open
}

simulator() {
    echo "| protocol, 1000 learners | staleness: mean | largest |"
    echo "|---|---|---|"
    local row
    for row in hardsync 'softsync --splits 1' 'softsync --splits 10' 'softsync --splits 30' async; do
        # shellcheck disable=SC2086
        timeout "$limit" "$sim" --stats --learners 1000 --events 300000 --bound 0 --protocol $row |
            sed -n "1s/.*mean \([0-9.]*\).*max \([0-9]*\).*/| ${row/softsync --splits /n-softsync, n = } | \1 | \2 |/p"
    done
}

if [ $# = 0 ]; then
    set -- error staleness simulator
fi
for part; do
    case $part in
    error | staleness | simulator) "$part"; echo ;;
    *) echo "async30.sh: no part $part: error, staleness, simulator" >&2; exit 2 ;;
    esac
done
