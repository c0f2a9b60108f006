#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# text-accuracy.sh [SET...] [-- ARGUMENTS] - test accuracy of examples/kim-trec6.yaml on several sets, mean of
# seeds, as a markdown table on stdout; progress goes to stderr. All sets that are there when none is named.
#
#   examples/text-accuracy.sh trec6 mr -- --learners 2 --protocol async
#
# ARGUMENTS go to `muster train`. A set is data/NAME.train.tsv and data/NAME.test.tsv, lines `label<tab>text`.
# The recipe is the same for all; the mini-batch follows GaDei's Table 3: 2 below 10,000 sentences, 4 below
# 100,000, else 32. The accuracy is that after the last epoch, not the best one on the way.
#
# MUSTER   program, build/muster unless said otherwise
# DATA     folder of the sets, data unless said otherwise
# SEEDS    "1 2 3" unless said otherwise
# JOBS     runs at a time, 1 unless said otherwise
# LIMIT    seconds after which a run is given up, 3600
set -euo pipefail
cd "$(dirname "$0")/.."
muster=${MUSTER:-build/muster}
data=$(realpath -m "${DATA:-data}")
seeds=${SEEDS:-1 2 3}
limit=${LIMIT:-3600}
jobs=${JOBS:-1}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

sets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do sets+=("$1"); shift; done
[ $# -gt 0 ] && shift
if [ ${#sets[@]} -eq 0 ]; then
    for set in trec6 trec50 banking77 clinc150 mr wordnet311 wordnet3595; do
        [ -f "$data/$set.train.tsv" ] && sets+=("$set")
    done
fi
[ ${#sets[@]} -gt 0 ] || { echo "text-accuracy.sh: no sets in $data" >&2; exit 6; }

# size SET - sentences, labels and mini-batch of a set
size() {
    local n labels
    n=$(wc -l <"$data/$1.train.tsv")
    labels=$(cut -f1 "$data/$1.train.tsv" | sort -u | wc -l)
    echo "$n $labels $((n < 10000 ? 2 : n < 100000 ? 4 : 32))"
}

# train SET SEED ARGUMENTS... - leaves one line in $out/SET-SEED: test accuracy and sentences/s, or `failed`
train() {
    local set=$1 seed=$2 run="$out/$1-$2" labels mu
    shift 2
    read -r _ labels mu < <(size "$set")
    echo "train $set, seed $seed $*" >&2
    if timeout "$limit" "$muster" train examples/kim-trec6.yaml --json --quiet --out "$run.run" --seed "$seed" \
        --set name="kim-$set" --set data.train.file="$data/$set.train.tsv" \
        --set data.test.file="$data/$set.test.tsv" --set data.test.vocab_of="$data/$set.train.tsv" \
        --set net.last.outputs="$labels" --set train.batch="$mu" "$@" >"$run.json" 2>"$run.errors"; then
        python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["test_accuracy"], d["samples_per_s"])' <"$run.json" >"$run"
    else
        tail -n 5 "$run.errors" >&2
        echo failed >"$run"
    fi
    rm -rf "$run.run"
}

for set in "${sets[@]}"; do
    for seed in $seeds; do
        while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
        train "$set" "$seed" "$@" &
    done
done
wait

echo "| set | sentences | labels | mini-batch | test accuracy % | each seed | sentences/s |"
echo "|---|---|---|---|---|---|---|"
for set in "${sets[@]}"; do
    read -r n labels mu < <(size "$set")
    for seed in $seeds; do cat "$out/$set-$seed"; done | awk -v row="| $set | $n | $labels | $mu |" '
        $1 == "failed" { bad++; next }
        { a = 100 * $1; each = each sprintf("%s%.1f", k ? ", " : "", a); sum += a; speed += $2; k++ }
        END { if (bad || !k) print row " failed | | |"
              else printf "%s %.1f | %s | %.0f |\n", row, sum / k, each, speed / k }'
done
