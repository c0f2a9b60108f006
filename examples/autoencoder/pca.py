#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pca.py [FOLDER [UNITS...]] - squared error per test image of principal components on MNIST.

The linear auto-encoder that deep ones are compared with: mean and components of the training images, error
of the test images rebuilt from UNITS numbers each. Needs numpy (Debian: apt install python3-numpy).
"""
import gzip
import sys

import numpy as np


def images(path):
    with gzip.open(path) as f:
        raw = f.read()
    return np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 784).astype(np.float64) / 255


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "data/mnist"
    units = [int(a) for a in sys.argv[2:]] or [30, 2]
    train = images(folder + "/train-images-idx3-ubyte.gz")
    test = images(folder + "/t10k-images-idx3-ubyte.gz")
    mean = train.mean(axis=0)
    _, vectors = np.linalg.eigh((train - mean).T @ (train - mean))  # ascending
    for k in units:
        basis = vectors[:, -k:]
        centred = test - mean
        error = ((centred - centred @ basis @ basis.T) ** 2).sum(axis=1).mean()
        print(f"PCA-{k}: test squared error per image {error:.3f}")


if __name__ == "__main__":
    main()
