#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `mpirun -n N muster profile`: rank 0 alone speaks and writes, with the network between the ranks in it; all ranks end.
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"
export XDG_CACHE_HOME=$dir/cache

for n in 2 3; do
    ends 100 "on$n" "${mpi[@]}" -n $n timeout -k 5 90 "$MUSTER" profile --quick --json || continue
    jq -e ".nodes == $n and (.cores >= 1)
        and (.network | .latency_s > 1e-8 and .latency_s < 1 and .bytes_per_s > 1e6 and .bytes_per_s < 1e12
             and .message_s > 1e-9 and .message_s < 1e-2 and .byte_s > 1e-14 and .byte_s < 1e-6)" "on$n.json" >/dev/null ||
        bad "$n ranks: $(cat "on$n.json")"
    [ "$(grep -c '^kept in' "on$n.err")" = 1 ] || bad "$n ranks: $(cat "on$n.err")"
done
jq -c .network on2.json
# A rank alone after that keeps what it knows of the network.
ends 60 alone "$MUSTER" profile --quick --json
jq -e '.nodes == 3 and .network.bytes_per_s > 1e6' alone.json >/dev/null || bad "alone: $(cat alone.json)"
finish
