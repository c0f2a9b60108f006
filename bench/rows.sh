# SPDX-License-Identifier: Apache-2.0
# rows.sh - runs as rows of a file, for scripts that compare many; they source it:
#
#   . "$(dirname "$0")/rows.sh" FILE            unless ROWS names another one
#
# Each run is a row of tab-separated values, added to the file when it has ended; a run that is in it is not made again.
# Leaves: $root the folder of the sources, $muster the program (MUSTER, build/muster), $rows the file.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
muster=$(realpath "${MUSTER:-$root/build/muster}")
rows=$(realpath "${ROWS:-$1}")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
touch "$rows"

# row RESULT JOB COLUMN... -- OPTION... - one run, if it is not there yet, for at most LIMIT seconds. Its columns: name
# of the job, those, then RESULT, which is Python: a list of texts of the run's JSON, `d`; or `diverged`, `failed`.
row() {
    local result=$1 job=$2 key got code=0
    key=$(basename "$job" .yaml)$'\t'
    shift 2
    while [ "$1" != -- ]; do
        key+=$1$'\t'
        shift
    done
    shift
    ! grep -qF -- "$key" "$rows" || return 0
    echo "$key" >&2
    rm -rf "$out/run"
    # shellcheck disable=SC2086
    timeout "${LIMIT:-0}" "$muster" train "$job" "$@" ${ARGS:-} --json --quiet --out "$out/run" \
        >"$out/json" 2>"$out/errors" || code=$?
    case $code in
    0) got=$(python3 -c 'import json, sys; d = json.load(sys.stdin); print("\t".join('"$result"'))' <"$out/json") ;;
    4) got=diverged ;;
    *) tail -n 3 "$out/errors" >&2; got=failed ;;
    esac
    printf '%s%s\n' "$key" "$got" | tee -a "$rows" >&2
}

# table FIELDS HEAD... - the rows in markdown on stdout. FIELDS is Python over the fields f of a row: the name of its
# line, the number of its column, what stands there, and perhaps a note, of which a cell has the last one. HEAD are those
# of the name, and the last one that of a column, such as `every %d`.
table() {
    python3 - "$rows" "$@" <<'PYTHON'
import sys
fields, heads, column = eval("lambda f: (" + sys.argv[2] + ")"), sys.argv[3:-1], sys.argv[-1]
lines, numbers, notes = {}, set(), {}
for row in open(sys.argv[1]):
    try: name, n, text, *note = fields(row.rstrip("\n").split("\t"))
    except IndexError: continue # torn by a kill
    numbers.add(int(n))
    lines.setdefault(name, {}).setdefault(int(n), []).append(text)
    if note: notes[name, int(n)] = " " + note[0]
head = heads + [column % n for n in sorted(numbers)]
print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
for name, cells in lines.items():
    line = [", ".join(cells.get(n, ["-"])) + notes.get((name, n), "") for n in sorted(numbers)]
    print("| " + " | ".join([*name] + line) + " |")
PYTHON
}
