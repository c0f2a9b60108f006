#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `muster init slurm`: what it writes is a script whose words sbatch knows; run by bash with a stand-in for srun it begins
# a training, goes on with it when Slurm says it was restarted, begins anew where there was no checkpoint, and asks to be
# queued again when the training was stopped behind a new checkpoint, but not otherwise. Tasks without PMIx and wrong words
# are refused, and nothing is overwritten. With a real Slurm: test/slurm/slurm.sh (make test-slurm).
set -uo pipefail
. "$(dirname "$0")/help.sh"
needs python3
expect() { # expect STATUS WORDS command...
    local want=$1 words=$2 got
    shift 2
    "$@" >out 2>&1
    got=$?
    [ $got = "$want" ] || bad "$* ended with $got, not $want: $(tail -n 4 out)"
    grep -qF -- "$words" out || bad "$* does not say: $words; but: $(tail -n 4 out)"
}
odd="a folder of it's \"own\" & \$more"
mkdir "$odd" bin
cat >"$odd/small job.yaml" <<'END_OF_JOB'
name: small
data:
  train: {reader: synthetic, shape: [1, 4, 4], classes: 3, records: 120, scale: 0.0039}
net:
  - {name: out, type: inner_product, src: data.image, outputs: 3}
  - {name: loss, type: softmax_loss, src: [out, data.label]}
train: {batch: 12, steps: 40}
updater: {type: sgd, rate: 0.05}
checkpoint: {every: 10 steps, keep: 9}
END_OF_JOB

# ---- what is written ----
expect 0 "next: sbatch '" "$MUSTER" init slurm "$odd/small job.yaml"
script="$odd/small job.sbatch"
[ -f "$script" ] || bad "no script lies beside the job"
bash -n "$script" || bad "bash cannot read the script"
if command -v shellcheck >/dev/null; then shellcheck -S warning "$script" || bad "shellcheck"; fi
for words in '--job-name=small-job' '--nodes=2' '--ntasks-per-node=1' '--cpus-per-task=' '--requeue' '--open-mode=append' \
    '--signal=TERM@120' '--time=' '--output=small-job-slurm-%j.out'; do
    grep -q -- "^#SBATCH $words" "$script" || bad "the script lacks $words"
done
cp "$script" before
expect 2 'exists and is not overwritten' "$MUSTER" init slurm "$odd/small job.yaml"
cmp -s before "$script" || bad "the script was overwritten"
expect 0 '#SBATCH --cpus-per-task=7' "$MUSTER" init slurm "$odd/small job.yaml" - --nodes 3 --cpus 7
grep -q '^#SBATCH --nodes=3$' out || bad "--nodes 3 is not in the script"
cp "$odd/small job.yaml" job.yaml
expect 0 'wrote job.sbatch: 2 nodes' "$MUSTER" init slurm
expect 0 'wrote other.sbatch: 1 node, ' "$MUSTER" init slurm job.yaml other.sbatch --nodes 1
expect 0 'slurm ' "$MUSTER" init

# ---- what is refused ----
expect 2 'there is no `no.yaml`' "$MUSTER" init slurm no.yaml
expect 2 'needs a job file' "$MUSTER" init slurm "$odd"
expect 2 'there may be 1 to 1024' "$MUSTER" init slurm job.yaml no --nodes 0
expect 2 'there may be 1 to 65536' "$MUSTER" init slurm job.yaml no --cpus 0
expect 2 '`init slurm` takes no --label' "$MUSTER" init slurm job.yaml no --label x
expect 2 '`init char` takes no --nodes' "$MUSTER" init char job.yaml no.yaml --nodes 2
sed 's/^train:.*/train: {batch: 12, steps: 40}\ncluster: {learners: 3}/' job.yaml >three.yaml
expect 3 '3 learners cannot be spread evenly over 2 ranks' "$MUSTER" init slurm three.yaml no
expect 0 'wrote three.sbatch: 3 nodes' "$MUSTER" init slurm three.yaml --nodes 3
sed 's/softmax_loss/softmax_lost/' job.yaml >wrong.yaml
expect 3 'softmax_loss' "$MUSTER" init slurm wrong.yaml no
expect 2 'Did you mean `muster init slurm`' "$MUSTER" init slrum
[ ! -e no ] || bad "a script is left behind"

# ---- srun without PMIx: told before MPI ends the process; one task is alone, and so is a script in an allocation ----
if [ -e "$(dirname "$MUSTER")/libmuster-mpi.so" ]; then
    expect 2 'srun started 2 tasks that cannot find each other' env SLURM_STEP_NUM_TASKS=2 "$MUSTER" train job.yaml --out no
    expect 0 'saved  one/' env SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0 "$MUSTER" train job.yaml --out one
    expect 0 'saved  all/' env SLURM_JOB_ID=17 SLURM_NTASKS=2 SLURM_NNODES=2 SLURM_PROCID=0 "$MUSTER" train job.yaml --out all
    [ ! -e no ] || bad "tasks that cannot find each other leave a run folder"
