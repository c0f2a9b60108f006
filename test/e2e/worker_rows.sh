#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each worker of a learner reads the rows of the batch that its layers look at, and no others; what is learned is the
# same to the bit as where every worker reads all.
set -uo pipefail
. "$(dirname "$0")/help.sh"
export NO_COLOR=1

# Random crops, mirrors and shifts, and noise, whose draws go by the number of the sample.
job() { # DATA, LAYERS at the end
    cat <<END
name: rows
data:
  train: $1
net:
  - {name: fc1, type: inner_product, src: ${3:-data.image}, outputs: 20}
  - {name: act, type: relu}
  - {name: drop, type: dropout, ratio: 0.3}
  - {name: fc2, type: inner_product, outputs: 5}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
$2
train: {batch: 12, steps: 8}
updater: {type: sgd, momentum: 0.9, rate: 0.01}
checkpoint: {every: never}
cluster: {workers: 2, server: beside}
END
}
images='{reader: synthetic, shape: [3, 10, 10], classes: 5, records: 50, scale: 0.01, crop: [8, 8], mirror: true, shift: [1, 1]}'
# Layers that lead nowhere, whole at each worker: so each reads all rows.
all='  - {name: all0, type: relu, src: data.image, partition: none, location: 0}
  - {name: all1, type: relu, src: data.image, partition: none, location: 1}'

# NAME: trains name.yaml; records that both workers have read, and what was learned, into $read and $sum.
train() {
    local name=$1
    shift
    rm -rf "$name.d"
    "$MUSTER" train "$name.yaml" --out "$name.d" --json --quiet "$@" >run 2>err || bad "$name: $(tail -3 err)"
    read=$(python3 -c 'import json; print(json.load(open("run"))["records_read"])')
    sum=$(python3 - "$name.d"/checkpoints/*/model.safetensors <<'PY'
import hashlib, sys # of the values: the head holds the job, too
b = open(sys.argv[1], "rb").read()
print(hashlib.sha256(b[8 + int.from_bytes(b[:8], "little"):]).hexdigest())
PY
    )
}

job "$images" "" >some.yaml
job "$images" "$all" >all.yaml
train all
[ "$read" = $((8 * 12 * 2)) ] || bad "two workers that look at all rows read $read records"
want=$sum
train some
[ "$read" = $((8 * 12)) ] || bad "two workers by batch read $read records"
[ "$sum" = "$want" ] || bad "other weights where each reads its rows"
train some --learners 2
[ "$read" = $((8 * 12)) ] || bad "two learners of two workers by batch read $read records"
train some --set cluster.partition=feature # the loss is cut by nothing: whole at the first worker
[ "$read" = $((8 * 12 * 2)) ] || bad "two workers by feature read $read records"
train some --set cluster.partition=none # the second has nothing to do
[ "$read" = $((8 * 12)) ] || bad "one busy worker reads $read records"
train some --set cluster.workers=1 # reads ahead
[ "$read" -ge $((8 * 12)) ] || bad "one process reads $read records"

# A bad line is replaced by the same good one; a compressed file is read as a whole, its rows are not.
python3 - <<'PY'
with open("rows.csv", "w") as f:
    for i in range(60): f.write("odd\n" if i in (7, 33) else f"{i % 7},{i % 3},{i / 60:.4f},{i % 5}\n")
PY
gzip -k rows.csv
for file in rows.csv rows.csv.gz; do
    csv="{reader: csv, file: $file, label: 3, max_bad: 5}"
    job "$csv" "" data.features >some.yaml
    job "$csv" "${all//data.image/data.features}" data.features >all.yaml
    train all
    want=$sum
    train some
    [ "$sum" = "$want" ] || bad "$file: other weights where each reads its rows"
    python3 -c 'import json; r = json.load(open("run")); assert r["bad_records"] == 2 and r["records_read"] < 110, r' ||
        bad "$file: $(cat run)"
done

# Text in streams: a record goes on where the one a batch before ended.
chars_job 12 >some.yaml
chars_job 12 '  - {name: all0, type: one_hot, src: data.chars, partition: none, location: 0}
  - {name: all1, type: one_hot, src: data.chars, partition: none, location: 1}' >all.yaml
train all
want=$sum
train some
[ "$sum" = "$want" ] || bad "streams: other weights where each reads its rows"
[ "$read" = $((12 * 8)) ] || bad "streams: $read records"

finish
