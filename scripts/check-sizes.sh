#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-sizes.sh - no source file over 600 lines unless its head says why ("long because ...").
#
# Prints the ten largest files, so that growth is seen before it is a problem.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
limit=600
status=0
folders=()
for f in src include test bench python scripts; do if [ -d $f ]; then folders+=($f); fi; done
list=$(find "${folders[@]}" -type f \
    \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name '*.cu' \) -exec wc -l {} + |
    awk '$2 != "total"' | sort -rn)
while read -r n file; do
    if [ "$n" -gt $limit ] && ! head -n 30 "$file" | grep -qi 'long because'; then
        echo "$file:$n: more than $limit lines and no \"long because\" in its head" >&2
        status=1
    fi
done <<<"$list"
printf 'largest files:\n%s\n' "$(printf '%s\n' "$list" | head -n 10)"
exit $status
