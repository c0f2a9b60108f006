#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make install` leaves is enough: a program compiles and runs with pkg-config alone, the manual
# page formats without a warning, the completions are valid. Nothing is rebuilt.
set -euo pipefail
: "${BUILD:=build}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { printf 'install: %s\n' "$*" >&2; exit 1; }

# A sanitizer's library needs the sanitizer's flags in whoever links it; pkg-config does not hand those out.
sanitize=$(sed -n 's/^MUSTER_SANITIZE:STRING=//p' "$BUILD/CMakeCache.txt")
cc=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$BUILD/CMakeCache.txt")

cmake --build "$BUILD" --target shell_files >/dev/null
DESTDIR='' cmake --install "$BUILD" --prefix "$dir/usr" >/dev/null
pc=$(find "$dir/usr" -name muster.pc)
lib=$(find "$dir/usr" -name libmuster.a)
man=$dir/usr/share/man/man1/muster.1
bash_file=$dir/usr/share/bash-completion/completions/muster
zsh_file=$dir/usr/share/zsh/site-functions/_muster
for f in "$dir/usr/bin/muster" "$dir/usr/include/muster/muster.h" "$pc" "$lib" "$man" "$bash_file" "$zsh_file"; do
    [ -s "$f" ] || fail "missing or empty: ${f#"$dir"}"
done
if [ -e "$BUILD/libmuster-mpi.so" ]; then # the program finds it from its own folder: ../lib/.../muster
    [ -s "${lib%/*}/muster/libmuster-mpi.so" ] || fail "the module for MPI was not installed"
    if [ -x "$BUILD/test_comm_transport" ]; then
        cp "$BUILD/test_comm_transport" "$dir/usr/bin/finder"
        found=0
        "$dir/usr/bin/finder" find || found=$?
        [ $found = 3 ] || fail "an installed program does not find the module for MPI: $found"
        rm "$dir/usr/bin/finder"
    fi
    if ldd "$dir/usr/bin/muster" | grep -q libmpi; then fail "the program links MPI"; fi
fi
[ "$(find "$dir/usr/include" -type f | wc -l)" = 1 ] || fail "more than one header was installed"

cat > "$dir/prog.c" <<'C'
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

static const char job_text[] =
    "name: inside\n"
    "data:\n"
    "  train: {reader: synthetic, shape: [12], classes: 3, records: 300, scale: 0.01}\n"
    "  test: {reader: synthetic, shape: [12], classes: 3, records: 90, scale: 0.01}\n"
    "net:\n"
    "- {name: hidden, type: inner_product, src: data.features, outputs: 16}\n"
    "- {name: act, type: tanh}\n"
    "- {name: scores, type: inner_product, outputs: 3}\n"
    "- {name: loss, type: softmax_loss, src: [scores, data.label]}\n"
    "train: {batch: 20, epochs: 8}\n"
    "updater: {type: sgd, momentum: 0.9, rate: 0.05}\n";

static int report(const muster_error *e) {
    fprintf(stderr, "%s:%d:%d: %s. %s\n", e->path, e->line, e->column, e->message, e->hint);
    return e->status;
}

int main(int argc, char **argv) {
    muster_error e;
    muster_job *job;
    muster_run *run;
    muster_result r;
    float x[12] = {0}, y[3];
    if (muster_job_parse("inside.yaml", job_text, strlen(job_text),
                         (const char *const *)(argv + 1), (size_t)argc - 1, &job, &e)) return report(&e);
    if (muster_run_create(job, NULL, &run, &e)) return report(&e);
    if (muster_run_train(run, NULL, NULL, &r, &e)) return report(&e);
    if (muster_run_predict(run, x, 1, NULL, y, &e)) return report(&e);
    printf("muster %s: accuracy %.3f, scores %g %g %g\n", muster_version(), r.test_accuracy, y[0], y[1], y[2]);
    muster_run_destroy(run);
    muster_job_destroy(job);
    return r.test_accuracy > 0.8 ? 0 : 1;
}
C
export PKG_CONFIG_PATH=${pc%/*}
[ "$(pkg-config --modversion muster)" = "$("$dir/usr/bin/muster" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1)" ] ||
    fail "muster.pc and the program disagree on the version"
# shellcheck disable=SC2046
"${cc:-cc}" ${sanitize:+-fsanitize=$sanitize} -std=c99 -Wall -Wextra -Werror -o "$dir/prog" "$dir/prog.c" \
    $(pkg-config --cflags --libs muster)
(cd "$dir" && mkdir empty && cd empty && ../prog > ../out 2> ../err) || fail "the program failed: $(cat "$dir/out" "$dir/err")"
cat "$dir/out"
[ ! -s "$dir/err" ] || fail "the library printed: $(cat "$dir/err")"
# With learners the library needs the installed program, and finds it in PATH.
(cd "$dir/empty" && PATH=$dir/usr/bin:$PATH ../prog cluster.learners=2 > ../out 2> ../err) ||
    fail "the program failed with learners: $(cat "$dir/out" "$dir/err")"
[ ! -s "$dir/err" ] || fail "the library printed: $(cat "$dir/err")"
[ -z "$(ls -A "$dir/empty")" ] || fail "a run without a folder wrote $(ls -A "$dir/empty")"

# Of the library's symbols only the interface is visible to a shared object that links it.
public=$(readelf -sW "$lib" | awk '$5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND" {print $8}' | sort -u)
printf '%s\n' "$public" | grep -v '^muster_' | grep -vE '^(__asan|__odr_asan|__tsan|__sancov)' &&
    fail "symbols besides muster_* are public"
for name in $(grep -oE '\bmuster_[a-z_]+\(' "$dir/usr/include/muster/muster.h" | tr -d '(' | sort -u); do
    grep -qx "$name" <<< "$public" || fail "$name is declared but not in the library"
done

for f in src/cli/c_*.c; do
    verb=$(basename "$f" .c)
    for shell in "$man" "$bash_file" "$zsh_file"; do
        grep -qw -- "${verb#c_}" "$shell" || fail "${shell##*/} does not know \`muster ${verb#c_}\`"
    done
done
bash -n "$bash_file" || fail "the bash completion does not parse"
if command -v zsh >/dev/null; then zsh -n "$zsh_file" || fail "the zsh completion does not parse"; fi
if command -v man >/dev/null && man --version >/dev/null 2>&1; then
    MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l "$man" > "$dir/page" 2> "$dir/err" || fail "man fails: $(cat "$dir/err")"
    [ ! -s "$dir/err" ] || fail "the manual page has warnings: $(cat "$dir/err")"
    grep -q 'SYNOPSIS' "$dir/page" || fail "the manual page has no synopsis"
else
    echo "man is not here: formatting of the manual page not tested"
fi
echo "install: ok"
