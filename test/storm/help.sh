# SPDX-License-Identifier: Apache-2.0
# help.sh - what the tests of faults share: a job, a run in a session of its own, and what must be true after it.
#
# Sourced. Sets dir (removed at the end) and MUSTER. Every run has its own session, so that whatever it leaves
# behind is found, and nobody else's processes are touched.
set -uo pipefail
: "${MUSTER:=build/muster}"
dir=$(mktemp -d)
session=
trap 'stop_session; rm -rf "$dir"' EXIT
ulimit -c 0
unset MUSTER_FAILPOINTS

fail() {
    echo "FAILED: $*" >&2
    for f in "$dir/err" "$dir/out.json"; do [ -s "$f" ] && tail -n 25 "$f" >&2; done
    exit 1
}

stop_session() { # what a failed test leaves
    [ -n "$session" ] && pkill -KILL -s "$session"
    session=
}

# A job of 40 steps that takes a fifth of a second: three slices of several pieces, evaluations and
# checkpoints under way.
small_job() {
    cat <<'JOB'
name: storm
seed: 5
data:
  train: {reader: synthetic, shape: [200], classes: 10, records: 600, scale: 0.0078125}
  test: {reader: synthetic, shape: [200], classes: 10, records: 60, scale: 0.0078125}
net:
  - {name: fc1, type: inner_product, src: data.features, outputs: 300, init: msra}
  - {name: relu1, type: relu}
  - {name: drop1, type: dropout, ratio: 0.2}
  - {name: fc2, type: inner_product, outputs: 50, init: msra}
  - {name: fc3, type: inner_product, outputs: 10}
  - {name: loss, type: softmax_loss, src: [fc3, data.label]}
train: {batch: 48, steps: 40}
updater: {type: sgd, momentum: 0.9, rate: 0.01}
test: {every: 15 steps, at_start: true}
checkpoint: {every: 10 steps}
log: {tensorboard: false}
cluster: {learners: 3, hang_timeout: 2s}
JOB
}

# start OUT ARGS...: trains in the background; its pid, which is its session, is $session.
start() {
    local out=$1
    shift
    setsid "$MUSTER" train "$@" --out "$out" --json > "$dir/out.json" 2> "$dir/err" &
    session=$!
}

# resume OUT ARGS...: the same, going on with OUT.
resume() {
    local out=$1
    shift
    setsid "$MUSTER" train "$@" --resume "$out" --json > "$dir/out.json" 2> "$dir/err" &
    session=$!
}

# show_session: where its processes are, for a run that does not end.
show_session() {
    local p
    ls -d "$dir"/*/live.json 2> /dev/null | while read -r p; do timeout 5 "$MUSTER" status "${p%/*}" --json; done
    for p in $(pgrep -s "$session"); do
        echo "== $p $(cat "/proc/$p/comm") $(sed -n 's/^State:[[:space:]]*//p' "/proc/$p/status")"
        if command -v gdb > /dev/null; then
            timeout 20 gdb -p "$p" -batch -ex 'thread apply all bt 12' 2> /dev/null | grep '^#\|^Thread'
        fi
    done
}

# gone PID: it has ended. One look at its state: the shell may take its rest away between two.
gone() {
    local state
    state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2> /dev/null)
    [ -z "$state" ] || [ "$state" = Z ]
}

# finish CODE SECONDS NAME: the run ends with that code within that time and leaves no process.
finish() {
    local pid=$session seconds=$(($2 * ${PATIENCE:-4})) ended= # sanitizers are slow, virtual processors stand still
    for _ in $(seq $((seconds * 50))); do
        if gone "$pid"; then ended=1; break; fi
        sleep 0.02
    done
    if [ -z "$ended" ]; then
        show_session >&2
        fail "$3: still running after $seconds s"
    fi
    wait "$pid"
    local code=$?
    [ $code = "$1" ] || fail "$3: exit $code, expected $1"
    if pgrep -s "$pid" > "$dir/left"; then fail "$3: processes left: $(tr '\n' ' ' < "$dir/left")"; fi
    session=
    if ls /dev/shm | grep -i muster; then fail "$3: left in /dev/shm"; fi
}

number() { sed -n "s/.*\"$1\":\(-\{0,1\}[0-9.e+-]*\|null\)[,}].*/\1/p" "$dir/out.json"; }

# balanced NAME: produced = applied + rejected + lost.
balanced() {
    local p a r l
    p=$(number produced) a=$(number applied) r=$(number rejected) l=$(number lost)
    [ -n "$p" ] || fail "$1: no ledger in the result"
    [ "$p" = $((a + r + l)) ] || fail "$1: $p produced, but $a applied + $r rejected + $l lost"
}

