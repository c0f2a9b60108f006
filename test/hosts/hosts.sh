# shellcheck shell=bash disable=SC2034,SC2054
# SPDX-License-Identifier: Apache-2.0
# hosts.sh - several hosts on one machine, for tests: network namespaces with cables between them.
#
#     dir=$(mktemp -d); source test/hosts/hosts.sh; trap 'hosts_down; rm -rf "$dir"' EXIT
#     hosts_up 3 1gbit                    three hosts on a switch, each cable with that rate both ways
#     hosts_up 3 1gbit 500us              ... and that one-way latency
#     hosts_proof                         measures the links, prints what came out, fails where they are too good
#     "${hosts_mpi[@]}" -n 3 PROGRAM...   a rank on each
#
# Sourced, by root; dir is a folder of the test, MUSTER the program. A host is a namespace with a UTS name, an address and names of its own; ${hosts[1]} is the
# first one. ${hosts[0]} is where mpirun runs, with a cable like the others: so any host that has ranks may die.
# The switch is a bridge in a namespace of its own, and the rate a token bucket at both ends of a cable. A kernel
# without netem knows no latency: with one, relay.c is cables and switch in one, and the devices are tunnels.
#
# Nothing in the namespace of the caller is changed. All names carry a random tag (behind HOSTS_TAG, of small letters
# and digits), so fixtures may exist side by side. hosts_down removes everything; where the caller is killed, a guard
# does it within two seconds.
hosts_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# A cable that was pulled: after TCP's usual quarter of an hour, or six seconds here, whoever still waits for the other
# end of it gives up, such as mpirun.
hosts_retries=4 hosts_bucket=16kb
hosts=() hosts_tag='' hosts_switch='' hosts_rate='' hosts_delay='' hosts_mpi=()

hosts_skip() { echo "skipped: $*"; exit 77; }

# hosts_need: the tools and rights there must be; ends the test with 77 where they are not.
hosts_need() {
    [ "$(id -u)" = 0 ] || hosts_skip "needs root, to make network namespaces"
    local tool
    for tool in ip tc unshare nsenter python3; do
        command -v $tool >/dev/null || hosts_skip "needs $tool (iproute2, util-linux, python3)"
    done
    unshare --net --uts --mount true 2>/dev/null || hosts_skip "namespaces are not allowed here"
}

hosts_address() { echo "10.77.0.$(($1 + 1))"; } # of host number

# hosts_remove TAG: whatever carries the tag. Processes of a namespace die with it.
hosts_remove() {
    local ns pids
    for _ in $(seq 50); do
        pids=$(for ns in $(hosts_named "$1"); do ip netns pids "$ns"; done 2>/dev/null)
        [ -n "$pids" ] || break
        # shellcheck disable=SC2086
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
    for ns in $(hosts_named "$1"); do
        ip netns del "$ns" 2>/dev/null
        rm -rf "/etc/netns/$ns"
    done
    rmdir /etc/netns 2>/dev/null
    return 0
}
hosts_named() { ip netns list | sed -n "s/^\(mu$1-[0-9a-z]*\).*/\1/p"; }

hosts_down() {
    [ -z "$hosts_tag" ] || hosts_remove "$hosts_tag"
    hosts=() hosts_tag='' hosts_mpi=()
}

hosts_fail() { echo "hosts: $*" >&2; exit 1; }

# hosts_guard PID TAG: removes the fixture when the process is gone. A process of its own, in its own session.
hosts_guard() {
    while kill -0 "$1" 2>/dev/null && [ -n "$(hosts_named "$2")" ]; do sleep 1; done
    hosts_remove "$2"
}

# hosts_up N [RATE [LATENCY]]: N hosts from 2 to 8; RATE as tc writes it, `none` = as fast as it goes.
hosts_up() {
    local n=$1 i
    hosts_rate=${2:-none} hosts_delay=${3:-}
    hosts_need
    [ "$n" -ge 2 ] && [ "$n" -le 8 ] || hosts_fail "$n hosts: there may be 2 to 8"
    hosts_tag=${HOSTS_TAG:-}$(od -An -N3 -tx1 /dev/urandom | tr -d ' ')
    hosts_switch=mu$hosts_tag-s
    ip netns add "$hosts_switch" 2>/dev/null || hosts_skip "\`ip netns add\` is not allowed here"
    setsid bash -c 'source "$0"; hosts_guard "$@"' "$hosts_here/hosts.sh" $$ "$hosts_tag" \
        </dev/null >/dev/null 2>&1 &
    disown $!
    for i in $(seq 0 "$n"); do
        hosts[i]=mu$hosts_tag-$i
        ip netns add "${hosts[i]}" || hosts_fail "no namespace ${hosts[i]}"
        ip -n "${hosts[i]}" link set lo up
        ip netns exec "${hosts[i]}" sysctl -q -w net.ipv4.tcp_retries2=$hosts_retries
    done
    for i in $(seq 0 "$n"); do
        mkdir -p "/etc/netns/${hosts[i]}"
        { echo "127.0.0.1 localhost"; hosts_list; } >"/etc/netns/${hosts[i]}/hosts"
    done
    if [ -n "$hosts_delay" ]; then hosts_tunnels; else hosts_cables; fi
    hosts_mpi=("$hosts_here/on.sh" "${hosts[0]}" mpirun --allow-run-as-root --bind-to none --map-by node
        --host "$(IFS=,; echo "${hosts[*]:1}")"
        --mca plm rsh --mca plm_rsh_agent "$hosts_here/on.sh --line" --mca orte_tmpdir_base "$dir"
        --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 --mca pml ob1 --mca btl self,tcp
        --mca mpi_yield_when_idle 1)
}

