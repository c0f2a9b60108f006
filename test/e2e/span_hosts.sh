#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers of one learner on two hosts (test/hosts/hosts.sh), two on each: AlexNet at a quarter of its width, its layers cut
# by batch and by feature, learns over a cable what two ranks learn on one host, to the bit, and what the net that is not
# split learns, up to rounding. A host that is cut off ends the training with what was done.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"
# shellcheck source=test/hosts/hosts.sh
. "$root/test/hosts/hosts.sh"
trap 'hosts_down; rm -rf "$dir"' EXIT
alexnet_quarter
o=(--steps 25 --set updater.rate=0.002 --set checkpoint.every=never)
w=(--set cluster.workers=4 --learners 1)
run begin alexnet.yaml --steps 1 --set updater.rate=1.0e-30 --set updater.decay=0
run whole alexnet.yaml "${o[@]}"
run_on 2 local hybrid.yaml "${o[@]}" "${w[@]}"
hosts_up 2 1gbit
hosts_proof
ends 90 hybrid "${hosts_mpi[@]}" -n 2 "$MUSTER" train hybrid.yaml "${o[@]}" "${w[@]}" --out hybrid --quiet --json
balanced hybrid
same hybrid local
changes whole hybrid 2>why || bad "over two hosts: $(cat why)"
ends 90 auto "${hosts_mpi[@]}" -n 2 "$MUSTER" train alexnet.yaml "${o[@]}" "${w[@]}" --set cluster.partition=auto --out auto \
    --quiet --json
changes whole auto 2>why || bad "over two hosts, auto: $(cat why)"
jq -e '.ranks == 2 and .bridge_bytes_sent > 0 and .wire_bytes_sent > .bridge_bytes_sent' hybrid.json >/dev/null ||
    bad "bytes: $(cat hybrid.json)"
grep -q 'count as nodes' hybrid.err && bad "two hosts are taken to be one: $(cat hybrid.err)"

# ---- all processes of the other host are stopped: rank 0 is on the first host, and saves ----
MUSTER_RANK_TIMEOUT=2 timeout -k 5 60 "${hosts_mpi[@]}" -n 2 "$MUSTER" train hybrid.yaml --steps 100000 \
    --set updater.rate=0.002 --set 'checkpoint.every=5 steps' "${w[@]}" --out lost --quiet >lost.out 2>&1 &
pid=$!
for _ in $(seq 600); do ls lost/checkpoints/step-* >/dev/null 2>&1 && break; sleep 0.05; done
# shellcheck disable=SC2046
kill -STOP $(hosts_pids "${hosts[2]}") || bad "nobody is on ${hosts[2]}: $(cat lost.out)"
for _ in $(seq 200); do grep -q 'rank 1 on .* was lost: silent for' lost.out && break; sleep 0.1; done
grep -q "rank 1 on ${hosts[2]} was lost: silent for" lost.out || bad "a host was stopped: $(tail -n 5 lost.out)"
for _ in $(seq 100); do # rank 0 has saved, and is gone
    for p in $(hosts_pids "${hosts[1]}"); do grep -qx muster "/proc/$p/comm" 2>/dev/null && continue 2; done
    break
    sleep 0.1
done
hosts_down
wait $pid
step=$(step_of lost)
cp -r lost again
timeout 60 "${mpi[@]}" -n 2 "$MUSTER" train --resume lost --quiet --steps $((step + 5)) >again.out 2>&1 ||
    bad "resume: $(tail -n 4 again.out)"
timeout 60 "$MUSTER" train --resume again --quiet --steps $((step + 5)) >again.out 2>&1 ||
    bad "resume in one process: $(tail -n 4 again.out)"
run_on 2 straight hybrid.yaml "${w[@]}" --set updater.rate=0.002 --set checkpoint.every=never --steps $((step + 5))
same lost straight
near again straight 1e-4 || bad "resume in one process: other weights"
finish
