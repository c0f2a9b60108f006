#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# muster plot: a report of one run, charts of several, pictures of a net; every file is read by strangers
# (xmllint, Python's html.parser) where they are there; wrong words and broken runs are refused with a reason.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
has() { grep -qF -- "$2" "$1" || bad "$1 has no \`$2\`: $(head -c 300 "$1")"; }
plot() { "$MUSTER" plot "$@" >out 2>err; }
good() { plot "$@" || bad "plot $* ended with $?: $(cat err)"; }

cat >job.yaml <<'YAML'
name: tiny
data:
  train: {reader: synthetic, shape: [3, 8, 8], classes: 4, records: 256, scale: 0.004}
  test: {reader: synthetic, shape: [3, 8, 8], classes: 4, records: 50, scale: 0.004}
net:
  - {name: conv, type: convolution, src: data.image, filters: 6, kernel: 3}
  - {name: relu, type: relu}
  - {name: pair, type: inner_product, outputs: 2}
  - {name: scores, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [scores, data.label]}
train: {batch: 8, epochs: 2}
test: {every: 1 epoch}
log: {every: 8 steps}
updater: {type: sgd, momentum: 0.9, rate: 0.02}
YAML
"$MUSTER" train job.yaml --out runs/one-learner -q 2>err || bad "training: $(cat err)"
"$MUSTER" train job.yaml --out runs/two-learners --learners 2 --protocol async -q 2>err ||
    bad "training with two learners: $(cat err)"

# ---- what comes out ----
good runs/one-learner
good runs/two-learners --out two.html
good runs/one-learner runs/two-learners --out both.svg --curves loss,error,speed --x time --smooth 0.5
good name=runs/one-learner "a<b=runs/two-learners" --out named.html
good runs/one-learner --filters conv --out filters.png
good runs/one-learner --filters conv --scatter pair --confusion --out inside.svg
good runs/one-learner b=runs/two-learners --filters conv --confusion --out pair.svg
has pair.svg '>b: confusion matrix</text>'
printf 'static int </pre> \377\n' >sample.txt
cp sample.txt runs/one-learner/
good runs/one-learner --text sample.txt --out text.html
good runs/one-learner --json --title 'one <b>&'
has out '"out":"runs/one-learner/report.html"'
has out '"sample.txt"'
for text in '<th>parameters</th>' 'filters of conv.weight' 'confusion matrix' 'the two values of pair' \
    '<h1>one &lt;b&gt;&amp;</h1>' 'static int &lt;/pre&gt;' '<th>test accuracy</th>' \
    'prefers-color-scheme:dark'; do
    has runs/one-learner/report.html "$text"
done
has both.svg '>one-learner: '
has named.html '>a&lt;b: '
head -c 8 filters.png | od -An -c | grep -q 'P   N   G' || bad "filters.png is no PNG"

# ---- read by others ----
if command -v xmllint >/dev/null; then
    for f in *.svg; do xmllint --noout "$f" || bad "$f is no XML"; done
else
    echo "SVG not checked: no xmllint"
fi
cat >look.py <<'PY'
import html.parser, re, sys
class Look(html.parser.HTMLParser):
    void = {"meta", "br", "hr", "img", "input", "link"}
    def __init__(self):
        super().__init__()
        self.open, self.svgs = [], 0
    def handle_starttag(self, tag, attrs):
        if tag not in self.void: self.open.append(tag)
        self.svgs += tag == "svg"
        for name, value in attrs:
            if name in ("src", "href") and not value.startswith("data:"): sys.exit(f"loads {value}")
        if tag in ("script", "link", "iframe"): sys.exit(f"has a {tag}")
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag: sys.exit(f"closes {tag} at {self.getpos()}")
for path in sys.argv[1:]:
    look = Look()
    look.feed(open(path, encoding="utf-8").read())
    look.close()
    if look.open: sys.exit(f"{path}: {look.open} stay open")
PY
if command -v python3 >/dev/null; then
    python3 look.py runs/one-learner/report.html two.html named.html text.html >look.log 2>&1 ||
        bad "html: $(cat look.log)"
else
    echo "HTML not checked: no python3"
fi

# ---- a run that is resumed, killed or empty ----
"$MUSTER" train job.yaml --out runs/resumed --epochs 1 -q 2>err
"$MUSTER" train --resume runs/resumed --epochs 2 job.yaml -q 2>err || bad "resume: $(cat err)"
printf '{"step":9999,"train_lo' >>runs/resumed/metrics.jsonl
good runs/resumed --out resumed.svg
mkdir -p runs/empty runs/torn
: >runs/empty/metrics.jsonl
printf 'garbage\n{"step":3,"epoch":1,"train_loss":2}\n\0\0\n' >runs/torn/metrics.jsonl
good runs/torn --out torn.html
has err '2 of 3 lines of metrics cannot be read'
has torn.html 'The net is not shown'
good runs/empty --out empty.html # what is known is little, but a report

refused() { # refused STATUS TEXT WORDS...
    local status=$1 text=$2
    shift 2
    plot "$@"
    local got=$?
    [ $got = "$status" ] || bad "plot $* ended with $got, not $status: $(cat err)"
    has err "$text"
}
refused 3 'metrics.jsonl` is empty' runs/empty --out x.svg
refused 6 'holds no run' runs/nowhere
refused 6 'no run folder' runs/nowhere --confusion
refused 2 'End the name with .html, .svg or .png' runs/torn --out x.pdf
refused 2 'no run has a curve `gloss`' runs/torn --curves gloss --out x.svg
refused 2 'Did you mean `conv.weight`?' runs/one-learner --filters conf --out x.svg
refused 2 'a .png holds one picture' runs/one-learner --curves loss --out x.png
refused 2 'cannot be shown as images' runs/one-learner --images pair --out x.svg
refused 2 'is 1.5' runs/torn --smooth 1.5 --out x.svg
refused 3 'no `data.validation`' runs/one-learner --confusion --on validation --out x.svg
refused 1 'no/such' runs/torn --curves loss --out no/such/x.svg
[ ! -e x.svg ] && [ ! -e x.png ] || bad "a refused plot left a file"

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
