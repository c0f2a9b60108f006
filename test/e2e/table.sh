#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tables: a net learns from numbers, categories and gaps; the model then reads other files by the names of their
# columns, without the training file, and numbers come out in their own unit.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

# The kind is the colour, unless the size is large; a gap of the colour means grass. The price is 1000 + 50 x size.
awk 'BEGIN { print "name,size,colour,shop,price,kind"
    for (i = 0; i < 240; i++) { s = i * 37 % 100; c = i % 3; big = s >= 50
        k = big ? "tree" : c == 0 ? "rose" : c == 1 ? "gentian" : "grass"
        printf "plant %d,%s,%s,%s,%d,%s\n", i, i % 40 == 7 ? "NA" : s, c == 0 ? "red" : c == 1 ? "blue" : "", i % 2 ? "north" : "south",
               1000 + 50 * s, i % 40 == 7 ? "grass" : k } }' > train.csv
cat > job.yaml <<'JOB'
data:
  train: {reader: table, file: train.csv, label: kind, ignore: [price]}
net:
  - {name: ip1, type: inner_product, src: data.features, outputs: 24}
  - {name: relu1, type: relu}
  - {name: ip2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 16, steps: 900}
seed: 3
updater: {type: adam, rate: 0.01}
JOB
cat > price.yaml <<'JOB'
data:
  train: {reader: table, file: train.csv, label: price, ignore: [kind]}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 1}
  - {name: loss, type: euclidean_loss, src: [ip, data.target]}
