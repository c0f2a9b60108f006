#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check --explain: AlexNet on 4 workers is cut by batch below and by feature above, and what that moves; a job
# that says `auto` itself; what is refused.
set -uo pipefail
: "${MUSTER:?path of the program}"
case $MUSTER in /*) ;; *) MUSTER=$PWD/$MUSTER ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
export NO_COLOR=1

alexnet() {
    "$MUSTER" check "$root/examples/alexnet-owt.yaml" --workers 4 --explain --set train.batch=64 "$@" >out 2>err ||
        bad "AlexNet with $*: $(cat err)"
}
cut_of() { # LAYER: the option marked with a star
    awk -v l="$1" '/^[a-z]/ {name = $1} name == l && /\*/ {sub(/.*\* /, ""); print $1; exit}' out
}
bytes_of() { # WHAT GRADIENTS
    sed -n "s/^$1 .*$2 .* \([0-9]*\) bytes$/\1/p" out
}

# Of the net by hand: 61,100,840 parameters, of which each worker but the first gives and reads all.
for how in --dense ""; do
    alexnet $how
    for l in conv1 conv2 conv3 conv4 conv5; do [ "$(cut_of $l)" = batch ] || bad "$how $l by $(cut_of $l)"; done
    for l in fc6 fc7 fc8; do [ "$(cut_of $l)" = feature ] || bad "$how $l by $(cut_of $l)"; done
    data=$(bytes_of 'by batch' dense) chosen=$(bytes_of 'as chosen' dense)
    [ "$data" = $((61100840 * 4 * 3 * 2)) ] || bad "data parallel moves $data bytes"
    [ "$((chosen * 5))" -le "$data" ] || bad "chosen: $chosen of $data bytes"
    # 2,469,696 parameters of convolutions by batch; fc6, fc7, fc8 read 9216, 4096 and 4096 features of the
    # rows of others, there and back; the loss has 1000 of a quarter of the rows, of which a quarter is its own
    want=$((2469696 * 4 * 3 * 2 + 2 * 4 * 64 * 3 * (9216 + 4096 + 4096) + 2 * 4 * 64 * 1000 * 3 / 4))
    [ "$chosen" = "$want" ] || bad "chosen moves $chosen bytes, by hand $want"
done
[ "$(bytes_of 'by batch' 'as sent')" -lt "$data" ] || bad "factors are no smaller"

# What is explained is what is made: the last line of the graph has the same values.
"$MUSTER" check "$root/examples/alexnet-owt.yaml" --workers 4 --graph --partition auto --set train.batch=64 >graph 2>err ||
    bad "no graph: $(cat err)"
[ "$(sed -n 's/.*bridges, \([0-9]*\) bytes.*/\1/p' graph)" = $((chosen - 2469696 * 4 * 3 * 2)) ] || bad "another graph"

alexnet --json
python3 - <<'PY' || bad "the JSON is odd"
import json
x = json.load(open("out"))
assert x["workers"] == 4 and x["exact"] and len(x["layers"]) == 19
cut = {l["layer"]: [o["cut"] for o in l["options"] if o["chosen"]] for l in x["layers"]}
assert cut["conv5"] == ["batch"] and cut["fc6"] == ["feature"], cut
assert x["sums"]["batch"]["dense"]["gradients"] == 61100840 * 12
PY

cat >job.yaml <<'END'
name: split
data:
  train: {reader: synthetic, shape: [3, 8, 8], classes: 5, records: 64}
net:
  - {name: c1, type: convolution, src: data.image, filters: 64, kernel: 3}
  - {name: bn, type: batch_norm}
  - {name: ip, type: inner_product, outputs: 500}
  - {name: out, type: inner_product, outputs: 5, partition: feature}
  - {name: loss, type: softmax_loss, src: [out, data.label], location: 1}
train: {batch: 8, steps: 3}
updater: {type: sgd, rate: 0.01}
cluster: {workers: 2, partition: auto}
END
"$MUSTER" check job.yaml --explain >out 2>err || bad "a good job is refused: $(cat err)"
[ "$(cut_of bn)" = feature ] || bad "batch_norm is cut by $(cut_of bn)"
grep -q '^out .*\* feature .* as the job says$' out || bad "out: $(grep ^out out)"
grep -q '^loss .*\* whole at 1 .* as the job says$' out || bad "loss: $(grep ^loss out)"
"$MUSTER" train job.yaml --set checkpoint.every=never >out 2>err || bad "auto does not train: $(tail -3 err)"

"$MUSTER" check job.yaml --set net.ip.partition=auto --set net.ip.location=1 >out 2>err
[ $? = 3 ] || bad "auto with a location is accepted"
grep -qF 'layer `ip` has a `location`, and `partition: auto` may cut it' err || bad "odd: $(cat err)"
"$MUSTER" check job.yaml --set cluster.workers=1 --explain >out 2>err
[ $? = 2 ] && grep -qF 'the net of this job is not split' err || bad "one worker has a choice: $(cat err)"

# Server groups: every figure is that of one, as many times, and the choice is the same.
"$MUSTER" check job.yaml --explain --json --set cluster.learners=2 >one 2>err || bad "two learners: $(cat err)"
groups='--set cluster.server_groups=2 --set cluster.learners=4 --set train.batch=16 --set cluster.sync_every=6'
# shellcheck disable=SC2086
"$MUSTER" check job.yaml --explain --json $groups --set cluster.sync_parts=2 >two 2>err || bad "server groups: $(cat err)"
python3 - <<'PY' || bad "figures of server groups are odd"
import json
one, two = json.load(open("one")), json.load(open("two"))
for a, b in zip(one["layers"], two["layers"]):
    for x, y in zip(a["options"], b["options"]):
        assert x["chosen"] == y["chosen"] and abs(2 * x["cost"] - y["cost"]) < 20, (a["layer"], x, y)
for sums in one["sums"]:
    for how in ("dense", "sent"):
        for what, n in one["sums"][sums][how].items():
            assert two["sums"][sums][how][what] == 2 * n, (sums, how, what)
assert "merge" not in one and two["server_groups"] == 2
m = two["merge"]
values = 64 * 3 * 9 + 64 + 4 * 64 + 64 * 36 * 500 + 500 + 500 * 5 + 5 # with statistics; given and taken by two groups
assert m["bytes"] == sum(m["part_bytes"]) == 2 * 2 * 4 * values, (m, 16 * values)
assert (m["rule"], m["sync_every"], m["sync_parts"], len(m["part_bytes"])) == ("average", 6, 2, 2), m
PY
# shellcheck disable=SC2086
"$MUSTER" check job.yaml --explain $groups >out 2>err || bad "server groups in words: $(cat err)"
grep -qx '2 server groups of 2 learners: figures are of all of them together' out || bad "no word of server groups: $(tail -n 3 out)"
grep -qx 'they are merged by average every 6 updates: [0-9]* bytes given and taken, [0-9]* an update' out ||
    bad "no word of merges: $(tail -n 3 out)"

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
