#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# get-text-data.sh - labelled sentences for kim-trec6.yaml and text-accuracy.sh, one `label<tab>text` a line.
#
#   examples/get-text-data.sh [trec|banking77|clinc150]... [--into FOLDER]     default: all, into data
#
# trec        kinds of questions (Li and Roth 2002): 6 coarse and 50 fine labels, 5,452 + 500 questions
# banking77   what customers ask a bank (PolyAI, CC BY 4.0): 77 intents, 10,003 + 3,080 sentences
# clinc150    what people ask an assistant (Larson et al. 2019, CC BY 3.0): 150 intents, 15,000 + 4,500 sentences
# Needs curl and python3. The number of lines of each file is checked.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$here/../data
want=
die() { echo "get-text-data: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
    case $1 in
    trec | banking77 | clinc150) want="$want $1" ;;
    --into) [ $# -gt 1 ] || die "--into needs a folder"; out=$2; shift ;;
    *) die "unknown word '$1'; there are trec, banking77, clinc150 and --into FOLDER" ;;
    esac
    shift
done
mkdir -p "$out" || die "cannot create $out"
out=$(CDPATH='' cd -- "$out" && pwd)
work=$(mktemp -d "$out/.download-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

fetch() { curl -fsSL -o "$work/$2" "$1" || die "cannot fetch $1"; }

# keep NAME LINES: a finished file of so many lines
keep() {
    [ "$(wc -l <"$work/$1")" -eq "$2" ] || die "$1 has $(wc -l <"$work/$1") lines, not $2"
    mv "$work/$1" "$out/$1"
}

# Lines `DESC:manner How did ...` in Latin-1.
get_trec() {
    fetch https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label train
    fetch https://cogcomp.seas.upenn.edu/Data/QA/QC/TREC_10.label test
    for part in train test; do
        iconv -f latin1 -t utf-8 "$work/$part" | sed 's/ /\t/' >"$work/trec50.$part.tsv"
        sed 's/:[^\t]*//' "$work/trec50.$part.tsv" >"$work/trec6.$part.tsv"
        n=$([ $part = train ] && echo 5452 || echo 500)
        keep "trec50.$part.tsv" "$n"
        keep "trec6.$part.tsv" "$n"
    done
}

get_banking77() {
    at=https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/master/banking_data
    for part in train test; do
        fetch "$at/$part.csv" "$part.csv"
        python3 -c 'import csv, sys
for row in csv.DictReader(sys.stdin):
    print(row["category"].replace(" ", "_"), " ".join(row["text"].split()), sep="\t")' \
            <"$work/$part.csv" >"$work/banking77.$part.tsv"
    done
    keep banking77.train.tsv 10003
    keep banking77.test.tsv 3080
}

get_clinc150() {
    fetch https://raw.githubusercontent.com/clinc/oos-eval/master/data/data_full.json clinc.json
    for part in train test; do
        python3 -c 'import json, sys
for text, label in json.load(sys.stdin)[sys.argv[1]]:
    print(label, " ".join(text.split()), sep="\t")' $part <"$work/clinc.json" >"$work/clinc150.$part.tsv"
    done
    keep clinc150.train.tsv 15000
    keep clinc150.test.tsv 4500
}

for set in ${want:-trec banking77 clinc150}; do
    "get_$set"
    echo "get-text-data: $set is in $out" >&2
done
