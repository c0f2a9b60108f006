#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# muster tradeoff: every cell becomes a row, failed ones with their reason; Ctrl-C keeps what was measured and
# the same command goes on; wrong words are refused before anything is trained.
set -uo pipefail
: "${MUSTER:?path of the program}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
wrong=0
bad() { echo "FAILED: $*"; wrong=$((wrong + 1)); }
has() { grep -qF -- "$2" "$1" || bad "$1 has no \`$2\`: $(tail -n 5 "$1")"; }
number() { grep -o "\"$1\":-\?[0-9.]*" out | head -n 1 | cut -d: -f2; }
rows() { tail -n +2 "$1/tradeoff.csv" | wc -l; }

cat >job.yaml <<'YAML'
name: grid
data:
  train: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 512, scale: 0.004}
  test: {reader: synthetic, shape: [1, 8, 8], classes: 4, records: 64, scale: 0.004}
net:
  - {name: ip1, type: inner_product, src: data.image, outputs: 16}
  - {name: relu1, type: relu}
  - {name: ip2, type: inner_product, outputs: 4}
  - {name: loss, type: softmax_loss, src: [ip2, data.label]}
train: {batch: 16, epochs: 1}
updater: {type: sgd, momentum: 0.9, rate: 0.05}
YAML
tradeoff() { "$MUSTER" tradeoff job.yaml "$@" >out 2>err; }

# A grid with a cell that cannot be: 2 updates a step need 2 learners.
tradeoff --protocols hardsync,softsync:2 --batches 4,8 --learners 1,2 --json ||
    bad "ended with $?: $(tail -n 3 err)"
[ "$(rows tradeoff-grid)" = 8 ] || bad "$(rows tradeoff-grid) rows, not 8"
[ "$(number trained)" = 8 ] && [ "$(number failed)" = 2 ] || bad "counts: $(head -c 300 out)"
has out '"complete":true'
has err 'softsync with n 2 needs at least 2 learners'
grep -qE '^hardsync,8,2,16,1,1,[0-9.e-]+,[0-9.e+]+,[0-9.e-]+,[0-9.e-]+,0,0,[0-9.]+,ok$' tradeoff-grid/tradeoff.csv ||
    bad "no such row of hardsync: $(cat tradeoff-grid/tradeoff.csv)"
has tradeoff-grid/tradeoff.csv '"failed: softsync with n 2 needs'
for text in '<svg' '</svg>' '(8, 2)' '>softsync:2</text>' 'stroke-dasharray'; do
    has tradeoff-grid/tradeoff.svg "$text"
done
[ -s tradeoff-grid/runs/hardsync-mu8-lambda2-seed1/metrics.jsonl ] || bad "no curve is kept"
[ -z "$(find tradeoff-grid -name '*.safetensors')" ] || bad "weights are kept"

# The same again trains only what failed; more words extend the table; --again trains all.
tradeoff --protocols hardsync,softsync:2 --batches 4,8 --learners 1,2 --json --quiet
[ "$(number trained)" = 2 ] || bad "$(number trained) trained again, not the 2 that failed"
tradeoff --protocols hardsync --batches 4,8,8 --learners 1 --repeat 2 --json --quiet
[ "$(number trained)" = 2 ] && [ "$(rows tradeoff-grid)" = 10 ] || bad "not extended by 2 seeds: $(number trained)"
tradeoff --protocols hardsync --batches 4 --learners 1 --again --keep --json --quiet
[ "$(number trained)" = 1 ] && [ "$(rows tradeoff-grid)" = 10 ] || bad "--again: $(number trained)"
[ -s tradeoff-grid/runs/hardsync-mu4-lambda1-seed1/model.safetensors ] || bad "--keep kept no model"

# Divergence is a result, not a failure to try again.
tradeoff --protocols hardsync --batches 4 --learners 1,2 --out div --set updater.rate=1e30 --json --quiet
[ $? = 1 ] || bad "no cell ended well, but the command did"
has err 'no training of 2 ended well'
has div/tradeoff.csv 'diverged: '
has div/tradeoff.svg 'no data'

# A training that takes too long is ended and said so.
tradeoff --protocols async --batches 1 --learners 2 --out slow --epochs 100k --limit 1s --quiet
has slow/tradeoff.csv 'failed: still training after 1 s'

