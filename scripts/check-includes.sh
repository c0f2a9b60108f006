#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-includes.sh [FOLDER] - every #include "..." follows the direction of the house (ARCHITECTURE.md).
#
#   ground:    base > device > tensor > ops > comm > file
#   flow:      job > read > data > layer > net > updater > ps > algo
#   training:  store > train > learners > run > watch > look > plot
#   around:    recipe > plan > service > cli > simulate
#
# A file includes only its own folder, folders left of it in its band, and the bands above. So a folder
# may include exactly the folders before it in the one list that the bands make. Wrong ones are printed
# as file:line. The installed header includes nothing of ours.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

awk '
BEGIN {
    n = split("base device tensor ops comm file job read data layer net updater ps algo store train learners run watch look plot recipe plan service cli simulate", order, " ")
    for (i = 1; i <= n; i++) place[order[i]] = i
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    match($0, /"[^"]*"/)
    inc = substr($0, RSTART + 1, RLENGTH - 2)
    if (FILENAME ~ /^include\//) { bad(FILENAME " is installed and may not include \"" inc "\""); next }
    split(FILENAME, at, "/")
    from = at[2]
    if (inc ~ /_list\.inc$/ || inc == "muster/muster.h") next
    if (split(inc, to, "/") < 2) { bad("\"" inc "\" names no folder; write \"" from "/" inc "\""); next }
    if (!(from in place)) { bad("folder src/" from " has no place in the house"); next }
    if (!(to[1] in place)) { bad("folder of \"" inc "\" has no place in the house"); next }
    if (place[to[1]] > place[from]) bad(from " may not include " to[1] " (\"" inc "\")")
}
function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; wrong++ }
END { if (wrong) { printf "%d include(s) against the direction\n", wrong; exit 1 } }
' $(find src include -name '*.[ch]' | LC_ALL=C sort) >&2
