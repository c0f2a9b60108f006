#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh [--target NAME] FOLDER JOBS [cmake arguments] - configures when needed and builds, quietly.
#
# CMake is run again only when its arguments changed; Ninja reruns it by itself when files come or go.
set -euo pipefail
cd "$(dirname "$0")/.."

target=all
if [ "$1" = --target ]; then target=$2; shift 2; fi
build=$1 jobs=$2
shift 2

stamp=$build/.configured
if [ ! -f "$build/build.ninja" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$*" ]; then
    mkdir -p "$build"
    if ! cmake -G Ninja -S . -B "$build" "$@" >"$build/configure.log" 2>&1; then
        cat "$build/configure.log" >&2
        exit 1
    fi
    grep -- '-- optional' "$build/configure.log" >&2 || true
    printf '%s' "$*" >"$stamp"
fi
# Ninja's own lines are for people only when something goes wrong.
exec env NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "$jobs" ${QUIET:+--quiet} "$target" >&2
