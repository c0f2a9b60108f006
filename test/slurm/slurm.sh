#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Muster under Slurm (test/slurm/cluster.sh), on three nodes that are namespaces:
#
#   srun      two and three nodes train what one process with as many learners trains; tasks that cannot find each other
#             say so; a plain training inside an allocation opens no MPI
#   sbatch    the script of `muster init slurm` trains to the end
#   faults    a node that dies in mid-run, the one with the script or another; a rank that is killed; a time limit that is
#             over: the job comes back by itself, goes on, and ends with the bits of a run that nothing happened to
#   scancel   ends the job for good, behind a checkpoint
#
# Slurm lets a job that came back wait for two minutes; the test tells it to start at once. Needs root; four minutes.
set -uo pipefail
: "${MUSTER:=build/muster}"
. "$(dirname "$0")/../e2e/help.sh"
needs jq python3
[ -e "$(dirname "$MUSTER")/libmuster-mpi.so" ] || { echo "skipped: built without MPI (libopenmpi-dev)"; exit 77; }
# shellcheck source=test/hosts/hosts.sh
source "$root/test/hosts/hosts.sh"
# shellcheck source=test/slurm/cluster.sh
source "$root/test/slurm/cluster.sh"
trap 'slurm_down; rm -rf "$dir"' EXIT
export MUSTER_RANK_TIMEOUT=${MUSTER_RANK_TIMEOUT:-5}

