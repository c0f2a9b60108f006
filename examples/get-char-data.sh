#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# get-char-data.sh - the texts of the char-rnn examples.
#
#   examples/get-char-data.sh [shakespeare|kernel|perl]... [--into FOLDER]    default: the first two, into data
#
# shakespeare.txt   1,115,394 bytes of plays, from the repository of the original char-rnn (by curl)
# linux-kernel.txt  C files of the folder kernel/ of Linux 6.1, from Debian's package linux-source-6.1 (apt-get
#                   or a .deb named by LINUX_SOURCE_DEB), mixed by the md5 of their names, ASCII only, the first
#                   6,200,000 bytes. GPL-2.0: a text to learn from, not a part of this program.
# perl-doc.txt      manuals of Perl from Debian's package perl-doc (apt-get or PERL_DOC_DEB), mixed the same way
# Running it again is free.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$here/../data
want=
die() { echo "get-char-data: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
    case $1 in
    shakespeare | kernel | perl) want="$want $1" ;;
    --into) [ $# -gt 1 ] || die "--into needs a folder"; out=$2; shift ;;
    *) die "unknown word '$1'; there are shakespeare, kernel, perl and --into FOLDER" ;;
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

# unpack PACKAGE DEB VARIABLE: into $work/deb; without DEB it is fetched
unpack() {
    deb=$2
    if [ -z "$deb" ]; then
        echo "downloading $1 ..."
        (cd "$work" && apt-get download -q "$1" >/dev/null) ||
            die "apt-get cannot fetch $1; name a .deb by $3"
        deb=$(echo "$work/$1"_*.deb)
    fi
    rm -rf "$work/deb"
    dpkg-deb -x "$deb" "$work/deb" || die "$deb is no Debian package"
}

# mix FOLDER -name PATTERN: the text of these files in the order of the md5 of their names
mix() {
    find "$@" | while read -r f; do
        printf '%s %s\n' "$(printf %s "$f" | md5sum | cut -c 1-32)" "$f"
    done | LC_ALL=C sort | cut -d ' ' -f 2 | xargs cat | LC_ALL=C tr -cd '\11\12\40-\176' >"$work/all"
    head -c 6200000 "$work/all" >"$work/text"
    [ "$(wc -c <"$work/text")" -eq 6200000 ] || die "there is less text than expected"
}

get_kernel() {
    unpack linux-source-6.1 "${LINUX_SOURCE_DEB:-}" LINUX_SOURCE_DEB        # about 130 MB
    tar -xJf "$work"/deb/usr/src/linux-source-6.1.tar.xz -C "$work" linux-source-6.1/kernel ||
        die "the package holds no linux-source-6.1.tar.xz with a folder kernel"
    cd "$work/linux-source-6.1"
    mix kernel -name '*.[ch]'
    mv "$work/text" "$out/linux-kernel.txt"
    cd "$out"
}

get_perl() {
    unpack perl-doc "${PERL_DOC_DEB:-}" PERL_DOC_DEB
    cd "$work"/deb/usr/share/perl/5.*/pod || die "the package holds no folder of manuals"
    mix . -name '*.pod'
    mv "$work/text" "$out/perl-doc.txt"
    cd "$out"
}

for what in ${want:-shakespeare kernel}; do
    case $what in
    kernel) file=$out/linux-kernel.txt ;;
    perl) file=$out/perl-doc.txt ;;
    *) file=$out/shakespeare.txt ;;
    esac
    [ -s "$file" ] || "get_$what"
    echo "$file: $(wc -c <"$file") bytes"
done
