#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sentences by the job of `init text`, two paths and the better answer: trained, tested and asked, with one
# learner, with two, and repeated from the log of updates; the model needs nothing but itself.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

# Three labels, told by one word among others; 600 lines, and some to test on.
lines() {
    awk -v n="$1" -v seed="$2" 'BEGIN { srand(seed); split("light heat door", kind, " ")
        split("lamp bulb bright;warm cold degrees;open shut lock", own, ";")
        for (i = 0; i < n; i++) { k = i % 3 + 1; split(own[k], w, " ")
            printf "%s\tplease make the %s %s number %d now\n", kind[k], w[1 + int(3 * rand())],
                rand() < 0.5 ? "thing" : "it", int(40 * rand()) } }'
}
lines 600 1 >train.tsv
lines 90 2 >test.tsv
"$MUSTER" init text train.tsv job.yaml --test test.tsv >out 2>err || { bad "init ended with $?"; cat out err; }
grep -q '600 sentences, 3 labels' out err || bad "init says: $(cat out err)"
small=(--set net.words.dim=20 --set net.windows.filters=8 --set train.epochs=2)

"$MUSTER" train job.yaml "${small[@]}" --out one -q --json >one.json 2>err ||
    { bad "training ended with $?"; cat err; }
grep -q '"test_accuracy":1.0' one.json || bad "test accuracy: $(cat one.json)"
rm train.tsv
"$MUSTER" test one --json >test.json 2>err || { bad "test ended with $?"; cat err; }
grep -q '"accuracy":1.0' test.json || bad "test: $(cat test.json)"
"$MUSTER" predict one 'make the lamp bright' --top 3 --format csv >answers.csv 2>err || { bad "predict"; cat err; }
[ "$(sed -n 2p answers.csv | cut -d, -f5)" = light ] || bad "answers: $(cat answers.csv)"
awk -F, 'NR > 1 { sum += $4 } END { exit !(sum > 0.999 && sum < 1.001) }' answers.csv ||
    bad "probabilities do not sum to 1: $(cat answers.csv)"

lines 600 1 >train.tsv
"$MUSTER" train job.yaml "${small[@]}" --out two -q --learners 2 --protocol async --record log >out 2>err ||
    { bad "two learners"; cat err; }
"$MUSTER" train job.yaml "${small[@]}" --out again -q --replay log >out 2>err || { bad "replay"; cat err; }
cmp two/model.safetensors again/model.safetensors || bad "the repeated run ends with another model"

exit $((wrong > 0))
