# SPDX-License-Identifier: Apache-2.0
"""make plan-accuracy: is a training as fast as `muster plan` says?

First everything is predicted, and written to predictions.csv; nothing has been trained by then, and what runs teach is
switched off (they are given a cache of their own). Then every point is trained for a short time, in rounds, in an order
that changes; its time is the median of the rounds. Learners are pinned by the program, a core each. points.csv has
predicted and measured step times, the table the errors:

    median, 90 %     of |predicted / measured - 1|, over all points and by workload
    pairs            of one job, whose measured times are more than 10 % apart: how many were ordered right
    chosen           jobs whose fastest predicted point is within 5 % of the fastest that was measured

Points: jobs of bench/jobs and nets made up here (other widths, depths, kinds, batches, updaters), by 1 learner up to all
cores and several protocols, AlexNet split over workers. With --svg a scatter plot.
"""
import argparse
import csv
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOCOLS = ("hardsync", "async", "hogwild")
WARM_UP = 0.3           # of the seconds of a measurement, before it
GOALS = {"median": 0.10, "p90": 0.20, "pairs": 0.95, "chosen": 0.90}
GOALS_2_CORES = dict(GOALS, median=0.12)


# ---- nets that are in no other bench ----

def images(shape, records=256, classes=10):
    return f"{{reader: synthetic, shape: [{', '.join(map(str, shape))}], classes: {classes}, records: {records}, scale: 0.004}}"


def job(data, layers, batch, updater="{type: sgd, momentum: 0.9, rate: 0.0001}", train=""):
    lines = ["data:", f"  train: {data}", "net:"] + [f"  - {{{x}}}" for x in layers]
    return "\n".join(lines + [f"train: {{{train}batch: {batch}, epochs: 1}}", f"updater: {updater}", ""])


def mlp(inputs, widths, batch, kind="relu", **more):
    layers, src = [], ", src: data.image"
    for i, w in enumerate(widths):
        layers += [f"name: ip{i}, type: inner_product{src}, outputs: {w}", f"name: act{i}, type: {kind}"]
        src = ""
    layers += ["name: last, type: inner_product, outputs: 10", "name: loss, type: softmax_loss, src: [last, data.label]"]
    return job(images((1, 1, inputs)), layers, batch, **more)


def convnet(side, channels, filters, kernel, hidden, batch, norm=False, **more):
    layers, src = [], ", src: data.image"
    for i, f in enumerate(filters):
        layers.append(f"name: conv{i}, type: convolution{src}, filters: {f}, kernel: {kernel}, pad: {kernel // 2}")
        if norm:
            layers.append(f"name: bn{i}, type: batch_norm")
        layers += [f"name: relu{i}, type: relu", f"name: pool{i}, type: pooling, method: max, kernel: 2, stride: 2"]
        src = ""
    if hidden:
        layers += [f"name: ip1, type: inner_product, outputs: {hidden}", "name: relu9, type: relu"]
    layers += ["name: last, type: inner_product, outputs: 10", "name: loss, type: softmax_loss, src: [last, data.label]"]
    return job(images((channels, side, side)), layers, batch, **more)


def recurrent(kind, hidden, steps, batch, vocab=60):
    data = f"{{reader: synthetic, vocab: {vocab}, shape: [{steps}], streams: {batch}, records: {10 * batch}, noise: 0.1}}"
    return job(data, [f"name: rec, type: {kind}, src: [data.words, data.begin], hidden: {hidden}",
                      f"name: out, type: inner_product, outputs: {vocab}, axis: 2",
                      "name: loss, type: softmax_loss, src: [out, data.label]"], batch)


def sentences(words, dim, filters, batch):
    data = f"{{reader: synthetic, vocab: 5000, shape: [{words}], classes: 4, records: 256}}"
    return job(data, [f"name: words, type: embedding, src: data.words, dim: {dim}, pad: true",
                      f"name: windows, type: sentence_convolution, widths: [2, 3], filters: {filters}",
                      "name: last, type: inner_product, outputs: 4",
                      "name: loss, type: softmax_loss, src: [last, data.class]"], batch)


def rbm(visible, hidden, batch):
    data = f"{{reader: synthetic, shape: [{visible}], classes: 10, records: 256, scale: 0.0039}}"
    return job(data, [f"name: rbm1, type: rbm, src: data.features, hidden: {hidden}"], batch, train="algorithm: cd, ")


