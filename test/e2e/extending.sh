#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/extending.md is true: its plug-ins work in a job, and dropping a file in or deleting it is the whole act.
set -uo pipefail
: "${BUILD:?build folder}"
root=$PWD extending=$PWD/test/extending
extended=$BUILD/muster_extended
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
has() { [[ $1 == *"$2"* ]] || bad "\`$2\` is not in: ${1:0:300}"; }

# The code in the document is the code that was compiled here.
blocks=$(awk '/^<!-- file: / { want = $3 } /^```c$/ && want { print want; want = "" }' docs/extending.md)
for f in "$extending"/*.[cy]*; do
    n=${f##*/}
    if [ "$n" = job.yaml ] || [ "$n" = extending.cmake ]; then continue; fi
    grep -qxF "test/extending/$n" <<<"$blocks" || bad "docs/extending.md does not show $n"
done
for f in $blocks; do
    awk -v f="$f" '$0 == "<!-- file: " f " -->" { on = 1; next }
        on && /^```c$/ { copy = 1; next } copy && /^```$/ { exit } copy' docs/extending.md | diff -u - "$f" ||
        bad "the code in docs/extending.md is not that of $f"
done

# The program knows the new words; the one built without them does not.
has "$("$extended" help layer swish)" beta
has "$("$extended" help updater lion)" beta2
has "$("$extended" help schedule cooldown)" share
has "$("$extended" help init identity)" gain
has "$("$extended" help reader floats)" features
has "$("$extended" help op)" activation_leaky
has "$("$extended" help protocol kbatch)" whoever
has "$("$extended" help merge median)" 'element by element'
has "$("$extended" params -h)" 'Usage: muster params JOB'
has "$("$extended" help --markdown)" swish
[ -e src/layer/l_swish.c ] || ! "$BUILD/muster" help layer swish >/dev/null 2>&1 || bad "muster without the plug-in knows swish"

# Diagnostics come with the field table.
cd "$work"
cp "$extending/job.yaml" .
head -c $((7 * 49 * 4)) /dev/zero >test.floats # seven records of zeros with label 0
out=$("$extended" check job.yaml 2>&1) || bad "check: $out"
out=$("$extended" check job.yaml --set net.act1.beta=0 2>&1) && bad "beta 0 passes"
has "$out" 'must be above 0'
sed 's/swish, beta/swish, betta/; s/type: lion/type: lino/' job.yaml >typo.yaml
out=$("$extended" check typo.yaml 2>&1) && bad "typos pass"
has "$out" 'did you mean `beta`?'
has "$out" 'did you mean `lion`?'
[ "$("$extended" params job.yaml --only ip1.weight | tr -s ' ')" = "ip1.weight (48, 48) identity" ] ||
    bad "params: $("$extended" params job.yaml)"

# All of them train together; the loss falls; Lion's history is in the checkpoint; a bad record is named.
out=$("$extended" train job.yaml --verbose --json --out run 2>log) || bad "train: $(tail -n 5 log)"
has "$(cat log)" activation_leaky
number() { sed -n "s/.*\"$1\":\([-+.0-9e]*\).*/\1/p" | head -n 1; }
first=$(number train_loss <run/metrics.jsonl) last=$(number train_loss <<<"$out")
awk -v a="$first" -v b="$last" 'BEGIN { exit !(b > 0 && b < 0.7 * a) }' || bad "the loss went from $first to $last: $out"
grep -q 'ip1.weight/mean' run/checkpoints/step-80/updater.safetensors || bad "no history of lion in the checkpoint"
out=$("$extended" train job.yaml --epochs 3 --resume run --json 2>log) || bad "resume: $(tail -n 5 log)"

# Two learners follow the new protocol; every gradient is in one update.
out=$("$extended" train job.yaml --learners 2 --protocol kbatch --json --out group 2>log) || bad "kbatch: $(tail -n 5 log)"
has "$out" '"protocol":"kbatch"'
[ "$(number produced <<<"$out")" = "$(number applied <<<"$out")" ] || bad "kbatch lost gradients: $out"
awk -v a="$first" -v b="$(number train_loss <<<"$out")" 'BEGIN { exit !(b > 0 && b < 0.9 * a) }' ||
    bad "the loss of two learners did not fall from $first: $out"

