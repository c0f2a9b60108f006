#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check-writes.sh [FOLDER] - calls that change the disk go through the table of file/fs.h: `mu_fs()->open(...)`.
#
# So a test can let any of them fail. Exempt are the table itself, files in memory (comm/region.c,
# file/memfile.c, and the simulator's), and writing to the log and the terminal (base/log.c, cli/progress.c). Others are printed as file:line.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
files=$(find src -name '*.[ch]' ! -path src/file/fs.c ! -path src/comm/region.c ! -path src/file/memfile.c ! -path src/base/log.c \
    ! -path src/cli/progress.c ! -path src/simulate/machine.c ! -path src/simulate/memory.c | LC_ALL=C sort)
awk '
{ code = $0; sub(/\/\/.*/, "", code) }
code ~ /(^|[^A-Za-z0-9_>.*])(p?write|fsync|fdatasync|f?truncate|rename|mkdir|unlink|rmdir|remove|link|symlink|creat|mkstemp|mkdtemp|tmpfile)\(/ ||
code ~ /(^|[^A-Za-z0-9_>.*])(fopen|fdopen|freopen)\([^"]*"[wa]/ ||
code ~ /(^|[^A-Za-z0-9_>.*])(open|openat)\(.*O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)/ {
    printf "%s:%d: not through mu_fs():%s\n", FILENAME, FNR, code
    wrong++
}
END { exit wrong > 0 }
' $files >&2
