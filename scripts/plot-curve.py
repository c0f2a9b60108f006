#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plot-curve.py RUN [RUN ...] -o OUT.svg [--title TEXT]

Draws test error (left axis) and training loss (right axis) over epochs from the metrics.jsonl of run
folders, as one self-contained SVG. Python's standard library only.
"""
import argparse
import json
import math
import os
from xml.sax.saxutils import escape

W, H, LEFT, RIGHT, TOP, BOTTOM = 720, 420, 64, 64, 44, 52
COLOURS = ["#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b"]


def load(run):
    error, loss = [], []
    with open(os.path.join(run, "metrics.jsonl")) as f:
        for line in f:
            m = json.loads(line)
            accuracy = m.get("test_accuracy", m.get("val_accuracy"))
            if accuracy is not None:
                error.append((m["epoch"], 100 * (1 - accuracy)))
            if m.get("train_loss") is not None:
                loss.append((m["epoch"], m["train_loss"]))
    return error, loss


def ticks(low, high, about=6):
    step = 10 ** math.floor(math.log10((high - low) / about))
    step *= next(k for k in (1, 2, 5, 10) if (high - low) / (step * k) <= about)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def path(points, x, y):
    return "M" + " L".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)


def text(x, y, s, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{escape(s)}</text>'


def draw(runs, title):
    data = [load(r) for r in runs]
    last = max(e[-1][0] for e, _ in data)
    high = min(100, max(v for e, _ in data for _, v in e[1:] or e))
    low = math.floor(min(v for e, _ in data for _, v in e) / 5) * 5
    top = max((v for _, l in data for _, v in l), default=1)
    x = lambda v: LEFT + (W - LEFT - RIGHT) * v / last
    y = lambda v: TOP + (H - TOP - BOTTOM) * (high - min(v, high)) / (high - low)
    z = lambda v: TOP + (H - TOP - BOTTOM) * (1 - v / top)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12">',
           f'<rect width="{W}" height="{H}" fill="white"/>', text(W / 2, 24, title, extra='font-size="15"')]
    for v in ticks(low, high):
        out += [f'<line x1="{LEFT}" x2="{W - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>',
                text(LEFT - 8, y(v) + 4, f"{v:g}", "end")]
    for v in ticks(0, last, 8):
        out += [f'<line x1="{x(v):.1f}" x2="{x(v):.1f}" y1="{TOP}" y2="{H - BOTTOM}" stroke="#eee"/>',
                text(x(v), H - BOTTOM + 18, f"{v:g}")]
    for v in ticks(0, top, 5):
        out.append(text(W - RIGHT + 8, z(v) + 4, f"{v:g}", "start", 'fill="#888"'))
    for i, (run, (error, loss)) in enumerate(zip(runs, data)):
        colour = COLOURS[i % len(COLOURS)]
        if loss:
            out.append(f'<path d="{path(loss, x, z)}" fill="none" stroke="{colour}" stroke-opacity="0.3"/>')
        out.append(f'<path d="{path(error, x, y)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = f"{os.path.basename(os.path.normpath(run))}: {error[-1][1]:.2f} % at epoch {error[-1][0]:g}"
        out.append(text(W - RIGHT - 8, TOP + 18 + 16 * i, label, "end", f'fill="{colour}"'))
    out += [text(W / 2, H - 12, "epoch"), text(16, H / 2, "test error, %", extra=f'transform="rotate(-90 16 {H / 2})"'),
            text(W - 10, H / 2, "training loss (pale)", extra=f'fill="#888" transform="rotate(90 {W - 10} {H / 2})"'), "</svg>"]
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("runs", nargs="+")
    p.add_argument("-o", "--out", required=True)
    p.add_argument("--title", default="")
    a = p.parse_args()
    with open(a.out, "w") as f:
        f.write(draw(a.runs, a.title or ", ".join(os.path.basename(os.path.normpath(r)) for r in a.runs)))


main()
