#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A learner far slower than the others, by softsync: the user is told, gradients stay within the bound while updates
# take along more of them than there are learners, and the recorded run repeats bit for bit.
source "$(dirname "$0")/../storm/help.sh"
small_job > "$dir/job.yaml"

start "$dir/run" "$dir/job.yaml" --set train.steps=1000000000 --set cluster.protocol=softsync \
    --set cluster.warm_start=never --set checkpoint.every=never --set test.every=never --record "$dir/run.log"
wait_for 20 test -e "$dir/run/live.json"
patience=${PATIENCE:-1} # sanitizers are slow
"$MUSTER" chaos "$dir/run" --do "slow learner 0 by $((10 * patience))ms for 600s" --quiet > "$dir/chaos" 2>&1 &
chaos=$!
wait_for $((40 * patience)) grep -q 'learner 0 is slow' "$dir/err"
kill -INT "$session"
finish 130 20 "a slow learner"
wait "$chaos" || fail "chaos ended with $?: $(cat "$dir/chaos")"
balanced "a slow learner"
slow=$(grep -c 'is slow' "$dir/err")
[ "$slow" = 1 ] || fail "$slow lines about slow learners, not one"
updates=$(number versions) applied=$(number applied) stale=$(number max)
[ "$stale" -le 2 ] || fail "staleness $stale, more than 2 n"
[ "$applied" -gt $((3 * updates)) ] || fail "$applied gradients in $updates updates: none has more than three"

start "$dir/again" "$dir/job.yaml" --replay "$dir/run.log"
finish 0 120 "the same again"
[ "$(number versions) $(number applied)" = "$updates $applied" ] ||
    fail "$(number applied) gradients in $(number versions) updates, recorded were $applied in $updates"
same_model "$dir/run" "$dir/again" "replayed"
echo "$applied gradients in $updates updates, staleness at most $stale: told, bounded and repeated"
