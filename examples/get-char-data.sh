#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# get-char-data.sh - the texts of the char-rnn examples.
#
#   examples/get-char-data.sh [shakespeare|kernel]... [--into FOLDER]     default: both, into data
#
# shakespeare.txt   1,115,394 bytes of plays, from the repository of the original char-rnn (by curl)
# linux-kernel.txt  C files of the folder kernel/ of Linux 6.1, from Debian's package linux-source-6.1 (apt-get
#                   or a .deb named by LINUX_SOURCE_DEB), mixed by the md5 of their names, ASCII only, the first
#                   6,200,000 bytes. GPL-2.0: a text to learn from, not a part of this program.
# Running it again is free.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$here/../data
want=
die() { echo "get-char-data: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
    case $1 in
    shakespeare | kernel) want="$want $1" ;;
    --into) [ $# -gt 1 ] || die "--into needs a folder"; out=$2; shift ;;
    *) die "unknown word '$1'; there are shakespeare, kernel and --into FOLDER" ;;
    esac
    shift
done
mkdir -p "$out" || die "cannot create $out"
out=$(CDPATH='' cd -- "$out" && pwd)
work=$(mktemp -d "$out/.download-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

get_shakespeare() {
    url=https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt
    curl -fsSL -o "$work/text" "$url" || die "cannot fetch $url"
    [ "$(wc -c <"$work/text")" -eq 1115394 ] || die "$url is not the text that was expected"
    mv "$work/text" "$out/shakespeare.txt"
}

get_kernel() {
    deb=${LINUX_SOURCE_DEB:-}
    if [ -z "$deb" ]; then
        echo "downloading linux-source-6.1 (about 130 MB) ..."
        (cd "$work" && apt-get download -q linux-source-6.1 >/dev/null) ||
            die "apt-get cannot fetch linux-source-6.1; name a .deb by LINUX_SOURCE_DEB"
        deb=$(echo "$work"/linux-source-6.1_*.deb)
    fi
    dpkg-deb -x "$deb" "$work/deb" || die "$deb is no Debian package"
    tar -xJf "$work"/deb/usr/src/linux-source-6.1.tar.xz -C "$work" linux-source-6.1/kernel ||
        die "the package holds no linux-source-6.1.tar.xz with a folder kernel"
    cd "$work/linux-source-6.1"
    find kernel -name '*.[ch]' | while read -r f; do
        printf '%s %s\n' "$(printf %s "$f" | md5sum | cut -c 1-32)" "$f"
    done | LC_ALL=C sort | cut -d ' ' -f 2 | xargs cat | LC_ALL=C tr -cd '\11\12\40-\176' |
        head -c 6200000 >"$work/text"
    [ "$(wc -c <"$work/text")" -eq 6200000 ] || die "there is less source than expected"
    mv "$work/text" "$out/linux-kernel.txt"
    cd "$out"
}

for what in ${want:-shakespeare kernel}; do
    file=$out/shakespeare.txt
    [ "$what" = shakespeare ] || file=$out/linux-kernel.txt
    [ -s "$file" ] || "get_$what"
    echo "$file: $(wc -c <"$file") bytes"
done
