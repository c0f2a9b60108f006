#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes that hang (an endless loop) or are stopped, holding the lock or not, in the lock by whichever thread:
# noticed within hang_timeout + 2 s, only the culprit is killed, the run ends as if nothing had happened.
source "$(dirname "$0")/../storm/help.sh"
small_job > "$dir/job.yaml"
sed -i 's/hang_timeout: 2s/hang_timeout: 1s/' "$dir/job.yaml"

# check NAME LOST: the culprit of each failpoint is the one that was killed, in time.
check() {
    local culprits killed quiet
    culprits=$(sed -n 's/.*failpoint .*(pid \([0-9]*\)).*/\1/p' "$dir/err" | sort)
    killed=$(sed -n 's/.*(pid \([0-9]*\)) \(gave no\|held the\).*/\1/p' "$dir/err" | sort)
    [ -n "$culprits" ] || fail "$1: the failpoint was not reached"
    [ "$culprits" = "$killed" ] || fail "$1: $culprits hung, $killed killed for it"
    quiet=$(sed -n 's/.*\(no sign of life\|lock\) for \([0-9.]*\) s.*/\2/p' "$dir/err" | sort -n | tail -n 1)
    awk "BEGIN { exit !($quiet <= $limit + 2) }" || fail "$1: noticed after $quiet s"
    [ $(($(number learners_lost) + $(number server_lost))) = "$2" ] ||
        fail "$1: lost $(number learners_lost) learners and $(number server_lost) servers, expected $2"
    balanced "$1"
    same_model "$dir/calm" "$dir/run" "$1"
    rm -rf "$dir/run"
    echo "$1: noticed after $quiet s"
}

hang() { # POINT=ACTION SERVER LOST
    export MUSTER_FAILPOINTS=$1
    start "$dir/run" "$dir/job.yaml" --set cluster.server=$2 --set train.steps=300
    unset MUSTER_FAILPOINTS
    finish 0 40 "$1, $2"
    check "$1, $2" $3
}

start "$dir/calm" "$dir/job.yaml" --set train.steps=300
finish 0 30 "without a fault"
limit=1
hang learner/forward=hang@100 beside 1
hang learner/backward=stop@100 process 1
hang client/pushed=hang@50 beside 1
hang server/piece-written=hang@500 beside 1
hang server/piece-written=stop@500 process 1
hang server/opened=hang@20 process 1
hang shared/switched=stop@100 beside 1
for pass in 100 101 102 103; do hang shared/inside-lock=hang@$pass beside 1; done
hang shared/inside-lock=stop@90 process 1
# The statistics process has ten times as long: a slow disk is no hang.
limit=10
hang judge/evaluate=stop beside 0

# A learner dies while another holds the lock: the parent, who needs it too, must not wait for it.
death_while_held() { # NAME SECONDS-STOPPED ARGS...: with seconds, all are stopped (Ctrl-Z) so long
    local name=$1 away=$2 culprit
    shift 2
    : > "$dir/err" # the run before had the same failpoint
    export MUSTER_FAILPOINTS="shared/inside-lock=hang@100"
    start "$dir/run" "$dir/job.yaml" --set train.steps=300 "$@"
    unset MUSTER_FAILPOINTS
    wait_for 20 grep -q 'failpoint shared' "$dir/err"
    culprit=$(sed -n 's/.*failpoint .*(pid \([0-9]*\)).*/\1/p' "$dir/err")
    kill -KILL "$(learner_pids | grep -vx "$culprit" | head -n 1)"
    if [ "$away" != 0 ]; then
        sleep 0.3
        pkill -STOP -s "$session"
        sleep "$away"
        pkill -CONT -s "$session"
    fi
    finish 0 40 "$name"
}
limit=1
death_while_held "a death while the lock is held" 0
check "a death while the lock is held" 2
# Longer than the parent would wait: it has not waited then.
death_while_held "a death, all stopped" 6
check "a death, all stopped" 2
# The parent is away for longer than a hung learner's due: the others wait for the lock until it is back.
parent_away() { # NAME SECONDS
    : > "$dir/err"
    export MUSTER_FAILPOINTS="shared/inside-lock=hang@100"
    start "$dir/run" "$dir/job.yaml" --set train.steps=300
    unset MUSTER_FAILPOINTS
    wait_for 20 grep -q 'failpoint shared' "$dir/err"
    kill -STOP "$session"
    sleep "$2"
    kill -CONT "$session"
    finish 0 40 "$1"
}
parent_away "the parent away" 5
check "the parent away" 1
# A try at the lock takes as long as this time-out, and must not look like an absence of the parent.
death_while_held "a short time-out" 0 --set cluster.hang_timeout=0.2s
