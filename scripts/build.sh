#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh [--target NAME] FOLDER JOBS [cmake arguments] - configures and builds.
#
# CMake runs each time (a second): a library that was installed since the last time is found.
set -euo pipefail
cd "$(dirname "$0")/.."

target=all
if [ "$1" = --target ]; then target=$2; shift 2; fi
build=$1 jobs=$2
shift 2

mkdir -p "$build"
if ! cmake -G Ninja -S . -B "$build" "$@" >"$build/configure.log" 2>&1; then
    cat "$build/configure.log" >&2
    exit 1
fi
grep -- '-- optional' "$build/configure.log" >&2 || true
exec env NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "$jobs" ${QUIET:+--quiet} "$target" >&2
