#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""simulate.py - step time and overlap of each architecture by the number of ranks, simulated: docs/simulate.md.

Runs build/muster-simulate for each and prints a table; --svg draws the times. A training of --steps steps has one
learner on each rank; the first step is made in step, the others by --protocol. `in step` is hardsync, whose servers are
sliced over all ranks: its frames grow with the square of the ranks, so it is left out above 128.

floor: the least time of a step by the wire, the bytes of the busiest rank at the rate of its link. A server that reads
from whoever comes and answers before it reads on lets one link work at a time, and is several times slower than that.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

WAYS = ["in step", "base", "adv", "adv*"]
IN_STEP_MOST = 128
COLOURS = {"in step": "#4c78a8", "base": "#e45756", "adv": "#f58518", "adv*": "#54a24b"}
SHARE = 0.941  # of a link's rate that is left for messages: src/simulate/main.c


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build")
    p.add_argument("--job", default="examples/lenet-fashion.yaml")
    p.add_argument("--platform", default="examples/platforms/hosts-1024.xml")
    p.add_argument("--gbit", type=float, default=10, help="of a host's link on that platform, for the floor")
    p.add_argument("--ranks", default="8,32,72,128,1024")
    p.add_argument("--ways", default=",".join(WAYS))
    p.add_argument("--batch", type=int, default=64, help="mu")
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--protocol", default="softsync")
    p.add_argument("--costs", help="what `muster time --json` printed; measured when not given")
    p.add_argument("--svg", metavar="FILE")
    return p.parse_args()


def costs(a, folder):
    if a.costs:
        return a.costs
    path = os.path.join(folder, "costs.json")
    with open(path, "w") as f:
        subprocess.run([os.path.join(a.build, "muster"), "time", a.job, "--batch-size", str(a.batch), "--json"],
                       stdout=f, check=True)
    return path


def simulate(a, way, ranks, path):
    command = [os.path.join(a.build, "muster-simulate"), a.job, "--costs", path, "--platform", a.platform, "--ranks",
               str(ranks), "--learners", str(ranks), "--batch-size", str(a.batch), "--steps", str(a.steps), "--json"]
    if way == "in step":
        command += ["--protocol", "hardsync"]
    else:
        command += ["--protocol", a.protocol, "--set", f"cluster.architecture={way}", "--set",
                    "cluster.warm_start=1 steps"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"simulate.py: {' '.join(command)}: status {done.returncode}")
    return json.loads(done.stdout)


def row(way, ranks, r, a):
    floor = r["busiest_bytes_per_step"] * 8 / (a.gbit * 1e9 * SHARE)
    return (f"| {way} | {ranks} | {1e3 * r['step_s']:.1f} | {1e3 * floor:.1f} | {100 * r['overlap']:.1f} | "
            f"{r['staleness']['mean']:.2f} | {1e-6 * r['wire_bytes_all'] / r['steps']:.1f} | {r['samples_per_s']:.0f} | "
            f"{r['wall_s']:.1f} |")


def draw(rows, path):
    """Step time by ranks, both on logarithmic axes."""
    w, h, left, top, right, bottom = 640, 360, 64, 24, 96, 48
    xs, ys = [r["ranks"] for _, r in rows], [1e3 * r["step_s"] for _, r in rows]
    x0, x1 = math.log(min(xs)), math.log(max(xs) * 1.0001)
    y0, y1 = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys) * 1.0001))

    def at(x, y):
        return (left + (math.log(x) - x0) / max(x1 - x0, 1e-9) * (w - left - right),
                h - bottom - (math.log10(y) - y0) / (y1 - y0) * (h - top - bottom))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="12" '
           f'viewBox="0 0 {w} {h}"><rect width="{w}" height="{h}" fill="white"/>']
    for e in range(y0, y1 + 1):
        y = at(min(xs), 10.0 ** e)[1]
        out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{w - right}" y2="{y:.1f}" stroke="#ddd"/>'
                   f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0 ** e:g}</text>')
    for x in sorted(set(xs)):
        px = at(x, 10.0 ** y0)[0]
        out.append(f'<text x="{px:.1f}" y="{h - bottom + 18}" text-anchor="middle">{x}</text>')
    for way in WAYS:
        points = sorted((r["ranks"], 1e3 * r["step_s"]) for k, r in rows if k == way)
        if not points:
            continue
        line = " ".join("%.1f,%.1f" % at(x, y) for x, y in points)
        ex, ey = at(*points[-1])
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[way]}" stroke-width="2"/>'
                   f'<text x="{ex + 6:.1f}" y="{ey + 4:.1f}" fill="{COLOURS[way]}">{way}</text>')
    out.append(f'<text x="{(left + w - right) / 2:.0f}" y="{h - 12}" text-anchor="middle">ranks</text>'
               f'<text x="{left}" y="{top - 8}">milliseconds of a step</text>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def main():
    a = arguments()
    rows = []
    print("| | ranks | step ms | floor ms | overlap % | staleness | MB a step, all ranks | samples/s | simulated in s |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = costs(a, folder)
        for way in a.ways.split(","):
            for ranks in (int(n) for n in a.ranks.split(",")):
                if way == "in step" and ranks > IN_STEP_MOST:
                    continue
                r = simulate(a, way, ranks, path)
                rows.append((way, r))
                print(row(way, ranks, r, a), flush=True)
    if a.svg:
        draw(rows, a.svg)


if __name__ == "__main__":
    main()
