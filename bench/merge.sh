#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# merge.sh [JOB...] - test accuracy and bytes by how, and how seldom, server groups merge their weights. Every run is a
# row of a file of tab-separated values, ROWS, which is added to: runs that are in it are not made again. At the end it
# is shown as a table in markdown on stdout; progress goes to stderr. Without a JOB: examples/lenet-fashion.yaml.
#
#   RULES   "average elastic outer"     EVERY   "1 10 50 200" updates     GROUPS_N  4
#   SEEDS   "1"                         ARGS    more arguments of every run, such as "--batch-size 2"
#   ROWS    the file, merge.tsv         MUSTER  the program, build/muster
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
muster=$(realpath "${MUSTER:-$root/build/muster}")
rows=$(realpath "${ROWS:-merge.tsv}")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
[ $# -gt 0 ] || set -- "$root/examples/lenet-fashion.yaml"
touch "$rows"

# row JOB RULE EVERY SEED - one run, if it is not there yet; columns: these, then accuracy in percent, megabytes
# given and taken, seconds; or `diverged`, `failed`
row() {
    local job=$1 key got code=0
    key=$(printf '%s\t' "$(basename "$job" .yaml)" "${@:2:3}")
    ! grep -qF -- "$key" "$rows" || return 0
    echo "$key" >&2
    rm -rf "$out/run"
    # shellcheck disable=SC2086
    "$muster" train "$job" --learners "${GROUPS_N:-4}" --set cluster.server_groups="${GROUPS_N:-4}" \
        --set cluster.merge="$2" --set cluster.sync_every="$3" --seed "$4" ${ARGS:-} --json --quiet --out "$out/run" \
        >"$out/json" 2>"$out/errors" || code=$?
    if [ $code = 0 ]; then
        got=$(python3 -c '
import json, sys
d = json.load(sys.stdin)
print("%.2f\t%.1f\t%.0f" % (100 * d["test_accuracy"], 1e-6 * d["merged_bytes"], d["wall_s"]))' <"$out/json")
    elif [ $code = 4 ]; then
        got=diverged
    else
        tail -n 3 "$out/errors" >&2
        got=failed
    fi
    printf '%s%s\n' "$key" "$got" | tee -a "$rows" >&2
}

for job; do
    for seed in ${SEEDS:-1}; do
        for rule in ${RULES:-average elastic outer}; do
            for every in ${EVERY:-1 10 50 200}; do row "$job" "$rule" "$every" "$seed"; done
        done
    done
done

# A line for each job and rule, a column for each interval; all seeds in a cell, with the megabytes of the last.
python3 - "$rows" <<'PYTHON'
import sys
table, columns, size = {}, [], {}
for line in open(sys.argv[1]):
    f = line.rstrip("\n").split("\t")
    if len(f) < 5: continue
    if int(f[2]) not in columns: columns.append(int(f[2]))
    table.setdefault((f[0], f[1]), {}).setdefault(int(f[2]), []).append(f[4])
    if len(f) > 5: size[f[0], f[1], int(f[2])] = f[5]
columns.sort()
print("| job | merge |" + "".join(" every %d |" % n for n in columns))
print("|---|---|" + "---|" * len(columns))
for (job, rule), cells in table.items():
    print("| %s | %s |" % (job, rule) + "".join(
        " %s (%s MB) |" % (", ".join(cells.get(n, ["-"])), size.get((job, rule, n), "-")) for n in columns))
PYTHON
