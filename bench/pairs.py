# SPDX-License-Identifier: Apache-2.0
"""Two builds of Muster against each other on the rows of make bench, one thread, in turns on the same core.

    python3 bench/pairs.py build-native/muster build/muster
    MUSTER_CPU=v3 python3 bench/pairs.py build-old/muster build/muster --only mlp

A pair is one fresh process of each, the order changes from pair to pair. A row's figure is the median over the
pairs of (time of a step of the second) / (of the first): above 1 the second is slower. Rows above --limit are marked,
and make the exit status 1.
"""
import argparse
import statistics
import sys

from run import ROWS, ask_muster


def ratio_of(a, name, batch, turn):
    seconds = a.seconds * (4 if name == "alexnet" else 1)
    order = [a.first, a.second] if turn % 2 == 0 else [a.second, a.first]
    ms = {m: ask_muster(m, a.core, name, batch, seconds)["step_ms"] for m in order}
    return ms[a.second] / ms[a.first]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("first")
    p.add_argument("second")
    p.add_argument("--pairs", type=int, default=15)
    p.add_argument("--seconds", type=float, default=1.0, help="per process")
    p.add_argument("--core", type=int, default=-1, help="core to pin to, -1 = none")
    p.add_argument("--only", default="", help="rows whose name begins so, e.g. mlp")
    p.add_argument("--limit", type=float, default=1.03)
    a = p.parse_args()
    if a.first == a.second:
        sys.exit("pairs.py: name two different programs")
    print(f"{'workload':13} {'batch':>5} {'second/first':>12} {'quartiles':>15}   {a.pairs} pairs")
    slow = 0
    for name, batch, _ in ROWS:
        if not name.startswith(a.only):
            continue
        r = sorted(ratio_of(a, name, batch, turn) for turn in range(a.pairs))
        median, low, high = statistics.median(r), r[len(r) // 4], r[-1 - len(r) // 4]
        slow += median > a.limit
        print(f"{name:13} {batch:5} {median:12.3f} {low:7.3f}-{high:<7.3f} {'SLOWER' if median > a.limit else ''}", flush=True)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