says() { grep -q -- "$1" "$dir/err" || fail "$2: no line with \`$1\`"; }
# same_model RUN RUN WHAT: the same weights. (Before them the file has the job, which differs.)
weights() { tail -c +$(($(od -An -t u8 -N 8 "$1/model.safetensors" | tr -d ' ') + 9)) "$1/model.safetensors"; }
same_model() {
    [ "$(weights "$1" | wc -c)" -gt 1000 ] && cmp <(weights "$1") <(weights "$2") ||
        fail "$3: not the model of the undisturbed run"
}

children() { pgrep -s "$session" | grep -vx "$session"; }
# learner_pids: those of the session, oldest first, by the names they give themselves.
learner_pids() { pgrep -s "$session" '^muster:l'; }
child_pid() { pgrep -s "$session" -x "$1"; }

wait_for() { # wait_for SECONDS COMMAND...: until the command is true
    local n=$(($1 * 100 * ${PATIENCE:-4}))
    shift
    for _ in $(seq $n); do "$@" && return; sleep 0.01; done
    fail "in vain: $*"
}

# shoot NAME SEED RULE...: lets `muster chaos` loose on the run in $dir/run; its report is in $dir/chaos.json.
shoot() {
    local name=$1 seed=$2 rules=()
    shift 2
    for r in "$@"; do rules+=(--do "$r"); done
    "$MUSTER" chaos "$dir/run" --seed "$seed" --json --quiet "${rules[@]}" > "$dir/chaos.json" 2> "$dir/chaos" ||
        fail "$name: chaos ended with $?: $(cat "$dir/chaos")"
    grep -q '"run_alive": *true' "$dir/chaos.json" || fail "$name: the run ended too early: $(cat "$dir/chaos.json")"
}

# storm NAME PROTOCOL SERVER SEED RULE...: a training without an end under fire, then interrupted. By hardsync
# it has the bits of a calm run of as many steps. Prints how it went.
storm() {
    local name="$1, $2, $3" protocol=$2 server=$3 seed=$4 steps
    shift 4
    rm -rf "$dir/run" "$dir/calm"
    start "$dir/run" "$dir/job.yaml" --set train.steps=1000000000 --set cluster.protocol=$protocol \
        --set cluster.server=$server --set cluster.max_losses=1000
    wait_for 20 test -e "$dir/run/live.json"
    shoot "$name" "$seed" "$@"
    kill -INT "$session"
    finish 130 20 "$name"
    balanced "$name"
    steps=$(number steps)
    awk "BEGIN { exit !($(number replace_p99_s | sed 's/null/0/') <= 3) }" ||
        fail "$name: replacing took $(number replace_p99_s) s"
    echo "$name, seed $seed: $steps steps, $(number learners_lost) learners and $(number server_lost) servers lost," \
        "replaced within $(number replace_p99_s) s (99 %), $(number lost) gradients lost"
    lost=$(($(number learners_lost) + $(number server_lost)))
    [ "$protocol" = hardsync ] || return 0
    mv "$dir/err" "$dir/err.storm"
    start "$dir/calm" "$dir/job.yaml" --set train.steps=$steps --set test.every=never
    finish 0 600 "$name: the calm run"
    same_model "$dir/calm" "$dir/run" "$name"
}

# server_deaths TIMES: so many deaths of the server at each of ten failpoints; bits as without.
server_deaths() {
    local points= n=0 p every steps=$((200 + 100 * $1))
    for p in formed not-opened opened claimed piece-saved piece-written slice-done all-done closed committed; do
        case $p in
            piece-*) every=$((7000 + 100 * n)) ;; # about 75 pieces and 5 slices in an update
            claimed | slice-done) every=$((400 + 7 * n)) ;;
            *) every=$((90 + n)) ;;
        esac
        points+="server/$p=kill@$every*$1;"
        n=$((n + 1))
    done
    rm -rf "$dir/run" "$dir/calm"
    MUSTER_FAILPOINTS=$points start "$dir/run" "$dir/job.yaml" --set train.steps=$steps --set cluster.server=process
    finish 0 600 "deaths of the server"
    balanced "deaths of the server"
    [ "$(number server_lost)" = $((10 * $1)) ] || fail "$(number server_lost) deaths of the server, not $((10 * $1))"
    start "$dir/calm" "$dir/job.yaml" --set train.steps=$steps
    finish 0 600 "without deaths of the server"
    same_model "$dir/calm" "$dir/run" "deaths of the server"
    echo "$((10 * $1)) deaths of the server at failpoints, $steps steps: the same bits"
}
