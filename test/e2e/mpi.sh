#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mpi.sh - what end-to-end tests of several ranks on this machine do alike; they source it behind help.sh, it is no test.
command -v mpirun >/dev/null || { echo "skipped: needs mpirun (openmpi-bin)"; exit 77; }
needs jq python3
[ -e "$(dirname "$MUSTER")/libmuster-mpi.so" ] || { echo "skipped: built without MPI (libopenmpi-dev)"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MUSTER_RANK_TIMEOUT=20

mpi=(mpirun --oversubscribe --bind-to none --mca pml ob1 --mca btl self,vader,tcp --mca btl_tcp_if_include lo
    --mca mpi_yield_when_idle 1)
run_on() { # run_on RANKS OUT JOB options...: trains on so many; the ledger balances
    local n=$1 out=$2 job=$3
    shift 3
    ends 70 "$out" "${mpi[@]}" -n "$n" timeout -k 5 60 "$MUSTER" train "$job" "$@" --out "$out" --quiet --json || return
    balanced "$out"
    jq -e ".ranks == $n" "$out.json" >/dev/null || bad "$out: $(jq -c .ranks "$out.json") ranks"
}
long() { # long OUT JOB options...: two ranks in the background, until there is a checkpoint; its mpirun's pid in $pid
    local out=$1 job=$2
    shift 2
    "${mpi[@]}" -n 2 "$MUSTER" train "$job" --out "$out" --json "$@" >"$out.json" 2>"$out.err" &
    pid=$!
    for _ in $(seq 200); do ls "$out"/checkpoints/step-* >/dev/null 2>&1 && break; sleep 0.05; done
}
ranks_of() { pgrep -P "$1" -x muster; } # of mpirun
rank_1_of() {
    for p in $(ranks_of "$1"); do grep -qz '^OMPI_COMM_WORLD_RANK=1$' "/proc/$p/environ" && echo "$p"; done
}
learners_of() { pgrep -P "$1" | while read -r p; do grep -q '^muster:l' "/proc/$p/comm" && echo "$p"; done; }
step_of() { # OUT: of the newest checkpoint
    jq .step "$(ls -d "$1"/checkpoints/step-* | sort -V | tail -n 1)/manifest.json"
}

refused() { # refused CODE WORDS words of mpirun...: every rank ends, and says why
    local want=$1 words=$2
    shift 2
    timeout -k 5 60 "${mpi[@]}" -n "$@" >no.out 2>&1
    local code=$?
    [ $code = "$want" ] || bad "$words: exit $code, $(head -n 5 no.out)"
    grep -qF -- "$words" no.out || bad "$words: $(head -n 8 no.out)"
    rm -rf no
}