fi

# ---- what it does: srun is one task, whatever it is told ----
cat >bin/srun <<'END_OF_SRUN'
#!/usr/bin/env bash
echo "srun $*" >>"$CALLS"
while [[ $1 == -* ]]; do shift; done
exec "$@" ${MORE:-}
END_OF_SRUN
cat >bin/squeue <<'END_OF_SQUEUE'
#!/usr/bin/env bash
echo "${STATE:-RUNNING}"
END_OF_SQUEUE
cat >bin/scontrol <<'END_OF_SCONTROL'
#!/usr/bin/env bash
echo "scontrol $*" >>"$CALLS"
END_OF_SCONTROL
chmod +x bin/*
export CALLS=$dir/calls SLURM_JOB_ID=17 PATH=$dir/bin:$PATH
run="$odd/runs/small-job-slurm-17"
slurm() { # slurm RESTART CODE: runs the script as Slurm would
    : >calls
    if [ "$1" = 0 ]; then unset SLURM_RESTART_COUNT; else export SLURM_RESTART_COUNT=$1; fi
    timeout 60 bash "$script" >out 2>&1
    local got=$?
    [ $got = "$2" ] || bad "restart $1 ends with $got, not $2: $(tail -n 5 out)"
}
says() { grep -qF -- "$1" out || bad "it does not say: $1; but: $(tail -n 6 out)"; }
queued() { [ "$(grep -c '^scontrol requeue 17$' calls)" = "$1" ] || bad "queued again other than $1 times: $(cat calls)"; }
newest() { basename "$(find "$run/checkpoints" -name 'step-*[0-9]' | sort -V | tail -n 1)"; }

slurm 0 0
says 'run folder runs/small-job-slurm-17'
grep -q 'restart' out && bad "a first start calls itself a restart"
grep -q -- 'srun --mpi=pmix --cpus-per-task=' calls || bad "srun is called by: $(cat calls)"
[ "$(newest)" = step-40 ] || bad "the newest checkpoint is $(newest)"
queued 0
slurm 0 2 # the number again, but no restart: another job's folder is not gone on with
says 'already holds a run'

# Killed behind step 20: what came later never was.
rm -r "$run"/checkpoints/step-{30,40} "$run/model.safetensors"
slurm 2 0
says 'resuming runs/small-job-slurm-17'
says 'restart 2 of Slurm job 17'
grep -q 'restart 2 of Slurm job 17' "$run/log.txt" || bad "the log of the run knows of no restart"
[ "$(newest)" = step-40 ] || bad "it went on to $(newest)"
cp -r "$run" whole

# Killed before the first checkpoint; before the job was written; before there was a folder.
rm -r "$run/checkpoints" "$run/model.safetensors"
slurm 1 0
says 'no checkpoint in runs/small-job-slurm-17 yet'
says 'restart 1 of Slurm job 17'
same whole "$run"
rm -r "$run"
mkdir "$run"
: >"$run/lock"
slurm 1 0
says 'run folder runs/small-job-slurm-17'
rm -r "$run"
slurm 3 0
says 'restart 3 of Slurm job 17'
same whole "$run"

# The time is over: saved, and queued again. The signal is for the task alone.
rm -r "$run"
cat >bin/task <<'END_OF_TASK'
#!/usr/bin/env bash
# Sends its child SIGTERM when there is a checkpoint.
"$@" &
pid=$!
for _ in $(seq 1000); do ls -d runs/*/checkpoints/step-*[0-9] >/dev/null 2>&1 && break; sleep 0.02; done
kill -TERM $pid
wait $pid
END_OF_TASK
chmod +x bin/task
# shellcheck disable=SC2016
sed -i 's/^exec "\$@"/exec $TASK "$@"/' bin/srun
export TASK=task MORE='--steps 1000000000'
slurm 0 143
says 'srun ended with 143: job 17 goes back into the queue'
queued 1
export MORE='--steps 10' # fewer than there are: at once at its end, with nothing new
TASK='' slurm 1 0
queued 0
# Lost at once, or cancelled: it stays away.
printf '#!/usr/bin/env bash\necho srun >>"$CALLS"\nexit 5\n' >bin/srun
slurm 2 5
queued 0
rm -r "$run"
printf '#!/usr/bin/env bash\nmkdir -p runs/small-job-slurm-17/checkpoints/step-9\nexit ${CODE:-5}\n' >bin/srun
STATE=COMPLETING slurm 0 5
queued 0
rm -r "$run"
slurm 0 5
queued 1
rm -r "$run"
STATE=SIGNALING slurm 0 5
queued 1
rm -r "$run"
CODE=4 slurm 0 4 # it diverged
queued 0
finish
