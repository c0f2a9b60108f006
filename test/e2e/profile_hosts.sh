#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `muster profile` between two hosts (test/hosts/hosts.sh) finds the network that they have: the rate of the cable to a
# fourth, and no less than its latency. A slow one does not take long.
set -uo pipefail
: "${MUSTER:=build/muster}"
case $MUSTER in /*) ;; *) MUSTER=$PWD/$MUSTER ;; esac
command -v mpirun >/dev/null || { echo "skipped: needs mpirun (openmpi-bin)"; exit 77; }
command -v jq >/dev/null || { echo "skipped: needs jq"; exit 77; }
[ -e "$(dirname "$MUSTER")/libmuster-mpi.so" ] || { echo "skipped: built without MPI (libopenmpi-dev)"; exit 77; }
fixture=$PWD/test/hosts/hosts.sh
dir=$(mktemp -d)
# shellcheck source=test/hosts/hosts.sh
source "$fixture"
trap 'hosts_down; rm -rf "$dir"' EXIT
hosts_need
cd "$dir" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }

measure() { # RATE LATENCY BYTES_PER_S LATENCY_S
    hosts_up 2 "$1" "$2"
    if timeout -k 5 120 "${hosts_mpi[@]}" -n 2 "$MUSTER" profile --quick --quiet --out "$dir/net.json" >out 2>&1; then
        echo "$1 $2: $(jq -c .network net.json)"
        # A machine with other work to do delays messages, so it may be slower, but never faster.
        jq -e ".nodes == 2 and (.network | .bytes_per_s < 1.15 * $3 and .bytes_per_s > 0.4 * $3 and .latency_s >= 0.9 * $4
                and .latency_s < 20 * $4 + 0.02 and .message_s < 1e-3 and .byte_s < 1e-6)" net.json >/dev/null ||
            bad "$1 $2: $(jq -c '[.nodes, .network]' net.json)"
    else
        bad "$1 $2: $(tail -n 5 out)"
    fi
    hosts_down
}
measure 100mbit 2ms 12.5e6 2e-3
measure 20mbit '' 2.5e6 0
[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
