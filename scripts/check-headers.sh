#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-headers.sh [CC] - each header compiles alone, without the help of what others include before it.
# The installed header must also be plain C99 and C++. A template (a file that a .c includes several times
# after defining names) says "Before inclusion:" in its head and is left to that .c. Headers of the simulator that
# name MPI are checked with SimGrid's, where that is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
cc=${1:-cc}
one() {
    local out mpi=
    if grep -qE '<mpi[.]h>|simulate/network[.]h' "$2"; then
        mpi=/usr/include/smpi
        [ -e $mpi/mpi.h ] || return 0
    fi
    if head -n 10 "$2" | grep -q 'Before inclusion:'; then return; fi
    if ! out=$(printf '#include "%s"\nextern int something;\n' "${2#*/}" |
        "$1" -x c -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -fsyntax-only -Isrc -Iinclude \
            ${mpi:+-isystem $mpi} $FLAGS - 2>&1); then
        printf '%s: does not compile alone\n%s\n' "$2" "$out" >&2
        return 1
    fi
}
export -f one
export FLAGS
FLAGS=$(pkg-config --cflags yaml-0.1 jansson libxxhash openblas 2>/dev/null || true)
find src include -name '*.h' | LC_ALL=C sort | xargs -P 2 -I{} bash -c "one $cc {}"

public=include/muster/muster.h
if [ -f $public ]; then
    "$cc" -x c -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only $public
    if echo 'int x;' | "$cc" -x c++ -fsyntax-only - 2>/dev/null; then
        "$cc" -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only $public
    fi
fi
