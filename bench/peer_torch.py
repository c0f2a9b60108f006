# SPDX-License-Identifier: Apache-2.0
"""The peer: the same nets in PyTorch, one thread (or PEER_THREADS), tuned (set_to_none, no page-faulting of gradients).

Reads lines "workload batch seconds" on stdin and answers each with one line of JSON: the median
samples/s over windows of forward + backward + momentum update on resident data. Started by run.py.
"""
import json
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("PEER_THREADS", "1")))
torch.manual_seed(1)


class WithinLRN(nn.Module):
    """Caffe's within-channel LRN by average pooling."""

    def forward(self, x):
        return x * (1 + 5e-5 * F.avg_pool2d(x * x, 3, 1, 1)).pow(-0.75)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 500), nn.ReLU(),
                         nn.Linear(500, 250), nn.ReLU(), nn.Linear(250, 10)), (1, 28, 28), 10


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)), (1, 28, 28), 10


def cifar10_full():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), nn.ReLU(), WithinLRN(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True), WithinLRN(),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.AvgPool2d(3, 2, ceil_mode=True), nn.Flatten(),
        nn.Linear(1024, 10)), (3, 32, 32), 10


def alexnet():
    return nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(),
        nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
        nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(),
        nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)), (3, 224, 224), 1000


class Kim(nn.Module):
    """Kim's net for sentences of 64 words; gradients of the embedding are rows."""

    def __init__(self, words=20000, dim=300, filters=100, classes=6):
        super().__init__()
        self.words = nn.Embedding(words, dim, sparse=True)
        self.convs = nn.ModuleList(nn.Conv1d(dim, filters, w) for w in (3, 4, 5))
        self.last = nn.Linear(3 * filters, classes)

    def forward(self, x):
        x = self.words(x).transpose(1, 2)
        return self.last(F.dropout(torch.cat([F.relu(c(x)).amax(2) for c in self.convs], 1), 0.5, self.training))


class CharRNN(nn.Module):
    """Scores of the next character at every place; one-hot characters come as resident vectors."""

    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(100, 512, batch_first=True), nn.Linear(512, 100)

    def forward(self, x):
        return self.out(self.gru(x)[0]).flatten(0, 1)


class RBM:
    """784-1000 by contrastive divergence; momentum is added to by the products themselves, without a gradient."""

    def __init__(self, batch, v=784, h=1000, rate=1e-4, momentum=0.9):
        self.x, self.rate, self.momentum = torch.rand(batch, v), rate / batch, momentum
        self.w, self.a, self.b = 0.01 * torch.randn(h, v), torch.zeros(v), torch.zeros(h)
        self.mw, self.ma, self.mb = torch.zeros(h, v), torch.zeros(v), torch.zeros(h)

    @torch.no_grad()
    def step(self):
        x, rate = self.x, self.rate
        h = torch.addmm(self.b, x, self.w.t()).sigmoid_()
        v1 = torch.addmm(self.a, torch.bernoulli(h), self.w).sigmoid_()
        h1 = torch.addmm(self.b, v1, self.w.t()).sigmoid_()
        self.mw.mul_(self.momentum).addmm_(h.t(), x, alpha=rate).addmm_(h1.t(), v1, alpha=-rate)
        self.ma.mul_(self.momentum).add_(x.sum(0) - v1.sum(0), alpha=rate)
        self.mb.mul_(self.momentum).add_(h.sum(0) - h1.sum(0), alpha=rate)
        self.w += self.mw
        self.a += self.ma
        self.b += self.mb
        return ((x - v1) ** 2).sum().item()


NETS = {"mlp": mlp, "lenet": lenet, "cifar10_full": cifar10_full, "alexnet": alexnet}


def prepare(name, batch):
    """A net, its optimisers, input and labels. Rows of an embedding are updated without momentum: cheapest."""
    if name == "kim":
        net = Kim()
        dense = [p for k, p in net.named_parameters() if k != "words.weight"]
        opts = [torch.optim.SGD(dense, lr=1e-4, momentum=0.9), torch.optim.SGD([net.words.weight], lr=1e-4)]
        return net, opts, torch.randint(1, 20000, (batch, 64)), torch.randint(0, 6, (batch,))
    if name == "charrnn":
        net, chars = CharRNN(), torch.randint(0, 100, (batch, 51))
        opts = [torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)]
        return net, opts, F.one_hot(chars[:, :-1], 100).float(), chars[:, 1:].flatten()
    net, shape, classes = NETS[name]()
    opts = [torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9)]
    return net, opts, torch.randn(batch, *shape), torch.randint(0, classes, (batch,))


def step_of(name, batch):
    """One training step as a function."""
    if name == "rbm":
        return RBM(batch).step
    net, opts, x, y = prepare(name, batch)
    loss = nn.CrossEntropyLoss()

    def step():
        for opt in opts:
            opt.zero_grad(set_to_none=True)
        loss(net(x), y).backward()
        for opt in opts:
            opt.step()

    return step


def measure(name, batch, seconds):
    step = step_of(name, batch)
    start = time.perf_counter()
    n = 0
    while n < 3 or time.perf_counter() - start < 0.2 * seconds:
        step()
        n += 1
    windows = []
    for _ in range(7):
        start, n = time.perf_counter(), 0
        while True:
            step()
            n += 1
            spent = time.perf_counter() - start
            if spent >= 0.8 * seconds / 7:
                break
        windows.append(batch * n / spent)
    return sorted(windows)[3]


if __name__ == "__main__":      # peer_hogwild.py takes the nets from here
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        name, batch, seconds = line.split()
        print(json.dumps({"samples_per_s": measure(name, int(batch), float(seconds))}), flush=True)
