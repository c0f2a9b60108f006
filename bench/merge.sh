#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# merge.sh [JOB...] - test accuracy and bytes by how, and how seldom, server groups merge their weights. Every run is a
# row of a file of tab-separated values, ROWS, which is added to: runs that are in it are not made again. At the end it
# is shown as a table in markdown on stdout; progress goes to stderr. Without a JOB: examples/lenet-fashion.yaml.
#
#   RULES   "average elastic outer"     EVERY   "1 10 50 200" updates     GROUPS_N  4
#   SEEDS   "1"                         ARGS    more arguments of every run, such as "--batch-size 2"
#   ROWS    the file, merge.tsv         MUSTER  the program, build/muster
#   LIMIT   seconds after which a run is given up; 0, the default, is never
. "$(dirname "$0")/rows.sh" merge.tsv
[ $# -gt 0 ] || set -- "$root/examples/lenet-fashion.yaml"

# Columns behind rule, interval and seed: accuracy in percent, megabytes given and taken, seconds.
result='["%.2f" % (100 * d["test_accuracy"]), "%.1f" % (1e-6 * d["merged_bytes"]), "%.0f" % d["wall_s"]]'
groups=${GROUPS_N:-4}
for job; do
    for seed in ${SEEDS:-1}; do
        for rule in ${RULES:-average elastic outer}; do
            for every in ${EVERY:-1 10 50 200}; do
                row "$result" "$job" "$rule" "$every" "$seed" -- --learners "$groups" --seed "$seed" \
                    --set cluster.server_groups="$groups" --set cluster.merge="$rule" --set cluster.sync_every="$every"
            done
        done
    done
done

# A line for each job and rule, a column for each interval; all seeds in a cell, with the megabytes of the last.
table '[(f[0], f[1]), f[2], f[4]] + ["(%s MB)" % f[5] for _ in f[5:6]]' job merge 'every %d'
