#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers of a learner on several ranks (span.sh): workers that are killed at any time and place, a stop, a lost rank and a
# resume elsewhere change no bit of what is learnt.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"
span_mlp
w=(--set cluster.workers=4)
run_on 2 dense-2 mlp.yaml "${w[@]}" --learners 1 --set cluster.gradients=dense

# ---- deaths ----
o=(--learners 1 --set train.epochs=0 --steps 800 --set checkpoint.every=never --set cluster.gradients=dense)
kill_some() { # kill_some OUT TIMES RANKS: workers by chance, on ranks by chance
    local out=$1 times=$2 n=$3 mine ranks learners
    "${mpi[@]}" -n "$n" "$MUSTER" train mlp.yaml "${w[@]}" "${o[@]}" --out "$out" --json >"$out.json" 2>"$out.err" &
    mine=$!
    for _ in $(seq "$times"); do
        sleep 0.$((1 + RANDOM % 4))
        mapfile -t ranks < <(ranks_of $mine)
        [ ${#ranks[@]} = "$n" ] || continue
        mapfile -t learners < <(learners_of "${ranks[RANDOM % n]}" 2>/dev/null)
        [ ${#learners[@]} = 0 ] || kill -KILL "${learners[RANDOM % ${#learners[@]}]}" 2>/dev/null
    done
    wait $mine || bad "$out: $(tail -n 4 "$out.err")"
    balanced "$out"
    jq -e '.learners_lost == .learners_replaced and .steps == 800' "$out.json" >/dev/null || bad "$out: $(cat "$out.json")"
    same "$out" calm-$n
}
for n in 2 4; do
    run_on $n calm-$n mlp.yaml "${w[@]}" "${o[@]}"
    kill_some killed-$n 8 $n
done
# At places that a kill by chance seldom hits, on all ranks.
for at in workers/announced workers/completed learner/backward client/granted server/opened server/piece-written \
    server/all-done server/committed; do
    MUSTER_FAILPOINTS="$at=kill@7*2" run_on 2 point mlp.yaml "${w[@]}" --learners 1 --set checkpoint.every=never \
        --set cluster.gradients=dense
    jq -e '.learners_lost > 0' point.json >/dev/null || bad "$at: nobody was lost"
    same point dense-2
    rm -rf point
done

# ---- stops and resumes, in one process and on more ranks ----
export OMPI_MCA_odls_base_sigkill_timeout=5
long stopped mlp.yaml "${w[@]}" --learners 1 --set train.epochs=0 --steps 100000
kill -TERM $pid
wait $pid
jq -e '.stopped_by == "signal"' stopped.json >/dev/null || bad "SIGTERM: $(cat stopped.json) $(tail -n 5 stopped.err)"
step=$(jq .steps stopped.json)
cp -r stopped stopped4
timeout 60 "$MUSTER" train --resume stopped --quiet --json --steps $((step + 20)) >again.json 2>again.err ||
    bad "resume in one process: $(tail -n 4 again.err)"
timeout 60 "${mpi[@]}" -n 4 "$MUSTER" train --resume stopped4 --quiet --json --steps $((step + 20)) >again.json 2>again.err ||
    bad "resume on 4 ranks: $(tail -n 4 again.err)"
run straight mlp.yaml "${w[@]}" --learners 1 --set train.epochs=0 --steps $((step + 20)) --set checkpoint.every=never
same stopped straight
same stopped4 straight
unset OMPI_MCA_odls_base_sigkill_timeout

# ---- a rank that is lost ends the training, and rank 0 saves what was done ----
export MUSTER_RANK_TIMEOUT=2
long silent mlp.yaml "${w[@]}" --learners 1 --set train.epochs=0 --steps 100000 --set 'checkpoint.every=20 steps'
"$MUSTER" status silent >seen.txt 2>&1
[ "$(grep -c ' on rank 1 ' seen.txt)" = 2 ] || bad "status does not say who is on rank 1: $(cat seen.txt)"
kill -STOP "$(rank_1_of $pid)"
wait $pid
code=$?
[ $code = 5 ] || bad "a rank was stopped: exit $code"
grep -q "rank 1 on .* was lost: silent for" silent.err || bad "a rank was stopped: $(tail -n 5 silent.err)"
export MUSTER_RANK_TIMEOUT=20
step=$(step_of silent)
timeout 60 "${mpi[@]}" -n 2 "$MUSTER" train --resume silent --quiet --steps $((step + 10)) >again.json 2>&1 ||
    bad "resume behind a lost rank: $(tail -n 4 again.json)"
run straight2 mlp.yaml "${w[@]}" --learners 1 --set train.epochs=0 --steps $((step + 10)) --set checkpoint.every=never
same silent straight2

finish