def made_up():
    adam, adagrad = "{type: adam, rate: 0.0001}", "{type: adagrad, rate: 0.001}"
    return {
        "mlp-narrow-deep": mlp(256, [128] * 8, 32), "mlp-wide": mlp(512, [2048, 2048], 64),
        "mlp-small-batch": mlp(784, [500, 250], 8), "mlp-large-batch": mlp(784, [500, 250], 256),
        "mlp-tanh": mlp(400, [800, 400, 200], 64, "tanh"), "mlp-adam": mlp(784, [600, 300], 64, updater=adam),
        "mlp-adagrad": mlp(784, [1000], 32, updater=adagrad), "mlp-tiny": mlp(64, [32], 64),
        "mlp-bottleneck": mlp(1024, [1024, 32, 1024], 48), "mlp-no-momentum": mlp(784, [700, 350], 32,
                                                                                  updater="{type: sgd, rate: 0.0001}"),
        "conv-one": convnet(28, 1, [32], 5, 0, 64), "conv-deep": convnet(32, 3, [16, 32, 64, 64], 3, 0, 64),
        "conv-wide": convnet(32, 3, [64, 64], 5, 0, 32), "conv-hidden": convnet(28, 1, [16, 32], 3, 1000, 32),
        "conv-norm": convnet(32, 3, [32, 32], 3, 128, 64, norm=True), "conv-small-batch": convnet(24, 3, [24, 48], 5, 0, 8),
        "conv-adam": convnet(28, 1, [20, 40], 5, 200, 64, updater=adam), "conv-large": convnet(64, 3, [32, 64, 64], 3, 256, 16),
        "gru-small": recurrent("gru", 128, 20, 32), "lstm": recurrent("lstm", 256, 25, 32),
        "rnn-long": recurrent("rnn", 200, 60, 16), "text-small": sentences(32, 100, 50, 32),
        "text-wide": sentences(48, 200, 200, 16), "rbm-small": rbm(400, 300, 64), "rbm-wide": rbm(784, 2000, 50),
    }


