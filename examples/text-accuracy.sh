#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# text-accuracy.sh [SET...] [-- ARGUMENTS] - test accuracy of nets for sentences on several sets, by seeds, as
# a markdown table on stdout; progress goes to stderr. All sets that are there when none is named.
#
#   JOBS=8 examples/text-accuracy.sh trec6 mr
#   RECIPES=kim examples/text-accuracy.sh trec6 -- --learners 2 --protocol async
#
# ARGUMENTS go to `muster train`. A set is data/NAME.train.tsv and data/NAME.test.tsv, lines `label<tab>text`.
# The accuracy is that after the last epoch, not the best one on the way.
#
#   text   the job that `muster init text` writes for the set
#   kim    examples/kim-trec6.yaml on all training data, with the mini-batch of GaDei's Table 3: 2 below 10,000
#          sentences, 4 below 100,000, else 32
#   bayes  examples/naive-bayes.py, the same for all seeds
#
# Behind an accuracy stands the standard error of its mean over the seeds, behind a difference that of the
# differences of equal seeds. The last row is the mean over the sets.
#
# MUSTER   program, build/muster unless said otherwise
# DATA     folder of the sets, data unless said otherwise
# SEEDS    "1 2 3 4 5" unless said otherwise
# RECIPES  "text kim bayes" unless said otherwise
# JOBS     runs at a time, 1 unless said otherwise
# LIMIT    seconds after which a run is given up, 3600
# KEEP     folder that keeps the result of each run; runs that are there are not repeated
set -euo pipefail
cd "$(dirname "$0")/.."
muster=$(realpath "${MUSTER:-build/muster}")
data=$(realpath -m "${DATA:-data}")
seeds=${SEEDS:-1 2 3 4 5}
recipes=${RECIPES:-text kim bayes}
limit=${LIMIT:-3600}
jobs=${JOBS:-1}
if [ -n "${KEEP:-}" ]; then
    mkdir -p "$KEEP"
    out=$(realpath "$KEEP")
else
    out=$(mktemp -d)
    trap 'rm -rf "$out"' EXIT
fi

sets=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do sets+=("$1"); shift; done
[ $# -gt 0 ] && shift
if [ ${#sets[@]} -eq 0 ]; then
    for set in trec6 trec50 banking77 clinc150 mr wordnet311 wordnet3595; do
        [ -f "$data/$set.train.tsv" ] && sets+=("$set")
    done
fi
[ ${#sets[@]} -gt 0 ] || { echo "text-accuracy.sh: no sets in $data" >&2; exit 6; }

# run RECIPE SET SEED ARGUMENTS... - one training; its result on stdout as JSON
run() {
    local recipe=$1 set=$2 seed=$3 here="$out/$1-$2-$3" job n
    shift 3
    local common=(--json --quiet --out "$here.run" --seed "$seed")
    if [ "$recipe" = text ]; then
        job="$here.yaml"
        rm -f "$job"
        "$muster" init text "$data/$set.train.tsv" "$job" --test "$data/$set.test.tsv" --name "text-$set" >&2
        timeout "$limit" "$muster" train "$job" "${common[@]}" "$@"
    else
        n=$(wc -l <"$data/$set.train.tsv")
        timeout "$limit" "$muster" train examples/kim-trec6.yaml "${common[@]}" \
            --set name="kim-$set" --set data.train.file="$data/$set.train.tsv" \
            --set data.test.file="$data/$set.test.tsv" --set data.test.vocab_of="$data/$set.train.tsv" \
            --set train.batch=$((n < 10000 ? 2 : n < 100000 ? 4 : 32)) "$@"
    fi
}

# train RECIPE SET SEED ARGUMENTS... - leaves $out/RECIPE-SET-SEED.json; an empty one when the run failed
train() {
    local here="$out/$1-$2-$3"
    [ -s "$here.json" ] && return
    echo "train $*" >&2
    if ! run "$@" >"$here.tmp" 2>"$here.errors"; then
        tail -n 5 "$here.errors" >&2
        : >"$here.tmp"
    fi
    mv "$here.tmp" "$here.json"
    rm -rf "$here.run"
}

for set in "${sets[@]}"; do
    for seed in $seeds; do
        for recipe in $recipes; do
            [ "$recipe" = bayes ] && continue
            while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
            train "$recipe" "$set" "$seed" "$@" &
        done
    done
done
wait
case " $recipes " in
*" bayes "*) DATA=$data python3 examples/naive-bayes.py "${sets[@]}" >"$out/bayes.md" ;;
*) : >"$out/bayes.md" ;;
esac

OUT=$out DATA=$data SETS="${sets[*]}" SEEDS=$seeds RECIPES=$recipes python3 - <<'PYTHON'
import json, math, os

out, data = os.environ["OUT"], os.environ["DATA"]
sets, seeds, recipes = (os.environ[k].split() for k in ("SETS", "SEEDS", "RECIPES"))
bayes = {}
for line in open(f"{out}/bayes.md"):
    cells = [c.strip() for c in line.strip("|\n").split("|")]
    if cells[0] in sets:
        bayes[cells[0]] = float(cells[-1])


def accuracies(recipe, name):
    if recipe == "bayes":
        return [bayes[name]] * len(seeds)
    try:
        return [100 * json.load(open(f"{out}/{recipe}-{name}-{seed}.json"))["test_accuracy"] for seed in seeds]
    except ValueError:
        return None                     # a run failed


def shown(values, sign=""):
    if values is None:
        return "failed"
    mean = sum(values) / len(values)
    if len(values) < 2:
        return f"{mean:{sign}.1f}"
    error = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    return f"{mean:{sign}.1f} ± {error:.1f}"


def minus(a, b):
    return None if a is None or b is None else [x - y for x, y in zip(a, b)]


def row(name, n, labels, by):
    cells = [name, str(n), str(labels)] + [shown(by[r]) for r in recipes]
    cells += [shown(minus(by["text"], by[r]), "+") for r in recipes if "text" in recipes and r != "text"]
    print("| " + " | ".join(cells) + " |", flush=True)


heads = ["set", "sentences", "labels"] + [f"{r} %" for r in recipes]
heads += [f"text - {r}" for r in recipes if "text" in recipes and r != "text"]
print("| " + " | ".join(heads) + " |")
print("|" + "---|" * len(heads))
total = {r: [0.0] * len(seeds) for r in recipes}
for name in sets:
    lines = [line.split("\t", 1)[0] for line in open(f"{data}/{name}.train.tsv", encoding="utf-8")]
    by = {r: accuracies(r, name) for r in recipes}
    row(name, len(lines), len(set(lines)), by)
    for r in recipes:
        whole = total[r] is not None and by[r] is not None
        total[r] = [t + v / len(sets) for t, v in zip(total[r], by[r])] if whole else None
if len(sets) > 1:
    row("mean", "", "", total)
PYTHON
