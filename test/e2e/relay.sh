#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One copy of the weights, which rank 0 has: base, adv and adv* train by hardsync what the same learners train in one
# process, and by other protocols with the staleness that is expected of them; deaths, stops and resumes; what is refused.
set -uo pipefail
. "$(dirname "$0")/help.sh"
. "$root/test/e2e/mpi.sh"
ways='base adv adv*'
set -f # adv* is no file

job mlp '{batch: 48, epochs: 2}' '{type: adam, rate: 0.001}' <<'END'
  - {name: fc1, type: inner_product, src: data.image, outputs: 200}
  - {name: act, type: relu}
  - {name: drop, type: dropout}
END
job conv '{batch: 24, steps: 40}' '{type: sgd, momentum: 0.9, decay: 0.001, rate: 0.02}' <<'END'
  - {name: c1, type: convolution, src: data.image, filters: 40, kernel: 5, pad: 2}
  - {name: act, type: relu}
  - {name: norm, type: batch_norm}
  - {name: pool, type: pooling, kernel: 3, stride: 2}
  - {name: c2, type: convolution, filters: 20, kernel: 3}
  - {name: act2, type: relu}
END
words_and_chars

# ---- in step: what one process makes of it ----
for job in mlp conv words chars; do
    run $job-alone $job.yaml --learners 4
    for way in $ways; do
        out=$job-${way/\*/s}
        run_on 2 $out-2 $job.yaml --learners 4 --set cluster.architecture="$way"
        near $out-2 $job-alone 2e-5 || bad "$job by $way, 2 ranks"
        [ $job = chars ] && continue # its streams are dealt to learners: the same on any ranks
        run_on 4 $out-4 $job.yaml --set cluster.architecture="$way"
        near $out-4 $job-alone 2e-5 || bad "$job by $way, 4 ranks"
    done
done
jq -e '.staleness.max == 0 and .versions == .steps' mlp-adv-4.json >/dev/null || bad "mlp-adv-4: $(jq -c .staleness mlp-adv-4.json)"

# ---- other protocols: the clock counts updates of rank 0, each of gradients of groups ----
for way in $ways; do
    groups=$([ "$way" = base ] && echo 4 || echo 2)
    for protocol in async softsync ssp; do
        out=$protocol-${way/\*/s}
        run_on 2 $out conv.yaml --learners 4 --steps 300 --protocol $protocol --set cluster.architecture="$way" \
            --set cluster.warm_start="10 steps"
        jq -e '.test_accuracy > 0.8 and .samples == 300 * 24' $out.json >/dev/null || bad "$out: $(cat $out.json)"
    done
    # Behind the warm start each gradient of a group is an update by async.
    jq -e ".versions == 10 + 290 * $groups" async-${way/\*/s}.json >/dev/null ||
        bad "async by $way: $(jq .versions async-${way/\*/s}.json) versions"
done
jq -e '.staleness.max <= 2' softsync-adv.json >/dev/null || bad "softsync: $(jq -c .staleness softsync-adv.json)"

# ---- deaths, stops, resumes ----
run calm conv.yaml --learners 4 --steps 2000
for way in adv 'adv*'; do
    out=killed-${way/\*/s}
    long $out conv.yaml --learners 4 --steps 2000 --set cluster.architecture="$way"
    kill -KILL "$(learners_of "$(rank_1_of $pid)" | head -n 1)" 2>/dev/null || bad "no learner of rank 1"
    wait $pid || bad "a learner was killed: $(tail -n 4 $out.err)"
    jq -e '(.rank_times | [.compute_s[], .wait_s[]] | length == 4 and all(. > 0)) and
        ((.rank_times | (.compute_s | add) / ((.compute_s | add) + (.wait_s | add))) - .overlap | fabs) < 1e-6' $out.json >/dev/null ||
        bad "$out: overlap $(jq -c '[.overlap, .rank_times]' $out.json)"
    jq -e '.learners_lost == 1 and .learners_replaced == 1' $out.json >/dev/null || bad "$out: $(cat $out.json)"
    near $out calm 1e-4 || bad "a death changes the result by $way"
done
long killed-async conv.yaml --learners 4 --steps 4000 --set cluster.architecture='adv*' --protocol async
kill -KILL "$(learners_of "$(rank_1_of $pid)" | head -n 1)" 2>/dev/null || bad "no learner of rank 1"
wait $pid || bad "async: a learner was killed: $(tail -n 4 killed-async.err)"
balanced killed-async

# Steps of microseconds, stopped wherever they are: a step that no learner has begun is none, and what a rank has sent
# before it leaves counts.
job tiny '{batch: 16}' '{type: sgd, rate: 0.001}' <<'END'
  - {name: fc1, type: inner_product, src: data.image, outputs: 20}
  - {name: act, type: sigmoid}
END
for k in 1 2 3; do
    for way in adv 'adv*'; do
        run_on 4 tiny-$k-${way/\*/s} tiny.yaml --learners 4 --protocol async --set cluster.architecture="$way" \
            --set cluster.warm_start=never --epochs 0 --set train.deadline=0.5s --set checkpoint.every=never
    done
