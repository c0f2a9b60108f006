#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kill storm, short (`make storm` is the long one): learners at random, the server at failpoints, all
# learners at once, and learners that are stopped for too long and not too long.
source "$(dirname "$0")/../storm/help.sh"
small_job > "$dir/job.yaml"
sed -i 's/hang_timeout: 2s/hang_timeout: 1s/; s/every: 1[05] steps/every: 2s/' "$dir/job.yaml"
seed=${SEED:-$(date +%s)}

storm "20 random kills" hardsync beside "$seed" "kill learner random every ~100ms times 20"
[ $lost = 20 ] || fail "$lost lost, not 20"
storm "20 random kills" async process "$seed" "kill learner random every ~100ms times 20" "kill server every 500ms times 4"
storm "20 random kills" async both "$seed" "kill learner random every ~100ms times 20" "kill server every 500ms times 4"
storm "20 random kills" hogwild auto "$seed" "kill learner random every ~100ms times 20"
storm "5 kills of all" hardsync process "$seed" "kill all-learners every 300ms times 5"
[ $lost = 15 ] || fail "$lost lost, not 15"
storm "stops" hardsync beside "$seed" "stop learner 0 for 3s every 2s times 2" "stop learner 1 for 200ms every 700ms times 4"
[ $lost -ge 2 ] && [ $lost -le 3 ] || fail "$lost lost by two long stops and four short ones"
# Learners of two workers each: one dies, in a layer or at a bridge, and both are replaced.
sed -i 's/learners: 3/learners: 2, workers: 2, partition: feature/' "$dir/job.yaml"
storm "20 random kills of workers" hardsync beside "$seed" "kill learner random every ~100ms times 20"
storm "20 random kills of workers" async both "$seed" "kill learner random every ~100ms times 20" \
    "stop learner 3 for 3s every 1500ms times 1"
sed -i 's/learners: 2, workers: 2, partition: feature/learners: 3/' "$dir/job.yaml"
server_deaths 2
