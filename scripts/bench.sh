#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh [--scale | --hosts] BUILD - hands over to bench/run.py, which times Muster and PyTorch in turns and prints one
# table; with --scale to bench/scale.py, which does that for several learners; with --hosts to bench/hosts.py, for
# several hosts.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --scale ]; then
    exec /usr/bin/python3 bench/scale.py --muster "${2:-build}/muster" ${SCALE_ARGS:-}
fi
if [ "${1:-}" = --hosts ]; then
    exec /usr/bin/python3 bench/hosts.py --muster "${2:-build}/muster" ${HOSTS_ARGS:-}
fi
exec /usr/bin/python3 bench/run.py --muster "${1:-build}/muster" ${BENCH_ARGS:-}
