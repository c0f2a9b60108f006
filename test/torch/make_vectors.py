#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vectors/<net>.json: what PyTorch (Debian's python3-torch) says about the nets of nets.py.

For each parameter the gradient at the start and the change after three steps of momentum, each as sum,
sum of squares and SAMPLES elements spread evenly. Run it again only when a net changes.
"""
import json
import os

import nets

HERE = os.path.dirname(os.path.abspath(__file__))


def short(x):
    return float("%.8g" % x)


def digest(t):
    v = t.reshape(-1)
    n = v.numel()
    k = min(n, nets.SAMPLES)
    return {
        "sum": short(v.sum().item()),
        "squares": short((v * v).sum().item()),
        "samples": [short(v[j * n // k].item()) for j in range(k)],
    }


def main():
    for name in nets.NETS:
        result, values = nets.run(name)
        result["losses"] = [short(x) for x in result["losses"]]
        for pname, v in values.items():
            result["params"].append({
                "name": pname, "key": v["key"], "size": v["size"], "shape": v["shape"],
                "grad": digest(v["grad"]), "change": digest(v["change"]),
            })
        path = os.path.join(HERE, "vectors", name + ".json")
        with open(path, "w") as f:
            json.dump(result, f, separators=(",", ":"))
            f.write("\n")
        print("%s: losses %s, %d bytes" % (name, result["losses"], os.path.getsize(path)))


if __name__ == "__main__":
    main()
