#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Death at every failpoint, by every protocol, with the server beside the learners and in a process of its own:
# the run ends well, each loss has its line, the ledger balances, no process stays, and hardsync gives the bits
# of an undisturbed run. Asynchronous protocols begin at once, or behind the warm start they have by default, here
# 8 steps, around whose end most deaths are. With STORM_LONG=1 all of it; else hardsync at every point, and of the
# other protocols every third point each, in turns with and without a warm start, so that all points are passed by one
# of them.
source "$(dirname "$0")/../storm/help.sh"
small_job > "$dir/job.yaml"

group="shared/inside-lock shared/switched client/granted client/pushed learner/forward learner/backward"
server="server/formed server/not-opened server/opened server/claimed server/piece-saved server/piece-written
        server/slice-done server/all-done server/closed server/committed"
evaluator="evaluator/evaluate evaluator/evaluated evaluator/save evaluator/saved"
actions=(kill abort exit)
n=0 third=0 turn=0

loss_line() { # POINT SERVER: what the parent says about the dead
    case $1,$2 in
        evaluator/*) echo '^the statistics process' ;;
        server/*,process) echo '^the server' ;;
        shared/*,process | shared/*,both | server/*,both) echo '^the server\|^learner [0-2] (pid' ;;
        *) echo '^learner [0-2] (pid\|^worker [01] of learner [0-2] (pid' ;;
    esac
}

pass_of() { # PROTOCOL POINT WARM: which time it is passed; with a warm start about where that ends
    local some=$((n % 5)) early=0
    [ "$1" = mirror ] && early=1 # there is no server any more behind the warm start
    case $3,$2 in
        *,evaluator/*) echo 1 ;;
        never,server/piece-*) echo 77 ;;
        never,*) echo $((7 + some)) ;;
        *,shared/*) echo $((100 + 10 * some)) ;;
        *,learner/*) echo $((130 + 6 * some)) ;;
        *,client/*) echo $((20 + 2 * some)) ;;
        *,server/piece-*) echo $((500 + 15 * some)) ;;
        *,server/claimed | *,server/slice-done) echo $((36 - 6 * early + (3 - early) * some)) ;;
        *) echo $((6 - 2 * early + some)) ;;
    esac
}

death() { # PROTOCOL SERVER POINT PASS WARM [SILENT]
    local action=${actions[$((n % 3))]} steps=40 set=(--set "cluster.protocol=$1" --set "cluster.warm_start=$5")
    local name="$1, warm start $5, $2, $3=$action@$4"
    [[ $1 == *hogwild* || $1 == mirror ]] || set+=(--set "cluster.server=$2")
    case $3 in evaluator/*) steps=1000 ;; esac # long enough for an evaluation and a checkpoint under way
    set+=(--set train.steps=$steps)
    n=$((n + 1))
    export MUSTER_FAILPOINTS="$3=$action@$4;seed=$n"
    start "$dir/run" "$dir/job.yaml" "${set[@]}"
    unset MUSTER_FAILPOINTS
    finish 0 30 "$name"
    balanced "$name"
    sed 's/^warn: //' "$dir/err" > "$dir/lines"
    if [ -z "${6:-}" ]; then
        says "failpoint $3, pass $4" "$name"
        grep -q "$(loss_line "$3" "$2")" "$dir/lines" || fail "$name: the loss has no line"
    fi
    [[ $1 == hogwild || $1 == mirror ]] || [ "$(number applied)" = $((3 * steps)) ] ||
        fail "$name: $(number applied) gradients applied, not $((3 * steps))"
    [ "$1" != hardsync ] && [ "$5" != "$steps steps" ] || same_model "$dir/calm$steps" "$dir/run" "$name"
    rm -rf "$dir/run"
}

for steps in 40 1000; do
    start "$dir/calm$steps" "$dir/job.yaml" --set train.steps=$steps
    finish 0 30 "without a fault"
done
for protocol in hardsync '{type: softsync, n: 2}' async '{type: ssp, bound: 2}' hogwild mirror; do
    for where in beside process; do
        points="$group $evaluator $server"
        [ "$protocol" = hogwild ] && points="$group $evaluator"
        [[ $protocol,$where == hogwild,process || $protocol,$where == mirror,process ]] && continue # no server
        for p in $points; do
            third=$(((third + 1) % 3))
            [ -n "${STORM_LONG:-}" ] || [ "$protocol" = hardsync ] || [ $third = 0 ] || continue
            starts=(never auto)
            [[ $protocol == hardsync || $protocol == hogwild ]] && starts=(never) # without warm start anyway
            [[ $protocol == mirror && $p == server/* ]] && starts=(auto) # only there it has a server,
            [[ $protocol != hardsync && $p == server/piece-* ]] && starts=(auto) # only there undo pieces
            [ -n "${STORM_LONG:-}" ] || starts=("${starts[turn++ % ${#starts[@]}]}")
            for warm in "${starts[@]}"; do
                death "$protocol" $where "$p" "$(pass_of "$protocol" "$p" $warm)" $warm
            done
        done
    done
done
# A server process that is helped by learners: whichever of them dies.
for p in server/formed server/not-opened server/claimed server/piece-written server/slice-done server/all-done; do
    death hardsync both $p "$(pass_of hardsync $p never)" never
    death async both $p "$(pass_of async $p auto)" auto
done
# What a death leaves of a slice: put back in a warm start, counted behind it.
for where in beside process; do
    for pass in 24 60; do
        death async $where server/claimed $pass auto
        [ "$(number torn_updates)" = $((pass == 60)) ] || fail "$where: $(number torn_updates) torn updates, pass $pass"
    done
done
# Sums of hogwild: what a death leaves of one is written by the next process, and its slice counted.
for p in hogwild/writing client/pushed learner/backward; do
    death '{type: hogwild, every: 3}' beside $p 20 never
    [ "$(number torn_updates)" = $([ $p = hogwild/writing ] && echo 1 || echo 0) ] ||
        fail "$p: $(number torn_updates) torn updates"
done
# A warm start that lasts as long as the run is hardsync, also in what deaths leave.
for where in beside process; do
    for p in server/claimed server/piece-saved server/piece-written; do death async $where $p 77 "40 steps"; done
done
# The last update of all: nobody comes after it who would repair by the way. When all learners have ended, a
# server's death is no loss any more and has no line; or the parent makes the update itself.
for p in server/not-opened server/piece-written server/closed server/committed; do
    passes=40
    [ $p = server/piece-written ] && passes=3100
    for where in beside process; do death hardsync $where $p $passes never silent; done
done
# Learners of several workers, which add up in another order.
sed -i 's/learners: 3/learners: 3, workers: 2/' "$dir/job.yaml"
rm -rf "$dir/calm40"
start "$dir/calm40" "$dir/job.yaml" --set train.steps=40
finish 0 30 "workers, without a fault"
for p in workers/announced workers/completed client/granted client/pushed learner/forward learner/backward; do
    for protocol in hardsync async; do death $protocol beside $p $((7 + n % 5)) never; done
done
echo "$n deaths survived"
