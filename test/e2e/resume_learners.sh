#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Learners out of step, then a killed parent, then a resume: a learner is stopped, killed or slow while checkpoints
# are saved, the parent dies, and the run goes on with the same or another number of learners to its end. Then
#   - every sample of the job is in the weights once, and what is in them twice was counted;
#   - no folder of a checkpoint ever got other weights;
#   - the weights that BEST names have the score that was recorded with them.
# RESUME_CASES=all runs all 36 cases (6 protocols x 3 faults x 2 resumes); a list of names such as
# "async:stop:other" runs those; without it one case of each protocol, which has every fault and both resumes.
source "$(dirname "$0")/../storm/help.sh"
B=48 patience=${PATIENCE:-1} watcher= chaos=
trap 'kill $watcher $chaos 2> /dev/null; stop_session; rm -rf "$dir"' EXIT
cat > "$dir/job.yaml" <<JOB
name: resume
seed: 5
data:
  train: {reader: synthetic, shape: [20], classes: 10, records: 600, scale: 0.0078125}
  validation: {reader: synthetic, shape: [20], classes: 10, records: 500, scale: 0.0078125}
net:
  - {name: fc1, type: inner_product, src: data.features, outputs: 30, init: msra}
  - {name: relu1, type: relu}
  - {name: fc2, type: inner_product, outputs: 10}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
  - {name: accuracy, type: accuracy, src: [fc2, data.label]}
train: {batch: $B, steps: 1000000000}
updater: {type: sgd, momentum: 0.5, rate: 0.00003}
test: {every: 70 steps}
checkpoint: {every: 50 steps, keep: 1000}
log: {tensorboard: false}
cluster: {learners: 3, hang_timeout: 30s, warm_start: never}
JOB

run=$dir/run
n_saved() { find "$run/checkpoints" -mindepth 1 -maxdepth 1 -name 'step-*' ! -name '*.tmp' 2> /dev/null | wc -l; }
has_saved() { [ "$(n_saved)" -ge "$1" ]; }
of_manifest() { sed -n "s/.*\"$2\": \([0-9.e+-]*\)[,}].*/\1/p" "$run/checkpoints/$1/manifest.json" | head -n 1; }

# The one that a resume takes, by its serial number: a parent killed at that moment may not have come to LATEST.
newest() {
    local n
    for n in $(ls "$run/checkpoints" | grep -xE 'step-[0-9-]+'); do echo "$(of_manifest "$n" serial) $n"; done |
        sort -n | tail -n 1 | cut -d ' ' -f 2
}

# Keeps a second name and a copy of every model file that it sees.
watch_folders() {
    local d n
    while :; do
        for d in "$run"/checkpoints/step-*/; do
            n=$(basename "$d")
            case $n in *'*'* | *.tmp) continue ;; esac
            [ -e "$dir/seen/$n" ] || { ln "$d/model.safetensors" "$dir/seen/$n" && cp "$dir/seen/$n" "$dir/copy/$n"; }
        done 2> /dev/null
        sleep 0.03
    done
}

nothing_rewritten() {
    local n
    for n in $(ls "$dir/copy"); do
        [ -e "$run/checkpoints/$n" ] || continue # `keep` has taken it away
        [ "$run/checkpoints/$n/model.safetensors" -ef "$dir/seen/$n" ] || fail "$1: $n has another file now"
        cmp -s "$dir/seen/$n" "$dir/copy/$n" || fail "$1: $n has other weights now"
    done
    [ "$(ls "$dir/copy" | wc -l)" -ge 4 ] || fail "$1: only $(ls "$dir/copy" | wc -l) folders were seen"
}

best_holds_its_score() {
    local best recorded measured
    best=$(cat "$run/checkpoints/BEST")
    recorded=$(of_manifest "$best" best)
    # The program prints fewer digits than the manifest has.
    measured=$("$MUSTER" test "$run" --on validation --best --json 2> /dev/null | sed -n 's/.*"accuracy": *\([0-9.e+-]*\)[,}].*/\1/p')
    awk "BEGIN { d = $recorded - $measured; exit !(d < 1e-9 && d > -1e-9) }" ||
        fail "$1: $best was judged $recorded and has $measured"
}

