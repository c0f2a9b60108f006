#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# build-in-chroot.sh - builds the tree and runs its tests on another release of Debian or Ubuntu, or for another
# architecture.
#
#     test/distro/build-in-chroot.sh <suite> [folder] [ctest pattern]
#     e.g. test/distro/build-in-chroot.sh trixie                  (oneDNN 3, gcc 14)
#          test/distro/build-in-chroot.sh noble                   (Ubuntu 24.04)
#          ARCH=arm64 test/distro/build-in-chroot.sh bookworm     (cross-built; conformance tests in qemu-user)
#
# The system is made once by debootstrap in the folder (default: muster-<suite>[-<arch>] in $TMPDIR or /tmp) and
# reused. With ARCH the compiler and the tools are those of this machine, the libraries are Debian's of ARCH.
# Needs root, debootstrap and the network; MIRROR=url replaces debootstrap's own choice. The sources
# are copied in, so nothing is written to the tree.
# Ends with the exit code of ctest; 77 (skipped) when it cannot even begin.
set -euo pipefail

suite=${1:?usage: build-in-chroot.sh <suite> [folder] [ctest pattern]}
arch=${ARCH:-}
root=${2:-${TMPDIR:-/tmp}/muster-$suite${arch:+-$arch}}
# What an emulator can tell: does it compute the right numbers? Not: how several processes get along.
pattern=${3:-${arch:+^(conform_|test_ops_|test_updater_|test_base|test_net_torch|test_layer_)}}
pattern=${pattern:-.}
here=$(cd "$(dirname "$0")/../.." && pwd)

skip() { echo "skipped: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root for debootstrap and chroot"
command -v debootstrap >/dev/null || skip "debootstrap is not installed (apt-get install debootstrap)"

# The rules are those of the distribution: an older debootstrap does not know the newest suites by name.
case $suite in
jammy | noble) rules=gutsy components=main,universe ;;
*) rules=sid components=main ;;
esac
libraries=(libyaml-dev libjansson-dev libxxhash-dev zlib1g-dev libpng-dev libturbojpeg0-dev libcsv-dev libopenblas-dev
           liblzma-dev libzstd-dev libdnnl-dev libcmocka-dev)
case $arch in
'') tools=(gcc libc6-dev) triplet= ;;
arm64) tools=(gcc-aarch64-linux-gnu libc6-dev:arm64 qemu-user) triplet=aarch64-linux-gnu ;;
*) skip "ARCH=$arch: only arm64 is known" ;;
esac
packages=("${tools[@]}" ninja-build cmake pkg-config "${libraries[@]/%/${arch:+:$arch}}")

if [ ! -e "$root/.muster-ready" ]; then
    key=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    check=()
    [ $rules = sid ] || [ -e "$key" ] || check=(--no-check-gpg)
    debootstrap "${check[@]}" --variant=minbase --components="$components" "$suite" "$root" "${MIRROR:-}" $rules
    [ -z "$arch" ] || chroot "$root" dpkg --add-architecture "$arch"
    chroot "$root" apt-get update -qq
    for p in "${packages[@]}"; do # one by one: a release may lack an optional one
        DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -y -qq --no-install-recommends "$p" >/dev/null ||
            echo "note: $suite has no $p" >&2
    done
    touch "$root/.muster-ready"
fi

rm -rf "$root/src/muster"
mkdir -p "$root/src/muster"
git -C "$here" ls-files -z --cached --others --exclude-standard | tar -C "$here" --null -T - -cf - | tar -C "$root/src/muster" -xf -

mounted=()
cleanup() { for m in "${mounted[@]}"; do umount "$m"; done; }
trap cleanup EXIT
mount -t proc proc "$root/proc" && mounted+=("$root/proc")
mount --bind /dev "$root/dev" && mounted+=("$root/dev")

# Nothing of the caller's environment: a compiler or a cache named there is not in the other system.
chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 bash -euc '
    cd /src/muster
    cross=()
    if [ -n "$2" ]; then
        cross=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="${2%%-*}" -DCMAKE_C_COMPILER="$2-gcc"
               -DCMAKE_CROSSCOMPILING_EMULATOR="qemu-${2%%-*}")
        export PKG_CONFIG_LIBDIR="/usr/lib/$2/pkgconfig:/usr/share/pkgconfig"
    fi
    "${2:+$2-}gcc" --version | head -1
    dpkg-query -W -f "\${Package} \${Architecture} \${Version}\n" libdnnl-dev libopenblas-dev 2>/dev/null || true
    cmake -G Ninja -B build -DMUSTER_WERROR=ON "${cross[@]}" >/dev/null
    ninja -C build -j"$(nproc)"
    ctest --test-dir build --output-on-failure -R "$1"
' build "$pattern" "$triplet"
