# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# cluster.sh - a Slurm of its own on the hosts of test/hosts/hosts.sh, for tests.
#
#     dir=$(mktemp -d); source test/hosts/hosts.sh; source test/slurm/cluster.sh; trap 'slurm_down; rm -rf "$dir"' EXIT
#     slurm_up 3                          nodes n1 to n3, each a host; the controller is on ${hosts[0]}
#     slurm srun -N 2 ...                 a command of Slurm's, on the host of the controller
#     slurm_kill 2; slurm_node 2          the host of n2 dies; it is back, with nothing on it
#
# Sourced behind hosts.sh, by root; dir is a folder of the test. Everything lies in it: keys, sockets, states, logs; no
# file of an installed Slurm is read or written. Daemons of Slurm live on hosts, so they die with them; munged, which
# all nodes share by its socket, is ended by its pid, and by a guard where the caller was killed.
#
# What is needed here and not on a usual cluster: a folder for temporary files of each node (TmpFS), as PMIx makes one
# there whose name all nodes share; the cgroup plug-in by name, as `ip netns exec` hides where it would look; munged by
# force, as it wants its socket in a folder that everybody may enter. A lost node is noticed after 20 to 30 s.
slurm_munge=

slurm_need() {
    local tool
    for tool in slurmctld slurmd sbatch srun scontrol munged mungekey; do
        PATH=$PATH:/usr/sbin command -v $tool >/dev/null ||
            hosts_skip "needs $tool (slurmctld, slurmd, slurm-client, munge)"
    done
    ls /usr/lib/*/slurm*/mpi_pmix*.so >/dev/null 2>&1 || hosts_skip "this Slurm has no PMIx (slurm-wlm-basic-plugins)"
}

slurm_fail() { echo "slurm: $*" >&2; tail -n 5 "$dir"/slurm/*.log >&2; exit 1; }

slurm() { timeout -k 5 "${slurm_limit:-120}" "$hosts_here/on.sh" "${hosts[0]}" env SLURM_CONF="$SLURM_CONF" "$@"; }

slurm_guard() { # PID MUNGED: as hosts_guard does it
    while kill -0 "$1" 2>/dev/null && kill -0 "$2" 2>/dev/null; do sleep 1; done
    kill -KILL "$2" 2>/dev/null
}

slurm_munged() {
    local here=$dir/slurm/munge
    mkdir -m 700 "$here" && mungekey --create --keyfile="$here/key" || slurm_fail "no key for munge"
    munged --force --foreground --socket="$here/socket" --key-file="$here/key" --pid-file="$here/pid" \
        --log-file="$here/munged.log" --seed-file="$here/seed" >"$dir/slurm/munged.log" 2>&1 &
    slurm_munge=$!
    disown $slurm_munge
    setsid bash -c 'source "$0"; slurm_guard "$@"' "${BASH_SOURCE[0]}" $$ $slurm_munge </dev/null >/dev/null 2>&1 &
    disown $!
    slurm_wait 10 "munged" test -S "$here/socket"
}

slurm_conf() { # N
    local i
    cat <<END
ClusterName=muster
SlurmctldHost=${hosts[0]}($(hosts_address 0))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/slurm/munge/socket
StateSaveLocation=$dir/slurm/state
SlurmdSpoolDir=$dir/slurm/spool-%n
TmpFS=$dir/slurm/tmp-%n
SlurmctldPidFile=$dir/slurm/slurmctld.pid
SlurmdPidFile=$dir/slurm/slurmd-%n.pid
SlurmctldLogFile=$dir/slurm/slurmctld.log
SlurmdLogFile=$dir/slurm/slurmd-%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=20
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
MpiDefault=none
ReturnToService=2
KillWait=10
END
    for i in $(seq "$1"); do
        echo "NodeName=n$i NodeHostname=${hosts[i]} NodeAddr=$(hosts_address "$i") CPUs=2 State=UNKNOWN"
    done
    echo "PartitionName=all Nodes=n[1-$1] Default=YES MaxTime=INFINITE State=UP"
}

# slurm_wait SECONDS WHAT COMMAND...: until the command says yes.
slurm_wait() {
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $until ] || slurm_fail "no $what in time"
        sleep 0.2
    done
}

slurm_node() { # NUMBER: starts the daemon of a node
    mkdir -p "$dir/slurm/spool-n$1" "$dir/slurm/tmp-n$1"
    "$hosts_here/on.sh" "${hosts[$1]}" env SLURM_CONF="$SLURM_CONF" PATH="$PATH:/usr/sbin" \
        slurmd -D -N "n$1" >>"$dir/slurm/slurmd-n$1.out" 2>&1 </dev/null &
    disown $!
}
slurm_kill() { hosts_kill "${hosts[$1]}"; }
slurm_idle() { [ "$(slurm sinfo -h -t idle -o %D)" = "$1" ]; } # N nodes

slurm_up() { # N
    slurm_need
    hosts_up "$1" none
    mkdir -p "$dir/slurm/state"
    export SLURM_CONF=$dir/slurm/slurm.conf
    slurm_conf "$1" >"$SLURM_CONF"
    echo "CgroupPlugin=cgroup/v1" >"$dir/slurm/cgroup.conf"
    slurm_munged
    "$hosts_here/on.sh" "${hosts[0]}" env SLURM_CONF="$SLURM_CONF" PATH="$PATH:/usr/sbin" \
        slurmctld -D >"$dir/slurm/slurmctld.out" 2>&1 </dev/null &
    disown $!
    local i
    for i in $(seq "$1"); do slurm_node "$i"; done
    slurm_wait 60 "$1 idle nodes" slurm_idle "$1"
}

slurm_down() {
    hosts_down
    [ -z "$slurm_munge" ] || kill "$slurm_munge" 2>/dev/null
    slurm_munge=
}
