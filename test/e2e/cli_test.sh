#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# muster test: precision, recall, F1, calibration and R2 against the same numbers worked out by awk from what
# muster predict says; many classes, several heads; who has no classes and no targets prints what it did.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export LC_ALL=C
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
near() { awk -v a="$2" -v b="$3" -v t="$4" 'BEGIN { exit !(a != "" && b != "" && a - b <= t && b - a <= t) }' || bad "$1: $2, not $3"; }
value() { awk -v k="$1" '$1 == k { print $2 }' "$2"; }

# ---- classes with names, one of them without samples ----
awk 'BEGIN { split("shirt,t-shirt,coat,dress,bag,boot", name, ","); print "kind,x,y,z"
    for (i = 0; i < 300; i++) { k = 1 + i * 7 % 6; printf "%s,%d,%d,%d\n", name[k], k * 3 + i * 13 % 7, k % 2 * 5 + i * 5 % 7, i % 11 } }' >table.csv
classes='[shirt, t-shirt, coat, dress, bag, boot, hat]'
cat >job.yaml <<JOB
data:
  train: {reader: csv, file: table.csv, label: kind, classes: $classes}
  test: {reader: csv, file: table.csv, label: kind, classes: $classes}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 7, init: xavier}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {batch: 20, steps: 120}
test: {every: never, batch: 32}
updater: {type: adam, rate: 0.02}
JOB
"$MUSTER" train job.yaml --out run -q || bad "training ended with $?"
"$MUSTER" predict run >answers.csv || bad "predict ended with $?"
"$MUSTER" test run >text 2>err || bad "test ended with $?: $(cat err)"
"$MUSTER" test run --json >json 2>/dev/null || bad "test --json ended with $?"

cat >want.awk <<'AWK'
function shown(part, of) { return of ? sprintf("%10.4f", part / of) : sprintf("%10s", "-") }
BEGIN { FS = ","; classes = split("shirt,t-shirt,coat,dress,bag,boot,hat", name, ",") }
NR == FNR { if (FNR > 1) truth[FNR - 2] = $1; next }
FNR > 1 { t = truth[$1]; support[t]++; answers[$4]++; hits[t] += t == $4; all++; right += t == $4
          b = int($3 * 15); if (b > 14) b = 14
          n[b]++; sure[b] += $3; ok[b] += t == $4; sum += $3 }
END { for (i = 1; i <= classes; i++) { k = name[i]; p = answers[k] + 0; s = support[k] + 0; h = hits[k] + 0
          printf "%-14s%s%s%s%10d\n", k, shown(h, p), shown(h, s), shown(2 * h, p + s), s >"want.table"
          if (p) { mp += h / p; np++; wp += s * h / p; sp += s }
          if (s) { mr += h / s; nr++ }
          if (p + s) { mf += 2 * h / (p + s); nf++; wf += s * 2 * h / (p + s) } }
      printf "%-14s%10.4f%10.4f%10.4f%10d\n", "macro mean", mp / np, mr / nr, mf / nf, all >"want.means"
      printf "%-14s%10.4f%10.4f%10.4f%10d\n", "weighted mean", wp / sp, right / all, wf / all, all >"want.means"
      for (b in n) { gap = ok[b] - sure[b]; e += gap < 0 ? -gap : gap }
      printf "%.6f %.6f %.6f\n", right / all, e / all, sum / all >"want.values" }
AWK
awk -f want.awk table.csv answers.csv
sed -n '/^class /,/^$/p' text | sed '1d;$d' | diff want.table - || bad "the table of the classes"
grep ' mean ' text | diff want.means - || bad "the means"
grep -qx 'hat                    -         -         -         0' text || bad "a class that nobody speaks of"
read -r right error confidence <want.values
near accuracy "$(value accuracy text)" "$right" 1e-5
near "calibration error" "$(value calibration_error text)" "$error" 0.007 # an answer beside the edge of a bin
near "mean confidence" "$(value mean_confidence text)" "$confidence" 1e-5
[ -n "$(value top5_accuracy text)" ] || bad "no top-5 accuracy of 7 classes"
awk -F, 'NR == FNR { if (FNR > 1) t[FNR - 2] = $1; next } FNR > 1 && t[$1] != $4 { n[t[$1] "` taken for `" $4]++ }
    END { for (k in n) if (n[k] > most) most = n[k]; for (k in n) if (n[k] == most) print "`" k "` " n[k] " time" }' table.csv answers.csv >worst
