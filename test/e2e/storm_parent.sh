#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The parent of a group: killed, interrupted, terminated, resumed, resumed twice at once, resumed with another
# number of learners, and with a full disk.
source "$(dirname "$0")/../storm/help.sh"
small_job > "$dir/job.yaml"
steps=(--set train.steps=8000)
saved() { [ -e "$1/checkpoints/LATEST" ]; }

start "$dir/whole" "$dir/job.yaml" "${steps[@]}"
finish 0 60 "uninterrupted"

# Killed at an unplanned moment: the children go with it, and a resume gives what an undisturbed run gives.
start "$dir/killed" "$dir/job.yaml" "${steps[@]}"
wait_for 30 saved "$dir/killed"
sleep 0.1
[ -n "$(children)" ] || fail "the run ended before it could be killed"
parent=$session
kill -KILL "$parent"
wait "$parent" 2> /dev/null
gone() { [ -z "$(children)" ]; }
wait_for 2 gone
session=
[ -e "$dir/killed/live.json" ] || fail "no live.json is left by a killed parent"
"$MUSTER" status "$dir/killed" > "$dir/status" 2>&1
grep -q "ended without goodbye (process $parent)" "$dir/status" || fail "status of a killed run: $(cat "$dir/status")"
resume "$dir/killed"
holds_run() { grep -q "\b$session\b" "$dir/killed/live.json" 2> /dev/null; }
wait_for 30 holds_run
"$MUSTER" train --resume "$dir/killed" --quiet 2> "$dir/second"
code=$?
[ $code = 2 ] || fail "a second resume at the same time ended with $code, not 2: $(cat "$dir/second")"
grep -q "$session" "$dir/second" || fail "the second resume is not told who has the run: $(cat "$dir/second")"
finish 0 60 "resumed after SIGKILL"
same_model "$dir/whole" "$dir/killed" "resumed after SIGKILL"
[ ! -e "$dir/killed/live.json" ] || fail "live.json is still there after the end"
echo "parent killed: gone with its children, resumed bit for bit"

# Interrupted and terminated, by hardsync and by protocols that are too fast to be hit in a run of 8000 steps.
for pair in INT:130:hardsync TERM:143:hardsync INT:130:async TERM:143:hogwild; do
    IFS=: read -r signal code protocol <<< "$pair"
    length=("${steps[@]}") last=8000
    [ $protocol = hardsync ] || length=(--set train.steps=100000000)
    start "$dir/$pair" "$dir/job.yaml" "${length[@]}" --set cluster.protocol=$protocol
    wait_for 30 saved "$dir/$pair"
    kill -s $signal "$session"
    finish $code 10 "$pair"
    balanced "$pair"
    grep -q '"checkpoint":"[^"]*step-' "$dir/out.json" || fail "$pair: no checkpoint in the result"
    says '--resume' "$pair"
    [ $protocol = hardsync ] || last=$(($(number steps) + 500))
    resume "$dir/$pair" --set train.steps=$last
    finish 0 60 "$pair, resumed"
    balanced "$pair, resumed"
    [ "$(number steps)" -ge $((last - 1)) ] || fail "$pair, resumed: ended at step $(number steps)"
    [ $protocol != hardsync ] || same_model "$dir/whole" "$dir/$pair" "$pair, resumed"
done
echo "interrupted and terminated: saved and resumed"

# Another number of learners: at the same step the weights are those of before, and it goes on.
start "$dir/two" "$dir/job.yaml" --set cluster.learners=2 --set train.steps=50
finish 0 30 "two learners"
mkdir "$dir/before" && cp "$dir/two/model.safetensors" "$dir/before/"
resume "$dir/two" --learners 3
finish 0 30 "nothing left for three learners"
same_model "$dir/before" "$dir/two" "resumed with 3 learners"
resume "$dir/two" --learners 3 --set train.steps=100
finish 0 30 "three learners"
[ "$(number steps),$(number learners)" = 100,3 ] || fail "three learners: step $(number steps), $(number learners) learners"
echo "resumed with three learners instead of two"

# A disk that is full for a while.
mkdir "$dir/disk"
if ! mount -t tmpfs -o size=3m muster-storm "$dir/disk" 2> /dev/null; then
    echo "a full disk: skipped, no right to mount a file system"
    exit 0
fi
trap 'stop_session; umount "$dir/disk"; rm -rf "$dir"' EXIT
start "$dir/disk/run" "$dir/job.yaml" --set train.deadline=20s --set train.steps=100000000 --set checkpoint.keep=1
wait_for 30 saved "$dir/disk/run"
dd if=/dev/zero of="$dir/disk/full" bs=64k > /dev/null 2>&1
wait_for 10 grep -q 'checkpoint not saved: .*; training goes on' "$dir/err"
rm "$dir/disk/full"
before=$(readlink "$dir/disk/run/checkpoints/LATEST" 2> /dev/null || cat "$dir/disk/run/checkpoints/LATEST")
again() { [ "$(readlink "$dir/disk/run/checkpoints/LATEST" 2> /dev/null || cat "$dir/disk/run/checkpoints/LATEST")" != "$before" ]; }
wait_for 10 again
kill -INT "$session"
finish 130 10 "a full disk"
balanced "a full disk"
echo "full disk: training went on, and saved when there was room"
