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
# LIMIT    seconds after which a run is given up, 3600
set -euo pipefail
cd "$(dirname "$0")/.."
muster=${MUSTER:-build/muster}
data=$(realpath -m "${DATA:-data}")
seeds=${SEEDS:-1 2 3}
limit=${LIMIT:-3600}
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

# accuracy SET SENTENCES LABELS MU SEED ARGUMENTS... - one line: test accuracy, sentences/s; or `failed`
accuracy() {
    local set=$1 labels=$3 mu=$4 seed=$5 code=0
    shift 5
    rm -rf "$out/run"
    timeout "$limit" "$muster" train examples/kim-trec6.yaml --json --quiet --out "$out/run" --seed "$seed" \
        --set name="kim-$set" --set data.train.file="$data/$set.train.tsv" \
        --set data.test.file="$data/$set.test.tsv" --set data.test.vocab_of="$data/$set.train.tsv" \
        --set net.last.outputs="$labels" --set train.batch="$mu" "$@" >"$out/json" 2>"$out/errors" || code=$?
    if [ $code -ne 0 ]; then
        tail -n 5 "$out/errors" >&2
        echo failed
        return
    fi
    python3 -c 'import json, sys
d = json.load(sys.stdin)
print(d["test_accuracy"], d["samples_per_s"])' <"$out/json"
}

echo "| set | sentences | labels | mini-batch | test accuracy % | each seed | sentences/s |"
echo "|---|---|---|---|---|---|---|"
for set in "${sets[@]}"; do
    n=$(wc -l <"$data/$set.train.tsv")
    labels=$(cut -f1 "$data/$set.train.tsv" | sort -u | wc -l)
    mu=$((n < 10000 ? 2 : n < 100000 ? 4 : 32))
    for seed in $seeds; do
        echo "train $set, seed $seed $*" >&2
        accuracy "$set" "$n" "$labels" "$mu" "$seed" "$@"
    done | awk -v row="| $set | $n | $labels | $mu |" '
        $1 == "failed" { bad++; next }
        { a = 100 * $1; each = each sprintf("%s%.1f", k ? ", " : "", a); sum += a; speed += $2; k++ }
        END { if (bad || !k) print row " failed | | |"
              else printf "%s %.1f | %s | %.0f |\n", row, sum / k, each, speed / k }'
done
