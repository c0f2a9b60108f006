# SPDX-License-Identifier: Apache-2.0
"""AlexNet split over the workers of a learner, by hardsync: data, model, hybrid and auto, by number of workers.

    python3 bench/workers.py --muster build/muster --workers 1,2,4,8,16 --svg workers.svg

data is every layer by batch, model every layer that may be by feature, hybrid convolutions by batch and fully
connected layers by feature, auto the program's choice. Everything is measured in rounds, in turns, also the peer:
PyTorch with as many threads as there are workers. A figure is the median over the rounds of the median step. Goals:
auto within 15 % of the fastest at every number, 8 workers 6 times one, and 1.3 times PyTorch with 8 threads.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CONVOLUTIONS, DENSE = ("conv1", "conv2", "conv3", "conv4", "conv5"), ("fc6", "fc7", "fc8")
WAYS = {"data": ["cluster.partition=batch"],
        "model": ["cluster.partition=feature", "net.loss.partition=batch"],
        "hybrid": ["cluster.partition=batch"] + [f"net.{n}.partition=feature" for n in DENSE],
        "auto": ["cluster.partition=auto"]}


def cores(n):
    return sorted(os.sched_getaffinity(0))[:n]


def speed(a, way, workers):
    """Samples/s by the median time of a step; the first two are left out."""
    with tempfile.TemporaryDirectory(prefix="muster-workers-") as folder:
        run = os.path.join(folder, "run")
        words = [a.muster, "train", os.path.join(HERE, "jobs", "alexnet.yaml"), "--quiet", "--json", "--out", run,
                 "--workers", str(workers), "--steps", str(a.steps + 3)]
        for s in ["log.every=1 steps", "log.tensorboard=false", "checkpoint.every=never", "train.epochs=0",
                  f"train.batch={a.batch}", f"data.train.records={4 * a.batch}"] + (WAYS[way] if workers > 1 else []) + a.set:
            words += ["--set", s]
        out = subprocess.run(words, capture_output=True, text=True, timeout=600, env=dict(os.environ, OMP_NUM_THREADS="1"),
                             preexec_fn=lambda: os.sched_setaffinity(0, cores(workers)))
        if out.returncode:
            sys.exit(f"workers.py: {' '.join(words)}\n{out.stderr}")
        with open(os.path.join(run, "metrics.jsonl")) as f:
            lines = [json.loads(line) for line in f]
        at = [(m["step"], m["wall_s"]) for m in lines if "train_loss" in m][1:]
        gaps = [(t1 - t0) / (s1 - s0) for (s0, t0), (s1, t1) in zip(at, at[1:]) if s1 > s0]
        if not gaps:
            sys.exit(f"workers.py: the steps of {way} with {workers} workers are too short to be timed; give more --steps")
        return a.batch / statistics.median(gaps)


def peer_speed(a, threads):
    env = dict(os.environ, PEER_THREADS=str(threads), OMP_NUM_THREADS=str(threads), MALLOC_MMAP_THRESHOLD_="2000000000",
               MALLOC_TRIM_THRESHOLD_="2000000000", MALLOC_TOP_PAD_="500000000")
    out = subprocess.run([a.python, os.path.join(HERE, "peer_torch.py")], input=f"alexnet {a.batch} {a.seconds}\n",
                         capture_output=True, text=True, env=env, timeout=600,
                         preexec_fn=lambda: os.sched_setaffinity(0, cores(threads)))
    lines = out.stdout.splitlines()
    if len(lines) < 2:
        sys.exit("workers.py: PyTorch did not answer; install python3-torch, or give --python or --no-peer\n" + out.stderr)
    return json.loads(lines[1])["samples_per_s"]


def draw(table, path):
    w, h, left, top, size = 760, 500, 70, 50, 380
    most, high = max(table), max(max(row.values()) for row in table.values())
    colours = {"data": "#0072b2", "model": "#d55e00", "hybrid": "#009e73", "auto": "#222222", "torch": "#999999"}
    x, y = lambda n: left + size * n / most, lambda v: top + size - size * v / high
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="12">',
           '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{left}" y="28" font-size="16" font-weight="bold">AlexNet, samples/s by workers</text>',
           f'<path d="M{left} {top}V{top + size}H{left + size}" fill="none" stroke="#333"/>']
    for n in table:
        out.append(f'<text x="{x(n):.1f}" y="{top + size + 18}" text-anchor="middle">{n}</text>')
    for k, (name, colour) in enumerate(colours.items()):
        points = [(n, row[name]) for n, row in sorted(table.items()) if name in row]
        if points:
            d = "L".join(f"{x(n):.1f} {y(v):.1f}" for n, v in points)
            out.append(f'<path d="M{d}" fill="none" stroke="{colour}" stroke-width="2"/>'
                       f'<text x="{left + size + 20}" y="{top + 20 * k + 10}" fill="{colour}">{name}, {points[-1][1]:.0f}/s at '
                       f'{points[-1][0]}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--muster", default="build/muster")
    p.add_argument("--python", default=sys.executable, help="a Python that has PyTorch, for the peer")
    p.add_argument("--workers", default="1,2")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=6, help="measured, of each run")
    p.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="an edit of the job")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=10.0, help="of the peer")
    p.add_argument("--no-peer", action="store_true")
    p.add_argument("--json", metavar="FILE")
    p.add_argument("--svg", metavar="FILE")
    a = p.parse_args()
    counts = [int(n) for n in a.workers.split(",")]
    beyond = [n for n in counts if n > len(cores(1 << 20))]
    if beyond:
        print(f"left out: {beyond} workers, there are {len(cores(1 << 20))} processors")
    counts = [n for n in counts if n not in beyond]
    got = {n: {} for n in counts}
    for _ in range(a.rounds):
        for n in counts:
            for way in WAYS if n > 1 else ["data"]:
                got[n].setdefault(way, []).append(speed(a, way, n))
            if not a.no_peer:
                got[n].setdefault("torch", []).append(peer_speed(a, n))
            print(f"{n} workers: " + ", ".join(f"{k} {v[-1]:.1f}" for k, v in got[n].items()), file=sys.stderr)
    table = {n: {k: statistics.median(v) for k, v in row.items()} for n, row in got.items()}
    if 1 in table:
        table[1] = {**{w: table[1]["data"] for w in WAYS}, **({"torch": table[1]["torch"]} if "torch" in table[1] else {})}
    names = list(WAYS) + ([] if a.no_peer else ["torch"])
    print(f"AlexNet, batch {a.batch}, hardsync, samples/s\nworkers " + "".join(f"{n:>9}" for n in names)
          + "   auto/fastest  own   over torch")
    for n, row in table.items():
        fastest = max(row[w] for w in WAYS)
        own = row["auto"] / table[1]["auto"] if 1 in table else float("nan")
        over = row["auto"] / row["torch"] if "torch" in row else float("nan")
        print(f"{n:7} " + "".join(f"{row[k]:9.1f}" for k in names) + f"   {row['auto'] / fastest:12.2f} {own:5.2f}x {over:9.2f}x")
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"batch": a.batch, "rows": {str(n): row for n, row in got.items()}}, f, indent=1)
    if a.svg:
        draw(table, a.svg)


main()
