#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs.sh BUILD - writes docs/jobfile.md from the program's own tables, then the plots.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
mkdir -p docs
"$build/muster" help --markdown >docs/jobfile.md.new
mv docs/jobfile.md.new docs/jobfile.md
echo "wrote docs/jobfile.md" >&2
for plot in scripts/plot-*.py; do
    [ -e "$plot" ] || continue
    if /usr/bin/python3 -c 'import matplotlib' 2>/dev/null; then
        /usr/bin/python3 "$plot"
    else
        echo "docs.sh: $plot skipped, install python3-matplotlib" >&2
    fi
done
