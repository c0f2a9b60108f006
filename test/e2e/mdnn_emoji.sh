#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The emoji example: its script prepares the data, an epoch brings drawings and words of emoji that were never
# seen nearer than chance, and the sheet shows them. Skipped (77) where the pairs are not there.
set -uo pipefail
: "${MUSTER:?path of the program}"
root=$PWD
pairs=${MUSTER_EMOJI:-$root/../shared/data/emoji}
ls "$pairs"/images.bin* "$pairs"/pairs.tsv* >/dev/null 2>&1 || { echo "no emoji pairs in $pairs"; exit 77; }
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/examples"
cp "$root"/examples/mdnn-emoji* "$work/examples"
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

examples/mdnn-emoji-data.py "$pairs" data/emoji >out || bad "the script ended with $?"
grep -q 'test *585 pairs of *197 emoji' out || bad "$(cat out)"
"$MUSTER" train examples/mdnn-emoji.yaml --epochs 1 --out run -q || bad "training ended with $?"
"$MUSTER" extract run --recall image_code:text_code --group emoji --sheet sheet.svg --captions data/emoji/test.txt \
    --json >recall.json || bad "extract ended with $?"
at10=$(sed -n 's/.*"from":"image_code"[^}]*"recall_at_10":\([0-9.]*\).*/\1/p' recall.json)
echo "recall@10 after one epoch: $at10 (chance: 0.05)"
awk -v r="${at10:-0}" 'BEGIN { exit !(r > 0.15) }' || bad "recall@10 is $at10: $(cat recall.json)"
grep -q '"queries":585,"groups":197' recall.json || bad "$(cat recall.json)"
grep -q '<image' sheet.svg || bad "the sheet shows nothing"

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
