#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `muster profile`: what it measures is in ranges that hold on any machine; the profile is kept and found; descriptions
# are begun, completed and refused; doctor knows of all that.
. "$(dirname "$0")/help.sh"
needs jq
export XDG_CACHE_HOME=$dir/cache HOME=$dir

doctor() { "$MUSTER" doctor --json 2>/dev/null | jq -r '.checks[] | select(.check == "profile") | .verdict + ": " + .text'; }
case $(doctor) in note:*"no profile of this machine"*) ;; *) bad "doctor without a profile: $(doctor)" ;; esac

# Measured. A loaded machine must not make it late: windows are counted.
begin=$(date +%s)
ends 60 quick "$MUSTER" profile --quick --json
echo "quick: $(($(date +%s) - begin)) s, $(jq -c '[.busy, .lines.round_trip_s, .wake_s, .event_s]' quick.json)"
jq -e '(.cores >= 1 and .nodes == 1 and (.made | test("^20")))
    and (.loads | length >= 1 and .[0].processes == 1 and (.[-1].processes))
    and all(.loads[]; .flops_per_s > 1e8 and .flops_per_s < 1e13 and .bytes_per_s > 1e7 and .bytes_per_s < 1e13)
    and .loads[-1].processes == .cores and .loads[0].bytes_per_s >= .loads[-1].bytes_per_s
    and (.lines.round_trip_s > 1e-9 and .lines.round_trip_s < 1e-3 and .lines.bytes_per_s > 1e7)
    and (.wake_s > 1e-7 and .wake_s < 1) and (.event_s > 1e-8 and .event_s < 1e-2) and (.busy >= 0 and .busy <= 1)
    and (.network == null)' quick.json >/dev/null || bad "numbers: $(cat quick.json)"
jq -e '(.rules | length >= 5) and all(.rules[]; .cached_bytes_per_s > 1e7 and .bytes_per_s > 1e7)' quick.json >/dev/null ||
    bad "rules: $(jq -c .rules quick.json)"
for r in adam sgd; do jq -e --arg r $r 'any(.rules[]; .name == $r)' quick.json >/dev/null || bad "no rule $r"; done
grep -q '^kept in' quick.err || bad "it does not say where it is kept: $(cat quick.err)"
kept=$(ls "$XDG_CACHE_HOME"/muster/machine-*.json) || bad "nothing is kept"
cmp -s "$kept" quick.json || bad "what is kept differs from what is printed"
case $(doctor) in *"GFLOP/s"*) ;; *) bad "doctor with a profile: $(doctor)" ;; esac
for p in $(pgrep -x muster:probe); do
    grep -qz "^XDG_CACHE_HOME=$dir/cache\$" "/proc/$p/environ" 2>/dev/null && bad "process $p is left"
done

# Elsewhere: the kept one stays as it is. A folder that cannot be written is found out.
before=$(sum "$kept")
ends 60 other "$MUSTER" profile --quick --quiet --out other.json
[ -s other.json.json ] && bad "--quiet printed"
jq -e '.cores >= 1' other.json >/dev/null || bad "--out: $(cat other.json)"
[ "$before" = "$(sum "$kept")" ] || bad "--out changed what is kept"
(unset XDG_CACHE_HOME HOME; "$MUSTER" profile --quick) >no.out 2>&1 && bad "no home, and it went well"
grep -q 'HOME is not set' no.out || bad "no home: $(cat no.out)"

# Broken: said with a place, and made anew.
cp "$kept" good.json
head -c 300 good.json >"$kept"
case $(doctor) in note:*) ;; *) bad "doctor with a broken profile: $(doctor)" ;; esac
ends 60 anew "$MUSTER" profile --quick --quiet && jq -e '.cores >= 1' "$kept" >/dev/null || bad "not made anew"

# What one rank does not measure stays known.
jq '.nodes = 3 | .network = {latency_s: 1e-5, bytes_per_s: 1e9, message_s: 1e-6, byte_s: 1e-10}' good.json >"$kept"
ends 60 again "$MUSTER" profile --quick --json && jq -e '.nodes == 3 and .network.latency_s == 1e-5' again.json >/dev/null ||
    bad "the network was forgotten: $(jq -c .network again.json)"

# Descriptions: begun, completed, read again as what they are; examples are complete ones.
"$MUSTER" profile --describe rack.yaml 2>err || bad "no description was begun: $(cat err)"
"$MUSTER" profile --describe rack.yaml >rack.json 2>err || bad "what was begun is none: $(cat err)"
"$MUSTER" profile --describe rack.json >again.json 2>err && cmp -s rack.json again.json || bad "complete is not complete: $(cat err)"
"$MUSTER" profile --describe rack.yaml --out done.json 2>err && cmp -s rack.json done.json || bad "--describe --out: $(cat err)"
for f in "$root"/examples/machines/*.yaml; do
    "$MUSTER" profile --describe "$f" >one.json 2>err || bad "$f: $(cat err)"
    jq -e '.made == null and .cores >= 1 and .loads[-1].processes == .cores' one.json >/dev/null || bad "$f: $(cat one.json)"
done
refused() { # CODE WORDS options...
    local want=$1 words=$2
    shift 2
    "$MUSTER" profile "$@" >out 2>err
    local code=$?
    [ $code = "$want" ] || bad "$*: exit $code, not $want: $(cat err)"
    grep -qF -- "$words" err || bad "$*: $(cat err)"
    [ ! -s out ] || bad "$*: printed $(head -n 3 out)"
}
printf 'cores: 4\nclock_gz: 2G\n' >typo.yaml
refused 3 'Did you mean' --describe typo.yaml
refused 3 'typo.yaml:2:1' --describe typo.yaml
grep -qi 'clock_hz' err || bad "no suggestion: $(cat err)"
printf 'cores: 4\nclock_hz: 2G\nnodes: 2\n' >net.yaml
refused 3 'without a network' --describe net.yaml
: >empty.yaml
refused 3 'describes no machine' --describe empty.yaml
refused 2 'lose its comments' --describe rack.yaml --out rack.yaml
refused 2 'measures nothing' --describe rack.yaml --quick
refused 6 'nothere.yaml' --describe nothere.yaml --out x.json
refused 1 'no/such/folder' --describe no/such/folder/rack.yaml
refused 2 "unexpected word" extra-word
finish
