#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares loss and complete gradients of the nets in test/torch with a live PyTorch.

`make test-peers` runs this. BUILD names the build folder with test_net_torch, which dumps Muster's
gradients. An element may be off by TOLERANCE of its size plus the root mean square of its parameter.
Also checks that the recorded vectors are what make_vectors.py would write today.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TORCH = os.path.join(ROOT, "test", "torch")
sys.path.insert(0, TORCH)
sys.dont_write_bytecode = True
TOLERANCE = 1e-4

try:
    import numpy as np
    import nets
    from make_vectors import digest
except ImportError as e:
    print("skipped: %s; install python3-torch" % e)
    sys.exit(77)


def dumped(program, name, folder):
    command = [program, "--dump", name, folder]
    return float(subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE).stdout)


def deviation(got, want):
    rms = np.sqrt(np.mean(want * want))
    return float(np.max(np.abs(got - want) / (np.abs(want) + rms)))


def stale(name, values):
    """Parameters whose recorded digest is not today's."""
    with open(os.path.join(TORCH, "vectors", name + ".json")) as f:
        recorded = {p["name"]: p for p in json.load(f)["params"]}
    bad = []
    for pname, v in values.items():
        now, then = digest(v["grad"]), recorded[pname]["grad"]
        if not np.allclose(now["samples"], then["samples"], rtol=1e-6, atol=1e-9 * np.sqrt(then["squares"])):
            bad.append(pname)
    return bad


def main():
    program = os.path.join(os.environ.get("BUILD", os.path.join(ROOT, "build")), "test_net_torch")
    failures = 0
    for name in nets.NETS:
        result, values = nets.run(name)
        with tempfile.TemporaryDirectory() as folder:
            loss = dumped(program, name, folder)
            worst = abs(loss - result["losses"][0]) / result["losses"][0]
            print("%s: loss %.7g, PyTorch %.7g" % (name, loss, result["losses"][0]))
            for pname, v in values.items():
                got = np.fromfile(os.path.join(folder, pname + ".grad"), dtype="<f4").astype(np.float64)
                want = v["grad"].numpy().reshape(-1)
                if got.size != want.size:
                    print("  %-14s %d elements, PyTorch has %d" % (pname, got.size, want.size))
                    failures += 1
                    continue
                off = deviation(got, want)
                print("  %-14s %8d elements, largest deviation %.1e" % (pname, want.size, off))
                worst = max(worst, off)
        if not worst <= TOLERANCE:
            print("  FAILED: deviation %.2e, tolerance %.0e" % (worst, TOLERANCE))
            failures += 1
        for pname in stale(name, values):
            print("  FAILED: the recorded vectors of %s are stale; run test/torch/make_vectors.py" % pname)
            failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
