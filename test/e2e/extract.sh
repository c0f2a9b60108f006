#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A net of two paths: features in all three formats, the same numbers in each; recall between the paths
# against a count by hand; every protocol with two learners.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

# 48 pairs: an image of 2 x 4 x 4 bytes and 3 words out of 12, two pairs of each of 24 kinds
LC_ALL=C awk 'BEGIN {
    for (i = 0; i < 48; i++) {
        kind = int(i / 2)
        for (k = 0; k < 32; k++) printf "%c", 1 + (kind * 37 + k * (kind % 5 + 1) * 11 + i % 2) % 120 >"images.bin"
        for (k = 0; k < 3; k++) printf "%c%c%c%c", 1 + 3 * k + int(kind / 3 ^ k) % 3, 0, 0, 0 >"words.bin"
        printf "%c%c%c%c", kind, 0, 0, 0 >"kinds.bin"
    } }' </dev/null
[ "$(wc -c <words.bin)" = 576 ] || { echo "awk writes no zero bytes here"; exit 77; }

block='{reader: zip, names: [image, words, kind], scale: 0.01, parts: [
    {reader: raw, file: images.bin, shape: [2, 4, 4], planes: true},
    {reader: raw, file: words.bin, shape: [3], store: i32, classes: 12, field: words},
    {reader: raw, file: kinds.bin, store: i32, classes: 24}]}'
cat > job.yaml <<JOB
data:
  train: $block
  test: $block
net:
  - {name: conv, type: convolution, src: data.image, filters: 6, kernel: 3, pad: 1, init: xavier}
  - {name: relu, type: relu}
  - {name: image, type: inner_product, outputs: 8, init: xavier}
  - {name: image_code, type: l2_normalise}
  - {name: bag, type: bag_of_words, src: data.words}
  - {name: text, type: inner_product, outputs: 8, init: xavier}
  - {name: text_code, type: l2_normalise}
  - {name: near, type: euclidean_loss, src: [image_code, text_code], loss_weight: 0.1}
  - {name: pairs, type: contrastive_loss, src: [image_code, text_code, data.kind], temperature: 0.2}
  - {name: kinds, type: inner_product, src: image, outputs: 24, init: xavier}
  - {name: image_kind, type: softmax_loss, src: [kinds, data.kind]}
  - {name: kinds2, type: inner_product, src: text, outputs: 24, init: xavier}
  - {name: text_kind, type: softmax_loss, src: [kinds2, data.kind]}
train: {batch: 16, steps: 150}
updater: {type: adam, rate: 0.01}
JOB
"$MUSTER" train job.yaml --out run -q || bad "training ended with $?"

# ---- formats ----
for f in npy csv safetensors; do
    "$MUSTER" extract run --layer image_code --layer conv --layer data.words --out codes.$f 2>$f.err || bad "$f: $?"
    [ -z "$("$MUSTER" extract run --layer image_code --out quiet.$f -q 2>&1)" ] || bad "$f: -q is not quiet"
done
diff - npy.err <<'SAID' || bad "what is said of .npy files"
wrote codes.npy: 48 rows, 8 columns of image_code (8)
wrote codes.conv.npy: 48 rows, 96 columns of conv (6, 4, 4)
wrote codes.words.npy: 48 rows, 3 columns of data.words (3)
wrote codes.kind.npy: 48 rows, 1 column of data.kind
SAID
grep -qx 'wrote codes.csv: 48 rows, 109 columns of image_code (8), conv (6, 4, 4), data.words (3), data.kind' csv.err || bad "$(cat csv.err)"
[ "$(head -n 1 codes.csv | tr -cd , | wc -c)" = 108 ] || bad "the .csv has other columns than said"
grep -qx 'wrote codes.safetensors: 48 rows, 108 columns of image_code (8), conv (6, 4, 4), data.words (3), data.kind' safetensors.err ||
    bad "$(cat safetensors.err)"