cat >job.yaml <<'END_OF_JOB'
name: nodes
seed: 3
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 810, noise: 0.2, scale: 0.0039}
  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 200, noise: 0.2, scale: 0.0039}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 40}
  - {name: act, type: sigmoid}
  - {name: out, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
train: {batch: 12, steps: 200}
test: {every: never}
updater: {type: sgd, momentum: 0.9, decay: 0.001, rate: 0.05}
checkpoint: {every: 1s, keep: 5}
END_OF_JOB
sed 's/steps: 200/steps: 40000/' job.yaml >long.yaml

say() { echo "$SECONDS s: $*"; }
slurm_up 3
say "$(slurm sinfo -h -o '%D nodes %T'), Slurm $(slurm sinfo -V)"

# ---- srun ----
for n in 2 3; do
    run one-$n job.yaml --learners $n
    ends 60 srun-$n slurm srun --mpi=pmix -N $n "$MUSTER" train job.yaml --out srun-$n --quiet --json || continue
    balanced srun-$n
    jq -e ".ranks == $n and .steps == 200" srun-$n.json >/dev/null || bad "srun-$n: $(cat srun-$n.json)"
    near srun-$n one-$n 1e-4 || bad "$n nodes train another model than one process"
done
say "srun on 2 and 3 nodes"
slurm srun --mpi=none -N 2 "$MUSTER" train job.yaml --out none >none.out 2>&1
grep -q 'srun started 2 tasks that cannot find each other' none.out || bad "srun --mpi=none: $(cat none.out)"
[ ! -e none ] || bad "srun --mpi=none leaves a run folder"

# In an allocation, but not by srun: one process, which does not load the module.
cat >alone.sh <<END_OF_SCRIPT
#!/usr/bin/env bash
LD_DEBUG=files LD_DEBUG_OUTPUT=$dir/\$1 $MUSTER train $dir/job.yaml --out $dir/\$1 --quiet --json >$dir/\$1.json 2>$dir/\$1.err
END_OF_SCRIPT
chmod +x alone.sh
slurm salloc -N 2 --ntasks-per-node=1 ./alone.sh salloc >salloc.out 2>&1 || bad "salloc: $(tail -n 4 salloc.out salloc.err)"
slurm sbatch -W -N 2 --ntasks-per-node=1 -o batch.out alone.sh batch >/dev/null || bad "sbatch: $(tail -n 4 batch.out batch.err)"
for out in salloc batch; do
    jq -e '.ranks == 1 and .learners == 1' $out.json >/dev/null || bad "$out: $(cat $out.json)"
    grep -q 'libdl\|libc\.so' $out.[0-9]* || bad "$out: the loader says nothing"
    ! grep -ql 'libmuster-mpi' $out.[0-9]* || bad "$out: MPI is loaded"
done
say "plain trainings in an allocation"

# ---- sbatch ----
state() { slurm squeue -h -j "$1" -o %T 2>/dev/null; }
submit() { # submit OPTIONS... SCRIPT: its number in $id
    id=$(slurm sbatch --parsable "$@") || { bad "sbatch: $id"; finish; }
}
# follow SECONDS: until job $id has left the queue; sent back into it, it starts at once
follow() {
    local until=$((SECONDS + $1)) now last=
    while now=$(state "$id") && [ -n "$now" ]; do
        [ "$now" = "$last" ] || say "job $id: $now"
        last=$now
        [ "$now" != PENDING ] || slurm scontrol update "jobid=$id" StartTime=now >/dev/null 2>&1
        if [ $SECONDS -ge $until ]; then
            bad "job $id does not end: $(slurm scontrol show job "$id" | head -n 12)"
            slurm scancel "$id"
            return 1
        fi
        sleep 0.5
    done
    say "job $id: $(ending "$id")"
}
ending() { slurm scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
has_checkpoint() { ls -d "$1"/checkpoints/step-*[0-9]; } # RUN
checkpoint_of() { slurm_wait 40 "checkpoint in $1" has_checkpoint "$1"; } # RUN: until it has one
ledger_of() { # LOG: the last one; in a script's output
    awk '/ gradients = / { sub(/.*: /, ""); ok = $1 > 0 && $1 == $4 + $7 + $10 } END { exit !ok }' "$1"
}
ended_well() { # NAME RESTARTS: job $id of NAME.sbatch, whose run is as that of `calm`
    local log=$1-slurm-$id.out run=runs/$1-slurm-$id n
    [ "$(ending "$id")" = COMPLETED ] || bad "$1: job $id is $(ending "$id"): $(tail -n 8 "$log")"
    ledger_of "$log" || bad "$1: the ledger: $(grep gradients "$log")"
    n=$(grep -c "^restart [0-9]* of Slurm job $id\$" "$log")
    [ "$n" = "$2" ] || bad "$1: $n restarts are said, not $2: $(grep -v '^20' "$log" | tail -n 20)"
    [ "$2" = 0 ] || grep -q "restart $2 of Slurm job $id" "$run/log.txt" || bad "$1: the run's log knows of no restart"
}

"$MUSTER" init slurm long.yaml >init.out 2>&1 || bad "init slurm: $(cat init.out)"
submit long.sbatch
follow 90
ended_well long 0
calm=runs/long-slurm-$id

# ---- a node dies, the script's own or another; a rank alone does ----
# rank_on NODE-NUMBER: the pid of the rank there; its learners have other names
rank_on() { for p in $(hosts_pids "${hosts[$1]}"); do grep -qx muster "/proc/$p/comm" 2>/dev/null && echo "$p"; done | head -n 1; }
for fault in "2 dies" "1 dies" "2 loses its rank"; do
    read -r which what <<<"$fault"
    submit long.sbatch
    checkpoint_of "runs/long-slurm-$id"
    [ "$(state "$id")" = RUNNING ] || bad "job $id has ended before its node dies"
    node=$(slurm scontrol show hostnames "$(slurm squeue -h -j "$id" -o %N)" | sed -n "s/^n//;${which}p")
    say "n$node $what"
    if [ "$what" = dies ]; then slurm_kill "$node"; else kill -KILL "$(rank_on "$node")"; fi
    follow 150
    ended_well long 1
    same "$calm" "runs/long-slurm-$id"
    if [ "$what" = dies ]; then slurm_node "$node"
    else grep -q "goes back into the queue" "long-slurm-$id.out" || bad "$what: $(grep -v '^20' "long-slurm-$id.out" | tail -n 9)"
    fi
    slurm_wait 60 "n$node back" slurm_idle 3
done

# ---- the time is over, of a training of about 40 s ----
wall=$(sed -n 's/.* epochs in \([0-9.]*\) s, .*/\1/p' "long-slurm-${calm##*-}.out")
sed "s/steps: 200/steps: $(awk -v t="$wall" 'BEGIN { printf "%d", 40000 * 40 / (t + 0.1) }')/" job.yaml >timed.yaml
"$MUSTER" init slurm timed.yaml >init.out 2>&1 || bad "init slurm: $(cat init.out)"
submit --time=1 --signal=TERM@35 timed.sbatch
follow 180
restarts=$(grep -c '^restart ' "timed-slurm-$id.out")
[ "$restarts" -ge 1 ] || bad "the time was never over: $(tail -n 5 "timed-slurm-$id.out")"
ended_well timed "$restarts"
grep -q "srun ended with 143: job $id goes back" "timed-slurm-$id.out" || bad "timed: $(tail -n 5 "timed-slurm-$id.out")"

# ---- scancel ----
submit timed.sbatch
checkpoint_of "runs/timed-slurm-$id"
slurm scancel "$id"
follow 60
[ "$(ending "$id")" = CANCELLED ] || bad "scancel: job $id is $(ending "$id")"
grep -q 'stopped by a signal' "timed-slurm-$id.out" || bad "scancel: $(tail -n 5 "timed-slurm-$id.out")"
! grep -q 'goes back' "timed-slurm-$id.out" || bad "scancel: the job comes back"
finish
