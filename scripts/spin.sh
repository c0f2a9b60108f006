#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# spin.sh [model.pml...] - proves the Spin models that lie beside the code, and that the proofs can fail.
#
# Every state of each model (default: src/*/*.pml) is searched; an error or an unfinished search fails. A line
#   // mutants: 1 2 3
# in a model names its mutants: the same model with -DMUTANT=k, in which one step is wrong on purpose. Spin
# must find the fault in each of them. Two more lines are read where a model has them:
#   // pan: -a -f          options of the search (here: a liveness claim under fairness); default: none
#   // cc: -DVECTORSZ=4096 options of its compilation
# Status 77 (skipped) where spin is not installed.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v spin >/dev/null; then
    echo "spin.sh: skipped, spin is not installed (package spin)"
    exit 77
fi
limit_s=${SPIN_SECONDS:-300}    # of one search
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

line_of() { sed -n "s|^// $1: *||p" "$2" | head -n 1; }

# search MODEL MUTANT: the search's report in $work/report. Fails when there was no search at all.
search() {
    local model mutant=$2 pan cc dir
    model=$(realpath "$1")
    read -ra pan <<<"$(line_of pan "$model")"
    read -ra cc <<<"$(line_of cc "$model")"
    case " ${pan[*]} " in *' -a '* | *' -l '*) ;; *) cc+=(-DSAFETY) ;; esac
    dir=$(mktemp -d -p "$work")
    (
        cd "$dir"
        spin -DMUTANT="$mutant" -a "$model" >log 2>&1 &&
            "${CC:-cc}" -O2 -w -DCOLLAPSE -DMEMLIM=2048 "${cc[@]}" -o pan pan.c >>log 2>&1
    ) || { cat "$dir/log"; return 1; }
    (cd "$dir" && timeout "$limit_s" ./pan -m1000000 "${pan[@]}" >report 2>&1) || true
    mv "$dir/report" "$work/report"
    rm -rf "$dir"
}

# A search that stopped early (depth, memory, time) says so, or lacks its last lines.
complete() { grep -q 'errors: 0$' "$work/report" && ! grep -qi 'not completed\|too small\|out of memory\|max search depth' "$work/report"; }
faulty() { grep -Eq 'errors: [1-9][0-9]*$' "$work/report"; }
states() { sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/report"; }
cause() { sed -n 's/^pan:[0-9]*: //p' "$work/report" | head -n 1; }

status=0
bad() { echo "spin.sh: $*"; sed 's/^/    /' "$work/report" | head -n 40; status=1; }

models=("$@")
[ ${#models[@]} -gt 0 ] || models=(src/*/*.pml)
for model in "${models[@]}"; do
    search "$model" 0 || { echo "spin.sh: $model does not compile"; status=1; continue; }
    if complete; then echo "$model: proved, $(states) states"; else bad "$model: not proved"; fi
    mutants=$(line_of mutants "$model")
    [ -n "$mutants" ] || { echo "spin.sh: $model has no line \"// mutants: ...\""; status=1; }
    for k in $mutants; do
        search "$model" "$k" || { echo "spin.sh: mutant $k of $model does not compile"; status=1; continue; }
        if faulty; then echo "$model: mutant $k caught: $(cause)"; else bad "$model: mutant $k passes"; fi
    done
done
exit $status