# Server groups merge by the new rule.
out=$("$extended" train job.yaml --learners 2 --set cluster.server_groups=2 --set cluster.sync_every=4 --set cluster.merge=median \
    --json --out merged 2>log) || bad "median: $(tail -n 5 log)"
[ "$(number merges <<<"$out")" = 40 ] || bad "80 steps of two groups, merged every 4: $out"

# The new source of gradients trains; the program without it names the nearest one it has.
out=$("$extended" train job.yaml --set train.gradients=lookahead --json --out look 2>log) || bad "lookahead: $(tail -n 5 log)"
has "$out" '"protocol":"lookahead"'
cat >plain.yaml <<'JOB'
data: {train: {reader: synthetic, shape: [4], classes: 2, records: 8}}
net:
- {name: ip, type: inner_product, src: data.features, outputs: 2}
- {name: loss, type: softmax_loss, src: [ip, data.label]}
train: {steps: 1, gradients: lookahead}
updater: {type: sgd, rate: 0.1}
JOB
out=$("$BUILD/muster" check plain.yaml 2>&1) && bad "muster without it takes lookahead"
has "$out" 'unknown source of gradients'

head -c $((49 * 4)) /dev/zero | tr '\0' '\377' >>test.floats
out=$("$extended" test run 2>&1)
has "$out" 'label -1 is not in 0..4'

# Drop-in: a copy of the tree plus the two files, nothing else touched, has them in its lists and its build;
# after they are deleted, the next ninja takes them out again.
mkdir tree
cp -r "$root"/{CMakeLists.txt,cmake,src,include,examples,scripts,test} tree
cp "$extending/l_swish.c" tree/src/layer
cp "$extending/u_lion.c" tree/src/updater
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[^=]*=//p' "$BUILD/CMakeCache.txt")
cmake -G Ninja -S tree -B b -DCMAKE_C_COMPILER="$compiler" >cmake.log 2>&1 || bad "cmake: $(tail -n 5 cmake.log)"
lists() { cat b/gen/layer_list.inc b/gen/updater_list.inc; }
has "$(lists)" 'X(swish)'
has "$(lists)" 'X(lion)'
objects=(libmuster.dir/src/layer/l_swish.c libmuster.dir/src/layer/layer.c libmuster.dir/src/updater/updater.c)
rule=src/updater/u_lion.c # once for each level of instructions, or once
if grep -q 'kernels_v2.dir' b/build.ninja; then objects+=(kernels_v{2,3,4}.dir/$rule); else objects+=(libmuster.dir/$rule); fi
objects=("${objects[@]/#/CMakeFiles/}")
ninja -C b "${objects[@]/%/.o}" >ninja.log 2>&1 || bad "the dropped-in files do not compile: $(tail -n 5 ninja.log)"
nm b/CMakeFiles/libmuster.dir/src/layer/layer.c.o | grep -q 'U mu_layer_swish' || bad "layer.c does not know swish"
rm tree/src/layer/l_swish.c tree/src/updater/u_lion.c
ninja -C b build.ninja >ninja.log 2>&1 || bad "ninja after deletion: $(tail -n 5 ninja.log)"
[[ $(lists) != *swish* && $(lists) != *lion* ]] || bad "deleted plug-ins are still listed: $(lists)"
! grep -q 'src/layer/l_swish' b/build.ninja || bad "l_swish.c is still built"

# Outside the tree: the build is told the files.
cmake -S tree -B b -DMUSTER_EXTRA_SOURCES="$extending/l_swish.c;$extending/c_params.c" >cmake.log 2>&1 ||
    bad "cmake with MUSTER_EXTRA_SOURCES: $(tail -n 5 cmake.log)"
has "$(lists)" 'X(swish)'
has "$(cat b/gen/verb_list.inc)" 'X(params)'

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
