#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD - hands over to bench/run.py, which times Muster and PyTorch in turns and prints one table.
set -euo pipefail
cd "$(dirname "$0")/.."
exec /usr/bin/python3 bench/run.py --muster "${1:-build}/muster" ${BENCH_ARGS:-}
