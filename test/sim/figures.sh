#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# figures.sh <muster-sim> - the same seed gives the same events, of one level and of two; and the staleness of
# 1000 learners is what the protocols promise: hardsync 0; n-softsync a mean near n and never more than 2n; async
# near the learners.
set -euo pipefail
sim=$1
status=0
bad() { echo "figures.sh: $*"; status=1; }

once=$("$sim" --seeds 50 --hash)
again=$("$sim" --seeds 50 --hash)
[ "$once" = "$again" ] || bad "a seed gave two histories"
[ "$(sort -u -k4 <<<"$once" | wc -l)" = 50 ] || bad "different seeds gave the same history"
cmp -s <("$sim" --seed 7 --trace) <("$sim" --seed 7 --trace) || bad "a seed gave two traces"
[ "$("$sim" --seeds 4 --first 1 --hash --jobs 2 | sort)" = "$(head -n 4 <<<"$once" | sort)" ] ||
    bad "the number of jobs changed a history"
[ "$("$sim" --ranks --seeds 20 --hash)" = "$("$sim" --ranks --seeds 20 --hash --jobs 2 | sort -k2n)" ] ||
    bad "a seed gave two histories over ranks"

# figure "options" MEAN_LOW MEAN_HIGH MAX
figure() {
    local line mean max
    # shellcheck disable=SC2086
    line=$("$sim" --stats --learners 1000 --events 300000 --protocol $1 | sed -n 1p)
    echo "$line"
    mean=$(sed 's/.*mean \([0-9.]*\).*/\1/' <<<"$line")
    max=$(sed 's/.*max \([0-9]*\).*/\1/' <<<"$line")
    awk -v m="$mean" -v lo="$2" -v hi="$3" 'BEGIN { exit !(m >= lo && m <= hi) }' ||
        bad "mean $mean, not $2 to $3"
    [ "$max" -le "$4" ] || bad "max $max, more than $4"
}
figure hardsync 0 0 0
figure 'softsync --bound 0 --splits 1' 0.7 1.3 2
figure 'softsync --bound 0 --splits 10' 8 12 20
figure 'softsync --bound 0 --splits 30' 24 36 60
figure 'async --bound 0' 800 1200 2000
exit $status
