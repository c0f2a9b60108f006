#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# accuracy.sh [JOB...] - test accuracy by protocol, learners, warm start, rules against staleness and seed. Every
# run is a row of a file of tab-separated values, ROWS, which is added to: runs that are in it are not made again.
# At the end it is shown as a table in markdown on stdout; progress goes to stderr. Without a JOB:
# examples/lenet-fashion.yaml.
#
#   RUNS       protocols, "async hogwild"                     LEARNERS  "4 8 16"; 1 (no rules) is always run, too
#   WARM       values of cluster.warm_start, "auto never"     SEEDS     "1 2"
#   RULES      rate_rule+momentum_rule, "mean+plain mean+total mean+ahead plain+plain"; auto stands for the default
#   ARGS       more arguments of every run, such as "--epochs 2 --set data.train.limit=20000"
#   ARGS_MANY  more of those with several learners, such as "--batch-size 2"
#   ROWS       the file, accuracy.tsv                          LIMIT     seconds after which a run is given up, 900
#   MUSTER     the program, build/muster
#
# Examples, on a machine with 16 cores (LeNet 25 runs of 10 to 30 s; sentences with their own test data):
#   LEARNERS=16 RULES="mean+ahead mean+plain" bench/accuracy.sh
#   ARGS_MANY="--batch-size 2" LEARNERS=8 RULES="auto+auto plain+auto" bench/accuracy.sh trec6.yaml clinc150.yaml
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
muster=$(realpath "${MUSTER:-$root/build/muster}")
rows=$(realpath "${ROWS:-accuracy.tsv}")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
[ $# -gt 0 ] || set -- "$root/examples/lenet-fashion.yaml"
touch "$rows"

# row JOB PROTOCOL LEARNERS WARM RULES SEED ARGUMENTS... - one run, if it is not there yet; columns: these, then
# accuracy in percent, mean and largest staleness, samples/s, seconds; or `diverged`, `failed`
row() {
    local job=$1 key code=0 got
    key=$(printf '%s\t' "$(basename "$job" .yaml)" "${@:2:5}")
    shift 6
    ! grep -qF -- "$key" "$rows" || return 0
    echo "$key" >&2
    rm -rf "$out/run"
    # shellcheck disable=SC2086
    timeout "${LIMIT:-900}" "$muster" train "$job" "$@" ${ARGS:-} --json --quiet --out "$out/run" \
        >"$out/json" 2>"$out/errors" || code=$?
    case $code in
    0) got=$(python3 -c '
import json, sys
d = json.load(sys.stdin)
s = d["staleness"]
print("%.2f\t%.1f\t%d\t%.0f\t%.0f" % (100 * d["test_accuracy"], s["mean"], s["max"], d["samples_per_s"], d["wall_s"]))
' <"$out/json") ;;
    4) got=diverged ;;
    *) tail -n 3 "$out/errors" >&2; got=failed ;;
    esac
    printf '%s%s\n' "$key" "$got" | tee -a "$rows" >&2
}

for job; do
    for seed in ${SEEDS:-1 2}; do
        row "$job" alone 1 - - "$seed" --seed "$seed"
        for protocol in ${RUNS:-async hogwild}; do
            for n in ${LEARNERS:-4 8 16}; do
                for warm in ${WARM:-auto never}; do
                    for rules in ${RULES:-mean+plain mean+total mean+ahead plain+plain}; do
                        # shellcheck disable=SC2086
                        row "$job" "$protocol" "$n" "$warm" "$rules" "$seed" --seed "$seed" --learners "$n" \
                            --protocol "$protocol" --set cluster.warm_start="$warm" \
                            --set cluster.rate_rule="${rules%+*}" --set cluster.momentum_rule="${rules#*+}" \
                            ${ARGS_MANY:-}
                    done
                done
            done
        done
    done
done

# A line for each job, protocol, rules and warm start, a column for each number of learners, all seeds in a cell.
python3 - "$rows" <<'EOF'
import sys
table, columns = {}, []
for line in open(sys.argv[1]):
    f = line.rstrip("\n").split("\t")
    if len(f) < 7: continue
    name, n = (f[0], f[1], f[4], f[3]), int(f[2])
    if n not in columns: columns.append(n)
    table.setdefault(name, {}).setdefault(n, []).append(f[6])
columns.sort()
print("| job | protocol | rules | warm start |" + "".join(" %d |" % n for n in columns))
print("|---|---|---|---|" + "---|" * len(columns))
for name, cells in table.items():
    print("| " + " | ".join(name) + " |" + "".join(" %s |" % ", ".join(cells.get(n, [])) for n in columns))
EOF
