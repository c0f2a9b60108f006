#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The documents are up to date: the generated reference is what the program prints, and links lead somewhere.
set -uo pipefail
: "${MUSTER:?path of the program}"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

"$MUSTER" help --markdown | diff -u docs/jobfile.md - || bad "docs/jobfile.md is old: run scripts/docs.sh"

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
