# SPDX-License-Identifier: Apache-2.0
"""make bench: Muster against PyTorch on this machine, one thread each, in turns on the same core.

Each row runs ROUNDS rounds; in a round the peer and Muster are measured one after the other, and the
row's ratio is the median of the rounds' ratios (min and max are shown: these machines are noisy).
`floor` is the share of the larger of FLOPs / peak and weight bytes / bandwidth that Muster reaches.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
#        workload        batch  goal over torch
ROWS = [("mlp",           1,     3.5), ("mlp", 4, 2.0), ("mlp", 32, 1.4), ("mlp", 256, 1.1),
        ("lenet",         64,    1.8),
        ("cifar10_full",  4,     2.0), ("cifar10_full", 16, 2.0), ("cifar10_full", 100, 2.0), ("cifar10_full", 256, 2.0),
        ("alexnet",       16,    1.1),
        ("kim",           1,     4.0), ("kim", 4, 4.0), ("kim", 32, 3.3),
        ("charrnn",       50,    1.5),
        ("rbm",           100,   1.3)]


def pinned(command, core):
    return ["taskset", "-c", str(core)] + command if core >= 0 else command


def start_peer(core):
    env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_="2000000000",
               MALLOC_TRIM_THRESHOLD_="2000000000", MALLOC_TOP_PAD_="500000000")
    peer = subprocess.Popen(pinned([sys.executable, os.path.join(HERE, "peer_torch.py")], core), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True, env=env)
    hello = peer.stdout.readline()
    if not hello:
        sys.exit("run.py: PyTorch did not start; install python3-torch")
    return peer, json.loads(hello)["torch"]


def ask_peer(peer, name, batch, seconds):
    peer.stdin.write(f"{name} {batch} {seconds}\n")
    peer.stdin.flush()
    return json.loads(peer.stdout.readline())["samples_per_s"]


def ask_muster(muster, core, name, batch, seconds):
    out = subprocess.run(pinned([muster, "time", os.path.join(HERE, "jobs", name + ".yaml"), "--batch-size", str(batch), "--seconds",
                                 str(seconds), "--json"], core), capture_output=True, text=True,
                         env=dict(os.environ, OMP_NUM_THREADS="1"))
    if out.returncode:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


def bench_row(a, peer, name, batch, goal):
    seconds = a.seconds * (4 if name == "alexnet" else 1)
    theirs, ours, ratios, floors = [], [], [], []
    for _ in range(a.rounds):
        theirs.append(ask_peer(peer, name, batch, seconds))
        t = ask_muster(a.muster, a.core, name, batch, seconds)
        ours.append(t["samples_per_s"])
        floors.append(t["share_of_floor"])
        ratios.append(ours[-1] / theirs[-1])
    ratio = statistics.median(ratios)
    print(f"{name:13} {batch:5} {statistics.median(theirs):10.0f} {statistics.median(ours):10.0f} {ratio:7.2f}x "
          f"{min(ratios):6.2f}-{max(ratios):<6.2f} {goal:5.1f}x {'met' if ratio >= goal else 'MISSED':7} "
          f"{100 * statistics.median(floors):5.0f}%", flush=True)
    return ratio >= goal


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--muster", default="build/muster")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=2.0, help="per measurement")
    p.add_argument("--core", type=int, default=(os.cpu_count() or 1) - 1, help="core to pin to, -1 = none")
    p.add_argument("--only", default="", help="rows whose name begins so, e.g. mlp")
    a = p.parse_args()
    peer, version = start_peer(a.core)
    print(f"samples/s of forward + backward + momentum update, one thread, torch {version}, {a.rounds} rounds in turns")
    print(f"{'workload':13} {'batch':>5} {'torch':>10} {'muster':>10} {'ratio':>8} {'min-max':>13} {'goal':>6} {'':7} {'floor':>6}")
    met = [bench_row(a, peer, *row) for row in ROWS if row[0].startswith(a.only)]
    peer.stdin.close()
    print(f"{sum(met)} of {len(met)} goals met")


if __name__ == "__main__":
    main()