hurt() { # FAULT PROTOCOL: until checkpoints were saved under it, where the protocol goes on
    local n
    n=$(n_saved)
    case $1 in
        stop)
            kill -STOP "$(learner_pids | head -n 1)"
            if [ "$2" = async ]; then wait_for $((20 * patience)) has_saved $((n + 6))
            else for _ in $(seq 30); do has_saved $((n + 6)) && break; sleep 0.02; done; fi ;;
        kill)
            for _ in 1 2 3; do
                kill -KILL "$(learner_pids | head -n 1)" 2> /dev/null
                n=$((n + 2))
                wait_for $((20 * patience)) has_saved "$n"
            done ;;
        slow)
            "$MUSTER" chaos "$run" --do "slow learner 0 by 2ms for 600s" --quiet > "$dir/chaos" 2>&1 &
            chaos=$!
            wait_for $((30 * patience)) has_saved $((n + 6)) ;;
    esac
}

# What the checkpoint says of itself, where an update is one gradient of B / 3 samples or one step.
checkpoint_adds_up() { # NAME PROTOCOL FOLDER
    local each=$((B / 3)) version applied
    version=$(of_manifest "$3" version) applied=$(of_manifest "$3" applied_samples)
    [ "$2" = hardsync ] && each=$B
    [ "$2" = softsync ] || [ $((version * each)) = "$applied" ] ||
        fail "$1: $3 has $applied samples in $version updates of $each"
    [ "$applied" = $(($(of_manifest "$3" step) * B + $(of_manifest "$3" partial_step))) ] ||
        fail "$1: $3 has $applied samples at step $(of_manifest "$3" step)"
}

one_case() { # PROTOCOL FAULT same|other
    local name="$1, $2, $3 number" learners=3 last steps before delta mu
    rm -rf "$run" "$dir/seen" "$dir/copy"
    mkdir "$dir/seen" "$dir/copy"
    start "$run" "$dir/job.yaml" --set cluster.protocol="$1"
    watch_folders & watcher=$!
    wait_for $((20 * patience)) has_saved 3
    hurt "$2" "$1"
    local parent=$session
    kill -KILL "$parent"
    wait "$parent" 2> /dev/null
    left() { [ -z "$(pgrep -s "$parent")" ]; }
    wait_for 10 left
    session=
    [ -n "$chaos" ] && wait "$chaos"
    chaos=
    last=$(newest)
    checkpoint_adds_up "$name" "$1" "$last"
    best_holds_its_score "$name, killed"
    [ "$3" = other ] && case $2 in stop) learners=2 ;; kill) learners=1 ;; slow) learners=4 ;; esac
    steps=$(($(of_manifest "$last" step) + 150)) before=$(of_manifest "$last" applied_samples)
    resume "$run" --learners $learners --set train.steps=$steps
    finish 0 60 "$name, resumed"
    kill "$watcher"
    wait "$watcher" 2> /dev/null
    watcher=
    balanced "$name"
    [ "$(number steps) $(number samples)" = "$steps $((steps * B))" ] ||
        fail "$name: ended at step $(number steps) after $(number samples) samples, not at $steps"
    [ "$(number applied_samples)" = $((steps * B + $(number repeated_samples))) ] ||
        fail "$name: $(number applied_samples) samples applied of $((steps * B)), $(number repeated_samples) counted twice"
    delta=$(($(number applied_samples) - before)) mu=$((B / learners))
    [ "$1" = hardsync ] || [ "$(number applied)" = $(((delta + mu - 1) / mu)) ] ||
        fail "$name: $(number applied) gradients of $mu for $delta samples"
    nothing_rewritten "$name"
    best_holds_its_score "$name, resumed"
    echo "$name: $(ls "$dir/copy" | wc -l) folders seen, resumed with $learners learners from $last," \
        "$(of_manifest "$last" step) steps; $(number samples) samples, $(number repeated_samples) repeated"
}

cases=${RESUME_CASES:-hardsync:kill:other softsync:stop:same async:stop:other ssp:slow:same hogwild:slow:other mirror:kill:same}
[ "$cases" = all ] &&
    cases=$(for p in hardsync softsync async ssp hogwild mirror; do echo $p:{stop,kill,slow}:{same,other}; done)
for c in $cases; do
    IFS=: read -r protocol fault number <<< "$c"
    one_case "$protocol" "$fault" "$number"
done