"$MUSTER" extract run --layer image_code --out j.npy --recall image_code:text_code --json 2>/dev/null >j.json || bad "json: $?"
grep -q '"recall":\[.*"files":\[{"file":"j.npy","rows":48,"columns":8,"arrays":\["image_code"\]},{"file":"j.kind.npy",' j.json ||
    bad "files in JSON: $(cat j.json)"
[ "$(wc -l <codes.csv)" = 49 ] || bad "$(wc -l <codes.csv) lines for 48 records"
head -n 1 codes.csv | grep -q '^sample,image_code.0,.*,image_code.7,conv.0,.*,words.2,kind$' || bad "$(head -n 1 codes.csv)"
ls codes.npy codes.conv.npy codes.words.npy codes.kind.npy >/dev/null || bad "an .npy file is missing"
[ "$(head -c 6 codes.npy | od -An -tx1 | tr -d ' ')" = 934e554d5059 ] || bad "no .npy magic"
python=
for p in python3 /usr/bin/python3; do if $p -c 'import numpy' 2>/dev/null; then python=$p; fi; done
if [ -n "$python" ]; then
    $python - <<'PY' || bad "numpy reads other values"
import json, numpy as np
code, conv, kind, words = (np.load(f) for f in ("codes.npy", "codes.conv.npy", "codes.kind.npy", "codes.words.npy"))
assert code.shape == (48, 8) and conv.shape == (48, 6, 4, 4) and kind.shape == (48,) and words.shape == (48, 3)
assert (kind == np.arange(48) // 2).all() and words.dtype == np.int32
assert (words == np.fromfile("words.bin", "<i4").reshape(48, 3)).all()
raw = open("codes.safetensors", "rb").read()
n = int.from_bytes(raw[:8], "little")
head = json.loads(raw[8:8 + n])
def tensor(name, dtype):
    a, b = head[name]["data_offsets"]
    return np.frombuffer(raw[8 + n + a:8 + n + b], dtype).reshape(head[name]["shape"])
assert (tensor("image_code", "<f4") == code).all() and (tensor("conv", "<f4") == conv).all()
assert (tensor("data.kind", "<i4") == kind).all()
rows = np.loadtxt("codes.csv", delimiter=",", skiprows=1)
assert (rows[:, 0] == np.arange(48)).all()
assert np.abs(rows[:, 1:9] - code).max() < 1e-7
assert np.abs(rows[:, 9:9 + 96] - conv.reshape(48, -1)).max() <= 1e-6 * np.abs(conv).max()

# the convolution again: channels and places are in logical order
import struct
model = __import__("glob").glob("run/checkpoints/*/model.safetensors")
raw = open(sorted(model)[-1], "rb").read()
n = int.from_bytes(raw[:8], "little")
head = json.loads(raw[8:8 + n])
w, b = tensor("conv.weight", "<f4"), tensor("conv.bias", "<f4")
x = np.fromfile("images.bin", np.uint8).reshape(48, 2, 4, 4) * np.float32(0.01)
pad = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
want = sum(np.einsum("nchw,oc->nohw", pad[:, :, i:i + 4, j:j + 4], w[:, :, i, j]) for i in range(3) for j in range(3))
assert np.abs(want + b[None, :, None, None] - conv).max() < 1e-4, np.abs(want - conv).max()
PY
else
    echo "no numpy: values not compared"
fi

# ---- recall ----
"$MUSTER" extract run --recall image_code:text_code --group kind --json >recall.json || bad "recall ended with $?"
"$MUSTER" extract run --layer image_code --layer text_code --out both.csv || bad "both: $?"
want=$(awk -F, 'NR > 1 { n++; for (k = 1; k <= 8; k++) { a[n, k] = $(1 + k); b[n, k] = $(9 + k) } g[n] = $18 }
    END { for (i = 1; i <= n; i++) { split("", best)
            for (j = 1; j <= n; j++) { s = 0; for (k = 1; k <= 8; k++) s += a[i, k] * b[j, k]
                if (!(g[j] in best) || s > best[g[j]]) best[g[j]] = s }
            rank = 1; for (q in best) if (q != g[i] && best[q] >= best[g[i]]) rank++
            one += rank <= 1; five += rank <= 5 }
          printf "%.4f %.4f", one / n, five / n }' both.csv)
got=$(sed -n 's/.*"from":"image_code","to":"text_code","queries":48,"groups":24,"recall_at_1":\([0-9.]*\),"recall_at_5":\([0-9.]*\),.*/\1 \2/p' recall.json |
    awk '{ printf "%.4f %.4f", $1, $2 }')
[ -n "$got" ] && [ "$got" = "$want" ] || bad "recall is $got, counted by hand $want: $(cat recall.json)"
awk -v r="${got%% *}" 'BEGIN { exit !(r > 0.7) }' || bad "recall@1 $got: nothing was learnt"
"$MUSTER" extract run --recall image_code:text_code --distance euclidean | grep -q 'median rank .* of 48' ||
    bad "without groups every record is its own"
"$MUSTER" extract run --recall image_code:text_code --data validation 2>err && bad "no data.validation, yet it runs"
grep -q 'no `data.validation`' err || bad "$(cat err)"

# ---- the sheet ----
seq -f 'text %g & <more>' 48 >captions.txt
"$MUSTER" extract run --recall image_code:text_code --group kind --sheet sheet.svg --captions captions.txt >/dev/null 2>err &&
    bad "two channels are no picture"
grep -q 'shows images, and the data has none' err || bad "$(cat err)"
sed 's/shape: \[2, 4, 4\]/shape: [1, 4, 8]/' job.yaml >grey.yaml
"$MUSTER" train grey.yaml --steps 5 --out grey -q || bad "grey: $?"
"$MUSTER" extract grey --recall image_code:text_code --group kind --sheet sheet.svg --captions captions.txt >/dev/null ||
    bad "sheet ended with $?"
[ "$(grep -c '<image' sheet.svg)" = 72 ] || bad "$(grep -c '<image' sheet.svg) pictures, not 12 + 12 * 5"
grep -q 'text 3 &amp; &lt;more&gt;' sheet.svg || bad "captions are not escaped"
head -n 5 captions.txt >few.txt
"$MUSTER" extract grey --recall image_code:text_code --sheet s.svg --captions few.txt >/dev/null 2>err && bad "5 captions do"
grep -q '5 lines for 48 records' err || bad "$(cat err)"

# ---- what cannot be done is said ----
says() { local want=$1; shift; "$MUSTER" extract run "$@" >/dev/null 2>err && bad "$* is accepted"; grep -q "$want" err || bad "$*: $(cat err)"; }
says 'Did you mean `image_code`' --layer image_cod --out x.npy
says 'no kind of file' --layer image --out x.txt
says 'needs `--layer`' --out x.npy
says 'nothing to do'
says 'no pair of layers' --recall image_code
says '8 values a sample' --recall image_code:kinds
says 'is no picture of pixels' --recall image_code:text_code --sheet x.PNG
says '`--captions` is for `--sheet`' --recall image_code:text_code --captions captions.txt
says 'no layer `data.colour`' --recall image_code:text_code --group colour

# ---- every protocol trains two paths; one learner resumes bit for bit ----
for protocol in hardsync softsync async hogwild ssp mirror; do
    "$MUSTER" train job.yaml --learners 2 --protocol "$protocol" --steps 60 --out "p-$protocol" -q 2>err ||
        bad "$protocol ended with $?: $(tail -n 3 err)"
    "$MUSTER" extract "p-$protocol" --recall image_code:text_code --group kind --json >"$protocol.json" || bad "$protocol: recall"
done
"$MUSTER" train job.yaml --steps 20 --out again -q && "$MUSTER" train job.yaml --steps 40 --resume again -q || bad "resume"
"$MUSTER" train job.yaml --steps 40 --out once -q
cmp again/checkpoints/step-40/model.safetensors once/checkpoints/step-40/model.safetensors || bad "resume changes bits"

[ $wrong = 0 ] && echo "extract: ok"
exit $((wrong > 0))