done
run_on 4 tiny-all tiny.yaml --learners 4 --protocol async --set cluster.architecture='adv*' --set checkpoint.every=never \
    --set cluster.warm_start=never --epochs 3
jq -e '.stopped_by == "epochs" and .samples == .applied_samples and .samples >= 3 * 810' tiny-all.json >/dev/null ||
    bad "tiny-all: $(cat tiny-all.json)"

# In step all groups end before the same one, so what goes on has the bits of a run that was not stopped.
for protocol in hardsync async; do
    long stopped-$protocol conv.yaml --learners 4 --steps 100000 --set cluster.architecture=adv --protocol $protocol
    for _ in $(seq 100); do # each rank tells rank 0 now and then
        "$MUSTER" status stopped-$protocol --json >status.json 2>/dev/null &&
            jq -e '.rank_times.compute_s | length == 2 and all(. > 0)' status.json >/dev/null && break
        sleep 0.1
    done
    jq -e '.overlap > 0 and .overlap < 1 and (.rank_times.overlap | all(. > 0))' status.json >/dev/null ||
        bad "status: $(jq -c '[.overlap, .rank_times]' status.json)"
    kill -TERM "$(rank_1_of $pid)"
    wait $pid
    jq -e '.stopped_by == "signal" or .stopped_by == "stop"' stopped-$protocol.json >/dev/null ||
        bad "SIGTERM: $(cat stopped-$protocol.json) $(tail -n 5 stopped-$protocol.err)"
    balanced stopped-$protocol
done
step=$(jq .steps stopped-hardsync.json)
timeout 180 "${mpi[@]}" -n 2 "$MUSTER" train --resume stopped-hardsync --quiet --json --steps $((step + 20)) >again.json \
    2>again.err || bad "resume: $(tail -n 4 again.err)"
run_on 2 straight conv.yaml --learners 4 --steps $((step + 20)) --set cluster.architecture=adv
same stopped-hardsync straight
step=$(jq .steps stopped-async.json)
timeout 180 "$MUSTER" train --resume stopped-async --quiet --json --learners 2 --steps $((step + 20)) >again.json 2>again.err ||
    bad "resume in one process: $(tail -n 4 again.err)"
jq -e ".samples == 24 * ($step + 20)" again.json >/dev/null || bad "resume in one process: $(cat again.json)"

export MUSTER_RANK_TIMEOUT=2
long silent conv.yaml --learners 4 --steps 1000000 --set cluster.architecture='adv*' --protocol async \
    --set 'checkpoint.every=20 steps'
kill -STOP "$(rank_1_of $pid)"
wait $pid
code=$?
[ $code = 5 ] || bad "a rank was stopped: exit $code"
grep -q "rank 1 on .* was lost: silent for" silent.err || bad "a rank was stopped: $(tail -n 5 silent.err)"
export MUSTER_RANK_TIMEOUT=20

# Of three ranks one is killed: both others say so and end, whatever their groups were about to do.
cat >rank.sh <<'END'
trap : TERM
"$@"
echo $? >"code$OMPI_COMM_WORLD_RANK"
END
for way in base adv 'adv*'; do
    out=lost-${way/\*/s}
    rm -f code0 code1
    MUSTER_RANK_TIMEOUT=2 "${mpi[@]}" --mca odls_base_sigkill_timeout 12 -n 3 sh rank.sh "$MUSTER" train conv.yaml --learners 6 \
        --steps 1000000 --protocol async --set cluster.architecture="$way" --set cluster.warm_start=never --out $out --quiet \
        >$out.out 2>&1 &
    pid=$!
    for _ in $(seq 800); do [ -e "$out/checkpoints/LATEST" ] && break; sleep 0.05; done
    victim=
    for shell in $(pgrep -P $pid -x sh); do
        grep -qz '^OMPI_COMM_WORLD_RANK=2$' "/proc/$shell/environ" && victim=$(pgrep -P "$shell" -x muster)
    done
    kill -KILL "$victim" || bad "$out: no rank 2"
    wait $pid
    [ "$(cat code0 code1 2>&1 | tr '\n' ' ')" = '5 5 ' ] || bad "$out: the others ended with $(cat code0 code1 2>&1): $(tail -n 5 $out.out)"
done

# A training that diverges ends with its own code.
timeout 180 "${mpi[@]}" -n 2 "$MUSTER" train conv.yaml --set cluster.architecture=adv --set updater.rate=1e30 --out wild --quiet \
    >wild.json 2>wild.err
code=$?
[ $code = 4 ] || bad "diverged: exit $code: $(tail -n 4 wild.err)"

# ---- refused ----
with() { refused 3 "$1" 2 "$MUSTER" train conv.yaml --quiet --out no --set cluster.architecture=adv "${@:2}"; }
with 'there is one copy of the weights, and nothing to merge' --set cluster.server_groups=2
with 'learners of this protocol change the weights themselves' --protocol hogwild
with 'need a server group on each rank' --set cluster.workers=2
with 'rank 0 applies gradients' --set cluster.server=process
with '3 learners cannot be spread evenly over 2 ranks' --learners 3
finish
