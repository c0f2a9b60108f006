#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks on several hosts (test/hosts/hosts.sh) train what ranks on one host train, to the bit, however slow the cables;
# when a rank is killed each of the others says which. And the hosts themselves: links are what they are said to be, two
# fixtures do not see each other, and nothing stays behind, whatever became of the test.
set -uo pipefail
: "${MUSTER:=build/muster}"
case $MUSTER in /*) ;; *) MUSTER=$PWD/$MUSTER ;; esac
command -v mpirun >/dev/null || { echo "skipped: needs mpirun (openmpi-bin)"; exit 77; }
[ -e "$(dirname "$MUSTER")/libmuster-mpi.so" ] || { echo "skipped: built without MPI (libopenmpi-dev)"; exit 77; }
fixture=$PWD/test/hosts/hosts.sh
dir=$(mktemp -d)
# shellcheck source=test/hosts/hosts.sh
source "$fixture"
trap 'hosts_down; rm -rf "$dir"' EXIT
cd "$dir" || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
outside() {
    ip -o link; ip -o addr | sed 's/ *valid_lft.*//'; ip route; cat /etc/hosts; hostname
}
outside >before

cat >job.yaml <<'END_OF_JOB'
name: hosts
seed: 3
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 800, noise: 0.2, scale: 0.0039}
net:
  - {name: fc1, type: inner_product, src: data.image, outputs: 40}
  - {name: act, type: sigmoid}
  - {name: fc2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [fc2, data.label]}
train: {batch: 24, steps: 60}
updater: {type: sgd, momentum: 0.9, decay: 0.001, rate: 0.05}
cluster: {learners: 6, sync_every: 4}
END_OF_JOB
one_host=(mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include lo
    --mca mpi_yield_when_idle 1)
train() { # train OUT RANKS words of mpirun -- options...
    local out=$1 ranks=$2 launch=()
    shift 2
    while [ "$1" != -- ]; do launch+=("$1"); shift; done
    shift
    timeout -k 5 60 "${launch[@]}" -n "$ranks" "$MUSTER" train job.yaml --out "$out" "$@" >"$out.out" 2>"$out.err" ||
        bad "$out: $(tail -n 6 "$out.err")"
}
same() { cmp "$1/model.safetensors" "$2/model.safetensors" || bad "$1 has other bits than $2"; }

# ---- the same bits on hosts as on one, by two rules of merging ----
hosts_up 3 1gbit
hosts_proof
tag=$hosts_tag
for ranks in 2 3; do
    train local-$ranks $ranks "${one_host[@]}" -- --set cluster.server_groups=$ranks
    train hosts-$ranks $ranks "${hosts_mpi[@]}" -- --set cluster.server_groups=$ranks
    same hosts-$ranks local-$ranks
    grep -q 'count as nodes' local-$ranks.err || bad "ranks on one host are not warned of: $(cat local-$ranks.err)"
    grep -q 'count as nodes' hosts-$ranks.err && bad "ranks on $ranks hosts are taken to be on one: $(cat hosts-$ranks.err)"
done
train local-outer 3 "${one_host[@]}" -- --quiet --set cluster.server_groups=3 --set cluster.merge=outer
train hosts-outer 3 "${hosts_mpi[@]}" -- --quiet --set cluster.server_groups=3 --set cluster.merge=outer
same hosts-outer local-outer

# ---- a rank is killed, and the daemon of its host waits before it ends the others ----
ranks_on() { for p in $(hosts_pids "$1"); do grep -qx muster "/proc/$p/comm" 2>/dev/null && echo "$p"; done; }
cat >rank.sh <<'END_OF_RANK'
trap : TERM
"$@" 2>"rank$OMPI_COMM_WORLD_RANK.err"
code=$?
echo $code >"rank$OMPI_COMM_WORLD_RANK.code"
exit $code
END_OF_RANK
MUSTER_RANK_TIMEOUT=2 timeout -k 5 60 "${hosts_mpi[@]}" --mca odls_base_sigkill_timeout 12 -n 3 sh rank.sh \
    "$MUSTER" train job.yaml --steps 0 --set train.deadline=40s --out killed --quiet \
    --set 'checkpoint.every=1s' >killed.out 2>&1 &
pid=$!
for _ in $(seq 400); do ls killed/checkpoints/step-* >/dev/null 2>&1 && break; sleep 0.05; done
kill -KILL "$(ranks_on "${hosts[2]}" | head -n 1)" || bad "no rank on ${hosts[2]}: $(cat killed.out)"
wait $pid
[ $? = 137 ] || bad "mpirun does not end with 137: $(cat killed.out)"
for rank in 0 2; do
    grep -q "rank 1 on ${hosts[2]} was lost: silent for" rank$rank.err || bad "rank $rank says: $(cat rank$rank.err)"
    [ "$(cat rank$rank.code)" = 5 ] || bad "rank $rank ended with $(cat rank$rank.code)"
done
[ -z "$(hosts_pids)" ] || bad "processes are left on the hosts: $(hosts_pids | xargs -r ps -o pid,args -p)"

# ---- another fixture beside it, with latency, whose owner is killed: the guard takes it away, and only it ----
{
    MUSTER=$MUSTER bash -c 'dir=$1; source "$2"; hosts_up 2 200mbit 2ms; hosts_list >"$3"; kill -KILL $$' - "$dir" "$fixture" other
} 2>/dev/null
other=$(sed -n '1s/.* \(mu[0-9a-f]*\)-0$/\1/p' other)
[ -n "$other" ] && [ "$other" != "mu$hosts_tag" ] || bad "no other fixture: $(cat other)"
for _ in $(seq 100); do ip netns list | grep -q "^$other-" || break; sleep 0.1; done
ip netns list | grep "^$other-" && bad "a fixture outlives its owner"
[ "$(hosts_named "$hosts_tag" | wc -l)" = 5 ] || bad "the guard of another fixture took this one away"
hosts_down

# ---- cables with a latency of 2 ms ----
hosts_up 2 200mbit 2ms
hosts_proof
train far-2 2 "${hosts_mpi[@]}" -- --quiet --set cluster.server_groups=2
same far-2 local-2
hosts_down

# ---- a bucket that lets 256 KB through at once is found; nothing is left outside ----
(hosts_bucket=512kb; hosts_up 2 1gbit; trap hosts_down EXIT; hosts_proof) >bucket.out 2>&1 && bad "$(cat bucket.out)"
grep -q 'behind a silence are faster' bucket.out || bad "$(cat bucket.out)"
outside >after
ls -d "/etc/netns/mu$tag-"* "/run/netns/mu$tag-"* 2>/dev/null && bad "names are left"
diff before after || bad "something outside has changed"
[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
