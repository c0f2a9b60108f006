#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The command line as a contract: help, typos, exit codes, streams, init, generated shell files.
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
    [ $got = "$want" ] || bad "\`$*\` ended with $got, not $want: $(head -n 3 err)"
}
has() { grep -qF -- "$2" "$1" || bad "$1 has no \`$2\`: $(head -n 5 "$1")"; }
empty() { [ ! -s "$1" ] || bad "$1 should be empty: $(head -n 3 "$1")"; }

# Help: on no words, -h, --help; every verb; at most 80 columns; an example first; exit 0, stdout only.
for h in '' -h --help help; do
    expect 0 "$MUSTER" $h
    has out 'Usage: muster VERB'
    empty err
done
verbs=$("$MUSTER" -h | sed -n '/^Verbs:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
[ -n "$verbs" ] || bad "no verbs listed"
for v in $verbs; do
    for h in -h --help; do
        expect 0 "$MUSTER" "$v" $h
        head -n 1 out | grep -q '^Example' || bad "$v $h does not start with an example"
        ! grep -nE '^.{81,}' out || bad "$v $h is wider than 80 columns"
        ! grep -nE ' $' out || bad "$v $h has blanks at line ends"
        empty err
    done
done
for t in job reader layer init updater schedule protocol algorithm op 'layer convolution' 'protocol softsync' 'updater sgd' 'schedule step' convolution; do
    expect 0 "$MUSTER" help $t
    ! grep -nE '^.{81,}' out || bad "help $t is wider than 80 columns"
    ! grep -nE ' $' out || bad "help $t has blanks at line ends"
done
"$MUSTER" help layer convolution | grep -q 'required' || bad "help layer convolution shows no required key"

# Typos.
expect 2 "$MUSTER" docter
has err 'unknown verb `docter`'
has err 'muster doctor'
empty out
expect 2 "$MUSTER" doctor --jsno
has err '--json'
expect 2 "$MUSTER" help layer convolutoin
has err 'muster help layer convolution'
expect 2 "$MUSTER" help layre
has err 'muster help layer'
expect 2 "$MUSTER" init lenett
has err 'muster init lenet'
expect 2 "$MUSTER" --nothing
if grep -q $'\033' err; then bad "escapes in a file"; fi

# Version and start-up: 20 ms is the promise; a loaded test machine gets five times that.
expect 0 "$MUSTER" --version
grep -qE '^muster [0-9]+\.[0-9]+\.[0-9]+$' out || bad "odd version: $(cat out)"
best=1000000
for _ in 1 2 3 4 5 6 7 8; do
    a=$(date +%s%N); "$MUSTER" --version >/dev/null; b=$(date +%s%N)
    us=$(((b - a) / 1000))
    if [ $us -lt $best ]; then best=$us; fi
done
echo "start-up: $best us"
if ! nm "$MUSTER" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
    [ $best -lt 100000 ] || bad "start-up takes $best us"
fi

# Results that cannot be written are a failure.
if [ -w /dev/full ]; then
    "$MUSTER" help job >/dev/full 2>err
    [ $? = 1 ] || bad "a full disk went unnoticed"
fi

# init: writes, refuses to overwrite, speaks of the new file, lists.
expect 0 "$MUSTER" init
has out lenet
for k in $(sed "1,/^examples/d; /^[a-z]/,\$d" out | cut -d" " -f3); do
    expect 0 "$MUSTER" init "$k" "$k.yaml"
    has "$k.yaml" "muster train $k.yaml"
    ! grep -q 'examples/[a-z_0-9-]*\.yaml\|\.\./data' "$k.yaml" || bad "$k.yaml speaks of the repository"
    cp "$k.yaml" before
    expect 2 "$MUSTER" init "$k" "$k.yaml"
    has err "\`muster init $k other.yaml\`"
    has err 'not overwritten'
    cmp -s before "$k.yaml" || bad "$k.yaml was overwritten"
done
expect 0 "$MUSTER" init lenet -
cmp -s out lenet.yaml || bad "init to stdout differs"
expect 1 "$MUSTER" init lenet no/such/folder.yaml

# doctor: every line has a verdict; --json parses.
expect 0 "$MUSTER" doctor
! grep -vE '^(ok|note|missing) +[a-z]+ +|^ +-> ' out || bad "doctor says something odd"
expect 0 "$MUSTER" doctor --json
if command -v jq >/dev/null; then jq -e '.checks | length > 5' out >/dev/null || bad "doctor --json does not parse"; fi

# Generated files are valid for their readers.
expect 0 "$MUSTER" help --completion bash
bash -n out || bad "bash completion does not parse"
bash -c 'source ./out; COMP_WORDS=(muster do); COMP_CWORD=1; _muster; [ "${COMPREPLY[0]}" = doctor ] || exit 1
    COMP_WORDS=(muster doctor --la); COMP_CWORD=2; _muster; [ "${COMPREPLY[0]}" = --latency ] || exit 1
    COMP_WORDS=(muster help sch); COMP_CWORD=2; _muster; [ "${COMPREPLY[0]}" = schedule ]' ||
    bad "bash completion completes wrongly"
expect 0 "$MUSTER" help --completion=zsh
head -n 1 out | grep -qx '#compdef muster' || bad "zsh completion has no head"
if command -v zsh >/dev/null; then zsh -n out || bad "zsh completion does not parse"; fi
expect 0 "$MUSTER" help --man
if command -v groff >/dev/null; then
    groff -man -Tutf8 -ww out 2>&1 >/dev/null | grep . && bad "groff warns about the manual page"
fi
for v in $verbs; do grep -q "^\.SS \"muster $v " out || bad "manual page has no verb $v"; done
expect 0 "$MUSTER" help --markdown
for w in '# The job file' '### convolution' '| `filters` |' '### sgd'; do has out "$w"; done

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
