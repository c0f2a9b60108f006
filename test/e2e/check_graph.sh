#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check --workers --graph: the net of a group of workers, its problems with their places, and what one worker has.
set -uo pipefail
: "${MUSTER:?path of the program}"
case $MUSTER in /*) ;; *) MUSTER=$PWD/$MUSTER ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
export NO_COLOR=1

cat >job.yaml <<'END'
name: split
data:
  train: {reader: synthetic, shape: [3, 8, 8], classes: 5, records: 64}
net:
  - {name: c1, type: convolution, src: data.image, filters: 6, kernel: 3, partition: batch}
  - {name: bn, type: batch_norm, partition: feature}
  - {name: ip, type: inner_product, outputs: 50, partition: {batch: 1, feature: 2}}
  - {name: out, type: inner_product, outputs: 5, location: 1}
  - {name: loss, type: softmax_loss, src: [out, data.label], location: 1}
train: {batch: 8, epochs: 1}
updater: {type: sgd, rate: 0.01}
END

"$MUSTER" check job.yaml --workers 2 --graph >out 2>err || bad "a good job is refused: $(cat err)"
for line in '     0  bridge(c1@0>bn@1) ' '     1  concat(c1>bn@1) ' '     1  ip@1 ' '     1  loss '; do
    grep -qF "$line" out || bad "no line \`$line\`"
done
# c1 gives each of the two batch_norm parts half of its channels from the other worker, and so on.
bytes=$(sed -n 's/.*bridges, \([0-9]*\) bytes.*/\1/p' out)
[ "$bytes" = $((2 * (2 * 4 * 3 * 36 * 4 + 2 * 8 * 3 * 36 * 4 + 8 * 25 * 4))) ] || bad "$bytes bytes"

# The same as pictures: every bridge with its bytes.
cp out text
"$MUSTER" check job.yaml --workers 2 --graph --svg net.svg --dot net.dot >out 2>err || bad "no pictures: $(cat err)"
cmp -s out text || bad "pictures change the text"
python3 - "$bytes" <<'PY' || bad "the pictures are not the text's"
import re, sys, xml.etree.ElementTree as xml
def total(labels):
    found = [re.search(r"(2 x )?(\d+) bytes$", l) for l in labels]
    return len(found), sum(int(m[2]) * (2 if m[1] else 1) for m in found)
def label(bridge): return [t for t in bridge.itertext() if t.strip()][-1]
svg = xml.parse("net.svg").getroot()
lines = open("text").read().splitlines()
want = int(re.match(r"(\d+) bridges", lines[-1])[1]), int(sys.argv[1])
assert total([label(g) for g in svg.iter() if g.get("class") == "bridge"]) == want, "svg"
dot = open("net.dot").read()
assert total(re.findall(r'label="([^"]* bytes)", color', dot)) == want, "dot"
for part in ("c1@0", "bn@1", "ip@1", "loss"):
    assert f">{part}<" in open("net.svg").read() and f'label="{part}\\n' in dot, part
PY
if command -v dot >/dev/null; then dot -Tsvg net.dot >drawn 2>err || bad "graphviz: $(cat err)"; fi
"$MUSTER" check job.yaml --workers 2 --svg none/net.svg >out 2>err
[ $? = 1 ] || bad "a picture in no folder: $(cat err)"
[ -e none ] && bad "a folder is made"
"$MUSTER" check job.yaml --svg one.svg >out 2>err
[ $? = 2 ] || bad "one worker has a picture: $(cat out)"
[ -e one.svg ] && bad "a picture of nothing"

"$MUSTER" check job.yaml --graph >out 2>err
[ $? = 2 ] || bad "one worker has a graph: $(cat out)"
grep -qF 'the net of this job is not split' err || bad "odd: $(cat err)"

"$MUSTER" check job.yaml --workers 2 --set net.bn.partition=batch >out 2>err
[ $? = 3 ] || bad "batch_norm by batch is accepted"
grep -qF 'layer `bn` of type `batch_norm` cannot be cut by batch: mean and variance' err || bad "odd: $(cat err)"

"$MUSTER" check job.yaml --workers 17 >out 2>err
[ $? = 3 ] || bad "17 workers are accepted"
"$MUSTER" check job.yaml --workers 3 --partition batch >out 2>err
[ $? = 0 ] || bad "three workers are refused: $(cat err)"

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