grep -A 1 '^most frequent mistakes' text | tail -n 1 | grep -qFf worst || bad "the most frequent mistake: $(cat worst)"
for key in '"samples":300' '"test_loss":' '"test_accuracy":' '"loss":' '"accuracy":' '"macro":{"precision":' \
    '"weighted":{"precision":' '"top5_accuracy":' '"calibration_error":0.' '"mean_confidence":0.' '"mistakes":\[{"class":"' \
    '"precision":null,"recall":null,"f1":null,"name":"hat","support":0}'; do
    grep -q "$key" json || bad "JSON has no $key: $(cat json)"
done
[ "$(wc -l <json)" = 1 ] || bad "JSON is no single line"
if command -v python3 >/dev/null; then
    python3 - json <<'PY' || bad "JSON does not agree with itself"
import json, sys
o = json.load(open(sys.argv[1]))
mean = lambda key: (lambda v: sum(v) / len(v))([c[key] for c in o["classes"] if c[key] is not None])
for key in ("precision", "recall", "f1"):
    assert abs(o["macro"][key] - mean(key)) < 1e-7, key
assert sum(c["support"] for c in o["classes"]) == o["answers"] == o["samples"] == 300
assert abs(o["weighted"]["recall"] - o["accuracy"]) < 1e-7 and o["broken_answers"] == 0 and o["head"] == "loss"
assert [c["name"] for c in o["classes"]] == "shirt t-shirt coat dress bag boot hat".split()
PY
fi
[ -z "$(value head_accuracy text)" ] || bad "the accuracy of the only head is said twice"
"$MUSTER" test run -q >quiet 2>/dev/null || bad "test -q"
cmp -s quiet text || bad "-q changes the scores"

# ---- many classes ----
cat >many.yaml <<'JOB'
data:
  train: {reader: synthetic, shape: [30], classes: 40, records: 400, scale: 0.01}
  test: {reader: synthetic, shape: [30], classes: 40, records: 400, scale: 0.01}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 40, init: xavier}
  - {name: loss, type: softmax_loss, src: [ip, data.label]}
  - {name: two, type: inner_product, src: data.features, outputs: 44, init: xavier}
  - {name: second, type: softmax_loss, src: [two, data.label]}
train: {batch: 20, steps: 20}
test: {every: never}
updater: {type: sgd, rate: 0.1}
JOB
"$MUSTER" train many.yaml --out many -q || bad "training of many classes ended with $?"
"$MUSTER" test many >text 2>err || bad "many classes: $(cat err)"
grep -qx '40 classes; --all or --json shows every one' text || bad "it is not said how to get all classes"
grep -q '^worst 10 by f1 ' text && grep -q '^largest 10 ' text || bad "worst and largest classes: $(cat text)"
[ "$(sed -n '/^worst/,/^$/p' text | sed '1d;$d' | awk '{ print $4 }' | sort -cg 2>&1)" = "" ] || bad "worst first: $(cat text)"
near "accuracy of one head of two" "$(value head_accuracy text)" "$(awk '/^weighted mean/ { print $4 }' text)" 1e-4
grep -q 'these are the answers that `loss` compares; for those of `second` add --head second' text || bad "the other head: $(tail -n 2 text)"
"$MUSTER" test many --all >text 2>err || bad "--all: $(cat err)"
[ "$(sed -n '/^class /,/^$/p' text | sed '1d;$d' | wc -l)" = 40 ] || bad "--all shows not all"
"$MUSTER" test many --head second --json 2>/dev/null | grep -q '"head":"second".*"name":"43"' || bad "--head second"
"$MUSTER" test many --head secnd >/dev/null 2>err; [ $? = 2 ] || bad "--head secnd"
grep -q 'no layer `secnd` compares' err && grep -q 'Did you mean `second`' err || bad "--head secnd: $(cat err)"

# ---- numbers ----
awk 'BEGIN { for (i = 0; i < 120; i++) { a = i * 7 % 10; b = i * 3 % 8; printf "%d,%d,%.3f,%.3f\n", a, b, a / 4 - b / 8 + i % 3 / 20, b / 2 + i % 5 / 10 } }' >numbers.csv
cat >numbers.yaml <<'JOB'
data:
  train: {reader: csv, file: numbers.csv, label: none, header: no}
  test: {reader: csv, file: numbers.csv, label: none, header: no}
