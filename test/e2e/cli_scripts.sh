#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The house checks can fail: each gets a small tree with one fault and must name it.
set -uo pipefail
scripts=$PWD/scripts
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

mkdir -p "$work/src/base" "$work/src/net" "$work/src/cli" "$work/include/muster" "$work/test"
cd "$work"
printf '#include "base/err.h"\n#include <stdio.h>\n' >src/net/good.c
printf '#include "net/net.h"\n#include "layer_list.inc"\n' >src/cli/good.c
bash "$scripts/check-includes.sh" . || bad "a right tree is refused"
printf '// head\n#include "net/net.h"\n' >src/base/bad.c
out=$(bash "$scripts/check-includes.sh" . 2>&1) && bad "an include against the direction passes"
[[ $out == *"src/base/bad.c:2: base may not include net"* ]] || bad "odd answer: $out"
rm src/base/bad.c
printf '#include "good.h"\n' >src/net/lone.c
out=$(bash "$scripts/check-includes.sh" . 2>&1) && bad "an include without folder passes"
[[ $out == *"src/net/lone.c:1:"* ]] || bad "odd answer: $out"

seq 601 | sed 's/^/int x/; s/$/;/' >src/net/long.c
out=$(bash "$scripts/check-sizes.sh" . 2>&1) && bad "a long file passes"
[[ $out == *"src/net/long.c:601:"* ]] || bad "odd answer: $out"
sed -i '1i // long because it is a table' src/net/long.c
bash "$scripts/check-sizes.sh" . >/dev/null || bad "a long file with a reason is refused"

out=$(bash "$scripts/setup.sh" --check nonsense 2>&1)
[ $? = 2 ] || bad "setup.sh takes any profile"
[[ $out == *"there are: build demo test"* ]] || bad "odd answer: $out"

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
