#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# demo.sh BUILD - trains LeNet on Fashion-MNIST and ends with the result, in the words a newcomer needs:
# test accuracy, samples per second, the run folder, the next command.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
job=examples/lenet-fashion.yaml

echo "Training LeNet on Fashion-MNIST: $build/muster train $job" >&2
result=$("$build/muster" train "$job" --json)

field() { printf '%s' "$result" | tr ',{}' '\n\n\n' | sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\"]*\)\"\{0,1\} *\$/\1/p" | head -n 1; }
run=$(field run)
printf '\ntest accuracy   %.4f\nsamples/s       %.0f   (training took %.0f s)\nrun folder      %s\nnext            %s\n' \
    "$(field test_accuracy)" "$(field samples_per_s)" "$(field wall_s)" "$run" "$build/muster test $run"
