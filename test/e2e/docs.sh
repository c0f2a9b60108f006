#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documents are up to date: the generated reference is what the program prints, and links lead somewhere.
#
# A plug-in of one's own must not need a second file, so words that the reference does not know at all are left
# out of the comparison: their rows `| word | what |` and their sections. Everything else must be the same.
set -uo pipefail
: "${MUSTER:?path of the program}"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

known() {
    awk 'NR == FNR { if (/^\| `/) row[$2]; if (/^### /) section[$0]; next }
        /^##/ { drop = /^### / && !($0 in section) }
        drop || (/^\| `/ && gsub(/\|/, "|") == 3 && !($2 in row)) { next }
        { print }' docs/jobfile.md -
}
"$MUSTER" help --markdown | known | diff -u docs/jobfile.md - || bad "docs/jobfile.md is old: run scripts/docs.sh"

for page in *.md docs/*.md; do
    while read -r link; do
        [ -e "$(dirname "$page")/${link%%#*}" ] || bad "$page links to $link, which is not there"
    done < <(grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//; /^http/d; /^#/d')
done
# Files and folders of the tree that the text names in backticks.
for page in docs/*.md; do
    while read -r path; do
        [ -e "$path" ] || bad "$page names $path, which is not there"
    done < <(grep -o '`\(src\|test\|scripts\|examples\|include\)/[a-zA-Z0-9_./-]*[a-z]`' "$page" | tr -d '`' | sort -u)
done

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
