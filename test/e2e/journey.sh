#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From data to answers: models of sentences, tables, images and characters are trained, by jobs that `init` writes for
# raw files and by jobs of their own; the training files are taken away, and the models are asked by typed texts, files,
# folders and standard input. At least 40 actions of a user.
set -uo pipefail
: "${MUSTER:?path of the program}"
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0 actions=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
# says COMMAND... WANT: the last line of the answer, in csv, ends with WANT.
says() {
    local want=${*: -1} got
    actions=$((actions + 1))
    got=$("$MUSTER" "${@:1:$#-1}" 2>err | tail -n 1)
    case $got in *"$want") ;; *) bad "$*: got \`$got\` $(cat err)" ;; esac
}
train() { actions=$((actions + 1)); "$MUSTER" train "$@" -q >/dev/null 2>err || bad "train $*: $(cat err)"; }
# prints COMMAND... WANT: some line of what it prints, on either stream, has WANT; and it succeeds.
prints() {
    local want=${*: -1} got
    actions=$((actions + 1))
    got=$("$MUSTER" "${@:1:$#-1}" 2>&1) || bad "$*: failed: $got"
    case $got in *"$want"*) ;; *) bad "$*: got \`$got\`" ;; esac
}
# ---- raw files, by init ----
(mkdir raw && cd raw && "$root/examples/first-hour-data.sh")
prints data info raw/flowers.csv '9 gaps'
prints init table raw/flowers.csv flowers.yaml '`species` is one of 3 classes'
prints check flowers.yaml 'no problems'
train flowers.yaml --out flowers --set 'data.validation={fraction: 0.2}'
prints test flowers --on validation --json '"accuracy"'
prints data info raw/requests.tsv 'weather 120'
prints init text raw/requests.tsv intents.yaml '360 sentences, 3 labels'
train intents.yaml --out intents --epochs 5
prints init char raw/story.txt story.yaml '23 different ones'
train story.yaml --out story --epochs 3
prints init timeseries raw/sales.csv sales.yaml 'season of 12'
train sales.yaml --out sales
if command -v python3 >/dev/null; then
    prints init images raw/shapes shapes.yaml '120 images in 2 classes'
    train shapes.yaml --out shapes --epochs 8
fi
mkdir kept && mv raw/new-flowers.csv raw/photo.png kept/ 2>/dev/null
tail -n 30 raw/sales.csv | sed '1i month,sales' >kept/later.csv
rm -r raw
says predict flowers kept/new-flowers.csv ,virginica
says predict intents "could you turn on the light in the cellar" ,on
says predict intents "quickly switch the lamp off in the hall" "will it rain today" ,weather
says predict intents - <<<'hey switch the lamp off in the office' ,off
prints predict intents "will it rain" --top 3 --format table weather
prints predict sales kept/later.csv ,
prints sample story --prime 'the ' --length 40 'the '
if command -v python3 >/dev/null; then says predict shapes kept/photo.png ,cross; fi
prints export intents one.safetensors 'wrote one.safetensors'
rm -r intents
says predict one.safetensors "please will it rain near the garden today" ,weather
prints extract flowers --data predict --set 'data.predict={reader: table, file: kept/new-flowers.csv, label: none}' \
    --layer hidden --out hidden.npy 'hidden.npy'
prints plot flowers 'flowers'

# ---- sentences ----
for i in 1 2 3 4; do
    printf 'on\tturn on the light\non\tswitch the lamp on please\non\tlights on now\n'
    printf 'off\tturn off the light\noff\tswitch the lamp off\noff\tlights off please\n'
done >train.tsv
printf 'off\tplease turn the lights off off off\non\tlamp on\n' >test.tsv
cat >text.yaml <<'JOB'
data:
  train: {reader: sentences, file: train.tsv, length: 8}
  test: {reader: sentences, file: test.tsv, length: 8}
