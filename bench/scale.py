# SPDX-License-Identifier: Apache-2.0
"""make scale: what several learners give over one, and over PyTorch's Hogwild, on this machine.

Everything is measured in rounds, in turns: one learner, the protocols one after the other, then the peer; a ratio
is the median of the rounds' ratios (min and max are shown). n learners get n cores, one hardware thread each
(the second ones when there are no more cores), and so does the peer. A batch is that of one learner. Speeds
are of the time after a run's start, from its metrics; data are made up in memory. Beside every figure of several
cores stands the time a flag takes there and back between the first two of them: virtual cores may lie near or far.

Parts: pair      2 learners over 1, with the goals for two cores
       server    1 learner through a server process against the plain loop
       overlap   share of the time that learners compute, async
       sweep     speeds by the number of learners, and those of PyTorch's Hogwild; with --svg a picture
       async     async over one learner, over hardsync and over PyTorch's Hogwild, and its mean staleness
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
WARM_UP = 0.3           # of the seconds of a measurement, before it
RECORDS = 60000
#        workload       batch protocols                                    goal: the best of them over one learner
PAIR = [("mlp",          1,   ("hogwild", "async", "mirror", "mirror/2"),  1.6),
        ("mlp",          4,   ("hogwild", "async", "mirror", "mirror/2"),  1.6),
        ("mlp",          32,  ("hardsync",),                               1.6),
        ("cifar10_full", 16,  ("hardsync", "softsync", "async", "hogwild"), 1.9),
        ("lenet",        64,  ("hardsync", "softsync", "async", "hogwild"), 1.9),
        ("kim",          1,   ("hogwild", "async", "mirror"),              1.8),
        ("kim",          4,   ("hogwild", "async", "mirror"),              1.8),
        ("kim",          32,  ("hogwild", "async"),                        1.8),
        ("charrnn",      50,  ("hogwild", "async"),                        1.8),
        ("rbm",          100, ("hogwild", "async"),                        1.8)]
SERVER = [("cifar10_full", 16, ("hardsync", "async"), 0.97), ("lenet", 64, ("hardsync", "async"), 0.97)]
OVERLAP = [("cifar10_full", 4, 0.99), ("cifar10_full", 16, 0.99)]
#         workload       batch protocols             goals at 16 learners: over the peer, over one learner
SWEEP = [("mlp",          4,   ("hogwild", "mirror", "hardsync"), 1.2, None),
         ("cifar10_full", 4,   ("async", "hogwild"), 2.0, 11.0),
         ("cifar10_full", 16,  ("async", "hogwild"), None, None)]
SWEEP_GOALS_AT = 16
ADAGRAD = ("updater={type: adagrad, rate: 0.001}",)
#         workload       batch learners sets     goals: over one learner, over hardsync, over the peer
ASYNC = [("kim",          2,   8,  ADAGRAD, 5.0, None, None),
         ("kim",          2,   16, ADAGRAD, 8.0, None, None),
         ("kim",          4,   8,  ADAGRAD, 5.0, None, None),
         ("kim",          4,   16, ADAGRAD, 8.0, None, None),
         ("mlp",          4,   16, (),      None, 0.6, 1.0),
         ("mlp",          32,  16, (),      None, 0.6, 1.0),
         ("cifar10_full", 4,   16, (),      12.0, None, None),
         ("mlp",          1,   2,  (),      1.6, None, None),
         ("mlp",          4,   2,  (),      1.6, None, None)]
STALENESS_GOAL = 1.2    # of the learners: deep queues must not buy the speed


def list_cpus():
    """Allowed hardware threads, the first ones of all cores before the second ones; and the number of cores."""
    first, second, seen = [], [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as f:
                siblings = f.read().strip()
        except OSError:
            siblings = str(cpu)
        (second if siblings in seen else first).append(cpu)
        seen.add(siblings)
    return first + second, len(first)


def in_job(protocol):
    """As a job file has it; mirror/2 is {type: mirror, every: 2}."""
    name, _, every = protocol.partition("/")
    return f"{{type: {name}, every: {every}}}" if every else name


def median(values):
    return statistics.median(values) if values else float("nan")


def fastest(speeds):
    """The protocol with the highest median, of {protocol: [speed]}."""
    return max(speeds, key=lambda p: statistics.median(speeds[p]))


class Bench:
    def __init__(self, a):
        self.a, self.peer, self.rows, self.met, self.n_goals = a, None, [], 0, 0
        self.cpus, self.n_cores = list_cpus()

    # ---- measuring ----

    def muster(self, n, words):
        """Runs the program on the first n processors."""
        return subprocess.run([self.a.muster] + words, capture_output=True, text=True, timeout=60 + 10 * self.a.seconds,
                              env=dict(os.environ, OMP_NUM_THREADS="1"),
                              preexec_fn=lambda: os.sched_setaffinity(0, self.cpus[:n]))

    def round_trip_ns(self):
        out = self.muster(2, ["doctor", "--latency", "--json"])
        try:
            checks = {c["check"]: c["text"] for c in json.loads(out.stdout)["checks"]}
            return float(re.match(r"([0-9.]+) ns", checks["latency"]).group(1))
        except (ValueError, KeyError, AttributeError):
            return float("nan")

    def train(self, name, batch, learners, protocol, cores, sets=()):
        """Samples/s, the share of computing and the mean staleness of one short training."""
        a = self.a
        if learners > self.n_cores:
            sets += ("cluster.pin=false",)          # it would pin to cores, and leave their second threads idle
        with tempfile.TemporaryDirectory(prefix="muster-scale-") as folder:
            run = os.path.join(folder, "run")
            words = ["train", os.path.join(HERE, "jobs", name + ".yaml"), "--json", "--quiet", "--out", run,
                     "--batch-size", str(batch), "--learners", str(learners), "--protocol", in_job(protocol),
                     "--deadline", f"{a.seconds * (1 + WARM_UP):g}s"]
            for s in ("train.epochs=0", "log.every=0.1s", "log.tensorboard=false", "checkpoint.every=never",
                      "cluster.warm_start=never", f"data.train.records={RECORDS}") + tuple(sets):
                words += ["--set", s]
            out = self.muster(cores, words)
            if out.returncode:
                sys.exit(f"scale.py: muster {' '.join(words)}\n{out.stderr}")
            with open(os.path.join(run, "metrics.jsonl")) as f:
                lines = [json.loads(line) for line in f]
            lines = [m for m in lines[:-1] if m["wall_s"] > WARM_UP * a.seconds]    # the last one is of the end
            if len(lines) < 2:
                sys.exit(f"scale.py: {name} batch {batch}: too few steps in {a.seconds:g} s; raise --seconds")
            samples = RECORDS * (lines[-1]["epoch"] - lines[0]["epoch"])
            result = json.loads(out.stdout)
            stale = (result.get("staleness") or {}).get("mean", 0.0)
            return samples / (lines[-1]["wall_s"] - lines[0]["wall_s"]), result["overlap"], stale

    def start_peer(self):
        env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_="2000000000",
                   MALLOC_TRIM_THRESHOLD_="2000000000", MALLOC_TOP_PAD_="500000000")
        self.peer = subprocess.Popen([self.a.python, os.path.join(HERE, "peer_hogwild.py")], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True, env=env)
        hello = self.peer.stdout.readline()
        if not hello:
            sys.exit("scale.py: PyTorch did not start; install python3-torch, or give --python or --no-peer")
        return json.loads(hello)["torch"]

    def ask_peer(self, name, batch, processes):
        self.peer.stdin.write(f"{name} {batch} {self.a.seconds} {','.join(map(str, self.cpus[:processes]))}\n")
        self.peer.stdin.flush()
        answer = self.peer.stdout.readline()
        answer = json.loads(answer) if answer else {"error": "it died"}
        if "error" in answer:
            sys.exit(f"scale.py: the peer with {processes} processes: {answer['error']}")
        return answer["samples_per_s"]

    # ---- telling ----

    def judge(self, value, goal):
        if goal is None:
            return ""
        self.n_goals += 1
        self.met += value >= goal
        return "met" if value >= goal else "MISSED"

    def add(self, **row):
        self.rows.append(row)

    # ---- parts ----

    def turns(self, name, batch, runs):
        """Rounds of all runs in turns: {key: [(speed, overlap, staleness, round trip)]}."""
        got = {key: [] for key, _ in runs}
        for _ in range(self.a.rounds):
            for key, (learners, protocol, cores, sets) in runs:
                trip = self.round_trip_ns() if cores > 1 else float("nan")
                got[key].append(self.train(name, batch, learners, protocol, cores, sets) + (trip,))
        return got

    def compare(self, part, name, batch, protocols, goal, runs):
        got = self.turns(name, batch, runs)
        base = [g[0] for g in got["base"]]
        best, lines = 0, []
        for p in protocols:
            ratios = [g[0] / b for g, b in zip(got[p], base)]
            trips = [g[3] for g in got[p]]
            best = max(best, statistics.median(ratios))
            speeds, overlaps = [g[0] for g in got[p]], [g[1] for g in got[p]]
            self.add(part=part, workload=name, batch=batch, protocol=p, one=base, speed=speeds, ratio=ratios,
                     overlap=overlaps, round_trip_ns=trips, goal=goal)
            lines.append(f"{name:13} {batch:5} {p:9} {statistics.median(base):10.0f} {statistics.median(speeds):10.0f} "
                         f"{statistics.median(ratios):6.2f}x {min(ratios):6.2f}-{max(ratios):<6.2f} "
                         f"{100 * statistics.median(overlaps):6.1f}% {' '.join(f'{t:.0f}' for t in trips):>14}")
        verdict = self.judge(best, goal)
        for line in lines:
            print(f"{line} {goal:5.2f}x {verdict}", flush=True)

    def head(self, text, one, many):
        print(f"\n{text}")
        print(f"{'workload':13} {'batch':>5} {'protocol':9} {one:>10} {many:>10} {'ratio':>7} {'min-max':>13} "
              f"{'overlap':>7} {'round trip ns':>14} {'goal':>6}")

    def pair(self):
        self.head("samples/s of 2 learners on 2 cores over 1 learner on 1 core", "1 learner", "2 learners")
        for name, batch, protocols, goal in PAIR:
            if name.startswith(self.a.only):
                self.compare("pair", name, batch, protocols, goal,
                             [("base", (1, "hardsync", 1, ()))] + [(p, (2, p, 2, ())) for p in protocols])

    def server(self):
        self.head("samples/s of 1 learner through a server process against the plain loop, 2 cores", "plain", "server")
        for name, batch, protocols, goal in SERVER:
            if name.startswith(self.a.only):
                self.compare("server", name, batch, protocols, goal,
                             [("base", (1, "hardsync", 2, ()))]
                             + [(p, (1, p, 2, ("cluster.server=process",))) for p in protocols])

    def overlap(self):
        print("\nshare of the time that 2 learners compute, async")
        print(f"{'workload':13} {'batch':>5} {'samples/s':>10} {'overlap':>8} {'goal':>6}")
        for name, batch, goal in OVERLAP:
            if not name.startswith(self.a.only):
                continue
            got = self.turns(name, batch, [("async", (2, "async", 2, ()))])["async"]
            share = statistics.median(g[1] for g in got)
            self.add(part="overlap", workload=name, batch=batch, protocol="async", overlap=[g[1] for g in got], goal=goal)
            print(f"{name:13} {batch:5} {statistics.median(g[0] for g in got):10.0f} {100 * share:7.2f}% {100 * goal:5.0f}% "
                  f"{self.judge(share, goal)}", flush=True)

    def asynchronous(self):
        """Rounds of one learner, async, and where there is a goal hardsync and the peer, in turns; ratios are of a round."""
        print(f"\nasync; mean staleness at most {STALENESS_GOAL} x learners")
        print(f"{'workload':13} {'batch':>5} {'learners':>8} {'1 learner':>10} {'async':>10} {'own':>7} {'min-max':>13} "
              f"{'hardsync':>10} {'ratio':>7} {'torch':>10} {'ratio':>7} {'stale':>6}")
        for name, batch, n, sets, *goals in ASYNC:
            if n > len(self.cpus) or n not in self.a.learners or not name.startswith(self.a.only):
                continue
            one, many, hard, peer = [], [], [], []
            for _ in range(self.a.rounds):
                one.append(self.train(name, batch, 1, "hardsync", 1, sets)[0])
                many.append(self.train(name, batch, n, "async", n, sets))
                if goals[1]:
                    hard.append(self.train(name, batch, n, "hardsync", n, sets)[0])
                if self.peer and goals[2]:
                    peer.append(self.ask_peer(name, batch, n))
            speed = [m[0] for m in many]
            stale = max(m[2] for m in many)
            ratios = [[s / b for s, b in zip(speed, base)] for base in (one, hard, peer)]
            own, over_hard, over_peer = map(median, ratios)
            self.add(part="async", workload=name, batch=batch, learners=n, one=one, speed=speed, hardsync=hard, peer=peer,
                     staleness=[m[2] for m in many], overlap=[m[1] for m in many])
            verdict = " ".join(f"{text} {goal:g}x {self.judge(value, goal)}" for text, value, goal in
                               zip(("own", "hardsync", "torch"), (own, over_hard, over_peer), goals) if goal and value == value)
            print(f"{name:13} {batch:5} {n:8} {statistics.median(one):10.0f} {statistics.median(speed):10.0f} {own:6.2f}x "
                  f"{min(ratios[0]):6.2f}-{max(ratios[0]):<6.2f} {median(hard):10.0f} {over_hard:6.2f}x "
                  f"{median(peer):10.0f} {over_peer:6.2f}x {stale:6.2f} {verdict} "
                  f"staleness {self.judge(-stale, -STALENESS_GOAL * n)}", flush=True)

    def sweep_turns(self, name, batch, protocols):
        """Rounds of all numbers of learners in turns, so that a number and its base meet the same weather:
        {learners: ({protocol: [speed]}, [speed of the peer], [round trip])}."""
        got = {n: ({p: [] for p in protocols}, [], []) for n in self.a.learners}
        for _ in range(self.a.rounds):
            for n, (speeds, peer, trips) in got.items():
                trips.append(self.round_trip_ns() if n > 1 else float("nan"))
                for p in protocols:
                    speeds[p].append(self.train(name, batch, n, p, n)[0])
                if self.peer:
                    peer.append(self.ask_peer(name, batch, n))
        return got

    def sweep_row(self, name, batch, n, got, first, goals):
        """Tells of one number of learners; `first` has the speeds of the best protocol with the fewest learners."""
        speeds, peer, trips = got
        best = fastest(speeds)
        ratios = [s / f for s, f in zip(speeds[best], first)]
        own = statistics.median(ratios)
        ratio = statistics.median(s / t for s, t in zip(speeds[best], peer)) if peer else float("nan")
        self.add(part="sweep", workload=name, batch=batch, learners=n, speed=speeds, peer=peer, best=best, own=ratios,
                 round_trip_ns=trips)
        verdict = ""
        if n == SWEEP_GOALS_AT:
            over_peer, over_one = goals
            verdict = " ".join(f"{text} {goal:g}x {self.judge(value, goal)}" for text, value, goal in
                               (("own", own, over_one), ("ratio", ratio, over_peer if peer else None)) if goal)
        theirs = median(peer)
        print(f"{name:13} {batch:5} {n:8} " + " ".join(f"{statistics.median(speeds[p]):10.0f}" for p in speeds)
              + f" {own:6.2f}x {min(ratios):6.2f}-{max(ratios):<6.2f} {theirs:10.0f} {ratio:6.2f}x"
              + f" {statistics.median(trips):8.0f} {verdict}", flush=True)

    def sweep(self):
        print("\nsamples/s by learners; `own` is the best over the best with the fewest; torch is its Hogwild")
        for name, batch, protocols, *goals in SWEEP:
            if not name.startswith(self.a.only):
                continue
            print(f"{'workload':13} {'batch':>5} {'learners':>8} " + " ".join(f"{p:>10}" for p in protocols)
                  + f" {'own':>7} {'min-max':>13} {'torch':>10} {'ratio':>7} {'trip ns':>8}")
            got = self.sweep_turns(name, batch, protocols)
            fewest = got[self.a.learners[0]][0]
            for n in self.a.learners:
                self.sweep_row(name, batch, n, got[n], fewest[fastest(fewest)], goals)


# ---- picture ------------------------------------------------------------------------------------

def draw(rows, learners, path):
    """Speed over that of one learner, by learners; solid Muster's best protocol, dashed the peer, grey the ideal."""
    w, h, left, top, size = 860, 520, 70, 60, 400
    most = max(learners)
    colours = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
    x = lambda n: left + size * n / most
    y = lambda v: top + size - size * v / most
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="12" '
           'fill="#222">',
           '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{left}" y="30" font-size="16" font-weight="bold">Speed-up by learners</text>',
           f'<path d="M{left} {top}V{top + size}H{left + size}" fill="none" stroke="#333"/>',
           f'<path d="M{x(0)} {y(0)}L{x(most)} {y(most)}" stroke="#bbb"/>',
           f'<text x="{left + size / 2}" y="{top + size + 40}" text-anchor="middle">learners</text>']
    for n in learners:
        out.append(f'<text x="{x(n):.1f}" y="{top + size + 18}" text-anchor="middle">{n}</text>'
                   f'<text x="{left - 8}" y="{y(n) + 4:.1f}" text-anchor="end">{n}x</text>')
    names = list(dict.fromkeys((r["workload"], r["batch"]) for r in rows))
    for i, (name, batch) in enumerate(names):
        mine = sorted((r for r in rows if (r["workload"], r["batch"]) == (name, batch)), key=lambda r: r["learners"])
        ours = [(r["learners"], statistics.median(r["speed"][r["best"]])) for r in mine]
        theirs = [(r["learners"], statistics.median(r["peer"])) for r in mine if r["peer"]]
        for k, (who, dash, points) in enumerate((("muster", "", ours), ("torch", ' stroke-dasharray="5 4"', theirs))):
            if not points:
                continue
            d = "L".join(f"{x(n):.1f} {y(min(most, v / points[0][1] * points[0][0])):.1f}" for n, v in points)
            row = top + 20 * (2 * i + k)
            out.append(f'<path d="M{d}" fill="none" stroke="{colours[i % 4]}" stroke-width="2"{dash}/>'
                       f'<path d="M{left + size + 30} {row}h30" stroke="{colours[i % 4]}" stroke-width="2"{dash}/>'
                       f'<text x="{left + size + 68}" y="{row + 4}">{escape(f"{who}, {name} batch {batch}")}, '
                       f'{points[-1][1]:.0f}/s at {points[-1][0]}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--muster", default="build/muster", help="the program")
    p.add_argument("--python", default=sys.executable, help="a Python that has PyTorch, for the peer")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=3.0, help="per measurement")
    p.add_argument("--learners", default="1,2", help="for the sweep, e.g. 1,2,4,8,16")
    p.add_argument("--parts", default="pair,server,overlap,sweep",
                   help="some of pair, server, overlap, sweep, async")
    p.add_argument("--only", default="", help="workloads whose name begins so, e.g. mlp")
    p.add_argument("--no-peer", action="store_true", help="leave PyTorch out")
    p.add_argument("--json", metavar="FILE", help="write every measurement there")
    p.add_argument("--svg", metavar="FILE", help="draw the sweep there")
    a = p.parse_args()
    a.parts = a.parts.split(",")
    unknown = set(a.parts) - {"pair", "server", "overlap", "sweep", "async"}
    if unknown:
        p.error(f"no such part: {', '.join(sorted(unknown))}")
    a.learners = sorted({int(n) for n in a.learners.split(",")})
    return a


