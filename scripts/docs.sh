#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs.sh BUILD - writes docs/jobfile.md from the program's own tables. The curve in docs/img is made by `make reproduce`.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
mkdir -p docs
"$build/muster" help --markdown >docs/jobfile.md.new
mv docs/jobfile.md.new docs/jobfile.md
echo "wrote docs/jobfile.md" >&2