train: {batch: 16, steps: 1500}
seed: 3
updater: {type: adam, rate: 0.01}
JOB
"$MUSTER" train job.yaml --out kinds >out 2>&1 || bad "training ended with $?: $(cat out)"
[ "$(grep -c "column \`name\` is left out: it is text" out)" = 1 ] ||
    bad "no word of the column left out: $(cat out)"
"$MUSTER" train price.yaml --out price -q || bad "training of a number ended with $?"
rm train.csv

# Another order, another separator, a column more, a gap; with labels and without.
printf 'kind;extra;shop;colour;size\nrose;1;north;red;10\ntree;2;south;blue;90\ngentian;3;;blue;20\ngrass;4;south;NA;5\n' >labelled.csv
"$MUSTER" predict kinds labelled.csv >answers.csv || bad "predict ended with $?"
[ "$(head -n 1 answers.csv)" = sample,class,probability,predicted,label ] || bad "header: $(head -n 1 answers.csv)"
[ "$(cut -d, -f4 answers.csv | tr '\n' ' ')" = 'predicted rose tree gentian grass ' ] || bad "answers: $(cat answers.csv)"
[ "$(cut -d, -f5 answers.csv | tr '\n' ' ')" = 'label rose tree gentian grass ' ] || bad "labels: $(cat answers.csv)"
cut -d';' -f2- labelled.csv >bare.csv
"$MUSTER" predict kinds bare.csv >bare || bad "predict without labels ended with $?"
[ "$(head -n 1 bare)" = sample,class,probability,predicted ] || bad "header without labels: $(head -n 1 bare)"
[ "$(cut -d, -f1-4 answers.csv | tail -n 4)" = "$(tail -n 4 bare)" ] || bad "other answers without labels: $(cat bare)"
"$MUSTER" predict kinds - <bare.csv | cmp - bare || bad "other answers from standard input"

# What does not fit is said, with its column and line.
printf 'size,shop\n1,north\n' >lacks.csv
"$MUSTER" predict kinds lacks.csv >/dev/null 2>err; [ $? = 3 ] || bad "a missing column went unnoticed"
grep -q 'has no column `colour`' err || bad "missing column: $(cat err)"
printf 'size,shop,colour\n1,north,red\nbig,north,red\n' >word.csv
"$MUSTER" predict kinds word.csv >/dev/null 2>err; [ $? = 3 ] || bad "a word among numbers went unnoticed"
grep -q 'line 3: column `size` is no finite number' err || bad "word among numbers: $(cat err)"

# Numbers in their own unit: 1000 + 50 x 40 = 3000.
printf 'colour,shop,size\nred,north,40\n' >one.csv
"$MUSTER" predict price one.csv >number || bad "predict of a number ended with $?"
awk -F, '{ exit !($1 == 0 && $2 > 2900 && $2 < 3100) }' number || bad "price: $(cat number), want 3000"
"$MUSTER" predict price one.csv --raw >number || bad "predict --raw of a number ended with $?"
awk -F, '{ exit !($2 > -1 && $2 < 1) }' number || bad "raw value: $(cat number)"
# Judged in that unit too: 1000 off for each.
printf 'colour,shop,size,price\nred,north,40,4000\nred,south,20,1000\n' >judged.csv
"$MUSTER" test price --set data.test.reader=table --set data.test.file="$work/judged.csv" --set data.test.label=price \
    --json >scores 2>err || bad "test of a number ended with $?: $(cat err)"
grep -o '"mae": *[0-9.]*' scores | head -n 1 | awk -F: '{ exit !($2 > 900 && $2 < 1100) }' || bad "scores: $(cat scores)"

# Columns of many words and of text: the kind is the shop's, unless the note says that it is closed.
awk 'BEGIN { print "shop,note,kind"
    for (i = 0; i < 600; i++) { c = i * 13 % 31 < 8; s = i % 120
        printf "shop %d,%s,%s\n", s, c ? "we are closed today" : "open until " i % 3 + 5, c ? "none" : s % 2 ? "book" : "tea" } }' > train.csv
cat > words.yaml <<'JOB'
data:
  train: {reader: table, file: train.csv, embed: [shop], text: [note]}
net:
  - {name: vectors, type: embedding, src: data.categories, dim: 4}
  - {name: places, type: flatten}
  - {name: bag, type: bag_of_words, src: data.words}
  - {name: inputs, type: concat, src: [places, bag]}
  - {name: scores, type: inner_product, outputs: auto}
  - {name: loss, type: softmax_loss, src: [scores, data.label]}
train: {batch: 16, steps: 1500}
seed: 3
updater: {type: adam, rate: 0.02}
JOB
"$MUSTER" train words.yaml --out words -q || bad "training on words ended with $?"
rm train.csv
printf 'note,shop\nopen until 6,shop 7\nopen until 6,shop 8\nwe are closed today,shop 8\nit is closed today,shop 500\n' >ask.csv
"$MUSTER" predict words ask.csv >answers.csv || bad "predict from words ended with $?"
[ "$(cut -d, -f4 answers.csv | tr '\n' ' ')" = 'predicted book tea none none ' ] || bad "answers from words: $(cat answers.csv)"

# The job that is written for a file trains and answers as it is.
awk 'BEGIN { print "id,size,colour,price"
    for (i = 0; i < 200; i++) { s = i * 37 % 100; printf "no %d,%s,%s,%.1f\n", i, i % 9 == 4 ? "" : s, i % 2 ? "red" : "blue",
        i % 9 == 4 ? 60.5 : (s > 50 ? 100 : 20) + (i % 2) * 10 + .5 } }' > homes.csv
"$MUSTER" init table homes.csv homes.yaml >out 2>&1 || bad "init table ended with $?: $(cat out)"
"$MUSTER" check homes.yaml >out 2>&1 || bad "the job of init table: $(cat out)"
"$MUSTER" train homes.yaml --out homes -q || bad "training by the job of init table ended with $?"
rm homes.csv
printf 'colour,size\nblue,10\nred,90\n' >ask.csv
"$MUSTER" predict homes ask.csv >answers.csv || bad "predict of a price ended with $?"
awk -F, '$1 == 0 && ($2 < 10 || $2 > 32) || $1 == 1 && ($2 < 98 || $2 > 122) { exit 1 }' answers.csv ||
    bad "prices: $(cat answers.csv), want about 20.5 and 110.5"

# A category that the training data does not have is answered, and said.
printf 'size;shop;colour\n10;west;red\n' >new.csv
"$MUSTER" predict kinds new.csv >answers.csv 2>err || bad "predict of a new category ended with $?"
[ "$(cut -d, -f4 answers.csv | tail -n 1)" = rose ] || bad "answer to a new category: $(cat answers.csv)"
grep -q 'new.csv`: 1 cell has a word that the training data does not have, first `west` in column `shop`' err ||
    bad "no word of the new category: $(cat err)"

[ $wrong = 0 ] && echo "table: ok"
exit $((wrong > 0))
