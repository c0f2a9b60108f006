# SPDX-License-Identifier: Apache-2.0
"""make bench-hosts: what several hosts give, and what goes over the wire between them.

Hosts are network namespaces of this machine with cables between them (test/hosts/hosts.sh), made as root. Rank r, its
parent, learners and evaluator have one hardware thread, number r modulo those there are. One host is `muster train`
without mpirun on the first one. Everything is measured in rounds, in turns; a ratio is the median of the rounds'
ratios (min and max are shown). Speeds are of the time after a run's start, from its metrics; a batch is that of one
learner; data are made up in memory. Beside every figure stand the rate and the round trip of the links, measured in
the same round, and `busy`, the share of the processors that others took right before: medians. A busy machine slows one
host, which never waits, more than two, which do: where others take over a tenth, no goal of a speed is judged.

Parts: speed     two hosts at 1 Gb/s, hardsync, over one host, and over PyTorch's DistributedDataParallel on the same two
       wire      bytes that rank 0 sends for a step: those of two lengths of run, subtracted. Sums of dense gradients
                 against 2 P (n - 1) / n floats, factors against dense ones; `cable` is what left its host, with all heads
       slow      four hosts with links of 20 Mb/s and 50 ms: hardsync over all ranks against server groups, one per rank
       overlap   four hosts at 1 Gb/s, softsync (n = 1) by base, adv and adv*, learners on each: computing over computing
                 and waiting (docs/cluster.md) of the learners of all ranks, in the window of the speed
       accuracy  of `slow`, LeNet on Fashion-MNIST after the same samples (minutes; links without a limit)

--here has all ranks on this host, without links and without root: a trial, whose speeds say nothing.
Status 77: what is needed is not here, as the last line says.
"""
import argparse
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURE = os.path.join(HERE, "..", "test", "hosts")
WARM_UP = 0.3           # of the seconds of a measurement, before it
RECORDS = 60000
START_S = 60            # what a start may take
BUSY_S = 0.25           # of looking at the processors
BUSY_MOST = 0.1
TRIES = 3               # of a measurement that had too few steps
#         workload       batch   goals: over one host, over the peer
SPEED = [("mlp",          1,     1.5, 1.2),
         ("cifar10_full", 16,    1.85, 1.2)]
#        workload       batch
WIRE = [("mlp",          1),
        ("cifar10_full", 16),
        ("lenet",        16)]
WIRE_RANKS = (2, 4)
WIRE_GOAL = 1.05        # dense sums over 2 P (n - 1) / n floats
FACTORS_GOAL = 100.0    # of the workloads in FACTORS, dense over by factors
FACTORS = ("mlp",)
#        workload       batch   goal: the best setting over hardsync
SLOW = [("cifar10_full", 16,    10.0),
        ("lenet",        16,    10.0)]
#            workload       batch   more keys                 goals of adv, adv*
OVERLAP = [("cifar10_full", 16,    (),                       (0.90, 0.99)),
           ("lenet",        64,    (),                       (0.90, 0.99)),
           ("mlp",          4,     ("gradients=dense",),     (None, None))]       # Rudra's hard case
WAYS = ("base", "adv", "adv*")
SLOW_LINKS = ("20mbit", "50ms")
MERGES, EVERY = ("average", "outer"), (10, 50, 200)
ACCURACY_GOAL = 0.7     # points behind hardsync, of the best merge with each interval
ACCURACY_JOB = os.path.join(HERE, "..", "examples", "lenet-fashion.yaml")
PARTS = ("speed", "wire", "slow", "overlap", "accuracy")
DENSE = ("cluster.gradients=dense",)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def median(values):
    return statistics.median(values) if values else float("nan")


def busy():
    """Share of the processors that is taken now; nothing of ours runs."""
    def times():
        with open("/proc/stat") as f:
            t = [int(v) for v in f.readline().split()[1:]]
        return sum(t), t[3] + t[4]                  # idle, and waiting for disks

    all_0, idle_0 = times()
    time.sleep(BUSY_S)
    all_1, idle_1 = times()
    return 1 - (idle_1 - idle_0) / max(1, all_1 - all_0)