class Bench:
    def __init__(self, a):
        self.a, self.cores, self.jobs, self.points = a, a.cores, {}, []
        self.folder = tempfile.TemporaryDirectory(prefix="muster-plan-")
        self.cache = a.cache or os.path.join(self.folder.name, "cache")
        self.elsewhere = os.path.join(self.folder.name, "runs-cache")

    def muster(self, words, cache, timeout=600):
        return subprocess.run([self.a.muster] + words, capture_output=True, text=True, timeout=timeout,
                              env=dict(os.environ, OMP_NUM_THREADS="1", XDG_CACHE_HOME=cache))

    # ---- points ----

    def collect(self):
        for name in ("mlp", "lenet", "cifar10_full", "alexnet", "kim", "charrnn", "rbm"):
            self.jobs[name] = os.path.join(HERE, "jobs", name + ".yaml")
        for name, text in made_up().items():
            path = os.path.join(self.folder.name, name + ".yaml")
            with open(path, "w") as f:
                f.write(f"name: {name}\n{text}")
            self.jobs[name] = path
        wanted = self.a.only.split(",") if self.a.only else list(self.jobs)
        counts = [n for n in (1, 2, 4, 8, 12, 16) if n <= self.cores]
        for name in wanted:
            if name not in self.jobs:
                sys.exit(f"plan.py: no job `{name}`; there are {', '.join(self.jobs)}")
            self.add(name, 1, "hardsync")
            for n in counts[1:]:
                for protocol in self.a.protocols.split(","):
                    self.add(name, n, protocol)
            for workers in (2, 4) if name == "alexnet" else ():
                if workers <= self.cores:
                    self.add(name, 1, "hardsync", ("cluster.workers=%d" % workers, "cluster.partition=auto"))

    def add(self, name, learners, protocol, sets=()):
        self.points.append({"job": name, "learners": learners, "protocol": protocol, "sets": sets, "times": []})

    @staticmethod
    def edits(p):
        # Only what is predicted: no warm start, nothing that is evaluated or saved.
        sets = [f"cluster.learners={p['learners']}", f"cluster.protocol={p['protocol']}"] + list(p["sets"])
        return [w for s in sets for w in ("--set", s)]

    # ---- predicting ----

    def predict(self):
        for name in dict.fromkeys(p["job"] for p in self.points):
            out = self.muster(["plan", self.jobs[name], "--json"] + self.machine(), self.cache)
            if out.returncode:
                sys.exit(f"plan.py: {name}: {out.stderr}")
            for p in (p for p in self.points if p["job"] == name):
                out = self.muster(["plan", self.jobs[name], "--json", "--as-is"] + self.machine() + self.edits(p), self.cache)
                if out.returncode:
                    sys.exit(f"plan.py: {name}: {out.stderr}")
                plan = json.loads(out.stdout)["plans"][0]
                p["predicted"], p["terms"] = plan["step_s"], plan["terms"]
            print(f"  predicted {name}", flush=True)
        self.write("predictions.csv", ("job", "learners", "protocol", "cut", "predicted_s"), [
            (p["job"], p["learners"], p["protocol"], " ".join(p["sets"]), f"{p['predicted']:.6g}") for p in self.points])

    def machine(self):
        return ["--machine", self.a.machine] if self.a.machine else []

    def write(self, name, head, rows):
        os.makedirs(self.a.out, exist_ok=True)
        with open(os.path.join(self.a.out, name), "w", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows([head] + rows)

    # ---- measuring ----

    def train(self, p):
        a = self.a
        with tempfile.TemporaryDirectory(prefix="muster-plan-run-") as folder:
            run = os.path.join(folder, "run")
            words = ["train", self.jobs[p["job"]], "--json", "--quiet", "--out", run, "--deadline",
                     f"{a.seconds * (1 + WARM_UP):g}s"] + self.edits(p)
            for s in ("train.epochs=0", "log.every=0.1s", "log.tensorboard=false", "checkpoint.every=never",
                      "test.every=never", "cluster.warm_start=never"):
                words += ["--set", s]
            out = self.muster(words, self.elsewhere, timeout=120 + 10 * a.seconds)
            if out.returncode:
                sys.exit(f"plan.py: muster {' '.join(words)}\n{out.stderr}")
            with open(os.path.join(run, "metrics.jsonl")) as f:
                lines = [json.loads(line) for line in f]
        lines = [m for m in lines[:-1] if m["wall_s"] > WARM_UP * a.seconds]    # the last one is of the end
        if len(lines) < 2 or lines[-1]["step"] <= lines[0]["step"]:
            return None
        return (lines[-1]["wall_s"] - lines[0]["wall_s"]) / (lines[-1]["step"] - lines[0]["step"])

    def measure(self):
        shuffled = random.Random(1)
        for r in range(self.a.rounds):
            order = list(self.points)
            shuffled.shuffle(order)
            for p in order:
                t = self.train(p)
                if t:
                    p["times"].append(t)
            print(f"  round {r + 1} of {self.a.rounds}", flush=True)
        for p in self.points:
            p["measured"] = statistics.median(p["times"]) if p["times"] else float("nan")
        self.points = [p for p in self.points if p["times"]]
        self.write("points.csv", ("job", "learners", "protocol", "cut", "predicted_s", "measured_s", "lowest_s",
                                  "highest_s", "error"),
                   [(p["job"], p["learners"], p["protocol"], " ".join(p["sets"]), f"{p['predicted']:.6g}",
                     f"{p['measured']:.6g}", f"{min(p['times']):.6g}", f"{max(p['times']):.6g}", f"{error(p):+.4f}")
                    for p in self.points])

    # ---- judging ----

    def table(self):
        print(f"\n{'workload':<18} {'points':>6} {'median':>8} {'largest':>8}   worst point")
        for name in dict.fromkeys(p["job"] for p in self.points):
            own = [p for p in self.points if p["job"] == name]
            worst = max(own, key=lambda p: abs(error(p)))
            print(f"{name:<18} {len(own):>6} {percent(statistics.median(abs(error(p)) for p in own)):>8} "
                  f"{percent(abs(error(worst))):>8}   {worst['learners']} x {worst['protocol']}"
                  f"{' ' + worst['sets'][0] if worst['sets'] else ''}: {error(worst):+.0%}")
        right, pairs = self.pairs()
        good, jobs = self.chosen()
        errors = sorted(abs(error(p)) for p in self.points)
        got = {"median": statistics.median(errors), "p90": errors[min(len(errors) - 1, int(0.9 * len(errors)))],
               "pairs": right / pairs if pairs else 1, "chosen": good / jobs if jobs else 1}
        goals = GOALS_2_CORES if self.cores <= 2 else GOALS
        print(f"\n{len(self.points)} points, {self.cores} cores: median error {percent(got['median'])} "
              f"(goal {percent(goals['median'])}), 90 % within {percent(got['p90'])} ({percent(goals['p90'])}); "
              f"pairs in order {right} of {pairs} ({percent(goals['pairs'])}); "
              f"chosen within 5 % of the best {good} of {jobs} jobs ({percent(goals['chosen'])})")
        return got["median"] <= goals["median"] and got["p90"] <= goals["p90"] and got["pairs"] >= goals["pairs"] and \
            got["chosen"] >= goals["chosen"]

    def pairs(self):
        right = pairs = 0
        for i, p in enumerate(self.points):
            for q in self.points[:i]:
                if p["job"] != q["job"] or max(p["measured"], q["measured"]) < 1.1 * min(p["measured"], q["measured"]):
                    continue
                pairs += 1
                right += (p["measured"] < q["measured"]) == (p["predicted"] < q["predicted"])
        return right, pairs

    def chosen(self):
        good = jobs = 0
        for name in dict.fromkeys(p["job"] for p in self.points):
            own = [p for p in self.points if p["job"] == name]
            best = min(p["measured"] for p in own)
            jobs += 1
            good += min(own, key=lambda p: p["predicted"])["measured"] <= 1.05 * best
        return good, jobs

    def draw(self, path):
        values = [v for p in self.points for v in (p["predicted"], p["measured"])]
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        size, edge = 520, 60

        def at(v):
            return edge + (math.log10(v) - low) / (high - low) * size
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{size + 2 * edge}" height="{size + 2 * edge}" '
                 'font-family="sans-serif" font-size="12">',
                 f'<rect x="{edge}" y="{edge}" width="{size}" height="{size}" fill="none" stroke="#888"/>']
        flip = size + 2 * edge
        for off, colour in ((0, "#444"), (math.log10(1.2), "#bbb"), (-math.log10(1.2), "#bbb")):
            d = off / (high - low) * size
            parts.append(f'<line x1="{edge}" y1="{flip - edge - d:.1f}" x2="{edge + size}" y2="{edge - d:.1f}" '
                         f'stroke="{colour}"/>')
        for e in range(low, high + 1):
            x = at(10.0 ** e)
            parts.append(f'<text x="{x:.0f}" y="{flip - edge + 18}" text-anchor="middle">1e{e}</text>')
            parts.append(f'<text x="{edge - 6}" y="{flip - x + 4:.0f}" text-anchor="end">1e{e}</text>')
        colours = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
        names = list(dict.fromkeys(p["protocol"] for p in self.points))
        for p in self.points:
            c = colours[names.index(p["protocol"]) % len(colours)]
            parts.append(f'<circle cx="{at(p["measured"]):.1f}" cy="{flip - at(p["predicted"]):.1f}" r="3.5" fill="{c}" '
                         f'fill-opacity="0.7"><title>{p["job"]}, {p["learners"]} x {p["protocol"]}</title></circle>')
        for i, n in enumerate(names):
            parts.append(f'<text x="{edge + 12}" y="{edge + 20 + 16 * i}" fill="{colours[i % len(colours)]}">{n}</text>')
        parts.append(f'<text x="{edge + size / 2}" y="{flip - 15}" text-anchor="middle">measured, s a step</text>')
        parts.append(f'<text x="18" y="{flip / 2}" text-anchor="middle" transform="rotate(-90 18 {flip / 2})">'
                     'predicted, s a step</text></svg>')
        with open(path, "w") as f:
            f.write("\n".join(parts) + "\n")


