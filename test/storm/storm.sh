#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kill storm, long: 200 kills of random learners by each protocol; LeNet on Fashion-MNIST under 1000, by hardsync and
# by async; 200 deaths of the server at failpoints, 100 of all learners at once, 50 stopped learners; death at every failpoint
# by every protocol.
#
# KILLS, GAP and EPOCHS set the storm: EPOCHS must be many enough for KILLS * GAP seconds of training, and the
# script says so if they were not. SEED repeats a storm. PARTS picks some of: protocols lenet server all stops points;
# EACH is the kills of each protocol.
source "$(dirname "$0")/help.sh"
here=$(dirname "$0")
: "${KILLS:=1000}" "${GAP:=300ms}" "${EPOCHS:=80}" "${SEED:=$(date +%s)}" "${PARTS:=protocols lenet server all stops points}"
: "${EACH:=200}"
lenet=$here/../../examples/lenet-fashion.yaml
echo "storm with SEED=$SEED KILLS=$KILLS GAP=$GAP EPOCHS=$EPOCHS"
wanted() { [[ " $PARTS " == *" $1 "* ]]; }

lenet_storm() { # PROTOCOL
    local name="$KILLS random kills, LeNet, $1" calm
    local args=(--learners 4 --protocol "$1" --epochs "$EPOCHS" --set test.every=5\ epochs --set checkpoint.every=20s)
    rm -rf "$dir/run" "$dir/calm"
    start "$dir/calm" "$lenet" "${args[@]}"
    finish 0 7200 "LeNet, $1, calm"
    calm=$(number test_accuracy)
    start "$dir/run" "$lenet" "${args[@]}"
    wait_for 20 test -e "$dir/run/live.json"
    "$MUSTER" chaos "$dir/run" --seed "$SEED" --json --quiet --do "kill learner random every ~$GAP times $KILLS" \
        > "$dir/chaos.json" 2> "$dir/chaos"
    finish 0 7200 "$name"
    balanced "$name"
    echo "$name: accuracy $(number test_accuracy), calm $calm; $(number learners_lost) lost," \
        "replaced within $(number replace_p50_s) s (half), $(number replace_p99_s) s (99 %);" \
        "$(number produced) gradients = $(number applied) applied + $(number rejected) rejected + $(number lost) lost"
    [ "$(number learners_lost)" -ge "$KILLS" ] ||
        fail "$name: only $(number learners_lost) kills before the end: raise EPOCHS or shorten GAP"
    awk "BEGIN { d = $calm - $(number test_accuracy); exit !(d <= 0.01) }" || fail "$name: accuracy off by over a point"
    awk "BEGIN { exit !($(number replace_p99_s) <= 3) }" || fail "$name: replacing took $(number replace_p99_s) s"
}

small_job > "$dir/job.yaml"
sed -i 's/hang_timeout: 2s/hang_timeout: 1s/; s/every: 1[05] steps/every: 2s/' "$dir/job.yaml"
if wanted protocols; then
    for protocol in hardsync softsync async ssp hogwild mirror; do
        storm "$EACH random kills" $protocol auto "$SEED" "kill learner random every ~100ms times $EACH"
        [ "$lost" -ge "$EACH" ] || fail "$protocol: $lost lost, not $EACH"
    done
fi
if wanted server; then server_deaths 20; fi
if wanted all; then
    storm "50 kills of all learners" hardsync beside "$SEED" "kill all-learners every 300ms times 50"
    [ $lost = 150 ] || fail "$lost lost, not 150"
    storm "50 kills of all learners" async process "$SEED" "kill all-learners every 300ms times 50"
    [ $lost = 150 ] || fail "$lost lost, not 150"
fi
if wanted stops; then
    # Of different learners: the end of a short stop would also end a long one.
    storm "50 stops" hardsync beside "$SEED" "stop learner 0 for 5s every 2s times 25" \
        "stop learner 1 for 200ms every 1900ms times 25"
    [ $lost = 25 ] || fail "$lost lost by 25 stops of 5 s and 25 of 0.2 s"
fi
if wanted points; then STORM_LONG=1 bash "$here/../e2e/storm_failpoints.sh" || exit 1; fi
if wanted lenet; then
    [ -e /usr/share/datasets/fashion-mnist ] || fail "dataset-fashion-mnist is not installed"
    lenet_storm hardsync
    lenet_storm async
fi
echo "the storm is over"