hosts_list() { # the lines of /etc/hosts
    local i
    for i in "${!hosts[@]}"; do echo "$(hosts_address "$i") ${hosts[i]}"; done
}

hosts_wire() { # HOST NUMBER: its device has an address and is up
    ip -n "$1" addr add "$(hosts_address "$2")/24" dev eth0 && ip -n "$1" link set eth0 up
}

# A small bucket: what comes after a silence leaves at the rate, too.
hosts_shape() { # NAMESPACE DEVICE
    [ "$hosts_rate" = none ] || tc -n "$1" qdisc add dev "$2" root tbf rate "$hosts_rate" burst "$hosts_bucket" latency 50ms ||
        hosts_skip "this kernel has no token bucket (sch_tbf)"
}

# Segments that fit into the bucket pass it whole. Larger ones the kernel would cut into packets of 1500 bytes there,
# which takes a core that is measured three times as long; a network card does that, not its host.
hosts_segments() { ip -n "$1" link set "$2" gso_max_size 14000 2>/dev/null || true; } # NAMESPACE DEVICE

hosts_cables() {
    local i
    ip -n "$hosts_switch" link add br0 type bridge && ip -n "$hosts_switch" link set br0 up ||
        hosts_skip "this kernel has no bridge"
    for i in "${!hosts[@]}"; do
        ip -n "$hosts_switch" link add "p$i" type veth peer name eth0 netns "${hosts[i]}" ||
            hosts_skip "this kernel has no veth"
        ip -n "$hosts_switch" link set "p$i" master br0 up
        hosts_wire "${hosts[i]}" "$i" || hosts_fail "no cable to ${hosts[i]}"
        hosts_segments "$hosts_switch" "p$i"
        hosts_segments "${hosts[i]}" eth0
        hosts_shape "$hosts_switch" "p$i"
        hosts_shape "${hosts[i]}" eth0
    done
}

hosts_tunnels() {
    local i relay ends=()
    [ -c /dev/net/tun ] || hosts_skip "this kernel has no /dev/net/tun"
    relay=$(dirname "$MUSTER")/muster-relay
    [ -x "$relay" ] || hosts_skip "$relay is not built (ninja muster-relay)"
    for i in "${!hosts[@]}"; do ends+=("${hosts[i]}=$(hosts_address "$i")"); done
    ip netns exec "$hosts_switch" "$relay" "$hosts_delay" "$hosts_rate" "${ends[@]}" \
        >"$dir/relay.out" 2>&1 &
    disown $!
    for i in $(seq 500); do
        grep -q ready "$dir/relay.out" && break
        [ "$i" -lt 500 ] && sleep 0.01 || hosts_fail "the relay: $(cat "$dir/relay.out")"
    done
    for i in "${!hosts[@]}"; do hosts_wire "${hosts[i]}" "$i" || hosts_fail "no tunnel to ${hosts[i]}"; done
}

# hosts_proof: prints the rate and round trip of the links of all hosts, measured. Too slow is a busy machine, and
# said; too fast is no link of this rate: a failure.
hosts_proof() {
    local i ends=()
    for i in "${!hosts[@]}"; do [ "$i" = 0 ] || ends+=("${hosts[i]}=$(hosts_address "$i")"); done
    python3 "$hosts_here/probe.py" "$hosts_rate" "${hosts_delay:-0us}" "${ends[@]}" ||
        hosts_fail "the links are not what was asked for"
}

# What can happen to a host.
hosts_pids() { # [HOST]: all processes there, or on all hosts
    local ns
    [ $# -gt 0 ] || set -- "${hosts[@]}"
    for ns; do ip netns pids "$ns" 2>/dev/null; done
}
hosts_kill() { hosts_pids "$1" | xargs -r kill -KILL 2>/dev/null; } # HOST
hosts_cable() { # NUMBER up|down
    if [ -n "$hosts_delay" ]; then ip -n "${hosts[$1]}" link set eth0 "$2"
    else ip -n "$hosts_switch" link set "p$1" "$2"; fi
}
