#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench/merge.sh, bench/accuracy.sh, bench/workers.py and bench/hosts.py run, with a tiny job or a few steps, and print
# their tables: every cell has a figure that is the run's, runs that are there are not made again, and those that fail
# say so.
set -uo pipefail
. "$(dirname "$0")/help.sh"
needs jq python3
export MUSTER NO_COLOR=1

cat >tiny.yaml <<'END'
name: tiny
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 160, noise: 0.2, scale: 0.0039}
  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 80, noise: 0.2, scale: 0.0039}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 10}
  - {name: act, type: relu}
  - {name: out, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
train: {batch: 16, steps: 10}
updater: {type: sgd, momentum: 0.9, rate: 0.05}
checkpoint: {every: never}
END

# ---- merge.sh ----
merge() { ROWS=merge.tsv GROUPS_N=2 timeout 60 bash "$root/bench/merge.sh" tiny.yaml >table 2>err || bad "merge.sh: $(tail -n 3 err)"; }
RULES="average elastic" EVERY="1 5" SEEDS="1 2" merge
number='[0-9]+\.[0-9]{2}'
size() { printf '%.1f' "$(jq -n "2 * 2 * 4 * 694 * 10 / $1 / 1e6")"; } # 694 weights of two groups, given and taken
want="\\| job \\| merge \\| every 1 \\| every 5 \\|
\\|---\\|---\\|---\\|---\\|
\\| tiny \\| average \\| $number, $number \\($(size 1) MB\\) \\| $number, $number \\($(size 5) MB\\) \\|
\\| tiny \\| elastic \\| $number, $number \\($(size 1) MB\\) \\| $number, $number \\($(size 5) MB\\) \\|"
[[ $(cat table) =~ ^$want$ ]] || bad "merge.sh prints another table: $(cat table)"
[ "$(wc -l <merge.tsv)" = 8 ] || bad "merge.sh has other rows: $(cat merge.tsv)"
# The figure is the run's; a run that is there is not made again, one that cannot be says so.
"$MUSTER" train tiny.yaml --learners 2 --seed 2 --set cluster.server_groups=2 --set cluster.sync_every=5 --out own --json \
    --quiet >own.json 2>err || bad "own: $(cat err)"
accuracy=$(printf '%.2f' "$(jq '100 * .test_accuracy' own.json)")
grep -q "^tiny	average	5	2	$accuracy	" merge.tsv || bad "merge.sh has not $accuracy: $(cat merge.tsv)"
cp merge.tsv before
RULES="average none" EVERY=5 SEEDS=1 merge
head -n 8 merge.tsv | cmp -s - before && [ "$(tail -n +9 merge.tsv)" = "tiny	none	5	1	failed" ] ||
    bad "merge.sh, again: $(cat merge.tsv)"
grep -qx '| tiny | none | - | failed |' table || bad "merge.sh does not show a failed run: $(cat table)"

# ---- accuracy.sh ----
ROWS=accuracy.tsv RUNS=async LEARNERS=2 WARM="auto never" RULES=auto+auto SEEDS=1 timeout 60 bash "$root/bench/accuracy.sh" \
    tiny.yaml >table 2>err || bad "accuracy.sh: $(tail -n 3 err)"
want="\\| job \\| protocol \\| rules \\| warm start \\| 1 \\| 2 \\|
\\|---\\|---\\|---\\|---\\|---\\|---\\|
\\| tiny \\| alone \\| - \\| - \\| $number \\| - \\|
\\| tiny \\| async \\| auto\\+auto \\| auto \\| - \\| $number \\|
\\| tiny \\| async \\| auto\\+auto \\| never \\| - \\| $number \\|"
[[ $(cat table) =~ ^$want$ ]] || bad "accuracy.sh prints another table: $(cat table)"

# ---- workers.py ----
small=()
for e in data.train.shape='[3, 67, 67]' data.train.classes=10 net.conv1.filters=32 net.conv2.filters=48 \
    net.conv3.filters=48 net.conv4.filters=32 net.conv5.filters=32 net.fc6.outputs=16 net.fc7.outputs=16 net.fc8.outputs=10; do
    small+=(--set "$e")
done
timeout 90 python3 "$root/bench/workers.py" --muster "$MUSTER" --workers 1,2 --batch 32 --steps 25 --rounds 1 --no-peer \
    "${small[@]}" --json workers.json --svg workers.svg >table 2>err || bad "workers.py: $(tail -n 3 err)"
if [ "$(nproc)" -ge 2 ]; then
    awk 'NR == 2 { good = $1 == "workers" && $2 == "data" && $3 == "model" && $4 == "hybrid" && $5 == "auto" }
        NR > 2 && ($1 != NR - 2 || NF < 6 || $2 <= 0 || $3 <= 0 || $4 <= 0 || $5 <= 0 || $6 <= 0 || $6 > 1) { good = 0 }
        END { exit !(good && NR == 4) }' table || bad "workers.py prints another table: $(cat table)"
    jq -e '.batch == 32 and (.rows | keys == ["1", "2"] and (.["2"] | keys == ["auto", "data", "hybrid", "model"]))' \
        workers.json >/dev/null || bad "workers.py writes $(cat workers.json)"
    grep -q '</svg>' workers.svg && grep -q '>hybrid, [0-9]*/s at 2<' workers.svg || bad "workers.py draws $(cat workers.svg)"
else
    grep -q 'left out: \[2\]' table || bad "workers.py with one core: $(cat table)"
fi

# ---- hosts.py, with all ranks on this host ----
hosts() { # what is printed is in `table`
    timeout 120 python3 "$root/bench/hosts.py" --muster "$MUSTER" --here --rounds 1 --json hosts.json "$@" >table 2>err
}
hosts --parts speed,wire --only mlp --seconds 0.5 --ranks 2 --steps 4,8
code=$?
if [ $code = 77 ]; then
    grep -q '^skipped: .*MPI' table || bad "hosts.py skips without a reason: $(cat table err)"
else
    [ $code = 0 ] || bad "hosts.py: $(tail -n 3 err)"
    # 784-1000-500-250-10 has 1,413,260 floats, of which two ranks send each other as many for a dense step.
    jq -e '(.rows | map(.part) == ["speed", "wire"]) and
        (.rows[0] | .workload == "mlp" and .one[0] > 0 and .two[0] > 0) and
        (.rows[1] | .floats == 1413260 and .sums == 4 * 1413260 and .dense > .sums and .dense < 1.05 * .sums
            and .chosen > 4 * (784 + 1000) and .dense > 100 * .chosen)' hosts.json >/dev/null ||
        bad "hosts.py measures $(cat hosts.json)"
    awk '/^mlp/ && ++n == 1 && ($3 <= 0 || $4 <= 0 || $5 != sprintf("%.2fx", $5)) { wrong = 1 }
        /^mlp/ && n == 2 && ($3 != 2 || !/met.*met/) { wrong = 1 } END { exit !(n == 2 && !wrong) }' table ||
        bad "hosts.py prints other tables: $(cat table)"
    grep -q '^2 of 2 goals met' table || bad "hosts.py counts other goals: $(cat table)"
    hosts --parts slow --only cifar --slow-hosts 2 --slow-seconds 1.5 --every 5,10 || bad "hosts.py, slow: $(tail -n 3 err)"
    jq -e '[.rows[] | [.merge, .every]] == [[null, 0], ["average", 5], ["average", 10], ["outer", 5], ["outer", 10]] and
        all(.rows[]; .speed[0] > 0 and .ratio[0] > 0 and .bytes[0] > 0) and
        (.rows[0].bytes[0] > 2 * .rows[1].bytes[0]) and (.rows[1].bytes[0] > .rows[2].bytes[0])' hosts.json >/dev/null || bad "hosts.py, slow, measures $(cat hosts.json)"
    hosts --parts overlap --only lenet --overlap-hosts 2 --seconds 1.5 || bad "hosts.py, overlap: $(tail -n 3 err)"
    jq -e '[.rows[].way] == ["base", "adv", "adv*"] and all(.rows[]; .overlap[0] > 0 and .overlap[0] < 1 and
        .lowest[0] <= .overlap[0] and .speed[0] > 0 and .bytes[0] > 0 and .staleness[0] <= 2)' hosts.json >/dev/null ||
        bad "hosts.py, overlap, measures $(cat hosts.json)"
    [ "$(grep -c '^lenet  *64 ' table)" = 3 ] || bad "hosts.py, overlap, prints $(cat table)"
fi
cp "$MUSTER" muster # without the module beside it
timeout 60 python3 "$root/bench/hosts.py" --muster muster --here >table 2>err
[ $? = 77 ] && grep -q '^skipped: .*MPI\|^skipped: needs mpirun' table || bad "hosts.py without MPI: $(cat table err)"
finish
