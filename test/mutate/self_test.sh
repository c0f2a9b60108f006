#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# self_test.sh - scripts/mutate.py on the tree beside this file: of its six mutants tests kill three, one hangs,
# one survives and is found, one is listed. Nothing is left behind: no process, no change of a source.
set -uo pipefail
cd "$(dirname "$0")/../.."
command -v python3 >/dev/null || { echo "skipped: needs python3"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
wrong=0
bad() { echo "FAILED: $*"; wrong=1; }

cp -r test/mutate "$dir/tree"
export LEFT_BEHIND_S=$((100000 + $$))
tool=(python3 scripts/mutate.py --root "$dir/tree" --build "$dir/build" --rooms toy --jobs 1 --limit 4)
mutate() { "${tool[@]}" "$@"; }
is_left() { pgrep -fx "sleep $LEFT_BEHIND_S" >/dev/null; }

mutate --count 40 >"$dir/log"
status=$?
[ $status = 1 ] || bad "status $status with 4 of 5 killed, not 1"
grep -Eq '^toy +6 +3 +1 +1 +1 +80.0%' "$dir/log" || bad "another table"
[ "$(grep -c 'src/toy/toy.c:' "$dir/log")" = 1 ] || bad "not one survivor"
grep -q 'src/toy/toy.c:14 toy_untested()' "$dir/log" || bad "the survivor is not in toy_untested"
is_left && bad "a child of a test is left"
diff -r test/mutate/src "$dir/tree/src" || bad "a source was changed"

# Ended in the middle of a test that hangs, it takes everything along.
"${tool[@]}" --only fa8cb571ec >"$dir/log" &
for _ in {1..200}; do is_left && break; sleep 0.05; done
is_left || bad "the test was not begun"
kill $!
for _ in {1..20}; do is_left || break; sleep 0.1; done
is_left && bad "a child of a test outlives the tool"
wait

# The identity stays when lines move and comments change.
sed -i 's|^int toy_listed|// moved\n\n&|; s|// never changed$|// other words|' "$dir/tree/src/toy/toy.c"
mutate --only 639993f1ce >"$dir/log"
grep -q 'src/toy/toy.c:22 toy_listed()' "$dir/log" || bad "another identity after lines moved"

sed -i 's|x < 0 ?|x < 1 ?|' "$dir/tree/src/toy/toy.c"
mutate >"$dir/log"
grep -q '639993f1ce is listed, but there is no such change' "$dir/log" || bad "no word about a record that is gone"

sed -i '/why:/d' "$dir/tree/test/mutants.txt"
mutate >"$dir/log" 2>&1 && bad "a listed mutant without a reason is accepted"
grep -q 'has no reason' "$dir/log" || bad "no word about the missing reason"
[ $wrong = 0 ] || cat "$dir/log"
exit $wrong