def main():
    a = options()
    b = Bench(a)
    if b.n_cores < 2:
        sys.exit("scale.py: one core only: nothing to compare")
    beyond = [n for n in a.learners if n > len(b.cpus)]
    a.learners = [n for n in a.learners if n <= len(b.cpus)]
    if beyond:
        print(f"left out: {beyond} learners, there are {len(b.cpus)} processors")
    torch = b.start_peer() if {"sweep", "async"} & set(a.parts) and not a.no_peer else None
    print(f"{b.n_cores} cores, {len(b.cpus)} processors, {a.rounds} rounds of {a.seconds:g} s in turns"
          + (f", torch {torch}" if torch else ""))
    if os.getloadavg()[0] > 1:
        print(f"the machine is busy (load {os.getloadavg()[0]:.1f}): these figures are of that, too")
    tables = {"pair": PAIR, "server": SERVER, "overlap": OVERLAP, "sweep": SWEEP, "async": ASYNC}
    for part in a.parts:
        if any(row[0].startswith(a.only) for row in tables[part]):
            (b.asynchronous if part == "async" else getattr(b, part))()
    if b.peer:
        b.peer.stdin.close()
        b.peer.wait(60)
    print(f"\n{b.met} of {b.n_goals} goals met")
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"cores": b.n_cores, "processors": len(b.cpus), "rounds": a.rounds, "seconds": a.seconds,
                       "torch": torch, "rows": b.rows}, f, indent=1)
    if a.svg and any(r["part"] == "sweep" for r in b.rows):
        draw([r for r in b.rows if r["part"] == "sweep"], a.learners, a.svg)


main()
