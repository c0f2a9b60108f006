#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `muster data shard`: each rank reads a file of its own, and all together train on the whole: the same steps as one
# process where a step is all records, each record once an epoch; stops and resumes; what cannot be right is refused.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"

job mlp '{batch: 54, epochs: 2}' '{type: sgd, momentum: 0.9, rate: 0.02}' <<'END'
  - {name: fc1, type: inner_product, src: data.image, outputs: 60}
  - {name: act, type: tanh}
END
sed 's/train: {reader: synthetic.*/train: {reader: record, file: "parts-RANKS\/shard-{rank}.rec", scale: 0.0039}/' mlp.yaml >parts.yaml
for n in 2 3; do
    "$MUSTER" data shard mlp.yaml --parts $n --out parts-$n >shard.out 2>&1 || bad "shard: $(cat shard.out)"
    grep -q "810 records in $n shards" shard.out || bad "shard says $(cat shard.out)"
    sed "s/RANKS/$n/" parts.yaml >parts-$n.yaml
    all=0
    for k in $(seq 0 $((n - 1))); do
        "$MUSTER" data verify parts-$n/shard-$k.rec --json >verify.out 2>&1 || bad "shard $k of $n: $(cat verify.out)"
        all=$((all + $(jq .records verify.out)))
    done
    [ $all = 810 ] || bad "$n shards have $all records"
done
"$MUSTER" check parts-3.yaml >check.out 2>&1 || bad "check: $(cat check.out)"

# A step of all records is the same step, whoever reads which of them.
run whole mlp.yaml --learners 2 --set train.batch=810 --set train.epochs=0 --steps 10
for n in 2 3; do
    run_on $n whole-$n parts-$n.yaml --learners $n --set train.batch=810 --set train.epochs=0 --steps 10
    near whole-$n whole 1e-4 || bad "$n shards are not the whole"
    run_on $n epochs-$n parts-$n.yaml
    # Readers are at most a ring of batches ahead of what is used.
    jq -e '.samples == 1620 and .applied_samples == 1620 and .steps == 30 and .records_read >= 1620 and
        .test_accuracy > 0.9' epochs-$n.json >/dev/null || bad "$n shards: $(cat epochs-$n.json)"
done

# Server groups, and a copy of the weights at rank 0, deal samples as learners in step do.
run_on 2 groups parts-2.yaml --learners 2 --protocol async --set cluster.sync_every=5
run_on 2 relayed parts-2.yaml --set cluster.architecture=adv
near relayed epochs-2 1e-4 || bad "with the weights at rank 0 other records are read"
jq -e '.samples == 1620 and .applied_samples == 1620' groups.json >/dev/null || bad "groups: $(cat groups.json)"

# A run that was stopped goes on where it was.
long stopped parts-2.yaml --set train.epochs=0 --steps 100000
kill -TERM "$(rank_1_of $pid)"
wait $pid
jq -e '.stopped_by == "signal" or .stopped_by == "stop"' stopped.json >/dev/null || bad "SIGTERM: $(cat stopped.json) $(tail -n 5 stopped.err)"
step=$(jq .steps stopped.json)
timeout 180 "${mpi[@]}" -n 2 "$MUSTER" train --resume stopped --quiet --json --steps $((step + 20)) >again.json 2>again.err ||
    bad "resume: $(tail -n 4 again.err)"
run_on 2 straight parts-2.yaml --set train.epochs=0 --steps $((step + 20))
same stopped straight

# Of groups that stood at several places the last steps are made again, and no sample is left out.
long silent parts-2.yaml --protocol async --set cluster.sync_every=5 --set train.epochs=0 --steps 100000 \
    --set 'checkpoint.every=20 steps'
kill -KILL $(ranks_of $pid)
wait $pid
rm -rf silent/checkpoints/*.tmp* # being made
step=$(step_of silent)
timeout 180 "${mpi[@]}" -n 2 "$MUSTER" train --resume silent --quiet --json --steps $((step + 50)) >again.json 2>again.err ||
    bad "resume of groups: $(tail -n 4 again.err)"
jq -e ".steps == $step + 50 and .samples == 54 * .steps and .applied_samples == .samples + .repeated_samples" again.json \
    >/dev/null || bad "resumed from $step: $(jq -c '{steps, samples, applied_samples, repeated_samples}' again.json)"

# ---- refused ----
train=("$MUSTER" train parts-3.yaml --out no)
refused 3 'shard-0.rec` is shard 0 of 3, and there are other ranks' 2 "${train[@]}"
"${train[@]}" >no.out 2>&1 && bad "one process trains on a shard"
grep -q 'shard-0.rec` is shard 0 of 3, and one process trains' no.out || bad "one process: $(cat no.out)"
refused 3 'shard-1.rec` is shard 1 of 2, and this is rank 0' 2 "$MUSTER" train parts-2.yaml --out no \
    --set data.train.file=parts-2/shard-1.rec
"$MUSTER" data shard mlp.yaml --set data.train.records=812 --parts 2 --out other >/dev/null 2>&1
cp other/shard-1.rec parts-2/shard-1.rec
refused 3 ', which does not belong to `parts-2/shard-' 2 "$MUSTER" train parts-2.yaml --out no # either rank may be first
grep -q 'parts-2/shard-0.rec`.*parts-2/shard-1.rec`\|parts-2/shard-1.rec`.*parts-2/shard-0.rec`' no.out ||
    bad "not both files are named: $(cat no.out)"
rm parts-2/shard-1.rec
refused 3 'cannot open `parts-2/shard-1.rec`' 2 "$MUSTER" train parts-2.yaml --out no
refused 3 'shards of the data do not go with `architecture` and `async`' 3 "${train[@]}" --protocol async \
    --set cluster.architecture=adv
usage() { # WORDS options...
    "$MUSTER" data "${@:2}" >no.out 2>&1
    [ $? = 2 ] && grep -qF -- "$1" no.out || bad "$1: $(cat no.out)"
}
usage 'needs `--out`' shard mlp.yaml --parts 2
usage 'needs `--parts`' shard mlp.yaml --out x
usage 'needs `--parts`' shard mlp.yaml --out x --parts 1000
usage '`--parts` is for `data shard`' pack mlp.yaml x.rec --parts 3
finish
