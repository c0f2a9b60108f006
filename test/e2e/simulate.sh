#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# muster-simulate: 8 ranks of each architecture end, twice with the same figures and with the staleness of their
# protocol; the bytes between 2 ranks are those of a real training; more ranks than greet each other end, too.
set -uo pipefail
. "$(dirname "$0")/help.sh"
sim=$(dirname "$MUSTER")/muster-simulate
[ -x "$sim" ] || { echo "skipped: built without SimGrid (libsimgrid-dev)"; exit 77; }
. "$root/test/e2e/mpi.sh"
set -f # adv* is no file

job net '{batch: 16, steps: 12}' '{type: sgd, momentum: 0.9, rate: 0.01}' <<'END'
  - {name: c1, type: convolution, src: data.image, filters: 40, kernel: 5, pad: 2}
  - {name: act, type: relu}
  - {name: norm, type: batch_norm}
  - {name: pool, type: pooling, kernel: 3, stride: 2}
  - {name: fc, type: inner_product, outputs: 300}
END
"$MUSTER" time net.yaml --seconds 0.2 --batch-size 2 --json >costs.json || bad "muster time"
jq '.layers |= map(.forward_ms = 1 | .backward_ms = 2) | .update_ms = 0.1 | .floor_bytes_ms = 0.1' costs.json >even.json
rack=$root/examples/platforms/rack-1g.xml

simulate() { # simulate OUT RANKS options...
    local out=$1 ranks=$2
    shift 2
    timeout -k 5 100 "$sim" net.yaml --costs even.json --platform "$rack" --ranks "$ranks" --batch-size 2 --json "$@" \
        >"$out.json" 2>"$out.err" || bad "$out: $(cat "$out.err")"
    jq -e '.gradients == .applied + .rejected + .lost and .step_s > 0 and .overlap > 0 and .overlap <= 1' \
        "$out.json" >/dev/null || bad "$out: $(cat "$out.json")"
}
way() { [ "$1" = joint ] || echo "--set cluster.architecture=$1"; }

# ---- 8 ranks: figures do not depend on this machine ----
for way in joint base adv 'adv*'; do
    out=even-${way/\*/s}
    # shellcheck disable=SC2046
    for again in a b; do simulate $out-$again 8 --protocol hardsync $(way "$way"); done
    cmp -s <(jq 'del(.wall_s)' $out-a.json) <(jq 'del(.wall_s)' $out-b.json) || bad "$out: two results"
    jq -e '.staleness.max == 0 and .steps == 12 and .versions == 12' $out-a.json >/dev/null ||
        bad "$out: $(cat $out-a.json)"
done

# ---- staleness: async on base counts learners, on adv groups; 1-softsync on adv* is at most 2 ----
law() { # law OUT LOW HIGH
    jq -e ".staleness.mean >= $2 and .staleness.mean <= $3" "$1.json" >/dev/null || bad "$1: $(jq -c .staleness "$1.json")"
}
long=(--protocol async --set cluster.warm_start='1 steps' --steps 40)
simulate async-base 4 "${long[@]}" --learners 8 --set cluster.architecture=base
simulate async-adv 4 "${long[@]}" --learners 8 --set cluster.architecture=adv
simulate soft-advs 4 "${long[@]}" --protocol softsync --learners 8 --set cluster.architecture='adv*'
law async-base 5 9
law async-adv 2 5
law soft-advs 0.5 2
jq -e '.staleness.max <= 2 and .overlap > 0.5' soft-advs.json >/dev/null || bad "adv*: $(cat soft-advs.json)"

# ---- bytes: those of a real training, but for its signs of life of 80 bytes ----
for way in joint base adv; do
    # shellcheck disable=SC2046
    {
        simulate bytes-$way 2 --learners 4 --protocol hardsync $(way $way)
        run_on 2 real-$way net.yaml --learners 4 --batch-size 2 --protocol hardsync $(way $way)
    }
    jq -es '.[0] as $s | .[1] | [.wire_bytes_sent - $s.wire_bytes_sent, .wire_bytes_received - $s.wire_bytes_received]
        | all(. >= 0 and . % 80 == 0 and . < 80 * 200)' bytes-$way.json real-$way.json >/dev/null ||
        bad "$way: $(jq -c '[.wire_bytes_sent, .wire_bytes_received]' bytes-$way.json real-$way.json)"
done

# ---- ranks that do not greet; what is refused ----
simulate many 40 --protocol hardsync --learners 40 --steps 2 --set cluster.architecture=adv
jq -e '.meets == false and .steps == 2' many.json >/dev/null || bad "40 ranks: $(cat many.json)"
no() { # no WORDS options...
    local words=$1
    shift
    timeout 60 "$sim" net.yaml --costs even.json --platform "$rack" --ranks 2 "$@" >no.out 2>&1 && bad "$words: accepted"
    grep -qF -- "$words" no.out || bad "$words: $(head -n 5 no.out)"
}
no 'cannot read the platform' --platform nowhere.xml
jq '.layers = []' even.json >none.json
no 'has not all layers' --costs none.json
no 'fewer than' --platform "$root/examples/platforms/rudra.xml" --ranks 31 --learners 31 --batch-size 1
no 'needs --costs' --ranks 1
finish
