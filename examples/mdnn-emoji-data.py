#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mdnn-emoji-data.py - the emoji pairs, split and in the form that mdnn-emoji.yaml reads.

    examples/mdnn-emoji-data.py FOLDER [OUT]          OUT: data/emoji when not given

FOLDER holds images.bin and pairs.tsv, plain or .xz:
    images.bin  records of 3 x 32 x 32 bytes, planes red, green, blue
    pairs.tsv   line i: vendor, code points, split, category, subcategory, name, keywords
OUT gets for each split (train, val, test; the split is by emoji, so those of test were never seen):
    SPLIT.images.bin       the images, as they were
    SPLIT.words.bin        32 word numbers of each text, int32, 0 = none
    SPLIT.subcategory.bin  int32
    SPLIT.emoji.bin        int32: drawings of one emoji have one number
    SPLIT.txt              name and keywords, for people
and words.txt, word i in line i from 0, and words.idf.bin, its weight: log(emoji / emoji with this word).
A text is category, subcategory, name and keywords. Only words of the training data are known.
"""
import lzma
import math
import os
import re
import struct
import sys
from collections import Counter

IMAGE_BYTES = 3 * 32 * 32
TEXT_WORDS = 32


def read(folder, name):
    plain = os.path.join(folder, name)
    if os.path.exists(plain):
        with open(plain, "rb") as f:
            return f.read()
    with lzma.open(plain + ".xz") as f:
        return f.read()


def words_of(pair):
    return list(dict.fromkeys(re.findall(r"[a-z0-9]+", " ".join(pair[3:]).lower())))


def vocabulary(pairs):
    """Words of the training data, commonest first, with numbers from 1; and their weights."""
    seen = {p[1]: words_of(p) for p in pairs if p[2] == "train"}
    count = Counter(w for words in seen.values() for w in words)
    known = sorted(count, key=lambda w: (-count[w], w))
    return {w: i + 1 for i, w in enumerate(known)}, [0.0] + [math.log(len(seen) / count[w]) for w in known]


def ints(values):
    return struct.pack("<%di" % len(values), *values)


def write(out, name, data):
    with open(os.path.join(out, name), "wb") as f:
        f.write(data)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    out = sys.argv[2] if len(sys.argv) == 3 else os.path.join(os.path.dirname(__file__), "..", "data", "emoji")
    images = read(sys.argv[1], "images.bin")
    pairs = [line.split("\t") for line in read(sys.argv[1], "pairs.tsv").decode().split("\n") if line]
    if len(images) != IMAGE_BYTES * len(pairs) or any(len(p) != 7 for p in pairs):
        sys.exit("images.bin and pairs.tsv do not belong together")
    number, idf = vocabulary(pairs)
    subcategory = {s: i for i, s in enumerate(sorted({p[4] for p in pairs}))}
    emoji = {e: i for i, e in enumerate(dict.fromkeys(p[1] for p in pairs))}
    os.makedirs(out, exist_ok=True)
    for split in ("train", "val", "test"):
        rows = [i for i, p in enumerate(pairs) if p[2] == split]
        texts = [[number[w] for w in words_of(pairs[i]) if w in number][:TEXT_WORDS] for i in rows]
        write(out, split + ".images.bin", b"".join(images[i * IMAGE_BYTES:(i + 1) * IMAGE_BYTES] for i in rows))
        write(out, split + ".words.bin", b"".join(ints(t + [0] * (TEXT_WORDS - len(t))) for t in texts))
        write(out, split + ".subcategory.bin", ints([subcategory[pairs[i][4]] for i in rows]))
        write(out, split + ".emoji.bin", ints([emoji[pairs[i][1]] for i in rows]))
        write(out, split + ".txt", "".join("%s: %s\n" % (pairs[i][5], pairs[i][6]) for i in rows).encode())
        print("%-5s %5d pairs of %4d emoji" % (split, len(rows), len({pairs[i][1] for i in rows})))
    write(out, "words.txt", "".join(w + "\n" for w in ["(none)"] + list(number)).encode())
    write(out, "words.idf.bin", struct.pack("<%df" % len(idf), *idf))
    print("%d words, %d subcategories" % (len(number) + 1, len(subcategory)))


main()
