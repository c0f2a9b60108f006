#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test-peers.sh BUILD - runs every live comparison in test/peers with Debian's Python and PyTorch.
# Each script gets MUSTER and BUILD in its environment and exits 0, 1, or 77 (skipped).
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
export BUILD=$PWD/$build MUSTER=$PWD/$build/muster OMP_NUM_THREADS=1
status=0 ran=0
for f in test/peers/*.py test/peers/*.sh; do
    [ -e "$f" ] || continue
    rc=0
    case $f in
        *.py) /usr/bin/python3 "$f" || rc=$? ;;
        *) bash "$f" || rc=$? ;;
    esac
    case $rc in
        0) echo "ok       $f"; ran=1 ;;
        77) echo "skipped  $f" ;;
        *) echo "FAILED   $f (status $rc)"; ran=1 status=1 ;;
    esac
done
[ $ran = 1 ] || { echo "test-peers.sh: nothing was compared" >&2; exit 1; }
exit $status