def spread(ratios):
    return f"{median(ratios):6.2f}x {min(ratios):6.2f}-{max(ratios):<6.2f}"


# ---- hosts ----

class Here:
    """All ranks on this host."""
    names, note = (), "ranks on this host, no links: these speeds say nothing"
    mpi = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp",
           "--mca", "btl_tcp_if_include", "lo", "--mca", "mpi_yield_when_idle", "1"]

    def proof(self):
        return float("nan"), float("nan"), busy()

    def sent(self):
        return 0

    def close(self):
        pass


class Hosts:
    """n hosts with cables. A shell holds them: it makes them, proves them when asked to, and takes them down."""
    SHELL = """
        dir=$1 MUSTER=$2; source "$3"; shift 3; trap hosts_down EXIT
        hosts_up "$@"
        printf '%s\\n' "${#hosts_mpi[@]}" "${hosts_mpi[@]}" "${hosts[@]}" ""
        while read -r _; do hosts_proof; done
        """

    def __init__(self, n, rate, latency, muster, bench):
        self.dir = tempfile.TemporaryDirectory(prefix="muster-hosts-")
        words = [str(n), rate] + ([latency] if latency else [])
        self.shell = subprocess.Popen(["bash", "-c", self.SHELL, "hosts.py", self.dir.name, os.path.abspath(muster),
                                       os.path.join(FIXTURE, "hosts.sh")] + words,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        count = self.line()
        self.mpi = [self.line() for _ in range(int(count))] + bench.a.mpi.split()
        # As mpirun starts ranks that have a host each: one that yields while its learner computes gets its core back
        # a slice later, which is milliseconds.
        i = self.mpi.index("mpi_yield_when_idle")
        del self.mpi[i - 1:i + 2]
        self.names = [name for name in iter(self.line, "")]
        self.note = None

    def line(self):
        line = self.shell.stdout.readline()
        if line.startswith("skipped: "):
            skip(line[9:].strip())
        if not line:
            sys.exit("hosts.py: the hosts are gone")
        return line.rstrip("\n")

    def on(self, number, words):
        """The words that run others on host number, from 1."""
        return [os.path.join(FIXTURE, "on.sh"), self.names[number]] + words

    def proof(self):
        """Mb/s of the slowest link, the shortest round trip in ms, and how busy others are, measured now."""
        taken = busy()
        self.shell.stdin.write("proof\n")
        self.shell.stdin.flush()
        m = re.search(r"measured: (\d+) to .* round trip ([0-9.]+) to", self.line())
        return float(m[1]), float(m[2]), taken

    def sent(self):
        """Bytes that have left the host of rank 0."""
        out = subprocess.run(["ip", "-n", self.names[1], "-s", "-j", "link", "show", "eth0"], capture_output=True, text=True)
        return json.loads(out.stdout)[0]["stats64"]["tx"]["bytes"]

    def close(self):
        self.shell.stdin.close()
        self.shell.wait(60)
        self.dir.cleanup()


# ---- one training ----

def of_window(lines, seconds):
    """The metrics to measure between: behind the warm-up; where groups merge, each right behind a merge."""
    lines = [m for m in lines[:-1] if "train_loss" in m]            # the last one is of the end
    if any("server_groups" in m for m in lines):
        merges = [sum(m["server_groups"]["merges"]) for m in lines]
        return [m for m, now, before in zip(lines[1:], merges[1:], merges) if now > before]
    return [m for m in lines if m["wall_s"] > WARM_UP * seconds]


def parameters(path):
    """Floats of a model."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    size = 0
    for name, tensor in head.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            size += (end - begin) // 4
    return size


class Bench:
    def __init__(self, a):
        self.a, self.rows, self.met, self.n_goals, self.peers, self.torch = a, [], 0, 0, [], None
        self.cpus = sorted(os.sched_getaffinity(0))

    def hosts(self, n, rate, latency=None):
        return Here() if self.a.here else Hosts(n, rate, latency, self.a.muster, self)

    def cpu(self, rank):
        return self.cpus[rank % len(self.cpus)]

    def run(self, hosts, ranks, words, limit_s):
        """The result of a training: its JSON, its metrics and the floats of its model. ranks 0: without mpirun."""
        env = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   MUSTER_RANK_TIMEOUT="20")    # a busy machine starves ranks
        cases = " ".join(f"{i}) cpu={cpu};;" for i, cpu in enumerate(self.cpus))
        pinned = ["sh", "-c", f'case $((${{OMPI_COMM_WORLD_RANK:-0}} % {len(self.cpus)})) in {cases} esac; '
                  'exec taskset -c "$cpu" "$@"', "hosts.py"]
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
            out = os.path.join(folder, "run")
            words = [os.path.abspath(self.a.muster), "train"] + words + ["--json", "--quiet", "--out", out]
            launch = hosts.mpi + ["-n", str(ranks)] if ranks else []
            try:
                done = subprocess.run(launch + pinned + words, capture_output=True, text=True, timeout=limit_s, env=env)
            except subprocess.TimeoutExpired:
                sys.exit(f"hosts.py: no end within {limit_s:g} s: {' '.join(words)}")
            if done.returncode == 4:
                return None, [], 0
            if done.returncode:
                sys.exit(f"hosts.py: {' '.join(launch + words)}\n{done.stderr}")
            with open(os.path.join(out, "metrics.jsonl")) as f:
                lines = [json.loads(line) for line in f]
            return json.loads(done.stdout), lines, parameters(os.path.join(out, "model.safetensors"))

    def words(self, name, batch, learners, sets):
        words = [os.path.join(HERE, "jobs", name + ".yaml"), "--batch-size", str(batch), "--learners", str(learners)]
        for s in ("train.epochs=0", "log.every=0.1s", "log.tensorboard=false", "checkpoint.every=never",
                  "cluster.warm_start=never", f"data.train.records={RECORDS}") + tuple(sets):
            words += ["--set", s]
        return words

    def speed_of(self, hosts, ranks, name, batch, sets=(), seconds=None, learners=None):
        """Samples/s, and bytes that rank 0 sent for a sample of all ranks."""
        return self.window_of(hosts, ranks, name, batch, sets, seconds, learners)[:2]

    def window_of(self, hosts, ranks, name, batch, sets=(), seconds=None, learners=None):
        """The same, with the metrics of the window and the result."""
        seconds = seconds or self.a.seconds
        words = self.words(name, batch, learners or max(1, ranks), sets) + ["--deadline", f"{seconds * (1 + WARM_UP):g}s"]
        for _ in range(TRIES):
            result, lines, _ = self.run(hosts, ranks, words, START_S + 10 * seconds)
            if not result:
                sys.exit(f"hosts.py: {name} batch {batch} diverged: {' '.join(words)}")
            window = of_window(lines, seconds)
            if len(window) > 1:
                break
            print(f"{name} batch {batch} {' '.join(sets)}: too few steps in {seconds:g} s", file=sys.stderr)
        else:
            sys.exit("hosts.py: raise --seconds")
        samples = RECORDS * (window[-1]["epoch"] - window[0]["epoch"])
        speed = samples / (window[-1]["wall_s"] - window[0]["wall_s"])
        return speed, result["wire_bytes_sent"] / max(1, result["samples"]), window, result

    # ---- the peer ----

    def start_peers(self, hosts):
        env = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MALLOC_MMAP_THRESHOLD_="2000000000",
                   MALLOC_TRIM_THRESHOLD_="2000000000", MALLOC_TOP_PAD_="500000000", GLOO_SOCKET_IFNAME="eth0")
        for rank in (0, 1):
            words = ["taskset", "-c", str(self.cpu(rank)), self.a.python, os.path.join(HERE, "peer_ddp.py"), str(rank), "2",
                     hosts.names[1], "29500"]
            self.peers.append(subprocess.Popen(hosts.on(rank + 1, words), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                               text=True, env=env))
        self.torch = self.answer("did not start; install python3-torch, or give --python or --no-peer")["torch"]
        print(f"peer: torch {self.torch}, DistributedDataParallel over gloo")

    def answer(self, why):
        line = self.peers[0].stdout.readline()
        if not line:
            sys.exit(f"hosts.py: PyTorch {why}")
        return json.loads(line)

    def ask_peers(self, name, batch):
        if not self.peers:
            return float("nan")
        for p in self.peers:
            p.stdin.write(f"{name} {batch} {self.a.seconds}\n")
            p.stdin.flush()
        return self.answer("died")["samples_per_s"]

    def stop_peers(self):
        for p in self.peers:
            p.stdin.close()
        for p in self.peers:
            p.wait(60)
        self.peers = []

    # ---- telling ----

    def judge(self, value, goal, proofs=None):
        """proofs: of a speed, which depends on links, and on who else is there."""
        if goal is None or value != value or (proofs and self.a.here):
            return ""
        if proofs and median([p[2] for p in proofs]) > BUSY_MOST:
            return "busy"
        self.n_goals += 1
        self.met += value >= goal
        return "met" if value >= goal else "MISSED"

    def add(self, **row):
        if self.a.here:
            row.pop("links", None)
        self.rows.append(dict(row, load=os.getloadavg()[0]))

    def wanted(self, table):
        return [row for row in table if row[0].startswith(self.a.only)]

    def links(self, proofs):
        rate, trip, taken = (median([p[k] for p in proofs]) for k in range(3))
        return (f"{rate:6.0f} {trip:7.2f}" if rate == rate else f"{'-':>6} {'-':>7}") + f" {100 * taken:4.0f}%"

    # ---- parts ----

    def speed(self):
        table = self.wanted(SPEED)
        hosts = self.hosts(2, "1gbit")
        if not self.a.no_peer and not self.a.here:
            self.start_peers(hosts)
        print(f"\nsamples/s of two hosts with a core each, hardsync, over one host with one core{self.of_here(hosts)}")
        print(f"{'workload':13} {'batch':>5} {'one host':>9} {'two hosts':>9} {'ratio':>7} {'min-max':>13} {'goal':>6}"
              f"{'':7} {'DDP':>8} {'ratio':>7} {'min-max':>13} {'goal':>6}{'':7} {'Mb/s':>6} {'trip ms':>7} {'busy':>5}")
        got = {row: [] for row in table}
        for _ in range(self.a.rounds):
            for row, rounds in got.items():
                name, batch = row[:2]
                rounds.append((hosts.proof(), self.speed_of(hosts, 0, name, batch)[0],
                               self.speed_of(hosts, 2, name, batch)[0], self.ask_peers(name, batch)))
                print(f"  {name} {batch}: " + " ".join(f"{v:.0f}" for v in rounds[-1][1:])
                      + f", busy {100 * rounds[-1][0][2]:.0f}%", file=sys.stderr, flush=True)
        for (name, batch, own_goal, peer_goal), rounds in got.items():
            proofs, one, two, peer = zip(*rounds)
            own = [t / o for t, o in zip(two, one)]
            over = [t / p for t, p in zip(two, peer)]
            self.add(part="speed", workload=name, batch=batch, one=one, two=two, peer=peer, links=proofs)
            print(f"{name:13} {batch:5} {median(one):9.0f} {median(two):9.0f} {spread(own)} {own_goal:5.2f}x"
                  f" {self.judge(median(own), own_goal, proofs):6} {median(peer):8.0f} {spread(over)} {peer_goal:5.2f}x"
                  f" {self.judge(median(over), peer_goal, proofs):6} {self.links(proofs)}", flush=True)
        self.stop_peers()
        hosts.close()

    def of_here(self, hosts):
        return f" ({hosts.note})" if hosts.note else ""

    def step_bytes(self, hosts, ranks, name, batch, sets):
        """Bytes of a step that rank 0 sent, those that left its host, and the floats of the net."""
        counts = []
        for steps in self.a.steps:
            before = hosts.sent()
            words = self.words(name, batch, ranks, sets) + ["--steps", str(steps)]
            result, _, floats = self.run(hosts, ranks, words, START_S + 10 * self.a.seconds + steps)
            if not result:
                sys.exit(f"hosts.py: {name} batch {batch} diverged")
            counts.append((result["wire_bytes_sent"], hosts.sent() - before))
        short, long = self.a.steps
        wire, cable = ((b - a) / (long - short) for a, b in zip(*counts))
        return wire, cable, floats

    def wire(self):
        print("\nbytes that rank 0 sends for a step; sums: 2 P (n - 1) / n floats of P")
        print(f"{'workload':13} {'batch':>5} {'ranks':>5} {'sums KB':>9} {'dense KB':>9} {'of sums':>8} {'goal':>6}{'':7}"
              f" {'cable KB':>9} {'as chosen KB':>12} {'fewer':>8} {'goal':>6}{'':7} {'Mb/s':>6} {'trip ms':>7} {'busy':>5}")
        for ranks in self.a.ranks:
            hosts = self.hosts(ranks, "1gbit")
            for name, batch in self.wanted(WIRE):
                proofs = [hosts.proof()]
                dense, cable, floats = self.step_bytes(hosts, ranks, name, batch, DENSE)
                chosen, _, _ = self.step_bytes(hosts, ranks, name, batch, ())
                sums = 4 * 2 * floats * (ranks - 1) / ranks
                goal = FACTORS_GOAL if name in FACTORS else None
                self.add(part="wire", workload=name, batch=batch, ranks=ranks, floats=floats, sums=sums, dense=dense,
                         cable=cable, chosen=chosen, links=proofs)
                print(f"{name:13} {batch:5} {ranks:5} {1e-3 * sums:9.1f} {1e-3 * dense:9.1f} {dense / sums:7.3f}x"
                      f" {WIRE_GOAL:5.2f}x {self.judge(-dense / sums, -WIRE_GOAL):6} {1e-3 * cable:9.1f}"
                      f" {1e-3 * chosen:12.1f} {dense / chosen:7.1f}x {f'{goal:.0f}x' if goal else '':>6}"
                      f" {self.judge(dense / chosen, goal):6} {self.links(proofs)}", flush=True)
            hosts.close()

    def settings(self):
        """What is compared: (merge, interval, its keys); hardsync is (None, 0, ())."""
        groups = f"cluster.server_groups={self.a.slow_hosts}"
        return [(None, 0, ())] + [(merge, every, (groups, f"cluster.merge={merge}", f"cluster.sync_every={every}"))
                                  for merge in MERGES for every in self.a.every]

    def slow(self):
        n = self.a.slow_hosts
        hosts = self.hosts(n, *SLOW_LINKS)
        print(f"\n{n} hosts with links of {' and '.join(SLOW_LINKS)}: server groups, one per host, over hardsync on all"
              f"{self.of_here(hosts)}")
        print(f"{'workload':13} {'batch':>5} {'merge':9} {'every':>5} {'samples/s':>9} {'ratio':>7} {'min-max':>13}"
              f" {'KB/sample':>9} {'fewer':>7} {'goal':>6}{'':7} {'Mb/s':>6} {'trip ms':>7} {'busy':>5}")
        for name, batch, goal in self.wanted(SLOW):
            got = {setting: [] for setting in self.settings()}
            proofs = []
            for _ in range(self.a.rounds):
                proofs.append(hosts.proof())
                for setting, rounds in got.items():
                    seconds = self.a.slow_seconds * (1 + (setting[1] >= 200))   # some merges in each
                    rounds.append(self.speed_of(hosts, n, name, batch, setting[2], seconds))
            base = got[None, 0, ()]
            ratios = {s: [r[0] / b[0] for r, b in zip(rounds, base)] for s, rounds in got.items()}
            best = max(ratios, key=lambda s: median(ratios[s]))
            for setting, rounds in got.items():
                merge, every, _ = setting
                speed, size = median([r[0] for r in rounds]), median([r[1] for r in rounds])
                self.add(part="slow", workload=name, batch=batch, merge=merge, every=every, speed=[r[0] for r in rounds],
                         bytes=[r[1] for r in rounds], ratio=ratios[setting], links=proofs)
                judged = self.judge(median(ratios[setting]), goal, proofs) if setting == best else ""
                verdict = f" {goal:5.1f}x {judged:6}" if setting == best else " " * 14
                print(f"{name:13} {batch:5} {merge or 'hardsync':9} {every or '':5} {speed:9.0f} {spread(ratios[setting])}"
                      f" {1e-3 * size:9.3f} {median([b[1] for b in base]) / size:6.1f}x{verdict} {self.links(proofs)}",
                      flush=True)
        hosts.close()

    def overlap_of(self, hosts, name, batch, sets):
        """Overlap of all ranks, of the lowest one, samples/s, mean staleness, bytes of rank 0 for a sample."""
        n = self.a.overlap_hosts
        speed, size, window, result = self.window_of(hosts, n, name, batch, sets, None, n * self.a.overlap_learners)
        compute, wait = ([sum(m["rank_times"][key][r] for m in window[1:]) for r in range(n)] for key in ("compute_s", "wait_s"))
        each = [c / (c + w) if c + w > 0 else 0.0 for c, w in zip(compute, wait)]
        return sum(compute) / max(1e-9, sum(compute) + sum(wait)), min(each), speed, result["staleness"]["mean"], size

    def overlap(self):
        n = self.a.overlap_hosts
        hosts = self.hosts(n, "1gbit")
        print(f"\n{n} hosts with links of 1gbit, {self.a.overlap_learners} learners on each, softsync: communication overlap"
              f"{self.of_here(hosts)}")
        print(f"{'workload':13} {'batch':>5} {'way':5} {'overlap':>8} {'lowest':>7} {'goal':>5}{'':7} {'samples/s':>9}"
              f" {'staleness':>9} {'KB/sample':>9} {'Mb/s':>6} {'trip ms':>7} {'busy':>5}")
        for name, batch, keys, goals in self.wanted(OVERLAP):
            got, proofs = {way: [] for way in WAYS}, []
            for _ in range(self.a.rounds):
                proofs.append(hosts.proof())
                for way, rounds in got.items():
                    sets = ("cluster.protocol=softsync", f"cluster.architecture={way}") + tuple(f"cluster.{k}" for k in keys)
                    rounds.append(self.overlap_of(hosts, name, batch, sets))
            for (way, rounds), goal in zip(got.items(), (None,) + goals):
                share, lowest, speed, stale, size = ([r[k] for r in rounds] for k in range(5))
                self.add(part="overlap", workload=name, batch=batch, way=way, keys=keys, overlap=share, lowest=lowest,
                         speed=speed, staleness=stale, bytes=size, links=proofs)
                print(f"{name:13} {batch:5} {way:5} {100 * median(share):7.1f}% {100 * median(lowest):6.1f}%"
                      f" {f'{100 * goal:.0f}%' if goal else '':>5} {self.judge(median(share), goal, proofs):6} {median(speed):9.0f}"
                      f" {median(stale):9.2f} {1e-3 * median(size):9.3f} {self.links(proofs)}", flush=True)
        hosts.close()

    def accuracy(self):
        """The links do not change what is computed, so there is no limit to their rate."""
        n = self.a.slow_hosts
        hosts = self.hosts(n, "none")
        print(f"\ntest accuracy in percent, {os.path.basename(ACCURACY_JOB)} on {n} ranks, the same samples")
        print(f"{'merge':9} {'every':>5} {'accuracy':>9} {'behind':>7} {'MB sent':>8} {'seconds':>7}", flush=True)
        base, behind = None, {}
        for merge, every, sets in self.settings():
            words = [ACCURACY_JOB, "--learners", str(n), "--set", "log.tensorboard=false", "--set", "checkpoint.every=never"]
            words += ["--epochs", str(self.a.epochs)] if self.a.epochs else []
            for s in sets:
                words += ["--set", s]
            result, _, _ = self.run(hosts, n, words, 3600)
            score, sent, wall = ((100 * result["test_accuracy"], 1e-6 * result["wire_bytes_sent"], result["wall_s"]) if result
                                 else (float("nan"),) * 3)
            base = score if base is None else base
            if merge and result:
                behind.setdefault(every, []).append((base - score, merge))
            self.add(part="accuracy", merge=merge, every=every, accuracy=score if result else None, sent_mb=sent, wall_s=wall)
            print(f"{merge or 'hardsync':9} {every or '':5} {f'{score:.2f}' if result else 'diverged':>9} {base - score:7.2f}"
                  f" {sent:8.1f} {wall:7.0f}", flush=True)
        for every, scores in behind.items():
            points, merge = min(scores)
            print(f"every {every}: {merge} is {points:.2f} points behind hardsync; goal {ACCURACY_GOAL} "
                  f"{self.judge(-points, -ACCURACY_GOAL)}")
        hosts.close()


def numbers(text):
    return sorted({int(n) for n in text.split(",")})


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--muster", default="build/muster", help="the program")
    p.add_argument("--python", default=sys.executable, help="a Python that has PyTorch, for the peer")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=3.0, help="per measurement of `speed` and `overlap`")
    p.add_argument("--slow-seconds", type=float, default=15.0, help="per measurement of `slow`; twice that from 200 on")
    p.add_argument("--slow-hosts", type=int, default=4, help="hosts of `slow` and `accuracy`")
    p.add_argument("--overlap-hosts", type=int, default=4, help="hosts of `overlap`")
    p.add_argument("--overlap-learners", type=int, default=2, help="learners on each of them; they share its core")
    p.add_argument("--every", type=numbers, default=EVERY, help="intervals of `slow` and `accuracy`, e.g. 10,50,200")
    p.add_argument("--steps", type=numbers, default=(10, 40), help="the two lengths of run of `wire`, e.g. 10,40")
    p.add_argument("--ranks", type=numbers, default=WIRE_RANKS, help="of `wire`, e.g. 2,4")
    p.add_argument("--epochs", type=int, help="of `accuracy`, other than the job's")
    p.add_argument("--parts", default="speed,wire,slow", help=f"some of {', '.join(PARTS)}")
    p.add_argument("--only", default="", help="workloads whose name begins so, e.g. mlp")
    p.add_argument("--mpi", default="", help="more words for mpirun")
    p.add_argument("--no-peer", action="store_true", help="leave PyTorch out")
    p.add_argument("--here", action="store_true", help="all ranks on this host: a trial, needs no root")
    p.add_argument("--json", metavar="FILE", help="write every measurement there")
    a = p.parse_args()
    a.parts = a.parts.split(",")
    unknown = set(a.parts) - set(PARTS)
    if unknown:
        p.error(f"no such part: {', '.join(sorted(unknown))}")
    if len(a.steps) != 2:
        p.error("--steps takes two lengths of run")
    return a


def main():
    a = options()
    if subprocess.run(["sh", "-c", "command -v mpirun"], capture_output=True).returncode:
        skip("needs mpirun (openmpi-bin)")
    if not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(a.muster)), "libmuster-mpi.so")):
        skip("Muster was built without MPI (libopenmpi-dev)")
    b = Bench(a)
    print(f"{len(b.cpus)} processors, {a.rounds} rounds in turns, load {' '.join(f'{v:.1f}' for v in os.getloadavg())}")
    for part in a.parts:
        getattr(b, part)()
    print(f"\n{b.met} of {b.n_goals} goals met; load {' '.join(f'{v:.1f}' for v in os.getloadavg())}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"processors": len(b.cpus), "rounds": a.rounds, "torch": b.torch, "rows": b.rows}, f, indent=1)


main()