def error(p):
    return p["predicted"] / p["measured"] - 1


def percent(x):
    return f"{100 * x:.1f}%"


def count_cores():
    cores, seen = 0, set()
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                siblings = f.read().strip()
        except OSError:
            siblings = str(cpu)
        cores += siblings not in seen
        seen.add(siblings)
    return cores


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--muster", default="build/muster")
    p.add_argument("--out", default="plan-accuracy", help="folder of predictions.csv and points.csv")
    p.add_argument("--seconds", type=float, default=3, help="of one measurement")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", default="", help="jobs, with commas between")
    p.add_argument("--protocols", default=",".join(PROTOCOLS))
    p.add_argument("--machine", default="", help="a profile; else one is measured, quickly, before anything else")
    p.add_argument("--cache", default="", help="keep costs here, for the next time")
    p.add_argument("--cores", type=int, default=count_cores())
    p.add_argument("--svg", default="", help="scatter plot")
    a = p.parse_args()
    a.muster = os.path.abspath(a.muster)
    b = Bench(a)
    b.collect()
    print(f"{len(b.points)} points of {len(set(p['job'] for p in b.points))} jobs on {b.cores} cores", flush=True)
    b.predict()
    b.measure()
    good = b.table()
    if a.svg:
        b.draw(a.svg)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