net:
  - {name: words, type: embedding, src: data.words, dim: 8}
  - {name: conv, type: sentence_convolution, filters: 8, widths: [2]}
  - {name: ip, type: inner_product, outputs: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
  - {name: accuracy, type: accuracy, src: [ip, data.label]}
train: {batch: 6, epochs: 60}
updater: {type: adam, rate: 0.02}
JOB
train text.yaml --out text
before=$("$MUSTER" test text 2>/dev/null | grep '^loss')
cp text/model.safetensors alone.safetensors
# Other frequencies would give other numbers to the words; then the file is gone.
printf 'off\toff off off off now now now\non\tplease please\n' >train.tsv
[ "$("$MUSTER" test text 2>err | grep '^loss')" = "$before" ] || bad "another training file changed the scores: $(cat err)"
rm train.tsv
[ "$("$MUSTER" test text 2>err | grep '^loss')" = "$before" ] || bad "test without the training file: $(cat err)"
says predict text "turn off the light" ,off
says predict text "lights on" "switch the lamp off" ,off
says predict alone.safetensors "please turn on the lamp" ,on
says predict text test.tsv ,on,on
says predict text - <<<'off	turn off' ,off,off
says predict text - <<<'turn on' ,on
"$MUSTER" predict text "lights on" --top 2 --json 2>err | grep -q '"input":"lights on".*"top":\[' || bad "json: $(cat err)"
"$MUSTER" predict text "lights on" --format table 2>err | grep -q '^lights on  *on  *[01]\.' || bad "table: $(cat err)"
"$MUSTER" predict text "two
lines" >/dev/null 2>err; [ $? = 2 ] || bad "two lines in one text"
"$MUSTER" predict text - </dev/null >/dev/null 2>err; [ $? = 3 ] || bad "nothing on standard input"
(cd / && "$MUSTER" predict "$work/alone.safetensors" "lights off" 2>err | tail -n 1 | grep -q ',off$') || bad "from elsewhere"
printf 'maybe\tturn it\nmaybe\tlamp it\n' >other.tsv
"$MUSTER" test text --set data.test.file=other.tsv --set data.test.max_bad=0 >/dev/null 2>err
grep -q "label \`maybe\` does not occur in the model's classes" err || bad "a foreign label: $(cat err)"

# ---- a table of numbers, scaled in training only ----
awk 'BEGIN { srand(3); print "a,b,kind"; for (i = 0; i < 90; i++) { k = i % 3
             printf "%.3f,%.3f,%s\n", 100 * k + 20 * rand(), 50 * k + 9 * rand(), k == 0 ? "low" : k == 1 ? "mid" : "top" } }' >rows.csv
printf 'a,b,kind\n205,101,top\n9,4,low\n' >ask.csv
printf 'a,b\n110,55\n' >bare.csv
cat >table.yaml <<'JOB'
data:
  train: {reader: csv, file: rows.csv, label: kind, mean: auto, scale: 0.01}
  test: {reader: csv, file: ask.csv, label: kind}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 3}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 30, epochs: 200}
updater: {type: adam, rate: 0.05}
JOB
train table.yaml --out table
rm rows.csv
says predict table ,low,low
says predict table ask.csv ,low,low
says predict table bare.csv ,mid
says predict table - <ask.csv ,low,low
"$MUSTER" predict table "a sentence" >/dev/null 2>err; [ $? = 2 ] || bad "a table model was asked a sentence"
grep -q 'there is no such file' err || bad "no such file: $(cat err)"

# ---- images ----
if command -v python3 >/dev/null; then
    python3 - <<'PY'
import os, struct, zlib
def png(path, value):
    raw = b"".join(b"\0" + bytes([value + (x * 7 + y) % 9 for x in range(8)]) for y in range(8))
    chunk = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)) +
                           chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
for name, base in (("dark", 10), ("grey", 110), ("light", 220)):
    os.makedirs("images/" + name); os.makedirs("new", exist_ok=True)
    for i in range(6): png(f"images/{name}/{i}.png", base + 3 * i)
    png(f"new/{name}.png", base + 5)
PY
    cat >images.yaml <<'JOB'
data:
  train: {reader: image_folder, root: images, channels: 1, scale: 0.004, mean: 128}
net:
  - {name: ip, type: inner_product, src: data.image, outputs: 3}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 6, epochs: 150}
updater: {type: adam, rate: 0.02}
JOB
    train images.yaml --out images.run
    rm -r images
    says predict images.run new/dark.png ,dark
    says predict images.run new/dark.png new/light.png ,light
    says predict images.run new ,light
    mkdir -p sorted/grey && cp new/grey.png sorted/grey/
    says predict images.run sorted ,grey,grey
    "$MUSTER" predict images.run gone.png >/dev/null 2>err; [ $? = 2 ] || bad "an image that is not there"
fi

# ---- characters ----
for i in $(seq 60); do printf 'abcd abcd\n'; done >text.txt
cat >chars.yaml <<'JOB'
data: {train: {reader: chars, file: text.txt, length: 10, streams: 4}}
net:
  - {name: gru, type: gru, hidden: 16, src: [data.chars, data.begin]}
  - {name: ip, type: inner_product, outputs: 6, axis: 2}
  - {name: loss, type: softmax_loss, src: [ip, data.next]}
train: {batch: 4, epochs: 60}
updater: {type: adam, rate: 0.02}
JOB
train chars.yaml --out chars
rm text.txt
"$MUSTER" sample chars --prime abcd --length 20 -q >drawn 2>err || bad "sample without its text: $(cat err)"
grep -q 'abcd abcd' drawn || bad "drawn: $(cat drawn)"

[ $actions -ge 40 ] || bad "$actions actions are fewer than 40"
[ $wrong = 0 ] && echo "journey: $actions actions, ok"
exit $((wrong > 0))
