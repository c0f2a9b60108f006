#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `muster data`: pack from words and from a job, look, verify, find damage.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
expect() {
    local want=$1 got
    shift
    "$@" >out 2>err
    got=$?
    [ $got = "$want" ] || bad "\`$*\` ended with $got, not $want: $(head -n 3 err)"
}
has() { grep -qF -- "$2" "$1" || bad "$1 has no \`$2\`: $(head -n 5 "$1")"; }

words='reader=synthetic shape=[3,8,8] classes=4 records=500'
expect 0 "$MUSTER" data pack $words a.rec
has err 'wrote a.rec: 500 records'
expect 0 "$MUSTER" data info a.rec
has out 'records  500'
has out '(3, 8, 8), image'
expect 0 "$MUSTER" data verify a.rec
has out '500 records, all good'
expect 0 "$MUSTER" data info a.rec --json
has out '"records":500'

# The same block in a job gives the same file; a packed file packs to itself.
cat >job.yaml <<'JOB'
data:
  train: {reader: synthetic, shape: [3, 8, 8], classes: 4, records: 500}
  test: {reader: synthetic, shape: [3, 8, 8], classes: 4, records: 100}
net:
  - {name: ip, type: inner_product, src: data.image, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {epochs: 1}
updater: {type: sgd, rate: 0.1}
JOB
expect 0 "$MUSTER" data pack job.yaml b.rec
cmp -s a.rec b.rec || bad "the job's block gives another file"
expect 0 "$MUSTER" data pack reader=record file=a.rec c.rec
cmp -s a.rec c.rec || bad "packing a packed file changes it"
expect 0 "$MUSTER" data pack job.yaml t.rec --split test --set data.test.records=50 --json --quiet
has out '"records":50'
expect 0 "$MUSTER" data pack $words limit=7 l.rec
has err '7 records'

# Files named alone: tables, sentences, folders of images. The block that is printed reads them.
printf 'size,colour,note,kind\n1,red,some text,yes\n2,blue,other words,no\nNA,red,a third,no\n6,,a fourth,yes\n' >t.csv
expect 0 "$MUSTER" data info t.csv
has out 'reader   table'
grep -qE '^column   size +number +1 to 6, mean 3, 1 gaps$' out || bad "column of numbers: $(cat out)"
grep -qE '^column   colour +category +2 words: red 2, blue 1, 1 gaps$' out || bad "column of categories: $(cat out)"
grep -qE '^column   note +text +4 different, left out$' out || bad "column of text: $(cat out)"
grep -qE '^column   kind +label +2 classes: yes 2, no 2$' out || bad "label: $(cat out)"
has out 'classes  no 2, yes 2'
has out '  train: {reader: table, file: t.csv, label: kind}'
gzip -k t.csv
expect 0 "$MUSTER" data info t.csv.gz --json
has out '"block":"{reader: table, file: t.csv.gz, label: kind}"'
has out '{"name":"size","kind":"number","values":3,"gaps":1,"min":1,"max":6,"mean":3}'
has out '"words":[{"name":"red","count":2},{"name":"blue","count":1}]'
expect 0 "$MUSTER" data info reader=table file=t.csv label=size target=number embed=[colour]
has out 'data.categories  int32 (1), 3 words'
has out '{reader: table, file: t.csv, label: size, target: number, embed: [colour]}'
printf 'yes\tthe sea\nno\tthe hills\nyes\tsea too\n' >s.txt
expect 0 "$MUSTER" data info s.txt
has out 'classes  yes 2, no 1'
has out '  train: {reader: sentences, file: s.txt}'
expect 0 "$MUSTER" data info $words
has out 'image, 1 to 254, mean 127.5'
has out 'records: 500, scale: 0.00390625}'
expect 0 "$MUSTER" data info $words scale=0.004
grep -q advice out && bad "advice to scale what is scaled"
expect 1 "$MUSTER" data info none.csv
has err 'none.csv'

# Damage is found and named; a cut file is refused.
printf '\377\376\375' | dd of=a.rec bs=1 seek=3000 conv=notrunc 2>/dev/null
expect 3 "$MUSTER" data verify a.rec
has err '1 of 500 records are bad'
has err 'a.rec'
head -c 4000 b.rec >cut.rec
expect 3 "$MUSTER" data info cut.rec
expect 2 "$MUSTER" data pak a.rec
has err 'muster data pack'
expect 2 "$MUSTER" data
expect 2 "$MUSTER" data pack job.yaml
expect 2 "$MUSTER" data info job.yaml --split validation
expect 2 "$MUSTER" data info job.yaml --split validation --set "data.validation={fraction: 0.1}"
has err 'is a part of the training data'
expect 3 "$MUSTER" data info reader=idxx images=a
has err 'did you mean `idx`?'
expect 3 "$MUSTER" data pack reader=synthetic shpe=3 x.rec
has err 'did you mean `shape`?'
[ ! -e x.rec ] || bad "a failed pack left a file"

# Ctrl-C and SIGTERM: the exit code of the signal, and no half-written file stays.
mkdir stop
for pair in INT:130 TERM:143; do
    "$MUSTER" data pack reader=synthetic shape=[3,8,8] records=3M stop/big.rec 2>err &
    pid=$!
    for _ in $(seq 1000); do
        ls stop | grep -q tmp && break
        sleep 0.01
    done
    kill -s "${pair%:*}" $pid
    wait $pid
    got=$?
    [ $got = "${pair#*:}" ] || bad "pack ended with $got after SIG${pair%:*}: $(head -n 3 err)"
    [ -z "$(ls stop)" ] || bad "SIG${pair%:*} left $(ls stop)"
    rm -f stop/*
done

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
