# SPDX-License-Identifier: Apache-2.0
"""The nets of the agreement tests in PyTorch, in double precision.

Parameters, images and labels are a formula of (key, element) that test_net_torch.c computes as well,
bit for bit, so recorded files hold results only. Each net has a job file <name>.yaml beside this one;
rate, momentum and decay stand there and are repeated here because nothing here reads YAML.
"""
import collections
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, STEPS, SAMPLES = 4, 3, 64
MOMENTUM, DECAY = 0.9, 0.0005


def draw(key, n):
    """n floats in [-1, 1) as a function of (key, index): a 32-bit integer hash."""
    z = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32(key * 0x85EBCA77 & 0xFFFFFFFF)
    z ^= z >> np.uint32(16)
    z *= np.uint32(0x85EBCA6B)
    z ^= z >> np.uint32(13)
    z *= np.uint32(0xC2B2AE35)
    z ^= z >> np.uint32(16)
    return (z >> np.uint32(8)).astype(np.float32) * np.float32(2.0 ** -23) - np.float32(1)


class Within(nn.Module):
    """Caffe's LRN within a channel, size 3: the mean is over nine places, those outside count as zero."""

    def forward(self, x):
        return x / (1 + 5e-5 * F.avg_pool2d(x * x, 3, stride=1, padding=1)) ** 0.75


def lenet():
    return [
        ("conv1", nn.Conv2d(1, 20, 5)), ("pool1", nn.MaxPool2d(2)),
        ("conv2", nn.Conv2d(20, 50, 5)), ("pool2", nn.MaxPool2d(2)), ("flat", nn.Flatten()),
        ("ip1", nn.Linear(800, 500)), ("relu1", nn.ReLU()), ("ip2", nn.Linear(500, 10)),
    ]


def cifar10_full():
    # With ceil_mode and without padding PyTorch divides by the part of the window inside the image,
    # which is Caffe's rule.
    return [
        ("conv1", nn.Conv2d(3, 32, 5, padding=2)), ("pool1", nn.MaxPool2d(3, 2, ceil_mode=True)),
        ("relu1", nn.ReLU()), ("norm1", Within()),
        ("conv2", nn.Conv2d(32, 32, 5, padding=2)), ("relu2", nn.ReLU()),
        ("pool2", nn.AvgPool2d(3, 2, ceil_mode=True)), ("norm2", Within()),
        ("conv3", nn.Conv2d(32, 64, 5, padding=2)), ("relu3", nn.ReLU()),
        ("pool3", nn.AvgPool2d(3, 2, ceil_mode=True)), ("flat", nn.Flatten()), ("ip1", nn.Linear(1024, 10)),
    ]


class Outputs(nn.Module):
    """A recurrent module that gives its outputs of all steps and nothing else."""

    def __init__(self, kind, inputs, hidden):
        super().__init__()
        self.kind = kind(inputs, hidden, batch_first=True)

    def forward(self, x):
        return self.kind(x)[0]


def recurrent(kind):
    return [
        ("rows", nn.Flatten(1, 2)), ("rec1", Outputs(kind, 9, 11)), ("rec2", Outputs(kind, 11, 10)),
        ("flat", nn.Flatten()), ("ip1", nn.Linear(120, 10)),
    ]


def mlp(act):
    sizes = [784, 1000, 500, 250, 10]
    layers = [("flat", nn.Flatten())]
    for i in range(4):
        layers.append(("ip%d" % (i + 1), nn.Linear(sizes[i], sizes[i + 1])))
        if i < 3:
            layers.append(("act%d" % (i + 1), act()))
    return layers


# layers, shape of one image, its size, gain of the last weight, rate. Pixels of +-60 make the
# normalisation of cifar10_full matter; its last weight and rate are small because of them.
Net = collections.namedtuple("Net", "layers image size last_gain rate")
NETS = {
    "lenet": Net(lenet, (1, 28, 28), 1.0, 1.0, 0.001),
    "cifar10_full": Net(cifar10_full, (3, 32, 32), 60.0, 0.02, 1e-5),
    "mlp_sigmoid": Net(lambda: mlp(nn.Sigmoid), (1, 28, 28), 1.0, 1.0, 0.05),
    "rnn": Net(lambda: recurrent(nn.RNN), (1, 12, 9), 1.0, 1.0, 0.05),
    "gru": Net(lambda: recurrent(nn.GRU), (1, 12, 9), 1.0, 1.0, 0.05),
    "lstm": Net(lambda: recurrent(nn.LSTM), (1, 12, 9), 1.0, 1.0, 0.05),
    "mlp_relu": Net(lambda: mlp(nn.ReLU), (1, 28, 28), 1.0, 1.0, 0.05),
}


def named_parameters(model):
    """As Muster names them: rec1.kind.weight_ih_l0 is rec1.weight_ih."""
    return [(name.replace(".kind.", ".").replace("_l0", ""), p) for name, p in model.named_parameters()]


def parameters(net, model):
    """(name, tensor, size): weights spread as 1 / sqrt(fan-in), biases in +-0.1."""
    named = named_parameters(model)
    last = named[-2][0]
    for name, p in named:
        if p.dim() == 1:
            size = 0.1
        else:
            size = math.sqrt(6.0 / p[0].numel()) * (net.last_gain if name == last else 1)
        yield name, p, float(np.float32(size))


def batch(net, step):
    n = BATCH * int(np.prod(net.image))
    images = draw(1000 + step, n) * np.float32(net.size)
    labels = [(7 * b + 3 + step) % 10 for b in range(BATCH)]
    return torch.from_numpy(images.astype(np.float64)).view(BATCH, *net.image), torch.tensor(labels)


def run(name):
    """Loss and gradients at the start, losses of the steps and values after them."""
    net = NETS[name]
    model = nn.Sequential(collections.OrderedDict(net.layers())).double()
    result = {"net": name, "image": list(net.image), "image_size": net.size, "params": []}
    values = {}
    for key, (pname, p, size) in enumerate(parameters(net, model)):
        start = draw(key, p.numel()) * np.float32(size)
        p.data = torch.from_numpy(start.astype(np.float64)).view(p.shape)
        values[pname] = {"key": key, "size": size, "shape": list(p.shape), "start": p.detach().clone()}
    optimiser = torch.optim.SGD(model.parameters(), lr=net.rate, momentum=MOMENTUM, weight_decay=DECAY)
    losses = []
    for step in range(STEPS):
        images, labels = batch(net, step)
        optimiser.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            for pname, p in named_parameters(model):
                values[pname]["grad"] = p.grad.detach().clone()
        optimiser.step()
    for pname, p in named_parameters(model):
        values[pname]["change"] = p.detach() - values[pname]["start"]
    result["losses"] = losses
    return result, values
