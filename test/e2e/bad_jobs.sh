#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bad_jobs.sh - golden diagnostics: `muster check` over test/job/good and test/job/bad.
#
# The first lines of a bad job say what must come out of one check, exit code 3:
#     # expect: LINE:COL words of the message
#     # suggest: words of the label or hint of the problem above        (optional)
# One mistake should give one message: jobs with further errors are named and counted, too.
# Passes when every good job is accepted, every place is right and at least 45 jobs get the right
# suggestion; STRICT=0 lets a bad job have further errors. MUSTER names the program; without one the test is skipped.
set -u
cd "$(dirname "$0")/../job" || exit 1
MUSTER=${MUSTER:-../../build/muster}
[ -x "$MUSTER" ] || { echo "skipped: no program at $MUSTER"; exit 77; }
export NO_COLOR=1

# block FILE LINE:COL: the lines of the problem at that place, read from stdin
block() {
    awk -v head="$1:$2: error: " '
        index($0, head) == 1 { on = 1; print; next }
        / (error|warning): / { on = 0 }
        on { print }'
}

good=0 n_good=0
for f in good/*.yaml; do
    n_good=$((n_good + 1))
    if out=$("$MUSTER" check "$f" 2>&1); then good=$((good + 1))
    else echo "FAIL $f: refused (exit $?)"; printf '%s\n' "$out"; fi
done

placed=0 single=0 suggested=0 n_suggest=0 n_bad=0
for f in bad/*.yaml; do
    n_bad=$((n_bad + 1))
    out=$("$MUSTER" check "$f" 2>&1)
    rc=$?
    why=
    lacks=
    wants=0
    n_expect=0
    part=
    [ $rc -eq 3 ] || why="exit $rc, want 3; "
    while IFS= read -r line; do
        case $line in
        '# expect: '*)
            rest=${line#'# expect: '}
            place=${rest%% *} words=${rest#"$place"}
            words=${words# }
            n_expect=$((n_expect + 1))
            part=$(printf '%s\n' "$out" | block "$f" "$place")
            if [ -z "$part" ]; then why+="nothing at $place; "
            elif [[ $part != *"$words"* ]]; then why+="at $place no \"$words\"; "; fi ;;
        '# suggest: '*)
            wants=1
            words=${line#'# suggest: '}
            # below the message and the source line: the label stands right of the carets
            help=$(printf '%s\n' "$part" | grep -E '^ +\| +\^|^hint: |^  [^ 0-9|]')
            [[ $help == *"$words"* ]] || lacks+="no \"$words\"; " ;;
        '#'*) ;;
        *) break ;;
        esac
    done <"$f"
    n_errors=$(printf '%s\n' "$out" | grep -cE '^([^ ]+: )?error: ')
    [ -z "$why" ] && placed=$((placed + 1))
    if [ "$n_errors" -eq "$n_expect" ]; then single=$((single + 1))
    else lacks+="$n_errors errors, want $n_expect; "; fi
    n_suggest=$((n_suggest + wants))
    [ $wants -eq 1 ] && [[ $lacks != *no\ \"* ]] && suggested=$((suggested + 1))
    if [ -n "$why$lacks" ]; then
        echo "${why:+FAIL }$f: $why$lacks"
        printf '%s\n' "$out" | sed 's/^/    /'
    fi
done
echo "good jobs: $good of $n_good accepted; bad jobs: $placed of $n_bad at the right place," \
     "$suggested of $n_suggest with the right suggestion, $single without further errors"
[ $good -eq $n_good ] && [ $placed -eq $n_bad ] && [ $suggested -ge 45 ] \
    && { [ "${STRICT:-1}" != 1 ] || [ $single -eq $n_bad ]; }
