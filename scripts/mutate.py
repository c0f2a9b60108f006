#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py - do the tests of a room notice when its code is wrong?

One small wrong change at a time (mutants.py) is made to a source of the room; its tests, and after them the
others, must fail. A mutant that passes them all within its time has survived: a test is missing, or the
change changes nothing and stands in test/mutants.txt with the reason.

The test named after the source comes first, then those of the room, the fast before the slow. A test is ended
at its first failure. One that runs at several levels of the processor is taken at the best one; where a kernel
was changed, at those levels at which its code is another.

  scripts/mutate.py [--rooms data,net] [--count 40] [--seed 1] [--jobs 2] [--only ID,ID]

The tree is copied to BUILD/tree and built once, at -O1. A mutant is compiled in a worker's own copy of src/ and
linked in front of that library, so nothing is ever written back. A change that does not compile, or gives the
same object file, is no mutant and the next one is taken. Status 1: in some room fewer than 90 % were killed.
"""
import argparse
import ctypes
import json
import multiprocessing
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import mutants

ROOMS = ["ps", "comm", "net", "updater", "layer", "read", "data"]
# Tests of a room by name besides test_<room>_*, and those that use it most. All others follow.
OWN = {
    "ps": r"conform_protocol$|sim_short$",
    "updater": r"conform_(updater|schedule)$",
    "layer": r"conform_(layer|init)$",
    "read": r"conform_reader$",
}
NEAR = {
    "ps": r"test_(run|learners)_",
    "comm": r"test_ps_(threads|slices)$",
    "net": r"test_(run|train|store)_(driver|safetensors)$",
    "read": r"test_(data|file)_",
    "data": r"test_(read|file)_|conform_reader$",
}
MODULES = ["t_mpi.c"]   # not in the library: what links them are modules, which their tests open
SIM_SHORT = ["--seeds", "100", "--events", "10000", "--jobs", "1"]
PASS_SHARE = 0.9
LIMIT_S = 30            # for one mutant
LONGEST_TEST_S = 40     # slower ones are left out
BATCH = 16              # candidates compiled at a time; the choice must not depend on --jobs
MEMORY_BYTES = 16 << 30
FILE_BYTES = 1 << 30


@dataclass
class Test:
    name: str
    command: list
    env: dict
    target: str         # what Ninja builds
    at: int = 0         # where in the command that program stands: at_level comes before it
    level: str = ""     # of the processor; "" = it does not say
    skip_status: int = -1
    link: str = ""      # the command that links it
    parts: set = field(default_factory=set)     # base names of the objects it takes from libraries
    seconds: float = 0
    key: str = ""       # of its time

    @property
    def program(self):
        return self.command[self.at]


def say(text):
    print(text, flush=True)


def die(text):
    sys.exit(f"mutate.py: {text}")


def call(command, **kw):
    return subprocess.run(command, text=True, capture_output=True, **kw)


# ---- the tree and its build ----

def copy_tree(root, to):
    """Makes `to` equal to root's files; what is equal already keeps its time, so little is built again."""
    wanted = set()
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith((".git", "build", "__pycache__")) and
                      not (folder == str(root) and f in ("data", "runs"))]
        for name in files:
            source = Path(folder, name)
            target = to / source.relative_to(root)
            wanted.add(target)
            if target.exists() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for folder, _, files in os.walk(to):
        for name in files:
            if Path(folder, name) not in wanted:
                os.unlink(Path(folder, name))


