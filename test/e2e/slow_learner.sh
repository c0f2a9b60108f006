#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A learner far slower than the others. By async, where nobody waits for it, the user is told. By softsync, where the
# bound of staleness makes the others wait for it, however many cores there are, gradients stay within the bound, and
# the recorded run repeats bit for bit.
source "$(dirname "$0")/../storm/help.sh"
small_job > "$dir/job.yaml"
patience=${PATIENCE:-1} # sanitizers are slow

# slow_down OUT MS: learner 0 of the run sleeps so long in every gradient.
slow_down() {
    wait_for 20 test -e "$1/live.json"
    "$MUSTER" chaos "$1" --do "slow learner 0 by $2ms for 600s" --quiet > "$dir/chaos" 2>&1 &
    chaos=$!
}

start "$dir/told" "$dir/job.yaml" --set train.steps=1000000000 --set cluster.protocol=async \
    --set cluster.warm_start=never --set checkpoint.every=never --set test.every=never
slow_down "$dir/told" $((100 * patience))
wait_for $((40 * patience)) grep -q 'learner 0 is slow' "$dir/err"
kill -INT "$session"
finish 130 $((20 * patience)) "a slow learner"
wait "$chaos" || fail "chaos ended with $?: $(cat "$dir/chaos")"
balanced "a slow learner"
slow=$(grep -c 'is slow' "$dir/err")
[ "$slow" = 1 ] || fail "$slow lines about slow learners, not one"

start "$dir/run" "$dir/job.yaml" --set train.steps=2500 --set cluster.protocol=softsync \
    --set cluster.warm_start=never --set checkpoint.every=never --set test.every=never --record "$dir/run.log"
slow_down "$dir/run" $((10 * patience))
finish 0 $((120 * patience)) "a slow learner and a bound"
wait "$chaos" || fail "chaos ended with $?: $(cat "$dir/chaos")"
balanced "a slow learner and a bound"
updates=$(number versions) applied=$(number applied) stale=$(number max)
[ "$stale" -le 2 ] || fail "staleness $stale, more than 2 n"

start "$dir/again" "$dir/job.yaml" --replay "$dir/run.log"
finish 0 $((120 * patience)) "the same again"
[ "$(number versions) $(number applied)" = "$updates $applied" ] ||
    fail "$(number applied) gradients in $(number versions) updates, recorded were $applied in $updates"
same_model "$dir/run" "$dir/again" "replayed"
echo "$applied gradients in $updates updates, staleness at most $stale: told, bounded and repeated"
