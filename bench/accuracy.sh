#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# accuracy.sh [JOB...] - test accuracy by protocol, learners, warm start, rules against staleness and seed. Every
# run is a row of a file of tab-separated values, ROWS, which is added to: runs that are in it are not made again.
# At the end it is shown as a table in markdown on stdout; progress goes to stderr. Without a JOB:
# examples/lenet-fashion.yaml.
#
#   RUNS       protocols, "async hogwild"                     LEARNERS  "4 8 16"; 1 (no rules) is always run, too
#   WARM       values of cluster.warm_start, "auto never"     SEEDS     "1 2"
#   RULES      rate_rule+momentum_rule, "mean+plain mean+total mean+ahead plain+plain"; auto stands for the default
#   ARGS       more arguments of every run, such as "--epochs 2 --set data.train.limit=20000"
#   ARGS_MANY  more of those with several learners, such as "--batch-size 2"
#   ROWS       the file, accuracy.tsv                          LIMIT     seconds after which a run is given up, 900
#   MUSTER     the program, build/muster
#
# Examples, on a machine with 16 cores (LeNet 25 runs of 10 to 30 s; sentences with their own test data):
#   LEARNERS=16 RULES="mean+ahead mean+plain" bench/accuracy.sh
#   ARGS_MANY="--batch-size 2" LEARNERS=8 RULES="auto+auto plain+auto" bench/accuracy.sh trec6.yaml clinc150.yaml
. "$(dirname "$0")/rows.sh" accuracy.tsv
[ $# -gt 0 ] || set -- "$root/examples/lenet-fashion.yaml"
LIMIT=${LIMIT:-900}

# Columns behind protocol, learners, warm start, rules and seed: accuracy in percent, mean and largest staleness,
# samples/s, seconds.
result='["%.2f" % (100 * d["test_accuracy"]), "%.1f" % d["staleness"]["mean"], "%d" % d["staleness"]["max"],
    "%.0f" % d["samples_per_s"], "%.0f" % d["wall_s"]]'
for job; do
    for seed in ${SEEDS:-1 2}; do
        row "$result" "$job" alone 1 - - "$seed" -- --seed "$seed"
        for protocol in ${RUNS:-async hogwild}; do
            for n in ${LEARNERS:-4 8 16}; do
                for warm in ${WARM:-auto never}; do
                    for rules in ${RULES:-mean+plain mean+total mean+ahead plain+plain}; do
                        # shellcheck disable=SC2086
                        row "$result" "$job" "$protocol" "$n" "$warm" "$rules" "$seed" -- --seed "$seed" \
                            --learners "$n" --protocol "$protocol" --set cluster.warm_start="$warm" \
                            --set cluster.rate_rule="${rules%+*}" --set cluster.momentum_rule="${rules#*+}" \
                            ${ARGS_MANY:-}
                    done
                done
            done
        done
    done
done

# A line for each job, protocol, rules and warm start, a column for each number of learners, all seeds in a cell.
table '(f[0], f[1], f[4], f[3]), f[2], f[6]' job protocol rules 'warm start' '%d'
