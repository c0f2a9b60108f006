# SPDX-License-Identifier: Apache-2.0
"""The peer of several learners: PyTorch's Hogwild, as its own example does it.

One net in shared memory, a process for each core, pinned, one thread each; every process has its own optimizer
and its own gradients and writes the shared weights without locks. Nets and tuning are those of peer_torch.py.

Reads lines "workload batch seconds cores" (cores as 0,1,2) on stdin and answers each with one line of JSON: the
samples/s of all processes together, between two moments when all of them are training. Started by scale.py.
"""
import json
import os
import sys
import time

import torch
import torch.multiprocessing as mp
import torch.nn as nn

from peer_torch import NETS

torch.set_num_threads(1)
WAIT_S = 60


def learn(net, shape, classes, batch, seconds, core, index, start, results):
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    torch.manual_seed(index)
    opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)
    x, y = torch.randn(batch, *shape), torch.randint(0, classes, (batch,))
    loss = nn.CrossEntropyLoss()

    def steps_until(end):
        n = 0
        while True:
            opt.zero_grad(set_to_none=True)
            loss(net(x), y).backward()
            opt.step()
            n += 1
            if time.monotonic() >= end:
                return n

    steps_until(0)
    start.wait(WAIT_S)
    begin = time.monotonic()
    steps_until(begin + 0.2 * seconds)              # warm caches, and all of them at work
    first = time.monotonic()
    n = steps_until(begin + seconds)
    spent = time.monotonic() - first
    steps_until(begin + 1.05 * seconds)             # nobody measures while others have gone home
    results.put(batch * n / spent)


def measure(name, batch, seconds, cores):
    net, shape, classes = NETS[name]()
    net.share_memory()
    context = mp.get_context("fork")
    start, results = context.Barrier(len(cores)), context.SimpleQueue()
    common = (net, shape, classes, batch, seconds)
    learners = [context.Process(target=learn, args=common + (core, i, start, results), daemon=True)
                for i, core in enumerate(cores)]
    for p in learners:
        p.start()
    deadline = time.monotonic() + WAIT_S + 3 * seconds
    for p in learners:
        p.join(max(0.1, deadline - time.monotonic()))
    failed = [p for p in learners if p.exitcode != 0]
    for p in failed:
        if p.is_alive():
            p.kill()
            p.join()
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(cores)} processes failed")
    return sum(results.get() for _ in cores)


def main():
    torch.manual_seed(1)
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        name, batch, seconds, cores = line.split()
        try:
            speed = measure(name, int(batch), float(seconds), [int(c) for c in cores.split(",")])
            print(json.dumps({"samples_per_s": speed}), flush=True)
        except Exception as e:
            print(json.dumps({"error": str(e)}), flush=True)


if __name__ == "__main__":
    main()
