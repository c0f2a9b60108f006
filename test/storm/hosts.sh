#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Deaths on several hosts (test/hosts/hosts.sh): a rank is killed, a host dies, a rank is stopped, a cable is pulled,
# COUNT times each, at random moments, each rank and host in turn. Every time
#
#   every rank that is left names one that is lost, and ends with 5, within 10 seconds
#   mpirun ends with 5, 137 or 9, and within 30 seconds of that no process is left on any host
#   the last checkpoint resumes on all hosts, and that training ends; by `step` with the bits of one never hurt
#
# WAYS of training over the hosts, in turn: `step` one server group in step, `groups` three that merge, `adv` one copy
# of the weights by async at rank 0, `star` the same by adv*.
# MUSTER_RANK_TIMEOUT (4 s) is how long a rank may be silent. mpirun has to leave the ranks that time: by itself it
# kills all a second after it has seen a death. RATE and LATENCY are those of the cables, SEED repeats the moments,
# FAULTS picks some of: kill host stop cut. Needs root; a minute for COUNT=1.
set -uo pipefail
: "${MUSTER:=build/muster}" "${COUNT:=20}" "${FAULTS:=kill host stop cut}" "${RATE:=1gbit}" "${LATENCY:=}"
: "${SEED:=$(date +%s)}" "${WAYS:=step groups adv star}"
case $MUSTER in /*) ;; *) MUSTER=$PWD/$MUSTER ;; esac
command -v mpirun >/dev/null && command -v jq >/dev/null || { echo "skipped: needs mpirun and jq"; exit 77; }
here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
# shellcheck source=test/hosts/hosts.sh
source "$here/../hosts/hosts.sh"
trap 'hosts_down; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export MUSTER_RANK_TIMEOUT=${MUSTER_RANK_TIMEOUT:-4}
RANKS=3 RANDOM=$((SEED % 32768))
name=

cat >job.yaml <<'END_OF_JOB'
name: hosts
seed: 3
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 800, noise: 0.2, scale: 0.0039}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 400}
  - {name: act, type: sigmoid}
  - {name: fc2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
train: {batch: 24, steps: 0, deadline: 120s}
updater: {type: sgd, momentum: 0.9, decay: 0.001, rate: 0.05}
checkpoint: {every: 1s, keep: 3}
END_OF_JOB
for way in $WAYS; do
    case $way in
        step) cluster='{learners: 6}' ;;
        groups) cluster='{learners: 6, server_groups: 3, sync_every: 5}' ;;
        adv) cluster='{learners: 6, protocol: async, architecture: adv, warm_start: never}' ;;
        star) cluster='{learners: 6, protocol: async, architecture: adv*, warm_start: never}' ;;
        *) echo "no such way: $way" >&2; exit 2 ;;
    esac
    { cat job.yaml; echo "cluster: $cluster"; } >"$way.yaml"
done
ways=($WAYS)
# The words and the exit code of each rank, whatever mpirun does then.
cat >rank.sh <<'END_OF_RANK'
trap : TERM
rank=$OMPI_COMM_WORLD_RANK
"$@" 2>"rank$rank.err"
code=$?
echo $code >"rank$rank.code"
exit $code
END_OF_RANK

fail() {
    echo "FAILED: $name: $*" >&2
    tail -n 20 rank*.err mpirun.err >&2
    hosts_pids | xargs -r ps -o pid,stat,etimes,args -p >&2
    exit 1
}
now() { date +%s.%N; }
since() { awk "BEGIN { printf \"%.1f\", $2 - $1 }"; } # BEGAN NOW
less() { awk "BEGIN { exit !($1 <= $2) }"; }
rank_on() { for p in $(hosts_pids "$1"); do grep -qx muster "/proc/$p/comm" 2>/dev/null && echo "$p"; done | head -n 1; }

train() { # WHAT...: the three ranks, in the background; mpirun's pid is $pid
    rm -f rank*.err rank*.code
    "${hosts_mpi[@]}" --mca odls_base_sigkill_timeout $((${MUSTER_RANK_TIMEOUT%.*} + 2)) -n $RANKS sh rank.sh \
        "$MUSTER" train "$@" --json >train.json 2>mpirun.err &
    pid=$!
}
wait_for() { # wait_for SECONDS WHAT COMMAND...
    local n=$(($1 * 20)) what=$2
    shift 2
    for _ in $(seq $n); do "$@" && return; sleep 0.05; done
    fail "in vain: $what"
}
saved() { [ -e run/checkpoints/LATEST ]; }
ended() { ! kill -0 "$pid" 2>/dev/null; }
empty() { [ -z "$(hosts_pids)" ]; }

strike() { # FAULT RANK
    local host=${hosts[$(($2 + 1))]} victim
    victim=$(rank_on "$host")
    [ -n "$victim" ] || fail "no rank on $host"
    case $1 in
        kill) kill -KILL "$victim" ;;
        stop) kill -STOP "$victim" ;;
        host) hosts_kill "$host" ;;
        cut) hosts_cable $(($2 + 1)) down ;;
        *) fail "no such fault: $1" ;;
    esac
}

survivors() { # FAULT RANK: a host that is cut off has lost all others
    local r
    for r in $(seq 0 $((RANKS - 1))); do [ "$1" = cut ] || [ "$r" != "$2" ] || continue; echo "$r"; done
}
told() { # FAULT RANK: each survivor has ended
    local r
    for r in $(survivors "$1" "$2"); do [ -s "rank$r.code" ] || return 1; done
}

# names FAULT RANK BEGAN: what the survivors said, and when they had ended (the last one: $named).
names() {
    local r lost took
    named=0
    for r in $(survivors "$1" "$2"); do
        lost="rank $2 on ${hosts[$(($2 + 1))]}"
        [ "$1" != cut ] || [ "$r" != "$2" ] || lost='rank [0-9]* on'
        grep -q "$lost.* was lost: " "rank$r.err" || fail "rank $r does not say that $lost was lost: $(cat "rank$r.err")"
        [ "$(cat "rank$r.code")" = 5 ] || fail "rank $r ended with $(cat "rank$r.code"), not 5"
        took=$(since "$3" "$(stat -c %.9Y "rank$r.code")")
        less "$took" 10 || fail "rank $r ended after $took s"
        less "$took" "$named" || named=$took
    done
}

# Weights of the training that was resumed are those of one of as many steps that nobody hurt. (Before them the files
# have the job, which differs.)
weights() { tail -c +$(($(od -An -t u8 -N 8 "$1/model.safetensors" | tr -d ' ') + 9)) "$1/model.safetensors"; }
exact() { # WAY STEPS
    rm -rf calm
    train "$1.yaml" --out calm --quiet --steps "$2" --set train.deadline=60s
    wait_for 90 "the end of the calm training" ended
    wait "$pid" || fail "the calm training ends with $?"
    [ "$(weights run | wc -c)" -gt 1000 ] && cmp -s <(weights run) <(weights calm) || fail "$2 steps with a resume and without differ"
}

one() { # FAULT RANK WAY: appends a line to the table of the fault: named, mpirun, empty, resumed
    local began over gone code step again
    name="$1 of $2, $3"
    rm -rf run
    train "$3.yaml" --out run --quiet
    wait_for 30 "the first checkpoint" saved
    sleep "0.$((RANDOM % 10))"
    began=$(now)
    strike "$1" "$2"
    wait_for 30 "the ends of the others" told "$1" "$2"
    names "$1" "$2" "$began"
    wait_for 40 "the end of mpirun" ended
    wait "$pid"
    code=$?
    over=$(since "$began" "$(now)")
    case $code in 5 | 9 | 137) ;; *) fail "mpirun ends with $code" ;; esac
    wait_for 30 "the end of all processes" empty
    gone=$(since "$began" "$(now)")
    [ "$1" != cut ] || hosts_cable $(($2 + 1)) up
    step=$(sed 's/step-//' run/checkpoints/LATEST)
    again=$(now)
    train --resume run --quiet --steps $((step + 30)) --set train.deadline=60s
    wait_for 60 "the end of the resumed training" ended
    wait "$pid" || fail "resuming ends with $?"
    jq -e ".ranks == $RANKS and .steps == $step + 30" train.json >/dev/null || fail "resumed: $(cat train.json)"
    echo "$named $over $gone $(since "$again" "$(now)") $code" >>"$1.times"
    [ "$3" != step ] || exact "$3" $((step + 30))
}

column() { # FILE N: median and worst
    sort -n -k "$2,$2" "$1" | awk -v c="$2" '{ v[NR] = $c } END { printf "%.1f / %.1f", v[int((NR + 1) / 2)], v[NR] }'
}

hosts_up $RANKS "$RATE" ${LATENCY:+"$LATENCY"}
echo "$COUNT deaths each, SEED=$SEED, silent for $MUSTER_RANK_TIMEOUT s is lost. Seconds: half within / worst"
for fault in $FAULTS; do
    hosts_proof
    for i in $(seq 0 $((COUNT - 1))); do one "$fault" $((i % RANKS)) "${ways[i % ${#ways[@]}]}"; done
    echo "$fault: all others named it and ended $(column "$fault.times" 1); mpirun ended $(column "$fault.times" 2) with" \
        "$(cut -d' ' -f5 "$fault.times" | sort -nu | tr '\n' ' ')- no process left $(column "$fault.times" 3);" \
        "resumed and ended in $(column "$fault.times" 4)"
done
echo "every death was named, and every training went on"