# Ctrl-C while the second cell trains: the training ends, the first row stays and is drawn.
"$MUSTER" tradeoff job.yaml --protocols hardsync --batches 64,1 --learners 2 --epochs 500 --out cut >out 2>err &
pid=$!
for _ in $(seq 300); do [ -e cut/runs/hardsync-mu1-lambda2-seed1/metrics.jsonl ] && break; sleep 0.1; done
children=$(pgrep -P $pid)
[ -n "$children" ] || bad "nothing is training"
kill -INT $pid
wait $pid
[ $? = 130 ] || bad "ended with another status than 130: $(cat err)"
for c in $children; do [ ! -d "/proc/$c" ] || bad "process $c is still there"; done
[ "$(rows cut)" = 1 ] || bad "$(rows cut) rows after Ctrl-C, not 1"
has cut/tradeoff.svg '(64, 2)'
has err 'the same command goes on'
tradeoff --protocols hardsync --batches 64 --learners 2 --epochs 500 --out cut --json --quiet
[ "$(number trained)" = 0 ] || bad "what was measured is trained again"

# Server groups, in a job that says `groups`: cells have other numbers of learners, and what cannot be is left out.
groups='--set cluster.groups=4 --set cluster.server_groups=2 --set cluster.sync_every=5'
# shellcheck disable=SC2086
tradeoff $groups --protocols hardsync,mirror --batches 4 --learners 1,2,3,4 --out sg --json ||
    bad "server groups: ended with $?: $(tail -n 3 err)"
has err 'left out, as 2 server groups cannot have them: mirror, 1 learner, 3 learners'
[ "$(grep -c 'left out' err)" = 1 ] || bad "not one line: $(cat err)"
[ "$(number trained)" = 2 ] && [ "$(number failed)" = 0 ] || bad "server groups: $(head -c 300 out) $(cat sg/tradeoff.csv)"
[ "$(cut -d, -f2,3,14 sg/tradeoff.csv | tail -n 2 | sort | tr '\n' ' ')" = '4,2,ok 4,4,ok ' ] ||
    bad "server groups: $(cat sg/tradeoff.csv)"
has sg/runs/hardsync-mu4-lambda4-seed1/metrics.jsonl '"server_groups"'
# shellcheck disable=SC2086
tradeoff $groups --protocols hardsync --batches 4 --out sg-all --json || bad "usual learners: $(tail -n 3 err)"
head -n 2 sg-all/tradeoff.csv | tail -n 1 | grep -q '^hardsync,4,2,8,1,.*,ok$' || bad "usual learners: $(cat sg-all/tradeoff.csv)"
if grep -q 'left out' err; then bad "usual learners: $(cat err)"; fi
# shellcheck disable=SC2086
tradeoff $groups --protocols async --batches 4 --learners 1,3 --out never
[ $? = 2 ] || bad "nothing is left, but it went on"
has err 'nothing is left: 2 server groups cannot have 1 learner, 3 learners'
[ ! -e never ] || bad "nothing is left, but a folder is"
tradeoff --set cluster.groups=2 --protocols hardsync --batches 4 --learners 1,2 --out named --json || bad "groups: $(tail -n 3 err)"
[ "$(number failed)" = 0 ] || bad "groups: $(cat named/tradeoff.csv)"

# Refused before anything is trained.
refused() { # refused STATUS TEXT WORDS...
    local status=$1 text=$2
    shift 2
    tradeoff --out never "$@"
    [ $? = "$status" ] || bad "tradeoff $* should end with $status"
    has err "$text"
    [ ! -e never ] || bad "tradeoff $* left a folder"
}
refused 2 'Did you mean `hardsync`?' --protocols async,hardsyc
refused 2 'The protocols are async, ' --protocols 17
refused 2 '`hardsync` takes no number' --protocols hardsync:2
refused 2 '`x` in `ssp:x` is no whole number' --protocols ssp:x
refused 2 '`--batches` has `0`' --batches 4,0
refused 2 '`--learners` has `two`' --learners 1,two
refused 2 '`--batches` is empty' --batches ,
refused 2 '`--repeat` is 0' --repeat 0
refused 3 'out of range: 0' --protocols softsync:0
refused 3 'did you mean `train`?' --set trian.batch=3
refused 3 'needs at least 4 learners' --protocols softsync:4 --learners 1,2
tradeoff --epochs 2
[ $? = 2 ] || bad "a table of other settings was mixed"
has err 'is about another job'
echo broken >cut/tradeoff.csv
tradeoff --out cut --epochs 500
[ $? = 3 ] || bad "a broken table was taken"
has err 'cut/tradeoff.csv:1: not a row'

[ $wrong = 0 ] && echo ok
exit $((wrong > 0))