class Build:
    def __init__(self, root, folder):
        self.folder = folder
        self.tree = folder / "tree"
        self.out = folder / "out"
        copy_tree(root, self.tree)
        self.out.mkdir(parents=True, exist_ok=True)
        flags = ["-DCMAKE_BUILD_TYPE=Mutate", "-DCMAKE_C_FLAGS_MUTATE=-O1 -DNDEBUG"]
        done = call(["cmake", "-G", "Ninja", "-S", str(self.tree), "-B", str(self.out)] + flags)
        if done.returncode:
            die("cmake fails:\n" + done.stderr)
        done = call(["ninja", "-C", str(self.out)] + (["-j", os.environ["JOBS"]] if os.environ.get("JOBS") else []))
        if done.returncode:
            die("the tree does not build:\n" + done.stdout[-4000:])
        self.compile = {}       # object -> command
        for entry in json.loads((self.out / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            self.compile[words[words.index("-o") + 1]] = entry["command"]
        self.users = self.read_deps()
        self.members = {}       # library -> its objects
        self.tests = self.read_tests()
        self.best_level = self.find_best_level()

    def read_deps(self):
        """Source -> the objects made from it."""
        users, obj = {}, None
        for line in call(["ninja", "-C", str(self.out), "-t", "deps"]).stdout.splitlines():
            if line.startswith(" "):
                path = os.path.normpath(os.path.join(self.out, line.strip()))
                users.setdefault(path, []).append(obj)
            elif ":" in line:
                obj = line.split(":")[0]
        return users

    def read_tests(self):
        tests = []
        listing = json.loads(call(["ctest", "--show-only=json-v1"], cwd=self.out).stdout)
        for t in listing["tests"]:
            if not t["name"].startswith(("test_", "conform_", "sim_self_test")):
                continue
            p = {q["name"]: q["value"] for q in t.get("properties", [])}
            env = dict(e.split("=", 1) for e in p.get("ENVIRONMENT", []))
            wrapped = os.path.basename(t["command"][0]) == "at_level"     # LEVEL PROGRAM
            at, level = (2, t["command"][1]) if wrapped else (0, "")
            target = os.path.relpath(t["command"][at], self.out)
            # Tests with plug-ins of their own have some sources a second time.
            if target.startswith("..") or "PASS_REGULAR_EXPRESSION" in p or target.endswith("_extended"):
                continue
            tests.append(Test(t["name"], t["command"], env, target, at, level, p.get("SKIP_RETURN_CODE", -1)))
            if t["name"] == "sim_self_test":
                tests.append(Test("sim_short", t["command"][:1] + SIM_SHORT, env, target, at, level))
        if not tests:
            die("no tests: is cmocka installed?")
        for test in tests:
            self.read_link(test)
        return [t for t in tests if t.link]

    def find_best_level(self):
        """Of this processor; "" where no test asks for one."""
        asked = {t.level: t.command[:2] for t in self.tests if t.level}
        return max((v for v, command in asked.items() if call(command + ["true"]).returncode == 0), default="")

    def read_link(self, test):
        lines = call(["ninja", "-C", str(self.out), "-t", "commands", "-s", test.target]).stdout.splitlines()
        if not lines:
            return
        command = re.sub(r"^: && | && :$", "", lines[-1])
        link_map = self.folder / "link.map"
        done = call(command + f" -Wl,-Map={link_map} -o {self.folder}/link.out", shell=True, cwd=self.out)
        if done.returncode == 0:
            test.link = command
            test.parts = set(re.findall(r"\(([^()\s]+\.o)\)$", link_map.read_text(), re.M))
            for word in command.split():
                if word.endswith(".a") and not word.startswith("/") and word not in self.members:
                    self.members[word] = set(call(["ninja", "-C", str(self.out), "-t", "query", word]).stdout.split())


# ---- running a test ----

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def be_reaper():
    """Orphans of this process's children become its own, so that none can be left behind."""
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(pid):
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def end_all_children():
    while True:
        found = children_of(os.getpid())
        if not found:
            return
        for pid in found:       # grandchildren come to us when their parents are gone
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for pid in found:
            try:
                os.waitpid(pid, 0)
            except ChildProcessError:
                pass


def end_now(*_):
    end_all_children()
    os._exit(1)


def limit_resources():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


FAILED = b"[  FAILED  ]"    # as cmocka writes it, at once


def wait_for(process, log, limit_s):
    """Its status; FAILED as soon as it has said so, None when the time is over."""
    until = time.monotonic() + limit_s
    while True:
        left_s = until - time.monotonic()
        try:
            return process.wait(max(0, min(left_s, 0.1)))
        except subprocess.TimeoutExpired:
            if FAILED in log.read_bytes():
                return FAILED
            if left_s <= 0:
                return None


def run_test(test, program, folder, limit_s):
    """"passed", "failed" or "time", and the seconds it took. Nothing it started is left."""
    work = folder / "run"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    env = dict(os.environ, **test.env, TMPDIR=str(work))
    began = time.monotonic()
    command = test.command[:test.at] + [str(program)] + test.command[test.at + 1:]
    with open(folder / "test.log", "wb") as log:
        p = subprocess.Popen(command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                             start_new_session=True, preexec_fn=limit_resources)
        status = wait_for(p, folder / "test.log", limit_s)
        if status in (FAILED, None):
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
    end_all_children()
    shutil.rmtree(work, ignore_errors=True)
    seconds = time.monotonic() - began
    if status is None:
        return "time", seconds
    return "passed" if status in (0, test.skip_status) else "failed", seconds


def limit_of(test):
    return 3 + 5 * test.seconds     # more than that is a hang


# ---- a worker: one process with its own copy of src/ ----

class Worker:
    build = None
    folder = None

    @classmethod
    def start(cls, build, counter):
        with counter.get_lock():
            counter.value += 1
            number = counter.value
        cls.build = build
        cls.folder = build.folder / f"worker-{number}"
        shutil.rmtree(cls.folder, ignore_errors=True)
        shutil.copytree(build.tree / "src", cls.folder / "src")
        signal.signal(signal.SIGINT, signal.SIG_IGN)    # the parent ends us, also by its own end
        signal.signal(signal.SIGTERM, end_now)
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        be_reaper()


def objects_folder(build, mutant):
    return build.folder / "objects" / mutant.id


def compile_mutant(mutant):
    """Is it one: does it compile, and to something else? Its objects are kept."""
    build, folder = Worker.build, Worker.folder
    tree_src, own_src = f"{build.tree}/src", f"{folder}/src"
    original = Path(tree_src, mutant.path).read_text()
    place = Path(own_src, mutant.path)
    place.write_text(mutant.apply(original))
    keep = objects_folder(build, mutant)
    keep.mkdir(parents=True, exist_ok=True)
    changed = False
    try:
        for i, obj in enumerate(build.users.get(f"{tree_src}/{mutant.path}", [])):
            new = keep / f"{i}.o"
            command = build.compile[obj].replace(tree_src, own_src)
            command += f" -w -ffile-prefix-map={own_src}={tree_src} -o {new}"
            if subprocess.run(command, shell=True, cwd=build.out, capture_output=True).returncode:
                return False
            if new.read_bytes() == (build.out / obj).read_bytes():
                new.unlink()
            else:
                changed = True
                (keep / f"{i}.name").write_text(obj)
        return changed
    finally:
        place.write_text(original)
        if not changed:
            shutil.rmtree(keep, ignore_errors=True)


def link_mutant(test, changed, to):
    """The test with the changed objects, in front of the library that holds the original ones."""
    words = test.link.split()
    for obj, new in changed.items():
        if obj in words:
            words[words.index(obj)] = str(new)
            continue
        for i, word in enumerate(words):
            if obj in Worker.build.members.get(word, ()):
                words.insert(i, str(new))
                break
    words[words.index("-o") + 1] = str(to)
    subprocess.run(" ".join(words), shell=True, cwd=Worker.build.out, check=True, capture_output=True)


@dataclass
class Outcome:
    mutant: object
    end: str            # killed, time, survived
    by: str = ""
    seconds: float = 0
    n_tests: int = 0


def levels_of(objects, best):
    """Levels at which these objects can be wrong. What is no kernel is the same at each."""
    found = [re.search(r"_(v\d)\.dir/", obj) for obj in objects]
    return {m.group(1) if m else best for m in found} | {""}


def judge_mutant(job):
    mutant, tests, limit_s = job
    build, folder = Worker.build, Worker.folder
    began = time.monotonic()
    changed = {n.read_text(): n.with_suffix(".o") for n in objects_folder(build, mutant).glob("*.name")}
    names = {Path(obj).name for obj in changed}
    levels = levels_of(changed, build.best_level)
    program = folder / "program"
    out = Outcome(mutant, "survived")
    for test in tests:
        left_s = limit_s - (time.monotonic() - began)
        if not names & test.parts or test.level not in levels:
            continue
        # One of the room that does not fit in may still fail early.
        if left_s < (1 if is_own(test, mutant.path.split("/")[0]) else 1.1 * test.seconds):
            continue
        link_mutant(test, changed, program)
        test_limit_s = min(limit_of(test), left_s)
        result, seconds = run_test(test, program, folder, test_limit_s)
        out.n_tests += 1
        if result == "time" and test_limit_s < 3 + 1.5 * test.seconds:
            continue    # the mutant's time is over; the test might have passed
        # It counts only if the right program passes now, or does not fail where the wrong one did; where that one
        # hangs it must end in the same time: a busy machine is no bug.
        if result == "passed":
            continue
        right_limit_s = test_limit_s if result == "time" else min(3 + 3 * seconds, limit_of(test))
        right, _ = run_test(test, test.program, folder, right_limit_s)
        if right == "passed" or (right, result) == ("time", "failed"):
            out.end, out.by = ("time" if result == "time" else "killed"), test.name
            break
    out.seconds = time.monotonic() - began
    return out


def time_test(test):
    result, seconds = run_test(test, test.program, Worker.folder, LONGEST_TEST_S)
    return test.name, result, seconds


# ---- rooms ----

def read_list(path):
    """id -> reason. A line that begins with an identity names a mutant, indented lines give the reason."""
    reasons, last = {}, None
    for line in path.read_text().splitlines() if path.exists() else []:
        m = re.match(r"([0-9a-f]{10}) \S", line)
        if m:
            last = m.group(1)
            reasons[last] = ""
        elif last and line.startswith("    why: ") or last and reasons[last] and line.startswith("    "):
            reasons[last] += line.strip() + " "
        elif not line.strip():
            last = None
    for key, reason in reasons.items():
        if not reason:
            die(f"{path}: {key} has no reason (a line `    why: ...`)")
    return reasons


def base_name(test):
    return test.name.split("@")[0]


def say_what_is_gone(root, listed):
    """Records whose line was changed since: their reason may no longer hold."""
    ids = set()
    for room in sorted(p for p in (root / "src").iterdir() if p.is_dir()):
        ids |= {m.id for m in mutants.list_mutants({p.name: p.read_text() for p in room.glob("*.c")})}
    for key in sorted(set(listed) - ids):
        say(f"test/mutants.txt: {key} is listed, but there is no such change any more")


def is_own(test, room):
    return re.match(rf"test_{room}(_|$)|{OWN.get(room, '$^')}", base_name(test)) is not None


def is_named_after(test, path):
    """test_ps_core for ps/core.c, and for ps/core_check.c as well."""
    name = f"test_{path[:-2].replace('/', '_')}"
    return name == base_name(test) or name.startswith(base_name(test) + "_")


def tests_for(build, path):
    """Of a source: named after it, own ones of its room, near ones, then the others, each the fastest first."""
    room = path.split("/")[0]
    near = re.compile(NEAR.get(room, "$^"))
    return sorted(build.tests, key=lambda t: (not is_named_after(t, path), not is_own(t, room),
                                              not near.match(base_name(t)), t.level not in ("", build.best_level),
                                              t.seconds))


def choose(pool, candidates, count):
    """The first `count` candidates that are mutants, at most one of a line."""
    chosen, lines = [], set()
    while candidates and len(chosen) < count:
        batch, later, batch_lines = [], [], set()
        for m in candidates:
            place = (m.path, m.line)
            if place in lines:
                continue
            if place in batch_lines or len(batch) == BATCH:
                later.append(m)
            else:
                batch.append(m)
                batch_lines.add(place)
        good = [m for m, is_one in zip(batch, pool.map(compile_mutant, batch, chunksize=1)) if is_one]
        lines.update((m.path, m.line) for m in good)
        chosen += good
        candidates = later
    return chosen[:count]


def show(room, outcome):
    m = outcome.mutant
    say(f"  {m.id} src/{m.path}:{m.line} {m.function}(): {m.kind}, {outcome.n_tests} tests in {outcome.seconds:.0f} s\n"
        f"      - {m.before}\n      + {m.after}")


def run_room(pool, build, room, listed, args):
    folder = build.tree / "src" / room
    sources = {f"{room}/{p.name}": p.read_text() for p in folder.glob("*.c") if p.name not in MODULES}
    if not sources:
        die(f"no room `{room}`: there is no src/{room}/*.c")
    everything = mutants.list_mutants(sources)
    if args.only:
        wanted = args.only.split(",")
        chosen = [m for m in everything if m.id in wanted and pool.apply(compile_mutant, (m,))]
    else:
        chosen = choose(pool, mutants.pick(everything, args.seed), args.count)
    tests = {path: tests_for(build, path) for path in sources}
    say(f"\n{room}: {len(chosen)} of {len(everything)} possible mutants, seed {args.seed}")
    left_out = [m for m in chosen if m.id in listed and not args.only]
    work = [(m, tests[m.path], args.limit) for m in chosen if m not in left_out]
    outcomes = []
    for outcome in pool.imap_unordered(judge_mutant, work):
        outcomes.append(outcome)
        m = outcome.mutant
        if args.verbose:
            say(f"  {outcome.end:8} {m.id} {m.path}:{m.line} {outcome.by} ({outcome.n_tests} tests, "
                f"{outcome.seconds:.1f} s)")
    for outcome in sorted(outcomes, key=lambda o: (o.mutant.path, o.mutant.line)):
        if outcome.end == "survived":
            show(room, outcome)
    ends = [o.end for o in outcomes]
    return {"room": room, "mutants": len(chosen), "killed": ends.count("killed"), "time": ends.count("time"),
            "listed": len(left_out), "survived": ends.count("survived")}


def summary(rows):
    say(f"\n{'room':10}{'mutants':>8}{'killed':>8}{'by time':>8}{'listed':>8}{'survived':>9}{'share':>8}")
    bad = False
    for r in rows:
        real = r["mutants"] - r["listed"]
        share = (r["killed"] + r["time"]) / real if real else 1
        bad = bad or share < PASS_SHARE
        say(f"{r['room']:10}{r['mutants']:8}{r['killed']:8}{r['time']:8}{r['listed']:8}{r['survived']:9}{share:8.1%}"
            + ("  below 90 %" if share < PASS_SHARE else ""))
    return 1 if bad else 0


def time_tests(pool, build):
    """How long each takes; those that fail as they are, or take long, are left out. What was built no later is
    not timed again."""
    path = build.folder / "times.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for t in build.tests:
        t.key = f"{t.name} {os.stat(t.program).st_mtime_ns}"
        t.seconds = known.get(t.key, 0)
    by_name = {t.name: t for t in build.tests}
    timed = [t for t in build.tests if t.level in ("", build.best_level)]
    for name, result, seconds in pool.imap_unordered(time_test, [t for t in timed if not t.seconds]):
        by_name[name].seconds = seconds
        if result == "time" and any(is_own(by_name[name], room) for room in ROOMS):
            say(f"slow: {name} (only its first {LIMIT_S} s are seen)")
        elif result != "passed":
            say(f"left out: {name} ({'takes too long' if result == 'time' else 'fails without a change'})")
            build.tests.remove(by_name[name])
    kept = {base_name(t): t.seconds for t in build.tests if t.seconds}
    for t in build.tests:   # other levels are not much slower
        t.seconds = t.seconds or kept.get(base_name(t), 0)
    build.tests = [t for t in build.tests if t.seconds]
    path.write_text(json.dumps({t.key: t.seconds for t in build.tests}))


def main():
    home = Path(__file__).resolve().parent.parent
    p = argparse.ArgumentParser(description="do the tests notice wrong code?")
    p.add_argument("--root", type=Path, default=home, help="the tree")
    p.add_argument("--build", type=Path, default=None, help="work folder, default ROOT/build-mutate")
    p.add_argument("--rooms", default="", help="folders of src/, default: " + " ".join(ROOMS))
    p.add_argument("--count", type=int, default=40, help="mutants of each room")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--limit", type=float, default=LIMIT_S, help="seconds for one mutant")
    p.add_argument("--only", default="", help="these identities, listed or not, picked or not")
    p.add_argument("--verbose", action="store_true", help="a line for each mutant")
    args = p.parse_args()
    rooms = re.split(r"[ ,]+", args.rooms.strip()) if args.rooms.strip() else ROOMS
    root = args.root.resolve()
    folder = (args.build or root / "build-mutate").resolve()
    listed = read_list(root / "test" / "mutants.txt")
    say_what_is_gone(root, listed)
    build = Build(root, folder)
    shutil.rmtree(folder / "objects", ignore_errors=True)
    with multiprocessing.Pool(args.jobs, Worker.start, (build, multiprocessing.Value("i", 0))) as pool:
        time_tests(pool, build)
        rows = [run_room(pool, build, room, listed, args) for room in rooms]
        pool.close()    # without it workers are ended by a signal, and one that is about to wait misses it
        pool.join()
    return summary(rows)


if __name__ == "__main__":
    sys.exit(main())
