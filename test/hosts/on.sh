#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on.sh HOST WORD... - runs a command on a host of hosts.sh, in the place of this process: its pid stays.
# on.sh --line HOST TEXT... - the same for a line of the shell, as ssh takes it: the launch agent of mpirun.
#
# A host is a network namespace. A UTS name of its own comes with it: without one Open MPI takes all hosts for one
# node, and its ranks share memory.
line=
if [ "$1" = --line ]; then line=1; shift; fi
host=$1
shift
[ -z "$line" ] || set -- sh -c "$*"
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