net:
  - {name: cut, type: slice, src: data.features, points: [2]}
  - {name: fit, type: inner_product, src: cut.0, outputs: 2, init: xavier}
  - {name: off, type: euclidean_loss, src: [fit, cut.1]}
train: {batch: 20, steps: 300}
test: {every: never}
updater: {type: adam, rate: 0.02}
JOB
"$MUSTER" train numbers.yaml --out numbers -q || bad "training of numbers ended with $?"
"$MUSTER" test numbers >text 2>err || bad "test of numbers: $(cat err)"
"$MUSTER" predict numbers --layer fit --raw >values.csv || bad "predict of numbers ended with $?"
awk -F, 'NR == FNR { for (k = 0; k < 2; k++) { t[FNR - 1, k] = $(3 + k); m[k] += $(3 + k) / 120 } next }
    { for (k = 0; k < 2; k++) { e = $(2 + k) - t[$1, k]; s[k] += e * e; a[k] += e < 0 ? -e : e; d = t[$1, k] - m[k]; v[k] += d * d } }
    END { for (k = 0; k < 2; k++) printf "%d %.6f %.6f %.6f\n", k, sqrt(s[k] / 120), a[k] / 120, 1 - s[k] / v[k]
          printf "all %.6f %.6f %.6f\n", sqrt((s[0] + s[1]) / 240), (a[0] + a[1]) / 240, 1 - (s[0] / v[0] + s[1] / v[1]) / 2 }' \
    numbers.csv values.csv >want
while read -r k rmse mae r2; do
    if [ "$k" = all ]; then got="$(value rmse text) $(value mae text) $(value r2 text)"; else got=$(awk -v k="$k" '$1 == k && NF == 4 { print $2, $3, $4 }' text); fi
    read -r a b c <<<"$got"
    near "rmse of $k" "$a" "$rmse" 2e-4; near "mae of $k" "$b" "$mae" 2e-4; near "r2 of $k" "$c" "$r2" 2e-4
done <want
"$MUSTER" test numbers --json 2>/dev/null | grep -q '"regression":{"head":"off","rmse":.*"outputs":\[{"name":"0","rmse":' || bad "JSON of numbers"
grep -q '^class' text && bad "numbers have no classes"

# ---- two classes by one score ----
cat >two.yaml <<'JOB'
data:
  train: {reader: synthetic, shape: [8], classes: 2, records: 100, scale: 0.01}
  test: {reader: synthetic, shape: [8], classes: 2, records: 100, scale: 0.01}
net:
  - {name: ip, type: inner_product, src: data.features, outputs: 1, init: xavier}
  - {name: loss, type: sigmoid_loss, src: [ip, data.label]}
train: {batch: 20, steps: 60}
updater: {type: sgd, rate: 0.1}
JOB
"$MUSTER" train two.yaml --out two -q || bad "training of one score ended with $?"
"$MUSTER" test two >text 2>err || bad "one score: $(cat err)"
[ "$(sed -n '/^class /,/^$/p' text | sed '1d;$d' | wc -l)" = 2 ] && [ -n "$(value accuracy text)" ] || bad "one score: $(cat text)"
[ -z "$(value top5_accuracy text)" ] || bad "top-5 of two classes"

# ---- neither classes nor targets: as before ----
cat >code.yaml <<'JOB'
data:
  train: {reader: synthetic, shape: [8], classes: 2, records: 40, scale: 0.01}
  test: {reader: synthetic, shape: [8], classes: 2, records: 40, scale: 0.01}
net:
  - {name: code, type: inner_product, src: data.features, outputs: 3, init: xavier}
  - {name: back, type: inner_product, outputs: 8, init: xavier}
  - {name: off, type: euclidean_loss, src: [back, data.features], squared_error: true}
train: {batch: 20, steps: 5}
updater: {type: sgd, rate: 0.01}
JOB
"$MUSTER" train code.yaml --out code -q || bad "training of a code ended with $?"
"$MUSTER" test code >text 2>err || bad "a code: $(cat err)"
[ "$(awk '{ print $1 }' text | tr '\n' ' ')" = "loss squared_error " ] || bad "an auto-encoder: $(cat text)"
"$MUSTER" test code --json 2>/dev/null | grep -q 'regression\|classes' && bad "an auto-encoder is no regression"
"$MUSTER" test code --head off >/dev/null 2>err && bad "--head of an auto-encoder"

[ $wrong = 0 ] && echo "cli_test: ok"
exit $((wrong > 0))
