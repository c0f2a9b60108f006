# SPDX-License-Identifier: Apache-2.0
"""The peer of several hosts: PyTorch's DistributedDataParallel over gloo, a process on each host, one thread each.

    peer_ddp.py RANK RANKS ADDRESS PORT         ADDRESS: of the host of rank 0

Nets and tuning are those of peer_torch.py; gradients live in the buckets that travel. Buckets of two sizes are tried
before the first measurement of a workload: the usual ones, and small ones, which leave while layers below are computed;
the faster ones stay.

Reads lines "workload batch seconds" on stdin, the same ones on all ranks. Rank 0 answers each with one line of JSON: the
samples/s of all ranks together, over steps that all make. Started by hosts.py.
"""
import datetime
import json
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel

from peer_torch import NETS

torch.set_num_threads(1)
BUCKETS_MB = (25, 0.1)
LIMIT_S = 120
ready = {}                  # (workload, batch): its step


def step_of(name, batch, bucket_mb):
    """One training step as a function. All ranks begin with the same net and have samples of their own."""
    torch.manual_seed(1)
    net, shape, classes = NETS[name]()
    dist._DEFAULT_FIRST_BUCKET_BYTES = int(min(1, bucket_mb) * (1 << 20))
    net = DistributedDataParallel(net, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
    torch.manual_seed(dist.get_rank())
    opt = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)
    x, y, loss = torch.randn(batch, *shape), torch.randint(0, classes, (batch,)), nn.CrossEntropyLoss()

    def step():
        opt.zero_grad(set_to_none=True)
        loss(net(x), y).backward()
        opt.step()

    return step


def agreed(value):
    """What rank 0 has."""
    t = torch.tensor([float(value)], dtype=torch.float64)
    dist.broadcast(t, 0)
    return t.item()


def steps_s(step, n):
    """Seconds of n steps, on the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(n):
        step()
    t = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


def prepare(name, batch):
    steps = [step_of(name, batch, mb) for mb in BUCKETS_MB]
    for step in steps:
        steps_s(step, 3)    # buckets are made anew behind the first one
    times = [min(steps_s(step, 5), steps_s(step, 5)) for step in steps]
    return steps[int(agreed(times.index(min(times))))]


def measure(name, batch, seconds):
    if (name, batch) not in ready:
        ready[name, batch] = prepare(name, batch)
    step = ready[name, batch]
    steps_s(step, 2)
    one_s = steps_s(step, 3) / 3
    n = int(agreed(max(3, seconds / one_s)))
    return dist.get_world_size() * batch * n / steps_s(step, n)


def main():
    rank, ranks, address, port = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    dist.init_process_group("gloo", init_method=f"tcp://{address}:{port}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=LIMIT_S))
    answer = print if rank == 0 else lambda *_, **__: None
    answer(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        name, batch, seconds = line.split()
        answer(json.dumps({"samples_per_s": measure(name, int(batch), float(seconds))}), flush=True)


if __name__ == "__main__":
    main()
