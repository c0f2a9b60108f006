#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Jobs written for a person's own data: each one checks and trains; names of files may be anything; nothing is
# overwritten; what is no data of the kind is refused with a hint at what it is.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
expect() { # expect STATUS command... ; output in out and err
    local want=$1 got
    shift
    "$@" >out 2>err
    got=$?
    [ "$got" = "$want" ] || { bad "$* ended with $got, not $want"; tail -3 err; }
}
has() { grep -qF -- "$2" "$1" || { bad "$1 lacks: $2"; tail -3 "$1"; }; }
trains() { # trains JOB
    expect 0 "$MUSTER" check "$1"
    expect 0 "$MUSTER" train "$1" --steps 3 --set updater.rate=0.001 --out "run$((runs += 1))"
}
runs=0

# ---- data ----
for i in $(seq 400); do echo "Line $i of a text has $((i * i % 97)) words, and $((i % 7)) more."; done > text.txt
awk 'BEGIN { print "month,visitors,price"; for (i = 0; i < 120; i++)
    printf "%d-%02d,%s,%.2f\n", 2000 + int(i / 12), i % 12 + 1,
           i == 50 ? "" : 100 + i + 30 * sin(i * 3.14159 / 6),
           200 + 2 * i + 25 * cos(i * 3.14159 / 6) + i * 7919 % 13 / 4 }' > months.csv
# PGM and PPM are not read, so the pictures are PNGs made of their parts: 8x8, one colour each.
make_png() { # make_png FILE R G B ; needs python3
    python3 -c '
import struct, sys, zlib
f, r, g, b = sys.argv[1], *map(int, sys.argv[2:])
def part(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
row = b"\0" + bytes([r, g, b]) * 8
open(f, "wb").write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    + part(b"IDAT", zlib.compress(row * 8)) + part(b"IEND", b""))' "$@"
}

# ---- char ----
expect 0 "$MUSTER" init char text.txt
has err "text.txt: a text of $(wc -c < text.txt) bytes"
has err 'next: muster train char.yaml'
trains char.yaml
gzip -k text.txt
expect 0 "$MUSTER" init char text.txt.gz zipped.yaml
trains zipped.yaml
expect 0 "$MUSTER" init char text.txt - --name other
has out 'name: "other"'

# ---- any name, any folder ----
odd=$'d "ü/it\'s: a {list}, #1 \\ %s & more'
mkdir -p "$odd" 'jobs of mine'
cp text.txt "$odd/my \"text\".txt"
expect 0 "$MUSTER" init char "$odd/my \"text\".txt" 'jobs of mine/an odd ü job.yaml'
has err "next: muster train 'jobs of mine/an odd ü job.yaml'"
trains 'jobs of mine/an odd ü job.yaml'
expect 0 "$MUSTER" init char "$work/text.txt" 'jobs of mine/whole.yaml'
has 'jobs of mine/whole.yaml' "$work/text.txt"
trains 'jobs of mine/whole.yaml'
mkdir elsewhere
ln -s "$work/elsewhere" linked
expect 0 "$MUSTER" init char text.txt linked/job.yaml
trains linked/job.yaml
expect 0 "$MUSTER" init char text.txt "$work/elsewhere/absolute.yaml"
trains elsewhere/absolute.yaml
latin=$(printf 'latin-\344.txt')
cp text.txt "$latin"
expect 2 "$MUSTER" init char "$latin" latin.yaml
has err 'is not UTF-8'
expect 2 "$MUSTER" init char text.txt name.yaml --name 'a b'
has err 'a job cannot be called'

# ---- timeseries: the answers of a linear world are found again, in their own unit ----
expect 0 "$MUSTER" init timeseries months.csv
has err '120 rows, 2 columns of numbers, 1 gaps, season of 12'
has timeseries.yaml 'Things repeat after 12 rows'
trains timeseries.yaml
expect 0 "$MUSTER" train timeseries.yaml --out series
window=$(sed -n 's/.*window: \([0-9]*\).*/\1/p' timeseries.yaml | head -1)
expect 0 "$MUSTER" predict series months.csv --format csv
n=$(grep -c . out)
[ "$n" = $((120 - window + 1)) ] || bad "$n answers for windows of $window in 120 rows"
tail -1 out | awk -F, '{ want = 200 + 240 + 25; exit !($NF > want - 8 && $NF < want + 8) }' ||
    bad "the future is $(tail -1 out)"
expect 0 "$MUSTER" init timeseries months.csv visitors.yaml --label visitors
has visitors.yaml 'target: "visitors"'
trains visitors.yaml
expect 3 "$MUSTER" init timeseries months.csv no.yaml --label visitor
has err 'Did you mean `visitors`'

# ---- images ----
if command -v python3 >/dev/null; then
    for k in $(seq 6); do
        mkdir -p "pictures/red ones" "pictures/green"
        make_png "pictures/red ones/$k.png" $((200 + k)) 10 "$k"
        make_png "pictures/green/$k.png" 10 $((200 + k)) "$k"
    done
    expect 0 "$MUSTER" init images pictures
    has err '12 images in 2 classes (6 to 6 each), colour, 8x8'
    trains images.yaml
    mkdir parts
    cp -r pictures parts/train
    cp -r pictures parts/test
    expect 0 "$MUSTER" init images parts/ parts.yaml
    has parts.yaml 'root: "parts/train"'
    has parts.yaml 'root: "parts/test"'
    trains parts.yaml
fi
mkdir nothing
expect 3 "$MUSTER" init images nothing no.yaml
has err 'has no folders of PNG or JPEG images'
expect 3 "$MUSTER" init images text.txt no.yaml
has err 'is no folder'
expect 0 "$MUSTER" init images example.yaml
has example.yaml 'muster train example.yaml'

# ---- what is refused ----
cp char.yaml before
expect 2 "$MUSTER" init char text.txt
has err '`char.yaml` exists and is not overwritten'
has err '`muster init char text.txt other.yaml`'
cmp -s before char.yaml || bad 'char.yaml was overwritten'
expect 2 "$MUSTER" init char
has err '`init char` needs your data'
expect 1 "$MUSTER" init char missing.txt no.yaml
has err 'missing.txt'
: > empty
for kind in char timeseries; do
    expect 3 "$MUSTER" init $kind empty no.yaml
    has err 'empty'
done
head -c 3000 /dev/zero > zeros
expect 3 "$MUSTER" init char zeros no.yaml
has err 'is no text'
expect 2 "$MUSTER" init char text.txt no.yaml --label x
expect 2 "$MUSTER" init lenet text.txt no.yaml
expect 2 "$MUSTER" init tabel text.txt
expect 1 "$MUSTER" init char text.txt no/such/folder.yaml
[ ! -e no.yaml ] || bad 'a job was left behind'

# ---- hints at another kind ----
for i in $(seq 30); do printf 'label%d\tsome words of number %d\n' $((i % 2)) "$i"; done > text.tsv
expect 3 "$MUSTER" init timeseries text.tsv no.yaml
! "$MUSTER" init | grep -q '^  text ' || has err '`muster init text`'
expect 0 "$MUSTER" init char months.csv hint.yaml
has err '`muster init timeseries`'
expect 3 "$MUSTER" init timeseries text.txt no.yaml
has err '`muster init char`'
if "$MUSTER" init | grep -q '^  table '; then
    expect 0 "$MUSTER" init table months.csv hint2.yaml
    has err '`muster init timeseries`'
fi

[ "$wrong" = 0 ] && echo ok
exit $((wrong > 0))
