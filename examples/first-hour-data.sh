#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# first-hour-data.sh - makes the small files of docs/first-hour.md in the current folder: a table with gaps, labelled
# sentences, folders of images (with python3), a series over time and a text. All are made up.
set -euo pipefail

awk 'BEGIN { srand(2); print "sepal,petal,colour,garden,species"
    for (i = 0; i < 150; i++) { k = i % 3
        petal = i % 17 == 4 ? "" : sprintf("%.1f", 1.4 + 1.9 * k + rand())
        printf "%.1f,%s,%s,g%d,%s\n", 5 + 0.8 * k + rand(), petal, k == 2 && rand() < 0.8 ? "blue" : "white", i % 4,
            k == 0 ? "setosa" : k == 1 ? "versicolor" : "virginica" } }' > flowers.csv
printf 'petal,sepal,colour,garden\n1.6,5.2,white,g1\n5.9,7.0,blue,g9\n' > new-flowers.csv

awk 'BEGIN { srand(4); n = split("please,now,could you,hey,thanks and,quickly", polite, ",")
    m = split("kitchen,bedroom,hall,garden,office,cellar", room, ",")
    for (i = 0; i < 360; i++) { p = polite[1 + int(n * rand())]; r = room[1 + int(m * rand())]
        if (i % 3 == 0) printf "on\t%s turn on the light in the %s\n", p, r
        else if (i % 3 == 1) printf "off\t%s switch the lamp off in the %s\n", p, r
        else printf "weather\t%s will it rain near the %s today\n", p, r } }' > requests.tsv

awk 'BEGIN { srand(6); print "month,sales"
    for (i = 0; i < 144; i++) printf "%d-%02d,%.1f\n", 2010 + int(i / 12), 1 + i % 12,
        100 + i + 30 * sin(6.2832 * i / 12) + 4 * rand() }' > sales.csv

awk 'BEGIN { srand(8); n = split("the a one some every", d, " "); m = split("cat dog bird horse child", s, " ")
    k = split("sees follows finds likes calls", v, " ")
    for (i = 0; i < 900; i++) printf "%s %s %s %s %s.\n", d[1 + int(n * rand())], s[1 + int(m * rand())],
        v[1 + int(k * rand())], d[1 + int(n * rand())], s[1 + int(m * rand())] }' > story.txt

command -v python3 > /dev/null || exit 0
python3 - <<'PY'
import os, random, struct, zlib
random.seed(5)
def png(path, side, shape):
    x0, y0, size = random.randrange(2, 6), random.randrange(2, 6), random.randrange(7, 10)
    def pixel(x, y):
        inside = x0 <= x < x0 + size and y0 <= y < y0 + size
        if shape == "cross": inside = abs(x - x0 - size // 2) < 2 or abs(y - y0 - size // 2) < 2
        return (200 if inside else 30) + random.randrange(30)
    raw = b"".join(b"\0" + bytes(pixel(x, y) for x in range(side)) for y in range(side))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))
for shape in ("cross", "square"):
    os.makedirs("shapes/" + shape, exist_ok=True)
    for i in range(60): png(f"shapes/{shape}/{i}.png", 16, shape)
png("photo.png", 16, "cross")
PY
