// SPDX-License-Identifier: Apache-2.0
// q_slurm.c - a script for Slurm: one rank a node, started by srun, gone on with by itself.
//
// Slurm puts a job back into its queue when a node is lost or wanted by another job, under the same number,
// and counts SLURM_RESTART_COUNT up; so a run folder named after the number is found again. It may be there
// without the job that the training writes first: then nothing has begun, and it begins.
//
// The time limit. Slurm sends SIGTERM to all tasks some time before, not to the script: without `B:`, as that
// is for the script alone and a shell that waits for srun would take it too late. The training saves and ends
// with 143, and the script asks to be put back. A rank that is lost on a node that lives (5, or 137 when srun
// saw it die) is the same. But only when there is a checkpoint that was not there before: what fails at once,
// or cannot save within its time, would come back for ever. After `scancel` the state is another one.
//
// srun does not take --cpus-per-task of sbatch over since Slurm 22.05, so it is said again.
#include "recipe/queue.h"

#include <inttypes.h>

static void write_head(const mu_queue_ask *a, FILE *out) {
    const char *s = a->nodes == 1 ? "" : "s";
    fprintf(
        out,
        "#!/usr/bin/env bash\n"
        "# Trains %s on %" PRId64 " node%s. The folder of the job has to be one that all nodes share.\n"
        "#\n"
        "#   sbatch THIS-FILE     says the number of the job, N\n"
        "#   scancel N            saves a checkpoint and ends it for good\n"
        "#\n"
        "# The run folder is runs/%s-slurm-N. When a node is lost, or the time below is over, the job goes\n"
        "# back into the queue and on from its last checkpoint.\n"
        "#\n",
        a->name, a->nodes, s, a->name);
    fprintf(out,
            "#SBATCH --job-name=%s\n"
            "#SBATCH --output=%s-slurm-%%j.out\n"
            "#SBATCH --open-mode=append\n"
            "#SBATCH --nodes=%" PRId64 "\n"
            "#SBATCH --ntasks-per-node=1\n"
            "#SBATCH --cpus-per-task=%" PRId64 "\n"
            "#SBATCH --requeue\n"
            "# A checkpoint is begun so many seconds before the time is over.\n"
            "#SBATCH --time=1-00:00:00\n"
            "#SBATCH --signal=TERM@120\n",
            a->name, a->name, a->nodes, a->cpus);
}

static void write_script(const mu_queue_ask *a, FILE *out) {
    char folder[MU_QUEUE_WORD], program[MU_QUEUE_WORD], file[MU_QUEUE_WORD];
    mu_queue_word(a->folder, folder);
    mu_queue_word(a->program, program);
    mu_queue_word(a->file, file);
    write_head(a, out);
    fprintf(out,
            "set -euo pipefail\n"
            "cd %s\n"
            "run=runs/%s-slurm-$SLURM_JOB_ID\n"
            "newest() {\n"
            "    find \"$run/checkpoints\" -maxdepth 1 -name 'step-*[0-9]' 2>/dev/null |\n"
            "        sort -V | tail -n 1 || :\n"
            "}\n"
            "\n"
            "what=(%s --out \"$run\")\n"
            "if [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ] && [ -e \"$run/job.yaml\" ]; then\n"
            "    what=(--resume \"$run\")\n"
            "fi\n"
            "before=$(newest)\n"
            "code=0\n"
            "cpus=${SLURM_CPUS_PER_TASK:-%" PRId64 "}\n"
            "srun --mpi=pmix --cpus-per-task=\"$cpus\" %s train \"${what[@]}\" || code=$?\n"
            "\n",
            folder, a->name, file, a->cpus, program);
    fputs("# 143: asked to end, and saved. 5, 137: a rank was lost. Again only if something was done.\n"
          "case $code in 5 | 137 | 143)\n"
          "    state=$(squeue -h -j \"$SLURM_JOB_ID\" -o %T)\n"
          "    if [ \"$(newest)\" != \"$before\" ] && [[ $state =~ ^(RUNNING|SIGNALING)$ ]]; then\n"
          "        echo \"srun ended with $code: job $SLURM_JOB_ID goes back into the queue\"\n"
          "        scontrol requeue \"$SLURM_JOB_ID\"\n"
          "    fi\n"
          "    ;;\n"
          "esac\n"
          "exit \"$code\"\n",
          out);
}

const mu_queue_class mu_queue_slurm = {
    .name = "slurm",
    .help = "a script for sbatch, which goes on by itself",
    .ending = ".sbatch",
    .command = "sbatch",
    .write = write_script,
};
