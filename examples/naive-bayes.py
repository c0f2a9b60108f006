#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""naive-bayes.py - test accuracy of multinomial naive Bayes: what a net for sentences has to beat.

    examples/naive-bayes.py [SET...]            all sets in data/ when none is named

A set is DATA/SET.train.tsv and DATA/SET.test.tsv (DATA: data unless the environment says otherwise), lines
`label<tab>text`, plain or .xz. Features are the words, in small letters, and the pairs of neighbours, each
counted as often as it occurs; every feature of a class has SMOOTHING more occurrences than were seen, and all
classes the share that they have in training.
"""
import collections
import glob
import lzma
import math
import os
import re
import sys

SMOOTHING = 0.1


def read(data, name):
    plain = os.path.join(data, name)
    with open(plain, encoding="utf-8") if os.path.exists(plain) else lzma.open(plain + ".xz", "rt", encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t", 1) for line in f]


def features(text):
    words = re.findall(r"[a-z0-9']+|[^\sa-z0-9']", text.lower())
    return words + list(zip(words, words[1:]))


class Bayes:
    def __init__(self, lines):
        self.labels = sorted({label for label, _ in lines})
        number = {label: k for k, label in enumerate(self.labels)}
        seen = [0] * len(self.labels)                                   # sentences of a class
        total = [0] * len(self.labels)                                  # features of a class
        self.count = collections.defaultdict(collections.Counter)       # feature -> class -> occurrences
        for label, text in lines:
            k = number[label]
            seen[k] += 1
            for f in features(text):
                self.count[f][k] += 1
                total[k] += 1
        self.prior = [math.log(n / len(lines)) for n in seen]
        # A feature that a class does not have costs the same whichever it is; the others differ from that.
        self.absent = [math.log(SMOOTHING / (n + SMOOTHING * len(self.count))) for n in total]

    def guess(self, text):
        known = [self.count[f] for f in features(text) if f in self.count]
        score = [p + len(known) * a for p, a in zip(self.prior, self.absent)]
        for classes in known:
            for k, n in classes.items():
                score[k] += math.log1p(n / SMOOTHING)
        return self.labels[max(range(len(score)), key=score.__getitem__)]


def main():
    data = os.environ.get("DATA", "data")
    sets = sys.argv[1:] or sorted({os.path.basename(p).split(".")[0] for p in glob.glob(os.path.join(data, "*.train.tsv*"))})
    if not sets:
        sys.exit(f"naive-bayes.py: no sets in {data}")
    print("| set | sentences | labels | test accuracy % |")
    print("|---|---|---|---|")
    for name in sets:
        try:
            train, test = read(data, name + ".train.tsv"), read(data, name + ".test.tsv")
        except OSError as e:
            sys.exit(f"naive-bayes.py: {e}")
        bayes = Bayes(train)
        right = sum(bayes.guess(text) == label for label, text in test)
        print(f"| {name} | {len(train)} | {len(bayes.labels)} | {100 * right / len(test):.1f} |", flush=True)


if __name__ == "__main__":
    main()
